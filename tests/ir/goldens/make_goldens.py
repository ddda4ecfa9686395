#!/usr/bin/env python3
"""Writes goldens.json: inputs and expected results for every operator of ir/ops.

Expected results come from NumPy, computed in float64 from the stored inputs and rounded once to the
result's type. Where ONNX Runtime has the operator, a model of it is run on the same inputs and must
agree, or nothing is written: two sources that know nothing of Sinter. Seeds are fixed, so that the
same versions of the packages write the same file.

    python tests/ir/goldens/make_goldens.py     # needs numpy, ml_dtypes, onnx, onnxruntime
"""

import base64
import json
import math
import pathlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

NAMES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
         "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
ELEM = {"bool": TensorProto.BOOL, "i8": TensorProto.INT8, "i16": TensorProto.INT16,
        "i32": TensorProto.INT32, "i64": TensorProto.INT64, "u8": TensorProto.UINT8,
        "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "u64": TensorProto.UINT64,
        "f16": TensorProto.FLOAT16, "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE}
FLOATS = ("f16", "bf16", "f32", "f64")
# What ONNX Runtime, computing in the type itself, may differ by from a rounded float64 result.
WITNESS_TOLERANCE = {"f16": 4e-3, "f32": 2e-5, "f64": 1e-6}

rng = np.random.default_rng(20260101)
cases = []


def name_of(array):
    return next(name for name, dtype in NAMES.items() if array.dtype == np.dtype(dtype))


def normal(shape, dtype="f32", scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(NAMES[dtype])


def positive(shape, dtype="f32"):
    return rng.uniform(0.1, 4.0, shape).astype(NAMES[dtype])


def integers(shape, dtype="i64", low=-9, high=10):
    if dtype.startswith("u"):
        low = max(low, 0)
    return rng.integers(low, high, shape).astype(NAMES[dtype])


def bools(shape):
    return rng.integers(0, 2, shape).astype(np.bool_)


def wide(array):
    """The value in the type that NumPy computes it in: float64 for floats, else itself."""
    return array.astype(np.float64) if name_of(array) in FLOATS else array


def encode(array):
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return f"{name_of(array)}[{','.join(map(str, array.shape))}] {data}"


def run_onnx(nodes, inputs, constants=(), opset=20):
    """Runs a chain of (op, inputs, output, attributes); inputs are x0, x1, .., the result is y.
    Nothing where ONNX Runtime has no kernel for the type."""
    if any(name_of(x) not in ELEM for x in inputs):
        return None
    graph = helper.make_graph(
        [helper.make_node(op, args, [out], domain=attrs.pop("domain", ""), **attrs)
         for op, args, out, attrs in ((o, a, r, dict(t)) for o, a, r, t in nodes)],
        "golden",
        [helper.make_tensor_value_info(f"x{i}", ELEM[name_of(x)], x.shape)
         for i, x in enumerate(inputs)],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset),
                                                    helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    except ort.capi.onnxruntime_pybind11_state.InvalidGraph as error:
        if "type" in str(error).lower():
            return None
        raise
    return session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})[0]


def case(op, inputs, expected, attrs=None, onnx_nodes=None, constants=(), opset=20, note="",
         dtype=None):
    """Adds one case. `expected` is float64 or exact; `dtype` is the result's (default: inputs[0])."""
    inputs = [np.asarray(x) for x in inputs]
    dtype = dtype or name_of(inputs[0])
    with np.errstate(all="ignore"):
        expected = np.asarray(expected).astype(NAMES[dtype])
    sources = ["numpy"]
    witness = run_onnx(onnx_nodes, inputs, constants, opset) if onnx_nodes else None
    label = f"{op} {note} {[name_of(x) + str(list(x.shape)) for x in inputs]}"
    if witness is not None:
        assert witness.dtype == expected.dtype, (label, witness.dtype, expected.dtype)
        assert witness.shape == expected.shape, (label, witness.shape, expected.shape)
        tolerance = WITNESS_TOLERANCE.get(dtype, 0)
        np.testing.assert_allclose(wide(witness), wide(expected), rtol=tolerance, atol=tolerance,
                                   err_msg=label)
        sources.append("onnxruntime")
    entry = {"op": op, "note": note, "attrs": attrs, "by": "+".join(sources),
             "inputs": [encode(x) for x in inputs], "output": encode(expected)}
    cases.append({key: value for key, value in entry.items() if value not in ("", None)})


def one(op, count=1, **attrs):
    return [(op, [f"x{i}" for i in range(count)], "y", attrs)]


# ---- pointwise

def divide(a, b):
    return a / b if a.dtype.kind == "f" else np.where(b == 0, 0, np.trunc(a / np.where(b == 0, 1, b)))


erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def pointwise():
    # name: (function, ONNX chain, types, draw, meaningful on special values)
    unary = {
        "Neg": (np.negative, one("Neg"), "f i"), "Abs": (np.abs, one("Abs"), "f i"),
        "Sign": (np.sign, one("Sign"), "f i"), "Floor": (np.floor, one("Floor"), "f"),
        "Ceil": (np.ceil, one("Ceil"), "f"), "Round": (np.rint, one("Round"), "f"),
        "Sqrt": (np.sqrt, one("Sqrt"), "f"), "Log": (np.log, one("Log"), "f"),
        "Rsqrt": (lambda x: 1 / np.sqrt(x),
                  [("Sqrt", ["x0"], "t", {}), ("Reciprocal", ["t"], "y", {})], "f"),
        "Reciprocal": (lambda x: 1 / x, one("Reciprocal"), "f"),
        "Square": (lambda x: x * x, [("Mul", ["x0", "x0"], "y", {})], "f i"),
        "Exp": (np.exp, one("Exp"), "f"), "Erf": (erf, one("Erf"), "f"),
        "Tanh": (np.tanh, one("Tanh"), "f"), "Sin": (np.sin, one("Sin"), "f"),
        "Cos": (np.cos, one("Cos"), "f"), "Sigmoid": (sigmoid, one("Sigmoid"), "f"),
        "Relu": (lambda x: np.maximum(x, 0), one("Relu"), "f i"),
        "Silu": (lambda x: x * sigmoid(x),
                 [("Sigmoid", ["x0"], "s", {}), ("Mul", ["x0", "s"], "y", {})], "f"),
        "Gelu": (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), one("Gelu"), "f"),
        "GeluTanh": (gelu_tanh, one("Gelu", approximate="tanh"), "f"),
    }
    special = np.array([0.0, -0.0, 0.5, 1.5, -0.5, 2.5, 88.0, -90.0, 1e30, -1e30, np.inf, -np.inf,
                        np.nan, 1e-40], np.float32)
    for name, (function, chain, kinds) in unary.items():
        draw = positive if name in ("Sqrt", "Log", "Rsqrt") else \
            lambda shape, dtype: normal(shape, dtype, 2.0)
        with np.errstate(all="ignore"):
            for dtype in ("f32", "f16", "bf16", "f64"):
                x = draw((3, 4), dtype)
                case(name, [x], function(wide(x)), onnx_nodes=chain)
            # The expressions of the sigmoid family have limits that inf and huge values reach as
            # inf - inf or inf * 0: compared only where the textbook formula has them too.
            x = special[:-4] if name in ("Silu", "Gelu", "GeluTanh") else special
            case(name, [x], function(wide(x)), note="special")
        for dtype in ("i32", "i64", "i8") if "i" in kinds else ():
            x = integers((2, 3), dtype)
            case(name, [x], function(x), onnx_nodes=chain)

    binary = {
        "Add": (np.add, one("Add", 2), "f i"), "Sub": (np.subtract, one("Sub", 2), "f i"),
        "Mul": (np.multiply, one("Mul", 2), "f i"), "Div": (divide, one("Div", 2), "f i"),
        "Mod": (np.mod, one("Mod", 2), "i"), "Fmod": (np.fmod, one("Mod", 2, fmod=1), "f i"),
        "Pow": (np.power, one("Pow", 2), "f i"), "Min": (np.minimum, one("Min", 2), "f i"),
        "Max": (np.maximum, one("Max", 2), "f i"),
        "Equal": (np.equal, one("Equal", 2), "f i b"),
        "NotEqual": (np.not_equal, [("Equal", ["x0", "x1"], "t", {}), ("Not", ["t"], "y", {})],
                     "f i b"),
        "Less": (np.less, one("Less", 2), "f i"),
        "LessOrEqual": (np.less_equal, one("LessOrEqual", 2), "f i"),
        "Greater": (np.greater, one("Greater", 2), "f i"),
        "GreaterOrEqual": (np.greater_equal, one("GreaterOrEqual", 2), "f i"),
        "And": (np.logical_and, one("And", 2), "b"), "Or": (np.logical_or, one("Or", 2), "b"),
        "Xor": (np.logical_xor, one("Xor", 2), "b"),
    }
    compares = ("Equal", "NotEqual", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    shapes = [((2, 4), (2, 4)), ((3, 1), (2, 1, 2)), ((2, 3), ()), ((4,), (2, 1, 1))]
    nan, inf = np.nan, np.inf
    left = np.array([0.0, -0.0, 1, nan, 1, inf, -inf, 5, -5, 5], np.float32)
    right = np.array([-0.0, 0.0, nan, 1, 0, inf, 1, -3, 3, 0], np.float32)
    for name, (function, chain, kinds) in binary.items():
        result = "bool" if name in compares else None
        for i, (a_shape, b_shape) in enumerate(shapes):
            for dtype in ("f32", "f64", "f16", "bf16") if "f" in kinds else ():
                if i > 0 and dtype != "f32":
                    continue
                a = positive(a_shape, dtype) if name == "Pow" else normal(a_shape, dtype, 2)
                b = normal(b_shape, dtype, 2)
                if name in compares and a_shape == b_shape:
                    b[0] = a[0]
                case(name, [a, b], function(wide(a), wide(b)), onnx_nodes=chain, dtype=result)
            for dtype in ("i64", "i32", "i8", "u8") if "i" in kinds else ():
                if i > 0 and dtype != "i64":
                    continue
                low, high = (0, 4) if name == "Pow" else (-9, 10)
                a, b = integers(a_shape, dtype, low, high), integers(b_shape, dtype, low, high)
                if name in ("Div", "Mod", "Fmod"):
                    b = np.where(b == 0, 3, b).astype(b.dtype)
                case(name, [a, b], function(a, b), onnx_nodes=chain, dtype=result)
            if "b" in kinds:
                a, b = bools(a_shape), bools(b_shape)
                case(name, [a, b], function(a, b), onnx_nodes=chain, dtype="bool")
        if "f" in kinds:
            with np.errstate(all="ignore"):
                case(name, [left, right], function(wide(left), wide(right)), note="special",
                     dtype=result)
    wrapping = {"Add": ([127, -128], [1, -1]), "Sub": ([-128, 127], [1, -1]),
                "Mul": ([100, -128], [100, -1]), "Neg": ([-128, 5],), "Abs": ([-128, -5],)}
    for name, values in wrapping.items():
        arrays = [np.array(v, np.int8) for v in values]
        with np.errstate(all="ignore"):
            function = binary[name][0] if name in binary else unary[name][0]
            case(name, arrays, function(*arrays), note="wraps")
    big = np.array([2**64 - 1, 2**63, 7], np.uint64)
    small = np.array([2, 3, 9], np.uint64)
    for name in ("Div", "Mod", "Min", "Max", "Less", "Greater"):
        exact = big // small if name == "Div" else binary[name][0](big, small)
        case(name, [big, small], exact, note="unsigned", dtype="bool" if name in compares else None)

    x = bools((3, 4))
    case("Not", [x], np.logical_not(x), onnx_nodes=one("Not"))
    x = special.reshape(2, 7)
    case("IsNan", [x], np.isnan(x), onnx_nodes=one("IsNaN"), dtype="bool")
    case("IsInf", [x], np.isinf(x), onnx_nodes=one("IsInf"), dtype="bool")
    for dtype in ("f32", "f16", "i64", "bool"):
        draw = bools if dtype == "bool" else integers if dtype == "i64" else normal
        extra = () if dtype == "bool" else (dtype,)
        c, a, b = bools((2, 1, 4)), draw((3, 1), *extra), draw((2, 3, 4), *extra)
        case("Where", [c, a, b], np.where(c, a, b), onnx_nodes=one("Where", 3), dtype=dtype)
    c, a, b = np.array(True), normal((3,)), normal((2, 1))
    case("Where", [c, a, b], np.where(c, a, b), onnx_nodes=one("Where", 3), dtype="f32")

    values = np.array([-3.7, -0.5, 0, 0.5, 1.5, 2.5, 100.25, 65000.0], np.float64)
    for source in NAMES:
        x = (np.abs(values) % 120 if source.startswith(("u", "i")) else values).astype(NAMES[source])
        for target in NAMES:
            y = wide(x)
            if source in FLOATS and target not in FLOATS and target != "bool":
                limits = np.iinfo(NAMES[target])
                y = y[(y > limits.min - 1) & (y < limits.max + 1)]
            stored = y.astype(NAMES[source])
            exact = y != 0 if target == "bool" else y
            # ONNX Runtime casts to narrow floats through float32, so ties may round twice.
            chain = one("Cast", to=ELEM[target]) if target in ELEM else None
            case("Cast", [stored], exact, {"to": target}, chain, dtype=target)
    x = np.array([2**53 + 1, -(2**62) + 1, 2**31], np.int64)
    for target in ("i32", "u8", "f32", "f64", "u64"):
        with np.errstate(all="ignore"):
            case("Cast", [x], x, {"to": target}, dtype=target, note="large")


def rare_pointwise():
    """Inverse and hyperbolic functions, bits. Drawn last, so that the cases above keep their seeds."""
    unit = np.array([-1, -0.999, -0.5, -1e-3, -0.0, 0, 1e-3, 0.5, 0.999, 1], np.float64)
    wide_range = np.array([-80, -3, -1, -1e-3, -0.0, 0, 1e-3, 0.5, 2, 80], np.float64)
    functions = {
        "Asin": (np.arcsin, unit), "Acos": (np.arccos, unit), "Atan": (np.arctan, wide_range),
        "Sinh": (np.sinh, wide_range), "Cosh": (np.cosh, wide_range),
        "Asinh": (np.arcsinh, wide_range), "Acosh": (np.arccosh, np.abs(wide_range) + 1),
        "Atanh": (np.arctanh, unit), "Expm1": (np.expm1, wide_range), "Log1p": (np.log1p, np.abs(wide_range)),
    }
    for name, (function, values) in functions.items():
        known = name not in ("Expm1", "Log1p")
        for dtype in ("f32", "f64", "f16", "bf16"):
            x = values.astype(NAMES[dtype])
            x = x[np.abs(x) < 11] if dtype == "f16" and name in ("Sinh", "Cosh", "Expm1") else x
            with np.errstate(all="ignore"):
                case(name, [x], function(wide(x)), onnx_nodes=one(name) if known and dtype == "f32" else None)
        with np.errstate(all="ignore"):
            x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
            case(name, [x], function(wide(x)), note="special")
    for name, function in (("Softplus", lambda x: np.logaddexp(0, x)), ("Softsign", lambda x: x / (1 + abs(x)))):
        for dtype in ("f32", "f64", "f16", "bf16"):
            x = wide_range.astype(NAMES[dtype])
            case(name, [x], function(wide(x)), onnx_nodes=one(name))
    a, b = normal((3, 4)), positive((4,))
    case("Quotient", [a, b], wide(a) / wide(b), onnx_nodes=one("Div", 2))
    for dtype in ("i8", "u8", "i32", "u32", "i64", "u64"):
        a, b = integers((3, 4), dtype, -100, 100), integers((4,), dtype, -100, 100)
        for name, function in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or),
                               ("BitwiseXor", np.bitwise_xor)):
            case(name, [a, b], function(a, b), onnx_nodes=one(name, 2))
        case("BitwiseNot", [a], np.bitwise_not(a), onnx_nodes=one("BitwiseNot"))
        by = integers((4,), dtype, 0, 8)
        case("ShiftLeft", [a, by], np.left_shift(a, by))
        filled = np.right_shift(a.view("u" + a.dtype.name), by.view("u" + a.dtype.name)) \
            if dtype.startswith("i") else np.right_shift(a, by)
        case("ShiftRight", [a, by], filled.view(a.dtype))
    a = np.array([1, 255, 128], np.uint8)
    case("ShiftLeft", [a, np.array([8, 9, 7], np.uint8)], np.array([0, 0, 0], np.uint8), note="wide")
    case("ShiftRight", [a, np.array([8, 9, 7], np.uint8)], np.array([0, 0, 1], np.uint8), note="wide")
    for source, target in (("f32", "i32"), ("i32", "f32"), ("f64", "u64"), ("i64", "f64"), ("i8", "u8"),
                           ("u16", "i16"), ("u32", "f32"), ("bool", "u8")):
        x = bools((2, 3)) if source == "bool" else \
            normal((2, 3), source) if source in FLOATS else integers((2, 3), source, -99, 99)
        case("BitCast", [x], x.view(NAMES[target]), {"to": target}, dtype=target)


