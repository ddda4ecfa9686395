#!/usr/bin/env python3
"""The CPU figures: compile times, chains fused against unfused, MiniLM against ONNX Runtime.

  tests/perf/run_cpu.py --threads 2 --out tests/perf/results/cpu.json

ONNX Runtime and Sinter take turns in one run, with the same model, inputs and number of threads.
"""
import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from common import CACHE, INPUTS, ROOT, minilm_shapes, provenance, sinter_json, write

CHAINS = ("chain_ln_relu_add", "chain_sin4", "chain_softmax_mask", "chain_bias_gelu_rms")


def compile_times(sinter, folder):
    """Seconds of wall time of whole `sinter compile` processes, median of three."""
    model, cache = CACHE / "minilm.onnx", folder / "kernels"

    def timed(*options, cold):
        seconds = []
        for _ in range(3):
            if cold:
                shutil.rmtree(cache, ignore_errors=True)
            began = time.perf_counter()
            subprocess.run([sinter, "compile", model, "-o", folder / "timed.plan", "--quiet",
                            f"--kernel-cache={cache}", *options], check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        return round(float(np.median(seconds)), 3)

    gpu = ("--target=cuda:sm_90", "--precision=fp16")
    return {"cpu": timed("--target=cpu", cold=False), "cuda_sm_90_cold": timed(*gpu, cold=True),
            "cuda_sm_90_warm": timed(*gpu, cold=False)}


def onnx_runtime(threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(CACHE / "minilm.onnx"), options, providers=["CPUExecutionProvider"])


def minilm_against_onnx_runtime(sinter, folder, threads, batch, seq=64, turns=5):
    plan = folder / "minilm.plan"
    sinter_json(sinter, "compile", CACHE / "minilm.onnx", "-o", plan, "--target=cpu")
    rng = np.random.default_rng(0)
    feeds = {"input_ids": rng.integers(0, 30522, (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64),
             "token_type_ids": np.zeros((batch, seq), np.int64)}
    np.savez(folder / "in.npz", **feeds)
    ours, theirs = [], []
    for _ in range(turns):
        bench = sinter_json(sinter, "bench", plan, "--inputs", folder / "in.npz", f"--threads={threads}",
                            "--iterations=60", "--duration=3")
        ours.append(bench["latency_us"]["median"])
        session = onnx_runtime(threads)  # made anew, so that its threads do not spin beside ours
        for _ in range(5):
            session.run(None, feeds)
        samples = []
        for _ in range(60):
            began = time.perf_counter()
            session.run(None, feeds)
            samples.append((time.perf_counter() - began) * 1e6)
        theirs.append(float(np.median(samples)))
        del session
    return {"sinter_us": round(float(np.median(ours)), 1), "onnxruntime_us": round(float(np.median(theirs)), 1),
            "ratio": round(float(np.median(ours) / np.median(theirs)), 3), "turns_sinter_us": ours,
            "turns_onnxruntime_us": theirs}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "cpu.json"))
    a = p.parse_args()
    result = {**provenance(), "threads": a.threads, "onnxruntime": onnxruntime.__version__}
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        result["compile_seconds"] = compile_times(a.sinter, folder)
        print("compile seconds", result["compile_seconds"], flush=True)
        subprocess.run([ROOT / ".venv" / "bin" / "python", ROOT / "models" / "chains.py", "--out", folder / "chains",
                        "--dtype=f32", "--rows=1024", "--cols=4096"], check=True)
        result["chains_1024x4096_f32"] = {}
        for chain in CHAINS:
            r = sinter_json(a.sinter, "compare", folder / "chains" / f"{chain}.onnx", "--target=cpu",
                            f"--threads={a.threads}", "--rounds=40")
            fused, unfused = (r["variants"][v]["compute_us"]["median"] for v in ("fused", "unfused"))
            result["chains_1024x4096_f32"][chain] = {"fused_us": fused, "unfused_us": unfused,
                                                     "speed_up": round(unfused / fused, 2),
                                                     "agree_within": r["fused_against_unfused_error"]}
            print(f"{chain}: fused {fused:.0f} us, unfused {unfused:.0f} us, {unfused / fused:.2f}x", flush=True)
        result["minilm_seq64_against_onnxruntime"] = {}
        for batch in (1, 8):
            row = minilm_against_onnx_runtime(a.sinter, folder, a.threads, batch)
            result["minilm_seq64_against_onnxruntime"][f"batch_{batch}"] = row
            print(f"minilm batch {batch}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, "
                  f"{row['ratio']}x its time", flush=True)
    write(a.out, result)


if __name__ == "__main__":
    main()
