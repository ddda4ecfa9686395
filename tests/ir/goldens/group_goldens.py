# SPDX-License-Identifier: Apache-2.0
"""Indices grouped by value, and rows combined by group. With numbers of its own: other cases stay as they are."""

import numpy as np

from golden_cases import FLOATS, NAMES, case, wide

COMBINES = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def grouped():
    draw = np.random.default_rng(20261130)

    def random(shape, dtype):
        if dtype in FLOATS:
            return draw.standard_normal(shape).astype(NAMES[dtype])
        return draw.integers(0, 10, shape).astype(NAMES[dtype])

    def combined(data, values, index, factors, combine, rows):
        y = np.broadcast_to(wide(data), (rows, values.shape[1])).copy()
        scaled = wide(values) if factors is None else wide(values) * wide(factors)[:, None]
        COMBINES[combine].at(y, index, scaled)
        return y

    for rows, count, dtype in ((5, 12, "i64"), (3, 0, "i64"), (1, 4, "i32"), (300, 40, "i32")):
        index = draw.integers(-rows, rows, count).astype(NAMES[dtype])
        last = np.full(rows, -1)
        last[index % rows] = np.arange(count)
        case("GroupByIndex", [index], np.argsort(index % rows, kind="stable"), {"extent": [rows]}, dtype="i32")
        case("LastByIndex", [index], last, {"extent": [rows]}, dtype="i32")
    for combine in COMBINES:
        for dtype in ("f32", "f16", "bf16", "f64", "i32", "i64", "u8"):
            index = draw.integers(-4, 4, 9)
            values, data = random((9, 3), dtype), random((4, 3) if combine != "max" else (1, 1), dtype)
            case("CombineTable", [data, values, index], combined(data, values, index, None, combine, 4),
                 {"combine": combine, "extent": [4]})
            order = np.argsort(index % 4, kind="stable")
            starts = np.searchsorted(index[order] % 4, np.arange(5)).astype(np.int32)
            factors = random(9, dtype) if combine in ("sum", "min") else None
            sources = random((6, 3), dtype)
            taken = draw.integers(-6, 6, 9).astype(np.int32)
            case("CombineGroups", [data, sources, taken, starts, *([] if factors is None else [factors])],
                 combined(data, sources[taken], index[order] % 4, factors, combine, 4), {"combine": combine})
