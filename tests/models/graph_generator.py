# SPDX-License-Identifier: Apache-2.0
"""Random graphs of ONNX's operators: every node is evaluated as it is made, by ONNX Runtime or ONNX's reference.

A graph has one seed and one opset. Each value carries what was computed of it and how far rounding may have moved
it (`error`): a node is evaluated on moved operands, too, so that a bound on its result follows from the graph itself.
graph_operators.py has a function for each operator.
"""
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
          "f64": np.dtype(np.float64)}
SIGNED = {f"i{b}": np.dtype(f"int{b}") for b in (8, 16, 32, 64)}
UNSIGNED = {f"u{b}": np.dtype(f"uint{b}") for b in (8, 16, 32, 64)}
INTEGERS = {**SIGNED, **UNSIGNED}
NUMBERS = {**FLOATS, **INTEGERS}
TYPES = {**NUMBERS, "bool": np.dtype(np.bool_)}
NAMES = {dtype: name for name, dtype in TYPES.items()}
# What one operator may be off by, of its result's size.
STEP = {"f64": 1e-5, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
DIMS = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 16]
MOST = 4096


class Skip(Exception):
    """This operator with these operands is not a model that ONNX allows, or that anything evaluates."""


@dataclass
class Value:
    name: str
    array: np.ndarray
    error: np.ndarray | None = None  # none: known exactly
    known: bool = False  # an initializer

    @property
    def type(self):
        return NAMES[self.array.dtype]

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim

    @property
    def exact(self):
        return self.error is None


def proto_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def single_node(node, operands, opset, count):
    """The model of one node. Its operands are inputs; constants small enough to be sizes or axes are initializers, so that inference knows them."""
    known = {n for n, a in operands.items() if "_c" in n and a.size <= 16}
    inputs = [helper.make_tensor_value_info(n, proto_type(a), a.shape) for n, a in operands.items() if n not in known]
    initializers = [numpy_helper.from_array(operands[n], n) for n in sorted(known)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output[:count] if name]
    return helper.make_model(helper.make_graph([node], "one", inputs, outputs, initializers), ir_version=10,
                             opset_imports=[helper.make_opsetid("", opset)])


