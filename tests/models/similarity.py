#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lowered MiniLM ranks real sentences as float32 does.

  tests/models/similarity.py --target cuda --out tests/gpu/results/similarity_fp16.json
  tests/models/similarity.py --precision int8 --out tests/models/results/similarity_int8_cpu.json
  tests/models/similarity.py --precision model --attention-precision fp8

Two hundred pairs of sentences, each with the one that follows it, are taken from the Python Language Reference,
which is part of every Python (pydoc_data.topics, PSF licence). The matrix of the cosine similarities of all
first with all second sentences, from a plan in lower precision, is compared with ONNX Runtime's in float32:
Spearman's rank correlation over all its entries, for each sentence whether the nearest one is the same, and the cosine of
its two embeddings. int8 and fp8 are calibrated on 64 sentences of other topics (models/sentences_calibration.txt). fp8 on
the CPU is emulated: products in float32 of operands that are rounded as the GPU rounds them.
"""
import argparse
import hashlib
import re
import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
import minilm_inputs  # noqa: E402
from common import provenance, write  # noqa: E402
from runs import Sinter, onnx_runtime, relative_error  # noqa: E402

MODEL = ROOT / "models" / "cache" / "minilm.onnx"
# Spearman's correlation, and the cosine of each sentence.
LEAST = {"fp16": (0.9999, 0.9999), "bf16": (0.999, 0.999), "model": (0.999999, 0.999999), "int8": (0.995, 0.995),
         "fp8": (0.999, 0.999)}
BATCH = 32
CALIBRATION = ROOT / "models" / "sentences_calibration.txt"
SAMPLES = 8  # batches of calibration sentences


def sentences_of(text):
    """Prose alone: paragraphs without code, lists or grammar."""
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        if paragraph.startswith(" ") or not re.match(r"[A-Z]", line) or re.search(r"::=|\*\*\*|===|>>>|[{}|]", line):
            continue
        yield [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z])", line)
               if 30 <= len(s) <= 300 and s[-1] in ".!?" and len(s.split()) >= 6]


def sentence_pairs(count):
    """Spread over all topics; every sentence once."""
    pairs, seen = [], set()
    for name in sorted(topics):
        for sentences in sentences_of(topics[name]):
            for pair in zip(sentences, sentences[1:]):
                if not seen & set(pair):
                    seen.update(pair)
                    pairs.append(pair)
    if len(pairs) < count:
        raise SystemExit(f"this Python's reference has {len(pairs)} pairs of sentences, {count} are wanted")
    return [pairs[i * len(pairs) // count] for i in range(count)]


def embed(sentences, run):
    """Embeddings in the sentences' order; batches are of similar length."""
    tokenizer = minilm_inputs.tokenizer()
    order = np.argsort([len(s) for s in sentences], kind="stable")
    result = None
    for start in range(0, len(order), BATCH):
        chosen = order[start:start + BATCH]
        found = run(minilm_inputs.encode([sentences[i] for i in chosen], tokenizer))
        if result is None:
            result = np.empty((len(sentences), found.shape[1]))
        result[chosen] = found
    return result


def calibration_options(folder, a):
    """The samples, and what else the precision takes."""
    attention = a.attention_precision == "fp8"
    if a.precision not in ("int8", "fp8") and not attention:
        return []
    feeds = minilm_inputs.encode(CALIBRATION.read_text().splitlines(), minilm_inputs.tokenizer())
    path = Path(folder) / "samples.npz"
    np.savez(path, **{name: rows.reshape(SAMPLES, -1, rows.shape[1]) for name, rows in feeds.items()})
    emulate = ["--emulate"] if a.target == "cpu" and "fp8" in (a.precision, a.attention_precision) else []
    return ["--calibration", path, *emulate, *(["--attention-precision=fp8"] if attention else []), *a.options]


def cosines(found, expected):
    return (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)


def ranks(values):
    """Places in ascending order; equal values share the mean of theirs."""
    flat = values.ravel()
    order = np.argsort(flat, kind="stable")
    places = np.empty(flat.size)
    places[order] = np.arange(flat.size)
    _, group, sizes = np.unique(flat, return_inverse=True, return_counts=True)
    return (np.bincount(group, places) / sizes)[group]


def spearman(a, b):
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="fp16", choices=list(LEAST))
    p.add_argument("--attention-precision", default="model", choices=("model", "fp8"))
    p.add_argument("--pairs", type=int, default=200)
    p.add_argument("--options", nargs="*", default=[], help="more for sinter compile, such as --options=--smooth=off")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the result as JSON")
    a = p.parse_args()
    pairs = sentence_pairs(a.pairs)
    sentences = [s for pair in pairs for s in pair]
    session = onnx_runtime(MODEL)
    expected = embed(sentences, lambda feeds: session.run(None, feeds)[0])
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        plan = sinter.compile(MODEL, *calibration_options(folder, a))
        found = embed(sentences, lambda feeds: sinter.run(plan, feeds)["sentence_embedding"])
    matrices = [e[0::2] @ e[1::2].T for e in (found, expected)]
    correlation = spearman(*matrices)
    nearest = float(np.mean(matrices[0].argmax(1) == matrices[1].argmax(1)))
    least_correlation, least_cosine = LEAST["fp8" if a.attention_precision == "fp8" else a.precision]
    cosine = cosines(found, expected)
    ok = bool(np.isfinite(found).all() and correlation >= least_correlation and cosine.min() >= least_cosine)
    text = "\n".join(sentences)
    result = dict(**provenance(a.commit), model=MODEL.name, target=a.target, precision=a.precision,
                  sentences=dict(pairs=len(pairs), source="Python Language Reference, pydoc_data.topics",
                                 python=sys.version.split()[0], sha256=hashlib.sha256(text.encode()).hexdigest(),
                                 example=pairs[0]),
                  attention_precision=a.attention_precision, options=a.options, spearman=correlation, least=least_correlation,
                  cosine=dict(min=float(cosine.min()), mean=float(cosine.mean())), least_cosine=least_cosine,
                  same_nearest=nearest,
                  relative_error=relative_error(found, expected),
                  largest_difference=float(np.abs(matrices[0] - matrices[1]).max()), ok=ok)
    print(f"{'ok' if ok else 'FAILED'}: {len(pairs)} pairs, {a.precision} on {a.target}: Spearman {correlation:.7f} "
          f"(at least {least_correlation}), cosine {cosine.min():.6f} (at least {least_cosine}), nearest the same for {nearest:.1%}, relative error "
          f"{result['relative_error']:.1e}, similarities within {result['largest_difference']:.1e}")
    if a.out:
        write(a.out, result)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
