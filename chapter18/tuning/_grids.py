"""What Keras Tuner's grid search forgets at a crash, and what it cannot search."""

import functools

import keras_tuner as kt


def rebuild(oracle) -> None:
    """Derive from the trials what Keras Tuner 1.4.8 forgets of a grid: their order and the next."""
    if _incomplete(oracle) is not None:
        # Such trials have no order; the next one is refused.
        return

    def compare(a, b):
        values = (oracle.trials[trial_id].hyperparameters.values for trial_id in (a, b))
        return oracle._compare(*values)

    oracle._ordered_ids = type(oracle._ordered_ids)()
    for trial_id in sorted(oracle.start_order, key=functools.cmp_to_key(compare)):
        oracle._ordered_ids.insert(trial_id)
    oracle._populate_next = list(oracle.start_order)


def guard(oracle) -> None:
    """From now on refuse a next trial where an ended one lacks one of the hyperparameters.

    Keras Tuner 1.4.8 ends in a `KeyError` there.
    """
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
