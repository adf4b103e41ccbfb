"""python /tmp/alts_later.py ROOT: write `alt` above the figures of sections 6 to 8 in ROOT's sources."""
import re, sys, textwrap
from pathlib import Path
ALT = {
"06_floating_point_precision": {
"precision_figures.number_lines(": (
"Two number lines, from zero to four, with a mark for every number of float8_e4m3fn and of float8_e5m2: dense near zero, and twice as far apart after each power of two.",
"دو محور عدد از صفر تا چهار با یک نشانه برای هر عدد float8_e4m3fn و float8_e5m2: نزدیک صفر فشرده‌اند و پس از هر توان دو، فاصله‌شان دو برابر می‌شود."),
'precision_figures.bit_rows({"float32"': (
"The bits of π in float32 as a row of boxes in three colours: one of sign, eight of exponent, twenty-three of mantissa, with what each part means.",
"بیت‌های عدد پی در float32 به شکل ردیفی از خانه‌ها به سه رنگ: یکی برای علامت، هشت‌تا برای توان و بیست‌وسه‌تا برای مانتیس، با معنای هر بخش."),
"precision_figures.bit_rows(every": (
"The bits of π in five formats, one row each: bfloat16 keeps the whole exponent of float32 and cuts the mantissa; float16 and both kinds of float8 cut the two of them.",
"بیت‌های عدد پی در پنج قالب، هر یک در یک ردیف: نوع bfloat16 همهٔ توان float32 را نگه می‌دارد و مانتیس را کوتاه می‌کند؛ در float16 و هر دو نوع float8 هر دو بخش کوتاه می‌شود."),
"precision_figures.spacings(": (
"The distance to the next number against the number, one staircase for each of six formats: flat where the numbers are subnormal, then in proportion to the number, up to a dot where the format overflows.",
"فاصله تا عدد بعدی در برابر خود عدد، برای هر یک از شش قالب یک پلکان: در عددهای زیرنرمال صاف است، سپس به نسبت خود عدد بالا می‌رود، تا نقطه‌ای که قالب سرریز می‌کند."),
"precision_figures.ranges(": (
"Above, histograms of the magnitudes of a model's weights, activations and logits; below, on the same axis, the range of each format as a bar, thin where its numbers are subnormal. float8_e4m3fn has the shortest.",
"بالا، نمودار فراوانی اندازهٔ وزن‌ها، فعال‌سازی‌ها و لاجیت‌های یک مدل؛ پایین و روی همان محور، بازهٔ هر قالب به شکل یک میله که در عددهای زیرنرمال باریک است. کوتاه‌ترین میله از float8_e4m3fn است."),
"precision_figures.resolution(": (
"Accuracy against the bits of the mantissa: the curve is almost flat, far down to few bits; dotted lines mark the mantissa of four formats.",
"صحت در برابر تعداد بیت‌های مانتیس: منحنی تا بیت‌های کم هم تقریباً صاف است؛ نقطه‌چین‌ها مانتیس چهار قالب را نشان می‌دهند."),
"precision_figures.breaking_points(": (
"Accuracy of three formats. Left: against a growing offset, bfloat16 falls first, then float16, then float32. Right: against a factor on the inputs, only float16 falls, at both ends.",
"صحت سه قالب. سمت چپ: با بزرگ شدن مقدار افزوده، نخست bfloat16 می‌افتد، سپس float16 و سپس float32. سمت راست: با ضرب کردن ورودی‌ها فقط float16 می‌افتد، در هر دو سر."),
},
"07_mixed_precision_training": {
"mixed_figures.vanishing(": (
"Against the loss scale: on the left the share of gradient entries that are lost, falling from high to nothing for mixed_float16; on the right the share that overflow, rising at the largest scales. The curves of mixed_bfloat16 lie on the floor.",
"در برابر ضریب مقیاس زیان: سمت چپ سهم درایه‌های ازدست‌رفتهٔ گرادیان، که برای mixed_float16 از بالا به هیچ می‌رسد؛ سمت راست سهم درایه‌های سرریزشده، که در بزرگ‌ترین ضریب‌ها بالا می‌رود. منحنی‌های mixed_bfloat16 روی کف می‌مانند."),
'scale_traces({"dynamic loss scale"': (
"The loss scale against the training step: it falls in halvings from a far too high start, with crosses at the skipped updates, and then goes up and down like a saw along the edge of overflow.",
"ضریب مقیاس زیان در برابر گام آموزش: از آغازی بسیار بالا با نصف شدن‌های پیاپی پایین می‌آید، با ضربدرهایی جای به‌روزرسانی‌های ردشده، و سپس مثل دندانهٔ اره لب مرز سرریز بالا و پایین می‌رود."),
'{"Keras alone": reading}': (
"The loss scale of Keras alone against the training step: after the bad batches begin it falls without end, through the dashed floor of the watch, to zero; a dotted line shows where the watch stops the training, soon after the floor.",
"ضریب مقیاس زیان بی‌نگهبان، در برابر گام آموزش: با آغاز دسته‌های بد بی‌وقفه پایین می‌آید، از خط‌چین کف نگهبان می‌گذرد و به صفر می‌رسد؛ نقطه‌چین جایی است که نگهبان، کمی پس از آن کف، آموزش را می‌ایستاند."),
},
"08_quantization": {
"quantization_figures.grids(": (
"Two rows of numbers, each over the points of the grid that they are rounded to. Without an outlier the points lie among the numbers; one outlier stretches the grid, and only a few points are left for all the others.",
"دو سطر عدد که هر یک بالای نقطه‌های شبکهٔ گرد کردن خودش است. بدون دادهٔ پرت نقطه‌ها میان عددهاست؛ یک دادهٔ پرت شبکه را می‌کشد و برای همهٔ عددهای دیگر فقط چند نقطه می‌ماند."),
"quantization_figures.error_against_bits(": (
"Signal-to-quantization-noise ratio against the bits of a number. It rises by about the same for every bit, as the dotted line does; an outlier with one scale lies far below, and with a scale for each channel close to the line again.",
"نسبت سیگنال به نویز کوانتیزاسیون در برابر بیت‌های هر عدد. با هر بیت، مثل نقطه‌چین، تقریباً به یک اندازه بالا می‌رود؛ دادهٔ پرت با یک ضریب بسیار پایین‌تر است و با ضریب به‌ازای هر کانال باز نزدیک همان خط."),
"quantization_figures.layer_sensitivity(": (
"For every layer of the character model, the signal-to-noise ratio of the predictions when that layer alone is quantized, one point for each mode; the points of int4 lie left of those of int8, and the further left, the more the layer costs.",
"برای هر لایهٔ مدل نویسه‌ای، نسبت سیگنال به نویز پیش‌بینی‌ها وقتی فقط همان لایه کوانتیزه شود، با یک نقطه برای هر حالت؛ نقطه‌های int4 چپ‌تر از نقطه‌های int8 هستند و هر چه چپ‌تر، بهای آن لایه بیشتر."),
"quantization_figures.block_sizes(": (
"Against the inputs that share a scale, from all of them to small blocks: on the left the signal-to-noise ratio of the predictions, which rises as blocks shrink; on the right the kilobytes in memory, which grow.",
"در برابر تعداد ورودی‌هایی که یک ضریب مشترک دارند، از همهٔ آن‌ها تا بلوک‌های کوچک: سمت چپ نسبت سیگنال به نویز پیش‌بینی‌ها، که با کوچک شدن بلوک بالا می‌رود؛ سمت راست کیلوبایت‌های حافظه، که بیشتر می‌شود."),
},
}
FENCE = re.compile(r"```\{code-cell\} ipython3\n(?::tags: \[(.*?)\]\n\n?|---\n.*?\n---\n\n?)?(.*?)\n```", re.S)
def block(en, fa, tags):
    lines = ["---", "alt:"]
    for lang, text in (("en", en), ("fa", fa)):
        lines.append(f"  {lang}: >-")
        lines += textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    if tags:
        lines.append(f"tags: [{tags}]")
    return "\n".join([*lines, "---"]) + "\n\n"
root = Path(sys.argv[1])
for name, figures in ALT.items():
    path = root / "notebooks/source" / f"{name}.md"
    if not path.is_file():
        print(name, "is not there"); continue
    text = path.read_text(encoding="utf-8")
    for mark, (en, fa) in figures.items():
        found = [m for m in FENCE.finditer(text) if mark in m[2]]
        if len(found) != 1:
            print(name, mark, f"found {len(found)} times"); continue
        m = found[0]
        if "alt:" in m[0][: m[0].index(m[2][:20])]:
            continue
        text = text[: m.start()] + "```{code-cell} ipython3\n" + block(en, fa, m[1]) + m[2] + "\n```" + text[m.end():]
    path.write_text(text, encoding="utf-8")
