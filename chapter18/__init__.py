"""Reusable code of the course "Best practices for the real world" (Keras 3 on JAX).

Import the module of the subject you need, for example `from chapter18 import tuning`:

- the sections' own, in their order: `tuning`, `ensembles`, `batching`, `mesh`, `steps`,
  `precision`, `mixed_precision`, `quantization`
- for several sections: `devices`, `planning`, `checkpoints`, `processes`, `recorded`
- data and a model to try them on: `datasets`, `character_model`
- for the first cell of a notebook: `requirements`; for the others, `figures` and `exercises`

A subject's folder shows in its `__init__.py` what it offers; files and folders that start with an
underscore are internal. Importing the package itself loads neither Keras nor JAX, so the number of
devices can still be chosen afterwards.

It chooses JAX for Keras where the environment variable KERAS_BACKEND chooses nothing. So the
backend in ~/.keras/keras.json does not count: Keras itself writes one there, unasked. With another
backend chosen, or Keras imported with one before, what needs JAX says so when it is called.
"""

import os

# An empty value means to Keras that none was chosen.
if not os.environ.get("KERAS_BACKEND"):
    os.environ["KERAS_BACKEND"] = "jax"

__version__ = "0.1.0"
