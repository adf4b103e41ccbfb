"""The page of the public interface: true to the sources and complete."""

import ast
import importlib
import re

import pytest

from course import interface
from course.__main__ import main
from course.prose.cells import ROOT
from course.sections import CourseError

pytestmark = pytest.mark.once

FACES = {
    path.parent.name: ast.literal_eval(node.value)
    for path in ROOT.glob("chapter18/*/__init__.py")
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    if path.parent.name not in {"_shared", "figures", "exercises"}
}
SINGLE = {"chapter18.mixed_precision.float8", "chapter18.planning.hardware"} | {
    f"chapter18.{path.stem}"
    for path in ROOT.glob("chapter18/*.py")
    if not path.stem.startswith("_")
}


@pytest.fixture(scope="module")
def page():
    return (ROOT / interface.PAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parts(page):
    """The text of each module's part, by its name."""
    _, *pieces = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def test_the_page_is_what_the_sources_say():
    assert interface.check(ROOT) == []


def test_every_public_module_has_its_part_and_no_other_has(parts):
    assert len(FACES) > 8
    assert set(parts) == SINGLE | {f"chapter18.{name}" for name in FACES}


def test_every_part_says_what_its_module_is_for(page, parts):
    for name, part in parts.items():
        path = ROOT / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))).splitlines()[0]
        assert said in part, name
        assert f"(#{name.replace('.', '')}): {said}" in page


def test_every_name_of_every_face_is_there(parts):
    for subject, names in FACES.items():
        for name in names:
            part = parts[f"chapter18.{subject}"]
            shown = re.search(rf"^(?:(?:def|class) {name}\b|{name}(?::| =))", part, re.MULTILINE)
            public = f"chapter18.{subject}.{name}" in parts
            assert bool(shown) != public, f"{subject}.{name}"


def test_every_part_offers_what_an_import_finds(parts):
    for name, part in parts.items():
        module = importlib.import_module(name)
        for shown in re.findall(r"^(?:def |class )?(\w+)(?=[(:]| = )", part, re.MULTILINE):
            assert hasattr(module, shown), f"{name}.{shown}"


def test_every_link_leads_to_a_file_or_a_part(page, parts):
    anchors = {f"#{name.replace('.', '')}" for name in parts}
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert link in anchors or (ROOT / link).is_file(), link


FACE = '''\
"""A room. More of it.

More.
"""

from chapter18.room import open
from chapter18.room._inner import Thing, again, many, several

__all__ = ["Thing", "again", "lazy", "many", "open", "several"]


def __getattr__(name): ...
'''
INNER = '''\
from chapter18._shared.low import again

HIDDEN = 1


class Thing(NamedTuple):
    """What it is."""

    x: Float[np.ndarray, "samples classes"]
    _hidden: int = 0

    def shown(self, *, y: int) -> "Thing":
        """Return it."""
        return self

    def told_by_the_base(self): ...

    @property
    def size(self) -> int:
        """How large it is,
        in bytes. Not more."""


if TYPE_CHECKING:
    many = None
else:

    def many(
        a: Float[np.ndarray, " members"],  # each
        *,
        b: Literal["mean", "rank"] = "mean",
    ) -> Float[np.ndarray, "samples"]:
        # Why.
        return a


@overload
def several(a: int) -> int: ...
@overload
def several(a: str) -> str: ...
def several(a):
    return a
'''
PACKAGE = {
    "__init__.py": "",
    "_shared/__init__.py": "",
    "_shared/low.py": '@contextmanager\ndef again():\n    """Once more."""\n',
    "figures/room.py": "def draw(): ...\n",
    "room/__init__.py": FACE,
    "room/_inner.py": INNER,
    "room/_lazy.py": "def lazy(): ...\n",
    "room/open.py": '"""Open."""\nONE: int = 1\nMANY = (\n    1,\n    2,\n)\n_HIDDEN = 3\n',
}
ROOM = '''\
## chapter18.room

A room. More of it.

[chapter18/_shared/low.py](chapter18/_shared/low.py)

```python
@contextmanager
def again():
    """Once more."""
```

[chapter18/room/_inner.py](chapter18/room/_inner.py)

```python
class Thing(NamedTuple):
    """What it is."""
    x: Float[np.ndarray, "samples classes"]

    def shown(self, *, y: int) -> "Thing":
        """Return it."""

    @property
    def size(self) -> int:
        """How large it is, in bytes."""

def many(
    a: Float[np.ndarray, " members"],  # each
    *,
    b: Literal["mean", "rank"] = "mean",
) -> Float[np.ndarray, "samples"]:

@overload
def several(a: int) -> int: ...

@overload
def several(a: str) -> str: ...
```

[chapter18/room/_lazy.py](chapter18/room/_lazy.py)

```python
def lazy(): ...
```

## chapter18.room.open

Open.

[chapter18/room/open.py](chapter18/room/open.py)

```python
ONE: int = 1
MANY = ( 1, 2, )
```
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "notebooks/source").mkdir(parents=True)
    for name, text in PACKAGE.items():
        path = tmp_path / "chapter18" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_each_name_is_shown_as_written_without_what_is_inside(root):
    assert interface.text(root).endswith("\n" + ROOM)


def test_build_writes_the_page_and_check_compares_it(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert main(["build", "--check"]) == 1
    assert capsys.readouterr().out == (
        "INTERFACE.md differs from the sources of chapter18; run `python -m course build`\n"
    )
    assert main(["build"]) == 0
    assert capsys.readouterr().out == "INTERFACE.md: written\n"
    assert main(["build"]) == main(["build", "--check"]) == 0
    path = root / "chapter18/room/_inner.py"
    path.write_text(path.read_text("utf-8").replace("y: int", "y: float"), encoding="utf-8")
    assert main(["build", "--check"]) == 1


def test_a_name_that_nobody_defines_is_refused(root):
    (root / "chapter18/room/_lazy.py").unlink()
    with pytest.raises(CourseError, match=r"Received: 'lazy' in chapter18/room/__init__\.py\. Im"):
        interface.text(root)


def test_a_course_without_the_package_has_no_page(tmp_path):
    assert interface.check(tmp_path) == []
    assert interface.write(tmp_path) is False
