"""make_tuner: what it refuses, what it repeats, and what it leaves as it was."""

import copy
import gc
import random
from pathlib import Path

import jax
import keras
import keras_tuner as kt
import numpy as np
import pytest
from toy_searches import Numbers, data, make_network, make_numbers, network, search_numbers, train

from chapter18 import tuning


@pytest.mark.parametrize(
    ("objective", "direction"),
    [
        ("val_accuracy", "max"),
        ("val_loss", "min"),
        ("auc", "max"),
        (("val_f1_score", "max"), "max"),
        (kt.Objective("val_cosine_similarity", "max"), "max"),
    ],
)
def test_the_direction_of_an_objective(tmp_path, objective, direction):
    assert make_numbers(tmp_path, objective=objective).oracle.objective.direction == direction


def test_a_list_of_objectives_is_summed(tmp_path):
    tuner = make_numbers(tmp_path, objective=["val_loss", ("val_f1_score", "max")])
    assert tuner.oracle.objective.get_value({"val_loss": 5.0, "val_f1_score": 2.0}) == 3.0


@pytest.mark.parametrize("name", ["val_f1_score", "val_r2_score", "val_cosine_similarity"])
def test_a_guessed_direction_is_refused(tmp_path, name):
    assert kt.RandomSearch(network, objective=name, directory=tmp_path).oracle.objective.direction
    with pytest.raises(ValueError, match=rf"must have a known name\. Received: '{name}'.*accuracy"):
        make_numbers(tmp_path, objective=name)


def test_an_unknown_direction_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r'must be "min" or "max"\. Received: .up.'):
        make_numbers(tmp_path, objective=("val_f1_score", "up"))


def test_an_objective_of_another_kind_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"must be a name, a pair.* Received: 3"):
        make_numbers(tmp_path, objective=3)


def test_a_grid_of_doubling_widths_builds_with_integers(tmp_path):
    def doubling(hp):
        model = network(hp)
        hp.Int("width", 2, 8, step=2, sampling="log")
        return model

    tuner = train(make_network(tmp_path, tuner_class=kt.GridSearch, build=doubling, max_trials=3))
    widths = [trial.hyperparameters["width"] for trial in tuner.oracle.trials.values()]
    assert {(width, type(width)) for width in widths} == {(2, int), (4, int), (8, int)}


@pytest.mark.parametrize("seed", [0, -1, 1.5])
def test_a_seed_that_is_not_a_positive_integer_is_refused(tmp_path, seed):
    with pytest.raises(ValueError, match=f"positive integer.* Received: seed={seed}"):
        make_numbers(tmp_path, seed=seed)


@pytest.mark.parametrize("name", ["executions_per_trial", "max_trials"])
def test_a_count_that_is_not_a_positive_integer_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"positive integers\. Received: {name}=0\.5"):
        make_numbers(tmp_path, **{name: 0.5})


@pytest.mark.parametrize("name", ["", ".", "..", None])
def test_a_name_that_is_no_folder_of_its_own_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"folder for this search alone. Received: {name!r}"):
        make_numbers(tmp_path, project_name=name)


def test_a_name_as_long_as_a_file_system_allows_is_taken(tmp_path):
    options = {"project_name": "n" * 247}
    search_numbers(tmp_path, [1.0], **options)
    tuner = make_numbers(tmp_path, [1.0, 2.0], overwrite=True, **options)
    assert Path(tuner.project_dir).name == "n" * 247


def test_numbers_of_numpy_are_as_good_as_pythons(tmp_path):
    hp = kt.HyperParameters()
    hp.Float("width", np.float32(0.0), np.float32(1.0), default=np.float32(0.5))
    hp.Int("depth", np.int64(1), np.int64(9), default=np.int64(3))
    options = {"hyperparameters": hp, "objective": "val_loss", "seed": np.int64(5)}
    options |= {"max_trials": np.int64(2), "executions_per_trial": np.int64(3)}
    results = [{"val_loss": np.float32(2.0)}, [{"val_loss": np.float32(3.0)}, np.float64(4.0)]]
    tuner = make_numbers(tmp_path, results, **options)
    tuner.search(epochs=np.int64(2), batch_size=np.int32(4), verbose=0)
    plain = {"seed": 5, "max_trials": 2, "executions_per_trial": 3}
    resumed = make_numbers(tmp_path, results, **options | plain)
    resumed.search(epochs=2, batch_size=4, verbose=0)
    assert [trial.score for trial in resumed.oracle.trials.values()] == [2.0, 3.5]
    with pytest.raises(ValueError, match="executions_per_trial 2 instead of 3"):
        make_numbers(tmp_path, results, **options | {"executions_per_trial": np.int64(2)})


