# SPDX-License-Identifier: Apache-2.0
"""Tiny configurations of each architecture that ONNX Runtime GenAI's builder 0.18 knows, for export_genai.py: one row each."""
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

VOCABULARY = 320  # 256 bytes, what the tokenizer merges, and what begins and ends a text

# Sizes that differ, so that a mistaken one shows; the builder's blocks need multiples of 32.
SIZES = {"small": dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                       num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                       initializer_range=0.2, bos_token_id=0, eos_token_id=1, pad_token_id=1),
         # For the repository: no tokenizer's vocabulary fits.
         "tiny": dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                      num_key_value_heads=1, max_position_embeddings=32, initializer_range=0.2, bos_token_id=0,
                      eos_token_id=1, pad_token_id=1)}
WINDOW = 8  # of local attention: less than the texts that the checks run
SHORT = 11  # tokens of texts that have angles of their own: some of them
TEXT_ONLY = ("exclude_embeds=false",)  # of a model of images and texts: a decoder that takes ids
KINDS = ["sliding_attention", "full_attention"]
LONG = {"rope_type": "longrope", "type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": SHORT,
        "short_factor": [1.0] * 8, "long_factor": [2.0 + i for i in range(8)]}


@dataclass
class Row:
    config: Callable[[], Any]
    options: tuple[str, ...] = ()
    # The builder dispatches by this name; of models whose code lies in their folders the weights are those of a model of
    # transformers that has them in the same places.
    architecture: str = ""
    more: dict[str, Any] = field(default_factory=dict)  # keys of the configuration that transformers' class lacks
    reshape: Callable[[Any], None] | None = None  # makes a model's modules those that the builder expects
    extend: Callable[[Path], None] | None = None  # adds to a checkpoint's tensors what only the published one has
    only: tuple[str, ...] = ()  # precision_provider pairs, where the options are for few


