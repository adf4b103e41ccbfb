"""The page of the public interface, read from the sources of `chapter18` without importing them."""

import ast
import functools
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from course import sections
from course.sections import CourseError

PAGE = "INTERFACE.md"
PACKAGE = "chapter18"
_CONTENT = {"figures", "exercises"}  # of the notebooks, and for nobody else
_SPECIAL = {"__init__", "__call__"}
_LONGEST = 100  # characters of a constant that is shown whole

# The start of the page, in both languages.
HEAD = (Path(__file__).parent / "site" / "interface.md").read_text(encoding="utf-8")


class Part(NamedTuple):
    """What a module offers out of one file: its path in the repository, and the code of a stub."""

    path: str
    code: str


class Module(NamedTuple):
    """A public module: its dotted name, the first line of its docstring, its names by file."""

    name: str
    summary: str
    parts: list[Part]


def modules(root):
    """Return a `Module` for each public module of the package in `root`, by name; none without one.

    Raises `CourseError` for a name of an `__all__` that no file of the package defines.
    """
    package = root / PACKAGE
    found = (path.relative_to(package) for path in package.rglob("*.py"))
    return [
        _module(root, ".".join(parts))
        for parts in sorted(_dotted(path) for path in found)
        if parts and parts[0] not in _CONTENT and not any(part.startswith("_") for part in parts)
    ]


def text(root):
    """Return the page as Markdown, its links leading to the files in the repository."""
    found = modules(root)
    lines = [HEAD]
    for module in found:
        name = f"{PACKAGE}.{module.name}"
        lines.append(f"- [`{name}`](#{name.replace('.', '')}): {module.summary}")
    for module in found:
        lines += [f"\n## {PACKAGE}.{module.name}\n\n{module.summary}"]
        lines += [f"\n[{path}]({path})\n\n```python\n{code}\n```" for path, code in module.parts]
    return "\n".join(lines) + "\n" if found else ""


def write(root):
    """Write the page where it is not as the sources have it; return whether it was not."""
    stale = bool(check(root))
    if stale:
        sections.write_whole(root / PAGE, text(root))
    return stale


def check(root):
    """Return a line, in a list, when the page is not as the sources have it."""
    page = root / PAGE
    if text(root) == (page.read_text(encoding="utf-8") if page.is_file() else ""):
        return []
    return [f"{PAGE} differs from the sources of {PACKAGE}; run `python -m course build`"]


def _dotted(path):
    """The parts of a module's name; a face has the name of its folder."""
    return path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts


def _file(root, dotted):
    """The file of a module, or None."""
    path = root.joinpath(PACKAGE, *dotted.split(".")) if dotted else root / PACKAGE
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@functools.cache
def _parsed(path, _changed):
    source = path.read_text(encoding="utf-8")
    return ast.parse(source), source.splitlines()


def _read(path):
    return _parsed(path, path.stat().st_mtime_ns)


def _module(root, dotted):
    path = _file(root, dotted)
    tree, _ = _read(path)
    shown = {}
    for name in _names(tree):
        if _file(root, f"{dotted}.{name}") is None:
            where, nodes = _definition(root, path, name)
            shown.setdefault(where, []).extend(nodes)
    parts = [
        Part(where.relative_to(root).as_posix(), _stub(nodes, _read(where)[1]))
        for where, nodes in sorted(shown.items())
    ]
    return Module(dotted, _first_line(tree), parts)


def _names(tree):
    """The names of `__all__`, or else all that are defined there without an underscore."""
    defined = {name: node for node in _statements(tree.body) for name in _defines(node)}
    if "__all__" in defined:
        return ast.literal_eval(defined["__all__"].value)
    return [name for name in defined if not name.startswith("_")]


def _statements(body):
    """The statements of a file, those under an `if` or a `try` too."""
    for node in body:
        yield node
        for inner in ("body", "handlers", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.ExceptHandler):
                yield from _statements(getattr(node, inner, []))


def _defines(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    is_constant = isinstance(node, ast.Assign | ast.AnnAssign)
    return [each.id for each in targets if isinstance(each, ast.Name)] if is_constant else []


def _definition(root, path, name):
    """The file that defines what `name` means in the file `path`, and its statements there."""
    statements = list(_statements(_read(path)[0].body))
    nodes = [node for node in statements if name in _defines(node)]
    if nodes:
        return path, [node for node in nodes if _is_overload(node)] or nodes[-1:]
    for node in statements:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    home = _file(root, node.module.removeprefix(f"{PACKAGE}."))
                    return _definition(root, home, alias.name)
    # A face may fetch what is heavy only when it is asked for.
    for home in sorted(path.parent.glob("_*.py")) if path.stem == "__init__" else []:
        if home != path and name in _names_of(home):
            return _definition(root, home, name)
    raise CourseError(
        "A public name is defined by a file of the package. "
        f"Received: {name!r} in {path.relative_to(root)}. Import it there, or leave it out."
    )


def _is_overload(node):
    names = (ast.unparse(each) for each in getattr(node, "decorator_list", []))
    return any(name.endswith("overload") for name in names)


def _names_of(path):
    return [name for node in _statements(_read(path)[0].body) for name in _defines(node)]


def _first_line(node):
    """The docstring's first line, and the end of its sentence."""
    paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0]
    line, _, rest = paragraph.partition("\n")
    if rest and line[-1] not in ".:?":
        line += " " + re.split(r"(?<=[.:?])\s", rest)[0].replace("\n", " ")
    return line


def _stub(nodes, lines):
    """The statements, in their order in the file, without what is inside."""
    stubs = []
    for node in sorted(nodes, key=lambda node: node.lineno):
        constant = isinstance(node, ast.Assign | ast.AnnAssign)
        outline = [_constant(node, lines)] if constant else ["", *_outline(node, lines), ""]
        stubs.append(textwrap.dedent("\n".join(outline)))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(stubs)).strip("\n")


def _constant(node, lines):
    whole = " ".join(line.strip() for line in lines[node.lineno - 1 : node.end_lineno])
    return whole if len(whole) <= _LONGEST else whole.partition(" = ")[0] + " = ..."


def _outline(node, lines):
    """A function's or class's head as written, its first line, and a class's fields and methods."""
    first = node.body[0]
    start, end = _start(node), _start(first)
    outline = lines[start - 1 : max(end - 1, node.lineno)]
    while outline[-1].lstrip()[:1] in ("", "#"):
        outline.pop()
    if _first_line(node):
        outline.append(f'{" " * first.col_offset}"""{_first_line(node)}"""')
    for inner in node.body if isinstance(node, ast.ClassDef) else []:
        name = next(iter(_defines(inner)), "_")
        if isinstance(inner, ast.AnnAssign) and not name.startswith("_"):
            outline += lines[inner.lineno - 1 : inner.end_lineno]
        # A method without a docstring of its own is its base's, told there.
        elif name in _SPECIAL or (not name.startswith("_") and _is_told(inner)):
            outline += ["", *_outline(inner, lines)]
    return outline


def _is_told(node):
    return not isinstance(node, ast.Assign) and ast.get_docstring(node)


def _start(node):
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
