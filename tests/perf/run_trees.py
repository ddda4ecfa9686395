#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees on the CPU: an ensemble of LightGBM's, 500 trees of depth 8 over 100 columns, through a plan, ONNX
Runtime, LightGBM's own predict and treelite's (GTIL; and as compiled C, --compiled, which takes minutes to
compile). Rounds take turns: each runs every library once, and medians are over rounds, so that what else
the machine does falls on all. All results are compared with each other first.

  pip install lightgbm onnxmltools onnxruntime treelite tl2cgen
  run_trees.py --rows 1000000 --threads 2 --out tests/perf/results/trees_cpu.json
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import provenance, write

ROOT = Path(__file__).resolve().parents[2]


def train(folder, trees, depth, columns):
    import lightgbm
    import onnx
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType
    draw = np.random.default_rng(0)
    x = draw.standard_normal((20000, columns)).astype(np.float32)
    y = x @ draw.standard_normal(columns) + 5 * np.sin(3 * x[:, 0]) + draw.standard_normal(len(x))
    model = lightgbm.LGBMRegressor(n_estimators=trees, max_depth=depth, num_leaves=2 ** depth, min_child_samples=1,
                                   verbose=-1).fit(x, y)
    model.booster_.save_model(str(folder / "trees.txt"))
    converted = convert_lightgbm(model, initial_types=[("X", FloatTensorType([None, columns]))], target_opset=15)
    onnx.save(converted, folder / "trees.onnx")


def sinter_bench(sinter, plan, rows, columns, threads):
    """Microseconds of a run with its inputs and outputs in host memory: the median."""
    # Many rows take seconds a run, as the peers', which run once.
    few = ["--warmUp=1", "--iterations=3"] if rows > 1 else []
    done = subprocess.run([sinter, "bench", plan, f"--shapes=X:{rows}x{columns}", f"--threads={threads}", "--json",
                           "--quiet", *few], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["latency_us"]["median"]


def peers(folder, columns, threads, compiled):
    import lightgbm
    import onnxruntime
    import treelite
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(folder / "trees.onnx"), options, providers=["CPUExecutionProvider"])
    booster = lightgbm.Booster(model_file=str(folder / "trees.txt"))
    model = treelite.frontend.load_lightgbm_model(str(folder / "trees.txt"))
    all_peers = {"onnxruntime": lambda x: session.run(None, {"X": x})[0],
                 "lightgbm": lambda x: booster.predict(x, num_threads=threads),
                 "treelite_gtil": lambda x: treelite.gtil.predict(model, x, nthread=threads)}
    if compiled:
        import tl2cgen
        tl2cgen.export_lib(model, toolchain="gcc", libpath=str(folder / "trees.so"), params={"parallel_comp": threads})
        predictor = tl2cgen.Predictor(str(folder / "trees.so"), nthread=threads)
        all_peers["treelite_compiled"] = lambda x: predictor.predict(tl2cgen.DMatrix(x))
    return all_peers


def microseconds(function, x, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(x)
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build/bin/sinter"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="treelite's model as compiled C, too")
    parser.add_argument("--without", nargs="*", default=[], help="peers that many rows take too long")
    parser.add_argument("--out")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, a.trees, a.depth, a.columns)
        plan = folder / "trees.plan"
        subprocess.run([a.sinter, "compile", folder / "trees.onnx", "-o", plan, "--target=cpu", "--quiet",
                        f"--maxShapes=X:{a.rows}x{a.columns}", f"--minShapes=X:1x{a.columns}"], check=True)
        x = np.random.default_rng(1).standard_normal((a.rows, a.columns)).astype(np.float32)
        others = {key: f for key, f in peers(folder, a.columns, a.threads, a.compiled).items() if key not in a.without}

        some = x[:2000]
        np.savez(folder / "in.npz", X=some)
        subprocess.run([a.sinter, "run", plan, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz"],
                       check=True, capture_output=True)
        (ours,) = np.load(folder / "out.npz").values()
        errors = {key: float(np.max(np.abs(np.ravel(f(some)) - ours.ravel()) / np.maximum(1, np.abs(ours.ravel()))))
                  for key, f in others.items()}
        if max(errors.values()) > 1e-5:
            sys.exit(f"results differ: {errors}")

        result = {}
        for rows in (a.rows, 1):
            times = {key: [] for key in ("sinter", *others)}
            for _ in range(a.rounds):
                for key, function in others.items():
                    times[key].append(microseconds(function, x[:rows], 1 if rows > 1 else 300))
                times["sinter"].append(sinter_bench(a.sinter, plan, rows, a.columns, a.threads))
            medians = {key: statistics.median(values) for key, values in times.items()}
            best = min(others, key=lambda key: medians[key])
            result[f"rows_{rows}"] = {"microseconds": medians, "rounds": times, "best_peer": best,
                                      "times_as_fast": medians[best] / medians["sinter"]}
            print(f"{rows} rows:", ", ".join(f"{key} {value:,.0f} us" for key, value in medians.items()),
                  f"-> {medians[best] / medians['sinter']:.2f} times as fast as {best}")
        if a.out:
            write(a.out, {**provenance(), "trees": a.trees, "depth": a.depth, "columns": a.columns,
                          "threads": a.threads, "note": "a machine shared with others: medians of rounds that took turns",
                          "largest_relative_difference": errors, "results": result})


if __name__ == "__main__":
    main()
