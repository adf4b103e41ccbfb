"""A small causal transformer that predicts a text letter by letter, and writes like it.

Its attention blocks are a custom layer made of layers that Keras can quantize, and its output head
is the embedding table used backwards, by the one Keras layer that stays right when quantized.
"""

from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from jaxtyping import Int
from keras import layers, ops
from numpy.lib.stride_tricks import sliding_window_view

_PACKAGE = "chapter18"


class Alphabet(Protocol):
    """What turns letters into codes and back, as the `Hafez` of `datasets.load_hafez()` does."""

    def encode(self, text: str) -> Int[np.ndarray, " letters"]: ...
    def decode(self, codes: Int[np.ndarray, " letters"]) -> str: ...


class Windows(NamedTuple):
    """Pieces of a text: `x` and, one letter later, `y`; both int32 `(windows, length)`."""

    x: Int[np.ndarray, "windows length"]
    y: Int[np.ndarray, "windows length"]


def windows(
    codes: Int[np.ndarray, " letters"], length: int, *, stride: int | None = None
) -> Windows:
    """Cut a text into `Windows` of `length` letters, the next one beginning `stride` letters on.

    `codes`: the text as integers `(letters,)`. Without a stride the windows do not overlap, so that
    each letter is predicted once; a shorter stride gives training more windows of the same text.
    Raises ValueError for a text too short for one window and for a stride that is not positive.
    """
    codes = np.asarray(codes)
    stride = length if stride is None else stride
    if codes.ndim != 1 or len(codes) <= length:
        raise ValueError(
            "a window needs its letters and one more. "
            f"Received: codes of shape {codes.shape}, length={length}. "
            "Pass a longer text `(letters,)`, or a smaller length."
        )
    if stride < 1:
        raise ValueError(
            f"windows move forwards. Received: stride={stride}. Pass a stride of 1 or more."
        )
    cut = sliding_window_view(codes, length + 1)[::stride].astype("int32")
    return Windows(cut[:, :-1], cut[:, 1:])


def build(
    vocabulary_size: int, *, length: int = 64, width: int = 128, heads: int = 4, blocks: int = 2
) -> keras.Model:
    """Return the uncompiled model: letters `(batch, length)` to logits over the next letter.

    Logits are `(batch, length, vocabulary_size)`; those at a place depend on the letters up to it
    and on no later one. `width` is the size of a letter's vector, which `heads` divides. With the
    37 letters of Hafez and the defaults it has 409,728 parameters. Raises ValueError when `heads`
    does not divide `width`.
    """
    if width % heads:
        raise ValueError(
            "heads must divide the width. "
            f"Received: width={width}, heads={heads}. Pass a multiple of heads as the width."
        )
    letters = keras.Input((length,), dtype="int32", name="letters")
    table = layers.ReversibleEmbedding(vocabulary_size, width, name="table")
    x = Positions(name="positions")(table(letters))
    for number in range(1, blocks + 1):
        x = Block(heads, name=f"block_{number}")(x)
    x = layers.LayerNormalization(name="norm")(x)
    return keras.Model(letters, table(x, reverse=True), name="character_model")


def generate(
    model: keras.Model,
    hafez: Alphabet,
    start: str,
    letters: int,
    *,
    seed: int,
    temperature: float = 0.8,
) -> str:
    """Return `start` continued by as many `letters`, drawn one by one from the model's predictions.

    `model` maps letters `(batch, length)` to logits, as `build` makes it, quantized or not; `hafez`
    encodes and decodes, as `datasets.load_hafez()` does. Two models get the same random numbers
    from the same `seed`, and so write the same text for as long as they agree closely enough.
    A `temperature` near 0 takes the likeliest letter, a high one takes risks.

    Each letter is one call on an array of the same shape, so that JAX compiles once. Raises
    ValueError for an empty start and for a temperature that is not positive.
    """
    if not start or not temperature > 0:
        raise ValueError(
            "writing needs a first letter and a positive temperature. "
            f"Received: start={start!r}, temperature={temperature}. "
            "Start with a newline for a new hemistich; 0.8 is a fair temperature."
        )
    rng = np.random.default_rng(seed)
    codes = list(hafez.encode(start))
    length = model.input_shape[1]
    for _ in range(letters):
        seen = codes[-length:]
        # Causal: what stands after the last letter seen cannot change the prediction there.
        padded = np.array([seen + [0] * (length - len(seen))], "int32")
        logits = np.asarray(model.predict_on_batch(padded)[0, len(seen) - 1], "float64")
        codes.append(_draw(logits / temperature, rng.random()))
    return hafez.decode(np.array(codes))


def _draw(logits, chance):
    """The letter at `chance`, a number in [0, 1), when the letters share that length by odds."""
    odds = np.exp(logits - logits.max()).cumsum()
    return int(np.searchsorted(odds, chance * odds[-1], side="right"))


@keras.saving.register_keras_serializable(_PACKAGE)
class Positions(layers.Layer):
    """Adds to each vector of `(batch, length, width)` a learned one that says where it stands."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer="uniform", name="table")

    def call(self, x: Any) -> Any:
        return x + ops.cast(self.table, x.dtype)


@keras.saving.register_keras_serializable(_PACKAGE)
class Block(layers.Layer):
    """Causal attention, then two dense layers on each letter, each added to what it was given.

    Maps `(batch, length, width)` to the same shape. It holds only layers that Keras quantizes, and
    the normalizations, which stay in floating point.
    """

    def __init__(self, heads: int, **options: Any):
        super().__init__(**options)
        self.heads = heads

    def build(self, shape: tuple[int, ...]) -> None:
        width = shape[-1]
        options = {"dtype": self.dtype_policy}
        self.attention_norm = layers.LayerNormalization(name="attention_norm", **options)
        self.attention = layers.MultiHeadAttention(
            self.heads, width // self.heads, name="attention", **options
        )
        self.dense_norm = layers.LayerNormalization(name="dense_norm", **options)
        self.widen = layers.Dense(4 * width, activation="gelu", name="widen", **options)
        self.narrow = layers.Dense(width, name="narrow", **options)
        for layer in (self.attention_norm, self.dense_norm, self.widen):
            layer.build(shape)
        self.attention.build(shape, shape)
        self.narrow.build((*shape[:-1], 4 * width))

    def call(self, x: Any) -> Any:
        seen = self.attention_norm(x)
        x = x + self.attention(seen, seen, use_causal_mask=True)
        return x + self.narrow(self.widen(self.dense_norm(x)))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"heads": self.heads}
