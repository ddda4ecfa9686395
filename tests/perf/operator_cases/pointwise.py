# SPDX-License-Identifier: Apache-2.0
"""One element in, one out: functions, arithmetic with broadcasting, comparisons, casts."""
from . import FLOATS, MS, Case, F, between, const, normal, of_class, three, torch, weight, x

SHAPES = ((32, 64), (512, 1024), (4096, 8192))
POSITIVE, UNIT, ABOVE, SMALL = between(0.1, 4), between(-0.9, 0.9), between(1.1, 4), between(-1, 1)

# operator: its function in PyTorch; then the range of its values, the opset, or the types, where they are others
UNARY = {
    "Abs": torch.abs, "Neg": torch.neg, "Sign": torch.sign, "Ceil": torch.ceil, "Floor": torch.floor, "Round": torch.round,
    "Exp": torch.exp, "Erf": torch.erf, "Sin": torch.sin, "Cos": torch.cos, "Sinh": torch.sinh, "Cosh": torch.cosh,
    "Atan": torch.atan, "Asinh": torch.asinh, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Relu": torch.relu,
    "Acos": (torch.acos, UNIT), "Asin": (torch.asin, UNIT), "Atanh": (torch.atanh, UNIT), "Acosh": (torch.acosh, ABOVE),
    "Log": (torch.log, POSITIVE), "Sqrt": (torch.sqrt, POSITIVE), "Reciprocal": (torch.reciprocal, POSITIVE),
    "Tan": (torch.tan, SMALL), "IsNaN": torch.isnan, "IsInf": torch.isinf,
    "Elu": F.elu, "Selu": F.selu, "Celu": F.celu, "LeakyRelu": F.leaky_relu, "Softplus": F.softplus, "Softsign": F.softsign,
    "HardSigmoid": lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1), "HardSwish": F.hardswish, "Mish": F.mish, "Gelu": F.gelu,
    "ThresholdedRelu": lambda x: F.threshold(x, 1, 0), "Shrink": lambda x: F.softshrink(x, 0.5), "Swish": F.silu,
    "Affine": lambda x: x * 1.5 + 0.5, "ScaledTanh": lambda x: torch.tanh(x * 0.5) * 1.5, "Scale": lambda x: x * 1.5,
    "ParametricSoftplus": lambda x: 0.75 * F.softplus(x, 0.5),
}
ATTRIBUTES = {"Shrink": {"bias": 0.5, "lambd": 0.5}, "Affine": {"alpha": 1.5, "beta": 0.5}, "Scale": {"scale": 1.5},
              "ScaledTanh": {"alpha": 1.5, "beta": 0.5}, "ParametricSoftplus": {"alpha": 1.5, "beta": 0.5}}
OPSETS = {"Swish": 24, "Affine": 8, "Scale": 8, "ScaledTanh": 8, "ParametricSoftplus": 8}
TYPES = {"Abs": (*FLOATS, "i32", "i8"), "Neg": (*FLOATS, "i32", "f64"), "Relu": (*FLOATS, "i32"), "Sign": (*FLOATS, "i64"),
         "Exp": (*FLOATS, "f64"), "Sqrt": (*FLOATS, "f64")}


