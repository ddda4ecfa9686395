#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of models/manifest.json end to end, fused and unfused, against ONNX Runtime or PyTorch.

  check_zoo.py --target cpu                         those that lie in the repository (tiny_*)
  check_zoo.py --target cpu --models all            with those that models/fetch.py fetches
  check_zoo.py --target cuda --precision fp16 --models all --out results.json

A tiny model is compared with the outputs that PyTorch gave, a fetched one with ONNX Runtime on real
inputs (models/real_inputs.py); what its outputs say, such as a recognised text, must be right too. The
tolerance is the manifest's. Models that do not run on a target, or at a precision of it ("cuda fp16"), stand in
tests/models/known_failures.json, each with its reason; one that is listed and passes fails the check, as does one that is not and fails.
"""
import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
import real_inputs  # noqa: E402
from common import provenance, write  # noqa: E402
from runs import Failed, Sinter, onnx_runtime, relative_error  # noqa: E402

MODELS = ROOT / "models"
KNOWN = Path(__file__).with_name("known_failures.json")


class Model:
    def __init__(self, key, entry, arguments, folder):
        self.key, self.entry, self.a = key, entry, arguments
        self.sinter = Sinter(arguments.sinter, folder, arguments.target, arguments.precision)
        self.path = MODELS / entry["path"] if "path" in entry else MODELS / "cache" / next(iter(entry["builds"]))

    def compile(self, fuse):
        plan = self.sinter.compile(self.path, f"--fuse={fuse}", *self.entry.get("options", []),
                                   name=f"{self.key}_{fuse}")
        return plan, self.sinter.json("inspect", plan)["steps"]

    def reference(self):
        """The runs' inputs and expected outputs."""
        if "inputs" in self.entry:
            with np.load(MODELS / self.entry["inputs"]) as f:
                arrays = {k: f[k] for k in f}
            expected = {k.split("/", 1)[1]: v for k, v in arrays.items() if k.startswith("expected/")}
            return [({k: v for k, v in arrays.items() if not k.startswith("expected/")}, expected)]
        session = onnx_runtime(self.path)
        names = [o.name for o in session.get_outputs()]
        carried = real_inputs.STATE.get(self.key, {})
        state = {name: np.zeros(shape, np.float32) for name, shape in carried.values()}
        runs = []
        for feeds in real_inputs.INPUTS[self.key]():
            feeds = {**feeds, **state}
            outputs = dict(zip(names, session.run(None, feeds)))
            state = {name: outputs[output] for output, (name, _) in carried.items()}
            runs.append((feeds, outputs))
        return runs

    def check(self):
        row = {"model": self.key, "target": self.a.target, "precision": self.a.precision}
        tolerance = self.entry["tolerance"]["f16" if self.a.precision in ("fp16", "bf16") else "f32"]
        runs = self.reference()
        all_run = len(runs) <= self.a.runs
        if not all_run:  # evenly spread; each carries the reference's state
            runs = [runs[i] for i in np.linspace(0, len(runs) - 1, self.a.runs).astype(int)]
        for fuse in ("on", "off"):
            start = time.monotonic()
            plan, steps = self.compile(fuse)
            seconds = time.monotonic() - start
            worst, found = 0.0, []
            for feeds, expected in runs:
                outputs = self.sinter.run(plan, feeds)
                found.append(outputs)
                worst = max([worst, *(relative_error(outputs[k], v) for k, v in expected.items())])
            row[f"fuse_{fuse}"] = {"launches": steps, "relative_error": worst, "compile_seconds": round(seconds, 2)}
            if not worst <= tolerance:
                raise Failed(f"relative error {worst:.2e} with --fuse={fuse}, at most {tolerance:.0e}")
            self.check_meaning(found, [expected for _, expected in runs], all_run)
        row["tolerance"] = tolerance
        return row

    def check_meaning(self, found, expected, all_run):
        meaning = real_inputs.MEANING.get(self.key)
        if meaning is None:
            return
        says, should = meaning(found), meaning(expected)
        if says != should:
            raise Failed(f"says {str(says)[:200]}, ONNX Runtime {str(should)[:200]}")
        wanted = real_inputs.EXPECTED.get(self.key)
        if all_run and wanted is not None and says is not None and says != wanted:
            raise Failed(f"says {str(says)[:200]}, should say {wanted}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--models", default="tiny", help="names with commas; 'tiny' and 'all' stand for many")
    p.add_argument("--runs", type=int, default=12, help="inputs of a model at most")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    manifest = json.loads((MODELS / "manifest.json").read_text())
    zoo = {k: v for k, v in manifest.items() if "path" in v or k in real_inputs.INPUTS}
    groups = {"tiny": [k for k in zoo if "path" in zoo[k]], "all": list(zoo)}
    chosen = [key for word in a.models.split(",") for key in groups.get(word, [word])]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    rows, wrong = [], 0
    for key in chosen:
        reasons = known.get(key, {})
        reason = reasons.get(a.target) or reasons.get(f"{a.target} {a.precision}")
        try:
            with tempfile.TemporaryDirectory() as folder:
                row = Model(key, zoo[key], a, folder).check()
            row["ok"] = True
            on, off = row["fuse_on"], row["fuse_off"]
            text = f"{off['launches']:4d} -> {on['launches']:3d} launches, relative error {on['relative_error']:.1e}"
        except (Failed, OSError) as e:
            row, text = {"model": key, "target": a.target, "precision": a.precision, "ok": False, "why": str(e)}, str(e)
        unexpected = row["ok"] == bool(reason)
        wrong += unexpected
        state = "ok    " if row["ok"] else "FAILED"
        note = "" if not unexpected else " UNEXPECTED" if reason else ""
        print(f"{state}{note} {key}: {text[:300]}", flush=True)
        rows.append(row)
    good = sum(row["ok"] for row in rows)
    print(f"{good} of {len(rows)} models run; {wrong} not as expected")
    if a.out:
        write(a.out, {**provenance(a.commit), "models": rows})
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
