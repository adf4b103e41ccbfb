"""A course of one notebook that breaks each rule of rendering, one cell a rule."""

import nbformat

from course import built

# One pixel.
IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
    "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CELLS = {
    "code": "متد `fit()` در پرانتز است.",
    "formulas": "عدد $2 \\times 4$ در متن است.",
    "direction": '<p dir="ltr">این بند از چپ آغاز می‌شود.</p>',
    "punctuation": '<p>متن <span dir="ltr">این جمله برعکس است.</span></p>',
    "tables": '<table dir="ltr"><tr><td>یک</td><td>دو</td></tr></table>',
    "request": "یک ![تصویر](http://127.0.0.2:9/far.png) از شبکه.",
}
LOST_HEADING = '<div dir="rtl" lang="fa">\n## عنوان گم‌شده\n</div>'
# What no cell can do, because JupyterLab takes styles out of Markdown.
BREAKING_CSS = {
    "formulas": "math, mjx-container, mjx-container * { direction: rtl !important; }",
    "alignment": "p { text-align: left !important; }",
    "figures": "img { max-width: none !important; width: 3000px !important; }",
}


def write_broken_course(root):
    """Write a course whose one section, 01_broken, is built and breaks every rule."""
    texts = [f'<div dir="rtl" lang="fa">\n\n{cell}\n\n</div>' for cell in CELLS.values()]
    prose = [nbformat.v4.new_markdown_cell(text) for text in ("# Broken", *texts, LOST_HEADING)]
    figure = nbformat.v4.new_output("display_data", {"image/png": IMAGE})
    code = nbformat.v4.new_code_cell("show()", outputs=[figure], execution_count=1)
    notebook = nbformat.v4.new_notebook(
        cells=[*prose, code],
        metadata={
            "chapter18": {
                "title": "1 · Broken · شکسته",
                "minutes": 1,
                "accelerator": {"en": "the same", "fa": "همان"},
            },
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        },
    )
    built.identify(notebook)
    (root / "notebooks" / "source").mkdir(parents=True)
    (root / "notebooks" / "source" / "01_broken.md").touch()
    nbformat.write(notebook, root / "notebooks" / "01_broken.ipynb")
    return root
