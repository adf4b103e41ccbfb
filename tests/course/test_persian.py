"""The Persian checks on good and bad samples, then on every Persian cell of the course."""

import pytest

from course.prose import cells, persian, persian_terms, twins

pytestmark = pytest.mark.once

PROSE = """
## توقف زودهنگام

پس از ساختن مدل، متد <code dir="ltr">fit()</code> را فرا می‌خوانیم. مقدار
<code dir="ltr">min_value=16</code> کف بازه است؛ اگر مدل بزرگ‌تر شود، زمان آموزش نیز بیشتر می‌شود.
آیا می‌توان زودتر ایستاد؟ بله: با یک کالبک (callback) که زیان اعتبارسنجی را می‌پاید.

- گزینهٔ نخست: <code dir="ltr">(None, "model")</code>.
- **گزینهٔ دوم**: ۵۰٪ از داده‌ها، یعنی ۳٬۰۰۰ نمونه، با نرخ یادگیری ۰٫۵.

1. نخست «جستجوی تصادفی» را می‌آزماییم، که به آن random search هم می‌گویند.
2. سپس نوبت جستجوی شبکه‌ای است.

| نام | مقدار |
|---|---|
| <code dir="ltr">batch_size</code> | ۳۲ |
| <code dir="ltr">a&#124;b</code> | — |

بازهٔ عددهای صحیح $-127 \\le q \\le 127$ است.

$$
\\hat y = \\sum_{i=1}^{n} w_i y_i, \\qquad w_i \\ge 0
$$
"""
MORE_PROSE = """
با Keras 3.15 و float16 روی یک GPU (و نه TPU) کار می‌کنیم؛ GPUها گران‌اند. تنها چیزی که لازم است،
پایتون ۳٫۱۱ است. آن‌ها و آنها، بهای کار، انتهای راه، بهتر و بیشتر و کمتر، پارامترها، دفترها، فیلتر
و متر، دختران و مشتریان. این کار را ۱ تا ۳ بار تکرار کنید (هر بار با بذر تصادفی دیگری).

روی همین مجموعه آموزش می‌بیند و میانگین می‌گیرد. میزان خطا، میدان دید، میلیون‌ها وزن. یک‌سوم داده‌ها
می‌مانند. آیا «صحت» کافی است؟ نه! به [راهنمای کتابخانه](https://keras.io/guides/) نگاه کنید: آنجا
توضیح بیشتری هست. ابزارهای <code dir="ltr">Conv2D</code>، <code dir="ltr">Dense</code> و
<code dir="ltr">&#95;&#95;call&#95;&#95;</code> را می‌شناسید.

<code dir="ltr">x</code> ورودی است و $y$ خروجی، با $w_1$، $w_2$ و ... ادامه دارد.

> نکته: عددهای این جدول را <code dir="ltr">trials_table(tuner)</code> می‌سازد، و هر ردیف یک آزمایش
> است (نه یک اجرا).

مقالهٔ Krogh و Vedelsby با نام *Neural networks, cross validation: active learning* را بخوانید.

<details>
<summary>پاسخ</summary>

سلول را چنین تغییر دهید:

<pre dir="ltr">
for n in range(2, 17):  # not a word, a number

    fits = n &lt; 5 and 0.5 &gt; rate
</pre>

</details>

<details>
<summary>راهنمایی</summary>

پیش‌بینی هر عضو، برای ۱۰٬۰۰۰ تصویر، جدولی ۱۰٬۰۰۰ در ۱۰ است. رهایی، تنهایی، نهایی، اشتها، فقیه،
دکترین، بستر، خاکستر، بدتر، به‌تنهایی، منهای، کم‌تر، پایین‌ترین، می ناب و خشک و تر.

</details>
"""


def cell_of(text):
    return f"{cells.OPENING}\n\n{text.strip()}\n\n</div>"


def code(text):
    return f'کد <code dir="ltr">{text}</code> است.'


@pytest.mark.parametrize("text", [PROSE, MORE_PROSE])
def test_good_prose_has_no_fault(text):
    assert list(persian.faults(cell_of(text))) == []


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ('<div dir="rtl" lang="fa">\nمتن.\n\n</div>', "does not open with"),
        ('<div dir="rtl">\n\nمتن.\n\n</div>', "does not open with"),
        ('<div lang="fa" dir="rtl">\n\nمتن.\n\n</div>', "does not open with"),
        (f"{cells.OPENING}\n\nمتن.\n</div>", "does not end with"),
        (f"{cells.OPENING}\n\nمتن.\n\n</div>\n\nEnglish.", "does not end with"),
        (cell_of("متن.\n\n<div>\n\nمتن.\n\n</div>"), "more than its one div"),
    ],
)
def test_rule_1_opening_and_closing(cell, fault):
    assert any(fault in line for line in persian.faults(cell))


