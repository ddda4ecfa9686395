"""Determinants and inverses, by NumPy's own."""

import numpy as np

from golden_cases import NAMES, case, one, wide


def linear_algebra():
    draw = np.random.default_rng(12)
    inverse = [("Inverse", ["x0"], "y", {"domain": "com.microsoft"})]
    for dtype in ("f32", "f64", "f16", "bf16"):
        for shape in ((1, 1), (2, 2), (3, 3, 3), (2, 1, 6, 6), (40, 40), (0, 3, 3), (2, 0, 0)):
            x = draw.standard_normal(shape)
            if shape[-1] > 6:  # not too far from 1
                x = x / shape[-1] ** 0.5 + np.eye(shape[-1])
            x = x.astype(NAMES[dtype])
            witness = dtype in ("f32", "f64") and x.size > 0 and shape[-1] < 6
            case("Determinant", [x], np.linalg.det(wide(x)), {},
                 one("Det") if witness else None)
            case("Inverse", [x], np.linalg.inv(wide(x)), {}, inverse if witness else None)
    # Rows must change places; zero pivots; NaN.
    x = np.array([[0, 2, 1], [1, 0, 0], [0, 1, 3]], np.float32)
    case("Determinant", [x], np.linalg.det(x), {}, one("Det"), note="zeros on the diagonal")
    case("Inverse", [x], np.linalg.inv(x), {}, inverse, note="zeros on the diagonal")
    singular = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 3], [0, 5]]], np.float32)
    case("Determinant", [singular], np.zeros(3), {}, note="singular")
    case("Inverse", [singular], np.full((3, 2, 2), np.nan), {}, note="singular")
    holes = np.array([[[np.nan, 2], [2, 4]], [[0, np.nan], [0, 1]], [[1, 2], [2, np.nan]]],
                     np.float32)
    case("Determinant", [holes], np.full(3, np.nan), {}, note="NaN")
    case("Inverse", [holes], np.full((3, 2, 2), np.nan), {}, note="NaN")
