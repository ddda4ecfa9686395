#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny seeded folders of sentence-transformers: `sinter embed` and `serve` (/v1/embeddings, /v1/rerank) give the vectors and
scores of that package, with its poolings, Dense and Normalize modules, prompts, cross-encoders, and decoders that answer.

  check_sentences.py --only qwen3 --target cuda
  check_sentences.py --make        write sentences.json: vectors and scores (needs sentence-transformers)
"""
import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from check_decoders import weights_of
from runs import Failed, Sinter

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = Path(__file__).with_name("sentences.json")
SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]
WORDS = "a as at be blue by cat dog fit for go green how if in is it moon no not of on or query : red sea see sky so sun text that the to tree was we what who with yes".split()
VOCABULARY = len(SPECIAL) + len(WORDS)
COMMON = dict(vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=64, hidden_size=24,
              intermediate_size=40, num_hidden_layers=2)
BERT = dict(**COMMON, num_attention_heads=3, type_vocab_size=1)
MODERN = dict(**COMMON, num_attention_heads=3, local_attention=8, global_attn_every_n_layers=3, global_rope_theta=160000.0,
              local_rope_theta=10000.0, norm_eps=1e-5, hidden_activation="gelu", cls_token_id=1, sep_token_id=2, reference_compile=False)
DECODER = dict(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-6, rope_theta=1e6,
               hidden_act="silu", tie_word_embeddings=True)
GEMMA = dict(**DECODER, hidden_activation="gelu_pytorch_tanh", rope_local_base_freq=1e4, query_pre_attn_scalar=8, use_bidirectional_attention=True, sliding_window=8,
             layer_types=["sliding_attention", "full_attention"])
TEXTS = ["the sky is blue", "so is the sea", "a cat that was on the tree by the sea is not a dog", "moon"]
QUERY = "what is blue"
PROMPTS = {"query": "query : ", "document": "text : ", "empty": ""}
TEMPLATE = ("{% for m in messages %}{% if m.role == 'system' %}{{ m.content }} {% elif m.role == 'query' %}query : {{ m.content }} "
            "{% elif m.role == 'document' %}text : {{ m.content }} {% endif %}{% endfor %}"
            "{% if add_generation_prompt %}fit {% endif %}")
# Row: model_type, members, class, modules (Pooling's mode, Dense's sizes, Normalize, LogitScore), prompts, prompt in the pooling.
ROWS = {
    "bge_m3": ("xlm-roberta", BERT, "XLMRobertaModel", ["cls", "normalize"], {}),
    "gte_modernbert": ("modernbert", MODERN, "ModernBertModel", ["cls"], {}),
    "qwen3_embedding": ("qwen3", DECODER, "Qwen3ForCausalLM", ["lasttoken", "normalize"], dict(prompts=PROMPTS)),
    "embedding_gemma": ("gemma3_text", GEMMA, "Gemma3TextModel", ["mean", (24, 48), (48, 16), "normalize"],
                        dict(prompts=PROMPTS, default_prompt_name="document")),
    "instructor": ("bert", BERT, "BertModel", ["weightedmean"], dict(prompts=PROMPTS, without_prompt=True)),
    "tanh": ("bert", BERT, "BertModel", ["max", (24, 8, "Tanh", True)], dict(prompts=PROMPTS)),
    "root": ("bert", BERT, "BertModel", ["mean_sqrt_len_tokens"], {}),
    "bge_reranker": ("xlm-roberta", BERT, "XLMRobertaForSequenceClassification", [], {}),
    "gte_reranker": ("modernbert", dict(**MODERN, classifier_pooling="mean"), "ModernBertForSequenceClassification", [], {}),
    "mxbai_rerank": ("qwen2", DECODER, "Qwen2ForCausalLM", ["score"], {}),
    "qwen3_reranker": ("qwen3", DECODER, "Qwen3ForCausalLM", ["score"], dict(prompts=PROMPTS, default_prompt_name="query")),
}


def tokenizer(kind):
    """Words; what is put around texts is that of encoders, or of decoders: an end."""
    ids = {word: i for i, word in enumerate(SPECIAL + WORDS)}
    named = lambda name, type_id=0: {"SpecialToken": {"id": name, "type_id": type_id}}
    text = lambda name, type_id=0: {"Sequence": {"id": name, "type_id": type_id}}
    one = {"encoder": [named("<bos>"), text("A"), named("<eos>")], "decoder": [text("A"), named("<eos>")], "plain": [text("A")]}[kind]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i, name in enumerate(SPECIAL)],
            "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {"type": "TemplateProcessing", "single": one, "pair": [*one, text("B"), named("<eos>")],
                               "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]}
                                                  for name in ("<bos>", "<eos>")}},
            "decoder": None, "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"}}


def tensors_of(kind, config, name):
    """Shapes by names, from transformers: of --make alone."""
    import transformers
    cls = getattr(transformers, name)
    state = cls(transformers.AutoConfig.for_model(kind, **config, **({"num_labels": 1} if "Sequence" in name else {}))).state_dict()
    # Qwen3-Embedding's file is that of the bare model.
    short = lambda x: x.removeprefix("model.") if name == "Qwen3ForCausalLM" else x
    return {short(x): list(y.shape) for x, y in state.items() if not x.endswith("_ids") and x != "lm_head.weight"}


def write_folder(row, tensors, path):
    from safetensors.numpy import save_file
    kind, config, name, modules, more = ROWS[row]
    path.mkdir()
    config = {**config, "model_type": kind, "architectures": [name]}
    if "Sequence" in name:
        config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    write = lambda file, content: ((path / file).parent.mkdir(exist_ok=True),
                                   (path / file).write_text(content if isinstance(content, str) else json.dumps(content)))
    write("config.json", config)
    save_file(weights_of(row, tensors, 2), path / "model.safetensors", {"format": "pt"})
    is_answer = "score" in modules
    write("tokenizer.json", tokenizer("plain" if is_answer else "decoder" if "num_key_value_heads" in config else "encoder"))
    write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "bos_token": "<bos>",
                                    "eos_token": "<eos>", "unk_token": "<unk>", "model_max_length": 60, "model_input_names": ["input_ids", "attention_mask"],
                                    **({"cls_token": "<bos>", "sep_token": "<eos>"} if kind in ("bert", "xlm-roberta", "modernbert") else {}),
                                    **({"chat_template": TEMPLATE} if is_answer else {})})
    prefix = "sentence_transformers.models."
    found = [{"idx": 0, "name": "0", "path": "", "type": prefix + "Transformer"}]
    for module in modules:
        folder = f"{len(found)}_module"
        if module == "normalize":
            found.append({"type": prefix + "Normalize"})
        elif module == "score":
            found.append({"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"})
            write(f"{folder}/config.json", {"true_token_id": VOCABULARY - 1,
                                            "false_token_id": None if kind == "qwen2" else len(SPECIAL) + WORDS.index("no")})
        elif isinstance(module, str):
            found.append({"type": prefix + "Pooling"})
            names = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
            write(f"{folder}/config.json", {"word_embedding_dimension": 24, f"pooling_mode_{names.get(module, module)}": True,
                                            "include_prompt": "without_prompt" not in more})
        else:
            found.append({"type": prefix + "Dense"})
            activation = module[2] if len(module) > 2 else None
            write(f"{folder}/config.json", {
                "in_features": module[0], "out_features": module[1], "bias": len(module) > 3,
                "activation_function": f"torch.nn.modules.activation.{activation}" if activation else "torch.nn.modules.linear.Identity"})
            rng = np.random.default_rng(len(found))
            save_file({"linear.weight": rng.normal(size=(module[1], module[0])).astype(np.float32) * module[0] ** -0.5,
                       **({"linear.bias": rng.normal(size=module[1]).astype(np.float32)} if len(module) > 3 else {})},
                      path / folder / "model.safetensors", {"format": "pt"})
        found[-1] |= {"idx": len(found) - 1, "name": str(len(found) - 1), "path": folder}
        (path / folder).mkdir(exist_ok=True)
    if modules:
        write("modules.json", found)
    write("sentence_bert_config.json", {
        "max_seq_length": 60, "do_lower_case": False,
        **({"transformer_task": "text-generation", "processing_kwargs": {"chat_template": {"add_generation_prompt": True}},
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"},
                                "message": {"method": "forward", "method_output_name": "logits", "format": "flat"}},
            "module_output_name": "causal_logits"} if is_answer else {})})
    kinds = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.activation.Sigmoid"} if is_answer else {}
    write("config_sentence_transformers.json", {"__version__": {}, **kinds,
                                                **{key: more[key] for key in ("prompts", "default_prompt_name") if key in more}})


def ranks(row):
    return "Sequence" in ROWS[row][2] or "score" in ROWS[row][3]


def prompts_of(row):
    """Names to ask for; None: none."""
    return [None, "query", "document"] if "prompts" in ROWS[row][4] and not ranks(row) else [None]


def make_row(row):
    import sentence_transformers
    kind, config, name, modules, more = ROWS[row]
    tensors = tensors_of(kind, config, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / row
        write_folder(row, tensors, path)
        if ranks(row):
            model = sentence_transformers.CrossEncoder(str(path), device="cpu")
            found = {"None": model.predict([(QUERY, text) for text in TEXTS]).tolist()}
        else:
            model = sentence_transformers.SentenceTransformer(str(path), device="cpu")
            found = {str(prompt): model.encode(TEXTS, prompt_name=prompt).tolist() for prompt in prompts_of(row)}
    print(f"{row}: {np.shape(found['None'])} {np.ravel(found['None'])[:4]}", flush=True)
    return {"tensors": tensors, "found": found}


def make(only):
    old = json.loads(GOLDENS.read_text()) if GOLDENS.exists() else {}
    lines = [f"{json.dumps(row)}: {json.dumps(make_row(row) if not only or row in only.split(',') else old[row])}" for row in ROWS]
    GOLDENS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@contextlib.contextmanager
def server(sinter, folder, cache):
    """`cache`: a folder for plans."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([sinter.binary, "serve", f"m={folder}", f"--port={port}", *sinter.for_target(), "--quiet",
                                "--plan-cache", cache / "plans"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield lambda path, **body: ask(process, port, path, body)
    finally:
        process.terminate()
        process.wait()


