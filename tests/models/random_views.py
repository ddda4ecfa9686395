#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random views in front of matrix products and attention, compared with ONNX's reference at several sizes.

  tests/models/random_views.py --count 300                                     on the CPU
  tests/models/random_views.py --count 300 --target cuda                       on a GPU
  tests/models/random_views.py --count 300 --target cuda:sm_90 --compile-only  whether it compiles; needs no GPU
  tests/models/random_views.py --seed 17 --keep views.onnx                     one seed, its model kept

Every seed is a product (`view_generator.py`). Some seeds make one model, which is compiled once for all sizes; a seed of
a model that fails is tried again alone. Products of integers, which all values are, must be exact; attention near the
reference.
"""
import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from runs import Failed, Sinter
from view_generator import GREATEST, LEAST, drawn, model_of


class Check:
    def __init__(self, binary, target, options, sizes, compile_only):
        self.binary, self.target, self.options, self.sizes = binary, target, options, sizes
        self.compile_only, self.compared = compile_only, 0

    def batch(self, seeds, keep=None):
        """Problems by seed."""
        products = [drawn(seed) for seed in seeds]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            onnx.save(model_of(products), folder / "views.onnx")
            if keep:
                onnx.save(model_of(products), keep)
            sinter = Sinter(self.binary, folder, self.target)
            names = sorted({name for p in products for name in p.places})
            problems = {}
            try:
                plan = sinter.compile(folder / "views.onnx", *[f"--dim={name}={LEAST}..{GREATEST}" for name in names],
                                      *self.options)
                reference = ReferenceEvaluator(str(folder / "views.onnx"))
                for run in range(0 if self.compile_only else self.sizes):
                    sizes = {name: LEAST + (GREATEST - LEAST if run == 1 else (run * 5 + i * 3) % GREATEST)
                             for i, name in enumerate(names)}
                    feeds = {k: v for p in products for k, v in p.feeds(sizes).items()}
                    found = sinter.run(plan, feeds)
                    wanted = reference.run([p.output for p in products], feeds)
                    for product, value in zip(products, wanted):
                        wrong = difference(found[product.output], value, product.exact)
                        if wrong:
                            at = {n: s for n, s in sizes.items() if n.startswith(product.prefix)}
                            problems[product.seed] = f"{product.type} at {at}: {wrong}"
                        self.compared += 1
            except Failed as error:
                if len(seeds) == 1:
                    return {seeds[0]: str(error)}
                middle = len(seeds) // 2
                parts = [self.batch(seeds[:middle]), self.batch(seeds[middle:])]
                return parts[0] | parts[1] or {seeds[0]: f"fails only in one model with others: {error}"}
            return problems


def difference(found, wanted, exact):
    """What is wrong ('' if nothing)."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    wrong = found != wanted if exact else ~np.isclose(found, wanted, 0, 2e-2 if found.dtype == np.float16 else 1e-4)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} wrong, at {list(at)} {found[at]} instead of {wanted[at]}"


def main():
    root = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(root / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--compile-only", action="store_true")
    p.add_argument("--seed", type=int, default=1, help="the first seed")
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--batch", type=int, default=20, help="seeds in a model")
    p.add_argument("--sizes", type=int, default=6, help="runs of a plan, each with other sizes")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no other model after this time")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="models at once")
    p.add_argument("--keep", help="write the (last) model here")
    p.add_argument("--option", action="append", default=[], help="an option for `sinter compile`")
    a = p.parse_args()
    check = Check(a.sinter, a.target, a.option, a.sizes, a.compile_only)
    ends = a.seed + a.count
    batches = [list(range(s, min(s + a.batch, ends))) for s in range(a.seed, ends, a.batch)]
    failures, count, began = 0, 0, time.monotonic()

    def run(seeds):
        return check.batch(seeds, a.keep) if time.monotonic() - began < a.seconds else None

    with ThreadPoolExecutor(a.jobs) as pool:
        for seeds, problems in zip(batches, pool.map(run, batches)):
            if problems is None:
                break
            count += len(seeds)
            failures += len(problems)
            for seed, problem in problems.items():
                print(f"seed {seed}: {problem}", flush=True)
    print(f"{count - failures} of {count} products of views from seed {a.seed} "
          f"{'compile for' if a.compile_only else 'are right on'} {a.target}; "
          f"{check.compared} results compared with ONNX's reference")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
