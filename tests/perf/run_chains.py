#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory-bound kernels on a GPU against PyTorch in the same run: the chains, a thousand means, a sweep.

  tests/perf/run_chains.py --out tests/perf/results/h200_chains.json

All times are medians of GPU time with a cold L2 and a full queue, in us: Sinter's by `sinter bench`, PyTorch's by
gpu_timing.py. 'copy_us' is a device-to-device copy that reads and writes as many bytes in all, timed like PyTorch.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write

sys.path.insert(0, str(ROOT / "models"))
ROWS_BY_COLUMNS = [(262144, 128), (65536, 512), (32768, 1024), (8192, 4096), (2048, 16384), (512, 65536),
                   (128, 262144)]


class Torch:
    def __init__(self):
        import gpu_timing
        import torch
        self.torch, self.timing = torch, gpu_timing

    def time(self, call, runs=30):
        for _ in range(3):
            call()
        return round(float(np.median(self.timing.gpu_times(call, runs))), 2)

    def peers(self, function, inputs, modes=("default", "reduce-overhead")):
        """Eager and modes of torch.compile, each by its name."""
        torch, result = self.torch, {"eager": self.time(lambda: function(*inputs))}
        for name in modes:
            torch._dynamo.reset()
            compiled = torch.compile(function, fullgraph=True, mode=name)
            result[name] = self.time(lambda: compiled(*inputs))
        return result

    def random(self, *shape, dtype="float16"):
        return self.torch.randn(*shape, device="cuda").to(getattr(self.torch, dtype))


def functions(torch):
    F = torch.nn.functional

    def gelu_rms(x, gate, bias, scale):
        y = F.gelu(x + bias) * gate
        return y * torch.rsqrt(y.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(y.dtype) * scale

    return {"chain_ln_relu_add": lambda x, s, b: x + F.relu(F.layer_norm(x, x.shape[-1:], s, b)),
            "chain_sin4": lambda x: torch.sin(torch.sin(torch.sin(torch.sin(x)))),
            "chain_softmax_mask": lambda x, mask: torch.softmax(x * 0.125 + mask, dim=-1),
            "chain_bias_gelu_rms": gelu_rms}


def measure(sinter, model, folder):
    plan = folder / "kernel.plan"
    sinter_json(sinter, "compile", model, "-o", plan, "--target=cuda")
    return round(sinter_json(sinter, "bench", plan, "--iterations=60")["compute_us"]["median"], 2)


def entry(sinter_us, peers, moved, copy_us, copy_rate):
    best = min(peers, key=peers.get)
    rate = moved / sinter_us * 1e-6
    return {"sinter_us": sinter_us, **{f"torch_{k}_us": v for k, v in peers.items()},
            "times_best_torch": round(peers[best] / sinter_us, 2), "TBps": round(rate, 3),
            "of_copy_rate": round(rate / copy_rate, 3), "copy_us": copy_us,
            "of_copy_of_as_many_bytes": round(copy_us / sinter_us, 3)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "h200_chains.json"))
    p.add_argument("--deadline", type=float, default=600, help="seconds after which no new point of the sweep starts")
    a = p.parse_args()
    began = time.monotonic()
    import chains
    import onnx
    t = Torch()
    torch, of = t.torch, functions(t.torch)
    result = {**provenance(a.commit), "torch": torch.__version__}
    rate = t.timing.copy_rate()
    result["copy_TBps"] = round(rate, 3)
    with tempfile.TemporaryDirectory() as tmp, torch.inference_mode():
        tmp = Path(tmp)
        subprocess.run([sys.executable, ROOT / "models" / "chains.py", "--out", tmp, "--dtype=f16", "--attention",
                        "--many=1000"], check=True)
        x, gate = t.random(8192, 4096), t.random(8192, 4096)
        weight, bias = 1 + 0.02 * t.random(4096), 0.02 * t.random(4096)
        work = {"chain_ln_relu_add": ((x, weight, bias), 2 * x.numel()), "chain_sin4": ((x,), 2 * x.numel()),
                "chain_softmax_mask": ((t.random(16, 12, 512, 512), t.random(16, 1, 1, 512)), 2 * 16 * 12 * 512 * 512),
                "chain_bias_gelu_rms": ((x, gate, bias, weight), 3 * x.numel())}
        result["chains_f16"] = {}
        for name, (inputs, elements) in work.items():
            us = measure(a.sinter, tmp / f"{name}.onnx", tmp)
            result["chains_f16"][name] = entry(us, t.peers(of[name], inputs), 2 * elements,
                                               t.timing.copy_time(2 * elements), rate)
            print(name, result["chains_f16"][name], flush=True)
        sizes = np.random.default_rng(0).integers(256, 65536, 1000)
        tensors = [t.random(int(n)) for n in sizes]
        eager = t.time(lambda: torch.stack([v.float().mean() for v in tensors]), runs=8)
        result["sum_many_1000"] = {"sinter_us": measure(a.sinter, tmp / "sum_many_1000.onnx", tmp),
                                   "torch_eager_us": eager, "MB": round(float(sizes.sum()) * 2e-6, 1)}
        print(result["sum_many_1000"], flush=True)
        result["sweep_128_MB"] = {}
        for dtype, short, scale in (("float16", "f16", 1), ("float32", "f32", 2)):
            for rows, columns in ROWS_BY_COLUMNS:
                rows = rows // scale
                x = t.random(rows, columns, dtype=dtype)
                moved = 2 * x.numel() * x.element_size()
                copy_us = t.timing.copy_time(moved)
                weights = [t.random(columns, dtype=dtype) for _ in range(2)]
                cases = {"layernorm": (chains.ln_relu_add(short, rows, columns), of["chain_ln_relu_add"], (x, *weights)),
                         "softmax": (chains.softmax_mask(short, [rows, columns], [1, columns]),
                                     of["chain_softmax_mask"], (x, weights[0][None]))}
                for kind, (model, function, inputs) in cases.items():
                    if time.monotonic() - began > a.deadline:
                        continue
                    onnx.save(model, tmp / "case.onnx")
                    us = measure(a.sinter, tmp / "case.onnx", tmp)
                    name = f"{kind} {short} {rows}x{columns}"
                    result["sweep_128_MB"][name] = entry(us, t.peers(function, inputs, ["default"]), moved, copy_us, rate)
                    print(name, result["sweep_128_MB"][name], flush=True)
    points = list(result["sweep_128_MB"].values())
    result["sweep_summary"] = {
        "points": len(points), "of": 4 * len(ROWS_BY_COLUMNS), "not_slower_than_torch": sum(q["times_best_torch"] >= 0.98 for q in points),
        "geometric_mean_times_best_torch": round(float(np.exp(np.mean([np.log(q["times_best_torch"]) for q in points]))), 3),
        "at_least_90_percent_of_copy_of_as_many_bytes": sum(q["of_copy_of_as_many_bytes"] >= 0.9 for q in points)}
    print(result["sweep_summary"])
    write(a.out, result)


if __name__ == "__main__":
    main()
