"""Stamp the repository's address into everything that names it, from one place: pyproject.toml."""

import re
import tomllib

from course import building, sections
from course.about import about
from course.sections import CourseError

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
URLS = re.compile(r'\n\[project\.urls\]\nRepository = ".*?"\n')
BLOCK = re.compile(r"(<!-- links:begin -->\n).*?(<!-- links:end -->)", re.DOTALL)
GITHUB = "https://github.com/"

UNSTAMPED = (
    "The repository's address is not stamped yet, so there are no links to Colab and Kaggle. "
    "Its owner runs `python -m course links --repo OWNER/NAME` once.\n"
)
HEAD = (
    "# Where each section runs / هر بخش کجا اجرا می‌شود\n\n"
    "Written by `python -m course links`; edit the front matter of `notebooks/source/*.md`.\n\n"
)
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
    changed = [path for path, text in stamped(root, repo).items() if _replace(path, text)]
    before = {section: _text(section.notebook) for section in sections.sections(root)}
    for _ in building.build(root):
        pass
    return changed + [s.notebook for s, text in before.items() if _text(s.notebook) != text]


def stamped(root, repo):
    """Return `{path: text}` of every hand-kept file as it reads once `repo` is stamped."""
    files = {
        root / "pyproject.toml": _pyproject(_text(root / "pyproject.toml"), repo),
        root / "README.md": BLOCK.sub(
            lambda block: block[1] + _badges(repo) + _tables(root, repo) + block[2],
            _text(root / "README.md"),
        ),
        root / "colab_links.md": HEAD + _tables(root, repo),
    }
    for section in sections.sections(root):
        files[section.source] = building.REPOSITORY.sub(
            f'REPOSITORY = "{repo}"', _text(section.source)
        )
    return files


def _text(path):
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _replace(path, text):
    if _text(path) == text:
        return False
    sections.write_whole(path, text)
    return True


def _pyproject(text, repo):
    bare = URLS.sub("", text)
    if not repo:
        return bare
    urls = f'\n[project.urls]\nRepository = "{GITHUB}{repo}"\n'
    return bare.replace(
        "\n[project.optional-dependencies]", f"{urls}\n[project.optional-dependencies]"
    )


def _badges(repo):
    if not repo:
        return ""
    return (
        f"[Open in Colab](https://colab.research.google.com/github/{repo}/tree/main/notebooks) · "
        f"[Open in Binder](https://mybinder.org/v2/gh/{repo}/main?urlpath=lab/tree/notebooks)\n\n"
    )


def _tables(root, repo):
    persian = f'<div dir="rtl" lang="fa">\n\n{_table(root, repo, "fa")}\n</div>\n'
    tables = f"{_table(root, repo, 'en')}\n{persian}"
    return tables if repo else f"{tables}\n{UNSTAMPED}"


def _table(root, repo, language):
    rows = [COLUMNS[language], ("---",) * len(COLUMNS[language])]
    for section in sections.sections(root):
        front = building.assemble(section.source).metadata.chapter18
        rows.append((*about(front, section.name, language), _links(section, repo, language)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _links(section, repo, language):
    hosted = []
    if repo:
        path = f"{repo}/blob/main/notebooks/{section.notebook.name}"
        hosted = [
            f"[Colab](https://colab.research.google.com/github/{path})",
            f"[Kaggle](https://kaggle.com/kernels/welcome?src={GITHUB}{path})",
        ]
    notebook, source = OPEN[language]
    here = [
        f"[{notebook}](notebooks/{section.notebook.name})",
        f"[{source}](notebooks/source/{section.source.name})",
    ]
    return " · ".join(hosted + here)
