#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a persistent kernel of tasks can reach: chains of products of one row with the bytes of decoders' steps.

  run_task_chains.py --out F.json [--chains empty,one,1b_f16,..]

Every multiprocessor has one block. One warp copies the weights of all steps ahead of the warps that multiply; rows
travel through memory. `most`: chunks of 8 KB under way. `sync`: 0 counters with
release and acquire, 1 flags beside the elements, 3 nothing waits. `empty`: 400 steps without weights, `one`: 8 GB in
one step. Times are of one launch, medians. Needs PyTorch for memory and events, and NVRTC.
"""
import argparse
import ctypes
import json
import statistics
from pathlib import Path

import torch

from common import provenance, write

ROUNDS, LAUNCHES, THREADS = 5, 4, 32 * 17
ROW, CHUNK, SLOTS, LONGEST = 32768, 8192, 20, 16384  # as task_chain.cu has them
SHARED = SLOTS * CHUNK + 2 * LONGEST + 4096


def llama(layers, hidden, qkv, inner, vocabulary, width, longest):
    """(bytes, elements of the input) of each step; attention reads few."""
    layer = [(hidden * qkv, hidden), (0, 2 * hidden), (hidden * hidden, hidden), (hidden * 2 * inner, hidden), (inner * hidden, longest)]
    return [(n * width, length) for n, length in layer * layers + [(hidden * vocabulary, hidden)]]


def mixture(layers, width):
    """Qwen3-30B-A3B's shape: 8 of 128 experts."""
    layer = [(2048 * 5120 * width, 2048), (0, 8192), (4096 * 2048 * width, 4096), (2048 * 128 * 2, 2048), (8 * 2048 * 1536 * width, 2048),
             (8 * 768 * 2048 * width, 8192)]
    return layer * layers + [(2048 * 151936 * width, 2048)]


# By name: MMAs for each 16 bytes of a lane, and the steps.
CHAINS = {"empty": (1, [(0, 2048)] * 400), "one": (1, [(8 << 30, 2048)]), "moe12_q4": (4, mixture(12, 0.5625))}
for kind, bytes_, mmas in (("f16", 2, 1), ("int8", 1, 2), ("int4", 0.5156, 4)):
    CHAINS["1b_" + kind] = mmas, llama(16, 2048, 3072, 8192, 128256, bytes_, 8192)
    CHAINS["8b_" + kind] = mmas, llama(32, 4096, 6144, 14336, 128256, bytes_, LONGEST)


class Chain(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("weights", "offsets", "bytes", "lengths", "counters", "epoch", "rows")] + \
               [(name, ctypes.c_uint32) for name in ("steps", "most", "sync")]


def check(result, what):
    if result != 0:
        raise SystemExit(f"{what}: error {result}")


def compiled(text):
    nvrtc, program, size = ctypes.CDLL("libnvrtc.so.13"), ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"task_chain.cu", 0, None, None), "NVRTC")
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90a", b"--std=c++17")
    check(nvrtc.nvrtcCompileProgram(program, len(options), options), "compiling task_chain.cu")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    return code


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--chains", default=",".join(CHAINS))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    torch.zeros(1, device="cuda")
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    cuda, module = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), compiled((Path(__file__).parent / "task_chain.cu").read_bytes())), "loading")
    weights = torch.zeros(17 << 30, dtype=torch.uint8, device="cuda")
    result = {**provenance(a.commit), "task_chains": {}}

    def run(title, mmas, steps, most, sync):
        sizes = [-(-int(n) // (blocks * 512)) * 512 for n, _ in steps]
        offsets = [blocks * sum(sizes[:i]) for i in range(len(sizes))]
        device = [torch.tensor(values, dtype=kind, device="cuda") for values, kind in
                  ((offsets, torch.int64), (sizes, torch.int32), ([n for _, n in steps], torch.int32), ([0] * len(steps), torch.int32), ([0, 0], torch.int32))]
        device.append(torch.zeros((len(steps) + 1) * 2 * ROW, dtype=torch.int16, device="cuda"))
        chain = Chain(weights.data_ptr(), *[t.data_ptr() for t in device], len(steps), most, sync)
        function = ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, f"chain_{mmas}".encode()), "chain")
        check(cuda.cuFuncSetAttribute(function, 8, SHARED), "shared memory")
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(chain), ctypes.c_void_p))
        stream, times = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), []
        for _ in range(ROUNDS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(LAUNCHES):
                check(cuda.cuLaunchCooperativeKernel(function, blocks, 1, 1, THREADS, 1, 1, SHARED, stream, arguments), "launch")
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / LAUNCHES)
        us = statistics.median(times)
        row = {"us": round(us, 1), "gbps": round(blocks * sum(sizes) / us / 1e3), "us_a_step": round(us / len(steps), 3)}
        result["task_chains"][f"{title} most={most} sync={sync}"] = row
        print(title, f"most={most} sync={sync}", json.dumps(row), flush=True)
        if a.out:
            write(a.out, result)

    for title in a.chains.split(","):
        mmas, steps = CHAINS[title]
        if title == "one":
            for count in (1, 2, 4):
                run(f"one_{count}", count, steps, 8, 3)
            continue
        for most in (4, 6, 8, 20):
            run(title, mmas, steps, most, 1)
        for sync in (0, 3):
            run(title, mmas, steps, 6, sync)


if __name__ == "__main__":
    main()
