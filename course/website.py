"""A small static site from the committed notebooks: readable, printable, with no network at all."""

import html
from pathlib import Path
from typing import NamedTuple

import jinja2
import latex2mathml.converter
import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course import editions, interface, links
from course import sections as course
from course.sections import CourseError

_FILES = Path(__file__).parent / "site"
_HIGHLIGHT = {"all": "xcode", "screen and (prefers-color-scheme: dark)": "github-dark"}


class Words(NamedTuple):
    """What the pages of one language say around the notebooks, and the direction they say it in."""

    direction: str
    language: str
    course: str
    about: str
    contents: str
    interface: str
    minutes: str
    accelerator: str


WORDS = {
    "fa": Words(
        direction="rtl",
        language="فارسی",
        course="بهترین شیوه‌ها برای دنیای واقعی",
        about="دوره‌ای عملی برای کسی که آموزش دادن یک مدل Keras را بلد است و حالا می‌خواهد مدلش "
        "ببرد، بزرگ شود و ارزان سرویس بدهد.",
        contents="فهرست بخش‌ها",
        interface="رابط عمومی بسته",
        minutes="حدود {} دقیقه روی لپ‌تاپ",
        accelerator="روی GPU یا TPU: {}",
    ),
    "en": Words(
        direction="ltr",
        language="English",
        course="Best practices for the real world",
        about="A hands-on course for people who can train a Keras model and now want it to win, "
        "to scale and to be cheap to serve.",
        contents="All sections",
        interface="The package's public interface",
        minutes="about {} min on a laptop",
        accelerator="on GPU or TPU: {}",
    ),
}


class Page(NamedTuple):
    """One section in one language: where it lies in the site, and what it is called there."""

    language: str
    address: str
    name: str
    minutes: str
    accelerator: str
    notebook: nbformat.NotebookNode

    @property
    def words(self):
        """The words of this page's language."""
        return WORDS[self.language]


def write(root, wanted=(), *, language="both", out):
    """Write the site into `out`, in "fa", "en" or "both"; return the path of its index.

    Everything is checked and rendered before anything is written. Raises `CourseError` for an
    unknown language or section, a notebook that is not built or was edited, a formula that has no
    MathML, and an `out` among the course's own notebooks.
    """
    editions.check_language(language, (*editions.LANGUAGES, "both"))
    out = course.check_out(root, out)
    languages = editions.LANGUAGES if language == "both" else (language,)
    columns = [_pages(root, wanted, language) for language in languages]
    modules = interface.modules(root)
    texts = {
        "index.html": _rendered("index", columns=columns, interface=bool(modules)),
        "site.css": _css(),
        **_sections(columns),
    }
    if modules:
        texts["interface.html"] = _interface(modules, links.repository(root))
    course.check_out(root, out, texts)
    for address, text in texts.items():
        course.write_whole(out / address, text)
    return out / "index.html"


def _pages(root, wanted, language):
    return [
        _page(name, notebook, language)
        for name, notebook in editions.editions(root, wanted, language=language)
    ]


def _page(name, notebook, language):
    said = course.about(notebook.metadata.chapter18, name, language)
    return Page(
        language=language,
        address=f"{language}/{name}.html",
        name=said.name,
        minutes=WORDS[language].minutes.format(said.minutes),
        accelerator=WORDS[language].accelerator.format(said.accelerator),
        notebook=notebook,
    )


def _sections(columns):
    exporter = HTMLExporter(
        template_file=str(_FILES / "page.html.j2"), filters={"markdown2html": _markdown}
    )
    texts = {}
    for pages in columns:
        for place, page in enumerate(pages):
            around = {
                "page": page,
                "twins": [column[place] for column in columns if column is not pages],
                "neighbours": pages[max(0, place - 1) : place] + pages[place + 1 : place + 2],
            }
            texts[page.address], _ = exporter.from_notebook_node(page.notebook, resources=around)
    return texts


def _interface(modules, repository):
    return _rendered(
        "interface",
        head=interface.HEAD,
        modules=modules,
        sources=repository and f"{links.GITHUB}{repository}/blob/main/",
        words=WORDS["en"],
    )


def _rendered(name, **given):
    loader = jinja2.FileSystemLoader(_FILES)
    environment = jinja2.Environment(loader=loader, autoescape=True)
    environment.filters["markdown"] = lambda text: Markup(_markdown(text))
    environment.filters["python"] = lambda code: Markup(
        highlight(code, PythonLexer(), HtmlFormatter())
    )
    return environment.get_template(f"{name}.html.j2").render(**given)


def _css():
    parts = [(_FILES / "site.css").read_text(encoding="utf-8")]
    for media, style in _HIGHLIGHT.items():
        rules = HtmlFormatter(style=style).get_token_style_defs(".highlight")
        parts += [f"@media {media} {{", *rules, "}"]
    return "\n".join(parts) + "\n"


class _Renderer(IPythonRenderer):
    """Formulas as MathML, headings with JupyterLab's anchors, links from page to page."""

    def inline_math(self, body):
        return _mathml(body, "inline")

    def block_math(self, body):
        return _mathml(body, "block")

    def heading(self, text, level, **attributes):
        name = editions.anchor(html.unescape(text))
        return super().heading(text, level, **attributes, id=html.escape(name))

    def link(self, text, url, title=None):
        page, _, place = url.partition("#")
        if page.endswith(".ipynb") and "/" not in page:
            url = page.removesuffix(".ipynb") + ".html" + (place and f"#{place}")
        return super().link(text, url, title)


def _markdown(text):
    return MarkdownWithMath(_Renderer(escape=False, exclude_anchor_links=True)).render(text)


def _mathml(formula, display):
    written = latex2mathml.converter.convert(formula, display=display)
    if "\\" in written:
        raise CourseError(
            "A formula uses only commands that latex2mathml knows. "
            f"Received: {formula!r}. Write it with simpler ones."
        )
    return written
