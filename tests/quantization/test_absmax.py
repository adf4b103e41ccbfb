import itertools
import math

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from chapter18 import quantization


def oracle(x, axis):
    """Number by number: values, and the scale of each, as a full array."""
    x = np.asarray(x).astype("float32")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = {each % x.ndim for each in axes}
    values, scales = np.zeros(x.shape, "int8"), np.zeros(x.shape, "float32")
    for place in itertools.product(*(range(size) for size in x.shape)):
        shared = tuple(slice(None) if i in axes else place[i] for i in range(x.ndim))
        scale = np.float32(max(abs(float(number)) for number in np.ravel(x[shared])))
        scale = scale / np.float32(127) or np.float32(1)
        scales[place] = scale
        values[place] = max(-127, min(127, round(float(x[place] / scale))))
    return values, scales


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((7,), None),
        ((7,), 0),
        ((6, 9), None),
        ((6, 9), 0),
        ((6, 9), 1),
        ((6, 9), -1),
        ((6, 9), (0, 1)),
        ((3, 4, 5), None),
        ((3, 4, 5), 1),
        ((3, 4, 5), (0, 2)),
        ((2, 3, 2, 4), (-1, 0)),
    ],
)
@pytest.mark.parametrize("magnitude", [1e-44, 1e-38, 1e-6, 1.0, 3e37])
def test_equals_an_oracle_in_numpy_exactly(shape, axis, magnitude):
    rng = np.random.default_rng(len(shape))
    x = (rng.normal(size=shape) * magnitude).astype("float32")
    x[rng.random(shape) < 0.2] = 0
    quantized = quantization.absmax_quantize(x, axis)
    values, scales = oracle(x, axis)
    assert quantized.values.dtype == "int8"
    assert quantized.scale.dtype == "float32"
    np.testing.assert_array_equal(quantized.values, values)
    np.testing.assert_array_equal(np.broadcast_to(quantized.scale, shape), scales)


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16, "float64", "int32", jnp.asarray])
def test_other_types_are_read_as_float32(kind):
    x = np.random.default_rng(0).normal(size=(8, 5)).astype("float32") * 100
    given = kind(x) if kind is jnp.asarray else x.astype(kind)
    quantized = quantization.absmax_quantize(given, 0)
    values, scales = oracle(given, 0)
    np.testing.assert_array_equal(quantized.values, values)
    np.testing.assert_array_equal(np.broadcast_to(quantized.scale, x.shape), scales)


def test_the_scale_broadcasts_and_one_scale_has_no_axes():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    shapes = {None: (), 0: (1, 4), 1: (3, 1), (0, 1): (1, 1)}
    for axis, shape in shapes.items():
        assert quantization.absmax_quantize(x, axis).scale.shape == shape


def test_ties_go_to_the_even_integer():
    x = np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5], "float32")
    assert quantization.absmax_quantize(x).values.tolist() == [127, 0, 2, 2, 0, -2]


def test_what_comes_back_is_off_by_half_a_scale_at_most_and_the_largest_not_at_all():
    x = np.random.default_rng(0).normal(size=(300, 40)).astype("float32")
    quantized = quantization.absmax_quantize(x, axis=0)
    back = quantization.dequantize(quantized)
    assert back.dtype == "float32"
    assert (abs(back - x) <= quantized.scale / 2 * (1 + 1e-5)).all()
    assert (abs(quantized.values).max(axis=0) == 127).all()


def test_a_slice_of_zeros_has_scale_one_and_comes_back_as_zeros():
    x = np.array([[0, 1], [0, -2]], "float32")
    quantized = quantization.absmax_quantize(x, axis=0)
    assert quantized.scale.tolist() == [[1, np.float32(2) / np.float32(127)]]
    assert quantization.dequantize(quantized)[:, 0].tolist() == [0, 0]
    assert quantization.absmax_quantize(np.zeros(3)).scale == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    with pytest.raises(
        ValueError, match=r"Only finite numbers.*Received: x with 1 of 4 NaN or infinite. Find the"
    ):
        quantization.absmax_quantize([[1, bad], [0, 2]])


def test_a_float64_beyond_float32_and_an_empty_array_are_refused():
    with pytest.raises(ValueError, match=r"Received: x with 1 of 2 NaN or infinite"):
        quantization.absmax_quantize([1e300, 1.0])
    with pytest.raises(ValueError, match=r"Received: an empty array, shape \(0, 3\). Pass an"):
        quantization.absmax_quantize(np.zeros((0, 3)))


@pytest.mark.parametrize("terms", [1, 7, 128, 1000, 4096])
def test_the_int8_product_is_the_int64_product_exactly(terms):
    rng = np.random.default_rng(terms)
    a = rng.integers(-128, 128, (9, terms)).astype("int8")
    b = rng.integers(-128, 128, (terms, 11)).astype("int8")
    product = quantization.int8_matmul(a, b)
    assert product.dtype == "int32"
    np.testing.assert_array_equal(product, a.astype("int64") @ b.astype("int64"))
    np.testing.assert_array_equal(quantization.int8_matmul(jnp.asarray(a), jnp.asarray(b)), product)


@pytest.mark.parametrize("terms", [4096, 131_071])
@pytest.mark.parametrize("sign", [-128, 127])
def test_the_largest_sums_fit_into_int32(terms, sign):
    a, b = np.full((2, terms), -128, "int8"), np.full((terms, 2), sign, "int8")
    np.testing.assert_array_equal(
        quantization.int8_matmul(a, b), np.full((2, 2), terms * -128 * sign)
    )


