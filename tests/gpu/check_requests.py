#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests with every parameter of sampling on a GPU beside a CPU, in float16, and a model whose logits are NaN for some.

  check_requests.py --sinter build/bin/sinter --out tests/gpu/results/requests_h200.json

A text without temperature may differ from the CPU's behind a token whose two best log probabilities are a rounding apart.
Texts that are drawn are counted. Of a model with a NaN embedding only the requests that have the token end, with an
error. Needs a GPU, NumPy and onnx. Exit code 1 if something is otherwise.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402

MODEL = ROOT / "models" / "tiny" / "decoder.onnx"
NEAR = 0.02  # of log probabilities: what float16 rounds a logit by, twice
NAN_TOKEN = 7
PARAMETERS = [
    {}, {"presence_penalty": 1.5}, {"frequency_penalty": 0.7}, {"repetition_penalty": 1.3},
    {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1},
    {"logit_bias": {"5": 4, "9": -100}}, {"min_tokens": 12},
    {"temperature": 1, "seed": 3}, {"temperature": 1, "top_p": 0.8, "seed": 4}, {"temperature": 0.7, "top_k": 5, "seed": 5},
    {"temperature": 1, "min_p": 0.1, "seed": 6}, {"temperature": 1, "presence_penalty": 1, "seed": 7, "n": 3},
]


class Check:
    def __init__(self, sinter, folder):
        self.sinter, self.folder, self.bad = sinter, folder, []

    def run(self, code, *words):
        result = subprocess.run([self.sinter, *map(str, words)], capture_output=True, text=True)
        if result.returncode != code:
            raise SystemExit(f"{' '.join(map(str, words))}: exit code {result.returncode}: {result.stderr[-1000:]}")
        return result.stdout

    def answers(self, model, target, lines, code=0):
        plan, file = self.folder / f"{target}.plan", self.folder / "lines.jsonl"
        self.run(0, "compile", model, "-o", plan, f"--target={target}", "--serve=positions=64", "--precision=fp16", "--quiet")
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return json.loads(self.run(code, "generate", plan, "--requests", file, "--no-rates", "--json"))["answers"]

    def near(self, answer, at):
        best = sorted(answer["logprobs"]["top_logprobs"][at].values(), reverse=True)
        return len(best) > 1 and best[0] - best[1] < NEAR

    def parameters(self, target):
        lines = [{"ids": [1 + i % 7, 3, 4, 2], "max_tokens": 24, "logprobs": 2, **p} for i, p in enumerate(PARAMETERS * 3)]
        greedy = [("temperature" not in line) for line in lines for _ in range(line.get("n", 1))]
        ours, theirs = self.answers(MODEL, target, lines), self.answers(MODEL, "cpu", lines)
        equal = drawn = 0
        for i, (a, b) in enumerate(zip(ours, theirs)):
            if a["tokens"] == b["tokens"]:
                equal += 1
                continue
            at = next(k for k, (x, y) in enumerate(zip(a["tokens"], b["tokens"])) if x != y)
            if not greedy[i]:
                drawn += 1
            elif not self.near(b, at):
                self.bad.append(f"text {i} differs at token {at}")
        return dict(texts=len(ours), equal=equal, drawn_otherwise=drawn, near_ties=len(ours) - equal - drawn)

    def nan(self, target):
        model = onnx.load(MODEL)
        for tensor in model.graph.initializer:
            if "embed_tokens" in tensor.name:
                rows = onnx.numpy_helper.to_array(tensor).copy()
                rows[NAN_TOKEN] = np.nan
                tensor.CopyFrom(onnx.numpy_helper.from_array(rows, tensor.name))
        path = self.folder / "nan.onnx"
        onnx.save(model, path)
        lines = [{"ids": [1, 3], "max_tokens": 8}, {"ids": [2, NAN_TOKEN], "max_tokens": 4},
                 {"ids": [NAN_TOKEN], "max_tokens": 4, "temperature": 1, "top_p": 0.9}, {"ids": [1, 3], "max_tokens": 8}]
        found = self.answers(path, target, lines, 1)
        ends = [a["finish"] for a in found]
        if ends != ["length", "error", "error", "length"] or found[0]["tokens"] != found[3]["tokens"]:
            self.bad.append(f"NaN of two texts: {ends}")
        return dict(finish=ends, error=found[1].get("error"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(a.sinter, Path(folder))
        result = dict(parameters=check.parameters(a.target), nan=check.nan(a.target), bad=check.bad)
    print(json.dumps(result, indent=1))
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, **result})
    sys.exit(1 if check.bad else 0)


if __name__ == "__main__":
    main()
