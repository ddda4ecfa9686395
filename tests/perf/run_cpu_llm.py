#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models on the CPU beside llama.cpp: start, memory, one token at a time, prompts.

  tests/perf/run_cpu_llm.py --make 135m --llama LLAMA/build/bin [--threads 2] [--rounds 5]
  tests/perf/run_cpu_llm.py --models q4_0=FILE.gguf,q8_0=FILE.gguf --threads 2,8,16

--make writes SmolLM2-135M's weights (models/fetch.py smollm2) as F16, Q4_0, Q8_0 and Q4_K_M, or a decoder of a billion
random numbers with SmolLM2's tokenizer (1b), by llama-quantize where --llama has it, else without Q4_K_M; or four layers of
OLMoE's mixture of experts (olmoe), random blocks of Q4_0 and Q8_0. --llama is a folder with
llama-bench, llama-completion and llama-quantize, built for release and this machine; without it only ours is measured.

The programs take turns in every round. `start`: from exec to the exit of a process that continues a prompt of 32 tokens by
one, in a context of --context tokens; ours `first` with an empty cache of plans, then `later`. Its processor's seconds and
its most resident memory stand beside. `decode` and `prompt`: tokens/s of --tokens tokens behind a short prompt and of a
prompt of 512, as each program says. Of rounds the median, and the best, since other work on the machine only ever adds.
--option passes options of `compile` to ours.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import CACHE, ROOT, provenance, write

TEXT = ("The history of the city begins with a small settlement near the river, where people came to trade their "
        "goods. Over the years it grew into a large town with")  # 32 tokens
KINDS = ("F16", "Q4_0", "Q8_0", "Q4_K_M")
SHAPES = {"1b": dict(layers=16, hidden=2048, heads=32, kv_heads=8, intermediate=8192)}
# OLMoE-1B-7B, all but the number of its layers and its tokenizer's vocabulary.
MIXTURES = {"olmoe": dict(layers=4, hidden=2048, heads=16, experts=64, taken=8, intermediate=1024)}


def fields_of(reader):
    """Name, value and types of the metadata that describes a model."""
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type",
                                                         "general.quantization_version"):
            yield name, field.contents(), field.types


