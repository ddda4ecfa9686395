# SPDX-License-Identifier: Apache-2.0
"""Makers of random nodes, one for each operator or family: elements, reductions, shapes and places."""
from dataclasses import dataclass
from typing import Callable

import numpy as np
from onnx import helper

from graph_generator import FLOATS, INTEGERS, NUMBERS, SIGNED, TYPES, UNSIGNED, Skip, proto_type

BF16 = 13  # operators take bfloat16 from here on


@dataclass(frozen=True)
class Maker:
    name: str
    since: int
    until: int
    make: Callable


MAKERS = []


def maker(*names, since=1, until=99):
    """Registers a function of (graph, operator's name) for these operators."""
    def register(function):
        for name in names:
            MAKERS.append(Maker(name, since, until, lambda g, name=name: function(g, name)))
        return function
    return register


# Elements.

UNARY = {"Abs": (1, NUMBERS), "Neg": (1, {**FLOATS, **SIGNED}), "Relu": (1, FLOATS), "Sign": (9, NUMBERS),
         "Ceil": (1, FLOATS), "Floor": (1, FLOATS), "Round": (11, FLOATS), "Not": (1, ["bool"]),
         "BitwiseNot": (18, INTEGERS), "IsNaN": (9, FLOATS), "Identity": (1, TYPES)}
SMOOTH = {"Exp": 1, "Tanh": 1, "Sigmoid": 1, "Sin": 7, "Cos": 7, "Atan": 7, "Sinh": 9, "Cosh": 9, "Asinh": 9, "Erf": 9,
          "Softplus": 1, "Softsign": 1, "Elu": 1, "Selu": 1, "LeakyRelu": 1, "HardSigmoid": 1, "HardSwish": 14,
          "Mish": 18, "Gelu": 20, "Celu": 12, "ThresholdedRelu": 10, "Swish": 24}
ALPHA = ("Elu", "LeakyRelu", "HardSigmoid", "Celu", "Swish", "Selu")
BOUNDED = {"Sqrt": (0.1, 4), "Log": (0.2, 5), "Reciprocal": (0.3, 3), "Acos": (-0.9, 0.9), "Asin": (-0.9, 0.9),
           "Acosh": (1.2, 5), "Atanh": (-0.8, 0.8), "Tan": (-1, 1)}


@maker(*UNARY)
def unary(g, name):
    since, types = UNARY[name]
    if g.opset < since:
        raise Skip("older")
    steps = name in ("Sign", "Ceil", "Floor", "Round", "IsNaN")
    g.node(name, [g.any(types, exact=steps)], exact=True)


@maker(*SMOOTH)
def smooth(g, name):
    if g.opset < SMOOTH[name]:
        raise Skip("older")
    attributes = {}
    if name in ALPHA and g.chance(0.7):
        attributes["alpha"] = float(g.pick([0.1, 0.5, 1.0, 1.7]))
    if name in ("HardSigmoid",) and g.chance(0.5):
        attributes["beta"] = float(g.pick([0.25, 0.5]))
    if name == "Gelu" and g.chance(0.6):
        attributes["approximate"] = g.pick(["tanh", "none"])
    g.node(name, [g.any(FLOATS, exact=name == "ThresholdedRelu")], **attributes)


@maker(*BOUNDED)
def bounded(g, name):
    low, high = BOUNDED[name]
    type = g.pick(FLOATS)
    g.node(name, [g.new(type, g.shape(), low=low, high=high)])


@maker("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Mod", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
       "BitShift", since=7)
def binary(g, name):
    if name in ("And", "Or", "Xor"):
        x = g.any(["bool"])
        return g.node(name, [x, g.like(x)], exact=True)
    if name.startswith("Bitwise"):
        x = g.any(INTEGERS)
        return g.node(name, [x, g.like(x)], exact=True)
    if name == "BitShift":
        x = g.any(UNSIGNED)
        return g.node(name, [x, g.either(x.type, g.broadcastable(x.shape), low=0, high=7)], exact=True,
                      direction=g.pick(["LEFT", "RIGHT"]))
    if name == "Mod":
        x = g.any(NUMBERS, exact=True)
        return g.node(name, [x, g.either(x.type, g.broadcastable(x.shape), low=1, high=9)], exact=x.type in INTEGERS,
                      fmod=1 if x.type in FLOATS or g.chance(0.5) else 0)
    if name == "Pow":
        x = g.any({**FLOATS, "i32": 0, "i64": 0})
        other = g.pick([x.type] * 3 + ["i64", "f32", "i32"] if g.opset >= 12 else [x.type])
        if x.type in INTEGERS and other in FLOATS:
            other = x.type
        return g.node(name, [x, g.constant(g.pick([0, 1, 2, 3]), other)])
    if name == "PRelu":
        x = g.any(FLOATS, low=1)
        shape = [n if g.chance(0.6) else 1 for n in x.shape][g.integer(0, x.rank - 1):]
        return g.node(name, [x, g.either(x.type, shape)])
    x = g.any(NUMBERS)
    other = g.either(x.type, g.broadcastable(x.shape), low=1, high=3) if name == "Div" else g.like(x)
    pair = [other, x] if g.chance(0.3) and name != "Div" else [x, other]
    return g.node(name, pair)


