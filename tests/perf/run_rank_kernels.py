#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of collectives on one GPU, which has two ranks: right 1,000 times, and their times.

  run_rank_kernels.py --out FILE              compiles kernels with NVRTC (of .deps, or where SINTER_CUDA_LIBS says)
  run_rank_kernels.py --cubin FILE            or takes them
  run_rank_kernels.py --cubin FILE --make     compiles alone, which needs no GPU

Without links between GPUs: what the kernels cost by themselves. Each rank has its own memory and stream.
"""
import argparse
import ctypes as C
import os
import sys
import time
from pathlib import Path

import numpy as np
from common import ROOT, provenance, write

COLUMNS, SETS, REPETITIONS = 4096, 16, 1000
RANKS, BLOCKS, SLOT, PACKETS = 2, 32, 32 << 10, 64 << 10  # as runtime/plan/ranks/peer_memory.h
AREA = 16 * BLOCKS * 4 + 2 * RANKS * (BLOCKS * SLOT + PACKETS * 8)
# What codegen writes for h = residual + sum, y = h / sqrt(mean(h^2) + epsilon) * weight.
TEXT = r"""
#include "cluster.cuh"
#include "exchange.cuh"
#include "summands.cuh"
#define NORM \
  const Summands<bf16, 2> x0(own, peers); \
  __shared__ float scratch[16]; \
  const i32 i = threadIdx.x * 8; \
  const Vec<bf16, 8> r0 = load<8>(x0 + i), r1 = load<8>(residual + i), r2 = load<8>(weight + i); \
  float h[8], t[8], a = 0; \
  for (int j = 0; j < 8; ++j) { h[j] = widen(r0, j) + widen(r1, j); a += h[j] * h[j]; } \
  const float s = rsqrtf(reduce_block<Sum, 16>(a, scratch) * (1.0f / 4096) + 1e-5f); \
  for (int j = 0; j < 8; ++j) t[j] = h[j] * s * widen(r2, j); \
  store(y + i, h); \
  store(y + 4096 + i, t);
