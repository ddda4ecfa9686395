#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over paged caches beside FlashInfer's, in the same minutes: decoding, prompts, and both in one step.

  run_flashinfer.py --out tests/perf/results/flashinfer_h200.json
  run_flashinfer.py --compile-only --target=cuda:sm_90 --folder F       plans for another machine, which needs no compiler of ours

A decoder of one layer (`compile --serve`) is compiled for each shape of heads; `sinter profile` times its steps one by one, and those
of attention count. Of FlashInfer the best of its kernels counts: for tokens of decoding with and without tensor cores, for all the
templates 'fa2' and 'fa3'; its planning on the host does not, nor zeros for its output, which it is given. Both read the same lengths
in blocks of as many rows that lie in no order, filled with random numbers. Microseconds with a cold L2, medians; `times_as_fast` is
FlashInfer's over ours. Needs a GPU, torch and FlashInfer, which compiles its kernels where it runs: all of them, and the plans, before
anything is timed. Points that --out has of the same commit are kept, so that a run goes on where one before it ended.
"""
import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from decoder_models import Config, shared_weights, write_decoder
from run_paged_steps import shape_of, step_inputs

POSITIONS = 4352
# Query heads, heads of keys and values, size of a head.
HEADS = {"32_8_128": (32, 8, 128), "32_8_64": (32, 8, 64), "28_4_128": (28, 4, 128)}


def ragged(count, low, high, seed):
    return np.random.default_rng(seed).integers(low, high, count).tolist()


# Of each sequence the first position and tokens.
WORK = {
    "decode_1x4096": [(4095, 1)],
    "decode_8x1024": [(1023, 1)] * 8,
    "decode_64x1024": [(1023, 1)] * 64,
    "decode_256x1024": [(1023, 1)] * 256,
    "decode_16x4096": [(4095, 1)] * 16,
    "decode_ragged": [(n - 1, 1) for n in ragged(64, 32, 4096, 1)],
    "prompt_1x2048": [(0, 2048)],
    "prompt_ragged": [(0, n) for n in ragged(8, 64, 448, 2)],
    "append_4x512": [(1536, 512)] * 4,
    "mixed": [(n - 1, 1) for n in ragged(56, 32, 4096, 3)] + [(512, 512), (0, 700)],
}


def pages_of(npz, sequences, block):
    """FlashInfer's operands: starts of queries and of pages, pages, valid rows of the last."""
    lengths = np.array([first + tokens for first, tokens in sequences])
    counts = -(-lengths // block)
    tables = npz["block_tables"]
    pages = np.concatenate([tables[i, :count] for i, count in enumerate(counts)])
    return npz["sequence_starts"], np.concatenate([[0], np.cumsum(counts)]), pages, (lengths - 1) % block + 1


def build_kernels(sizes):
    """FlashInfer's for these sizes of heads, at once: those that are not built are compiled one module after the other."""
    import torch
    from flashinfer.jit import build_jit_specs, gen_batch_decode_module, gen_batch_prefill_module

    half, specs = torch.float16, []
    for size in sizes:
        plain = half, half, half, torch.int32, size, size, 0, False, False  # no encoding of positions, window, or cap of logits
        backends = ("fa2", "fa3") if torch.cuda.get_device_capability()[0] == 9 else ("fa2",)
        specs += [gen_batch_decode_module(*plain), *(gen_batch_prefill_module(backend, *plain, False) for backend in backends)]
    build_jit_specs(specs)


def flashinfer_times(npz, sequences, heads, block):
    """Microseconds of each of its kernels that takes the work."""
    import flashinfer
    import torch

    from gpu_timing import measure

    query_heads, kv_heads, size = heads
    queries, starts, pages, last = (torch.tensor(np.asarray(each, np.int32)) for each in pages_of(npz, sequences, block))
    starts, pages, last, queries = (each.cuda() for each in (starts, pages, last, queries))
    q = torch.randn(int(queries[-1]), query_heads, size, device="cuda", dtype=torch.float16)
    caches = torch.randn(len(pages), 2, block, kv_heads, size, device="cuda", dtype=torch.float16)
    workspace = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    found, outputs = {}, []

    def add(name, wrapper, plan):
        try:
            plan(wrapper)
            outputs.append(out := torch.empty_like(q))
            wrapper.run(q, caches, out=out)
            torch.testing.assert_close(out, outputs[0], rtol=2e-2, atol=2e-2)
            found[name] = measure(lambda: wrapper.run(q, caches, out=out), 0.4)["gpu_us"]
        except Exception as error:  # pylint: disable=broad-except
            found[name] = str(error)[-200:]

    for backend in ("fa2", "fa3"):
        add(backend, flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend=backend),
            lambda wrapper: wrapper.plan(queries, starts, pages, last, query_heads, kv_heads, size, block, causal=True,
                                         q_data_type=torch.float16, kv_data_type=torch.float16))
    if all(tokens == 1 for _, tokens in sequences):
        for cores in (False, True):
            add(f"decode{'_tensor_cores' * cores}",
                flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=cores),
                lambda wrapper: wrapper.plan(starts, pages, last, query_heads, kv_heads, size, block,
                                             q_data_type=torch.float16, kv_data_type=torch.float16))
    return found


