#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over paged caches, a token of each sequence, by schedule: heads of 128 in groups of 4 over 8, as Llama-8B's.

  run_paged_attention.py --out tests/perf/results/paged_attention_h200.json
  run_paged_attention.py --caches fp8 --points 256x160 --schedules "rows=1x8 key_groups=2 keys=16" --out part.json

A decoder of one layer (`compile --serve`) is compiled once for each schedule and type of caches; `sinter profile` times its steps
one by one. `--points`: sequences x valid positions. Blocks of the caches lie in no order; what is in them are random
numbers. Times are microseconds with a cold L2; bytes are those of the valid rows of keys and values with their scales.
"""
import argparse
import dataclasses
import tempfile
from pathlib import Path

from common import ROOT, provenance, sinter_json, write
from decoder_models import SIZES, shared_weights, write_decoder
from run_paged_steps import shape_of, step_inputs

POSITIONS = 4352
CACHES = {"f16": [], "fp8": ["--cache-precision=fp8"], "int8": ["--cache-precision=int8"]}
BYTES = {"f16": 2, "fp8": 1 + 4 / 128, "int8": 1 + 4 / 128}
GROUPS = "rows=1x8 key_groups={} keys={}"
SCHEDULES = ["", *(GROUPS.format(groups, keys) + ahead for groups, keys, ahead in (
    (2, 16, ""), (2, 16, " ahead=2"), (2, 16, " ahead=3"), (4, 16, ""), (4, 16, " ahead=2"), (2, 32, ""), (2, 32, " ahead=2"),
    (4, 32, "")))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--caches", default="fp8,f16", help=f"of {', '.join(CACHES)}")
    p.add_argument("--points", default="256x160,224x3000,64x1024", help="sequences x positions")
    p.add_argument("--schedules", default=",".join(SCHEDULES), help="divided by commas; the empty one is the rules'")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    result = {**provenance(a.commit), "attention_us": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        config = dataclasses.replace(SIZES["8b"][0], layers=1, intermediate=256, vocabulary=256, positions=POSITIONS)
        model = folder / "layer.onnx"
        if not model.exists():
            write_decoder(model, config, shared_weights(config, 1, folder / "layer.weights"))
        for caches in a.caches.split(","):
            for schedule in a.schedules.split(","):
                vector = 16 if BYTES[caches] < 2 else 8
                forced = [f"--schedule=attention {schedule.split(' ahead')[0]} vector={vector}"
                          + (" ahead" + schedule.split(" ahead")[1] if " ahead" in schedule else "")] if schedule else []
                plan = folder / f"{caches}.{schedule.replace(' ', '_').replace('=', '')}.plan"
                if not plan.exists():
                    sinter_json(a.sinter, "compile", model, "-o", plan, f"--target={a.target}",
                                f"--serve=positions={POSITIONS}", *CACHES[caches], *forced)
                if a.compile_only:
                    continue
                inputs = {each["name"]: each for each in sinter_json(a.sinter, "inspect", plan)["inputs"]}
                cache = next(each for each in inputs.values() if "cache_positions" in each["type"])
                room, words = (shape_of(inputs[name], 0)[1] for name in ("block_tables", "token_sets"))
                for point in a.points.split(","):
                    batch, keys = map(int, point.split("x"))
                    path = folder / f"{point}.npz"
                    length = step_inputs([(keys - 1, 1)] * batch, POSITIONS // room, room, words, {}, path)
                    shape = "x".join(map(str, shape_of(cache, length)))
                    profile = sinter_json(a.sinter, "profile", plan, "--inputs", path, f"--shapes={cache['name']}:{shape}")
                    steps = [step for step in profile["steps"] if step["name"].startswith("attention")]
                    us = sum(step["us"] for step in steps)
                    moved = batch * keys * 2 * 8 * 128 * BYTES[caches]
                    found = {"us": round(us, 2), "bytes_per_s": round(moved / us * 1e6),
                             "of_copy": round(moved / us * 1e6 / profile["machine"]["copy_bytes_per_s"], 3),
                             "kernels": [part["kernel"]["schedule"] for step in steps for part in step["parts"]]}
                    result["attention_us"].setdefault(f"{caches} {point}", {})[schedule or "rules"] = found
                    print(caches, point, schedule or "rules", found, flush=True)
                    if a.out:
                        write(a.out, result)


if __name__ == "__main__":
    main()
