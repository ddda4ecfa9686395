# SPDX-License-Identifier: Apache-2.0
"""Operators of older opsets, of ONNX Runtime's own and of its newest exports."""
import numpy as np

from . import MS, Case, F, Value, around, const, index, of_class, three, torch, weight, x
from .windows import boxes

NO_SUCH = "PyTorch has no such function"


@of_class("pointwise")
def pointwise():
    for size, (rows, columns) in three((16, 128), (1024, 1024), (16_384, 4096)):
        yield Case("ScaledSiLU", size, [x(rows, columns)], lambda x: x * (1.7 * x).sigmoid(), domain=MS, attributes={"alpha": 1.7})
        yield Case("SwiGLU", size, [x(rows, columns), x(rows, columns)], lambda g, u: F.silu(g) * u, domain=MS)
        yield Case("IsAllFinite", size, [x(rows, columns)], lambda x: x.isfinite().all(), domain=MS)


@of_class("moves")
def moves():
    for size, (rows, columns) in three((16, 128), (1024, 1024), (4096, 8192)):
        yield Case("Trilu", size, [x(1, columns, rows)], torch.tril, domain=MS, attributes={"upper": 0})
        yield Case("Pad", size, [x(rows, columns), const([0, 3, 0, 3])], lambda x, _: F.pad(x, (3, 3)), domain=MS)
        yield Case("UnfoldTensor", size, [x(rows, columns)], lambda x: x.unfold(1, 8, 4).contiguous(), types=("f32",), domain=MS,
                   attributes={"dim": 1, "size": 8, "step": 4})


@of_class("gather")
def gather():
    for size, (rows, columns, count) in three((64, 32, 100), (10_000, 64, 20_000), (500_000, 128, 200_000)):
        yield Case("GatherND", size, [x(rows, columns), index(rows, count, 1)], lambda x, i: x[i[:, 0]], domain=MS)


@of_class("reductions")
def reductions():
    for size, (rows, columns) in three((16, 128), (1024, 4096), (16_384, 8192)):
        yield Case("ReduceSumInteger", size, [x(rows, columns)], lambda x: x.sum(1, keepdim=True).to(torch.int32), types=("i8",), domain=MS,
                   attributes={"axes": [1], "keepdims": 1})
    for size, (queries, keys, width) in three((16, 32, 16), (500, 2000, 64), (4000, 8000, 64)):
        yield Case("CDist", size, [x(queries, width), x(keys, width)], lambda a, b: torch.cdist(a, b), types=("f32",), domain=MS,
                   attributes={"metric": "euclidean"}, flops=2 * queries * keys * width, tolerance=1e-4)


@of_class("softmax")
def softmax():
    for size, (batch, heads, length) in three((1, 4, 16), (2, 12, 128), (8, 16, 512)):
        yield Case("BiasSoftmax", size, [x(batch, heads, length, length), x(1, heads, length, length)],
                   lambda x, b: (x + b).softmax(-1), types=("f32",), domain=MS, attributes={"axis": 3, "is_inner_broadcast": 0})


@of_class("norms")
def branches():
    for size, (tokens, width) in three((8, 32), (512, 256), (8192, 1024)):
        wide = x(1, tokens, 4, width)
        yield Case("BranchwiseRMSNorm", size, [wide, around(1, width)], lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), domain=MS,
                   attributes={"epsilon": 1e-5})
        yield Case("HyperConnectionPreMix", size, [wide, x(1, tokens, 4)], None, types=("f32",), domain=MS, no_peer=NO_SUCH)
        yield Case("HyperConnectionPostMix", size, [wide, x(1, tokens, width), x(1, tokens, 4), x(1, tokens, 4, 4)], None,
                   types=("f32",), domain=MS, no_peer=NO_SUCH)
        yield Case("EngramGate", size, [wide, wide, x(1, tokens, width), around(1, 4, width), around(1, 4, width), around(1, 4, width)],
                   None, types=("f32",), domain=MS, outputs=2, no_peer=NO_SUCH)


