"""The data of the course, shipped inside the package: nothing here ever asks the network."""

from importlib import resources
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

VALIDATION_ROWS = 10_000


class Mnist(NamedTuple):
    """MNIST in three splits. Images `(rows, 28, 28)` float32 in [0, 1]; labels `(rows,)` int32."""

    x_train: Float[np.ndarray, "50000 28 28"]
    y_train: Int[np.ndarray, " 50000"]
    x_val: Float[np.ndarray, "10000 28 28"]
    y_val: Int[np.ndarray, " 10000"]
    x_test: Float[np.ndarray, "10000 28 28"]
    y_test: Int[np.ndarray, " 10000"]


def load_mnist() -> Mnist:
    """Return MNIST as a `Mnist`: 50,000 training, 10,000 validation and 10,000 test images.

    Images are float32 `(rows, height 28, width 28)`, grey levels divided by 255; labels are int32
    `(rows,)`, digits 0 to 9. The split is the same at every call: validation is the last 10,000 of
    the original 60,000 training images, test is the original test set. Add a channel axis with
    `x[..., None]` where a layer wants one.

    Data: Yann LeCun and Corinna Cortes, CC BY-SA 3.0 (`chapter18/data/LICENSE-DATA.md`).
    """
    path = resources.files("chapter18") / "data" / "mnist.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x, x_test = (_pixels(arrays[name]) for name in ("x_train", "x_test"))
        y, y_test = (arrays[name].astype("int32") for name in ("y_train", "y_test"))
    cut = len(x) - VALIDATION_ROWS
    return Mnist(x[:cut], y[:cut], x[cut:], y[cut:], x_test, y_test)


def _pixels(images):
    return images.astype("float32") / np.float32(255)


class Hafez(NamedTuple):
    """The ghazals of Hafez: `text`, one hemistich a line, and the sorted `alphabet` it uses.

    A character's code is its place in the alphabet.
    """

    text: str
    alphabet: str

    def encode(self, text: str) -> Int[np.ndarray, " characters"]:
        """Return the codes of the characters of `text`, int32 `(characters,)`.

        Raises ValueError for a character that is not in the alphabet.
        """
        codes = {letter: code for code, letter in enumerate(self.alphabet)}
        strangers = sorted(set(text) - set(codes))
        if strangers:
            raise ValueError(
                "Text is encoded with the alphabet of the ghazals. "
                f"Received: {', '.join(map(repr, strangers))}. "
                f"Use only these characters: {self.alphabet!r}."
            )
        return np.array([codes[letter] for letter in text], "int32")

    def decode(self, codes: Int[np.ndarray, " characters"]) -> str:
        """Return the text that the whole numbers `codes` `(characters,)` stand for.

        Raises ValueError for a number that is no place in the alphabet.
        """
        codes = np.asarray(codes)
        if codes.size and not 0 <= codes.min() <= codes.max() < len(self.alphabet):
            raise ValueError(
                "A code is a place in the alphabet. "
                f"Received: codes from {codes.min()} to {codes.max()}. "
                f"Pass whole numbers from 0 to {len(self.alphabet) - 1}."
            )
        return "".join(self.alphabet[code] for code in codes)


def load_hafez() -> Hafez:
    """Return the ghazals of Hafez as a `Hafez`: 495 poems, a blank line between two of them.

    Poems: Shams al-Din Muhammad Hafez of Shiraz, 14th century, public domain; the source of this
    typing is named in `chapter18/data/LICENSE-DATA.md`.
    """
    text = (resources.files("chapter18") / "data" / "hafez.txt").read_text(encoding="utf-8")
    return Hafez(text, "".join(sorted(set(text))))
