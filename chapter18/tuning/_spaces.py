"""Search spaces in which one name has one definition, made of numbers that JSON can hold."""

import contextlib

import keras_tuner as kt

from chapter18._shared.checks import plain


class Definitions:
    """The hyperparameters that a search was asked for, as they were first defined."""

    def __init__(self):
        self._known = {}

    @contextlib.contextmanager
    def followed(self, hp):
        """Compare each request to `hp` meanwhile with those before, in this build and in others.

        Raises `keras_tuner.errors.FatalValueError` for a name with two definitions, of which
        Keras Tuner 1.4.8 silently takes the first, or under two conditions, where it replaces the
        value by a random one or ends in a `KeyError` (its `ensure_active_values`). A
        `hyperparameters` of the user, which is meant to override, is not compared.
        """
        if "_retrieve" in vars(hp):
            yield
            return
        retrieve = hp._retrieve

        def checked(parameter):
            _make_plain(vars(parameter))
            self._require_same(parameter)
            return retrieve(parameter)

        hp._retrieve = checked
        try:
            yield
        finally:
            del hp._retrieve

    def _require_same(self, parameter):
        # A copy, because the list of conditions is the open scopes, which will close.
        asked = type(parameter).from_config(parameter.get_config())
        known = self._known.setdefault(asked.name, asked)
        if (type(known), known.get_config()) != (type(asked), asked.get_config()):
            raise kt.errors.FatalValueError(
                "A name stands for one hyperparameter, with one definition and one condition. "
                f"Received: {_shown(asked)}, after {_shown(known)}. Give each a name of its own."
            )


def make_plain(hyperparameters: kt.HyperParameters) -> None:
    """Turn the NumPy numbers of a space into Python's, which JSON can hold."""
    for owner in (hyperparameters.values, *map(vars, hyperparameters.space)):
        _make_plain(owner)


def _make_plain(values):
    for name, value in values.items():
        values[name] = plain(value)


def _shown(parameter):
    conditions = (f"{each.name} is one of {each.values}" for each in parameter.conditions)
    return f"{parameter} if {' and '.join(conditions)}" if parameter.conditions else str(parameter)
