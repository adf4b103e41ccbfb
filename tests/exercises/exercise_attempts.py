"""What people try: for each exercise the hint to its first attempt, and its usual mistakes."""

import sys
from typing import NamedTuple

import numpy as np


class Attempts(NamedTuple):
    """A part of the hint to the published cell; `mistakes`: pairs of code and a part of its hint,
    or True where the code is another right answer."""

    first: str
    mistakes: list


_SPACE = """
def my_space(hp):
    name = hp.Choice("optimizer", ["adam", "sgd"])
    rate = hp.Float("learning_rate", 1e-4, 1e-1, sampling="log")
    {body}
"""


def _space(body):
    return _SPACE.format(body=body.strip().replace("\n", "\n    "))


def _rules(heads):
    return _RULES.replace("HEADS", heads)


_GUARDED = """
with hp.conditional_scope("optimizer", ["sgd"]):
    momentum = hp.Float("momentum", 0.0, 0.95)
if name == "sgd":
    return keras.optimizers.SGD(rate, momentum=momentum)
return keras.optimizers.Adam(rate)
"""
_RULES = """
my_rules = {
    "attention/(query|key|value)/kernel": (HEADS),
    "attention/attention_output/kernel": ("model", None, None),
    "up/kernel": (None, "model"),
    "down/kernel": ("model", None),
}
"""
_ACCURACY = "[(p.argmax(axis=1) == seen.y).mean() for p in seen.predictions.values()]"


def _model(hidden, last):
    return f"""
def my_model():
    hidden = keras.layers.Dense(64, dtype="{hidden}", name="hidden")
    logits = keras.layers.Dense(10, dtype="{last}", name="logits")
    return keras.Sequential([keras.Input((784,)), hidden, logits])
"""


def _quantize(scale, ratio="np.rint(x / scale)"):
    return f"""
def my_quantize(x):
    scale = {scale}
    return ({ratio}).astype("int8"), scale
"""


