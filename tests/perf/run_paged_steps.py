#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One step of a decoder of many sequences (`compile --serve`): a token of each of B sequences behind 1,024 others.

  run_paged_steps.py --folder F --plans 1b.f16.serve.plan --out tests/perf/results/paged_steps_h200.json

Plans are those that run_serving.py left in its folder. --sampling says how tokens are drawn, else they are greedy. Blocks of the caches lie in no order. Times are microseconds of the GPU with
a cold L2. `bytes`: what all steps but attention move, and the valid rows of the caches, each read once; `of_copy`: their rate over that of a large copy.
"""
import argparse
import json
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write


def step_inputs(sequences, block, room, words, sampling, path):
    """Writes the inputs of a step, and gives the rows of the caches. `sequences`: each one's first position and tokens."""
    draw = np.random.default_rng(0)
    first, tokens = np.array(sequences).T
    blocks = -(-(first + tokens) // block)
    order = draw.permutation(int(blocks.sum())).astype(np.int32)
    tables = np.zeros((len(sequences), room), np.int32)
    for row, (end, count) in enumerate(zip(np.cumsum(blocks), blocks)):
        tables[row, :count] = order[end - count:end]
    starts = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int32)
    of = np.repeat(np.arange(len(sequences)), tokens)
    positions = (np.arange(starts[-1]) - starts[of] + first[of]).astype(np.int32)
    slots = tables[of, positions // block] * block + positions % block
    np.savez(path, input_ids=draw.integers(0, 256, starts[-1]).astype(np.int32), positions=positions, slot_mapping=slots,
             sequence_starts=starts, block_tables=tables, sample_rows=starts[1:] - 1,
             **sampling_inputs(len(sequences), words, sampling))
    return int(blocks.sum()) * block


def sampling_inputs(batch, words, sampling):
    """Operands of SampleTokens: all rows are drawn alike, of all tokens, with seeds of their own."""
    reals = [sampling.get("temperature", 0), sampling.get("top_p", 1), -np.inf, 1]
    integers = np.tile(np.array([0, int(sampling.get("top_k", 0)), -1, -1, 0, 0], np.int64), (batch, 1))
    integers[:, 0] = np.arange(batch) * 1234567
    return {"sampling_reals": np.tile(np.array(reals, np.float64), (batch, 1)), "sampling_integers": integers,
            "logprobs_wanted": np.full(batch, -1, np.int32),
            "token_sets": np.zeros((1, words), np.int32), "biased_tokens": np.zeros(1, np.int32),
            "token_biases": np.zeros(1, np.float32)}


def shape_of(binding, length):
    """Of an input as `inspect` prints its type: f16[1, 8, cache_positions=16..16777216, 128]."""
    dims = binding["type"].split("[")[1].rstrip("]").split(", ")
    return [length if dim.startswith("cache_positions") else int(dim.split("..")[-1]) for dim in dims]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--folder", type=Path, required=True)
    p.add_argument("--plans", required=True, help="names, divided by commas")
    p.add_argument("--batches", default="1,8,64,256")
    p.add_argument("--position", type=int, default=1024)
    p.add_argument("--sampling", default="", help="temperature=T,top_p=P,top_k=K; those that are not given change nothing")
    p.add_argument("--profile", action="store_true", help="keep what `sinter profile` says beside the plan")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    result = {**provenance(a.commit), "position": a.position, "steps": {}}
    sampling = {name: float(value) for name, value in (each.split("=") for each in a.sampling.split(",") if each)}
    result["sampling"] = sampling
    for name in a.plans.split(","):
        plan = a.folder / name
        about = sinter_json(a.sinter, "inspect", plan)
        inputs = {each["name"]: each for each in about["inputs"]}
        room = shape_of(inputs["block_tables"], 0)[1]
        words = shape_of(inputs["token_sets"], 0)[1]
        block = int(next(each for each in about["options"] if each.startswith("serve=")).split("block=")[1].split(",")[0])
        caches = [each for each in about["inputs"] if "cache_positions" in each["type"]]
        size = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1, "f8e4m3fn": 1}
        row = sum(size[each["type"].split("[")[0]] * int(np.prod(shape_of(each, 1))) for each in caches)
        for batch in map(int, a.batches.split(",")):
            path = a.folder / f"step_{batch}.npz"
            length = step_inputs([(a.position, 1)] * batch, block, room, words, sampling, path)
            shape = "x".join(map(str, shape_of(caches[0], length)))
            common = (plan, "--inputs", path, f"--shapes={caches[0]['name']}:{shape}")
            bench = sinter_json(a.sinter, "bench", *common, "--deviceIo", "--duration=0.5")
            profile = sinter_json(a.sinter, "profile", *common)
            weights = sum(step["bytes"] for step in profile["steps"] if not step["name"].startswith("attention"))
            moved = weights + batch * (a.position + 1) * row
            copy = profile["machine"]["copy_bytes_per_s"]
            us = bench["compute_us"]["median"]
            result["steps"][f"{plan.stem}_b{batch}"] = found = {
                "gpu_us": round(us, 1), "wall_us": round(bench["latency_us"]["median"], 1), "launches": bench["launches"],
                "bytes": moved, "of_copy": round(moved / us * 1e6 / copy, 3), "copy_bytes_per_s": copy}
            if a.profile:
                plan.with_suffix(f".b{batch}.json").write_text(json.dumps(profile))
            print(plan.stem, batch, found, flush=True)
            write(a.out, result)


if __name__ == "__main__":
    main()
