#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models with products of 8 bits on a GPU, beside the same models in float16.

  run_eight_bit_models.py --out tests/perf/results/eight_bit_models_h200.json [--workloads bert_b32_s128,vit_l14_b8]
                          [--precisions fp8,fp8_token,int8] [--peers torch_fp8_static,torchao_fp8_row]

Workloads are those of run_peers.py, with random weights: for times, and errors say only that nothing is broken. Each is
exported by PyTorch and compiled in float16 and in each of `precisions`: fp8 and int8 with static scales, calibrated on the
inputs that are timed, or by token (_token). With _attention attention has 8 bits, too (--attention-precision fp8); fp16_attention
is that alone. Every layer that may has 8 bits (--max-error is out of reach). Times are
microseconds of the GPU with a cold L2 and of a synchronised call, in turns of the same run; `speedup` is float16's time
over theirs, `relative_error` that of the largest error of an output against PyTorch's float32. With --peers PyTorch's own
products of 8 bits (eight_bit_peers.py) run behind ours, compiled by torch.compile in --peer-mode; max-autotune takes
minutes for a model. The file is written after every row, so nothing is lost at a time limit.
"""
import argparse
import signal
import tempfile
import time
from pathlib import Path

from common import ROOT, provenance, sinter_json, write
from run_peers import error_of, export_one


def compile_plan(sinter, path, precision, half):
    plan = path.with_suffix(f".{precision}.plan")
    kind, *how = precision.split("_")
    calibrated = "attention" in how
    if kind == "fp16":
        options = [f"--precision={'model' if half else 'fp16'}"]
    else:
        scales = next((name for name in ("token", "block") if name in how), "static")
        options = [f"--precision={kind}", f"--activation-scales={scales}", "--weight-rounding=nearest"]
        calibrated = calibrated or scales == "static"
    if "attention" in how:
        options.append("--attention-precision=fp8")
    if "fast" in how:
        options.append("--fp8-accumulation=fast")
    if precision != "fp16":
        options.append("--max-error=100")
    if calibrated:
        options += ["--calibration", path.with_suffix(".npz")]
    start = time.perf_counter()
    sinter_json(sinter, "compile", path, "-o", plan, "--target=cuda", *options)
    return plan, round(time.perf_counter() - start, 1)


def measure(sinter, path, plan):
    bench = sinter_json(sinter, "bench", plan, "--inputs", path.with_suffix(".npz"), "--deviceIo", "--iterations=100",
                        "--duration=1")
    return {"gpu_us": round(bench["compute_us"]["median"], 2), "wall_us": round(bench["latency_us"]["median"], 2),
            "launches": bench["launches"], "bytes_moved": bench["bytes_moved"],
            "relative_error": error_of(sinter, path, plan)}


def run_ours(args, start, failure, path, precision):
    import torch_workloads
    if failure or time.perf_counter() - start > args.deadline:
        return {"failed": failure or "not run: deadline"}
    try:
        plan, seconds = compile_plan(args.sinter, path, precision, torch_workloads.WORKLOADS[path.stem].half)
        return {**measure(args.sinter, path, plan), "compile_s": seconds}
    except (SystemExit, Exception) as error:  # pylint: disable=broad-except
        return {"failed": str(error)[-600:]}


def run_peers(args, start, rows, save):
    """Behind all of ours: compilation by max-autotune takes longest, and nothing of ours waits for it."""
    import eight_bit_peers
    import torch_workloads
    peers = list(eight_bit_peers.PEERS) if args.peers == "all" else args.peers.split(",")
    def late(*_):
        raise TimeoutError(f"longer than {args.peer_limit:g} s")
    signal.signal(signal.SIGALRM, late)
    for name, row in rows.items():
        for peer in peers:
            left = args.deadline - (time.perf_counter() - start)
            if left <= 0:
                row[peer] = {"failed": "not run: deadline"}
                continue
            signal.setitimer(signal.ITIMER_REAL, min(left, args.peer_limit))
            try:
                row[peer] = eight_bit_peers.time_peer(torch_workloads.WORKLOADS[name], peer, args.peer_mode)
            except Exception as error:  # pylint: disable=broad-except
                row[peer] = {"failed": f"{type(error).__name__}: {str(error)[-600:]}"}
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            print(f"{name:16} {peer:18} {row[peer]}", flush=True)
            save()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--workloads", default="bert_b32_s128,bert_b8_s384,bert_b64_s512,vit_l14_b8,unet_64")
    p.add_argument("--precisions", default="fp8,fp8_token,int8",
                   help="fp8 or int8, with _token or _block (scales of activations), _fast (--fp8-accumulation) and "
                        "_attention (--attention-precision); fp16_attention")
    p.add_argument("--peers", default="", help="of eight_bit_peers.py, or all")
    p.add_argument("--peer-mode", default="max-autotune", help="of torch.compile")
    p.add_argument("--peer-limit", type=float, default=120, help="seconds of one peer on one model, compilation included")
    p.add_argument("--deadline", type=float, default=540, help="seconds after which nothing new starts")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--folder", type=Path, help="where models and plans stay, for `sinter profile`")
    p.add_argument("--out", type=Path)
    args = p.parse_args()
    start, rows = time.perf_counter(), {}
    result = {**provenance(args.commit), "workloads": rows}

    def save():
        if args.out:
            write(args.out, result)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.workloads.split(","):
            path = (args.folder or Path(folder)) / f"{name}.onnx"
            _, failure, _ = export_one((name, path))
            row = rows[name] = {}
            for precision in ["fp16", *filter(None, args.precisions.split(","))]:
                row[precision] = run_ours(args, start, failure, path, precision)
                if "gpu_us" in row[precision] and "gpu_us" in row["fp16"]:
                    row[precision]["speedup"] = round(row["fp16"]["gpu_us"] / row[precision]["gpu_us"], 3)
                print(f"{name:16} {precision:10} {row[precision]}", flush=True)
                save()
        if args.peers:
            run_peers(args, start, rows, save)


if __name__ == "__main__":
    main()
