#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole decoders with mixtures of experts on a GPU, through the engine: one text, or many requests.

  tests/perf/run_mixture_decoders.py --out tests/perf/results/mixture_decoders_h200.json
  tests/perf/run_mixture_decoders.py --rows qwen3_one_text --layers 12 --folder F
  tests/perf/run_mixture_decoders.py --tiny --target cpu            small ones: does all of it work

Rows:
  qwen3_one_text   Qwen3-30B-A3B's shape as GGUF, Q4_0: the time between tokens of one text, greedy, 32 tokens in and 256 out,
                   beside `read_us`: the bytes that a token reads (its experts, attention, the last layer) at the rate of a copy
  gpt_oss_serving  gpt-oss-20b's shape as published, MXFP4 experts: 256 requests at once, 1,000 tokens in and 1,000 out

Weights are random. --layers: fewer layers than the model has (and so is the row's name in the result). Layers share the
weights of --distinct layers, and so they do in the plan: together these exceed what the L2 holds.
"""
import argparse
import json
import math
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write
from run_cpu_llm import random_blocks
from run_serving import serve

QWEN3 = dict(layers=48, hidden=2048, heads=32, kv=4, size=128, experts=128, taken=8, inner=768, vocabulary=151936)
GPT_OSS = dict(layers=24, hidden=2880, heads=64, kv=8, size=64, experts=32, taken=4, inner=2880, vocabulary=201088)
TINY = dict(layers=2, hidden=128, heads=4, kv=2, size=32, experts=8, taken=2, inner=64, vocabulary=96)
BLOCK = 16_777_213  # random bytes that are repeated: a prime, so that no two rows are equal


def write_qwen3(path, shape, distinct):
    """Returns the bytes that one token reads."""
    from gguf import GGMLQuantizationType, GGUFWriter
    s, rng, read = shape, np.random.default_rng(1), 0
    writer = GGUFWriter(path, "qwen3moe")
    writer.add_context_length(4096)
    writer.add_block_count(s["layers"])
    writer.add_embedding_length(s["hidden"])
    writer.add_feed_forward_length(s["inner"])
    writer.add_expert_feed_forward_length(s["inner"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv"])
    writer.add_key_length(s["size"])
    writer.add_value_length(s["size"])
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(s["experts"])
    writer.add_expert_used_count(s["taken"])
    writer.add_vocab_size(s["vocabulary"])
    ones = lambda count: np.ones(count, np.float32)  # noqa: E731
    drawn = {}

    def matrix(name, *dims, share=1.0, layer=0):
        nonlocal read
        key = name.split(".")[-1], layer % distinct
        if key not in drawn:
            drawn[key] = random_blocks(rng, "Q4_0", *dims)
        read += int(drawn[key].nbytes * share)
        writer.add_tensor(f"{name}.weight", drawn[key], raw_dtype=GGMLQuantizationType.Q4_0)

    matrix("token_embd", s["vocabulary"], s["hidden"], share=0)
    matrix("output", s["vocabulary"], s["hidden"])
    writer.add_tensor("output_norm.weight", ones(s["hidden"]))
    share = s["taken"] / s["experts"]
    for i in range(s["layers"]):
        at, inner = f"blk.{i}.", s["heads"] * s["size"]
        matrix(at + "attn_q", inner, s["hidden"], layer=i)
        for name in ("attn_k", "attn_v"):
            matrix(at + name, s["kv"] * s["size"], s["hidden"], layer=i)
        matrix(at + "attn_output", s["hidden"], inner, layer=i)
        for name, count in (("attn_norm", s["hidden"]), ("ffn_norm", s["hidden"]), ("attn_q_norm", s["size"]),
                            ("attn_k_norm", s["size"])):
            writer.add_tensor(f"{at}{name}.weight", ones(count))
        router = rng.standard_normal((s["experts"], s["hidden"]), np.float32) * np.float32(4 * s["hidden"] ** -0.5)
        writer.add_tensor(f"{at}ffn_gate_inp.weight", router)
        read += router.nbytes
        for name in ("ffn_gate_exps", "ffn_up_exps"):
            matrix(at + name, s["experts"], s["inner"], s["hidden"], share=share, layer=i)
        matrix(at + "ffn_down_exps", s["experts"], s["hidden"], s["inner"], share=share, layer=i)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def write_gpt_oss(folder, shape, distinct):
    """A folder whose layers share the tensors of `distinct` of them."""
    s, at = shape, 0
    folder.mkdir()
    config = dict(
        architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"], num_key_value_heads=s["kv"], head_dim=s["size"], intermediate_size=s["inner"],
        num_local_experts=s["experts"], num_experts_per_tok=s["taken"], vocab_size=s["vocabulary"], sliding_window=128,
        rms_norm_eps=1e-5, rope_theta=150000, max_position_embeddings=4096, attention_bias=True, tie_word_embeddings=False,
        hidden_act="silu", swiglu_limit=7.0, layer_types=["sliding_attention", "full_attention"] * math.ceil(s["layers"] / 2),
        quantization_config=dict(quant_method="mxfp4"))
    config["layer_types"] = config["layer_types"][:s["layers"]]
    (folder / "config.json").write_text(json.dumps(config))
    q, kv, h, e, inner = s["heads"] * s["size"], s["kv"] * s["size"], s["hidden"], s["experts"], s["inner"]
    layer = {"input_layernorm.weight": (h,), "post_attention_layernorm.weight": (h,), "self_attn.sinks": (s["heads"],),
             "self_attn.q_proj.weight": (q, h), "self_attn.q_proj.bias": (q,), "self_attn.k_proj.weight": (kv, h),
             "self_attn.k_proj.bias": (kv,), "self_attn.v_proj.weight": (kv, h), "self_attn.v_proj.bias": (kv,),
             "self_attn.o_proj.weight": (h, q), "self_attn.o_proj.bias": (h,), "mlp.router.weight": (e, h), "mlp.router.bias": (e,),
             "mlp.experts.gate_up_proj_blocks": (e, 2 * inner, h // 32, 16), "mlp.experts.gate_up_proj_scales": (e, 2 * inner, h // 32),
             "mlp.experts.gate_up_proj_bias": (e, 2 * inner), "mlp.experts.down_proj_blocks": (e, h, inner // 32, 16),
             "mlp.experts.down_proj_scales": (e, h, inner // 32), "mlp.experts.down_proj_bias": (e, h)}
    header, rng = {}, np.random.default_rng(2)
    draw = rng.integers(0, 256, BLOCK, np.uint8)

    def numbers(name, dims):
        count = math.prod(dims)
        if name.endswith("_blocks"):
            return "U8", [draw[:count - begin] for begin in range(0, count, BLOCK)]
        if name.endswith("_scales"):  # powers of two, such that rows keep their size
            return "U8", [np.full(count, 127 - 2 - round(math.log2(dims[-1] * 32) / 2), np.uint8)]
        x = np.ones(count, np.float32) if "norm" in name else rng.standard_normal(count, np.float32) * (
            0.02 if len(dims) == 1 else dims[-1] ** -0.5)
        return "BF16", [(x.view(np.uint32) >> 16).astype(np.uint16)]

    tensors = {("model.", name): (dims, *numbers(name, dims))
               for name, dims in (("embed_tokens.weight", (s["vocabulary"], h)), ("norm.weight", (h,)))}
    tensors["", "lm_head.weight"] = tensors["model.", "embed_tokens.weight"]
    drawn = [{name: (dims, *numbers(name, dims)) for name, dims in layer.items()} for _ in range(min(distinct, s["layers"]))]
    for i in range(s["layers"]):
        tensors.update({(f"model.layers.{i}.", name): each for name, each in drawn[i % distinct].items()})
    for (prefix, name), (dims, kind, parts) in tensors.items():
        size = sum(part.nbytes for part in parts)
        header[prefix + name] = {"dtype": kind, "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, parts in tensors.values():
            for part in parts:
                part.tofile(file)


def compiled(options, model, plan, *more):
    began = time.perf_counter()
    if not plan.exists():
        done = subprocess.run([options.sinter, "compile", str(model), "-o", str(plan), f"--target={options.target}", "--quiet",
                               *more, *options.option], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-800:])
    return round(time.perf_counter() - began, 1)


def one_text(options, folder, shape):
    model, plan = folder / "qwen3.gguf", folder / "qwen3.plan"
    if not model.exists():
        (folder / "qwen3.read").write_text(str(write_qwen3(model, shape, options.distinct)))
    read = int((folder / "qwen3.read").read_text())
    row = {"layers": shape["layers"], "distinct_layers": options.distinct, "read_bytes": read,
           "compile_s": compiled(options, model, plan, "--serve=positions=1024", *([] if options.target == "cpu" else ["--precision=fp16"]))}
    ids = np.random.default_rng(0).integers(0, shape["vocabulary"], 32).tolist()
    reports = [sinter_json(options.sinter, "generate", plan, "--ids", ",".join(map(str, ids)), "--max-tokens=256", "--no-rates", "--quiet",
                           "--greedy", "--no-stop") for _ in range(options.rounds)]
    row["between_tokens_us"] = round(statistics.median(r["between_tokens_us"]["median"] for r in reports), 1)
    row["kernels"] = reports[0]["kernels_per_token"]
    if options.target != "cpu":
        from gpu_timing import copy_rate
        row["read_us"] = round(read / copy_rate() * 1e-6, 1)
        row["of_read"] = round(row["between_tokens_us"] / row["read_us"], 3)
    return row


def serving(options, folder, shape):
    model, plan = folder / "gpt_oss", folder / "gpt_oss.plan"
    if not model.exists():
        write_gpt_oss(model, shape, options.distinct)
    length = 16 if options.tiny else 1000
    row = {"layers": shape["layers"], "distinct_layers": options.distinct,
           "compile_s": compiled(options, model, plan, "--serve=positions=2048", *([] if options.target == "cpu" else ["--precision=bf16"]))}
    draw = np.random.default_rng(2)
    lines = [{"ids": draw.integers(0, shape["vocabulary"], length).tolist(), "max_tokens": length, "temperature": 0, "ignore_eos": True}
             for _ in range(8 if options.tiny else 256)]
    figures, _ = serve(options.sinter, plan, lines, folder)
    return {**row, **figures}


ROWS = {"qwen3_one_text": (one_text, QWEN3), "gpt_oss_serving": (serving, GPT_OSS)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--rows", default=",".join(ROWS))
    p.add_argument("--layers", type=int, help="instead of the model's")
    p.add_argument("--distinct", type=int, default=4)
    p.add_argument("--tiny", action="store_true", help="small shapes")
    p.add_argument("--option", action="append", default=[], help="one of `compile`")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    options = p.parse_args()
    result = {**provenance(options.commit), "rows": {}}
    if options.out and options.out.exists():
        before = json.loads(options.out.read_text())
        if before["commit"] == result["commit"]:
            result["rows"] = before["rows"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.rows.split(","):
            measure, shape = ROWS[name]
            shape = {**(TINY if options.tiny else shape)}
            if options.layers:
                shape["layers"] = options.layers
                name = f"{name}_{options.layers}_layers"
            try:
                row = measure(options, folder, shape)
            except Exception as error:
                row = {"failed": f"{type(error).__name__}: {error}"[:800]}
            result["rows"][name] = row
            print(name, json.dumps(row), flush=True)
            if options.out:
                write(options.out, result)


if __name__ == "__main__":
    main()
