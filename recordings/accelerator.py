"""Measure the claims of sections 5 to 8 on this machine's accelerator; a few minutes.

    python -m recordings.accelerator

writes chapter18/data/measured_<device>.json, which the notebooks show beside their own figures.
Each setting runs in a process of its own, so that its peak of memory is its own. Without an
accelerator it refuses, unless `--small` asks for a trial of the script itself.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

from chapter18._shared import children

DATA = Path(__file__).parents[1] / "chapter18" / "data"
SETTINGS = {
    "training": ("float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float8"),
    "inference": ("float32", "bfloat16", "float16", "int8", "int4"),
    "fused": ("plain fit", "steps_per_execution=32", "steps.fuse 32"),
}
# Wide enough that a step's time is the time of its matrix products; and small, for a trial.
FULL = {"width": 4096, "batch": 4096, "rows": 49_152, "epochs": 6, "passes": 10, "steps": 2048}
SMALL = {"width": 32, "batch": 256, "rows": 1024, "epochs": 2, "passes": 2, "steps": 64}


def main(arguments=None):
    """Measure every setting, print the tables and write the record; return its path."""
    options = _parser().parse_args(arguments)
    if options.one:
        sizes = SMALL if options.small else FULL
        print(json.dumps(measure_one(*options.one, sizes, options.weights)))
        return None
    from chapter18 import devices, recorded
    from course import sections

    found = devices.count_accelerators()
    if not found.number and not options.small:
        raise SystemExit(
            "An accelerator's figures come from an accelerator. "
            f"Received: {devices.describe()}. Add --small to try the script itself."
        )
    record = _measure(options.small)
    print(record.heading())
    for experiment, table in record.tables.items():
        print(f"\n{experiment}\n{table.to_string(index=False)}")
    name = re.sub(r"\W+", "_", found.name if found.number else "cpu").strip("_").lower()
    path = options.out / f"measured_{name}.json"
    sections.write_whole(path, recorded.dumps(record))
    print(f"\nwritten to {path}")
    return path


def _measure(small):
    """Return the `Measurement` of this machine."""
    import pandas as pd

    from chapter18 import devices, recorded

    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "mlp.weights.h5"
        rows = {
            experiment: [_in_child(experiment, setting, weights, small) for setting in settings]
            for experiment, settings in SETTINGS.items()
        }
    return recorded.Measurement(
        hardware=devices.describe(),
        date=datetime.date.today().isoformat(),
        versions={name: version(name) for name in ("keras", "jax", "jaxlib")},
        script="recordings/accelerator.py" + (" --small" if small else ""),
        tables={name: pd.DataFrame(r, columns=recorded.COLUMNS) for name, r in rows.items()},
    )


def _parser():
    parser = argparse.ArgumentParser(prog="python -m recordings.accelerator")
    parser.add_argument("--out", type=Path, default=DATA, help="folder of the record")
    parser.add_argument("--small", action="store_true", help="tiny sizes, on any machine")
    parser.add_argument("--one", nargs=2, metavar=("EXPERIMENT", "SETTING"), help="in this process")
    parser.add_argument("--weights", type=Path, help="trained float32 weights, written or read")
    return parser


def _in_child(experiment, setting, weights, small):
    command = [sys.executable, "-m", "recordings.accelerator"]
    command += ["--one", experiment, setting, "--weights", str(weights)]
    root = Path(__file__).parents[1]
    done = children.run(command + ["--small"] * small, cwd=root, timeout=600)
    if done.returncode:
        raise SystemExit(f"{experiment} with {setting} failed:\n{done.stderr[-4000:]}")
    row = json.loads(done.stdout.splitlines()[-1])
    print(f"{experiment}, {setting}: {row[1]:.4f} s", file=sys.stderr, flush=True)
    return row


def measure_one(experiment, setting, sizes, weights):
    """Measure one setting; return its row, in the order of `recorded.COLUMNS`."""
    import jax

    measure = {"training": _train, "inference": _infer, "fused": _fuse}[experiment]
    seconds, accuracy, held = measure(setting, sizes, weights)
    memory = jax.local_devices()[0].memory_stats() or {}
    return [setting, seconds, accuracy, held, memory.get("peak_bytes_in_use")]


def _train(setting, sizes, weights):
    """Median seconds of an epoch after the first, test accuracy, bytes of the parameters."""
    import keras

    x, y, x_test, y_test = _mnist(sizes["rows"])
    model = _mlp("float32" if setting == "float8" else setting, sizes["width"])
    if setting == "float8":
        for layer in model.layers:
            layer.quantize("float8")
    _compile(model)
    clock = _EpochSeconds()
    callback = keras.callbacks.LambdaCallback(on_epoch_begin=clock.start, on_epoch_end=clock.stop)
    model.fit(
        x, y, batch_size=sizes["batch"], epochs=sizes["epochs"], verbose=0, callbacks=[callback]
    )
    if setting == "float32":
        model.save_weights(weights)
    return statistics.median(clock.seconds[1:]), _accuracy(model, x_test, y_test), _held(model)


def _infer(setting, sizes, weights):
    """Median seconds of a pass over the test images, accuracy, bytes of the parameters."""
    from chapter18 import quantization

    x, _, x_test, y_test = _mnist(sizes["rows"])
    whole = setting in ("int8", "int4")
    model = _mlp("float32" if whole else setting, sizes["width"])
    model.load_weights(weights)
    if whole:
        model = quantization.quantize_copy(model, setting, probe=x[:256]).model
    model.predict(x_test, batch_size=len(x_test), verbose=0)
    seconds = []
    for _ in range(sizes["passes"]):
        start = time.perf_counter()
        model.predict(x_test, batch_size=len(x_test), verbose=0)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), _accuracy(model, x_test, y_test), _held(model)


def _fuse(setting, sizes, _):
    """Median seconds of an epoch of tiny steps, test accuracy, bytes of the parameters."""
    from chapter18 import steps

    x, y, x_test, y_test = _mnist(16 * sizes["steps"])
    model = _mlp("float32", 64)
    _compile(model, 32 if setting.startswith("steps_per") else 1)
    if setting.startswith("steps.fuse"):
        steps.fuse(model, 32)
    seconds = []
    for _ in range(sizes["epochs"]):
        start = time.perf_counter()
        model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:]), _accuracy(model, x_test, y_test), _held(model)


class _EpochSeconds:
    """Wall-clock seconds of each epoch; Keras has read the logs, so the device is done."""

    def __init__(self):
        self.seconds = []

    def start(self, *_):
        self.started = time.perf_counter()

    def stop(self, *_):
        self.seconds.append(time.perf_counter() - self.started)


def _mnist(rows):
    from chapter18.datasets import load_mnist

    mnist = load_mnist()
    x, y = mnist.x_train.reshape(-1, 784)[:rows], mnist.y_train[:rows]
    return x, y, mnist.x_test.reshape(-1, 784), mnist.y_test


def _mlp(policy, width):
    import keras

    from chapter18.precision import policy as dtype_policy

    keras.utils.set_random_seed(18)
    with dtype_policy(policy):
        dense = [keras.layers.Dense(width, activation="relu") for _ in range(2)]
        return keras.Sequential([keras.Input((784,)), *dense, keras.layers.Dense(10)])


def _compile(model, steps_per_execution=1):
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    if model.layers[0].compute_dtype == "float16" and model.layers[0].variable_dtype == "float32":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, loss, steps_per_execution=steps_per_execution)


def _accuracy(model, x, y):
    return float((model.predict(x, batch_size=len(x), verbose=0).argmax(-1) == y).mean())


def _held(model):
    return int(sum(variable.value.nbytes for variable in model.weights))


if __name__ == "__main__":
    main()