BAD = [
    # rule 2
    ("تابع `fit()` را", "backticks"),
    ("تابع <code>fit</code> را", "a code tag that is not"),
    ('تابع <code dir="rtl">fit</code> را', "a code tag that is not"),
    (code("a < b"), "write &lt;"),
    (code("a & b"), "write &lt;"),
    (code("$HOME"), "write &lt;"),
    (code("__call__"), "write &lt;"),
    (code("_private"), "write &lt;"),
    (code("name_"), "write &lt;"),
    (code("**kwargs"), "write &lt;"),
    (code("2**3"), "write &lt;"),
    (code("a*b*c"), "Markdown is active inside code"),
    (code("[a](b)"), "Markdown is active inside code"),
    (code(r"a\_b"), "Markdown is active inside code"),
    (f"| الف | ب |\n|---|---|\n| {code('a|b')} | ۲ |", "write &#124;"),
    # rule 3
    ("۱. نخست این.\n۲. سپس آن.", "not a Markdown list"),
    ("• نخست این.", "not a Markdown list"),
    ("بهایش ۵ $ است.", "a lone $"),
    # rule 4
    ("نمونه:\n\n```python\nx = 1\n```", "a code block inside the div"),
    ("نمونه:\n\n    x = 1", "a code block inside the div"),
    ("نمونه:\n\n<pre>\nx = 1\n</pre>", "a block of code that is not"),
    ('نمونه:\n\n<pre dir="rtl">\nx = 1\n</pre>', "a block of code that is not"),
    ('نمونه:\n\n<pre dir="ltr">x = 1</pre>', "a block of code that is not"),
    ('نمونه:\n\n<pre dir="ltr">\nx < 1\n</pre>', "write &lt; &gt;"),
    ('نمونه:\n\n<pre dir="ltr">\nx & 1\n</pre>', "write &lt; &gt;"),
    ('نمونه:\n\n<pre dir="ltr">\nx = "$"\n</pre>', "write &lt; &gt;"),
    # rule 5
    ("Keras یک کتابخانه است.", "paragraph does not start"),
    ("- Keras یک کتابخانه است.", "paragraph does not start"),
    ("**(Keras)** یک کتابخانه است.", "paragraph does not start"),
    ("[Keras](https://keras.io) یک کتابخانه است.", "paragraph does not start"),
    ("۳ GPU داریم.", "paragraph does not start"),
    ("$x$ ورودی است.", "paragraph does not start"),
    ("| نام | مقدار |\n|---|---|\n| Dense | ۳۲ |", "td does not start"),
    ("| Name | مقدار |\n|---|---|\n| واحد | ۳۲ |", "th does not start"),
    # rule 6
    ("## مدل Keras", "in a heading"),
    ("## گام ۳", "in a heading"),
    ("## گام 3", "in a heading"),
    (f"## {code('fit')}", "in a heading"),
    ("## مقدار $x$", "in a heading"),
    # rule 7
    ('متن <b style="color: red">سرخ</b> است.', "markup that is not allowed"),
    ("متن <bdi>سرخ</bdi> است.", "markup that is not allowed"),
    ("متن <span>سرخ</span> است.", "markup that is not allowed"),
    ('<p dir="rtl">متن</p>', "markup that is not allowed"),
    ("متن \u200fسرخ است.", "bidi control character U+200F"),
    ("متن \u202bسرخ است.", "bidi control character U+202B"),
    ("متن \u2067سرخ است.", "bidi control character U+2067"),
    # numbers and Latin words
    ("از -127 تا ۱۲۷ است.", "a sign before a number"),
    ("با خطای ±۲٪ است.", "a sign before a number"),
    ("عددهای > ۳ را", "a sign before a number"),
    ("عددهای &gt; ۳ را", "a sign before a number"),
    ("صحت ≥ ۰٫۹ است.", "a sign before a number"),
    ("مش ۲ × ۴ است.", "an operation or range"),
    ("مقدار ۲^۱۰ است.", "an operation or range"),
    ("از ۱–۳ بار", "an operation or range"),
    ("از ۱-۳ بار", "an operation or range"),
    ("در 2026-08-19 بود.", "an operation or range"),
    ("حدود ۲× تندتر است.", "a sign after a number"),
    ("حدود ۳/۵ است.", "a slash between numbers"),
    ("زبان C++ است.", "punctuation after a Latin word"),
    ("تابع fit() را", "punctuation after a Latin word"),
    ("پروندهٔ .keras را", "punctuation before a Latin word"),
    ("گزینهٔ --quick را", "punctuation before a Latin word"),
    ("نشانی https://keras.io/ است.", "an address that ends in /"),
    ("لایه‌های Conv2D، Dense و", "one left-to-right run"),
    ("نشانهٔ «Conv2D»، «Dense» و", "one left-to-right run"),
    ("با GPU، ۵۰٪ تندتر", "one left-to-right run"),
    ("روی Keras 3.15، ۲ بار", "one left-to-right run"),
    ("همراه JAX. Keras هم", "one left-to-right run"),
    ("با GPU ۵۰ برابر", "a Persian number after a Latin word"),
    ("از A → B برو.", "an arrow"),
    ("از الف -> ب برو.", "an arrow"),
    ("حدود ۵۰% است.", "% instead of ٪"),
    ("حدود ٪۵۰ است.", "٪ stands right after"),
    ("حدود ۵۰ ٪ است.", "٪ stands right after"),
    ("حدود ۰.۵ است.", "decimals are ٫"),
    ("حدود ۳,۰۰۰ است.", "decimals are ٫"),
    # letters and digits
    ("كتاب است.", "U+0643"),
    ("علي است.", "U+064A"),
    ("موسى است.", "U+0649"),
    ("دايرة است.", "U+0629"),
    ("خانۀ ما است.", "U+06C0"),
    ("حدود ٣ بار", "U+0663"),
    ("کـتاب است.", "U+0640"),
    ("ﮐتاب است.", "U+FB90"),
    ("داده‌ی آموزش است.", "ezafe after ه"),
    ("داده ی آموزش است.", "ezafe after ه"),
    # half-spaces
    ("می شود.", "a space after می"),
    ("نمی کنیم.", "a space after می"),
    ("می چسبند.", "a space after می"),
    ("میشود.", "no half-space after می"),
    ("نمیتوان گفت.", "no half-space after می"),
    ("شبکه ها را", "a space before ها"),
    ("لایه های پنهان", "a space before ها"),
    ("شبکهها را", "no half-space before the plural"),
    ("آزمایشهای تازه", "no half-space before the plural"),
    ("بزرگ تر است.", "a space before تر"),
    ("مهم ترین است.", "a space before تر"),
    ("بزرگتر است.", "no half-space before تر"),
    ("مهمترین است.", "no half-space before تر"),
    ("ساخته اند.", "a space before an ending"),
    ("شبکه ای ساده", "a space before an ending"),
    ("ساختهاند.", "no half-space before an ending"),
    ("میپردازیم.", "no half-space after می"),
    ("می‌ شود.", "a half-space beside a space"),
    ("می ‌شود.", "a half-space beside a space"),
    ("۸‌تایی است.", "a half-space beside a space or a digit"),
    ("خانه‌، باغ", "a half-space beside punctuation"),
    ("خانه‌‌ها را", "two half-spaces"),
    ("خانه «‌باغ» است.", "a half-space beside punctuation"),
    # digits
    ("حدود 16 واحد است.", "Latin digits"),
    ("با JAX  0.8 است.", "Latin digits"),
    ("از JAX 0.9 تا 0.11 است.", "Latin digits"),
    # punctuation
    ("این, آن", "Latin punctuation"),
    ("کلاس‌های Dense, Conv2D را", "Latin punctuation"),
    ("این; آن", "Latin punctuation"),
    ("چه شد?", "Latin punctuation"),
    ('واژهٔ "صحت" است.', "Latin quotation marks"),
    ("واژهٔ “صحت” است.", "Latin quotation marks"),
    ("این ، آن", "a space before punctuation"),
    ("چه شد ؟", "a space before punctuation"),
    ("این است .", "a space before punctuation"),
    ("این،آن", "no space after punctuation"),
    ('این،<code dir="ltr">x</code>', "no space after punctuation"),
    ("این است.آن نیست.", "no space after punctuation"),
    ("واژهٔ « صحت» است.", "a space inside"),
    ("واژهٔ «صحت » است.", "a space before punctuation"),
    ("واژه ( صحت) است.", "a space inside"),
    ("واژهٔ«صحت» است.", "no space outside"),
    ("واژهٔ «صحت»است.", "no space outside"),
    ("این  آن", "two spaces"),
    # glossary
    ("هر ابر پارامتر را", "write ابرپارامتر"),
    ("هر فراسنج را", "write پارامتر"),
    ("انتشار معکوس است.", "write پس‌انتشار"),
    ("توان عملیاتی بالا", "write گذردهی"),
    ("تابع هزینه را", "write تابع زیان"),
    ("بیش برازش است.", "write بیش‌برازش"),
    ("بهینهساز را", "write بهینه‌ساز"),
    ("یک مجموعه داده است.", "write مجموعه‌داده"),
    ("روی مجموعه آزمون است.", "write مجموعهٔ آزمون"),
    ("هر اندازه دسته را", "write اندازهٔ دسته"),
]


