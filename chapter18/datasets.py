"""The data of the course, shipped inside the package: nothing here ever asks the network."""

from importlib import resources
from typing import NamedTuple

import numpy as np

VALIDATION_ROWS = 10_000


class Mnist(NamedTuple):
    """MNIST in three splits. Images `(rows, 28, 28)` float32 in [0, 1]; labels `(rows,)` int32."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_val: np.ndarray
    y_val: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_mnist():
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
