"""Save small models under each distribution, restore them under others, and print what was seen.

`checkpoint_scenario.py FOLDER`, on eight devices. A restored model must go on training as the one
that was never interrupted, so both train one more epoch and their weights are compared.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from sharded_models import Block, batch, mlp

from chapter18 import checkpoints, mesh

FOLDER = Path(sys.argv[1])
WIDE, TALL = mesh.make_mesh(data=2, model=4), mesh.make_mesh(data=4, model=2)
SAVED = {"megatron 2 × 4": ("megatron", WIDE), "DataParallel": "data", "none": None}
RESTORED = {
    "megatron 2 × 4": ("megatron", WIDE),
    "fsdp 4 × 2": ("fsdp", TALL),
    "DataParallel": "data",
    "none": None,
}


def distribution(place):
    keras.distribution.set_distribution(
        keras.distribution.DataParallel() if place == "data" else None
    )


def built(build, place):
    distribution(place)
    if isinstance(place, tuple):
        return mesh.build(build, batch(build)[0], place[0], mesh=place[1])
    model = build()
    model(batch(build)[0])
    return model


def restored(build, path, place):
    distribution(place)
    if isinstance(place, tuple):
        made = {"build": build, "sample": batch(build)[0]}
        return checkpoints.restore(path, layout=place[0], mesh=place[1], **made)
    return checkpoints.restore(path)


def one_epoch(model, build):
    x, y = batch(build)
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    return [np.asarray(v.value, "float64") for v in model.variables]


def difference(one, other):
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def crossings(build, policy, targets_of):
    seen = {}
    for source, targets in targets_of.items():
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(3)
        model = built(build, SAVED[source])
        model.compile(keras.optimizers.Adam(0.01, gradient_accumulation_steps=3), "mse")
        one_epoch(model, build)
        path = FOLDER / "model.keras"
        checkpoints.save(model, path)
        uninterrupted = one_epoch(model, build)
        keras.config.set_dtype_policy("float32")
        for target in targets:
            again = restored(build, path, RESTORED[target])
            seen[f"{source} → {target}"] = {
                "difference": difference(uninterrupted, one_epoch(again, build)),
                "optimizer": type(again.optimizer).__name__,
                "policy_after": keras.config.dtype_policy().name,
            }
    keras.distribution.set_distribution(None)
    return seen


SHARDED = "megatron 2 × 4"
CROSSINGS = {
    SHARDED: RESTORED,
    "DataParallel": [SHARDED],
    "none": ["none", "fsdp 4 × 2"],
}
seen = {
    "mlp float32": crossings(mlp, "float32", CROSSINGS),
    "mlp mixed_float16": crossings(
        mlp, "mixed_float16", {"DataParallel": ["DataParallel", "none"]}
    ),
    "block mixed_bfloat16": crossings(Block, "mixed_bfloat16", {SHARDED: [SHARDED, "none"]}),
}
print(json.dumps(seen))
