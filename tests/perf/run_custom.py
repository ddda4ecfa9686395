#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users' operators on a GPU: against the same chain built in, against the kernel launched alone, and with what follows
computed as the kernel stores (`epilogue`) against a kernel of its own.

  tests/perf/run_custom.py --make DIR                     writes models, plans and code for sm_90; needs no GPU
  tests/perf/run_custom.py --made DIR --out tests/perf/results/custom_h200.json
  tests/perf/run_custom.py --out FILE.json                both, on one machine

Times are medians of GPU time with a cold L2 and a full queue, in us: of plans by `sinter bench`, of the kernel alone by
gpu_timing.py, launched by the driver and as a CUDA graph. 'of' is the first time of a row over the second.
"""
import argparse
import ctypes
import glob
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from runs import Sinter, relative_error

sys.path.insert(0, str(ROOT / "models" / "operators"))
ROWS, COLUMNS, THREADS = 8192, 4096, 256
ROUNDS = 3
# A block for each row: y = x / rms(x).
ROW_RMS = """
__device__ float row_sum(const float* x, long long columns) {
  __shared__ float parts[8];
  float sum = 0;
  for (long long c = threadIdx.x; c < columns; c += 256) sum += x[c] * x[c];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < 8; ++w) sum += parts[w];
  return sum;
}
"""
ALONE = ROW_RMS + """
extern "C" __global__ void row_rms(const float* x, float* y, long long columns) {
  const long long first = blockIdx.x * columns;
  const float scale = rsqrtf(row_sum(x + first, columns) / columns + 1e-6f);
  for (long long c = threadIdx.x; c < columns; c += 256) y[first + c] = x[first + c] * scale;
}
"""
STORES = ROW_RMS + """
__device__ void row_rms(const float* x, const epilogues::y& y, long long columns) {
  const long long first = blockIdx.x * columns;
  const float scale = rsqrtf(row_sum(x + first, columns) / columns + 1e-6f);
  for (long long c = threadIdx.x; c < columns; c += 256) y.store(first + c, x[first + c] * scale);
}
"""


def definition(name, source, epilogue):
    return f"""
