#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoders as torch.onnx exports them, compiled with --serve: several prompts at once give the greedy tokens that transformers gives
for each alone.

  check_served.py                               all families, on the CPU
  check_served.py --only gemma2 --target cuda
  check_served.py --only llama --write tests/models/served     keeps the graph and the tokens, for runs without PyTorch
  check_served.py --read tests/models/served                   what was kept; needs no PyTorch

Models are tiny and have seeded random weights. Needs torch, transformers and onnxscript (models/requirements-zoo.txt), but for --read.
"""
import argparse
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "perf"))
from runs import Failed, Sinter  # noqa: E402

TOKENS = 12
SIZES = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, initializer_range=0.2, bos_token_id=0, eos_token_id=None, pad_token_id=0)
PROMPTS = [[5, 17, 33, 2], [9], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], list(range(20, 50))]


def configurations():
    import transformers as hf
    head = dict(head_dim=16)
    # Windows are shorter than the longest prompt.
    return {"llama": hf.LlamaConfig(**SIZES),
            "llama3": hf.LlamaConfig(**SIZES, rope_theta=5e5, tie_word_embeddings=True, rope_scaling=dict(
                rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
            "mistral": hf.MistralConfig(**SIZES, sliding_window=8),
            "qwen2": hf.Qwen2Config(**SIZES), "qwen3": hf.Qwen3Config(**SIZES, **head),
            "gemma": hf.GemmaConfig(**SIZES, **head),
            # Caps are low enough to be felt, and the vocabulary is no echo of the embeddings.
            "gemma2": hf.Gemma2Config(**SIZES, **head, sliding_window=8, query_pre_attn_scalar=16, tie_word_embeddings=False,
                                      attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
            "gemma3": hf.Gemma3TextConfig(**SIZES, **head, sliding_window=8, query_pre_attn_scalar=16),
            "phi": hf.PhiConfig(**{**SIZES, "num_key_value_heads": 4}), "phi3": hf.Phi3Config(**SIZES),
            "smollm3": hf.SmolLM3Config(**SIZES), "granite": hf.GraniteConfig(**SIZES), "olmo2": hf.Olmo2Config(**SIZES)}


def export(config, path):
    """The ONNX file, and the greedy tokens behind each prompt."""
    import torch
    import transformers as hf

    class Step(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, position_ids, *past):
            cache = hf.DynamicCache()
            for i in range(0, len(past), 2):
                cache.update(past[i], past[i + 1], i // 2)
            out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache,
                             use_cache=True)
            return out.logits, *(each for layer in out.past_key_values.layers for each in (layer.keys, layer.values))

    torch.manual_seed(0)
    config._attn_implementation = "eager" if "gemma2" in config.model_type else "sdpa"
    model = hf.AutoModelForCausalLM.from_config(config).eval()
    layers, heads = config.num_hidden_layers, config.num_key_value_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    caches = [f"{i}.{which}" for i in range(layers) for which in ("key", "value")]
    batch, before, new = 2, 4, 3
    arguments = (torch.ones(batch, new, dtype=torch.int64), torch.ones(batch, before + new, dtype=torch.int64),
                 torch.arange(before, before + new).repeat(batch, 1), *(torch.randn(batch, heads, before, width) for _ in caches))
    two, dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}, torch.export.Dim.DYNAMIC
    torch.onnx.export(Step(model), arguments, path, dynamo=True, verbose=False, external_data=False,
                      input_names=["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{each}" for each in caches)],
                      output_names=["logits", *(f"present.{each}" for each in caches)],
                      dynamic_shapes=(two, two, two, tuple({0: dynamic, 2: dynamic} for _ in caches)))
    answers = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            for _ in range(TOKENS):
                ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], 1)
        answers.append(ids[0, len(prompt):].tolist())
    return answers


def write_small(path, to):
    """Without what says where in Python a node comes from, which is most of the file."""
    import onnx
    model = onnx.load(path)
    for each in [model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.graph.input,
                 *model.graph.output]:
        each.ClearField("metadata_props")
        each.ClearField("doc_string")
    onnx.save(model, to)


def check(sinter, target, path, answers, folder):
    """What is wrong, or nothing."""
    plan, requests = folder / "served.plan", folder / "requests.jsonl"
    requests.write_text("".join(json.dumps({"ids": ids, "max_tokens": TOKENS}) + "\n" for ids in PROMPTS))
    try:
        sinter.json("compile", path, "-o", plan, f"--target={target}", "--serve=positions=128")
        found = sinter.json("generate", plan, "--requests", requests)
    except Failed as error:
        return str(error).strip().splitlines()[-1]
    wrong = [i for i, answer in enumerate(found["answers"]) if answer["tokens"] != answers[i]]
    return f"answers {wrong} differ" if wrong else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(Path(__file__).resolve().parents[2] / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--only", nargs="+")
    p.add_argument("--write", type=Path)
    p.add_argument("--read", type=Path)
    a = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sinter = Sinter(a.sinter, folder)
        if a.read:
            names = sorted(path.stem for path in a.read.glob("*.onnx"))
        else:
            warnings.simplefilter("ignore")
            logging.disable(logging.WARNING)
            names = list(configurations())
        for name in names:
            if a.only and name not in a.only:
                continue
            path = (a.read or folder) / f"{name}.onnx"
            if a.read:
                answers = json.loads(path.with_suffix(".json").read_text())
            else:
                try:
                    answers = export(configurations()[name], path)
                except Exception as error:  # of PyTorch, as it likes
                    print(f"{name:10} not exported: {str(error).splitlines()[0][:150]}", flush=True)
                    continue
            wrong = check(sinter, a.target, path, answers, folder)
            failed += wrong is not None
            print(f"{name:10} {wrong or 'right'}", flush=True)
            if a.write and not wrong:
                a.write.mkdir(parents=True, exist_ok=True)
                write_small(path, a.write / path.name)
                (a.write / f"{name}.json").write_text(json.dumps(answers) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
