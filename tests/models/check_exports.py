#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The export zoo (models/export_zoo.py) end to end: each file compiled without options, run at four sizes.

  check_exports.py FOLDER --out results.json                 on the CPU
  check_exports.py FOLDER --target cuda --sinter sinter      needs a binary, Python and NumPy only
  check_exports.py FOLDER bert_dynamo 'llama*' -v            some files; the error messages, too
  check_exports.py FOLDER --precision fp16                   in 16 bits, beside PyTorch's errors

One plan has to give what index.json's reference gave at all sizes. With --precision the error may be three times
PyTorch's own in that type (at least that of one rounding); files of quantized models may be off by their tolerance. A row of index.json may name options
that its file cannot do without; such a file counts apart ("with option"). Verdicts: ok, refused (the compiler says
that it does not support the file, or a run that it does not support the size), wrong (other numbers), crash
(anything else, a defect of Sinter). Exit code 1 if there is any that is wrong or crashed.
"""
import argparse
import collections
import fnmatch
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402
from runs import relative_error  # noqa: E402

SIZES = 4
ROUNDING = {"fp16": 2.0 ** -11, "bf16": 2.0 ** -8}
TIMES = 3  # PyTorch's error
REFUSED = (2, 3, 4)  # exit codes that say: not with this model, not at this size
SECONDS = 300  # that one command may take


class Verdict(Exception):
    def __init__(self, verdict, why):
        super().__init__(why)
        self.verdict, self.why = verdict, why


def command(words):
    """Runs it; returns wall seconds and the user seconds of the process."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=errors)
        try:
            deadline = start + SECONDS
            while True:
                pid, status, used = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    child.kill()
                    os.wait4(child.pid, 0)
                    child.returncode = -9
                    raise Verdict("crash", f"no end after {SECONDS} s")
                time.sleep(0.01)
        finally:
            errors.seek(0)
            text = errors.read()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        lines = [line for line in text.splitlines() if line.strip()]
        first = next((i for i, line in enumerate(lines) if line.startswith("error")), 0)
        message = "\n".join(lines[first:first + 12]) or f"exit code {child.returncode}"
        verdict = "refused" if child.returncode in REFUSED else "crash"
        raise Verdict(verdict, f"{message} (exit code {child.returncode})")
    return time.monotonic() - start, used.ru_utime


class Check:
    def __init__(self, row, a):
        self.row, self.a = row, a
        self.model = a.folder / f"{row['name']}.onnx"

    def arrays(self):
        with np.load(self.model.with_suffix(".npz")) as f:
            return {k: f[k] for k in f}

    def run(self):
        row = {k: self.row[k] for k in ("name", "architecture", "group", "way")}
        row["options"] = self.row.get("options", [])
        if time.monotonic() > self.a.end:
            return {**row, "verdict": "left"}
        try:
            with tempfile.TemporaryDirectory() as folder:
                self.measure(Path(folder), row)
            row["verdict"] = "ok"
        except Verdict as e:
            row.update(verdict=e.verdict, why=e.why[:3000])
        return row

    def measure(self, folder, row):
        plan = folder / "model.plan"
        wall, user = command([self.a.sinter, "compile", self.model, "-o", plan, f"--target={self.a.target}", "--quiet",
                              f"--fuse={self.a.fuse}", "--serve=off", *self.precision(), *row["options"]])
        row.update(compile_seconds=round(wall, 2), compile_user_seconds=round(user, 2))
        target = "cuda" if self.a.target.startswith("cuda") else self.a.target
        if self.a.compile_only:
            return
        arrays, worst = self.arrays(), (0.0, 0.0, "")
        for i in range(SIZES):
            part = {kind: {k.split("/", 2)[2]: v for k, v in arrays.items() if k.startswith(f"{i}/{kind}/")}
                    for kind in ("in", "out")}
            feeds, found = folder / "in.npz", folder / "out.npz"
            np.savez(feeds, **part["in"])
            command([self.a.sinter, "run", plan, "--inputs", feeds, "--outputs", found])
            with np.load(found) as f:
                error, what = self.compare({k: f[k] for k in f}, part["out"])
            most = self.most(i)
            worst = max(worst, (error / most, error, f"{what} is off by {error:.1e} at size {i}, at most {most:.1e}"))
            if self.a.precision:
                row.setdefault("errors", []).append(float(f"{error:.3g}"))
        row["relative_error"] = worst[1]
        if self.a.precision:
            row["torch_errors"] = (self.row.get("half") or {}).get(self.a.precision)
        if not worst[0] <= 1:
            raise Verdict("wrong", worst[2])
        row["target"] = target

    def precision(self):
        return [f"--precision={self.a.precision}"] if self.a.precision else []

    def most(self, size):
        """What the error at a size may be."""
        if not self.a.precision:
            return self.row["tolerance"]
        torch, one = (self.row.get("half") or {}).get(self.a.precision), ROUNDING[self.a.precision]
        known = isinstance(torch, list) and 0 <= torch[size] < float("inf")
        # Where PyTorch has none: what a few layers bring. Rounding another way a value that is quantized behind it is a
        # whole step.
        most = TIMES * max(torch[size], one) if known else 10 * TIMES * one
        return max(most, self.row["tolerance"] if self.row["tolerance"] > 1e-2 else 0)

    def compare(self, found, expected):
        """(the largest error, whose it is)"""
        worst = 0.0, ""
        for name, wanted in expected.items():
            shape = found[name].shape
            if shape != wanted.shape:
                raise Verdict("wrong", f"{name} has shape {shape} for {wanted.shape}")
            error = relative_error(found[name], wanted)
            worst = max(worst, (error if error == error else float("inf"), f"{name} {shape}"))
        return worst


