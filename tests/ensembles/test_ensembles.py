"""Ensembles against oracles: `np.average`, brute force over a grid of the simplex, refusals."""

import itertools
import math

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from chapter18.ensembles import ambiguity, combine, diversity, fit_weights, judge
from chapter18.ensembles._members import check_members

ROWS, CLASSES = 400, 4


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def members(seed, *, count=3, rows=ROWS, dtype=np.float32):
    """Return labels and `count` members that see the truth through more and more noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    truth = 2.5 * np.eye(CLASSES)[y]
    noise = rng.normal(size=(count, rows, CLASSES)) * (1 + 0.4 * np.arange(count))[:, None, None]
    return {f"m{i}": softmax(truth + noise[i]).astype(dtype) for i in range(count)}, y


def log_loss(y, probabilities):
    return -np.log(probabilities[np.arange(len(y)), y]).mean()


def stack(predictions):
    return np.stack(list(predictions.values())).astype(float)


@pytest.fixture(scope="module")
def fit_split():
    return members(0)


@pytest.fixture(scope="module")
def judge_split():
    return members(1)


# combine


@pytest.mark.parametrize("weights", [None, [1, 0, 0], [0.2, 0.5, 0.3], [2, 1, 1]])
def test_mean_is_numpy_average(fit_split, weights):
    predictions, _ = fit_split
    expected = np.average(stack(predictions), axis=0, weights=weights)
    np.testing.assert_allclose(combine(predictions, weights), expected, rtol=0, atol=1e-12)


def test_geometric_is_the_normalised_weighted_product(fit_split):
    predictions, _ = fit_split
    weights = [0.2, 0.5, 0.3]
    product = np.prod([p**w for p, w in zip(stack(predictions), weights, strict=True)], axis=0)
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(combine(predictions, weights, "geometric"), expected, atol=1e-12)


@pytest.mark.parametrize("power", [2.0, 0.5, -1.0, 40.0])
def test_power_is_the_normalised_power_mean(fit_split, power):
    predictions, _ = fit_split
    raised = np.average(stack(predictions) ** power, axis=0, weights=[0.2, 0.5, 0.3])
    expected = raised ** (1 / power)
    expected /= expected.sum(axis=1, keepdims=True)
    ours = combine(predictions, [0.2, 0.5, 0.3], "power", power=power)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_power_defaults_to_two_and_has_its_two_known_limits(fit_split):
    predictions, _ = fit_split
    square = combine(predictions, kind="power")
    np.testing.assert_array_equal(square, combine(predictions, kind="power", power=2))
    np.testing.assert_allclose(
        combine(predictions, kind="power", power=1), combine(predictions), atol=1e-7
    )
    np.testing.assert_allclose(
        combine(predictions, kind="power", power=1e-6),
        combine(predictions, kind="geometric"),
        atol=1e-5,
    )


def test_rank_counts_how_many_rows_score_no_higher(fit_split):
    predictions, _ = fit_split
    probabilities = stack(predictions)
    counted = (probabilities[:, :, None, :] >= probabilities[:, None, :, :]).mean(axis=2)
    np.testing.assert_allclose(
        combine(predictions, kind="rank"), counted.mean(axis=0), rtol=0, atol=1e-12
    )


def test_rank_ignores_a_squeezed_scale_and_the_mean_does_not():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 500)
    strong, weak = (
        1 / (1 + np.exp(-(2 * y - 1 + noise * rng.normal(size=500)))) for noise in (0.5, 3.0)
    )
    squeezed = 0.5 + 0.001 * (strong - 0.5)

    def auc(first, kind):
        pair = [np.column_stack([1 - p, p]) for p in (first, weak)]
        return roc_auc_score(y, combine(pair, kind=kind)[:, 1])

    assert auc(squeezed, "rank") == auc(strong, "rank")
    assert auc(squeezed, "mean") < auc(strong, "mean") - 0.02


def test_one_confident_zero_vetoes_the_geometric_mean_but_not_the_arithmetic_one():
    sure, wrong = np.array([[0.9, 0.1]]), np.array([[0.0, 1.0]])
    assert combine([sure, sure, sure, wrong])[0, 0] == pytest.approx(0.675)
    assert combine([sure, sure, sure, wrong], kind="geometric")[0, 0] < 0.01


def test_a_member_without_weight_has_no_say_even_where_it_says_zero():
    sure, wrong = np.array([[0.9, 0.1]]), np.array([[0.0, 1.0]])
    for kind in ("mean", "geometric", "power"):
        np.testing.assert_allclose(combine([sure, wrong], [1, 0], kind), sure, atol=1e-12)


@pytest.mark.parametrize("kind", ["mean", "geometric", "power"])
def test_probability_means_keep_rows_that_sum_to_one(kind):
    rng = np.random.default_rng(4)
    extreme = [softmax(200 * rng.normal(size=(50, 5))) for _ in range(3)]
    np.testing.assert_allclose(combine(extreme, kind=kind).sum(axis=1), 1, atol=1e-12)


def test_rows_of_a_coarse_float_still_count_as_probabilities():
    import ml_dtypes

    predictions, _ = members(5)
    coarse = {name: p.astype(ml_dtypes.bfloat16) for name, p in predictions.items()}
    np.testing.assert_allclose(combine(coarse), combine(predictions), atol=5e-3)


# fit_weights


def simplex_grid(steps):
    points = itertools.product(range(steps + 1), repeat=3)
    return np.array([p for p in points if sum(p) == steps]) / steps


@pytest.mark.parametrize("seed", range(3))
def test_convex_beats_brute_force_and_its_gap_bounds_the_difference(seed):
    predictions, y = members(seed)
    losses = [log_loss(y, np.average(stack(predictions), 0, w)) for w in simplex_grid(60)]
    fitted = fit_weights(predictions, y)
    assert fitted.loss <= min(losses) + 1e-9
    assert min(losses) - fitted.loss < 2e-3  # the grid's own coarseness
    assert 0 <= fitted.gap <= 1e-6


@pytest.mark.parametrize("method", ["convex", "nelder-mead", "random", "greedy"])
def test_every_method_returns_weights_on_the_simplex_and_reports_its_own_loss(fit_split, method):
    predictions, y = fit_split
    fitted = fit_weights(predictions, y, method, seed=1)
    assert fitted.method == method
    assert (fitted.weights >= 0).all()
    assert fitted.weights.sum() == pytest.approx(1, abs=1e-12)
    mixture = np.average(stack(predictions), axis=0, weights=fitted.weights)
    assert fitted.loss == pytest.approx(log_loss(y, mixture), abs=1e-9)
    assert fitted.uniform_loss == pytest.approx(log_loss(y, stack(predictions).mean(0)), abs=1e-9)
    alone = {name: log_loss(y, p.astype(float)) for name, p in predictions.items()}
    assert fitted.best_member == min(alone, key=alone.get)
    assert fitted.best_member_loss == pytest.approx(min(alone.values()), abs=1e-6)


@pytest.mark.parametrize("method", ["nelder-mead", "random", "greedy"])
def test_searches_come_close_to_the_optimum_never_below_it_and_within_their_gap(fit_split, method):
    predictions, y = fit_split
    best = fit_weights(predictions, y)
    found = fit_weights(predictions, y, method, seed=1)
    excess = found.loss - best.loss
    assert -1e-9 <= excess <= found.gap + 1e-9
    assert excess < 1e-3
    assert found.evaluations <= 2000


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_more_evaluations_never_make_a_search_worse(fit_split, method):
    predictions, y = fit_split
    losses = [
        fit_weights(predictions, y, method, seed=2, evaluations=n).loss for n in (1, 30, 300, 3000)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_one_evaluation_of_random_search_is_the_uniform_mean(fit_split):
    fitted = fit_weights(*fit_split, "random", evaluations=1)
    np.testing.assert_allclose(fitted.weights, 1 / 3)


def test_random_search_repeats_with_its_seed_and_changes_without(fit_split):
    first, again, other = (
        fit_weights(*fit_split, "random", seed=seed).weights for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_greedy_selects_like_a_search_over_all_multisets():
    predictions, y = members(6, rows=60)
    p = stack(predictions)
    counts, best = np.zeros(3), (math.inf, None)
    for _ in range(10):
        tried = [counts + np.eye(3)[i] for i in range(3)]
        losses = [log_loss(y, np.average(p, 0, c)) for c in tried]
        counts = tried[int(np.argmin(losses))]
        best = min(best, (min(losses), tuple(counts)))
    fitted = fit_weights(predictions, y, "greedy", evaluations=30)
    np.testing.assert_allclose(fitted.weights, np.array(best[1]) / sum(best[1]))


def test_greedy_keeps_its_best_round_not_its_last():
    halves = [np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.4, 0.6], [0.9, 0.1]])]
    fitted = fit_weights(halves, [0, 0], "greedy", evaluations=6)  # three rounds: a, b, then a
    np.testing.assert_allclose(fitted.weights, [0.5, 0.5])


@pytest.mark.parametrize(
    ("shape", "harm"),
    [((8, 2000), "none"), ((20, 50), "zeros"), ((5, 300), "twins"), ((1, 9), "none")],
)
def test_certificate_is_reached_on_awkward_members(shape, harm):
    count, rows = shape
    predictions, y = members(7, count=count, rows=rows, dtype=float)
    if harm == "zeros":
        predictions = {n: np.eye(CLASSES)[p.argmax(1)] for n, p in predictions.items()}
    if harm == "twins":
        predictions = dict.fromkeys(predictions, predictions["m0"])
    assert fit_weights(predictions, y).gap <= 1e-6


def test_an_impossible_certificate_is_an_error(fit_split):
    with pytest.raises(RuntimeError, match=r"optimality gap of at most -1 nats\. Received: a gap"):
        fit_weights(*fit_split, tolerance=-1)


def test_a_useless_member_gets_no_weight():
    predictions, y = members(8, count=2)
    predictions["liar"] = predictions["m0"][::-1].copy()
    fitted = fit_weights(predictions, y)
    assert fitted.weights[2] < 0.02
    assert fitted.loss < fitted.uniform_loss - 0.05


# LightGBM 4.6 names the columns of an array itself, then warns that the next array has no names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_lightgbm_and_a_linear_model_are_members():
    x, y = load_digits(return_X_y=True)
    train, fit, rest = slice(0, 1000), slice(1000, 1400), slice(1400, None)
    tree = LGBMClassifier(n_estimators=10, num_threads=1, verbose=-1, deterministic=True)
    models = {
        "lightgbm": tree.fit(x[train], y[train]),
        "linear": LogisticRegression(C=0.01, solver="newton-cg").fit(x[train] / 16, y[train]),
    }
    scale = {"lightgbm": 1, "linear": 16}
    classes = {name: model.classes_ for name, model in models.items()}

    def predict(rows):
        return {n: m.predict_proba(x[rows] / scale[n]) for n, m in models.items()}

    fitted = fit_weights(predict(fit), y[fit], classes=classes)
    table = judge(fitted, predict(rest), y[rest], classes=classes)
    assert table.loc["convex", "log_loss"] < table["log_loss"].iloc[:2].max()
    assert table["accuracy"].min() > 0.8


# judge


def test_judge_shows_other_rows_beside_uniform_and_best_member(fit_split, judge_split):
    predictions, y = judge_split
    fits = [fit_weights(*fit_split, method) for method in ("convex", "greedy")]
    table = judge(fits, predictions, y)
    assert list(table.index) == ["uniform mean", "best member: m0", "convex", "greedy"]
    p = stack(predictions)
    for line, weights in zip(
        table.index, [np.ones(3), [1, 0, 0], fits[0].weights, fits[1].weights], strict=True
    ):
        mixture = np.average(p, axis=0, weights=weights)
        assert table.loc[line, "log_loss"] == pytest.approx(log_loss(y, mixture), abs=1e-6)
        assert table.loc[line, "accuracy"] == np.mean(mixture.argmax(1) == y)
    assert judge(fits[0], predictions, y).equals(table.iloc[:3])


def test_judge_names_the_member_that_was_best_where_weights_were_fitted(fit_split, judge_split):
    predictions, y = judge_split
    swapped = dict(zip(predictions, reversed(predictions.values()), strict=True))
    assert "best member: m0" in judge(fit_weights(*fit_split), swapped, y).index


def rows_of(split, rows):
    predictions, y = split
    return {name: p[rows] for name, p in predictions.items()}, y[rows]


def joined(first, second):
    names, y = first[0], np.concatenate([first[1], second[1]])
    return {name: np.concatenate([first[0][name], second[0][name]]) for name in names}, y


@pytest.mark.parametrize(
    ("shown", "received"),
    [
        (lambda fit, _: fit, "400 rows, 400 of which"),
        (lambda fit, _: rows_of(fit, np.random.default_rng(5).permutation(400)), "400 rows, 400"),
        (lambda fit, _: rows_of(fit, np.arange(1, 400)), "399 rows, 399 of which"),
        (lambda fit, other: joined(rows_of(fit, np.arange(0, 400, 10)), other), "440 rows, 40 of"),
        # The same networks on other batches, as a sum in another order leaves them.
        (
            lambda fit, _: ({n: p * np.float32(1 + 3e-6) for n, p in fit[0].items()}, fit[1]),
            r"400 rows, (3\d\d|400) of which",
        ),
    ],
    ids=["the same", "shuffled", "all but one", "every tenth among others", "other last digits"],
)
def test_judge_refuses_rows_of_the_fit(fit_split, judge_split, shown, received):
    shown = shown(fit_split, judge_split)
    message = rf"not fitted on\. Received: {received}.* are rows of the fit\. Keep another split"
    if received.startswith("400 rows, ("):
        message = rf"not fitted on\. Received: {received}"
    with pytest.raises(ValueError, match=message):
        judge(fit_weights(*fit_split), *shown)


def test_judge_refuses_two_rows_in_another_order():
    rows = {"a": np.array([[0.9, 0.1], [0.4, 0.6]])}
    with pytest.raises(ValueError, match=r"Received: 2 rows, 2 of which are rows of the fit"):
        judge(fit_weights(rows, [0, 1]), {"a": rows["a"][::-1]}, [1, 0])


def test_judge_forgives_a_repeated_sample_and_what_chance_explains(fit_split, judge_split):
    """One row in a hundred; and members that say few things say them of other samples too."""
    fitted = fit_weights(*fit_split)
    judge(fitted, *joined(rows_of(fit_split, np.arange(3)), judge_split))
    assert fitted.fitted_on.shared(fitted.fitted_on) == 400

    def votes(split, levels):
        grid = {n: np.eye(CLASSES)[p.argmax(1)] for n, p in split[0].items()}
        return {n: (v * levels + 1) / (levels + CLASSES) for n, v in grid.items()}, split[1]

    for seed in range(5):
        few = [votes(members(10 + 2 * seed + i), 8) for i in (0, 1)]
        judge(fit_weights(*few[0]), *few[1])
        judge(fit_weights(*rows_of(few[0], np.arange(20))), *few[1])
        judge(fit_weights(*few[0]), *rows_of(few[1], np.arange(20)))


def test_shared_rows_are_counted_like_a_multiset():
    from collections import Counter

    from chapter18.ensembles._seen_rows import SeenRows

    rng = np.random.default_rng(0)
    splits = [rng.integers(0, 5, (60, 2)) / 4 for _ in range(2)]
    labels = [rng.integers(0, 2, 60) for _ in range(2)]
    first, second = (SeenRows([p], y) for p, y in zip(splits, labels, strict=True))
    counted = [
        Counter(zip(map(tuple, p), y, strict=True)) for p, y in zip(splits, labels, strict=True)
    ]
    assert first.shared(second) == (counted[0] & counted[1]).total() > 10
    assert repr(first) == "SeenRows(60)"


def test_judge_wants_fits(judge_split):
    with pytest.raises(ValueError, match=r"Received: no fits\. Pass what `fit_weights` returned"):
        judge([], *judge_split)


def test_judge_refuses_other_members(fit_split, judge_split):
    predictions, y = judge_split
    renamed = dict(reversed(predictions.items()))
    with pytest.raises(ValueError, match=r"Received: members \['m2', 'm1', 'm0'\], weights for"):
        judge(fit_weights(*fit_split), renamed, y)


def test_judge_refuses_fits_of_two_splits(fit_split, judge_split):
    fits = [fit_weights(*fit_split), fit_weights(*judge_split)]
    with pytest.raises(
        ValueError, match=r"same split\. Received: 2 fits, 1 of them fitted on other.*Judge"
    ):
        judge(fits, *members(2))


# diversity and the ambiguity identity


def test_diversity_counts_rows_by_hand():
    y = np.array([0, 0, 0, 0, 1, 1])
    votes = {"a": [0, 0, 0, 1, 1, 0], "b": [0, 0, 1, 1, 1, 1], "c": [0, 0, 0, 1, 1, 0]}
    table = diversity({n: np.eye(2)[v] for n, v in votes.items()}, y)
    assert table[["first", "second"]].values.tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    np.testing.assert_allclose(table["disagreement"], [2 / 6, 0, 2 / 6])
    np.testing.assert_allclose(table["both_wrong"], [1 / 6, 2 / 6, 1 / 6])
    # phi coefficient of the 2 × 2 table of errors: (1·3 − 1·1) / sqrt(2·4·2·4)
    np.testing.assert_allclose(table["error_correlation"], [2 / 8, 1, 2 / 8])


def test_a_flawless_member_has_no_error_correlation():
    predictions, y = members(9)
    predictions["flawless"] = np.eye(CLASSES)[y]
    table = diversity(predictions, y)
    flawless = table["second"] == "flawless"
    assert table.loc[flawless, "error_correlation"].isna().all()
    assert table.loc[~flawless, "error_correlation"].notna().all()


@pytest.mark.parametrize("weights", [None, [0.1, 0.6, 0.3]])
def test_ambiguity_identity_and_each_of_its_terms(fit_split, weights):
    predictions, y = fit_split
    found = ambiguity(predictions, y, weights)
    p, truth = stack(predictions), np.eye(CLASSES)[y]
    mixture = np.average(p, axis=0, weights=weights)
    assert found.ensemble_error == pytest.approx(((mixture - truth) ** 2).sum(1).mean())
    errors = ((p - truth) ** 2).sum(2).mean(1)
    assert found.member_error == pytest.approx(np.average(errors, weights=weights))
    assert abs(found.ensemble_error - (found.member_error - found.spread)) < 1e-12
    assert found.spread > 0.01


# refusals


GOOD = np.full((3, 2), 0.5)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ({}, r"at least one member\. Received: no predictions"),
        ({"a": GOOD, "b": GOOD[:2]}, r"same rows\. Received: 2 rows from 'b', 3 from 'a'"),
        ({"a": GOOD, "b": np.full((3, 4), 0.25)}, r"same classes\. Received: 4 columns from 'b'"),
        ({"a": np.array([0.1, 0.9])}, r"shape \(samples, classes\).* Received: shape \(2,\)"),
        ({"sigmoid": np.ones((3, 1))}, r"\(3, 1\) from 'sigmoid'\. Turn one sigmoid column"),
        (
            {"a": GOOD, "net": GOOD * 8 - 6},
            r"not logits\. Received: values from -2 to -2 from 'net'",
        ),
        ({"net": GOOD * 8}, r"not logits\. Received: values from 4 to 4 from 'net'\. Apply `keras"),
        (
            {"net": GOOD * 1.5},
            r"row of probabilities must sum to 1\. Received: 1\.5 from 'net', row",
        ),
        (
            {"a": GOOD, "net": GOOD * [[1], [np.nan], [1]]},
            r"finite\. Received: \[nan, nan\].* row 1",
        ),
        (
            {"net": GOOD * [[1], [1], [np.inf]]},
            r"finite\. Received: \[inf, inf\] from 'net', row 2",
        ),
    ],
)
def test_unfit_members_are_refused(predictions, message):
    with pytest.raises(ValueError, match=message):
        combine(predictions)
    with pytest.raises(ValueError, match=message):
        diversity(predictions, [0, 1, 0])


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (
            {"a": [0, 1], "b": [1, 0]},
            r"same order\. Received: \[1, 0\] from 'b', \[0, 1\] from 'a'",
        ),
        ({"a": [0, 1], "b": ["0", "1"]}, r"same order\. Received: \['0', '1'\] from 'b'"),
        ({"a": [0, 1, 2], "b": [0, 1, 2]}, r"Received: 3 classes for the 2 columns of 'a'"),
        ({"a": [0, 1]}, r"one class list for each member\. Received: lists for \['a'\]"),
        ([[0, 1]], r"one class list for each member"),
    ],
)
def test_class_lists_must_agree(classes, message):
    with pytest.raises(ValueError, match=message):
        check_members({"a": GOOD, "b": GOOD}, classes=classes)


def test_agreeing_class_lists_pass_as_arrays_or_lists():
    classes = {"a": np.array([0, 1]), "b": [0, 1]}
    assert check_members({"a": GOOD, "b": GOOD}, classes=classes).names == ("a", "b")
    assert check_members([GOOD, GOOD], classes=[[0, 1], [0, 1]]).names == ("member 0", "member 1")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"one number for each of the 2 members .* Received: shape \(1,\)"),
        ([0.5, -0.5], r"finite, non-negative and not all zero\. Received: \[0\.5, -0\.5\]"),
        ([0, 0], r"not all zero\. Received: \[0\.0, 0\.0\]"),
        ([np.nan, 1], r"finite, non-negative"),
    ],
)
def test_unfit_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        combine([GOOD, GOOD], weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kind": "median"},
            r"one of \['geometric', 'mean', 'power', 'rank'\]\. Received: kind='med",
        ),
        (
            {"kind": "power", "power": 0},
            r"not zero\. Received: power=0\. Its limit at zero is kind=",
        ),
        ({"kind": "power", "power": np.inf}, r"finite and not zero\. Received: power=inf"),
        (
            {"kind": "mean", "power": 3},
            r"`power` belongs to kind=\"power\"\. Received: kind='mean'",
        ),
    ],
)
def test_unfit_kinds_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        combine([GOOD, GOOD], **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], r"must hold 3 integers.* Received: shape \(2,\).*labels of the very rows that"),
        (np.eye(3)[:, :2], r"Received: shape \(3, 2\), dtype float64\. One-hot labels become"),
        ([0.0, 1.0, 0.0], r"Received: shape \(3,\), dtype float64\. Make .* `y\.astype\(int\)`"),
        ([0.5, 1.0, 0.0], r"dtype float64\. These are no classes: pass the column of the true"),
        ([True, False, True], r"dtype bool\. Make them integers with `y\.astype\(int\)`"),
        ([[0], [1], [0]], r"shape \(3, 1\), dtype int64\. Drop the last axis with `y\[:, 0\]`"),
        ([[0.0], [1.0], [0.0]], r"dtype float64\. .* with `y\[:, 0\]\.astype\(int\)`"),
        (["cat", "dog", "cat"], r"dtype <U3\. Text .*`\[classes\.index\(label\) for label in y\]`"),
        ([["cat"], ["dog"], ["cat"]], r"Text becomes integers .* for label in y\[:, 0\]\]`"),
        (np.zeros((3, 5), int), r"shape \(3, 5\), dtype int64\. Give one label a row"),
        ([0, 1, 2], r"between 0 and 1, .* Received: labels from 0 to 2.* Columns are counted from"),
        ([0, 1, -1], r"Received: labels from -1 to 1"),
    ],
)
def test_unfit_labels_are_refused(y, message):
    for consumer in (fit_weights, diversity, ambiguity):
        with pytest.raises(ValueError, match=message):
            consumer([GOOD, GOOD], y)


def test_unfit_methods_and_budgets_are_refused():
    names = r"\['convex', 'nelder-mead', 'random', 'greedy'\]\. Received: method='adam'"
    with pytest.raises(ValueError, match=names):
        fit_weights([GOOD, GOOD], [0, 1, 0], "adam")
    for evaluations in (0, 1999.0, True, "2000"):
        message = rf"at least 1.* Received: evaluations={evaluations!r}\. Pass a whole number"
        with pytest.raises(ValueError, match=message):
            fit_weights([GOOD, GOOD], [0, 1, 0], "random", evaluations=evaluations)
    assert fit_weights([GOOD], [0, 1, 0], "random", evaluations=np.int64(7)).evaluations == 7
