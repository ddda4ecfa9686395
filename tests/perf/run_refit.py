#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refitting against compiling the new model: MiniLM, and SmolLM2 in 4 bits; for CPU and GPU targets. Needs no GPU.

  tests/perf/run_refit.py --out tests/perf/results/refit.json      models/fetch.py minilm smollm2 first
  tests/perf/run_refit.py --before OLD/bin/sinter --out new.json   an earlier binary in turns with this one

Each model has its float initializers changed; the plan of the old one is refitted with the new file, whose plan is also
compiled. Whole processes, in turns; medians of wall and processor seconds. Both plans must be equal byte for byte.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from common import CACHE, ROOT, provenance, write

MUST = 0.3  # of the time that compiling takes
CASES = {"minilm cpu": ("minilm", ["--target=cpu"]),
         "minilm sm_90 fp16": ("minilm", ["--target=cuda:sm_90", "--precision=fp16"]),
         "smollm2 int4 cpu": ("smollm2", ["--target=cpu", "--weights=int4"]),
         "smollm2 int4 sm_90": ("smollm2", ["--target=cuda:sm_90", "--precision=fp16", "--weights=int4"])}


def changed(model, path):
    """The model with other float weights."""
    random = np.random.default_rng(1)
    model = onnx.load(model)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f" and array.size >= 9:  # smaller ones are factors of sizes and the like
            noise = random.standard_normal(array.shape, np.float32)
            tensor.CopyFrom(numpy_helper.from_array((array * (1 + 0.1 * noise)).astype(array.dtype), tensor.name))
    onnx.save(model, path)


def spend(*command):
    """Wall and processor seconds of a process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*map(str, command), "--quiet"], capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(binary, old, new, options, folder, rounds):
    plan, compiled, refitted = (folder / f"{name}.plan" for name in ("old", "compiled", "refitted"))
    spend(binary, "compile", old, "-o", plan, *options)
    times = {"compile": [], "refit": []}
    for _ in range(rounds):
        # Kernels that were compiled before come from no cache.
        times["compile"].append(spend(binary, "compile", new, "-o", compiled, *options, "--kernel-cache=none"))
        times["refit"].append(spend(binary, "refit", plan, "--weights", new, "-o", refitted))
    medians = {f"{name}_{kind}_s": float(np.median([each[i] for each in of]))
               for name, of in times.items() for i, kind in enumerate(("wall", "processor"))}
    return {**medians, "share": medians["refit_wall_s"] / medians["compile_wall_s"],
            "processor_share": medians["refit_processor_s"] / medians["compile_processor_s"],
            "equal": compiled.read_bytes() == refitted.read_bytes(), "plan_bytes": refitted.stat().st_size}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=ROOT / "build/bin/sinter", help="sinter")
    p.add_argument("--before", type=Path, help="an earlier binary")
    p.add_argument("--cases", default=",".join(CASES), help="of " + ", ".join(CASES))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out", type=Path, help="result file")
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name in a.cases.split(","):
            model, options = CASES[name]
            old, new = CACHE / f"{model}.onnx", folder / model / f"{model}.onnx"  # of one name: plans have it
            if not new.exists():
                new.parent.mkdir()
                changed(old, new)
            for which, binary in (("before", a.before), ("now", a.binary)):
                if binary:
                    rows.append({"case": name, "binary": which,
                                 **measure(binary, old, new, options, folder, a.rounds)})
                    row = rows[-1]
                    print(f"{name} ({which}): compile {row['compile_wall_s']:.2f} s, refit {row['refit_wall_s']:.2f} s, "
                          f"{row['share']:.2f} of it (must be {MUST}); equal: {row['equal']}", flush=True)
    if a.out:
        write(a.out, {**provenance(), "load": os.getloadavg(), "rows": rows})
    return 0 if all(row["equal"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