def ask(process, port, path, body):
    """The answer, or the status and the message of a refusal. Waits until the server listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps({"model": "m", **body}).encode(),
                                     {"Content-Type": "application/json"})
    for _ in range(600):
        try:
            return json.load(urllib.request.urlopen(request, timeout=60))
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["error"]["message"]
        except OSError:
            if process.poll() is not None:
                raise Failed(process.stderr.read()) from None
            time.sleep(0.1)
    raise Failed("the server does not answer")


def near(found, wanted, what):
    error = float(np.abs(np.array(found, np.float64) - wanted).max())
    if not error <= 2e-5:
        raise Failed(f"{what}: off by {error:.1e}")
    return error


def check(sinter, row, golden, folder):
    write_folder(row, golden["tensors"], folder)
    worst = 0
    if not ranks(row):
        for prompt, wanted in golden["found"].items():
            scale = np.linalg.norm(wanted, axis=1, keepdims=True)
            options = [] if prompt == "None" else ["--prompt", prompt]
            found = sinter.json("embed", folder, *TEXTS, f"--target={sinter.target}", "--plan-cache", folder.parent / "plans", *options)
            worst = max(worst, near(found["embeddings"] / scale, wanted / scale, f"prompt {prompt}"))
    with server(sinter, folder, folder.parent) as call:
        if ranks(row):
            answer = call("/v1/rerank", query=QUERY, documents=TEXTS)
            scores = {each["index"]: each["relevance_score"] for each in answer["results"]}
            if [each["document"]["text"] for each in answer["results"]] != [TEXTS[i] for i in sorted(scores, key=lambda i: -scores[i])]:
                raise Failed("documents are not in their order")
            return near([scores[i] for i in range(len(TEXTS))], golden["found"]["None"], "scores")
        for prompt, wanted in golden["found"].items():
            answer = call("/v1/embeddings", input=TEXTS, **({} if prompt == "None" else {"prompt_name": prompt}))
            wanted = np.array(wanted)
            worst = max(worst, near([each["embedding"] for each in answer["data"]],
                                    wanted / np.linalg.norm(wanted, axis=1, keepdims=True), f"served, prompt {prompt}"))
        status, message = call("/v1/embeddings", input=TEXTS, prompt_name="nobody")
        if status != 400 or "'nobody' is no prompt of the model" not in message:
            raise Failed(f"an unknown prompt is answered with {message}")
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--only", help="rows, divided by commas")
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make:
        return make(a.only)
    goldens, failed = json.loads(GOLDENS.read_text()), 0
    rows = [row for row in goldens if not a.only or row in a.only.split(",")]
    with tempfile.TemporaryDirectory() as name:
        sinter = Sinter(a.sinter, name, a.target, None)
        for row in rows:
            try:
                print(f"ok     {row}: {check(sinter, row, goldens[row], Path(name) / row):.1e}", flush=True)
            except Failed as e:
                failed += 1
                print(f"FAILED {row}: {e}", flush=True)
    print(f"{len(rows) - failed} of {len(rows)} folders as they should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
