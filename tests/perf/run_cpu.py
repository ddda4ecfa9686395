#!/usr/bin/env python3
"""The CPU figures: compile times, chains fused against unfused, models against ONNX Runtime.

  tests/perf/run_cpu.py --threads 2 --out tests/perf/results/cpu.json

ONNX Runtime and Sinter take turns in one run, with the same model, inputs and number of threads.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from common import CACHE, ROOT, provenance, sinter_json, write
from runs import Sinter, onnx_runtime

sys.path.insert(0, str(ROOT / "models"))
import magika_inputs  # noqa: E402
import real_inputs  # noqa: E402

ZOO = ("magika", "ppocr_det", "ppocr_rec", "silero_vad", "light_resnet50", "minilm")
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


def against_onnx_runtime(sinter, folder, threads, model, feeds, options=(), turns=5, runs=60):
    command = Sinter(sinter, folder)
    plan, inputs = command.compile(model, *options, name="timed"), command.save(feeds)
    ours, theirs = [], []
    for _ in range(turns):
        bench = command.json("bench", plan, "--inputs", inputs, f"--threads={threads}", f"--iterations={runs}",
                             "--duration=2")
        ours.append(bench["latency_us"]["median"])
        session = onnx_runtime(model, threads)  # made anew, so that its threads do not spin beside ours
        for _ in range(5):
            session.run(None, feeds)
        samples = []
        for _ in range(runs):
            began = time.perf_counter()
            session.run(None, feeds)
            samples.append((time.perf_counter() - began) * 1e6)
        theirs.append(float(np.median(samples)))
        del session
    return {"sinter_us": round(float(np.median(ours)), 1), "onnxruntime_us": round(float(np.median(theirs)), 1),
            "ratio": round(float(np.median(ours) / np.median(theirs)), 3), "turns_sinter_us": ours,
            "turns_onnxruntime_us": theirs}


def minilm_feeds(batch, seq=64):
    rng = np.random.default_rng(0)
    return {"input_ids": rng.integers(0, 30522, (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64),
            "token_type_ids": np.zeros((batch, seq), np.int64)}


def zoo_feeds(name):
    """One real input of a model, with the state that it starts from."""
    if name == "magika":
        return magika_inputs.encode([ROOT / "README.md"], magika_inputs.config())
    feeds = real_inputs.INPUTS[name]()[0]
    return {**feeds, **{key: np.zeros(shape, np.float32) for key, shape in real_inputs.STATE.get(name, {}).values()}}


def zoo(sinter, folder, threads):
    manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
    rows = {}
    for name in ZOO:
        feeds = minilm_feeds(1) if name == "minilm" else zoo_feeds(name)
        rows[name] = against_onnx_runtime(sinter, folder, threads, CACHE / f"{name}.onnx", feeds,
                                          manifest[name].get("options", []), turns=3, runs=30)
        print(f"{name}: {rows[name]['sinter_us']} us, ONNX Runtime {rows[name]['onnxruntime_us']} us, "
              f"{rows[name]['ratio']}x its time", flush=True)
    mean = float(np.exp(np.mean([np.log(r["ratio"]) for r in rows.values()])))
    print(f"geometric mean {mean:.3f}", flush=True)
    return {"geometric_mean": round(mean, 3), "models": rows}


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
            row = against_onnx_runtime(a.sinter, folder, a.threads, CACHE / "minilm.onnx", minilm_feeds(batch))
            result["minilm_seq64_against_onnxruntime"][f"batch_{batch}"] = row
            print(f"minilm batch {batch}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, "
                  f"{row['ratio']}x its time", flush=True)
        result["models_batch_1_against_onnxruntime"] = zoo(a.sinter, folder, a.threads)
    write(a.out, result)


if __name__ == "__main__":
    main()
