#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny seeded decoders as Hugging Face folders and as GGUF: greedy tokens and logits in float32 are those of transformers.

  check_decoders.py                                every architecture, as folder and as GGUF of float32, some with blocks
  check_decoders.py --only gemma2 --target cuda
  check_decoders.py --blocks Q4_0,Q6_K             every architecture in these types of blocks; all: each that there is
  check_decoders.py --make                         write decoders.json: configurations, tokens and logits (needs transformers);
                                                   with --only these rows

A model of blocks is compared with the folder of the numbers that its blocks stand for.
"""
import argparse
import base64
import json
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "perf"))
from common import provenance, write  # noqa: E402
from runs import Failed, Sinter

GOLDENS = Path(__file__).with_name("decoders.json")
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4",
          "NVFP4", "IQ1_S", "IQ2_XS", "IQ3_S"]
VOCABULARY, STEPS = 96, (0, 31, 63)  # of the logits that are compared
ROUNDING = {"fp16": 2e-2, "bf16": 1e-1}  # of logits, by storage with 16 bits
COMMON = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
KV = dict(num_key_value_heads=2)
MAMBA2 = dict(num_heads=8, head_dim=64, state_size=32, chunk_size=16)
GRANITE_HYBRID = dict(
    layer_types=["mamba", "attention", "mamba"], num_hidden_layers=3, mamba_n_heads=8, mamba_d_state=32, mamba_d_head=64, mamba_expand=2,
    mamba_chunk_size=16, shared_intermediate_size=256, intermediate_size=128, embedding_multiplier=6.0, logits_scaling=4.0,
    residual_multiplier=0.4, attention_multiplier=0.1, position_embedding_type="nope")
LENGTHS = (1, 2, 5, 9, 17, 31, 47, 63, 65, 77)  # that chunks of 16 to 64 do not divide
LONG = 300  # tokens of rows whose positions or windows matter
# Row: model_type, members, tokens.
ROWS = {
    "llama": ("llama", dict(**KV, rope_theta=5e5, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), LONG),
    "llama_linear": ("llama", dict(**KV, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                   rope_scaling=dict(rope_type="linear", factor=4.0)), 64),
    "llama_yarn": ("llama", dict(**KV, head_dim=32, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=128)), LONG),
    "mistral": ("mistral", dict(**KV, sliding_window=24, head_dim=32), LONG),
    "qwen2": ("qwen2", dict(**KV, tie_word_embeddings=True), 64),
    "qwen2_window": ("qwen2", dict(**KV, use_sliding_window=True, sliding_window=16, max_window_layers=1), 64),
    "qwen3": ("qwen3", dict(**KV, head_dim=32), 64),
    "gemma": ("gemma", dict(num_key_value_heads=1, head_dim=32), 64),
    "gemma2": ("gemma2", dict(**KV, head_dim=32, sliding_window=16, query_pre_attn_scalar=24, final_logit_softcapping=3.0,
                              attn_logit_softcapping=5.0), LONG),
    "gemma3": ("gemma3_text", dict(**KV, num_hidden_layers=6, head_dim=32, sliding_window=16, query_pre_attn_scalar=24,
                                   rope_scaling=dict(rope_type="linear", factor=8.0)), LONG),
    "phi3": ("phi3", dict(**KV, sliding_window=40), 64),
    "phi3_long": ("phi3", dict(**KV, original_max_position_embeddings=96, rope_scaling=dict(
        type="longrope", short_factor=[1 + 0.02 * i for i in range(32)], long_factor=[1.5 + 0.1 * i for i in range(32)])), LONG),
    "smollm3": ("smollm3", dict(**KV, num_hidden_layers=4), 64),
    "granite": ("granite", dict(**KV, embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.4,
                                attention_multiplier=0.1), 64),
    "olmo": ("olmo", dict(**KV, clip_qkv=0.5), 64),
    "olmo2": ("olmo2", KV, 64),
    "stablelm": ("stablelm", dict(**KV, use_qkv_bias=True), 64),
    "stablelm_parallel": ("stablelm", dict(**KV, qk_layernorm=True, use_parallel_residual=True), 64),
    "starcoder2": ("starcoder2", dict(**KV, sliding_window=32), 64),
    "gpt_neox": ("gpt_neox", {}, 64),
    "gpt_neox_serial": ("gpt_neox", dict(use_parallel_residual=False, rotary_pct=0.5), 64),
    "mixtral": ("mixtral", dict(**KV, num_local_experts=4, num_experts_per_tok=2, intermediate_size=256), 64),
    "qwen2_moe": ("qwen2_moe", dict(**KV, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=128,
                                    shared_expert_intermediate_size=256), 64),
    "qwen3_moe": ("qwen3_moe", dict(**KV, head_dim=32, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=128,
                                    norm_topk_prob=True, mlp_only_layers=[1], num_hidden_layers=3), 64),
    "olmoe": ("olmoe", dict(**KV, num_experts=8, num_experts_per_tok=2, intermediate_size=128, clip_qkv=2.0), 64),
    "granitemoe": ("granitemoe", dict(**KV, num_local_experts=6, num_experts_per_tok=2, intermediate_size=128, embedding_multiplier=6.0,
                                      logits_scaling=4.0, residual_multiplier=0.4, attention_multiplier=0.1), 64),
    "gpt_oss": ("gpt_oss", dict(**KV, head_dim=64, num_local_experts=6, num_experts_per_tok=2, intermediate_size=128, sliding_window=16,
                                rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                                  original_max_position_embeddings=128)), LONG),
    "deepseek_v3": ("deepseek_v3", dict(
        num_key_value_heads=4, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32, n_routed_experts=8,
        num_experts_per_tok=3, n_group=4, topk_group=2, moe_intermediate_size=128, n_shared_experts=2, first_k_dense_replace=1,
        num_hidden_layers=3, rope_scaling=dict(
            rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
            original_max_position_embeddings=128)), LONG),
    "deepseek_v3_plain": ("deepseek_v3", dict(
        num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=48, n_routed_experts=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=128, n_shared_experts=1, first_k_dense_replace=0,
        norm_topk_prob=False), 64),
    # Layers with states, in part beside attention.
    "mamba": ("mamba", dict(state_size=16, time_step_rank=24), 64),
    "falcon_mamba": ("falcon_mamba", dict(state_size=16), 64),
    "mamba2": ("mamba2", dict(**MAMBA2, n_groups=1), 64),
    "mamba2_groups": ("mamba2", dict(**MAMBA2, n_groups=2, time_step_limit=(0.2, 0.9), use_bias=True, tie_word_embeddings=True), 64),
    "granite_hybrid": ("granitemoehybrid", dict(**KV, **GRANITE_HYBRID, mamba_n_groups=1, num_local_experts=0), 64),
    "granite_hybrid_experts": ("granitemoehybrid", {
        **KV, **GRANITE_HYBRID, "mamba_n_groups": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "position_embedding_type": "rope"}, 64),
    "lfm2": ("lfm2", dict(**KV, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3), 64),
    "qwen3_next": ("qwen3_next", dict(
        **KV, head_dim=64, layer_types=["linear_attention", "full_attention"], num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=128, shared_expert_intermediate_size=128, linear_key_head_dim=32, linear_value_head_dim=32,
        linear_num_key_heads=2, linear_num_value_heads=4), 64),
    # --make of these needs transformers 5.
    "qwen3_5": ("qwen3_5_text", dict(
        **KV, head_dim=64, layer_types=["linear_attention", "full_attention"], linear_key_head_dim=32, linear_value_head_dim=32,
        linear_num_key_heads=2, linear_num_value_heads=4), 64),
    "nemotron_h": ("nemotron_h", dict(
        **KV, head_dim=64, layers_block_type=["mamba", "attention", "mlp"], mamba_num_heads=8, n_groups=2, ssm_state_size=32,
        mamba_head_dim=64, chunk_size=16), 64),
}
# GGUF does not say where their windows are.
NO_WINDOWS = ("mistral", "qwen2_window", "starcoder2")
FOLDERS_ALONE = ("qwen3_5",)  # their files have heads of values in another order
# transformers has one norm for all groups of Mamba-2, llama.cpp one for each.
OTHER_GGUF = ("mamba2_groups", "granite_hybrid_experts")
# As published: in 8 bits.
FP8 = ("deepseek_v3", "deepseek_v3_plain")
HALVES = ("qwen2", "gemma3", "stablelm_parallel", "mamba2", "qwen3_next")


def weights_of(row, tensors, layers):
    """Seeded by the tensors' names. `tensors`: shapes by names, in which {} stands for each layer."""
    found = {}
    is_gemma, is_tied = "gemma" in row, not any("lm_head" in name or "embed_out" in name for name in tensors)
    for pattern, shape in tensors.items():
        for name in [pattern.replace("{}", str(i)) for i in range(layers)] if "{}" in pattern else [pattern]:
            x = np.random.default_rng(zlib.crc32(f"{row} {name}".encode())).normal(size=shape)
            if len(shape) == 1:
                x = 0.3 * x + (name.endswith("weight") and not is_gemma)
            elif "embed_" in name:
                x *= 0.02 if is_gemma else 0.1 if is_tied else 1
            else:
                x *= 1.5 * shape[-1] ** -0.5
            found[name] = x.astype(np.float32)
    return found