ATTEMPTS = {
    ("01", "space"): Attempts(
        "lie in the highest decade",
        [
            (_space(_GUARDED), True),
            (
                _space(_GUARDED.replace('with hp.conditional_scope("optimizer", ["sgd"])', "if 1")),
                "active with Adam too",
            ),
            (
                _space(
                    'if name == "sgd":\n'
                    '    momentum = hp.Float("momentum", 0.0, 0.95)\n'
                    "    return keras.optimizers.SGD(rate, momentum=momentum)\n"
                    "return keras.optimizers.Adam(rate)"
                ),
                "behind a plain `if`",
            ),
            (
                _space(_GUARDED.replace('if name == "sgd"', "if True")),
                "a request answers `None`",
            ),
            (
                _space(_GUARDED.replace('["sgd"]', '["adam"]').replace("=momentum)", "=0.9)")),
                "active with Adam too",
            ),
            (
                _space(_GUARDED.replace('["sgd"]', '["SGD"]').replace("=momentum)", "=0.9)")),
                "not active with SGD",
            ),
            (_space(_GUARDED.replace("momentum=momentum", "momentum=0.5")), "must also be used"),
            (_space(_GUARDED.replace("(rate", "(0.01")), "must also be used"),
            (_space(_GUARDED).replace("1e-4", "1e-5"), "from `1e-4` to `1e-1`"),
            (_space(_GUARDED).replace("rate = hp.Float(", "rate = hp.Choice(", 1), "TypeError"),
            (_space(_GUARDED).replace('"learning_rate"', '"rate"'), "under the name"),
            (_space(_GUARDED).replace('["adam", "sgd"]', '["sgd", "rmsprop"]'), "between `"),
            (_space("return keras.optimizers.Adam(rate)"), "under the name `momentum`"),
            (_space("return name, rate"), "must return a Keras optimizer"),
        ],
    ),
    ("01", "objective"): Attempts(
        "does not say which way is better",
        [
            ('my_objective = ("val_r2_score", "min")', "picks the second"),
            ('my_objective = ("r2_score", "max")', "rewards overfitting"),
            ('my_objective = ("val_r2", "max")', "No log is called"),
            ('my_objective = "val_loss"', "the question asked for R²"),
            ('my_objective = ("val_r2_score", "up")', "is a pair"),
            ('my_objective = [("val_r2_score", "max")]', "is a pair"),
        ],
    ),
    ("02", "weights"): Attempts(
        "weights of the uniform mean",
        [
            ("my_weights = [0, 1, 0, 0, 0, 0]", "All the weight is on `net 2`"),
            (f"my_weights = {_ACCURACY}", "`rushed` still has a voice"),
            ("my_weights = [1, 1, 1, 0, 0, 0]", "hardly more than one voice"),
            ("my_weights = [0, 0, 0, 1, 1, 0]", "Do not guess"),
            ("my_weights = [2, 2, 2, 2, 2, -1]", "never negative"),
            ("my_weights = [0.3, 0.3, 0.4]", "one number for each"),
            ("my_weights = fit_weights(*seen, method='greedy').weights", True),
        ],
    ),
    ("02", "trio"): Attempts(
        "Members of one family are good, and alike",
        [
            ('my_members = ["trees", "linear", "rushed"]', "To differ is not enough"),
            ('my_members = ["net 1", "net 3", "trees"]', "Members of one family"),
            ('my_members = ["net 1", "trees"]', "three different members"),
            ('my_members = ["net 1", "trees", "forest"]', "three different members"),
            ('my_members = ["trees", "trees", "linear"]', "three different members"),
        ],
    ),
    ("03", "crashing"): Attempts(
        "not even a full batch splits",
        [
            ("my_devices = [3, 6, 8]", "`8` devices do not crash"),
            ("my_devices = [3, 6]", "you have `2` of `4`"),
            ("my_devices = []", "The list is empty"),
            ("my_devices = [1, 3]", "numbers from `2` to `16`"),
            ("my_devices = {12, 3, 15, 6}", True),
        ],
    ),
    ("03", "eight"): Attempts(
        "each device gets `8` rows a step",
        [
            ("my_batch_size, my_learning_rate, my_rows = 512, 0.05, 50_000", "has not: an epoch"),
            ("my_batch_size, my_learning_rate, my_rows = 512, 0.4, 50_003", "does not split over"),
            ("my_batch_size, my_learning_rate, my_rows = 512, 0.4, 49_664", "leave out `339`"),
            ("my_batch_size, my_learning_rate, my_rows = 100, 0.05, 50_000", "positive multiple"),
            ("my_batch_size, my_learning_rate, my_rows = 512, 0.05 / 8, 50_000", "linear scaling"),
            ("my_batch_size, my_learning_rate, my_rows = 512, 0.4, 60_000", "at most `50003`"),
        ],
    ),
    ("04", "layout"): Attempts(
        "as many entries as its variable has axes",
        [
            ('my_rules = {"kernel": (None, "model")}', "must match the whole path"),
            ('my_rules = {"up/kernel": (None, "model")}', "Not every kernel is split"),
            (_rules('None, None, "model"'), "does not divide by `4`"),
            (_rules('None, "data", None'), "Not every kernel is split"),
            (_rules('None, "heads", None'), "only name the axes"),
            (
                _rules('None, "model", None') + 'my_rules[".*/kernel"] = (None, "model")',
                "claim the same variable",
            ),
            ('my_rules = "megatron"', "is a scheme, not rules"),
            (_rules('"model", None, None'), True),
        ],
    ),
    ("04", "smallest"): Attempts(
        "Copies do not save memory",
        [
            ('my_mesh, my_layout = {"data": 2, "model": 2}, "columns"', "along `model` only"),
            ('my_mesh, my_layout = {"data": 2, "model": 4}, "columns"', "you pay for `8`"),
            ('my_mesh, my_layout = {"data": 1, "model": 2}, "megatron"', "Split further"),
            ('my_mesh, my_layout = {"data": 4, "model": 4}, "fsdp"', "product is at most `8`"),
            ('my_mesh, my_layout = {"data": 3}, "fsdp"', "The planner says"),
            ('my_mesh, my_layout = {"data": 4}, "fsdp"', True),
            ('my_mesh, my_layout = {"model": 4}, "columns"', True),
        ],
    ),
    ("05", "group"): Attempts(
        "`21` steps are left",
        [
            ("my_k = 125", "`6.3` MB"),
            ("my_k = 5", "a larger group does both"),
            ("my_k = 1", "plain `fit`"),
            ("my_k = 4000", "`3125` steps are left"),
        ],
    ),
    ("05", "widths"): Attempts(
        "opens `4` grids",
        [
            ("my_widths = (512, 128)", "fewer than the `200`"),
            ("my_widths = (1024, 256)", "more than `500` needs"),
            ("my_widths = (513, 256)", "opens `5` grids"),
            ("my_widths = 512", "two widths"),
            ("my_widths = [512, 256]", True),
        ],
    ),
    ("06", "bits"): Attempts(
        "it is not stored as it is",
        [
            ('my_exponent, my_mantissa = "10000010", "1010011"', "implied and not stored"),
            ('my_sign, my_exponent = "0", "10000010"', "Your bits say `10.375`"),
            ('my_exponent = "10000011"', "Your bits say `-20.75`"),
            ('my_exponent, my_mantissa = "10010", "0100110000"', "a text of `8` zeros and ones"),
            ("my_exponent = 130", "a text of `8` zeros and ones"),
        ],
    ),
    ("06", "whole"): Attempts(
        "`65504` is the largest number",
        [
            ('my_limits = my_limits | {"float16": 1024}', "goes twice as far as `1024`"),
            ('my_limits = my_limits | {"float16": 2047}', "`2048`, is exact too"),
            ('my_limits = my_limits | {"float16": 4096}', "`2049` becomes `2048`"),
            ("my_limits = 2048", "a dict with a number for each"),
            ('my_limits = {"float16": 2048}', "a dict with a number for each"),
            ('my_limits = my_limits | {"float16": 2048.5}', "a positive whole number"),
        ],
    ),
    ("07", "scale"): Attempts(
        "Without scaling",
        [
            ("my_scale = 2**10", "So far"),
            ("my_scale = 2**30", "overflow to infinity"),
            ("my_scale = -1", "a positive number"),
            ("my_scale = 2**15", True),
        ],
    ),
    ("07", "policies"): Attempts(
        "The outputs of `logits` are `bfloat16`",
        [
            (_model("float16", "float32"), "keeps its weights in `float16`"),
            (_model("float32", "float32"), "nothing gained"),
            (_model("mixed_float16", "float32"), True),
            ("my_model = my_model()", "Pass the function"),
            ("my_model = keras.Sequential", "a built Keras model"),
        ],
    ),
    ("08", "by_hand"): Attempts(
        "One scale serves all columns",
        [
            (_quantize("np.abs(x).max(axis=0) / 127"), "One column is zero"),
            (_quantize("1.0", "x"), "That is a cast"),
            (_quantize("x.max(axis=0).clip(1e-9) / 127"), "negative numbers included"),
            (_quantize("np.abs(x).max(axis=0).clip(1e-9) / 127", "x / scale"), "cuts towards zero"),
            (_quantize("np.abs(x).max(axis=1, keepdims=True) / 127"), "a scale for each row"),
            (_quantize("np.abs(x).max(axis=0).clip(1e-9) / 63"), "absmax gives"),
            (_quantize("np.abs(x).max(axis=0).clip(1e-9) / 127"), True),
        ],
    ),
    ("08", "filters"): Attempts(
        "Everything is quantized",
        [
            ('my_filters = ["first", "second", "third"]', "is still among those"),
            ('my_filters = ["first", "last"]', "More than one layer is left out"),
            ('my_filters = "^third$"', "are refused"),
            ('my_filters = lambda layer: layer.name != "third"', True),
        ],
    ),
}


class Hostile:
    """An object that answers whatever it is asked with an exception."""

    def __getattribute__(self, name):
        if name == "__class__":
            return Hostile
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError

    __len__ = __iter__ = __eq__ = __hash__ = __bool__ = __float__ = __array__ = __repr__

    def __call__(self, *_):
        raise OSError(self)


def nonsense(keywords):
    """Yield (text, attempt) of attempts that make no sense, as `check` takes them."""
    values = [None, "", "nonsense", "`", 0, -1, 2**80, 1.5, float("nan"), True, [], {}, (1, "a")]
    values += [[None] * 6, [[1, 2], [3]], {"data": 0}, {None: None}, {"data": "x"}, {"a": 1}]
    values += [b"\xff", object(), Hostile(), [Hostile()] * 6, {Hostile: Hostile()}, ValueError("x")]
    values += [np.zeros((3, 0)), np.array([["a"]]), np.array(3), lambda: None, lambda hp: hp, int]
    values += [lambda *_: sys.exit()]
    for value in values:
        yield type(value).__name__, dict.fromkeys(keywords, value)
    yield "nothing", {}
    yield "too much", dict.fromkeys([*keywords, "more"], 1)
