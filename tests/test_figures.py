"""What the figures compute before they draw: read back from the axes."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from chapter18 import ensemble_figures, tuning_figures


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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
    (ax,) = ensemble_figures.mixing_curve(losses).axes
    stars = [line for line in ax.get_lines() if line.get_marker() == "*"]
    points = [line.get_xydata().tolist() for line in stars]
    points += [offsets.tolist() for offsets in (c.get_offsets() for c in ax.collections)]
    assert [[0.5, 0.1]] in points
    assert ax.get_xlabel() == "share of the second"


def test_error_correlations_are_written_into_both_halves_of_the_square():
    table = pd.DataFrame({"first": ["mlp"], "second": ["trees"], "error_correlation": [0.25]})
    figure = ensemble_figures.error_correlation(table)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts.count("0.25") == 2
