"""The rules a Persian cell keeps, one small function each: the cell's text in, faults out.

`faults(cell)` runs them all: those of the markup here, those of `persian_spelling.py` (letters,
half-spaces, numbers, punctuation) and of `persian_terms.py` (the glossary).
A fault is one line: the rule, then the offending excerpt. `cells.py` reads the Markdown.
"""

import html
import re
import unicodedata

from course.prose import persian_spelling, persian_terms
from course.prose.cells import (
    CODE,
    CODE_BLOCK,
    CODE_SPAN,
    MATH,
    OPENING,
    around,
    blocks,
    show,
    tokens,
)


def faults(cell):
    """Every fault of a Persian Markdown cell, as lines for a human."""
    for rule in (*MARKUP, *persian_spelling.RULES, *persian_terms.RULES):
        yield from rule(cell)


def opening_and_closing(cell):
    """Rule 1: the exact div, with a blank line inside it at both ends."""
    if not cell.startswith(f"{OPENING}\n\n"):
        yield f"the cell does not open with {OPENING} and a blank line: {cell[:40]!r}"
    if not cell.endswith("\n\n</div>"):
        yield f"the cell does not end with a blank line and </div>: {cell[-20:]!r}"
    if cell.count("<div") != 1 or cell.count("</div>") != 1:
        yield "the cell has more than its one div"


def code_spans(cell):
    """Rule 2: code is `<code dir="ltr">`, and no Markdown inside it is active."""
    for block in tokens(cell):
        for token in block.children or []:
            if token.type == "code_inline":
                yield f"backticks instead of <code>: `{token.content}`"
    bare = CODE_SPAN.sub("", cell)
    for tag in re.findall(r"</?code[^>]*>", bare):
        yield f'a code tag that is not <code dir="ltr">…</code>: {tag}'
    for code in CODE_SPAN.findall(cell):
        entities = re.sub(r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+);", "", code)
        if re.search(r"[<&$`]|\*\*|__|^[*_]|[*_]$", entities):
            yield f"write &lt; &amp; &#36; &#96; &#42; &#95; inside code: {code}"
        elif not _reads_as_written(code.replace("\n", " ")):
            yield f"Markdown is active inside code: {code}"
    for line in cell.splitlines():
        if line.lstrip().startswith("|") and any("|" in code for code in CODE_SPAN.findall(line)):
            yield f"write &#124; for | in a table's code: {line.strip()}"


def _reads_as_written(code):
    spans = [token for block in tokens(f"متن {code}") for token in block.children or []]
    shown = "".join(token.content if token.type.startswith("text") else "" for token in spans)
    return shown == f"متن {html.unescape(code)}"


def ordinary_markdown(cell):
    """Rule 3: lists and formulas are real Markdown."""
    for block in blocks(cell):
        for match in re.finditer(r"^[۰-۹]+[.)]\s.*|^[•●▪]\s.*", block.text, re.MULTILINE):
            yield f"not a Markdown list, write 1. or -: {match.group()[:40]}"
        for match in re.finditer(r".{0,15}\$.{0,15}", block.text):
            yield f"a lone $: {match.group()}"


def no_fences(cell):
    """Rule 4: code belongs in the shared code cell; a folded solution shows it in a left-to-right
    `<pre>`, whose content is HTML."""
    for token in tokens(cell):
        if token.type in {"fence", "code_block"}:
            yield f"a code block inside the div: {token.content.strip()[:40]}"
    for tag in re.findall(r"</?pre[^>]*>.*", CODE_BLOCK.sub("", cell)):
        yield f'a block of code that is not <pre dir="ltr">, its lines, </pre>: {tag[:40]}'
    for code in CODE_BLOCK.findall(cell):
        for match in re.finditer(r"[<>$`]|&(?!#\d+;|lt;|gt;|amp;)", code):
            yield f"write &lt; &gt; &amp; &#36; &#96; in a block of code: {around(code, match)}"


def persian_first(cell):
    """Rule 5: the first strong letter of each block, code aside, is Persian."""
    for kind, text in blocks(cell):
        rest = text.replace(CODE, "").strip()
        words = [c for c in rest if unicodedata.bidirectional(c) in {"L", "R", "AL"} and c != MATH]
        latin = words and unicodedata.bidirectional(words[0]) == "L"
        if latin or (words and rest.startswith(MATH)):
            yield f"a {kind} does not start with a Persian word or code: {show(text)[:40]}"


def plain_headings(cell):
    """Rule 6: no Latin letter, digit, formula or code in a heading."""
    for kind, text in blocks(cell):
        if kind == "heading" and re.search(
            f"[A-Za-z]|{persian_spelling.DIGIT}|[{CODE}{MATH}]", text
        ):
            yield f"Latin, digits or code in a heading: {show(text)}"


def forbidden_markup(cell):
    """Rule 7: no styling, no direction tags, no bidi control characters."""
    code_free = CODE_SPAN.sub("", cell)
    for match in re.finditer(
        r"<[^>]*\bstyle\s*=|</?(?:bdi|bdo|span)\b|<p\s[^>]*dir\s*=", code_free, re.IGNORECASE
    ):
        yield f"markup that is not allowed: {match.group()}"
    for match in re.finditer("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]", cell):
        yield f"a bidi control character U+{ord(match.group()):04X}: {around(cell, match)}"


MARKUP = (
    opening_and_closing,
    code_spans,
    ordinary_markdown,
    no_fences,
    persian_first,
    plain_headings,
    forbidden_markup,
)
