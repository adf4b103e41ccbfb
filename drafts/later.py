"""Exercises of sections 6 to 8, to be written into their sources once those exist."""
S={}
S["06_floating_point_precision"]=[(
"""### A number, bit by bit

Write -10.375 in `bfloat16` by hand: one bit for the sign, 8 for the exponent, 7 for the mantissa. The cell
has the sign and the mantissa right, and the power of two.""",
"""### یک عدد، بیت به بیت

عدد $-10.375$ را با دست در <code dir="ltr">bfloat16</code> بنویسید: یک بیت برای علامت، ۸ بیت برای توان، ۷ بیت برای مانتیس. علامت و مانتیسِ سلول
درست است و توان دو هم.""",
'''from chapter18.exercises_precision import check

# Your turn
my_sign = "1"
my_exponent = "00000011"
my_mantissa = "0100110"

check("bits", sign=my_sign, exponent=my_exponent, mantissa=my_mantissa)''',
"""In binary the number is 1010.011, which is 1.010011 times two to the power 3. The power is stored with 127 added,
130 in all; of the significand only what follows the point is stored, filled up with a zero.""",
"""این عدد در پایهٔ دو $1010.011$ است، یعنی $1.010011$ ضرب در دو به توان ۳. توان را با افزودن ۱۲۷ ذخیره می‌کنند که می‌شود ۱۳۰؛ و از
ضریب (significand) فقط آنچه پس از ممیز می‌آید ذخیره می‌شود، با یک صفر در پایان.""",
'''my_sign = "1"
my_exponent = f"{127 + 3:08b}"
my_mantissa = "0100110"'''),
("""### How far can it count?

Up to which whole number does each of the three formats hold every whole number exactly? The cell has the
largest number of each.""",
"""### تا چند می‌تواند بشمارد؟

هر یک از این سه قالب همهٔ عددهای درست را تا کدام عدد دقیق نگه می‌دارد؟ در سلول بزرگ‌ترین عدد هر کدام آمده است.""",
'''# Your turn
three = ["float16", "bfloat16", "float8_e4m3fn"]
my_limits = {name: int(precision.formats().loc[name, "max"]) for name in three}

check("whole", limits=my_limits)''',
"""As long as the step between neighbours is at most one, nothing is missing. With the implied bit, a mantissa of $m$ bits
counts to $2^{m+1}$.""",
"""تا جایی که فاصلهٔ دو همسایه از یک بیشتر نباشد چیزی جا نمی‌افتد. مانتیسی با $m$ بیت، به همراه بیت ضمنی، تا $2^{m+1}$ می‌شمارد.""",
'''my_limits = {name: int(2 ** (precision.formats().loc[name, "mantissa"] + 1)) for name in three}''')]
S["07_mixed_precision_training"]=[(
"""### A scale that saves the gradients

`gradients` gives you the gradients of a step. Choose a loss scale with which at least 99% of them stay different from
zero in `float16`, and none overflows.""",
"""### مقیاسی که گرادیان‌ها را نجات می‌دهد

تابع <code dir="ltr">gradients</code> گرادیان‌های یک گام را به شما می‌دهد. مقیاسی برای زیان انتخاب کنید که با آن دست کم ۹۹٪ از آن‌ها در
<code dir="ltr">float16</code> صفر نشوند و هیچ‌کدام سرریز نکند.""",
'''from chapter18.exercises_mixed_precision import check, gradients

magnitudes = np.abs(gradients())
print(f"from {magnitudes.min():.0e} to {magnitudes.max():.0e}")

# Your turn
my_scale = 1.0

check("scale", scale=my_scale)''',
"""The smallest number of `float16` bounds it from below, the largest from above. Double the scale until enough is
saved.""",
"""کوچک‌ترین عدد <code dir="ltr">float16</code> از پایین محدودش می‌کند و بزرگ‌ترین از بالا. مقیاس را آن‌قدر دو برابر کنید تا به اندازهٔ
کافی نجات پیدا کند.""",
'''my_scale = 1.0
while np.mean((magnitudes * my_scale).astype("float16") != 0) < 0.99:
    my_scale *= 2'''),
("""### Policies, layer by layer

The model trains in mixed precision, but its outputs are of 16 bits. Give the layers policies such that weights and
outputs are `float32` and everything between computes in 16 bits.""",
"""### سیاست‌ها، لایه به لایه

مدل با دقت مختلط آموزش می‌بیند، ولی خروجی‌اش ۱۶ بیتی است. به لایه‌ها سیاست‌هایی بدهید که وزن‌ها و خروجی <code dir="ltr">float32</code> باشند و هر
چه میان آن‌هاست در ۱۶ بیت حساب کند.""",
'''# Your turn
def my_model():
    hidden = keras.layers.Dense(64, activation="relu", dtype="mixed_bfloat16", name="hidden")
    logits = keras.layers.Dense(10, dtype="mixed_bfloat16", name="logits")
    return keras.Sequential([keras.Input((784,)), hidden, logits])


check("policies", build=my_model)''',
"""Only the last layer needs another policy: `float32`. It takes the 16-bit activations and computes its outputs in
full precision.""",
"""فقط لایهٔ آخر سیاست دیگری می‌خواهد: <code dir="ltr">float32</code>. فعال‌سازی‌های ۱۶ بیتی را می‌گیرد و خروجی‌اش را با دقت کامل حساب
می‌کند.""",
'''def my_model():
    hidden = keras.layers.Dense(64, activation="relu", dtype="mixed_bfloat16", name="hidden")
    logits = keras.layers.Dense(10, dtype="float32", name="logits")
    return keras.Sequential([keras.Input((784,)), hidden, logits])''')]
