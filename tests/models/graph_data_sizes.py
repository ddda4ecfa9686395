# SPDX-License-Identifier: Apache-2.0
"""Makers of random nodes whose results' sizes the run finds, or that compute sizes out of them."""
import numpy as np
from onnx import TensorProto, helper

from graph_generator import FLOATS, SIGNED, Skip, proto_type
from graph_operators import Maker

DATA_MAKERS = []
KEPT = {**FLOATS, "i32": 0, "i64": 0, "bool": 0}


def maker(*names, since=1):
    """Registers a function of (graph, operator's name) for these operators."""
    def register(function):
        for name in names:
            DATA_MAKERS.append(Maker(name, since, 99, lambda g, name=name: function(g, name)))
        return function
    return register


def sparse(g, low=1, high=3):
    """Elements of which none, some or all are zero, with no rounding in them."""
    if g.values and g.chance(0.4):
        return g.any(KEPT, low=low, high=high, exact=True)
    type = g.pick(["f32", "f32", "i64", "i32", "bool"])
    shape = g.shape(low, high)
    array = g.numbers(type, shape)
    array = np.where(g.random.random(shape) < g.pick([0, .1, .5, .9, 1]), np.zeros_like(array), array)
    return g.new(type, shape, array)


def mask_of(g, x):
    """A bool for each element: not zero, above a number, or an input."""
    if g.chance(0.3):
        return g.new("bool", x.shape)
    if g.chance(0.5) and x.type in ("f32", "f64", "i32", "i64"):
        return g.node("Greater", [x, g.constant(g.numbers(x.type, ()), x.type)], exact=True)[0]
    return g.node("Cast", [x], exact=True, to=TensorProto.BOOL)[0]


@maker("NonZero", since=9)
def non_zero(g, name):
    g.node(name, [sparse(g)], exact=True)


@maker("Compress", since=9)
def compress(g, name):
    x = sparse(g)
    if g.chance(0.3):
        return g.node(name, [x, g.new("bool", (x.array.size,))], exact=True)
    axis = g.axis(x)
    return g.node(name, [x, g.new("bool", (x.shape[axis],))], exact=True, axis=axis)


@maker("Unique", since=11)
def unique(g, name):
    x = g.new(g.pick(["f32", "i64"]), g.shape(1, 2))
    x.array[...] = np.round(x.array)
    axis = g.axis(x) if g.chance(0.4) and x.array.size else None
    g.node(name, [x], g.integer(1, 4), exact=True, sorted=1, axis=axis)


@maker("masked select")
def masked_select(g, _):
    """x[mask], as torch exports it."""
    x = sparse(g)
    places = g.node("NonZero", [mask_of(g, x)], exact=True)[0]
    rows = g.node("Transpose", [places], exact=True, perm=[1, 0])[0]
    g.node("GatherND", [x, rows], exact=True)


@maker("masked assign", since=13)
def masked_assign(g, _):
    """x[mask] = f(x[mask])."""
    x = g.new("f32", g.shape(1, 3))
    rows = g.node("Transpose", [g.node("NonZero", [mask_of(g, x)], exact=True)[0]], exact=True, perm=[1, 0])[0]
    chosen = g.node("GatherND", [x, rows], exact=True)[0]
    g.node("ScatterND", [x, rows, g.node(g.pick(["Neg", "Abs", "Relu", "Tanh"]), [chosen])[0]], exact=True)


@maker("rows of a mask", since=13)
def rows_of_mask(g, _):
    """Rows by a mask, changed by a product, and put back."""
    width = g.pick([1, 3, 8])
    x = g.new("f32", (g.pick([1, 2, 7, 16]), width))
    total = g.node("ReduceSum", [x, g.constant([1])], keepdims=0)[0]
    mask = g.new("bool", total.shape)
    p = g.node("Squeeze", [g.node("NonZero", [mask], exact=True)[0], g.constant([0])], exact=True)[0]
    rows = g.node("MatMul", [g.node("Gather", [x, p], exact=True, axis=0)[0], g.either("f32", (width, width))])[0]
    g.node("ScatterND", [x, g.node("Unsqueeze", [p, g.constant([1])], exact=True)[0], rows], exact=True)


@maker("TopK by an input", since=11)
def top_by_input(g, _):
    x = g.any({"f32": 0, "i64": 0}, low=1, high=3, exact=True)
    axis = g.axis(x)
    if len(np.unique(x.array)) < x.array.size:
        raise Skip("ties")
    k = g.new("i64", (1,), [g.integer(0, x.shape[axis])])
    g.node("TopK", [x, k], 2, exact=True, axis=axis, largest=g.integer(0, 1))


