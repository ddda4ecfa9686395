# SPDX-License-Identifier: Apache-2.0
"""Peer cases with floats of 8 bits inside: quantized and dequantized as exporters write it. With numbers of
their own: other cases stay as they are."""
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from peer_support import save

TYPES = {"e4m3fn": (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
         "e5m2": (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2)}


def float8_cases():
    draw = np.random.default_rng(20261126)
    for name, (dtype, kind) in TYPES.items():
        x = (draw.standard_normal((3, 16)) * 4).astype(np.float32)
        x[0, 0], x[1, 3] = 1e5, -1e-4
        w = (draw.standard_normal((16, 5)) * 30).astype(np.float32).astype(dtype)
        constants = [numpy_helper.from_array(np.asarray(value), label) for label, value in (
            ("xs", np.float32(0.031)), ("zero", np.zeros((), dtype)), ("w", w),
            ("ws", draw.uniform(0.01, 0.1, 5).astype(np.float32)))]
        info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
        imports = [helper.make_opsetid("", 19)]
        nodes = [helper.make_node("QuantizeLinear", ["x", "xs", "zero"], ["q"]),
                 helper.make_node("DequantizeLinear", ["q", "xs", "zero"], ["d"]),
                 helper.make_node("DequantizeLinear", ["w", "ws"], ["v"], axis=1),
                 helper.make_node("MatMul", ["d", "v"], ["y"])]
        save(f"float8_{name}_product", nodes, constants, {"x": x}, info, ["y"], imports, ir_version=9)
        for saturate in (0, 1):
            nodes = [helper.make_node("Cast", ["x"], ["q"], to=kind, saturate=saturate),
                     helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)]
            save(f"float8_{name}_cast_{'un' * (1 - saturate)}saturated", nodes, [], {"x": x}, info, ["y"],
                 imports, ir_version=9)
