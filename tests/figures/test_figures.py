"""What the figures compute before they draw: read back from the axes."""

import numpy as np
import pandas as pd
import pytest

from chapter18.figures import batching as batching_figures
from chapter18.figures import ensembles as ensembles_figures
from chapter18.figures import mixed_precision as mixed_precision_figures
from chapter18.figures import precision as precision_figures
from chapter18.figures import quantization as quantization_figures
from chapter18.figures import steps as steps_figures
from chapter18.figures import tuning as tuning_figures


def titles(figure):
    return [ax.get_title() for ax in figure.axes if ax.get_title()]


def test_the_strongest_hyperparameter_comes_first_with_its_gap():
    table = pd.DataFrame(
        {
            "score": [0.90, 0.92, 0.80, 0.84],
            "units": [64, 64, 32, 32],
            "dropout": [True, False, True, False],
            "rate": [0.1, np.nan, 0.5, np.nan],
        }
    )
    figure = tuning_figures.hyperparameter_effects(table, ["dropout", "units", "rate"])
    # Means by hand: rate 0.90 and 0.80, units 0.91 and 0.82, dropout 0.85 and 0.88.
    assert titles(figure) == ["rate: 0.1000", "units: 0.0900", "dropout: 0.0300"]


def test_a_hyperparameter_that_no_trial_had_has_an_empty_panel():
    table = pd.DataFrame({"score": [0.9, 0.8], "units": [64, 32], "momentum": [np.nan, np.nan]})
    figure = tuning_figures.hyperparameter_effects(table, ["momentum", "units"])
    assert titles(figure) == ["units: 0.1000", "momentum: 0.0000"]
    assert not figure.axes[1].get_xticks().size


def test_many_different_numbers_are_compared_by_thirds():
    rates = [1e-4, 2e-4, 1e-3, 2e-3, 1e-2, 2e-2]
    table = pd.DataFrame({"score": [0.5, 0.7, 0.9, 0.9, 0.4, 0.2], "learning_rate": rates})
    figure = tuning_figures.hyperparameter_effects(table, ["learning_rate"])
    # Thirds by hand: 0.6, 0.9 and 0.3.
    assert titles(figure) == ["learning_rate: 0.6000"]
    assert figure.axes[0].get_xscale() == "log"


def test_the_race_adds_up_what_was_paid_and_keeps_the_best_score():
    table = pd.DataFrame({"score": [0.8, 0.7, 0.9], "seconds": [2.0, 1.0, 4.0], "epochs": 5})
    by_seconds, by_epochs = tuning_figures.search_race({"random": table}).axes
    for ax, paid in ((by_seconds, [2, 3, 7]), (by_epochs, [5, 10, 15])):
        x, y = ax.get_lines()[0].get_data()
        np.testing.assert_array_equal(x, paid)
        np.testing.assert_array_equal(y, [0.8, 0.8, 0.9])


def test_the_star_marks_the_lowest_point_of_a_mixing_curve():
    shares = pd.Index([0.0, 0.5, 1.0], name="share of the second")
    losses = pd.DataFrame({"fit": [0.3, 0.1, 0.2]}, index=shares)
    (ax,) = ensembles_figures.mixing_curve(losses).axes
    stars = [line for line in ax.get_lines() if line.get_marker() == "*"]
    points = [line.get_xydata().tolist() for line in stars]
    points += [offsets.tolist() for offsets in (c.get_offsets() for c in ax.collections)]
    assert [[0.5, 0.1]] in points
    assert ax.get_xlabel() == "share of the second"


def test_error_correlations_are_written_into_both_halves_of_the_square():
    table = pd.DataFrame({"first": ["mlp"], "second": ["trees"], "error_correlation": [0.25]})
    figure = ensembles_figures.error_correlation(table)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts.count("0.25") == 2


TOO_MANY = [f"series {number}" for number in range(22)]
MANY = TOO_MANY[:9]  # more than there are colours


def columns(names, rows=(1.0, 2.0, 4.0)):
    """A table with a column for each name, each with numbers of its own."""
    values = {name: [10.0 * i + row for row in rows] for i, name in enumerate(names)}
    return pd.DataFrame(values, index=pd.Index(rows, name="rows"))


def race_of(names):
    """Seconds of three rounds for each way and group."""
    pairs = pd.MultiIndex.from_product([names, [1, 2]])
    return pd.DataFrame(
        [[float(i + r) for i in range(len(pairs))] for r in range(3)], columns=pairs
    )


