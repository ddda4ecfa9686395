#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the plans of two binaries beside each other, for a change that should cost nothing.

  compare_binaries.py --before DIR/sinter --after build/bin/sinter --out tests/perf/results/redesign_h200.json

Every workload of torch_workloads.py is exported once and compiled by both binaries, in each of --precisions and with
weights of 8 and 4 bits where it has layers for them. Plans of equal machine code are timed as well: their difference is
what the measurement itself varies by. The next ones are compiled meanwhile. `sinter bench` runs in turns, before and after, --rounds times; a row has the
median of each binary's medians (cold L2, a full queue), their ratio, and the medians of synchronised calls.
"""
import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import ROOT, provenance, sinter_json, write

FORMS = {"model": [], "tf32": ["--precision=tf32"], "fp16": ["--precision=fp16"], "int8": ["--weights=int8"], "int4": ["--weights=int4:group=32"]}


def export(job):
    name, folder = job
    if not (folder / f"{name}.expected.npz").exists():
        script = (f"import sys; sys.path.insert(0, {str(ROOT / 'tests' / 'perf')!r}); import torch_workloads as peers; "
                  f"from pathlib import Path; peers.export(peers.WORKLOADS[{name!r}], Path({str(folder / name)!r} + '.onnx'))")
        subprocess.run([sys.executable, "-c", script], capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "4"})
    return name


def compile_plan(sinter, model, plan, words):
    done = subprocess.run([sinter, "compile", model, "-o", plan, "--target=cuda", "-q", "--jobs", "4", *words],
                          capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return None


def bench(sinter, plan, inputs, seconds):
    row = sinter_json(sinter, "bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=200", f"--duration={seconds}")
    return row["compute_us"]["median"], row["latency_us"]["median"]


def compile_both(a, name, form, deadline):
    """The plans by binary, or why there is none."""
    plans = {}
    for which, sinter in (("before", a.before), ("after", a.after)):
        if time.monotonic() > deadline:
            return "no time was left"
        plans[which] = a.folder / f"{name}.{form}.{which}.plan"
        problem = compile_plan(sinter, a.folder / f"{name}.onnx", plans[which], FORMS[form])
        if problem:
            return f"{which}: {problem}"
    return plans


def compare(a, name, plans, folder):
    code = {which: hashlib.sha256(plan.read_bytes()).hexdigest()[:16] for which, plan in plans.items()}
    times = {"before": [], "after": []}
    for _ in range(a.rounds):
        for which, sinter in (("before", a.before), ("after", a.after)):
            times[which].append(bench(sinter, plans[which], folder / f"{name}.npz", a.seconds))
    row = {"same_plan": code["before"] == code["after"]}
    for which, found in times.items():
        row[which] = {"gpu_us": statistics.median(gpu for gpu, _ in found),
                      "wall_us": statistics.median(wall for _, wall in found)}
    row["ratio"] = row["after"]["gpu_us"] / row["before"]["gpu_us"]
    for plan in plans.values():
        plan.unlink()
    return row


def main():
    import torch_workloads as peers
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--before", required=True)
    p.add_argument("--after", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--workloads", default=",".join(n for n, w in peers.WORKLOADS.items() if not w.large))
    p.add_argument("--precisions", default="model,fp16,int8", help="of " + ", ".join(FORMS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.4)
    p.add_argument("--deadline", type=float, default=480, help="seconds after which no more is compiled")
    p.add_argument("--jobs", type=int, default=4, help="compilers at a time")
    p.add_argument("--folder", type=Path, default=Path("/tmp/compare_binaries"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    start = time.monotonic()
    a.folder.mkdir(parents=True, exist_ok=True)
    names = a.workloads.split(",")
    rows, waiting = {}, []
    with ThreadPoolExecutor(6) as exporters, ThreadPoolExecutor(a.jobs) as compilers:
        for name in exporters.map(export, [(name, a.folder) for name in names]):
            if not (a.folder / f"{name}.npz").exists():
                rows[name] = {"refused": "PyTorch does not export it here"}
                continue
            forms = ["model"] if peers.WORKLOADS[name].half else a.precisions.split(",")
            waiting += [(name, form, compilers.submit(compile_both, a, name, form, start + a.deadline)) for form in forms]
        for name, form, plans in waiting:
            found = plans.result()
            row = rows[f"{name} {form}"] = {"refused": found} if isinstance(found, str) else compare(a, name, found, a.folder)
            print(f"{name:22} {form:6}", row.get("refused") or
                  f"{row['before']['gpu_us']:9.1f} {row['after']['gpu_us']:9.1f} us  {row['ratio']:.3f}"
                  f"{'  the same plan' if row['same_plan'] else ''}", flush=True)
    write(a.out, {**provenance(a.commit), "rows": rows})


if __name__ == "__main__":
    main()
