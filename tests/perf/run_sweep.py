#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory-bound operators over many shapes and types: Sinter against PyTorch in the same run, on one GPU.

  tests/perf/run_sweep.py --out tests/perf/results/sweep_h200.json
  tests/perf/run_sweep.py --operators layer_norm,softmax --types f16 --deadline 300
  tests/perf/run_sweep.py --plot tests/perf/results/sweep_h200.json --picture sweep.svg     needs matplotlib
  CUDA_VISIBLE_DEVICES=2 tests/perf/run_sweep.py --part 2/4 --out part2.json                one of four GPUs
  tests/perf/run_sweep.py --merge part0.json part1.json part2.json part3.json --out tests/perf/results/sweep_h200.json

A point is an operator, a type, rows and columns. GPU times are medians with a cold L2 and a full queue.
'share' is the bytes that a point must move over its time, as a share of the rate of a copy of 4 GB read in the same
run; 'of_copy', for points of 128 MB and more, the time of a copy that moves the same bytes over the point's time:
starting and ending cost a copy of 128 MB an eighth of its time, too.
PyTorch's kernels are compiled by several processes first, so that measuring finds them in its cache. Then the same
processes trace points side by side, but only one of them, or Sinter, measures at a time.
"""
import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write

sys.path.insert(0, str(ROOT / "models"))

ROWS = (1, 32, 1024, 8192, 65536)
COLUMNS = (64, 1024, 4096, 32768, 262144)
MOST_BYTES = 1 << 30
LARGE_BYTES = 128e6
SIZES = {"f32": 4, "f16": 2, "bf16": 2}
MODES = ("eager", "default", "reduce-overhead")
# name: tensors of rows x columns that are read, and written
OPERATORS = {"layer_norm": (1, 1), "rms_norm": (1, 1), "softmax": (1, 1), "log_softmax": (1, 1), "gelu_gate": (2, 1),
             "add_layer_norm": (2, 2), "transpose_scale": (1, 1), "concat_silu": (2, 2),
             "column_mean": (1, 0), "argmax": (1, 0)}
ONLY_ASKED = ("column_mean", "argmax")  # not among those that the figures are about


def points(operators, types):
    for name in operators:
        reads, writes = OPERATORS[name]
        for dtype in types:
            for rows in ROWS:
                for columns in COLUMNS:
                    size = (reads + writes) * rows * columns * SIZES[dtype]
                    if size <= MOST_BYTES:
                        yield name, dtype, rows, columns, size


def onnx_model(name, dtype, rows, columns):
    import chains
    import onnx
    c = chains.Chain(dtype)
    x = c.input("x", [rows, columns])
    if name in ("gelu_gate", "add_layer_norm", "concat_silu"):
        y = c.input("y", [rows, columns])
    if name == "layer_norm":
        return c.model(c.op("LayerNormalization", x, c.weight("scale", columns, 1.0), c.weight("bias", columns)),
                       [rows, columns])
    if name == "rms_norm":
        return c.model(c.op("RMSNormalization", x, c.weight("scale", columns, 1.0)), [rows, columns], opset=23)
    if name == "softmax":
        return c.model(c.op("Softmax", x), [rows, columns])
    if name == "log_softmax":
        return c.model(c.op("LogSoftmax", x), [rows, columns])
    if name == "gelu_gate":
        return c.model(c.op("Mul", c.op("Gelu", x), y), [rows, columns])
    if name == "add_layer_norm":
        total = c.op("Add", x, y)
        norm = c.op("LayerNormalization", total, c.weight("scale", columns, 1.0), c.weight("bias", columns))
        return c.model([norm, total], [rows, columns])
    if name == "transpose_scale":
        return c.model(c.op("Mul", c.op("Transpose", x, perm=[1, 0]), c.constant("factor", np.array(0.5, c.numpy))),
                       [columns, rows])
    if name == "column_mean":
        return c.model(c.op("ReduceMean", x, c.constant("axes", np.array([0])), keepdims=0), [columns])
    if name == "argmax":
        model = c.model(c.op("ArgMax", x, axis=1, keepdims=0), [rows])
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
        return model
    both = c.op("Concat", x, y, axis=1)
    return c.model(c.op("Mul", both, c.op("Sigmoid", both)), [rows, 2 * columns])


def torch_function(name, columns, dtype):
    import torch
    import torch.nn.functional as F
    weight = torch.ones(columns, device="cuda", dtype=dtype)
    bias = torch.zeros(columns, device="cuda", dtype=dtype)
    width = (columns,)

    def add_layer_norm(x, y):
        total = x + y
        return F.layer_norm(total, width, weight, bias), total

    return {"layer_norm": lambda x: F.layer_norm(x, width, weight, bias),
            "rms_norm": lambda x: F.rms_norm(x, width, weight, 1e-5),
            "softmax": lambda x: torch.softmax(x, -1),
            "log_softmax": lambda x: torch.log_softmax(x, -1),
            "gelu_gate": lambda x, y: F.gelu(x) * y,
            "add_layer_norm": add_layer_norm,
            "transpose_scale": lambda x: (x.t() * 0.5).contiguous(),
            "concat_silu": lambda x, y: F.silu(torch.cat((x, y), 1)),
            "column_mean": lambda x: x.mean(0),
            "argmax": lambda x: x.argmax(1)}[name]


def torch_call(point, mode):
    import torch
    from torch_workloads import MODES as WRAP
    name, dtype, rows, columns, _ = point
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch._dynamo.reset()
    function = WRAP[mode](torch_function(name, columns, dtype))
    reads = OPERATORS[name][0]
    inputs = [torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(reads)]
    return lambda: function(*inputs)


def compile_in_torch(point):
    import torch
    try:
        with torch.inference_mode():
            torch_call(point, "default")()
    except Exception:
        pass  # said when it is measured
    return 0


def share_lock(lock):
    global measuring
    measuring = lock


def measure_torch(task):
    """Microseconds, or what went wrong, by mode."""
    import torch
    from gpu_timing import measure
    point, modes, seconds = task
    times = {}
    with torch.inference_mode():
        for mode in modes:
            try:
                call = torch_call(point, mode)
                call()
                with measuring:
                    times[mode] = measure(call, seconds)["gpu_us"]
            except Exception as error:
                times[mode] = f"{type(error).__name__}: {str(error)[:200]}"
    torch.cuda.empty_cache()
    return times


def measure_sinter(sinter, plans, seconds):
    """Microseconds of each plan."""
    with measuring:
        found = sinter_json(sinter, "bench", *plans, "--deviceIo", "--iterations=60", f"--duration={seconds}",
                            "--warmUp=3")
    return [round(bench["compute_us"]["median"], 2) for bench in (found if len(plans) > 1 else [found])]


def compile_plan(sinter, folder, target, point):
    import onnx
    stem = folder / "_".join(map(str, point[:4]))
    onnx.save(onnx_model(*point[:4]), f"{stem}.onnx")
    sinter_json(sinter, "compile", f"{stem}.onnx", "-o", f"{stem}.plan", f"--target={target}")
    return f"{stem}.plan"


def row_of(point, ours, times, copy):
    """What is written of a point. `ours`: microseconds, or what went wrong."""
    name, dtype, rows, columns, size = point
    row = {"operator": name, "type": dtype, "rows": rows, "columns": columns, "bytes": size}
    if isinstance(ours, Exception):
        row["failed"] = str(ours)
    else:
        row.update(sinter_us=ours, share=round(size / ours * 1e-6 / copy, 3))
        if size >= LARGE_BYTES:
            from gpu_timing import copy_time
            with measuring:
                row["of_copy"] = round(copy_time(size) / ours, 3)
    row.update(times)
    known = [t for t in times.values() if isinstance(t, float)]
    if known:
        row["best_torch_us"] = min(known)
    return row


def finish(group, ours, theirs, copy):
    rows = [row_of(point, ours[point], times, copy) for point, times in zip(group, theirs.get())]
    for row in rows:
        print(row, flush=True)
    return rows


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summarise(rows):
    compared = [r for r in rows if "sinter_us" in r and "best_torch_us" in r]
    ratios = [r["best_torch_us"] / r["sinter_us"] for r in compared]
    large = [r for r in rows if r["bytes"] >= LARGE_BYTES and "share" in r]

    def reach(key):
        return {f"at_90_percent_{key}": sum(r[key] >= 0.9 for r in large) / max(1, len(large)),
                f"least_{key}": min((r[key] for r in large), default=None)}
    return {"points": len(rows), "compared": len(compared),
            "not_slower": sum(r >= 0.98 for r in ratios) / max(1, len(ratios)),
            "geometric_mean": geometric_mean(ratios),
            "large_points": len(large), **reach("share"), **reach("of_copy")}


def merge(paths):
    """One result of the parts that several GPUs measured in the same run; 'share' is of each part's own copy rate."""
    parts = [json.loads(Path(path).read_text()) for path in paths]
    result = {**parts[0], "copy_TBps": [p["copy_TBps"] for p in parts],
              "points": [row for p in parts for row in p["points"]]}
    order = {point[:4]: i for i, point in enumerate(points(OPERATORS, SIZES))}
    result["points"].sort(key=lambda r: order[r["operator"], r["type"], r["rows"], r["columns"]])
    result["summary"] = summarise(result["points"])
    print(result["summary"])
    return result