S["08_quantization"]=[(
"""### Absmax by hand

Write a function that takes a kernel, inputs × outputs, and returns its values in `int8` and a scale for each output.
One of the columns is zero.""",
"""### بیشینهٔ قدر مطلق، با دست

تابعی بنویسید که کرنلی بگیرد، ورودی‌ها در سطرها و خروجی‌ها در ستون‌ها، و مقدارهایش را در <code dir="ltr">int8</code> و برای هر خروجی یک ضریب
مقیاس برگرداند. یکی از ستون‌ها صفر است.""",
'''from chapter18.exercises_quantization import batch, check, network


# Your turn
def my_quantize(x):
    scale = np.abs(x).max() / 127
    return np.rint(x / scale).astype("int8"), scale


check("by_hand", quantize=my_quantize)''',
"""Take the largest magnitude along the inputs, and give a column of zeros some scale other than zero.""",
"""بیشینهٔ قدر مطلق را در راستای ورودی‌ها بردارید و به ستون صفر ضریبی جز صفر بدهید.""",
'''def my_quantize(x):
    scale = np.abs(x).max(axis=0) / 127
    scale = np.where(scale > 0, scale, 1)
    return np.rint(x / scale).astype("int8"), scale'''),
("""### All but the one that hurts

`network` is a model of four layers and `batch` a probe for it. In `int8` its outputs become useless. Write `filters` for
`quantize_copy` that quantize as many layers as possible and keep at least 25 dB.""",
"""### همه جز آن که آسیب می‌زند

تابع <code dir="ltr">network</code> مدلی با چهار لایه است و <code dir="ltr">batch</code> دسته‌ای برای آزمودنش. خروجی این مدل در
<code dir="ltr">int8</code> به درد نمی‌خورد. برای <code dir="ltr">quantize_copy</code> آرگومان <code dir="ltr">filters</code> را طوری بنویسید که هر
چه بیشتر لایه کوانتیزه شود و دست کم ۲۵ دسی‌بل بماند.""",
'''print([layer.path for layer in network().layers])

# Your turn
my_filters = None

check("filters", filters=my_filters)''',
"""Quantize each layer alone and read which one loses most; then name the others. A callable from a layer to a bool would
do as well.""",
"""هر لایه را به‌تنهایی کوانتیزه کنید و ببینید کدام بیش از همه از دست می‌دهد؛ سپس بقیه را نام ببرید. تابعی از لایه به درست یا نادرست هم همین کار
را می‌کند.""",
'''alone = sensitivity(network(), "int8", probe=batch()).set_index("path")["sqnr"]
my_filters = [f"{path}$" for path in alone.drop(alone.idxmin()).index]''')]
