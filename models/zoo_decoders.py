# SPDX-License-Identifier: Apache-2.0
"""Decoders of text in the export zoo: with a padding mask, and with a cache in and out."""
from zoo_rows import CachedDecoder, Row, TOKENS, cache_inputs, hugging, ids

LLAMA = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=64, max_position_embeddings=64, pad_token_id=0, bos_token_id=0, eos_token_id=1)
NEOX = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=64,
            max_position_embeddings=64, pad_token_id=0, bos_token_id=0, eos_token_id=1)
GPT2 = dict(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=64, bos_token_id=0, eos_token_id=0)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)

# name: the class, its configuration, key/value heads and their width (none: no row with a cache)
FAMILIES = {
    "gpt2": ("GPT2LMHeadModel", GPT2, (2, 16)),
    "gpt_neo": ("GPTNeoForCausalLM", dict(hidden_size=32, num_layers=2, num_heads=2, vocab_size=64, window_size=4,
                                          attention_types=[[["global", "local"], 1]], max_position_embeddings=64,
                                          bos_token_id=0, eos_token_id=1), (2, 16)),
    "gpt_neox": ("GPTNeoXForCausalLM", NEOX, (2, 16)),
    "gptj": ("GPTJForCausalLM", {**GPT2, "rotary_dim": 8}, (2, 16)),
    "codegen": ("CodeGenForCausalLM", {**GPT2, "n_head": 4, "rotary_dim": 4}, None),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT2, None),
    "opt": ("OPTForCausalLM", dict(hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2,
                                   vocab_size=64, max_position_embeddings=64, word_embed_proj_dim=32), (2, 16)),
    "bloom": ("BloomForCausalLM", dict(hidden_size=32, n_layer=2, n_head=2, vocab_size=64), (2, 16)),
    "mpt": ("MptForCausalLM", dict(d_model=32, n_heads=2, n_layers=2, vocab_size=64, max_seq_len=64), None),
    "falcon": ("FalconForCausalLM", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=64,
                                         multi_query=True, parallel_attn=True, bias=False), (1, 16)),
    "falcon_alibi": ("FalconForCausalLM", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                               vocab_size=64, alibi=True), None),
    "llama": ("LlamaForCausalLM", LLAMA, (2, 8)),
    "llama_rope3": ("LlamaForCausalLM", {**LLAMA, "rope_scaling": dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)}, (2, 8)),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 8}, None),
    "mixtral": ("MixtralForCausalLM", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}, (2, 8)),
    "qwen2": ("Qwen2ForCausalLM", LLAMA, (2, 8)),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {**LLAMA, **EXPERTS, "shared_expert_intermediate_size": 32}, None),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 8}, (2, 8)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**LLAMA, **EXPERTS, "head_dim": 8}, (2, 8)),
    "gemma": ("GemmaForCausalLM", {**LLAMA, "head_dim": 8}, (2, 8)),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA, "head_dim": 8, "sliding_window": 8}, None),
    "gemma3": ("Gemma3ForCausalLM", {**LLAMA, "head_dim": 8, "sliding_window": 8}, None),
    "phi": ("PhiForCausalLM", LLAMA, (2, 8)),
    "phi3": ("Phi3ForCausalLM", LLAMA, (2, 8)),
    "stablelm": ("StableLmForCausalLM", LLAMA, (2, 8)),
    "cohere": ("CohereForCausalLM", LLAMA, (2, 8)),
    "cohere2": ("Cohere2ForCausalLM", {**LLAMA, "sliding_window": 8}, None),
    "olmo": ("OlmoForCausalLM", LLAMA, (2, 8)),
    "olmo2": ("Olmo2ForCausalLM", LLAMA, (2, 8)),
    "olmoe": ("OlmoeForCausalLM", {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2}, (2, 8)),
    "granite": ("GraniteForCausalLM", LLAMA, (2, 8)),
    "starcoder2": ("Starcoder2ForCausalLM", LLAMA, (2, 8)),
    "smollm3": ("SmolLM3ForCausalLM", LLAMA, (2, 8)),
    "nemotron": ("NemotronForCausalLM", LLAMA, (2, 8)),
    "glm": ("GlmForCausalLM", {**LLAMA, "head_dim": 8}, (2, 8)),
    "helium": ("HeliumForCausalLM", {**LLAMA, "head_dim": 8}, (2, 8)),
    "persimmon": ("PersimmonForCausalLM", NEOX, (2, 16)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {
        **LLAMA, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
        "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 32, "n_shared_experts": 1}, None),
    "granitemoe": ("GraniteMoeForCausalLM", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}, None),
    "gpt_oss": ("GptOssForCausalLM", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8,
                                      "sliding_window": 8}, (2, 8)),
    "biogpt": ("BioGptForCausalLM", NEOX, None),
    "xglm": ("XGLMForCausalLM", dict(d_model=32, ffn_dim=64, num_layers=2, attention_heads=2, vocab_size=64,
                                     max_position_embeddings=64), None),
    "ctrl": ("CTRLLMHeadModel", dict(vocab_size=64, n_positions=64, n_embd=32, dff=64, n_layer=2, n_head=2), None),
    "openai_gpt": ("OpenAIGPTLMHeadModel", dict(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2), None),
    "mamba": ("MambaForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=64, state_size=4), None),
    "mamba2": ("Mamba2ForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=64, state_size=8, head_dim=16,
                                         num_heads=4, n_groups=1, chunk_size=8), None),
    "falcon_mamba": ("FalconMambaForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=64,
                                                    state_size=4), None),
    "rwkv": ("RwkvForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=64, context_length=64,
                                     attention_hidden_size=32), None),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", dict(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        intermediate_size=64, vocab_size=64, attention_window_size=8, lru_width=32), None),
    "lfm2": ("Lfm2ForCausalLM", {**LLAMA, "layer_types": ["conv", "full_attention"]}, None),
}
IDS_ONLY = ("mamba", "mamba2", "falcon_mamba", "rwkv", "openai_gpt", "ctrl")


def cached(plain, heads, width):
    layers = 2
    return Row(lambda: CachedDecoder(plain.make(), layers), cache_inputs(layers, heads, width),
               sizes=dict(seq=(3, 1, 4, 3), past=(5, 9, 16, 57), total=(8, 10, 20, 60)))


def rows():
    result = {}
    for name, (model, config, cache) in FAMILIES.items():
        inputs = {"input_ids": ids("batch", "seq")} if name in IDS_ONLY else TOKENS
        plain = hugging(model, "logits", config, inputs, fixed=dict(use_cache=False), task="text-generation",
                        optimise="gpt2" if name == "gpt2" else "")
        result[name] = plain
        if cache:
            result[f"{name}_past"] = cached(plain, *cache)
    return result
