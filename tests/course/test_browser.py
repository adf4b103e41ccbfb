"""The course as a reader sees it, measured in Chromium: the site and a real JupyterLab."""

import shutil
from itertools import pairwise

import browser
import pytest
from broken_notebook import BREAKING_CSS, write_broken_course

from course import sections, website
from course.prose import cells

pytestmark = pytest.mark.once

SECTIONS = sections.sections(cells.ROOT)
NAMES = [section.name for section in SECTIONS]
LAB_CSS = (cells.ROOT / "course/site/lab.css").read_text(encoding="utf-8")

# Where the Persian of each cell is, and what a figure must not be wider than.
SITE = ("[lang=fa] main > section:not(.code)", "main")
LAB = (".jp-RenderedMarkdown [dir=rtl]", ".jp-OutputArea-output")
CONTENTS = ".jp-TableOfContents-tree .jp-tocItem-content"

OPEN = """async (path) => {
  const open = async () => {
    const options = {path, factory: "Notebook"};
    const widget = await jupyterapp.commands.execute("docmanager:open", options);
    await widget.context.ready;
    await widget.revealed;
    await Promise.all(widget.content.widgets.map((cell) => cell.ready));
  };
  const late = new Error(`JupyterLab does not open ${path}`);
  await Promise.race([open(), new Promise((_, fail) => setTimeout(fail, 120000, late))]);
}"""
DECODED = "() => [...document.images].every((image) => image.complete)"
CLOSE = """async () => {
  const widget = jupyterapp.shell.currentWidget;
  const limit = new Promise((end) => setTimeout(end, 60000));
  await Promise.race([widget.sessionContext.ready, limit]);
  await widget.sessionContext.shutdown();
  widget.dispose();
  // What the dying kernel makes JupyterLab say belongs to this notebook, not to the next one.
  await new Promise((end) => setTimeout(end, 500));
}"""
DRAWN = """([selector, count]) => [...document.querySelectorAll(selector)]
  .filter((element) => element.offsetParent).length === count"""


@pytest.fixture(scope="module")
def chromium():
    with browser.chromium() as found:
        yield found


