"""Products with quantized weights: packed and multiplied by NumPy, some confirmed by ONNX Runtime's
MatMulNBits."""

import numpy as np

from golden_cases import case, normal, rng, wide


def pack(values):
    """Numbers in -8..7, two to a byte: that of even column in the low half, 8 added to each."""
    padded = np.pad(values, ((0, 0), (0, values.shape[1] % 2)))
    halves = (padded + 8).astype(np.uint8)
    return halves[:, ::2] | halves[:, 1::2] << 4


def product(shape, n, bits, group, dtype="f32", zero=None, scale_type="f32"):
    k = shape[-1]
    blocks = -(-k // group) if group else 1
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    q = rng.integers(low, high, (n, k))
    x, scales = normal(shape, dtype), normal((n, blocks), scale_type, 0.1)
    inputs = [x, pack(q) if bits == 4 else q.astype(np.int8), scales]
    zeros = np.zeros((n, blocks))
    if zero == "i8":
        inputs.append(rng.integers(low, high, (n, blocks)).astype(np.int8))
    elif zero == "f32":
        inputs.append(normal((n, blocks), scale=3.0))
    if zero:
        zeros = inputs[-1].astype(np.float64)
    each = np.arange(k) // group if group else np.zeros(k, int)
    weights = (q - zeros[:, each]) * wide(scales)[:, each]
    nodes, constants = None, ()
    if bits == 4 and group >= 16 and k % group == 0 and zero in (None, "i8") and dtype == "f32" \
            and scale_type == "f32":
        # Its weights are [n, blocks, bytes], its zero points packed as they are.
        constants = [("b", inputs[1].reshape(n, blocks, group // 2)), ("s", scales)]
        names = ["x0", "b", "s"]
        if zero:
            constants.append(("z", pack(inputs[3])))
            names.append("z")
        nodes = [("MatMulNBits", names, "y", {"domain": "com.microsoft", "K": k, "N": n, "bits": 4,
                                              "block_size": group})]
    codes = f"(i{bits} - {zero})" if zero else f"i{bits}"
    spread = f"group {group}" if group else "row"
    case("MatMul", inputs, wide(x) @ weights.T, {"w": f"{codes} * {scale_type} {spread}"}, nodes,
         constants)


def quantized():
    for bits in (8, 4):
        for zero in (None, "i8", "f32"):
            for shape, n, group in (((3, 32), 5, 16), ((1, 64), 4, 32), ((2, 3, 33), 3, 0),
                                    ((1, 7), 1, 3), ((2, 1), 2, 0), ((1, 37), 2, 16)):
                product(shape, n, bits, group, zero=zero)
        for dtype, scale_type in (("f16", "f16"), ("bf16", "f32"), ("f32", "bf16")):
            product((2, 32), 3, bits, 16, dtype, "i8", scale_type)
