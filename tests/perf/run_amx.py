#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encoders on the CPU in float32, bfloat16 and int8: what AVX512_BF16, VNNI and AMX bring.

  tests/perf/run_amx.py --threads 16 --out tests/perf/results/cpu_amx.json

BERT-base and an encoder of MiniLM's size with seeded random weights, whose values do not change what they cost. Forms take
turns: float32, --precision bf16, --precision int8 with static scales and by token, and, where it is installed, ONNX
Runtime in float32 and with its dynamic int8. Times are medians of the turns' medians, in microseconds; `over_float32` is
our float32's time over the row's. Errors are of the form's output against our float32's: of random weights, so they say only
that nothing is broken. The file is written after every row.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

from common import ROOT, provenance, write
from runs import Failed, Sinter, onnx_runtime, relative_error

sys.path.insert(0, str(ROOT / "models"))
from bert_onnx import Config, Encoder, random_weights  # noqa: E402

MODELS = {"minilm": Config(6, 384, 12, 1536), "bert_base": Config(12, 768, 12, 3072)}
SHAPES = ((1, 128), (8, 128))
EIGHT_BITS = ("--precision=int8", "--max-error=100", "--weight-rounding=nearest")
FORMS = {"float32": (), "bf16": ("--precision=bf16",), "int8_static": EIGHT_BITS,
         "int8_token": (*EIGHT_BITS, "--activation-scales=token")}
FLAGS = ("avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16")


def inputs_of(batch, length):
    rng = np.random.default_rng(0)
    return {"input_ids": rng.integers(0, 30522, (batch, length)), "attention_mask": np.ones((batch, length), np.int64),
            "token_type_ids": np.zeros((batch, length), np.int64)}


def timed_session(model, threads, feeds, runs):
    """ONNX Runtime's median; the session is made anew, so that its threads do not spin beside ours."""
    session = onnx_runtime(model, threads)
    for _ in range(3):
        session.run(None, feeds)
    samples = []
    for _ in range(runs):
        began = time.perf_counter()
        session.run(None, feeds)
        samples.append((time.perf_counter() - began) * 1e6)
    return float(np.median(samples))


def onnx_runtime_forms(model, folder):
    """Paths by form; none without ONNX Runtime, and no int8 without its quantizer's needs."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return {}
    forms = {"onnxruntime_float32": model}
    try:
        from onnxruntime.quantization import quantize_dynamic
        quantized = folder / f"{model.stem}_ort_int8.onnx"
        quantize_dynamic(model, quantized)
        forms["onnxruntime_int8"] = quantized
    except ImportError as error:
        print(f"no quantizer of ONNX Runtime's: {error}", flush=True)
    return forms


def measure(a, command, model, shape, row, save):
    """All forms of a model for inputs of one shape, in turns."""
    feeds = inputs_of(*shape)
    inputs, plans, outputs, times = command.save(feeds), {}, {}, {}
    for form, options in FORMS.items():
        read = ["--calibration", inputs] if form == "int8_static" else []
        try:
            plans[form] = command.compile(model, *options, *read, "--dim", f"batch={shape[0]}", "--dim", f"seq={shape[1]}",
                                          name=form)
            outputs[form] = next(iter(command.run(plans[form], feeds).values()))
            row[form] = {"relative_error": relative_error(outputs[form], outputs["float32"])}
        except Failed as error:
            row[form] = {"failed": str(error)[-400:]}
    others = onnx_runtime_forms(model, command.folder)
    for turn in range(a.turns):
        for form, plan in plans.items():
            bench = command.json("bench", plan, "--inputs", inputs, f"--threads={a.threads}", "--iterations=50",
                                 "--duration=1", "--warmUp=3")
            times.setdefault(form, []).append(bench["latency_us"]["median"])
        for form, path in others.items():
            times.setdefault(form, []).append(timed_session(path, a.threads, feeds, 10))
        for form, found in times.items():
            row.setdefault(form, {}).update(us=round(float(np.median(found)), 1), turns_us=[round(t, 1) for t in found])
        for form in times:
            row[form]["over_float32"] = round(row["float32"]["us"] / row[form]["us"], 3)
        save()
        if time.perf_counter() - a.start > a.deadline:
            break
    print(f"{model.stem} {shape[0]} x {shape[1]}: " + ", ".join(
        f"{form} {each['us']} us" if "us" in each else f"{form} {each}" for form, each in row.items()), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--threads", type=int, default=16)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--deadline", type=float, default=130, help="seconds after which no new turn starts")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    a.start = time.perf_counter()
    flags = next((line.split() for line in open("/proc/cpuinfo") if line.startswith("flags")), [])
    doctor = subprocess.run([a.sinter, "doctor"], capture_output=True, text=True).stdout
    processor = next((line.strip() for line in doctor.splitlines() if "processor" in line), "")
    rows = {}
    result = {**provenance(a.commit), "threads": a.threads, "flags": [f for f in FLAGS if f in flags],
              "doctor": processor, "models": rows}
    print(f"{result['cpu']}: {', '.join(result['flags'])}; {processor}", flush=True)

    def save():
        if a.out:
            write(a.out, result)
    with tempfile.TemporaryDirectory() as folder:
        for name in a.models.split(","):
            config, model = MODELS[name], Path(folder) / f"{name}.onnx"
            onnx.save(Encoder(config, random_weights(config, 30522, 512), "current").model(), model)
            for shape in SHAPES:
                if time.perf_counter() - a.start < a.deadline:
                    row = rows[f"{name}_{shape[0]}x{shape[1]}"] = {}
                    measure(a, Sinter(a.sinter, folder, "cpu", None), model, shape, row, save)
    save()


if __name__ == "__main__":
    main()
