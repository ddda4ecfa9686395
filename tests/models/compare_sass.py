#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the machine code of two plans, instruction by instruction, names aside.

  compare_sass.py BEFORE.plan AFTER.plan              one pair
  compare_sass.py --before SINTER --after SINTER ...  compiles plan_hashes.py's models with two binaries

For a change of names in device code: it changes texts and symbols, and must change no instruction. Needs cuobjdump and
nvdisasm (PyPI: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm). Exit code 1 if anything differs.
"""
import argparse
import fnmatch
import os
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import plan_hashes

CODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*/\* 0x[0-9a-f]+ \*/")
SYMBOL = re.compile(r"`\([^)]*\)")


def cubins(plan):
    """The plan's machine code, kernel by kernel; each is an ELF file at a multiple of 64 bytes."""
    data = Path(plan).read_bytes()
    offset, size, _ = struct.unpack_from("<QQQ", data, 32 + 24 * plan_hashes.MODULES)
    section = data[offset:offset + size]
    found, at = [], 0
    while at < len(section):
        headers, = struct.unpack_from("<Q", section, at + 0x28)  # e_shoff: the section headers end the file
        size, count = struct.unpack_from("<HH", section, at + 0x3A)
        segments, = struct.unpack_from("<Q", section, at + 0x20)
        width, number = struct.unpack_from("<HH", section, at + 0x36)
        end = max(headers + size * count, segments + width * number)
        found.append(section[at:at + end])
        at += (end + 63) // 64 * 64
    return found


def instructions(cubin, cuobjdump):
    """Instructions of each function, in order of the functions' texts: their names do not count."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([cuobjdump, "-sass", file.name], capture_output=True, text=True, check=True).stdout
    functions = []
    for line in text.splitlines():
        if "Function :" in line:
            functions.append([])
        elif (match := CODE.match(line)) and functions:
            functions[-1].append(SYMBOL.sub("SYMBOL", match.group(1)))
    return sorted(functions)


def differences(before, after, cuobjdump):
    """Numbers of kernels whose instructions differ; of kernels in all."""
    a, b = cubins(before), cubins(after)
    if len(a) != len(b):
        return [f"{len(a)} kernels and {len(b)}"], max(len(a), len(b))
    return [k for k in range(len(a))
            if a[k] != b[k] and instructions(a[k], cuobjdump) != instructions(b[k], cuobjdump)], len(a)


def compare_models(a, name, path, options, target, form, folder):
    plans = []
    for which, sinter in (("before", a.before), ("after", a.after)):
        plan = Path(folder) / f"{name}.{target}.{form}.{which}.plan"
        done = subprocess.run([sinter, "compile", path, "-o", plan, f"--target={plan_hashes.TARGETS[target]}", "-q",
                               *plan_hashes.own_inputs(sinter, options), *options, *plan_hashes.FORMS[form]], capture_output=True, text=True)
        if done.returncode:
            return [f"{which}: {done.stderr.strip().splitlines()[-1]}"], 0
        plans.append(plan)
    found = differences(*plans, a.cuobjdump)
    for plan in plans:
        plan.unlink()
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plans", nargs="*")
    p.add_argument("--before", help="the binary `sinter` of before")
    p.add_argument("--after", default=str(plan_hashes.ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--targets", default="sm_90")
    p.add_argument("--forms", default="model,fp16,int8,int4")
    p.add_argument("--models", default="*", help="a pattern of names")
    p.add_argument("--fetched", action="store_true", help="also the models in models/cache")
    p.add_argument("--cuobjdump", default=os.environ.get("CUOBJDUMP", "cuobjdump"))
    p.add_argument("--jobs", type=int, default=2)
    a = p.parse_args()
    if len(a.plans) == 2:
        found, count = differences(*a.plans, a.cuobjdump)
        print(f"{len(found)} of {count} kernels differ: {found}" if found else f"all {count} kernels are the same")
        return 1 if found else 0
    if not a.before or a.plans:
        p.error("two plans, or --before")
    different = kernels = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.jobs) as pool:
        models = plan_hashes.models_of(folder, a.fetched)
        work = [(name, path, options, target, form) for target in a.targets.split(",") for form in a.forms.split(",")
                for name, (path, options) in sorted(models.items()) if fnmatch.fnmatch(name, a.models)]
        results = pool.map(lambda one: compare_models(a, *one, folder), work)
        for (name, _, _, target, form), (found, count) in zip(work, results):
            kernels += count
            if found:
                different += 1
                print(f"{name} {target} {form}: {found} of {count}", flush=True)
    print(f"{different} of {len(work)} plans differ, of {kernels} kernels")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
