import keras
import ml_dtypes
import numpy as np
import pytest

from chapter18 import precision
from chapter18.figures import precision as figures

SMALL = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
LAYOUT = {  # stored bits of exponent and mantissa, written by hand
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}


def every_number(name):
    """(patterns, numbers): all bit patterns of a small format and the numbers they stand for."""
    unsigned = f"u{np.dtype(name).itemsize}"
    patterns = np.arange(2 ** (8 * np.dtype(name).itemsize)).astype(unsigned)
    return patterns, patterns.view(name)


def random_float32(rows=1_000_000):
    patterns = np.random.default_rng(6).integers(0, 2**32, rows, np.uint32)
    return patterns, patterns.view(np.float32)


def exact(numbers):
    """The numbers as float64, which holds them all; NumPy warns of some nan patterns."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers).astype(np.float64)


def expected_kind(number, smallest_normal):
    """What a number is, by the simplest questions about its value."""
    if np.isnan(number):
        return "nan"
    if np.isinf(number):
        return "infinity"
    if number == 0:
        return "zero"
    return "subnormal" if abs(number) < smallest_normal else "normal"


def agrees(name, patterns, numbers):
    """Compare `bits` of an array with Python's binary text and with NumPy's exact float64."""
    exponent, mantissa = LAYOUT[name]
    taken = precision.bits(numbers, name)
    joined = np.char.add(np.char.add(taken.sign, taken.exponent), taken.mantissa)
    width = 1 + exponent + mantissa
    assert joined.tolist() == [f"{pattern:0{width}b}" for pattern in patterns.tolist()]
    assert taken.sign.dtype == "U1"
    assert taken.exponent.dtype == f"U{exponent}"
    np.testing.assert_array_equal(taken.value(), exact(numbers))
    np.testing.assert_array_equal(np.signbit(taken.value()), np.signbit(numbers))
    return taken


@pytest.mark.parametrize("name", SMALL)
def test_bits_of_every_small_number(name):
    patterns, numbers = every_number(name)
    taken = agrees(name, patterns, numbers)
    smallest = float(ml_dtypes.finfo(name).smallest_normal)
    assert taken.kind.tolist() == [expected_kind(number, smallest) for number in exact(numbers)]
    finite = np.isfinite(exact(numbers))
    normal, small = taken.kind == "normal", taken.kind == "subnormal"
    assert ((taken.significand[normal] >= 1) & (taken.significand[normal] < 2)).all()
    assert ((taken.significand[small] > 0) & (taken.significand[small] < 1)).all()
    assert (taken.significand[taken.kind == "zero"] == 0).all()
    assert (taken.power[~finite] == 0).all()


def test_bits_of_a_million_random_float32():
    patterns, numbers = random_float32()
    for part in range(0, len(patterns), 100_000):
        agrees("float32", *(a[part : part + 100_000] for a in (patterns, numbers)))


def test_bits_of_float64():
    patterns = np.random.default_rng(7).integers(0, 2**64, 20_000, np.uint64)
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-1022, 1.7976931348623157e308]
    )
    patterns = np.concatenate([patterns, edges.view(np.uint64)])
    agrees("float64", patterns, patterns.view(np.float64))


@pytest.mark.parametrize("name", SMALL)
def test_one_number_at_a_time_gives_text_and_plain_numbers(name):
    patterns, numbers = every_number(name)
    for pattern, number in zip(patterns[::37].tolist(), numbers[::37], strict=True):
        taken = precision.bits(number, name)
        text = f"{pattern:0{8 * number.itemsize}b}"
        assert f"{taken}" == f"{text[0]} {taken.exponent} {taken.mantissa}"
        assert taken.sign + taken.exponent + taken.mantissa == text
        assert [type(part) for part in taken] == [str, str, str, str, int, float]
        assert type(taken.value()) is float
        np.testing.assert_equal(taken.value(), float(exact(number)))


def test_numbers_by_hand():
    assert precision.bits(-6.5, "float16") == ("1", "10001", "1010000000", "normal", 2, 1.625)
    assert precision.bits(0, "float8_e4m3fn") == ("0", "0000", "000", "zero", -6, 0.0)
    assert precision.bits(2**-9, "float8_e4m3fn") == ("0", "0000", "001", "subnormal", -6, 0.125)
    assert precision.bits(np.inf, "bfloat16")[:5] == ("0", "1" * 8, "0" * 7, "infinity", 0)
    assert precision.bits(500.0, "float8_e4m3fn")[:5] == ("0", "1111", "111", "nan", 0)
    assert precision.bits(2049, "float16").value() == 2048
    assert precision.bits(257, "bfloat16").value() == 256
    assert precision.bits(70_000, "float16").kind == "infinity"
    assert precision.bits(500.0, "float8_e5m2").value() == 512


def test_pi_is_put_together_again():
    pi = precision.bits(np.pi, "float32")
    assert pi.value() == float(np.float32(np.pi))
    assert pi.value() == int("1" + pi.mantissa, 2) / 2 ** (23 - pi.power)


def test_arrays_keep_their_shape_and_any_owner():
    numbers = np.linspace(-3, 3, 12).reshape(3, 4)
    for array in (numbers, keras.ops.convert_to_tensor(numbers.astype("float32")), numbers[:, ::2]):
        taken = precision.bits(array, "bfloat16")
        assert {np.shape(part) for part in taken} == {np.shape(array)}
        expected = np.asarray(array).astype("bfloat16").astype(np.float64)
        np.testing.assert_array_equal(taken.value(), expected)
        assert precision.spacing(array, "bfloat16").shape == np.shape(array)
    assert precision.bits([], "float16").mantissa.shape == (0,)


@pytest.mark.parametrize("name", SMALL)
def test_formats_of_small_formats_follow_from_all_their_numbers(name):
    row = precision.formats().loc[name]
    _, numbers = every_number(name)
    values = np.sort(exact(numbers))
    values = values[np.isfinite(values)]
    positive = values[values > 0]
    assert row["max"] == positive[-1]
    assert row["smallest subnormal"] == positive[0]
    assert row["eps"] == positive[positive > 1][0] - 1
    # Below the smallest normal number the spacing no longer shrinks.
    gaps = np.diff(positive)
    assert row["smallest normal"] == positive[:-1][gaps > gaps[0]][0] / 2


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_formats_of_large_formats_agree_with_numpy(name):
    row, info = precision.formats().loc[name], np.finfo(name)
    one, zero = info.dtype.type(1), info.dtype.type(0)
    assert row["eps"] == float(np.nextafter(one, 2 * one) - one)
    assert row["smallest subnormal"] == float(np.nextafter(zero, one))
    assert (row["max"], row["smallest normal"]) == (float(info.max), float(info.tiny))


def test_formats_count_the_bits():
    table = precision.formats()
    assert list(table.index) == list(LAYOUT)
    assert [tuple(row) for row in table[["exponent", "mantissa"]].to_numpy()] == [*LAYOUT.values()]
    assert (table["bits"] == 1 + table["exponent"] + table["mantissa"]).all()
    assert (table["bits"] == [8 * np.dtype(name).itemsize for name in table.index]).all()


def reaches_the_next_number(name, numbers):
    """Compare `spacing` with nextafter, away from zero or, at the largest, towards it."""
    found = precision.spacing(numbers, name)
    finite = np.isfinite(exact(numbers))
    assert np.isnan(found[~finite]).all()
    numbers = numbers[finite]
    largest = np.asarray(ml_dtypes.finfo(name).max, name)
    towards = np.where(np.abs(numbers) == largest, np.zeros_like(numbers), largest)
    neighbours = np.nextafter(numbers, np.copysign(towards, numbers))
    steps = np.abs(exact(neighbours) - exact(numbers))
    np.testing.assert_array_equal(found[finite], steps)


@pytest.mark.parametrize("name", SMALL)
def test_spacing_of_every_small_number(name):
    reaches_the_next_number(name, every_number(name)[1])


def test_spacing_of_a_million_random_float32():
    reaches_the_next_number("float32", random_float32()[1])


def test_spacing_by_hand():
    assert precision.spacing(2048, "float16") == 2
    assert precision.spacing(256, "bfloat16") == 2
    assert precision.spacing(0, "float16") == 2**-24
    assert precision.spacing(1, "float64") == 2**-52
    assert type(precision.spacing(1, "float64")) is float
    assert np.isnan(precision.spacing(70_000, "float16"))
    assert np.isnan(precision.spacing(500, "float8_e4m3fn"))


def test_every_number_by_hand():
    eights = [0, *(2**-9 * i for i in range(1, 8))]
    eights += [2.0**power * (1 + i / 8) for power in range(-6, 9) for i in range(8)]
    eights.remove(480)  # the pattern of nan
    numbers = precision.every_number("float8_e4m3fn")
    assert numbers.tolist() == sorted({sign * x for x in eights for sign in (-1, 1)})
    assert len(precision.every_number("bfloat16")) == 2**16 - 2 * 2**7 - 1
    with pytest.raises(ValueError, match=r"Received: float32, with 32. Ask for its `spacing`"):
        precision.every_number("float32")


@pytest.mark.parametrize("function", [precision.bits, precision.spacing])
@pytest.mark.parametrize("dtype", ["float8", "int8", "", None, float, np.int32, 16])
def test_unknown_formats_are_refused(function, dtype):
    with pytest.raises(ValueError, match=r"Received: .*The formats are \['float64', 'float32',"):
        function(1.0, dtype)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.dtype("bfloat16"), "bfloat16"])
def test_a_format_has_three_spellings(dtype):
    assert precision.bits(1.0, dtype).exponent == "01111111"


@pytest.mark.parametrize(
    ("value", "received"),
    [
        ("3.14", "str with the dtype <U4"),
        (1j, "complex with the dtype complex128"),
        (None, "NoneType with the dtype object"),
        (10**30, "int with the dtype object"),
        ([True], "list with the dtype bool"),
    ],
)
def test_values_that_are_not_real_numbers_are_refused(value, received):
    with pytest.raises(TypeError, match=rf"Received: {received}. Pass a number or an array"):
        precision.bits(value, "float32")


@pytest.mark.parametrize(
    ("name", "compute", "variable"),
    [
        ("float32", "float32", "float32"),
        ("mixed_float16", "float16", "float32"),
        ("mixed_bfloat16", "bfloat16", "float32"),
        ("float16", "float16", "float16"),
        ("bfloat16", "bfloat16", "bfloat16"),
    ],
)
def test_layers_made_under_a_policy_keep_it(name, compute, variable):
    with precision.policy(name) as active:
        layer = keras.layers.Dense(2)
    layer.build((None, 3))
    assert (active.name, layer.dtype_policy.name) == (name, name)
    assert keras.config.dtype_policy().name == "float32"
    assert layer.kernel.value.dtype == variable
    assert layer(np.ones((1, 3), "float32")).dtype == compute


def test_every_floating_point_policy_of_keras_is_taken():
    with precision.policy("float64") as wide:
        assert (wide.name, wide.compute_dtype) == ("float64", "float64")
    assert keras.config.dtype_policy().name == "float32"


def test_policies_nest_and_are_restored_after_an_exception():
    def fail_inside():
        with precision.policy("bfloat16"):
            with precision.policy(keras.DTypePolicy("mixed_float16")) as inner:
                assert inner.name == "mixed_float16"
            assert keras.config.dtype_policy().name == "bfloat16"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize(
    "name", ["float8", "mixed_float8", "uint8", "int8_from_float32", "", None, 16]
)
def test_unknown_policies_are_refused_and_change_nothing(name):
    with (
        pytest.raises(ValueError, match=r"Received: .*for example \['float32', 'mixed_float16',"),
        precision.policy(name),
    ):
        pytest.fail("the block must not run")
    assert keras.config.dtype_policy().name == "float32"


def test_the_picture_shows_the_real_bits():
    rows = {name: precision.bits(np.pi, name) for name in ("float16", "bfloat16")}
    (ax,) = figures.bit_rows(rows).axes
    digits = [text.get_text() for text in ax.texts if text.get_text() in {"0", "1"}]
    assert "".join(digits) == "0100001001001000" + "0100000001001001"
    (ax,) = figures.bit_rows({"": precision.bits(-6.5, "float16")}).axes
    written = [text.get_text() for text in ax.texts]
    assert written[-3:] == ["−", "17, which means $2^{2}$", "significand 1.625"]


def test_number_lines_mark_every_number():
    (ax,) = figures.number_lines(["float8_e5m2"], 1, 4).axes
    (marks,) = ax.collections
    assert [segment[0][0] for segment in marks.get_segments()] == [
        *(1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4)
    ]


def test_spacings_end_with_a_dot_at_the_largest_number():
    (ax,) = figures.spacings(["float16", "bfloat16"], low=-2, high=20).axes
    lines = [line.get_xydata().tolist() for line in ax.get_lines()]
    assert [65_504.0, 32.0] in lines[2]
    assert lines[0][2] == [1, 2**-10]
    assert lines[-1][-1] == [2**20, 2**13]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bfloat16", "float16"]
    assert len(lines) == 4


def test_ranges_count_shares_of_what_is_not_zero():
    (top, bottom) = figures.ranges({"weights": np.array([0, -1.0, 1.0, 1e-5])}).axes
    (steps,) = top.patches
    assert sorted(share for share in steps.get_data().values if share) == pytest.approx(
        [100 / 3, 200 / 3]
    )
    thin, thick = (line.get_xdata().tolist() for line in bottom.get_lines()[4:6])
    assert (thin, thick) == ([2**-24, 65_504], [2**-14, 65_504])
