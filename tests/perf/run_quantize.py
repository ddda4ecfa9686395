#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantization fused behind what makes the values, on a GPU, beside a copy of as many bytes.

  tests/perf/run_quantize.py --out tests/perf/results/quantize_h200.json [--filter e4m3fn]

LayerNorm, RMSNorm, GELU times a gate, SwiGLU and an addition of float16, each with a QuantizeLinear behind it to
E4M3FN, E5M2, int8 (zero point 0) or uint8 (zero point 128), one scale for the tensor; and the way back. Times are
microseconds of the GPU with a cold L2. `of_copy`: the rate at which the bytes that are read and written once are
moved, over that of a copy that moves as many, timed the same way. `steps_off` is the share of bytes that differ from what
--target=cpu gives: sums in another order round to the next number now and then.
"""
import argparse
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import ROOT, provenance, write
from runs import Sinter

SHAPES = ((8192, 4096), (2048, 4096), (4096, 768), (64, 14336))
TYPES = {"e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "int8": np.int8, "uint8": np.uint8}
FRONTS = {
    "layer_norm": (1, [("LayerNormalization", ["x0", "g", "b"], "v", {"axis": -1, "epsilon": 1e-5})]),
    "rms_norm": (1, [("RMSNormalization", ["x0", "g"], "v", {"axis": -1, "epsilon": 1e-5})]),
    "gelu_gate": (2, [("Gelu", ["x0"], "e", {}), ("Mul", ["e", "x1"], "v", {})]),
    "swiglu": (2, [("Sigmoid", ["x0"], "s", {}), ("Mul", ["x0", "s"], "e", {}), ("Mul", ["e", "x1"], "v", {})]),
    "add": (2, [("Add", ["x0", "x1"], "v", {})]),
    "plain": (1, [("Identity", ["x0"], "v", {})]),
}


def save(path, front, shape, kind):
    """A model that quantizes; where `front` is "dequantize", one that goes back."""
    dtype, random = TYPES[kind], np.random.default_rng(1)
    zero = np.array(128 if kind == "uint8" else 0).astype(dtype)
    values = {"g": 1 + .1 * random.standard_normal(shape[1]), "b": .1 * random.standard_normal(shape[1]),
              "scale": np.array(0.0371)}
    constants = [numpy_helper.from_array(v.astype(np.float16), k) for k, v in values.items()]
    constants.append(numpy_helper.from_array(zero, "zero"))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if front == "dequantize":
        count, nodes = 1, [helper.make_node("DequantizeLinear", ["x0", "scale", "zero"], ["y"])]
        ends = code, TensorProto.FLOAT16
    else:
        count, steps = FRONTS[front]
        nodes = [helper.make_node(op, reads, [result], **attributes) for op, reads, result, attributes in steps]
        nodes.append(helper.make_node("QuantizeLinear", ["v", "scale", "zero"], ["y"]))
        ends = TensorProto.FLOAT16, code
    graph = helper.make_graph(nodes, "quantize",
                              [helper.make_tensor_value_info(f"x{i}", ends[0], shape) for i in range(count)],
                              [helper.make_tensor_value_info("y", ends[1], shape)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    if front == "dequantize":
        codes = random.integers(0, 120, shape).astype(np.uint8)
        return {"x0": codes if kind != "int8" else codes.view(np.int8)}
    return {f"x{i}": (random.standard_normal(shape) * 2).astype(np.float16) for i in range(count)}


def measure_one(sinter, plan, feeds, expected, seconds):
    import torch
    from gpu_timing import measure
    found = sinter.run(plan, feeds)["y"]
    bench = sinter.json("bench", plan, "--deviceIo", "--iterations=60", "--duration=0.2", "--inputs", sinter.save(feeds))
    moved = sum(x.nbytes for x in feeds.values()) + found.nbytes
    one = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    two = torch.empty_like(one)
    copy = measure(lambda: two.copy_(one), seconds)["gpu_us"]
    ours = bench["compute_us"]["median"]
    return {"sinter_us": round(ours, 2), "copy_us": round(copy, 2), "of_copy": round(copy / ours, 3),
            "megabytes": round(moved / 1e6, 2), "launches": bench["launches"],
            "steps_off": float(np.mean(found.view(np.uint8) != expected.view(np.uint8)))}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--filter", default="", help="names that contain one of these texts, separated by commas")
    p.add_argument("--seconds", type=float, default=.1, help="about so long for each time of a copy")
    p.add_argument("--make-only", action="store_true", help="compile without a GPU, for sm_90")
    p.add_argument("--commit")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    rows = {}
    names = [(front, kind, shape, f"{front}_{kind}_{'x'.join(map(str, shape))}")
             for shape in SHAPES for front in (*FRONTS, "dequantize") for kind in TYPES]
    cases = [case for case in names if any(text in case[3] for text in a.filter.split(","))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def prepare(case):
            """The command line in a folder of the case, its plan, its inputs, and what the CPU's plan makes of them."""
            front, kind, shape, name = case
            place = Path(folder) / name
            place.mkdir()
            feeds = save(place / "model.onnx", front, shape, kind)
            sinter = Sinter(a.sinter, place, "cuda:sm_90" if a.make_only else "cuda")
            plan, cpu = sinter.compile(place / "model.onnx"), Sinter(a.sinter, place)
            expected = None if a.make_only else cpu.run(cpu.compile(place / "model.onnx", name="cpu"), feeds)["y"]
            return sinter, plan, feeds, expected

        # All is made before anything is timed: compiling takes the cores that start the launches.
        for (*_, name), prepared in zip(cases, list(pool.map(prepare, cases))):
            if a.make_only:
                print(name, flush=True)
                continue
            rows[name] = measure_one(*prepared, a.seconds)
            print(f"{name:36} {rows[name]}", flush=True)
            if a.out:
                write(a.out, provenance(a.commit) | {"cases": rows})


if __name__ == "__main__":
    main()
