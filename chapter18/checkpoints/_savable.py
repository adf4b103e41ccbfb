"""What `checkpoints.save` refuses, because `checkpoints.restore` could not give it back."""

import json
import warnings

import keras

from chapter18._shared import checks


def check(model, path):
    """Raise, before anything is written, unless `restore` can give back what is saved at `path`.

    Raises TypeError for what is no Keras model; ValueError for another suffix, a model without
    variables, one compiled in a way that no file can tell, and one whose optimizer was made for
    other variables than are trainable now.
    """
    if path.suffix != ".keras":
        raise ValueError(
            "A checkpoint is a file whose name ends in .keras. "
            f"Received: {str(path)!r}. Write for example 'model.keras'."
        )
    checks.built(model, rule="A model is saved once it has variables.")
    if model.compiled:
        _check_compiled(model)
        _check_optimizer(model)


def _check_compiled(model):
    kind = type(model)
    own = kind.compile is not keras.Model.compile
    if own and kind.compile_from_config is keras.Model.compile_from_config:
        raise ValueError(
            "A model with its own compile is compiled anew by its own compile_from_config. "
            f"Received: {kind.__name__}, which has none. Define get_compile_config and "
            "compile_from_config beside compile."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras warns of a lambda, which is refused below
            text = json.dumps(model.get_compile_config())
    except Exception as error:  # whatever an object of the user's raises when it is serialised
        raise ValueError(
            "A checkpoint tells how its model was compiled. "
            f"Received: {model.name!r}, compiled with something that Keras cannot write down: "
            f"{error}. Pass names, functions, or objects with get_config."
        ) from error
    if '"__lambda__"' in text or "<lambda>" in text:
        raise ValueError(
            "A checkpoint names the losses and metrics that its model was compiled with. "
            f"Received: {model.name!r}, compiled with a lambda, which has no name. "
            "Define it with def, compile again, and pass custom_objects to restore."
        )


def _check_optimizer(model):
    optimizer = model.optimizer
    if optimizer is None or not optimizer.built:
        return
    now = [id(variable) for variable in model.trainable_variables]
    if [id(variable) for variable in _optimized(optimizer)] != now:
        raise ValueError(
            "An optimizer belongs to the variables that are trainable. "
            f"Received: {model.name!r}, of which layers were frozen or unfrozen after compile, "
            "so that neither Keras' fit nor a restored model could go on. "
            "Call model.compile(…) again, then save."
        )


def _optimized(optimizer):
    """The variables that a built optimizer was built for, in its order.

    A private name of Keras, as seen in 3.15.1 and 3.16.0.dev2026102704; no public one says it.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return list(inner._trainable_variables)
