#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sinter generate` with SmolLM2 against a float32 reference: the same greedy tokens.

  check_generate.py                                   all prompts, float32, as ONNX and as GGUF, for the CPU
  check_generate.py --models gguf --prompts 1
  check_generate.py --target cuda --precision fp16 --out results.json
  check_generate.py --make                            write the reference: tokens by NumPy from the GGUF file as it
                                                      is stored, and by ONNX Runtime; both must agree

In float32 every token must be the reference's. In other precisions a token that leads by little may be another: it
is said which one, and the lead that the reference's had. models/fetch.py smollm2 brings the models.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402
from runs import Failed, Sinter, onnx_runtime  # noqa: E402

CACHE = ROOT / "models" / "cache"
GGUF = CACHE / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = {"onnx": CACHE / "smollm2.onnx", "gguf": GGUF}
REFERENCE = Path(__file__).with_name("smollm2_greedy.json")
PROMPTS = ["What is the capital of France?", "Write a haiku about the sea.",
           "Explain in three sentences why the sky is blue.", "List four prime numbers and say why each is prime."]
TOKENS = 96


def encode(text):
    from tokenizers import Tokenizer
    chat = (CACHE / "smollm2_chat.txt").read_text()
    return Tokenizer.from_file(str(CACHE / "smollm2_tokenizer.json")).encode(chat.replace("{prompt}", text)).ids


def by_numpy(ids):
    """Tokens, and by how much each leads."""
    from gguf_file import Checkpoint
    from llama_numpy import Llama, turned_pairs
    checkpoint = Checkpoint(GGUF)
    weights = checkpoint.weights(as_stored=True)
    return Llama(checkpoint.config, weights, len(ids) + TOKENS, turned_pairs).greedy(ids, TOKENS)


def by_onnx_runtime(session, ids):
    layers = sum(i.name.startswith("past_key") for i in session.get_inputs())
    shape = [1, session.get_inputs()[2].shape[1], len(ids) + TOKENS, session.get_inputs()[2].shape[3]]
    caches = {f"past_{kind}_{i}": np.zeros(shape, np.float32) for i in range(layers) for kind in ("key", "value")}
    names, tokens, position, new = [o.name for o in session.get_outputs()], [], 0, ids
    while len(tokens) < TOKENS:
        feeds = {"input_ids": np.array([new]), "position": np.array([position]), **caches}
        outputs = dict(zip(names, session.run(None, feeds)))
        caches = {k.replace("present", "past"): v for k, v in outputs.items() if k != "logits"}
        position += len(new)
        new = [int(outputs["logits"].argmax())]
        tokens += new
    return tokens


def make():
    session, cases = onnx_runtime(CACHE / "smollm2.onnx"), []
    for text in PROMPTS:
        ids = encode(text)
        tokens, leads = by_numpy(ids)
        if by_onnx_runtime(session, ids) != tokens:
            sys.exit(f"'{text}': ONNX Runtime says something else than NumPy")
        cases.append({"prompt": text, "ids": ids, "tokens": tokens, "leads": [round(lead, 4) for lead in leads]})
        print(f"{text}: the closest lead is {min(leads):.4f}", flush=True)
    REFERENCE.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def generate(sinter, plan, case, tokens, *options):
    return sinter.json("generate", plan, "--tokenizer", CACHE / "smollm2_tokenizer.json", "--template",
                       CACHE / "smollm2_chat.txt", "--prompt", case["prompt"], "--max-tokens", tokens, "--no-stop",
                       *options)


def check(sinter, plan, case, tokens, exact):
    """A row of results, and what is wrong."""
    found = generate(sinter, plan, case, tokens)
    expected = case["tokens"][:tokens]
    wrong = [i for i, (a, b) in enumerate(zip(found["tokens"], expected)) if a != b]
    row = {"prompt": case["prompt"], "tokens": tokens, "equal": wrong[0] if wrong else tokens}
    if wrong:
        row["lead"] = case["leads"][wrong[0]]
    for key in ("first_token_us", "tokens_per_s", "bytes_per_token", "share_of_copy_rate"):
        row[key] = found.get(key)
    row["text"] = found["text"]
    if found["prompt_tokens"] != len(case["ids"]):
        return row, f"{found['prompt_tokens']} tokens of the prompt, should be {len(case['ids'])}"
    if wrong and exact:
        return row, (f"token {wrong[0]} is {found['tokens'][wrong[0]]}, should be {expected[wrong[0]]}, which leads "
                     f"by {row['lead']}")
    return row, None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--options", default="", help="more options of compile, such as --weights=int8")
    p.add_argument("--prompts", type=int, default=len(PROMPTS), help="how many")
    p.add_argument("--tokens", type=int, default=TOKENS)
    p.add_argument("--capacity", type=int, default=256, help="positions of a text")
    p.add_argument("--make", action="store_true")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    if a.make:
        return make()
    cases, rows, failed = json.loads(REFERENCE.read_text())[:a.prompts], [], 0
    exact = a.precision == "model" and "--weights" not in a.options
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        for name in a.models.split(","):
            plan = sinter.compile(MODELS[name], f"--serve=positions={a.capacity}", *a.options.split())
            for case in cases:
                try:
                    row, why = check(sinter, plan, case, a.tokens, exact)
                except Failed as e:
                    row, why = {"prompt": case["prompt"]}, str(e)
                failed += why is not None
                rows.append({"model": name, "plan_bytes": plan.stat().st_size, **row})
                print(f"{'FAILED' if why else 'ok    '} {name}, {case['prompt']} {why or ''}", flush=True)
                if "equal" in row:
                    share = row["share_of_copy_rate"]
                    share = f", {100 * share:.0f} % of the copy rate" if share else ""
                    print(f"       {row['equal']} of {row['tokens']} tokens equal; first after "
                          f"{row['first_token_us'] / 1e3:.1f} ms, {row['tokens_per_s']:.1f} tokens/s{share}",
                          flush=True)
            plan.unlink()
    print(f"{len(rows) - failed} of {len(rows)} answers as they should be")
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "precision": a.precision, "options": a.options,
                      "answers": rows})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
