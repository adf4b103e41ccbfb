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

import pytest
import yaml

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


@pytest.mark.once
def test_the_wheel_holds_every_module_the_data_and_the_site(tmp_path):
    # Built from a copy, because setuptools leaves its own files beside what it builds.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    # Another test's child may be writing compiled files meanwhile.
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "chapter18", tmp_path / "chapter18", ignore=compiled)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "."],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("chapter18-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "chapter18"
    beside = [p for folder in ("data", "site") for p in (package / folder).iterdir() if p.is_file()]
    files = [*package.glob("*.py"), *beside]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= names
    assert {"chapter18/data/mnist.npz", "chapter18/data/hafez.txt"} <= names


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


def test_modules_import_downwards_only():
    package = ROOT / "chapter18"
    imports = {path.stem: _imported(path) for path in package.glob("*.py")}
    while imports:
        leaves = {name for name, needs in imports.items() if not needs & set(imports)}
        assert leaves, f"these modules import each other in a circle: {sorted(imports)}"
        imports = {name: needs for name, needs in imports.items() if name not in leaves}


def _imported(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "chapter18":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chapter18."):
            names.add(node.module.removeprefix("chapter18."))
    return names
