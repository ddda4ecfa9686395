#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts on one GPU beside PyTorch, in one run.

  tests/perf/run_mixtures.py --out tests/perf/results/mixtures_h200.json
  tests/perf/run_mixtures.py --rows einsum_f16,qwen3_bf16 --plans FOLDER --tokens 1,16
  tests/perf/run_mixtures.py --check            small ones on the CPU, results only

Rows:
  einsum_f16     eight layers of 32 experts (1,024 x 2 * 768, four taken), weights gathered for einsum; 1 and 16 tokens
  gpt_oss_mxfp4  a layer of gpt-oss-120b: 128 experts of 2,880 x 2 * 2,880, four taken, QMoE; 1, 8 and 256 tokens.
                 PyTorch multiplies the same numbers in bfloat16
  qwen3_bf16     a layer of Qwen3-30B-A3B: 128 experts of 2,048 x 2 * 768, eight taken, MoE; 512 and 4,096 tokens
  qwen3_fp8      the same in e4m3 with a scale for each token (--precision=fp8)

Weights, inputs and scores are random and seeded. Programs take turns, --rounds times: `sinter bench`, and PyTorch's calls
by torch.compile with and without CUDA graphs (--modes; vllm: its kernels of 16 bits, where it is). Figures are medians
between events with a cold L2 and a full queue; behind them the wall time of one synchronised call; of rounds the median.
Errors are those of the median and of the worst token, ||a - b|| / ||b||, against float32: in einsum_f16 rounding may change which
experts a token takes. `read_us`: the weights of the experts that are taken, at the rate of a copy. What fails says why in
its place. --out is written after each figure, and added to if it is of the same commit. Models and plans take up to 4 GB
for a row; they stay in --plans, or else go when the row is done.
"""
import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

import mixture_models as models
from common import ROOT, Sinter, provenance, write

def vllm_experts(module):
    """vLLM's kernels of 16 bits, with routing by torch.compile."""
    from vllm.model_executor.layers.fused_moe import fused_experts
    if not isinstance(module, models.Grouped):
        raise RuntimeError("vLLM takes a layer with scores from outside")
    routed = torch.compile(module.routed, dynamic=False)

    def call(x, scores):
        shares, chosen = routed(scores)
        return fused_experts(x, module.w1, module.w2, shares, chosen.int())
    return call


MODES = {
    "eager": lambda module: module,
    "compiled": lambda module: torch.compile(module, dynamic=False),
    "graphs": lambda module: torch.compile(module, dynamic=False, mode="reduce-overhead"),
    "autotuned": lambda module: torch.compile(module, dynamic=False, mode="max-autotune"),
    "vllm": vllm_experts,
}


@dataclass(frozen=True)
class Row:
    shape: models.Shape
    tokens: tuple
    make: type
    model: str  # rows of one model share its files
    four_bits: bool = False
    options: tuple = ()  # of `compile`
    most_error: float = 0.02  # of --check

    def module(self, shape, device):
        settings = {"four_bits": True} if self.four_bits else {}
        return self.make(shape, device, **settings).eval()


QWEN3 = models.Shape(2048, 768, 128, 8, dtype=torch.bfloat16)
ROWS = {
    "einsum_f16": Row(models.Shape(1024, 768, 32, 4, layers=8), (1, 16), models.Einsum, "einsum"),
    "gpt_oss_mxfp4": Row(models.Shape(2880, 2880, 128, 4, dtype=torch.bfloat16), (1, 8, 256), models.Grouped, "gpt_oss", True),
    "qwen3_bf16": Row(QWEN3, (512, 4096), models.Grouped, "qwen3"),
    "qwen3_fp8": Row(QWEN3, (4096,), models.Grouped, "qwen3", options=("--precision=fp8", "--activation-scales=token",
                                                                       "--weight-rounding=nearest", "--include=MoE"), most_error=0.1),
}


def say(*words):
    print(*words, flush=True)


def reason(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' | '.join(lines)[:400]}"


def token_errors(found, expected):
    """Of the median and of the worst token."""
    found, expected = (np.asarray(t, np.float64) for t in (found, expected))
    if found.shape != expected.shape:
        raise RuntimeError(f"the result is {found.shape}, PyTorch's {expected.shape}")
    each = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return {"error": float(np.median(each)), "worst_error": float(each.max())}