def make_plan(a, name, folder):
    query_heads, kv_heads, size = HEADS[name]
    plan = folder / f"{name}.plan"
    if not plan.exists():
        config = Config(layers=1, hidden=query_heads * size, heads=query_heads, kv_heads=kv_heads, intermediate=256, vocabulary=256,
                        positions=POSITIONS)
        model = folder / f"{name}.onnx"
        write_decoder(model, config, shared_weights(config, 1, folder / f"{name}.weights"))
        sinter_json(a.sinter, "compile", model, "-o", plan, f"--target={a.target}", f"--serve=positions={POSITIONS}")
    return plan


def measure_point(a, plan, inputs, name, work, folder):
    cache_inputs = [each for each in inputs.values() if "cache_positions" in each["type"]]
    room, words = (shape_of(inputs[name], 0)[1] for name in ("block_tables", "token_sets"))
    block = POSITIONS // room
    path = folder / f"{work}.npz"
    # The engine has the longest sequences in front; FlashInfer's plan orders them itself.
    sequences = sorted(WORK[work], key=sum, reverse=True)
    length = step_inputs(sequences, block, room, words, {}, path)
    shape = "x".join(map(str, shape_of(cache_inputs[0], length)))
    profile = sinter_json(a.sinter, "profile", plan, "--inputs", path, f"--shapes={cache_inputs[0]['name']}:{shape}")
    steps = [step for step in profile["steps"] if step["name"].startswith("attention")]
    ours = sum(step["us"] for step in steps)
    row = {"sinter": round(ours, 2), "kernels": [part["kernel"]["schedule"] for step in steps for part in step["parts"]
                                               if "kernel" in part]}
    if not a.no_peer:
        try:
            with np.load(path) as npz:
                row["flashinfer"] = flashinfer_times(npz, sequences, HEADS[name], block)
        except Exception as error:  # pylint: disable=broad-except
            row["flashinfer"] = {"failed": str(error)[-200:]}
        times = [us for us in row["flashinfer"].values() if isinstance(us, float)]
        row["times_as_fast"] = round(min(times) / ours, 3) if times and ours else None
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--heads", default=",".join(HEADS), help=f"of {', '.join(HEADS)}")
    p.add_argument("--work", default=",".join(WORK), help=f"of {', '.join(WORK)}")
    p.add_argument("--no-peer", action="store_true", help="time only ours")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--deadline", type=float, default=540, help="seconds after which no new point starts")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    began = time.perf_counter()
    result = {**provenance(a.commit), "attention_us": {}}
    if a.out and a.out.exists() and (before := json.loads(a.out.read_text()))["commit"] == result["commit"]:
        result["attention_us"] = before["attention_us"]
    names = a.heads.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(len(names)) as pool:  # nothing is timed while compilers run
            plans = {name: pool.submit(make_plan, a, name, folder) for name in names}
            if not (a.no_peer or a.compile_only):
                import flashinfer
                import torch
                result.update(flashinfer=flashinfer.__version__, torch=torch.__version__, cuda=torch.version.cuda)
                try:
                    build_kernels(sorted({HEADS[name][2] for name in names}))
                except RuntimeError as error:
                    print(f"FlashInfer's kernels are not all built: {str(error)[-600:]}", flush=True)
        print(f"compiled ({time.perf_counter() - began:.0f} s)", flush=True)
        for name in names:
            if a.compile_only:
                plans[name].result()
                continue
            try:
                plan = plans[name].result()
                inputs = {each["name"]: each for each in sinter_json(a.sinter, "inspect", plan)["inputs"]}
            except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                print(f"{name}: {error}", flush=True)
                continue
            for work in a.work.split(","):
                point = f"{name} {work}"
                if point in result["attention_us"]:
                    continue
                if time.perf_counter() - began > a.deadline:
                    print(f"{point}: not run: deadline", flush=True)
                    continue
                try:
                    row = measure_point(a, plan, inputs, name, work, folder)
                except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                    row = {"failed": str(error)[-600:]}
                result["attention_us"][point] = row
                print(f"{point} {row} ({time.perf_counter() - began:.0f} s)", flush=True)
                if a.out:
                    write(a.out, result)
                if not a.no_peer:
                    torch.cuda.synchronize()  # after some errors of the GPU's this process can compute no more


if __name__ == "__main__":
    main()
