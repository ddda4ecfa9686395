# SPDX-License-Identifier: Apache-2.0
"""GPU times of PyTorch's calls, taken as `sinter bench` takes those of plans: between events, the queue full, caches
cold. README.md says what cold is and why."""
import ctypes
import functools
import time

import numpy as np
import torch

from common import ROOT

LONG_FLUSH = 1 << 30  # bytes: reading them takes longer than the host takes to queue a compiled call
TIMES_L2 = 8  # what FlushBuffer reads
BLOCK_BYTES = 1 << 15


@functools.cache
def kernel(file, name):
    """One of the kernels that the runtime empties the L2 with; their text is in its source."""
    text = (ROOT / "runtime" / "cuda" / f"{file}.ptx.inc").read_text().split('R"ptx(')[1].split(')ptx"')[0]
    torch.cuda.synchronize()  # makes PyTorch's context the current one
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    for problem in (driver().cuModuleLoadData(ctypes.byref(module), text.encode()),
                    driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode())):
        if problem:
            raise RuntimeError(f"the driver says {problem} to {name}")
    return function


@functools.cache
def driver():
    library = ctypes.CDLL("libcuda.so.1")
    library.cuLaunchKernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    return library


def launcher(file, name, tensor):
    """A function that runs a kernel over the whole blocks of `tensor` on the stream that is current now. Little is left
    for it to do: the host must be ahead of the GPU."""
    launch, function = driver().cuLaunchKernel, kernel(file, name)
    base = ctypes.c_uint64(tensor.data_ptr())
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(base))
    stream, blocks = torch.cuda.current_stream().cuda_stream, tensor.nbytes // BLOCK_BYTES

    def run():
        if problem := launch(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, None):
            raise RuntimeError(f"the driver says {problem} to a launch of {name}, {base.value}")
    return run


def reader(tensor):
    """A function that reads all of `tensor`."""
    return launcher("read_all", "sinter_read_all", tensor)


@functools.cache
def flush_buffer():
    return torch.zeros(LONG_FLUSH, dtype=torch.int8, device="cuda")


def same_flush():
    """The bytes that FlushBuffer reads."""
    size = TIMES_L2 * torch.cuda.get_device_properties(0).L2_cache_size
    return min(size, LONG_FLUSH) // BLOCK_BYTES * BLOCK_BYTES


def flusher(size=LONG_FLUSH):
    """A function that empties the L2 as FlushBuffer::flush() does, by reading `size` bytes."""
    head = max(size // 8, same_flush() // 4) // BLOCK_BYTES * BLOCK_BYTES
    kept, rest = flush_buffer()[:size].split((head, size - head))
    keeps = torch.cuda.get_device_capability() >= (8, 0)
    first = [launcher("keep_all", name, kept) for name in ("sinter_keep_all", "sinter_let_go")] if keeps else \
        [reader(kept)]
    parts = [*first, reader(rest)]

    def flush():
        for part in parts:
            part()
    return flush


def gpu_times(call, runs):
    """Microseconds of each of `runs` calls, caches cold, the queue full. As in Session::time_compute() one that is not
    timed comes before each: caches of instructions are warm, and as much of the time goes to work that draws power."""
    flush = flusher()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, stop in events:
        call()
        flush()
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) * 1e3 for start, stop in events]


def captured(call):
    """The call as a CUDA graph, as plans are: PyTorch takes long to queue a call."""
    torch.cuda.synchronize()  # what the call writes may be memory that a kernel of the current stream still uses
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def heavy_times(call, runs):
    """As gpu_times(), of long calls that draw so much power that clocks sink: between two that are timed is what
    `sinter bench` does between two of a plan, and the GPU waits for the host as often, so that both rest equally
    long."""
    flush = flusher(same_flush())
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(runs):
        call()
        torch.cuda.synchronize()
        call()
        flush()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
        flush()
        torch.cuda.synchronize()
    return times


def heavy_runs(seconds, microseconds):
    """How many calls that take so long are timed."""
    return int(np.clip(seconds * 1e6 / microseconds, 20, 60))


def measure(call, seconds=1.0, settle=0.0):
    """Microseconds: 'gpu' as gpu_times(), or as heavy_times() of the call as a graph, repeated for `settle` seconds
    first, if there are any; 'wall' of one synchronised call."""
    if settle:
        call = captured(call)
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    wall, began = [], time.perf_counter()
    limit = settle or seconds / 2
    while len(wall) < 10 or (time.perf_counter() - began < limit and (settle or len(wall) < 300)):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        wall.append(time.perf_counter() - start)
    us = float(np.median(wall)) * 1e6
    if settle:
        gpu = heavy_times(call, heavy_runs(seconds, us))
    else:
        gpu = gpu_times(call, int(np.clip(seconds * 1e6 / us, 20, 300)))
    return {"gpu_us": round(float(np.median(gpu)), 2), "p10_us": round(float(np.percentile(gpu, 10)), 2),
            "p90_us": round(float(np.percentile(gpu, 90)), 2), "wall_us": round(us, 2), "runs": len(gpu)}


@functools.cache
def copy_time(size, seconds=1.0):
    """Microseconds of a copy that reads and writes `size` bytes in all."""
    x = torch.randint(-99, 100, (size // 2,), device="cuda", dtype=torch.int8)
    y = torch.empty_like(x)
    return measure(lambda: y.copy_(x), seconds)["gpu_us"]


@functools.cache
def read_time(size, seconds=1.0):
    """Microseconds of a kernel that reads `size` bytes, rounded up to whole blocks, and writes none."""
    blocks = -(-size // BLOCK_BYTES)
    x = torch.randint(-99, 100, (blocks * BLOCK_BYTES,), device="cuda", dtype=torch.int8)
    return measure(reader(x), seconds)["gpu_us"]


@functools.cache
def empty_time():
    """Microseconds of a kernel that does nothing: what events and a launch take."""
    return measure(lambda: torch.cuda._sleep(0), 0.2)["gpu_us"]


@functools.cache
def copy_rate():
    """Bytes read and written per second of a copy of 4 GB, in TB/s."""
    size = 1 << 32
    return size / copy_time(size) * 1e-6
