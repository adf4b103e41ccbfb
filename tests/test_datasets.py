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


@pytest.fixture(scope="module")
def hafez():
    return datasets.load_hafez()


def test_known_facts_of_the_ghazals(hafez):
    poems = hafez.text.strip().split("\n\n")
    assert len(poems) == 495
    assert poems[0].startswith("الا یا ایها الساقی ادر کاسا و ناولها\nکه عشق آسان نمود اول")
    # Hemistichs come in pairs.
    assert all(len(poem.split("\n")) % 2 == 0 for poem in poems)
    # 32 Persian letters, hamza alone and on its seat, alef with its hat; space and new line.
    letters = "ابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی" + "آئء"
    assert set(hafez.alphabet) == set(letters + " \n")
    assert list(hafez.alphabet) == sorted(hafez.alphabet)


def test_codes_are_places_in_the_alphabet_and_come_back_as_text(hafez):
    codes = hafez.encode(hafez.text)
    assert (codes.dtype, codes.shape) == (np.int32, (len(hafez.text),))
    assert [hafez.alphabet[code] for code in codes[:500]] == list(hafez.text[:500])
    assert hafez.decode(codes) == hafez.text
    assert hafez.decode([]) == "" == hafez.decode(hafez.encode(""))


def test_a_letter_outside_the_alphabet_is_refused(hafez):
    with pytest.raises(ValueError, match=r"alphabet of the ghazals.*Received: 'H', 'z'\. Use only"):
        hafez.encode("zH")


@pytest.mark.parametrize("codes", [[0, 37], [-1, 3]])
def test_a_code_outside_the_alphabet_is_refused(hafez, codes):
    with pytest.raises(ValueError, match=r"place in the alphabet.*Received: codes from .* 0 to 36"):
        hafez.decode(codes)
