import numpy as np
import pytest

from chapter18 import datasets


@pytest.fixture(scope="module")
def mnist():
    return datasets.load_mnist()


def test_shapes_and_types(mnist):
    rows = {"train": 50_000, "val": 10_000, "test": 10_000}
    for split, count in rows.items():
        x, y = getattr(mnist, f"x_{split}"), getattr(mnist, f"y_{split}")
        assert (x.shape, x.dtype) == ((count, 28, 28), np.float32)
        assert (y.shape, y.dtype) == ((count,), np.int32)
        assert set(np.unique(y)) == set(range(10))


def test_known_facts_of_the_60_000_training_images(mnist):
    x = np.concatenate([mnist.x_train, mnist.x_val]).astype("float64")
    assert round(x.mean(), 4) == 0.1307
    assert round(x.std(), 4) == 0.3081
    assert (x.min(), x.max()) == (0, 1)
    assert mnist.y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_same_split_every_time(mnist):
    again = datasets.load_mnist()
    for first, second in zip(mnist, again, strict=True):
        np.testing.assert_array_equal(first, second)
