#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights under a budget: a float16 decoder of 8 billion random weights whose plan runs in a part of the GPU's memory.

  tests/perf/run_streaming.py --out tests/perf/results/streaming_h200.json      16 GB: needs 40 GB of disk in --folder
  tests/perf/run_streaming.py --layers 4 --budget 1500M --out small.json        a sixth of it
  tests/perf/run_streaming.py --make --layers 2 --folder /tmp/two               makes and compiles; needs no GPU

A decode step is run with all weights resident and within the budget; outputs must be equal, bit for bit. The rate of
the copies is the bytes that a run copies over the time of the whole run, beside the driver's rate for copies of as many
bytes from one pinned block, in the same minutes.
"""
import argparse
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from common import ROOT, Sinter, provenance, write

sys.path.insert(0, str(ROOT / "models"))
from llama_onnx import Config, Decoder  # noqa: E402

MUST = 0.85  # of the driver's copy rate
CAPACITY = 1024
SIZE = dict(hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256, positions=8192, theta=500000.0)
TINY = dict(hidden=256, heads=4, kv_heads=2, intermediate=512, vocabulary=1024, positions=2048)


class RandomHalves:
    """Seeded float16 numbers of deviation k^-0.5, written to a file one after the other: parts of one block, each from
    another place on, so that no two weights are equal."""
    BLOCK = 1 << 25

    def __init__(self, path):
        self.file, self.rng, self.blocks, self.end = open(path, "wb"), np.random.default_rng(0), {}, 0
        self.location = path.name

    def block(self, k):
        if k not in self.blocks:
            self.blocks[k] = (self.rng.standard_normal(self.BLOCK, np.float32) * k ** -0.5).astype(np.float16)
        return self.blocks[k]

    def tensor(self, name, shape, k):
        count, block = int(np.prod(shape)), self.block(k)
        at, left = int(self.rng.integers(self.BLOCK)), count
        while left:
            part = block[at:at + left]
            part.tofile(self.file)
            at, left = (at + part.size) % self.BLOCK, left - part.size
        result = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape,
                             data_location=TensorProto.EXTERNAL)
        for key, value in dict(location=self.location, offset=self.end, length=2 * count).items():
            result.external_data.add(key=key, value=str(value))
        self.end += 2 * count
        return result


class HalfDecoder(Decoder):
    """Of float16, its weights in a file of their own."""

    def __init__(self, config, halves):
        super().__init__(config, {"lm_head.weight": None})
        self.halves = halves

    def external(self, name, shape, k):
        self.w.names.add(name)
        self.w.initializers.append(self.halves.tensor(name, shape, k))
        return name

    def vector(self, name):
        return self.w.constant(name, np.ones(self.c.hidden, np.float16))

    def linear(self, x, name, output=None):
        c, kv = self.c, self.c.kv_heads * self.c.head_size
        columns = {"k_proj": kv, "v_proj": kv, "gate_proj": c.intermediate, "up_proj": c.intermediate,
                   "lm_head": c.vocabulary}.get(name.split(".")[-2], c.hidden)
        rows = c.intermediate if "down_proj" in name else c.hidden
        return self.w.op("MatMul", x, self.external(name, [rows, columns], rows), output=output)

    def embedding(self, name):
        return self.w.op("Gather", self.external(name, [self.c.vocabulary, self.c.hidden], 1), "input_ids")

    def rotary_tables(self):
        half = self.c.head_size // 2
        angles = np.arange(self.c.positions)[:, None] / self.c.theta ** (np.arange(half) / half)
        return (self.w.constant("cosines", np.cos(angles).astype(np.float16)),
                self.w.constant("sines", np.sin(angles).astype(np.float16)))

    def model(self):
        model = super().model()
        for value in [*model.graph.input, *model.graph.output]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.FLOAT16
        return model


def make(folder, config):
    path = folder / "decoder.onnx"
    halves = RandomHalves(folder / "decoder.weights")
    onnx.save(HalfDecoder(config, halves).model(), path)
    halves.file.close()
    rng = np.random.default_rng(1)
    cache = (1, config.kv_heads, CAPACITY, config.head_size)
    np.savez(folder / "inputs.npz", input_ids=np.array([[17]]), position=np.array([777]),
             **{f"past_{kind}_{i}": rng.standard_normal(cache, np.float32).astype(np.float16)
                for i in range(config.layers) for kind in ("key", "value")})
    return path, halves.end


def copy_rates(sizes, repeats=7):
    """Bytes a second of the driver's copies from pinned host memory to the GPU, by the bytes of a copy."""
    import torch  # for its context
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    host, device = ctypes.c_void_p(), ctypes.c_uint64()
    most = max(sizes)

    def check(problem, what):
        if problem:
            raise SystemExit(f"{what}: the driver says {problem}")
    check(driver.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(most), 0), "pinned memory")
    check(driver.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(most)), "device memory")
    ctypes.memset(host, 1, most)
    stream = torch.cuda.Stream()
    rates = {}
    for size in sizes:
        times = []
        for _ in range(repeats):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            check(driver.cuMemcpyHtoDAsync_v2(device, host, ctypes.c_size_t(size),
                                              ctypes.c_void_p(stream.cuda_stream)), "copy")
            stop.record(stream)
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e-3)
        rates[size] = size / float(np.median(times))
    driver.cuMemFree_v2(device)
    driver.cuMemFreeHost(host)
    return rates


