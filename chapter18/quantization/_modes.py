"""The modes of quantization that Keras knows, which are let through, and how each is applied."""

import contextlib
import copy as copying
import io
import numbers
import warnings

import keras

from chapter18._shared import checks, isolation, layers
from chapter18.quantization import _calibration
from chapter18.quantization._following import following

PLAIN = ("int8", "int4")


def resolve(mode, config=None, block_size=None):
    """Return the Keras config for `mode`; an int4 `block_size` of None means Keras' own 128.

    Raises ValueError for an unknown mode and for arguments that do not go together, TypeError for
    a config of another type, and RuntimeError for a calibrated mode whose calibration does nothing.
    """
    _check_mode(mode)
    _check_arguments(mode, config, block_size)
    if mode in _calibration.MODES:
        _check_calibration(mode)
    if config is not None:
        return config
    if mode == "int8":
        return keras.quantizers.Int8QuantizationConfig()
    size = {} if block_size is None else {"block_size": _block_size(block_size)}
    return keras.quantizers.Int4QuantizationConfig(**size)


def apply(model, twin, mode, config, chosen):
    """Quantize the layers of `twin` whose numbers are in `chosen`; `model` is its original."""
    twins = layers.every(twin)
    wanted = {id(twins[index]) for index in chosen}
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


def quickly():
    """Return a context in which layers are quantized several times faster.

    For each, Keras collects garbage over everything ever imported; here, over what is new.
    """
    return isolation.old_objects_not_collected()


def _for_twin(model, twins, config):
    """Return `config` with the layers of `model` that it names replaced by those of the copy."""
    structure = getattr(config, "quantization_layer_structure", None)
    if structure is None:
        return config
    places = {id(layer): i for i, layer in enumerate(layers.every(model))}
    config = copying.copy(config)
    config.quantization_layer_structure = {
        name: [twins[places[id(layer)]] for layer in group] for name, group in structure.items()
    }
    return config


def _check_mode(mode):
    if mode == "float8":
        raise ValueError(
            "float8 is a way to train, and shrinks nothing: its kernels stay in floating point. "
            "Received: mode='float8'. Call model.quantize('float8') before fit() instead, as "
            "section 7 does, and take 'int8' or 'int4' to shrink a trained model."
        )
    valid = [*PLAIN, *_calibration.MODES]
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
    if config is None and mode in _calibration.MODES:
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


def _check_calibration(mode):
    if not _calibration.calibration_changes_kernels(mode):
        raise RuntimeError(
            f"{mode} is used only where calibration data shape the kernels. "
            f"Received: mode={mode!r} on Keras {keras.__version__}, where real and junk data give "
            "identical kernels. Use 'int8', or 'int4' with a smaller block_size, or Keras 3.16."
        )
