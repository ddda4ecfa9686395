#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of several ranks on GPUs: checks first, then times, in one call.

  run_ranks.py                              on all GPUs of the machine, with a seeded decoder
  run_ranks.py MODEL... --precision fp16    these models, too
  run_ranks.py --share                      several ranks on one GPU, where there are too few: correctness, no speeds

A result says what was not run, and why: with one GPU, all of several.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from common import ROOT, Failed, Sinter, output_of, provenance, write

sys.path.append(str(ROOT / "models"))
RANKS = (1, 2, 4, 8)


def decoder(path, layers):
    """A decoder of half precision's usual sizes with random weights."""
    from llama_onnx import Config, Decoder, random_weights
    c = Config(layers=layers, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=32000, positions=4096)
    onnx.save(Decoder(c, random_weights(c)).model(), path, save_as_external_data=True, location="decoder.data")
    return path


def check(a, ranks, environment):
    command = [sys.executable, str(ROOT / "tests" / "models" / "check_ranks.py"), "--sinter", a.sinter, "--target", "cuda",
               "--precision", a.precision, "--tolerance", "5e-2", "--ranks", str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return {"ok": done.returncode == 0, "models": done.stdout.strip().splitlines()}


def times(a, model, ranks, folder):
    """Microseconds of a run, as `bench` says, hot."""
    sinter = Sinter(a.sinter, folder, "cuda", a.precision, ranks)
    plan = sinter.compile(model, name=f"ranks_{ranks}")
    found = sinter.json("bench", plan, "--hot", *(["--shapes=" + a.shapes] if a.shapes else []))
    size = os.path.getsize(plan)
    plan.unlink()
    return {"plan_bytes": size, "bench": found}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--precision", default="bf16", choices=("fp16", "bf16"))
    p.add_argument("--layers", type=int, default=4, help="of the seeded decoder; 0: without it")
    p.add_argument("--shapes", help="as bench has them")
    p.add_argument("--share", action="store_true")
    p.add_argument("--out", default=str(Path(__file__).parent / "results" / "ranks.json"))
    p.add_argument("--commit")
    a = p.parse_args()
    gpus = len([line for line in output_of("nvidia-smi", "-L").splitlines() if line.startswith("GPU")])
    result = {**provenance(a.commit), "gpus": gpus, "precision": a.precision, "links": output_of("nvidia-smi", "topo", "-m"),
              "checks": {}, "times": {}, "not_run": {}}
    with tempfile.TemporaryDirectory() as folder:
        models = [*a.models, *([decoder(Path(folder) / "decoder.onnx", a.layers)] if a.layers and gpus else [])]
        for ranks in RANKS:
            shared = gpus < ranks and a.share and gpus > 0
            if gpus < ranks and not shared:
                result["not_run"][str(ranks)] = f"{ranks} ranks need {ranks} GPUs, and the machine has {gpus}" + (
                    ": --share checks them on one" if gpus else "")
                print(result["not_run"][str(ranks)])
                continue
            environment = {**os.environ, **({"SINTER_RANK_DEVICES": ",".join("0" * ranks)} if shared else {})}
            if ranks > 1:
                result["checks"][str(ranks)] = found = check(a, ranks, environment)
                print(f"{ranks} ranks:", "ok" if found["ok"] else "FAILED", *found["models"], sep="\n  ", flush=True)
                if not found["ok"]:
                    continue
            if shared:
                result["not_run"][f"times of {ranks}"] = "ranks that share a GPU say nothing about several"
                continue
            for model in models:
                try:
                    result["times"][f"{Path(model).name} on {ranks}"] = times(a, model, ranks, folder)
                except Failed as e:
                    result["not_run"][f"{Path(model).name} on {ranks}"] = str(e)
                print(model, ranks, json.dumps(result["times"].get(f"{Path(model).name} on {ranks}"))[:300], flush=True)
    write(a.out, result)
    sys.exit(0 if all(found["ok"] for found in result["checks"].values()) else 1)


if __name__ == "__main__":
    main()
