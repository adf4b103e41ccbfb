"""The distributions under which models of these tests train, by name."""

import keras


def one_device():
    return None


def data_parallel():
    return keras.distribution.DataParallel()


def model_parallel():
    mesh = keras.distribution.DeviceMesh((2, 4), ("data", "model"))
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*hidden/kernel"] = (None, "model")
    layout[".*hidden/bias"] = ("model",)
    layout[".*out/kernel"] = ("model", None)
    return keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="data")


DISTRIBUTIONS = {
    "one_device": one_device,
    "data_parallel": data_parallel,
    "model_parallel": model_parallel,
}
