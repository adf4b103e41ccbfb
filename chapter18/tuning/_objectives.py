"""Which way is better: objectives whose direction is known, and the rest, which must say so."""

import keras_tuner as kt

LARGER_IS_BETTER = (
    "accuracy",
    "acc",
    "auc",
    "binary_accuracy",
    "categorical_accuracy",
    "precision",
    "recall",
    "sparse_categorical_accuracy",
    "sparse_top_k_categorical_accuracy",
    "top_k_categorical_accuracy",
)
SMALLER_IS_BETTER = (
    "binary_crossentropy",
    "categorical_crossentropy",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "loss",
    "mae",
    "mape",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "mse",
    "msle",
    "poisson",
    "root_mean_squared_error",
    "sparse_categorical_crossentropy",
)
_DIRECTIONS = dict.fromkeys(LARGER_IS_BETTER, "max") | dict.fromkeys(SMALLER_IS_BETTER, "min")


def resolve(objective):
    """Return `objective` as a `keras_tuner.Objective`, or a list of them.

    Takes a known name, with or without `val_`; a pair `(name, "min" or "max")`; a
    `keras_tuner.Objective`; or a list of these, whose sum is then optimised. Keras Tuner 1.4.8
    guesses "min" for many names where more is better, such as `val_f1_score`: here a name that is
    not in the table raises `ValueError` unless it comes with a direction.
    """
    if isinstance(objective, list):
        return [resolve(one) for one in objective]
    if isinstance(objective, kt.Objective):
        return _directed(objective.name, objective.direction, objective)
    if isinstance(objective, tuple) and len(objective) == 2:
        return _directed(*objective)
    if isinstance(objective, str):
        return kt.Objective(objective, _known_direction(objective))
    raise TypeError(
        "`objective` must be a name, a pair (name, direction), a keras_tuner.Objective or a list "
        f"of these. Received: {objective!r}. "
        'Pass for example objective="val_accuracy" or objective=("val_f1_score", "max").'
    )


def _directed(name, direction, objective=None):
    if direction not in ("min", "max"):
        raise ValueError(
            'The direction of an objective must be "min" or "max". '
            f"Received: {direction!r} for {name!r}. "
            'Say "max" where more is better, "min" where less is.'
        )
    return objective or kt.Objective(name, direction)


def _known_direction(name):
    try:
        return _DIRECTIONS[name.removeprefix("val_")]
    except KeyError:
        raise ValueError(
            "An objective without a direction must have a known name. "
            f"Received: {name!r}. "
            f'Pass objective=({name!r}, "max") or ({name!r}, "min"), or one of these names, with '
            f"or without val_: {', '.join(sorted(_DIRECTIONS))}."
        ) from None
