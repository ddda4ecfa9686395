# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders' prefill as PyTorch modules: BERT, GPT-2, Gemma 2's blocks, the encoder of Whisper."""
import torch
import torch.nn.functional as F
from torch import nn

from diffusion_workloads import attend
from workload import Workload, normal


class Encoder(nn.Module):
    """BERT. With `pads_zero` what it gives at padded positions is zero, as nobody reads it."""

    def __init__(self, layers, width, heads, pads_zero=False):
        super().__init__()
        from transformers import BertConfig, BertModel
        self.pads_zero = pads_zero
        self.bert = BertModel(BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
                                         intermediate_size=4 * width), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return hidden * attention_mask[:, :, None].to(hidden.dtype) if self.pads_zero else hidden


def masked(ids, lengths):
    """Inputs of sentences of these lengths; the rest is padding."""
    places = torch.arange(ids.shape[1])
    return {"input_ids": ids, "attention_mask": (places[None] < lengths[:, None]).long()}


def encoder(batch, length, layers=12, width=768, heads=12, lengths=None, pads_zero=False, **settings):
    """`lengths(batch, length)` gives those of the sentences."""
    def inputs():
        return masked(torch.randint(0, 30522, (batch, length)), (lengths or falling)(batch, length))
    return Workload(lambda: Encoder(layers, width, heads, pads_zero), inputs, **settings)


def falling(batch, length):
    """Each sentence 7 tokens shorter than the one before."""
    return (length - 7 * torch.arange(batch)).clamp(min=1)


def full(batch, length):
    return torch.full((batch,), length)


def quarter(batch, length):
    """Lengths in no order whose mean is a quarter of the longest."""
    return torch.linspace(length // 32, length // 2 - length // 32, batch).round().long()[torch.randperm(batch)]


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.out(attend(*self.qkv(self.norm1(x)).chunk(3, -1), self.heads, causal=True))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Tokens -> logits of every position, without caches."""

    def __init__(self, width=768, depth=12, heads=12, vocabulary=50257, context=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        for table in (self.tokens, self.positions):  # else blocks would hardly count beside them
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids):
        x = self.tokens(input_ids) + self.positions.weight[:input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class RootMeanSquare(nn.Module):
    """As transformers' decoders write it: PyTorch's exporter has no translation of nn.RMSNorm."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight.float()).to(x.dtype)


class CappedBlock(nn.Module):
    """Gemma 2's: heads of 256, keys for every second of them, capped scores, a gated GELU, norms on both sides."""

    def __init__(self, width, heads, key_heads, head, inner, cap):
        super().__init__()
        self.heads, self.key_heads, self.head, self.cap = heads, key_heads, head, cap
        self.norms = nn.ModuleList(RootMeanSquare(width) for _ in range(4))
        self.q, self.out = nn.Linear(width, heads * head, bias=False), nn.Linear(heads * head, width, bias=False)
        self.k, self.v = (nn.Linear(width, key_heads * head, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in ((width, inner), (width, inner), (inner, width)))

    def attend(self, x, cos, sin, mask):
        def split(y, heads):
            return y.view(*y.shape[:2], heads, self.head).transpose(1, 2)

        def turn(y):
            low, high = y.chunk(2, -1)
            return y * cos + torch.cat([-high, low], -1) * sin
        def shared(y):
            shape = (y.shape[0], self.key_heads, self.heads // self.key_heads, *y.shape[2:])
            return y[:, :, None].expand(shape).reshape(y.shape[0], self.heads, *y.shape[2:])
        q, k = turn(split(self.q(x), self.heads)), shared(turn(split(self.k(x), self.key_heads)))
        scores = q @ k.transpose(2, 3) * self.head ** -0.5
        weights = (torch.tanh(scores / self.cap) * self.cap + mask).softmax(-1, dtype=torch.float32).to(q.dtype)
        y = weights @ shared(split(self.v(x), self.key_heads))
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))

    def forward(self, x, cos, sin, mask):
        x = x + self.norms[1](self.attend(self.norms[0](x), cos, sin, mask))
        y = self.norms[2](x)
        return x + self.norms[3](self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y)))


class CappedDecoder(nn.Module):
    """Hidden states [1, length, width] through blocks as those of Gemma 2, 2B by default."""

    def __init__(self, length=1024, width=2304, depth=8, heads=8, key_heads=4, head=256, inner=9216, cap=50.0):
        super().__init__()
        angles = torch.outer(torch.arange(length), 1e4 ** (-torch.arange(0, head, 2) / head)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.full((length, length), -65504.0).triu(1))
        self.blocks = nn.ModuleList(CappedBlock(width, heads, key_heads, head, inner, cap) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        return x


class SpeechBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.v, self.out = (nn.Linear(width, width) for _ in range(3))
        self.k = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.out(attend(self.q(y), self.k(y), self.v(y), self.heads))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class SpeechEncoder(nn.Module):
    """Whisper's: mel spectra [batch, mels, frames] -> [batch, frames / 2, width]. Of the size "small" by default."""

    def __init__(self, mels=80, frames=3000, width=768, depth=12, heads=12):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(mels, width, 3, 1, 1), nn.Conv1d(width, width, 3, 2, 1)
        rates = 1e4 ** (-torch.arange(width // 2) / (width // 2 - 1))
        angles = torch.outer(torch.arange(frames // 2).float(), rates)
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.blocks = nn.ModuleList(SpeechBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, features):
        x = F.gelu(self.conv2(F.gelu(self.conv1(features)))).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


WORKLOADS = {
    "minilm_b1_s64": encoder(1, 64, layers=6, width=384),
    "bert_b1_s128": encoder(1, 128),
    "bert_b8_s384": encoder(8, 384),
    "bert_b32_s128": encoder(32, 128),
    "bert_b64_s512": encoder(64, 512, lengths=full, large=True),
    "bert_packed_b64": encoder(64, 512, lengths=quarter, pads_zero=True, large=True),
    "bert_large_b1_s384": encoder(1, 384, layers=24, width=1024, heads=16, lengths=full, half=True, large=True),
    "gpt2_prefill_512": Workload(Gpt2, lambda: {"input_ids": torch.randint(0, 50257, (1, 512))}, half=True, large=True,
                                 outputs=("logits",)),
    "gemma2_s1024": Workload(CappedDecoder, normal(x=(1, 1024, 2304)), half=True, large=True),
    "whisper_small_encoder": Workload(SpeechEncoder, normal(features=(1, 80, 3000)), half=True, large=True),
}
