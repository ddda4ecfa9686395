#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merged decoders (Optimum's decoder_model_merged.onnx: an If on use_cache_branch) against ONNX Runtime.

  check_merged.py t5/decoder_model_merged.onnx whisper/decoder_model_merged.onnx [--target cpu|cuda] [--out JSON]

Each is compiled without options and run from an empty cache, as a decoder is: first without the cache, then one
or several tokens at a time with what the step before gave, for five batches, lengths and prompts. Exit code 1 if a
result differs by more than --tolerance. Needs onnxruntime.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402
from runs import relative_error  # noqa: E402

# Samples, length of the encoder's output, and tokens of each step.
RUNS = ((1, 5, (3, 1, 1)), (2, 7, (1, 1, 2)), (3, 1, (4, 1)), (1, 20, (2, 3)), (2, 3, (1, 1, 1, 1, 1)))
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def inputs_of(peer, sizes, cache, random):
    """Feeds of one step: tokens and states at random, masks of ones, what `cache` has."""
    feeds = {}
    for each in peer.get_inputs():
        if each.name in cache:
            feeds[each.name] = cache[each.name]
            continue
        shape = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in each.shape]
        dtype = TYPES[each.type]
        if each.name == "use_cache_branch":
            feeds[each.name] = np.array([bool(cache)])
        elif "mask" in each.name:
            feeds[each.name] = np.ones(shape, dtype)
        elif dtype is np.int64:
            feeds[each.name] = random.integers(1, 32, shape)
        else:
            feeds[each.name] = random.standard_normal(shape).astype(dtype)
    return feeds


def check(path, a, folder):
    plan = folder / "plan"
    subprocess.run([a.sinter, "compile", path, "-o", plan, f"--target={a.target}", "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    peer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in peer.get_outputs()]
    worst, steps = 0.0, 0
    for batch, encoded, lengths in RUNS:
        random, cache = np.random.default_rng(steps), {}
        states = random.standard_normal((batch, encoded, peer_size(peer))).astype(np.float32)
        for length in lengths:
            sizes = {"batch_size": batch, "decoder_sequence_length": length, "past_decoder_sequence_length": 0,
                     "encoder_sequence_length": encoded}
            feeds = inputs_of(peer, sizes, cache, random)
            feeds["encoder_hidden_states"] = states
            wanted = dict(zip(names, peer.run(None, feeds)))
            np.savez(folder / "in.npz", **feeds)
            subprocess.run([a.sinter, "run", plan, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz", "-q"],
                           check=True, stdout=subprocess.DEVNULL)
            with np.load(folder / "out.npz") as found:
                for name, value in wanted.items():
                    if found[name].shape != value.shape:
                        raise SystemExit(f"{path}: {name} is {found[name].shape}, and {value.shape} in ONNX Runtime")
                    worst = max(worst, relative_error(found[name], value) if value.size else 0.0)
            past = {"past_key_values" + name.removeprefix("present"): value for name, value in wanted.items()
                    if name.startswith("present")}
            # With the cache what belongs to the encoder is not given again.
            cache = {name: cache.get(name, value) if ".encoder." in name else value for name, value in past.items()}
            steps += 1
    return {"model": f"{path.parent.name}/{path.name}", "steps": steps, "relative_error": worst, "ok": worst <= a.tolerance}


def peer_size(peer):
    return next(each.shape[-1] for each in peer.get_inputs() if each.name == "encoder_hidden_states")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=Path)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--tolerance", type=float, default=1e-5)
    p.add_argument("--commit")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [check(path, a, Path(folder)) for path in a.models]
    for row in rows:
        print(f"{'ok    ' if row['ok'] else 'WRONG '} {row['model']}: {row['steps']} steps, {row['relative_error']:.1e}")
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "runs": rows})
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
