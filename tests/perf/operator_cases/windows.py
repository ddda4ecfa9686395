# SPDX-License-Identifier: Apache-2.0
"""Windows over images and sequences: pooling, convolutions, interpolation, sampling, detection."""
import numpy as np

from . import FLOATS, MS, PRODUCTS, Case, F, Value, below, between, const, index, normal, of_class, three, torch, weight, x

IMAGES = ((1, 16, 16, 16), (4, 64, 56, 56), (16, 64, 256, 256))


def pooled(function, size, shape, kernel, stride, pad, variant="", last=False, operator="MaxPool", **attributes):
    rank = len(shape) - 2
    given = (shape[0], *shape[2:], shape[1]) if last else shape
    return Case(operator, size, [x(*given)], lambda x: function(x, kernel, stride, pad), variant, last=last, attributes={
        "kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank, **attributes})


@of_class("pooling")
def pooling():
    average = {"operator": "AveragePool", "count_include_pad": 1}
    for size, shape in three(*IMAGES):
        for last in (False, True):
            end = "_nhwc" if last else ""
            yield pooled(F.max_pool2d, size, shape, 3, 2, 1, f"3x3_s2{end}", last)
            yield pooled(F.max_pool2d, size, shape, 2, 2, 0, f"2x2{end}", last)
            yield pooled(F.avg_pool2d, size, shape, 3, 1, 1, f"3x3{end}", last, **average)
        yield pooled(F.avg_pool2d, size, shape, 2, 2, 0, "2x2", **average)
    for size, shape in three((1, 16, 20, 20), (1, 512, 20, 20), (8, 512, 80, 80)):
        for kernel in (5, 9, 13):
            yield pooled(F.max_pool2d, size, shape, kernel, 1, kernel // 2, f"{kernel}x{kernel}")
    yield pooled(F.max_pool2d, "75", (16, 64, 75, 75), 3, 2, 1, "3x3_s2")
    yield pooled(F.max_pool2d, "7", (64, 960, 7, 7), 3, 1, 1, "3x3_s1")
    for size, shape in three((1, 8, 8, 8, 8), (1, 64, 16, 56, 56), (4, 64, 32, 64, 64)):
        yield pooled(F.avg_pool3d, size, shape, 2, 2, 0, "3d", **average)
        yield pooled(F.max_pool3d, size, shape, 3, 2, 1, "3d")
    for size, shape in three((1, 16, 512), (8, 64, 8000), (16, 64, 32_000)):
        yield pooled(F.max_pool1d, size, shape, 3, 2, 1, "1d")
    for size, (n, c, h, w) in three(*IMAGES):
        yield Case("LpPool", size, [x(n, c, h, w)], lambda x: F.lp_pool2d(x, 2, 2), attributes={"kernel_shape": [2, 2], "strides": [2, 2], "p": 2})
        yield Case("MaxUnpool", size, [x(n, c, h, w), Value((n, c, h, w), "i64", corners)],
                   lambda x, i: F.max_unpool2d(x, i % (4 * x.shape[2] * x.shape[3]), 2), attributes={"kernel_shape": [2, 2], "strides": [2, 2]})
        yield Case("NhwcMaxPool", size, [x(n, h, w, c)], None, types=("u8",), domain=MS, no_peer="PyTorch pools no bytes on GPUs",
                   attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})
        yield Case("Col2Im", size, [x(n, 9 * (c // 8), h * w), const([h, w]), const([3, 3])],
                   lambda x, *_, s=(h, w): F.fold(x, s, 3, padding=1), attributes={"pads": [1, 1, 1, 1]}, tolerance=5e-3)


def corners(shape, dtype, seed):
    """Where max_pool2d by 2 of an image of twice the size might have found each: flat places in the whole tensor."""
    n, c, h, w = shape
    down, right = (below(2)((n, c, h, w), np.int64, seed + k) for k in range(2))
    y, across = 2 * np.arange(h)[:, None] + down, 2 * np.arange(w) + right
    return (np.arange(n * c).reshape(n, c, 1, 1) * 4 * h * w + y * 2 * w + across).astype(dtype)


def ragged(n, c, length):
    """`n` sequences of about `length` tokens end to end, with states."""
    ends = np.concatenate([[0], np.cumsum([length + (i % 3 - 1) * (length // 4) for i in range(n)])]).astype(np.int32)
    return [x(int(ends[-1]), c), weight(c, 1, 4), Value((n + 1,), "i32", lambda *_: ends), weight(c, scale=0.1), x(n, c, 3)]


def ragged_conv(x, w, ends, bias, state):
    bounds = ends.tolist()
    parts = [torch.cat([state[i], x[a:b].T], dim=1)[None] for i, (a, b) in enumerate(zip(bounds, bounds[1:]))]
    return torch.cat([F.conv1d(part, w, bias, groups=w.shape[0])[0].T for part in parts])


def convolved(size, n, c, side, m, kernel, stride=1, group=1, dilation=1, variant="", last=False, types=PRODUCTS, pad=None, rank=2):
    """A convolution of images, sequences or volumes of `side` elements each way."""
    sides = side if isinstance(side, tuple) else (side,) * rank
    rank = len(sides)
    pad = dilation * (kernel // 2) if pad is None else pad
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    made = [(s + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for s in sides]
    return Case("Conv", size, [x(*((n, *sides, c) if last else (n, c, *sides))), weight(m, c // group, *[kernel] * rank), weight(m, scale=0.1)],
                lambda x, w, b: function(x, w, b, stride, pad, dilation, group), variant + ("_nhwc" if last else ""), types, last=last,
                flops=2 * n * m * int(np.prod(made)) * (c // group) * kernel ** rank,
                attributes={"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank, "group": group,
                            "dilations": [dilation] * rank})


@of_class("convolutions")
def convolutions():
    for size, n, c, side in (("small", 1, 16, 16), ("middle", 1, 128, 28), ("large", 32, 128, 64)):
        for last in (False, True):
            yield convolved(size, n, c, side, c, 3, variant="3x3", last=last)
            yield convolved(size, n, c, side, 2 * c, 1, variant="1x1", last=last)
        yield convolved(size, n, c, side, c, 3, 2, variant="3x3_s2")
        yield convolved(size, n, c, side, c, 3, dilation=2, variant="dilated")
        yield convolved(size, n, c, side, c, 3, group=c // 8, variant="grouped")
        yield convolved(size, n, c, side, 1, 3, variant="to_1")
    for size, n, side in (("small", 1, 32), ("middle", 1, 224), ("large", 32, 224)):
        yield convolved(size, n, 3, side, 64, 7, 2, variant="stem_7x7")
        yield convolved(size, n, 3, side, 32, 3, 2, variant="stem_3x3")
        yield convolved(size, n, 3, side - side % 16, 192, 16, 16, variant="patches", pad=0)
    for size, n, c, side in (("small", 1, 32, 7), ("middle", 1, 512, 7), ("large", 32, 2048, 7)):
        yield convolved(size, n, c, side, c, 1, variant="49_pixels")
    for size, n, c, length in (("small", 1, 16, 128), ("middle", 1, 80, 3000), ("large", 8, 128, 16_000)):
        yield convolved(size, n, c, (length,), 2 * c, 3, variant="1d")
    yield convolved("160k", 1, 1, (160_000,), 512, 10, 5, variant="1d_of_sound", pad=0)
    for size, n, c, side in (("small", 1, 8, 8), ("middle", 1, 32, 32), ("large", 1, 64, 64)):
        yield convolved(size, n, c, side, c, 3, variant="3d", rank=3)


@of_class("depthwise")
def depthwise():
    types = FLOATS
    for size, n, c, side in (("small", 1, 16, 16), ("middle", 1, 96, 56), ("large", 8, 192, 128)):
        for kernel in (3, 5, 7):
            for last in (False, True):
                yield convolved(size, n, c, side, c, kernel, group=c, variant=f"depthwise_{kernel}x{kernel}", last=last, types=types)
        yield convolved(size, n, c, side, c, 3, 2, group=c, variant="depthwise_3x3_s2", types=types)
    yield convolved("64", 8, 192, 64, 192, 7, group=192, variant="depthwise_7x7", types=types)
    yield convolved("64", 8, 192, 64, 192, 31, group=192, variant="depthwise_31x31", types=types)
    yield convolved("75", 8, 192, 75, 192, 7, group=192, variant="depthwise_7x7", types=types)
    yield convolved("64", 8, 192, 64, 192, 3, group=192, dilation=2, variant="depthwise_dilated", types=types)
    yield convolved("7", 64, 960, 7, 960, 5, group=960, variant="depthwise_5x5", types=types)
    for size, n, c, length in (("small", 1, 32, 128), ("middle", 2, 512, 1000), ("large", 16, 1024, 2048)):
        yield convolved(size, n, c, (length,), c, 31, group=c, variant="depthwise_1d", types=types)
        yield Case("CausalConvWithState", size, [x(n, c, length), weight(c, 1, 4), weight(c, scale=0.1)],
                   lambda x, w, b: F.conv1d(F.pad(x, (3, 0)), w, b, groups=x.shape[1]), opset=27, outputs=1)
        yield Case("CausalConvWithState", size, [x(n, c, length), weight(c, 1, 4), weight(c, scale=0.1)],
                   lambda x, w, b: F.silu(F.conv1d(F.pad(x, (3, 0)), w, b, groups=x.shape[1])), "silu", domain=MS, outputs=1,
                   attributes={"activation": "silu"})
        yield Case("VarlenCausalConvWithState", size, ragged(n, c, length), ragged_conv, domain=MS, outputs=1)


def turned(size, n, c, side, m, kernel, stride, variant, pad=None, rank=2):
    pad = (kernel - stride) // 2 if pad is None else pad
    function = (F.conv_transpose1d, F.conv_transpose2d)[rank - 1]
    return Case("ConvTranspose", size, [x(n, c, *[side] * rank), weight(c, m, *[kernel] * rank, scale=(c * kernel) ** 0.5), weight(m, scale=0.1)],
                lambda x, w, b: function(x, w, b, stride, pad), variant, PRODUCTS, flops=2 * n * m * c * side ** rank * kernel ** rank,
                attributes={"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank})


@of_class("convolutions")
def transposed():
    for size, n, c, side in (("small", 1, 16, 8), ("middle", 1, 64, 64), ("large", 8, 256, 64)):
        yield turned(size, n, c, side, c // 2, 4, 2, "4x4")
        yield turned(size, n, c, side, c // 2, 2, 2, "2x2")
    for size, n, c, length in (("small", 1, 32, 64), ("middle", 1, 256, 512), ("large", 4, 512, 2048)):
        yield turned(size, n, c, length, c // 2, 16, 8, "1d_of_16", rank=1)


@of_class("convolutions")
def fused():
    """As optimisers of ONNX Runtime write them."""
    for size, n, c, side in (("small", 1, 16, 16), ("middle", 1, 128, 28), ("large", 32, 128, 64)):
        shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        flops = 2 * n * c * c * side * side * 9
        kernel = weight(c, 3, 3, c, scale=(9 * c) ** 0.5)
        yield Case("FusedConv", size, [x(n, c, side, side), weight(c, c, 3, 3), weight(c, scale=0.1)],
                   lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), types=PRODUCTS, domain=MS, flops=flops, attributes={**shape, "activation": "Relu"})
        yield Case("NhwcConv", size, [x(n, side, side, c), kernel, weight(c, scale=0.1)],
                   lambda x, w, b: F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, padding=1).permute(0, 2, 3, 1), domain=MS,
                   types=PRODUCTS, flops=flops, attributes=shape)
        yield Case("NhwcFusedConv", size, [x(n, side, side, c), weight(c, c, 3, 3), weight(c, scale=0.1)],
                   lambda x, w, b: F.relu(F.conv2d(x.permute(0, 3, 1, 2), w, b, padding=1)).permute(0, 2, 3, 1), domain=MS, types=("f16",),
                   flops=flops, attributes={**shape, "activation": "Relu"})


def resized(size, shape, scale, mode, theirs, variant, antialias=0, coordinates="half_pixel"):
    from . import math
    sizes = [*shape[:2], *[math.floor(s * scale) for s in shape[2:]]]
    options = {} if theirs == "nearest" else {"align_corners": coordinates == "align_corners", "antialias": bool(antialias)}
    return Case("Resize", size, [x(*shape), None, None, const(sizes)], lambda x, *_: F.interpolate(x, sizes[2:], mode=theirs, **options),
                variant, attributes={"mode": mode, "antialias": antialias, "exclude_outside": antialias, "cubic_coeff_a": -0.5 if antialias else -0.75,
                                     "coordinate_transformation_mode": coordinates,
                                     **({"nearest_mode": "floor"} if mode == "nearest" else {})}, tolerance=5e-3)


@of_class("interpolation")
def interpolation():
    for size, shape in three((1, 8, 8, 8), (1, 64, 64, 64), (4, 64, 128, 128)):
        yield resized(size, shape, 2, "nearest", "nearest", "nearest_2x", coordinates="asymmetric")
        yield resized(size, shape, 2, "linear", "bilinear", "bilinear_2x")
        yield resized(size, shape, 4, "linear", "bilinear", "bilinear_4x")
        yield resized(size, shape, 2, "linear", "bilinear", "corners", coordinates="align_corners")
        yield resized(size, shape, 2, "cubic", "bicubic", "cubic_2x")
    for size, shape in three((1, 3, 64, 64), (1, 3, 1080, 1920), (16, 3, 1080, 1920)):
        yield resized(size, shape, 0.25, "linear", "bilinear", "antialiased_down", 1)
        yield resized(size, shape, 0.25, "cubic", "bicubic", "antialiased_cubic_down", 1)
        yield resized(size, shape, 0.5, "linear", "bilinear", "down")
    for size, shape in three((1, 4, 8, 8, 8), (1, 16, 32, 32, 32), (1, 64, 64, 64, 64)):
        yield resized(size, shape, 2, "linear", "trilinear", "trilinear_2x")
    for size, shape in three((1, 8, 8, 8), (1, 64, 64, 64), (4, 64, 128, 128)):
        yield Case("Upsample", size, [x(*shape), const([1, 1, 2, 2], "f32")], lambda x, _: F.interpolate(x, scale_factor=2, mode="nearest"),
                   opset=9, attributes={"mode": "nearest"})


def unit_grid(shape, dtype, seed):
    """Places somewhat beyond the image's border."""
    return between(-1.05, 1.05)(shape, dtype, seed)


def rounded(*shape):
    return Value(shape, "T", between(-0.9, 0.9))


@of_class("sampling")
def sampling():
    for size, n, c, side in (("small", 1, 8, 16), ("middle", 1, 64, 64), ("large", 8, 64, 256)):
        for mode, theirs in (("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")):
            yield Case("GridSample", size, [x(n, c, side, side), x(n, side, side, 2, kind=unit_grid)],
                       lambda x, g, m=theirs: F.grid_sample(x, g, m, "zeros", align_corners=False), mode,
                       attributes={"mode": mode, "padding_mode": "zeros", "align_corners": 0}, tolerance=2e-2,
                       compared=0 if mode == "nearest" else None)
        yield Case("AffineGrid", size, [x(n, 2, 3), const([n, c, side, side])],
                   lambda t, _, s=(n, c, side, side): F.affine_grid(t, s, align_corners=False), attributes={"align_corners": 0})
    for size, n, c, side, m in (("small", 1, 8, 8, 8), ("middle", 1, 64, 50, 64), ("large", 4, 256, 64, 256)):
        flops = 2 * n * m * c * 9 * side * side
        yield Case("DeformConv", size, [x(n, c, side, side), weight(m, c, 3, 3), x(n, 18, side, side), weight(m, scale=0.1), x(n, 9, side, side, kind=between(0, 1))],
                   vision("deform_conv2d", lambda f, x, w, o, b, k: f(x, o, w, b, padding=1, mask=k)), types=PRODUCTS, flops=flops,
                   attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, tolerance=2e-2)


def vision(name, call):
    """A function of torchvision's operators."""
    def made(*tensors):
        import torchvision.ops
        return call(getattr(torchvision.ops, name), *tensors)
    return made


def boxes(side, largest):
    def made(shape, dtype, seed):
        start = between(0, side - 1)((*shape[:-1], 2), np.float32, seed)
        extent = between(1, largest)((*shape[:-1], 2), np.float32, seed + 1)
        return np.concatenate([start, np.minimum(start + extent, side)], -1).astype(dtype)
    return made


@of_class("detection")
def detection():
    for size, c, side, count in (("small", 8, 16, 8), ("middle", 64, 50, 300), ("large", 256, 200, 1000)):
        yield Case("RoiAlign", size, [x(1, c, side, side), x(count, 4, kind=boxes(side * 4, side)), Value((count,), "i64", zeros)],
                   vision("roi_align", lambda f, x, r, b: f(x, torch.cat((b[:, None].to(r.dtype), r), 1), 7, 0.25, 2, aligned=True)),
                   types=("f32",), opset=16, attributes={"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.25},
                   moved=lambda a, o: a[0].nbytes + o[0].nbytes)
    for size, count, classes in (("small", 50, 1), ("middle", 1000, 1), ("large", 8400, 80)):
        yield Case("NonMaxSuppression", size, [x(1, count, 4, kind=boxes(640, 120)), x(1, classes, count, kind=scores), const([100]),
                                               const([0.5], "f32"), const([0.25], "f32")],
                   vision("nms", lambda f, b, s, *_: f(b[0], s[0, 0], 0.5)) if classes == 1 else None, types=("f32",), compared=0, captured=False,
                   no_peer="" if classes == 1 else "torchvision has other scores of classes")


def zeros(shape, dtype, seed):
    return np.zeros(shape, dtype)


def scores(shape, dtype, seed):
    return between(0, 1)(shape, dtype, seed)
