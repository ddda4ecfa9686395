#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single operators on the CPU against ONNX Runtime, and against an earlier build of Sinter.

  tests/perf/run_operators.py --threads 2 --out tests/perf/results/operators.json
  tests/perf/run_operators.py --before OLD/bin/sinter --before-commit 0123abc --limit 60

An earlier build that takes longer than the limit for one run is recorded as such.
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from common import ROOT, provenance, write
from run_cpu import against_onnx_runtime
from runs import Sinter


def model(op, inputs, constants, outputs, **attributes):
    names = [*inputs, *constants]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, **attributes)], op,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), inputs


def cases():
    rng = np.random.default_rng(0)

    def f32(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    yield "topk_1x100000_k100", *model("TopK", {"x": f32(1, 100000)}, {"k": np.array([100])}, ["values", "places"])
    yield "topk_64x4096_k4096", *model("TopK", {"x": f32(64, 4096)}, {"k": np.array([4096])}, ["values", "places"])
    yield "cumsum_64x65536", *model("CumSum", {"x": f32(64, 65536)}, {"axis": np.array(1)}, ["y"])
    yield "cumsum_2048x512_columns", *model("CumSum", {"x": f32(2048, 512)}, {"axis": np.array(0)}, ["y"])
    yield "conv_transpose_64x64x64_to_32_k4_s2", *model(
        "ConvTranspose", {"x": f32(1, 64, 64, 64)}, {"w": f32(64, 32, 4, 4)}, ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "conv_transpose_32x32x32_to_32_k16_s8", *model(
        "ConvTranspose", {"x": f32(1, 32, 32, 32)}, {"w": f32(32, 32, 16, 16)}, ["y"], strides=[8, 8],
        pads=[4, 4, 4, 4])


def measure_before(binary, folder, path, feeds, threads, limit):
    command = Sinter(binary, folder)
    plan, inputs = command.compile(path, name="before"), command.save(feeds)
    bench = ["bench", plan, "--inputs", inputs, f"--threads={threads}", "--json", "--quiet", "--warmUp=0"]
    try:
        subprocess.run([binary, *map(str, bench), "--iterations=1"], capture_output=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return {"longer_than_s": limit}
    return {"sinter_us": command.json("bench", plan, "--inputs", inputs, f"--threads={threads}", "--iterations=30",
                                      "--duration=4")["latency_us"]["median"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--before", help="the binary of an earlier build")
    p.add_argument("--before-commit", help="what that was built from")
    p.add_argument("--limit", type=float, default=60, help="seconds that one of its runs may take")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "operators.json"))
    a = p.parse_args()
    result = {**provenance(), "threads": a.threads, "onnxruntime": onnxruntime.__version__,
              "before_commit": a.before_commit, "operators": {}}
    with tempfile.TemporaryDirectory() as tmp:
        for name, proto, feeds in cases():
            path = Path(tmp) / f"{name}.onnx"
            onnx.save(proto, path)
            row = against_onnx_runtime(a.sinter, Path(tmp), a.threads, path, feeds, turns=3, runs=30)
            if a.before:
                row["before"] = measure_before(a.before, tmp, path, feeds, a.threads, a.limit)
            result["operators"][name] = row
            print(f"{name}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, {row['ratio']}x its time; "
                  f"before {row.get('before')}", flush=True)
    write(a.out, result)


if __name__ == "__main__":
    main()
