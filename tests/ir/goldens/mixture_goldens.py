# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: which experts are chosen, and matmuls of rows by group. With numbers of their own."""

import numpy as np

from golden_cases import NAMES, case, wide


def mixtures():
    draw = np.random.default_rng(20261201)

    def random(shape, dtype="f32", scale=1.0):
        return (draw.standard_normal(shape) * scale).astype(NAMES[dtype])

    def best(values, k):
        return np.argsort(-values, axis=-1, kind="stable")[..., :k]

    def sigmoid(x):
        return 1 / (1 + np.exp(-wide(x)))

    for tokens, experts, k, dtype in ((5, 8, 2, "f32"), (3, 4, 4, "f16"), (0, 3, 1, "f32"), (1, 64, 8, "bf16")):
        x = random((tokens, experts), dtype)
        for scores in ("softmax", "sigmoid", "none"):
            case("Route", [x], best(wide(x), k), {"k": k, "scores": scores}, dtype="i32")
    x, bias = random((6, 12)), random(12)
    case("Route", [x, bias], best(sigmoid(x) + wide(bias), 3), {"k": 3, "scores": "sigmoid", "normalise": 1}, dtype="i32")
    for best_of in (1, 2):
        values = (sigmoid(x) + wide(bias)).reshape(6, 4, 3)
        kept = best(np.sort(values, -1)[..., 3 - best_of:].sum(-1), 2)
        masked = np.full_like(values, -np.inf)
        np.put_along_axis(masked, kept[..., None], np.take_along_axis(values, kept[..., None], 1), 1)
        case("Route", [x, bias], best(masked.reshape(6, 12), 4),
             {"k": 4, "scores": "sigmoid", "groups": 4, "kept_groups": 2, "group_scores": best_of}, dtype="i32")

    def grouped(rows, k, n, offsets, dtype="f32"):
        x, w = random((rows, k), dtype), random((len(offsets) - 1, k, n), dtype)
        y = np.zeros((rows, n))
        for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
            y[begin:end] = wide(x)[begin:end] @ wide(w)[g]
        case("GroupedMatMul", [x, w, np.array(offsets, np.int32)], y)
        case("GroupedMatMul", [x, np.ascontiguousarray(w.transpose(0, 2, 1)), np.array(offsets, np.int32)], y,
             {"transposed": 1})

    for dtype in ("f32", "f16", "bf16", "f64"):
        grouped(9, 5, 7, [0, 4, 4, 9], dtype)
    grouped(6, 3, 2, [1, 1, 3, 5])
    grouped(0, 3, 2, [0, 0, 0])
    grouped(4, 1, 1, [0, 0, 0, 0, 4])
    for bits, group, zero in ((8, 16, False), (4, 16, True), (4, 0, False)):
        n, k, offsets = 5, 32, [0, 3, 3, 6]
        low, high = (-8, 8) if bits == 4 else (-128, 128)
        blocks = k // group if group else 1
        q = draw.integers(low, high, (3, n, k))
        x, scales = random((7, k)), random((3, n, blocks), scale=0.1)
        packed = ((q + 8).astype(np.uint8)[..., ::2] | (q + 8).astype(np.uint8)[..., 1::2] << 4) if bits == 4 \
            else q.astype(np.int8)
        zeros = draw.integers(low, high, (3, n, blocks)).astype(np.int8)
        each = np.arange(k) // group if group else np.zeros(k, int)
        w = (q - (zeros[..., each] if zero else 0)) * wide(scales)[..., each]
        y = np.zeros((7, n))
        for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
            y[begin:end] = wide(x)[begin:end] @ w[g].T
        codes = f"(i{bits} - i8)" if zero else f"i{bits}"
        case("GroupedMatMul", [x, packed, scales, *([zeros] if zero else []), np.array(offsets + [7], np.int32)], y,
             {"w": f"{codes} * f32 {f'group {group}' if group else 'row'}"})
