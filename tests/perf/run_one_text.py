#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One text at a time on a GPU: the paged plan that decoders compile to, against a plan of one sequence.

  run_one_text.py --before OTHER/sinter --out tests/perf/results/one_text_h200.json
  run_one_text.py --compile-only --folder F --target cuda:sm_90                   no GPU is needed
  run_one_text.py --sizes 8b --ways int4_g32,nvfp4,mxfp4 --paged-only --out ..    floats of 4 bits against int4 in groups of 32

OTHER/sinter is one of before 0.3, which compiles with --sample. decoder_models.py makes the models: random weights, all layers. A text has 32 tokens of prompt and 256 behind; greedy. Rows have the
time between two tokens by `generate`, of the wall, in microseconds: medians of --rounds runs, taken in turns. `of_before`: the paged
plan's over the other's, which must be 1.03 at most; `of_int4_g32`: that of floats of 4 bits over integers', 1.1 at most; `equal`: whether both give the same tokens up to rounding (float16 sums differ in
order, so random weights may part).
"""
import argparse
import dataclasses
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from decoder_models import SIZES, WAYS, compile_ways, shared_weights, write_decoder

POSITIONS, PROMPT, TOKENS, MUST = 1024, 32, 256, 1.03
FLOATS, FLOATS_MUST = ("nvfp4", "mxfp4"), 1.1  # floats of 4 bits, against integers in groups of 32
ENTRIES = [f"--dim=capacity={POSITIONS}", "--entry=prefill:sequence=2..512", "--entry=decode:sequence=1"]


def generate(sinter, plan, ids):
    return sinter_json(sinter, "generate", plan, "--ids", ",".join(map(str, ids)), f"--max-tokens={TOKENS}", "--no-rates", "--quiet")


def compiled(sinter, model, plan, target, *options):
    if not plan.exists():
        subprocess.run([sinter, "compile", model, "-o", plan, f"--target={target}", "--quiet", *options], check=True)
    return plan


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--before", help="a sinter that has `compile --sample`")
    p.add_argument("--target", default="cuda")
    p.add_argument("--sizes", default="1b,8b", help=f"of {', '.join(SIZES)}")
    p.add_argument("--ways", default="f16,int8,int4", help=f"of {', '.join(WAYS)}")
    p.add_argument("--paging", default="", help="more of what --serve= is given, as few-tokens=8")
    p.add_argument("--paged-only", action="store_true", help="no plan of one sequence")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--jobs", type=int, default=3, help="compilers at a time")
    p.add_argument("--compile-only", action="store_true")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    result = {**provenance(a.commit), "before": "sampled by the plan", "one_text": {}}
    ids = np.random.default_rng(2).integers(0, 256, PROMPT).tolist()
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in a.sizes.split(","):
            config, distinct = SIZES[size]
            config = dataclasses.replace(config, positions=POSITIONS)
            model = folder / f"{size}.one.onnx"
            if not model.exists():
                write_decoder(model, config, shared_weights(config, distinct, folder / f"{size}.one.weights"))

            def compile_way(way):
                serve = f"--serve=positions={POSITIONS}" + ("," + a.paging if a.paging else "")
                paged = compiled(a.sinter, model, folder / f"{size}.{way}.paged.plan", a.target, serve, *WAYS[way])
                if a.paged_only:
                    return paged, None
                other = compiled(a.before, model, folder / f"{size}.{way}.sample.plan", a.target, "--sample=greedy", *ENTRIES, *WAYS[way])
                return paged, other

            made, failed = compile_ways(a.ways.split(","), compile_way, a.jobs)
            for way, error in failed.items():
                print(size, way, "failed:", error, flush=True)
            for way, (paged, other) in made.items():
                if a.compile_only:
                    continue
                calls = {"paged": (a.sinter, paged), "before": (a.before, other)}
                if other is None:
                    del calls["before"]
                runs = {name: [] for name in calls}
                for _ in range(a.rounds):
                    for name, call in calls.items():
                        runs[name].append(generate(*call, ids))
                row = {}
                for name, reports in runs.items():
                    row[f"{name}_us"] = round(statistics.median(each["between_tokens_us"]["median"] for each in reports), 1)
                    row[f"{name}_first_us"] = round(statistics.median(each["first_token_us"] for each in reports), 1)
                    row[f"{name}_kernels"] = reports[0]["kernels_per_token"]
                if other is not None:
                    row["of_before"] = round(row["paged_us"] / row["before_us"], 4)
                    row["must"] = MUST
                    row["equal"] = runs["paged"][0]["tokens"] == runs["before"][0]["tokens"]
                integers = result["one_text"].get(f"{size}_int4_g32")
                if way in FLOATS and integers:
                    row["of_int4_g32"] = round(row["paged_us"] / integers["paged_us"], 4)
                    row["must_of_int4_g32"] = FLOATS_MUST
                result["one_text"][f"{size}_{way}"] = row
                print(size, way, json.dumps(row), flush=True)
                if a.out:
                    write(a.out, result)


if __name__ == "__main__":
    main()
