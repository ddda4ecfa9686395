#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the command takes to start, and its memory: `true`, `sinter --version`, `sinter run` of a plan of one Relu.

  run_start.py [--sinter build/bin/sinter] [--runs 200] [--results FILE]

The programs take turns, so that what else the machine does meets all alike. Prints the figures as JSON, and writes
them with commit, machine and date. Needs cc and a quiet machine: `load` says how busy it was.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import onnx
from common import ROOT, provenance, write
from onnx import TensorProto, helper

TURN = 10  # runs of a program before the next has its turn


def make_plan(sinter, folder):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1024])  # noqa: E731
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "relu.onnx")
    subprocess.run([sinter, "compile", folder / "relu.onnx", "-o", folder / "relu.plan", "--target=cpu", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "relu.plan"


def figures(lines):
    """Of lines of start_time."""
    wall, processor, memory = zip(*(map(float, line.split()) for line in lines))
    return {"least_ms": round(min(wall) / 1e3, 2), "median_ms": round(statistics.median(wall) / 1e3, 2),
            "processor_median_ms": round(statistics.median(processor) / 1e3, 2),
            "memory_mb": round(max(memory) * 1024 / 1e6, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=ROOT / "build" / "bin" / "sinter", type=Path)
    parser.add_argument("--runs", type=int, default=200, help="of each program")
    parser.add_argument("--timer", type=Path, help="start_time.c, compiled, for a machine without cc")
    parser.add_argument("--commit", help="of the binary, where it was built elsewhere")
    parser.add_argument("--results", default=ROOT / "tests" / "perf" / "results" / "start.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timer = options.timer.resolve() if options.timer else folder / "start_time"
        if not options.timer:
            subprocess.run(["cc", "-O1", "-std=gnu99", ROOT / "tests" / "perf" / "start_time.c", "-o", timer], check=True)
        sinter = options.sinter.resolve()
        programs = {"true": ["true"], "version": [sinter, "--version"],
                    "run": [sinter, "run", make_plan(sinter, folder)]}
        lines = {program: [] for program in programs}
        for turn in range(max(1, options.runs // TURN) + 1):
            for program, words in programs.items():
                run = subprocess.run([timer, str(TURN), *words], capture_output=True, text=True, check=True)
                if turn > 0:  # the first warms the files
                    lines[program] += run.stdout.splitlines()
        result = dict(provenance(options.commit), load=round(os.getloadavg()[0], 1), runs=len(lines["true"]),
                      programs={program: figures(of) for program, of in lines.items()})
    print(json.dumps(result, indent=1))
    write(options.results, result)


if __name__ == "__main__":
    main()
