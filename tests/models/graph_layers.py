# SPDX-License-Identifier: Apache-2.0
"""Makers of random nodes: products, windows, norms, samples, recurrent layers, quantization, signals, control flow."""
import numpy as np
from onnx import TensorProto, helper

from graph_generator import FLOATS, Skip, proto_type
from graph_operators import maker

F32 = {"f32": 0, "f64": 0, "f16": 0}


# Products.

@maker("MatMul")
def matmul(g, name):
    a = g.any(F32 if g.chance(0.85) else {"i32": 0, "i64": 0}, low=1, high=5)
    inner = a.shape[-1]
    if g.chance(0.2):
        return g.node(name, [a, g.either(a.type, (inner,))])
    batch = [n if g.chance(0.6) else 1 for n in a.shape[:-2]]
    batch = batch[g.integer(0, len(batch)):] if batch else ([g.pick([1, 2])] if g.chance(0.2) else [])
    g.node(name, [a, g.either(a.type, (*batch, inner, g.pick([1, 2, 3, 8, 17])))])


@maker("Gemm", since=7)
def gemm(g, name):
    m, n, k = (g.pick([1, 2, 3, 5, 8, 16]) for _ in range(3))
    type = g.pick(["f32", "f32", "f64", "f16"])
    left, right = g.integer(0, 1), g.integer(0, 1)
    a = g.new(type, (k, m) if left else (m, k))
    b = g.either(type, (n, k) if right else (k, n))
    c = g.either(type, g.pick([(n,), (m, n), (1, n), (m, 1), (), (1,)])) if g.chance(0.7) or g.opset < 11 else None
    g.node(name, [a, b, c], transA=left, transB=right, alpha=float(g.pick([1, 0.5, 2])), beta=float(g.pick([1, 0.25])))


@maker("Einsum", since=12)
def einsum(g, name):
    letters = dict(zip("abcdij", (g.pick([1, 2, 3, 5]) for _ in range(6))))
    equation = g.pick(["ij,jd->id", "aij,ajd->aid", "aij,aij->a", "ij->ji", "aii->ai", "ij->", "abi,abj->abij", "ab,cb",
                       "i,j->ij", "...i,ij->...j", "abcd,abjd->abcj", "ii->i", "ab,bc,cd->ad", "a...->...a"])
    type = g.pick(["f32", "f32", "f64"])
    terms = equation.split("->")[0].split(",")
    extra = g.shape(0, 2)
    shapes = [[*(letters[c] for c in t.replace("...", ""))] for t in terms]
    shapes = [[*extra, *s] if t.startswith("...") else [*s, *extra] if "..." in t else s for s, t in zip(shapes, terms)]
    g.node(name, [g.new(type, tuple(s)) for s in shapes], equation=equation)


@maker("Det", since=11)
def det(g, name):
    n = g.pick([1, 2, 3, 4, 6])
    g.node(name, [g.new("f32", (*g.shape(0, 2), n, n))])


# Convolutions and pooling.

def windows(g, rank, sizes):
    """Kernel, strides, dilations and pads, or auto_pad, of a window that fits."""
    kernel = [g.pick([k for k in (1, 2, 3, 4) if k <= n]) for n in sizes]
    dilations = [g.pick([1, 1, 2]) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, sizes)]
    attributes = dict(kernel_shape=kernel, strides=[g.pick([1, 1, 2, 3]) for _ in kernel])
    if any(d > 1 for d in dilations):
        attributes["dilations"] = dilations
    # Under SAME, ONNX Runtime gives pools a negative padding where windows are shorter than strides.
    shorter = any(k < s for k, s in zip(kernel, attributes["strides"]))
    if g.chance(0.3):
        attributes["auto_pad"] = "VALID" if shorter else g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        attributes.pop("dilations", None)
    else:
        attributes["pads"] = [min(g.integer(0, 2), k - 1) for k in kernel * 2]
    return attributes


def spatial(g, most=3):
    rank = g.pick([1, 2, 2, 2, 3][:5 if most > 2 else 4])
    return rank, [g.pick([3, 4, 5, 7, 8]) if rank < 3 else g.pick([2, 3, 4]) for _ in range(rank)]