def by_rule(names):
    index = pd.MultiIndex.from_product([names, [32, 64]])
    return pd.DataFrame({"seed 1": np.linspace(0.1, 0.9, len(index))}, index=index)


TRIALS = pd.DataFrame({"score": [0.8, 0.9], "seconds": [1.0, 2.0], "epochs": 5})
FLATTERY = pd.DataFrame({"trials": [1, 2], "validation": [0.8, 0.9], "test": [0.8, 0.8]})
LAYERS = pd.DataFrame({"path": ["a", "b"], "sqnr": [20.0, 30.0]})
LOST = pd.DataFrame({"entries": [9, 9], "lost": [1, 0], "not finite": 0}, index=[1.0, 2.0])
TRACE = pd.DataFrame({"step": [0, 10], "scale": [8.0, 4.0], "skipped": [0, 1]})
COSTS = pd.DataFrame({"seconds": 1.0, "bytes": 1e6, "log_loss": 0.1}, index=TOO_MANY)


@pytest.mark.parametrize(
    ("draw", "panel"),
    [
        (lambda names: batching_figures.large_batches(by_rule(names)), 0),
        (lambda names: batching_figures.speedups(columns(names)), 0),
        (lambda names: ensembles_figures.mixing_curve(columns(names)), 0),
        (lambda names: ensembles_figures.ensemble_weights(columns("ab"), columns(names)), 1),
        (
            lambda names: ensembles_figures.weights_need_rows(
                columns("ab"), dict.fromkeys(names, 1)
            ),
            0,
        ),
        (lambda names: ensembles_figures.cost_and_loss(COSTS.loc[names]), 0),
        (lambda names: mixed_precision_figures.vanishing(dict.fromkeys(names, LOST)), 0),
        (lambda names: mixed_precision_figures.scale_traces(dict.fromkeys(names, TRACE)), 0),
        (lambda names: quantization_figures.error_against_bits(columns(names)), 0),
        (lambda names: quantization_figures.layer_sensitivity(dict.fromkeys(names, LAYERS)), 0),
        (lambda names: steps_figures.fusing_race(race_of(names), [1.0]), 0),
        (lambda names: tuning_figures.search_race(dict.fromkeys(names, TRIALS)), 1),
        (lambda names: tuning_figures.selection_bias(FLATTERY, columns(names)), 1),
    ],
)
def test_every_series_is_drawn_and_can_be_told_from_the_others(draw, panel):
    ax = draw(MANY).axes[panel]
    named = [line for line in ax.get_lines() if "series" in str(line.get_label())]
    assert len(named) == len(MANY)
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in named}
    assert len(looks) == len(MANY)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sum("series" in text for text in legend) == len(MANY)
    with pytest.raises(ValueError, match=r"at most 21 series apart. Received: 2[23]. Draw fewer"):
        draw(TOO_MANY)


def test_the_bars_of_nine_members_reach_one():
    weights = pd.DataFrame(np.full((2, 9), 1 / 9), index=["convex", "greedy"], columns=MANY)
    left = ensembles_figures.ensemble_weights(weights, columns(["fit"])).axes[0]
    assert len(left.patches) == 2 * 9
    assert max(bar.get_x() + bar.get_width() for bar in left.patches) == pytest.approx(1)
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in left.patches}) == 9


def test_histograms_of_many_arrays_are_all_drawn():
    top = precision_figures.ranges({name: np.array([0.0, 1.0]) for name in MANY}).axes[0]
    assert len(top.patches) == 9
    assert len({(p.get_edgecolor(), p.get_linestyle()) for p in top.patches}) == 9


def test_columns_of_a_table_go_to_the_axis_of_their_name():
    table = pd.DataFrame({"images": [10.0, 30.0], "more": 0, "milliseconds": [2.0, 3.0]}, [1, 4])
    took, made = steps_figures.step_costs(table).axes
    assert took.get_lines()[0].get_xydata().tolist() == [[1, 2], [4, 3]]
    assert made.get_lines()[0].get_xydata().tolist() == [[1, 10], [4, 30]]


def test_the_layers_of_every_mode_are_drawn_beside_their_own_names():
    turned = LAYERS.iloc[::-1]
    (ax,) = quantization_figures.layer_sensitivity({"int8": LAYERS, "int4": turned}).axes
    points = [line.get_xydata().tolist() for line in ax.get_lines()]
    assert points == [[[20, 0], [30, 1]]] * 2
