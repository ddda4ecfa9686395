# SPDX-License-Identifier: Apache-2.0
"""Single operators as they are timed: a case is a node, its inputs, and what PyTorch calls instead.

Each module beside this one has functions that yield cases, marked with their class by @of_class. A case comes in three
sizes: "small" (some kB), "middle" (some MB), "large" (64 to 256 MB, or as long a computation), and in each of its types.
Further shapes that models have carry a name of their own as their size. The type "tf32" is float32 with products in TF32, which
GPUs alone have. T stands for the case's type in inputs.
"""
import dataclasses
import functools
import importlib
import math
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Callable

import ml_dtypes
import numpy as np

try:
    import torch
except ImportError:  # the CPU part needs none
    class Absent:
        def __getattr__(self, name):
            return self

        def __call__(self, *_, **__):
            raise ImportError("this needs torch")

    torch = Absent()
F = torch.nn.functional

NUMPY = {"f32": np.float32, "tf32": np.float32, "f16": np.float16, "f64": np.float64, "bool": np.bool_, "i8": np.int8, "i16": np.int16,
         "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
         "f8": ml_dtypes.float8_e4m3fn, "bf16": ml_dtypes.bfloat16}
FLOATS = ("f32", "f16")
PRODUCTS = ("f32", "tf32", "f16")
MS = "com.microsoft"
ML = "ai.onnx.ml"
PERIOD = 4_194_301  # of random numbers, a prime; drawing all of a large input would take longer than timing it

# Operators that compute nothing when a plan runs, or only what others of their graph do.
NOT_TIMED = {
    **dict.fromkeys(("Constant", "ConstantOfShape", "EyeLike", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix",
                     "RelativePositionBias", "Range"), "constants of a model, computed when it is compiled"),
    **dict.fromkeys(("Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Shape", "Size", "BitCast"),
                    "views and sizes, which move nothing"),
    **dict.fromkeys(("If", "Loop", "Scan"), "what they run are other operators"),
    **dict.fromkeys(("ZipMap", "ExpandDims", "DynamicSlice", "SampleOp"), "a view, or a slice as Slice's"),
    **dict.fromkeys(("CategoryMapper", "MurmurHash3"), "of strings: hosts do it at the border"),
    **dict.fromkeys(("MatMulNBitsMlp", "MatMulNBitsQkv", "MatMulBlockQuantizedFp8Weight"), "products of MatMulNBits' kind, joined"),
}


@functools.cache
def pool(kind):
    random = np.random.default_rng(0)
    return random.standard_normal(PERIOD, np.float32) if kind == "normal" else random.random(PERIOD, np.float32)


def _filled(kind, shape, seed, change):
    """Random numbers behind `change`, which repeat where the shape has more than PERIOD."""
    start = seed * 7919 % 100_003
    return np.resize(change(pool(kind)[start:start + math.prod(shape)]), shape)


def normal(shape, dtype, seed):
    """Of a normal distribution; integers between -99 and 99, from 0 on where they have no sign."""
    if dtype == np.bool_:
        return _filled("normal", shape, seed, lambda v: v > 0)
    if np.issubdtype(dtype, np.integer):
        low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -99
        return between(low, 100)(shape, dtype, seed)
    return _filled("normal", shape, seed, lambda v: v.astype(dtype))


def between(low, high):
    return lambda shape, dtype, seed: _filled("uniform", shape, seed, lambda v: (v * (high - low) + low).astype(dtype))


def below(count):
    """Integers from 0 to count - 1, many of them more than once."""
    def made(shape, dtype, seed):
        return _filled("uniform", shape, seed, lambda v: np.minimum((v.astype(np.float64) * count).astype(dtype), count - 1))
    return made


def distinct(count):
    """Integers below `count` of which none comes twice along the first axis; the last has one element."""
    def made(shape, dtype, seed):
        return np.random.default_rng(seed).permutation(count)[:shape[0]].astype(dtype).reshape(shape)
    return made


def shuffled(shape, dtype, seed):
    """Values without duplicates; a type with fewer values than elements repeats them."""
    count = math.prod(shape)
    if np.issubdtype(dtype, np.integer):
        return np.random.default_rng(seed).permutation(count).astype(dtype).reshape(shape)
    return (np.random.default_rng(seed).permutation(count).astype(np.float64) / count - 0.5).astype(dtype).reshape(shape)


def true_in(share):
    return lambda shape, dtype, seed: _filled("uniform", shape, seed, lambda v: v < share)


@dataclass(frozen=True)
class Value:
    """An input: constants are part of the model, others are given to each run."""
    shape: tuple
    type: str = "T"
    kind: Any = normal  # a function of (shape, dtype, seed), or the values
    constant: bool = False

    def made(self, type, seed):
        if isinstance(self.kind, np.ndarray):
            return self.kind
        made = np.asarray(self.kind(self.shape, self.dtype(type), seed))
        return np.ascontiguousarray(made) if made.ndim else made

    def dtype(self, type):
        return NUMPY[type if self.type == "T" else self.type]


def x(*shape, kind=normal, type="T"):
    return Value(shape, type, kind)


def index(count, *shape, kind=below, type="i64"):
    """Places along an axis of `count` elements."""
    return Value(shape, type, kind(count))


def weight(*shape, scale=None, type="T"):
    """A constant of the model whose products keep the size of what is multiplied."""
    scale = scale or max(1, math.prod(shape[1:])) ** -0.5
    return Value(shape, type, lambda s, d, seed: (normal(s, np.float32, seed) * scale).astype(d), True)


def around(centre, *shape, spread=0.1, type="T"):
    """A constant near `centre`: scales and variances of norms."""
    return Value(shape, type, between(centre - spread, centre + spread), True)