def write_folder(row, golden, path, dtype=np.float32, change=lambda weights: weights):
    from safetensors.numpy import save_file
    path.mkdir()
    (path / "config.json").write_text(json.dumps(golden["config"]))
    weights = weights_of(row, golden["tensors"], layers_of(golden["config"]))
    save_file(change({name: x.astype(dtype) for name, x in weights.items()}), path / "model.safetensors")


FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def mxfp4(x):
    """Experts' matrices [experts, inputs, outputs] as published: codes and exponents of blocks of the inputs; what they stand for."""
    blocks = np.ascontiguousarray(x.swapaxes(1, 2)).reshape(*x.shape[::2], -1, 32)
    exponents = np.ceil(np.log2(np.abs(blocks).max(-1) / 6))
    parts = blocks / np.exp2(exponents)[..., None]
    codes = np.abs(np.abs(parts)[..., None] - FLOAT4).argmin(-1)
    meant = np.sign(parts) * FLOAT4[codes] * np.exp2(exponents)[..., None]
    codes += 8 * (parts < 0)
    packed = (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)
    return packed, (exponents + 127).astype(np.uint8), meant.reshape(*x.shape[::2], -1).swapaxes(1, 2).astype(np.float32)


def float8():
    """The numbers of all codes of e4m3."""
    codes = np.arange(256)
    exponents, bits = codes >> 3 & 15, codes & 7
    x = np.where(exponents == 0, bits / 8 * 2.0 ** -6, (1 + bits / 8) * 2.0 ** (exponents - 7)) * np.where(codes < 128, 1, -1)
    return np.where(codes & 127 == 127, np.nan, x).astype(np.float32)


