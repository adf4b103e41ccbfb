"""Models that tests plan in child processes, where an importable build function can go."""

import keras
from keras import layers


def small():
    return keras.Sequential([keras.Input((24,)), layers.Dense(32), layers.Dense(8)])


def book():
    """16,000 → 64,000 → 8,000: 1.54 billion parameters."""
    return keras.Sequential(
        [keras.Input((16_000,)), layers.Dense(64_000, activation="relu"), layers.Dense(8_000)]
    )


def open_length():
    return keras.Sequential([keras.Input((None, 8)), layers.GRU(4)])


def slow():
    import time

    time.sleep(60)


def dies():
    import os

    os._exit(3)