def equal_outputs(a, b):
    with np.load(a) as x, np.load(b) as y:
        names = set(x.files)
        if names != set(y.files):
            return [], sorted(names ^ set(y.files))
        # As bytes: numbers that are none are equal, too.
        return sorted(names), sorted(n for n in names if x[n].tobytes() != y[n].tobytes())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=ROOT / "build/bin/sinter")
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--tiny", action="store_true", help="layers of a few hundred kilobytes")
    p.add_argument("--budget", default="8GB")
    p.add_argument("--folder", type=Path, default=Path("/tmp/streaming"), help="for the model and plans")
    p.add_argument("--target", default="cuda:sm_90")
    p.add_argument("--make", action="store_true", help="stop when the plan is there")
    p.add_argument("--duration", type=float, default=8, help="seconds that each figure is measured for")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path, help="result file")
    a = p.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    config = Config(layers=a.layers, **(TINY if a.tiny else SIZE))

    started = time.time()
    model, weight_bytes = make(a.folder, config)
    made = time.time()
    sinter = Sinter(a.sinter, a.folder, a.target)
    plan = sinter.compile(model, "--dim", "sequence=1", "--dim", f"capacity={CAPACITY}")
    compiled = time.time()
    print(f"made {weight_bytes / 1e9:.2f} GB in {made - started:.0f} s, compiled in {compiled - made:.0f} s", flush=True)
    if a.make:
        return 0

    inputs = ["--inputs", a.folder / "inputs.npz"]
    # The resident run comes first: what it tunes, the other finds.
    for name, words in (("resident", []), ("streamed", ["--weight-budget", a.budget])):
        sinter.text("run", plan, *inputs, "--outputs", a.folder / f"{name}.npz", *words, "--quiet")
    names, differ = equal_outputs(a.folder / "resident.npz", a.folder / "streamed.npz")
    print(f"{len(names)} outputs, {len(differ)} differ", flush=True)

    def bench(*words):
        return sinter.json("bench", plan, *inputs, "--deviceIo", "--duration", a.duration, *words)
    resident = bench()
    streamed = bench("--weight-budget", a.budget)
    profile = sinter.json("profile", plan, *inputs, "--weight-budget", a.budget)
    [copies] = [step for step in profile["steps"] if step["name"] == "copies of weights"]
    account = streamed["memory"]
    rates = copy_rates([256 << 20, 1 << 30])
    plain = max(rates.values())
    # What is copied once a run: no weight of this model is read twice.
    seconds = streamed["compute_us"]["median"] * 1e-6
    rate = copies["bytes"] / seconds
    result = {
        **provenance(a.commit), "model": f"{a.layers} layers, {weight_bytes / 1e9:.2f} GB in float16", "budget": a.budget,
        "outputs": len(names), "outputs_that_differ": differ, "memory": account,
        "bytes_copied": copies["bytes"], "copies": copies["launches"],
        "resident_us": resident["compute_us"], "streamed_us": streamed["compute_us"],
        "bytes_per_s": rate, "of_pinned_copy": rate / plain,
        "copies_alone_us": copies["us"], "copies_alone_of_pinned_copy": copies["bytes"] / copies["us"] * 1e6 / plain,
        "steps_alone_us": profile["total_us"] - copies["us"], "run_us": profile["whole_us"],
        "overlap_us": profile["overlap_us"],
        "pinned_copy_bytes_per_s": {str(size): value for size, value in rates.items()},
        "make_s": made - started, "compile_s": compiled - made}
    print(json.dumps({k: result[k] for k in ("memory", "bytes_copied", "copies", "bytes_per_s", "of_pinned_copy",
                                             "overlap_us", "pinned_copy_bytes_per_s")}, indent=1))
    print(f"resident {resident['compute_us']['median'] / 1e3:.2f} ms, streamed {seconds * 1e3:.2f} ms: "
          f"{rate / 1e9:.1f} GB/s, {rate / plain:.1%} of a pinned copy (must be {MUST:.0%})")
    if a.out:
        write(a.out, result)
    return 1 if differ or rate < MUST * plain else 0


if __name__ == "__main__":
    sys.exit(main())