class Bench:
    def __init__(self, options, folder, device):
        self.options, self.folder, self.device = options, folder, device
        self.sinter = Sinter(options.sinter, folder, target=options.target, precision=None)
        self.modules = {}

    def module(self, row, shape):
        """One at a time; weights are the same for all rows of a model."""
        if row.model not in self.modules:
            self.modules.clear()
            if self.device == "cuda":
                torch.cuda.empty_cache()
            with torch.no_grad():
                self.modules[row.model] = row.module(shape, self.device)
        return self.modules[row.model]

    def plan(self, name, row, shape, tokens):
        """The row's plan for 1 to `tokens` tokens, and the seconds of its compilation, or None if it was there."""
        path = self.folder / f"{row.model}.onnx"
        if not path.exists():
            began = time.perf_counter()
            write_model = models.write_einsum if row.make is models.Einsum else models.write_mixture
            write_model(self.module(row, shape), shape, path)
            say(f"  wrote {path.name}, {path.with_suffix('.weights').stat().st_size / 1e9:.2f} GB, in {time.perf_counter() - began:.0f} s")
        plan = self.folder / f"{name}.plan"
        if plan.exists():
            return plan, None
        began = time.perf_counter()
        tuning = [f"--tune={self.options.tune}"] if self.options.tune else []
        self.sinter.text("compile", path, "-o", plan, "--quiet", f"--target={self.options.target}", "--serve=off",
                         f"--dim=tokens=1..{tokens}", *row.options, *self.options.option, *tuning)
        return plan, time.perf_counter() - began

    def save_inputs(self, inputs):
        path = self.folder / "in.npz"
        np.savez(path, **{name: (t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).cpu().numpy()
                          for name, t in inputs.items()})
        return path

    def ours(self, plan, inputs):
        made = self.sinter.json("bench", plan, "--inputs", self.save_inputs(inputs), "--deviceIo", "--iterations=300",
                                f"--duration={self.options.seconds}")
        return {"gpu_us": made["compute_us"]["median"], "wall_us": made["latency_us"]["median"], "launches": made["launches"]}

    def result(self, plan, inputs):
        path = self.folder / "out.npz"
        self.sinter.text("run", plan, "--inputs", self.save_inputs(inputs), "--outputs", path)
        with np.load(path) as file:
            output = file["output"]
        if output.dtype == np.uint16:  # the bits of bfloat16
            output = (output.astype(np.uint32) << 16).view(np.float32)
        return output.astype(np.float64)


def summary(rounds):
    """The median of each figure over the rounds."""
    result = {key: round(statistics.median(each[key] for each in rounds), 2) for key in rounds[0]}
    return {**result, "rounds": [round(each["gpu_us"], 2) for each in rounds]}


def measure_tokens(bench, row, shape, plan, tokens, record):
    """Adds to `record` as figures come."""
    from gpu_timing import copy_rate, measure
    module = bench.module(row, shape)
    with torch.inference_mode():
        inputs = module.inputs(shape, tokens, bench.device)
        record["read_us"] = round(models.taken_bytes(module, shape, inputs) / copy_rate() * 1e-6, 2)
        expected = models.exact(module, inputs).cpu().numpy()
        calls = {}
        if bench.options.modes:
            if isinstance(module, models.Grouped):
                module.plain()
            for mode in bench.options.modes:
                try:
                    torch._dynamo.reset()
                    call = MODES[mode](module)
                    found = call(*inputs.values()).float().cpu().numpy()
                    record[mode] = token_errors(found, expected)
                    calls[mode] = lambda call=call: call(*inputs.values())
                except Exception as error:
                    record[mode] = {"failed": reason(error)}
        programs = dict(calls)
        if plan is not None:
            record["sinter"] = {}
            try:
                record["sinter"] = token_errors(bench.result(plan, inputs), expected)
                programs = {"sinter": None, **programs}
            except Exception as error:
                record["sinter"] = {"failed": reason(error)}
        times = {name: [] for name in programs}
        for _ in range(bench.options.rounds):
            for name in list(programs):
                try:
                    one = bench.ours(plan, inputs) if name == "sinter" else measure(programs[name], bench.options.seconds)
                    times[name].append({key: one[key] for key in ("gpu_us", "wall_us", "launches") if key in one})
                    record[name].update(summary(times[name]))
                except Exception as error:
                    record[name]["failed"] = reason(error)
                    del programs[name]
                bench.options.keep()
    peers = {name: record[name]["gpu_us"] for name in calls if "gpu_us" in record[name]}
    if peers and "gpu_us" in record.get("sinter", {}):
        best = min(peers, key=peers.get)
        record.update(best=best, best_us=peers[best], ratio=round(peers[best] / record["sinter"]["gpu_us"], 3))


def show(name, tokens, record):
    text = f"{name} {tokens} tokens, weights read in {record.get('read_us', '?')} us:"
    for program, made in record.items():
        if not isinstance(made, dict):
            continue
        text += f"\n  {program:10}"
        if "gpu_us" in made:
            text += f" {made['gpu_us']:9.1f} us, wall {made['wall_us']:9.1f}"
        if "error" in made:
            text += f", error {made['error']:.1e}, worst token {made['worst_error']:.1e}"
        if "failed" in made:
            text += f" FAILED {made['failed']}"
    say(text + (f"\n  {record['ratio']}x of {record['best']}" if "ratio" in record else ""))


