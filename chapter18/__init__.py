"""Reusable code of the course "Best practices for the real world" (Keras 3 on JAX).

Import the module of the subject you need, for example `from chapter18 import tuning`. Importing
the package itself loads neither Keras nor JAX, so the backend and the number of devices can still
be chosen afterwards.
"""

__version__ = "0.1.0"
