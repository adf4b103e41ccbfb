"""The site without a browser: every link leads somewhere, nothing is fetched, nothing is lost."""

import html
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from bilingual_course import FIRST, write_course

from course import interface, sections, website
from course.__main__ import main
from course.prose import cells
from course.sections import CourseError

pytestmark = pytest.mark.once

NAMES = [section.name for section in sections.sections(cells.ROOT)]


class Parsed(HTMLParser):
    """The tags of a page, as (name, attributes), the ids it has, and what its scripts hold."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.ids, self.scripts, self._open = [], set(), [], False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids.add(dict(attrs).get("id"))
        self._open = tag in {"script", "style"}
        if self._open:
            self.scripts.append("")

    def handle_data(self, data):
        if self._open:
            self.scripts[-1] += data.strip()

    def handle_endtag(self, _):
        self._open = False

    def attributes(self, tag, name):
        return [attrs.get(name) for found, attrs in self.tags if found == tag]


@pytest.fixture(scope="module")
def pages(site):
    return {path: Parsed(path) for path in site.rglob("*.html")}


def test_there_is_an_index_and_a_page_for_each_section_and_language(site, pages):
    found = {path.relative_to(site).as_posix() for path in pages}
    sections = {f"{language}/{name}.html" for language in ("fa", "en") for name in NAMES}
    assert found == {"index.html", "interface.html", *sections}
    index = pages[site / "index.html"]
    assert set(index.attributes("a", "href")) == found - {"index.html"}


def test_every_link_leads_to_a_page_and_a_place_that_exist(pages):
    for path, page in pages.items():
        for link in [*page.attributes("a", "href"), *page.attributes("link", "href")]:
            if link.startswith("https:"):
                continue
            file, _, place = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_file(), f"{link} in {path}"
            assert not place or place in pages[target].ids, f"{link} in {path}"


def test_nothing_is_fetched_and_no_script_or_style_is_empty(site, pages):
    for path, page in pages.items():
        assert set(page.attributes("script", "src")) <= {None}, path
        assert all(page.scripts), path
        assert all(source.startswith("data:") for source in page.attributes("img", "src")), path
        assert set(page.attributes("link", "href")) <= {"site.css", "../site.css"}, path
    styles = (site / "site.css").read_text(encoding="utf-8")
    assert "url(" not in styles
    assert "@import" not in styles


def test_pages_say_their_language_and_direction(pages):
    for path, page in pages.items():
        if path.stem != "index":
            (attrs,) = (attrs for tag, attrs in page.tags if tag == "html")
            language = "en" if path.stem == "interface" else path.parent.name
            assert attrs == {"lang": language, "dir": {"fa": "rtl", "en": "ltr"}[language]}


def test_the_public_interface_is_there_with_every_module_and_stub(site, pages):
    page = site / "interface.html"
    text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
    modules = interface.modules(cells.ROOT)
    assert len(modules) > 15
    for module in modules:
        assert module.name in pages[page].ids
        assert module.summary.replace("`", "") in text
        for part in module.parts:
            assert part.path in text
            assert part.code in text
    assert interface.HEAD.splitlines()[0].strip("# ") in text
    assert re.search("[آ-ی]{3}", text)


@pytest.mark.parametrize("language", ["fa", "en"])
def test_a_site_of_one_language_has_no_switch(tmp_path, monkeypatch, capsys, language):
    monkeypatch.chdir(write_course(tmp_path / "course"))
    out = tmp_path / "site"
    assert main(["html", "--lang", language, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out / 'index.html'}\n"
    pages = {path: Parsed(path) for path in out.rglob("*.html")}
    assert {path.parent.name for path in pages} == {"site", language}
    assert all("alternate" not in page.attributes("a", "rel") for page in pages.values())


def test_formulas_become_mathml_and_links_lead_to_pages(tmp_path):
    website.write(write_course(tmp_path / "course"), out=tmp_path / "site")
    page = tmp_path / "site/fa/01_first.html"
    text = page.read_text(encoding="utf-8")
    assert "<mi>q</mi><mo>≤</mo><mn>127</mn>" in text
    assert "$" not in text
    assert '<code dir="ltr">fit()</code>' in text
    links = [unquote(link) for link in Parsed(page).attributes("a", "href")]
    assert "02_second.html#دومین" in links
    assert "02_second.html" in links


@pytest.mark.parametrize(
    ("wanted", "language", "folder", "message"),
    [
        ([], "de", "out", r"one of fa, en, both\. Received: 'de'"),
        (["3"], "fa", "out", r"Received: '3'\. Valid: 01_first, 02_second"),
        ([], "fa", "notebooks/site", r"outside their folder\. Received: --out"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    tmp_path, wanted, language, folder, message
):
    root = write_course(tmp_path / "course")
    with pytest.raises(CourseError, match=message):
        website.write(root, wanted, language=language, out=root / folder)
    assert not (root / folder).exists()


def test_a_formula_without_mathml_is_refused(tmp_path):
    root = write_course(tmp_path / "course", FIRST.replace("\\le 127", "\\lee 127"))
    with pytest.raises(CourseError, match=r"latex2mathml knows\. Received: 'q \\\\lee 127'"):
        website.write(root, out=tmp_path / "site")
    assert not (tmp_path / "site").exists()
