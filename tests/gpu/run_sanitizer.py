#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tiny models of models/manifest.json on this machine's GPU under NVIDIA's compute-sanitizer.

  run_sanitizer.py [--sinter build/bin/sinter] [--jobs 8] [--tools memcheck,racecheck,initcheck]
                   [--precisions model,fp16] [--models tiny_bert,tiny_llama] [--out tests/gpu/results/sanitizer.json]

Each model is compiled for the GPU found here, fused, and run on the inputs of its .npz file, step by step: initcheck
does not follow what copies inside of a CUDA graph write. memcheck finds accesses out of bounds, racecheck races in
shared memory, initcheck reads of memory that nothing wrote. A run that reports an error, or does not end within
--seconds, fails the check. racecheck gets plans whose libraries' algorithms have been chosen by a run before: to time
them under it takes minutes.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402

MODELS = ROOT / "models"


def prepare(key, entry, precision, folder, a):
    """Compiles the model and writes its inputs; the plan's path and theirs, or what went wrong."""
    plan, inputs = folder / f"{key}_{precision}.plan", folder / f"{key}.npz"
    done = subprocess.run([a.sinter, "compile", MODELS / entry["path"], "-o", plan, "--target=cuda", "-q", "--serve=off",
                           f"--precision={precision}", *entry.get("options", [])], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    with np.load(MODELS / entry["inputs"]) as f:
        np.savez(inputs, **{k: f[k] for k in f if not k.startswith("expected/")})
    chosen = shutil.copy(plan, folder / f"{key}_{precision}_chosen.plan")
    done = subprocess.run([a.sinter, "run", "--no-graph", chosen, "--inputs", inputs], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    return ({"racecheck": chosen}, plan, inputs), ""


def sanitize(key, precision, tool, prepared, a):
    row = {"model": key, "precision": precision, "tool": tool}
    files, why = prepared
    if files is None:
        return {**row, "ok": False, "why": why}
    of_tool, plan, inputs = files
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", "--print-limit", "5",
               # A pointer that the driver does not know is an answer, not an error.
               *(["--report-api-errors", "no"] if tool == "memcheck" else []),
               a.sinter, "run", "--no-graph", of_tool.get(tool, plan), "--inputs", inputs]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=a.seconds)
    except subprocess.TimeoutExpired:
        return {**row, "ok": False, "why": f"not done after {a.seconds} s"}
    text = done.stdout + done.stderr
    summary = re.findall(r"========= (ERROR SUMMARY.*|RACECHECK SUMMARY.*)", text)
    row["summary"] = summary[-1] if summary else ""
    clean = done.returncode == 0 and bool(re.search(r"SUMMARY: 0 (errors|hazards)", row["summary"]))
    if not clean:
        reports = [line[9:].strip() for line in text.splitlines() if line.startswith("=========")]
        row["why"] = f"exit {done.returncode}: " + " | ".join(reports[:24] or text.splitlines()[-5:])
    return {**row, "ok": clean}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--jobs", type=int, default=8, help="runs at a time")
    p.add_argument("--tools", default="memcheck,racecheck,initcheck")
    p.add_argument("--precisions", default="model,fp16")
    p.add_argument("--models", help="names with commas; else all that lie in the repository")
    p.add_argument("--seconds", type=int, default=300, help="a run may take")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    zoo = {k: v for k, v in json.loads((MODELS / "manifest.json").read_text()).items() if "path" in v}
    chosen = a.models.split(",") if a.models else list(zoo)
    rows = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(a.jobs) as pool:
        folder = Path(name)
        cases = [(key, precision) for key in chosen for precision in a.precisions.split(",")]
        prepared = list(pool.map(lambda case: prepare(case[0], zoo[case[0]], case[1], folder, a), cases))
        runs = [(*case, tool, files) for tool in a.tools.split(",") for case, files in zip(cases, prepared)]
        for row in pool.map(lambda run: sanitize(*run, a), runs):
            print(f"{'ok    ' if row['ok'] else 'FAILED'} {row['tool']} {row['model']} {row['precision']} "
                  f"{row.get('why', row.get('summary', ''))[:600]}", flush=True)
            rows.append(row)
    good = sum(row["ok"] for row in rows)
    print(f"{good} of {len(rows)} runs are clean")
    if a.out:
        write(a.out, {**provenance(a.commit), "runs": rows})
    sys.exit(0 if good == len(rows) else 1)


if __name__ == "__main__":
    main()