def plot(path, picture):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    rows = [r for r in json.loads(Path(path).read_text())["points"] if "share" in r]
    names = sorted({r["operator"] for r in rows}, key=list(OPERATORS).index)
    figure, axes = plt.subplots(2, len(names), figsize=(3.2 * len(names), 6), sharex=True, sharey="row", squeeze=False)
    colours = {"f32": "tab:blue", "f16": "tab:orange", "bf16": "tab:green"}
    for column, name in enumerate(names):
        for dtype, colour in colours.items():
            mine = sorted((r for r in rows if (r["operator"], r["type"]) == (name, dtype)), key=lambda r: r["bytes"])
            size = [r["bytes"] / 1e6 for r in mine]
            axes[0][column].plot(size, [r["share"] for r in mine], "o", color=colour, ms=4, label=dtype)
            ratio = [(s, r["best_torch_us"] / r["sinter_us"]) for s, r in zip(size, mine) if "best_torch_us" in r]
            axes[1][column].plot(*zip(*ratio) if ratio else ((), ()), "o", color=colour, ms=4)
        axes[0][column].set(title=name, xscale="log")
        axes[0][column].axhline(0.9, color="grey", lw=0.7)
        axes[1][column].axhline(1, color="grey", lw=0.7)
        axes[1][column].set(xlabel="MB moved", yscale="log")
    axes[0][0].set_ylabel("share of the copy rate")
    axes[1][0].set_ylabel("best PyTorch / Sinter")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--operators", default=",".join(name for name in OPERATORS if name not in ONLY_ASKED),
                   help=f"also {', '.join(ONLY_ASKED)} (default: %(default)s)")
    p.add_argument("--types", default=",".join(SIZES))
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--deadline", type=float, default=540, help="seconds after which no new measurement starts")
    p.add_argument("--seconds", type=float, default=0.1, help="for each measurement")
    p.add_argument("--jobs", type=int, default=min(12, os.cpu_count()))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    p.add_argument("--part", default="0/1", metavar="I/N", help="every Nth point, from the Ith on")
    p.add_argument("--merge", nargs="+", type=Path, metavar="PART", help="join results of parts instead of measuring")
    p.add_argument("--plot", type=Path, metavar="RESULTS", help="draw these results instead of measuring")
    p.add_argument("--picture", type=Path, default=Path("sweep.svg"))
    a = p.parse_args()
    if a.plot:
        return plot(a.plot, a.picture)
    if a.merge:
        return write(a.out, merge(a.merge))
    import torch

    from gpu_timing import copy_rate
    began = time.monotonic()
    part, parts = map(int, a.part.split("/"))
    todo = list(points(a.operators.split(","), a.types.split(",")))[part::parts]
    modes = a.modes.split(",")
    copy = copy_rate()
    target = "cuda:sm_%d%d" % torch.cuda.get_device_capability()
    print(f"{len(todo)} points, copy {copy:.2f} TB/s", flush=True)
    folder = Path(tempfile.mkdtemp())
    spawn = multiprocessing.get_context("spawn")
    share_lock(spawn.Lock())
    result = {**provenance(a.commit), "cuda": torch.version.cuda, "torch": torch.__version__,
              "copy_TBps": round(copy, 3), "points": []}
    with spawn.Pool(a.jobs, share_lock, (measuring,)) as pool, ThreadPoolExecutor(a.jobs) as threads:
        compiled = pool.imap_unordered(compile_in_torch, todo) if modes != ["eager"] else []
        plans = dict(zip(todo, threads.map(lambda point: plan_or_problem(a.sinter, folder, target, point), todo)))
        print(f"plans {time.monotonic() - began:.0f} s", flush=True)
        sum(compiled)
        print(f"PyTorch's kernels {time.monotonic() - began:.0f} s", flush=True)
        before = None  # the group that PyTorch is measured on while Sinter measures the next
        for _, group in itertools.groupby(todo, key=lambda point: point[:2]):
            if time.monotonic() - began > a.deadline:
                print("deadline: the rest is not run")
                break
            group = list(group)
            fine = [point for point in group if not isinstance(plans[point], Exception)]
            ours = {**plans, **dict(zip(fine, measure_sinter(a.sinter, [plans[point] for point in fine], a.seconds)))}
            theirs = pool.map_async(measure_torch, [(point, modes, a.seconds) for point in group], chunksize=1)
            if before:
                result["points"] += finish(*before, copy)
            before = group, ours, theirs
        if before:
            result["points"] += finish(*before, copy)
    result["summary"] = summarise(result["points"])
    print(result["summary"])
    if a.out:
        write(a.out, result)


def plan_or_problem(sinter, folder, target, point):
    try:
        return compile_plan(sinter, folder, target, point)
    except (SystemExit, Exception) as problem:
        return RuntimeError(str(problem))


if __name__ == "__main__":
    main()
