# SPDX-License-Identifier: Apache-2.0
"""Layers with states in the export zoo, as transformers' PyTorch code spells them: by chunks, whose number the exporters
unroll, token by token, and short convolutions. Rows of models that the installed transformers lacks are left out."""
from torch import nn

from zoo_rows import Row, ids, normal, uniform


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


class GatedDelta(nn.Module):
    """Qwen3-Next's, from a layer's projections on."""

    def __init__(self, chunk_size=64):
        super().__init__()
        self.chunk_size = chunk_size

    def forward(self, query, key, value, gate, rate, state=None):
        from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule
        return torch_chunk_gated_delta_rule(query, key, value, g=-gate, beta=rate, chunk_size=self.chunk_size, initial_state=state,
                                            output_final_state=True, use_qk_l2norm_in_kernel=True)


class RecurrentGatedDelta(nn.Module):
    """The same, token by token."""

    def forward(self, query, key, value, gate, rate, state):
        from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule
        return torch_recurrent_gated_delta_rule(query, key, value, g=-gate, beta=rate, initial_state=state,
                                                output_final_state=True, use_qk_l2norm_in_kernel=True)


def mamba2(**changes):
    from transformers import Mamba2Config, Mamba2ForCausalLM
    return Logits(Mamba2ForCausalLM(Mamba2Config(
        num_heads=8, head_dim=16, vocab_size=64, hidden_size=64, state_size=24, num_hidden_layers=2, expand=2,
        n_groups=2, chunk_size=16, tie_word_embeddings=False, **changes)))


SMALL = dict(vocab_size=64, hidden_size=64, num_hidden_layers=2)
HEADS = dict(intermediate_size=96, num_attention_heads=4, num_key_value_heads=2)
DELTA = dict(head_dim=16, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
             linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"])
# By the names of classes and configurations; layers of attention beside those with states.
MODELS = {
    "falcon_mamba": ("FalconMamba", dict(SMALL, state_size=8)),
    "lfm2": ("Lfm2", dict(SMALL, **HEADS, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)),
    "granite4_hybrid": ("GraniteMoeHybrid", dict(
        SMALL, **HEADS, layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16, mamba_d_head=16,
        mamba_expand=2, mamba_chunk_size=16, num_local_experts=0, shared_intermediate_size=96)),
    "qwen3_next": ("Qwen3Next", dict(SMALL, **HEADS, **DELTA, mlp_only_layers=[0, 1], num_experts=4, num_experts_per_tok=2,
                                     moe_intermediate_size=32, shared_expert_intermediate_size=32)),
    "qwen3_5": ("Qwen3_5", dict(SMALL, **HEADS, **DELTA)),
    "nemotron_h": ("NemotronH", dict(
        vocab_size=64, hidden_size=64, **HEADS, head_dim=16, layers_block_type=["mamba", "attention", "mlp"], mamba_num_heads=8,
        n_groups=2, ssm_state_size=16, mamba_head_dim=16, chunk_size=16)),
}


def model_of(name, changes):
    import transformers
    config = getattr(transformers, f"{name}TextConfig", None) or getattr(transformers, f"{name}Config")
    return Logits(getattr(transformers, f"{name}ForCausalLM")(config(**changes)))


def delta_inputs(tokens, heads=2, keys=16, values=8, state=False):
    lead = ("batch", tokens, heads)
    states = {"state": normal("batch", heads, keys, values)} if state else {}
    return {"query": normal(*lead, keys), "key": normal(*lead, keys), "value": normal(*lead, values),
            "gate": uniform(*lead), "rate": uniform(*lead), **states}


def rows():
    def tokens(count):
        return {"input_ids": ids("batch", count)}

    # The numbers of tokens are fixed, as the chunks are: whole ones, and some that the code pads.
    import transformers
    dynamo = dict(exporters=("dynamo",), positional=True)
    # Of token by token there are as many copies of a layer as tokens.
    whole = {name: Row(lambda model=model, changes=changes: model_of(model, changes),
                       tokens(13 if name == "falcon_mamba" else 39), **dynamo)
             for name, (model, changes) in MODELS.items() if hasattr(transformers, f"{model}ForCausalLM")}
    return {
        "mamba2_chunks": Row(mamba2, tokens(48), **dynamo),
        "mamba2_chunks_padded": Row(mamba2, tokens(39), **dynamo),
        "gated_delta": Row(GatedDelta, delta_inputs(128), **dynamo),
        "gated_delta_padded": Row(lambda: GatedDelta(16), delta_inputs(39), **dynamo),
        "gated_delta_state": Row(lambda: GatedDelta(16), delta_inputs(39, state=True), **dynamo),
        "gated_delta_one_token": Row(RecurrentGatedDelta, delta_inputs(1, state=True), **dynamo),
        "gated_delta_few_tokens": Row(RecurrentGatedDelta, delta_inputs(7, state=True), **dynamo),
        **{f"{name}_states": row for name, row in whole.items()},
    }
