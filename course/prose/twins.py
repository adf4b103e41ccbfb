"""What an English cell and its Persian twin must share: one small function for each thing."""

import html
import re

from course.prose.cells import CODE_BLOCK, CODE_SPAN, is_persian, tokens

_PERSIAN_DIGITS = str.maketrans("۰۱۲۳۴۵۶۷۸۹٫٪", "0123456789.%", "٬")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")


def unpaired(cells):
    """Faults of the alternation: each English cell is directly followed by its Persian one.

    `cells` are (position in the notebook, text) of the Markdown cells, in order.
    """
    for (place, cell), (next_place, follower) in zip(cells[::2], cells[1::2], strict=False):
        if is_persian(cell) or not is_persian(follower) or next_place != place + 1:
            yield f"cell {place} is not English followed by its Persian twin: {_head(cell)}"
            return
    if len(cells) % 2:
        yield f"cell {cells[-1][0]} has no twin: {_head(cells[-1][1])}"


def pairs(cells):
    """(English, Persian) texts of cells that alternate."""
    return [
        (english, persian)
        for (_, english), (_, persian) in zip(cells[::2], cells[1::2], strict=False)
    ]


def differences(english, persian):
    """Faults of one pair: headings, code names, numbers and links that differ."""
    for what, found in [
        ("heading levels", headings),
        ("code names", code_names),
        ("blocks of code", code_blocks),
        ("numbers", numbers),
        ("links", links),
    ]:
        ours, theirs = found(english), found(persian)
        if ours != theirs:
            yield f"{what} differ, {_only(ours, theirs)}: {_head(english)}"


def headings(cell):
    """Heading levels in order, for example ["h1", "h2"]."""
    return [token.tag for token in tokens(cell) if token.type == "heading_open"]


def code_names(cell):
    """The set of inline code, written with backticks or with `<code dir="ltr">`."""
    written = [html.unescape(code) for code in CODE_SPAN.findall(cell)]
    written += [token.content for token in _inline(cell) if token.type == "code_inline"]
    return {" ".join(code.split()) for code in written}


def code_blocks(cell):
    """The blocks of code in order: fences in English, `<pre dir="ltr">` in Persian."""
    fences = [token.content for token in tokens(cell) if token.type == "fence"]
    return fences + [html.unescape(code) for code in CODE_BLOCK.findall(cell)]


def numbers(cell):
    """The set of numbers anywhere in the cell, code and formulas too, as plain decimals."""
    text = html.unescape(cell).translate(_PERSIAN_DIGITS)
    text = re.sub(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))", "", text)
    return set(_NUMBER.findall(text))


def links(cell):
    """The set of addresses of links and images."""
    return {
        token.attrs.get("href") or token.attrs.get("src")
        for token in _inline(cell)
        if token.type in {"link_open", "image"}
    }


def _inline(cell):
    return [child for token in tokens(cell) for child in token.children or []]


def _only(ours, theirs):
    if isinstance(ours, list):
        return f"English {ours}, Persian {theirs}"
    return f"only English {sorted(ours - theirs)}, only Persian {sorted(theirs - ours)}"


def _head(cell):
    lines = [line for line in cell.splitlines() if line.strip() and not line.startswith("<div")]
    return lines[0][:60] if lines else "an empty cell"
