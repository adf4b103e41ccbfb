"""The package as installed: light to import, whole in its wheel, declared once."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml

from chapter18._shared import children

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_importing_the_package_wakes_neither_keras_nor_jax():
    code = "import sys, chapter18; print({'keras', 'jax', 'numpy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"


def test_importing_the_package_chooses_jax_where_nothing_is_chosen(tmp_path):
    # Keras' own file, which it writes unasked with TensorFlow in it, is no choice.
    (tmp_path / "keras.json").write_text('{"backend": "tensorflow"}')
    code = "import os, chapter18; print(os.environ['KERAS_BACKEND'])"
    use = "; from chapter18 import tuning, ensembles; import keras; print(keras.backend.backend())"
    for chosen, after in [(None, "jax"), ("", "jax"), ("torch", "torch")]:
        environment = {name: text for name, text in os.environ.items() if name != "KERAS_BACKEND"}
        environment |= {"KERAS_HOME": str(tmp_path)} | (
            {} if chosen is None else {"KERAS_BACKEND": chosen}
        )
        done = subprocess.run(
            [sys.executable, "-c", code + (use if chosen is None else "")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stdout.split() == [after] * (2 if chosen is None else 1)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, since setuptools leaves its own files beside what it builds."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    # Another test's child may be writing compiled files meanwhile.
    compiled = shutil.ignore_patterns("__pycache__")
    for name in ("chapter18", "course", "recordings", "benchmarks", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=compiled)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "."]
    subprocess.run(command, cwd=copy, check=True, timeout=300)
    (wheel,) = copy.glob("chapter18-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a program in an empty folder, where the package is the wheel's and not this tree's."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", folder, wheel], check=True, timeout=300)

    def run(code):
        where = tmp_path_factory.mktemp("elsewhere")
        (where / "program.py").write_text(code, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(folder), "MPLBACKEND": "agg"}
        done = children.run([sys.executable, "program.py"], cwd=where, env=environment, timeout=500)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def code_of(name, **parameters):
    """The code of a built notebook as one program, with some of its parameters changed."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source += "".join(f"\n{key} = {value!r}" for key, value in parameters.items())
    code = "\n\n".join(cell.source for cell in cells)
    return re.sub(r"(?m)^( *)%.*$", r"\1pass", code)


@pytest.mark.once
def test_the_wheel_holds_the_package_its_data_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "chapter18"
    files = [*package.rglob("*.py"), *(package / "data").iterdir(), package / "py.typed"]
    assert names == {path.relative_to(ROOT).as_posix() for path in files}
    assert {"chapter18/mesh/__init__.py", "chapter18/data/mnist.npz"} <= names


@pytest.mark.once
def test_the_installed_package_has_what_every_section_imports(installed):
    names = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
    lines = [
        ast.unparse(node)
        for name in names
        for node in ast.walk(ast.parse(code_of(name)))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    lines.remove("import tensorflow")  # an extra; section 3 asks for it first
    assert len(names) == 8
    assert len(lines) > 100
    question = (
        "import importlib.util; print(importlib.util.find_spec('course'), chapter18.__path__)"
    )
    answer = installed("\n".join([*lines, "import chapter18", question]))
    assert answer.startswith("None ['")
    assert str(ROOT) not in answer


@pytest.mark.once
def test_the_installed_package_runs_a_section(installed):
    quick = nbformat.read(ROOT / "notebooks/02_model_ensembling.ipynb", as_version=4)
    code = code_of("02_model_ensembling", **quick.metadata.chapter18.quick)
    installed("display = print\n" + code)


def test_conda_environment_agrees_with_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *conda, pip = environment["dependencies"]
    (python,) = (line for line in conda if line.startswith("python="))
    minor = int(re.fullmatch(r"python=3\.(\d+)", python)[1])
    lowest, first_excluded = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert lowest <= minor < first_excluded
    assert environment["name"] == PROJECT["name"]
    # Nothing is declared a second time: conda brings Python, pip brings what pyproject says.
    assert set(conda) == {python, "pip"}
    assert pip == {"pip": ["--constraint constraints.txt", "--editable .[course]"]}


@pytest.mark.skipif(sys.platform == "win32", reason="Binder runs it in a shell of Linux")
def test_binder_gets_the_style_sheet_of_jupyterlab(tmp_path):
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([ROOT / "postBuild"], cwd=ROOT, env=environment, check=True, timeout=60)
    sheet = (tmp_path / ".jupyter/custom/custom.css").read_text(encoding="utf-8")
    assert sheet == (ROOT / "course/site/lab.css").read_text(encoding="utf-8")
    settings = (tmp_path / ".jupyter/jupyter_lab_config.py").read_text(encoding="utf-8")
    assert settings == "c.LabApp.custom_css = True\n"
