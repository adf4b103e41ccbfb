import keras
import numpy as np
import pytest

from chapter18 import batching


class Clock:
    """One second passes at every look."""

    now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def trained(*data):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    model.fit(*data, batch_size=5 if len(data) > 1 else None, epochs=3, shuffle=False, verbose=0)
    return model


# TensorFlow's own imports warn on a new Python or NumPy; the course cannot mend them.
@pytest.mark.filterwarnings("ignore")
def test_a_cached_and_prefetched_pipeline_reads_once_and_trains_as_arrays_do():
    tf = pytest.importorskip("tensorflow", reason="tf.data is optional: pip install '.[tfdata]'")
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    y = np.ones((20, 2), "float32")
    reads = []

    def rows():
        for row in zip(x, y, strict=True):
            reads.append(row)
            yield row

    kinds = (tf.TensorSpec((3,), tf.float32), tf.TensorSpec((2,), tf.float32))
    pipeline = tf.data.Dataset.from_generator(rows, output_signature=kinds)
    pipeline = pipeline.cache().batch(5).prefetch(tf.data.AUTOTUNE)
    list(pipeline)
    model = trained(pipeline)
    assert len(reads) == 20
    for ours, theirs in zip(model.get_weights(), trained(x, y).get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    found = batching.measure_starvation(model, pipeline, steps=4, clock=Clock())
    assert found == (4, 1, 1, 0)
    assert len(reads) == 20
