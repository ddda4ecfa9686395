# SPDX-License-Identifier: Apache-2.0
"""Norms and softmax."""
from . import FLOATS, MS, Case, F, Value, around, below, of_class, three, torch, weight, x

ROWS = ((32, 64), (1024, 768), (8192, 4096))
IMAGES = ((1, 32, 8, 8), (2, 320, 64, 64), (8, 256, 128, 128))


@of_class("softmax")
def softmax():
    for size, shape in three(*ROWS):
        yield Case("Softmax", size, [x(*shape)], lambda x: x.softmax(-1), attributes={"axis": -1})
        yield Case("LogSoftmax", size, [x(*shape)], lambda x: x.log_softmax(-1), attributes={"axis": -1})
    for size, shape in three((1, 19, 16, 16), (1, 150, 128, 128), (4, 150, 256, 256)):
        yield Case("Softmax", size, [x(*shape)], lambda x: x.softmax(1), "channels", attributes={"axis": 1})
        yield Case("LogSoftmax", size, [x(*shape)], lambda x: x.log_softmax(1), "channels", attributes={"axis": 1})
    for size, shape in three((1, 4, 64, 64), (2, 12, 384, 384), (8, 16, 512, 512)):
        yield Case("Softmax", size, [x(*shape)], lambda x: x.softmax(-1), "scores", attributes={"axis": -1})
    yield Case("Softmax", "vocabulary", [x(64, 128_256)], lambda x: x.softmax(-1), attributes={"axis": -1})


def rms(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-5)


@of_class("norms")
def over_rows():
    for size, (rows, width) in three(*ROWS):
        scale, bias = around(1, width), weight(width, scale=0.1)
        yield Case("LayerNormalization", size, [x(rows, width), scale, bias], lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
                   attributes={"axis": -1, "epsilon": 1e-5})
        yield Case("RMSNormalization", size, [x(rows, width), scale], rms, opset=23, attributes={"axis": -1, "epsilon": 1e-5})
        yield Case("SimplifiedLayerNormalization", size, [x(rows, width), scale], rms, opset=17, attributes={"axis": -1, "epsilon": 1e-5})
        yield Case("SimplifiedLayerNormalization", size, [x(rows, width), scale], rms, domain=MS, attributes={"axis": -1, "epsilon": 1e-5})
        yield Case("LpNormalization", size, [x(rows, width)], lambda x: F.normalize(x, 2, -1), attributes={"axis": -1, "p": 2})
        for name, norm, rest in (("SkipLayerNormalization", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5), [bias]),
                                 ("SkipSimplifiedLayerNormalization", lambda x, w: rms(x, w), [])):
            yield Case(name, size, [x(1, rows, width), x(1, rows, width), scale, *rest], lambda x, s, *w, norm=norm: norm(x + s, *w),
                       domain=MS, attributes={"epsilon": 1e-5})


@of_class("norms")
def beside_states():
    """What stands around layers with states: norms with gates, sums with gates, gates of softplus."""
    for size, (rows, width) in three(*ROWS):
        scale, flat = around(1, width), x(1, rows, width)
        yield Case("GatedRMSNorm", size, [flat, scale, flat], lambda x, w, z: rms(x, w) * F.silu(z), domain=MS, attributes={"epsilon": 1e-5})
        yield Case("GatedAdd", size, [flat, flat, x(1, rows, 1)], lambda x, y, g: x + g.sigmoid() * y, domain=MS)
        yield Case("LinearAttentionGate", size, [flat, weight(width, scale=0.1), Value((width,), "T", below_zero, True), flat], None, domain=MS,
                   outputs=2, no_peer="PyTorch has no such function")


def below_zero(shape, dtype, seed):
    return -abs(around(1, *shape).made("f32", seed)).astype(dtype)


@of_class("norms")
def over_images():
    for size, (n, c, h, w) in three(*IMAGES):
        scale, bias = around(1, c), weight(c, scale=0.1)
        for last in (False, True):
            shape, variant = ((n, h, w, c), "nhwc") if last else ((n, c, h, w), "")
            yield Case("GroupNormalization", size, [x(*shape), scale, bias], lambda x, w, b: F.group_norm(x, 32, w, b, 1e-5), variant,
                       opset=21, attributes={"num_groups": 32, "epsilon": 1e-5}, last=last)
            yield Case("BatchNormalization", size, [x(*shape), scale, bias, weight(c, scale=0.1), around(1, c)],
                       lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=1e-5), variant, attributes={"epsilon": 1e-5}, last=last)
        yield Case("InstanceNormalization", size, [x(n, c, h, w), scale, bias], lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-5),
                   attributes={"epsilon": 1e-5})
        yield Case("MeanVarianceNormalization", size, [x(n, c, h, w)],
                   lambda x: (x - x.mean((0, 2, 3), True)) / x.std((0, 2, 3), unbiased=False, keepdim=True), attributes={"axes": [0, 2, 3]})
        yield Case("LRN", size, [x(n, c, h, w)], lambda x: F.local_response_norm(x, 5), attributes={"size": 5})
        single = [Value((c,), "f32", around(1, c).kind, True), Value((c,), "f32", weight(c, scale=0.1).kind, True)]
        group = {"groups": 32, "epsilon": 1e-5, "activation": 1, "channels_last": 1}
        yield Case("GroupNorm", size, [x(n, h, w, c), *single],
                   lambda x, w, b: F.silu(F.group_norm(x.permute(0, 3, 1, 2), 32, w.to(x.dtype), b.to(x.dtype), 1e-5)).permute(0, 2, 3, 1),
                   domain=MS, attributes=group)
        yield Case("SkipGroupNorm", size, [x(n, h, w, c), *single, x(n, h, w, c)],
                   lambda x, w, b, s: F.silu(F.group_norm((x + s).permute(0, 3, 1, 2), 32, w.to(x.dtype), b.to(x.dtype), 1e-5)).permute(0, 2, 3, 1),
                   domain=MS, attributes=group)


@of_class("norms")
def embeddings():
    for size, (batch, length, width, words) in three((1, 16, 64, 500), (8, 128, 768, 30_522), (64, 512, 768, 30_522)):
        ids = Value((batch, length), "i32", below(words))
        table, places, segments = weight(words, width, scale=1), weight(512, width, scale=1), weight(2, width, scale=1)
        yield Case("EmbedLayerNormalization", size,
                   [ids, Value((batch, length), "i32", below(2)), table, places, segments, around(1, width), weight(width, scale=0.1)],
                   lambda i, s, t, p, g, w, b: F.layer_norm(t[i] + p[:i.shape[1]] + g[s], w.shape, w, b, 1e-5),
                   domain=MS, outputs=2, compared=1, attributes={"epsilon": 1e-5},
                   moved=lambda a, o: 2 * o[0].nbytes)
        u8 = [Value(s, "u8", below(256), True) for s in ((words, width), (512, width), (2, width), (width,), (width,))]
        scales = [Value((), "f32", lambda s, d, seed: d(0.02), True) for _ in u8]
        zeros = [Value((), "u8", lambda s, d, seed: d(121), True) for _ in u8]
        yield Case("QEmbedLayerNormalization", size, [ids, Value((batch, length), "i32", below(2)), *u8, None, *scales, *zeros],
                   None, types=("f32",), domain=MS, outputs=2, attributes={"epsilon": 1e-5}, no_peer="PyTorch has no such function",
                   moved=lambda a, o: 2 * o[0].nbytes)
