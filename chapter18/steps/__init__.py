"""Several training steps in one compiled program (section 5).

    with steps.fuse(model, 32):
        model.fit(x, y, batch_size=16)

The k steps are one `jax.lax.scan`, so Python is asked once in k steps. Keras' own
`steps_per_execution` on JAX calls the compiled step k times from Python up to 3.15; from 3.16 on it
scans too, and fusing uses its scan. What fusing adds there: callbacks get the indices of batches
that exist, `train_on_batch`, `evaluate` and `predict` stay single steps, a training step may return
other containers than it got, and the model need not be compiled again. `KERAS_FUSES` says whether
this Keras scans by itself.
"""

from chapter18.steps._fusing import Fused, fuse
from chapter18.steps._scans import KERAS_FUSES

__all__ = ["KERAS_FUSES", "Fused", "fuse"]
