"""The exercises of section 4: a strict layout for a given model, and the smallest mesh it fits."""

import math

import keras
import numpy as np

from chapter18 import mesh as meshes
from chapter18 import planning
from chapter18._shared import abstract
from chapter18.exercises._answers import Hint, checker, right, shown
from chapter18.planning import hardware

DATA, MODEL = 2, 4  # the mesh of the first exercise
DEVICES, DEVICE, BATCH = 8, "T4", 256  # what the second one may use

# The beginning of each refusal of `mesh.resolve`, and what it means for a reader.
_REFUSALS = {
    "Each rule must match": (
        "A rule matches no variable, so Keras would copy everything to every device, without a "
        "word. A rule must match the whole path.",
        "یک قاعده با هیچ متغیری جور نیست؛ پس Keras بی‌صدا همه‌چیز را روی همهٔ دستگاه‌ها رونویسی "
        "می‌کرد. قاعده باید با کل مسیر متغیر جور باشد.",
    ),
    "Each variable may be": (
        "Two rules claim the same variable. Make one of them narrower.",
        "دو قاعده سر یک متغیر دعوا دارند. یکی را محدودتر کنید.",
    ),
    "A spec has one entry": (
        "A spec has as many entries as its variable has axes, and the kernels inside attention "
        "have three: features, heads, units of a head.",
        "هر مشخصه به تعداد محورهای متغیرش خانه دارد، و کرنل‌های درون توجه سه محور دارند: ویژگی‌ها، "
        "سرها و واحدهای هر سر.",
    ),
    "A spec names axes": (
        "A spec may only name the axes of the mesh, `data` and `model`, each once, or `None`.",
        "هر مشخصه فقط نام محورهای مش را می‌برد، یعنی `data` و `model`، هر کدام یک بار، یا `None`.",
    ),
    "An axis that is split": (
        f"An axis that does not divide by `{MODEL}` cannot be split. Look for one that does: "
        "attention has as many heads as the mesh has columns.",
        f"محوری که بر `{MODEL}` بخش‌پذیر نیست خرد نمی‌شود. محوری را بیابید که باشد: توجه به تعداد "
        "ستون‌های مش سر دارد.",
    ),
}


def block():
    """Return the model that the first exercise lays out: attention, then two dense layers."""
    x = keras.Input((16, 64))
    attended = keras.layers.MultiHeadAttention(4, 18, name="attention")(x, x)
    wide = keras.layers.Dense(256, activation="relu", name="up")(attended)
    return keras.Model(x, keras.layers.Dense(64, name="down")(wide), name="block")


def giant():
    """Return the model that the second exercise only plans, never build it: 2.1 billion weights."""
    wide = keras.layers.Dense(65_536, activation="relu")
    return keras.Sequential([keras.Input((16_384,)), wide, keras.layers.Dense(16_384)])


def _layout(*, rules):
    if isinstance(rules, str):
        raise Hint(
            f"{shown(rules)} is a scheme, not rules. Here you write them yourself: a dict from "
            "paths to specs.",
            f"نوشتهٔ {shown(rules)} نام یک الگوست، نه قاعده. اینجا قاعده‌ها را خودتان بنویسید: یک "
            "دیکشنری از مسیرها به مشخصه‌ها.",
        )
    found = abstract.build(block, None, lambda model: _places(model, rules))
    whole = [path for path, _, spec in found if path.endswith("kernel") and "model" not in spec]
    if whole:
        raise Hint(
            "Not every kernel is split along `model`. Whole on each column of the mesh: "
            f"`{', '.join(whole)}`.",
            "همهٔ کرنل‌ها در راستای `model` خرد نشده‌اند. این‌ها روی هر ستون مش کامل مانده‌اند: "
            f"`{', '.join(whole)}`.",
        )
    kept = sum(size / _parts(spec) for _, size, spec in found) / sum(size for _, size, _ in found)
    return right(
        f"Every rule means what it says, and a device holds `{kept:.0%}` of the parameters.",
        f"هر قاعده همان معنایی را دارد که می‌گوید، و هر دستگاه `{kept:.0%}` از پارامترها را نگه "
        "می‌دارد.",
    )


def _places(model, rules):
    """Return `(path, size, spec)` of every variable; a `Hint` where the rules are refused."""
    imaginary = np.array([f"imaginary:{i}" for i in range(DATA * MODEL)])
    mesh = keras.distribution.DeviceMesh((DATA, MODEL), ["data", "model"], imaginary)
    try:
        specs = meshes.resolve(model, mesh, rules)
    except ValueError as error:
        raise _refused(error) from error
    return [(v.path, math.prod(v.shape), specs[v.path]) for v in model.variables]


