#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GPU figures: MiniLM fused and unfused, chains against the copy rate, load to first result.

  tests/perf/run_gpu.py --out tests/perf/results/h200.json

The copy rate is that of PyTorch's device-to-device copy of 4 GB in the same run.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from common import CACHE, ROOT, minilm_shapes, provenance, sinter_json, write

CHAINS = {"chain_ln_relu_add": 2 * 8192 * 4096, "chain_sin4": 2 * 8192 * 4096,
          "chain_softmax_mask": 2 * 16 * 12 * 512 * 512 + 16 * 512, "chain_bias_gelu_rms": 3 * 8192 * 4096}


def minilm(sinter, folder):
    options = ["--target=cuda", "--precision=fp16"]
    result = {"compare_b1_s64_fp16": sinter_json(sinter, "compare", CACHE / "minilm.onnx", *options,
                                                 minilm_shapes(1, 64), "--rounds=300")}
    plan = folder / "minilm.plan"
    sinter_json(sinter, "compile", CACHE / "minilm.onnx", "-o", plan, *options)
    result["bench_b1_s64_fp16"] = sinter_json(sinter, "bench", plan, minilm_shapes(1, 64), "--iterations=200")
    # In a process of its own each time, with the file and the chosen algorithms cached by the first.
    loads = [sinter_json(sinter, "bench", plan, minilm_shapes(1, 64), "--iterations=1") for _ in range(5)]
    result["load_to_first_result_ms"] = [round(r["first_result_us"] / 1e3, 1) for r in loads]
    result["context_creation_ms"] = [round(r["context_us"] / 1e3, 1) for r in loads]
    result["profile_b1_s64_fp16"] = sinter_json(sinter, "profile", plan, minilm_shapes(1, 64))
    return result


def chains(sinter, folder, copy):
    subprocess.run([sys.executable, ROOT / "models" / "chains.py", "--out", folder / "chains", "--dtype=f16",
                    "--attention"], check=True)
    result = {}
    for name, elements in CHAINS.items():
        r = sinter_json(sinter, "compare", folder / "chains" / f"{name}.onnx", "--target=cuda", "--rounds=60")
        fused = r["variants"]["fused-graph"]["compute_us"]["median"]
        rate = elements * 2 / fused * 1e-6
        result[name] = {"fused_us": fused, "TBps": round(rate, 3), "of_copy_rate": round(rate / copy, 3),
                        "unfused_stream_us": r["variants"]["unfused-stream"]["compute_us"]["median"],
                        "agree_within": r["fused_against_unfused_error"]}
        print(f"{name}: {fused:.1f} us, {rate:.2f} TB/s, {100 * rate / copy:.0f}% of the copy rate", flush=True)
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "h200.json"))
    a = p.parse_args()
    import torch

    from gpu_timing import copy_rate
    copy = copy_rate()
    result = {**provenance(a.commit), "cuda": torch.version.cuda, "copy_TBps": round(copy, 3)}
    print(f"copy {copy:.2f} TB/s", flush=True)
    with tempfile.TemporaryDirectory() as tmp:
        result["chains_f16"] = chains(a.sinter, Path(tmp), copy)
        result["minilm"] = minilm(a.sinter, Path(tmp))
    variants = result["minilm"]["compare_b1_s64_fp16"]["variants"]
    for name, v in variants.items():
        print(f"minilm {name}: {v['compute_us']['median']:.1f} us, wall {v['wall_us']['median']:.1f} us, "
              f"{v['launches']} launches")
    print("load to first result ms", result["minilm"]["load_to_first_result_ms"], "context",
          result["minilm"]["context_creation_ms"])
    write(a.out, result)


if __name__ == "__main__":
    main()
