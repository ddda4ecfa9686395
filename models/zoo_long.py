# SPDX-License-Identifier: Apache-2.0
"""Models with the head sizes and rotary bases of real ones at long texts and late time steps, two narrow layers each: what
16 bits make of positions, angles and time steps shows here alone."""
from dataclasses import replace

from zoo_rows import Row, Tensor, hugging, ids, normal
from zoo_workloads import diffusion

COMMON = dict(num_hidden_layers=2, vocab_size=1024, pad_token_id=0, bos_token_id=0, eos_token_id=1)
TOKENS = {"input_ids": ids("batch", "seq", high=1000)}
TEXT = dict(hidden_size=256, intermediate_size=512, max_position_embeddings=8192, **COMMON)
QWEN3 = dict(TEXT, num_attention_heads=4, num_key_value_heads=2, head_dim=128, rope_theta=1e6)
GEMMA = dict(TEXT, num_attention_heads=2, num_key_value_heads=1, head_dim=256)
# The last size is the length that is asked about, the one before it a quarter or an eighth of it.
LONG = dict(batch=(2, 1, 1, 1), seq=(33, 100, 512, 4096))


def late(dtype=""):
    return Tensor("late" + dtype, ("batch",), 981)


def rows():
    def text(model, config, seq=LONG["seq"]):
        return hugging(model, "last_hidden_state", config, TOKENS, sizes=dict(LONG, seq=seq),
                       fixed=dict(use_cache=False) if model != "ModernBertModel" else {})

    def unet(step):
        return Row(lambda: diffusion.UNet(64, (1, 2), 1, 2, 64), {
            "latents": normal("batch", 4, "height", "width"), "timestep": step, "context": normal("batch", "seq", 64)},
            sizes=dict(height=(16, 24, 32, 32), width=(16, 32, 8, 32)), positional=True)
    found = {
        "qwen3_long": text("Qwen3Model", QWEN3),
        "llama3_long": text("LlamaModel", dict(QWEN3, head_dim=64, rope_theta=5e5, rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=1024))),
        "gemma2_long": text("Gemma2Model", dict(GEMMA, sliding_window=1024, query_pre_attn_scalar=256)),
        "embedding_gemma_long": text("Gemma3TextModel", dict(
            GEMMA, sliding_window=257, query_pre_attn_scalar=256, use_bidirectional_attention=True,
            layer_types=["sliding_attention", "full_attention"]), (33, 100, 257, 512)),
        "modernbert_long": text("ModernBertModel", dict(
            TEXT, num_attention_heads=4, global_attn_every_n_layers=2, cls_token_id=2, sep_token_id=3,
            reference_compile=False), (33, 100, 512, 2048)),
        "unet_late": unet(late()),
        "unet_late_float": unet(late("_float")),
    }
    return {name: replace(row, exporters=("dynamo",) if name.startswith("unet") else row.exporters)
            for name, row in found.items()}
