# SPDX-License-Identifier: Apache-2.0
"""Random fusable regions as ONNX: the operators, shapes and values of one seed.

A region has one floating-point type (or is of integers alone), values of other types that it makes on the way
(masks, indices, casts), 1 to 2^18 elements in a tensor, at times none, at times with symbolic sizes. It knows of
each value what can be asked of a result: see `Value`.
"""
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOATS = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
          "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16), "f64": (TensorProto.DOUBLE, np.float64)}
INTEGERS = {"i32": (TensorProto.INT32, np.int32), "i64": (TensorProto.INT64, np.int64),
            "i8": (TensorProto.INT8, np.int8), "u8": (TensorProto.UINT8, np.uint8)}
TYPES = {**FLOATS, **INTEGERS, "bool": (TensorProto.BOOL, np.bool_)}
SIZES = [1, 1, 2, 3, 5, 7, 8, 12, 16, 31, 33, 64, 100, 129, 256, 384, 1000, 1024, 2049, 4096, 30001, 131072, 262144]
MOST = 1 << 18
# Continuous and of modest slope, so that what rounding changes stays small.
UNARY = ["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Sin", "Cos", "Erf", "Gelu", "Softplus", "Softsign", "HardSwish",
         "HardSigmoid", "Elu", "Selu", "LeakyRelu", "Mish", "Celu", "Atan", "Asinh"]
BINARY = ["Add", "Sub", "Mul", "Min", "Max", "Div", "PRelu"]
COMPARISONS = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]


@dataclass(frozen=True)
class Value:
    """`sizes` are the sizes of this run, `symbols` their names ('' where a size is constant or has no name).

    `exact`: no rounding happened on the way, so that a result can be asked for bit by bit, and steps (comparisons,
    places of maxima, casts to integers) are safe behind it. `signed`: the sign of a zero is defined, too.
    """
    name: str
    type: str
    sizes: tuple
    symbols: tuple
    exact: bool = True
    signed: bool = True

    @property
    def count(self):
        return int(np.prod(self.sizes, dtype=np.int64))


