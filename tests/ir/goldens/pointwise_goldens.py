"""Goldens of pointwise operators."""

import math

import numpy as np

from golden_cases import (COMPUTED, ELEM, FLOATS, NAMES, bools, case, cases, integers, normal, one,
                          positive, wide)


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
    for source in COMPUTED:
        x = (np.abs(values) % 120 if source.startswith(("u", "i")) else values).astype(NAMES[source])
        for target in COMPUTED:
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
        case("ShiftRight", [a, by], np.right_shift(a, by))
    a = np.array([1, 255, 128], np.uint8)
    case("ShiftLeft", [a, np.array([8, 9, 7], np.uint8)], np.array([0, 0, 0], np.uint8), note="wide")
    case("ShiftRight", [a, np.array([8, 9, 7], np.uint8)], np.array([0, 0, 1], np.uint8), note="wide")
    a, by = np.array([-1, 100, -128, -128], np.int8), np.array([8, -1, 9, 7], np.int8)
    case("ShiftLeft", [a, by], np.zeros(4, np.int8), note="wide")
    case("ShiftRight", [a, by], np.array([-1, 0, -1, -1], np.int8), note="wide")
    for source, target in (("f32", "i32"), ("i32", "f32"), ("f64", "u64"), ("i64", "f64"), ("i8", "u8"),
                           ("u16", "i16"), ("u32", "f32"), ("bool", "u8")):
        x = bools((2, 3)) if source == "bool" else \
            normal((2, 3), source) if source in FLOATS else integers((2, 3), source, -99, 99)
        case("BitCast", [x], x.view(NAMES[target]), {"to": target}, dtype=target)


def parametric():
    """Activations with parameters, which are operands. Drawn last, with numbers of its own."""
    draw = np.random.default_rng(20261123)
    low, high = 0.25, 0.5

    def hard_sigmoid(x, slope, offset):
        return np.clip(x * slope + offset, 0, 1)

    functions = {
        "HardSigmoid": (hard_sigmoid, [("HardSigmoid", ["x0"], "y", {"alpha": low, "beta": high})]),
        "HardSwish": (lambda x, a, b: x * hard_sigmoid(x, a, b),
                      [("HardSigmoid", ["x0"], "t", {"alpha": low, "beta": high}),
                       ("Mul", ["x0", "t"], "y", {})]),
        "LeakyRelu": (lambda x, a: np.where(x < 0, x * a, x),
                      [("LeakyRelu", ["x0"], "y", {"alpha": low})]),
        "Clip": (lambda x, a, b: np.minimum(np.maximum(x, a), b), one("Clip", 3)),
    }
    special = np.array([0.0, -0.0, 1e30, -1e30, np.nan, 1e-40], np.float32)
    for name, (function, chain) in functions.items():
        count = 1 if name == "LeakyRelu" else 2
        for dtype in ("f32", "f16", "bf16", "f64"):
            x = (draw.standard_normal((3, 5)) * 3).astype(NAMES[dtype])
            parameters = [np.array(v, NAMES[dtype]) for v in (low, high)[:count]]
            case(name, [x, *parameters], function(wide(x), *map(wide, parameters)),
                 onnx_nodes=chain)
        parameters = [np.array(v, np.float32) for v in (low, high)[:count]]
        case(name, [special, *parameters], function(wide(special), *map(wide, parameters)),
             note="special")
    case("Clip", [np.arange(-4, 5), np.array(2), np.array(-1)], np.full(9, -1),
         note="bounds the wrong way round")


def far_out():
    """Results that are finite although what they are made of overflows, and arguments next to a pole."""
    largest = {dtype: float(np.finfo(NAMES[dtype]).max) if dtype != "bf16" else 3.38e38 for dtype in FLOATS}
    for dtype in FLOATS:
        top = largest[dtype]
        ends = [-top, -0.6 * top, -0.3 * top, 0.3 * top, 0.6 * top, top]
        # The last argument whose sinh is below the largest number, and where e^x is beyond it.
        last = {"f32": 89.4, "bf16": 89.0, "f64": 710.4, "f16": 11.7}[dtype]
        beyond = {"f32": 88.8, "bf16": 89.0, "f64": 709.9, "f16": 11.1}[dtype]
        arguments = {"Sinh": [-last, -beyond, beyond, last], "Cosh": [-last, -beyond, beyond, last],
                     "Asinh": ends, "Acosh": [1, 1 + 2.0**-7, *ends[3:]]}
        if dtype in ("f32", "f64"):
            step = 2.0 ** (-24 if dtype == "f32" else -53)
            arguments["Atanh"] = [-1 + step, -1 + 7 * step, -0.9, 0.9, 1 - step]
            arguments["Acosh"] += [1 + 2 * step, 1 + 2e-3, 1e25, 1e31]
            arguments["Asinh"] = ends + [-1e31, -1e25, -1e-20, 1e-30, 1e25, 1e31]
        for name, values in arguments.items():
            function = {"Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh}[name]
            x = np.array(values, np.float64).astype(NAMES[dtype])
            with np.errstate(all="ignore"):
                case(name, [x], function(wide(x)), onnx_nodes=one(name) if dtype == "f32" else None, note="far out")
