"""What a search was called with: compared when it goes on, and refused where it cannot repeat."""

import itertools

import jax.numpy as jnp
import keras
import keras_tuner as kt
import numpy as np
import pandas as pd
import pytest
from child import run_child
from toy_searches import data, make_network, make_numbers, search_numbers, train

from chapter18 import tuning
from chapter18.tuning import _searches


class Batches(keras.utils.PyDataset):
    """`count` batches, which must not be read."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raise AssertionError("a description must not read the data")


def _changes(before, now):
    return _searches.changes(_searches.describe(before), _searches.describe(now))


def test_other_epochs_batches_and_data_are_not_ranked_together(tmp_path):
    def make():
        return make_network(tmp_path, max_trials=4)

    stop = keras.callbacks.EarlyStopping("val_loss", patience=3)
    tuner = make_network(tmp_path, max_trials=1)
    train(tuner, epochs=1, callbacks=[stop])
    x, y = data()
    later = {"validation_data": data(1), "batch_size": 16, "epochs": 1, "callbacks": [stop]}
    cases = [
        ({"epochs": 20}, "epochs 20 instead of 1"),
        ({"batch_size": 32}, "batch_size 32 instead of 16"),
        ({"validation_data": data(2)}, r"validation_data \['float32 \(64, 4\) #"),
        ({"validation_data": None, "validation_split": 0.5}, "validation_split 0.5 instead of 0.0"),
        ({"y": 1 - y}, r"y int32 \(64,\) #\w+ instead of int32 \(64,\) #"),
        ({"callbacks": []}, r"callbacks None instead of \['EarlyStopping\(.*patience=3"),
        ({"class_weight": {0: 2.0, 1: 1.0}}, "class_weight {'0': 2.0, '1': 1.0} instead of None"),
    ]
    for change, message in cases:
        arguments = {"x": x, "y": y, **later, **change, "verbose": 0}
        # A tuner made again, and the one that has searched.
        for each in (make(), tuner):
            with pytest.raises(ValueError, match=rf"(?s)is resumed with the data.*: .*{message}"):
                each.search(**arguments)
    free = {"callbacks": [stop, keras.callbacks.History()], "verbose": 1}
    longer = make_network(tmp_path, max_trials=2)
    longer.search(jnp.asarray(x), y, **later | free)
    assert len(tuning.trials_table(longer)) == 2


def test_a_search_without_an_ended_trial_may_change_its_arguments(tmp_path):
    tuner = make_network(tmp_path, objective=("val_f1_score", "max"))
    with pytest.raises(kt.errors.FatalValueError):
        train(tuner, epochs=1)
    with pytest.raises(kt.errors.FatalValueError):
        train(tuner, epochs=2)


def test_a_search_of_an_earlier_version_goes_on(tmp_path, monkeypatch):
    search_numbers(tmp_path, [1.0])
    tuner = make_numbers(tmp_path, [1.0, 2.0])
    monkeypatch.setattr(tuner, "searched", None)
    tuner.search(epochs=2, verbose=0)
    assert len(tuner.oracle.trials) == 2


def test_a_change_of_one_value_a_dtype_a_shape_or_an_order_is_seen():
    x = np.arange(24, dtype="float32").reshape(6, 4)
    other = x.copy()
    other[3, 1] += 1
    described = [
        *(x, other, x.astype("float64"), x.reshape(4, 6), x[::-1], x[:5], x.astype("int32")),
        *({"a": x}, [x], [x, x], pd.DataFrame(x), pd.DataFrame(other), x.astype(str)),
        *(x.astype(object), np.where(other > 0, "ب", "پ").astype(object), [1, 2], [1, 3]),
    ]
    texts = [str(_searches.describe({"x": each})) for each in described]
    assert len(set(texts)) == len(texts)
    same = [x, x.copy(), np.asfortranarray(x), jnp.asarray(x)]
    assert len({str(_searches.describe({"x": each})) for each in same}) == 1


def test_what_says_the_same_is_the_same():
    x, y = data()
    positions = _searches.named((x, y, 32, 1), {"verbose": 2})
    assert _changes(positions, {"x": x, "y": y, "sample_weight": None, "shuffle": True}) == []
    assert _changes({"factor": float("nan")}, {"factor": np.float32("nan")}) == []
    watching = keras.callbacks.LambdaCallback(on_epoch_end=print)
    assert _changes({"callbacks": [watching]}, {}) == []
    patient = [keras.callbacks.EarlyStopping(patience=n) for n in (1, 2)]
    assert len(_changes({"callbacks": patient[:1]}, {"callbacks": patient[1:]})) == 1


def test_datasets_are_described_without_reading_them():
    assert _changes({"x": Batches(3)}, {"x": Batches(3)}) == []
    assert _changes({"x": Batches(3)}, {"x": Batches(4)}) == [
        "x Batches of length 4 instead of Batches of length 3"
    ]
    assert len(_changes({"x": Batches(3)}, {"x": data()[0]})) == 1


def test_a_description_is_the_same_in_another_process():
    x = np.arange(40.0).reshape(10, 4)
    code = """
import numpy as np
from chapter18.tuning import _searches
print(_searches.describe({"x": {"a": np.arange(40.0).reshape(10, 4)}, "epochs": 3}))
"""
    here = str(_searches.describe({"x": {"a": x}, "epochs": 3}))
    assert run_child(code, devices=0).strip() == here


def test_large_data_are_sampled():
    x = np.zeros((30_000, 28, 28), "float32")
    assert _searches._sample(x).nbytes <= 2**24 < x.nbytes
    before = _searches.describe({"x": x})
    x[:] = 1
    assert _searches.changes(before, _searches.describe({"x": x}))
    wide = np.zeros((2, 5_000_000), "float32")
    assert _searches._sample(wide).nbytes < 2**25


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([data()]),
        lambda: zip([data()[0]], [data()[1]], strict=True),
        lambda: itertools.cycle([data()]),
        lambda: ((x, x) for x in "ab"),
    ],
)
def test_what_can_be_read_once_is_refused_before_the_first_trial(tmp_path, make):
    tuner = make_network(tmp_path)
    message = r"from their beginning\. Received: {} of type .* can be read once\. Pass arrays"
    for name, arguments in [
        ("x", {"x": make(), "validation_data": data(1)}),
        ("validation_data", {"x": data()[0], "y": data()[1], "validation_data": make()}),
        ("x", {"x": {"a": [make()]}}),
    ]:
        with pytest.raises(TypeError, match=message.format(name)):
            tuner.search(**arguments, verbose=0)
    with pytest.raises(TypeError, match=message.format("x")):
        tuner.search(make(), epochs=1)
    assert tuner.oracle.trials == {}


@pytest.mark.parametrize("name", ["epochs", "batch_size"])
def test_epochs_that_are_no_positive_integer_are_refused(tmp_path, name):
    tuner = make_network(tmp_path)
    with pytest.raises(ValueError, match=rf"positive integers\. Received: {name}=0"):
        tuner.search(*data(), **{name: 0})
    assert tuner.oracle.trials == {}
