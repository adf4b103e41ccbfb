"""Quantize a copy of a Keras model, see what it cost, and keep it (section 8).

    copy, report = quantize_copy(model, "int8", probe=x_val[:100])
    report.layers, report.coverage, report.sqnr    # what was quantized, why not, dB on the probe
    export(copy, "small", probe=x_val[:8])         # one file, a quarter of the float one
    same = load("small", build)                    # `build()` makes the float model anew

`quantize_copy` leaves the model alone, and refuses a copy that predicts something else;
`sensitivity` says which layer did it. `absmax_quantize`, `dequantize` and `int8_matmul` do by hand
what Keras does inside, `sqnr` measures what is lost, and `matmul_error_bound` how much can be.
"""

from chapter18.quantization._absmax import (
    MOST_TERMS,
    Quantized,
    absmax_quantize,
    dequantize,
    int8_matmul,
    matmul_error_bound,
    sqnr,
)
from chapter18.quantization._files import export, load
from chapter18.quantization._modes import calibration_changes_kernels
from chapter18.quantization._quantizing import Quantization, Report, quantize_copy, sensitivity

__all__ = [
    "MOST_TERMS",
    "Quantization",
    "Quantized",
    "Report",
    "absmax_quantize",
    "calibration_changes_kernels",
    "dequantize",
    "export",
    "int8_matmul",
    "load",
    "matmul_error_bound",
    "quantize_copy",
    "sensitivity",
    "sqnr",
]