@pytest.mark.parametrize(("text", "fault"), BAD, ids=[fault for _, fault in BAD])
def test_a_bad_sample_is_told(text, fault):
    found = list(persian.faults(cell_of(text)))
    assert any(fault in line for line in found), found


def test_the_glossary_keeps_its_own_rules():
    names = [term.persian for term in persian_terms.GLOSSARY if not term.persian.isascii()]
    assert len(names) > 100
    listed = "\n".join(f"- واژهٔ «{name}» است." for name in names)
    assert list(persian.faults(cell_of(listed))) == []


def test_a_fault_shows_its_excerpt():
    (fault,) = persian.faults(cell_of('پس از <code dir="ltr">fit()</code> این  آن می‌آید.'))
    assert fault == "two spaces: …پس از ⟨code⟩ این  آن می‌آید.…"


ENGLISH = "An epoch is one pass; a trial has many epochs."


@pytest.mark.parametrize(
    ("persian_text", "missing"),
    [
        ("هر دوره (epoch) یک گذر است؛ هر آزمایش (trial) چند دوره دارد.", []),
        ("دوره‌ها (epochs) گذرند؛ هر آزمایش (trial) چند دوره دارد.", []),
        ("هر دوره یک گذر است؛ هر آزمایش (trial) چند دوره دارد.", ["epoch"]),
        ("## دوره (epoch)\n\nهر آزمایش چند دوره دارد.", ["trial", "epoch"]),
    ],
)
def test_the_first_use_of_a_term_carries_the_english(persian_text, missing):
    later = ("Each epoch counts.", cell_of("هر دوره مهم است."))
    found = persian_terms.first_uses([(ENGLISH, cell_of(persian_text)), later])
    assert [line.split()[3] for line in found] == missing


