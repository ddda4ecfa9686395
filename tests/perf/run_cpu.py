#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU figures: compile times, chains fused against unfused, models against ONNX Runtime.

  tests/perf/run_cpu.py --threads 2 --out tests/perf/results/cpu.json
  tests/perf/run_cpu.py --only chains

ONNX Runtime and Sinter take turns in one run, with the same model, inputs and number of threads. Chains are also
measured against a copy of as many bytes: the faster of NumPy's, by as many threads, and of a plan of one operator
(Neg). Recorded are the median of the rounds' medians and the best run of all: what else runs on the machine only ever
adds to a time. BERT-base has seeded random weights, whose values do not change what it costs; on a processor with AMX
it is also compiled to bfloat16, against our float32.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from common import CACHE, ROOT, provenance, sinter_json, write
from runs import Sinter, onnx_runtime

sys.path.insert(0, str(ROOT / "models"))
import magika_inputs  # noqa: E402
from bert_onnx import Config, Encoder, random_weights  # noqa: E402
import quantized_networks  # noqa: E402
import real_inputs  # noqa: E402

ZOO = ("magika", "ppocr_det", "ppocr_rec", "silero_vad", "light_resnet50", "minilm")
CHAINS = ("chain_ln_relu_add", "chain_sin4", "chain_softmax_mask", "chain_bias_gelu_rms")


def compile_times(sinter, folder):
    """Seconds of wall time of whole `sinter compile` processes, median of three."""
    model, cache = CACHE / "minilm.onnx", folder / "kernels"

    def timed(*options, cold):
        seconds = []
        for _ in range(3):
            if cold:
                shutil.rmtree(cache, ignore_errors=True)
            began = time.perf_counter()
            subprocess.run([sinter, "compile", model, "-o", folder / "timed.plan", "--quiet",
                            f"--kernel-cache={cache}", *options], check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        return round(float(np.median(seconds)), 3)

    gpu = ("--target=cuda:sm_90", "--precision=fp16")
    return {"cpu": timed("--target=cpu", cold=False), "cuda_sm_90_cold": timed(*gpu, cold=True),
            "cuda_sm_90_warm": timed(*gpu, cold=False)}


def against_onnx_runtime(sinter, folder, threads, model, feeds, options=(), turns=5, runs=60):
    command = Sinter(sinter, folder)
    plan, inputs = command.compile(model, *options, name="timed"), command.save(feeds)
    ours, theirs = [], []
    for _ in range(turns):
        bench = command.json("bench", plan, "--inputs", inputs, f"--threads={threads}", f"--iterations={runs}",
                             "--duration=2")
        ours.append(bench["latency_us"]["median"])
        session = onnx_runtime(model, threads)  # made anew, so that its threads do not spin beside ours
        for _ in range(5):
            session.run(None, feeds)
        samples = []
        for _ in range(runs):
            began = time.perf_counter()
            session.run(None, feeds)
            samples.append((time.perf_counter() - began) * 1e6)
        theirs.append(float(np.median(samples)))
        del session
    return {"sinter_us": round(float(np.median(ours)), 1), "onnxruntime_us": round(float(np.median(theirs)), 1),
            "ratio": round(float(np.median(ours) / np.median(theirs)), 3),
            "ratio_of_best_turns": round(min(ours) / min(theirs), 3), "turns_sinter_us": ours,
            "turns_onnxruntime_us": theirs}


def time_us(function, runs):
    """Median and least."""
    samples = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        samples.append((time.perf_counter() - began) * 1e6)
    return float(np.median(samples)), min(samples)


def copier(array, threads):
    """A function that copies `array` by that many threads, which wait for their turn in between."""
    target = np.empty_like(array)
    parts = list(zip(np.array_split(target, threads), np.array_split(array, threads)))
    start, done = threading.Barrier(threads), threading.Barrier(threads)

    def work(part):
        while True:
            start.wait()
            np.copyto(*part)
            done.wait()

    for part in parts[1:]:
        threading.Thread(target=work, args=(part,), daemon=True).start()

    def copy():
        start.wait()
        np.copyto(*parts[0])
        done.wait()
    return copy


def bound_onnx_runtime(model, threads, feeds):
    """A function that runs the model with inputs and outputs bound once, as ours are."""
    session = onnx_runtime(model, threads)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_shape_and_type(
            output.shape, np.float32))
    return lambda: session.run_with_iobinding(binding)