def fp8(x):
    """A matrix as published: codes, a scale for each 128 x 128 of them; what they stand for."""
    table, n, k = float8(), *x.shape
    scales = np.array([[np.abs(x[i:i + 128, j:j + 128]).max() / 448 for j in range(0, k, 128)] for i in range(0, n, 128)], np.float32)
    spread = scales.repeat(128, 0)[:n].repeat(128, 1)[:, :k]
    order = np.argsort(table[:127])
    ends = (table[order][1:] + table[order][:-1]) / 2
    codes = (order[np.searchsorted(ends, np.abs(x / spread))] + 128 * (x < 0)).astype(np.uint8)
    return codes, scales, table[codes] * spread


def save_fp8(tensors, path):
    """safetensors with uint8 matrices as F8_E4M3, which NumPy does not have."""
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F8_E4M3" if x.dtype == np.uint8 else "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(x).tobytes() for x in tensors.values()))


def write_fp8(row, golden, packed, plain):
    """Folders of a model whose layers' matrices are of 8 bits, and of what these stand for."""
    own = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "activation_scheme": "dynamic"}
    tensors, numbers = {}, {}

    def change(weights):
        for name, x in weights.items():
            tensors[name] = numbers[name] = x
            if x.ndim == 2 and ".layers." in name and "gate.weight" not in name:
                tensors[name], tensors[name + "_scale_inv"], numbers[name] = fp8(x)
        return numbers
    write_folder(row, golden, plain, change=change)
    write_folder(row, {**golden, "config": {**golden["config"], "quantization_config": own}}, packed)
    save_fp8(tensors, packed / "model.safetensors")


def with_blocks(weights, is_packed):
    """Weights of which all matrices of experts are in blocks, or what these stand for."""
    found = {}
    for name, x in weights.items():
        if x.ndim != 3:
            found[name] = x
            continue
        packed, scales, meant = mxfp4(x)
        found.update({f"{name}_blocks": packed, f"{name}_scales": scales} if is_packed else {name: np.ascontiguousarray(meant)})
    return found


def layers_of(config):
    return config.get("num_hidden_layers") or len(config["layers_block_type"])


def is_recurrent(tensors):
    return any("conv" in name for name in tensors)


