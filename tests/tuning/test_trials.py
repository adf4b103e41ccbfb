"""Tables, best trials and best epochs, against searches whose scores are written down first."""

import keras
import keras_tuner as kt
import numpy as np
import pytest
from toy_searches import (
    Numbers,
    make_network,
    make_numbers,
    network,
    search_numbers,
    train,
)

from chapter18 import tuning

RESULTS = [[2.0, 4.0], [1.0, 1.5], RuntimeError("the network was too wide"), [np.inf, 1.0]]


def test_the_table_holds_every_execution(tmp_path):
    table = tuning.trials_table(search_numbers(tmp_path, RESULTS))
    assert list(table.columns) == [
        *("trial", "status", "score", "std", "execution_1", "execution_2"),
        *("best_epoch", "epochs", "seconds", "width"),
    ]
    assert list(table["trial"]) == ["0", "1", "2", "3"]
    assert list(table["status"]) == ["COMPLETED", "COMPLETED", "FAILED", "FAILED"]
    np.testing.assert_array_equal(table["score"][:2], [3.0, 1.25])
    np.testing.assert_array_equal(table["score"].isna(), [False, False, True, True])
    np.testing.assert_allclose(table["std"][:2], [np.sqrt(2.0), np.sqrt(0.125)])
    np.testing.assert_array_equal(table["execution_1"], [2.0, 1.0, np.nan, np.inf])
    assert (table["seconds"] > 0).all()
    assert table["width"].between(0, 1).all()
    assert table["width"].nunique() == 4


def test_the_table_is_the_same_after_a_resume(tmp_path):
    before = tuning.trials_table(search_numbers(tmp_path, RESULTS))
    after = tuning.trials_table(make_numbers(tmp_path, RESULTS))
    assert after.equals(before)


def test_the_table_of_one_execution_has_no_spread(tmp_path):
    table = tuning.trials_table(search_numbers(tmp_path, [1.0, 2.0]))
    assert "execution_2" not in table
    assert table["std"].isna().all()


def test_the_table_before_any_trial_is_empty(tmp_path):
    assert len(tuning.trials_table(make_numbers(tmp_path))) == 0


def test_a_hyperparameter_may_have_the_name_of_a_column(tmp_path):
    hp = kt.HyperParameters()
    hp.Fixed("score", 7)
    hp.Float("width", 0.0, 1.0)
    table = tuning.trials_table(search_numbers(tmp_path, [3.0], hyperparameters=hp))
    assert table["score"][0] == 3.0
    assert table["hp score"][0] == 7


def test_an_inactive_hyperparameter_is_missing(tmp_path):
    hp = kt.HyperParameters()
    hp.Choice("kind", ["plain", "deep"])
    with hp.conditional_scope("kind", ["deep"]):
        hp.Int("depth", 2, 9)
    table = tuning.trials_table(search_numbers(tmp_path, [1.0] * 5, hyperparameters=hp))
    np.testing.assert_array_equal(table["depth"].isna(), table["kind"] == "plain")
    assert set(table["kind"]) == {"plain", "deep"}


def test_a_hyperparameter_that_no_trial_had_is_missing_everywhere(tmp_path):
    hp = kt.HyperParameters()
    hp.Fixed("kind", "plain")
    with hp.conditional_scope("kind", ["deep"]):
        hp.Int("depth", 2, 9)
    table = tuning.trials_table(search_numbers(tmp_path, [1.0, 2.0], hyperparameters=hp))
    assert list(table.columns[-2:]) == ["kind", "depth"]
    assert table["depth"].isna().all()


def test_best_takes_completed_finite_trials_only(tmp_path):
    tuner = search_numbers(tmp_path, RESULTS)
    assert [trial.trial_id for trial in tuning.best(tuner, n=2)] == ["1", "0"]
    with pytest.raises(
        ValueError, match=r"n=3, but 2 of 4 trials.* val_loss was inf in execution 1"
    ):
        tuning.best(tuner, n=3)


def test_best_follows_the_direction(tmp_path):
    tuner = search_numbers(tmp_path, [1.0, 3.0, 2.0], objective=("val_gain", "max"))
    assert [trial.score for trial in tuning.best(tuner, n=3)] == [3.0, 2.0, 1.0]


def test_best_names_the_last_failure(tmp_path):
    tuner = search_numbers(tmp_path, [1.0, ValueError("first"), ValueError("second")])
    with pytest.raises(ValueError, match=r"last failure, trial 2: ValueError: second$"):
        tuning.best(tuner, n=2)


def test_best_without_a_failure_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="Search for longer, or ask for fewer"):
        tuning.best(search_numbers(tmp_path, [1.0]), n=2)