[[operator]]
domain = "com.example"
name = "{name}"
inputs = ["x"]
[[operator.output]]
name = "y"
[operator.cuda]
source = '''{source}'''
[[operator.cuda.kernel]]
function = "row_rms"
grid = ["x[0]"]
block = [{THREADS}]
arguments = ["x", "y", "x[1]"]
epilogue = {epilogue}
"""


POINTWISE = """
[[operator]]
domain = "com.example"
name = "ScaledTanh"
inputs = ["x"]
attributes = { limit = 2.0, slope = 0.5 }
[[operator.output]]
name = "y"
value = "limit * tanh(slope * x)"
"""
# images, height and width of each level, queries; 8 heads of 32 channels, 4 points
DEFORM = {"deform_encoder": (1, [(80, 80), (40, 40), (20, 20)], 8400),
          "deform_decoder": (1, [(80, 80), (40, 40), (20, 20)], 300),
          "deform_decoder_b8": (8, [(80, 80), (40, 40), (20, 20)], 300)}


def rows_model(path, nodes):
    from make_models import save, tensor
    from onnx import TensorProto, helper
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value])
                 for name, value in (("half", .5), ("two", 2.))]
    constants.append(helper.make_tensor("bias", TensorProto.FLOAT, [COLUMNS], np.linspace(-1, 1, COLUMNS)))
    used = {name for node in nodes for name in node.input}
    shape = [ROWS, COLUMNS]
    save(path, nodes, [tensor(name, shape) for name in ("x", "r") if name in used], [tensor("y", shape)],
         [c for c in constants if c.name in used], ["com.example"])


def deform_model(path, images, levels, queries):
    """A residual, a bias and an activation behind the attention."""
    import onnx
    from make_models import save, tensor
    from onnx import TensorProto, helper
    heads, channels, points = 8, 32, 4
    sizes = np.array(levels, np.int64)
    keys = int(np.prod(sizes, axis=1).sum())
    starts = np.concatenate([[0], np.cumsum(np.prod(sizes, axis=1))[:-1]]).astype(np.int64)
    node = helper.make_node
    nodes = [node("MSDeformAttn", ["value", "shapes", "starts", "locations", "weights"], ["s"], domain="com.example"),
             node("Add", ["s", "residual"], ["a"]), node("Add", ["a", "bias"], ["b"]), node("Relu", ["b"], ["y"])]
    samples = [images, queries, heads, len(levels), points]
    save(path, nodes, [tensor("value", [images, keys, heads, channels]), tensor("locations", [*samples, 2]),
                       tensor("weights", samples), tensor("residual", [images, queries, heads * channels])],
         [tensor("y", [images, queries, heads * channels])],
         [onnx.numpy_helper.from_array(sizes, "shapes"), onnx.numpy_helper.from_array(starts, "starts"),
          helper.make_tensor("bias", TensorProto.FLOAT, [heads * channels], np.linspace(-1, 1, heads * channels))],
         ["com.example"])


def code_for(architecture, text):
    """What NVRTC makes of CUDA text."""
    places = [*glob.glob("/usr/local/cuda*/lib*/libnvrtc.so.1*"),
              *glob.glob(os.path.join(sys.prefix, "lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.1*"))]
    nvrtc = ctypes.CDLL(next(place for place in places if "alt" not in place))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def check(problem):
        if problem:
            raise SystemExit(f"NVRTC says {problem} to the kernel")

    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
    option = (ctypes.c_char_p * 1)(f"-arch={architecture}".encode())
    check(nvrtc.nvrtcCompileProgram(program, 1, option))
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, code))
    return code.raw


def make(sinter, folder, target):
    from onnx import helper
    folder.mkdir(parents=True, exist_ok=True)
    node, own = helper.make_node, {"domain": "com.example"}
    ops = {"pointwise": POINTWISE, "alone": definition("RowRms", ALONE, []), "stores": definition("RowRms", STORES, '["y"]')}
    for name, text in ops.items():
        (folder / f"{name}.toml").write_text(text)
    behind = [node("Add", ["n", "r"], ["a"]), node("Add", ["a", "bias"], ["b"]), node("Relu", ["b"], ["y"])]
    rows_model(folder / "chain_built_in.onnx",
               [node("Sigmoid", ["x"], ["s"]), node("Mul", ["s", "half"], ["h"]), node("Tanh", ["h"], ["t"]),
                node("Mul", ["t", "two"], ["l"]), node("Add", ["l", "r"], ["y"])])
    rows_model(folder / "chain_custom.onnx", [node("Sigmoid", ["x"], ["s"]), node("ScaledTanh", ["s"], ["t"], **own),
                                              node("Add", ["t", "r"], ["y"])])
    rows_model(folder / "kernel.onnx", [node("RowRms", ["x"], ["y"], **own)])
    rows_model(folder / "rows.onnx", [node("RowRms", ["x"], ["n"], **own), *behind])
    for name, sizes in DEFORM.items():
        deform_model(folder / f"{name}.onnx", *sizes)
    deform = ROOT / "models" / "operators" / "deform.toml"
    (folder / "alone.cubin").write_bytes(code_for("sm_90" if target == "cuda" else target.split(":")[1], ALONE))

    def compile_(model, plan, *options):
        made = sinter_json(sinter, "compile", folder / f"{model}.onnx", "-o", folder / f"{plan}.plan",
                           f"--target={target}", *options)
        print(f"{plan}: {made['steps']} steps", flush=True)
        return made["steps"]

    counts = {"chain_built_in": compile_("chain_built_in", "chain_built_in"),
              "chain_custom": compile_("chain_custom", "chain_custom", "--op", folder / "pointwise.toml"),
              "kernel": compile_("kernel", "kernel", "--op", folder / "alone.toml")}
    for model, ops_file in [("rows", folder / "stores.toml"), *((name, deform) for name in DEFORM)]:
        for way, options in (("fused", []), ("apart", ["--disable-pass=fuse_custom"])):
            counts[f"{model}_{way}"] = compile_(model, f"{model}_{way}", "--op", ops_file, *options)
    expected = {"chain_built_in": 1, "chain_custom": 1, "kernel": 1,
                **{f"{model}_{way}": steps for model in ("rows", *DEFORM) for way, steps in (("fused", 1), ("apart", 2))}}
    wrong = {name: count for name, count in counts.items() if count != expected[name]}
    if wrong:
        raise SystemExit(f"plans have other steps than expected: {wrong}, not {expected}")


def alone(folder):
    """The kernel without a plan: launched by the driver, and in a CUDA graph."""
    import torch

    import gpu_timing
    x, y = torch.randn(ROWS, COLUMNS, device="cuda"), torch.empty(ROWS, COLUMNS, device="cuda")
    torch.cuda.synchronize()
    driver, module, function = gpu_timing.driver(), ctypes.c_void_p(), ctypes.c_void_p()
    for problem in (driver.cuModuleLoadData(ctypes.byref(module), (folder / "alone.cubin").read_bytes()),
                    driver.cuModuleGetFunction(ctypes.byref(function), module, b"row_rms")):
        if problem:
            raise SystemExit(f"the driver says {problem} to the kernel")
    values = [ctypes.c_uint64(x.data_ptr()), ctypes.c_uint64(y.data_ptr()), ctypes.c_int64(COLUMNS)]
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))

    def run():
        stream = torch.cuda.current_stream().cuda_stream
        if problem := driver.cuLaunchKernel(function, ROWS, 1, 1, THREADS, 1, 1, 0, stream, arguments, None):
            raise SystemExit(f"the driver says {problem} to the launch")

    run()
    wanted = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    error = float((y - wanted).norm() / wanted.norm())

    def median(call):
        for _ in range(5):
            call()
        return float(np.median(gpu_timing.gpu_times(call, 60)))

    return {"launched_us": median(run), "graph_us": median(gpu_timing.captured(run)), "error": error,
            "copy_us": gpu_timing.copy_time(x.nbytes + y.nbytes)}


def measure(sinter, folder, done):
    """Calls `done` with all rows so far after each row."""
    tool, rows = Sinter(sinter, folder, "cuda"), {}
    plan = lambda name: folder / f"{name}.plan"
    # Where samples lie and what they weigh, as a network gives them: inside the image, about one in all.
    ranges = ["--input-range", "locations=0..1", "weights=0..0.2"]

    def times(names, options):
        """Microseconds and launches of each plan."""
        # In turns, so that clocks that sink are all plans' alike. Inputs stay on the GPU, for copies take most of the time.
        benches = tool.json("bench", *(plan(name) for name in names * ROUNDS), "--deviceIo", "--iterations=100", *options)
        return [(round(float(np.median([bench["compute_us"]["median"] for bench in benches[i::len(names)]])), 2),
                 benches[i]["launches"]) for i in range(len(names))]

    def add(name, row):
        rows[name] = row
        print(name, row, flush=True)
        done(rows)

    def difference(names, options):
        outputs = []
        for name in names:
            tool.text("run", plan(name), "--seed=1", "--outputs", folder / "y.npz", *options)
            outputs.append(np.load(folder / "y.npz")["y"])
        return relative_error(*outputs)

    def pair(name, first, second, limit, options=()):
        (us, launches), (against, others) = times([first, second], options)
        add(name, {"us": us, "launches": launches, "against_us": against, "against_launches": others,
                   "of": round(us / against, 3), "must": limit, "ok": us <= limit * against, "error": difference([first, second], options)})

    pair("chain", "chain_custom", "chain_built_in", 1.02)
    ((us, launches),), single = times(["kernel"], []), alone(folder)
    add("kernel", {"plan_us": us, "launches": launches, **{key: round(value, 9) for key, value in single.items()},
                   "of": round(us / min(single["launched_us"], single["graph_us"]), 3), "must": 1.0})
    pair("rows", "rows_fused", "rows_apart", 1.0)
    for name in DEFORM:
        pair(name, f"{name}_fused", f"{name}_apart", 1.0, ranges)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--make", type=Path, metavar="DIR", help="write what is measured, for --target, and end")
    p.add_argument("--made", type=Path, metavar="DIR", help="what --make has written")
    p.add_argument("--target", default="cuda:sm_90")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "custom_h200.json"))
    a = p.parse_args()
    if a.make:
        make(a.sinter, a.make, a.target)
        return
    with tempfile.TemporaryDirectory() as tmp:
        folder = a.made or Path(tmp)
        if not a.made:
            make(a.sinter, folder, a.target)
        origin = provenance(a.commit)
        measure(a.sinter, folder, lambda rows: write(a.out, {**origin, **rows}))


if __name__ == "__main__":
    main()
