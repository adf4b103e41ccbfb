import keras
import numpy as np
import pytest

from chapter18 import character_model
from chapter18.datasets import Hafez

LETTERS = 37
SIZES = {"length": 12, "width": 16, "heads": 2, "blocks": 2}


def small_model(**sizes):
    keras.utils.set_random_seed(1)
    model = character_model.build(LETTERS, **(SIZES | sizes))
    rng = np.random.default_rng(2)
    for variable in model.variables:
        variable.assign(variable + rng.normal(scale=0.2, size=variable.shape))
    return model


def some_letters(*shape):
    return np.random.default_rng(3).integers(0, LETTERS, shape).astype("int32")


def test_the_default_model_has_the_parameters_it_says():
    assert character_model.build(37).count_params() == 409_728


def test_a_changed_letter_never_changes_earlier_logits_and_does_change_later_ones():
    model = small_model()
    letters = some_letters(1, 12)
    before = model.predict_on_batch(letters)[0]
    assert before.shape == (12, LETTERS)
    for place in range(12):
        other = letters.copy()
        other[0, place] = (other[0, place] + 1) % LETTERS
        after = model.predict_on_batch(other)[0]
        np.testing.assert_array_equal(after[:place], before[:place])
        assert (np.abs(after[place:] - before[place:]).max(axis=1) > 1e-6).all()


def test_a_letter_counts_by_its_place():
    model = small_model(blocks=0)
    logits = model.predict_on_batch(np.full((1, 12), 5, "int32"))[0]
    assert len(np.unique(logits.round(4), axis=0)) == 12


def test_the_head_is_the_embedding_table():
    model = small_model(blocks=0)
    table = np.array(model.get_layer("table").embeddings)
    seen = model.get_layer("norm").output
    vectors = keras.Model(model.input, seen).predict_on_batch(some_letters(2, 12))
    expected = np.einsum("blw,vw->blv", vectors, table)
    logits = model.predict_on_batch(some_letters(2, 12))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


# Keras saves through a call that NumPy 2 deprecates.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_it_loads_from_a_file_as_it_was_saved(tmp_path):
    model = small_model()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    letters = some_letters(2, 12)
    np.testing.assert_array_equal(loaded.predict_on_batch(letters), model.predict_on_batch(letters))


def test_it_can_be_trained():
    model = small_model()
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    text = np.arange(200) % LETTERS
    train = character_model.windows(text, 12, stride=3)
    losses = model.fit(train.x, train.y, batch_size=21, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]


# Keras warns of each layer that it leaves in floating point, and 3.16 of all of them once.
@pytest.mark.filterwarnings("ignore:.model.quantize:UserWarning")
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_keras_quantizes_the_table_the_attention_and_the_dense_layers(mode):
    model = small_model(width=32, blocks=1)
    letters = some_letters(4, 12)
    before = model.predict_on_batch(letters)
    model.quantize(mode)
    block = ("query", "key", "value", "attention_output")
    block = [*(f"attention/{part}" for part in block), "widen", "narrow"]
    quantized = {v.path for v in model.variables if v.dtype == "int8"}
    kernels = {path for path in quantized if path.endswith(("kernel", "embeddings"))}
    assert kernels == {"table/embeddings", *(f"block_1/{part}/kernel" for part in block)}
    error = np.square(model.predict_on_batch(letters) - before).mean() / np.square(before).mean()
    assert error < {"int8": 1e-2, "int4": 0.2}[mode]


def test_windows_cut_the_text_and_look_one_letter_ahead():
    x, y = character_model.windows(np.arange(10), 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert y.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert x.dtype == y.dtype == "int32"
    assert character_model.windows(np.arange(6), 3, stride=1).x[:, 0].tolist() == [0, 1, 2]
    assert character_model.windows(np.arange(4), 3).y.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("codes", [np.arange(3), np.zeros((9, 2))])
def test_a_text_without_a_window_is_refused(codes):
    with pytest.raises(ValueError, match=r"letters and one more. Received: codes of shape .* Pass"):
        character_model.windows(codes, 3)


def test_windows_that_do_not_move_are_refused():
    with pytest.raises(ValueError, match=r"Received: stride=0. Pass a stride of 1 or more"):
        character_model.windows(np.arange(9), 3, stride=0)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match=r"Received: width=16, heads=3. Pass a multiple"):
        small_model(heads=3)


ALPHABET = Hafez("", "abcd")


class Fixed:
    """Stands for a model: always the same logits, and a note of what it was asked."""

    input_shape = (None, 4)

    def __init__(self, logits):
        self.logits, self.asked = np.array(logits, "float32"), []

    def predict_on_batch(self, letters):
        self.asked.append(letters)
        return np.broadcast_to(self.logits, (*letters.shape, len(self.logits)))


def write(model, letters=200, start="a", **options):
    options = {"seed": 1, "temperature": 1.0} | options
    return character_model.generate(model, ALPHABET, start, letters, **options)


def test_the_same_seed_writes_the_same_text():
    even = Fixed([0, 0, 0, 0])
    assert write(even) == write(even)
    assert write(even) != write(even, seed=2)
    assert len(write(even)) == 201


def test_letters_come_as_often_as_the_model_expects_them():
    logits = np.log([0.1, 0.2, 0.3, 0.4])
    text = write(Fixed(logits), 4000)[1:]
    found = [text.count(letter) / 4000 for letter in "abcd"]
    np.testing.assert_allclose(found, [0.1, 0.2, 0.3, 0.4], atol=0.03)
    sharper = np.array([0.1, 0.2, 0.3, 0.4]) ** 2
    text = write(Fixed(logits), 4000, temperature=0.5)[1:]
    found = [text.count(letter) / 4000 for letter in "abcd"]
    np.testing.assert_allclose(found, sharper / sharper.sum(), atol=0.03)


def test_a_low_temperature_takes_the_likeliest_letter():
    assert write(Fixed([0, 3, 2, 1]), 20, temperature=1e-6) == "a" + "b" * 20


def test_the_model_is_shown_the_last_letters_in_one_shape_and_read_at_the_last():
    class Next(Fixed):
        """Expects after each letter its successor."""

        def predict_on_batch(self, letters):
            self.asked.append(letters)
            return 100 * np.eye(4, dtype="float32")[(letters + 1) % 4]

    model = Next([0])
    assert write(model, 5, start="ab") == "abcdabc"
    assert [asked.tolist() for asked in model.asked] == [
        [[0, 1, 0, 0]],
        [[0, 1, 2, 0]],
        [[0, 1, 2, 3]],
        [[1, 2, 3, 0]],
        [[2, 3, 0, 1]],
    ]


@pytest.mark.parametrize("given", [{"start": ""}, {"temperature": 0}, {"temperature": -1}])
def test_writing_without_a_start_or_a_temperature_is_refused(given):
    with pytest.raises(ValueError, match=r"Received: start=.*, temperature=.* Start with"):
        write(Fixed([0, 0, 0, 0]), **given)