def chains(sinter, folder, threads, rows=1024, cols=4096, rounds=9, runs=40):
    subprocess.run([sys.executable, ROOT / "models" / "chains.py", "--out", folder / "chains", "--dtype=f32",
                    f"--rows={rows}", f"--cols={cols}"], check=True)
    copy_model = folder / "copy.onnx"
    infos = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [rows, cols]) for n in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "copy", infos[:1], infos[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9), copy_model)
    command, rng = Sinter(sinter, folder), np.random.default_rng(0)
    array = rng.standard_normal((rows, cols)).astype(np.float32)
    copy, copy_plan = copier(array, threads), command.compile(copy_model)
    models, times = {c: folder / "chains" / f"{c}.onnx" for c in CHAINS}, {}
    plans = {c: command.compile(model) for c, model in models.items()}

    def ours(plan):
        bench = command.json("bench", plan, f"--threads={threads}", f"--iterations={runs}", "--duration=2")
        return bench["compute_us"]["median"], bench["compute_us"]["min"]

    for _ in range(rounds):
        times.setdefault("numpy", []).append(time_us(copy, runs))
        times.setdefault("plan", []).append(ours(copy_plan))
        for chain in CHAINS:
            times.setdefault(chain, []).append(ours(plans[chain]))
            shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim]
                      for i in onnx.load(models[chain]).graph.input}
            feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
            theirs = bound_onnx_runtime(models[chain], threads, feeds)
            time_us(theirs, 3)
            times.setdefault(chain + " onnxruntime", []).append(time_us(theirs, runs))
            del theirs
    middle = {name: float(np.median([m for m, _ in samples])) for name, samples in times.items()}
    best = {name: min(least for _, least in samples) for name, samples in times.items()}
    copied = 2 * array.nbytes
    result = {"bytes_of_a_copy": copied, "rounds": rounds}
    for which, figures in (("median", middle), ("best", best)):
        result[f"copy_GBps_{which}"] = {name: round(copied / figures[name] / 1e3, 1) for name in ("numpy", "plan")}
    for chain in CHAINS:
        graph = onnx.load(models[chain]).graph
        moved = sum(int(np.prod([d.dim_value for d in v.type.tensor_type.shape.dim])) * 4
                    for v in (*graph.input, *graph.output))
        row = {}
        for which, figures in (("median", middle), ("best", best)):
            copy_us = min(figures["numpy"], figures["plan"]) * moved / copied
            row[which] = {"sinter_us": round(figures[chain], 1),
                          "onnxruntime_us": round(figures[chain + " onnxruntime"], 1),
                          "ratio": round(figures[chain] / figures[chain + " onnxruntime"], 3),
                          "share_of_copy_bandwidth": round(copy_us / figures[chain], 3),
                          "copy_us": round(copy_us, 1)}
            print(f"{chain}, {which}: {row[which]}", flush=True)
        r = sinter_json(sinter, "compare", models[chain], "--target=cpu", f"--threads={threads}", "--rounds=40")
        fused, unfused = (r["variants"][v]["compute_us"]["median"] for v in ("fused", "unfused"))
        row |= {"bytes": moved, "unfused_over_fused": round(unfused / fused, 2),
                "agree_within": r["fused_against_unfused_error"]}
        result[chain] = row
    return result


def bert_base(sinter, folder, threads):
    """Batch 1 x 128: float32 against ONNX Runtime and, where the processor has AMX, bfloat16 against float32."""
    config, model = Config(12, 768, 12, 3072), folder / "bert_base.onnx"
    onnx.save(Encoder(config, random_weights(config, 30522, 512), "current").model(), model)
    feeds = minilm_feeds(1, 128)
    row = against_onnx_runtime(sinter, folder, threads, model, feeds, turns=7, runs=10)
    flags = next((line.split() for line in open("/proc/cpuinfo") if line.startswith("flags")), [])
    row["amx_bf16"] = "amx_bf16" in flags
    if row["amx_bf16"]:
        command = Sinter(sinter, folder, precision="bf16")
        plan, inputs = command.compile(model, name="bf16"), command.save(feeds)
        bench = command.json("bench", plan, "--inputs", inputs, f"--threads={threads}")
        row["bf16_us"] = bench["latency_us"]["median"]
        row["float32_over_bf16"] = round(row["sinter_us"] / row["bf16_us"], 2)
    print(f"BERT-base 1 x 128: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, {row['ratio']}x its time, "
          f"best turns {row['ratio_of_best_turns']}x; AMX for bfloat16: {row['amx_bf16']}", flush=True)
    return row


