#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each model of models.py: it must end within 5 s of CPU time and 1 GB, with a plan or with one clear error.

  run.py [--quick] [--target cpu,cuda:sm_90] [--only NAME,..] [--jobs N] [--keep FOLDER] [-- OPTION..]

Constants and tables have a budget of 512 MB here, so that the same becomes of a model on every machine.
"""
import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402

SECONDS, MEGABYTES = 5.0, 1000
# Beyond these a compiler is stopped, so that a failing one harms no machine.
MOST_SECONDS, MOST_BYTES = 30, 4 << 30
# 0 done, 3 unsupported, 4 invalid model, 5 invalid plan, 6 out of memory: see tools/cli/cli.h.
REFUSALS = {3, 4, 6}


def run(command: list[str]) -> dict:
    """Ends of one process: exit code, CPU seconds and megabytes of it, what it printed."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=out, preexec_fn=limit, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read(1 << 20).decode(errors="replace")
    return {"code": process.returncode, "seconds": usage.ru_utime + usage.ru_stime, "wall": time.monotonic() - start,
            "megabytes": usage.ru_maxrss * 1024 / 1e6, "text": text}


def problem_of(result: dict, allowed: str) -> str:
    code = result["code"]
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code != 0 and code not in REFUSALS:
        return f"exit code {code}"
    if result["seconds"] > SECONDS:
        return f"more than {SECONDS:g} s"
    if result["megabytes"] > MEGABYTES:
        return f"more than {MEGABYTES} MB"
    if allowed == "compiles" and code != 0:
        return "refused"
    if allowed == "refused" and code == 0:
        return "compiled"
    errors = [line for line in result["text"].splitlines() if re.search(r"\berror\b", line)]
    if code != 0 and not errors:
        return "no error is printed"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build/bin/sinter"))
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--quick", action="store_true", help="without those that take more than a second")
    parser.add_argument("--only", default="", help="names, or parts of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="", help="folder for the models; else a temporary one")
    parser.add_argument("--verbose", action="store_true", help="what is printed, too")
    parser.add_argument("options", nargs="*", help="behind --: options for sinter compile")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    names = [name for name in models.MODELS if not wanted or any(each in name for each in wanted)]
    if arguments.quick:
        names = [name for name in names if name not in models.SLOW]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)

        def make(name: str) -> Path:
            path = folder / f"{name}.onnx"
            if not path.exists():
                path.write_bytes(models.MODELS[name][1]().SerializeToString())
            return path

        def compile_one(job: tuple[str, str]) -> tuple:
            name, target = job
            path = folder / f"{name}.onnx"
            plan = folder / f"{name}.{target.replace(':', '_')}.plan"
            result = run([arguments.sinter, "compile", str(path), "-o", str(plan), "--target", target,
                          "--kernel-cache", "none", "--max-compile-memory", "512M", *arguments.options])
            plan.unlink(missing_ok=True)
            return name, target, result

        for name in names:
            make(name)
        jobs = [(name, target) for target in arguments.target.split(",") for name in names]
        failed = 0
        print(f"{'model':30} {'target':10} {'file':>8} {'CPU s':>7} {'MB':>6}  result")
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for name, target, result in pool.map(compile_one, jobs):
                why = problem_of(result, models.MODELS[name][0])
                failed += why != ""
                ended = {0: "compiled"}.get(result["code"], f"refused ({result['code']})")
                size = (folder / f"{name}.onnx").stat().st_size
                print(f"{name:30} {target:10} {size:8} {result['seconds']:7.2f} {result['megabytes']:6.0f}  "
                      f"{'FAILED: ' + why if why else ended}", flush=True)
                if result["code"] != 0 and (why or arguments.verbose):
                    print("    " + "\n    ".join(result["text"].strip().splitlines()[-4:])[:1500], flush=True)
        print(f"{len(jobs) - failed} of {len(jobs)} end within {SECONDS:g} s and {MEGABYTES} MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
