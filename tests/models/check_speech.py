#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sinter transcribe` with Whisper base: sentences that eSpeak NG says, and the share of words that is wrong.

  check_speech.py                                     ten sentences on the CPU, float32
  check_speech.py --sentences 3
  check_speech.py --target cuda:sm_90 --precision fp16
  check_speech.py --make FOLDER                       only writes the sounds, which --sounds FOLDER takes elsewhere
  check_speech.py --reference                         the same texts as faster-whisper, which must be installed, greedily

models/fetch.py whisper_base brings the model. The voice is a machine's, and Whisper base takes some of its words for others:
it gets 5 % wrong, as faster-whisper does. A model that is broken gets all wrong.
"""
import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402
from runs import Sinter  # noqa: E402

CACHE = ROOT / "models" / "cache"
TOKENIZER = CACHE / "whisper_base_tokenizer.json"
VOICE, WORDS_A_MINUTE, RATE, SILENCE = "en-us+f3", 140, 16000, 0.5
SENTENCES = ["The weather today is warm and sunny.", "She bought three apples and a bottle of milk.",
             "We will meet at the station tomorrow morning.", "The children are playing in the garden.",
             "He has worked in this company for ten years.", "Please open the window because the room is hot.",
             "My brother is reading a book about history.", "The train to London leaves in twenty minutes.",
             "I would like a cup of coffee with sugar.", "They are building a new school near the river."]
MOST_WRONG = 0.25
NUMBERS = {"3": "three", "10": "ten", "20": "twenty"}


def speak(text):
    """int16 at 16 kHz: what eSpeak says, between silences."""
    said = subprocess.run(["espeak-ng", "-v", VOICE, "-s", str(WORDS_A_MINUTE), "--stdout", text], capture_output=True,
                          check=True).stdout
    # The length in the header of what is written to a pipe is made up.
    with wave.open(io.BytesIO(said)) as file:
        rate, start = file.getframerate(), said.index(b"data") + 8
    samples = np.frombuffer(said[start:start + (len(said) - start) // 2 * 2], "<i2").astype(np.float64)
    count = len(samples) * RATE // rate
    samples = np.fft.irfft(np.fft.rfft(samples)[:count // 2 + 1], count) * count / len(samples)
    silence = np.zeros(int(RATE * SILENCE))
    return np.clip(np.round(np.concatenate([silence, samples, silence])), -32768, 32767).astype("<i2")


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())


def make(folder, count):
    """A file for each sentence, and one of all of them, which is longer than a window."""
    folder.mkdir(parents=True, exist_ok=True)
    said = [speak(text) for text in SENTENCES[:count]]
    for i, samples in enumerate(said):
        write_wav(folder / f"{i:02}.wav", samples)
    write_wav(folder / "all.wav", np.concatenate(said))
    (folder / "sentences.json").write_text(json.dumps(SENTENCES[:count]) + "\n")


def words(text):
    return [NUMBERS.get(word, word) for word in re.findall(r"[a-z0-9']+", text.lower())]


def distance(found, wanted):
    """Words to be changed, added or removed."""
    row = list(range(len(wanted) + 1))
    for i, a in enumerate(found, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(wanted, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def share_wrong(found, wanted):
    """Of the words of all texts."""
    return sum(distance(words(a), words(b)) for a, b in zip(found, wanted)) / sum(len(words(b)) for b in wanted)


def compile_pair(sinter, half=False):
    """Plans of encoder and decoder."""
    suffix = "_half" if half else ""
    encoder = sinter.compile(CACHE / f"whisper_base_encoder{suffix}.onnx")
    decoder = sinter.compile(CACHE / f"whisper_base_decoder{suffix}.onnx", "--serve")
    return encoder, decoder


def transcribe(sinter, plans, files, *options, tokenizer=TOKENIZER):
    encoder, decoder = plans
    return sinter.json("transcribe", decoder, *files, "--encoder", encoder, "--tokenizer", tokenizer, *options)


def files_of(folder):
    sentences = json.loads((folder / "sentences.json").read_text())
    return sentences, [folder / f"{i:02}.wav" for i in range(len(sentences))]


def by_faster_whisper(files):
    from faster_whisper import WhisperModel
    model = WhisperModel(str(CACHE / "whisper_base"), device="cpu", compute_type="float32")
    for file in files:
        is_long = file.name == "all.wav"
        segments, _ = model.transcribe(str(file), beam_size=1, temperature=0, language="en", without_timestamps=not is_long)
        yield "".join(segment.text for segment in segments).strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--sentences", type=int, default=len(SENTENCES), help="how many")
    p.add_argument("--sounds", type=Path, help="folder of --make; without it the sounds are made")
    p.add_argument("--make", type=Path)
    p.add_argument("--reference", action="store_true")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    if a.make:
        return make(a.make, a.sentences)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        sounds = a.sounds or Path(folder) / "sounds"
        if not a.sounds:
            make(sounds, a.sentences)
        sentences, files = files_of(sounds)
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        plans = compile_pair(sinter, half=a.precision == "fp16")
        short = transcribe(sinter, plans, files, "--language", "en")
        long = transcribe(sinter, plans, [sounds / "all.wav"], "--timestamps")
        texts, whole = [each["text"] for each in short["transcripts"]], long["transcripts"][0]
        for text, sentence in zip(texts, sentences):
            print(f"{'ok    ' if words(text) == words(sentence) else 'differs'} {sentence} -> {text}", flush=True)
        wrong, wrong_long = share_wrong(texts, sentences), share_wrong([whole["text"]], [" ".join(sentences)])
        print(f"{100 * wrong:.1f} % of the words are wrong; {100 * wrong_long:.1f} % of {whole['duration']:.1f} s in one piece, "
              f"in {len(whole['segments'])} segments; most {100 * MOST_WRONG:.0f} %")
        print(f"encoder {short['encoder_us']['median'] / 1e3:.1f} ms a window, first token "
              f"{short['first_token_us']['median'] / 1e3:.1f} ms, between tokens {short['between_tokens_us']['median'] / 1e3:.2f} ms"
              f" (medians)")
        for what, share in (("sentences", wrong), ("one piece", wrong_long)):
            if share > MOST_WRONG:
                failed.append(f"{what}: {100 * share:.1f} % of the words are wrong")
        if whole["language"] != "en":
            failed.append(f"the language is {whole['language']}, not en")
        if a.reference:
            for file, text, other in zip([*files, sounds / "all.wav"], [*texts, whole["text"]],
                                         by_faster_whisper([*files, sounds / "all.wav"])):
                same = text == other
                print(f"{'same   ' if same else 'differs'} {file.name}" + ("" if same else f": faster-whisper has {other}"))
                if not same and file.name != "all.wav":
                    failed.append(f"{file.name} differs from faster-whisper's text")
    for line in failed:
        print(f"FAILED {line}")
    if a.out:
        figures = {key: short[key] for key in ("encoder_us", "first_token_us", "between_tokens_us", "times_real_time")}
        write(a.out, {**provenance(a.commit), "target": a.target, "precision": a.precision, "wrong": wrong,
                      "wrong_in_one_piece": wrong_long, "texts": texts, "text_in_one_piece": whole["text"], **figures})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