@pytest.fixture
def new_page(chromium):
    """A function that opens a page of a site on the disk; its `faults` grow as they happen."""
    pages = []

    def open_page(site, address, **options):
        page = browser.new_page(chromium, site.as_uri(), **options)
        pages.append(page)
        page.goto((site / address).as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def lab(chromium, tmp_path_factory):
    """A page of JupyterLab that can open every section, and the broken notebook."""
    folder = tmp_path_factory.mktemp("lab")
    notebooks = write_broken_course(folder / "course") / "notebooks"
    for section in SECTIONS:
        shutil.copy(section.notebook, notebooks)
    with browser.jupyterlab(notebooks, folder / "state", LAB_CSS) as address:
        home = address.partition("/lab")[0]
        page = browser.new_page(chromium, home, viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.wait_for_function("() => !!window.jupyterapp")
        page.evaluate("() => jupyterapp.restored.then(() => null)")
        page.evaluate("() => jupyterapp.shell.activateById('table-of-contents')")
        yield page


@pytest.fixture
def opened(lab):
    """A function that opens a notebook in JupyterLab and waits until all of it is drawn."""

    def open_notebook(name, *, formulas, headings):
        lab.faults.clear()
        lab.evaluate(OPEN, f"{name}.ipynb")
        for selector, count in [("mjx-container", formulas), (CONTENTS, headings)]:
            lab.wait_for_function(DRAWN, arg=[selector, count])
        lab.wait_for_function(DECODED)
        return lab

    yield open_notebook
    lab.evaluate(CLOSE)


def prose(name):
    path = cells.ROOT / "notebooks" / f"{name}.ipynb"
    return [text for _, text in cells.markdown_cells(path)]


def formulas(texts):
    return sum(len(cells.FORMULA.findall(text)) for text in texts)


def headings(texts):
    """The headings as a reader sees them, in order."""
    parsed = [cells.tokens(text) for text in texts]
    return [
        content.content.replace("`", "").replace("*", "")
        for tokens in parsed
        for token, content in pairwise(tokens)
        if token.type == "heading_open"
    ]


def assert_all_persian_was_measured(found, texts):
    persian = [text for text in texts if cells.is_persian(text)]
    assert found["cells"] == len(persian)
    assert found["measured"]["code"] == sum(len(cells.CODE_SPAN.findall(t)) for t in persian)
    assert found["measured"]["formulas"] == formulas(persian)
    assert found["measured"]["blocks"] >= len(persian)


@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize("language", ["fa", "en"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_the_site(new_page, site, name, language, width):
    viewport = {"width": width, "height": 900}
    page = new_page(site, f"{language}/{name}.html", viewport=viewport)
    found = browser.measure(page, *SITE)
    assert browser.faults_of(found) + page.faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if language == "fa":
        assert_all_persian_was_measured(found, prose(name))


@pytest.mark.parametrize("width", [390, 1000])
def test_the_index_of_the_site(new_page, site, width):
    page = new_page(site, "index.html", viewport={"width": width, "height": 900})
    found = browser.measure(page, "section[lang=fa]", "main")
    assert browser.faults_of(found) + page.faults == []
    assert found["measured"]["blocks"] > len(NAMES)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1000])
def test_the_public_interface_on_the_site(new_page, site, width):
    page = new_page(site, "interface.html", viewport={"width": width, "height": 900})
    found = browser.measure(page, "[dir=rtl]", "main")
    assert browser.faults_of(found) + page.faults == []
    assert found["measured"]["code"] > 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    stubs = "found => found.map((stub) => getComputedStyle(stub).direction)"
    assert set(page.locator("pre").evaluate_all(stubs)) == {"ltr"}


@pytest.mark.parametrize(("language", "other"), [("fa", "en"), ("en", "fa")])
def test_the_switch_of_language_keeps_the_place(new_page, site, language, other):
    page = new_page(site, f"{language}/{NAMES[0]}.html")
    read = page.locator("main > section:not(.code)").nth(12)
    cell = read.get_attribute("id")
    read.evaluate("element => element.scrollIntoView()")
    # A click as a reader's: were the switch out of sight, the page would be scrolled to it.
    page.locator("a[rel=alternate]").click()
    page.wait_for_url(f"**/{other}/**")
    assert page.url.endswith(f"#{cell}")
    assert page.evaluate("document.documentElement.lang") == other
    twin = page.locator(f"[id='{cell}']").evaluate("element => element.getBoundingClientRect().top")
    assert abs(twin) < 100
    assert page.faults == []


def test_the_site_follows_the_colours_of_the_system(new_page, site):
    lightness = {}
    for scheme in ("light", "dark"):
        page = new_page(site, f"fa/{NAMES[0]}.html", color_scheme=scheme)
        colour = "element => getComputedStyle(document.documentElement)[element]"
        lightness[scheme] = [
            sum(map(int, page.evaluate(colour, part)[4:-1].split(",")))
            for part in ("color", "backgroundColor")
        ]
    assert lightness["light"][0] < 200 < 600 < lightness["light"][1]
    assert lightness["dark"][1] < 200 < 600 < lightness["dark"][0]


def test_a_printed_page_is_dark_on_white_and_without_navigation(new_page, site):
    page = new_page(site, f"fa/{NAMES[0]}.html", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("nav").evaluate_all("found => found.map((nav) => nav.offsetHeight)") == [
        0,
        0,
    ]
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_in_jupyterlab(opened, name):
    texts = prose(name)
    page = opened(name, formulas=formulas(texts), headings=len(headings(texts)))
    assert page.locator(CONTENTS).all_inner_texts() == headings(texts)
    found = browser.measure(page, *LAB)
    assert browser.faults_of(found) + page.faults == []
    assert_all_persian_was_measured(found, texts)


FAULTS = {
    "code": "code does not run left to right: fit()",
    "formulas": "a formula does not run left to right",
    "direction": "direction is not rtl: این بند",
    "alignment": "not aligned to the right: متد",
    "punctuation": "closing punctuation is not left-most: متن این جمله",
    "tables": "a table does not start at the right: یکدو",
    "figures": "a figure is empty or wider than its column",
}


def assert_every_check_fails(page, where):
    found = browser.measure(page, *where)
    for check in browser.CHECKS:
        if check in BREAKING_CSS:
            style = page.add_style_tag(content=BREAKING_CSS[check])
            found[check] = browser.measure(page, *where)[check]
            style.evaluate("tag => tag.remove()")
        assert any(FAULTS[check] in fault for fault in found[check]), (check, found[check])
    for fault in ("request beyond this machine: http://127.0.0.2:9/far.png", "console: "):
        assert any(fault in line for line in page.faults), (fault, page.faults)


def test_a_broken_cell_fails_every_check_in_the_site(new_page, tmp_path):
    site = website.write(write_broken_course(tmp_path / "course"), out=tmp_path / "site").parent
    assert_every_check_fails(new_page(site, "fa/01_broken.html"), SITE)


def test_a_broken_cell_fails_every_check_in_jupyterlab(opened):
    # Its second heading is none, for want of a blank line, and so it is missing in the contents.
    page = opened("01_broken", formulas=1, headings=1)
    assert page.locator(CONTENTS).all_inner_texts() == ["Broken"]
    assert_every_check_fails(page, LAB)
