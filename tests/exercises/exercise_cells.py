"""The exercises of a section as its source has them, and what `check` answers to an attempt.

An exercise cell holds what is given, then `# Your turn`, then an attempt, then its call of
`check`; the next two Markdown cells hold the solution, which replaces the attempt. Run as a
script with a section's number, this prints as JSON what the section's exercises answer to
everything in `exercise_attempts.py`: the checks of layouts and meshes need eight devices.
"""

import ast
import json
import re
import sys
from typing import NamedTuple

import exercise_attempts
import jupytext

from course.prose import cells, twins

_CELL = re.compile(
    r"\A(?P<given>.*?)^# Your turn$\n(?P<attempt>.*)^(?P<call>check\(.*\))\s*\Z", re.DOTALL | re.M
)


class Exercise(NamedTuple):
    """An exercise of a source; each part is code."""

    name: str
    given: str
    attempt: str
    call: str
    solution: str


class Exchange(NamedTuple):
    """What `check` said about an attempt; `expected` is True, or a part of the English hint."""

    exercise: str
    attempt: str
    expected: bool | str
    is_right: bool
    english: str
    persian: str
    quoted: str
    html: str


def exercises(path):
    """The `Exercise`s of a source, in order."""
    found = jupytext.read(path).cells
    return [
        _exercise(cell.source, found[i + 1].source)
        for i, cell in enumerate(found)
        if "exercise" in cell.metadata.get("tags", [])
    ]


def _exercise(code, english):
    parts = _CELL.match(code)
    assert parts, f"not given, # Your turn, attempt, check(…):\n{code}"
    (solution,) = twins.code_blocks(english)
    name = re.match(r'check\("(\w+)"', parts["call"])[1]
    return Exercise(name, parts["given"], parts["attempt"], parts["call"], solution)


def names_made(path):
    """The names that the cells and solutions of a source's exercises leave in a notebook."""
    code = "\n".join("\n".join(each[1:]) for each in exercises(path))
    return set(_names_made_by(ast.parse(code)))


def _names_made_by(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif not isinstance(node, ast.comprehension | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _names_made_by(child)


def names_completed_with(path):
    """The names that a source's completion cell reads."""
    (code,) = (
        cell.source
        for cell in jupytext.read(path).cells
        if "completion" in cell.metadata.get("tags", [])
    )
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def exchanges(path):
    """Every `Exchange` of a section: its published cells, solutions, mistakes and nonsense."""
    section, found = path.stem[:2], []
    namespace = _notebook_names(path)
    for exercise in exercises(path):
        exec(exercise.given, namespace)
        tried = exercise_attempts.ATTEMPTS[section, exercise.name]
        attempts = [(exercise.attempt, tried.first), (exercise.solution, True), *tried.mistakes]
        found += [_exchange(exercise, *each, dict(namespace)) for each in attempts]
        found += [
            _told(exercise, repr_of, "", namespace["check"](exercise.name, **values))
            for repr_of, values in exercise_attempts.nonsense(_keywords(exercise.call))
        ]
    return found


def _exchange(exercise, attempt, expected, namespace):
    exec(exercise.attempt, namespace)  # so that a mistake may change a part of it only
    exec(attempt, namespace)
    return _told(exercise, attempt, expected, eval(exercise.call.strip(), namespace))


def _told(exercise, attempt, expected, answer):
    html = answer._repr_html_()
    return Exchange(exercise.name, attempt, expected, *answer, html)


def _keywords(call):
    return [keyword.arg for keyword in ast.parse(call, mode="eval").body.keywords]


def _notebook_names(path):
    """What the exercises may use of the notebook: the names that its earlier cells import."""
    used = "".join("".join(exercise) for exercise in exercises(path))
    namespace = {}
    for cell in jupytext.read(path).cells:
        if cell.cell_type != "code" or "%pip" in cell.source:
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if re.search(rf"\b{alias.asname or alias.name}\b", used):
                        node.names = [alias]
                        exec(ast.unparse(node), namespace)
    return namespace


if __name__ == "__main__":
    (path,) = (path for path in cells.SOURCES if path.stem.startswith(sys.argv[1]))
    print(json.dumps(exchanges(path)))
