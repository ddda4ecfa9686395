# SPDX-License-Identifier: Apache-2.0
"""Layers with states in the export zoo, as transformers' PyTorch code spells them: Mamba-2 and the gated delta rule by
chunks, whose number the exporters unroll."""
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

    def forward(self, query, key, value, gate, rate):
        from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule
        return torch_chunk_gated_delta_rule(query, key, value, g=-gate, beta=rate, chunk_size=self.chunk_size,
                                            output_final_state=True, use_qk_l2norm_in_kernel=True)


def mamba2(**changes):
    from transformers import Mamba2Config, Mamba2ForCausalLM
    return Logits(Mamba2ForCausalLM(Mamba2Config(
        num_heads=8, head_dim=16, vocab_size=64, hidden_size=64, state_size=24, num_hidden_layers=2, expand=2,
        n_groups=2, chunk_size=16, tie_word_embeddings=False, **changes)))


def delta_inputs(tokens, heads=2, keys=16, values=8):
    lead = ("batch", tokens, heads)
    return {"query": normal(*lead, keys), "key": normal(*lead, keys), "value": normal(*lead, values),
            "gate": uniform(*lead), "rate": uniform(*lead)}


def rows():
    def tokens(count):
        return {"input_ids": ids("batch", count)}

    # The numbers of tokens are fixed, as the chunks are: whole ones, and some that the code pads.
    return {
        "mamba2_chunks": Row(mamba2, tokens(48), exporters=("dynamo",), positional=True),
        "mamba2_chunks_padded": Row(mamba2, tokens(39), exporters=("dynamo",), positional=True),
        "gated_delta": Row(GatedDelta, delta_inputs(128), exporters=("dynamo",), positional=True),
        "gated_delta_padded": Row(lambda: GatedDelta(16), delta_inputs(39), exporters=("dynamo",), positional=True),
    }
