#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny seeded encoders as Hugging Face folders: what they give in float32 is what transformers gives. And the folder of
MiniLM, if it is there: `sinter embed` gives the vectors of its ONNX model. And a tiny Whisper: `sinter transcribe` gives what
transformers' logits say.

  check_encoders.py --only mpnet --target cuda
  check_encoders.py --make         write encoders.json: configurations and outputs (needs transformers); with --only these rows
"""
import argparse
import base64
import json
import re
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from check_decoders import weights_of
from runs import Failed, Sinter, onnx_runtime, relative_error

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "models" / "cache"
GOLDENS = Path(__file__).with_name("encoders.json")
VOCABULARY, TOKENS, KEPT = 64, 40, 5  # each KEPT-th token's vector is compared
COMMON = dict(vocab_size=VOCABULARY, pad_token_id=1, max_position_embeddings=48)
BERT = dict(**COMMON, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3)
DISTIL = dict(**COMMON, dim=24, hidden_dim=40, n_layers=2, n_heads=3)
# Of four layers, so that those with a window have two kinds; windows are shorter than the texts.
MODERN = dict(**COMMON, hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=3, local_attention=8,
              reference_compile=False, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3)
DECODER = dict(**COMMON, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               head_dim=8, bos_token_id=2, eos_token_id=3)
# Row: model_type, members, labels of a head.
ROWS = {
    "bert": ("bert", BERT, 0),
    "bert_relu": ("bert", dict(**BERT, hidden_act="relu", layer_norm_eps=1e-3), 0),
    "bert_labels": ("bert", BERT, 3),
    "roberta": ("roberta", BERT, 0),
    "xlm_roberta_label": ("xlm-roberta", dict(**BERT, type_vocab_size=1), 1),
    "camembert": ("camembert", dict(**BERT, type_vocab_size=1), 0),
    "distilbert": ("distilbert", DISTIL, 0),
    "distilbert_labels": ("distilbert", DISTIL, 2),
    "mpnet": ("mpnet", BERT, 0),
    "mpnet_label": ("mpnet", BERT, 1),
    "modernbert": ("modernbert", MODERN, 0),
    "modernbert_labels": ("modernbert", dict(**MODERN, classifier_pooling="mean"), 1),
    "modernbert_first": ("modernbert", dict(**MODERN, classifier_pooling="cls", attention_bias=True, norm_bias=True), 3),
    "qwen3": ("qwen3", DECODER, 0),
    "qwen3_label": ("qwen3", DECODER, 1),
    "qwen2_labels": ("qwen2", DECODER, 2),
    "gemma3_both_ways": ("gemma3_text", dict(**DECODER, query_pre_attn_scalar=8, use_bidirectional_attention=True, sliding_window=8,
                                             layer_types=["sliding_attention", "full_attention"]), 0),
}
HALVES = ("bert", "mpnet")


def feeds_of(config):
    """Two texts, the second shorter."""
    rng = np.random.default_rng(5)
    ids, mask = rng.integers(2, VOCABULARY, (2, TOKENS)), np.ones((2, TOKENS), np.int64)
    ids[1, TOKENS // 2:], mask[1, TOKENS // 2:] = config["pad_token_id"], 0
    feeds = {"input_ids": ids, "attention_mask": mask}
    if config.get("type_vocab_size", 1) > 1:
        feeds["token_type_ids"] = np.repeat(np.arange(TOKENS)[None] % 7 // 5, 2, axis=0)
    return feeds


def write_folder(row, golden, path, dtype=np.float32):
    from safetensors.numpy import save_file
    path.mkdir()
    (path / "config.json").write_text(json.dumps(golden["config"]))
    weights = weights_of(row, golden["tensors"], layers_of(golden["config"]))
    save_file({name: x.astype(dtype) for name, x in weights.items()}, path / "model.safetensors")


def layers_of(config):
    return config.get("num_hidden_layers", config.get("n_layers"))


def make_row(row):
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
    kind, more, labels = ROWS[row]
    config = AutoConfig.for_model(kind, **more, **({"num_labels": labels} if labels else {}))
    config._attn_implementation = "eager"
    model = (AutoModelForSequenceClassification if labels else AutoModel).from_config(config).eval()
    state = model.state_dict()

    def pattern(name):  # ModernBERT's first layer lacks a norm
        every = re.sub(r"\b(layers?)\.\d+\.", r"\1.{}.", name)
        return every if every.replace("{}", "0") in state else name

    tensors = {pattern(name): list(x.shape) for name, x in state.items() if not name.endswith("_ids")}
    weights = weights_of(row, tensors, layers_of(more))
    model.load_state_dict({name: torch.from_numpy(x) for name, x in weights.items()}, strict=False)
    keep = {**json.loads(config.to_json_string()), "architectures": [type(model).__name__]}
    if more.get("use_bidirectional_attention"):
        keep["sliding_window"] = more["sliding_window"]  # halved when it is read
    with torch.no_grad():
        found = model(**{name: torch.from_numpy(x) for name, x in feeds_of(keep).items()})
    output = (found.logits if labels else found.last_hidden_state[:, ::KEPT].contiguous()).numpy()
    print(f"{row}: {output.shape}", flush=True)
    return {"config": keep, "tensors": tensors, "shape": list(output.shape),
            "output": base64.b64encode(output.tobytes()).decode()}


def make(only):
    old = json.loads(GOLDENS.read_text())
    lines = [f"{json.dumps(row)}: {json.dumps(make_row(row) if not only or row in only.split(',') else old[row])}" for row in ROWS]
    GOLDENS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def check(sinter, row, golden, folder, dtype):
    write_folder(row, golden, folder, dtype)
    found = sinter.run(sinter.compile(folder), feeds_of(golden["config"]))
    name = "last_hidden_state" if len(golden["shape"]) == 3 else "logits"
    expected = np.frombuffer(base64.b64decode(golden["output"]), np.float32).reshape(golden["shape"])
    if list(found) != [name]:
        raise Failed(f"gives {list(found)}")
    output = found[name][:, ::KEPT] if name != "logits" else found[name]
    error, most = relative_error(output, expected), 1e-5 if dtype == np.float32 else 1e-2
    if not error <= most:
        raise Failed(f"is off by {error:.1e}, may be {most:.0e}")
    return error


def check_minilm(sinter, folder):
    """One command: vectors of its folder, which are those of its ONNX model a text at a time."""
    from minilm_inputs import encode, tokenizer
    texts = (ROOT / "models" / "sentences.txt").read_text().splitlines()
    found = sinter.json("embed", CACHE / "minilm", *texts, f"--target={sinter.target}", "--plan-cache", folder / "plans")
    session, own = onnx_runtime(CACHE / "minilm.onnx"), tokenizer()
    expected = np.concatenate([session.run(None, encode([text], own))[0] for text in texts])
    error = relative_error(np.array(found["embeddings"]), expected)
    if not error <= 1e-5:
        raise Failed(f"vectors are off by {error:.1e}")
    return error


def write_ct2(weights, heads, path):
    """A model.bin of CTranslate2: the reverse of models/ct2_file.py."""
    found = {f"{side}/num_heads": np.int16(heads) for side in ("encoder", "decoder")}
    rows = {"self_attn.out_proj": "self_attention/linear_1", "encoder_attn.out_proj": "attention/linear_2", "fc1": "ffn/linear_0",
            "fc2": "ffn/linear_1", "self_attn_layer_norm": "self_attention/layer_norm", "final_layer_norm": "ffn/layer_norm",
            "encoder_attn_layer_norm": "attention/layer_norm"}
    joined = {("self_attn", "qkv"): "self_attention/linear_0", ("encoder_attn", "q"): "attention/linear_0",
              ("encoder_attn", "kv"): "attention/linear_1"}
    for name, x in weights.items():
        side, what = name.split(".")[1:3]
        stem, part = name.rsplit(".", 1)
        norm = {"weight": "gamma", "bias": "beta"}[part] if stem.endswith("layer_norm") else part
        own = {"embed_positions": "position_encodings/encodings", "embed_tokens": "embeddings/weight"}.get(what, f"{what}/{norm}")
        if what == "layers":
            layer, rest = name.split(".")[3], ".".join(name.split(".")[4:-1])
            if rest not in rows:
                continue
            own = f"layer_{layer}/{rows[rest]}/{norm}"
        found[f"{side}/{own}"] = x
    for side in ("encoder", "decoder"):
        for i in range(2):
            for (attention, letters), own in joined.items():
                p = f"model.{side}.layers.{i}.{attention}."
                if p + "q_proj.weight" in weights:
                    for part in ("weight", "bias"):
                        zeros = np.zeros(weights[p + "q_proj.bias"].shape, np.float32)
                        found[f"{side}/layer_{i}/{own}/{part}"] = np.concatenate(
                            [weights.get(f"{p}{letter}_proj.{part}", zeros) for letter in letters])
    text = lambda name: struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
    with open(path, "wb") as f:
        f.write(struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(found)))
        for name, x in found.items():
            kind, bytes_ = {"float32": 0, "int16": 2}[str(x.dtype)], x.tobytes()
            f.write(text(name) + struct.pack(f"<B{x.ndim}I", x.ndim, *x.shape) + struct.pack("<BI", kind, len(bytes_)) + bytes_)
        f.write(struct.pack("<I", 1) + text("decoder/projection/weight") + text("decoder/embeddings/weight"))


def write_whisper(model, converted=False):
    """The weights of models/tiny/speech_*.onnx as a folder of Hugging Face's, or CTranslate2's."""
    from safetensors.numpy import save_file
    from whisper_onnx import random_weights
    weights, heads = random_weights()
    vocabulary, width = weights["model.decoder.embed_tokens.weight"].shape
    sizes = {f"{side}_{key}": size for side in ("encoder", "decoder")
             for key, size in (("layers", 2), ("attention_heads", heads), ("ffn_dim", 2 * width))}
    config = dict(model_type="whisper", architectures=["WhisperForConditionalGeneration"], is_encoder_decoder=True, **sizes,
                  d_model=width, vocab_size=vocabulary, num_mel_bins=80, max_source_positions=50, max_target_positions=64,
                  activation_function="gelu", scale_embedding=False, num_hidden_layers=2)
    features = dict(feature_size=80, n_fft=400, hop_length=160, sampling_rate=16000, n_samples=16000)
    if converted:
        write_ct2(weights, heads, model / "model.bin")
        (model / "config.json").write_text(json.dumps({"suppress_ids": []}))
    else:
        save_file({name: np.ascontiguousarray(x) for name, x in weights.items()}, model / "model.safetensors")
        (model / "config.json").write_text(json.dumps(config))
        (model / "preprocessor_config.json").write_text(json.dumps(features))
    (model / "tokenizer.json").write_bytes((ROOT / "tests/tools/goldens/speech_tokenizer.json").read_bytes())


def check_whisper(sinter, folder, converted=False):
    """One command: texts of the folder are tests/tools/goldens/speech.json."""
    goldens, model = ROOT / "tests" / "tools" / "goldens", folder / ("ct2" if converted else "whisper")
    model.mkdir()
    write_whisper(model, converted)
    worst = 0
    for _ in range(2):  # compiled, and from the cache
        found = sinter.json("transcribe", model, goldens / "long_speech.wav", "--language=de", f"--target={sinter.target}",
                            "--plan-cache", folder / "plans")
        wanted = json.loads((goldens / "speech.json").read_text())["long_speech"]["german"]
        for a, b in zip(found["transcripts"][0]["segments"], wanted["segments"], strict=True):
            if a["tokens"] != b["tokens"]:
                raise Failed(f"a segment is {a['tokens']}, should be {b['tokens']}")
            worst = max(worst, abs(a["avg_logprob"] - b["avg_logprob"]))
    if not worst <= 2e-3:
        raise Failed(f"log-probabilities are off by {worst:.1e}")
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--ranks", type=int, default=1, help="the number of ranks that each is split over")
    p.add_argument("--only", help="rows, divided by commas; minilm, whisper")
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make:
        return make(a.only)
    sys.path.insert(0, str(ROOT / "models"))
    goldens, failed = json.loads(GOLDENS.read_text()), 0
    cases = [(row, row, np.float32) for row in goldens] + [(f"{row}.half", row, np.float16) for row in HALVES]
    cases.append(("whisper", check_whisper, None))
    cases.append(("whisper_ct2", lambda sinter, folder: check_whisper(sinter, folder, True), None))
    if (CACHE / "minilm.onnx").exists():
        cases.append(("minilm", check_minilm, None))
    cases = [case for case in cases if not a.only or case[0] in a.only.split(",")]
    with tempfile.TemporaryDirectory() as name:
        sinter, folder = Sinter(a.sinter, name, a.target, ranks=a.ranks), Path(name)
        for label, row, dtype in cases:
            try:
                error = row(sinter, folder) if callable(row) else check(sinter, row, goldens[row], folder / label, dtype)
                print(f"ok     {label}: {error:.1e}", flush=True)
            except Failed as e:
                failed += 1
                print(f"FAILED {label}: {e}", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} encoders as they should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