@maker("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", since=9)
def comparison(g, name):
    if "Or" in name and g.opset < 12:
        raise Skip("older")
    types = {t: 0 for t in NUMBERS} if g.opset >= 11 else {**FLOATS}
    if name == "Equal":
        types["bool"] = 0
    x = g.any(types, exact=True)
    same = [v for v in g.values if v.type == x.type and v.shape == x.shape and v.exact]
    g.node(name, [x, g.pick(same) if same and g.chance(0.3) else g.either(x.type, g.broadcastable(x.shape))], exact=True)


@maker("Sum", "Mean", "Max", "Min", since=8)
def variadic(g, name):
    x = g.any(FLOATS if name in ("Sum", "Mean") or g.opset < 12 else NUMBERS)
    others = [g.like(x) for _ in range(g.integer(0, 3))]
    g.node(name, [x, *others], exact=name in ("Max", "Min"))


@maker("Where", since=9)
def where(g, name):
    x = g.any()
    g.node(name, [g.new("bool", g.broadcastable(x.shape)), *g.pick([lambda a, b: (a, b), lambda a, b: (b, a)])(
        x, g.like(x))], exact=True)


@maker("Cast", "CastLike")
def cast(g, name):
    x = g.any(exact=True)
    to = g.pick(TYPES)
    if x.type in FLOATS and to in UNSIGNED:
        x, = g.node("Abs", [x], exact=True)
    if x.type in SIGNED and to in UNSIGNED and g.chance(0.5):
        to = "i64"
    number = proto_type(np.empty(0, TYPES[to]))
    exact = x.type not in FLOATS and to not in ("f16", "bf16")
    if name == "Cast":
        return g.node(name, [x], exact=exact, to=number)
    if g.opset < 15:
        raise Skip("older")
    return g.node(name, [x, g.either(to, ())], exact=exact)


@maker("Clip")
def clip(g, name):
    x = g.any(FLOATS if g.opset < 12 else NUMBERS)
    low, high = (-1, 1) if x.type in FLOATS else (3, 9)
    g.node(name, [x, g.constant(low, x.type) if g.chance(0.8) else None, g.either(x.type, (), low=high, high=high)
                  if g.chance(0.8) else None], exact=True)


@maker("IsInf", "Shrink", "Dropout")
def others(g, name):
    if name == "IsInf":
        return g.node(name, [g.any(["f32", "f64"], exact=True)], exact=True, detect_negative=g.integer(0, 1))
    if name == "Shrink":
        return g.node(name, [g.any({k: 0 for k in NUMBERS if k != "u64"}, exact=True)], lambd=float(g.pick([0.5, 2])), bias=float(g.pick([0, 0.5, 1])))
    x = g.any(FLOATS)
    if g.opset < 12:
        return g.node(name, [x], g.pick([1, 2]), exact=True, ratio=0.3)
    return g.node(name, [x, g.constant(0.5, "f32")], g.pick([1, 2]), exact=True)


# Reductions.

@maker("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
       "ReduceLogSumExp", "ReduceSumSquare")
def reduction(g, name):
    integers = name not in ("ReduceMean", "ReduceLogSum", "ReduceLogSumExp", "ReduceL2")
    types = {**FLOATS, **({"i32": 0, "i64": 0} if integers else {})}
    if name in ("ReduceMax", "ReduceMin") and g.opset >= 12:
        types |= {"i8": 0, "u8": 0}
        if g.opset >= 20:
            types["bool"] = 0
    if name == "ReduceLogSum":
        x = g.new(g.pick(FLOATS), g.shape(), low=0.2, high=2)
    else:
        x = g.any(types)
    if name == "ReduceMean" and not x.array.size:
        raise Skip("the mean of nothing")
    axes, keepdims = (g.axes(x) or None), (g.integer(0, 1) if g.chance(0.7) else None)
    exact = name in ("ReduceMax", "ReduceMin")
    if g.opset >= (13 if name == "ReduceSum" else 18):
        g.node(name, [x, g.constant(axes) if axes else None], exact=exact, keepdims=keepdims,
               noop_with_empty_axes=g.integer(0, 1) if g.chance(0.3) else None)
    else:
        g.node(name, [x], exact=exact, axes=axes, keepdims=keepdims)


