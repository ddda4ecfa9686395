#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refitted plans are those of the new models: byte for byte, and on the CPU in what they compute.

  check_refit.py                                the manifest's tiny models, for all targets, types and weights
  check_refit.py --models 'tiny_bert*' --targets cpu

Each model has its float initializers changed twice, so that none is all ones or zeros: the first is compiled, and
refitted with the second. Needs no GPU.
"""
import argparse
import fnmatch
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[2]
SINTER = ROOT / "build/bin/sinter"
WAYS = {"cpu": [[], ["--weights=int8"], ["--weights=int4"]],
        "cuda:sm_90": [[], ["--precision=fp16"], ["--precision=fp16", "--weights=int8"],
                       ["--precision=fp16", "--weights=int4"]]}
LEAST = 9  # elements: smaller ones are factors of sizes and the like


def changed(model, seed, path):
    r = np.random.default_rng(seed)
    model = onnx.load(model)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f" and array.size >= LEAST:
            array = (array * (1 + 0.1 * r.standard_normal(array.shape))).astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    path.parent.mkdir(exist_ok=True)
    onnx.save(model, path)


def sinter(*words):
    done = subprocess.run([SINTER, *map(str, words), "--quiet"], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def check(model, target, way, folder):
    name = model.name
    compiled = [sinter("compile", folder / which / name, "-o", folder / f"{which}.plan", f"--target={target}", *way)
                for which in ("old", "new")]
    if any(compiled):
        return f"does not compile: {compiled[0] or compiled[1]}"
    if error := sinter("refit", folder / "old.plan", "--weights", folder / "new" / name, "-o", folder / "refit.plan"):
        if "the pass page_caches" not in error or "--serve=off" in way:
            return error
        return check(model, target, [*way, "--serve=off"], folder)  # a bias of positions that the paged plan holds as code
    same = (folder / "refit.plan").read_bytes() == (folder / "new.plan").read_bytes()
    return "" if same else "the plan differs from the compiled one"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="*", help="names of files in models/tiny, without .onnx")
    parser.add_argument("--targets", default=",".join(WAYS))
    options = parser.parse_args()
    models = sorted(path for path in (ROOT / "models/tiny").glob("*.onnx")
                    if fnmatch.fnmatch(path.stem, options.models))
    if not models:
        sys.exit("no models in models/tiny: models/fetch.py or models/build.py makes them")
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for model in models:
            for seed, which in enumerate(("old", "new")):
                changed(model, seed, folder / which / model.name)
            for target in options.targets.split(","):
                for way in WAYS[target]:
                    count += 1
                    if problem := check(model, target, way, folder):
                        failed += 1
                        print(f"{model.stem} {target} {' '.join(way)}: {problem}", flush=True)
    print(f"{count - failed} of {count} refitted plans are those of the new models")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