def inferred(model, count):
    """Type and shape (none if unknown) of each result, by ONNX's own inference."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    types = []
    for value in graph.output[:count]:
        t = value.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim]
        types.append((t.elem_type, dims if t.HasField("shape") else None))
    return types


def fits(result, type_and_shape):
    elem, dims = type_and_shape
    if elem and helper.np_dtype_to_tensor_dtype(result.dtype) != elem:
        return False
    return dims is None or (len(dims) == result.ndim and all(d in (None, n) for d, n in zip(dims, result.shape)))


def widened(node, operands):
    """The node on float32 instead of bfloat16, which NumPy's and ONNX Runtime's kernels lack, or sum in."""
    other = onnx.NodeProto()
    other.CopyFrom(node)
    for a in other.attribute:
        if a.name in ("to", "dtype") and a.i == TensorProto.BFLOAT16:
            a.i = TensorProto.FLOAT
    return other, {k: v.astype(np.float32) if v.dtype == ml_dtypes.bfloat16 else v for k, v in operands.items()}


def by_onnx_runtime(model, operands):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given(model, operands))


def given(model, operands):
    return {i.name: operands[i.name] for i in model.graph.input}


def evaluate(node, operands, opset, count):
    """The results, and who gave them. What contradicts ONNX's type inference is nobody's answer."""
    types = inferred(single_node(node, operands, opset, count), count)
    wide, arrays = widened(node, operands)
    model, problems = single_node(wide, arrays, opset, count), []
    for name, how in (("ONNX Runtime", by_onnx_runtime),
                      ("onnx.reference", lambda m, o: ReferenceEvaluator(m).run(None, given(m, o)))):
        try:
            with np.errstate(all="ignore"):
                results = [np.asarray(r) for r in how(model, arrays)]
                results = [r.astype(ml_dtypes.bfloat16) if r.dtype == np.float32 and t[0] == TensorProto.BFLOAT16 else r
                           for r, t in zip(results, types)]
            if all(fits(r, t) for r, t in zip(results, types)):
                return results, name
            problems.append(f"{name} contradicts type inference")
        except Exception as e:  # of either library, from C++ or from NumPy
            problems.append(f"{type(e).__name__}: {str(e)[:200]}")
    raise Skip(" | ".join(problems))


class Graph:
    def __init__(self, seed, opset, makers, nodes=None):
        self.seed, self.opset, self.prefix = seed, opset, f"s{seed}_"
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.initializers, self.values, self.outputs = [], [], [], [], []
        self.by, self.skips = set(), []
        self.type = self.pick(["f32"] * 6 + ["f16"] * 3 + ["bf16"] + ["f64"] * 2 + list(INTEGERS) + ["bool"])
        self.empty = self.chance(0.06)
        self.symbolic = self.chance(0.12)
        wanted = nodes or int(self.random.integers(1, 7))
        for _ in range(wanted * 4):
            if len(self.nodes) >= wanted:
                break
            self.step(self.pick([m for m in makers if m.since <= opset <= m.until]))
        made = [v for v in self.values if v not in self.inputs]
        self.outputs = made[-1:] + [v for v in made[:-1] if self.chance(0.4)]

    def step(self, maker):
        before = len(self.nodes), len(self.inputs), len(self.initializers), len(self.values)
        try:
            maker.make(self)
        except Skip as e:
            self.skips.append((maker.name, str(e)))
            for items, count in zip((self.nodes, self.inputs, self.initializers, self.values), before):
                del items[count:]

    def pick(self, options):
        options = list(options)
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability):
        return bool(self.random.random() < probability)

    def integer(self, low, high):
        """low .. high, both of them."""
        return int(self.random.integers(low, high + 1))

    # Values.

    def shape(self, low=0, high=8):
        rank = max(low, min(high, self.pick([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8])))
        sizes, room = [], MOST
        for _ in range(rank):
            sizes.append(self.pick([d for d in DIMS if d <= room]))
            room //= sizes[-1]
        self.random.shuffle(sizes)
        if self.empty and sizes and self.chance(0.5):
            sizes[self.integer(0, rank - 1)] = 0
        return tuple(int(s) for s in sizes)

    def numbers(self, type, shape, low=None, high=None):
        dtype = TYPES[type]
        if type == "bool":
            return self.random.random(shape) < 0.5
        if type in INTEGERS:
            info = np.iinfo(dtype)
            low = max(-20 if low is None else low, info.min)
            return np.asarray(self.random.integers(low, 20 if high is None else high, shape, np.int64,
                                                   endpoint=True)).astype(dtype)
        if low is not None:
            return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)
        return np.asarray(self.random.standard_normal(shape)).astype(dtype)

    def new(self, type, shape, array=None, low=None, high=None):
        """An input of the model."""
        array = self.numbers(type, shape, low, high) if array is None else np.asarray(array, TYPES[type])
        value = Value(f"{self.prefix}x{len(self.inputs)}", array)
        self.inputs.append(value)
        return value

    def constant(self, array, type="i64"):
        value = Value(f"{self.prefix}c{len(self.initializers)}", np.asarray(array, TYPES[type]), known=True)
        self.initializers.append(value)
        return value

    def either(self, type, shape, **range_):
        """A constant or an input."""
        array = self.numbers(type, shape, **range_)
        return self.constant(array, type) if self.chance(0.4) else self.new(type, shape, array)

    def any(self, types=TYPES, low=0, high=8, exact=False, where=None):
        """A value that was made before, or a new input, of one of the types and a rank in low .. high."""
        fits = [v for v in self.values if v.type in types and low <= v.rank <= high and (v.exact or not exact)
                and (where is None or where(v))]
        if fits and self.chance(0.75):
            return self.pick(fits[-3:])
        type = self.type if self.type in types and self.chance(0.7) else self.pick(types)
        made = self.new(type, self.shape(low, high))
        if where is not None and not where(made):
            raise Skip("no such value")
        return made

    def like(self, x, shape=None):
        """A second operand: of the same type, of this shape or one that broadcasts with x."""
        if shape is None:
            shape = self.broadcastable(x.shape)
        same = [v for v in self.values if v.type == x.type and v.shape == tuple(shape)]
        return self.pick(same) if same and self.chance(0.4) else self.either(x.type, shape)

    def broadcastable(self, shape):
        sizes = [n if self.chance(0.7) else 1 for n in shape]
        kept = sizes[self.integer(0, len(sizes)):] if sizes and self.chance(0.3) else sizes
        if len(kept) == len(shape) < 8 and self.chance(0.1):
            kept = [self.pick([1, 2, 3])] + list(kept)
        return tuple(kept)

    def axis(self, x, extra=0):
        """One of x's axes, counted from either end."""
        rank = x.rank + extra
        if rank == 0:
            raise Skip("no axis")
        return self.integer(-rank, rank - 1)

    def axes(self, x, least=0):
        chosen = [a for a in range(x.rank) if self.chance(0.4)]
        if len(chosen) < least:
            chosen = [self.axis(x) % x.rank]
        self.random.shuffle(chosen)
        return [int(a - x.rank) if self.opset >= 13 and self.chance(0.3) else int(a) for a in chosen]

    # Nodes.

    def node(self, kind, operands, outputs=1, exact=False, domain="", captures=(), **attributes):
        """Appends it and returns its values. `exact`: nothing is rounded, so exact operands give exact results."""
        if not onnx.defs.has(kind, self.opset, domain):
            raise Skip("not in this opset")
        attributes = {k: v for k, v in attributes.items() if v is not None}
        names = [f"{self.prefix}n{len(self.nodes)}_{i}" for i in range(outputs)]
        while operands and operands[-1] is None:
            operands = operands[:-1]
        node = helper.make_node(kind, [o.name if o is not None else "" for o in operands], names,
                                name=f"{self.prefix}{kind}_{len(self.nodes)}", domain=domain, **attributes)
        operands = [*operands, *captures]
        arrays = {o.name: o.array for o in operands if o is not None}
        try:
            results, by = evaluate(node, arrays, self.opset, outputs)
        except onnx.shape_inference.InferenceError as e:
            raise Skip(str(e)[:200]) from None
        if any(r.size > 8 * MOST for r in results):
            raise Skip("large")
        if any(r.dtype in (np.int32, np.int64) and r.size and np.abs(r.astype(np.float64)).max() > 1e9 for r in results):
            raise Skip("integers that may have wrapped, which ONNX does not define")
        if any(r.dtype not in NAMES for r in results):
            raise Skip("a type that the frontend does not have")
        rounding = [o for o in operands if o is not None and not o.exact]
        errors = self.errors(node, operands, results, exact, rounding)
        made = [Value(name, array, error) for name, array, error in zip(names, results, errors)]
        self.nodes.append(node)
        self.by.add(by)
        self.values += made
        return made

    def captured(self, kind, operands, outer, outputs=1, **graphs):
        """A node whose bodies read `outer` from outside."""
        return self.node(kind, operands, outputs, captures=[outer], **graphs)

    def errors(self, node, operands, results, exact, rounding):
        """Bounds on what rounding does to the results: of the operands as they are off, and of this operator."""
        moved = [np.zeros(r.shape) for r in results]
        signs = {o.name: np.where(self.random.random(o.shape) < 0.5, 1, -1) for o in rounding}
        for sign in (1, -1) if rounding else ():  # every element up and down
            arrays = {}
            for o in operands:
                if o is not None:
                    shift = 0 if o.exact else o.error * signs[o.name] * sign
                    with np.errstate(all="ignore"):
                        arrays[o.name] = o.array if o.exact else (o.array.astype(np.float64) + shift).astype(o.array.dtype)
            for i, other in enumerate(evaluate(node, arrays, self.opset, len(results))[0]):
                if other.shape != results[i].shape:
                    raise Skip("a shape that rounding changes")
                with np.errstate(all="ignore"):
                    far = np.abs(other.astype(np.float64) - results[i].astype(np.float64))
                same = (other == results[i]) | (np.isnan(other.astype(np.float64)) & np.isnan(
                    results[i].astype(np.float64)))
                moved[i] = np.maximum(moved[i], np.where(same, 0, np.where(np.isnan(far), np.inf, far)))
        types = [o.type for o in operands if o is not None and o.type in FLOATS]
        bounds = []
        for r, far in zip(results, moved):
            if NAMES[r.dtype] not in FLOATS or exact:
                if NAMES[r.dtype] not in FLOATS and far.any():
                    raise Skip("steps of rounded values")
                bounds.append(3 * far if rounding and NAMES[r.dtype] in FLOATS else None)
                continue
            step = max(STEP[t] for t in [*types, NAMES[r.dtype]])
            with np.errstate(all="ignore"):
                size = np.abs(r.astype(np.float64))
                finite = size[np.isfinite(size)]
                usual = np.quantile(finite, 0.9) if finite.size else 0
                # What overflowed here need not where a kernel keeps more than the type can hold.
                bounds.append(3 * far + np.where(np.isinf(size), np.inf, step * (size + max(usual, 0.1))))
        return bounds

    def input_info(self, value):
        """Some sizes have names, where the graph is one of symbols."""
        shape = [f"{value.name}_{i}" if self.symbolic and n > 1 and i % 2 == value.rank % 2 else n
                 for i, n in enumerate(value.shape)]
        return helper.make_tensor_value_info(value.name, proto_type(value.array), shape)


def names_read(nodes):
    """Of values, by nodes and the bodies in them."""
    names = {name for n in nodes for name in n.input}
    bodies = [a.g for n in nodes for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return names.union(*(names_read(b.node) for b in bodies))


def model_of(graphs):
    """One model of graphs of one opset."""
    nodes, inputs, initializers, outputs = [], [], [], []
    for g in graphs:
        used = names_read(g.nodes)
        nodes += g.nodes
        inputs += [g.input_info(v) for v in g.inputs if v.name in used]
        initializers += [numpy_helper.from_array(v.array, v.name) for v in g.initializers if v.name in used]
        outputs += [helper.make_tensor_value_info(v.name, proto_type(v.array), None) for v in g.outputs]
    graph = helper.make_graph(nodes, "random", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", graphs[0].opset)])


def feeds_of(graphs):
    return {v.name: v.array for g in graphs for v in g.inputs if v.name in names_read(g.nodes)}
