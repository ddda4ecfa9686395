# SPDX-License-Identifier: Apache-2.0
"""One decoding step of Llama-style models as a PyTorch module, its weights in float16, int8 or int4."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from workload import Workload


@dataclass(frozen=True)
class DecoderSize:
    width: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    layers: int
    vocabulary: int
    context: int = 1024


def rms_norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class DecoderLayer(nn.Module):
    """One position of a Llama layer; its key and value are put into caches of a fixed length."""

    def __init__(self, size):
        super().__init__()
        self.size = size

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)
        queries, keys = size.heads * size.head, size.kv_heads * size.head
        self.before_attention = nn.Parameter(torch.ones(size.width))
        self.q, self.k, self.v = linear(size.width, queries), linear(size.width, keys), linear(size.width, keys)
        self.out = linear(queries, size.width)
        self.before_mlp = nn.Parameter(torch.ones(size.width))
        self.gate, self.up = linear(size.width, size.inner), linear(size.width, size.inner)
        self.down = linear(size.inner, size.width)

    def forward(self, x, position, angles, seen, keys, values):
        batch = x.shape[0]

        def by_head(y):
            return y.view(batch, 1, -1, self.size.head).transpose(1, 2)
        y = rms_norm(x, self.before_attention)
        q, k = rotate(by_head(self.q(y)), *angles), rotate(by_head(self.k(y)), *angles)
        v = by_head(self.v(y))
        # In place where PyTorch runs it; an exported graph has no such thing.
        put = torch.Tensor.index_copy if torch.compiler.is_exporting() else torch.Tensor.index_copy_
        keys, values = put(keys, 2, position, k), put(values, 2, position, v)
        shared = self.size.heads // self.size.kv_heads
        y = F.scaled_dot_product_attention(q, keys.repeat_interleave(shared, 1), values.repeat_interleave(shared, 1),
                                           attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(batch, 1, -1))
        y = rms_norm(x, self.before_mlp)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


class DecodeStep(nn.Module):
    """Token and position -> logits; the caches are inputs and outputs where it is exported."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(size.layers))
        self.norm = nn.Parameter(torch.ones(size.width))
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        frequencies = 500000.0 ** -(torch.arange(0, size.head, 2) / size.head)
        angles = torch.outer(torch.arange(size.context).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def keep_caches(self, caches):
        """Holds the caches, so that a call changes them in place."""
        for i, cache in enumerate(caches):
            self.register_buffer(f"cache{i}", cache, persistent=False)

    def forward(self, token, position, *caches):
        kept = not caches
        if kept:
            caches = [getattr(self, f"cache{i}") for i in range(2 * len(self.layers))]
        x = self.embedding(token)
        angles = self.cos[position].to(x.dtype), self.sin[position].to(x.dtype)
        seen = (torch.arange(self.size.context, device=x.device) <= position)[None, None, None]
        changed = []
        for i, layer in enumerate(self.layers):
            x, *pair = layer(x, position, angles, seen, caches[2 * i], caches[2 * i + 1])
            changed += pair
        logits = self.head(rms_norm(x, self.norm))
        return logits if kept else (logits, *changed)


class Int8Linear(nn.Module):
    """Weights of 8 bits, a scale for each output: what gpt-fast compiles, and how PyTorch exports such."""

    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("weight", torch.round(weight / scale[:, None]).clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype)


class Int4Linear(nn.Module):
    """Weights of 4 bits, a scale for each group of 128, by PyTorch's own kernel, which wants bfloat16 and a GPU."""
    GROUP = 128

    def __init__(self, weight):
        super().__init__()
        self.outputs = weight.shape[0]
        groups = weight.unflatten(1, (-1, self.GROUP))
        scale = groups.abs().amax(-1, keepdim=True) / 7
        numbers = (torch.round(groups / scale).clamp(-8, 7) + 8).to(torch.uint8).flatten(1)
        self.register_buffer("weight", torch._convert_weight_to_int4pack(numbers[:, ::2] << 4 | numbers[:, 1::2], 8))
        self.register_buffer("scales", torch.cat((scale, torch.zeros_like(scale)), -1).transpose(0, 1).contiguous())

    def forward(self, x):
        y = torch._weight_int4pack_mm(x.flatten(0, -2), self.weight, self.GROUP, self.scales)
        return y.view(*x.shape[:-1], self.outputs)


def with_linears(module, linear):
    """The module with every linear layer replaced by linear(its weights)."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, linear(child.weight.detach()))
        else:
            with_linears(child, linear)
    return module


LLAMA_1B = DecoderSize(width=2048, heads=32, kv_heads=8, head=64, inner=8192, layers=16, vocabulary=128256)
LLAMA_8B = DecoderSize(width=4096, heads=32, kv_heads=8, head=128, inner=14336, layers=32, vocabulary=128256)
LLAMA_TINY = DecoderSize(width=128, heads=4, kv_heads=2, head=32, inner=256, layers=2, vocabulary=192, context=64)


def cache_names(size):
    return [f"{which}_{i}" for i in range(size.layers) for which in ("key", "value")]


def decode_step(size, batch, position=777, linear=None, dtype=torch.float16):
    """The caches are the last inputs, "key_0" .., and the outputs behind "logits", "key_0_next" .. `linear` takes the
    place of linear layers."""
    def inputs():
        result = {"token": torch.randint(0, size.vocabulary, (batch, 1)), "position": torch.tensor([position])}
        for name in cache_names(size):
            result[name] = torch.randn(batch, size.kv_heads, size.context, size.head)
        return result
    outputs = ["logits"] + [name + "_next" for name in cache_names(size)]
    return Workload(lambda: with_linears(DecodeStep(size), linear) if linear else DecodeStep(size), inputs, half=True,
                    outputs=outputs, caches=cache_names(size), dtype=dtype,
                    large=size.width > 1024 or linear is not None)


def decode_steps(name, size, batch, position=777):
    """By name: the step with weights in float16, int8 and int4."""
    return {name: decode_step(size, batch, position),
            f"{name}_int8": decode_step(size, batch, position, Int8Linear),
            f"{name}_int4": decode_step(size, batch, position, Int4Linear, torch.bfloat16)}


WORKLOADS = {
    **decode_steps("llama_tiny_decode", LLAMA_TINY, 2, position=37),
    **decode_steps("llama1b_decode_b1", LLAMA_1B, 1),
    **decode_steps("llama1b_decode_b8", LLAMA_1B, 8),
    **decode_steps("llama8b_decode_b1", LLAMA_8B, 1),
}