@maker("Conv", "ConvTranspose", "ConvInteger", since=11)
def conv(g, name):
    rank, sizes = spatial(g)
    group = g.pick([1, 1, 1, 2, 4])
    channels, out = group * g.pick([1, 2, 3]), group * g.pick([1, 2, 4])
    window = windows(g, rank, sizes)
    kernel, n = window["kernel_shape"], g.pick([1, 1, 2] + [0] * g.empty)
    if name == "ConvInteger":
        types = g.pick(["u8", "i8"]), g.pick(["u8", "i8"])
        x, w = g.new(types[0], (n, channels, *sizes)), g.either(types[1], (out, channels // group, *kernel))
        zero = [g.constant(g.integer(0, 9), types[0])] if g.chance(0.6) else []
        if zero and g.chance(0.4):
            zero.append(g.constant(g.integer(0, 9), types[1]))
        return g.node(name, [x, w, *zero], group=group, **window)
    type = g.pick(["f32", "f32", "f32", "f16"])  # ONNX's reference, which has float64, errs about groups
    x = g.new(type, (n, channels, *sizes))
    if name == "Conv":
        w = g.either(type, (out, channels // group, *kernel))
    else:
        w = g.either(type, (channels, out // group, *kernel))
        if g.chance(0.3):
            window["output_padding"] = [g.integer(0, s - 1) for s in window["strides"]]
    bias = g.either(type, (out,)) if g.chance(0.5) else None
    if g.chance(0.3):
        window.pop("kernel_shape")
    g.node(name, [x, w, bias], group=group, **window)


@maker("MaxPool", "AveragePool", "LpPool", since=11)
def pool(g, name):
    rank, sizes = spatial(g)
    type = g.pick(["f32", "f32", "f64", "f16"] + (["i8", "u8"] if name == "MaxPool" and g.opset >= 12 else []))
    window = windows(g, rank, sizes)
    if name == "LpPool":
        type = "f32"  # ONNX's reference rounds the number of windows in its own way
        if g.opset < 18:
            window.pop("dilations", None)
        window["p"] = g.pick([1, 2, 3])
    if name == "AveragePool":
        type = "f32"  # likewise
        if g.opset < 19:
            window.pop("dilations", None)
        window["count_include_pad"] = g.integer(0, 1)
    if g.chance(0.3) and (name != "LpPool" or g.opset >= 18):
        window["ceil_mode"] = 1
    x = g.new(type, (g.pick([1, 2]), g.pick([1, 3]), *sizes))
    outputs = 2 if name == "MaxPool" and g.chance(0.3) and "ceil_mode" not in window else 1
    g.node(name, [x], outputs, exact=name == "MaxPool", **window)


@maker("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN", "LpNormalization", "MeanVarianceNormalization",
       "InstanceNormalization", "BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization",
       since=9)
def norms(g, name):
    since = {"LayerNormalization": 17, "GroupNormalization": 21, "RMSNormalization": 23}
    if g.opset < since.get(name, 1):
        raise Skip("older")
    type = g.pick(["f32", "f32", "f64", "f16"])
    epsilon = float(g.pick([1e-5, 1e-3, 0.1])) if g.chance(0.5) else None
    if name in ("LayerNormalization", "RMSNormalization"):
        x = g.any({"f32": 0, "f16": 0, "f64": 0}, low=1, high=6)
        axis = g.axis(x)
        shape = x.shape[axis:]
        scale = g.either(x.type, shape)
        if name[0] == "R":
            return g.node(name, [x, scale], axis=axis, epsilon=epsilon)
        bias = g.either(x.type, shape) if g.chance(0.6) else None
        return g.node(name, [x, scale, bias], g.pick([1, 1, 1, 3]) if x.type == "f32" else 1, axis=axis, epsilon=epsilon)
    if name == "LpNormalization":
        x = g.any({"f32": 0, "f64": 0}, low=1)
        return g.node(name, [x], axis=g.axis(x), p=g.pick([1, 2]))
    n, c = g.pick([1, 2]), g.pick([1, 2, 4, 6])
    if name in ("LRN", "MeanVarianceNormalization"):
        type = "f32"
    x = g.new(type, (n, c, *(spatial(g)[1])))
    if name == "LRN":
        return g.node(name, [x], size=g.pick([1, 3, 5]), alpha=0.1, beta=0.75, bias=float(g.pick([1, 2])))
    if name == "MeanVarianceNormalization":
        axes = sorted({a % x.rank for a in g.axes(x, 1)}) if x.rank != 4 or g.chance(0.5) else None
        if all(x.shape[a] == 1 for a in axes or (0, 2, 3)):
            raise Skip("no variance")
        return g.node(name, [x], axes=axes)
    if name == "InstanceNormalization":
        return g.node(name, [x, g.either(type, (c,)), g.either(type, (c,))], epsilon=epsilon)
    if name == "BatchNormalization":
        var = g.either(type, (c,), low=0.3, high=2)
        return g.node(name, [x, *(g.either(type, (c,)) for _ in range(3)), var], epsilon=epsilon)
    if name == "GroupNormalization":
        return g.node(name, [x, g.either(type, (c,)), g.either(type, (c,))], epsilon=epsilon,
                      num_groups=g.pick([d for d in (1, 2, 3, 6) if c % d == 0]))
    g.node(name, [x], p=g.pick([1, 2, 3]) if name == "GlobalLpPool" else None, exact=name == "GlobalMaxPool")


# Samples.

@maker("Resize", since=11)
def resize(g, name):
    x = g.new(g.pick(["f32", "f32", "f64", "u8"]), (g.pick([1, 2]), g.pick([1, 3]), *spatial(g, 2)[1]))
    mode = g.pick(["nearest", "nearest", "linear", "cubic"] if x.rank == 4 else ["nearest", "linear"])
    if x.type == "u8":
        mode = "nearest"
    if x.type == "f64" and mode == "nearest":
        raise Skip("only ONNX's reference answers, whose positions are not of float32")
    attributes = dict(mode=mode, coordinate_transformation_mode=g.pick(
        ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]))
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes |= dict(cubic_coeff_a=float(g.pick([-0.75, -0.5])), exclude_outside=g.integer(0, 1))
    if g.opset >= 18 and g.chance(0.3) and mode != "nearest":
        attributes["antialias"] = 1
    empty = g.constant(np.zeros(0), "f32")
    if g.chance(0.5):
        scales = [1, 1, *(g.pick([0.5, 2.0, 1.5, 3.0, 1.0, 1 / 3, 0.6]) for _ in x.shape[2:])]
        # ONNX's reference, which answers for float64, takes the length as the fraction that it is, and so do linear and
        # cubic samples that align corners; ONNX Runtime takes what is left of it.
        fraction = any(s * n != int(s * n) for s, n in zip(scales, x.shape))
        asks = {"align_corners": mode != "nearest", "pytorch_half_pixel": x.type == "f64"}
        if fraction and asks.get(attributes["coordinate_transformation_mode"]):
            raise Skip("the peers differ about the length")
        return g.node(name, [x, empty, g.constant(scales, "f32")], exact=mode == "nearest", **attributes)
    sizes = [*x.shape[:2], *(g.integer(1, 12) for _ in x.shape[2:])]
    g.node(name, [x, empty, empty if g.opset < 13 else None, g.constant(sizes)], exact=mode == "nearest", **attributes)


@maker("GridSample", "AffineGrid", "RoiAlign", "MaxUnpool", "Col2Im", since=16)
def samples(g, name):
    if name == "RoiAlign":
        x = g.new("f32", (2, g.pick([1, 3]), 8, 8))
        n = g.integer(1, 3)
        low = g.numbers("f32", (n, 2), 0, 3)
        boxes = np.concatenate([low, low + g.numbers("f32", (n, 2), 1, 5)], 1)
        return g.node(name, [x, g.new("f32", (n, 4), boxes), g.constant(g.numbers("i64", (n,), 0, 1))],
                      output_height=g.pick([1, 2, 3]), output_width=g.pick([1, 2, 4]), sampling_ratio=g.pick([0, 1, 2]),
                      spatial_scale=float(g.pick([1, 0.5])), mode=g.pick(["avg", "max"]) if g.chance(0.5) else None)
    if name == "Col2Im":
        if g.opset < 18:
            raise Skip("older")
        h, w, kh, kw = g.integer(3, 6), g.integer(3, 6), g.integer(1, 3), g.integer(1, 3)
        x = g.new("f32", (g.pick([1, 2]), 2 * kh * kw, (h - kh + 1) * (w - kw + 1)))
        return g.node(name, [x, g.constant([h, w]), g.constant([kh, kw])])
    if name == "AffineGrid":
        if g.opset < 20:
            raise Skip("older")
        n = g.pick([1, 2])
        return g.node(name, [g.new("f32", (n, 2, 3)), g.constant([n, 2, g.integer(2, 5), g.integer(2, 5)])],
                      align_corners=g.integer(0, 1))
    if name == "GridSample":
        n, mode = g.pick([1, 2]), g.pick([0, 1])
        modes = (["bilinear", "nearest", "bicubic"] if g.opset < 20 else ["linear", "nearest", "cubic"])
        x = g.new("f32", (n, g.pick([1, 3]), g.integer(2, 6), g.integer(2, 6)))
        return g.node(name, [x, g.new("f32", (n, g.integer(1, 4), g.integer(1, 4), 2), low=-1.1, high=1.1)],
                      mode=modes[0] if mode else g.pick(modes), align_corners=g.integer(0, 1),
                      padding_mode=g.pick(["zeros", "border", "reflection"]))
    x = g.new("f32", (1, 2, 4, 6), g.random.permutation(48).reshape(1, 2, 4, 6))
    y, places = g.node("MaxPool", [x], 2, exact=True, kernel_shape=[2, 2], strides=[2, 2])
    return g.node(name, [y, places], exact=True, kernel_shape=[2, 2], strides=[2, 2])


# Recurrent layers.

@maker("RNN", "GRU", "LSTM", since=7)
def recurrent(g, name):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    length, n, width, hidden = g.integer(1, 4), g.integer(1, 3), g.integer(1, 4), g.integer(1, 4)
    direction = g.pick(["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    low = dict(low=-0.5, high=0.5)
    operands = [g.new("f32", (length, n, width)), g.either("f32", (d, gates * hidden, width), **low),
                g.either("f32", (d, gates * hidden, hidden), **low),
                g.either("f32", (d, 2 * gates * hidden), **low) if g.chance(0.6) else None,
                g.constant(g.numbers("i32", (n,), 1, length), "i32") if g.chance(0.3) else None,
                g.either("f32", (d, n, hidden), **low) if g.chance(0.4) else None]
    if name == "LSTM":
        operands += [g.either("f32", (d, n, hidden), **low) if g.chance(0.4) else None,
                     g.either("f32", (d, 3 * hidden), **low) if g.chance(0.3) else None]
    g.node(name, operands, g.integer(1, 3 if name == "LSTM" else 2), hidden_size=hidden, direction=direction,
           linear_before_reset=g.integer(0, 1) if name == "GRU" else None,
           clip=1.0 if g.chance(0.2) else None)


# Quantized.

@maker("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul", "QLinearConv",
       since=10)
def quantized(g, name):
    kinds = g.pick(["u8", "i8"])
    if name == "DynamicQuantizeLinear":
        if g.opset < 11:
            raise Skip("older")
        x = g.new("f32", g.shape(1))
        if not x.array.size:
            raise Skip("no range")
        return g.node(name, [x], 3)
    if name == "MatMulInteger":
        other, k = g.pick(["u8", "i8"]), g.integer(1, 9)
        operands = [g.new(kinds, (*g.pick([(), (2,)]), g.integer(1, 5), k)), g.either(other, (k, g.integer(1, 5)))]
        if g.chance(0.5):
            operands += [g.constant(g.integer(0, 9), kinds), g.constant(g.integer(0, 9), other)]
        return g.node(name, operands)
    if name in ("QuantizeLinear", "DequantizeLinear"):
        x = g.new("f32" if name[0] == "Q" else kinds, g.shape(1))
        per = g.chance(0.4) and g.opset >= 13 and x.rank
        axis = g.axis(x) if per else None
        shape = (x.shape[axis],) if per else ()
        scale = g.either("f32", shape, low=0.05, high=0.3)
        zero = g.constant(g.numbers(kinds, shape, 0, 9), kinds) if name[0] == "Q" or g.chance(0.7) else None
        return g.node(name, [x, scale, zero], axis=axis, exact=name[0] == "Q")
    scale = lambda: g.constant(float(g.random.uniform(0.01, 0.1)), "f32")  # noqa: E731
    zero = lambda: g.constant(g.integer(0, 9), kinds)  # noqa: E731
    if name == "QLinearMatMul":
        k = g.integer(1, 9)
        a, b = g.new(kinds, (*g.pick([(), (2,)]), 3, k)), g.either(kinds, (k, 4))
        return g.node(name, [a, scale(), zero(), b, scale(), zero(), scale(), zero()])
    x, w = g.new(kinds, (1, 2, 6, 6)), g.constant(g.numbers(kinds, (3, 2, 3, 3)), kinds)
    g.node(name, [x, scale(), zero(), w, scale(), zero(), scale(), zero()], pads=g.pick([[0] * 4, [1] * 4]))


# Signals.

@maker("HannWindow", "HammingWindow", "BlackmanWindow", "DFT", since=17)
def signal(g, name):
    if name != "DFT":
        return g.node(name, [g.constant(g.integer(2, 12))], periodic=g.integer(0, 1))
    x = g.new("f32", (g.pick([1, 2]), g.pick([4, 5, 8]), g.pick([1, 2])))
    inverse, onesided = g.pick([(0, 0), (0, 1), (1, 0)])
    if x.shape[-1] == 2:
        onesided = 0
    if g.opset < 20:
        return g.node(name, [x], axis=1, inverse=inverse, onesided=onesided)
    g.node(name, [x, None, g.constant(1)], inverse=inverse, onesided=onesided)


# Attention.

@maker("Attention", since=23)
def attention(g, name):
    n, heads, q, k, width = g.pick([1, 2]), g.pick([1, 2, 4]), g.integer(1, 5), g.integer(1, 6), g.pick([2, 4, 8])
    shared = g.pick([1, heads])
    operands = [g.new("f32", (n, heads, q, width)), g.new("f32", (n, shared, k, width)),
                g.new("f32", (n, shared, k, width))]
    if g.chance(0.4):
        operands.append(g.new("f32", g.pick([(q, k), (n, 1, q, k), (1, heads, q, k)])))
    g.node(name, operands, is_causal=1 if g.chance(0.3) else None, scale=0.3 if g.chance(0.3) else None,
           softcap=2.0 if g.chance(0.2) else None)


# Control flow.

def body_output(name, array, shape=None):
    return helper.make_tensor_value_info(name, proto_type(array), shape)


@maker("If", since=11)
def branch(g, name):
    x = g.any({**FLOATS, "i32": 0, "i64": 0})
    graphs = {}
    for which, kind in (("then_branch", g.pick(["Neg", "Abs"])), ("else_branch", g.pick(["Identity", "Neg"]))):
        out = f"{g.prefix}b{len(g.nodes)}_{which[0]}"
        graphs[which] = helper.make_graph([helper.make_node(kind, [x.name], [out])], which, [],
                                          [body_output(out, x.array, x.shape)])
    condition = g.constant(g.chance(0.5), "bool") if g.chance(0.4) else g.new("bool", ())
    g.captured(name, [condition], x, **graphs)


@maker("Loop", since=11)
def loop(g, name):
    x = g.any({"f32": 0, "f64": 0, "i32": 0, "i64": 0}, high=6)
    p = f"{g.prefix}l{len(g.nodes)}_"
    step = g.constant(g.numbers(x.type, ()), x.type)
    nodes = [helper.make_node("Add", [p + "x", step.name], [p + "y"]), helper.make_node("Identity", [p + "c"], [p + "d"])]
    outputs = [helper.make_tensor_value_info(p + "d", TensorProto.BOOL, []), body_output(p + "y", x.array, x.shape)]
    scans = g.chance(0.5)
    if scans:
        nodes.append(helper.make_node("Neg", [p + "x"], [p + "z"]))
        outputs.append(body_output(p + "z", x.array, x.shape))
    inputs = [helper.make_tensor_value_info(p + "i", TensorProto.INT64, []),
              helper.make_tensor_value_info(p + "c", TensorProto.BOOL, []), body_output(p + "x", x.array, x.shape)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    g.captured(name, [g.constant(g.integer(0 if g.empty else 1, 5)), g.constant(True, "bool"), x], step, 2 if scans else 1,
               body=body)


@maker("Scan", since=11)
def scan(g, name):
    x = g.any({"f32": 0, "f64": 0, "i64": 0}, low=1, high=5, where=lambda v: v.array.size)
    p, item = f"{g.prefix}k{len(g.nodes)}_", x.shape[1:]
    state = g.either(x.type, item)
    nodes = [helper.make_node("Add", [p + "s", p + "x"], [p + "t"]), helper.make_node("Neg", [p + "t"], [p + "y"])]
    body = helper.make_graph(nodes, "body", [body_output(p + "s", x.array, item), body_output(p + "x", x.array, item)],
                             [body_output(p + "t", x.array, item), body_output(p + "y", x.array, item)])
    g.node(name, [state, x], 2, body=body, num_scan_inputs=1,
           scan_input_directions=[1] if g.chance(0.3) else None)

