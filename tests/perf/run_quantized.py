#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits: the decode step of language models, and single layers, against PyTorch in the same run.

  tests/perf/run_quantized.py --models llama1b_decode_b1 --out tests/perf/results/quantized_h200.json
  tests/perf/run_quantized.py --models llama8b_decode_b1 --weights f16,int8 --modes gpt-fast --out part.json
  tests/perf/run_quantized.py --layers --part 0/2 --out layers0.json
  tests/perf/run_quantized.py --merge part.json layers0.json layers1.json --out tests/perf/results/quantized_h200.json

A row is a model and how its weights are kept: f16; int8 and int4, which `compile --weights` makes of the same float16
model (its last layer has 8 bits in both); and int8_exported, weights that PyTorch rounded and exported as integers. 'share' is the bytes that the plan
moves over its time, as a share of the rate of a copy of 4 GB read in the same run. Errors are of the logits,
||a - b|| / ||b||, against float32 arithmetic with the float32 weights ('original') and with the weights as rounded
('rounded'; the rounding is that of fusion/quantize, done again here). GPU times are medians with a cold L2 and a full
queue. Peers run on the same GPU after each other: torch.compile in the modes of torch_workloads.py, with float16
weights, int8 (what gpt-fast compiles) and int4 (PyTorch's own kernel, in bfloat16).
Columns of a layer: 'cublaslt_us' PyTorch's float16 matmul in the faster layout of the weights; 'dequantize_us' a compiled
kernel that unpacks them, and that matmul; 'of_copy' bytes over time, relative to a 4 GB copy's rate; 'of_tensor' operations
over time, relative to a matmul of 8192 cubed. Of one row also 'copy_us' and 'read_us', a copy of as many bytes and a kernel that
reads them, and 'of_same_copy', the first over 'sinter_us'. Long calls are measured in three turns with the peer: medians, and all
in 'rounds'. Compilers run on half of the cores meanwhile: GPU times do not notice, wall times do.
Results are added to a file of the same commit. Models of 8 billion weights need 60 GB of disk, memory and GPU memory.
"""
import argparse
import itertools
import json
import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from common import ROOT, beside, provenance, sinter_json, write
from runs import relative_error

WEIGHTS = {"f16": "model", "int8": "int8", "int4": "int4:group=128", "int8_exported": "model"}
# Microseconds on an H200 that a row should take at most, and that it should aim for.
WANTED = {"llama1b_decode_b1": (900, 780), "llama1b_decode_b1_int8": (620, 470), "llama1b_decode_b8_int8": (800, 650),
          "llama8b_decode_b1": (4700, 4300), "llama8b_decode_b1_int8": (2700, 2400),
          "llama8b_decode_b1_int4": (1700, 1400)}


def rounded(weight, bits, group):
    """[n, k] as fusion/quantize rounds it, symmetrically: of several ranges the one that leaves the least squares."""
    import torch
    n, k = weight.shape
    w = weight.float().view(n, -1, group or k)
    high = 2 ** (bits - 1) - 1
    largest = w.abs().amax(-1, keepdim=True)
    most, scale = torch.zeros_like(largest, dtype=torch.float64), torch.zeros_like(largest)
    for step in range(16 if bits == 4 else 4):
        q = torch.round((w * (1 / ((1 - 0.025 * step) * largest / high))).clamp(-high, high))
        products, squares = (torch.sum(terms, -1, keepdim=True, dtype=torch.float64) for terms in (w * q, q * q))
        gain = products * products / squares
        scale = torch.where(gain > most, (products / squares).float(), scale)
        most = torch.maximum(gain, most)
    return (torch.round((w * (1 / scale)).clamp(-high, high)) * scale).view(n, k)


def rounded_as_exported(weight, is_last):
    from decoder_workloads import Int8Linear
    layer = Int8Linear(weight)
    return layer.weight.float() * layer.scale.half().float()[:, None]


# Of the weights, and whether they are the last layer's, which --weights int4 leaves at 8 bits.
ROUNDINGS = {"int8": lambda w, is_last: rounded(w.half(), 8, 0),
             "int4": lambda w, is_last: rounded(w.half(), 8, 0) if is_last else rounded(w.half(), 4, 128),
             "int8_exported": rounded_as_exported}


@contextmanager
def with_rounding(module, rounding):
    """The module's linear layers compute with rounded weights."""
    from torch import nn
    from torch.nn import functional as F
    before = nn.Linear.forward
    nn.Linear.forward = lambda layer, x: F.linear(x, rounding(layer.weight, layer is module.head))
    try:
        yield
    finally:
        nn.Linear.forward = before


def prepare(name, kinds, folder):
    """Writes ONNX files, inputs and expected logits of a model where they are not there."""
    import torch
    import torch_workloads as peers
    from decoder_workloads import Int8Linear, with_linears
    from torch_export import export
    workload, path = peers.WORKLOADS[name], folder / f"{name}.onnx"
    logits_path = path.with_suffix(".logits.npz")
    if logits_path.exists():
        return
    began = time.perf_counter()

    with torch.no_grad():
        module, inputs = peers.seeded(workload)

        def logits():
            return module(*(t.clone() for t in inputs.values()))[0].cpu().numpy()
        expected = {"original": logits()}
        for kind in set(kinds) & set(ROUNDINGS):
            with with_rounding(module, ROUNDINGS[kind]):
                expected[kind] = logits()
        peers.save_tensors(path.with_suffix(".npz"), peers.half(inputs))
        if set(kinds) - {"int8_exported"}:
            export(workload, module.half(), path)
        del module
        if "int8_exported" in kinds:
            module = with_linears(peers.seeded(workload)[0], Int8Linear).half()
            export(peers.WORKLOADS[f"{name}_int8"], module, folder / f"{name}_int8_exported.onnx")
            del module
    np.savez(logits_path, **expected)
    torch.cuda.empty_cache()
    print(f"exported {name} ({time.perf_counter() - began:.0f} s)", flush=True)


def compile_plan(sinter, model, plan, target, weights):
    """Seconds, and the most memory that the compiler held, mapped files included, in GB."""
    began, peak = time.perf_counter(), 0
    words = [sinter, "compile", str(model), "-o", str(plan), f"--target={target}", f"--weights={weights}", "--quiet"]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:  # rusage would count this process, too, before it becomes another
            held = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
            peak = max(peak, int(held[0].split()[1]) if held else 0)
            time.sleep(0.05)
        log.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"compile failed: {log.read()[-500:]}")
    return {"compile_s": round(time.perf_counter() - began, 1), "compile_peak_GB": round(peak / 1e6, 2)}


