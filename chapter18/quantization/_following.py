"""Lay the variables of a copied or quantized model out over devices as its original's are."""

import contextlib

import keras

from chapter18._shared import abstract


class Following(keras.distribution.ModelParallel):
    """The distribution `strict`, but with `layouts` for some paths, and without impossible splits.

    A kernel in int4 keeps its path and has half its rows, or another rank: where it cannot be
    split as its path says, it is replicated.
    """

    def __init__(self, strict: keras.distribution.ModelParallel, layouts: dict):
        super().__init__(
            layout_map=keras.distribution.LayoutMap(strict.device_mesh),
            batch_dim_name=strict.batch_dim_name,
            auto_shard_dataset=False,
        )
        self.strict, self.layouts = strict, layouts

    def get_variable_layout(self, variable):
        layout = self.layouts.get(variable.path) or self.strict.get_variable_layout(variable)
        if _fits(layout, variable.shape):
            return layout
        nowhere = [None] * len(variable.shape)
        return keras.distribution.TensorLayout(nowhere, self.strict.device_mesh)


@contextlib.contextmanager
def following(model=None, twin=None):
    """Meanwhile, new variables of `twin` are laid out as those of `model` with the same numbers;
    without these two, as their own paths say. Only a `ModelParallel` that is active is followed.
    """
    strict = keras.distribution.distribution()
    if not isinstance(strict, keras.distribution.ModelParallel):
        yield
        return
    pairs = zip(model.variables, twin.variables, strict=True) if model else ()
    layouts = {same.path: strict.get_variable_layout(variable) for variable, same in pairs}
    keras.distribution.set_distribution(Following(strict, layouts))
    try:
        yield
    finally:
        keras.distribution.set_distribution(strict)


def distribution_for(model, make, probe):
    """Return the distribution under which `make()` creates a copy laid out as `model` is.

    It is the active one, but for the paths: Keras 3.15 leaves their root out in a `Sequential`
    that is made from its configuration, and a `make` of the user's may count names on.
    """
    strict = keras.distribution.distribution()
    if not isinstance(strict, keras.distribution.ModelParallel):
        return strict
    try:
        paths = abstract.build(make, probe, lambda twin: [v.path for v in twin.variables])
    except RuntimeError:  # a variable made from a value: its path alone decides
        return strict
    layouts = zip(paths, map(strict.get_variable_layout, model.variables), strict=False)
    return Following(strict, dict(layouts))


def _fits(layout, shape):
    mesh = layout.device_mesh
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True)) | {None: 1}
    if len(layout.axes) != len(shape):
        return False
    return all(size % sizes[axis] == 0 for size, axis in zip(shape, layout.axes, strict=True))
