"""The house keeps its rules (CONTRIBUTING.md), and each rule sees a violation."""

import subprocess
import sys
from pathlib import Path

import house
import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
TREE = house.Tree(ROOT)
WORDS = house.WORDS


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_a_rule_is_kept(rule):
    assert list(rule(TREE)) == []


def test_the_tree_is_really_read():
    assert len(TREE.of("chapter18")) > 60
    assert "chapter18.mesh" in TREE.imports["chapter18.planning._step"]
    assert len(list(house.public(TREE))) > 60
    assert len(set(TREE.imported_by_notebooks())) > 40


@pytest.mark.parametrize("word", WORDS)
def test_a_word_names_every_place_of_its_section(word):
    subject = ROOT / "chapter18" / word
    assert subject.is_dir() or subject.with_suffix(".py").is_file()
    for folder in ("figures", "exercises"):
        assert (ROOT / f"chapter18/{folder}/{word}.py").is_file()
    assert list((ROOT / "tests" / word).glob("test_*.py"))


PLANTED = [
    # (rule, files of a tree, fault)
    (
        "climbing",
        {"_shared/a.py": "from chapter18 import mesh"},
        "_shared.a imports chapter18",
    ),
    ("climbing", {"precision.py": "import chapter18.mesh"}, "precision imports chapter18.mesh"),
    ("climbing", {"steps.py": "def f():\n    from chapter18 import mesh"}, "steps imports"),
    (
        "circles",
        {"mesh/_a.py": "from chapter18.mesh import _b", "mesh/_b.py": "import chapter18.mesh._a"},
        "a circle among chapter18.mesh._a, chapter18.mesh._b",
    ),
    (
        "circles",
        {
            "planning/__init__.py": "",
            "planning/_a.py": "from chapter18.mesh import x",
            "mesh/_a.py": "from chapter18.planning import x",
        },
        "a circle among mesh, planning",
    ),
    ("upwards", {"mesh/_a.py": "from chapter18.figures import mesh"}, "imports chapter18.figures"),
    ("upwards", {"mesh/_a.py": "from course import sections"}, "mesh._a imports course"),
    ("upwards", {"../tests/test_a.py": "from benchmarks import rows"}, "test_a imports benchmarks"),
    (
        "behind_the_face",
        {"recorded.py": "from chapter18.mesh import _b"},
        "imports chapter18.mesh._b",
    ),
    (
        "behind_the_face",
        {"exercises/steps.py": "from chapter18.mesh import _b"},
        "exercises.steps imports chapter18.mesh._b",
    ),
    (
        "behind_the_face",
        {"../notebooks/source/01_a.md": "from chapter18.mesh import (\n    build,\n    _b,\n)\n"},
        "01_a.md imports chapter18.mesh._b",
    ),
    (
        "behind_the_face",
        {"../notebooks/source/01_a.md": 'code = """\nfrom chapter18._shared import a\n"""\n'},
        "01_a.md imports chapter18._shared",
    ),
    ("sizes", {"steps.py": "x = 1\n" * 400}, "chapter18.steps: 400 lines"),
    ("sizes", {"mesh/__init__.py": "x = 1\n" * 90}, "a face of 90 lines"),
    ("sizes", {f"mesh/_{i}.py": "" for i in range(12)}, "chapter18.mesh: 14 files"),
    ("sizes", {"utils.py": ""}, "a name that says nothing"),
    (
        "sizes",
        {"mesh/_c.py": "from chapter18.mesh import _b"},
        "_b: 0 lines that only",
    ),
    ("faces_without_all", {"mesh/__init__.py": '"""A."""\n'}, "chapter18.mesh has no __all__"),
    ("faces_without_all", {"mesh/__init__.py": "__all__ = []"}, "mesh has no docstring"),
    ("untyped", {"datasets.py": 'def load(x) -> int:\n    """A."""\n'}, "load: no type for x"),
    ("untyped", {"datasets.py": 'def load(*x: int):\n    """A."""\n'}, "no type for its result"),
    ("untyped", {"datasets.py": "def load() -> int:\n    return 1\n"}, "load has no docstring"),
    (
        "untyped",
        {"datasets.py": 'def load() -> int:\n    """A."""\n    raise ValueError\n'},
        "load raises, and does not say so",
    ),
    ("untyped", {"datasets.py": 'class A:\n    """A."""\n    x: tuple\n'}, "A.x is a bare tuple"),
    (
        "untyped",
        {
            "mesh/__init__.py": "from chapter18.mesh._b import f\n__all__ = ['f']\n",
            "mesh/_b.py": 'def f(x):\n    """A."""\n',
        },
        "chapter18.mesh.f: no type for x",
    ),
]


@pytest.mark.parametrize(
    ("rule", "files", "fault"), PLANTED, ids=[f"{p[0]}-{i}" for i, p in enumerate(PLANTED)]
)
def test_a_rule_sees_a_violation(rule, files, fault, tmp_path):
    sound = {
        "__init__.py": "",
        "_shared/__init__.py": "",
        "mesh/__init__.py": '"""A."""\n\n__all__ = []\n',
        "mesh/_b.py": "",
    }
    check = getattr(house, rule)
    for planted in (sound, files):
        for name, text in planted.items():
            path = tmp_path / "chapter18" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = list(check(house.Tree(tmp_path)))
        if planted is sound:
            assert found == []
    assert any(fault in line for line in found), found


@pytest.mark.parametrize("name", ["chapter18", "chapter18._shared", "chapter18.devices"])
def test_what_must_be_light_wakes_nothing(name):
    code = f"import sys, {name}; print({{'keras', 'jax', 'jaxtyping'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"