def test_a_class_that_is_no_tuner_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"class of Keras Tuner.* Received: .*SklearnTuner"):
        make_network(tmp_path, tuner_class=kt.SklearnTuner)


@pytest.mark.parametrize("hypermodel", [3, None])
def test_a_hypermodel_that_cannot_build_is_refused(tmp_path, hypermodel):
    with pytest.raises(TypeError, match=f"must be a function build.* Received: {hypermodel}"):
        make_network(tmp_path, build=hypermodel)


def test_hyperband_refuses_epochs(tmp_path):
    tuner = make_network(tmp_path, tuner_class=kt.Hyperband, max_epochs=2)
    with pytest.raises(ValueError, match=r"chooses the number of epochs.* Received: epochs=3"):
        tuner.search(*data(), epochs=3)


def test_a_missing_objective_stops_the_search_after_one_epoch(tmp_path):
    epochs = []
    count = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, _logs: epochs.append(epoch))
    tuner = make_network(tmp_path, objective=("val_f1_score", "max"))
    with pytest.raises(
        kt.errors.FatalValueError,
        match=r"training logs\. Received: .*val_f1_score.* accuracy, loss, val_accuracy, val_loss",
    ):
        train(tuner, callbacks=[count], epochs=5)
    assert len(epochs) == 1
    assert tuner.oracle.end_order == []


def test_an_own_fit_may_log_the_objective_late_but_must_log_it(tmp_path):
    class Own(kt.HyperModel):
        def build(self, hp):
            return network(hp)

        def fit(self, _hp, model, *args, **kwargs):
            return model.fit(*args, **kwargs)

    with pytest.raises(kt.errors.FatalValueError, match="logs hold accuracy, loss"):
        train(make_network(tmp_path, build=Own(), objective=("val_f1_score", "max")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "val_accuracy"}, "objective .*val_accuracy.* instead of .*val_loss"),
        ({"objective": ("val_loss", "max")}, '.*direction="max".* instead of .*direction="min"'),
        ({"seed": 6}, "seed 6 instead of 5"),
        ({"executions_per_trial": 2}, "executions_per_trial 2 instead of None"),
    ],
)
def test_a_changed_search_is_not_resumed(tmp_path, change, message):
    search_numbers(tmp_path, [1.0, 2.0])
    with pytest.raises(ValueError, match=f"resumed with the space.* Received: {message}"):
        make_numbers(tmp_path, [1.0, 2.0], **change)
    assert len(make_numbers(tmp_path, [1.0, 2.0]).oracle.trials) == 2


def test_a_changed_space_is_not_resumed(tmp_path):
    hp = kt.HyperParameters()
    hp.Float("width", 0.0, 2.0)
    hp.Int("depth", 1, 3)
    search_numbers(tmp_path, [1.0])
    with pytest.raises(ValueError, match="another space, changed in depth, width"):
        make_numbers(tmp_path, [1.0], hyperparameters=hp)


def test_a_space_changed_inside_build_is_not_resumed(tmp_path):
    train(make_network(tmp_path, max_trials=1), epochs=1)

    def wider(hp):
        hp.Boolean("dropout")
        return network(hp)

    with pytest.raises(ValueError, match="another space, changed in dropout"):
        make_network(tmp_path, build=wider, max_trials=1)


def test_another_tuner_class_is_not_resumed(tmp_path):
    class Others(Numbers):
        pass

    search_numbers(tmp_path, [1.0])
    with pytest.raises(ValueError, match="tuner class Others instead of Numbers"):
        make_numbers(tmp_path, [1.0], tuner_class=Others)


def test_a_search_without_a_finished_trial_may_change(tmp_path):
    make_numbers(tmp_path, objective=("val_typo", "min"))
    assert make_numbers(tmp_path).oracle.objective.name == "val_loss"


def test_a_search_of_plain_keras_tuner_is_not_resumed(tmp_path):
    plain = kt.RandomSearch(network, "val_loss", directory=tmp_path, project_name="numbers")
    plain.save()
    with pytest.raises(ValueError, match=r"only if make_tuner began it. Received: .*numbers"):
        make_numbers(tmp_path)


def test_overwrite_starts_afresh(tmp_path):
    search_numbers(tmp_path, [1.0, 2.0])
    tuner = make_numbers(tmp_path, [1.0], seed=9, overwrite=True)
    assert tuner.oracle.trials == {}
    assert not list(tmp_path.glob("**/trial_*"))


