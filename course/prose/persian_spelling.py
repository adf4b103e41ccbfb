"""Persian orthography, and numbers and Latin words in right-to-left prose."""

import re

from course.prose.cells import CODE, CODE_SPAN, FORMULA, MATH, around, blocks, matches

LETTER = r"[\u0620-\u065f\u066e-\u06d3]"
DIGIT = r"[0-9۰-۹٠-٩]"
ADDRESS = re.compile(r"https?://\S+")
JOINING = r"[بپتثجچحخسشصضطظعغفقکگلمنهی]"  # letters that join the next one
NO_LETTER_BEFORE = r"(?<![\u0620-\u065f\u066e-\u06d3\u200c])"
NO_LETTER_AFTER = r"(?![\u0620-\u065f\u066e-\u06d3\u200c])"


def word(pattern):
    """A regular expression for `pattern` as a whole Persian word."""
    return f"{NO_LETTER_BEFORE}(?:{pattern}){NO_LETTER_AFTER}"


def persian_letters(cell):
    """Orthography: Persian letters and digits only, and هٔ for the ezafe."""
    text = CODE_SPAN.sub(CODE, FORMULA.sub(MATH, cell))
    for match in re.finditer("[يكىةۀۂە\u0640٠-٩\ufb50-\ufdff\ufe70-\ufefc]", text):
        yield f"not a Persian letter or digit, U+{ord(match.group()):04X}: {around(text, match)}"
    yield from matches(text, rf"ه[\u200c ]ی{NO_LETTER_AFTER}", "the ezafe after ه is هٔ")


LATIN = r"[A-Za-z][A-Za-z0-9_.+/-]*"
# What a reader of right-to-left prose would see in another order.
NUMBERS = [
    (rf"(?:(?<=[\s(«])|^)[-−–+±<>≤≥=≈~×]+\s?{DIGIT}", "a sign before a number"),
    (rf"{DIGIT}\s*[-–−×*^÷+=]\s*{DIGIT}|{DIGIT}—{DIGIT}", "an operation or range of numbers"),
    (rf"{DIGIT}\s?[×+](?!\s?{DIGIT})", "a sign after a number"),
    (rf"(?<![/\d]){DIGIT}+/{DIGIT}+(?![/\d])", "a slash between numbers"),
    (r"(?:(?<=[\s«(])|^)[./#@_+-]+[A-Za-z][\w.]*", "punctuation before a Latin word"),
    (r"[A-Za-z][\w.]*(?:[+#_*=-]+(?![\w.])|\(\))", "punctuation after a Latin word"),
    (r"https?://\S*/(?![\w.#?])", "an address that ends in /"),
    (
        rf"{LATIN}(?: [0-9.]+)?»?\s*[،؛,;:.!؟]+\s+[«(]*(?:[A-Za-z]|{DIGIT})\w*",
        "Latin and what follows in one left-to-right run, put a Persian word between",
    ),
    (rf"{LATIN}\s+[۰-۹]+", "a Persian number after a Latin word, put a Persian word between"),
    (r"[→⟶⇒]|[-=]+>", "an arrow that stays left-to-right, write words or ←"),
    (rf"{DIGIT}\s*%|%\s*{DIGIT}", "% instead of ٪"),
    (r"(?<![۰-۹])٪\s*[۰-۹]|[۰-۹]\s+٪", "٪ stands right after its number"),
    (rf"[۰-۹][.,،]{DIGIT}", "decimals are ٫ and thousands ٬"),
]


def numbers_and_latin(cell):
    """The table "Numbers and Latin words in prose"."""
    for _, text in blocks(cell):
        for pattern, fault in NUMBERS:
            yield from matches(text, pattern, fault)


def latin_digits(cell):
    """Latin digits only in code, formulas, or glued to / one space after a Latin name."""
    for _, text in blocks(cell):
        names = rf"[0-9]*{LATIN}(?: [0-9]+(?:\.[0-9]+)*(?!\w))?"
        unnamed = re.sub(names, "", ADDRESS.sub("", text))
        yield from matches(unnamed, r"[0-9][\w.,]*", "Latin digits in Persian prose")