def measure_row(bench, name, row, record):
    wanted = [n for n in bench.options.tokens or row.tokens if not (n in row.tokens and "ratio" in record.get(str(n), {}))]
    if not wanted:
        return
    plan = None
    try:
        plan, seconds = bench.plan(name, row, row.shape, max(row.tokens + tuple(wanted)))
        if seconds is not None:
            record["compile_s"] = round(seconds, 1)
        record["plan_mb"] = round(plan.stat().st_size / 1e6, 1)
        record.pop("failed", None)
    except Exception as error:
        record["failed"] = reason(error)
        say(f"{name}: no plan: {record['failed']}")
    for tokens in wanted:
        own = record.setdefault(str(tokens), {})
        try:
            measure_tokens(bench, row, row.shape, plan, tokens, own)
        except Exception as error:
            own["failed"] = reason(error)
            say(f"{name} {tokens} tokens: {own['failed']}")
        show(name, tokens, own)
        bench.options.keep()


def check(bench, names):
    """Small ones through the target, against float32 in PyTorch; returns how many differ."""
    wrong = 0
    for name in names:
        row = ROWS[name]
        if row.options:
            row = replace(row, options=(*row.options, "--emulate"))
        shape = row.shape.tiny()
        try:
            plan, _ = bench.plan(name, row, shape, 16)
            for tokens in (1, 7, 16):
                module = bench.module(row, shape)
                inputs = module.inputs(shape, tokens, bench.device)
                with torch.no_grad():
                    expected = models.exact(module, inputs).numpy()
                    peer = module.plain() if isinstance(module, models.Grouped) else module
                    theirs = token_errors(peer(*inputs.values()).float().numpy(), expected)
                ours = token_errors(bench.result(plan, inputs), expected)
                bad = not ours["error"] <= row.most_error
                wrong += bad
                say(f"{name} {tokens} tokens: error {ours['error']:.1e} (worst token {ours['worst_error']:.1e}); "
                    f"PyTorch {theirs['error']:.1e} ({theirs['worst_error']:.1e}){' WRONG' if bad else ''}")
        except Exception as error:
            wrong += 1
            say(f"{name}: {reason(error)}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--rows", default=",".join(ROWS), help="some of " + ", ".join(ROWS))
    parser.add_argument("--tokens", help="N,N,..: instead of each row's own")
    parser.add_argument("--modes", default="compiled,graphs", help=", ".join(MODES) + "; or none")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--option", action="append", default=[], help="one of `compile`, of all rows")
    parser.add_argument("--tune", type=float, default=0, help="seconds of `compile --tune`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="of each program in each round")
    parser.add_argument("--plans", type=Path, help="folder of models and plans, which are taken from it if they are there")
    parser.add_argument("--check", action="store_true", help="compare results of small shapes on the CPU, and measure nothing")
    parser.add_argument("--commit", help="the commit measured, where there is no git checkout")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.rows.split(",")
    for name in set(names) - set(ROWS):
        parser.error(f"no row {name}; there are {', '.join(ROWS)}")
    options.modes = [] if options.modes == "none" else options.modes.split(",")
    for mode in set(options.modes) - set(MODES):
        parser.error(f"no mode {mode}; there are {', '.join(MODES)}")
    options.tokens = tuple(map(int, options.tokens.split(","))) if options.tokens else ()
    if options.check:
        options.target = "cpu"
    elif not torch.cuda.is_available():
        parser.error("there is no GPU here; --check compares small shapes on the CPU")
    result = {**provenance(options.commit), "torch": torch.__version__, "rounds": options.rounds, "rows": {}}
    if options.out and options.out.exists():
        before = json.loads(options.out.read_text())
        if before.get("commit") == result["commit"]:
            result["rows"] = before["rows"]

    def keep():
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(result, indent=1) + "\n")
    options.keep = keep

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.plans or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(options, folder, "cpu" if options.check else "cuda")
        if options.check:
            raise SystemExit(min(check(bench, names), 1))
        for i, name in enumerate(names):
            try:
                measure_row(bench, name, ROWS[name], result["rows"].setdefault(name, {}))
            except Exception as error:
                result["rows"][name]["failed"] = reason(error)
                say(f"{name}: {reason(error)}")
            keep()
            if not options.plans:
                (folder / f"{name}.plan").unlink(missing_ok=True)
                if ROWS[name].model not in (ROWS[other].model for other in names[i + 1:]):
                    for file in folder.glob(f"{ROWS[name].model}.*"):
                        file.unlink()
    if options.out:
        write(options.out, result)


if __name__ == "__main__":
    main()
