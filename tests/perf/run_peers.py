#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sinter against PyTorch on the same weights and inputs in the same run, on one GPU.

  tests/perf/run_peers.py --workloads bert_b1_s128,chain_sin4 --modes eager,reduce-overhead
  tests/perf/run_peers.py --out tests/perf/results/peers_h200.json

Every workload runs in float16 in both; models are exported in float32 and lowered by the compiler. GPU times are
taken with events, a cold L2 and a full queue; wall times are of one synchronised call with inputs and
outputs on the device. Errors are Sinter's against PyTorch's float32 result, ||a - b|| / ||b||, the largest of
all outputs; with --errors fp16,bf16 in each of these precisions, against their bounds. Needs torch, timm and
transformers. A run of all takes half an hour, most of it torch.compile: --workloads and --deadline split
it, and a result file is added to, never overwritten, if it is of the same commit.
"""
import argparse
import dataclasses
import json
import multiprocessing
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write


def export_one(job):
    import torch
    import torch_workloads
    name, path = job
    torch.set_num_threads(2)
    try:
        start = time.perf_counter()
        torch_workloads.export(torch_workloads.WORKLOADS[name], path)
        return name, None, time.perf_counter() - start
    except Exception:
        return name, traceback.format_exc(limit=-3), 0


# Most relative error of a model's output against float32.
ERROR_BOUNDS = {"fp16": 5e-3, "bf16": 3e-2}


def relative_error(found, expected):
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    if found.shape != expected.shape:
        return float("inf")
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def compile_plan(sinter, path, precision, tune=0):
    plan = path.with_suffix(f".{precision}{'.tuned' if tune else ''}.plan")
    sinter_json(sinter, "compile", path, "-o", plan, "--target=cuda", f"--precision={precision}",
                *([f"--tune={tune}"] if tune else []))
    return plan


def error_of(sinter, path, plan):
    """The largest error of the plan's outputs against PyTorch's in float32."""
    result = path.with_suffix(".out.npz")
    sinter_json(sinter, "run", plan, "--inputs", path.with_suffix(".npz"), "--outputs", result)
    expected, found = np.load(path.with_suffix(".expected.npz")), np.load(result)
    if len(expected.files) != len(found.files):
        raise SystemExit(f"{path.stem}: {len(found.files)} outputs, PyTorch has {len(expected.files)}")
    return max(relative_error(found[a], expected[b]) for a, b in zip(found.files, expected.files))


def errors_of(sinter, path, workload, precisions):
    """By precision; a workload that is exported in float16 has no other."""
    errors = {}
    for precision in precisions:
        if workload.half and precision != "fp16":
            continue
        error = error_of(sinter, path, compile_plan(sinter, path, "model" if workload.half else precision))
        errors[precision] = {"relative_error": error, "bound": ERROR_BOUNDS[precision],
                             "ok": bool(error <= ERROR_BOUNDS[precision])}
    return errors


def run_sinter(sinter, path, workload, precision, precisions, tune=0):
    start = time.perf_counter()
    plan = compile_plan(sinter, path, "model" if workload.half else precision, tune)
    compiled = time.perf_counter() - start
    error = error_of(sinter, path, plan)
    bench = sinter_json(sinter, "bench", plan, "--inputs", path.with_suffix(".npz"), "--deviceIo", "--iterations=200",
                        "--duration=2")
    row = {"gpu_us": round(bench["compute_us"]["median"], 2), "p10_us": round(bench["compute_us"]["p10"], 2),
           "p90_us": round(bench["compute_us"]["p90"], 2), "wall_us": round(bench["latency_us"]["median"], 2),
           "launches": bench["launches"], "bytes_moved": bench["bytes_moved"], "compile_s": round(compiled, 1),
           "relative_error": error}
    if precisions:
        row["errors"] = errors_of(sinter, path, workload, precisions)
    return row


def in_precision(workload, precision):
    """As PyTorch runs it. `model` keeps PyTorch's default: TF32 in convolutions, not in matmuls."""
    import torch
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return workload if precision == "fp16" or workload.half else dataclasses.replace(workload, dtype=torch.float32)


