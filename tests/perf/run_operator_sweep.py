#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator that computes, alone: on the CPU beside ONNX Runtime, on a GPU beside PyTorch and a copy.

  tests/perf/run_operator_sweep.py --target cpu --threads 2,8 --out tests/perf/results/operators_cpu.json
  tests/perf/run_operator_sweep.py --prepare DIR                     plans for cuda:sm_90 and libsinter.so; needs no GPU
  tests/perf/run_operator_sweep.py --target cuda --run DIR --part 1/4 --budget 480 --out part1.json
  tests/perf/run_operator_sweep.py --merge part*.json --out tests/perf/results/operators_h200.json
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
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import operator_cases as cases
from budgets import summarise
from common import ROOT, provenance, sinter_json, write
from runs import Failed, Sinter, onnx_runtime, relative_error
from sinter_library import Library, Session, bundle

COMPILED = ("pointwise", "reductions", "places", "transposes", "moves", "gather", "scatter", "scans", "softmax", "norms", "pooling",
            "interpolation", "sampling", "quantise", "quantised pointwise", "features")  # elsewhere it calls what eager calls
PEAKS = {"f32": 67e12, "tf32": 494e12, "f16": 989e12, "f64": 67e12, "i8": 1979e12, "u8": 1979e12}  # H100 and H200, FLOP/s
BOUNDS = {"f16": 1e-2, "tf32": 5e-3, "f64": 1e-6}  # of relative errors; others 1e-4, integers none


def chosen(a):
    """The points that the options ask for."""
    def listed(text):
        return set(text.split(",")) if text else None
    only, operators, types, sizes = map(listed, (a.only, a.operators, a.types, a.sizes))
    points = [p for p in cases.all_points()
              if (not only or p.case.group in only) and (not operators or p.case.operator in operators)
              and (p.type in types if types else a.target == "cuda" or p.type not in (("tf32",) if a.dry_run else ("f16", "tf32")))
              and (not sizes or p.case.size in sizes)]
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
        return str(error).splitlines()[0][:300]
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


# ---- one side after the other

def error_of(found, expected, count=None):
    """The largest relative error of the outputs that are compared; shapes may differ in axes of one element."""
    worst = 0.0
    for ours, theirs in list(zip(found, expected))[:count]:
        ours, theirs = (np.asarray(each).astype(np.float64) for each in (ours, theirs))
        if ours.size == theirs.size:
            ours, theirs = ours.ravel(), theirs.ravel()
            same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
            ours, theirs = np.where(same, 0, ours), np.where(same, np.where(np.isfinite(theirs), theirs, 0), theirs)
            ours = np.where(same, theirs, ours)
        worst = max(worst, relative_error(ours, theirs))
    return worst


def times_in_turns(sides, seconds, least=3):
    """The median of each side's turns in microseconds; every side runs `seconds` in all, if it is called more than `least` times."""
    runs = {}
    for name, call in sides.items():
        call()
        began = time.perf_counter()
        call()
        runs[name] = int(np.clip(seconds / 3 / (time.perf_counter() - began), 1, 2000))
    turns = {name: [] for name in sides}
    for _ in range(least):
        for name, call in sides.items():
            call()
            samples = []
            for _ in range(runs[name]):
                began = time.perf_counter()
                call()
                samples.append((time.perf_counter() - began) * 1e6)
            turns[name].append(float(np.median(samples)))
    return {name: round(min(each), 2) for name, each in turns.items()}


def peer_on_cpu(path, feeds, threads):
    """ONNX Runtime with inputs and outputs where they lie; its threads sleep while others run."""
    session = onnx_runtime(path, threads, {"session.intra_op.allow_spinning": "1", "session.force_spinning_stop": "1"})
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding), binding


