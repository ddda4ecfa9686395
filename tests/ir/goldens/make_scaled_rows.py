#!/usr/bin/env python3
"""Writes scaled_rows.json: rows of e4m3, each with the best of eight scales, by NumPy in float64, for scaled_rows_test.cpp.

Each scale is tried on the row itself: what its numbers stand for less what they were. Rows whose two best scales are
about as good are not taken, since float32 may find the other one.
"""
import json
from pathlib import Path

import ml_dtypes
import numpy as np

COLUMNS, LEAST = 64, 2.0**-100
LARGEST = (448, 416, 384, 352, 320, 288, 256, 240)  # what a row's largest magnitude may become


def rounded(x, scale):
    return (x / scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


def best(row):
    """Number of the scale, scale, numbers; nothing if the second best is as good."""
    least = max(np.abs(row).max() / 448, LEAST)
    tried = [least * (448 / largest) for largest in LARGEST]
    errors = [np.square(rounded(row, scale) * scale - row).sum() for scale in tried]
    order = np.argsort(errors, kind="stable")
    if errors[order[0]] > 0.999 * errors[order[1]]:
        return None
    return int(order[0]), tried[order[0]], rounded(row, tried[order[0]])


def rows():
    rng = np.random.default_rng(1)
    columns = np.arange(COLUMNS)
    for i in range(16):
        row = rng.standard_normal(COLUMNS)
        yield row * np.where(columns % 23 == i, 8, 1) * 10.0 ** (i % 5 - 2)
    yield rng.standard_normal(COLUMNS) * 1e30  # whose squares no float32 holds
    yield rng.standard_normal(COLUMNS) * 1e-25
    yield np.exp(-0.5 * columns)  # most are subnormal


def main():
    found = []
    for row in rows():
        row = row.astype(np.float32).astype(np.float64)
        made = best(row)
        if made:
            found.append({"row": row.tolist(), "best": made[0], "scale": made[1], "numbers": made[2].tolist()})
    assert len(found) > 16 and len({case["best"] for case in found}) > 4
    lines = ",\n".join(json.dumps(case) for case in found)
    Path(__file__).with_name("scaled_rows.json").write_text(f"[\n{lines}\n]\n")
    print(len(found), "rows, of scales", [case["best"] for case in found])


if __name__ == "__main__":
    main()
