"""Try each premade search space of Keras Tuner on JAX and record which of them train.

Every space runs in a process of its own with a time limit: build the default model, train it for
one epoch on 128 images, write what happened to `chapter18/data/kt_applications.json`. Takes a few
minutes on two cores, which is why section 1 reads the record instead of running this.

    python -m recordings.premade_spaces
"""

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import keras
import keras_tuner as kt
import numpy as np

from chapter18 import processes

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "chapter18" / "data" / "kt_applications.json"
SPACES = ("HyperResNet", "HyperXception", "HyperEfficientNet", "HyperImageAugment")
LIMIT_SECONDS = 300
ROWS = 128


def try_space(name):
    """Build and fit the default model of the space `name`; return what happened as a dict."""
    started = time.perf_counter()
    hp = kt.HyperParameters()
    outcome = {"space": name, "trains": False, "stage": "build"}
    try:
        if name == "HyperImageAugment":
            augment = kt.applications.HyperImageAugment(input_shape=(32, 32, 3)).build(hp)
            head = [keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")]
            model = keras.Sequential([augment, *head])
            model.compile(loss="categorical_crossentropy")
        else:
            space = getattr(kt.applications, name)(input_shape=(32, 32, 3), classes=10)
            model = space.build(hp)
        outcome |= {"hyperparameters": len(hp.space), "parameters": model.count_params()}
        outcome["stage"] = "fit"
        rng = np.random.default_rng(1)
        x = rng.uniform(size=(ROWS, 32, 32, 3)).astype("float32")
        y = np.eye(10, dtype="float32")[rng.integers(10, size=ROWS)]
        history = model.fit(x, y, batch_size=32, verbose=0)
        outcome |= {"trains": bool(np.isfinite(history.history["loss"]).all()), "stage": "done"}
    except Exception as error:
        outcome |= {"error": type(error).__name__, "message": _plain(error)}
    return outcome | {"seconds": round(time.perf_counter() - started, 1)}


def _plain(error):
    """Return the error's first lines as one, without the colour codes Keras puts in."""
    lines = [line for line in re.sub(r"\x1b\[\d+m", "", str(error)).splitlines() if line.strip()]
    return textwrap.shorten(" ".join(lines[:2]), 150, placeholder=" …")


def in_child(name):
    """Run `try_space(name)` in a child process, killed at the limit."""
    command = [sys.executable, "-m", "recordings.premade_spaces", name]
    try:
        child = processes.run(command, cwd=ROOT, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"space": name, "trains": False, "stage": "timeout", "seconds": LIMIT_SECONDS}
    if child.returncode:
        return {"space": name, "trains": False, "stage": "crash", "error": child.stderr[-200:]}
    return json.loads(child.stdout.splitlines()[-1])


def main():
    """Try every space, print a line for each and write the record."""
    spaces = []
    for name in SPACES:
        spaces.append(in_child(name))
        print(spaces[-1], flush=True)
    record = {
        "date": datetime.date.today().isoformat(),
        "hardware": f"CPU {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "versions": {n: importlib.metadata.version(n) for n in ("keras", "keras-tuner", "jax")},
        "script": "recordings/premade_spaces.py",
        "rows": ROWS,
        "spaces": spaces,
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(try_space(sys.argv[1])))
    else:
        main()