@maker("Slice by inputs", since=10)
def slice_by_inputs(g, _):
    x = g.any(KEPT, low=1, high=4)
    axis = g.axis(x)
    ends = [g.new("i64", (1,), [g.integer(-n, n)]) if g.chance(0.7) else g.constant([g.integer(-n, n)])
            for n in [x.shape[axis] + 2] * 2]
    g.node("Slice", [x, *ends, g.constant([axis])], exact=True)


def count_of(g):
    """How many of something there are, as a vector of one."""
    places = g.node("NonZero", [sparse(g)], exact=True)[0]
    shape = g.node("Shape", [places], exact=True)[0]
    return g.node("Slice", [shape, g.constant([1]), g.constant([2])], exact=True)[0]


@maker("size", since=13)
def sized(g, _):
    """Tensors of a computed size."""
    count = count_of(g)
    kind = g.pick(["ConstantOfShape", "Expand", "Range", "Tile"])
    if kind == "ConstantOfShape":
        return g.node(kind, [count], exact=True)
    if kind == "Tile":
        return g.node(kind, [g.new("f32", (g.pick([1, 3]),)), count], exact=True)
    if kind == "Range":
        scalar = g.node("Squeeze", [count, g.constant([0])], exact=True)[0]
        return g.node(kind, [g.constant(g.integer(-2, 1)), scalar, g.constant(1)], exact=True)
    row = g.new("f32", (1, g.pick([1, 2, 5])))
    return g.node(kind, [row, g.node("Concat", [count, g.constant([row.shape[1]])], exact=True, axis=0)[0]], exact=True)


@maker("joined")
def joined(g, _):
    """What is selected twice, in one or two ways: one behind the other, or one and the other."""
    x = sparse(g, 1, 1)
    if x.type == "bool":
        raise Skip("no sum")
    mask = mask_of(g, x)
    a = g.node("Compress", [x, mask], exact=True)[0]
    if g.chance(0.5):
        b = g.node("Compress", [g.node("Abs", [x], exact=True)[0], g.new("bool", mask.shape)], exact=True)[0]
        return g.node("Concat", [a, b], exact=True, axis=0)
    places = g.node("NonZero", [mask], exact=True)[0]
    if g.opset < 13:
        raise Skip("older")
    b = g.node("Gather", [x, g.node("Squeeze", [places, g.constant([0])], exact=True)[0]], exact=True, axis=0)[0]
    return g.node(g.pick(["Add", "Sub", "Mul"]) if x.type in SIGNED or x.type in FLOATS else "Equal", [a, b])


@maker("NonMaxSuppression", since=11)
def suppression(g, name):
    batch, classes, count = g.pick([1, 2]), g.pick([1, 3]), g.pick([1, 4, 13, 40])
    corner = g.random.integers(0, 40, (batch, count, 2))
    boxes = np.concatenate([corner, corner + g.random.integers(1, 20, (batch, count, 2))], 2).astype(np.float32)
    scores = g.random.permutation(batch * classes * count).reshape(batch, classes, count) / np.float32(1000)
    operands = [g.new("f32", boxes.shape, boxes), g.new("f32", scores.shape, scores),
                g.constant([g.pick([1, 3, 1000])]), g.constant([g.pick([.1, .4, .7])], "f32"),
                g.new("f32", (1,), [g.pick([-1, .01, .03])])]
    selected = g.node(name, operands, exact=True)[0]
    if g.chance(0.6):
        g.node("GatherND", [operands[1], selected], exact=True)


@maker("a loop", since=13)
def loop(g, _):
    """As many iterations as there are of something, with or without a value that grows."""
    count = g.node("Squeeze", [count_of(g), g.constant([0])], exact=True)[0]
    x = g.new("i64", (g.pick([1, 3]),))
    names = [f"{g.prefix}b{i}" for i in range(6)]
    i, on, v, all_, next_, piece = names
    nodes = [helper.make_node("Add", [v, i], [next_]), helper.make_node("Identity", [on], [on + "o"])]
    inputs, outputs = [(i, []), (on, []), (v, x.shape)], [(on + "o", []), (next_, x.shape)]
    operands, results = [count, None, x], 1
    if g.chance(0.5):
        axis = g.constant([0])
        nodes += [helper.make_node("Unsqueeze", [v, axis.name], [piece]),
                  helper.make_node("Concat", [all_, piece] if g.chance(0.5) else [piece, all_], [all_ + "o"], axis=0)]
        inputs, outputs = [*inputs, (all_, None)], [*outputs, (all_ + "o", None)]
        operands, results = [*operands, g.constant(np.zeros((g.pick([0, 2]), *x.shape)))], 2
    else:
        axis = x
    info = [helper.make_tensor_value_info(n, TensorProto.BOOL if n.startswith(on) else proto_type(x.array), s)
            for n, s in inputs + outputs]
    body = helper.make_graph(nodes, "body", info[:len(inputs)], info[len(inputs):])
    g.captured("Loop", operands, axis, results, body=body, exact=True)
