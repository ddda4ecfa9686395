# SPDX-License-Identifier: Apache-2.0
"""Random views in front of matrix products and attention, as ONNX: the operators, shapes and values of one seed.

Of a product, one operand follows from an input by views that are drawn forwards, the other by views drawn backwards from
what fits; of attention, queries, keys and values are drawn backwards. Inputs are small integers, so that products are
exact.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
         "i8": (TensorProto.INT8, np.int8), "i64": (TensorProto.INT64, np.int64)}
SIZES = [1, 1, 2, 2, 3, 4, 5, 6, 8, 9, 16]
MOST = 1 << 14  # elements at the greatest sizes
LEAST, GREATEST = 1, 9  # of symbols
END = 2**62


class Dim:
    """A size, which may depend on one symbol. `symbol` with no `steps` is the symbol itself, with `steps` (start, step)
    what a slice leaves of it; `other`: of more than that, of which only `at` is known."""

    def __init__(self, at, symbol=None, steps=None, other=False):
        self.at, self.symbol, self.steps, self.other = at, symbol, steps, other

    @staticmethod
    def of(size):
        return Dim(lambda sizes: size)

    @property
    def constant(self):
        return None if self.symbol or self.other else self.at({})

    @property
    def most(self):
        return max(self.at(dict.fromkeys([self.symbol], n)) for n in (LEAST, GREATEST)) if not self.other else GREATEST**2


def sliced(size, start, step):
    return len(range(size)[start::step]) if step > 0 else len(range(size)[::step])


class Views:
    """The nodes, inputs and output of one seed; every name begins with `prefix`. `exact`: the result has no rounding."""

    exact = True

    def __init__(self, seed, types):
        self.seed, self.prefix = seed, f"s{seed}_"
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.initializers, self.places, self.made = [], [], [], {}, 0
        self.type = self.pick(types)
        self.symbols = [f"{self.prefix}n{i}" for i in range(self.pick([0, 1, 1, 2]))]

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability):
        return bool(self.random.random() < probability)

    # Nodes and values.

    def node(self, kind, *inputs, **attributes):
        name = f"{self.prefix}v{self.made}"
        self.made += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{self.prefix}{kind}_{self.made}",
                                           **attributes))
        return name

    def constant(self, values, type="i64"):
        name = f"{self.prefix}c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values, TYPES[type][1]), name))
        return name

    def input(self, type, dims):
        name = f"{self.prefix}x{len(self.inputs)}"
        self.inputs.append((name, type, dims))
        for axis, dim in enumerate(dims):
            if dim.symbol:
                self.places.setdefault(dim.symbol, (name, axis))
        return name

    def symbol(self, name):
        return Dim(lambda sizes: sizes[name], name)

    def shape(self, dims):
        """A vector of these sizes, one of which may be -1; nothing if more are not known."""
        rest = [d for d in dims if d.constant is None and (d.other or d.steps or d.symbol not in self.places)]
        if len(rest) > 1:
            return None
        if all(d.constant is not None for d in dims):
            return self.constant([d.constant for d in dims])
        parts = []
        for d in dims:
            if d.constant is not None or d in rest:
                parts.append(self.constant([-1 if d in rest else d.constant]))
            else:
                name, axis = self.places[d.symbol]
                parts.append(self.node("Shape", name, start=axis, end=axis + 1))
        return self.node("Concat", *parts, axis=0)

    def room(self, dims, more=1):
        return more * np.prod([max(1, d.most) for d in dims], dtype=np.int64) <= MOST

    # Views: of a value with its sizes, forwards.

    def forwards(self):
        """A value of rank 2 and more, and its sizes."""
        rank = self.pick([2, 2, 3, 3, 3, 4])
        dims = [Dim.of(self.pick(SIZES)) for _ in range(rank)]
        for name in self.symbols:
            dims[int(self.random.integers(rank))] = self.symbol(name)
        if self.chance(0.25) and rank > 2:  # a diagonal to take
            d = int(self.random.integers(rank - 1))
            dims[d + 1] = dims[d]
        while not self.room(dims):
            dims[max(range(rank), key=lambda d: dims[d].most)] = Dim.of(2)
        value = self.input(self.type, dims)
        for _ in range(self.pick([1, 1, 2, 2, 3, 4])):
            step = self.pick([self.transpose, self.transpose, self.slice, self.slice, self.row, self.expand, self.expand,
                              self.merge, self.split, self.insert, self.remove, self.diagonal, self.factor])
            value, dims = step(value, dims)
        while len(dims) < 2 or all(d.other for d in dims):
            value, dims = self.insert(value, dims)
        return value, dims

    def transpose(self, value, dims):
        perm = [int(p) for p in self.random.permutation(len(dims))]
        return self.node("Transpose", value, perm=perm), [dims[p] for p in perm]

    def slice_along(self, value, d, start, step):
        first, last = (start, END) if step > 0 else (-1, -END)
        return self.node("Slice", value, self.constant([first]), self.constant([last]), self.constant([d]),
                         self.constant([step]))

    def slice(self, value, dims):
        d = int(self.random.integers(len(dims)))
        start, step, dim = self.pick([0, 0, 1, 2]), self.pick([1, 2, 2, 3, -1, -2]), dims[d]
        if dim.other or dim.steps or (dim.constant is not None and sliced(dim.constant, start, step) == 0):
            return value, dims
        left = Dim(lambda sizes: sliced(dim.at(sizes), start, step), dim.symbol, (start, step) if dim.symbol else None)
        return self.slice_along(value, d, start, step), [*dims[:d], left, *dims[d + 1:]]

    def row(self, value, dims):
        """The first or the last of a dimension, which stays with one element or goes."""
        d, at = int(self.random.integers(len(dims))), self.pick([0, -1])
        if dims[d].other or dims[d].steps:  # may be empty
            return value, dims
        if len(dims) > 2 and self.chance(0.5):
            return self.node("Gather", value, self.constant(at), axis=d), [*dims[:d], *dims[d + 1:]]
        return self.node("Gather", value, self.constant([at]), axis=d), [*dims[:d], Dim.of(1), *dims[d + 1:]]

    def expand(self, value, dims):
        ones = [d for d in range(len(dims)) if dims[d].constant == 1]
        leads = len(dims) < 5 and self.chance(0.3)
        if not ones and not leads:
            return value, dims
        n = self.symbol(self.pick(self.symbols)) if self.symbols and self.chance(0.3) else Dim.of(self.pick([2, 3, 4, 7]))
        d = self.pick(ones) if not leads else 0
        result = [n, *dims] if leads else [*dims[:d], n, *dims[d + 1:]]
        if not self.room(result) or (n.symbol and n.symbol not in self.places):
            return value, dims
        if not leads and n.constant and self.chance(0.4):
            repeats = [n.constant if i == d else 1 for i in range(len(dims))]
            return self.node("Tile", value, self.constant(repeats)), result
        wanted = [Dim.of(1) if i != d and not leads else r for i, r in enumerate(result)]  # one broadcasts either way
        shape = self.shape([wanted[0], *[Dim.of(1)] * len(dims)] if leads else wanted)
        return self.node("Expand", value, shape), result

    def reshape(self, value, before, after):
        shape = self.shape(after)
        empty = any(d.most == 0 or d.at(dict.fromkeys([d.symbol], LEAST)) == 0 for d in before if not d.other)
        if shape is None or empty or len(after) > 5:
            return value, before
        return self.node("Reshape", value, shape), after

    def merge(self, value, dims):
        if len(dims) < 3:
            return value, dims
        d = int(self.random.integers(len(dims) - 1))
        a, b = dims[d], dims[d + 1]
        whole = a.constant is not None and b.constant is not None
        joined = Dim.of(a.constant * b.constant) if whole else Dim(lambda sizes: a.at(sizes) * b.at(sizes), other=True)
        return self.reshape(value, dims, [*dims[:d], joined, *dims[d + 2:]])

    def split(self, value, dims):
        even = [d for d in range(len(dims)) if dims[d].constant in (4, 6, 8, 9, 16)]
        if not even:
            return value, dims
        d = self.pick(even)
        by = 3 if dims[d].constant % 3 == 0 else 2
        return self.reshape(value, dims, [*dims[:d], *map(Dim.of, self.pick([(by, dims[d].constant // by),
                                                                            (dims[d].constant // by, by)])), *dims[d + 1:]])

    def insert(self, value, dims):
        if len(dims) > 5:
            return value, dims
        d = int(self.random.integers(len(dims) + 1))
        return self.node("Unsqueeze", value, self.constant([d])), [*dims[:d], Dim.of(1), *dims[d:]]

    def remove(self, value, dims):
        ones = [d for d in range(len(dims)) if dims[d].constant == 1]
        if not ones or len(dims) < 3:
            return value, dims
        d = self.pick(ones)
        return self.node("Squeeze", value, self.constant([d])), [*dims[:d], *dims[d + 1:]]

    def diagonal(self, value, dims):
        pairs = [(i, j) for i in range(len(dims)) for j in range(i + 1, len(dims))
                 if dims[i].constant is not None and dims[i].constant == dims[j].constant]
        if not pairs or len(dims) < 3 or self.type != "f32":
            return value, dims
        i, j = self.pick(pairs)
        letters = ["abcdef"[d if d != j else i] for d in range(len(dims))]
        kept = [d for d in range(len(dims)) if d != j]
        return self.node("Einsum", value, equation=f"{''.join(letters)}->{''.join(letters[d] for d in kept)}"), \
            [dims[d] for d in kept]

    def factor(self, value, dims):
        if self.type not in ("f32", "f16"):
            return value, dims
        return self.node("Mul", value, self.constant(self.pick([0.5, 2.0]), self.type)), dims

    # Views backwards.

    def backwards(self, whole, plain, type):
        """A value of sizes `whole`, by views of an input."""
        dims = whole
        steps = []
        for d, dim in enumerate(dims):
            if dim.steps:
                steps.append(("slice", d, *dim.steps))
                dims = [*dims[:d], self.symbol(dim.symbol), *dims[d + 1:]]
        for _ in range(0 if plain else self.pick([1, 1, 2, 2, 3])):
            kind = self.pick(["transpose", "transpose", "slice", "slice", "expand", "insert", "merge", "split"])
            d = int(self.random.integers(len(dims)))
            n = dims[d].constant
            if kind == "transpose":
                perm = [int(p) for p in self.random.permutation(len(dims))]
                steps.append((kind, perm))
                dims = [dims[perm.index(source)] for source in range(len(dims))]
            elif kind == "slice" and n:
                start, step = self.pick([0, 0, 1]), self.pick([1, 2, 3, -1, -2])
                start = start if step > 0 else 0
                size = start + (n - 1) * abs(step) + 1 + self.pick([0, abs(step) - 1])
                steps.append((kind, d, start, step))
                dims = [*dims[:d], Dim.of(size), *dims[d + 1:]]
            elif kind == "expand" and (n or dims[d].symbol in self.places):
                steps.append((kind, d, dims))
                dims = [*dims[:d], Dim.of(1), *dims[d + 1:]]
            elif kind == "insert" and n == 1 and len(dims) > 2:
                steps.append((kind, d))
                dims = [*dims[:d], *dims[d + 1:]]
            elif kind == "merge" and n in (4, 6, 8, 9, 16) and len(dims) < 5:
                by = 3 if n % 3 == 0 else 2
                steps.append(("reshape", dims))
                dims = [*dims[:d], Dim.of(by), Dim.of(n // by), *dims[d + 1:]]
            elif kind == "split" and n and d + 1 < len(dims) and dims[d + 1].constant and len(dims) > 2:
                steps.append(("reshape", dims))
                dims = [*dims[:d], Dim.of(n * dims[d + 1].constant), *dims[d + 2:]]
        if not plain and not self.room(dims):
            return self.backwards(whole, True, type)
        constant = all(d.constant is not None for d in dims) and self.chance(0.3)
        value = self.constant(self.numbers(type, [d.constant for d in dims]), type) if constant else self.input(type, dims)
        for kind, *arguments in reversed(steps):
            if kind == "transpose":
                value = self.node("Transpose", value, perm=arguments[0])
            elif kind == "slice":
                value = self.slice_along(value, *arguments)
            elif kind == "insert":
                value = self.node("Unsqueeze", value, self.constant(arguments[:1]))
            elif kind == "reshape":  # sizes that a slice has left are not known
                value = self.node("Reshape", value, self.shape(*arguments))
            else:
                d, to = arguments
                value = self.node("Expand", value, self.shape([t if i == d else Dim.of(1) for i, t in enumerate(to)]))
        return value

    # Runs.

    def numbers(self, type, shape):
        return self.random.integers(-3, 4, shape).astype(TYPES[type][1])

    def feeds(self, sizes):
        return {name: self.numbers(type, [d.at(sizes) for d in dims]) for name, type, dims in self.inputs}


class Product(Views):
    """A matrix product, and at times what follows it."""

    def __init__(self, seed):
        super().__init__(seed, ["f32"] * 5 + ["f16"] * 2 + ["i8"] * 2)
        self.drawn_left = self.chance(0.6)  # the operand whose views are drawn forwards
        value, dims = self.forwards()
        k = len(dims) - (1 if self.drawn_left else 2)
        if dims[k].other:  # no other operand can be made for it
            known = self.pick([d for d in range(len(dims)) if not dims[d].other])
            perm = list(range(len(dims)))
            perm[k], perm[known] = known, k
            value, dims = self.node("Transpose", value, perm=perm), [dims[p] for p in perm]
        fitting = self.fitting(dims)
        other = self.backwards(fitting, self.chance(0.3), self.type)
        left, right = (value, other) if self.drawn_left else (other, value)
        a, b = (dims, fitting) if self.drawn_left else (fitting, dims)
        self.output, self.output_type = self.product(left, right, a, b)

    def fitting(self, dims):
        """Sizes of a matrix that the product takes beside one of `dims`."""
        k = dims[-1] if self.drawn_left else dims[-2]
        free = self.symbol(self.pick(self.symbols)) if self.symbols and self.chance(0.2) else Dim.of(self.pick([*SIZES, 17, 40]))
        batch = []
        for d in reversed(dims[:-2]):
            if self.chance(0.3):
                break
            batch.insert(0, Dim.of(1) if d.other or self.chance(0.3) else d)
        if len(batch) == len(dims) - 2 and len(dims) < 4 and self.chance(0.2):
            batch.insert(0, Dim.of(self.pick([2, 3])))
        return [*batch, *([k, free] if self.drawn_left else [free, k])]

    def product(self, left, right, a, b):
        if self.type == "i8":
            return self.node("MatMulInteger", left, right), TensorProto.INT32
        value = self.node("MatMul", left, right)
        if self.chance(0.3):
            value = self.node("Mul", value, self.constant(0.5, self.type))
        if self.chance(0.3) and b[-1].constant:
            value = self.node("Add", value, self.constant(self.numbers(self.type, [b[-1].constant]), self.type))
        if self.chance(0.3):
            value = self.node("Relu", value)
        if self.chance(0.2):
            rank = max(len(a), len(b))
            value = self.node("Transpose", value, perm=[int(p) for p in self.random.permutation(rank)])
        return value, TYPES[self.type][0]


class Attention(Views):
    """A softmax of a product times another matrix, as exporters write attention."""

    exact = False

    def __init__(self, seed):
        super().__init__(seed, ["f32", "f32", "f16"])
        batch = [self.size([1, 2, 3]) for _ in range(self.pick([0, 1, 2, 2]))]
        rows, keys = self.size([1, 3, 8, 40]), self.size([1, 5, 16, 33])
        head, value_head = (Dim.of(self.pick([8, 8, 16])) for _ in range(2))
        shared = [d if self.chance(0.8) else Dim.of(1) for d in batch]
        q = self.backwards([*batch, rows, head], self.chance(0.2), self.type)
        k = self.backwards([*shared, head, keys], self.chance(0.2), self.type)
        v = self.backwards([*shared, keys, value_head], self.chance(0.2), self.type)
        scores = self.node("MatMul", self.node("Mul", q, self.constant(0.125, self.type)), k)
        if self.chance(0.3):
            mask = [d if self.chance(0.7) else Dim.of(1) for d in (*batch, rows, keys)]
            scores = self.node("Add", scores, self.backwards(mask, self.chance(0.3), self.type))
        value = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        if self.chance(0.4):
            value = self.node("Transpose", value, perm=[int(p) for p in self.random.permutation(len(batch) + 2)])
        self.output, self.output_type = value, TYPES[self.type][0]

    def size(self, sizes):
        """A constant, a symbol, or what a slice leaves of one, which is never nothing."""
        if not self.symbols or self.chance(0.6):
            return Dim.of(self.pick(sizes))
        dim, step = self.symbol(self.pick(self.symbols)), self.pick([1, 1, 2, 3, -1, -2])
        return dim if step == 1 else Dim(lambda all: sliced(dim.at(all), 0, step), dim.symbol, (0, step))


def drawn(seed):
    return Attention(seed) if seed % 4 == 0 else Product(seed)


def model_of(all_views):
    """One model of all these."""
    def joined(of):
        return [item for views in all_views for item in of(views)]

    inputs = [helper.make_tensor_value_info(name, TYPES[type][0], [d.symbol or d.constant for d in dims])
              for name, type, dims in joined(lambda p: p.inputs)]
    outputs = [helper.make_tensor_value_info(p.output, p.output_type, None) for p in all_views]
    graph = helper.make_graph(joined(lambda p: p.nodes), "views", inputs, outputs, joined(lambda p: p.initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
