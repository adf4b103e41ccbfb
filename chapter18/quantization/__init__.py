"""Quantize a copy of a model, see what it cost, and keep it (section 8)."""

from chapter18.quantization._absmax import (
    MOST_TERMS,
    Quantized,
    absmax_quantize,
    dequantize,
    int8_matmul,
    matmul_error_bound,
    sqnr,
)
from chapter18.quantization._calibration import calibration_changes_kernels
from chapter18.quantization._files import export, load
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