@of_class("pointwise")
def functions():
    for name, entry in UNARY.items():
        function, kind = entry if isinstance(entry, tuple) else (entry, normal)
        for size, shape in three(*SHAPES):
            yield Case(name, size, [x(*shape, kind=kind)], function, types=TYPES.get(name, FLOATS), opset=OPSETS.get(name, 20),
                       attributes=ATTRIBUTES.get(name, {}))
    for size, shape in three(*SHAPES):
        yield Case("Gelu", size, [x(*shape)], lambda x: F.gelu(x, approximate="tanh"), "tanh", attributes={"approximate": "tanh"})
        yield Case("Clip", size, [x(*shape), const(-0.5, "T"), const(0.5, "T")], lambda x, *_: x.clamp(-0.5, 0.5))
        yield Case("Not", size, [x(*shape)], torch.logical_not, types=("bool",))
        yield Case("BitwiseNot", size, [x(*shape)], torch.bitwise_not, types=("i32", "u8"))
        yield Case("QuickGelu", size, [x(*shape)], lambda x: x * torch.sigmoid(1.702 * x), domain=MS)
        yield Case("Gelu", size, [x(*shape)], F.gelu, domain=MS)
        yield Case("FastGelu", size, [x(*shape)], lambda x: F.gelu(x, approximate="tanh"), domain=MS)
        yield Case("ImageScaler", size, [x(shape[0] // 16, 3, 4, shape[1] * 4 // 3)], opset=8, no_peer="removed from ONNX",
                   attributes={"scale": 1.5, "bias": [1.0, 2.0, 3.0]})


# operator: function, range of the second operand, types
BINARY = {
    "Add": (torch.add, normal, (*FLOATS, "f64", "i32", "i64", "u8")), "Sub": (torch.sub, normal, (*FLOATS, "i64")),
    "Mul": (torch.mul, normal, (*FLOATS, "i32", "f64")), "Div": (torch.div, POSITIVE, FLOATS),
    "Max": (torch.maximum, normal, (*FLOATS, "i32")), "Min": (torch.minimum, normal, (*FLOATS, "i32")),
    "Equal": (torch.eq, normal, (*FLOATS, "i64", "bool")), "Less": (torch.lt, normal, (*FLOATS, "i32")),
    "Greater": (torch.gt, normal, FLOATS), "LessOrEqual": (torch.le, normal, FLOATS),
    "GreaterOrEqual": (torch.ge, normal, (*FLOATS, "i64")),
    "And": (torch.logical_and, normal, ("bool",)), "Or": (torch.logical_or, normal, ("bool",)),
    "Xor": (torch.logical_xor, normal, ("bool",)), "BitwiseAnd": (torch.bitwise_and, normal, ("i32", "u8")),
    "BitwiseOr": (torch.bitwise_or, normal, ("i32",)), "BitwiseXor": (torch.bitwise_xor, normal, ("i32",)),
    "PRelu": (lambda x, w: torch.where(x < 0, x * w, x), normal, FLOATS),
}


@of_class("pointwise")
def arithmetic():
    for name, (function, kind, types) in BINARY.items():
        for size, shape in three(*SHAPES):
            yield Case(name, size, [x(*shape), x(*shape, kind=kind)], function, types=types)
    for size, shape in three(*SHAPES):
        n, c, side = {"small": (1, 8, 16), "middle": (4, 32, 64), "large": (32, 64, 128)}[size]
        yield Case("Add", size, [x(*shape), x(shape[1])], torch.add, "row")
        yield Case("Mul", size, [x(*shape), x(shape[0], 1)], torch.mul, "column")
        yield Case("Mul", size, [x(n, c, side, side), x(n, c, 1, 1)], torch.mul, "channels")
        yield Case("PRelu", size, [x(n, c, side, side), weight(c, 1, 1)], lambda x, w: torch.where(x < 0, x * w, x), "channels")
        yield Case("Pow", size, [x(*shape, kind=POSITIVE), x(*shape, kind=SMALL)], torch.pow)
        yield Case("Pow", size, [x(*shape), const(2.0, "T")], lambda x, _: x * x, "square")
        yield Case("Mod", size, [x(*shape), x(*shape, kind=between(1, 9))], torch.remainder, types=("i32", "i64"))
        yield Case("Mod", size, [x(*shape), x(*shape, kind=POSITIVE)], torch.fmod, "fmod", attributes={"fmod": 1}, compared=0)
        yield Case("BitShift", size, [x(*shape), x(*shape, kind=between(0, 7))],
                   lambda x, y: x << y, types=("u8",), attributes={"direction": "LEFT"})
        yield Case("Where", size, [x(*shape, type="bool"), x(*shape), x(*shape)], torch.where, types=(*FLOATS, "i64"))
        yield Case("Where", size, [x(1, shape[1], type="bool"), x(*shape), const(0, "T")],
                   lambda c, x, z: torch.where(c, x, z), "mask")
        yield Case("Sum", size, [x(*shape) for _ in range(4)], lambda a, b, c, d: a + b + c + d, "4")
        yield Case("Mean", size, [x(*shape) for _ in range(3)], lambda a, b, c: (a + b + c) / 3, "3")
        yield Case("SwiGLU", size, [x(*shape), x(*shape)], lambda x, y: F.silu(x) * y, opset=28)
        yield Case("BiasGelu", size, [x(*shape), weight(shape[1], scale=1)], lambda x, b: F.gelu(x + b), domain=MS)
        yield Case("BiasSplitGelu", size, [x(1, *shape), weight(shape[1], scale=1)],
                   lambda x, b: torch.mul(*(h if k == 0 else F.gelu(h) for k, h in enumerate((x + b).chunk(2, -1)))), domain=MS)
        yield Case("BiasAdd", size, [x(1, *shape), weight(shape[1], scale=1), x(1, *shape)], lambda x, b, s: x + b + s, domain=MS)


CASTS = {"f32": ("f16", "f64", "i32", "i64", "u8", "bool"), "f16": ("f32", "i32"), "i64": ("i32", "f32"), "u8": ("f32", "f16"),
         "bool": ("f32", "i64"), "i32": ("i64",)}
ONNX = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11}
TORCH = {"f32": "float32", "u8": "uint8", "i8": "int8", "i32": "int32", "i64": "int64", "bool": "bool", "f16": "float16",
         "f64": "float64"}


@of_class("pointwise")
def casts():
    for size, shape in three(*SHAPES):
        for start, ends in CASTS.items():
            for end in ends:
                kind = between(0, 99) if end == "u8" else normal
                yield Case("Cast", size, [x(*shape, kind=kind)],
                           lambda x, end=end: x.to(getattr(torch, TORCH[end])), f"to_{end}", types=(start,),
                           attributes={"to": ONNX[end]})
        yield Case("CastLike", size, [x(*shape), const(0, "f16")], lambda x, y: x.to(y.dtype), types=("f32",))
