#!/usr/bin/env python3
"""Writes goldens.json: inputs and expected results for every operator of ir/ops.

Expected results come from NumPy, computed in float64 from the stored inputs and rounded once to the
result's type. Where ONNX Runtime has the operator, a model of it is run on the same inputs and must
agree, or nothing is written: two sources that know nothing of Sinter. Seeds are fixed, so that the
same versions of the packages write the same file.

    python tests/ir/goldens/make_goldens.py     # needs numpy, ml_dtypes, onnx, onnxruntime
"""

import json
import math
import pathlib

import numpy as np

from causal_conv_goldens import causal_convolutions
from float8_goldens import block_products, float8, float8_products
from golden_cases import FLOATS, NAMES, bools, case, cases, integers, name_of, normal, one, wide
from group_goldens import grouped
from linear_algebra_goldens import linear_algebra
from linear_attention_goldens import linear_attention
from mixture_goldens import mixtures
from ordered_goldens import ordered
from pointwise_goldens import far_out, parametric, pointwise, rare_pointwise
from quantized_goldens import quantized
from transform_goldens import transforms


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


def channels_last():
    """With numbers of its own: other cases stay as they are."""
    draw = np.random.default_rng(20261122)

    def last(x):
        return np.moveaxis(x, 1, -1)

    for spatial, kernel, strides, dilations, begins, ends in WINDOWS:
        rank = 2 + len(spatial)
        attrs = {"strides": list(strides), "dilations": list(dilations),
                 "pads_begin": list(begins), "pads_end": list(ends)}
        onnx_attrs = {"strides": list(strides), "dilations": list(dilations),
                      "pads": list(begins + ends)}
        for group, outputs, bias, dtype in ((1, 4, True, "f32"), (1, 3, True, "f16"),
                                            (2, 4, False, "f32"), (4, 8, True, "f64")):
            x, w = (draw.standard_normal(shape).astype(NAMES[dtype])
                    for shape in ((2, 4, *spatial), (outputs, 4 // group, *kernel)))
            b = [draw.standard_normal((outputs,)).astype(NAMES[dtype])] if bias else []
            columns = unfold(wide(x), kernel, strides, dilations, begins, ends)
            windows = columns.shape[2 + len(kernel):]
            columns = columns.reshape(2, group, 4 // group * math.prod(kernel), -1)
            weights = wide(w).reshape(group, outputs // group, -1)
            y = np.einsum("gok,ngkp->ngop", weights, columns).reshape(2, outputs, *windows)
            y = last(y) + (wide(b[0]) if bias else 0)
            perm = {"perm": [0, rank - 1, *range(1, rank - 1)]}
            chain = [("Transpose", ["x0"], "x", perm), ("Transpose", ["x1"], "w", perm),
                     ("Conv", ["x", "w", "x2"][:2 + bias], "t", {**onnx_attrs, "group": group}),
                     ("Transpose", ["t"], "y", {"perm": [0, *range(2, rank), 1]})]
            case("Conv", [last(x), last(w), *b], y, {**attrs, "group": group, "channels_last": 1},
                 chain)
        x = draw.standard_normal((2, 3, *spatial)).astype(np.float32)
        y = unfold(x, kernel, strides, dilations, begins, ends)
        case("Unfold", [last(x)], last(y), {"kernel": list(kernel), **attrs, "channels_last": 1})


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


def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention():
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


def packed_attention():
    draw = np.random.default_rng(3)
    for bounds in ([0, 3, 3, 7], [0, 9], [2, 4, 8], [0, 1, 2, 9], [0, 0]):
        q, k, v = (draw.normal(size=(2, 9, d)).astype(np.float32) for d in (8, 8, 4))
        y = np.zeros((2, 9, 4))
        for begin, end in zip(bounds, bounds[1:]):
            if end > begin:
                s = wide(q[:, begin:end]) @ np.swapaxes(wide(k[:, begin:end]), 1, 2) * 0.25
                y[:, begin:end] = softmax(s) @ wide(v[:, begin:end])
        case("Attention", [q, k, v, np.array(bounds)], y, {"scale": 0.25, "packed": [9]},
             note="packed sequences")


def main():
    for group in (pointwise, reductions, views, convolutions, indexed, products, composites,
                  attention, places, rare_pointwise, channels_last, parametric, ordered,
                  quantized, packed_attention, float8, float8_products, block_products, far_out,
                  grouped, transforms, linear_algebra, mixtures, linear_attention,
                  causal_convolutions):
        group()
    path = pathlib.Path(__file__).parent / "goldens.json"
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    path.write_text('{"cases":[\n' + lines + "\n]}\n")
    seen = sum("onnxruntime" in c["by"] for c in cases)
    print(f"{len(cases)} cases, {seen} of them confirmed by ONNX Runtime, "
          f"{path.stat().st_size} bytes in {path.name}")


if __name__ == "__main__":
    main()
