"""The pages for teachers and for the stuck: twins that agree, and nothing quoted that is not so."""

import ast
import re
from itertools import pairwise

import nbformat
import pytest
from documented import is_command

from chapter18.devices import _jax_faults
from course.prose import cells, persian, twins

pytestmark = pytest.mark.once

GUIDES = ("TEACHING.md", "TROUBLESHOOTING.md", "STACK.md", "INTERFACE.md")
# How a module finds out which branch of a library it meets.
VERSION_ASKED = re.compile(
    r"(keras|keras_tuner|jax)\.(__version__\.|__version__ [<>=]|__version_info__)"
)
# Said by pip, of the Python versions in pyproject.toml, and to it.
NOT_OURS = {"requires a different Python", "%pip install --no-deps course.zip"}


def read(name):
    return (cells.ROOT / name).read_text(encoding="utf-8")


def pairs(text):
    """(English, Persian) of each part of a page whose Persian divs follow the English.

    Of the page of the public interface, whose code is in one language, that is the start.
    """
    persian_parts = cells.persian_parts(text)
    text = text.partition("\n- [`chapter18.")[0]
    for part in persian_parts:
        text = text.replace(part, "\f")
    *english, rest = text.split("\f")
    assert not rest.strip(), "the page ends in Persian"
    return list(zip(english, persian_parts, strict=True))


def said_by_the_course():
    """Every text of the code and of the first cell, its pieces joined, and what cells print."""
    paths = [
        path for code in ("chapter18", "course") for path in cells.ROOT.glob(f"{code}/**/*.py")
    ]
    sources = [path.read_text("utf-8") for path in paths]
    notebook = nbformat.read(min(cells.ROOT.glob("notebooks/*.ipynb")), as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = [output.text for cell in code for output in cell.outputs if "text" in output]
    for source in [*sources, code[0].source.replace("%pip", "pass  #")]:
        nodes = ast.walk(ast.parse(source))
        texts += [_text(node) for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
    return "\n".join(texts)


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    return node.value if isinstance(getattr(node, "value", None), str) else "{}"


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_linked_from_the_readme_in_both_languages(name):
    for part in pairs(read("README.md").rpartition("\n## Credits")[0]):
        links = [twins.links(text) for text in part]
        if name in links[0]:
            assert name in links[1]
            break
    else:
        raise AssertionError(f"README.md does not link {name}")


@pytest.mark.parametrize("name", GUIDES)
def test_twins_of_a_guide_agree_and_its_persian_keeps_the_rules(name):
    found = [fault for pair in pairs(read(name)) for fault in twins.differences(*pair)]
    found += [fault for _, part in pairs(read(name)) for fault in persian.faults(part)]
    assert not found, "\n".join(found)


def test_every_quoted_message_is_one_the_course_says():
    quoted = {
        code for pair in pairs(read("TROUBLESHOOTING.md")) for code in twins.code_names(pair[0])
    }
    messages = {code for code in quoted if code.count(" ") >= 3 and not is_command(code)} - NOT_OURS
    assert len(messages) > 10
    said = said_by_the_course()
    assert sorted(message for message in messages if message not in said) == []


def rows_of_known_faults():
    """The cells of each row of STACK.md's English tables."""
    text = "\n".join(english for english, _ in pairs(read("STACK.md")))
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_known_fault_has_a_name_of_its_own_and_is_seen_by_a_file():
    rows = rows_of_known_faults()
    names = [row[0] for row in rows]
    assert len(rows) > 15
    assert len(set(names)) == len(names)
    for name, what, seen, remedy in rows:
        assert re.fullmatch(r"`[a-z0-9]+(-[a-z0-9]+)+`", name)
        assert (cells.ROOT / seen.strip("`")).is_file(), seen
        assert what
        assert re.search(r"\b(until|stays|goes|then uses)\b", remedy, re.IGNORECASE), name


def test_every_guard_of_a_version_in_the_package_has_a_row():
    """A guard names its row, as `jax_faults` does or in a comment: `# STACK.md: name`."""
    named = {row[0].strip("`") for row in rows_of_known_faults()}
    known = {fault.name for fault in (_jax_faults.DEADLOCK, *_jax_faults.FLAGGED)}
    for path in sorted(cells.ROOT.glob("chapter18/**/*.py")):
        text = path.read_text("utf-8")
        known |= set(re.findall(r"# STACK\.md: ([a-z0-9-]+)", text))
        asked = [line for line in text.splitlines() if VERSION_ASKED.search(line)]
        excused = path.parent.name == "devices" or "# STACK.md: " in text
        assert not asked or excused, f"{path.name} asks for a version: {asked}"
    assert sorted(known - named) == []


def emphasised(text):
    """The texts in italics, which in the page for teachers are headings of the notebooks."""
    inline = [child for token in cells.tokens(text) for child in token.children or []]
    return [inner.content for token, inner in pairwise(inline) if token.type == "em_open"]


def test_every_heading_that_teachers_are_sent_to_exists():
    titles = {
        language: {
            heading
            for path in cells.SOURCES
            for _, text in cells.markdown_cells(path)
            if cells.is_persian(text) == (language == "fa")
            for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        }
        for language in ("en", "fa")
    }
    quoted = [
        emphasised("\n\n".join(side)) for side in zip(*pairs(read("TEACHING.md")), strict=True)
    ]
    assert len(quoted[0]) == len(quoted[1]) > 5
    assert sorted(set(quoted[0]) - titles["en"]) == []
    assert sorted(set(quoted[1]) - titles["fa"]) == []