def compile_kind(a, name, kind, folder, target):
    model = folder / (f"{name}_int8_exported.onnx" if kind == "int8_exported" else f"{name}.onnx")
    return compile_plan(a.sinter, model, folder / f"{name}_{kind}.plan", target, WEIGHTS[kind])


def run_sinter(a, name, kind, folder, compiled, copy):
    plan, result = folder / f"{name}_{kind}.plan", folder / "outputs.npz"
    inputs = folder / f"{name}.npz"
    row = {**compiled, "plan_bytes": plan.stat().st_size}
    sinter_json(a.sinter, "run", plan, "--inputs", inputs, "--outputs", result)
    expected, found = np.load(folder / f"{name}.logits.npz"), np.load(result)["logits"]
    row["errors"] = {"original": relative_error(found, expected["original"])}
    if kind in ROUNDINGS:
        row["errors"]["rounded"] = relative_error(found, expected[kind])
    bench = sinter_json(a.sinter, "bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=200", "--duration=2")
    times = bench["compute_us"]
    row.update(gpu_us=round(times["median"], 2), p10_us=round(times["p10"], 2), p90_us=round(times["p90"], 2),
               wall_us=round(bench["latency_us"]["median"], 2), launches=bench["launches"],
               bytes_moved=bench["bytes_moved"], memory=bench["memory"],
               share=round(bench["bytes_moved"] / times["median"] * 1e-6 / copy, 3))
    if not a.keep_plans:
        plan.unlink()
    return row


def measure_models(a, result, began):
    import torch
    import torch_workloads as peers
    from gpu_timing import copy_rate
    target = "cuda:sm_%d%d" % torch.cuda.get_device_capability()
    copy = copy_rate()
    result["copy_TBps"] = round(copy, 3)
    kinds = a.weights.split(",")
    folder = a.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    modes = [] if a.modes == "none" else a.modes.split(",")
    for name in a.models.split(","):
        rows = {kind: result["models"].setdefault(name if kind == "f16" else f"{name}_{kind}", {}) for kind in kinds}
        with beside(a.jobs) as pool:
            compiling = {}
            if a.sinter != "none":
                prepare(name, kinds, folder)
                compiling = {kind: pool.submit(compile_kind, a, name, kind, folder, target) for kind in kinds}

            def measure_ours(wait):
                for kind in [kind for kind, plan in compiling.items() if wait or plan.done()]:
                    row = rows[kind]
                    try:
                        row["sinter"] = run_sinter(a, name, kind, folder, compiling.pop(kind).result(), copy)
                    except (SystemExit, Exception) as error:
                        row["sinter"] = {"failed": str(error)[:500]}
                    print_row(f"{name}_{kind} ({time.monotonic() - began:.0f} s)", row)
                    write(a.out, result)
            # Compilers leave the GPU and half of the cores alone: meanwhile they are PyTorch's.
            for mode, kind in itertools.product(modes, kinds):
                measure_ours(wait=False)
                if kind == "int8_exported":
                    continue  # what PyTorch runs is the same
                row = rows[kind]
                if time.monotonic() - began > a.deadline:
                    row.setdefault(mode, {"failed": "not run: deadline"})
                    continue
                try:
                    row[mode] = peers.time_mode(peers.WORKLOADS[name if kind == "f16" else f"{name}_{kind}"], mode)
                except Exception as error:
                    row[mode] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
                    torch.cuda.empty_cache()
                print(f"{name} {kind} {mode} {row[mode]} ({time.monotonic() - began:.0f} s)", flush=True)
                write(a.out, result)
            measure_ours(wait=True)