def on_cpu(a, library, folder, point, threads, rates):
    arrays = point.arrays()
    feeds = point.feeds(arrays)
    session = Session(library, folder / f"{point.stem}.cpu.plan", threads)
    for name, array in feeds.items():
        session.use(name, array.ctypes.data, array.dtype, array.shape)
    session.run()
    ours = session.arrays()
    row, sides = {}, {"sinter": session.run}
    try:
        sides["onnxruntime"], binding = peer_on_cpu(folder / f"{point.stem}.onnx", feeds, threads)
        sides["onnxruntime"]()
        row["error"] = error_of(ours, binding.copy_outputs_to_cpu())
    except Exception as error:  # noqa: BLE001: whatever the peer says
        sides.pop("onnxruntime", None)
        row["no_peer"] = str(error).splitlines()[0][:120]
    row.update({f"{name}_us": us for name, us in times_in_turns(sides, a.seconds).items()})
    session.close()
    return finished(row, point, point.bytes_moved(arrays, ours), rates)


def finished(row, point, moved, rates):
    flops = float(point.case.flops)
    peak = rates.get(point.type, rates.get("flops"))
    floor = max(moved / rates["bytes"], flops / peak if peak else 0) * 1e6
    peers = [row[key] for key in ("onnxruntime_us", "eager_us", "compile_us") if key in row]
    row.update(bytes=int(moved), flops=flops, floor_us=round(floor, 2), of_floor=round(floor / row["sinter_us"], 3))
    if peers:
        row["ratio"] = round(min(peers) / row["sinter_us"], 3)
    return {"class": point.case.group, "shapes": " ".join("x".join(map(str, v.shape)) or "1" for v in point.case.inputs if v), **row}


def cpu_rates(threads):
    """Bytes a second of a copy, FLOPs a second of a product, by so many threads."""
    import onnx
    side = 1024
    source = np.random.default_rng(0).standard_normal(1 << 25).astype(np.float32)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads)))
    with ThreadPoolExecutor(threads) as pool:
        copy = times_in_turns({"copy": lambda: list(pool.map(lambda p: np.copyto(p[1], p[0]), parts))}, 0.5)["copy"]
    with tempfile.TemporaryDirectory() as folder:
        helper, path = onnx.helper, Path(folder) / "product.onnx"
        value = [helper.make_tensor_value_info(name, 1, [side, side]) for name in "aby"]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g", value[:2], value[2:]),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        square = source[:side * side].reshape(side, side)
        call, _ = peer_on_cpu(path, {"a": square, "b": square}, threads)
        product = times_in_turns({"product": call}, 0.5)["product"]
    return {"bytes": 2 * source.nbytes / copy * 1e6, "flops": 2 * side ** 3 / product * 1e6}


# ---- the GPU

class OnDevice:
    """An array of a plan's, as torch takes it."""

    def __init__(self, address, dtype, shape):
        kind = dtype.str if dtype.kind in "biuf" else f"|V{dtype.itemsize}"
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "|u1" if kind.startswith("|V") else kind, "data": (address or 0, False),
                                         "version": 3}


def to_torch(array, device="cuda"):
    import torch
    if array is None:
        return None
    if array.dtype == cases.NUMPY["f8"]:
        return torch.from_numpy(array.view(np.uint8)).to(device).view(torch.float8_e4m3fn)
    return torch.from_numpy(array).to(device)


def as_tuple(made):
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def gpu_error(session, expected, count):
    import torch
    worst = 0.0
    for place, theirs in list(enumerate(as_tuple(expected)))[:count]:
        address, dtype, shape = session.output(place)
        if not np.prod(shape) or dtype.kind == "V":
            continue
        ours, theirs = (t.double().flatten() for t in (torch.as_tensor(OnDevice(address, dtype, shape), device="cuda"), theirs))
        if ours.shape != theirs.shape:
            return float("inf")
        differ = ~((ours == theirs) | (ours.isnan() & theirs.isnan()))
        scale = torch.linalg.vector_norm(theirs[theirs.isfinite()]).item() or 1.0
        worst = max(worst, torch.linalg.vector_norm((ours - theirs)[differ]).item() / scale)
    return worst


def compiled_for(point, tensors):
    import torch
    torch._dynamo.reset()
    call = point.call(tensors)
    return torch.compile(call)


