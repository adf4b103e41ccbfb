"""Search spaces in which one name has one definition, made of numbers that JSON can hold."""

import contextlib
from collections import defaultdict

import keras_tuner as kt

from chapter18.checks import plain


class Definitions:
    """The hyperparameters that a search was asked for, as they were first defined."""

    def __init__(self):
        self._known = defaultdict(list)

    @contextlib.contextmanager
    def followed(self, hp):
        """Compare each request to `hp` meanwhile with those before, in this build and others.

        Raises `keras_tuner.errors.FatalValueError` for a name that has another definition under
        the same conditions, or while both are active: Keras Tuner 1.4.8 silently takes the first.
        A `hyperparameters` of the user, which is meant to override, is not compared.
        """
        if "_retrieve" in vars(hp):
            yield
            return
        retrieve = hp._retrieve

        def checked(parameter):
            make_plain(parameter)
            self._require_same(hp, parameter)
            return retrieve(parameter)

        hp._retrieve = checked
        try:
            yield
        finally:
            del hp._retrieve

    def _require_same(self, hp, parameter):
        for known in self._known[parameter.name]:
            clash = known.conditions == parameter.conditions or (
                hp.is_active(known) and hp.is_active(parameter)
            )
            if clash and _definition(known) != _definition(parameter):
                raise kt.errors.FatalValueError(
                    "A name stands for one hyperparameter, with one definition. "
                    f"Received: {parameter}, after {known}. Give each a name of its own, or ask "
                    "for each inside an hp.conditional_scope that excludes the other."
                )
            if known.conditions == parameter.conditions:
                return
        # A copy, because the list of conditions is the open scopes, which will close.
        self._known[parameter.name].append(type(parameter).from_config(parameter.get_config()))


def make_plain(parameter) -> None:
    """Turn the NumPy numbers of a hyperparameter into Python's, which JSON can hold."""
    for name, value in vars(parameter).items():
        setattr(parameter, name, plain(value))


def _definition(parameter):
    config = {name: each for name, each in parameter.get_config().items() if name != "conditions"}
    return type(parameter), config
