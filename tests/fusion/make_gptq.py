#!/usr/bin/env python3
"""Writes gptq.json: what GPTQ in NumPy, in float64 and by the book (the inverse of the moments, column by
column), leaves of the error that gptq_test.cpp measures. Its scales reach the largest number of a group."""
import json
from pathlib import Path

import numpy as np

ROWS, COLUMNS, GROUP, DAMPING = 8, 96, 32, 0.05


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


def gptq(weights, moments, symmetric):
    damped = moments + DAMPING * moments.diagonal().mean() * np.eye(COLUMNS)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, rounded = weights.copy(), np.empty_like(weights)
    for i in range(COLUMNS):
        if i % GROUP == 0:
            scale, zero, low, high = grid(left[:, i:i + GROUP], symmetric)
        q = np.clip(np.rint(left[:, i] / scale + zero), low, high)
        rounded[:, i] = (q - zero) * scale
        left[:, i:] -= np.outer((left[:, i] - rounded[:, i]) / upper[i, i], upper[i, i:])
    return rounded


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
    Path(__file__).with_name("gptq.json").write_text(json.dumps(out, indent=1) + "\n")