@maker("ArgMax", "ArgMin")
def arguments(g, name):
    x = g.any({**FLOATS, "i32": 0, "i8": 0, "u8": 0}, low=1, exact=True, where=lambda v: v.array.size)
    g.node(name, [x], exact=True, axis=g.axis(x), keepdims=g.integer(0, 1),
           select_last_index=g.integer(0, 1) if g.opset >= 12 else None)


@maker("Softmax", "LogSoftmax", "Hardmax")
def softmax(g, name):
    # ONNX's reference gives the later meaning to all versions; ONNX Runtime has the older one for few types.
    types = FLOATS if g.opset >= 13 else {"f32": 0, "bf16": 0}
    x = g.any(types, low=1, exact=name == "Hardmax")
    g.node(name, [x], axis=g.axis(x) if g.chance(0.8) else None, exact=name == "Hardmax")


@maker("CumSum", "CumProd")
def running(g, name):
    if name == "CumProd" and g.opset < 26:
        raise Skip("older")
    x = g.any({"f32": 0, "f64": 0, "i32": 0, "i64": 0}, low=1)
    g.node(name, [x, g.constant(g.axis(x), g.pick(["i32", "i64"]))], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


@maker("TopK", since=10)
def top(g, name):
    x = g.any({**FLOATS, "i32": 0, "i64": 0} if g.opset >= 11 else FLOATS, low=1, exact=True)
    axis = g.axis(x)
    k = g.integer(0 if g.empty else 1, max(1, x.shape[axis]))
    if len(np.unique(x.array)) < x.array.size and g.chance(0.5):
        raise Skip("ties")
    g.node(name, [x, g.constant([k])], 2, exact=True, axis=axis, largest=g.integer(0, 1) if g.opset >= 11 else None)


# Shapes.

def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


@maker("Reshape", since=5)
def reshape(g, name):
    x = g.any()
    left, shape = x.array.size, []
    if left == 0:
        return g.node(name, [x, g.constant([0] * x.rank)], exact=True)
    while left > 1 and len(shape) < 7:
        shape.append(g.pick(divisors(left)))
        left //= shape[-1]
    shape.append(left)
    g.random.shuffle(shape)
    shape = [int(s) for s in shape]
    if x.array.size == 1 and g.chance(0.3):
        shape = []
    for i, n in enumerate(shape):
        if i < x.rank and x.shape[i] == n and g.chance(0.3):
            shape[i] = 0
    if shape and g.chance(0.4):
        shape[g.integer(0, len(shape) - 1)] = -1
    return g.node(name, [x, g.constant(np.array(shape, np.int64))], exact=True)


@maker("Transpose", "Flatten", "Shape", "Size", "Trilu")
def plain_views(g, name):
    if name == "Transpose":
        x = g.any()
        return g.node(name, [x], exact=True, perm=[int(p) for p in g.random.permutation(x.rank)]
                      if g.chance(0.8) and x.rank else None)
    if name == "Flatten":
        x = g.any()
        return g.node(name, [x], exact=True, axis=g.integer(-x.rank if g.opset >= 11 else 0, x.rank))
    if name == "Trilu":
        if g.opset < 14:
            raise Skip("older")
        return g.node(name, [g.any(low=2), g.constant(g.integer(-3, 3)) if g.chance(0.6) else None], exact=True,
                      upper=g.integer(0, 1))
    x = g.any()
    ends = dict(start=g.integer(-2, 1), end=g.integer(0, 3)) if name == "Shape" and g.opset >= 15 and g.chance(0.5) \
        else {}
    return g.node(name, [x], exact=True, **ends)


@maker("Squeeze", "Unsqueeze")
def squeeze(g, name):
    if name == "Squeeze":
        x = g.any()
        axes = [i for i, n in enumerate(x.shape) if n == 1 and g.chance(0.6)]
    else:
        x = g.any(high=6)
        rank = x.rank + g.integer(1, 2)
        axes = [int(a) for a in g.random.permutation(rank)[:rank - x.rank]]
        axes = [a - rank if g.chance(0.3) else a for a in axes]
    if not axes and (name == "Unsqueeze" or g.chance(0.5)):
        raise Skip("no axes")
    if g.opset >= 13:
        return g.node(name, [x, g.constant(axes) if axes else None], exact=True)
    return g.node(name, [x], exact=True, axes=axes or None)


@maker("Expand", "Tile", since=8)
def repeated(g, name):
    x = g.any()
    if name == "Tile":
        return g.node(name, [x, g.constant(np.array([g.pick([1, 1, 2, 3]) for _ in x.shape], np.int64))], exact=True)
    shape = [n if n != 1 or g.chance(0.4) else g.pick([2, 3, 5]) for n in x.shape]
    shape = [1 if g.chance(0.3) else n for n in shape]
    if x.rank < 7 and g.chance(0.3):
        shape = [g.pick([1, 2, 3])] + shape
    return g.node(name, [x, g.constant(np.array(shape, np.int64))], exact=True)


@maker("Concat", "Split", since=4)
def parts(g, name):
    x = g.any(low=1)
    axis = g.axis(x)
    if name == "Concat":
        others = []
        for _ in range(g.integer(0, 3)):
            shape = list(x.shape)
            shape[axis] = g.pick([1, 2, 3] + [0] * g.empty)
            others.append(x if g.chance(0.2) else g.like(x, shape))
        operands = [x, *others]
        g.random.shuffle(operands)
        return g.node(name, operands, exact=True, axis=axis)
    size, count = x.shape[axis], g.integer(1, 4)
    cuts = sorted(g.integer(0, size) for _ in range(count - 1))
    lengths = [int(b - a) for a, b in zip([0, *cuts], [*cuts, size])]
    if g.chance(0.6):
        return g.node(name, [x, g.constant(lengths)] if g.opset >= 13 else [x], count, exact=True, axis=axis,
                      split=None if g.opset >= 13 else lengths)
    if g.opset >= 18 and -(-size // count) * (count - 1) <= size:
        return g.node(name, [x], count, exact=True, axis=axis, num_outputs=count)
    if size % count:
        raise Skip("uneven")
    return g.node(name, [x], count, exact=True, axis=axis)


@maker("Slice", since=10)
def sliced(g, name):
    x = g.any(low=1)
    axes = g.axes(x, 1)
    step = [g.pick([1, 1, 1, 2, 3, -1, -2]) for _ in axes]
    start = [g.pick([g.integer(-x.shape[a] - 1, x.shape[a] + 1)] * 6 + [0, -2**31]) for a in axes]
    # Beyond the end that the step leads to: ONNX Runtime gives the greatest integers another meaning.
    far = [g.pick([2**31 - 1, 2**62]) * (1 if s > 0 else -1) for s in step]
    end = [g.pick([g.integer(-x.shape[a] - 1, x.shape[a] + 1)] * 3 + [f]) for a, f in zip(axes, far)]
    type = g.pick(["i64", "i64", "i32"])
    if type == "i32":
        start, end = ([max(min(v, 2**31 - 1), -2**31) for v in part] for part in (start, end))
    operands = [x, *(g.constant(np.array(v), type) for v in (start, end, axes))]
    g.node(name, operands + ([g.constant(step, type)] if g.chance(0.6) else []), exact=True)


@maker("Pad", since=11)
def pad(g, name):
    x = g.any({**FLOATS, "i32": 0, "i64": 0, "i8": 0, "u8": 0, "bool": 0} if g.opset >= 13 else
              {"f32": 0, "f64": 0, "i32": 0}, low=1)
    mode = g.pick(["constant"] * 3 + ["reflect", "edge"] + ["wrap"] * (g.opset >= 19))
    axes = g.axes(x, 1) if g.opset >= 18 and g.chance(0.4) else None
    count = len(axes) if axes else x.rank
    low = -1 if mode == "constant" else 0
    pads = [g.integer(low, 3) for _ in range(2 * count)]
    if mode != "constant":
        sizes = [x.shape[a] for a in (axes or range(x.rank))] * 2
        pads = [min(p, max(0, n - 1)) for p, n in zip(pads, sizes)]
    elif 0 in x.shape:
        pads = [max(p, 0) for p in pads]  # what is taken away has to be there
    fill = g.either(x.type, ()) if mode == "constant" and g.chance(0.6) else None
    g.node(name, [x, g.constant(pads), fill, g.constant(axes) if axes else None], exact=True, mode=mode)


@maker("DepthToSpace", "SpaceToDepth", "CenterCropPad")
def rearranged(g, name):
    if name == "CenterCropPad":
        if g.opset < 18:
            raise Skip("older")
        x = g.any(low=1)
        axes = sorted({a % x.rank for a in g.axes(x, 1)})
        return g.node(name, [x, g.constant([g.integer(1, 9) for _ in axes])], exact=True, axes=axes)
    n, c, h, w = (g.pick([1, 2, 3]) for _ in range(4))
    type = g.pick(["f32", "f32", "f64", "f16"])
    if name == "DepthToSpace":
        return g.node(name, [g.new(type, (n, 4 * c, h, w))], exact=True, blocksize=2,
                      mode=g.pick(["DCR", "CRD"]) if g.opset >= 11 else None)
    return g.node(name, [g.new(type, (n, c, 2 * h, 2 * w))], exact=True, blocksize=2)


# Places.

@maker("Gather", "GatherElements", "GatherND", since=11)
def gather(g, name):
    x = g.any(low=1, where=lambda v: v.array.size)
    type = g.pick(["i64", "i64", "i32"])
    if name == "GatherND":
        depth = g.integer(1, x.rank)
        places = np.stack([g.numbers("i64", g.pick([(2,), (3, 2), (1,)]) and (4,), -n, n - 1) for n in x.shape[:depth]], -1)
        return g.node(name, [x, g.constant(places) if g.chance(0.5) else g.new("i64", places.shape, places)], exact=True)
    axis = g.axis(x)
    n = x.shape[axis]
    shape = g.shape(0, 3) if name == "Gather" else tuple(
        g.integer(1, s) if i != axis % x.rank else g.integer(1, 5) for i, s in enumerate(x.shape))
    places = g.numbers("i64", shape, -n, n - 1)
    g.node(name, [x, g.constant(places, type) if g.chance(0.5) else g.new(type, shape, places)], exact=True, axis=axis)


@maker("ScatterElements", "ScatterND", since=11)
def scatter(g, name):
    x = g.any({**FLOATS, "i32": 0, "i64": 0}, low=1, where=lambda v: v.array.size)
    reductions = ["none"] + ["add", "mul"] * (g.opset >= 16) + ["min", "max"] * (g.opset >= 18)
    reduction = g.pick(reductions)
    if name == "ScatterND":
        depth = g.integer(1, x.rank)
        flat = g.random.permutation(int(np.prod(x.shape[:depth])))[:4]
        if reduction != "none":
            flat = np.concatenate([flat, flat[:2]])
        places = np.stack(np.unravel_index(flat, x.shape[:depth]), -1)
        update = g.like(x, (len(flat), *x.shape[depth:]))
    else:
        axis = g.axis(x)
        n = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = g.integer(1, n)
        if reduction == "none":
            places = np.argsort(g.random.random(x.shape), axis)
            places = np.take(places, range(shape[axis]), axis)
        else:
            places = g.numbers("i64", shape, -n, n - 1)
        update = g.like(x, shape)
    attributes = {} if name == "ScatterND" else {"axis": axis}
    if reduction != "none":
        attributes["reduction"] = reduction
    g.node(name, [x, g.constant(places) if g.chance(0.5) else g.new("i64", places.shape, places), update],
           exact=reduction in ("none", "min", "max"), **attributes)


@maker("OneHot", "EyeLike", "ConstantOfShape", "Range", "ReverseSequence", since=11)
def made(g, name):
    if name == "OneHot":
        type = g.pick(["f32", "i64", "i32"])
        x, depth = g.new("i64", g.shape(0, 4), low=-4, high=5), g.integer(2, 6)
        return g.node(name, [x, g.constant([depth]), g.constant([0, 1] if g.chance(0.5) else [2, 5], type)],
                      exact=True, axis=g.integer(-x.rank - 1, x.rank) if g.chance(0.7) else None)
    if name == "EyeLike":
        return g.node(name, [g.any({"f32": 0, "i32": 0, "i64": 0}, low=2, high=2)], exact=True, k=g.integer(-2, 2))
    if name == "ConstantOfShape":
        x = g.any()
        shape, = g.node("Shape", [x], exact=True)
        return g.node(name, [shape], exact=True, value=helper.make_tensor("v", 1, [1], [1.5]) if g.chance(0.7) else None)
    if name == "Range":
        type = g.pick(["i64", "i32", "f32"])
        step = g.pick([1, 2, 3, -1])
        return g.node(name, [g.constant(v, type) for v in (0, step * g.integer(0, 9), step)], exact=True)
    x = g.any({**FLOATS, "i64": 0, "i32": 0}, low=2, where=lambda v: v.array.size)
    time = g.integer(0, 1)
    return g.node(name, [x, g.new("i64", (x.shape[1 - time],), low=1, high=x.shape[time])], exact=True, time_axis=time,
                  batch_axis=1 - time)
