#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An encoder on a padded batch: Sinter with --packed and without, beside PyTorch, on the same weights and inputs, on one
GPU, in the same run.

  tests/perf/run_packed.py --modes default,reduce-overhead --out tests/perf/results/packed_h200.json

As run_peers.py, whose workloads these are: float16, times between events with a cold L2 and a full queue, inputs and
outputs on the device, but for the mask, which a packed plan is given in host memory. Both plans are checked against
PyTorch in float32, and against each other. Needs torch and transformers.
"""
import argparse
import tempfile
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from run_peers import ERROR_BOUNDS, export_one, relative_error


def outputs_of(sinter, plan, inputs):
    path = plan.with_suffix(".out.npz")
    sinter_json(sinter, "run", plan, "--inputs", inputs, "--outputs", path)
    with np.load(path) as f:
        return [f[name] for name in f.files]


def largest_error(found, expected):
    return max(relative_error(a, b) for a, b in zip(found, expected, strict=True))


def measure(sinter, model, options):
    """A plan's figures, and its outputs."""
    plan, inputs = model.with_suffix(f".{'packed' if options else 'padded'}.plan"), model.with_suffix(".npz")
    sinter_json(sinter, "compile", model, "-o", plan, "--target=cuda", "--precision=fp16", *options)
    outputs = outputs_of(sinter, plan, inputs)
    bench = sinter_json(sinter, "bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=200", "--duration=2")
    return {"gpu_us": round(bench["compute_us"]["median"], 2), "p10_us": round(bench["compute_us"]["p10"], 2),
            "p90_us": round(bench["compute_us"]["p90"], 2), "wall_us": round(bench["latency_us"]["median"], 2),
            "launches": bench["launches"]}, outputs


def run(sinter, name, folder, modes):
    import torch_workloads as peers
    model = folder / f"{name}.onnx"
    if not model.with_suffix(".expected.npz").exists():
        if (problem := export_one((name, model))[1]) is not None:
            raise SystemExit(problem)
    with np.load(model.with_suffix(".npz")) as f:
        mask = f["attention_mask"]
    with np.load(model.with_suffix(".expected.npz")) as f:
        expected = [f[key] for key in f.files]
    row = {"batch": mask.shape[0], "length": mask.shape[1], "mean_length": round(float(mask.sum() / mask.shape[0]), 1)}
    row["padded"], padded = measure(sinter, model, ())
    row["packed"], packed = measure(sinter, model, ("--packed",))
    row["errors"] = {"padded": largest_error(padded, expected), "packed": largest_error(packed, expected),
                     "packed_to_padded": largest_error(packed, padded)}
    row["ok"] = bool(max(row["errors"].values()) <= ERROR_BOUNDS["fp16"])
    for mode in modes:
        row[mode] = peers.time_mode(peers.WORKLOADS[name], mode)
    return row


def show(name, row, modes):
    ours, padded = row["packed"]["gpu_us"], row["padded"]["gpu_us"]
    text = (f"{name}: {row['batch']}x{row['length']} of mean length {row['mean_length']}; packed {ours:.1f} us "
            f"({row['packed']['wall_us']:.1f} wall), padded {padded:.1f} ({padded / ours:.2f}x)")
    for mode in modes:
        text += f"; {mode} {row[mode]['gpu_us']:.1f} ({row[mode]['gpu_us'] / ours:.2f}x)"
    errors = ", ".join(f"{key} {value:.1e}" for key, value in row["errors"].items())
    print(f"{text}; errors: {errors}{'' if row['ok'] else ' ABOVE ' + format(ERROR_BOUNDS['fp16'], '.0e')}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--workloads", default="bert_packed_b64", help="some of run_peers.py's with an attention mask")
    p.add_argument("--modes", default="default", help="of PyTorch, as run_peers.py has them; or none")
    p.add_argument("--folder", type=Path, help="where the ONNX files go, and are taken from if they are there")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    modes = [] if a.modes == "none" else a.modes.split(",")
    folder = a.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    result = {**provenance(a.commit), "workloads": {}}
    for name in a.workloads.split(","):
        row = result["workloads"][name] = run(a.sinter, name, folder, modes)
        show(name, row, modes)
        if a.out:
            write(a.out, result)
    if not all(row["ok"] for row in result["workloads"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
