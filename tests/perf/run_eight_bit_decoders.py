#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Llama-style decoders with weights and caches of 8 bits on a GPU, beside the same in float16.

  run_eight_bit_decoders.py --out tests/perf/results/eight_bit_decoders_h200.json
  run_eight_bit_decoders.py --sizes 1b --work prompt --out part.json     results are added to a file of the same commit

Work is a prompt of 2,048 tokens into empty caches, or one token of each of 1 or 64 sequences at position 777 of caches
of 1,024. decoder_models.py makes the models, with all of their layers, and says what ways there are to compile them;
weights are random, and figures say only how long it takes. Times are microseconds of the GPU with a cold L2, medians;
`speedup` is float16's of the same run over them.
"""
import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from decoder_models import SIZES, WAYS, compile_ways, shared_weights, write_decoder

# Sequences, tokens of each, position of the first, rows of caches.
WORK = {"prompt": (1, 2048, 0, 2048), "decode_b1": (1, 1, 777, 1024), "decode_b64": (64, 1, 777, 1024)}
DEFAULT = {"prompt": "f16,w8a8,w8a8_cache8", "decode_b1": "f16,int8,fp8,int8_cache8,fp8_cache8,w8a8_cache8",
           "decode_b64": "f16,f16_cache8,fp8_cache8,w8a8,w8a8_cache8,int8_cachei8"}
# What a way must reach, of the work at 8b: microseconds, or a speedup over float16.
WANTED = {("8b", "prompt", "w8a8"): ("speedup", 1.55), ("8b", "decode_b1", "fp8_cache8"): ("gpu_us", 2109),
          ("8b", "decode_b64", "w8a8_cache8"): ("speedup", 1.6)}


def write_model(config, weights, work, folder):
    """The ONNX file and the inputs of a piece of work; caches are states, which begin empty."""
    batch, tokens, position, capacity = WORK[work]
    path = folder / f"{work}.onnx"
    write_decoder(path, config, weights, batch=batch)
    np.savez(path.with_suffix(".npz"), input_ids=np.random.default_rng(1).integers(0, config.vocabulary, (batch, tokens)),
             position=np.array([position]))
    return path, [f"--dim=sequence={tokens}", f"--dim=capacity={capacity}"]


def compile_plan(sinter, target, path, sizes, way):
    began = time.perf_counter()
    plan = path.with_suffix(f".{way}.plan")
    sinter_json(sinter, "compile", path, "-o", plan, f"--target={target}", *sizes, *WAYS[way])
    return plan, round(time.perf_counter() - began, 1)


def measure(sinter, plan, inputs):
    bench = sinter_json(sinter, "bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=50", "--duration=1")
    times = bench["compute_us"]
    return {"gpu_us": round(times["median"], 1), "p10_us": round(times["p10"], 1), "p90_us": round(times["p90"], 1),
            "wall_us": round(bench["latency_us"]["median"], 1), "launches": bench["launches"],
            "bytes_moved": bench["bytes_moved"], "memory": bench["memory"]}


def judge(size, work, way, row):
    what, wanted = WANTED.get((size, work, way), (None, None))
    if what:
        row.update(must={what: wanted}, ok=row[what] <= wanted if what == "gpu_us" else row[what] >= wanted)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--sizes", default="8b,1b", help=f"of {', '.join(SIZES)}")
    p.add_argument("--work", default=",".join(WORK))
    p.add_argument("--ways", help=f"for all work, instead of its own: of {', '.join(WAYS)}")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--jobs", type=int, default=3, help="compilers at a time")
    p.add_argument("--deadline", type=float, default=400, help="seconds after which nothing new starts")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    began = time.perf_counter()
    result = {**provenance(a.commit), "decoders": {}}
    if a.out and a.out.exists():
        before = json.loads(a.out.read_text())
        if before["commit"] == result["commit"]:
            result["decoders"] = before["decoders"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in a.sizes.split(","):
            config, distinct = SIZES[size]
            weights = shared_weights(config, distinct, folder / f"{size}.weights")
            for work in a.work.split(","):
                rows = result["decoders"].setdefault(f"{size}_{work}", {})
                path, sizes = write_model(config, weights, work, folder)
                ways = (a.ways or DEFAULT[work]).split(",")
                # Nothing is timed while compilers run.
                made, failed = compile_ways(ways, lambda way: compile_plan(a.sinter, a.target, path, sizes, way), a.jobs)
                rows.update({way: {"failed": error} for way, error in failed.items()})
                for way, (plan, seconds) in made.items():
                    row = rows[way] = {"compile_s": seconds, "plan_bytes": plan.stat().st_size}
                    try:
                        if time.perf_counter() - began > a.deadline:
                            raise TimeoutError("not run: deadline")
                        if not a.compile_only:
                            row.update(measure(a.sinter, plan, path.with_suffix(".npz")))
                            if "gpu_us" in rows.get("f16", {}):
                                row["speedup"] = round(rows["f16"]["gpu_us"] / row["gpu_us"], 3)
                            judge(size, work, way, row)
                    except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                        row["failed"] = str(error)[-600:]
                    if not a.folder:
                        plan.unlink()
                    print(f"{size}_{work:10} {way:12} {row} ({time.perf_counter() - began:.0f} s)", flush=True)
                    if a.out:
                        write(a.out, result)
                for way in failed:
                    print(f"{size}_{work:10} {way:12} {rows[way]}", flush=True)


if __name__ == "__main__":
    main()
