"""Goldens of floats of 8 bits: conversions as ml_dtypes has them, and what moves them. With numbers of its
own: other cases stay as they are."""

import numpy as np

from golden_cases import FLOATS8, NAMES, case, one


def dense(codes, largest):
    """Every number and middle between two, their neighbours, and what lies outside."""
    draw = np.random.default_rng(20261126)
    near = codes.astype(np.float64)
    near = np.unique(near[np.isfinite(near)])
    middles = (near[1:] + near[:-1]) / 2
    points = np.concatenate([near, middles, [464, 61440, -464, -61440, 1e30, -1e30]]).astype(np.float32)
    around = np.concatenate([points, np.nextafter(points, np.float32(np.inf)),
                             np.nextafter(points, np.float32(-np.inf))])
    random = draw.standard_normal(300) * np.exp2(draw.uniform(-20, 18, 300))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, largest, -largest]
    return np.concatenate([around, random, special]).astype(np.float32)


def float8():
    draw = np.random.default_rng(20261127)
    for name in FLOATS8:
        dtype = NAMES[name]
        codes = np.arange(256, dtype=np.uint8).view(dtype)
        largest = float(np.nanmax(np.where(np.isinf(codes.astype(np.float64)), 0, codes.astype(np.float64))))
        x = dense(codes, largest)
        with np.errstate(all="ignore"):
            for from_name in ("f32", "f64", "f16", "bf16"):
                y = x.astype(NAMES[from_name])
                # One rounding: ml_dtypes goes from float64 to 8 bits through no other type.
                exact = y.astype(np.float64)
                case("CastUnsaturated", [y], exact, {"to": name}, dtype=name)
                case("Cast", [y], np.clip(exact, -largest, largest), {"to": name}, dtype=name)
            for from_name in ("i8", "u8", "i32", "i64"):
                low = 0 if from_name[0] == "u" else -100
                y = np.concatenate([np.arange(low, 100), [0, 120]]).astype(NAMES[from_name])
                if from_name[1:] in ("32", "64"):
                    y = np.concatenate([y, [440, 470, 60000, -70000, 2**30]]).astype(NAMES[from_name])
                case("Cast", [y], np.clip(y.astype(np.float64), -largest, largest), {"to": name}, dtype=name)
            case("Cast", [np.array([True, False])], np.array([1.0, 0.0]), {"to": name}, dtype=name)
            for to in ("f32", "f64", "f16", "bf16"):
                case("Cast", [codes], codes.astype(np.float64), {"to": to}, dtype=to)
            finite = codes[np.isfinite(codes.astype(np.float32))]
            for to in ("i32", "i64"):
                case("Cast", [finite], np.trunc(finite.astype(np.float64)), {"to": to}, dtype=to)
            case("Cast", [codes], codes.astype(np.float32) != 0, {"to": "bool"}, dtype="bool")
        x = draw.standard_normal((2, 3, 4)).astype(dtype)
        case("Transpose", [x], x.transpose(2, 0, 1), {"perm": [2, 0, 1]}, one("Transpose", perm=[2, 0, 1]))
        case("Reshape", [x], x.reshape(4, 6), {"shape": [4, 6]})
        case("Expand", [x[:, :1]], np.broadcast_to(x[:, :1], (2, 3, 4)), {"shape": [2, 3, 4]})
        case("Slice", [x], x[:, 2:0:-1], {"starts": [0, 2, 0], "steps": [1, -1, 1], "shape": [2, 2, 4]})
        case("Concat", [x, x[:, :2]], np.concatenate([x, x[:, :2]], 1), {"axis": 1})
        padded = np.full((2, 6, 4), 1.5, dtype)
        padded[:, 1:4] = x
        case("Pad", [x], padded, {"begins": [0, 1, 0], "ends": [0, 2, 0], "fill": 1.5})
        indices = np.array([2, -3, 0])
        case("Gather", [x, indices], np.take(x, indices, 1), {"axis": 1})
        condition = draw.integers(0, 2, (3, 4)).astype(np.bool_)
        case("Where", [condition, x, x[:1]], np.where(condition, x, x[:1]), dtype=name)
        case("Equal", [codes, codes[::-1].copy()], codes.astype(np.float32) == codes[::-1].astype(np.float32),
             dtype="bool")


def float8_products():
    """Sums of products in float32, whatever formats meet."""
    draw = np.random.default_rng(20261128)
    for left in ("f8e4m3fn", "f8e5m2"):
        for right in ("f8e4m3fn", "f8e5m2"):
            for a, b in (((3, 16), (16, 5)), ((2, 3, 40), (40, 4))):
                x = draw.standard_normal(a).astype(NAMES[left])
                y = draw.standard_normal(b).astype(NAMES[right])
                case("MatMul", [x, y], x.astype(np.float64) @ y.astype(np.float64), dtype="f32")


def block_products():
    """The same with a scale for each block of k of a row, and of a group of columns."""
    draw = np.random.default_rng(20261129)
    for left, right, rows, k, n, block, columns in (("f8e4m3fn", "f8e4m3fn", (3,), 32, 10, 8, 4),
                                                    ("f8e5m2", "f8e4m3fn", (2, 2), 24, 6, 12, 6),
                                                    ("f8e4m3fn", "f8e5m2", (1,), 16, 1, 16, 128)):
        x = draw.standard_normal((*rows, k)).astype(NAMES[left])
        w = draw.standard_normal((k, n)).astype(NAMES[right])
        x_scales = np.exp2(draw.uniform(-3, 3, (*rows, k // block))).astype(np.float32)
        w_scales = np.exp2(draw.uniform(-3, 3, (-(-n // columns), k // block))).astype(np.float32)
        y = np.zeros((*rows, n))
        for b in range(k // block):
            part = slice(b * block, (b + 1) * block)
            sums = x[..., part].astype(np.float64) @ w[part].astype(np.float64)
            y += sums * x_scales[..., b:b + 1] * np.repeat(w_scales[:, b], columns)[:n]
        formats = {"x": f"{left} * f32 group {block}", "w": f"{right} * f32 block {block}x{columns}"}
        case("MatMul", [x, np.ascontiguousarray(w.T), x_scales, w_scales], y, formats, dtype="f32")