def test_code_and_headings_are_no_first_use():
    pairs = [("# Epochs\n\nSet `epochs` first.", cell_of("# دوره‌ها\n\nنخست عدد را بگذارید."))]
    assert list(persian_terms.first_uses(pairs)) == []


@pytest.mark.parametrize(
    ("english", "persian_text", "count"),
    [
        ("The accuracy rises.", "دقت بالا می‌رود.", 1),
        ("The accuracy rises.", "صحت بالا می‌رود.", 0),
        ("Precision and accuracy differ.", "دقت چیز دیگری است.", 0),
        ("Look closely.", "به دقت نگاه کنید.", 0),
        ("More accurate, if you look.", "دقت کنید: صحت بیشتر است.", 0),
    ],
)
def test_accuracy_is_not_precision(english, persian_text, count):
    assert len(list(persian_terms.wrong_accuracy(english, cell_of(persian_text)))) == count


def test_there_are_sources():
    assert cells.SOURCES


@pytest.fixture(params=cells.SOURCES, ids=lambda path: path.stem)
def source(request):
    return cells.markdown_cells(request.param)


def test_every_persian_cell_keeps_the_rules(source):
    texts = [text for _, text in source if cells.is_persian(text)]
    assert texts
    found = [fault for text in texts for fault in persian.faults(text)]
    assert not found, "\n".join(found)


def test_every_source_uses_the_glossary(source):
    pairs = twins.pairs(source)
    found = list(persian_terms.first_uses(pairs))
    found += [fault for pair in pairs for fault in persian_terms.wrong_accuracy(*pair)]
    assert not found, "\n".join(found)


def test_the_readme_keeps_the_rules():
    parts = cells.persian_parts((cells.ROOT / "README.md").read_text("utf-8"))
    assert parts
    found = [fault for part in parts for fault in persian.faults(part)]
    assert not found, "\n".join(found)
