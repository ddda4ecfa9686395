# SPDX-License-Identifier: Apache-2.0
"""Operators that models have together: what is memory-bound over many shapes of rows, and messages of graph networks."""
from . import FLOATS, Case, F, Value, around, below, const, index, of_class, torch, weight, x

ROWS = (1, 32, 1024, 8192, 65_536)
COLUMNS = (64, 1024, 4096, 32_768, 262_144)
MOST_ELEMENTS = 1 << 26
NORM = ("LayerNormalization", {"axis": -1, "epsilon": 1e-5})


def norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)


def summed(x, y, w, b):
    total = x + y
    return norm(total, w, b), total


def gated(*tensors):
    return F.silu(torch.cat(tensors, 1))


@of_class("rows")
def rows():
    for m, n in ((m, n) for m in ROWS for n in COLUMNS if m * n <= MOST_ELEMENTS):
        size, a, scale = "small" if (m, n) == (32, 64) else f"{m}x{n}", x(m, n), [around(1, n), weight(n, scale=0.1)]
        types = (*FLOATS, "bf16") if (m, n) in ((32, 64), (8192, 4096)) else FLOATS
        yield Case("rows", size, [a, *scale], norm, "layer_norm", types, nodes=((NORM[0], "i0 i1 i2", "o0", NORM[1]),))
        yield Case("rows", size, [a, scale[0]], lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), "rms_norm", types, opset=23,
                   nodes=(("RMSNormalization", "i0 i1", "o0", {"epsilon": 1e-5}),))
        yield Case("rows", size, [a], lambda x: x.softmax(-1), "softmax", types, nodes=(("Softmax", "i0", "o0", {}),))
        yield Case("rows", size, [a], lambda x: x.log_softmax(-1), "log_softmax", types, nodes=(("LogSoftmax", "i0", "o0", {}),))
        yield Case("rows", size, [a, a], lambda x, y: F.gelu(x) * y, "gelu_gate", types,
                   nodes=(("Gelu", "i0", "g", {}), ("Mul", "g i1", "o0", {})))
        yield Case("rows", size, [a, a, *scale], summed, "add_layer_norm", types, outputs=2,
                   nodes=(("Add", "i0 i1", "o1", {}), (NORM[0], "o1 i2 i3", "o0", NORM[1])))
        yield Case("rows", size, [a, const(0.5, "T")], lambda x, _: (x.t() * 0.5).contiguous(), "transpose_scale", types,
                   nodes=(("Transpose", "i0", "t", {"perm": [1, 0]}), ("Mul", "t i1", "o0", {})))
        yield Case("rows", size, [a, a], gated, "concat_silu", types,
                   nodes=(("Concat", "i0 i1", "c", {"axis": 1}), ("Sigmoid", "c", "s", {}), ("Mul", "c s", "o0", {})))


def messages(size, count, edges, width, known):
    """Each edge takes its source's row, scaled, to its target's."""
    def placed(*shape):
        return Value(shape, "i64", below(count), known)

    def call(x, source, target, scale):
        return x.index_add(0, target[:, 0], x[source] * scale)
    return Case("graph", size, [x(count, width), placed(edges), placed(edges, 1), x(edges, 1)], call,
                f"messages{'_known' if known else ''}", opset=18, tolerance=2e-2,
                moved=lambda a, o: 2 * o[0].nbytes + sum(each.nbytes for each in a[1:]),
                nodes=(("Gather", "i0 i1", "g", {"axis": 0}), ("Mul", "g i3", "m", {}), ("ScatterND", "i0 i2 m", "o0", {"reduction": "add"})))


WIDTHS = (128, 256, 256, 128)


def network(x, source, target, scale, *weights):
    for w in weights:
        x = x @ w
        x = F.relu(x.index_add(0, target[:, 0], x[source] * scale))
    return x


def layers(size, count, edges, divisor):
    """Three layers of a graph network: a product, then each edge takes its source's row, scaled, to its target's."""
    widths = [each // divisor for each in WIDTHS]
    weights = [weight(a, b, scale=a ** -0.5) for a, b in zip(widths, widths[1:])]
    nodes = []
    for k in range(len(weights)):
        nodes += [("MatMul", f"{f'x{k}' if k else 'i0'} i{k + 4}", f"p{k}", {}), ("Gather", f"p{k} i1", f"g{k}", {"axis": 0}),
                  ("Mul", f"g{k} i3", f"m{k}", {}), ("ScatterND", f"p{k} i2 m{k}", f"s{k}", {"reduction": "add"}),
                  ("Relu", f"s{k}", f"x{k + 1}" if k + 1 < len(weights) else "o0", {})]
    return Case("graph", size, [x(count, widths[0]), index(count, edges), index(count, edges, 1), x(edges, 1), *weights], network, "network",
                opset=18, tolerance=3e-2, nodes=tuple(nodes), flops=sum(2 * count * a * b for a, b in zip(widths, widths[1:])))


@of_class("graphs")
def graphs():
    yield layers("small", 64, 256, 4)
    yield layers("large", 20_000, 200_000, 1)
    for size, count, edges, width in (("small", 64, 256, 32), ("middle", 2000, 20_000, 64), ("large", 20_000, 200_000, 256)):
        for known in (False, True):
            yield messages(size, count, edges, width, known)
        yield Case("graph", size, [x(count, width), index(count, edges // 8, 8), const([1])], lambda x, i, _: x[i].sum(1), "bags",
                   moved=lambda a, o: o[0].nbytes + a[1].nbytes + 8 * o[0].nbytes,
                   nodes=(("Gather", "i0 i1", "g", {"axis": 0}), ("ReduceSum", "g i2", "o0", {"keepdims": 0})))
