# SPDX-License-Identifier: Apache-2.0
"""What ends or begins in 8 bits, and products of integers."""
from . import MS, Case, F, Value, around, below, between, const, of_class, three, torch, weight, x

SHAPES = ((32, 64), (512, 1024), (8192, 8192))
NONE = "PyTorch has no such function on GPUs"
SCALE, ZERO = const(0.03, "f32"), const(128, "u8")
BYTES = {"types": ("u8",), "tolerance": 1e-2}


def quantized(x, scale=0.03, zero=128):
    return torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)


def restored(q):
    return (q.float() - 128) * 0.03


@of_class("quantise")
def quantise():
    for size, (rows, columns) in three(*SHAPES):
        scale = [Value((), "T", lambda s, d, seed: d(0.03), True), ZERO]
        yield Case("QuantizeLinear", size, [x(rows, columns), *scale], lambda x, *_: quantized(x), opset=19, compared=0)
        yield Case("QuantizeLinear", size, [x(rows, columns), around(0.03, columns, spread=0.01), Value((columns,), "i8", lambda s, d, seed: below(1)(s, d, seed), True)],
                   lambda x, s, _: torch.clamp(torch.round(x / s), -128, 127).to(torch.int8), "columns", opset=19, compared=0, attributes={"axis": 1})
        yield Case("QuantizeLinear", size, [x(rows, columns), SCALE, ZERO], lambda x, *_: quantized(x), types=("f32",), domain=MS, compared=0)
        given = x(rows, columns, kind=below(256), type="u8")
        yield Case("DequantizeLinear", size, [given, *scale], lambda q, *_: restored(q).to(_[0].dtype), opset=19)
        yield Case("DequantizeLinear", size, [x(rows, columns, kind=between(-99, 99), type="i8"), around(0.03, columns, spread=0.01)],
                   lambda q, s: q.to(s.dtype) * s, "columns", opset=19, attributes={"axis": 1})
        yield Case("DequantizeLinear", size, [given, SCALE, ZERO], lambda q, *_: restored(q), types=("f32",), domain=MS)
        yield Case("DynamicQuantizeLinear", size, [x(rows, columns)], dynamic, types=("f32",), outputs=3, compared=0)
        yield Case("TRT_FP8QuantizeLinear", size, [x(rows, columns), const(0.03, "f32")], lambda x, _: (x / 0.03).to(torch.float8_e4m3fn),
                   types=("f32",), domain="trt", compared=0)
        yield Case("TRT_FP8DequantizeLinear", size, [x(rows, columns, type="f8"), const(0.03, "f32")], lambda q, _: q.float() * 0.03,
                   types=("f32",), domain="trt")


def dynamic(x):
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    return torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8), scale, zero.to(torch.uint8)


@of_class("quantised pointwise")
def qlinear_pointwise():
    for size, (rows, columns) in three(*SHAPES):
        q = [Value((rows, columns), "u8", below(256)), SCALE, ZERO]
        to = [const(0.05, "f32"), const(120, "u8")]

        def end(function, scale=0.05, zero=120):
            return lambda *t: quantized(function(*(restored(each) for each in t if each.ndim == 2)), scale, zero)
        yield Case("QLinearAdd", size, [*q, *q, *to], end(torch.add), **BYTES, domain=MS, compared=0)
        yield Case("QLinearMul", size, [*q, *q, *to], end(torch.mul), **BYTES, domain=MS, compared=0)
        yield Case("QLinearSigmoid", size, [*q, const(1 / 256, "f32"), const(0, "u8")], end(torch.sigmoid, 1 / 256, 0), **BYTES, domain=MS, compared=0)
        yield Case("QLinearLeakyRelu", size, [*q, *to], end(F.leaky_relu), **BYTES, domain=MS, attributes={"alpha": 0.01}, compared=0)
        yield Case("QLinearSoftmax", size, [*q, const(1 / 256, "f32"), const(0, "u8")], end(lambda x: x.softmax(1), 1 / 256, 0), **BYTES, domain=MS,
                   attributes={"axis": 1, "opset": 13}, compared=0)
        yield Case("QLinearWhere", size, [Value((rows, columns), "bool"), *q, *q, *to],
                   lambda c, a, _, __, b, *___: quantized(torch.where(c, restored(a), restored(b)), 0.05, 120), **BYTES, domain=MS, compared=0)
        yield Case("QLinearConcat", size, [*to, *q, *q], None, **BYTES, domain=MS, attributes={"axis": 1}, no_peer=NONE)
    for size, (n, h, w, c) in three((1, 8, 8, 16), (8, 56, 56, 64), (32, 128, 128, 128)):
        q = [Value((n, h, w, c), "u8", below(256)), SCALE, ZERO]
        to = [const(0.03, "f32"), const(128, "u8")]
        yield Case("QLinearGlobalAveragePool", size, [*q, *to], None, **BYTES, domain=MS, attributes={"channels_last": 1}, no_peer=NONE)
        yield Case("QLinearAveragePool", size, [*q, *to], None, **BYTES, domain=MS, no_peer=NONE,
                   attributes={"channels_last": 1, "kernel_shape": [2, 2], "strides": [2, 2]})


def eight(*shape, type="u8", constant=False):
    return Value(shape, type, below(256) if type == "u8" else between(-99, 99), constant)


@of_class("quantised products")
def products():
    for size, m, n, k in (("small", 32, 64, 64), ("middle", 512, 768, 768), ("large", 4096, 4096, 4096)):
        flops = 2 * m * n * k
        w, zero, narrow = eight(k, n, type="i8", constant=True), const(0, "i8"), const(0.01, "f32")
        yield Case("MatMulInteger", size, [eight(m, k, type="i8"), w, const(0, "i8"), zero], lambda a, b, *_: torch._int_mm(a, b) if a.shape[0] > 16 else None,
                   types=("i8",), flops=flops, compared=1)
        yield Case("QLinearMatMul", size, [eight(m, k), SCALE, ZERO, w, narrow, zero, const(3.0, "f32"), ZERO], None, **BYTES, flops=flops, no_peer=NONE)
        yield Case("QGemm", size, [eight(m, k), SCALE, ZERO, w, narrow, zero, None, const(3.0, "f32"), ZERO], None, **BYTES, domain=MS, flops=flops,
                   no_peer=NONE)
        yield Case("MatMulIntegerToFloat", size, [eight(m, k), w, SCALE, narrow, ZERO, zero], None, types=("u8",), domain=MS, flops=flops, no_peer=NONE)
        yield Case("DynamicQuantizeMatMul", size, [x(m, k), w, narrow, zero], None, types=("f32",), domain=MS, flops=flops, no_peer=NONE)
    for size, n, c, side in (("small", 1, 16, 16), ("middle", 1, 128, 28), ("large", 16, 128, 64)):
        flops = 2 * n * c * c * side * side * 9
        w, shape = eight(c, c, 3, 3, type="i8", constant=True), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        yield Case("ConvInteger", size, [eight(n, c, side, side), eight(c, c, 3, 3, constant=True), ZERO, ZERO], None, **BYTES, flops=flops, attributes=shape, no_peer=NONE)
        rest = [w, const(0.01, "f32"), const(0, "i8"), const(3.0, "f32"), ZERO]
        yield Case("QLinearConv", size, [eight(n, c, side, side), SCALE, ZERO, *rest], None, **BYTES, flops=flops, attributes=shape, no_peer=NONE)
        yield Case("QLinearConv", size, [eight(n, side, side, c), SCALE, ZERO, *rest], None, **BYTES, domain=MS, flops=flops,
                   attributes={**shape, "channels_last": 1}, no_peer=NONE)
