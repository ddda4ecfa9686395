# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, attention, recurrent layers, linear algebra, transforms."""
import numpy as np

from . import FLOATS, MS, PRODUCTS, Case, F, Value, around, below, between, const, index, of_class, three, torch, weight, x

# size: rows, columns, k
GEMMS = (("small", 32, 64, 64), ("middle", 512, 768, 768), ("large", 4096, 4096, 4096))


@of_class("matmul")
def matmul():
    for size, m, n, k in GEMMS:
        flops = 2 * m * n * k
        yield Case("MatMul", size, [x(m, k), x(k, n)], torch.matmul, types=PRODUCTS, flops=flops)
        yield Case("MatMul", size, [x(m, k), weight(k, n, scale=k ** -0.5)], torch.matmul, "weights", types=PRODUCTS, flops=flops)
        yield Case("Gemm", size, [x(m, k), weight(n, k), weight(n, scale=0.1)], lambda a, b, c: F.linear(a, b, c), types=PRODUCTS, flops=flops,
                   attributes={"transB": 1})
        yield Case("Gemm", size, [x(k, m), x(k, n)], lambda a, b: a.t() @ b, "turned", types=PRODUCTS, flops=flops, attributes={"transA": 1})
        for name, function, rest in (("FusedMatMul", lambda a, b: a @ b.t() * 0.5, {"transB": 1, "alpha": 0.5}),
                                     ("FusedMatMulActivation", lambda a, b: F.relu(a @ b.t()), {"transB": 1, "activation": "Relu"}),
                                     ("TransposeMatMul", lambda a, b: a @ b.t(), {"transB": 1})):
            yield Case(name, size, [x(m, k), x(n, k)], function, types=FLOATS, domain=MS, flops=flops, attributes=rest)
        yield Case("FusedGemm", size, [x(m, k), weight(n, k), weight(n, scale=0.1)], lambda a, b, c: F.relu(F.linear(a, b, c)), domain=MS,
                   flops=flops, attributes={"transB": 1, "activation": "Relu"})
        yield Case("GemmFastGelu", size, [x(m, k), weight(k, n, scale=k ** -0.5), weight(n, scale=0.1)],
                   lambda a, b, c: F.gelu(a @ b + c, approximate="tanh"), domain=MS, flops=flops)
    for size, side in three(32, 256, 1024):
        yield Case("MatMul", size, [x(side, side), x(side, side)], torch.matmul, "double", ("f64",), flops=2 * side ** 3)
    for size, batch, m, n, k in (("small", 4, 16, 16, 32), ("middle", 48, 128, 128, 64), ("large", 128, 1024, 1024, 64)):
        flops = 2 * batch * m * n * k
        yield Case("MatMul", size, [x(batch, m, k), x(batch, k, n)], torch.matmul, "batch", PRODUCTS, flops=flops)
        yield Case("Einsum", size, [x(batch, m, k), x(batch, n, k)], lambda a, b: torch.einsum("bik,bjk->bij", a, b), "batch", PRODUCTS,
                   flops=flops, attributes={"equation": "bik,bjk->bij"})
        yield Case("Einsum", size, [x(batch, m, k), x(batch, m, k)], lambda a, b: torch.einsum("bik,bik->bi", a, b), "dots",
                   attributes={"equation": "bik,bik->bi"})
    for size, n, k in (("small", 256, 256), ("middle", 1024, 1024), ("large", 8192, 8192)):
        for rows in (1, 16):
            yield Case("MatMul", size, [x(rows, k), weight(k, n, scale=k ** -0.5)], torch.matmul, f"{rows}_row", FLOATS, flops=2 * rows * n * k)
    for size, m, n, k in (("small", 1, 64, 4096), ("middle", 16, 16, 262_144), ("large", 64, 64, 524_288)):
        yield Case("MatMul", size, [x(m, k), x(k, n)], torch.matmul, "long_k", FLOATS, flops=2 * m * n * k, tolerance=1e-2)
    for size, m, n, k in (("small", 4096, 3, 8), ("middle", 262_144, 8, 16), ("large", 1 << 20, 16, 32)):
        yield Case("MatMul", size, [x(m, k), x(k, n)], torch.matmul, "thin", FLOATS, flops=2 * m * n * k)