class Region:
    """The nodes, inputs and outputs of one seed; every name begins with `prefix`."""

    def __init__(self, seed):
        self.seed, self.prefix = seed, f"s{seed}_"
        self.random = np.random.default_rng(seed)
        self.types = set()  # of all values
        self.nodes, self.inputs, self.initializers, self.feeds, self.dims = [], [], [], {}, {}
        self.made = 0
        self.type = self.pick(["f32"] * 8 + ["f16"] * 8 + ["bf16"] * 5 + ["f64"] + ["i32", "i32", "i64", "i8"])
        self.special = self.pick([0, 0, 0, 0, 1, 1, 3]) if self.type in FLOATS else self.pick([0, 0, 1])
        # Regions of this kind only move, compare and choose: their results are known bit by bit.
        self.moving = self.special > 0 and self.type in FLOATS and self.chance(0.4)
        self.symbolic, self.empty = self.chance(0.25), self.chance(0.04)
        self.values = [self.input(self.type, *self.shape())]
        for _ in range(int(self.random.integers(2, 13))):
            x = self.values[-1] if self.chance(0.8) else self.pick(self.values)
            step = self.pick([self.pointwise] * 5 + [self.reduction] * 2 + [self.view] * 3 + [self.masked])
            self.values.append(step(x))
        given = {i.name for i in self.inputs}
        wanted = {v.name: v for v in [self.values[-1], *(self.pick(self.values) for _ in range(self.pick([0, 1, 2])))]}
        self.outputs = [v for v in wanted.values() if v.name not in given]
        if not self.outputs:
            last = self.values[-1]
            self.outputs = [self.op("Not" if last.type == "bool" else "Abs", last)]

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability):
        return bool(self.random.random() < probability)

    # Shapes and inputs.

    def shape(self):
        sizes, room = [], MOST
        for _ in range(int(self.random.integers(1, 5))):
            sizes.append(self.pick([n for n in SIZES if n <= room]))
            room //= sizes[-1]
        sizes = [int(n) for n in self.random.permutation(sizes)]
        if self.empty:
            sizes[int(self.random.integers(len(sizes)))] = 0
        symbols = [""] * len(sizes)
        if self.symbolic:
            for d in range(len(sizes)):
                if sizes[d] > 0 and self.chance(0.5):
                    symbols[d] = f"{self.prefix}n{d}"
                    self.dims[symbols[d]] = (max(1, sizes[d] // self.pick([1, 2, 7])), sizes[d] * self.pick([1, 2, 5]))
        return tuple(sizes), tuple(symbols)

    def input(self, type, sizes, symbols, plain=False):
        name = f"{self.prefix}x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[type][0],
                                                         [s or n for n, s in zip(sizes, symbols)]))
        self.types.add(type)
        self.feeds[name] = self.random.standard_normal(sizes).astype(TYPES[type][1]) if plain else \
            self.numbers(type, sizes)
        return Value(name, type, sizes, symbols)

    def numbers(self, type, sizes):
        numpy = TYPES[type][1]
        if type == "bool":
            return self.random.random(sizes) < 0.5
        if type in INTEGERS:
            info = np.iinfo(numpy)
            low, high = (info.min, info.max) if self.special else (max(-20, info.min), 20)
            return self.random.integers(low, high, sizes, numpy, endpoint=True)
        x = self.random.standard_normal(sizes).astype(numpy)
        if self.special and x.size:
            info = ml_dtypes.finfo(numpy)
            tiny, least = float(info.tiny), float(info.smallest_subnormal)
            # Squares of the greatest, and rows of them, are still finite where sums are float32.
            most = float(info.max) if self.moving else min(float(info.max), 1e16)
            kinds = [np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, least, -least, tiny / 2 + least, most, -most, 1e4,
                     -1e4]
            if self.special == 1:  # every region of this kind has a few, most of them gentle
                kinds = [self.pick(kinds), -0.0, least, -tiny / 4, 1.0, 300.0]
            for _ in range(max(1, min(x.size // 50, 40))):
                x.flat[int(self.random.integers(x.size))] = self.pick(kinds)
        return x

    def broadcast(self, x, type=None):
        """A new input that broadcasts to x."""
        kept = [self.chance(0.65) and (x.symbols[d] in self.dims or (x.symbols[d] == "" and x.sizes[d] >= 0))
                for d in range(len(x.sizes))]
        sizes = [n if k else 1 for n, k in zip(x.sizes, kept)]
        symbols = [s if k else "" for s, k in zip(x.symbols, kept)]
        first = int(self.random.integers(len(sizes))) if sizes and self.chance(0.3) else 0
        return self.input(type or x.type, tuple(sizes[first:]), tuple(symbols[first:]))

    def operand(self, x):
        """A value that broadcasts to x: an input, or one that was made before."""
        same = [v for v in self.values if v.type == x.type and v.sizes == x.sizes and v.symbols == x.symbols
                and "?" not in v.symbols]
        return self.pick(same) if same and self.chance(0.3) else self.broadcast(x)

    # Nodes.

    def node(self, kind, inputs, outputs=1, **attributes):
        names = [f"{self.prefix}v{self.made + i}" for i in range(outputs)]
        self.made += outputs
        self.nodes.append(helper.make_node(kind, [i if isinstance(i, str) else i.name for i in inputs], names,
                                           name=f"{self.prefix}{kind}_{len(self.nodes)}", **attributes))
        return names

    def op(self, kind, x, *others, type=None, sizes=None, symbols=None, exact=False, signed=None, **attributes):
        """A node whose result is like x where nothing else is said; `others` are values and names of constants."""
        name, = self.node(kind, [x, *others], **attributes)
        type = type or x.type
        self.types.add(type)
        exact = (exact or type not in FLOATS) and x.exact and all(o.exact for o in others if isinstance(o, Value))
        return Value(name, type, x.sizes if sizes is None else tuple(sizes),
                     x.symbols if symbols is None else tuple(symbols), exact,
                     exact and (x.signed and all(o.signed for o in others if isinstance(o, Value))
                                if signed is None else signed))

    def constant(self, values, type="i64"):
        name = f"{self.prefix}c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values, TYPES[type][1]), name))
        return name

    # Steps: each takes a value and returns the next.

    def pointwise(self, x):
        if x.type == "bool":
            return self.op("Cast", x, type=self.type, exact=True, to=TYPES[self.type][0])
        if x.type in INTEGERS:
            return self.integers(x)
        kind = self.random.random()
        if self.moving:
            return self.moved(x)
        if kind < 0.4:
            return self.unary(x)
        if kind < 0.5:
            return self.op("Mul", x, self.constant(self.pick([0.5, 2.0, -2.0]), x.type), exact=True)
        if kind < 0.55:
            other = self.pick([t for t in FLOATS if t != "f64" or self.type == "f64"])
            return self.op("Cast", x, type=other, to=TYPES[other][0],
                           exact=ml_dtypes.finfo(TYPES[other][1]).nmant >= ml_dtypes.finfo(TYPES[x.type][1]).nmant
                           and ml_dtypes.finfo(TYPES[other][1]).nexp >= ml_dtypes.finfo(TYPES[x.type][1]).nexp)
        if kind < 0.6 and x.exact:
            return self.steps(x)
        other, kind = self.operand(x), self.pick(BINARY)
        if kind == "PRelu":
            return self.op(kind, x, other)
        if kind == "Div":
            one = self.op("Add", self.op("Abs", other, exact=True), self.constant(1, x.type))
            return self.op(kind, x, one)
        a, b = self.pick([(x, other), (other, x)])
        return self.op(kind, a, b, sizes=x.sizes, symbols=x.symbols, exact=kind in ("Min", "Max"), signed=False)

    def moved(self, x):
        """Operators that do not round."""
        kind = self.pick(["Neg", "Abs", "Relu", "Min", "Max", "Mul", "Clip", "Widen", "Steps"])
        if kind in ("Neg", "Abs", "Relu"):
            return self.op(kind, x, exact=True, signed=None if kind != "Relu" else False)
        if kind in ("Min", "Max"):
            return self.op(kind, x, self.operand(x), sizes=x.sizes, symbols=x.symbols, exact=True, signed=False)
        if kind == "Clip":
            return self.op(kind, x, self.constant(-0.75, x.type), self.constant(1.5, x.type), exact=True, signed=False)
        if kind == "Widen":
            return self.op("Cast", x, type="f32" if x.type != "f64" else "f64", exact=True,
                           to=TYPES["f32" if x.type != "f64" else "f64"][0])
        if kind == "Steps":
            return self.steps(x)
        return self.op("Mul", x, self.constant(self.pick([0.5, 2.0, -2.0]), x.type), exact=True)

    def unary(self, x):
        kind = self.pick([*UNARY, "Sqrt", "Log", "Exp", "Reciprocal", "Clip", "Silu", "IsNaN"])
        one = self.constant(1, x.type) if kind in ("Log", "Reciprocal") else None
        if kind == "Sqrt":
            return self.op(kind, self.op("Add", self.op("Mul", x, x), self.constant(0.5, x.type)))
        if kind in ("Log", "Reciprocal"):
            return self.op(kind, self.op("Add", self.op("Abs", x, exact=True), one))
        if kind == "Exp":
            return self.op(kind, self.op("Neg", self.op("Abs", x, exact=True), exact=True))
        if kind == "Clip":
            return self.op(kind, x, self.constant(-0.75, x.type), self.constant(1.5, x.type), exact=True, signed=False)
        if kind == "Silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if kind == "IsNaN":
            return self.op("Where", self.op(kind, x, type="bool"), self.constant(0.25, x.type), x, type=x.type,
                           exact=True)
        return self.op(kind, x, exact=kind in ("Abs", "Neg", "Relu"), signed=None if kind != "Relu" else False)

    def steps(self, x):
        """Discontinuous operators, on values that are known exactly."""
        kind = self.pick(["Floor", "Ceil", "Round", "Sign", "Cast"])
        if kind == "Cast":
            return self.to_integers(x)
        return self.op(kind, x, exact=True, signed=False)

    def to_integers(self, x):
        type = self.pick(["i32", "i64"])
        clipped = self.op("Clip", x, self.constant(-100, x.type), self.constant(100, x.type), exact=True)
        known = self.op("Where", self.op("IsNaN", x, type="bool"), self.constant(7, x.type), clipped, type=x.type,
                        sizes=x.sizes, symbols=x.symbols, exact=True)
        return self.op("Cast", known, type=type, to=TYPES[type][0])

    def integers(self, x):
        kind = self.pick(["Add", "Sub", "Mul", "Min", "Max", "Neg", "Abs", "BitwiseAnd", "BitwiseXor", "Div", "Mod",
                          "Cast"])
        if kind == "Cast" or x.type == "u8":
            small = self.op("Mod", x, self.constant(100, x.type))
            return self.op("Cast", small, type=self.type, exact=True, to=TYPES[self.type][0])
        if kind in ("Neg", "Abs"):
            return self.op(kind, x)
        if kind in ("Div", "Mod"):
            return self.op(kind, x, self.constant(self.pick([1, 2, 3, 7, 100]), x.type))
        a, b = self.pick([lambda a, b: (a, b), lambda a, b: (b, a)])(x, self.operand(x))
        return self.op(kind, a, b, sizes=x.sizes, symbols=x.symbols)

    def masked(self, x):
        """A choice between x and something else by a mask or a comparison."""
        if x.type == "bool":
            return self.op("Not", x)
        if self.chance(0.4) or not x.exact:
            a = self.input(self.pick(["i32", self.type]), *self.like_input(x))
            mask = self.op(self.pick(COMPARISONS), a, self.constant(0, a.type), type="bool") if self.chance(0.6) \
                else self.broadcast(x, "bool")
        else:
            mask = self.op(self.pick(COMPARISONS), x, self.operand(x), type="bool")
        if self.chance(0.1):
            return mask if mask.sizes == x.sizes else x
        other = self.op("Neg", x, exact=True) if self.chance(0.3) else self.constant(self.pick([0, 1, -3]), x.type)
        if self.chance(0.3) and x.type in FLOATS:
            other = self.broadcast(x)
        first, second = self.pick([(x, other), (other, x)])
        return self.op("Where", mask, first, second, type=x.type, sizes=x.sizes, symbols=x.symbols, exact=True)

    def like_input(self, x):
        """Sizes and symbols of an input that broadcasts to x, as near to x as symbols allow."""
        kept = [s == "" or s in self.dims for s in x.symbols]
        return (tuple(n if k else 1 for n, k in zip(x.sizes, kept)),
                tuple(s if k else "" for s, k in zip(x.symbols, kept)))

    def reduction(self, x):
        rank = len(x.sizes)
        if x.type == "bool" or rank == 0:
            return self.pointwise(x)
        axes = sorted(set(int(a) for a in self.random.integers(0, rank, int(self.random.integers(1, 4)))))
        length = int(np.prod([x.sizes[a] for a in axes], dtype=np.int64))
        kept = dict(sizes=[1 if d in axes else n for d, n in enumerate(x.sizes)],
                    symbols=["" if d in axes else s for d, s in enumerate(x.symbols)])
        if x.exact and length and self.chance(0.15):
            a = axes[0]
            if x.sizes[a]:
                return self.op(self.pick(["ArgMax", "ArgMin"]), x, type="i64", axis=a, keepdims=1,
                               select_last_index=self.pick([0, 0, 1]),
                               sizes=[1 if d == a else n for d, n in enumerate(x.sizes)],
                               symbols=["" if d == a else s for d, s in enumerate(x.symbols)])
        if x.type in INTEGERS:
            if x.type not in ("i32", "i64"):
                return self.op("Cast", x, type="i32", to=TYPES["i32"][0])
            kinds = ["ReduceSum", "ReduceMax", "ReduceMin"] if length else ["ReduceSum"]
            reduced = self.op(self.pick(kinds), x, self.constant(axes), keepdims=1, **kept)
            return self.op("Sub", x, reduced) if self.chance(0.6) else reduced
        norm = self.random.random()
        if self.moving:
            if not length:
                return self.moved(x)
            reduced = self.op(self.pick(["ReduceMax", "ReduceMin"]), x, self.constant(axes), keepdims=1, exact=True,
                              signed=False, **kept)
            return self.op(self.pick(["Max", "Min"]), x, reduced, exact=True, signed=False)
        if length and norm < 0.25:
            axis = int(self.random.integers(rank))
            return self.op(self.pick(["Softmax", "Softmax", "LogSoftmax"]), x, axis=axis)
        last = x.symbols[-1] == "" and x.sizes[-1] > 1
        if length and norm < 0.4 and last:
            kind = self.pick(["LayerNormalization", "RMSNormalization"])
            # Finite ones: an infinite weight of what is nearly zero is a NaN where that is rounded to zero.
            weights = [self.input(x.type, x.sizes[-1:], ("",), plain=True) for _ in range(2 if kind[0] == "L" else 1)]
            return self.op(kind, x, *weights, axis=-1, epsilon=1e-2)
        kinds = ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSum"]
        kind = self.pick(kinds) if length else "ReduceSum"
        reduced = self.op(kind, x, self.constant(axes), keepdims=1, exact=kind in ("ReduceMax", "ReduceMin"),
                          signed=False, **kept)
        if kind == "ReduceSum" and length > 64:
            reduced = self.op("Mul", reduced, self.constant(2.0 ** -int(np.log2(length)), x.type))
        if self.chance(0.25) and length:  # several over the same axes
            second = self.op("ReduceMean", self.op("Mul", x, x), self.constant(axes), keepdims=1, **kept)
            reduced = self.op("Add", reduced, self.op("Tanh", second))
        return self.op(self.pick(["Sub", "Add"]), x, reduced) if self.chance(0.7) else reduced

    def view(self, x):
        rank = len(x.sizes)
        if rank == 0:
            return self.pointwise(x)
        d = int(self.random.integers(rank))
        size, symbol = x.sizes[d], x.symbols[d]
        least = self.dims[symbol][0] if symbol in self.dims else 0 if symbol else size

        def along(n, name=""):
            return dict(sizes=[*x.sizes[:d], n, *x.sizes[d + 1:]], symbols=[*x.symbols[:d], name, *x.symbols[d + 1:]],
                        exact=True)

        other = "?" if symbol else ""
        kind = self.pick(["Transpose", "Transpose", "Reshape", "Slice", "Slice", "Step", "Concat", "Pad", "Split",
                          "Gather", "Expand"])
        if kind == "Transpose":
            perm = [int(p) for p in self.random.permutation(rank)]
            return self.op(kind, x, sizes=[x.sizes[p] for p in perm], symbols=[x.symbols[p] for p in perm], exact=True,
                           perm=perm)
        if kind == "Reshape" and rank > 1 and not any(x.symbols) and x.count:
            d = min(d, rank - 2)
            to = [*x.sizes[:d], x.sizes[d] * x.sizes[d + 1], *x.sizes[d + 2:]]
            if to[d] % 2 == 0 and self.chance(0.4):
                to[d:d + 1] = [2, to[d] // 2]
            return self.op(kind, x, self.constant(to), sizes=to, symbols=[""] * len(to), exact=True)
        if kind == "Slice" and least > 2:
            first = int(self.random.integers(1, min(least, 40)))
            end = int(self.random.integers(0, min(least - first, 9)))
            return self.op(kind, x, self.constant([first]), self.constant([-end if end else 2**62]), self.constant([d]),
                           **along(size - first - end, other))
        if kind == "Step" and size > 2 and not symbol:
            step = self.pick([2, 3, -1, -2])
            first, end = (1, 2**62) if step > 0 else (-1, -2**62)
            n = len(range(size)[1::step] if step > 0 else range(size)[::step])
            return self.op("Slice", x, self.constant([first]), self.constant([end]), self.constant([d]),
                           self.constant([step]), **along(n))
        if kind == "Concat" and 2 * x.count <= MOST:
            second = self.op("Neg", x, exact=True) if x.type != "bool" and x.type != "u8" else x
            return self.op(kind, x, second, axis=d, **along(2 * size, other))
        if kind == "Pad" and x.type in FLOATS and x.count <= MOST // 2:
            before, after = int(self.random.integers(0, 4)), int(self.random.integers(0, 4))
            pads = [0] * (2 * rank)
            pads[d], pads[rank + d] = before, after
            if least > 4 and self.chance(0.3):
                return self.op(kind, x, self.constant(pads), mode=self.pick(["reflect", "edge"]),
                               **along(size + before + after, other))
            return self.op(kind, x, self.constant(pads), self.constant(0.5, x.type), **along(size + before + after, other))
        if kind == "Split" and size > 1 and not symbol:
            first = int(self.random.integers(1, size))
            names = self.node(kind, [x, self.constant([first, size - first])], 2, axis=d)
            parts = [Value(name, x.type, tuple([*x.sizes[:d], n, *x.sizes[d + 1:]]), x.symbols, x.exact, x.signed)
                     for name, n in zip(names, (first, size - first))]
            self.values.append(parts[0])
            return parts[1]
        if kind == "Gather" and least > 0 and x.count:
            n = int(self.random.integers(1, 2 + min(2 * size, 2 * MOST * size // max(1, 2 * x.count) - 1)))
            places = self.random.integers(-least, least, n)
            if not self.chance(0.5):
                name = self.constant(places)
            else:
                made = self.input("i64", (n,), ("",))
                self.feeds[made.name], name = places, made.name
            return self.op(kind, x, name, axis=d, **along(n))
        if kind == "Expand" and size == 1 and not any(x.symbols):
            n = self.pick([s for s in SIZES if s * max(1, x.count) <= MOST] or [1])
            return self.op(kind, x, self.constant([*x.sizes[:d], n, *x.sizes[d + 1:]]), **along(n))
        return self.pointwise(x)


def model_of(regions):
    """One model of all these regions."""
    def joined(of):
        return [item for region in regions for item in of(region)]

    outputs = [helper.make_tensor_value_info(v.name, TYPES[v.type][0], [None if s else n for n, s in
                                                                        zip(v.sizes, v.symbols)])
               for v in joined(lambda r: r.outputs)]
    used = {name for node in joined(lambda r: r.nodes) for name in node.input}
    inputs = [i for i in joined(lambda r: r.inputs) if i.name in used]
    graph = helper.make_graph(joined(lambda r: r.nodes), "regions", inputs, outputs, joined(lambda r: r.initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