def published_experts(folder):
    """GPT-OSS's experts in MXFP4."""
    import numpy as np
    from safetensors.numpy import load_file, save_file
    tensors, rng = load_file(folder / "model.safetensors"), np.random.default_rng(1)
    for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors[name].shape
        tensors[f"{name}_blocks"] = rng.integers(0, 256, (experts, outputs, inputs // 32, 16), np.uint8)
        tensors[f"{name}_scales"] = rng.integers(122, 125, (experts, outputs, inputs // 32), np.uint8)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def fused_modules(model):
    """Phi-3-small's: one product of queries, keys and values, one of gate and linear part, each with biases."""
    import torch
    config = model.config
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    size = config.hidden_size // heads
    for layer in model.model.layers:
        layer.self_attn.query_key_value = torch.nn.Linear(config.hidden_size, (heads + 2 * groups) * size)
        layer.mlp.up_proj = torch.nn.Linear(config.hidden_size, 2 * config.intermediate_size)
        layer.mlp.down_proj = torch.nn.Linear(config.intermediate_size, config.hidden_size)
        layer.self_attn.o_proj = torch.nn.Linear(config.hidden_size, config.hidden_size)


def adapters(model):
    """Phi-4-multimodal's: products with adapters of low rank for images."""
    import torch
    for layer in model.model.layers:
        for module in (layer.self_attn.qkv_proj, layer.self_attn.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj):
            module.base_layer = torch.nn.Linear(module.in_features, module.out_features, bias=False)
            module.base_layer.weight = module.weight
            module.lora_A = torch.nn.ModuleDict({"vision": torch.nn.Linear(module.in_features, 8, bias=False)})
            module.lora_B = torch.nn.ModuleDict({"vision": torch.nn.Linear(8, module.out_features, bias=False)})
            module.scaling = {"vision": 0.5}


def rows(size="small"):
    import transformers as hf
    sizes, positions = SIZES[size], SIZES[size]["max_position_embeddings"]
    # Layers of both kinds, where a model has them.
    mixed = {**sizes, "num_hidden_layers": 2}
    # Half of each head is turned, which takes 8 angles at least.
    wide = {**sizes, "hidden_size": 32 * sizes["num_attention_heads"]}
    experts = dict(num_local_experts=4, num_experts_per_tok=2)
    few = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
    linear = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
                  linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"],
                  # Three positions of a token; a quarter of each head is turned.
                  rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True,
                                   "partial_rotary_factor": 0.25})
    gemma = dict(head_dim=16, tie_word_embeddings=False, query_pre_attn_scalar=16, sliding_window=WINDOW)
    globals_of = {"global_head_dim": 32, "num_global_key_value_heads": 1}
    gemma4 = dict(**globals_of, head_dim=16, sliding_window=WINDOW, layer_types=KINDS,
                  hidden_size_per_layer_input=0, num_kv_shared_layers=0, vocab_size_per_layer_input=sizes["vocab_size"],
                  rope_parameters={"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e6},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})
    sections = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    vision = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=sizes["hidden_size"])
    tower = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    lfm2 = dict(conv_L_cache=3, layer_types=["conv", "full_attention"])
    dense = dict(block_auto_adjust_ff_dim=False)

    def text(kind, **keys):
        return kind(**keys).to_dict()

    made = {
        "llama": Row(lambda: hf.LlamaConfig(**sizes)),
        "qwen2": Row(lambda: hf.Qwen2Config(**sizes)),
        "qwen3": Row(lambda: hf.Qwen3Config(**sizes, head_dim=32)),
        "mistral": Row(lambda: hf.MistralConfig(**sizes, sliding_window=WINDOW)),
        "gemma": Row(lambda: hf.GemmaConfig(**sizes, head_dim=16, tie_word_embeddings=False)),
        "gemma2": Row(lambda: hf.Gemma2Config(**mixed, **gemma, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
        "gemma3": Row(lambda: hf.Gemma3TextConfig(**mixed, **gemma, layer_types=KINDS)),
        "phi": Row(lambda: hf.PhiConfig(**wide, partial_rotary_factor=0.5)),
        "phi3": Row(lambda: hf.Phi3Config(**sizes, original_max_position_embeddings=positions, sliding_window=None)),
        # Angles for short texts and for long ones.
        "phi3long": Row(lambda: hf.Phi3Config(**sizes, original_max_position_embeddings=SHORT, sliding_window=None, rope_parameters=LONG)),
        "granite": Row(lambda: hf.GraniteConfig(**sizes, attention_multiplier=0.3, residual_multiplier=0.5,
                                                embedding_multiplier=3.0, logits_scaling=2.0)),
        "olmo": Row(lambda: hf.OlmoConfig(**sizes)),
        "ernie": Row(lambda: hf.Ernie4_5Config(**sizes)),
        "nemotron": Row(lambda: hf.NemotronConfig(**wide)),
        # The builder fails (KeyError) at layers without positions.
        "smollm3": Row(lambda: hf.SmolLM3Config(**mixed, no_rope_layers=[1, 1], use_sliding_window=False)),
        "hunyuan": Row(lambda: hf.HunYuanDenseV1Config(**sizes, head_dim=16)),
        "granitemoehybrid": Row(lambda: hf.GraniteMoeHybridConfig(
            **sizes, attention_multiplier=0.3, residual_multiplier=0.5, embedding_multiplier=3.0, logits_scaling=2.0,
            num_local_experts=0, shared_intermediate_size=sizes["intermediate_size"],
            layer_types=["attention"] * sizes["num_hidden_layers"], position_embedding_type="rope")),
        "gpt_oss": Row(lambda: hf.GptOssConfig(**{**mixed, "intermediate_size": 64}, **experts, head_dim=16, sliding_window=WINDOW, layer_types=KINDS),
                       extend=published_experts),
        # Layers with states beside those with caches.
        "lfm2": Row(lambda: hf.Lfm2Config(**mixed, **lfm2, **dense)),
        "lfm2_moe": Row(lambda: hf.Lfm2MoeConfig(**mixed, **lfm2, **few, num_dense_layers=1)),
        # Of images and texts; the builder writes the decoder.
        "lfm2_vl": Row(lambda: hf.Lfm2VlConfig(text_config=text(hf.Lfm2Config, **mixed, **lfm2, **dense), vision_config={
            "model_type": "siglip2_vision_model", **{k: v for k, v in tower.items() if k != "image_size"}, "num_patches": 4}), TEXT_ONLY),
        "gemma3_vl": Row(lambda: hf.Gemma3Config(text_config=text(hf.Gemma3TextConfig, **mixed, **gemma, layer_types=KINDS),
                                                 vision_config=tower, mm_tokens_per_image=4), TEXT_ONLY),
        "gemma4": Row(lambda: hf.Gemma4Config(text_config=text(
            hf.Gemma4TextConfig, **mixed, **gemma4, attention_k_eq_v=True, enable_moe_block=True, num_experts=4, top_k_experts=2,
            moe_intermediate_size=64), vision_config=None, audio_config=None), more=globals_of),
        "gemma4_unified": Row(lambda: hf.Gemma4UnifiedConfig(
            text_config=text(hf.Gemma4UnifiedTextConfig, **mixed, **gemma4, attention_k_eq_v=True), vision_config=None, audio_config=None), more=globals_of),
        "mistral3": Row(lambda: hf.Mistral3Config(text_config=text(hf.MistralConfig, **sizes, head_dim=16, sliding_window=None),
                                                  vision_config={"model_type": "pixtral", **tower}), TEXT_ONLY),
        "qwen2_5_vl": Row(lambda: hf.Qwen2_5_VLConfig(text_config=text(hf.Qwen2_5_VLTextConfig, **sizes, rope_parameters=sections),
                                                      vision_config=vision), TEXT_ONLY),
        "qwen3_vl": Row(lambda: hf.Qwen3VLConfig(
            text_config=text(hf.Qwen3VLTextConfig, **sizes, head_dim=16, rope_parameters={**sections, "mrope_interleaved": True}),
            vision_config={**vision, "deepstack_visual_indexes": [0], "num_position_embeddings": 16}), TEXT_ONLY),
        "qwen3_5": Row(lambda: hf.Qwen3_5Config(text_config=text(hf.Qwen3_5TextConfig, **mixed, **linear, head_dim=32),
                                                vision_config=vision), TEXT_ONLY),
        "qwen3_5_moe": Row(lambda: hf.Qwen3_5MoeConfig(
            text_config=text(hf.Qwen3_5MoeTextConfig, **mixed, **linear, **few, head_dim=32, shared_expert_intermediate_size=32),
            vision_config=vision), TEXT_ONLY),
        "whisper": Row(lambda: hf.WhisperConfig(
            vocab_size=sizes["vocab_size"], d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_target_positions=64, num_mel_bins=16,
            bos_token_id=0, eos_token_id=1, pad_token_id=1, decoder_start_token_id=0, init_std=0.2, suppress_tokens=[], begin_suppress_tokens=[])),
        # Of users' folders with code.
        "chatglm": Row(lambda: hf.LlamaConfig(**wide, attention_bias=True), architecture="ChatGLMModel"),
        "internlm2": Row(lambda: hf.LlamaConfig(**sizes), architecture="InternLM2ForCausalLM"),
        "videochat_qwen": Row(lambda: hf.Qwen2Config(**sizes), architecture="VideoChatFlashQwenForCausalLM"),
        "phi3v": Row(lambda: hf.Phi3Config(**sizes, original_max_position_embeddings=SHORT, sliding_window=None, rope_parameters=LONG),
                     TEXT_ONLY, architecture="Phi3VForCausalLM"),
        "phi4mm": Row(lambda: hf.Phi3Config(**sizes, original_max_position_embeddings=SHORT, sliding_window=None, rope_parameters=LONG),
                      TEXT_ONLY, architecture="Phi4MMForCausalLM", reshape=adapters),
        "phi3small": Row(lambda: hf.NemotronConfig(**wide, hidden_act="gelu"), architecture="Phi3SmallForCausalLM", reshape=fused_modules, more=dict(
            original_max_position_embeddings=positions, mup_embedding_multiplier=3.0, mup_width_multiplier=2.0, mup_use_scaling=True,
            mup_attn_multiplier=1.0, dense_attention_every_n_layers=2, gegelu_limit=20.0, blocksparse_block_size=16,
            blocksparse_triton_kernel_block_size=16, blocksparse_num_local_blocks=2, blocksparse_vert_stride=3,
            blocksparse_homo_head_pattern=False, hidden_act="gegelu")),
    }
    if size == "small":
        made |= variants(made)
    return made


def variants(made):
    """Rows whose options give other operators."""
    def of(name, *options, only=()):
        row = made[name]
        return Row(row.config, (*row.options, *options), row.architecture, row.more, row.reshape, row.extend, only)
    return {
        "qwen3_qdq": of("qwen3", "use_qdq=true", only=("int4_cpu", "int4_cuda")),
        "llama_unfused": of("llama", "fuse_qkv=false"),
        "llama_asymmetric": of("llama", "is_symmetric=false", "block_size=16", only=("int4_cpu", "int4_cuda", "int4_webgpu")),
        "llama_webgpu": of("llama", "enable_webgpu_graph=true", only=("fp32_webgpu", "fp16_webgpu", "int4_webgpu")),
        "llama_gate_up": of("llama", "fuse_mlp_gate_up=true"),
        "llama_pruned": of("llama", "prune_lm_head=true"),
        "llama_hidden": of("llama", "include_hidden_states=true"),
        "llama_paged": of("llama", "use_paged_attention=true", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "qwen3_paged": of("qwen3", "use_paged_attention=true", "prune_lm_head=true", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "gemma3_paged": of("gemma3", "use_paged_attention=true", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "gpt_oss_paged": of("gpt_oss", "use_paged_attention=true", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "qwen3_5_paged": of("qwen3_5", "use_paged_attention=true", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "qwen3_5_delta": of("qwen3_5", "linear_attn_op=gated_delta_net", only=("fp16_cuda", "bf16_cuda", "int4_cuda")),
        "qwen3_5_window": of("qwen3_5", "state_window=3"),
    }
