"""The lines that the course's pages tell a reader to type, collected from their Markdown."""

import ast
import re

from course.prose import cells, twins

PAGES = ("README.md", "TEACHING.md", "TROUBLESHOOTING.md", "CONTRIBUTING.md")
PROGRAMS = {
    *("bash", "conda", "cp", "curl", "docker", "git", "jupyter", "make", "papermill", "pip"),
    *("pytest", "python", "python3", "ruff", "sh", "source", "touch", "unzip", "uv", "wget"),
}
_VARIABLE = re.compile(r"[A-Z_]+=\S+")
_WINDOWS = "on Windows: "


def typed():
    """Every line to type on any page, in both languages, each once, in the order of the pages."""
    found = []
    for page in PAGES:
        text = (cells.ROOT / page).read_text(encoding="utf-8")
        blocks, names = twins.code_blocks(text), sorted(twins.code_names(text))
        found += [line for block in blocks for line in in_block(block)]
        found += [name for name in names if is_command(name)]
    return list(dict.fromkeys(found))


def in_block(block):
    """The lines to type of a block of code: without comments, but with the ways they offer."""
    lines = []
    for text in block.splitlines():
        line, _, comment = (part.strip() for part in text.partition("# "))
        if line:
            lines += [line, *_ways(line, comment)]
    return lines


def is_command(code):
    """Whether inline code is a line to type: a program and its arguments, or an import."""
    words = code.split()
    while words and _VARIABLE.fullmatch(words[0]):
        words = words[1:]
    if not words:
        return False
    if words[0].startswith((".venv/bin/", ".ci/", "./")):
        return True
    return len(words) > 1 and (words[0].removeprefix("%") in PROGRAMS or is_import(code))


def is_import(code):
    """Whether `code` is Python that imports something."""
    try:
        return isinstance(ast.parse(code).body[0], ast.Import | ast.ImportFrom)
    except (SyntaxError, IndexError):
        return False


def _ways(line, comment):
    """What a comment says of another way: `or: --lang en`, or a program's name on Windows."""
    for say in comment.split("; "):
        if say.startswith("or: "):
            words, other = line.split(), say.removeprefix("or: ").split()
            start = words.index(other[0])
            yield " ".join([*words[:start], *other, *words[start + len(other) :]])
        elif say.startswith(_WINDOWS):
            there = say.removeprefix(_WINDOWS)
            here = there.replace("\\", "/").replace("/Scripts/", "/bin/")
            assert line.startswith(f"{here} "), f"{there} is not {line} on Windows"
