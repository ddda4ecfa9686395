#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs: MiniLM beside the same call in C++ and in ONNX Runtime.

  tools/wheel --no-test; .deps/wheel/3.11/test/bin/python tests/perf/run_python.py --out tests/perf/results/python.json
  tests/perf/run_python.py --target cuda --workload minilm_b1_s64 --out tests/perf/results/python_h200.json

Runs with a Python in which the wheel is installed. `--workload` takes a model of torch_workloads.py, with random
weights, where MiniLM's are not at hand. ONNX Runtime is beside CPU plans only. The three take turns in one run, with the same model, inputs and number of
threads. "C++" is `sinter bench` of the binary given: set_input, run and output of a session, wall time; on a GPU also
with inputs and outputs there (--deviceIo) beside torch tensors, where torch is installed. The cost of Python itself is
also measured alone: a plan of one addition of four floats, whose call in C++ takes next to nothing. Recorded are
medians of each turn, and the least of these: what else runs on the machine only ever adds to a time.
"""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import pysinter

from common import CACHE, INPUTS, ROOT, provenance, sinter_json, write
from runs import onnx_runtime


def median_us(call, seconds=1.5, least=30):
    for _ in range(5):
        call()
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < least or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        samples.append((time.perf_counter() - began) * 1e6)
    return float(np.median(samples))


def bench_us(binary, plan, shapes, threads, *options):
    words = ["bench", plan, shapes, "--iterations=30", "--duration=1.5", *options]
    if threads:
        words.append(f"--threads={threads}")
    return sinter_json(binary, *words)["latency_us"]["median"]


def in_turns(turns, calls):
    """The median of each turn by name, and the least."""
    times = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            times[name].append(round(call(), 1))
    return {name: {"us": min(values), "turns_us": values} for name, values in times.items()}


def tiny_model():
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "tiny", [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def on_device(plan_path, feeds, binary, shapes, turns):
    """Torch tensors in GPU memory, to the end of the work, beside C++ with device inputs and outputs."""
    import torch
    plan = pysinter.load(plan_path)
    tensors = {name: torch.from_numpy(value).cuda() for name, value in feeds.items()}

    def call():
        plan(**tensors)
        torch.cuda.synchronize()

    def enqueue():
        plan(**tensors)

    return in_turns(turns, {"python": lambda: median_us(call), "cpp": lambda: bench_us(binary, plan_path, shapes, 0,
                                                                                     "--deviceIo"),
                            "python_without_waiting": lambda: median_us(enqueue)})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build/bin/sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--workload", help="a model of torch_workloads.py instead of MiniLM")
    p.add_argument("--threads", type=int, default=0, help="of Sinter and ONNX Runtime; 0: all cores")
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out")
    a = p.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "minilm.plan"
        if a.workload:
            model, cases = exported(a.workload, Path(temporary) / f"{a.workload}.onnx")
        else:
            model, cases = CACHE / "minilm.onnx", minilm_cases()
        pysinter.compile(str(model), str(path), target=a.target, precision=a.precision)
        plan = pysinter.load(path, threads=a.threads)
        tiny = pysinter.compile(tiny_model(), Path(temporary) / "tiny.plan", target=a.target)
        four = np.ones(4, np.float32)
        rows["one addition of four floats"] = in_turns(a.turns, {
            "python": lambda: median_us(lambda: tiny(four), 0.3),
            "cpp": lambda: bench_us(a.sinter, tiny.path, "--shapes=x:4", a.threads)})
        session = onnx_runtime(model, a.threads or None) if a.target == "cpu" else None
        for name, feeds in cases.items():
            shapes = "--shapes=" + ",".join(f"{key}:{'x'.join(map(str, value.shape))}" for key, value in feeds.items())
            calls = {"python": lambda: median_us(lambda: plan(**feeds)),
                     "cpp": lambda: bench_us(a.sinter, path, shapes, a.threads)}
            if session:
                calls["onnxruntime"] = lambda: median_us(lambda: session.run(None, feeds))
            rows[name] = in_turns(a.turns, calls)
            if a.target != "cpu" and has_torch():
                rows[f"{name}, on the device"] = on_device(path, feeds, a.sinter, shapes, a.turns)
    for name, row in rows.items():
        row["python_less_cpp_us"] = round(row["python"]["us"] - row["cpp"]["us"], 1)
        print(f"{name}: " + ", ".join(f"{who} {of['us']:.1f} us" for who, of in row.items() if isinstance(of, dict))
              + f"; Python costs {row['python_less_cpp_us']:.1f} us")
    if a.out:
        write(a.out, {"provenance": provenance(a.commit), "version": pysinter.__version__, "target": a.target,
                      "precision": a.precision, "threads": a.threads, "rows": rows})


def minilm_cases():
    r = np.random.default_rng(0)
    return {f"MiniLM, {batch} x 64": {name: r.integers(0, 2, (batch, 64)) for name in INPUTS} for batch in (1, 8)}


def exported(name, path):
    import torch_workloads
    workload = torch_workloads.WORKLOADS[name]
    torch_workloads.export(workload, path)
    return path, {name: {key: value.numpy() for key, value in workload.inputs().items()}}


def has_torch():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


if __name__ == "__main__":
    main()
