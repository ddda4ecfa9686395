# SPDX-License-Identifier: Apache-2.0
"""Architectures of 2025 and 2026 in the export zoo. Most need transformers 5 (requirements-genai.txt), and torch.export."""
from zoo_rows import SHORT, TOKENS, hugging, normal

LLAMA = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=64, max_position_embeddings=64, pad_token_id=0, bos_token_id=0, eos_token_id=1)
HEADS = {**LLAMA, "head_dim": 8}
KINDS = dict(layer_types=["sliding_attention", "full_attention"], sliding_window=8)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
ROUTED = dict(n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=32,
              n_shared_experts=1)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
LINEAR = dict(linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
              layer_types=["linear_attention", "full_attention"])
HIDDEN = "last_hidden_state"
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8)

DECODERS = {
    "afmoe": ("AfmoeForCausalLM", {**HEADS, **EXPERTS, "num_dense_layers": 1, "sliding_window": 8}),
    "apertus": ("ApertusForCausalLM", LLAMA),
    "arcee": ("ArceeForCausalLM", LLAMA),
    "bitnet": ("BitNetForCausalLM", LLAMA),
    "cwm": ("CwmForCausalLM", {**HEADS, **KINDS}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**LLAMA, **LATENT, **ROUTED, "topk_method": "greedy"}),
    "diffllama": ("DiffLlamaForCausalLM", LLAMA),
    "doge": ("DogeForCausalLM", LLAMA),
    "dots1": ("Dots1ForCausalLM", {**HEADS, **ROUTED}),
    "ernie4_5": ("Ernie4_5ForCausalLM", HEADS),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", {**HEADS, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32,
                                                 "moe_num_shared_experts": 1, "moe_layer_start_index": 1}),
    "exaone4": ("Exaone4ForCausalLM", {**HEADS, **KINDS}),
    "falcon_h1": ("FalconH1ForCausalLM", {**HEADS, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8,
                                          "mamba_n_groups": 1, "mamba_chunk_size": 8}),
    "flex_olmo": ("FlexOlmoForCausalLM", {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2}),
    "gemma4": ("Gemma4ForCausalLM", {**HEADS, **KINDS, "global_head_dim": 16, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 8,
                                     "vocab_size_per_layer_input": 64, "num_kv_shared_layers": 0}),
    "gemma3n": ("Gemma3nForCausalLM", {**HEADS, **KINDS, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64,
                                       "num_kv_shared_layers": 0, "laurel_rank": 8, "activation_sparsity_pattern": [0.0, 0.0]}),
    "glm4": ("Glm4ForCausalLM", HEADS),
    "glm4_moe": ("Glm4MoeForCausalLM", {**HEADS, **ROUTED}),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32,
                                                         "layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 8,
                                                         "mamba_d_state": 8, "mamba_expand": 2, "mamba_chunk_size": 8}),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", HEADS),
    "hunyuan_v1_moe": ("HunYuanMoEV1ForCausalLM", {**HEADS, "num_experts": 4, "moe_topk": 2}),
    "jais2": ("Jais2ForCausalLM", LLAMA),
    "lfm2_moe": ("Lfm2MoeForCausalLM", {**LLAMA, **EXPERTS, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1}),
    "lfm3": ("Lfm3ForCausalLM", {**LLAMA, "layer_types": ["conv", "full_attention"]}),
    "mellum": ("MellumForCausalLM", {**HEADS, **EXPERTS}),
    "mimo_v2_flash": ("MiMoV2FlashForCausalLM", {**HEADS, **EXPERTS, **KINDS}),
    "minicpm3": ("MiniCPM3ForCausalLM", {**LLAMA, **LATENT}),
    "minimax": ("MiniMaxForCausalLM", {**HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["linear_attention", "full_attention"],
                                       "block_size": 8}),
    "minimax_m2": ("MiniMaxM2ForCausalLM", {**HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 4}),
    "ministral": ("MinistralForCausalLM", {**HEADS, **KINDS}),
    "ministral3": ("Ministral3ForCausalLM", HEADS),
    "mistral4": ("Mistral4ForCausalLM", {**LLAMA, **LATENT, **ROUTED}),
    "modernbert_decoder": ("ModernBertDecoderForCausalLM", {**LLAMA, "local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 0,
                                                            "sep_token_id": 1}),
    "nanochat": ("NanoChatForCausalLM", LLAMA),
    "olmo3": ("Olmo3ForCausalLM", {**LLAMA, **KINDS}),
    "olmo_hybrid": ("OlmoHybridForCausalLM", {**LLAMA, **LINEAR}),
    "qwen3_5": ("Qwen3_5ForCausalLM", {**HEADS, **LINEAR}),
    "qwen3_5_moe": ("Qwen3_5MoeForCausalLM", {**HEADS, **LINEAR, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen3_next": ("Qwen3NextForCausalLM", {**HEADS, **LINEAR, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "seed_oss": ("SeedOssForCausalLM", HEADS),
    "solar_open": ("SolarOpenForCausalLM", {**HEADS, **ROUTED}),
    "vaultgemma": ("VaultGemmaForCausalLM", {**HEADS, **KINDS}),
    "youtu": ("YoutuForCausalLM", {**LLAMA, **LATENT}),
    "zamba2": ("Zamba2ForCausalLM", {**LLAMA, "mamba_d_state": 8, "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "chunk_size": 8,
                                     "hybrid_layer_ids": [1], "layers_block_type": ["mamba", "hybrid"], "num_mem_blocks": 1}),
    "zaya": ("ZayaForCausalLM", {**HEADS, **EXPERTS, "num_experts_per_tok": 1}),
}
ENCODERS = {
    "eurobert": ("EuroBertModel", LLAMA),
    "gte": ("GteModel", LLAMA),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Model", LLAMA),
    "nomic_bert": ("NomicBertModel", LLAMA),
    "embedding_gemma2": ("EmbeddingGemma2Model", {**HEADS, **KINDS}),
}


def rows():
    result = {}
    for name, (model, config) in DECODERS.items():
        result[name] = hugging(model, "logits", config, TOKENS, fixed=dict(use_cache=False))
    for name, (model, config) in ENCODERS.items():
        result[name] = hugging(model, HIDDEN, config)
    image = {"pixel_values": normal("batch", 3, 32, 32)}
    any_size = {"pixel_values": normal("batch", 3, "height", "width")}
    result["aimv2_image"] = hugging("Aimv2VisionModel", HIDDEN, VIT, image)
    result["dinov3_vit"] = hugging("DINOv3ViTModel", HIDDEN, {**VIT, "num_register_tokens": 2}, any_size)
    result["dinov3_convnext"] = hugging("DINOv3ConvNextModel", HIDDEN, dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32]), any_size)
    result["pixio"] = hugging("PixioModel", HIDDEN, VIT, image)
    result["hgnet_v2"] = hugging("HGNetV2ForImageClassification", "logits", dict(
        embedding_size=8, depths=[1, 1, 1, 1], hidden_sizes=[16, 24, 32, 48], stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 24, 32],
        stage_mid_channels=[8, 8, 8, 8], stage_out_channels=[16, 24, 32, 48], stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[2, 2, 2, 2],
        num_labels=10), any_size)
    result["textnet"] = hugging("TextNetForImageClassification", "logits", dict(num_labels=10), any_size)
    result["pp_lcnet"] = hugging("PPLCNetForImageClassification", "logits", dict(scale=0.25, num_labels=10), any_size)
    result["vjepa2"] = hugging("VJEPA2Model", HIDDEN, dict(
        crop_size=32, patch_size=8, frames_per_clip=4, tubelet_size=2, hidden_size=32, num_attention_heads=2, num_hidden_layers=2,
        pred_hidden_size=32, pred_num_attention_heads=2, pred_num_hidden_layers=1), {"pixel_values_videos": normal("batch", 4, 3, 32, 32)},
        fixed=dict(skip_predictor=True))
    result["siglip2_image"] = hugging("Siglip2VisionModel", HIDDEN, dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, patch_size=8, num_patches=16), image)
    result["metaclip_2_text"] = hugging("MetaClip2TextModel", HIDDEN, dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64, max_position_embeddings=32,
        eos_token_id=63, bos_token_id=0), TOKENS, sizes=SHORT)
    result["parakeet_ctc"] = hugging("ParakeetForCTC", "logits", dict(vocab_size=64, encoder_config=dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_kernel_size=5, subsampling_conv_channels=8,
        num_mel_bins=16)), {"input_features": normal("batch", "frames", 16)})
    result["timesfm"] = hugging("TimesFmModel", HIDDEN, dict(
        patch_length=8, context_length=32, horizon_length=8, hidden_size=32, intermediate_size=64, head_dim=16, num_hidden_layers=2,
        num_attention_heads=2), {"past_values": normal("batch", 32)})
    for row in result.values():
        row.exporters = ("dynamo",)
    return result