def summary(rows):
    """Counts by verdict, and how many compile without any option."""
    count = collections.Counter(r["verdict"] for r in rows)
    plain = sum(r["verdict"] == "ok" and not r["options"] for r in rows)
    return dict(files=len(rows), architectures=len({r["architecture"] for r in rows}),
                architectures_ok=len({r["architecture"] for r in rows if r["verdict"] == "ok"}),
                ok_without_options=plain, ok_with_option=count["ok"] - plain,
                **{v: count[v] for v in ("refused", "wrong", "crash", "left")})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("names", nargs="*", help="files, or patterns of them; default: all")
    p.add_argument("--target", default="cpu")
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--fuse", default="on")
    p.add_argument("--precision", choices=ROUNDING)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--deadline", type=float, default=1e9, help="start no file after this many seconds; the rest is 'left'")
    p.add_argument("--compile-only", action="store_true", help="for a GPU that is not here")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("-v", "--verbose", action="store_true", help="whole error messages")
    p.add_argument("--out", help="write the results as JSON")
    p.add_argument("--into", type=Path, help="put the rows of these files into such results, each with its commit")
    a = p.parse_intermixed_args()
    a.end = time.monotonic() + a.deadline
    files = [r for r in json.loads((a.folder / "index.json").read_text())["files"] if r["exported"]]
    if a.names:
        files = [r for r in files if any(fnmatch.fnmatch(r["name"], n) for n in a.names)]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows = []
    with ThreadPoolExecutor(a.jobs) as pool:
        for row in pool.map(lambda r: Check(r, a).run(), files):
            rows.append(row)
            slow = f" {row.get('compile_user_seconds', 0)} s" if row.get("compile_user_seconds", 0) > 20 else ""
            why = row.get("why", "")
            print(f"[{len(rows)}/{len(files)}] {row['verdict']:7} {row['name']}{slow}"
                  f"{': ' + (why if a.verbose else why.splitlines()[0][:220]) if why else ''}", flush=True)
    result = summary(rows)
    if a.precision:
        known = [ours / theirs for r in rows if isinstance(r.get("torch_errors"), list)
                 for ours, theirs in zip(r.get("errors", []), r["torch_errors"]) if 0 < theirs < float("inf")]
        result["sizes_compared"], result["sizes_below_torch"] = len(known), sum(ratio <= 1 for ratio in known)
        result["median_of_torch"] = round(float(np.median(known)), 3) if known else None
    print(", ".join(f"{k} {v}" for k, v in result.items()))
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "fuse": a.fuse, "precision": a.precision or "model",
                      "summary": result, "files": rows})
    if a.into:
        merged = json.loads(a.into.read_text())
        own = {r["name"]: {**r, "commit": provenance(a.commit)["commit"]} for r in rows}
        merged["files"] = sorted([r for r in merged["files"] if r["name"] not in own] + list(own.values()), key=lambda r: r["name"])
        merged["summary"] = {k: v for k, v in summary(merged["files"]).items() if k in merged["summary"]}
        write(a.into, merged)
    sys.exit(1 if result["wrong"] or result["crash"] else 0)


if __name__ == "__main__":
    main()
