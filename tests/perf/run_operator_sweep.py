#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator that computes, alone: on the CPU beside ONNX Runtime, on a GPU beside PyTorch and a copy.

  tests/perf/run_operator_sweep.py --target cpu --threads 2,8 --out tests/perf/results/operators_cpu.json
  tests/perf/run_operator_sweep.py --bundle DIR                      the command, libsinter.so and what they need, for the GPU's machine
  tests/perf/run_operator_sweep.py --prepare DIR --only scatter      also plans for cuda:sm_90, which it need not compile then
  tests/perf/run_operator_sweep.py --target cuda --run DIR --part 1/4 --budget 480 --out part1.json
  tests/perf/run_operator_sweep.py --merge part*.json --out tests/perf/results/operators_h200.json
  tests/perf/run_operator_sweep.py --bounds tests/perf/results/operators_h200.json    what [sweep.classes] of budgets.toml may demand
  tests/perf/run_operator_sweep.py --dry-run                         cases and peers compute the same, at the smallest size
  tests/perf/run_operator_sweep.py --missing                         operators that have no case (exit code 1)

Cases are in operator_cases/. A name is OPERATOR[-VARIANT]/SIZE/TYPE. All sides of a case take turns in one process: Sinter through
libsinter.so, PyTorch eager (as a CUDA graph where it can be captured) and by torch.compile, a copy of as many bytes. GPU times are
medians between events with a cold L2; float32 products are exact in both, or TF32 in both (type tf32). On the CPU inputs are as
warm as the run before left them, and both have as many threads.

