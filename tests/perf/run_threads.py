#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the CPU target's threads get on with others: alone, several processes at once, beside a busy machine.

  tests/perf/run_threads.py --base OLD/build/bin/sinter --out tests/perf/results/threads.json
  tests/perf/run_threads.py --conditions alone --models minilm,light_resnet50

MiniLM, 1 x 64, float32, `--threads` threads a process. `alone`: one process; `processes`: three at once, every one's
time; `busy`: one beside as many endless loops as there are processors. Sinter, the binary of an earlier commit (--base,
which runs the same plans) and ONNX Runtime take turns, each in processes of its own, caches as the last run left them,
no setting in the environment. `--models` are compared alone. Recorded: of each turn the median and the 90th percentile,
of all turns the median of these and the least time of all: other work on the machine only ever adds.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import CACHE, ROOT, provenance, write
from run_cpu import ZOO, minilm_feeds, zoo_feeds
from runs import Sinter

# One process's times of ONNX Runtime, as JSON.
PEER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from runs import onnx_runtime
model, inputs, threads, runs, seconds = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
session, samples = onnx_runtime(model, threads), []
with np.load(inputs) as file:
    feeds = {key: file[key] for key in file}
for _ in range(10):
    session.run(None, feeds)
end = time.perf_counter() + seconds
while len(samples) < runs and time.perf_counter() < end:
    began = time.perf_counter()
    session.run(None, feeds)
    samples.append((time.perf_counter() - began) * 1e6)
print(json.dumps({"latency_us": {"min": min(samples), "median": float(np.median(samples)),
                                 "p90": float(np.percentile(samples, 90))}}))
"""


class Case:
    """One model with its inputs, for every peer."""

    def __init__(self, name, folder, sinter, base, threads, runs, seconds):
        manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
        model, _, batch = name.partition(":")
        feeds = minilm_feeds(int(batch or 1)) if model == "minilm" else zoo_feeds(model)
        self.model, self.inputs = CACHE / f"{model}.onnx", folder / f"{name}.npz"
        np.savez(self.inputs, **feeds)
        plan = Sinter(sinter, folder).compile(self.model, *manifest[model].get("options", []), name=name)
        common = [f"--threads={threads}", f"--iterations={runs}", f"--duration={seconds}", "--hot", "--json", "--quiet"]
        self.commands = {"sinter": [sinter, "bench", plan, "--inputs", self.inputs, *common],
                         "onnxruntime": [sys.executable, "-c", PEER, ROOT / "tests" / "models", self.model, self.inputs,
                                         threads, runs, seconds]}
        if base:
            self.commands["base"] = [base, *self.commands["sinter"][1:]]

    def start(self, peer):
        return subprocess.Popen([str(word) for word in self.commands[peer]], stdout=subprocess.PIPE, text=True)


def finish(process):
    text = process.communicate()[0]
    if process.returncode != 0:
        raise SystemExit(f"{process.args[0]} failed with exit code {process.returncode}")
    return json.loads(text)["latency_us"]


def alone(case, peer):
    return [finish(case.start(peer))]


def processes(case, peer):
    return [finish(process) for process in [case.start(peer) for _ in range(3)]]


def busy(case, peer):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        return alone(case, peer)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


CONDITIONS = {"alone": alone, "processes": processes, "busy": busy}


def measure(case, condition, turns):
    times = {peer: [] for peer in case.commands}
    for _ in range(turns):
        for peer in times:
            times[peer].append(CONDITIONS[condition](case, peer))
    row = {}
    for peer, rounds in times.items():
        every = [one for turn in rounds for one in turn]
        row[peer] = {"median_us": round(float(np.median([one["median"] for one in every])), 1),
                     "p90_us": round(float(np.median([one["p90"] for one in every])), 1),
                     "least_us": round(min(one["min"] for one in every), 1),
                     "turns_median_us": [[round(one["median"], 1) for one in turn] for turn in rounds]}
    for peer in set(times) - {"sinter"}:
        row[f"ratio_to_{peer}"] = round(row["sinter"]["median_us"] / row[peer]["median_us"], 3)
        row[f"ratio_of_least_to_{peer}"] = round(row["sinter"]["least_us"] / row[peer]["least_us"], 3)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--base", help="an earlier binary, measured in the same turns")
    p.add_argument("--base-commit", help="its commit, for the record")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--conditions", default=",".join(CONDITIONS))
    p.add_argument("--models", default=",".join(["minilm:8", *(name for name in ZOO if name != "minilm")]),
                   help="compared alone, besides MiniLM; empty: none")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "threads.json"))
    a = p.parse_args()
    import onnxruntime
    result = {**provenance(), "base_commit": a.base_commit, "threads": a.threads, "onnxruntime": onnxruntime.__version__,
              "load_average": os.getloadavg(), "minilm_1x64": {}, "models_alone": {}}
    with tempfile.TemporaryDirectory() as tmp:
        def case(name):
            return Case(name, Path(tmp), a.sinter, a.base, a.threads, a.runs, a.seconds)
        minilm = case("minilm:1")
        for condition in filter(None, a.conditions.split(",")):
            row = result["minilm_1x64"][condition] = measure(minilm, condition, a.turns)
            print(condition, {peer: (r["median_us"], r["least_us"]) for peer, r in row.items() if isinstance(r, dict)},
                  flush=True)
        for name in filter(None, a.models.split(",")):
            row = result["models_alone"][name] = measure(case(name), "alone", a.turns)
            print(name, {peer: (r["median_us"], r["least_us"]) for peer, r in row.items() if isinstance(r, dict)},
                  flush=True)
    write(a.out, result)


if __name__ == "__main__":
    main()