def test_more_terms_than_int32_can_hold_are_refused():
    a, b = np.ones((1, 131_072), "int8"), np.ones((131_072, 1), "int8")
    with pytest.raises(
        ValueError, match=r"up to 131,071 products.*Received: 131,072 terms. Split them"
    ):
        quantization.int8_matmul(a, b)


@pytest.mark.parametrize(("rows", "columns"), [(None, None), (1, None), (None, 0), (1, 0)])
def test_the_rescaled_product_is_within_its_bound_of_the_float_product(rows, columns):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 300)), rng.normal(size=(300, 15)) * 2.0 ** rng.integers(0, 6, 15)
    a, b = quantization.absmax_quantize(x, rows), quantization.absmax_quantize(y, columns)
    product, bound = quantization.int8_matmul(a, b), quantization.matmul_error_bound(a, b)
    assert product.dtype == "float32"
    assert bound.shape == product.shape == (20, 15)
    error = abs(product - x @ y)
    assert (error <= bound * (1 + 1e-5)).all()
    assert (error > bound / 1000).any()
    exact = a.values.astype("float64") @ b.values.astype("float64") * a.scale * b.scale
    np.testing.assert_allclose(product, exact, rtol=1e-6)


def test_the_bound_is_close_when_every_number_is_off_by_half_a_scale():
    a = np.full((1, 64), 2.5, "float32")
    b = np.full((64, 1), 4.5, "float32")
    a[0, 0] = b[1, 0] = 127
    pair = quantization.absmax_quantize(a), quantization.absmax_quantize(b)
    assert pair[0].values[0, :3].tolist() == [127, 2, 2]
    # 62 terms of 2.5 × 4.5 - 2 × 4, one of 127 × 0.5 and one of 0.5 × 127.
    assert (a @ b - quantization.int8_matmul(*pair)).item() == 62 * 3.25 + 127
    assert quantization.matmul_error_bound(*pair).item() == (127 + 63 * 2 + 127 + 63 * 4 + 32) / 2


def test_one_scale_a_channel_is_worth_decibels_where_channels_differ():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(256, 32)) * 2.0 ** -np.arange(32)
    whole, each = (
        quantization.sqnr(
            kernel[:, 16:],
            quantization.dequantize(quantization.absmax_quantize(kernel, axis))[:, 16:],
        )
        for axis in (None, 0)
    )
    assert whole < 3
    assert each > 35


def test_scales_along_the_terms_cannot_be_taken_out():
    x = np.random.default_rng(0).normal(size=(4, 4))
    along, across = quantization.absmax_quantize(x, 0), quantization.absmax_quantize(x, 1)
    with pytest.raises(
        ValueError, match=r"varies along the terms.*shape \(1, 4\) for values \(4, 4\).*a, axis=1"
    ):
        quantization.int8_matmul(along, along)
    with pytest.raises(ValueError, match=r"Received: scales of shape \(4, 1\).*b, axis=0"):
        quantization.int8_matmul(across, across)
    with pytest.raises(ValueError, match=r"varies along the terms"):
        quantization.matmul_error_bound(along, along)


def test_other_factors_are_refused():
    whole = np.ones((2, 2), "int8")
    quantized = quantization.absmax_quantize(whole)
    with pytest.raises(TypeError, match=r"Received: float64 and int8. Pass floats through absmax"):
        quantization.int8_matmul(np.ones((2, 2)), whole)
    with pytest.raises(TypeError, match=r"Received: Quantized and int8."):
        quantization.int8_matmul(quantized, whole)
    with pytest.raises(TypeError, match=r"Received: list and int8."):
        quantization.int8_matmul([[1]], whole)
    with pytest.raises(ValueError, match=r"Received: \(2, 2\) and \(3, 2\). Reshape"):
        quantization.int8_matmul(whole, np.ones((3, 2), "int8"))
    with pytest.raises(ValueError, match=r"Received: \(2,\) and \(2, 2\)"):
        quantization.int8_matmul(whole[0], whole)


def test_sqnr_of_numbers_done_by_hand():
    assert quantization.sqnr([3, 4], [3, 4.5]) == pytest.approx(20)
    assert quantization.sqnr([[1.0, 1.0]], [[2.0, 0.0]]) == pytest.approx(0)
    assert quantization.sqnr([1, 2], [1, 2]) == math.inf
    assert quantization.sqnr([0, 0], [0, 1]) == -math.inf
    # A power is taken in float64: these squares are beyond float32.
    assert quantization.sqnr(np.float32([1e30]), np.float32([1.1e30])) == pytest.approx(
        20, abs=1e-4
    )


def test_a_bit_more_is_six_decibels_more():
    x = np.random.default_rng(0).uniform(-1, 1, 100_000)
    seven, eight = (quantization.sqnr(x, np.rint(x * level) / level) for level in (63, 127))
    assert eight - seven == pytest.approx(6.02, abs=0.1)


def test_sqnr_refuses_what_it_cannot_compare():
    with pytest.raises(ValueError, match=r"Received: \(3,\) for \(2,\). Compare the same"):
        quantization.sqnr(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match=r"Received: reference with 1 of 2 NaN or infinite"):
        quantization.sqnr([1, np.nan], [1, 1])
    with pytest.raises(ValueError, match=r"Received: approximation with 2 of 2 NaN"):
        quantization.sqnr([1, 1], [np.inf, np.nan])
    with pytest.raises(
        ValueError, match=r"at least one number. Received: arrays of shape \(0, 3\)"
    ):
        quantization.sqnr(np.ones((0, 3)), np.ones((0, 3)))