# ---- reductions

def reductions():
    def mean(x, axes, keep):
        total = np.sum(x, axis=axes, keepdims=keep)
        count = math.prod(x.shape[a] for a in axes)
        return total / count if x.dtype.kind == "f" else np.trunc(total / count)

    table = {
        "ReduceSum": lambda x, a, k: np.sum(x, axis=a, keepdims=k, dtype=x.dtype),
        "ReduceMean": mean,
        "ReduceMax": lambda x, a, k: np.max(x, axis=a, keepdims=k),
        "ReduceMin": lambda x, a, k: np.min(x, axis=a, keepdims=k),
        "ReduceProd": lambda x, a, k: np.prod(x, axis=a, keepdims=k, dtype=x.dtype),
        "ReduceSumSquare": lambda x, a, k: np.sum(x * x, axis=a, keepdims=k, dtype=x.dtype),
    }
    for name, function in table.items():
        for axes in ((2,), (0,), (1,), (0, 2), (1, 2), (0, 1, 2)):
            for keep in (0, 1):
                x = normal((2, 3, 4))
                chain = [(name, ["x0", "axes"], "y", {"keepdims": keep})] if name == "ReduceSum" \
                    else [(name, ["x0"], "y", {"keepdims": keep, "axes": list(axes)})]
                constants = [("axes", np.array(axes, np.int64))] if name == "ReduceSum" else ()
                attrs = {"axes": list(axes), "keepdims": keep}
                case(name, [x], function(wide(x), axes, bool(keep)), attrs, chain, constants, 13)
        for dtype in ("f64", "f16", "bf16", "i64", "i32"):
            x = integers((4, 6), dtype, -3, 4) if dtype.startswith("i") else normal((4, 6), dtype)
            case(name, [x], function(wide(x), (1,), False), {"axes": [1], "keepdims": 0})
        length = 1500 if name == "ReduceSum" else 100  # more than a block of the evaluator
        x = normal((1, 1500), scale=0.1) + np.float32(1 if name == "ReduceProd" else 0)
        case(name, [x[:, :length]],
             function(wide(x[:, :length]), (1,), True),
             {"axes": [1], "keepdims": 1}, note="long")
    x = np.array([[1, np.nan, 3], [-np.inf, 0, np.inf]], np.float32)
    case("ReduceMax", [x], np.max(x, axis=1), {"axes": [1], "keepdims": 0}, note="special")
    case("ReduceMin", [x], np.min(x, axis=1), {"axes": [1], "keepdims": 0}, note="special")
    x = np.array([[100, 100, 100]], np.int8)
    case("ReduceSum", [x], np.sum(x, axis=1, dtype=np.int8), {"axes": [1], "keepdims": 0},
         note="wraps")


