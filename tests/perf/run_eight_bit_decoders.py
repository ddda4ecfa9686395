#!/usr/bin/env python3
"""Llama-style decoders with weights and caches of 8 bits on a GPU, beside the same in float16.

  run_eight_bit_decoders.py --out tests/perf/results/eight_bit_decoders_h200.json
  run_eight_bit_decoders.py --sizes 1b --work prompt --out part.json     results are added to a file of the same commit

Work is a prompt of 2,048 tokens into empty caches, or one token of each of 1 or 64 sequences at position 777 of caches
of 1,024. The model is written here, without PyTorch, by models/llama_onnx.py in float16, with all of its layers; weights
are random, and figures say only how long it takes. Layers share the weights of `distinct` of them (about 400 MB, many
times what the L2 holds, so that they come from memory as those of different layers would): a plan has those alone,
which keeps the file, the rounding and the plan small. The embedding and the last layer share theirs, too.

A way is how a plan is compiled: 'f16', 'int8' and 'fp8' weights alone (--weights), 'w8a8' fp8 products with a scale for
each token (--precision=fp8), 'cache8' and 'cachei8' caches of e4m3 and int8 (with a number behind it: that many keys in
a tile of attention, instead of the rule's); the last layer has the weights of the others. Times are microseconds of the GPU with a cold L2, medians; `speedup` is float16's of the same run over them.
"""
import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from common import ROOT, provenance, sinter_json, write

sys.path.insert(0, str(ROOT / "models"))
from llama_onnx import Config, Decoder  # noqa: E402

SIZES = {"1b": (Config(layers=16, hidden=2048, heads=32, kv_heads=8, intermediate=8192, vocabulary=128256,
                       positions=2048, theta=500000.0), 4),
         "8b": (Config(layers=32, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256,
                       positions=2048, theta=500000.0), 1),
         # One layer of 8b, whose kernels `compile --tune` times for all: the file is good for 8b.
         "8b_layer": (Config(layers=1, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256,
                             positions=2048, theta=500000.0), 1),
         "tiny": (Config(layers=2, hidden=128, heads=4, kv_heads=2, intermediate=256, vocabulary=192, positions=2048), 1)}
# Sequences, tokens of each, position of the first, rows of caches.
WORK = {"prompt": (1, 2048, 0, 2048), "decode_b1": (1, 1, 777, 1024), "decode_b64": (64, 1, 777, 1024)}
W8A8 = ["--precision=fp8", "--activation-scales=token", "--max-error=1000", "--include=head/"]
WAYS = {"f16": [], "f16_cache8": ["--cache-precision=fp8"], "int8": ["--weights=int8"],
        "int8_cache8": ["--weights=int8", "--cache-precision=fp8"],
        "int8_cachei8": ["--weights=int8", "--cache-precision=int8"],
        "fp8": ["--weights=fp8"], "fp8_cache8": ["--weights=fp8", "--cache-precision=fp8"],
        "w8a8": W8A8, "w8a8_cache8": [*W8A8, "--cache-precision=fp8"],
        "w8a8_fast": [*W8A8, "--fp8-accumulation=fast"],
        "w8a8_fast_cache8": [*W8A8, "--fp8-accumulation=fast", "--cache-precision=fp8"],
        "w8a8_block": [option.replace("=token", "=block") for option in W8A8],
        **{f"w8a8_cache8_{keys}": [*W8A8, "--cache-precision=fp8",
                                   f"--schedule=attention rows=1x16 key_groups=8 keys={keys} vector=16"]
           for keys in (32, 64, 128)}}
DEFAULT = {"prompt": "f16,w8a8,w8a8_cache8", "decode_b1": "f16,int8,fp8,int8_cache8,fp8_cache8,w8a8_cache8",
           "decode_b64": "f16,f16_cache8,fp8_cache8,w8a8,w8a8_cache8,int8_cachei8"}
# What a way must reach, of the work at 8b: microseconds, or a speedup over float16.
WANTED = {("8b", "prompt", "w8a8"): ("speedup", 1.55), ("8b", "decode_b1", "fp8_cache8"): ("gpu_us", 2109),
          ("8b", "decode_b64", "w8a8_cache8"): ("speedup", 1.6)}
BLOCK = 16_777_213  # random numbers that are repeated: a prime, so that no two rows are equal