@of_class("matmul")
def projections():
    for size, (rows, width, router) in three((8, 64, 16), (512, 1024, 64), (4096, 4096, 128)):
        columns = router + 2 * width
        yield Case("RouterGateUpProj", size, [x(rows, width), weight(width, columns, scale=width ** -0.5)],
                   lambda x, w, r=router, n=width: (lambda y: (y[:, :r], F.silu(y[:, r:r + n]) * y[:, r + n:]))(x @ w), outputs=2, domain=MS,
                   flops=2 * rows * width * columns, attributes={"router_size": router})


@of_class("attention")
def blocks():
    """One token for each of some sequences."""
    for size, sequences, heads, groups, length, width in (("small", 2, 4, 2, 64, 32), ("middle", 4, 32, 8, 512, 128), ("large", 16, 32, 8, 2048, 128)):
        block = 64
        count = length // block
        cache = x(sequences * count, block, groups, width)
        table = Value((sequences, count), "i32", np.arange(sequences * count, dtype=np.int32).reshape(sequences, count))
        numbers = [Value((sequences + 1,), "i32", np.arange(sequences + 1, dtype=np.int32)), Value((sequences,), "i32", np.full(sequences, length - 1, np.int32))]
        own = x(sequences, groups * width)
        flops = 4 * sequences * heads * length * width
        yield Case("PagedAttention", size, [x(sequences, heads * width), own, own, cache, cache, *numbers, table], None, types=("f16",), domain=MS,
                   flops=flops, outputs=3, compared=1, no_peer=NO_SUCH, attributes={"num_heads": heads, "kv_num_heads": groups}, options=("--state=none",))
        batch = 1
        rows = x(batch, groups, length, width)
        layout = [const(np.concatenate(([0], np.cumsum(np.arange(1, count + 1))))[None].tolist(), "i32"),
                  const([[j for i in range(count) for j in range(i + 1)]], "i32")]
        one = x(batch, 1, groups * width)
        yield Case("SparseAttention", size, [x(batch, 1, heads * width), one, one, rows, rows, *layout, const(length, "i32"),
                                             Value((batch,), "i32", np.full(batch, length, np.int32))], None, types=("f32",), domain=MS,
                   flops=4 * heads * length * width, outputs=3, compared=1, no_peer=NO_SUCH,
                   attributes={"num_heads": heads, "kv_num_heads": groups, "sparse_block_size": block}, options=("--state=none",))


@of_class("rows")
def rotary():
    for size, (heads, length, width) in three((2, 16, 32), (8, 512, 64), (32, 4096, 128)):
        half = width // 2
        parts = [half // 2, half // 4, half // 4]
        yield Case("MRotaryEmbedding", size, [x(1, heads, length, width), index(length, 3, 1, length), weight(length, half, scale=0.5),
                                              weight(length, half, scale=0.5)], None, types=("f32",), domain=MS, no_peer=NO_SUCH,
                   attributes={"mrope_section": parts, "mrope_layout": 0, "interleaved": 0})


@of_class("quantised products")
def products():
    for size, (m, k, n) in three((8, 64, 32), (128, 512, 512), (1024, 2048, 2048)):
        yield Case("MatMulInteger16", size, [x(m, k), weight(k, n, scale=99)], None, types=("i16",), domain=MS, flops=2 * m * k * n,
                   no_peer=NO_SUCH)


@of_class("sampling")
def sampling():
    for size, (n, c, side) in three((1, 2, 8), (2, 32, 64), (8, 64, 256)):
        grid = x(n, side, side, 2, kind=lambda shape, dtype, seed: np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype))
        yield Case("GridSample", size, [x(n, c, side, side), grid], lambda x, g: F.grid_sample(x, g, align_corners=False), types=("f32",),
                   domain=MS, attributes={"mode": "bilinear", "padding_mode": "zeros", "align_corners": 0})


@of_class("detection")
def regions():
    for size, c, side, count in (("small", 8, 16, 8), ("middle", 64, 50, 300), ("large", 256, 200, 1000)):
        made = boxes(side, side)

        def kind(shape, dtype, seed, made=made):
            return np.concatenate([np.zeros((shape[0], 1), dtype), made((shape[0], 4), dtype, seed)], 1)
        yield Case("MaxRoiPool", size, [x(1, c, side, side), x(count, 5, kind=kind)], None, types=("f32",),
                   attributes={"pooled_shape": [7, 7], "spatial_scale": 1.0}, no_peer=NO_SUCH)
