#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encoders compiled with --packed against the same compiled without: tokens that exist and pooled outputs are equal,
padding is zero, and masks that are none are refused. Lengths from none to full, padding at the end and anywhere.

  tests/models/check_packed.py
  tests/models/check_packed.py --target cuda --precision fp16 --tolerance 5e-3
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from runs import Failed, Sinter, relative_error

ROOT = Path(__file__).resolve().parents[2]
# Model, how many words its table has, and what it is compiled with; a mask's first dimension may have a name of its own.
MODELS = {"minilm": (ROOT / "models/cache/minilm.onnx", 30522, ()),
          "bert": (ROOT / "models/tiny/bert.onnx", 64, ("--dim=s43=s72",)),
          "bert_ts": (ROOT / "models/tiny/bert_ts.onnx", 64, ())}


def masks(random):
    """By name, [batch, sequence]."""
    def of_lengths(lengths, longest):
        return (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
    yield "one token", of_lengths([1], 1)
    yield "full", of_lengths([40, 40, 40], 40)
    yield "lengths 1 to full", of_lengths([1, 64, 7, 33, 12, 2, 64, 50], 64)
    yield "an empty sequence", of_lengths([9, 0, 20], 20)
    yield "many short ones", of_lengths(random.integers(1, 30, 70), 200)
    yield "padding anywhere", (random.random((6, 50)) < .4).astype(np.int64)
    yield "no token at all", of_lengths([0, 0], 8)


def problem(name, found, padded, mask, tolerance):
    """What is wrong with an output of the packed plan; empty: nothing."""
    if found.shape != padded.shape:
        return f"{name} is {found.shape}, not {padded.shape}"
    exists = mask == 1
    if found.ndim == 3 and found.shape[:2] == mask.shape:
        if found[~exists].any():
            return f"{name} has padding that is not zero"
        found, padded = found[exists], padded[exists]
    else:
        some = exists.any(1)  # of a sequence without tokens a padded run may say anything
        found, padded = found[some], padded[some]
    error = relative_error(found, padded)
    return "" if error <= tolerance else f"{name} has an error of {error:.1e}"


def check(sinter, name, tolerance):
    model, words, options = MODELS[name]
    random = np.random.default_rng(5)
    padded, packed = (sinter.compile(model, *options, *more, name=f"{name}_{len(more)}") for more in ((), ("--packed",)))
    inputs = {binding["name"] for binding in sinter.json("inspect", packed)["inputs"]}
    problems = []
    for case, mask in masks(random):
        feeds = {"input_ids": random.integers(0, words, mask.shape), "attention_mask": mask,
                 "token_type_ids": random.integers(0, 2, mask.shape)}
        feeds = {key: value for key, value in feeds.items() if key in inputs}
        expected, found = sinter.run(padded, feeds), sinter.run(packed, feeds)
        problems += [f"{name}, {case}: {text}" for key in expected
                     if (text := problem(key, found[key], expected[key], mask, tolerance))]
    try:
        sinter.run(packed, {**feeds, "attention_mask": feeds["attention_mask"] + 2})
        problems.append(f"{name}: a mask of 2 was taken")
    except Failed as error:
        if "neither 0 nor 1" not in str(error):
            problems.append(f"{name}: a mask of 2 gives: {error}")
    return problems


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build/bin/sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--tolerance", type=float, default=1e-5, help="most relative error between the two plans")
    p.add_argument("--models", default=",".join(MODELS))
    a = p.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        for name in a.models.split(","):
            if not MODELS[name][0].exists():
                print(f"{name}: left out, {MODELS[name][0]} is not there (models/fetch.py)")
                continue
            problems += (found := check(sinter, name, a.tolerance))
            print(f"{name}: {'ok' if not found else f'{len(found)} problems'}", flush=True)
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