'ratio' is the best peer's time over ours; 'floor_us' is what the bytes take at the rate of a large copy, or the FLOPs at the
peak of the data sheet (CPU: of a large float32 product of ONNX Runtime's). Classes are judged in budgets.toml, [[sweep]].
"""
import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import operator_cases as cases
from budgets import summarise, sweeps
from common import ROOT, provenance, sinter_json
from runs import Failed, Sinter
from sinter_library import Library, bundle
from sweep_rows import PEAKS

CPU_FLOPS = 4e10  # what needs more is left out on the CPU


def chosen(a):
    """The points that the options ask for."""
    def listed(text):
        return set(text.split(",")) if text else None
    only, operators, types, sizes, names = map(listed, (a.only, a.operators, a.types, a.sizes, a.cases))
    points = [p for p in cases.all_points()
              if (not names or p.name in names) and (not only or p.case.group in only) and (not operators or p.case.operator in operators)
              and (p.type in types if types else a.target == "cuda" or p.type not in (("tf32",) if a.dry_run else ("f16", "tf32")))
              and (not sizes or p.case.size in sizes) and (a.target == "cuda" or p.case.flops <= CPU_FLOPS)]
    if a.behind:  # cases that are new first, then by how far behind they were
        rows = json.loads(a.behind.read_text())["rows"]
        ratios = {}
        for name, row in rows.items():
            ratios[name.split("@")[0]] = min(ratios.get(name.split("@")[0], 1e9), row.get("ratio", 1e9))
        points.sort(key=lambda p: ratios.get(p.name, 0 if p.case.size != "large" else 1))
    part, parts = map(int, a.part.split("/"))
    return points[part - 1::parts]


# ---- plans

def compile_point(a, folder, point):
    """What went wrong, or None."""
    plan, model = folder / f"{point.stem}.{a.target}.plan", folder / f"{point.stem}.onnx"
    if plan.exists():
        return None
    import onnx
    try:
        onnx.save(point.model(), model)
        Sinter(a.sinter, folder, a.arch if a.target == "cuda" else "cpu", "tf32" if point.type == "tf32" else "model").compile(
            model, "--jobs=1", *point.case.options, name=plan.stem)
    except (Failed, Exception) as error:
        return " ".join(str(error).split())[:300]
    finally:
        if a.target == "cuda":
            model.unlink(missing_ok=True)
    return None


def prepare(a, folder, points):
    """Plans of all points, and what went wrong by name."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with ThreadPoolExecutor(a.jobs) as pool:
        problems = dict(zip([p.name for p in points], pool.map(lambda p: compile_point(a, folder, p), points)))
    print(f"{len(points)} plans, {time.monotonic() - began:.0f} s", flush=True)
    return {name: problem for name, problem in problems.items() if problem}


# ---- a whole run

def measure(a, points):
    began = time.monotonic()
    folder = a.run or Path(tempfile.mkdtemp())
    result = {**provenance(a.commit), "target": a.target, "part": a.part}
    before = json.loads(a.out.read_text()) if a.out and a.out.exists() else {}
    done = before["rows"] if before.get("commit") == result["commit"] else {}
    result["rows"] = done
    points = [p for p in points if not any(f"{p.name}{suffix}" in done for suffix in ("", *[f"@{each}" for each in a.threads]))]
    problems = prepare(a, folder, points)
    library = Library(a.library)
    if a.target == "cuda":
        import torch

        from gpu_timing import copy_rate
        from sweep_gpu import compile_beforehand, on_gpu
        compiled = set() if a.no_torch_compile else compile_beforehand(points, a.jobs, began + a.budget * 0.4)
        rates = {"bytes": copy_rate() * 1e12, **(PEAKS if torch.cuda.get_device_capability() == (9, 0) else {})}
        result.update(cuda=torch.version.cuda, torch=torch.__version__, copy_TBps=round(rates["bytes"] / 1e12, 3))
        context = torch.inference_mode()
        runs = [("", lambda p, arrays: on_gpu(library, p, arrays, folder / f"{p.stem}.cuda.plan", rates, a.seconds, compiled))]
    else:
        import onnxruntime

        from sweep_cpu import cpu_rates, on_cpu
        context, runs = contextlib.nullcontext(), []
        result["onnxruntime"] = onnxruntime.__version__
        for threads in a.threads:
            rates = cpu_rates(threads)
            result[f"rates_of_{threads}"] = {key: round(value / 1e9, 1) for key, value in rates.items()}
            runs.append((f"@{threads}", lambda p, arrays, threads=threads, rates=rates: on_cpu(library, p, arrays, folder, threads, rates,
                                                                                            a.seconds)))
    saved = time.monotonic()
    with context:
        for place, point in enumerate(points):
            if time.monotonic() - began > a.budget:
                print(f"budget: {len(points) - place} cases are not run")
                result["not_run"] = [p.name for p in points[place:]]
                break
            arrays = None if point.name in problems else point.arrays()
            for suffix, run in runs:
                if suffix:
                    library.set_threads(int(suffix[1:]))
                try:
                    row = {"failed": problems[point.name]} if point.name in problems else run(point, arrays)
                except Exception as error:  # noqa: BLE001: a case that fails is a row
                    where = [each.name for each in traceback.extract_tb(error.__traceback__)][-4:]
                    row = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:300]} ({' > '.join(where)})"}
                result["rows"][point.name + suffix] = {"class": point.case.group, **row}
                if a.verbose or "failed" in row:
                    print(point.name + suffix, row, flush=True)
            if "failed" in row and a.target == "cuda" and gpu_is_lost():
                print("the GPU no longer answers this process: the same command goes on behind this case")
                result["not_run"] = [p.name for p in points[place + 1:]]
                break
            if a.out and time.monotonic() - saved > 20:
                save(a.out, result)
                saved = time.monotonic()
    return conclude(result)


def gpu_is_lost():
    """Whether a kernel has failed so that the process must end."""
    import torch
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def save(path, result):
    """One row a line."""
    head = json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in result["rows"].items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n "rows": {{\n{rows}\n }}\n}}\n')


def conclude(result):
    """Sorts rows by how far behind they are, and prints the worst."""
    rows = sorted(result["rows"].items(), key=lambda item: item[1].get("ratio", 1e9))
    result["rows"] = dict(rows)
    result.update(summarise(result["rows"]))
    for name, row in [each for each in rows if each[1].get("ratio", 9) < 1][:60]:
        peers = ", ".join(f"{key[:-3]} {row[key]}" for key in ("onnxruntime_us", "eager_us", "compile_us", "copy_us") if key in row)
        print(f"{row['ratio']:6.2f}  {name:60} {row['sinter_us']} us; {peers}; floor {row['floor_us']}")
    for name, row in rows:
        if row.get("differs"):
            print(f"differs from the peer by {row['error']:.2g}: {name}")
    print("no peer:", sum("ratio" not in row and "failed" not in row for _, row in rows), " failed:", sum("failed" in row for _, row in rows))
    for threads, all_of in result["summary"].items():
        print(threads, all_of)
    return result