def const(values, type="i64"):
    if type == "T":
        return Value(np.shape(values), type, lambda shape, dtype, seed: np.asarray(values, dtype), True)
    values = np.asarray(values, NUMPY[type])
    return Value(values.shape, type, values, True)


@dataclass(frozen=True)
class Case:
    operator: str
    size: str
    inputs: list  # Value, or None where one is left out
    torch: Callable | None = None  # of tensors for all inputs, constants too
    variant: str = ""
    types: tuple = FLOATS
    domain: str = ""
    version: int = 1  # of that
    opset: int = 20
    attributes: dict = field(default_factory=dict)
    outputs: int = 1
    flops: float = 0
    moved: Callable | None = None  # of (arrays, output arrays): bytes, where not all of both
    compared: int | None = None    # how many outputs PyTorch must have as well; None: all
    tolerance: float = 0           # of the relative error, beyond the type's own
    last: bool = False             # the first input and the output lie channels last
    no_peer: str = ""              # why there is no function of PyTorch's
    captured: bool = True          # False: PyTorch's function waits for the GPU inside, or calls a library that cannot be in a CUDA graph
    options: tuple = ()            # of `sinter compile`
    nodes: tuple = ()              # several instead of one: (operator, inputs, outputs, attributes), with inputs i0.. and outputs o0..
    group: str = ""


@dataclass(frozen=True)
class Point:
    """A case in one type."""
    case: Case
    type: str

    @property
    def name(self):
        domain = {"": "", MS: "ms.", ML: "ml."}.get(self.case.domain, f"{self.case.domain}.")
        return "/".join([domain + self.case.operator + (f"-{self.case.variant}" if self.case.variant else ""), self.case.size, self.type])

    @property
    def stem(self):
        return self.name.replace("/", "_").replace(" ", "_")

    def arrays(self):
        """Of each input, None where one is left out."""
        return [value and value.made(self.type, seed) for seed, value in enumerate(self.case.inputs)]

    def feeds(self, arrays):
        return {f"i{k}": array for k, (value, array) in enumerate(zip(self.case.inputs, arrays)) if value and not value.constant}

    def model(self):
        """The ONNX model."""
        import onnx
        from onnx import helper, numpy_helper
        case = self.case
        names = [f"i{k}" if value else "" for k, value in enumerate(case.inputs)]
        given = [helper.make_tensor_value_info(f"i{k}", helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype(self.type))), value.shape)
                 for k, value in enumerate(case.inputs) if value and not value.constant]
        constants = [numpy_helper.from_array(value.made(self.type, k), f"i{k}") for k, value in enumerate(case.inputs) if value and value.constant]
        made = [f"o{k}" for k in range(case.outputs)]
        nodes, rank = [], len(case.inputs[0].shape)
        if case.last:
            nodes.append(helper.make_node("Transpose", ["i0"], ["first"], perm=[0, rank - 1, *range(1, rank - 1)]))
            names[0], made = "first", ["last"]
        if not case.nodes:
            nodes.append(helper.make_node(case.operator, names, made, domain=case.domain, **case.attributes))
        nodes += [helper.make_node(operator, taken.split(), made.split(), **rest) for operator, taken, made, rest in case.nodes]
        if case.last:
            nodes.append(helper.make_node("Transpose", ["last"], ["o0"], perm=[0, *range(2, rank), 1]))
        outputs = [onnx.ValueInfoProto(name=f"o{k}") for k in range(case.outputs)]
        sets = [helper.make_opsetid("", case.opset)] + ([helper.make_opsetid(case.domain, case.version)] if case.domain else [])
        return helper.make_model(helper.make_graph(nodes, case.operator, given, outputs, constants), opset_imports=sets,
                                 ir_version=10 if case.opset < 23 else 11)

    def peer(self, tensors):
        """PyTorch's function, and tensors that it takes."""
        case, function = self.case, self.case.torch
        if not case.last:
            return function, tensors
        rank = tensors[0].ndim
        order = torch.channels_last if rank == 4 else torch.channels_last_3d
        rest = [t.contiguous(memory_format=order) if t is not None and t.ndim == rank and rank > 3 else t for t in tensors[1:]]
        return (lambda first, *others: function(first.permute(0, rank - 1, *range(1, rank - 1)), *others).permute(0, *range(2, rank), 1),
                [tensors[0], *rest])

    def bytes_moved(self, arrays, outputs):
        if self.case.moved:
            return self.case.moved([a for a in arrays if a is not None], outputs)
        return sum(a.nbytes for a in arrays if a is not None) + sum(o.nbytes for o in outputs)


FAMILIES = []


def of_class(name):
    """Registers a function that yields cases of a class."""
    def register(function):
        FAMILIES.append((name, function))
        return function
    return register


SIZES = ("small", "middle", "large")


def three(*each, names=SIZES):
    """The sizes and what is given for each."""
    return zip(names, each)


@functools.cache
def all_points():
    for module in sorted(each.name for each in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    points = {}
    for name, function in FAMILIES:
        for case in function():
            for type in case.types:
                point = Point(dataclasses.replace(case, group=name), type)
                if point.name in points:
                    raise ValueError(f"two cases are called {point.name}")
                points[point.name] = point
    return list(points.values())


def missing(operators):
    """Of the operators that `sinter ops --json` lists, those that have no case."""
    known = {(point.case.domain or "ai.onnx", point.case.operator) for point in all_points() if not point.case.nodes}
    return sorted({f"{each['domain']}::{each['operator']}" for each in operators
                   if each["operator"] not in NOT_TIMED and (each["domain"], each["operator"]) not in known})