#define OPERANDS const bf16* own, const bf16* residual, const bf16* weight, bf16* y, Peers* peers
extern "C" __global__ void __launch_bounds__(512) norm_of_sum(OPERANDS) { NORM }
extern "C" __global__ void __launch_bounds__(512) norm_of_sum_early(OPERANDS) {
  launch_dependents();
  grid_dependency_wait();
  NORM
}
extern "C" __global__ void __launch_bounds__(512) two_shot(const bf16* x, bf16* y, Peers* peers, i64 n) {
  exchange_values<kReduce, Sum, bf16, 8, 2, 512>(x, y, {1, n, 1, 1, 1, n, 1}, peers);
}
extern "C" __global__ void __launch_bounds__(512) nothing(const bf16*, bf16*) {}
"""


def check(result, what):
    if result:
        raise SystemExit(f"{what}: error {result}")


def compile_text(architecture):
    """The cubin of TEXT."""
    folders = os.environ.get("SINTER_CUDA_LIBS", "").split(":") + [str(p) for p in ROOT.glob(".deps/**/lib")]
    found = [str(p) for folder in folders if folder for p in Path(folder).glob("libnvrtc.so.1*")]
    if not found:
        raise SystemExit("no NVRTC: SINTER_CUDA_LIBS names its folder")
    nvrtc, program, size = C.CDLL(found[0]), C.c_void_p(), C.c_size_t()
    check(nvrtc.nvrtcCreateProgram(C.byref(program), TEXT.encode(), b"ranks.cu", 0, None, None), "nvrtcCreateProgram")
    folders = sorted({str(p.parent) for p in (ROOT / "codegen").rglob("*.cuh")})
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "-default-device", *(f"-I{folder}" for folder in folders)]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (C.c_char_p * len(options))(*(o.encode() for o in options)))
    if result:
        nvrtc.nvrtcGetProgramLogSize(program, C.byref(size))
        log = C.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    check(nvrtc.nvrtcGetCUBINSize(program, C.byref(size)), "nvrtcGetCUBINSize")
    code = C.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, code), "nvrtcGetCUBIN")
    return code.raw


class Attribute(C.Structure):
    """CUlaunchAttribute of an integer."""
    _fields_ = [("id", C.c_int), ("pad", C.c_char * 4), ("value", C.c_int), ("rest", C.c_char * 60)]


class Config(C.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", C.c_uint * 3), ("block", C.c_uint * 3), ("shared", C.c_uint), ("stream", C.c_void_p),
                ("attributes", C.POINTER(Attribute)), ("count", C.c_uint)]


EARLY = Attribute(6, b"", 1)  # programmatic stream serialization


class Gpu:
    """The driver, two ranks' memory, and the kernels."""

    def __init__(self, code):
        self.driver = C.CDLL("libcuda.so.1")
        device, context, self.module = C.c_int(), C.c_void_p(), C.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", C.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuModuleLoadData", C.byref(self.module), code)
        self.streams = [self.made("cuStreamCreate", 1) for _ in range(RANKS)]
        self.areas = [self.alloc(AREA) for _ in range(RANKS)]
        self.tables = [self.alloc(1024) for _ in range(RANKS)]
        self.reports = [self.made("cuMemHostAlloc", C.c_size_t(8), 3).value for _ in range(RANKS)]

    def __call__(self, name, *words):
        check(getattr(self.driver, name)(*words), name)

    def made(self, name, *words):
        handle = C.c_void_p()
        self(name, C.byref(handle), *words)
        return handle

    def function(self, name):
        return self.made("cuModuleGetFunction", self.module, name.encode())

    def alloc(self, size):
        address = C.c_uint64()
        self("cuMemAlloc_v2", C.byref(address), C.c_size_t(size))
        self("cuMemsetD8_v2", address, C.c_ubyte(0), C.c_size_t(size))
        return address.value

    def put(self, address, values):
        self("cuMemcpyHtoD_v2", C.c_uint64(address), values.ctypes.data_as(C.c_void_p), C.c_size_t(values.nbytes))
        return address

    def get(self, address, count):
        values = np.empty(count, np.uint16)
        self("cuMemcpyDtoH_v2", values.ctypes.data_as(C.c_void_p), C.c_uint64(address), C.c_size_t(values.nbytes))
        return values

    def clear(self, patience=1_500_000_000):
        for r in range(RANKS):
            self("cuMemsetD8_v2", C.c_uint64(self.areas[r]), C.c_ubyte(0), C.c_size_t(AREA))
            C.c_uint64.from_address(self.reports[r]).value = 0
            words = [patience, self.reports[r], *self.areas, *[0] * (16 - RANKS)]
            parts = np.array([r, RANKS, 0, 0, 0, 0], np.uint32), np.array(words, np.uint64), np.zeros(BLOCKS, np.uint32)
            self.put(self.tables[r], np.concatenate([part.view(np.uint8) for part in parts]))
        self("cuCtxSynchronize")

    def launch(self, function, grid, rank, words, early=False):
        slots = [C.c_uint64(word) for word in words]
        pointers = (C.c_void_p * len(slots))(*[C.cast(C.byref(slot), C.c_void_p) for slot in slots])
        config = Config((C.c_uint * 3)(grid, 1, 1), (C.c_uint * 3)(512, 1, 1), 0, self.streams[rank], C.pointer(EARLY), int(early))
        self("cuLaunchKernelEx", C.byref(config), function, pointers, None)

    def report(self, rank):
        return C.c_uint64.from_address(self.reports[rank]).value

    def wait(self):
        for stream in self.streams:
            self("cuStreamSynchronize", stream)
        if any(self.report(r) for r in range(RANKS)):
            raise SystemExit("a wait was given up")

    def times(self, put_one, count, runs=7):
        """Microseconds of one of `count` launches in a graph of each rank."""
        graphs = []
        for r, stream in enumerate(self.streams):
            self("cuStreamBeginCapture_v2", stream, 2)
            for i in range(count):
                put_one(r, i)
            graph = C.c_void_p()
            self("cuStreamEndCapture", stream, C.byref(graph))
            graphs.append(self.made("cuGraphInstantiateWithFlags", graph, C.c_uint64(0)))
            self("cuGraphUpload", graphs[-1], stream)
        self.wait()
        events, found = [[self.made("cuEventCreate", 0) for _ in range(2)] for _ in self.streams], []
        for _ in range(runs):
            for r, stream in enumerate(self.streams):
                self("cuEventRecord", events[r][0], stream)
            for r, stream in enumerate(self.streams):
                self("cuGraphLaunch", graphs[r], stream)
            for r, stream in enumerate(self.streams):
                self("cuEventRecord", events[r][1], stream)
            self.wait()
            spent = [C.c_float() for _ in events]
            for milliseconds, (start, end) in zip(spent, events, strict=True):
                self("cuEventElapsedTime", C.byref(milliseconds), start, end)
            found.append(1e3 * max(one.value for one in spent) / count)
        return {"median_us": round(float(np.median(found[1:])), 3), "least_us": round(min(found[1:]), 3)}