def _refused(error):
    rule, _, received = str(error).partition(" Received: ")
    (texts,) = (texts for beginning, texts in _REFUSALS.items() if rule.startswith(beginning))
    return Hint(*texts, f"Received: {received}")


def _parts(spec):
    return math.prod({"data": DATA, "model": MODEL}.get(axis, 1) for axis in spec)


def _smallest(*, mesh, layout):
    sizes = _sizes(mesh)
    n, room = math.prod(sizes.values()), hardware.device(DEVICE).memory_bytes / 2
    needed = _bytes(sizes, layout)
    if needed > room:
        raise _too_large(needed, room, sizes, layout)
    fewer = _fewest(room)
    if fewer < n:
        raise Hint(
            f"It fits, but you pay for `{n}` devices where fewer would do.",
            f"جا می‌شود، ولی پول `{n}` دستگاه را می‌دهید و با کمتر هم می‌شد.",
        )
    return right(
        f"Each of `{n}` devices keeps `{needed / 1e9:.1f}` GB and has the other half for gradients "
        "and activations; on fewer devices no layout leaves that much.",
        f"هر یک از `{n}` دستگاه `{needed / 1e9:.1f}` گیگابایت نگه می‌دارد و نیمهٔ دیگر برای "
        "گرادیان‌ها و فعال‌سازی‌ها می‌ماند؛ با دستگاه‌های کمتر هیچ چیدمانی این‌قدر جا نمی‌گذارد.",
    )


def _sizes(mesh):
    sizes = dict(mesh) if isinstance(mesh, dict) else {}
    counts = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes.values())
    known = sizes and set(sizes) <= {"data", "model"}
    if not (known and counts and math.prod(sizes.values()) <= DEVICES):
        raise Hint(
            "A mesh is written as sizes of `data` and `model`, whole numbers whose product is at "
            f"most `{DEVICES}`; received {shown(mesh)}.",
            "مش را با اندازه‌های `data` و `model` بنویسید، عددهایی درست که حاصل‌ضربشان دست بالا "
            f"`{DEVICES}` باشد؛ این رسید: {shown(mesh)}.",
        )
    return sizes


def _bytes(sizes, layout):
    """Return the bytes that one device keeps between steps, exactly."""
    try:
        plan = planning.plan(giant, mesh=sizes, layout=layout, batch_size=BATCH, estimate=False)
    except (TypeError, ValueError) as error:
        raise Hint(
            "This layout cannot be had on this mesh. The planner says why.",
            "این چیدمان روی این مش ممکن نیست. برنامه‌ریز می‌گوید چرا.",
            error,
        ) from error
    return plan.exact_bytes


def _fewest(room):
    return next(
        n
        for n in (1, 2, 4, 8)
        for sizes, layout in (({"data": n}, "fsdp"), ({"model": n}, "columns"))
        if _bytes(sizes, layout) <= room
    )


def _too_large(needed, room, sizes, layout):
    numbers = f"`{needed / 1e9:.1f}`", f"`{room / 1e9:.1f}`"
    if layout == "replicated":
        return Hint(
            f"Copies do not save memory: every device keeps the whole model, {numbers[0]} GB, and "
            f"half of a {DEVICE} is {numbers[1]}. More data parallelism changes nothing.",
            f"رونوشت‌ها حافظه را کم نمی‌کنند: هر دستگاه همهٔ مدل را نگه می‌دارد، {numbers[0]} "
            f"گیگابایت، و نیمی از {DEVICE} برابر {numbers[1]} است. موازی‌سازی داده‌ها هر قدر بیشتر "
            "شود چیزی عوض نمی‌شود.",
        )
    if layout in ("columns", "megatron") and sizes.get("data", 1) > 1:
        return Hint(
            f"Each device keeps {numbers[0]} GB, more than {numbers[1]}. This layout splits the "
            "model along `model` only; along `data` your devices hold copies.",
            f"هر دستگاه {numbers[0]} گیگابایت نگه می‌دارد، بیش از {numbers[1]}. این چیدمان مدل را "
            "فقط در راستای `model` خرد می‌کند؛ در راستای `data` دستگاه‌هایتان رونوشت دارند.",
        )
    return Hint(
        f"Each device keeps {numbers[0]} GB, more than {numbers[1]}: half of a {DEVICE}, so that "
        "gradients and activations find room. Split further.",
        f"هر دستگاه {numbers[0]} گیگابایت نگه می‌دارد، بیش از {numbers[1]}، یعنی نیمی از {DEVICE} "
        "که باید جای گرادیان‌ها و فعال‌سازی‌ها را باز بگذارد. بیشتر خرد کنید.",
    )


check = checker(layout=_layout, smallest=_smallest)
