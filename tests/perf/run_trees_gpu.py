#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees on a GPU: 500 trees of depth 8 over 100 columns that XGBoost has trained, through a plan and through XGBoost's own
predictor, rows and results in GPU memory.

  pip install xgboost onnxmltools scikit-learn scipy
  tests/perf/run_trees_gpu.py --make DIR          trains, converts and compiles for sm_90; needs no GPU
  tests/perf/run_trees_gpu.py --made DIR --out tests/perf/results/trees_h200.json      with torch, cupy and xgboost

XGBoost's times are of the faster of inplace_predict() on a CuPy array and predict() of a DMatrix that was made before, a new one
for each call: of one that it has seen, a booster gives the predictions that it has kept. Rounds take turns: each has the median of --calls of every way, and medians are over rounds. 'wall_us' is a call from Python until its
results are there, 'gpu_us' what lies between events around it, which for XGBoost is its host's work too. 'compute_us' is
`sinter bench`'s time of the plan's kernels, caches cold. Results are compared first, as a share of the largest.
"""
import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write

LIMIT = 1e-5


def make(a, folder):
    import onnx
    import xgboost
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    x = draw.standard_normal((20000, a.columns)).astype(np.float32)
    y = x @ draw.standard_normal(a.columns) + 5 * np.sin(3 * x[:, 0]) + draw.standard_normal(len(x))
    # Trees that are nearly full.
    options = {"max_depth": a.depth, "min_child_weight": 0, "lambda": 0.1, "tree_method": "hist", "max_bin": 64}
    booster = folder / "trees.ubj"
    if not booster.exists():
        xgboost.train(options, xgboost.DMatrix(x, y), a.trees).save_model(booster)
    model = convert_xgboost(xgboost.Booster(model_file=booster), target_opset=15,
                            initial_types=[("X", FloatTensorType(["rows", a.columns]))])
    onnx.save(model, folder / "trees.onnx")
    made = sinter_json(a.sinter, "compile", folder / "trees.onnx", "-o", folder / "trees.plan",
                       f"--target={a.target}", f"--dim=rows=1..{max(a.rows)}")
    print(f"{made['steps']} steps", flush=True)


def median_times(prepare, call, calls):
    """Medians in microseconds between events, and on the wall, of call(prepare()), of which prepare() is not timed."""
    import torch
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    gpu, wall = [], []
    for _ in range(calls):
        prepared = prepare()
        torch.cuda.synchronize()
        began = time.perf_counter()
        start.record()
        call(prepared)
        stop.record()
        torch.cuda.synchronize()
        wall.append(1e6 * (time.perf_counter() - began))
        gpu.append(1e3 * start.elapsed_time(stop))
    return statistics.median(gpu), statistics.median(wall)


def measure(a, folder, done):
    """Calls `done` with all rows so far, after each number of rows."""
    import cupy
    import pysinter
    import torch
    import xgboost
    booster = xgboost.Booster(model_file=folder / "trees.ubj")
    booster.set_param({"device": "cuda"})
    plan = pysinter.load(folder / "trees.plan")
    result = {}
    for rows in a.rows:
        torch.manual_seed(1)
        x = torch.randn(rows, a.columns, device="cuda")
        y = torch.empty(rows, 1, device="cuda")
        same = cupy.from_dlpack(x)
        ways = {"sinter": (lambda: x, lambda values: plan(values, out=y)),
                "inplace_predict": (lambda: same, booster.inplace_predict),
                "predict": (lambda: xgboost.DMatrix(same), booster.predict)}
        first = {}
        for name, (prepare, call) in ways.items():
            prepared = prepare()
            began = time.perf_counter()
            values = call(prepared)
            torch.cuda.synchronize()
            first[name] = (y if name == "sinter" else torch.as_tensor(values, device="cuda")).ravel().clone()
            print(f"{rows} rows, {name}: the first call took {time.perf_counter() - began:.3f} s", flush=True)
        largest = float(first["inplace_predict"].abs().max())
        errors = {name: float((first[name] - first["inplace_predict"]).abs().max()) / largest for name in ways}
        if max(errors.values()) > LIMIT:
            raise SystemExit(f"results differ: {errors}")
        rounds = {name: [] for name in ways}
        for _ in range(a.rounds):
            for name, (prepare, call) in ways.items():
                rounds[name].append(median_times(prepare, call, a.calls))
        gpu, wall = ({name: round(statistics.median(each[i] for each in times), 2) for name, times in rounds.items()}
                     for i in range(2))
        best = min(("inplace_predict", "predict"), key=lambda name: wall[name])
        bench = sinter_json(a.sinter, "bench", folder / "trees.plan", f"--shapes=X:{rows}x{a.columns}", "--deviceIo",
                            "--duration=1")
        result[f"rows_{rows}"] = {"wall_us": wall, "gpu_us": gpu, "compute_us": bench["compute_us"]["median"],
                                  "launches": bench["launches"], "best_peer": best,
                                  "times_as_fast": round(wall[best] / wall["sinter"], 3),
                                  "of_gpu_us": round(gpu[best] / gpu["sinter"], 3), "must": 1.2, "errors": errors,
                                  "rounds": {name: [each[1] for each in times] for name, times in rounds.items()}}
        print(f"rows_{rows}", result[f"rows_{rows}"], flush=True)
        done(result)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--make", type=Path, metavar="DIR", help="write what is measured, and end; a booster there is kept")
    p.add_argument("--made", type=Path, metavar="DIR", help="what --make has written")
    p.add_argument("--target", default="cuda:sm_90")
    p.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000, 1_000, 1])
    p.add_argument("--trees", type=int, default=500)
    p.add_argument("--depth", type=int, default=8)
    p.add_argument("--columns", type=int, default=100)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=10)
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "trees_h200.json"))
    a = p.parse_args()
    if not (a.make or a.made):
        p.error("--make DIR writes what --made DIR measures")
    if a.make:
        make(a, a.make)
    if a.made:
        import xgboost
        origin = {**provenance(a.commit), "xgboost": xgboost.__version__, "trees": a.trees, "depth": a.depth,
                  "columns": a.columns}
        measure(a, a.made, lambda result: write(a.out, {**origin, "results": result}))


if __name__ == "__main__":
    main()
