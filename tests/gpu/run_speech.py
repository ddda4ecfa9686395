#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whisper base on a GPU: sentences as texts, compared with the CPU's; times of encoder, first token and single tokens.

  run_speech.py --prepare FOLDER                      where the CPU is: sounds, the CPU's texts, models and tokenizer
  run_speech.py --folder FOLDER --sinter BIN --target cuda:sm_90 --out speech_h100.json

The second needs NumPy, FOLDER, this repository's tests/gpu, tests/models and tests/perf, and BIN with its libraries. It
compiles both models for the GPU, in the precision of --precision (fp16). It fails if more than one text in five differs from
the CPU's, or more words are wrong than tests/models/check_speech.py allows.
"""
import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "models"), str(ROOT / "tests" / "perf")]
import check_speech  # noqa: E402
from common import output_of, provenance, write  # noqa: E402
from runs import Sinter  # noqa: E402

MOST_DIFFERENT = 0.2
ENCODERS = ("whisper_base_encoder.onnx", "whisper_base_encoder_half.onnx")
DECODERS = ("whisper_base_decoder.onnx", "whisper_base_decoder_half.onnx")
TIMES = ("encoder_us", "first_token_us", "between_tokens_us", "times_real_time", "load_us")


def prepare(a):
    check_speech.make(a.prepare, len(check_speech.SENTENCES))
    for name in (*ENCODERS, *DECODERS, check_speech.TOKENIZER.name):
        shutil.copyfile(check_speech.CACHE / name, a.prepare / name)
    sentences, files = check_speech.files_of(a.prepare)
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder)
        plans = check_speech.compile_pair(sinter)
        run = lambda *words: check_speech.transcribe(sinter, plans, *words)
        short = run(files, "--language", "en")
        long = run([a.prepare / "all.wav"], "--timestamps")
    texts = [each["text"] for each in short["transcripts"]]
    (a.prepare / "cpu.json").write_text(json.dumps({"texts": texts, "long": long["transcripts"][0]["text"],
                                                    **{key: short[key] for key in TIMES}}, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--prepare", type=Path)
    p.add_argument("--folder", type=Path)
    p.add_argument("--target", default="cuda")
    p.add_argument("--precision", default="fp16")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    if bool(a.prepare) == bool(a.folder):
        p.error("give --prepare FOLDER or --folder FOLDER")
    if a.prepare:
        return prepare(a)
    sentences, files = check_speech.files_of(a.folder)
    cpu = json.loads((a.folder / "cpu.json").read_text())
    check_speech.CACHE = a.folder
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        plans = check_speech.compile_pair(sinter, half=a.precision == "fp16")
        run = lambda *words: check_speech.transcribe(sinter, plans, *words, tokenizer=a.folder / check_speech.TOKENIZER.name)
        short = run(files, "--language", "en")
        long = run([a.folder / "all.wav"], "--timestamps")
    texts = [each["text"] for each in short["transcripts"]]
    different = [i for i, (ours, theirs) in enumerate(zip(texts, cpu["texts"])) if ours != theirs]
    wrong = check_speech.share_wrong(texts, sentences)
    for i in different:
        print(f"differs: '{texts[i]}', on the CPU '{cpu['texts'][i]}'")
    print(f"{len(texts) - len(different)} of {len(texts)} texts are the CPU's; {100 * wrong:.1f} % of the words are wrong; encoder "
          f"{short['encoder_us']['median'] / 1e3:.2f} ms, first token {short['first_token_us']['median'] / 1e3:.2f} ms, between "
          f"tokens {short['between_tokens_us']['median'] / 1e3:.3f} ms")
    result = {**provenance(a.commit),
              "cuda": (re.findall(r"CUDA Version: ([0-9.]+)", output_of("nvidia-smi")) or [None])[0],
              "target": a.target, "precision": a.precision, "texts": texts, "differ_from_cpu": different, "wrong": wrong,
              "long_text": long["transcripts"][0]["text"], "long_same_as_cpu": long["transcripts"][0]["text"] == cpu["long"],
              "long_times_real_time": long["times_real_time"], **{key: short[key] for key in TIMES},
              "cpu": {key: cpu[key] for key in TIMES}}
    if a.out:
        write(a.out, result)
    is_wrong = len(different) > MOST_DIFFERENT * len(texts) or wrong > check_speech.MOST_WRONG
    print("FAILED" if is_wrong else "ok")
    sys.exit(1 if is_wrong else 0)


if __name__ == "__main__":
    main()
