import math

import keras
import numpy as np
import pytest
from keras import layers

from chapter18 import steps
from chapter18.mixed_precision._loss_scaling import LossScaleWatch
from chapter18.precision import policy

BATCH = 4


def compiled(optimizer=None, *, norm=False, **options):
    """A tiny model under the current policy, always with the same weights."""
    keras.utils.set_random_seed(1)
    hidden = [layers.Dense(8, activation="relu")] + [layers.BatchNormalization()] * norm
    model = keras.Sequential([keras.Input((3,)), *hidden, layers.Dense(2, dtype="float32")])
    model.compile(optimizer or keras.optimizers.SGD(0.01), "mse", **options)
    return model


def data(good, bad=0, value=np.inf):
    """As many batches of ordinary rows, then batches of rows with `value` in them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=((good + bad) * BATCH, 3)).astype("float32")
    x[good * BATCH :, 0] = value
    return x, np.ones((len(x), 2), "float32")


def fit(model, batches, watch=None, **options):
    callbacks = [watch] if watch else []
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0} | options
    return model.fit(*batches, callbacks=callbacks, **options)


def weights(model):
    return [np.array(variable.value) for variable in model.weights]


def all_finite(model):
    return all(np.isfinite(weight).all() for weight in weights(model))


def same(a, b):
    return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def stopped_at(model, batches, watch, match, **options):
    """The step at which `watch` stops training with a message that matches `match`."""
    with pytest.raises(RuntimeError, match=match):
        fit(model, batches, watch, **options)
    return int(watch.trace["step"].iloc[-1])


def test_without_a_watch_keras_lets_the_scale_reach_zero_and_the_weights_nan():
    with policy("mixed_float16"):
        model = compiled()
        (bad_x, bad_y), (x, y) = data(good=2, bad=200), data(good=2)
        fit(model, (np.concatenate([bad_x, x]), np.concatenate([bad_y, y])))
        assert float(model.optimizer.dynamic_scale.value) == 0.0
        assert not all_finite(model)


@pytest.mark.parametrize("good", [0, 1, 24, 25, 26, 60])
def test_a_scale_below_its_floor_stops_training_within_fifty_steps(good):
    with policy("mixed_float16"):
        model, watch = compiled(), LossScaleWatch()
        last = stopped_at(model, data(good, 200), watch, "must stay at or above its floor of 1.")
        # Sixteen halvings take 2 ** 15 below 1; the sixteenth bad batch is the event.
        assert 0 <= last - (good + 16) <= 50
        assert all_finite(model)
        assert int(model.optimizer.iterations) == good
        plain = compiled()
        fit(plain, data(good)) if good else None
        assert same(weights(model), weights(plain))


@pytest.mark.parametrize("good", [0, 1, 24, 25, 26, 60])
def test_no_update_stops_training_within_fifty_steps(good):
    with policy("mixed_float16"):
        model, watch = compiled(), LossScaleWatch(floor=2.0**-120)
        match = r"not one changed after step \d+, up to step \d+, loss scale.*more accumulation"
        last = stopped_at(model, data(good, 200), watch, match)
        assert 0 < last - good <= 50
        assert all_finite(model)


def fixed_scale(factor):
    return keras.optimizers.SGD(0.01, loss_scale_factor=factor)


@pytest.mark.parametrize(
    ("name", "optimizer", "value"),
    [
        ("mixed_float16", lambda: keras.optimizers.Adam(0.01), np.nan),
        ("mixed_float16", lambda: fixed_scale(2.0**10), np.inf),
        ("float32", lambda: keras.optimizers.SGD(0.01), np.nan),
        ("float16", lambda: keras.optimizers.Adam(0.01), 7e4),
    ],
)
def test_weights_that_are_not_finite_go_back_to_the_last_look(name, optimizer, value):
    with policy(name):
        options = {"auto_scale_loss": False}
        model, watch = compiled(optimizer(), **options), LossScaleWatch(every=10)
        match = (
            r"Received: inf or NaN in 'sequential.*/dense.*/kernel' and \d more after step 30; .*"
        )
        match += r"those of step 20\. Look for"
        assert stopped_at(model, data(24, 100, value), watch, match) == 30
        plain = compiled(optimizer(), **options)
        fit(plain, data(24), steps_per_epoch=20)
        assert same(weights(model), weights(plain))


def test_weights_that_are_broken_to_begin_with_are_told():
    model, watch = compiled(), LossScaleWatch()
    model.layers[0].kernel.assign(np.full((3, 8), np.nan, "float32"))
    match = r"finite before they are trained. Received: inf or NaN in '.*/kernel'. Restore a check"
    with pytest.raises(RuntimeError, match=match):
        fit(model, data(2), watch)


def test_moving_averages_are_watched_too():
    with policy("mixed_float16"):
        model, watch = compiled(norm=True), LossScaleWatch(every=5)
        match = "batch_normalization.*/moving_mean' and 1 more after step 5; .* step 0"
        assert stopped_at(model, data(2, 20), watch, match) == 5
        assert all_finite(model)


def test_averages_that_overwrite_the_weights_at_the_end_are_finite():
    model = compiled(keras.optimizers.SGD(0.01, use_ema=True))
    stopped_at(model, data(30, 60, np.nan), LossScaleWatch(), "after step 50; .* of step 25")
    assert all_finite(model)


def test_nothing_is_done_to_a_training_that_goes_well():
    with policy("mixed_float16"):
        optimizers = [
            keras.optimizers.LossScaleOptimizer(
                keras.optimizers.Adam(0.01), initial_scale=4.0, dynamic_growth_steps=10
            )
            for _ in range(2)
        ]
        plain, watched = (compiled(optimizer, norm=True) for optimizer in optimizers)
        watch = LossScaleWatch(every=15)
        histories = [fit(plain, data(16), epochs=3), fit(watched, data(16), watch, epochs=3)]
        assert histories[0].history == histories[1].history
        assert same(weights(plain), weights(watched))
        # The scale doubles after 10, 20, 30 and 40 steps; the last look is at the end of 48.
        assert watch.trace["step"].tolist() == [0, 15, 30, 45, 48]
        assert watch.trace["scale"].tolist() == [4, 8, 32, 64, 64]
        assert watch.trace["updates"].tolist() == [0, 15, 15, 15, 3]
        assert watch.trace["skipped"].tolist() == [0] * 5


def test_the_trace_counts_updates_and_starts_anew_with_each_fit():
    with policy("mixed_float16"):
        model, watch = compiled(), LossScaleWatch(every=10)
        fit(model, data(12, 5), watch)
        start, end = [0, 2**15, 0, 0], [17, 2**10, 2, 5]
        assert watch.trace.to_numpy().tolist() == [start, [10, 2**15, 10, 0], end]
        fit(model, data(4), watch)
        assert watch.trace.to_numpy().tolist() == [[0, 2**10, 0, 0], [4, 2**10, 4, 0]]


@pytest.mark.parametrize(("factor", "scale"), [(None, math.nan), (8.0, 8.0)])
def test_an_optimizer_without_a_dynamic_scale_is_watched(factor, scale):
    model, watch = compiled(fixed_scale(factor)), LossScaleWatch(every=10)
    fit(model, data(20), watch)
    np.testing.assert_equal(watch.trace["scale"].tolist(), [scale] * 3)


def test_a_learning_rate_of_zero_is_told():
    watch = LossScaleWatch()
    match = "not one changed after step 0, up to step 25; the weights are finite"
    assert stopped_at(compiled(keras.optimizers.SGD(0.0)), data(60), watch, match) == 25


def accumulating(number):
    return compiled(keras.optimizers.SGD(0.01, gradient_accumulation_steps=number))


def test_accumulated_steps_are_waited_for():
    watch = LossScaleWatch(every=4)
    fit(accumulating(16), data(70), watch)
    assert watch.trace["updates"].sum() == 70 // 16
    assert watch.trace["skipped"].sum() == 0


@pytest.mark.parametrize(("exponent", "accumulated"), [(20, 25), (30, 7), (60, None)])
def test_steps_that_a_falling_scale_skips_are_waited_for(exponent, accumulated):
    with policy("mixed_float16"):
        inner = keras.optimizers.SGD(0.01, gradient_accumulation_steps=accumulated)
        scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**exponent)
        model, watch = compiled(scaled), LossScaleWatch(every=np.int64(25))
        fit(model, data(exponent + 60), watch)
    skipped = exponent - math.log2(watch.trace["scale"].iloc[-1])
    assert watch.trace["skipped"].sum() == skipped > 0
    assert watch.trace["updates"].sum() == (exponent + 60 - skipped) // (accumulated or 1)


def test_skipped_steps_do_not_hide_a_training_that_stands_still():
    with policy("mixed_float16"):
        inner = keras.optimizers.SGD(0.0, gradient_accumulation_steps=30)
        scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**20)
        match = "not one changed after step 0, up to step 50, loss scale"
        assert stopped_at(compiled(scaled), data(200), LossScaleWatch(), match) == 50


@pytest.mark.parametrize("accumulated", [None, 25])
@pytest.mark.parametrize("end", [50, 49, 90])
def test_a_schedule_may_begin_and_end_at_zero(accumulated, end):
    steps = keras.optimizers.schedules.PiecewiseConstantDecay([end, 120], [0.0, 0.01, 0.0])
    optimizer = keras.optimizers.SGD(steps, gradient_accumulation_steps=accumulated)
    model, before = compiled(optimizer), weights(compiled())
    fit(model, data(200), LossScaleWatch())
    assert not same(weights(model), before)


def test_more_accumulation_steps_than_steps_are_told_at_the_end():
    model, watch = accumulating(64), LossScaleWatch()
    assert stopped_at(model, data(60), watch, "not one changed after step 0") == 60


@pytest.mark.parametrize("fuse", [True, False])
def test_a_group_of_steps_is_looked_at_as_one(fuse):
    with policy("mixed_float16"):
        model = compiled(steps_per_execution=1 if fuse else 8)
        watch = LossScaleWatch()
        if fuse:
            steps.fuse(model, 8)
        match = "after step 32, 16 updates in the last 32 steps"
        assert stopped_at(model, data(16, 200), watch, match) == 32
        assert all_finite(model)


@pytest.mark.parametrize("every", [0, -5, 2.5, True, None, "25"])
def test_steps_between_looks_must_be_a_positive_integer(every):
    with pytest.raises(ValueError, match=rf"positive integer. Received: every={every!r}. Pass"):
        LossScaleWatch(every=every)


@pytest.mark.parametrize("floor", [0, -1.0, math.inf, math.nan, "1", None])
def test_the_floor_must_be_a_positive_finite_number(floor):
    with pytest.raises(ValueError, match=rf"positive finite number. Received: floor={floor!r}. P"):
        LossScaleWatch(floor=floor)


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(RuntimeError, match=r"Received: Keras on torch. Set KERAS_BACKEND=jax"):
        LossScaleWatch().on_train_begin()