class SharedWeights:
    """Weights as places of one file, by the names of a checkpoint."""

    def __init__(self, config, distinct, path):
        self.path, self.places, self.distinct = path, {}, distinct
        c, self.bytes = config, 0
        kv = c.kv_heads * c.head_size
        layer = {"q_proj": (c.hidden, c.hidden), "k_proj": (c.hidden, kv), "v_proj": (c.hidden, kv),
                 "o_proj": (c.hidden, c.hidden), "gate_proj": (c.hidden, c.intermediate),
                 "up_proj": (c.hidden, c.intermediate), "down_proj": (c.intermediate, c.hidden)}
        for i in range(distinct):
            for name, shape in layer.items():
                self.add(f"{i}/{name}", shape)
        self.add("table", (c.vocabulary, c.hidden))
        self.vocabulary, self.hidden = c.vocabulary, c.hidden

    def add(self, key, shape):
        self.places[key] = self.bytes, shape
        self.bytes += -(-2 * shape[0] * shape[1] // 4096) * 4096

    def write(self):
        block = (np.random.default_rng(0).standard_normal(BLOCK, np.float32) * 0.02).astype(np.float16)
        with open(self.path, "wb") as file:
            for at in range(0, self.bytes // 2, BLOCK):
                block[:self.bytes // 2 - at].tofile(file)

    def __contains__(self, name):
        """Of a checkpoint's names: there are matrices alone, no biases, and the last is the table."""
        return False

    def tensor(self, name, key, shape=None):
        offset, own = self.places[key]
        proto = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape or own,
                            data_location=TensorProto.EXTERNAL)
        for what, value in (("location", self.path.name), ("offset", offset), ("length", 2 * own[0] * own[1])):
            proto.external_data.add(key=what, value=str(value))
        return proto


class SharedDecoder(Decoder):
    """A decoder whose matrices are SharedWeights, laid out as they are multiplied, and whose norms scale by one."""

    def external(self, name, key, shape=None):
        if name not in self.w.names:
            self.w.names.add(name)
            self.w.initializers.append(self.weights.tensor(name, key, shape))
        return name

    def vector(self, name):
        return self.w.constant("ones", np.ones(self.c.hidden, self.dtype))

    def linear(self, x, name, output=None):
        layer, kind = name.split(".")[2], name.split(".")[-2]
        key = f"{int(layer) % self.weights.distinct}/{kind}"
        return self.w.op("MatMul", x, self.external(key, key), output=output)

    def embedding(self, name):
        return self.w.op("Gather", self.external("table", "table"), "input_ids")

    def logits(self, x, output=None):
        shape = self.weights.hidden, self.weights.vocabulary
        return self.w.op("MatMul", x, self.external("head", "table", shape), output=output)


def write_model(config, weights, work, folder):
    """The ONNX file and the inputs of a piece of work; caches are states, which begin empty."""
    batch, tokens, position, capacity = WORK[work]
    path = folder / f"{work}.onnx"
    onnx.save(SharedDecoder(config, weights, batch=batch, dtype=np.float16).model(), path)
    np.savez(path.with_suffix(".npz"), input_ids=np.random.default_rng(1).integers(0, config.vocabulary, (batch, tokens)),
             position=np.array([position]))
    return path, [f"--dim=sequence={tokens}", f"--dim=capacity={capacity}"]


def compile_plan(sinter, target, path, sizes, way):
    began = time.perf_counter()
    plan = path.with_suffix(f".{way}.plan")
    sinter_json(sinter, "compile", path, "-o", plan, f"--target={target}", *sizes, *WAYS[way])
    return plan, round(time.perf_counter() - began, 1)


def measure(sinter, plan, inputs):
    bench = sinter_json(sinter, "bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=50", "--duration=1")
    times = bench["compute_us"]
    return {"gpu_us": round(times["median"], 1), "p10_us": round(times["p10"], 1), "p90_us": round(times["p90"], 1),
            "wall_us": round(bench["latency_us"]["median"], 1), "launches": bench["launches"],
            "bytes_moved": bench["bytes_moved"], "memory": bench["memory"]}


def judge(size, work, way, row):
    what, wanted = WANTED.get((size, work, way), (None, None))
    if what:
        row.update(must={what: wanted}, ok=row[what] <= wanted if what == "gpu_us" else row[what] >= wanted)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--sizes", default="8b,1b", help=f"of {', '.join(SIZES)}")
    p.add_argument("--work", default=",".join(WORK))
    p.add_argument("--ways", help=f"for all work, instead of its own: of {', '.join(WAYS)}")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--jobs", type=int, default=3, help="compilers at a time")
    p.add_argument("--deadline", type=float, default=400, help="start nothing new after so many seconds")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    began = time.perf_counter()
    result = {**provenance(a.commit), "decoders": {}}
    if a.out and a.out.exists():
        before = json.loads(a.out.read_text())
        if before["commit"] == result["commit"]:
            result["decoders"] = before["decoders"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in a.sizes.split(","):
            config, distinct = SIZES[size]
            weights = SharedWeights(config, distinct, folder / f"{size}.weights")
            weights.write()
            for work in a.work.split(","):
                rows = result["decoders"].setdefault(f"{size}_{work}", {})
                path, sizes = write_model(config, weights, work, folder)
                ways = (a.ways or DEFAULT[work]).split(",")
                with ThreadPoolExecutor(a.jobs) as pool:
                    plans = {way: pool.submit(compile_plan, a.sinter, a.target, path, sizes, way) for way in ways}
                    made = {}
                    for way, compiling in plans.items():  # nothing is timed while compilers run
                        try:
                            made[way] = compiling.result()
                        except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                            rows[way] = {"failed": str(error)[-600:]}
                for way, (plan, seconds) in made.items():
                    row = rows[way] = {"compile_s": seconds, "plan_bytes": plan.stat().st_size}
                    try:
                        if time.perf_counter() - began > a.deadline:
                            raise TimeoutError("not run: deadline")
                        if not a.compile_only:
                            row.update(measure(a.sinter, plan, path.with_suffix(".npz")))
                            if "gpu_us" in rows.get("f16", {}):
                                row["speedup"] = round(rows["f16"]["gpu_us"] / row["gpu_us"], 3)
                            judge(size, work, way, row)
                    except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                        row["failed"] = str(error)[-600:]
                    if not a.folder:
                        plan.unlink()
                    print(f"{size}_{work:10} {way:12} {row} ({time.perf_counter() - began:.0f} s)", flush=True)
                    if a.out:
                        write(a.out, result)
                for way in set(rows) & set(ways) - set(made):
                    print(f"{size}_{work:10} {way:12} {rows[way]}", flush=True)


if __name__ == "__main__":
    main()
