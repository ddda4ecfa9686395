# SPDX-License-Identifier: Apache-2.0
"""What is said of a case of run_operator_sweep.py, whichever target it ran on."""
import numpy as np

import common  # noqa: F401  where runs is found
from runs import relative_error

PEAKS = {"f32": 67e12, "tf32": 494e12, "f16": 989e12, "bf16": 989e12, "f64": 67e12, "i8": 1979e12, "u8": 1979e12}  # H100 and H200, FLOP/s
BOUNDS = {"f16": 1e-2, "bf16": 5e-2, "tf32": 5e-3, "f64": 1e-6}  # of relative errors
BOUND = 1e-4  # of other types'


def error_of(found, expected, count=None):
    """The largest relative error of the outputs that are compared; shapes may differ in axes of one element."""
    worst = 0.0
    for ours, theirs in list(zip(found, expected))[:count]:
        ours, theirs = (np.asarray(each).astype(np.float64) for each in (ours, theirs))
        if ours.size == theirs.size:
            ours, theirs = ours.ravel(), theirs.ravel()
            same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
            ours, theirs = np.where(same, 0, ours), np.where(same, np.where(np.isfinite(theirs), theirs, 0), theirs)
            ours = np.where(same, theirs, ours)
        worst = max(worst, relative_error(ours, theirs))
    return worst


def bound_of(point):
    return max(point.case.tolerance, BOUNDS.get(point.type, BOUND))


def finished(row, point, moved, rates):
    """The row with what follows from its times. `differs`: further from the peer than the type's rounding allows."""
    flops = float(point.case.flops)
    peak = rates.get(point.type, rates.get("flops"))
    floor = max(moved / rates["bytes"], flops / peak if peak else 0) * 1e6
    peers = [row[key] for key in ("onnxruntime_us", "eager_us", "compile_us") if key in row]
    row.update(bytes=int(moved), flops=flops, floor_us=round(floor, 2), of_floor=round(floor / row["sinter_us"], 3))
    if row.get("error", 0) > bound_of(point):
        row["differs"] = True
    if peers:
        row["ratio"] = round(min(peers) / row["sinter_us"], 3)
    return {"class": point.case.group, "shapes": " ".join("x".join(map(str, v.shape)) or "1" for v in point.case.inputs if v), **row}
