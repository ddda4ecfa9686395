# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face folder as GGUF, with the names, keys and orders of llama.cpp's converter, in one type of blocks."""
import json
import re
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

LLAMA = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
NEOX = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
        "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up",
        "mlp.dense_4h_to_h": "ffn_down"}
# Of a mixture: "{}" stands for an expert's number.
EXPERTS = {"mlp.gate": "ffn_gate_inp", "mlp.experts.{}.gate_proj": "ffn_gate_exps", "mlp.experts.{}.up_proj": "ffn_up_exps",
           "mlp.experts.{}.down_proj": "ffn_down_exps", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
           "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
           "mlp.shared_expert.down_proj": "ffn_down_shexp"}
MIXTRAL = {"block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.experts.{}.w1": "ffn_gate_exps",
           "block_sparse_moe.experts.{}.w3": "ffn_up_exps", "block_sparse_moe.experts.{}.w2": "ffn_down_exps"}
GRANITE_MOE = {"block_sparse_moe.router.layer": "ffn_gate_inp", "block_sparse_moe.input_linear": "ffn_gate_exps+ffn_up_exps",
               "block_sparse_moe.output_linear": "ffn_down_exps"}
# Columns of gate and up alternate; matrices are [inputs, outputs].
GPT_OSS = {"self_attn": "attn_sinks", "mlp.router": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"}
MAMBA = {"backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm", "norm": "attn_norm", "mixer.in_proj": "ssm_in",
         "mixer.conv1d": "ssm_conv1d", "mixer.x_proj": "ssm_x", "mixer.dt_proj": "ssm_dt", "mixer.norm": "ssm_norm",
         "mixer.out_proj": "ssm_out"}
GRANITE_HYBRID = {**GRANITE_MOE, **{name.replace("mixer", "mamba"): to for name, to in MAMBA.items()},
                  "shared_mlp.input_linear": "ffn_gate+ffn_up", "shared_mlp.output_linear": "ffn_down"}
NEMOTRON = {**MAMBA, "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v", "mixer.o_proj": "attn_output",
            "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down"}
LFM2 = {"model.embedding_norm": "token_embd_norm", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
        "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate",
        "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up", "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
        "conv.out_proj": "shortconv.out_proj"}
QWEN3_NEXT = {**EXPERTS, "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkvz": "attn_qkv+attn_gate",
              "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
              "linear_attn.out_proj": "ssm_out"}
# Vectors and tables of layers with states.
STATES = {"A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias"}
DEEPSEEK = {**EXPERTS, "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
            "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
            "self_attn.kv_b_proj": "attn_kv_b", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
            "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp"}
# model_type: GGUF's architecture, whether rows of q and k are reordered, names that differ from Llama's.
ARCHITECTURES = {
    "llama": ("llama", True, {}), "mistral": ("llama", True, {}), "qwen2": ("qwen2", False, {}),
    "qwen3": ("qwen3", False, {}), "gemma": ("gemma", False, {}), "gemma2": ("gemma2", False, SANDWICH),
    "gemma3_text": ("gemma3", False, SANDWICH),
    "phi3": ("phi3", False, {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}),
    "smollm3": ("smollm3", True, {}), "granite": ("granite", True, {}), "olmo": ("olmo", True, {}),
    "olmo2": ("olmo2", False, SANDWICH), "stablelm": ("stablelm", False, {}),
    "starcoder2": ("starcoder2", False, {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}),
    "gpt_neox": ("gptneox", False, NEOX),
    "mixtral": ("llama", True, MIXTRAL), "qwen2_moe": ("qwen2moe", False, EXPERTS), "qwen3_moe": ("qwen3moe", False, EXPERTS),
    "olmoe": ("olmoe", False, EXPERTS), "granitemoe": ("granitemoe", True, GRANITE_MOE), "gpt_oss": ("gpt-oss", False, GPT_OSS),
    "deepseek_v3": ("deepseek2", False, DEEPSEEK),
    "mamba": ("mamba", False, MAMBA), "falcon_mamba": ("mamba", False, MAMBA), "mamba2": ("mamba2", False, MAMBA),
    "nemotron_h": ("nemotron_h", False, NEMOTRON), "granitemoehybrid": ("granitehybrid", True, GRANITE_HYBRID), "lfm2": ("lfm2", False, LFM2),
    "qwen3_next": ("qwen3next", False, QWEN3_NEXT)}


# Where a block of a type that the gguf package cannot make has its scales, of float16.
SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,),
          **{kind: (0,) for kind in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")}}


def blocks_of(x, kind):
    """x, or random numbers of its size, as blocks: bytes, what they stand for, and its number for the whole matrix."""
    own = gguf.GGMLQuantizationType[kind]
    factor = 1
    if kind == "F32":
        return x, x, factor
    try:
        data = gguf.quants.quantize(x, own)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[own]
        rng = np.random.default_rng(len(x))
        data = rng.integers(0, 256, (len(x), x.shape[1] // block, size), dtype=np.uint8)

        def scale(value):
            for at in SCALES[kind]:
                data[..., at:at + 2] = np.full(data.shape[:2], value, np.float16)[..., None].view(np.uint8)
        if kind in SCALES:
            scale(1)
            scale(x.std() / gguf.dequantize(data.reshape(len(x), -1), own).std())
        elif kind == "NVFP4":  # around 1
            data[..., :4] = data[..., :4] % 16 + 48
            factor = np.float32(x.std() / 3)
        else:  # MXFP4: an exponent
            data[..., 0] = round(127 + np.log2(x.std() / 3))
        data = data.reshape(len(x), -1)
    return data, gguf.dequantize(data, own).reshape(x.shape) * factor, factor


def neighbours(rows, heads):
    """The order of rows of q and k in which the two elements that turn together stand side by side."""
    return np.arange(rows).reshape(heads, 2, rows // heads // 2).swapaxes(1, 2).reshape(rows)


NO_ATTENTION = ("mamba", "falcon_mamba", "mamba2")


def mlp_of(c):
    if c["model_type"] == "granitemoehybrid" and not c["num_local_experts"]:
        return c["shared_intermediate_size"]
    if c["model_type"] != "lfm2" or not c["block_auto_adjust_ff_dim"]:
        return c["intermediate_size"]
    size, multiple = int(c["block_ffn_dim_multiplier"] * int(2 * c["intermediate_size"] / 3)), c["block_multiple_of"]
    return -(-size // multiple) * multiple


def states_of(c, add):
    """Keys of layers with states."""
    kind = c["model_type"]
    if kind == "lfm2":
        add("shortconv.l_cache", c["conv_L_cache"])
    names = {"mamba": ("conv_kernel", "state_size", "time_step_rank", None, "intermediate_size"),
             "falcon_mamba": ("conv_kernel", "state_size", "time_step_rank", None, "intermediate_size"),
             "mamba2": ("conv_kernel", "state_size", "num_heads", "n_groups", "head_dim"),
             "granitemoehybrid": ("mamba_d_conv", "mamba_d_state", "mamba_n_heads", "mamba_n_groups", "mamba_d_head"),
             "nemotron_h": ("conv_kernel", "ssm_state_size", "mamba_num_heads", "n_groups", "mamba_head_dim"),
             "qwen3_next": ("linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_value_heads", "linear_num_key_heads",
                            "linear_value_head_dim")}.get(kind)
    if names is None:
        return
    taps, state, rank, groups, size = (c[name] if name else None for name in names)
    add("ssm.conv_kernel", taps)
    add("ssm.state_size", state)
    add("ssm.time_step_rank", rank)
    add("ssm.inner_size", rank * size if groups else size)
    if groups:
        add("ssm.group_count", groups)
    if kind == "falcon_mamba":
        add("ssm.dt_b_c_rms", True)
    if kind == "granitemoehybrid":
        add("rope.scaling.finetuned", c["position_embedding_type"] == "rope")
    if kind == "qwen3_next":
        add("full_attention_interval", c["num_hidden_layers"])


def delta_order(c):
    """Rows of in_proj_qkvz, which each head of keys has: all queries, keys, values, gates."""
    heads, keys = c["linear_num_key_heads"], c["linear_key_head_dim"]
    values = c["linear_value_head_dim"] * c["linear_num_value_heads"] // heads
    rows = np.arange(heads * 2 * (keys + values)).reshape(heads, -1)
    parts = np.split(rows, [keys, 2 * keys, 2 * keys + values], axis=1)
    return np.concatenate([part.reshape(-1) for part in parts])


def latent_keys(c, add, is_joined):
    """Of DeepSeek's attention and routing; `is_joined`: as files were before llama.cpp cached what keys and values are made of."""
    rank, turned, size = c["kv_lora_rank"], c["qk_rope_head_dim"], c["qk_rope_head_dim"] + c["qk_nope_head_dim"]
    add("attention.head_count_kv", c["num_attention_heads"] if is_joined else 1)
    add("attention.key_length", size if is_joined else rank + turned)
    add("attention.value_length", c["v_head_dim"] if is_joined else rank)
    if not is_joined:
        add("attention.key_length_mla", size)
        add("attention.value_length_mla", c["v_head_dim"])
    add("attention.kv_lora_rank", rank)
    if c["q_lora_rank"]:
        add("attention.q_lora_rank", c["q_lora_rank"])
    add("rope.dimension_count", turned)
    add("leading_dense_block_count", c["first_k_dense_replace"])
    add("expert_shared_count", c["n_shared_experts"])
    add("expert_group_count", c["n_group"])
    add("expert_group_used_count", c["topk_group"])
    add("expert_weights_scale", float(c["routed_scaling_factor"]))
    if c["norm_topk_prob"]:
        add("expert_weights_norm", True)
    add("expert_gating_func", 2)
    if c.get("rope_scaling"):
        add("rope.scaling.yarn_log_multiplier", 0.1 * c["rope_scaling"]["mscale_all_dim"])
        add("rope.scaling.yarn_beta_fast", float(c["rope_scaling"]["beta_fast"]))
        add("rope.scaling.yarn_beta_slow", float(c["rope_scaling"]["beta_slow"]))


def keys_of(c, add):
    """GGUF's keys of config.json `c`; `add` (key, value)."""
    add("block_count", c.get("num_hidden_layers") or len(c["layers_block_type"]))
    add("context_length", c.get("max_position_embeddings", 1 << 20))
    add("embedding_length", c["hidden_size"])
    states_of(c, add)
    if c["model_type"] in NO_ATTENTION:
        add("feed_forward_length", 0)
        add("attention.head_count", 0)
        add("attention.layer_norm_rms_epsilon", float(c["layer_norm_epsilon"]))
        return
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    share = c.get("partial_rotary_factor") or c.get("rotary_pct") or 1
    kv = c.get("num_key_value_heads") or c["num_attention_heads"]
    add("feed_forward_length", mlp_of(c))
    add("attention.head_count", c["num_attention_heads"])
    if "kv_lora_rank" not in c:
        by_layer = [kv if kind in ("attention", "full_attention") else 0 for kind in c.get("layer_types") or c.get("layers_block_type") or []]
        add("attention.head_count_kv", by_layer if c["model_type"] in ("lfm2", "granitemoehybrid", "nemotron_h") else kv)
        add("attention.key_length", size)
        add("attention.value_length", size)
        add("rope.dimension_count", int(size * share))
    add("rope.freq_base", float(c.get("rope_theta") or c.get("rotary_emb_base") or 10000))
    for key, names in {"attention.layer_norm_rms_epsilon": ["rms_norm_eps", "norm_eps", "layer_norm_epsilon"],
                       "attention.layer_norm_epsilon": ["layer_norm_eps", "norm_epsilon"],
                       "attn_logit_softcapping": ["attn_logit_softcapping"],
                       "final_logit_softcapping": ["final_logit_softcapping"],
                       "embedding_scale": ["embedding_multiplier"], "residual_scale": ["residual_multiplier"],
                       "logit_scale": ["logits_scaling"], "attention.scale": ["attention_multiplier"],
                       "attention.clamp_kqv": ["clip_qkv"]}.items():
        for name in names:
            if c.get(name) is not None:
                add(key, float(c[name]))
    for key, names in {"expert_count": ["num_experts", "num_local_experts", "n_routed_experts"], "expert_used_count": ["num_experts_per_tok"],
                       "expert_feed_forward_length": ["moe_intermediate_size"],
                       "expert_shared_feed_forward_length": ["shared_expert_intermediate_size"]}.items():
        for name in names:
            if c.get(name):
                add(key, c[name])
    if c["model_type"] == "olmo":
        add("attention.layer_norm_epsilon", 1e-5)
    if c["model_type"].startswith("gemma") and c.get("query_pre_attn_scalar", size) != size:
        add("attention.scale", c["query_pre_attn_scalar"] ** -0.5)
    if c.get("sliding_window") and c["model_type"] not in ("mistral", "qwen2", "qwen3", "smollm3", "starcoder2"):
        add("attention.sliding_window", c["sliding_window"])
    if "use_parallel_residual" in c:
        add("use_parallel_residual", c["use_parallel_residual"])


def scaling_of(c, size, share, add, tensor):
    scaling = c.get("rope_scaling")
    if not scaling:
        return
    kind = scaling.get("rope_type") or scaling.get("type")
    pairs = int(size * share) // 2
    if kind in ("linear", "yarn"):
        add("rope.scaling.type", kind)
        add("rope.scaling.factor", float(scaling["factor"]))
        if kind == "yarn":
            add("rope.scaling.original_context_length", scaling["original_max_position_embeddings"])
    elif kind == "llama3":
        theta = c["rope_theta"] ** (-np.arange(pairs, dtype=np.float64) / pairs)
        length = 2 * np.pi / theta
        old, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
        smooth = (old / length - low) / (high - low)
        factor = np.where(length > old / low, scaling["factor"],
                          np.where(length < old / high, 1, 1 / ((1 - smooth) / scaling["factor"] + smooth)))
        tensor("rope_freqs.weight", factor.astype(np.float32))
    elif kind in ("longrope", "su"):
        old = c["original_max_position_embeddings"]
        ratio = c["max_position_embeddings"] / old
        add("rope.scaling.original_context_length", old)
        add("rope.scaling.attn_factor", float(np.sqrt(1 + np.log(ratio) / np.log(old))))
        for which in ("short", "long"):
            tensor(f"rope_factors_{which}.weight", np.array(scaling[which + "_factor"], np.float32))


def convert(folder, out, kind="F32", dequantized=None, is_joined=False):
    """Writes `out`, and into the folder `dequantized` the same model with the numbers that its blocks stand for. `is_joined`: with one
    matrix for keys and values of latent attention."""
    c = json.loads((Path(folder) / "config.json").read_text())
    arch, turned, more = ARCHITECTURES[c["model_type"]]
    names = {**LLAMA, **more}
    heads = c.get("num_attention_heads") or 1
    kv = c.get("num_key_value_heads") or heads
    size = c.get("head_dim") or c["hidden_size"] // heads
    share = c.get("partial_rotary_factor") or c.get("rotary_pct") or 1
    writer = gguf.GGUFWriter(out, arch)

    def add(key, value):
        method = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string,
                  list: writer.add_array}
        method[type(value)](f"{arch}.{key}", value)

    def vector(name, x):
        writer.add_tensor(name, np.ascontiguousarray(x, np.float32))

    def of_experts(name, x):
        """Writes [experts, rows, columns]; returns what its blocks stand for."""
        is_whole = x.shape[2] % gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0] == 0
        own = kind if is_whole and kind != "NVFP4" else "Q8_0"  # NVFP4 has a factor for each matrix
        data, meant, _ = blocks_of(np.ascontiguousarray(x).reshape(-1, x.shape[2]), own)
        writer.add_tensor(name, data.reshape(*x.shape[:2], -1), raw_dtype=gguf.GGMLQuantizationType[own])
        return meant.reshape(x.shape)

    keys_of(c, add)
    if "kv_lora_rank" in c:
        latent_keys(c, add, is_joined)
    add("vocab_size", c["vocab_size"])
    scaling_of(c, size, share, add, vector)
    stacked, numbers, experts = {}, {}, {}
    for name, x in sorted(load_file(Path(folder) / "model.safetensors").items()):
        stem, part = name.rsplit(".", 1)
        if part.startswith(("gate_up_proj", "down_proj")) and arch == "gpt-oss":
            numbers[name] = np.empty_like(x)
            prefix = f"blk.{stem.split('.')[2]}."
            for own, i in (("gate", 0), ("up", 1)) if part.startswith("gate") else (("down", None),):
                columns = slice(None) if i is None else slice(i, None, 2)
                if x.ndim == 2:
                    vector(f"{prefix}ffn_{own}_exps.bias", x[:, columns])
                    numbers[name][:, columns] = x[:, columns]
                else:
                    meant = of_experts(f"{prefix}ffn_{own}_exps.weight", x[:, :, columns].swapaxes(1, 2))
                    numbers[name][:, :, columns] = meant.swapaxes(1, 2)
            continue
        if part == "sinks":
            part = "weight"
        prefix = ""
        if ".layers." in name:
            layer, stem = stem.split(".layers.")[1].split(".", 1)
            prefix = f"blk.{layer}."
        numbers[name] = x
        if part in STATES:
            values = -np.exp(x) if part == "A_log" else x
            vector(prefix + STATES[part], values[:, None] if values.ndim == 1 and part != "dt_bias" and arch != "qwen3next" else values)
            continue
        if x.ndim == 3 and stem.endswith(("conv1d", "conv.conv")):
            vector(f"{prefix}{names[stem]}.{part}", x[:, 0])
            continue
        if names.get(stem) == "ssm_norm" and arch != "qwen3next":
            vector(f"{prefix}ssm_norm.{part}", x.reshape(c.get("n_groups") or c["mamba_n_groups"], -1))
            continue
        if part == "e_score_correction_bias":
            vector(f"{prefix}exp_probs_b.bias", x)
            continue
        if stem == "self_attn.kv_b_proj" and not is_joined:  # a matrix for each head; of keys its transpose
            by_head = x.reshape(heads, -1, x.shape[1])
            k, v = np.split(by_head, [c["qk_nope_head_dim"]], axis=1)
            k = of_experts(f"{prefix}attn_k_b.weight", k.swapaxes(1, 2)).swapaxes(1, 2)
            numbers[name] = np.concatenate([k, of_experts(f"{prefix}attn_v_b.weight", v)], axis=1).reshape(x.shape)
            continue
        if "layernorm.norms." in stem:  # of each head
            what = "attn_q_norm" if ".q_layernorm" in stem else "attn_k_norm"
            stacked.setdefault(f"{prefix}{what}.weight", {})[int(stem.rsplit(".", 1)[1])] = x
            continue
        number = re.search(r"\.experts\.(\d+)\.", stem)
        to = names[stem if number is None else stem.replace(number[0], ".experts.{}.")]
        if number is not None:
            experts.setdefault(f"{prefix}{to}.{part}", {})[int(number[1])] = name
            continue
        if x.ndim == 3:  # of all experts; both halves of one tensor have their own
            numbers[name] = np.empty_like(x)
            each = x.shape[1] // len(to.split("+"))
            for i, own in enumerate(to.split("+")):
                numbers[name][:, i * each:(i + 1) * each] = of_experts(f"{prefix}{own}.{part}", x[:, i * each:(i + 1) * each])
            continue
        order = np.arange(len(x))
        if turned and to in ("attn_q", "attn_k"):
            order = neighbours(len(x), heads if to == "attn_q" else kv)
        if to == "attn_qkv" and arch == "gptneox":  # each head has its q, k and v
            order = order.reshape(heads, 3, size).swapaxes(0, 1).reshape(-1)
        if to == "attn_qkv+attn_gate":
            order = delta_order(c)
        if x.ndim == 1:
            adds = arch.startswith("gemma") or (arch == "qwen3next" and to != "ssm_norm")
            vector(f"{prefix}{to}.{part}", x[order] + (adds and to.endswith("norm")))
            continue
        # As llama.cpp: rows that are not whole blocks get smaller ones.
        own = next(each for each in (kind, "Q8_0", "F32") if x.shape[1] % gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[each]][0] == 0)
        numbers[name] = np.empty_like(x)
        several = to.split("+")
        gates = len(x) // len(several)
        if to == "attn_qkv+attn_gate":
            gates = len(x) - c["linear_num_value_heads"] * c["linear_value_head_dim"]
        for to, rows in zip(several, np.split(order, [gates]) if len(several) > 1 else [order], strict=True):
            data, meant, factor = blocks_of(x[rows], own)
            writer.add_tensor(f"{prefix}{to}.{part}", data, raw_dtype=gguf.GGMLQuantizationType[own])
            if factor != 1:
                vector(f"{prefix}{to}.scale", np.array([factor]))
            numbers[name][rows] = meant
    for to, parts in experts.items():
        files = [parts[i] for i in sorted(parts)]
        for name, meant in zip(files, of_experts(to, np.stack([numbers[name] for name in files]))):
            numbers[name] = meant
    for name, parts in stacked.items():
        vector(name, np.stack([parts[i] for i in sorted(parts)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if dequantized:
        Path(dequantized).mkdir()
        (Path(dequantized) / "config.json").write_text(json.dumps(c))
        save_file(numbers, Path(dequantized) / "model.safetensors")