# ---- views

def views():
    for dtype in ("f32", "i64", "bool", "f16"):
        draw = bools if dtype == "bool" else (lambda s: integers(s, dtype)) if dtype == "i64" \
            else (lambda s: normal(s, dtype))
        for shape, to in (((2, 3, 12), (2, 3, 3, 4)), ((2, 3, 4), (6, 4)), ((6, 4), (4, 6)),
                          ((1, 6), (6,)), ((6,), (1, 2, 1, 3)), ((), (1, 1)), ((2, 3, 4), (24,))):
            x = draw(shape)
            case("Reshape", [x], x.reshape(to), {"shape": list(to)},
                 [("Reshape", ["x0", "to"], "y", {})], [("to", np.array(to, np.int64))])
        for perm in ((0, 1, 2), (2, 0, 1), (1, 0, 2), (0, 2, 1)):
            x = draw((2, 3, 4))
            case("Transpose", [x], x.transpose(perm), {"perm": list(perm)},
                 one("Transpose", perm=list(perm)))
        for shape, to in (((3, 1), (2, 3, 4)), ((), (2, 2)), ((1,), (3,)), ((2, 3), (2, 3))):
            x = draw(shape)
            case("Expand", [x], np.broadcast_to(x, to), {"shape": list(to)},
                 [("Expand", ["x0", "to"], "y", {})], [("to", np.array(to, np.int64))])
        for slices in ((slice(1, 3), slice(0, 6)), (slice(0, 4, 2), slice(5, 0, -2)),
                       (slice(3, None, -1), slice(2, 3)), (slice(0, 0), slice(0, 6))):
            x = draw((4, 6))
            y = x[slices]
            starts = [s.indices(d)[0] for s, d in zip(slices, x.shape)]
            ends = [e if (e := s.indices(d)[1]) >= 0 else -100 for s, d in zip(slices, x.shape)]
            steps = [s.indices(d)[2] for s, d in zip(slices, x.shape)]
            constants = [(n, np.array(v, np.int64)) for n, v in
                         (("starts", starts), ("ends", ends), ("axes", [0, 1]), ("steps", steps))]
            case("Slice", [x], y, {"starts": starts, "steps": steps, "shape": list(y.shape)},
                 [("Slice", ["x0", "starts", "ends", "axes", "steps"], "y", {})], constants)
        for axis, shapes in ((0, ((2, 3), (1, 3), (3, 3))), (1, ((2, 1), (2, 4))), (0, ((3,),)),
                             (2, ((2, 2, 1), (2, 2, 3)))):
            xs = [draw(s) for s in shapes]
            case("Concat", xs, np.concatenate(xs, axis), {"axis": axis},
                 one("Concat", len(xs), axis=axis))
    for dtype, fill in (("f32", 0.0), ("f32", -2.5), ("i64", 7.0), ("f16", 1.5)):
        for begins, ends in (([0, 1], [2, 0]), ([1, 2], [1, 3]), ([-1, 0], [0, -1])):
            x = integers((3, 4), dtype) if dtype == "i64" else normal((3, 4), dtype)
            cut = x[max(0, -begins[0]):3 - max(0, -ends[0]), max(0, -begins[1]):4 - max(0, -ends[1])]
            pads = [(max(0, b), max(0, e)) for b, e in zip(begins, ends)]
            y = np.pad(cut, pads, constant_values=x.dtype.type(fill))
            constants = [("pads", np.array(begins + ends, np.int64)),
                         ("fill", np.array(fill, x.dtype))]
            case("Pad", [x], y, {"begins": begins, "ends": ends, "fill": fill},
                 [("Pad", ["x0", "pads", "fill"], "y", {})], constants)