def print_row(name, row):
    ours = row.get("sinter", {})
    peers = {mode: row[mode] for mode in row if not mode.startswith("sinter") and "gpu_us" in row[mode]}
    text = f"{name:22s}"
    if "gpu_us" in ours:
        text += (f" sinter {ours['gpu_us']:8.1f} / {ours['wall_us']:8.1f} us, {ours['launches']} launches, "
                 f"error {ours['relative_error']:.1e}")
        for precision, e in ours.get("errors", {}).items():
            text += f", {precision} {e['relative_error']:.1e}{'' if e['ok'] else ' ABOVE ' + format(e['bound'], '.0e')}"
    else:
        text += f" sinter {ours}"
    if "sinter_tuned" in row:
        text += f"; tuned {row['sinter_tuned']['gpu_us']:.1f} / {row['sinter_tuned']['wall_us']:.1f}"
    for mode, times in peers.items():
        text += f"; {mode} {times['gpu_us']:.1f} / {times['wall_us']:.1f}"
    if peers and "gpu_us" in ours:
        text += f"; {min(p['gpu_us'] for p in peers.values()) / ours['gpu_us']:.2f}x"
    print(text, flush=True)


def main():
    import torch
    import torch_workloads as peers
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--workloads", default="all", help="all but large ones, or some of " + ", ".join(peers.WORKLOADS))
    p.add_argument("--modes", default="eager,default,reduce-overhead", help=", ".join(peers.MODES) + "; or none")
    p.add_argument("--precision", default="fp16", choices=("fp16", "model", "tf32"),
                   help="model: float32 models as they are, PyTorch with its default, TF32 in convolutions alone; tf32: TF32 in all of both")
    p.add_argument("--errors", default="", help="measure errors in these precisions too: fp16,bf16")
    p.add_argument("--tune", type=float, default=0, help="also measure plans compiled with --tune of this many seconds")
    p.add_argument("--folder", type=Path, help="where the ONNX files go, and are taken from if they are there")
    p.add_argument("--deadline", type=float, default=540, help="seconds after which no new measurement starts")
    p.add_argument("--jobs", type=int, default=6, help="exports at a time")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    began = time.monotonic()
    small = [name for name, workload in peers.WORKLOADS.items() if not workload.large]
    names = small if a.workloads == "all" else a.workloads.split(",")
    modes = [] if a.modes == "none" else a.modes.split(",")
    precisions = [precision for precision in a.errors.split(",") if precision]
    for precision in set(precisions) - set(ERROR_BOUNDS):
        p.error(f"no bound for {precision}; there are {', '.join(ERROR_BOUNDS)}")
    for name in set(names) - set(peers.WORKLOADS):
        p.error(f"no workload {name}; there are {', '.join(peers.WORKLOADS)}")
    folder = a.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)

    missing = [(name, folder / f"{name}.onnx") for name in names if not (folder / f"{name}.expected.npz").exists()]
    failed = {}
    with multiprocessing.get_context("spawn").Pool(min(a.jobs, max(1, len(missing)))) as pool:
        for name, problem, seconds in pool.imap_unordered(export_one, missing):
            print(f"exported {name} ({seconds:.0f} s)" if problem is None else f"{name}: {problem}", flush=True)
            if problem:
                failed[name] = problem.strip().splitlines()[-1]

    result = {**provenance(a.commit), "cuda": torch.version.cuda, "torch": torch.__version__, "precision": a.precision, "workloads": {}}
    if a.out and a.out.exists():
        before = json.loads(a.out.read_text())
        if before["commit"] == result["commit"] and before.get("precision", "fp16") == a.precision:
            result["workloads"] = before["workloads"]
    # Ours first: a run that ends at its deadline has all of our figures.
    for name in names:
        row = result["workloads"].setdefault(name, {})
        try:
            row["sinter"] = ({"failed": failed[name]} if name in failed else
                             run_sinter(a.sinter, folder / f"{name}.onnx", peers.WORKLOADS[name], a.precision, precisions))
        except (SystemExit, Exception) as error:
            row["sinter"] = {"failed": str(error)}
        if a.tune and "gpu_us" in row["sinter"]:
            row["sinter_tuned"] = run_sinter(a.sinter, folder / f"{name}.onnx", peers.WORKLOADS[name], a.precision, [], a.tune)
        print_row(name, {mode: row[mode] for mode in row if mode.startswith("sinter")})
        if a.out:
            write(a.out, result)
    for name in names if modes else []:
        row = result["workloads"][name]
        for mode in modes:
            if time.monotonic() - began > a.deadline:
                row.setdefault(mode, {"failed": "not run: deadline"})
                continue
            try:
                row[mode] = peers.time_mode(in_precision(peers.WORKLOADS[name], a.precision), mode)
            except Exception as error:
                row[mode] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print_row(name, row)
        if a.out:
            write(a.out, result)


if __name__ == "__main__":
    main()
