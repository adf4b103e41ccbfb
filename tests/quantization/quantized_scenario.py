"""Quantized copies and files of models that are spread over four devices, or are not."""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers

from chapter18 import mesh, quantization
from chapter18.quantization import _absmax, _files

X = np.random.default_rng(0).normal(size=(8, 12)).astype("float32")
# Split over rows, half of these six packed rows cannot be shared by four devices.
WIDTHS = (6, 8)


def build():
    hidden, outputs = WIDTHS
    return keras.Sequential(
        [
            keras.Input((12,)),
            layers.Dense(4 * hidden, activation="relu"),
            layers.Dense(outputs),
        ]
    )


def spread(name):
    """Return a model under the distribution `name`, which is active afterwards."""
    if name == "data":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        return build()
    return mesh.build(build, X, name, mesh=mesh.make_mesh(data=1, model=4))


def plain_twin(model):
    keras.distribution.set_distribution(None)
    twin = build()
    for variable, same in zip(model.variables, twin.variables, strict=True):
        same.assign(np.array(variable.value))
    return twin


def check_case(name, mode, folder):
    model = spread(name)
    distribution = keras.distribution.distribution()
    before = [np.array(v.value) for v in model.variables]
    copy, report = quantization.quantize_copy(model, mode, probe=X, sqnr_floor=0)
    got = copy.predict(X, verbose=0)
    assert keras.distribution.distribution() is distribution
    assert all(len(v.value.sharding.device_set) == 4 for v in copy.variables)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)
    np.testing.assert_array_equal(copy.predict(X, verbose=0), got)
    path = folder / f"{name}_{mode}"
    _files.export(copy, path, probe=X)
    loaded = _files.load(path, build)
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), got)
    kernel = copy.layers[0].variables[1].value
    specs = [tuple(getattr(v.value.sharding, "spec", ())) for v in copy.variables]
    if name != "data":
        assert any("model" in spec for spec in specs), specs
        assert kernel.dtype == "int8"
    alone = plain_twin(model)
    reference, same = quantization.quantize_copy(alone, mode, probe=X, sqnr_floor=0)
    # A sum that is rounded in another order may move one number of int8 by one.
    assert _absmax.sqnr(reference.predict(X, verbose=0), got) > 60
    assert abs(report.sqnr - same.sqnr) < 0.1
    np.testing.assert_array_equal(
        _files.load(path, build).weights[-1].value, copy.weights[-1].value
    )
    # The same model, once its distribution has ended, gives a copy on one device.
    if name == "megatron":
        ended, _ = quantization.quantize_copy(model, mode, probe=X, sqnr_floor=0)
        assert _absmax.sqnr(reference.predict(X, verbose=0), ended.predict(X, verbose=0)) > 60
    print("right", name, mode)


def check_refusal():
    keras.distribution.set_distribution(None)
    model = build()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    try:
        quantization.quantize_copy(model, "int8", probe=X)
    except ValueError as error:
        print("refused:", error)
    keras.distribution.set_distribution(None)
    assert model.predict(X, verbose=0).shape == (8, 8)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for case in sys.argv[1:]:
            check_case(*case.split("-"), Path(temporary))
    check_refusal()