@of_class("few bits")
def few_bits():
    for size, rows, n, k in (("small", 1, 256, 256), ("middle", 1, 4096, 4096), ("large", 1, 14_336, 4096)):
        for tokens in (1, 32):
            for bits in (4, 8):
                blocks = k // 32
                yield Case("MatMulNBits", size, [x(tokens, k), Value((n, blocks, 32 * bits // 8), "u8", below(256), True), around(0.01, n, blocks, spread=0.002)],
                           None, f"{bits}_bits_{tokens}", domain=MS, flops=2 * tokens * n * k, no_peer="PyTorch packs weights otherwise",
                           attributes={"K": k, "N": n, "bits": bits, "block_size": 32})
        yield Case("MatMulBnb4", size, [x(1, k), Value((n * k // 2,), "u8", below(256), True), around(0.1, n * k // 64)], None, domain=MS,
                   flops=2 * n * k, no_peer="PyTorch has no such function", attributes={"K": k, "N": n, "block_size": 64, "quant_type": 1})
        yield Case("MatMulBlockQuantizedFp4Weight", size,
                   [x(1, k), Value((n, k // 2), "u8", below(256), True), Value((n, k // 16), "u8", below(64), True), const([0.02], "f32")], None,
                   domain=MS, flops=2 * n * k, no_peer="PyTorch has no such function", attributes={"block_size": 16})
        yield Case("GatherBlockQuantized", size, [Value((n, k // 2), "u8", below(256), True), index(n, 4, 64), around(0.01, n, k // 32, spread=0.002)],
                   None, domain=MS, no_peer="PyTorch has no such function", attributes={"block_size": 32, "bits": 4, "quantize_axis": 1},
                   moved=lambda a, o: 2 * o[0].nbytes)


def attended(q, k, v, causal=False, mask=None, scale=None):
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def split_heads(t, heads):
    return t.view(*t.shape[:2], heads, -1).transpose(1, 2)


def joined_heads(t):
    return t.transpose(1, 2).reshape(t.shape[0], t.shape[2], -1)


@of_class("attention")
def attention():
    for size, batch, heads, length, width in (("small", 1, 4, 32, 32), ("middle", 2, 12, 384, 64), ("large", 8, 16, 2048, 64)):
        q = x(batch, heads, length, width)
        flops, hidden = 4 * batch * heads * length * length * width, heads * width
        yield Case("Attention", size, [q, q, q], attended, "", PRODUCTS, opset=23, flops=flops)
        yield Case("Attention", size, [q, q, q], lambda *t: attended(*t, True), "causal", PRODUCTS, opset=23, flops=flops / 2, attributes={"is_causal": 1})
        yield Case("FlexAttention", size, [q, q, q], attended, "", PRODUCTS, domain="ai.onnx.preview", opset=25, flops=flops)
        flat = x(batch, length, hidden)
        yield Case("MultiHeadAttention", size, [flat, flat, flat],
                   lambda q, k, v, h=heads: joined_heads(attended(*(split_heads(t, h) for t in (q, k, v)))), domain=MS, flops=flops,
                   attributes={"num_heads": heads})
        product = 2 * batch * length * hidden * 3 * hidden
        weights, bias = weight(hidden, 3 * hidden, scale=hidden ** -0.5), weight(3 * hidden, scale=0.1)
        yield Case("Attention", size, [flat, weights, bias],
                   lambda x, w, b, h=heads: joined_heads(attended(*(split_heads(t, h) for t in (x @ w + b).chunk(3, -1)))), domain=MS,
                   flops=flops + product, attributes={"num_heads": heads})
        yield Case("QAttention", size, [Value((batch, length, hidden), "u8", below(256)), Value((hidden, 3 * hidden), "i8", between(-99, 99), True), bias,
                                        const(0.02, "f32"), const(0.01, "f32"), None, const(130, "u8"), const(0, "i8")], None, types=("f32",),
                   domain=MS, flops=flops + product, attributes={"num_heads": heads}, no_peer="PyTorch has no such function")
        yield Case("RotaryEmbedding", size, [q, *[x(batch, length, width // 2)] * 2], turned, opset=23)
        yield Case("RotaryEmbedding", size, [q, Value((batch, length), "i64", below(length)), weight(length, width // 2, scale=1),
                                             weight(length, width // 2, scale=1)], lambda x, p, c, s: turned(x, c[p], s[p]), domain=MS)
        yield Case("GatedRelativePositionBias", size, [flat, weight(hidden, scale=0.1), x(1, heads, length, length), weight(width, 8), weight(8, scale=0.1),
                                                       weight(1, heads, 1, 1, scale=1)], None, domain=MS, attributes={"num_heads": heads},
                   no_peer="PyTorch has no such function")
    for size, batch, heads, kv, past, width in (("small", 1, 8, 2, 64, 64), ("middle", 1, 32, 8, 2048, 128), ("large", 16, 32, 8, 4096, 128)):
        cache = x(batch, kv, past, width)
        flops = 4 * batch * heads * past * width
        yield Case("GroupQueryAttention", size, [x(batch, 1, heads * width), x(batch, 1, kv * width), x(batch, 1, kv * width), cache, cache,
                                                 Value((batch,), "i32", np.full(batch, past - 1, np.int32)), const(past, "i32")],
                   lambda q, k, v, pk, pv, *_, h=heads, g=kv: joined_heads(attended(
                       split_heads(q, h), torch.cat((pk[:, :, :-1], split_heads(k, g)), 2), torch.cat((pv[:, :, :-1], split_heads(v, g)), 2))),
                   "decode", domain=MS, outputs=3, compared=1, flops=flops, attributes={"num_heads": heads, "kv_num_heads": kv},
                   moved=lambda a, o: a[3].nbytes + a[4].nbytes, options=("--state=none",))
        yield Case("Attention", size, [x(batch, heads, 1, width), cache, cache], attended, "decode", opset=23, flops=flops)
        own = x(batch, 1, kv * width)
        yield Case("DecoderMaskedMultiHeadAttention", size, [own, own, own, None, None, cache, cache],
                   lambda q, k, v, a, b, pk, pv, g=kv: joined_heads(attended(split_heads(q, g), torch.cat((pk, split_heads(k, g)), 2),
                                                                             torch.cat((pv, split_heads(v, g)), 2))),
                   domain=MS, outputs=3, compared=1, flops=flops, attributes={"num_heads": kv})
    for size, batch, heads, length, width in (("small", 1, 2, 32, 32), ("middle", 1, 16, 1024, 64), ("large", 4, 16, 2048, 128)):
        flat = x(batch, length, heads * width)
        sizes = {"q_num_heads": heads, "kv_num_heads": heads, "scale": width ** -0.5}
        gate = x(batch, length, heads, kind=between(-0.3, 0))
        share = x(batch, length, heads, kind=between(0.1, 0.9))
        small = x(batch, length, heads * width, kind=between(-0.1, 0.1))
        for rule, rest in (("linear", []), ("gated", [None, gate]), ("gated_delta", [None, gate, share])):
            yield Case("LinearAttention", size, [flat, small, small, *rest], None, rule, opset=27, attributes={**sizes, "update_rule": rule},
                       no_peer="PyTorch has no such function", flops=4 * batch * heads * length * width * width, outputs=2)
        states = {"no_peer": "PyTorch has no such function", "flops": 4 * batch * heads * length * width * width, "outputs": 2, "domain": MS}
        yield Case("LinearAttention", size, [flat, small, small, None, gate, share], None, opset=21,
                   attributes={**sizes, "update_rule": "gated_delta"}, **states)
        row = (batch, length, heads, width)
        yield Case("GatedDeltaNet", size, [x(*row), x(*row, kind=between(-0.1, 0.1)), x(*row), None, gate, share, x(batch, heads, width, width)], None,
                   opset=21, types=("f16",), attributes={"scale": width ** -0.5}, **states)


def turned(x, cos, sin):
    cos, sin = (t[:, None] for t in (cos, sin))
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


@of_class("experts")
def experts():
    for size, tokens, count, width, inner in (("small", 4, 4, 64, 64), ("middle", 64, 8, 512, 1024), ("large", 512, 8, 2048, 4096)):
        flops = 2 * 2 * tokens * 2 * width * inner
        first, second = weight(count, inner, width, scale=width ** -0.5), weight(count, width, inner, scale=inner ** -0.5)
        yield Case("MoE", size, [x(tokens, width), x(tokens, count), first, None, second], None, domain=MS, flops=flops,
                   attributes={"k": 2, "activation_type": "silu", "normalize_routing_weights": 1}, no_peer="PyTorch has no such function")
        packed = [Value((count, a, b // 2), "u8", below(256), True) for a, b in ((inner, width), (width, inner))]
        scales = [around(0.01, count, a, spread=0.002) for a in (inner, width)]
        yield Case("QMoE", size, [x(tokens, width), x(tokens, count), packed[0], scales[0], None, packed[1], scales[1]], None, domain=MS, flops=flops,
                   attributes={"k": 2, "activation_type": "silu", "normalize_routing_weights": 1, "expert_weight_bits": 4},
                   no_peer="PyTorch has no such function")


GATES = {"LSTM": (4, (0, 2, 3, 1)), "GRU": (3, (1, 0, 2)), "RNN": (1, (0,))}  # and where PyTorch's lie among ONNX's


class Layer:
    """PyTorch's layer with the weights that the first call gives."""

    def __init__(self, name, inputs, units):
        self.name, self.inputs, self.units, self.module = name, inputs, units, None

    def __call__(self, x, w, r, b):
        if self.module is None or next(self.module.parameters()).dtype != x.dtype or next(self.module.parameters()).device != x.device:
            module = getattr(torch.nn, self.name)(self.inputs, self.units).to(x.device, x.dtype).eval()
            order = GATES[self.name][1]

            def turned(t):
                gates = t.chunk(len(order))
                return torch.cat([gates[g] for g in order])
            with torch.no_grad():
                for part, value in (("weight_ih", w[0]), ("weight_hh", r[0]), ("bias_ih", b[0].chunk(2)[0]), ("bias_hh", b[0].chunk(2)[1])):
                    getattr(module, f"{part}_l0").copy_(turned(value))
            module.flatten_parameters()
            self.module = module
        return self.module(x)[0][:, None]


@of_class("recurrent")
def recurrent():
    for name, (gates, _) in GATES.items():
        for size, steps, batch, inputs, units in (("small", 8, 1, 32, 32), ("middle", 64, 8, 256, 256), ("large", 200, 64, 512, 512)):
            parts = [weight(1, gates * units, inputs, scale=units ** -0.5), weight(1, gates * units, units, scale=units ** -0.5),
                     weight(1, 2 * gates * units, scale=0.1)]
            yield Case(name, size, [x(steps, batch, inputs), *parts], Layer(name, inputs, units), types=FLOATS,
                       flops=2 * steps * batch * gates * units * (inputs + units), tolerance=2e-2,
                       attributes={"hidden_size": units, **({"linear_before_reset": 1} if name == "GRU" else {})})
    for size, steps, batch, inputs, units in (("small", 8, 1, 32, 32), ("middle", 64, 1, 256, 256), ("large", 100, 8, 512, 512)):
        eight = [Value((1, n, 4 * units), "u8", below(256), True) for n in (inputs, units)]
        rest = [const([0.004], "f32"), const([128], "u8")]
        yield Case("DynamicQuantizeLSTM", size, [x(steps, batch, inputs), *eight, weight(1, 8 * units, scale=0.1), None, None, None, None, *rest, *rest],
                   None, types=("f32",), domain=MS, attributes={"hidden_size": units}, no_peer="PyTorch has no such function",
                   flops=2 * steps * batch * 4 * units * (inputs + units))


def well_conditioned(shape, dtype, seed):
    from . import normal
    return (normal(shape, np.float64, seed) * 0.3 / shape[-1] ** 0.5 + np.eye(shape[-1])).astype(dtype)


@of_class("linear algebra")
def linear_algebra():
    for size, count, side in (("small", 64, 3), ("middle", 64, 32), ("large", 1, 1024)):
        yield Case("Det", size, [x(count, side, side, kind=well_conditioned)], torch.linalg.det, types=("f32", "f64"), tolerance=1e-2,
                   flops=2 / 3 * count * side ** 3, captured=False)
        yield Case("Inverse", size, [x(count, side, side, kind=well_conditioned)], torch.linalg.inv, types=("f32", "f64"), tolerance=1e-2,
                   flops=2 * count * side ** 3, domain=MS, captured=False)
    yield Case("Det", "4_by_4", [x(100_000, 4, 4, kind=well_conditioned)], torch.linalg.det, types=("f32",), tolerance=1e-2,
               captured=False)


def pairs(t):
    return torch.view_as_real(t)


@of_class("transforms")
def transforms():
    for size, rows, length in (("small", 4, 64), ("middle", 512, 1024), ("large", 8192, 2048)):
        flops = 5 * rows * length * np.log2(length)
        yield Case("DFT", size, [x(rows, length, 1), None, const(1)], lambda x, *_: pairs(torch.fft.rfft(x[..., 0])), "real", ("f32",), flops=flops / 2,
                   attributes={"onesided": 1}, tolerance=5e-3)
        yield Case("DFT", size, [x(rows, length, 2), None, const(1)], lambda x, *_: pairs(torch.fft.fft(torch.view_as_complex(x))), "complex", ("f32",),
                   flops=flops, tolerance=5e-3)
        yield Case("DFT", size, [x(rows, length, 2), None, const(1)], lambda x, *_: pairs(torch.fft.ifft(torch.view_as_complex(x))), "inverse", ("f32",),
                   flops=flops, attributes={"inverse": 1}, tolerance=5e-3)
    for length in (400, 3000, 4096):
        yield Case("DFT", f"2048_of_{length}", [x(2048, length, 2), None, const(1)], lambda x, *_: pairs(torch.fft.fft(torch.view_as_complex(x))),
                   "complex", ("f32",), flops=5 * 2048 * length * np.log2(length), tolerance=5e-3)
    yield Case("DFT", "512_of_1024", [x(512, 1024, 1), None, const(1)], lambda x, *_: pairs(torch.fft.fft(x[..., 0])), "whole", ("f32",), tolerance=5e-3)
    for size, batch, length, frame, step in (("small", 1, 2048, 256, 128), ("middle", 1, 160_000, 400, 160), ("large", 16, 480_000, 1024, 256)):
        window = Value((frame,), "T", np.hanning(frame + 1)[:-1].astype(np.float32), True)
        yield Case("STFT", size, [x(batch, length, 1), const(step), window, const(frame)],
                   lambda x, _, w, __, f=frame, s=step: pairs(torch.stft(x[..., 0], f, s, window=w, center=False, return_complex=True).transpose(1, 2)),
                   types=("f32",), attributes={"onesided": 1}, tolerance=5e-3)
