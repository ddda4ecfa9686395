#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny transducers of speech (models/export_transducer.py): the tokens, times and texts of `sinter transcribe` are those of the greedy
loop over ONNX Runtime's sessions, with NeMo's spectra by NumPy.

  check_transducers.py --only tdt --target cuda --precision fp16
  check_transducers.py --make      write transducers/*/ and transducers/cases.json (needs torch and onnxruntime)
"""
import argparse
import json
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
from runs import Failed, Sinter, onnx_runtime

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("transducers")
CASES = FOLDER / "cases.json"
RATE, WINDOW, HOP, FFT, MOST_A_FRAME = 16000, 400, 160, 512, 10
# Samples: some no multiple of a hop.
SOUNDS = {"sound": 45678, "odd": 33333, "short": 8017}


def sound(name):
    """Chirps, pauses and noise, 16 bits."""
    count = SOUNDS[name]
    t = np.arange(count) / RATE
    rng = np.random.default_rng(len(name))
    parts = sum(np.sin(2 * np.pi * (f * t + 300 * np.sin(3 * t + f))) * (np.sin(2 * np.pi * r * t) > 0)
                for f, r in zip(rng.uniform(100, 3500, 6), rng.uniform(0.7, 4, 6), strict=True))
    return np.round(3000 * parts + 200 * rng.normal(size=count)).clip(-32768, 32767).astype(np.int16)


def write_wav(path, samples):
    with wave.open(str(path), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(RATE)
        f.writeframes(samples.tobytes())


def mel_filters(bands):
    """Slaney's: [bins, bands]."""
    to_mel = lambda f: np.where(f < 1000, f * 3 / 200, 15 + 27 * np.log(np.maximum(f, 1) / 1000) / np.log(6.4))
    to_hertz = lambda m: np.where(m < 15, m * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (m - 15)))
    edges = to_hertz(np.linspace(0, to_mel(np.array(RATE / 2)), bands + 2))
    at = np.linspace(0, RATE / 2, FFT // 2 + 1)[:, None]
    up, down = (at - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - at) / np.diff(edges)[1:]
    return np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:] - edges[:-2])


def spectrum(samples, bands):
    """NeMo's AudioToMelSpectrogramPreprocessor, normalised per feature: [1, bands, frames] and the frames that count."""
    x = samples.astype(np.float64) / 32768
    x = np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]])
    x = np.pad(x, FFT // 2)
    window = np.pad(np.hanning(WINDOW), (FFT - WINDOW) // 2)
    frames = np.stack([x[i:i + FFT] * window for i in range(0, len(x) - FFT + 1, HOP)])
    logs = np.log(np.abs(np.fft.rfft(frames)) ** 2 @ mel_filters(bands) + 2.0 ** -24)
    length = len(samples) // HOP
    valid = logs[:length]
    logs = (logs - valid.mean(0)) / (valid.std(0, ddof=1) + 1e-5)
    logs[length:] = 0
    return logs.T[None].astype(np.float32), length


def greedy(folder, samples):
    """Tokens, the encoder's frames in which they begin, and how far the second best was behind at the closest."""
    session = lambda *names: next(onnx_runtime(folder / name) for name in names if (folder / name).exists())
    encoder = session("encoder-model.onnx", "encoder.onnx")
    features, length = spectrum(samples, encoder.get_inputs()[0].shape[1])
    encoded, count = encoder.run(None, {"audio_signal": features, "length": np.array([length], np.int64)})
    is_whole = (folder / "decoder_joint-model.onnx").exists()
    decoder = session("decoder_joint-model.onnx", "decoder.onnx")
    joiner = None if is_whole else session("joiner.onnx")
    lines = (folder / ("vocab.txt" if is_whole else "tokens.txt")).read_text().splitlines()
    blank = len(lines) - 1
    state_inputs = [x for x in decoder.get_inputs() if "tates" in x.name or x.name.startswith("onnx::")]
    states = [np.zeros((x.shape[0], 1, x.shape[2]), np.float32) for x in state_inputs]
    tokens, frames, t, here, closest = [], [], 0, 0, np.inf
    while t < count[0]:
        feeds = {"targets": np.array([[tokens[-1] if tokens else blank]], np.int32), "target_length": np.array([1], np.int32),
                 **{x.name: state for x, state in zip(state_inputs, states, strict=True)}}
        frame = encoded[:, :, t:t + 1]
        out = decoder.run(None, {**feeds, "encoder_outputs": frame} if is_whole else feeds)
        logits = out[0] if is_whole else joiner.run(None, {"encoder_outputs": frame, "decoder_outputs": out[0]})[0]
        logits = logits.reshape(-1)
        for part in (logits[:blank + 1], logits[blank + 1:]):
            if len(part):
                best = np.sort(part)[-2:]
                closest = min(closest, best[1] - best[0])
        token = int(logits[:blank + 1].argmax())
        step = int(logits[blank + 1:].argmax()) if len(logits) > blank + 1 else 0
        if token != blank:
            tokens.append(token)
            frames.append(t)
            states = out[-2:]
            here += 1
        if step > 0:
            t, here = t + step, 0
        elif token == blank or here == MOST_A_FRAME:
            t, here = t + 1, 0
    pieces = [line.rpartition(" ")[0] for line in lines]
    text = "".join(pieces[i] for i in tokens).replace("▁", " ").strip()
    return {"tokens": tokens, "frames": frames, "encoded": int(count[0]), "text": text}, float(closest)


def make(only):
    sys.path.insert(0, str(ROOT / "models"))
    from export_transducer import KINDS, export
    cases = json.loads(CASES.read_text()) if CASES.exists() else {}
    for name in KINDS:
        if only and name not in only.split(","):
            continue
        export(name, FOLDER / name)
        cases[name] = {}
        for key in SOUNDS:
            cases[name][key], closest = greedy(FOLDER / name, sound(key))
            print(f"{name} {key}: {len(cases[name][key]['tokens'])} tokens in {cases[name][key]['encoded']} frames, closest {closest:.3f}: "
                  f"{cases[name][key]['text'][:60]}", flush=True)
    CASES.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in cases.items()) + "\n}\n")


def check(sinter, name, cases, folder):
    files = {key: folder / f"{key}.wav" for key in cases}
    for key, path in files.items():
        write_wav(path, sound(key))
    answer = sinter.json("transcribe", FOLDER / name, *files.values(), *sinter.for_target(), "--plan-cache", folder / "plans",
                         "--timestamps")
    for (key, case), found in zip(cases.items(), answer["transcripts"], strict=True):
        tokens = [token for segment in found["segments"] for token in segment["tokens"]]
        if tokens != case["tokens"]:
            raise Failed(f"{key}: {tokens}, should be {case['tokens']}")
        if found["text"].strip() != case["text"]:
            raise Failed(f"{key}: the text is '{found['text']}', should be '{case['text']}'")
        begin = found["segments"][0]["start"] if tokens else 0
        factor = {"rnnt": 4, "tdt": 8}[name]
        if tokens and abs(begin - case["frames"][0] * factor * HOP / RATE) > 1e-6:
            raise Failed(f"{key}: it begins at {begin} s, should be frame {case['frames'][0]}")


def check_refusals(sinter, name, folder):
    """Options of other models, and damaged lists of tokens."""
    broken = folder / "broken.txt"
    for text, options, message in ((None, ["--language", "en"], "--language is of Whisper's models"),
                                   (None, ["--task", "translate"], "--task translate is of Whisper's models"),
                                   ("a 0\nb 2\n", ["--tokenizer", broken], "line 2 of"),
                                   ("a 0\n", ["--tokenizer", broken], "has 1 tokens"),
                                   ("".join(f"a {i}\n" for i in range(99)), ["--tokenizer", broken],
                                    "of range" if name == "tdt" and sinter.target == "cpu" else "chooses among")):
        if text is not None:
            broken.write_text(text)
        try:
            sinter.text("transcribe", FOLDER / name, folder / "short.wav", *sinter.for_target(), "--quiet", "--plan-cache",
                        folder / "plans", *options)
        except Failed as e:
            if message not in str(e):
                raise Failed(f"{options} is answered with {e}") from None
        else:
            raise Failed(f"{options} is accepted")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", help="none: the model's own")
    p.add_argument("--only", help="models, divided by commas")
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make:
        return make(a.only)
    cases, failed = json.loads(CASES.read_text()), 0
    names = [name for name in cases if not a.only or name in a.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        for name in names:
            try:
                check(sinter, name, cases[name], Path(folder))
                check_refusals(sinter, name, Path(folder))
                print(f"ok     {name}", flush=True)
            except Failed as e:
                failed += 1
                print(f"FAILED {name}: {e}", flush=True)
    print(f"{len(names) - failed} of {len(names)} models as they should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
