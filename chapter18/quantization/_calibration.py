"""Ask Keras itself whether its calibrated quantization looks at the calibration data."""

import contextlib
import functools
import io
import warnings

import keras
import numpy as np

from chapter18._shared import abstract

MODES = ("gptq", "awq")
_VOCABULARY, _WIDTH, _LENGTH = 16, 16, 8


@functools.cache
def calibration_changes_kernels(mode):
    """Whether the data that GPTQ or AWQ is given have any effect on the kernels they give back.

    `mode` is "gptq" or "awq". A tiny model is quantized twice by Keras: with the data that it
    reads well, and with junk, one token over and over. A method that calibrates must give other
    kernels for other data; where it gives the same, it is plain rounding under a costly name. The
    answer is kept for the life of the process; no name, policy or seed of the caller's changes.

    Raises ValueError for another mode.
    """
    if mode not in MODES:
        raise ValueError(
            f"Only calibrated modes can be probed. Received: mode={mode!r}. Valid: {list(MODES)}."
        )
    real, junk = (abstract.isolated(lambda d=d: _kernel(mode, d)) for d in _datasets())
    return not all(np.array_equal(a, b) for a, b in zip(real, junk, strict=True))


def _datasets():
    rng = np.random.default_rng(0)
    # A skewed choice of tokens, whose vectors so weigh differently, against a single token.
    odds = np.arange(1, _VOCABULARY + 1) ** 2.0
    real = rng.choice(_VOCABULARY, (16, _LENGTH), p=odds / odds.sum()).astype("int32")
    return real, np.zeros_like(real)


def _kernel(mode, dataset):
    """Quantize the tiny model with `dataset`; return the quantized variables of its dense layer."""
    keras.config.set_dtype_policy("float32")
    table, dense = _tiny_model()
    settings = {
        "dataset": list(dataset),
        "tokenizer": lambda text: text,
        "num_samples": len(dataset),
        "sequence_length": _LENGTH,
        "group_size": -1,
        "quantization_layer_structure": {"pre_block_layers": [table], "sequential_blocks": [dense]},
    }
    kinds = {"gptq": keras.quantizers.GPTQConfig, "awq": keras.quantizers.AWQConfig}
    model = keras.Sequential([keras.Input((_LENGTH,), dtype="int32"), table, dense])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # Keras warns of layers that it skips, draws a progress bar, and from 3.16 on reports.
        warnings.simplefilter("ignore")
        model.quantize(mode, config=kinds[mode](**settings), filters="^probed$")
    return [np.array(variable.value) for variable in dense.variables]


def _tiny_model():
    rng = np.random.default_rng(1)
    # Initializers of zeros draw no seed from the generator that the caller's layers draw from.
    options = {"embeddings_initializer": "zeros"}
    table = keras.layers.Embedding(_VOCABULARY, _WIDTH, name="table", **options)
    options = {"kernel_initializer": "zeros", "use_bias": False}
    dense = keras.layers.Dense(_WIDTH, name="probed", **options)
    table.build((None, _LENGTH))
    dense.build((None, _LENGTH, _WIDTH))
    # Wide enough that a third of the rounded weights differ: GPTQ of Keras 3.15 reads its data from
    # an offset that Python's hash of a string decides, anew in every process, and from 3.16 on from
    # a fixed one; none may hide the rest.
    table.embeddings.assign(rng.normal(size=(_VOCABULARY, _WIDTH)))
    dense.kernel.assign(rng.normal(size=(_WIDTH, _WIDTH)))
    return table, dense
