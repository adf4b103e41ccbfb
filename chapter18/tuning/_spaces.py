"""Search spaces in which one name has one definition, and grids that know theirs beforehand."""

import contextlib
import functools
from collections.abc import Iterator

import keras_tuner as kt

from chapter18._shared.checks import plain


class Definitions:
    """The hyperparameters that a search was asked for, as they were first defined."""

    def __init__(self):
        self._known = {}

    @contextlib.contextmanager
    def followed(self, hp: kt.HyperParameters) -> Iterator[None]:
        """Compare each request to `hp` meanwhile with those before, in this build and in others.

        Of two definitions Keras Tuner 1.4.8 silently takes the first; under two conditions it
        replaces the value by a random one or ends in a `KeyError`. A `hyperparameters` of the
        user, which is meant to override, is not compared.
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


def rebuild_grid(oracle: kt.oracles.GridSearchOracle) -> None:
    """Derive from the trials what Keras Tuner 1.4.8 forgets of a grid: their order and the next."""
    if _incomplete(oracle) is not None:
        # Such trials have no order; the next one is refused.
        return

    def compare(*ids):
        return oracle._compare(*(oracle.trials[each].hyperparameters.values for each in ids))

    oracle._ordered_ids = type(oracle._ordered_ids)()
    for trial_id in sorted(oracle.start_order, key=functools.cmp_to_key(compare)):
        oracle._ordered_ids.insert(trial_id)
    oracle._populate_next = list(oracle.start_order)


def guard_grid(oracle: kt.oracles.GridSearchOracle) -> None:
    """From now on refuse a next trial after an incomplete one: Keras Tuner 1.4.8's KeyError."""
    populate = oracle.populate_space

    @functools.wraps(populate)
    def guarded(trial_id):
        found = _incomplete(oracle)
        if found is not None:
            raise late(*found)
        return populate(trial_id)

    oracle.populate_space = guarded


def late(name: str, trial_id: str) -> kt.errors.FatalValueError:
    """Return the error for the hyperparameter `name`, which trial `trial_id` shows too late."""
    return kt.errors.FatalValueError(
        "A grid must know each hyperparameter, and when it is active, before its first trial. "
        f"Received: {name!r}, missing before trial {trial_id} or in it, as behind a plain `if`. "
        "Ask for it inside hp.conditional_scope, in build, and choose another project_name."
    )


def _incomplete(oracle):
    """Return the first hyperparameter that an ended trial lacks, and that trial, or None."""
    for trial_id in oracle.end_order:
        values = oracle.trials[trial_id].hyperparameters.values
        for parameter in oracle.hyperparameters.space:
            active = all(condition.is_active(values) for condition in parameter.conditions)
            if active and parameter.name not in values:
                return parameter.name, trial_id
    return None


def _make_plain(values):
    for name, value in values.items():
        values[name] = plain(value)


def _shown(parameter):
    conditions = (f"{each.name} is one of {each.values}" for each in parameter.conditions)
    return f"{parameter} if {' and '.join(conditions)}" if parameter.conditions else str(parameter)
