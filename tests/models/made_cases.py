# SPDX-License-Identifier: Apache-2.0
"""Models that a script builds, with inputs and what ONNX Runtime makes of them, through one plan each.

A case is a model (or a function that writes it to a path), a function that yields inputs, and perhaps options to compile
with (or a function of the path that gives them) and what compares results (found, expected: an error). A script calls
`main` with a function that yields names and cases; it then takes

  [--target cpu|cuda] [--precision model|fp16] [--filter TEXT] [--jobs N] [--out JSON]
  --make DIR        writes the models, their inputs and what ONNX Runtime makes of them
  --made DIR        compares with those, where ONNX Runtime or what exports a model is not at hand, and makes the rest;
                    --commit says of what

Exit code 1 if a result differs by more than --tolerance. Needs onnx.
"""
import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from runs import Failed, Sinter, onnx_runtime, relative_error

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), opset=17):
    graph = helper.make_graph(nodes, "model", inputs, [info(name, kind, None) for name, kind in outputs],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def worst(found, expected):
    """The greatest relative error of an output."""
    return max(relative_error(found[name], value) for name, value in expected.items())


def make(folder, name, source, feeds):
    """Model, inputs and expected outputs as files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    if callable(source):
        source(path)
    else:
        onnx.save(source, path)
    peer = onnx_runtime(path)
    names = [each.name for each in peer.get_outputs()]
    for i, feed in enumerate(feeds()):
        np.savez(folder / f"{name}.{i}.npz", **{f"in_{k}": v for k, v in feed.items()},
                 **{f"out_{k}": v for k, v in zip(names, peer.run(None, feed))})


def check(name, folder, runner, options=(), compare=worst):
    start = time.perf_counter()
    path = folder / f"{name}.onnx"
    plan = runner.compile(path, *(options(path) if callable(options) else options), name=name)
    row = {"name": name, "compile_s": round(time.perf_counter() - start, 3), "plan_bytes": plan.stat().st_size,
           "runs": 0, "error": 0.0}
    for path in sorted(folder.glob(f"{name}.*.npz"), key=lambda p: int(p.suffixes[0][1:])):
        with np.load(path) as data:
            feeds = {k[3:]: data[k] for k in data if k.startswith("in_")}
            expected = {k[4:]: data[k] for k in data if k.startswith("out_")}
        found = runner.run(plan, feeds)
        row["error"] = max(row["error"], compare(found, expected))
        row["runs"] += 1
    return row


def main(cases, doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--tolerance", type=float, default=2e-5)
    p.add_argument("--filter", default="", help="a part of the names")
    p.add_argument("--make", type=Path)
    p.add_argument("--made", type=Path)
    p.add_argument("--commit", help="where the scripts run outside of a repository")
    p.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    chosen = [case for case in cases() if a.filter in case[0]]
    if a.make:
        for name, (source, feeds, *_) in chosen:
            make(a.make, name, source, feeds)
        return 0
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(a.jobs) as pool:
        folder = a.made or Path(temporary)
        for name, (source, feeds, *_) in chosen:  # exporters are not for several threads
            if not (folder / f"{name}.onnx").exists():
                make(folder, name, source, feeds)

        def compare(case):
            name, (_, _, *more) = case
            runner = Sinter(a.sinter, Path(temporary) / f"{name}.files", a.target, a.precision)
            runner.folder.mkdir()
            try:
                return check(name, folder, runner, *more)
            except Failed as error:
                return {"name": name, "failed": str(error)}

        for row in pool.map(compare, chosen):
            good = row.get("error", np.inf) <= a.tolerance
            failed += not good
            rows.append(row)
            print(f"{row['name']:28} " + (row["failed"] if "failed" in row else
                                          f"{row['error']:.1e} over {row['runs']} runs, plan "
                                          f"{row['plan_bytes'] / 1000:.0f} kB, compiled in {row['compile_s']:.2f} s") +
                  ("" if good else "  WRONG"), flush=True)
    if a.out:
        write(a.out, provenance(a.commit) | {"target": a.target, "precision": a.precision, "cases": rows})
    print(f"{len(rows) - failed} of {len(rows)} agree")
    return failed > 0
