"""The modes of quantization that Keras knows, which are let through, and how each is applied."""

import contextlib
import copy as copying
import functools
import io
import numbers
import warnings
from typing import Literal

import keras
import numpy as np

from chapter18._shared import abstract, checks, isolation, layers
from chapter18.quantization._following import following

Mode = Literal["int8", "int4", "gptq", "awq"]

PLAIN = ("int8", "int4")
CALIBRATED = ("gptq", "awq")

# For each layer Keras collects garbage over everything ever imported; meanwhile, over what is new.
quickly = isolation.old_objects_not_collected

# The tiny model of the probe for calibration: tokens, the width of their vectors, their number.
_VOCABULARY, _WIDTH, _LENGTH = 16, 16, 8


def calibration_changes_kernels(mode: Literal["gptq", "awq"]) -> bool:
    """Whether the data that GPTQ or AWQ is given have any effect on the kernels they give back.

    `mode` is "gptq" or "awq". A tiny model is quantized twice by Keras: with the data that it
    reads well, and with junk, one token over and over. A method that calibrates must give other
    kernels for other data; where it gives the same, it is plain rounding under a costly name. The
    answer is kept for the life of the process; no name, policy or seed of the caller's changes.

    Raises ValueError for another mode.
    """
    if mode not in CALIBRATED:
        raise ValueError(
            "Only calibrated modes can be probed. "
            f"Received: mode={mode!r}. Valid: {list(CALIBRATED)}."
        )
    return _data_change_kernels(mode)


def resolve(mode, config=None, block_size=None):
    """Return the Keras config for `mode`; an int4 `block_size` of None means Keras' own 128.

    Raises ValueError for an unknown mode and for arguments that do not go together, TypeError for
    a config of another type, and RuntimeError for a calibrated mode whose calibration does nothing.
    """
    _check_mode(mode)
    _check_arguments(mode, config, block_size)
    if mode in CALIBRATED and not calibration_changes_kernels(mode):
        raise RuntimeError(
            f"{mode} is used only where calibration data shape the kernels. "
            f"Received: mode={mode!r} on Keras {keras.__version__}, where real and junk data give "
            "identical kernels. Use 'int8', or 'int4' with a smaller block_size, or Keras 3.16."
        )
    if config is not None:
        return config
    if mode == "int8":
        return keras.quantizers.Int8QuantizationConfig()
    size = {} if block_size is None else {"block_size": _block_size(block_size)}
    return keras.quantizers.Int4QuantizationConfig(**size)


def apply(model, twin, mode, config, chosen):
    """Quantize the layers of `twin` that the candidates `chosen` of `model`, its original, name."""
    twins = layers.every(twin)
    wanted = {id(twins[each.number]) for each in chosen}
    quiet = contextlib.redirect_stdout(io.StringIO())
    with warnings.catch_warnings(), quiet, quickly(), following(model, twin):
        # Our report says which layers were skipped, in any version; Keras 3.15 warns of them, 3.16
        # prints a report, and calibration draws a progress bar.
        warnings.simplefilter("ignore", UserWarning)
        twin.quantize(
            mode,
            config=_for_twin(model, twins, config),
            filters=lambda layer: id(layer) in wanted,
        )


def _for_twin(model, twins, config):
    """Return `config` with the layers of `model` that it names replaced by those of the copy."""
    structure = getattr(config, "quantization_layer_structure", None)
    if structure is None:
        return config
    same = {id(layer): twin for layer, twin in zip(layers.every(model), twins, strict=True)}
    config = copying.copy(config)
    config.quantization_layer_structure = {
        name: [same[id(layer)] for layer in group] for name, group in structure.items()
    }
    return config


def _check_mode(mode):
    if mode == "float8":
        raise ValueError(
            "float8 is a way to train, and shrinks nothing: its kernels stay in floating point. "
            "Received: mode='float8'. Call model.quantize('float8') before fit() instead, as "
            "section 7 does, and take 'int8' or 'int4' to shrink a trained model."
        )
    valid = [*PLAIN, *CALIBRATED]
    if mode not in valid:
        raise ValueError(
            f"A mode of quantization is one that Keras knows. Received: mode={mode!r}. "
            f"Valid: {valid}."
        )


def _check_arguments(mode, config, block_size):
    if config is not None and not isinstance(config, keras.quantizers.QuantizationConfig):
        raise TypeError(
            "A config is one of keras.quantizers. "
            f"Received: {type(config).__name__}. Pass for example "
            "keras.quantizers.Int4QuantizationConfig(block_size=32), or leave it out."
        )
    if config is not None and config.mode != mode:
        raise ValueError(
            "A config belongs to the mode. "
            f"Received: mode={mode!r} with a config for {config.mode!r}. Make the two agree."
        )
    if config is None and mode in CALIBRATED:
        raise ValueError(
            f"{mode} needs calibration data. Received: no config. Pass "
            f"config=keras.quantizers.{mode.upper()}Config(dataset, tokenizer)."
        )
    if block_size is not None and (mode != "int4" or config is not None):
        raise ValueError(
            "block_size is for int4 without a config. "
            f"Received: block_size={block_size}, mode={mode!r}, config={config}. Leave it out."
        )


def _block_size(block_size):
    if isinstance(block_size, numbers.Integral) and block_size == -1:
        return -1
    return checks.positive_integer(
        block_size,
        "block_size",
        rule="A block is a positive number of inputs that share a scale, or -1 for all of them.",
        remedy="Pass for example 32.",
    )


@functools.cache
def _data_change_kernels(mode):
    rng = np.random.default_rng(0)
    # A skewed choice of tokens, whose vectors so weigh differently, against a single token.
    odds = np.arange(1, _VOCABULARY + 1) ** 2.0
    tokens = rng.choice(_VOCABULARY, (16, _LENGTH), p=odds / odds.sum()).astype("int32")
    real, junk = (
        abstract.isolated(functools.partial(_calibrated_kernel, mode, dataset))
        for dataset in (tokens, np.zeros_like(tokens))
    )
    return not all(np.array_equal(a, b) for a, b in zip(real, junk, strict=True))


def _calibrated_kernel(mode, dataset):
    """Quantize the tiny model with `dataset`; return the quantized variables of its dense layer."""
    keras.config.set_dtype_policy("float32")
    model = _tiny_model()
    table, dense = model.layers
    config = getattr(keras.quantizers, f"{mode.upper()}Config")(
        list(dataset),
        lambda text: text,
        num_samples=len(dataset),
        sequence_length=_LENGTH,
        group_size=-1,
        quantization_layer_structure={"pre_block_layers": [table], "sequential_blocks": [dense]},
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # Keras warns of layers that it skips, draws a progress bar, and from 3.16 on reports.
        warnings.simplefilter("ignore")
        model.quantize(mode, config=config, filters="^probed$")
    return [np.array(variable.value) for variable in dense.variables]


def _tiny_model():
    tokens = keras.Input((_LENGTH,), dtype="int32")
    # Initializers of zeros draw no seed from the generator that the caller's layers draw from.
    table = keras.layers.Embedding(_VOCABULARY, _WIDTH, "zeros", name="table")
    options = {"kernel_initializer": "zeros", "use_bias": False}
    model = keras.Sequential([tokens, table, keras.layers.Dense(_WIDTH, name="probed", **options)])
    # Wide enough that a third of the rounded weights differ: GPTQ of Keras 3.15 reads its data from
    # an offset that Python's hash of a string decides, anew in every process, and from 3.16 on from
    # a fixed one; none may hide the rest.
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.weights])
    return model