def test_a_failure_keeps_its_message_after_a_resume(tmp_path):
    search_numbers(tmp_path, [np.nan, 2.0])
    with pytest.raises(ValueError, match="val_loss was nan in execution 1"):
        tuning.best(make_numbers(tmp_path, [np.nan, 2.0]), n=2)


def test_a_retry_replaces_the_score_it_repeats(tmp_path):
    class Second(Numbers):
        def run_trial(self, *_, **__):
            self.runs = getattr(self, "runs", 0) + 1
            return np.nan if self.runs == 1 else 4.0

    options = {"tuner_class": Second, "max_trials": 1, "max_retries_per_trial": 1}
    tuner = make_numbers(tmp_path, **options)
    tuner.search(verbose=0)
    assert tuning.best(tuner)[0].score == 4.0


class Scripted(kt.HyperModel):
    """Trains for real, then puts the accuracies in `curves` into the history, one an execution."""

    curves = ([0.5, 0.9, 0.7], [0.6, 0.6, 0.95])

    def build(self, hp):
        return network(hp)

    def fit(self, _hp, model, *args, **kwargs):
        history = model.fit(*args, **kwargs)
        self.fits = getattr(self, "fits", 0) + 1
        history.history["val_accuracy"] = self.curves[self.fits - 1]
        return history


def test_the_best_epoch_is_that_of_the_best_execution(tmp_path):
    options = {"max_trials": 1, "executions_per_trial": 2}
    tuner = train(make_network(tmp_path, build=Scripted(), **options), epochs=3)
    row = tuning.trials_table(tuner).iloc[0]
    assert (row["execution_1"], row["execution_2"]) == (0.9, 0.95)
    assert row["score"] == pytest.approx(0.925)
    assert (row["best_epoch"], row["epochs"]) == (3, 6)
    assert tuning.best_epoch(tuner, tuning.best(tuner)[0]) == 3


def test_hyperband_counts_the_epochs_of_earlier_rounds(tmp_path):
    tuner = train(
        make_network(tmp_path, tuner_class=kt.Hyperband, max_epochs=3, factor=3),
        callbacks=[keras.callbacks.EarlyStopping("val_loss", patience=9)],
    )
    table = tuning.trials_table(tuner).set_index("trial")
    promoted = table[table["tuner/initial_epoch"] > 0]
    assert len(promoted) >= 1
    assert (promoted["best_epoch"] > promoted["tuner/initial_epoch"]).all()
    assert (table["epochs"] == table["tuner/epochs"] - table["tuner/initial_epoch"]).all()


def test_a_score_without_epochs_has_no_best_epoch(tmp_path):
    tuner = search_numbers(tmp_path, [1.0])
    with pytest.raises(ValueError, match=r"needs the History.* Received: trial 0"):
        tuning.best_epoch(tuner, tuning.best(tuner)[0])


def test_a_failed_trial_has_no_best_epoch(tmp_path):
    tuner = search_numbers(tmp_path, [ValueError("wrong")])
    with pytest.raises(ValueError, match=r"have finished an execution.* status FAILED"):
        tuning.best_epoch(tuner, tuner.oracle.trials["0"])


def test_a_foreign_trial_is_refused(tmp_path):
    tuner = search_numbers(tmp_path, [1.0, 2.0])
    foreign = kt.engine.trial.Trial(kt.HyperParameters(), trial_id="9")
    with pytest.raises(ValueError, match=r"one of the tuner's own\. Received: '9'.* of 0, 1"):
        tuning.best_epoch(tuner, foreign)


def test_a_trial_of_another_search_is_refused_though_it_has_the_number(tmp_path):
    own = search_numbers(tmp_path / "own", [1.0, 2.0])
    scored = search_numbers(tmp_path / "scored", [1.5, 2.0])
    seeded = search_numbers(tmp_path / "seeded", [1.0, 2.0], seed=6)
    for other in (scored, seeded):
        trial = other.oracle.trials["0"]
        with pytest.raises(ValueError, match=r"one of the tuner's own\. Received: trial 0 with"):
            tuning.best_epoch(own, trial)
    again = make_numbers(tmp_path / "own", [1.0, 2.0]).oracle.trials["0"]
    with pytest.raises(ValueError, match="needs the History"):
        tuning.best_epoch(own, again)
    with pytest.raises(TypeError, match=r"must be a trial of Keras Tuner\. Received: '0'"):
        tuning.best_epoch(own, "0")


def test_a_plain_tuner_is_refused(tmp_path):
    plain = kt.RandomSearch(network, "val_loss", max_trials=1, directory=tmp_path)
    with pytest.raises(TypeError, match=r"come from tuning\.make_tuner.* Received: .*RandomSearch"):
        tuning.trials_table(plain)
