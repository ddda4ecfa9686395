#!/usr/bin/env python3
"""Writes sampler.json: tokens that are drawn, by NumPy from the definition in ir/ops/sampling.cpp.
Checks on the way that draws have the probabilities of the softmax of what the options leave."""
import json
from pathlib import Path

import numpy as np

GAMMA, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
STEPS = 12


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Sampler:
    def __init__(self, temperature=0.0, top_k=0, top_p=1.0, seed=0):
        self.temperature, self.top_k, self.top_p, self.state = temperature, top_k, top_p, seed

    def left(self, logits):
        """Ids that can be drawn, and their logits as they count."""
        order = np.argsort(-logits, kind="stable")
        if self.top_k:
            order = order[: self.top_k]
        best = logits[order[0]]
        with np.errstate(invalid="ignore"):
            scores = np.where(logits[order] == best, 0.0, (logits[order] - best) / self.temperature)
        weights = np.exp(scores)
        before = np.cumsum(weights) - weights
        keep = before < self.top_p * weights.sum() if self.top_p < 1 else np.ones(len(order), bool)
        return order[keep], scores[keep]

    def __call__(self, logits):
        logits = np.asarray(logits, np.float32).astype(np.float64)
        if np.isnan(logits).any():
            self.state = (self.state + GAMMA) & MASK
            return -1
        if self.temperature == 0:
            return int(np.argmax(logits))
        self.state = (self.state + GAMMA) & MASK
        key = mix(self.state)
        ids, scores = self.left(logits)
        u = np.array([((mix((key + (int(i) + 1) * GAMMA) & MASK) >> 12) + 0.5) * 2.0**-52 for i in ids])
        return int(ids[np.argmax(scores - np.log(-np.log1p(-u)))])


def check_distribution(options, logits, draws=20000):
    sampler = Sampler(**options, seed=99)
    counts = np.bincount([sampler(logits) for _ in range(draws)], minlength=len(logits))
    ids, scores = sampler.left(np.asarray(logits, np.float64))
    expected = np.zeros(len(logits))
    expected[ids] = np.exp(scores) / np.exp(scores).sum() * draws
    assert (counts[expected == 0] == 0).all(), counts
    chi = ((counts - expected)[expected > 0] ** 2 / expected[expected > 0]).sum()
    assert chi < len(ids) + 4 * np.sqrt(2 * len(ids)) + 4, (options, chi, counts, expected)
    return (expected / draws).round(12).tolist()


def main():
    rng = np.random.default_rng(7)
    rows = {
        "normal": np.round(rng.normal(size=17) * 2, 3).tolist(),
        "ties": [1.0, 3.0, -2.0, 3.0, 3.0, 1.0, 0.0, 3.0],
        "one": [0.5],
        "zeros": [0.0, -0.0, 0.0, -0.0, -1.0],
        "infinite": [float("-inf"), 2.0, float("inf"), 1.0, float("inf"), float("-inf")],
        "nan": [1.0, float("nan"), 2.0, 0.0, 1.0],
        "wide": [3e4, 3e4 - 1, -3e4, 2.9e4, 3e4 - 2, 0.0],
    }
    choices = [
        {},
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 1},
        {"temperature": 0.7, "top_k": 4},
        {"temperature": 1.5, "top_p": 0.6},
        {"temperature": 1.0, "top_p": 1e-9},
        {"temperature": 0.8, "top_k": 5, "top_p": 0.9},
        {"temperature": 1e-6},
        {"temperature": 2.0, "top_k": 1000, "top_p": 0.95},
    ]
    # A long row with many equal logits, as the test computes it, too.
    long = [i * 7919 % 10007 % 200 / 8 for i in range(6000)]
    cases = []
    for name, logits in rows.items():
        for options in choices:
            sampler = Sampler(**options, seed=int(rng.integers(1 << 40)))
            cases.append({"name": name, "logits": [repr(float(x)) for x in logits], "options": options,
                          "seed": sampler.state, "tokens": [sampler(logits) for _ in range(STEPS)]})
    for options in ({"temperature": 3.0, "top_k": 30}, {"temperature": 5.0, "top_k": 90, "top_p": 0.9},
                    {"temperature": 4.0, "top_p": 0.5}, {"temperature": 2.0}):
        sampler = Sampler(**options, seed=int(rng.integers(1 << 40)))
        cases.append({"name": "long", "logits": [], "options": options, "seed": sampler.state,
                      "tokens": [sampler(long) for _ in range(STEPS)]})
    shares = [{"options": options, "logits": rows[name], "probabilities": check_distribution(options, rows[name])}
              for name in ("normal", "ties") for options in choices if options and options["temperature"] > 0.1]
    path = Path(__file__).resolve().parent / "sampler.json"
    path.write_text(json.dumps({"cases": cases, "shares": shares}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