def test_more_trials_go_on_where_fewer_stopped(tmp_path):
    search_numbers(tmp_path, [1.0, 2.0])
    longer = search_numbers(tmp_path, [9.0, 9.0, 3.0])
    assert [trial.score for trial in longer.oracle.trials.values()] == [1.0, 2.0, 3.0]


def test_one_seed_fixes_trials_and_scores(tmp_path):
    def table(name, seed):
        tuner = train(make_network(tmp_path / name, seed=seed, objective="val_loss"))
        return tuning.trials_table(tuner).drop(columns="seconds")

    first = table("first", 3)
    assert first.equals(table("second", 3))
    assert not first["score"].equals(table("third", 4)["score"])


def test_every_execution_has_its_own_seed():
    seeds = {tuning.execution_seed(s, t, e) for s in (1, 2) for t in "01" for e in (0, 1, 2)}
    assert len(seeds) == 12
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_a_search_leaves_global_state_as_it_was(tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    policies = []

    def build(hp):
        model = network(hp)
        policies.append(model.layers[0].dtype_policy.name)
        return model

    options = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in options]
    numbers = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    train(make_network(tmp_path, build=build, compilation_cache="auto", max_trials=1))
    assert [getattr(jax.config, name) for name in options] == before
    assert (random.getstate(), np.random.get_state()[1].tolist()) == numbers  # noqa: NPY002
    assert gc.get_freeze_count() == 0
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    assert set(policies) == {"mixed_bfloat16"}
    assert list((tmp_path / "compilation_cache").glob("**/*-cache"))


def test_a_search_leaves_a_freeze_of_the_user_alone(tmp_path):
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        search_numbers(tmp_path, [[3.0], [1.0], [2.0]])
        assert 0 < gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


def test_a_compilation_cache_survives_entries_torn_by_a_kill(tmp_path):
    cache = tmp_path / "cache"
    train(make_network(tmp_path, project_name="one", compilation_cache=cache, max_trials=1))
    for entry in cache.glob("*-cache"):
        entry.write_bytes(entry.read_bytes()[:20])
    (cache / "chapter18_in_use").touch()
    for name in ("in_use", "family-cache"):
        (cache / name).write_text("somebody's")
    # A torn entry that JAX still found would warn; warnings are errors here, and fail the trial.
    tuner = make_network(tmp_path, project_name="two", compilation_cache=cache, max_trials=1)
    assert train(tuner).oracle.trials["0"].status == "COMPLETED"
    assert not (cache / "chapter18_in_use").exists()
    assert all((cache / name).read_text() == "somebody's" for name in ("in_use", "family-cache"))


class Hooks(kt.RandomSearch):
    """Counts the batches that Keras Tuner tells it of."""

    def on_batch_end(self, *_, **__):
        self.batches = getattr(self, "batches", 0) + 1


class Epochs(kt.RandomSearch):
    """Counts the epochs that Keras Tuner tells it of."""

    def on_epoch_end(self, *_, **__):
        self.epochs = getattr(self, "epochs", 0) + 1


def _fitted_callbacks(tmp_path, tuner_class):
    seen = []

    class Watched(kt.HyperModel):
        def build(self, hp):
            return network(hp)

        def fit(self, _hp, model, *args, callbacks, **kwargs):
            seen.extend(callbacks)
            return model.fit(*args, callbacks=callbacks, **kwargs)

    tuner = make_network(tmp_path, tuner_class=tuner_class, build=Watched(), max_trials=1)
    return train(tuner), seen


def test_no_callback_works_per_batch_unless_a_tuner_asks(tmp_path):
    tuner, callbacks = _fitted_callbacks(tmp_path, Epochs)
    assert tuner.epochs == 2
    assert callbacks
    for callback in callbacks:
        for hook in ("on_batch_begin", "on_batch_end", "on_train_batch_end"):
            assert getattr(type(callback), hook) is getattr(keras.callbacks.Callback, hook)


def test_batch_hooks_of_a_tuner_are_called(tmp_path):
    tuner, _ = _fitted_callbacks(tmp_path, Hooks)
    assert tuner.batches == 8


def test_the_hypermodel_stays_reachable(tmp_path):
    class Titled(kt.HyperModel):
        title = "mine"

        def build(self, hp):
            return network(hp)

    hypermodel = make_network(tmp_path, build=Titled()).hypermodel
    assert hypermodel.title == copy.copy(hypermodel).title == "mine"


def test_a_quiet_search_prints_nothing(tmp_path, capsys):
    search_numbers(tmp_path, [1.0, 2.0])
    search_numbers(tmp_path, [1.0, 2.0, 3.0])
    assert capsys.readouterr() == ("", "")