def bounds(result):
    """Of each class a tenth less than its worst case has, but not less than all must have, and not more than 1."""
    lines = []
    for side, classes in result["classes"].items():
        least = next((each.least for each in sweeps() if each.of == side), 0.5)
        lines += [f"# {side}", "[sweep.classes]"]
        lines += [f'"{name}" = {min(1, max(least, round(0.9 * found["least"], 2))):g}' for name, found in classes.items() if found.get("compared")]
    return "\n".join(lines)


def merge(paths):
    parts = [json.loads(path.read_text()) for path in paths]
    result = {**parts[0], "part": None, "rows": {name: row for part in parts for name, row in part["rows"].items()}}
    result["not_run"] = [name for part in parts for name in part.get("not_run", ()) if name not in result["rows"]]
    return conclude(result)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--library", default=str(ROOT / "build" / "libsinter.so"), help="of the same commit as --sinter")
    p.add_argument("--arch", default="cuda:sm_90")
    p.add_argument("--only", metavar="CLASSES", help="separated by commas, as --operators, --types and --sizes")
    p.add_argument("--operators")
    p.add_argument("--cases", help="names: Conv-3x3/large/f32,..")
    p.add_argument("--types", help="default: all on a GPU, all but f16 and tf32 on the CPU")
    p.add_argument("--sizes", help="small, middle, large, or others' names")
    p.add_argument("--behind", type=Path, metavar="RESULTS", help="begin with the cases that were furthest behind there")
    p.add_argument("--part", default="1/1", metavar="I/N", help="every Nth case, from the Ith on")
    p.add_argument("--budget", type=float, default=1e9, help="seconds after which no case begins; at most two fifths of them go to torch.compile")
    p.add_argument("--seconds", type=float, default=0.06, help="about so long for each side of a case")
    p.add_argument("--threads", type=lambda text: [int(each) for each in text.split(",")], default=[2])
    p.add_argument("--no-torch-compile", action="store_true")
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    p.add_argument("--bundle", type=Path, metavar="DIR", help="write the command and the libraries there, measure nothing")
    p.add_argument("--prepare", type=Path, metavar="DIR", help="write plans for the GPU, too")
    p.add_argument("--run", type=Path, metavar="DIR", help="take the command, libraries and plans from there, and put there what is missing")
    p.add_argument("--dry-run", action="store_true")
    p.add_argument("--missing", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--bounds", type=Path, metavar="RESULTS")
    p.add_argument("--merge", nargs="+", type=Path, metavar="PART")
    p.add_argument("--note", help="what readers of the results must know, such as how busy the machine was")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--verbose", action="store_true", help="print every row")
    p.add_argument("--out", type=Path, help="cases that are in it are not run again")
    a = p.parse_args()
    if a.merge:
        return save(a.out, {**merge(a.merge), **({"note": a.note} if a.note else {})})
    if a.bounds:
        return print(bounds(json.loads(a.bounds.read_text())))
    if a.missing:
        names = cases.missing(sinter_json(a.sinter, "ops")["operators"])
        print("\n".join(names) or "every operator that computes has a case")
        return 1 if names else 0
    if a.bundle:
        return bundle(a.sinter, a.library, a.bundle)
    if a.prepare:
        a.target = "cuda"
    if a.run and (a.run / "lib").is_dir():
        a.sinter, a.library = str(a.run / "sinter"), str(a.run / "lib" / "libsinter.so")
        os.environ["LD_LIBRARY_PATH"] = f"{a.run.resolve() / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    points = chosen(a)
    if a.list:
        return print("\n".join(f"{point.name:60} {point.case.group}" for point in points))
    if a.dry_run:
        from sweep_cpu import dry_run
        a.target = "cpu"
        points = [point for point in points if a.sizes or point.case.size == "small"]
        folder = a.run or Path(tempfile.mkdtemp())
        return dry_run(Library(a.library), points, folder, prepare(a, folder, points), a.verbose)
    if a.prepare:
        bundle(a.sinter, a.library, a.prepare)
        for name, problem in prepare(a, a.prepare, points).items():
            print(f"{name}: {problem}")
        return 0
    for name in cases.missing(sinter_json(a.sinter, "ops")["operators"]):
        print(f"no case: {name}")
    result = {**({"note": a.note} if a.note else {}), **measure(a, points)}
    if a.out:
        save(a.out, result)
        print(f"wrote {a.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
