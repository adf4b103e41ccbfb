"""Build small models in every layout on eight devices, and print what was seen as JSON."""

import json

import keras
import numpy as np
from sharded_models import MODELS, batch, mlp

from chapter18 import mesh

MESH = mesh.make_mesh(data=2, model=4)
LAYOUTS = ("columns", "megatron", "fsdp", "replicated")


def trained(build, layout):
    """Initial predictions, then the weights of three steps, from one seed."""
    x, y = batch(build)
    keras.utils.set_random_seed(7)
    model = mesh.build(build, x, layout, mesh=MESH) if layout else build()
    before = model.predict(x, verbose=0)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    keras.distribution.set_distribution(None)
    return model, before, [np.asarray(w.value) for w in model.weights]


def largest(pairs):
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def bytes_by_device(variables):
    held = {}
    for variable in variables:
        for shard in variable.value.addressable_shards:
            held[shard.device.id] = held.get(shard.device.id, 0) + shard.data.nbytes
    return sorted(set(held.values()))


def compared(build):
    seen = {}
    _, predictions, weights = trained(build, None)
    for layout in LAYOUTS:
        model, before, after = trained(build, layout)
        table = mesh.sharding_table(model)
        slots = [v for v in model.optimizer.variables if v.path.endswith("_momentum")]
        seen[layout] = {
            "predictions": largest([(predictions, before)]),
            "weights": largest(zip(weights, after, strict=True)),
            "table_bytes": int(table["bytes_per_device"].sum()),
            "shard_bytes": bytes_by_device(model.variables),
            "paths": list(table["path"]),
            "split": int((~table["replicated"]).sum()),
            "slots_follow": all(
                slot.value.sharding == weight.value.sharding
                for slot, weight in zip(slots, model.trainable_variables, strict=True)
            ),
        }
    return seen


def message(call):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "no error"


def rules():
    layout = {".*/dense/kernel": (None, "model"), ".*/dense_1/kernel": ("model", None)}
    x, _ = batch(mlp)
    tables = [mesh.sharding_table(mesh.build(mlp, x, layout, mesh=MESH)) for _ in range(2)]
    keras.distribution.set_distribution(None)
    ready = mlp()
    ready(x)
    return {
        "split": tables[0][~tables[0]["replicated"]]["path"].tolist(),
        "specs": [list(spec) for spec in tables[0]["spec"] if any(spec)],
        "twice_equal": tables[0].equals(tables[1]),
        "ready_model": message(lambda: mesh.build(lambda: ready, x, "columns", mesh=MESH)),
        "distribution_after": str(keras.distribution.distribution()),
        "too_many": message(lambda: mesh.make_mesh(data=4, model=4)),
    }


seen = {name: compared(build) for name, build in MODELS.items()}
print(json.dumps(seen | {"rules": rules()}))
