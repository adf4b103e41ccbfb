"""Markdown cells of the course, read as the checks of `persian.py` and `twins.py` need them."""

import re
from pathlib import Path
from typing import NamedTuple

import jupytext
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "notebooks/source").glob("[0-9]*.md"))
OPENING = '<div dir="rtl" lang="fa">'
CODE = "\ue000"  # stands for a code span in a block's text
MATH = "\ue001"  # stands for a formula in a block's text
CODE_SPAN = re.compile(r'<code dir="ltr">(.*?)</code>', re.DOTALL)
# A Persian cell's only form of a block of code; its lines are HTML, not Markdown.
CODE_BLOCK = re.compile(r'^<pre dir="ltr">\n(.*?)^</pre>$', re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$.+?\$\$|\$(?:[^$\n]|\n(?!\n))+?\$", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    """A heading, paragraph, table cell or piece of HTML: its kind and the text a reader sees."""

    kind: str
    text: str


def markdown_cells(path):
    """(position, text) of each markdown cell of a notebook or of its MyST source."""
    cells = jupytext.read(path).cells
    return [(i, cell.source) for i, cell in enumerate(cells) if cell.cell_type == "markdown"]


def is_persian(cell):
    return cell.lstrip().startswith("<div dir=") and "rtl" in cell.split("\n", 1)[0]


def persian_parts(text):
    """The Persian divs of a document that is not a notebook, such as the README."""
    return re.findall(r'^<div dir="rtl".*?^</div>', text, re.DOTALL | re.MULTILINE)


def tokens(cell):
    """The cell's Markdown tokens; formulas are hidden, as `_` and `*` are not Markdown in them."""
    return _MARKDOWN.parse(_hide(FORMULA, MATH, cell))


def blocks(cell):
    """The cell's `Block`s in order; code and formulas are one character each."""
    found, opened = [], ""
    for token in tokens(_hide(CODE_SPAN, CODE, _hide(CODE_BLOCK, CODE, cell))):
        if token.type.endswith("_open"):
            opened = token.type.removesuffix("_open")
        elif token.type == "inline":
            kind = opened if opened in {"heading", "td", "th"} else "paragraph"
            found.append(Block(kind, _visible_text(token.children)))
        elif token.type == "html_block":
            text = re.sub(r"<[^>]*>", "", token.content).strip()
            found += [Block("html", text)] if text else []
    return found


def matches(text, pattern, fault):
    """A line for each match of `pattern`: the fault and the match in its surroundings."""
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield f"{fault}: {around(text, match)}"


def around(text, match, margin=15):
    return "…" + show(text[max(0, match.start() - margin) : match.end() + margin]) + "…"


def show(text):
    """The text on one line, with code and formulas named."""
    return text.replace(CODE, "⟨code⟩").replace(MATH, "⟨formula⟩").replace("\n", " ")


def _hide(pattern, mark, text):
    return pattern.sub(lambda match: mark + "\n" * match.group().count("\n"), text)


def _visible_text(children):
    text, emphasised = "", False
    for token in children:
        if token.type in {"em_open", "em_close"}:
            emphasised = token.type == "em_open"
        visible = _visible(token)
        # A foreign title in italics keeps its own commas and colons.
        title = emphasised and visible.isascii()
        text += re.sub(r"[,;:?](?=\s|$)", "", visible) if title else visible
    return text


def _visible(token):
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    if token.type == "code_inline":
        return CODE
    return token.content if token.type in {"text", "image"} else ""