def unfold(x, kernel, strides, dilations, begins, ends):
    x = np.pad(x, [(0, 0), (0, 0), *zip(begins, ends)])
    out = [(d - dil * (k - 1) - 1) // s + 1
           for d, k, s, dil in zip(x.shape[2:], kernel, strides, dilations)]
    y = np.zeros((*x.shape[:2], *kernel, *out), x.dtype)
    for tap in np.ndindex(*kernel):
        window = tuple(slice(t * dil, t * dil + (o - 1) * s + 1, s)
                       for t, dil, o, s in zip(tap, dilations, out, strides))
        y[(slice(None), slice(None), *tap)] = x[(slice(None), slice(None), *window)]
    return y


WINDOWS = [  # spatial, kernel, strides, dilations, begins, ends
    ((9,), (3,), (1,), (1,), (0,), (0,)), ((9,), (3,), (2,), (2,), (2,), (1,)),
    ((6, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((7, 6), (3, 2), (2, 1), (1, 2), (1, 0), (0, 2)), ((4, 4), (1, 1), (2, 2), (1, 1), (0, 0), (0, 0)),
]


def convolutions():
    for spatial, kernel, strides, dilations, begins, ends in WINDOWS:
        attrs = {"strides": strides, "dilations": dilations, "pads_begin": begins, "pads_end": ends}
        attrs = {key: list(value) for key, value in attrs.items()}
        onnx_attrs = {"strides": list(strides), "dilations": list(dilations),
                      "pads": list(begins + ends)}
        for dtype in ("f32", "f16", "i64"):
            shape = (1, 3, *spatial) if dtype == "f32" else (2, 1, *spatial)
            x = integers(shape, dtype) if dtype == "i64" else normal(shape, dtype)
            y = unfold(x, kernel, strides, dilations, begins, ends)
            # A convolution of one-hot kernels is im2col.
            taps = math.prod(kernel)
            hot = np.tile(np.eye(taps, dtype=x.dtype).reshape(taps, 1, *kernel),
                          (shape[1], *[1] * (len(kernel) + 1)))
            chain = [("Conv", ["x0", "w"], "t", {**onnx_attrs, "group": shape[1]}),
                     ("Reshape", ["t", "to"], "y", {})]
            constants = [("w", hot), ("to", np.array(y.shape, np.int64))]
            case("Unfold", [x], y, {"kernel": list(kernel), **attrs}, chain, constants)
        for group, outputs, bias in ((1, 4, True), (2, 4, False), (4, 8, True)):
            for dtype in ("f32", "f64", "f16") if group == 1 and len(spatial) == 1 else ("f32",):
                x = normal((2, 4, *spatial), dtype)
                w = normal((outputs, 4 // group, *kernel), dtype)
                b = [normal((outputs,), dtype)] if bias else []
                columns = unfold(wide(x), kernel, strides, dilations, begins, ends)
                windows = columns.shape[2 + len(kernel):]
                columns = columns.reshape(2, group, 4 // group * math.prod(kernel), -1)
                weights = wide(w).reshape(group, outputs // group, -1)
                y = np.einsum("gok,ngkp->ngop", weights, columns).reshape(2, outputs, *windows)
                if bias:
                    y = y + wide(b[0]).reshape(1, -1, *[1] * len(windows))
                case("Conv", [x, w, *b], y, {**attrs, "group": group},
                     one("Conv", 2 + bias, group=group, **onnx_attrs))


# ---- gather, products, composites

def indexed():
    for dtype in ("f32", "f16", "i64", "bool"):
        for axis, shape, indices in ((0, (5, 3), [[0, -1, 2], [4, -5, 1]]), (1, (2, 4, 3), [3, -4]),
                                     (2, (2, 2, 6), [[-1], [5]]), (0, (4,), 2), (0, (4,), -1)):
            x = bools(shape) if dtype == "bool" else integers(shape) if dtype == "i64" \
                else normal(shape, dtype)
            for index_type in (np.int64, np.int32):
                index = np.array(indices, index_type)
                case("Gather", [x, index], np.take(x, index, axis), {"axis": axis},
                     one("Gather", 2, axis=axis))


def places():
    """Take and Scatter, whose index tensors are one for each dimension, and what makes such tensors.
    With numbers of its own: other cases stay as they are."""
    draw = np.random.default_rng(20261121)

    def random(shape, dtype):
        if dtype == "bool":
            return draw.integers(0, 2, shape).astype(np.bool_)
        if dtype in FLOATS:
            return draw.standard_normal(shape).astype(NAMES[dtype])
        return draw.integers(-9, 10, shape).astype(NAMES[dtype])

    def counting(shape, axis):
        along = [1] * len(shape)
        along[axis] = shape[axis]
        return np.arange(shape[axis], dtype=np.int64).reshape(along)

    for dtype in ("f32", "f16", "i32", "bool"):
        for shape, taken, axis in (((4, 3), (2, 3), 0), ((2, 3, 5), (2, 3, 4), 2)):
            data = random(shape, dtype)
            chosen = draw.integers(-shape[axis], shape[axis], taken)
            indices = [chosen if d == axis else counting(taken, d) for d in range(len(shape))]
            case("Take", [data, *indices], data[tuple(indices)],
                 onnx_nodes=[("GatherElements", ["x0", f"x{axis + 1}"], "y", {"axis": axis})])
        data = random((3, 4), dtype)
        rows = draw.integers(-3, 3, (2, 1, 5)).astype(np.int32)
        columns = draw.integers(0, 4, (3, 1))
        case("Take", [data, rows, columns], data[rows, columns])
    combines = {"none": None, "sum": np.add, "prod": np.multiply, "max": np.maximum,
                "min": np.minimum}
    onnx_names = {"none": "none", "sum": "add", "prod": "mul", "max": "max", "min": "min"}
    for combine, ufunc in combines.items():
        for dtype in ("f32", "f16", "i64", "u8") if ufunc else ("f32", "bf16", "i64", "bool"):
            shape, axis = (3, 5), 1
            data, updates = random(shape, dtype), random((3, 4), dtype)
            # Replacing at one place twice leaves open who wins: then indices differ.
            chosen = (np.stack([draw.permutation(5)[:4] for _ in range(3)]) - 5 if ufunc is None
                      else draw.integers(-5, 5, (3, 4)))
            indices = [counting((3, 4), 0), chosen]
            y = wide(data).copy()
            if ufunc is None:
                y[tuple(indices)] = wide(updates)
            else:
                ufunc.at(y, tuple(np.broadcast_arrays(*indices)), wide(updates))
            case("Scatter", [data, updates, *indices], y, {"combine": combine},
                 onnx_nodes=[("ScatterElements", ["x0", "x3", "x1"], "y",
                              {"axis": axis, "reduction": onnx_names[combine]})]
                 if dtype in ("f32", "i64", "bool") else None)
    for axis, shape in ((0, (4,)), (1, (2, 3, 2)), (0, (3, 1)), (0, (0, 2))):
        for dtype in ("i64", "i32", "u8", "f32", "f16"):
            case("Iota", [], np.broadcast_to(counting(shape, axis), shape),
                 {"shape": list(shape), "axis": axis, "dtype": dtype}, dtype=dtype)
    for value in (0, 7, 1000):
        for dtype in ("i64", "i32", "f64"):
            case("Size", [], np.array(value), {"value": [value], "dtype": dtype}, dtype=dtype)


def products():
    for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                 ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 2, 4, 1)), ((1, 1), (1, 1)),
                 ((1, 70), (70, 3))):
        for dtype in ("f32", "f64", "f16", "bf16", "i32", "i64") if a[1] < 70 else ("f32",):
            draw = integers if dtype.startswith("i") else normal
            x, y = draw(a, dtype), draw(b, dtype)
            case("MatMul", [x, y], wide(x) @ wide(y), onnx_nodes=one("MatMul", 2))


def composites():
    def norm(x, axis, epsilon, centre):
        axes = tuple(range(axis, x.ndim))
        d = x - np.mean(x, axis=axes, keepdims=True) if centre else x
        return d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + epsilon)

    for shape, axis, epsilon in (((3, 8), 1, 1e-5), ((2, 3, 6), 2, 1e-12), ((2, 3, 4), 1, 1e-3)):
        for dtype in ("f32", "f64", "f16", "bf16"):
            x = (normal(shape, "f64", 2) + 3).astype(NAMES[dtype])
            scale, bias = normal(shape[axis:], dtype), normal(shape[axis:], dtype)
            y = norm(wide(x), axis, epsilon, True) * wide(scale)
            attrs = {"axis": axis, "epsilon": epsilon}
            case("LayerNorm", [x, scale, bias], y + wide(bias), attrs,
                 one("LayerNormalization", 3, **attrs))
            case("LayerNorm", [x, scale], y, attrs, one("LayerNormalization", 2, **attrs))
            y = norm(wide(x), axis, epsilon, False) * wide(scale)
            chain = one("RMSNormalization", 2, **attrs)
            case("RmsNorm", [x, scale], y, attrs, chain, opset=23)
    x = (normal((4, 16), "f64") * 1e-3 + 100).astype(np.float32)
    scale, bias = normal((16,)), normal((16,))
    case("LayerNorm", [x, scale, bias], norm(wide(x), 1, 1e-12, True) * wide(scale) + wide(bias),
         {"axis": 1, "epsilon": 1e-12}, note="large mean, small deviation")
    for shape, axis in (((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((7,), 0)):
        for dtype in ("f32", "f64", "f16", "bf16"):
            x = normal(shape, dtype, 3)
            e = np.exp(wide(x) - np.max(wide(x), axis=axis, keepdims=True))
            case("Softmax", [x], e / e.sum(axis=axis, keepdims=True), {"axis": axis},
                 one("Softmax", axis=axis))
    x = np.array([[1000, 1001, -1000], [-np.inf, 0, 1]], np.float32)
    e = np.exp(wide(x) - np.max(wide(x), axis=1, keepdims=True))
    case("Softmax", [x], e / e.sum(axis=1, keepdims=True), {"axis": 1}, one("Softmax", axis=1),
         note="large and masked")
    for shape, axes in (((3, 8), [1]), ((2, 5, 4), [1]), ((2, 3, 4), [0, 2]), ((6,), [0])):
        for dtype in ("f32", "f64", "f16"):
            for keepdims in (0, 1):
                x = (normal(shape, "f64") + 5).astype(NAMES[dtype])
                case("Variance", [x], np.var(wide(x), axis=tuple(axes), keepdims=bool(keepdims)),
                     {"axes": axes, "keepdims": keepdims})


def attention():
    def softmax(s):
        e = np.exp(s - np.max(s, axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def add(q, k, v, scale, mask=None, causal=0, fill=None, guard=0, note="", ort=True):
        """One case; the scores are spelled out for ONNX Runtime as exporters do."""
        dtype = name_of(q)
        kt = np.swapaxes(wide(k), -1, -2)
        s = wide(q) @ kt * scale
        rank = k.ndim
        perm = [*range(rank - 2), rank - 1, rank - 2]
        chain = [("Transpose", ["x1"], "kt", {"perm": perm}), ("MatMul", ["x0", "kt"], "qk", {}),
                 ("Mul", ["qk", "scale"], "s0", {})]
        constants = [("scale", np.array(scale, NAMES[dtype]))]
        scores = "s0"
        attrs = {"scale": scale}
        if mask is not None and mask.dtype == np.bool_:
            low = -np.inf if fill is None else fill
            s = np.where(mask, s, low)
            chain.append(("Where", ["x3", scores, "low"], "s1", {}))
            constants.append(("low", np.array(low, NAMES[dtype])))
            scores = "s1"
            if fill is not None:
                attrs["fill"] = fill
        elif mask is not None:
            s = s + wide(mask)
            chain.append(("Add", [scores, "x3"], "s1", {}))
            scores = "s1"
        if causal:
            m, n = s.shape[-2:]
            seen = np.tril(np.ones((m, n), np.bool_), 0 if causal == 1 else n - m)
            s = np.where(seen, s, -np.inf)
            chain.append(("Where", ["seen", scores, "hidden"], "s2", {}))
            constants += [("seen", seen), ("hidden", np.array(-np.inf, NAMES[dtype]))]
            scores = "s2"
            attrs["causal"] = causal
        with np.errstate(all="ignore"):
            p = softmax(s)
        if guard:
            p = np.where(np.isnan(p), 0, p)
            attrs["guard"] = 1
        chain += [("Softmax", [scores], "p", {"axis": -1}), ("MatMul", ["p", "x2"], "y", {})]
        inputs = [q, k, v] + ([] if mask is None else [mask])
        case("Attention", inputs, p @ wide(v), attrs, chain if ort and not guard else None,
             constants, note=note)

    for dtype in ("f32", "f64", "f16", "bf16"):
        q, k, v = (normal(s, dtype) for s in ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)))
        add(q, k, v, 0.25)
        add(q, k, v, 0.25, bools((2, 1, 1, 7)) | (np.arange(7) == 3))
        add(q, k, v, 0.5, normal((5, 7), dtype))
    q, k, v = (normal(s) for s in ((2, 4, 6, 8), (2, 1, 6, 8), (1, 4, 6, 8)))
    add(q, k, v, 0.125, causal=1, note="broadcast batch")
    add(q[..., :3, :], k, v, -0.5, bools((1, 4, 3, 1)), causal=2, fill=-1000.0, note="longer keys")
    add(q, k, v, 1.0, np.zeros((6, 6), np.bool_), fill=-1e4, note="nothing to attend to")
    hidden = np.ones((6, 6), np.bool_)
    hidden[2] = False
    add(q, k, v, 1.0, hidden, note="a row of NaN", ort=False)
    add(q, k, v, 1.0, hidden, guard=1, note="a guarded row")
    add(normal((3, 16)), normal((1, 16)), normal((1, 2)), 0.25, note="matrices")


def main():
    for group in (pointwise, reductions, views, convolutions, indexed, products, composites,
                  attention, places, rare_pointwise):
        group()
    path = pathlib.Path(__file__).parent / "goldens.json"
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    path.write_text('{"cases":[\n' + lines + "\n]}\n")
    seen = sum("onnxruntime" in c["by"] for c in cases)
    print(f"{len(cases)} cases, {seen} of them confirmed by ONNX Runtime, "
          f"{path.stat().st_size} bytes in {path.name}")


if __name__ == "__main__":
    main()
