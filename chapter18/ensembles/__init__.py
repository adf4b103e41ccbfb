"""Combine classifiers with weights that can be defended, and see why it helps (section 2).

    weights = ensembles.fit_weights(on_one_split, y, "convex")
    ensembles.judge(weights, on_another_split, y_there)
    ensembles.combine(predictions, weights.weights)

`predictions` is everywhere a mapping from a member's name to its class probabilities, an array
`(samples, classes)`; a sequence of such arrays gets the names "member 0", "member 1", ...
`y` holds the column of the true class of each row: integers `(samples,)`.
"""

from chapter18.ensembles._combining import combine
from chapter18.ensembles._judging import Ambiguity, ambiguity, diversity, judge
from chapter18.ensembles._weights import FittedWeights, fit_weights

__all__ = [
    "Ambiguity",
    "FittedWeights",
    "ambiguity",
    "combine",
    "diversity",
    "fit_weights",
    "judge",
]