def print_row(name, row):
    ours = row["sinter"]
    if "failed" in ours:
        return print(f"{name:30s} {ours['failed']}", flush=True)
    errors = ", ".join(f"{what} {error:.1e}" for what, error in ours["errors"].items())
    print(f"{name:30s} {ours['gpu_us']:8.1f} / {ours['wall_us']:8.1f} us, {ours['launches']} launches, "
          f"{100 * ours['share']:.0f} % of a copy's rate, plan {ours['plan_bytes'] / 1e6:.0f} MB, errors {errors}; "
          f"compiled in {ours['compile_s']} s with {ours['compile_peak_GB']} GB", flush=True)


def summarise_models(models):
    """By row: what is wanted, and the ratio to the fastest peer that was run."""
    table = {}
    for name, row in models.items():
        ours = row.get("sinter", {}).get("gpu_us")
        peers = {mode: times["gpu_us"] for mode, times in row.items() if mode != "sinter" and "gpu_us" in times}
        entry = {"gpu_us": ours}
        if name in WANTED:
            entry["most_us"], entry["goal_us"] = WANTED[name]
            entry["ok"] = ours is not None and ours <= entry["most_us"]
        if peers and ours:
            best = min(peers, key=peers.get)
            entry.update(best_peer=best, peer_us=peers[best], ratio=round(peers[best] / ours, 2))
        table[name] = entry
    return table


def merge(paths):
    """One result of parts that were measured on GPUs of one kind, where the last that did not fail has its way; which
    commit each is of stays with it."""
    import quantized_layers as layers
    parts = [json.loads(Path(path).read_text()) for path in paths]
    result, points = {**parts[-1], "models": {}, "parts": []}, {}
    for part in parts:
        if part["gpu"] != result["gpu"]:
            raise SystemExit(f"parts of different GPUs: {part['gpu']} and {result['gpu']}")
        rows = len(part["layers"])
        rates = {key: part[key] for key in ("copy_TBps", "tensor_TFLOPs", "empty_kernel_us", "empty_plan_us")
                 if key in part}
        result["parts"].append({"commit": part["commit"], "date": part["date"], **rates,
                                "measured": [*part["models"], *([f"{rows} layers"] if rows else [])]})
        for name, row in part["models"].items():
            known = result["models"].setdefault(name, {})
            known.update({mode: times for mode, times in row.items() if "failed" not in times or mode not in known})
        points.update(((row["weights"], row["n"], row["k"], row["m"]), row) for row in part["layers"])
    result["layers"] = list(points.values())
    return result, layers.summarise(result["layers"])


def finish(a, result, summary):
    result["summary"] = {"models": summarise_models(result["models"]), "layers": summary}
    print(json.dumps(result["summary"], indent=1))
    write(a.out, result)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"), help="none: only PyTorch's models")
    p.add_argument("--models", default="", help="decode steps of torch_workloads.py, as llama1b_decode_b1")
    p.add_argument("--weights", default=",".join(WEIGHTS), help="(default: %(default)s)")
    p.add_argument("--modes", default="reduce-overhead,gpt-fast", help="PyTorch's, or none")
    p.add_argument("--layers", action="store_true", help="single layers: all sizes, rows and types")
    p.add_argument("--shapes", default="", help="of --layers, as 4096x4096,14336x4096 (n x k)")
    p.add_argument("--rows", default="", help="of --layers, as 1,16")
    p.add_argument("--part", default="0/1", metavar="I/N", help="of --layers: every Nth shape, from the Ith on")
    p.add_argument("--seconds", type=float, default=0.1, help="of --layers, for each measurement")
    p.add_argument("--jobs", type=int, default=min(12, os.cpu_count()), help="compilers at a time")
    p.add_argument("--folder", type=Path, help="where ONNX files go, and are taken from if they are there")
    p.add_argument("--keep-plans", action="store_true")
    p.add_argument("--deadline", type=float, default=540, help="seconds after which no new measurement starts")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--merge", nargs="+", type=Path, metavar="PART", help="join results instead of measuring")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.merge:
        return finish(a, *merge(a.merge))
    import torch
    import quantized_layers as layers
    began = time.monotonic()
    for kind in set(a.weights.split(",")) - set(WEIGHTS):
        p.error(f"no weights {kind}; there are {', '.join(WEIGHTS)}")
    result = {**provenance(a.commit), "cuda": torch.version.cuda, "torch": torch.__version__, "models": {},
              "layers": []}
    if a.out.exists():
        before = json.loads(a.out.read_text())
        if before["commit"] == result["commit"]:
            result.update(models=before["models"], layers=before["layers"])
    if a.models:
        measure_models(a, result, began)
    if a.layers:
        layers.measure(a, result, began)
    finish(a, result, layers.summarise(result["layers"]))


if __name__ == "__main__":
    main()