def compile_in_torch(name):
    """In a process of its own, so that Inductor's cache has the point when it is measured."""
    import torch
    point = next(p for p in cases.all_points() if p.name == name)
    try:
        with torch.inference_mode():
            compiled_for(point, [to_torch(each) for each in point.arrays()])()
            torch.cuda.synchronize()
    except Exception:  # noqa: BLE001: said when it is measured
        pass
    torch.cuda.empty_cache()


def compile_beforehand(points, jobs, deadline):
    import multiprocessing
    names = [p.name for p in points if p.case.group in COMPILED and p.case.torch]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        done = pool.imap_unordered(compile_in_torch, names)
        try:
            for count in range(len(names)):
                done.next(max(0.1, deadline - time.monotonic()))
        except multiprocessing.TimeoutError:
            print(f"torch.compile: {count} of {len(names)} in time", flush=True)
            pool.terminate()
            return count == len(names)
    return True


def gpu_times_in_turns(sides, seconds):
    """The median of each side in microseconds, caches cold, one call of each in turn; see gpu_timing.gpu_times()."""
    import torch
    from gpu_timing import flusher
    flush = flusher()
    began = time.perf_counter()
    for call in sides.values():
        call()
    torch.cuda.synchronize()
    once = time.perf_counter() - began
    rounds = int(np.clip(seconds / max(2 * once, 1e-5), 3, 40))
    events = {name: [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)] for name in sides}
    for k in range(rounds):
        for name, call in sides.items():
            start, stop = events[name][k]
            call()
            flush()
            start.record()
            call()
            stop.record()
    torch.cuda.synchronize()
    return {name: round(float(np.median([start.elapsed_time(stop) for start, stop in each])) * 1e3, 2) for name, each in events.items()}