def write_f16(path, size):
    """SmolLM2's weights, or random ones of another shape under its tokenizer."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize
    reader = GGUFReader(next((CACHE / "smollm2").glob("*.gguf")))
    writer = GGUFWriter(path, "llama")
    shape = SHAPES.get(size)
    changed = {} if shape is None else {
        "llama.block_count": shape["layers"], "llama.embedding_length": shape["hidden"],
        "llama.attention.head_count": shape["heads"], "llama.attention.head_count_kv": shape["kv_heads"],
        "llama.feed_forward_length": shape["intermediate"],
        "llama.rope.dimension_count": shape["hidden"] // shape["heads"]}
    for name, value, types in fields_of(reader):
        inner = types[-1] if types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, changed.get(name, value), types[0], sub_type=inner)
    writer.add_file_type(1)

    def add(name, array):
        if array.ndim == 1:
            writer.add_tensor(name, array.astype(np.float32))
        else:
            writer.add_tensor(name, array.astype(np.float16), raw_dtype=GGMLQuantizationType.F16)

    if shape is None:
        for tensor in reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type)
            add(tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]))
    else:
        rng = np.random.default_rng(1)
        hidden, inner = shape["hidden"], shape["intermediate"]
        kv = hidden // shape["heads"] * shape["kv_heads"]
        vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())
        matrix = lambda rows, columns: rng.standard_normal((rows, columns), np.float32) / np.sqrt(columns)  # noqa: E731
        add("token_embd.weight", matrix(vocabulary, hidden))
        add("output_norm.weight", np.ones(hidden))
        for i in range(shape["layers"]):
            for name, rows, columns in (("attn_q", hidden, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                                        ("attn_output", hidden, hidden), ("ffn_gate", inner, hidden),
                                        ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)):
                add(f"blk.{i}.{name}.weight", matrix(rows, columns))
            for name in ("attn_norm", "ffn_norm"):
                add(f"blk.{i}.{name}.weight", np.ones(hidden))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_blocks(rng, kind, *shape):
    """Random numbers with a deviation of 1 / sqrt(the last dimension) in blocks of 32 of Q4_0 or Q8_0, as bytes."""
    codes, deviation = (16, 4.6) if kind == "Q4_0" else (32, 73.9)
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // 32, 2 + codes), np.uint8)
    scale = np.float16(shape[-1] ** -0.5 / deviation)
    blocks[..., :2] = np.frombuffer(scale.tobytes(), np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def write_mixture(path, size, kind):
    """A mixture of random weights under SmolLM2's tokenizer."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
    reader = GGUFReader(next((CACHE / "smollm2").glob("*.gguf")))
    shape, rng = MIXTURES[size], np.random.default_rng(1)
    writer = GGUFWriter(path, "olmoe", use_temp_file=True)
    for name, value, types in fields_of(reader):
        if name.startswith("tokenizer."):
            inner = types[-1] if types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, value, types[0], sub_type=inner)
    hidden, inner, experts = shape["hidden"], shape["intermediate"], shape["experts"]
    writer.add_context_length(4096)
    writer.add_block_count(shape["layers"])
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["heads"])
    writer.add_rope_dimension_count(hidden // shape["heads"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(shape["taken"])
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())
    ones = lambda count: np.ones(count, np.float32)  # noqa: E731

    def matrix(name, *dims):
        writer.add_tensor(f"{name}.weight", random_blocks(rng, kind, *dims), raw_dtype=GGMLQuantizationType[kind])

    matrix("token_embd", vocabulary, hidden)
    matrix("output", vocabulary, hidden)
    writer.add_tensor("output_norm.weight", ones(hidden))
    for i in range(shape["layers"]):
        at = f"blk.{i}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(at + name, hidden, hidden)
        for name in ("attn_norm", "attn_q_norm", "attn_k_norm", "ffn_norm"):
            writer.add_tensor(f"{at}{name}.weight", ones(hidden))
        router = rng.standard_normal((experts, hidden), np.float32) * np.float32(4 * hidden**-0.5)
        writer.add_tensor(f"{at}ffn_gate_inp.weight", router)
        matrix(at + "ffn_gate_exps", experts, inner, hidden)
        matrix(at + "ffn_up_exps", experts, inner, hidden)
        matrix(at + "ffn_down_exps", experts, hidden, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_mixtures(folder, size, kinds):
    models = {kind: folder / f"{size}_{kind}.gguf" for kind in ("Q4_0", "Q8_0") if kind in kinds}
    for kind, path in models.items():
        if not path.exists():
            write_mixture(path, size, kind)
    return models


def make_models(folder, size, llama, kinds):
    if size in MIXTURES:
        return make_mixtures(folder, size, kinds)
    whole = folder / f"{size}_F16.gguf"
    if not whole.exists():
        write_f16(whole, size)
    models = {"F16": whole}
    for kind in KINDS[1:]:
        path = folder / f"{size}_{kind}.gguf"
        if not path.exists():
            if not llama:
                continue
            subprocess.run([llama / "llama-quantize", whole, path, kind], check=True, capture_output=True)
        models[kind] = path
    return models


class Timer:
    def __init__(self, folder):
        self.program = folder / "start_time"
        subprocess.run(["cc", "-O1", "-std=gnu99", ROOT / "tests" / "perf" / "start_time.c", "-o", self.program], check=True)

    def run(self, words):
        """Seconds, those of processors, and MB of memory, of one run."""
        done = subprocess.run([self.program, "1", *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr[-2000:]}")
        wall, processor, memory = map(float, done.stdout.split())
        return {"s": wall / 1e6, "processor_s": processor / 1e6, "memory_mb": memory * 1024 / 1e6}


class Ours:
    def __init__(self, binary, threads, context, options, cache):
        self.binary, self.cache = binary, cache
        self.common = [f"--threads={threads}", f"--context={context}", f"--plan-cache={cache}", "--target=cpu",
                       "--no-rates", *options]

    def words(self, model, tokens, text):
        return [self.binary, "generate", model, f"--prompt={text}", f"--max-tokens={tokens}", "--no-stop", "--greedy",
                "--no-generation-config", *self.common]

    def start(self, timer, model, is_first):
        if is_first:
            shutil.rmtree(self.cache, ignore_errors=True)
        return timer.run(self.words(model, 1, TEXT))

    def rates(self, model, tokens):
        def run(count, text):
            done = subprocess.run([*self.words(model, count, text), "--json"], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr[-2000:])
            return json.loads(done.stdout)
        steps, prompt = run(tokens, TEXT), run(1, prompt_text())
        return {"decode": 1e6 / steps["between_tokens_us"]["median"],
                "prompt": prompt["prompt_tokens"] / prompt["first_token_us"] * 1e6}


class Llama:
    def __init__(self, folder, threads, context):
        self.folder, self.threads, self.context = folder, threads, context

    def start(self, timer, model, is_first):
        return timer.run([self.folder / "llama-completion", "-m", model, "-p", TEXT, "-n", 1, "-t", self.threads,
                          "-c", self.context, "--no-warmup", "-no-cnv", "--no-display-prompt", "--temp", 0])

    def rates(self, model, tokens):
        done = subprocess.run([self.folder / "llama-bench", "-m", model, "-t", str(self.threads), "-p", "512", "-n",
                               str(tokens), "-r", "1", "-o", "json"], capture_output=True, text=True, check=True)
        rows = json.loads(done.stdout)
        rate = lambda row: row["avg_ts"]  # noqa: E731
        return {"decode": next(rate(row) for row in rows if row["n_gen"]),
                "prompt": next(rate(row) for row in rows if row["n_prompt"])}


def prompt_text():
    return " ".join([TEXT] * 16)


def summary(runs, best):
    """The median of each figure, and its best."""
    return {key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]} | {
        f"best_{key}": round(best(run[key] for run in runs), 4) for key in runs[0]}


def measure(models, programs, timer, options):
    result = {}
    for name, model in models.items():
        starts, rates = {p: {"first": [], "later": []} for p in programs}, {p: [] for p in programs}
        for _ in range(options.rounds):
            for program, peer in programs.items():
                for when in ("first", "later", "later"):
                    starts[program][when].append(peer.start(timer, model, when == "first"))
            for program, peer in programs.items():
                rates[program].append(peer.rates(model, options.tokens))
        row = {"file_mb": round(Path(model).stat().st_size / 1e6, 1)}
        for program in programs:
            row[program] = {**{when: summary(starts[program][when], min) for when in ("first", "later")},
                            "rates": summary(rates[program], max)}
        result[name] = row
        print(json.dumps({name: row}, indent=1), file=sys.stderr)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", type=Path, default=ROOT / "build" / "bin" / "sinter")
    parser.add_argument("--before", type=Path, help="an earlier binary, which takes turns, too")
    parser.add_argument("--llama", type=Path, help="folder of llama.cpp's programs")
    parser.add_argument("--make", choices=["135m", *SHAPES, *MIXTURES])
    parser.add_argument("--models", help="NAME=FILE,..")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of --make")
    parser.add_argument("--folder", type=Path, help="where --make keeps files (default: a temporary one)")
    parser.add_argument("--threads", default="2", help="N,N,..")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--option", action="append", default=[], help="of `compile`, for a program `option` beside ours")
    parser.add_argument("--results", type=Path, default=ROOT / "tests" / "perf" / "results" / "cpu_llm.json")
    options = parser.parse_args()
    if bool(options.make) == bool(options.models):
        parser.error("give --make or --models")
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if options.make:
            kinds = options.kinds.split(",")
            models = {kind: path for kind, path in make_models(folder, options.make, options.llama, kinds).items() if kind in kinds}
        else:
            models = dict(each.split("=", 1) for each in options.models.split(","))
        timer = Timer(Path(name))
        result = dict(provenance(), model=options.make, rounds=options.rounds, tokens=options.tokens,
                      context=options.context, load=round(os.getloadavg()[0], 1), threads={})
        for threads in map(int, options.threads.split(",")):
            ours = lambda binary, words, at: Ours(binary, threads, options.context, words, Path(name) / at)  # noqa: E731,B023
            programs = {"sinter": ours(options.sinter.resolve(), [], "cache")}
            if options.option:
                programs["option"] = ours(options.sinter.resolve(), options.option, "cache_option")
            if options.before:
                programs["before"] = ours(options.before.resolve(), [], "cache_before")
            if options.llama:
                programs["llama"] = Llama(options.llama, threads, options.context)
            result["threads"][str(threads)] = measure(models, programs, timer, options)
    write(options.results, result)


if __name__ == "__main__":
    main()
