"""Combine classifiers with weights that can be defended (section 2)."""

from chapter18.ensembles._judging import (
    METHODS,
    Ambiguity,
    FittedWeights,
    ambiguity,
    combine,
    diversity,
    fit_weights,
    judge,
)

__all__ = [
    "METHODS",
    "Ambiguity",
    "FittedWeights",
    "ambiguity",
    "combine",
    "diversity",
    "fit_weights",
    "judge",
]