def on_gpu(a, library, folder, point, rates):
    import torch
    from gpu_timing import captured
    for backend in (torch.backends.cuda.matmul, torch.backends.cudnn):
        backend.allow_tf32 = point.type == "tf32"
    arrays = point.arrays()
    tensors = [to_torch(each) for each in arrays]
    session = Session(library, folder / f"{point.stem}.cuda.plan", on_device=True)
    try:
        for k, (value, array) in enumerate(zip(point.case.inputs, arrays)):
            if value and not value.constant:
                session.use(f"i{k}", tensors[k].data_ptr(), array.dtype, array.shape)
        session.start()
        session.wait()
        results = [session.output(k) for k in range(session.outputs_count)]
        outputs = [np.broadcast_to(np.zeros((), dtype), shape) for _, dtype, shape in results]  # their sizes are what counts
        moved = point.bytes_moved(arrays, outputs)
        row, sides = {}, {"sinter": session.start}
        if point.case.torch:
            eager = point.call(tensors)
            try:
                row["error"] = gpu_error(session, eager(), point.case.compared)
                try:
                    sides["eager"] = captured(eager)
                except Exception:  # noqa: BLE001: it waits for the GPU, or copies from the host
                    torch.cuda.synchronize()
                    sides["eager"], row["eager_captured"] = eager, False
                if "compile" in a.peers and point.case.group in COMPILED:
                    compiled = compiled_for(point, tensors)
                    compiled()
                    sides["compile"] = captured(compiled) if row.get("eager_captured", True) else compiled
            except Exception as error:  # noqa: BLE001: whatever the peer says
                row["no_peer"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        else:
            row["no_peer"] = point.case.no_peer
        source = torch.randint(-99, 100, (max(1, int(moved) // 2),), device="cuda", dtype=torch.int8)
        target = torch.empty_like(source)
        sides["copy"] = captured(lambda: target.copy_(source))
        row.update({f"{name}_us": us for name, us in gpu_times_in_turns(sides, a.seconds).items()})
    finally:
        torch.cuda.synchronize()
        session.close()
    return finished(row, point, moved, rates)


# ---- a whole run

def measure(a, points):
    began = time.monotonic()
    folder = a.run or Path(tempfile.mkdtemp())
    done = json.loads(a.out.read_text())["rows"] if a.out and a.out.exists() else {}
    points = [p for p in points if p.name not in done]
    problems = prepare(a, folder, points)
    library = Library(folder / "lib" / "libsinter.so" if (folder / "lib").is_dir() else a.library)
    result = {**provenance(a.commit), "target": a.target, "part": a.part, "rows": done}
    if a.target == "cuda":
        import torch

        from gpu_timing import copy_rate
        points.sort(key=lambda p: p.type == "tf32")  # switching forgets what was compiled
        ready = "compile" not in a.peers or compile_beforehand(points, a.jobs, began + a.budget * 0.4)
        if not ready:
            a.peers = [p for p in a.peers if p != "compile"] if a.peers == ["compile"] else a.peers
        rates = {"bytes": copy_rate() * 1e12, **(PEAKS if torch.cuda.get_device_capability() == (9, 0) else {})}
        result.update(cuda=torch.version.cuda, torch=torch.__version__, copy_TBps=round(rates["bytes"] / 1e12, 3))
        context = torch.inference_mode()
        runs = [("", lambda p: on_gpu(a, library, folder, p, rates))]
    else:
        import contextlib

        import onnxruntime
        context, runs = contextlib.nullcontext(), []
        result["onnxruntime"] = onnxruntime.__version__
        for threads in a.threads:
            rates = cpu_rates(threads)
            result[f"rates_of_{threads}"] = {key: round(value / 1e9, 1) for key, value in rates.items()}
            runs.append((f"@{threads}", lambda p, threads=threads, rates=rates: on_cpu(a, library, folder, p, threads, rates)))
    with context:
        for place, point in enumerate(points):
            if time.monotonic() - began > a.budget:
                print(f"budget: {len(points) - place} cases are not run")
                result["not_run"] = [p.name for p in points[place:]]
                break
            for suffix, run in runs:
                if suffix:
                    library.set_threads(int(suffix[1:]))
                try:
                    row = {"failed": problems[point.name]} if point.name in problems else run(point)
                except Exception as error:  # noqa: BLE001: a case that fails is a row
                    row = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}
                result["rows"][point.name + suffix] = {"class": point.case.group, **row}
                if a.verbose or "failed" in row:
                    print(point.name + suffix, row, flush=True)
            if a.out and place % 100 == 99:
                a.out.write_text(json.dumps(result))
    return conclude(result)


def conclude(result):
    """Sorts rows by how far behind they are, and prints the worst."""
    rows = sorted(result["rows"].items(), key=lambda item: item[1].get("ratio", 1e9))
    result["rows"] = dict(rows)
    result.update(summarise(result["rows"]))
    for name, row in [each for each in rows if each[1].get("ratio", 9) < 1][:60]:
        peers = ", ".join(f"{key[:-3]} {row[key]}" for key in ("onnxruntime_us", "eager_us", "compile_us", "copy_us") if key in row)
        print(f"{row['ratio']:6.2f}  {name:60} {row['sinter_us']} us; {peers}; floor {row['floor_us']}")
    print("no peer:", sum("ratio" not in row and "failed" not in row for _, row in rows), " failed:", sum("failed" in row for _, row in rows))
    for threads, all_of in result["summary"].items():
        print(threads, all_of)
    return result


def merge(paths):
    parts = [json.loads(path.read_text()) for path in paths]
    result = {**parts[0], "part": None, "rows": {name: row for part in parts for name, row in part["rows"].items()}}
    result["not_run"] = [name for part in parts for name in part.get("not_run", ()) if name not in result["rows"]]
    return conclude(result)


def on_host(point, tensors):
    """The peer's result on the CPU, in float32 where PyTorch has no float16 there."""
    import torch
    with torch.inference_mode():
        try:
            return point.call(tensors)()
        except NotImplementedError:
            return point.call([each.float() if each is not None and each.dtype == torch.float16 else each for each in tensors])()


def dry_run(a, points):
    """Every case at its smallest size on the CPU: Sinter, ONNX Runtime and the function of PyTorch's agree."""
    import torch
    a.target = "cpu"
    points = [p for p in points if p.case.size == "small"]
    folder = a.run or Path(tempfile.mkdtemp())
    problems = prepare(a, folder, points)
    library = Library(a.library)
    bad = 0
    for point in points:
        bound = max(point.case.tolerance, BOUNDS.get(point.type, 1e-4))
        said = []
        try:
            if point.name in problems:
                raise RuntimeError(problems[point.name])
            arrays = point.arrays()
            session = Session(library, folder / f"{point.stem}.cpu.plan")
            feeds = point.feeds(arrays)
            for name, array in feeds.items():
                session.use(name, array.ctypes.data, array.dtype, array.shape)
            session.run()
            ours = session.arrays()
            point.bytes_moved(arrays, ours)
            session.close()
        except Exception as error:  # noqa: BLE001
            ours, said = None, [f"Sinter: {str(error)[:250]}"]
        if ours:
            try:
                call, binding = peer_on_cpu(folder / f"{point.stem}.onnx", feeds, 1)
                call()
                if (error := error_of(ours, binding.copy_outputs_to_cpu())) > bound:
                    said.append(f"ONNX Runtime differs by {error:.2g}")
            except Exception as error:  # noqa: BLE001
                if a.verbose:
                    print(point.name, "no ONNX Runtime:", str(error).splitlines()[0][:160])
            if point.case.torch:
                try:
                    made = as_tuple(on_host(point, [to_torch(each, "cpu") for each in arrays]))
                    made = [t.view(torch.uint8).numpy().view(cases.NUMPY["f8"]) if t.dtype == torch.float8_e4m3fn else t.numpy() for t in made]
                    if (error := error_of(ours, made, point.case.compared)) > bound:
                        said.append(f"PyTorch differs by {error:.2g}")
                except Exception as error:  # noqa: BLE001
                    said.append(f"PyTorch: {type(error).__name__}: {str(error)[:200]}")
            elif not point.case.no_peer:
                said.append("no peer, and no reason why")
        if said:
            bad += 1
            print(f"{point.name}: {'; '.join(said)}", flush=True)
    print(f"{len(points)} cases, {bad} wrong")
    return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--library", default=str(ROOT / "build" / "libsinter.so"), help="of the same commit as --sinter")
    p.add_argument("--arch", default="cuda:sm_90")
    p.add_argument("--only", metavar="CLASSES", help="separated by commas, as --operators, --types and --sizes")
    p.add_argument("--operators")
    p.add_argument("--types", help="default: all on a GPU, all but f16 and tf32 on the CPU")
    p.add_argument("--sizes", help="small, middle, large, or others' names")
    p.add_argument("--part", default="1/1", metavar="I/N", help="every Nth case, from the Ith on")
    p.add_argument("--budget", type=float, default=1e9, help="begin no case after so many seconds; two fifths at most go to torch.compile")
    p.add_argument("--seconds", type=float, default=0.06, help="about so long for each side of a case")
    p.add_argument("--threads", type=lambda text: [int(each) for each in text.split(",")], default=[2])
    p.add_argument("--peers", type=lambda text: text.split(","), default=["eager", "compile"])
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    p.add_argument("--prepare", type=Path, metavar="DIR", help="write plans and the library, measure nothing")
    p.add_argument("--run", type=Path, metavar="DIR", help="take plans from there, and put there what is missing")
    p.add_argument("--dry-run", action="store_true")
    p.add_argument("--missing", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--merge", nargs="+", type=Path, metavar="PART")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--verbose", action="store_true", help="print every row")
    p.add_argument("--out", type=Path, help="cases that are in it are not run again")
    a = p.parse_args()
    if a.merge:
        return write(a.out, merge(a.merge))
    if a.missing:
        names = cases.missing(sinter_json(a.sinter, "ops")["operators"])
        print("\n".join(names) or "every operator that computes has a case")
        return 1 if names else 0
    if a.prepare:
        a.target = "cuda"
    points = chosen(a)
    if a.list:
        return print("\n".join(f"{point.name:60} {point.case.group}" for point in points))
    if a.dry_run:
        return dry_run(a, points)
    if a.prepare:
        bundle(a.library, a.prepare / "lib")
        for name, problem in prepare(a, a.prepare, points).items():
            print(f"{name}: {problem}")
        return 0
    for name in cases.missing(sinter_json(a.sinter, "ops")["operators"]):
        print(f"no case: {name}")
    result = measure(a, points)
    if a.out:
        write(a.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