VERB = (
    "شود|شوند|شوم|شویم|شوید|شد|شدند|کند|کنند|کنم|کنیم|کنید|کرد|کردند|گیرد|گیرند|گیریم|گیرید|"
    "گرفت|دهد|دهند|دهم|دهیم|دهید|داد|دادند|توان|تواند|توانند|توانم|توانیم|توانید|توانست|رود|"
    "روند|رویم|روید|رفت|رسد|رسند|رسیم|رسید|ماند|مانند|ماندند|مانیم|آید|آیند|آییم|آمد|آورد|"
    "آورند|آوریم|بیند|بینند|بینم|بینیم|بینید|سازد|سازند|سازیم|سازید|ساخت|خواهد|خواهند|خواهم|"
    "خواهیم|خواهید|خواست|گوید|گویند|گوییم|گویید|گفت|نویسد|نویسند|نویسیم|نویسید|داند|دانند|"
    "دانم|دانیم|دانید|دانست|باشد|باشند|زند|زنند|زنیم|زنید|زد|یابد|یابند|یابیم|یابید|یافت|"
    "خورد|خورند|خواند|خوانند|خوانیم|خوانید|آموزد|آموزند|آموزیم|آموزید|افتد|افتند|افتاد|شناسد|"
    "شناسیم|دارد|دارند|داریم|گذارد|گذارند|گذاریم|گذارید|گذاشت|برد|برند|بریم|برید|کشد|کشند|"
    "پذیرد|پذیرند|پرد|افزاید|کاهد|بخشد|انجامد|ریزد|ریزند|پرسد|پرسیم|پرسید|سنجد|سنجیم|سنجید|"
    "چیند|چینیم|گردد|گردند|چرخد|آزماید|آزماییم|آزمایید|فرستد|فرستند|ارزد|بندد|بندند|بندیم|"
    "پوشد|کوشد|نشیند"
)
COMPARED = (
    "بزرگ|کوچک|سریع|دقیق|سنگین|سبک|عمیق|ضعیف|نزدیک|مهم|پایین|راحت|طولانی|قوی|آسان|ارزان|مطمئن|"
    "مناسب|نازک|ضخیم|پیچیده|ساده|کوتاه|تازه|گسترده|عریض|باریک|شلوغ|خلوت|روشن|رایج|وسیع|خوب|پهن|"
    "عقب|حساس|جامع|متنوع|شبیه|مفید|کامل"
)
PLURAL = "ها(?:ی|یی|یم|یش|یت|یمان|یتان|یشان)?"
NOT_PLURAL = rf"(?:{LETTER}+\u200c)*(?:(?:تن|انت|من|منت|آن|این|اشت|گرانب)ها|{LETTER}*نهایت)"
HALF_SPACES = [
    (r"\u200c[\s\d]|[\s\d]\u200c|^\u200c|\u200c$", "a half-space beside a space or a digit"),
    (r"\u200c\u200c", "two half-spaces"),
    (
        rf"\u200c[^\w\s\u200c{CODE}{MATH}]|[^\w\s\u200c{CODE}{MATH}\u0654\u064b-\u0652]\u200c",
        "a half-space beside punctuation",
    ),
    (word(f"ن?می (?:{VERB}|{LETTER}+[مدت])"), "a space after می or نمی, not a half-space"),
    (word(f"ن?می(?:{VERB}|{LETTER}{{2,}}(?:یم|ید|ند))"), "no half-space after می or نمی"),
    (f"(?<={LETTER}) {PLURAL}{NO_LETTER_AFTER}", "a space before ها, not a half-space"),
    (
        word(rf"(?!{NOT_PLURAL})[{LETTER[1:-1]}\u200c]+{JOINING}{PLURAL}"),
        "no half-space before the plural ها",
    ),
    (rf"(?<={LETTER})(?<! و) (?:تر|ترین){NO_LETTER_AFTER}", "a space before تر, not a half-space"),
    (word(f"(?:{COMPARED})(?:تر|ترین|تری)"), "no half-space before تر"),
    (rf"ه (?:ام|ای|ایم|اید|اند){NO_LETTER_AFTER}", "a space before an ending after ه"),
    (word(f"{LETTER}{{2,}}ه(?:ایم|اید|اند)"), "no half-space before an ending after ه"),
]


def half_spaces(cell):
    """Orthography: the half-space, where it must be and where it must not."""
    for _, text in blocks(cell):
        for pattern, fault in HALF_SPACES:
            yield from matches(text, pattern, fault)


PUNCTUATION = [
    (r"[,;?]", "Latin punctuation instead of ، ؛ ؟"),
    (r'["“”„]', "Latin quotation marks instead of « »"),
    (r"[ \t][،؛؟»:!]|[ \t]\.(?![\w.])", "a space before punctuation"),
    (
        rf"[،؛؟](?![\s،؛؟!»)….:]|$)|(?<={LETTER})[.:!](?={LETTER})",
        "no space after punctuation",
    ),
    (r"«\s|\(\s|\s\)", "a space inside quotation marks or brackets"),
    (r"[\w\u0654]«|»(?!ها|ی)\w", "no space outside quotation marks"),
    (r"(?<=\S)[ \t]{2,}(?=\S)", "two spaces"),
]


def punctuation(cell):
    """Orthography: ، ؛ ؟ « », no space before, one after."""
    for _, text in blocks(cell):
        for pattern, fault in PUNCTUATION:
            yield from matches(ADDRESS.sub("", text), pattern, fault)


RULES = (persian_letters, numbers_and_latin, latin_digits, half_spaces, punctuation)
