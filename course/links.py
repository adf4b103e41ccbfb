"""Stamp the repository's address into everything that names it, from one place: pyproject.toml."""

import re
import tomllib

from course import building, sections
from course.sections import CourseError

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
GITHUB = "https://github.com/"
COLAB = "https://colab.research.google.com/github/"
UNSTAMPED = """
The repository's address is not stamped yet, so there are no links to Colab and Kaggle. \
Its owner runs `python -m course links --repo OWNER/NAME` once.
"""
BADGES = f"""\
[Open in Colab]({COLAB}%s/tree/main/notebooks) · \
[Open in Binder](https://mybinder.org/v2/gh/%s/main?urlpath=lab/tree/notebooks)

"""
COLUMNS = {
    "en": ("Section", "Minutes on a laptop", "On GPU or TPU", "Open"),
    "fa": ("بخش", "دقیقه روی لپ‌تاپ", "روی GPU یا TPU", "باز کردن"),
}
OPEN = {"en": ("notebook", "text"), "fa": ("نوت‌بوک", "متن")}


def repository(root):
    """Return the stamped `OWNER/NAME`, or "" before `stamp` has run."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").removeprefix(GITHUB)


def stamp(root, repo):
    """Write `repo` into pyproject, setup cells, README and colab_links.md; return changed paths.

    Raises `CourseError` before anything is written when `repo` is not `OWNER/NAME`, or when a
    built notebook no longer matches its source (stamping would hide that it is stale).
    """
    if not NAME.fullmatch(repo) or repo.endswith(".git"):
        raise CourseError(
            f"A repository is given as OWNER/NAME. Received: {repo!r}. "
            "Use the two words after github.com/ in its address, for example ada/course."
        )
    stale = building.check(root)
    if stale:
        raise CourseError("Links are stamped on built notebooks. Received:\n" + "\n".join(stale))
    texts = stamped(root, repo)
    notebooks = [section.notebook for section in sections.sections(root)]
    before = {path: path.read_text(encoding="utf-8") for path in [*texts, *notebooks]}
    for path, text in texts.items():
        sections.write_whole(path, text)
    list(building.build(root))
    return [path for path, text in before.items() if path.read_text(encoding="utf-8") != text]


def stamped(root, repo):
    """Return `{path: text}` of every hand-kept file as it reads once `repo` is stamped."""
    urls = repo and f'\n[project.urls]\nRepository = "{GITHUB}{repo}"\n'
    english, persian = (_table(root, repo, language) for language in COLUMNS)
    tables = (
        (repo and BADGES.replace("%s", repo))
        + f'{english}\n<div dir="rtl" lang="fa">\n\n{persian}\n</div>\n'
        + ("" if repo else UNSTAMPED)
    )
    block = r"(?s)(?<=<!-- links:begin -->\n).*(?=<!-- links:end -->)"
    changes = [
        ("pyproject.toml", r"(\n\[project\.urls\]\n.*\n)?(?=\n\[project\.optional-dep)", urls),
        ("README.md", block, tables),
        ("colab_links.md", block, tables),
    ]
    changes += [
        (section.source, building.REPOSITORY, f'REPOSITORY = "{repo}"')
        for section in sections.sections(root)
    ]
    return {
        root / path: re.sub(
            pattern, lambda _, new=new: new, (root / path).read_text(encoding="utf-8"), count=1
        )
        for path, pattern, new in changes
    }


def _table(root, repo, language):
    rows = [COLUMNS[language], ("---",) * len(COLUMNS[language])]
    for section in sections.sections(root):
        front = building.assemble(section.source).metadata.chapter18
        said = sections.about(front, section.name, language)
        rows.append((*said, _links(section, repo, language)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _links(section, repo, language):
    name = section.name
    path = f"{repo}/blob/main/notebooks/{name}.ipynb"
    hosted = {
        "Colab": f"{COLAB}{path}",
        "Kaggle": f"https://kaggle.com/kernels/welcome?src={GITHUB}{path}",
    }
    files = (f"notebooks/{name}.ipynb", f"notebooks/source/{name}.md")
    links = (hosted if repo else {}) | dict(zip(OPEN[language], files, strict=True))
    return " · ".join(f"[{text}]({address})" for text, address in links.items())