def logits_of(text):
    return np.frombuffer(base64.b64decode(text), np.float32).reshape(-1, VOCABULARY)


# ---------------------------------------------------------------- goldens


def make_row(row):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel
    PreTrainedModel.init_weights = PreTrainedModel.tie_weights  # some cannot draw theirs
    kind, more, count = ROWS[row]
    config = AutoConfig.for_model(kind, **{**COMMON, **more})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    layers, tensors, names = config.num_hidden_layers, {}, {}
    for name, x in model.state_dict().items():
        if kind == "nemotron_h":  # as published
            names[name.replace("model.", "backbone.")] = name
            name = name.replace("model.", "backbone.")
        if not (config.tie_word_embeddings and name.startswith(("lm_head", "embed_out"))):
            tensors[name] = list(x.shape)
    first = {name.replace(".layers.0.", ".layers.{}.") for name in tensors}
    if all(name.replace("{}", str(i)) in tensors for name in first for i in range(layers)):  # all layers are alike
        tensors = {name.replace(".layers.0.", ".layers.{}."): shape for name, shape in tensors.items()
                   if ".layers." not in name or ".layers.0." in name}
    weights = weights_of(row, tensors, layers)
    model.load_state_dict({names.get(name, name): torch.from_numpy(x) for name, x in weights.items()}, strict=False)
    model.tie_weights()
    for seed in range(100):  # until no token leads by so little that rounding could decide
        prompt = np.random.default_rng(seed).integers(3, VOCABULARY, 20).tolist()
        tokens, rows, new = [], [], prompt
        # Caches of states have classes of their own: the whole text each time, by chunks.
        more = {"use_cache": False} if is_recurrent(tensors) else {"past_key_values": DynamicCache(config=config), "use_cache": True}
        with torch.no_grad():
            while len(tokens) < count:
                rows.append(model(torch.tensor([new]), **more).logits[0, -1].numpy())
                tokens.append(int(rows[-1].argmax()))
                new = prompt + tokens if is_recurrent(tensors) else tokens[-1:]
        best = np.sort(rows, axis=-1)
        lead = float((best[:, -1] - best[:, -2]).min())
        if lead > 2e-4 and len(set(tokens)) > 3:
            break
    print(f"{row}: {len(set(tokens))} different tokens, the closest lead is {lead:.1e}, prompt {seed}", flush=True)
    keep = json.loads(config.to_json_string())  # what save_pretrained writes
    keep["architectures"] = [type(model).__name__]
    return {"config": keep, "tensors": tensors, "prompt": prompt, "tokens": tokens,
            "logits": base64.b64encode(np.stack([rows[i] for i in STEPS]).tobytes()).decode()}


def make(only):
    import logging
    logging.disable()
    old = json.loads(GOLDENS.read_text()) if only else {}
    lines = [f"{json.dumps(row)}: {json.dumps(make_row(row) if not only or row in only.split(',') else old[row])}" for row in ROWS]
    GOLDENS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# ---------------------------------------------------------------- checks


def check(sinter, model, golden, count, tolerance=2e-5):
    """Throws Failed unless tokens and logits are the golden's; with 16 bits logits alone, as tokens that lead by less may differ."""
    if sinter.precision != "model":
        return compare_logits(sinter, model, golden, count, ROUNDING[sinter.precision])
    plan = sinter.compile(model, "--serve=step-tokens=512")
    prompt, tokens = golden["prompt"], golden["tokens"][:count]
    found = sinter.json("generate", plan, "--ids", ",".join(map(str, prompt)), "--max-tokens", count, "--no-stop",
                        "--no-rates", "--greedy", "--no-generation-config")["tokens"]
    plan.unlink()
    for i, (a, b) in enumerate(zip(found, tokens, strict=True)):
        if a != b:
            raise Failed(f"token {i} of {len(tokens)} is {a}, should be {b}")
    return compare_logits(sinter, model, golden, count, tolerance)


