#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random fusable regions, compiled and compared with the reference.

  tests/models/random_regions.py --count 300                       on the CPU
  tests/models/random_regions.py --count 3000 --target cuda        on a GPU
  tests/models/random_regions.py --seed 17 --keep region.onnx      one seed, its model kept

Every seed is a region (`region_generator.py`). Some seeds make one model, which runs twice: the same bits. A seed
of a model that fails is tried again alone and printed.

A result that was computed without rounding must be right bit by bit, the sign of zero too where operators define
it. Any other must be near the reference: as near as the type allows, and as what rounding every operator's result
to its type would change; NaN and infinities must be where both evaluations have them, and are not asked for where
these disagree. On the CPU ONNX Runtime gives a second opinion of seeds without special values.
"""
import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

from region_generator import FLOATS, TYPES, Region, model_of
from runs import Failed, Sinter, onnx_runtime

# Of the result's size, and of typical results near it.
TOLERANCE = {"f64": 1e-4, "f32": 1e-4, "f16": 6e-3, "bf16": 5e-2}


def unpacked(array, type):
    """bfloat16 travels as uint16."""
    return array.view(ml_dtypes.bfloat16) if type == "bf16" and array.dtype == np.uint16 else array


def classes(x):
    return np.where(np.isnan(x), 3, np.where(np.isposinf(x), 2, np.where(np.isneginf(x), 1, 0)))


def differences(value, region, found, wide, rounded):
    """What is wrong with an output ('' if nothing) and the share of its elements that were not asked for."""
    if found.shape != wide.shape or found.dtype != wide.dtype:
        return f"{found.dtype}{found.shape} instead of {wide.dtype}{wide.shape}", 0
    if value.sizes != found.shape:
        return f"shape {found.shape}, the generator says {value.sizes}", 0
    if not found.size:
        return "", 0
    if value.type not in FLOATS:
        wrong = found != wide if value.exact else np.zeros(found.shape, bool)
        return said(wrong, found, wide), float(not value.exact)
    f, w, r = (a.astype(np.float64) for a in (found, wide, rounded))
    kind = classes(w)
    unsure = (kind != classes(r)) | ((kind == 0) & (np.abs(w) > 0.9 * float(ml_dtypes.finfo(found.dtype).max)))
    wrong = (classes(f) != kind) & ~unsure
    finite = (kind == 0) & (classes(f) == 0) & ~unsure
    if value.exact:
        wrong |= finite & (w == r) & (f != w)
        if value.signed:
            wrong |= finite & (w == 0) & (r == 0) & (f == 0) & (np.signbit(f) != np.signbit(w))
    else:
        narrowest = max((TOLERANCE[t] for t in region.types if t in FLOATS))
        with np.errstate(all="ignore"):
            moved = np.abs(w - r)
            usual = np.quantile(np.abs(w[finite]), 0.9) if finite.any() else 0
            far = np.quantile(moved[finite], 0.99) if finite.any() else 0
            bound = narrowest * (np.abs(w) + max(usual, 0.1 if narrowest > 1e-3 else 1)) + 8 * (moved + far)
            wrong |= finite & (np.abs(f - w) > bound)
    return said(wrong, found, wide), float(unsure.mean())


def said(wrong, found, wide):
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} wrong, at {list(at)} {found[at]} instead of {wide[at]}"


class Check:
    def __init__(self, binary, target, options, second_opinion):
        self.binary, self.target, self.options, self.second_opinion = binary, target, options, second_opinion
        self.skipped, self.opinions = [], 0

    def batch(self, seeds, keep=None):
        """Problems by seed."""
        regions = [Region(seed) for seed in seeds]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model = model_of(regions)
            onnx.save(model, folder / "region.onnx")
            if keep:
                onnx.save(model, keep)
            given = {i.name for i in model.graph.input}
            feeds = {k: v for r in regions for k, v in r.feeds.items() if k in given}
            inputs = []  # NumPy has no bfloat16
            for name in [k for k, v in feeds.items() if v.dtype == ml_dtypes.bfloat16]:
                tensor = onnx.numpy_helper.from_array(feeds.pop(name), name)
                (folder / f"{name}.pb").write_bytes(tensor.SerializeToString())
                inputs.append(f"{name}={folder / name}.pb")
            sinter = Sinter(self.binary, folder, self.target)
            used = {d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim}
            dims = [f"--dim={name}={low}..{high}" for r in regions for name, (low, high) in r.dims.items()
                    if name in used]
            try:
                report = sinter.json("verify", folder / "region.onnx", *sinter.for_target(), "--inputs",
                                     sinter.save(feeds), *inputs, "--runs=2", f"--save={folder}", "--threads=2", *dims,
                                     *self.options)
            except Failed as error:
                if len(seeds) == 1:
                    return {seeds[0]: str(error)}
                middle = len(seeds) // 2
                return self.apart([seeds[:middle], seeds[middle:]], str(error))
            found, wide, rounded = (self.read(folder / f"{name}.npz", regions)
                                    for name in ("outputs", "reference", "rounded"))
            problems = {} if report["same_bits"] else dict.fromkeys(seeds, "two runs differ")
            problems |= self.compare(regions, found, wide, rounded)
            for region in regions:
                if self.second_opinion and region.seed not in problems:
                    wrong = self.ask_onnx_runtime(region, wide, rounded, folder)
                    if wrong:
                        problems[region.seed] = f"ONNX Runtime: {wrong}"
        if problems and len(seeds) > 1:
            return self.apart([[seed] for seed in sorted(problems)], problems)
        return problems

    def apart(self, parts, before):
        """The problems of parts of a batch that had some as a whole."""
        problems = {}
        for seeds in parts:
            problems |= self.batch(seeds)
        if not problems:
            problems = {parts[0][0]: f"fails only in one model with others: {before}"}
        return problems

    @staticmethod
    def read(path, regions):
        types = {v.name: v.type for r in regions for v in r.outputs}
        with np.load(path) as f:
            return {name: unpacked(f[name], type) for name, type in types.items()}

    def compare(self, regions, found, wide, rounded):
        problems = {}
        for region in regions:
            for v in region.outputs:
                wrong, skipped = differences(v, region, found[v.name], wide[v.name], rounded[v.name])
                self.skipped.append(skipped)
                if wrong:
                    problems[region.seed] = f"{v.name} ({region.type}): {wrong}"
        return problems

    def ask_onnx_runtime(self, region, wide, rounded, folder):
        """Whether ONNX Runtime computes what our reference does; nothing where it has no kernel for it."""
        if region.special or region.seed % 4 or "bf16" in region.types or region.empty:
            return ""
        path = folder / "alone.onnx"
        onnx.save(model_of([region]), path)
        try:
            session = onnx_runtime(path, 1)
        except Exception as error:  # its own hierarchy of exceptions, from C++
            return "" if "NotImplemented" in type(error).__name__ or "Type Error" in str(error) else str(error)[:200]
        names = [v.name for v in region.outputs]
        given = {i.name for i in session.get_inputs()}
        answers = session.run(names, {k: v for k, v in region.feeds.items() if k in given})
        self.opinions += 1
        return "; ".join(f"{v.name}: {wrong}" for v, answer in zip(region.outputs, answers)
                         if (wrong := differences(v, region, answer, wide[v.name], rounded[v.name])[0]))


def main():
    root = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(root / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--seed", type=int, default=1, help="the first seed")
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--batch", type=int, default=10, help="seeds in a model")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no other model after this time")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="models at once")
    p.add_argument("--keep", help="write the (last) model here")
    p.add_argument("--out", help="write a summary as JSON here")
    p.add_argument("--option", action="append", default=[], help="an option for `sinter verify`")
    a = p.parse_args()
    check = Check(a.sinter, a.target, a.option, a.target == "cpu")
    ends = a.seed + a.count
    batches = [list(range(s, min(s + a.batch, ends))) for s in range(a.seed, ends, a.batch)]
    failures, count, began = {}, 0, time.monotonic()

    def run(seeds):
        return check.batch(seeds, a.keep) if time.monotonic() - began < a.seconds else None

    with ThreadPoolExecutor(a.jobs) as pool:
        for seeds, problems in zip(batches, pool.map(run, batches)):
            if problems is None:
                break
            count += len(seeds)
            for seed, problem in problems.items():
                print(f"seed {seed}: {problem}", flush=True)
            failures |= problems
    left_out = float(np.mean(check.skipped)) if check.skipped else 0.0
    print(f"{count - len(failures)} of {count} regions from seed {a.seed} agree with the reference on {a.target}; "
          f"{left_out:.1%} of the elements not asked for, {check.opinions} regions compared with ONNX Runtime")
    if a.out:
        Path(a.out).write_text(json.dumps({"target": a.target, "first_seed": a.seed, "count": count,
                                           "seconds": round(time.monotonic() - began, 1),
                                           "not_asked_for": round(left_out, 4), "failures": failures}, indent=1) + "\n")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
