"""Run the notebooks headless with papermill, and tell which of them passed."""

import ast
import time
from typing import NamedTuple

from course import building, sections
from course.sections import CourseError

# Small runs spend their time in the compiler, so it is told not to polish what runs so briefly.
_QUICK_ENVIRONMENT = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


class Result(NamedTuple):
    """One notebook's run: its name, wall-clock seconds, and the traceback ("" when it passed)."""

    name: str
    seconds: float
    traceback: str


def run(root, wanted=(), *, given=(), quick=False, out=None):
    """Execute sections into `out` (default `build/`) and return a `Result` for each.

    What runs is what the sources say, whatever was edited in the built notebooks.
    `given` holds `(name, text)` pairs, as typed on the command line; they win over the small
    parameters of `quick`, which also has JAX compile with little optimization. Everything is
    checked before anything runs. Raises `CourseError` for an unknown section, a parameter that no
    chosen notebook has or whose type differs, a notebook that has no parameters, and an `out`
    among the course's own notebooks. A notebook that fails does not stop the others.
    """
    chosen = sections.sections(root, wanted)
    files = [section.notebook.name for section in chosen]
    out = sections.check_out(root, root / "build" if out is None else out, files)
    jobs = _jobs(chosen, given, quick)
    out.mkdir(parents=True, exist_ok=True)
    with sections.this_kernel(**(_QUICK_ENVIRONMENT if quick else {})) as kernel:
        return [_execute(*job, out, kernel) for job in jobs]


def report(results):
    """Return the closing text: tracebacks of what failed, then one table line for each notebook."""
    failures = [f"{r.name} failed:\n{r.traceback}\n" for r in results if r.traceback]
    width = max((len(r.name) for r in results), default=0)
    lines = [f"{'notebook':<{width}}  seconds  result"]
    for result in results:
        word = "failed" if result.traceback else "passed"
        lines.append(f"{result.name:<{width}}  {result.seconds:7.1f}  {word}")
    return "\n".join(failures + lines)


def _jobs(chosen, given, quick):
    notebooks = {section: building.assemble(section.source) for section in chosen}
    defaults = {s: sections.parameters(nb, s.name) for s, nb in notebooks.items()}
    values = {s: dict(_quick(s, notebooks[s], defaults[s])) if quick else {} for s in chosen}
    for name, text in given:
        owners = [section for section in chosen if name in defaults[section]]
        if not owners:
            raise CourseError(_unknown(name, defaults))
        for section in owners:
            values[section][name] = _typed(name, text, defaults[section][name])
    return [(section, notebooks[section], values[section]) for section in chosen]


def _quick(section, notebook, defaults):
    small = notebook.metadata.get("chapter18", {}).get("quick", {})
    for name in small:
        if name not in defaults:
            raise CourseError(_unknown(name, {section: defaults}))
    return small


def _unknown(name, defaults):
    valid = "\n".join(f"  {s.name}: {', '.join(names)}" for s, names in defaults.items())
    return f"A parameter must be one the notebook has. Received: {name!r}. Valid:\n{valid}"


def _typed(name, text, default):
    kind = type(default)
    try:
        value = kind(text) if kind in (int, float, str) else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if default is not None and type(value) is not kind:
        raise CourseError(
            f"The parameter {name} is of type {kind.__name__}. Received: {text!r}. "
            f"Give a value like its default, {default!r}."
        )
    return value


def _execute(section, notebook, values, out, kernel):
    import papermill  # a second

    started, traceback = time.perf_counter(), ""
    try:
        papermill.execute_notebook(
            notebook,
            out / section.notebook.name,
            parameters=values,
            kernel_name=kernel,
            progress_bar={"desc": section.name},
            cwd=out,
        )
    except papermill.PapermillExecutionError as error:
        traceback = str(error)
    except Exception as error:  # a kernel that died must not stop the other notebooks
        traceback = f"{type(error).__name__}: {error}"
    return Result(section.name, time.perf_counter() - started, traceback)