def check_at_once(sinter, model):
    """Throws Failed unless prompts that are computed together give the tokens of each alone; with 16 bits until rounding decides."""
    plan, options = sinter.compile(model, "--serve=step-tokens=512"), ["--no-rates", "--no-generation-config"]
    prompts = [[5, 17, 33, 2], [9], list(range(20, 50)), [1, 2]]
    alone = [sinter.json("generate", plan, "--ids", ",".join(map(str, ids)), "--max-tokens", 24, "--no-stop", "--greedy",
                         *options)["tokens"] for ids in prompts]
    file = Path(plan).with_suffix(".jsonl")
    file.write_text("".join(json.dumps({"ids": ids, "max_tokens": 24, "temperature": 0, "ignore_eos": True}) + "\n" for ids in prompts))
    found = [each["tokens"] for each in sinter.json("generate", plan, "--requests", file, "--no-generation-config")["answers"]]
    if found == alone:
        return
    if sinter.precision == "model":
        raise Failed(f"together the tokens are {found}, alone {alone}")
    plan = sinter.compile(model)
    for ids, one, other in zip(prompts, alone, found, strict=True):
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)
        if at is None:
            continue
        row = logits(sinter, plan, ids + one[:at])
        lead = float(row.max() - min(row[one[at]], row[other[at]]))
        if not lead <= ROUNDING[sinter.precision] * float(np.abs(row).max()):
            raise Failed(f"of {len(ids)} ids, token {at} is {other[at]} together, {one[at]} alone, whose logits differ by {lead:.1e}")
    plan.unlink()


def empty(sinter, plan, ids):
    """Feeds of a text, with caches of its length and states of nothing."""
    found = sinter.json("inspect", plan)
    feeds = {"input_ids": np.array([ids])}
    for each in found["inputs"]:
        kind, shape = each["type"][:-1].split("[")
        if each["name"].startswith("past_"):
            sizes = [int(d) if d.strip().isdigit() else len(ids) for d in shape.split(",")]
            feeds[each["name"]] = np.zeros(sizes, {"f32": np.float32, "f16": np.float16}[kind])
        elif each["name"] == "position":
            feeds[each["name"]] = np.zeros(1, np.int64)
        elif each["name"] == "attention_mask":
            feeds[each["name"]] = np.ones((1, len(ids)), np.int64)
    return feeds


def logits(sinter, plan, ids):
    return sinter.run(plan, empty(sinter, plan, ids))["logits"][0]


def check_one_by_one(sinter, model):
    """Throws Failed unless logits and states behind texts are those of their tokens one by one, from empty caches."""
    plan, worst, rng = sinter.compile(model), 0, np.random.default_rng(7)
    for length in LENGTHS:
        ids = rng.integers(3, VOCABULARY, length)
        feeds = empty(sinter, plan, ids)
        whole = sinter.run(plan, feeds)
        for at in range(length):
            feeds["input_ids"] = ids[None, at:at + 1]
            if "position" in feeds:
                feeds["position"] = np.array([at])
            found = sinter.run(plan, feeds)
            feeds.update({name.replace("present", "past"): x for name, x in found.items() if name.startswith("present")})
        kept = [name for name in whole if not name.startswith(("present_key", "present_value"))]
        worst = max(worst, *(float(np.linalg.norm(found[name] - whole[name]) / np.linalg.norm(whole[name])) for name in kept))
    plan.unlink()
    if not worst <= 2e-5:
        raise Failed(f"tokens one by one are {worst:.1e} away from texts of them")


def compare_logits(sinter, model, golden, count, tolerance):
    plan, worst = sinter.compile(model), 0
    for step, expected in zip(STEPS, logits_of(golden["logits"])):
        if step < count:
            found = logits(sinter, plan, golden["prompt"] + golden["tokens"][:step])
            worst = max(worst, float(np.linalg.norm(found - expected) / np.linalg.norm(expected)))
    plan.unlink()
    if not worst <= tolerance:
        raise Failed(f"logits are off by {worst:.1e}, may be {tolerance:.0e}")
    return worst


def own_golden(sinter, model, golden):
    """Tokens and logits of the folder of a GGUF file's numbers."""
    own = {"prompt": golden["prompt"]}
    plan = sinter.compile(model, "--serve=step-tokens=512")
    own["tokens"] = sinter.json("generate", plan, "--ids", ",".join(map(str, own["prompt"])), "--max-tokens", 64, "--no-stop",
                                "--no-rates", "--greedy", "--no-generation-config")["tokens"]
    plan = sinter.compile(model)
    rows = [logits(sinter, plan, own["prompt"] + own["tokens"][:step]) for step in STEPS]
    own["logits"] = base64.b64encode(np.stack(rows).astype(np.float32).tobytes()).decode()
    return own