def quantized(sinter, folder, threads):
    """8-bit networks of random weights; MiniLM also against our float32. BERT has 128 tokens, MiniLM 8 x 64."""
    rows = {}
    for name in quantized_networks.NETWORKS:
        path = quantized_networks.make(name, folder)
        feeds = quantized_networks.feeds(name, *((8, 64) if name.startswith("minilm") else ()))
        row = rows[name] = against_onnx_runtime(sinter, folder, threads, path, feeds, turns=5, runs=15)
        if name.startswith("minilm"):
            wide = against_onnx_runtime(sinter, folder, threads, folder / f"{name}_float.onnx", feeds, turns=5, runs=15)
            row["float32_sinter_us"] = wide["sinter_us"]
            row["float32_over_int8"] = round(wide["sinter_us"] / row["sinter_us"], 2)
        print(f"{name}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, {row['ratio']}x its time, best "
              f"turns {row['ratio_of_best_turns']}x", flush=True)
    return rows


def minilm_feeds(batch, seq=64):
    rng = np.random.default_rng(0)
    return {"input_ids": rng.integers(0, 30522, (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64),
            "token_type_ids": np.zeros((batch, seq), np.int64)}


def zoo_feeds(name):
    """One real input of a model, with the state that it starts from."""
    if name == "magika":
        return magika_inputs.encode([ROOT / "README.md"], magika_inputs.config())
    feeds = real_inputs.INPUTS[name]()[0]
    return {**feeds, **{key: np.zeros(shape, np.float32) for key, shape in real_inputs.STATE.get(name, {}).values()}}


def zoo(sinter, folder, threads):
    manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
    rows = {}
    for name in ZOO:
        feeds = minilm_feeds(1) if name == "minilm" else zoo_feeds(name)
        rows[name] = against_onnx_runtime(sinter, folder, threads, CACHE / f"{name}.onnx", feeds,
                                          manifest[name].get("options", []), turns=3, runs=30)
        print(f"{name}: {rows[name]['sinter_us']} us, ONNX Runtime {rows[name]['onnxruntime_us']} us, "
              f"{rows[name]['ratio']}x its time", flush=True)
    mean = float(np.exp(np.mean([np.log(r["ratio"]) for r in rows.values()])))
    print(f"geometric mean {mean:.3f}", flush=True)
    return {"geometric_mean": round(mean, 3), "models": rows}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--only", choices=["chains", "bert", "quantized"], help="measure nothing else")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "cpu.json"))
    a = p.parse_args()
    result = {**provenance(), "threads": a.threads, "onnxruntime": onnxruntime.__version__}
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        if a.only == "bert":
            return write(a.out, result | {"bert_base_1x128_against_onnxruntime": bert_base(a.sinter, folder, a.threads)})
        if a.only == "quantized":
            return write(a.out, result | {"quantized_against_onnxruntime": quantized(a.sinter, folder, a.threads)})
        if a.only != "chains":
            result["compile_seconds"] = compile_times(a.sinter, folder)
            print("compile seconds", result["compile_seconds"], flush=True)
        result["chains_1024x4096_f32"] = chains(a.sinter, folder, a.threads)
        if a.only == "chains":
            return write(a.out, result)
        result["minilm_seq64_against_onnxruntime"] = {}
        for batch in (1, 8):
            row = against_onnx_runtime(a.sinter, folder, a.threads, CACHE / "minilm.onnx", minilm_feeds(batch))
            result["minilm_seq64_against_onnxruntime"][f"batch_{batch}"] = row
            print(f"minilm batch {batch}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, "
                  f"{row['ratio']}x its time", flush=True)
        result["bert_base_1x128_against_onnxruntime"] = bert_base(a.sinter, folder, a.threads)
        result["quantized_against_onnxruntime"] = quantized(a.sinter, folder, a.threads)
        result["models_batch_1_against_onnxruntime"] = zoo(a.sinter, folder, a.threads)
    write(a.out, result)


if __name__ == "__main__":
    main()