def bits(x):
    """float32 to bfloat16, to the nearest even."""
    words = x.astype(np.float32).view(np.uint32)
    return ((words + 0x7fff + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def floats(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def check_norms(gpu, random, result):
    vector = lambda: bits(random.standard_normal(COLUMNS))
    x, residual, weight = [[vector() for _ in range(SETS)] for _ in range(RANKS)], vector(), vector()
    store = lambda values: gpu.put(gpu.alloc(values.nbytes), values)
    xs = [[store(one) for one in own] for own in x]
    more = [[store(residual), store(weight)] for _ in range(RANKS)]
    ys = [gpu.alloc(REPETITIONS * COLUMNS * 4) for _ in range(RANKS)]
    expected = []
    for s in range(SETS):
        h = floats(bits(floats(x[0][s]) + floats(x[1][s]))) + floats(residual)
        expected.append(np.stack([h, h / np.sqrt(np.mean(h * h) + 1e-5) * floats(weight)]))
    for name, early in (("norm_of_sum", False), ("norm_of_sum_early", True)):
        gpu.clear()
        kernel = gpu.function(name)
        words = lambda r, i, y: [xs[r][i % SETS], *more[r], y, gpu.tables[r]]
        for i in range(REPETITIONS):
            for r in range(RANKS) if i % 3 else reversed(range(RANKS)):
                gpu.launch(kernel, 1, r, words(r, i, ys[r] + i * COLUMNS * 4), early)
        gpu.wait()
        got = [gpu.get(y, REPETITIONS * COLUMNS * 2).reshape(REPETITIONS, 2, COLUMNS) for y in ys]
        worst = max(float(np.max(np.abs(floats(own[i]) - expected[i % SETS]) / (1 + np.abs(expected[i % SETS]))))
                    for own in got for i in range(REPETITIONS))
        same = np.array_equal(got[0], got[1]) and all(np.array_equal(got[0][i], got[0][i % SETS]) for i in range(REPETITIONS))
        result[name] = {"ok": worst < 1e-2 and same, "repetitions": REPETITIONS, "worst_relative_error": round(worst, 5),
                        "same_bits": same, **gpu.times(lambda r, i: gpu.launch(kernel, 1, r, words(r, i, ys[r]), early), 500)}
    nothing = gpu.function("nothing")
    result["empty_kernel"] = gpu.times(lambda r, i: gpu.launch(nothing, 1, r, [xs[r][0], ys[r]]), 500)
    # A rank that does not come.
    gpu.clear(500_000_000)
    start = time.time()
    gpu.launch(gpu.function("norm_of_sum"), 1, 0, [xs[0][0], *more[0], ys[0], gpu.tables[0]])
    gpu("cuStreamSynchronize", gpu.streams[0])
    result["rank_1_does_not_come"] = {"ok": gpu.report(0) & 0xffffffff == 2, "seconds": round(time.time() - start, 3)}
    gpu.clear()


def check_sums(gpu, random, size, result):
    count = size // 2
    x = [bits(random.standard_normal(count)) for _ in range(RANKS)]
    a, b = [gpu.put(gpu.alloc(size), one) for one in x], [gpu.alloc(size) for _ in x]
    blocks = min(BLOCKS, -(-size // RANKS // (8 << 10)))
    kernel = gpu.function("two_shot")
    put = lambda r, i: gpu.launch(kernel, blocks, r, [a[r], b[r], gpu.tables[r], count])
    for i in range(100):
        for r in range(RANKS):
            put(r, i)
    gpu.wait()
    wanted = bits(floats(x[0]) + floats(x[1]))
    result[f"two_shot_{size >> 10}KB"] = {"ok": all(np.array_equal(gpu.get(y, count), wanted) for y in b), "blocks": blocks,
                                          **gpu.times(put, 100)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cubin", type=Path)
    p.add_argument("--make", action="store_true", help="write --cubin")
    p.add_argument("--architecture", default="sm_90")
    p.add_argument("--out", default=str(Path(__file__).parent / "results" / "rank_kernels.json"))
    p.add_argument("--commit")
    a = p.parse_args()
    if a.make and a.cubin:
        a.cubin.write_bytes(compile_text(a.architecture))
        return
    gpu, random, result = Gpu(a.cubin.read_bytes() if a.cubin else compile_text(a.architecture)), np.random.default_rng(1), {}
    check_norms(gpu, random, result)
    for size in (8 << 10, 64 << 10, 512 << 10, 4 << 20):
        check_sums(gpu, random, size, result)
    write(a.out, {**provenance(a.commit), "kernels": result})
    print(result)
    sys.exit(0 if all(one.get("ok", True) for one in result.values()) else 1)


if __name__ == "__main__":
    main()
