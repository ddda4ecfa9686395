#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guessed tokens (speculative decoding): texts one at a time with and without guesses, which must be equal.

  run_speculation.py --out tests/perf/results/speculation_h200.json              models/fetch.py smollm2 first
  run_speculation.py --work lookup --model models/cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --ways f32 --target cpu --tokens 64

Work:
  lookup   a trained decoder (SmolLM2-135M-Instruct) is asked to edit code; guesses are what followed the same tokens before
  pair     a decoder of random weights with the sizes of a 1.5B, and one with its first layers alone as the draft model. What the
           further layers add is scaled down by each of --later: that sets how many guesses hold, as no trained pair is at hand
Times are of the wall; `times_as_fast` is without guesses over with; `accepted` is the share of guesses that held. Greedy.
"""
import argparse
import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import onnx

from common import CACHE, ROOT, provenance, sinter_json, write
from decoder_models import Config, SharedDecoder, shared_weights
from run_serving import generate

POSITIONS = 1024
ONE_BY_ONE = ("--sequences=1", "--no-prefix-cache")
# A step has a token and what is guessed behind it.
SERVE = f"--serve=positions={POSITIONS},sequences=8,few-tokens=8"
WAYS = {"f32": [], "f16": ["--precision=fp16"], "int8": ["--precision=fp16", "--weights=int8"],
        "int4": ["--precision=fp16", "--weights=int4"]}
# Of Qwen2.5's 1.5B and, about, 0.5B: as many weights, in fewer and wider layers.
TARGET = Config(layers=28, hidden=1536, heads=12, kv_heads=2, intermediate=8960, vocabulary=151936, positions=POSITIONS, theta=1e6)
DRAFT_LAYERS = 6
TINY = Config(layers=4, hidden=128, heads=4, kv_heads=2, intermediate=256, vocabulary=192, positions=POSITIONS)

CODE = ['''class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items.pop()

    def size(self):
        return len(self.items)
''', '''def read_table(path):
    rows = []
    with open(path) as file:
        for line in file:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            rows.append([float(part) for part in line.split(",")])
    return rows
''', '''class Account {
 public:
  explicit Account(long balance) : balance_(balance) {}
  void deposit(long amount) { balance_ += amount; }
  bool withdraw(long amount) {
    if (amount > balance_) return false;
    balance_ -= amount;
    return true;
  }
  long balance() const { return balance_; }

 private:
  long balance_;
};
''', '''function groupBy(list, key) {
  const groups = {};
  for (const item of list) {
    const name = item[key];
    if (!(name in groups)) {
      groups[name] = [];
    }
    groups[name].push(item);
  }
  return groups;
}
''']
EDITS = ["Add a comment to each function. Write the whole code again:\n\n", "Rename one variable. Write the whole code again:\n\n"]


def compile_plan(sinter, target, model, plan, *options):
    if not plan.exists():
        sinter_json(sinter, "compile", model, "-o", plan, f"--target={target}", SERVE, *options)
    return plan


def compare(sinter, plan, lines, folder, ways, *options):
    """A row without guesses, and one for each way of `ways` with them."""
    options = (*ONE_BY_ONE, *options)
    rows, base = {}, None
    for name, own in {"none": [], **ways}.items():
        generate(sinter, plan, lines[:1], folder, *options, *own)  # reads files, captures sizes
        found = generate(sinter, plan, lines, folder, *options, *own)
        texts = [answer["tokens"] for answer in found["answers"]]
        base = base or (found, texts)
        drafts = found["draft_tokens"]
        rows[name] = {"seconds": round(found["seconds"], 4), "tokens": found["tokens"], "steps": found["steps"],
                      "accepted": round(found["accepted_draft_tokens"] / drafts, 3) if drafts else None,
                      "equal_texts": sum(x == y for x, y in zip(texts, base[1])),
                      "texts": len(texts), "times_as_fast": round(base[0]["seconds"] / found["seconds"], 3)}
        print(name, rows[name], flush=True)
    return rows


class ScaledDecoder(SharedDecoder):
    """What layers from `first` on add to a row is multiplied by `scale`."""

    def __init__(self, *args, first, scale, **options):
        super().__init__(*args, **options)
        self.first, self.scale = first, scale

    def linear(self, x, name, output=None):
        result = super().linear(x, name, output)
        layer, kind = int(name.split(".")[2]), name.split(".")[-2]
        if layer < self.first or kind not in ("o_proj", "down_proj"):
            return result
        return self.w.op("Mul", result, self.w.constant("later", np.array(self.scale, self.dtype)))


def make_pair(folder, config, weights, draft_layers, later):
    """Paths of the model and of its first layers alone."""
    paths = []
    for name, layers in (("target", config.layers), ("draft", draft_layers)):
        path = folder / f"pair_{config.hidden}_{name}_{later}.onnx"
        if not path.exists():
            own = dataclasses.replace(config, layers=layers)
            onnx.save(ScaledDecoder(own, weights, dtype=np.float16, first=draft_layers, scale=later).model(), path)
        paths.append(path)
    return paths


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--work", default="lookup,pair")
    p.add_argument("--ways", default="f16", help=f"how plans are compiled: of {', '.join(WAYS)}")
    p.add_argument("--model", type=Path, default=CACHE / "smollm2.onnx", help="of lookup")
    p.add_argument("--tokenizer", type=Path, default=CACHE / "smollm2_tokenizer.json")
    p.add_argument("--template", type=Path, default=CACHE / "smollm2_chat.txt")
    p.add_argument("--guesses", default="3,5,7", help="tokens that are guessed at once")
    p.add_argument("--tokens", type=int, default=160, help="of each text")
    p.add_argument("--later", default="0.02,0.05,0.1", help="of pair: what the further layers' results are multiplied by")
    p.add_argument("--tiny", action="store_true", help="of pair: small models, which say nothing of speed")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    guesses = a.guesses.split(",")
    result = {**provenance(a.commit), "speculation": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)

        def record(name, rows):
            result["speculation"][name] = rows
            if a.out:
                write(a.out, result)

        config, layers = (TINY, 1) if a.tiny else (TARGET, DRAFT_LAYERS)
        if "pair" in a.work.split(","):
            weights = shared_weights(config, config.layers, folder / f"pair_{config.hidden}.weights")
        for way in a.ways.split(","):
            if "lookup" in a.work.split(","):
                plan = compile_plan(a.sinter, a.target, a.model, folder / f"{a.model.stem}.{way}.plan", *WAYS[way])
                text = a.template.read_text()
                lines = [{"prompt": text.replace("{prompt}", edit + code), "max_tokens": a.tokens} for code in CODE for edit in EDITS]
                if not a.compile_only:
                    print("lookup", way, flush=True)
                    record(f"lookup_{a.model.stem}_{way}", compare(
                        a.sinter, plan, lines, folder, {f"lookup_{n}": [f"--draft-tokens={n}"] for n in guesses},
                        "--tokenizer", str(a.tokenizer)))
            for later in a.later.split(",") if "pair" in a.work.split(",") else []:
                models = make_pair(folder, config, weights, layers, float(later))
                plan, draft = (compile_plan(a.sinter, a.target, model, model.with_suffix(f".{way}.plan"), *WAYS[way]) for model in models)
                draw = np.random.default_rng(3)
                lines = [{"ids": draw.integers(0, config.vocabulary, 64).tolist(), "max_tokens": a.tokens} for _ in range(4)]
                if not a.compile_only:
                    print("pair", way, later, flush=True)
                    alone = generate(a.sinter, draft, lines, folder, *ONE_BY_ONE)
                    rows = compare(a.sinter, plan, lines, folder,
                                   {f"draft_{n}": [f"--draft={draft}", f"--draft-tokens={n}"] for n in guesses})
                    rows["draft_alone"] = {key: alone[key] for key in ("seconds", "tokens", "steps")}
                    record(f"pair_{later}_{way}", rows)


if __name__ == "__main__":
    main()