def cases_of(row, blocks):
    """(label, type of blocks; None: the folder; "half": the folder in float16)."""
    if row in OTHER_GGUF + FOLDERS_ALONE:
        return [] if blocks else [(row, None)]
    if blocks:
        return [(f"{row}.{kind}", kind) for kind in blocks]
    cases = [(row, None)]
    if row in HALVES:
        cases.append((f"{row}.half", "half"))
    if row == "gpt_oss" or row in FP8:
        cases.append((f"{row}.published", "published"))
    if row not in NO_WINDOWS:
        cases.append((f"{row}.gguf", "F32"))
    some = BLOCKS[list(ROWS).index(row) % len(BLOCKS)]  # each type in one or two rows
    return cases + [(f"{row}.{some}", some)]


def nearness(sinter):
    """What logits of the same weights, stored in two ways, may differ by: more where their products round to 16 bits."""
    return 1e-4 if sinter.precision == "model" else 2e-2


def run_case(sinter, row, golden, kind, folder):
    from gguf_of_folder import convert
    source = folder / row
    if not source.exists():
        write_folder(row, golden, source)
    if kind is None:
        if "past_" not in sinter.text("inspect", source, "--graph"):
            raise Failed("inspect does not show its graph")
        if any("expert" in name for name in golden["tensors"]) or is_recurrent(golden["tensors"]):
            check_at_once(sinter, source)
        if is_recurrent(golden["tensors"]) and sinter.precision == "model":
            check_one_by_one(sinter, source)
        return check(sinter, source, golden, len(golden["tokens"]))
    if kind == "half":
        write_folder(row, golden, folder / f"{row}.half", np.float16)
        return compare_logits(sinter, folder / f"{row}.half", golden, len(golden["tokens"]), 2e-2)
    if kind == "published":
        packed, plain = folder / f"{row}.packed", folder / f"{row}.numbers"
        if row == "gpt_oss":
            write_folder(row, golden, packed, change=lambda weights: with_blocks(weights, True))
            write_folder(row, golden, plain, change=lambda weights: with_blocks(weights, False))
        else:
            write_fp8(row, golden, packed, plain)
        return compare_logits(sinter, packed, own_golden(sinter, plain, golden), 64, nearness(sinter))
    is_joined = row == "deepseek_v3_plain"
    if kind == "F32":
        convert(source, folder / f"{row}.gguf", is_joined=is_joined)
        return check(sinter, folder / f"{row}.gguf", golden, len(golden["tokens"]))
    file, numbers = folder / f"{row}.{kind}.gguf", folder / f"{row}.{kind}"
    # Compared with each other: windows that GGUF does not say are left out of both.
    plain = {**golden, "config": {k: v for k, v in golden["config"].items() if k not in ("sliding_window", "layer_types")}}
    if row in NO_WINDOWS:
        source = folder / f"{row}.plain"
        if not source.exists():
            write_folder(row, plain, source)
    convert(source, file, kind, numbers, is_joined)
    own = own_golden(sinter, numbers, golden)
    # A token that leads by less than rounding may be another: logits decide.
    return compare_logits(sinter, file, own, 64, nearness(sinter))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(Path(__file__).resolve().parents[2] / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model", choices=("model", "fp16", "bf16"), help="pages of a GPU need 16 bits")
    p.add_argument("--ranks", type=int, default=1, help="the number of ranks that each is split over")
    p.add_argument("--only", help="rows, divided by commas")
    p.add_argument("--blocks", help="types of blocks, or all")
    p.add_argument("--out", help="write the errors as JSON, which results_table.py reads")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make:
        return make(a.only)
    goldens, failed, rows = json.loads(GOLDENS.read_text()), 0, {}
    blocks = BLOCKS if a.blocks == "all" else a.blocks.split(",") if a.blocks else []
    from gguf_of_folder import ARCHITECTURES
    assert {golden["config"]["model_type"] for row, golden in goldens.items() if row not in FOLDERS_ALONE} == set(ARCHITECTURES)
    for row, golden in goldens.items():
        if a.only and row not in a.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as name:
            sinter = Sinter(a.sinter, name, a.target, a.precision, a.ranks)
            for label, kind in cases_of(row, blocks):
                try:
                    error = run_case(sinter, row, golden, kind, Path(name))
                    rows[label] = float(f"{error:.1e}")
                    print(f"ok     {label}: {error:.1e}", flush=True)
                except Failed as e:
                    failed += 1
                    rows[label] = str(e)
                    print(f"FAILED {label}: {e}", flush=True)
    print(f"{len(rows) - failed} of {len(rows)} decoders as they should be")
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "errors": rows})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
