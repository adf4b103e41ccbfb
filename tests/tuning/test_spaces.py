"""One name, one definition; a grid that knows its space before it begins."""

import keras_tuner as kt
import pytest
from toy_searches import Numbers, make_network, make_numbers, network, search_numbers, train

from chapter18 import tuning


def test_a_name_with_two_ranges_is_refused(tmp_path):
    def twice(hp):
        hp.Int("units", 2, 4, step=2)
        hp.Int("units", 8, 16)
        return network(hp)

    with pytest.raises(
        ValueError,
        match=r"one definition.* Received: Int\(name: 'units', min_value: 8, .* after Int\(.*: 2,",
    ):
        make_network(tmp_path, build=twice)


def test_a_name_with_two_kinds_is_refused(tmp_path):
    def twice(hp):
        hp.Int("rate", 1, 2)
        return network(hp)

    with pytest.raises(ValueError, match=r"one definition and.* Received: Float\(.* after Int\("):
        make_network(tmp_path, build=twice)


def test_a_name_behind_a_plain_if_with_another_range_is_refused(tmp_path):
    def branching(hp):
        if hp.Choice("size", ["small", "large"]) == "small":
            hp.Int("depth", 1, 2)
        else:
            hp.Int("depth", 8, 9)
        return network(hp)

    tuner = make_network(tmp_path, build=branching, max_trials=8)
    with pytest.raises(
        kt.errors.FatalValueError, match=r"one definition and.*.*: 8, .* after .*: 1, "
    ):
        train(tuner, epochs=1)


def test_keras_tuner_loses_a_name_under_two_conditions():
    hp = kt.HyperParameters()
    hp.Choice("size", ["small", "large"])
    for size in ("small", "large"):
        hp.Int("depth", 1, 9, parent_name="size", parent_values=[size])
    assert hp.values == {"size": "small", "depth": 1}
    hp.ensure_active_values()
    assert hp.values == {"size": "small"}


@pytest.mark.parametrize("conditions", [[None, "large"], ["small", "large"]])
def test_a_name_under_two_conditions_is_refused(tmp_path, conditions):
    def build(hp):
        hp.Choice("size", ["small", "large"])
        for value in conditions:
            if value is None:
                hp.Int("depth", 1, 9)
            else:
                hp.Int("depth", 1, 9, parent_name="size", parent_values=[value])
        return network(hp)

    with pytest.raises(ValueError, match=r"one condition\..* if size is one of \['large'\], after"):
        make_network(tmp_path, build=build)


def test_a_name_asked_for_again_in_a_trial_is_refused(tmp_path):
    class Asking(Numbers):
        def run_trial(self, trial, *_, **__):
            trial.hyperparameters.Int("depth", 1, 2)
            trial.hyperparameters.Int("depth", 8, 9)
            return 1.0

    with pytest.raises(kt.errors.FatalValueError, match="one definition and"):
        make_numbers(tmp_path, tuner_class=Asking).search(verbose=0)


def test_one_definition_may_be_repeated_and_overridden(tmp_path):
    asked = []

    def legitimate(hp):
        for _ in range(2):
            hp.Int("depth", 1, 3)
        hp.Choice("size", ["small", "large"])
        for _ in range(2):
            with hp.conditional_scope("size", ["large"]):
                hp.Int("width", 8, 9)
        asked.append(hp.get("depth"))
        return network(hp)

    given = kt.HyperParameters()
    given.Int("depth", 7, 7)
    options = {"build": legitimate, "max_trials": 4, "hyperparameters": given}
    table = tuning.trials_table(train(make_network(tmp_path, **options), epochs=1))
    assert set(asked) == {7}
    assert table["width"].notna().tolist() == (table["size"] == "large").tolist()


def _plain_if(hp):
    if hp.Choice("kind", ["plain", "deep"]) == "deep":
        hp.Choice("depth", [2, 3])
    return network(hp)


def test_a_grid_with_a_plain_if_is_refused_before_it_trains(tmp_path):
    options = {"tuner_class": kt.GridSearch, "build": _plain_if, "max_trials": None}
    tuner = make_network(tmp_path, **options)
    message = r"must know each hyperparameter.* Received: 'depth'.*inside hp\.conditional_scope"
    for each in (tuner, lambda: make_network(tmp_path, **options)):
        with pytest.raises(ValueError, match=message):
            train(each() if callable(each) else each, epochs=1)
    table = tuning.trials_table(make_network(tmp_path, **options))
    finished = table[table["status"] == "COMPLETED"]
    assert len(finished) > 0
    assert set(finished["kind"]) == {"plain"}


def test_a_grid_with_an_if_in_its_training_is_refused(tmp_path):
    class Training(kt.GridSearch):
        def run_trial(self, trial, *_, **__):
            hp = trial.hyperparameters
            if hp.Choice("kind", ["plain", "deep"]) == "deep":
                hp.Choice("depth", [2, 3])
            return 1.0

    for _ in range(2):
        tuner = make_numbers(tmp_path, tuner_class=Training, hyperparameters=None)
        with pytest.raises(ValueError, match=r"must know each hyper.* Received: 'depth'"):
            tuner.search(verbose=0)
    assert tuner.oracle.trials


def test_a_grid_may_ask_in_its_training_what_every_trial_asks(tmp_path):
    class Training(kt.GridSearch):
        def run_trial(self, trial, *_, **__):
            return float(trial.hyperparameters.Choice("depth", [2, 3]))

    hp = kt.HyperParameters()
    hp.Choice("width", [4, 5])
    options = {"tuner_class": Training, "hyperparameters": hp, "max_trials": 9}
    tuner = make_numbers(tmp_path, **options)
    tuner.search(verbose=0)
    table = tuning.trials_table(tuner)
    assert sorted(zip(table["width"], table["depth"], strict=True)) == [
        *((4, 2), (4, 3), (5, 2), (5, 3))
    ]


def test_odd_names_are_kept(tmp_path):
    names = ["", 'a/b\n"c"', "نرخ", "score", "tuner/x"]
    hp = kt.HyperParameters()
    for name in names:
        hp.Float(name, 0.0, 1.0)
    before = tuning.trials_table(search_numbers(tmp_path, [2.0, 1.0], hyperparameters=hp))
    after = tuning.trials_table(make_numbers(tmp_path, [2.0, 1.0], hyperparameters=hp))
    assert after.equals(before)
    assert len(before.columns) == 8 + len(names)
