"""Save a model under one distribution and restore it under another, proven on the spot."""

from chapter18.checkpoints._saving import restore, save

__all__ = [
    "restore",
    "save",
]
