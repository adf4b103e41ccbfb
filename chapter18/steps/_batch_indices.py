"""Show batch callbacks only indices of batches that exist, where Keras counts whole groups."""

import contextlib

import keras


def with_progress_bar(callbacks, verbose):
    """Return `callbacks` (one, a nest or None) as a list, with the bar that `fit` would add itself.

    Raises ValueError when they are a `CallbackList`.
    """
    if isinstance(callbacks, keras.callbacks.CallbackList):
        raise ValueError(
            "A fused model takes its callbacks one by one, to give each valid batch indices. "
            "Received: a CallbackList. Pass a list of callbacks instead."
        )
    callbacks = keras.tree.flatten(callbacks) if callbacks else []
    if verbose == 0 or any(isinstance(c, keras.callbacks.ProgbarLogger) for c in callbacks):
        return callbacks
    bar = keras.callbacks.ProgbarLogger()
    # Keras treats its own bar so; training would wait for any other after every group.
    bar.async_safe = True
    return [*callbacks, bar]


@contextlib.contextmanager
def valid_indices(callbacks, drawn):
    """Meanwhile, cap the indices that batch hooks of `callbacks` get in training.

    `drawn()` is the number of batches drawn so far in the epoch. A batch begins at it at the
    latest, and ends before it: that stays right when Keras calls a hook later, from a thread. The
    callbacks themselves are changed, not wrapped, and changed back on exit: users compare them.
    """
    patched = []
    try:
        for callback in callbacks:
            for name, behind in (("on_train_batch_begin", 0), ("on_train_batch_end", 1)):
                if _overrides(callback, name):
                    patched.append((callback, name, vars(callback).get(name)))
                    setattr(callback, name, _capped(getattr(callback, name), drawn, behind))
        yield
    finally:
        for callback, name, own in reversed(patched):
            delattr(callback, name)
            if own is not None:
                setattr(callback, name, own)


def _overrides(callback, name):
    """Whether a hook does anything, itself or through the older name that it calls."""
    base = keras.callbacks.Callback
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(base, hook)
        for hook in (name, name.replace("train_", ""))
    )


def _capped(hook, drawn, behind):
    def capped(batch, logs=None):
        return hook(min(batch, drawn() - behind), logs=logs)

    return capped
