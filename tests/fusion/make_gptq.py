#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes gptq.json: what GPTQ in NumPy, in float64 and by the book (the inverse of the moments, column by
column), leaves of the error that gptq_test.cpp measures. Its scales reach the largest number of a group, of 4 bits, or
of a row, of 8 bits: integers and e4m3."""
import json
from pathlib import Path

import numpy as np

ROWS, COLUMNS, GROUP, DAMPING, DAMPING_OF_EIGHT_BITS = 8, 96, 32, 0.05, 0.5


def case():
    i = np.arange(ROWS * COLUMNS)
    weights = np.sin(1.7 * i) + 0.5 * np.cos(0.31 * (i * i % 101))
    j = np.arange(COLUMNS)
    size = 1 + 0.9 * np.sin(0.4 * j)
    return weights.reshape(ROWS, COLUMNS), 0.95 ** abs(j[:, None] - j) * size[:, None] * size


def error(weights, rounded, moments):
    d = rounded - weights
    return float(np.sqrt(np.einsum("ri,ij,rj", d, moments, d) / np.einsum("ri,ij,rj", weights, moments, weights)))


def grid(group, symmetric):
    if symmetric:
        return np.abs(group).max(1) / 7, np.zeros(len(group)), -7, 7
    low, high = np.minimum(group.min(1), 0), np.maximum(group.max(1), 0)
    scale = (high - low) / 15
    return scale, np.rint(-8 - low / scale), -8, 7


def spread(moments, damping=DAMPING):
    damped = moments + damping * moments.diagonal().mean() * np.eye(COLUMNS)
    return np.linalg.cholesky(np.linalg.inv(damped)).T


def gptq(weights, moments, symmetric):
    upper = spread(moments)
    left, rounded = weights.copy(), np.empty_like(weights)
    for i in range(COLUMNS):
        if i % GROUP == 0:
            scale, zero, low, high = grid(left[:, i:i + GROUP], symmetric)
        q = np.clip(np.rint(left[:, i] / scale + zero), low, high)
        rounded[:, i] = (q - zero) * scale
        left[:, i:] -= np.outer((left[:, i] - rounded[:, i]) / upper[i, i], upper[i, i:])
    return rounded


def e4m3(x):
    """Three bits behind the first one, of 2^-6 at least."""
    step = 2.0 ** (np.maximum(np.frexp(x)[1] - 1, -6) - 3)
    return np.clip(np.rint(x / step) * step, -448, 448)


def int8(x):
    return np.clip(np.rint(x), -127, 127)


def gptq_of_rows(weights, moments, round_to, largest):
    scale, upper = np.abs(weights).max(1) / largest, spread(moments, DAMPING_OF_EIGHT_BITS)
    left, rounded = weights.copy(), np.empty_like(weights)
    for i in range(COLUMNS):
        rounded[:, i] = round_to(left[:, i] / scale) * scale
        left[:, i:] -= np.outer((left[:, i] - rounded[:, i]) / upper[i, i], upper[i, i:])
    return rounded


def nearest_of_rows(weights, round_to, largest):
    scale = np.abs(weights).max(1, keepdims=True) / largest
    return round_to(weights / scale) * scale


def nearest(weights, symmetric):
    rounded = np.empty_like(weights)
    for g in range(0, COLUMNS, GROUP):
        part = weights[:, g:g + GROUP]
        scale, zero, low, high = grid(part, symmetric)
        q = np.clip(np.rint(part / scale[:, None] + zero[:, None]), low, high)
        rounded[:, g:g + GROUP] = (q - zero[:, None]) * scale[:, None]
    return rounded


if __name__ == "__main__":
    weights, moments = case()
    out = {name: {"nearest": error(weights, nearest(weights, symmetric), moments),
                  "compensated": error(weights, gptq(weights, moments, symmetric), moments)}
           for name, symmetric in (("symmetric", True), ("asymmetric", False))}
    for name, round_to, largest in (("int8", int8, 127), ("e4m3", e4m3, 448)):
        out[name] = {"nearest": error(weights, nearest_of_rows(weights, round_to, largest), moments),
                     "compensated": error(weights, gptq_of_rows(weights, moments, round_to, largest), moments)}
    Path(__file__).with_name("gptq.json").write_text(json.dumps(out, indent=1) + "\n")
