# SPDX-License-Identifier: Apache-2.0
"""What a row of the export zoo is: a module to make, its inputs with named dimensions, four sizes of each."""
from dataclasses import dataclass, field
from typing import Callable

import torch
from torch import nn

SIZES = 4
# Values of every symbol that rows use; a row may give others. They differ within one size, so that dimensions that
# are mixed up are seen. The last ones are near the greatest that the models take (64 positions): errors that grow with
# the length show there. A row of three values has its last one twice.
DEFAULT_SIZES = {
    "batch": (2, 1, 3, 2), "seq": (12, 7, 20, 60), "past": (5, 9, 16, 4), "total": (17, 16, 36, 64),
    "target": (6, 4, 9, 24), "height": (64, 96, 64, 96), "width": (64, 64, 128, 128),
    "samples": (1600, 2400, 4000, 4800), "frames": (48, 32, 64, 64), "queries": (3, 1, 5, 7),
}


SHORT = dict(seq=(12, 7, 20, 30))  # of a model that takes 32 positions


@dataclass(frozen=True)
class Tensor:
    """An input: what it holds, and its dimensions, each a number, a symbol or a function of the sizes."""
    kind: str  # normal, uniform, ids, range, boxes, mask, ones, late
    dims: tuple
    high: int = 64

    def shape(self, sizes):
        return [sizes[d] if isinstance(d, str) else d for d in self.dims]

    def make(self, sizes, generator):
        shape = self.shape(sizes)
        if self.kind == "normal":
            return torch.randn(shape, generator=generator)
        if self.kind == "uniform":
            return torch.rand(shape, generator=generator)
        if self.kind == "ids":
            return torch.randint(2, self.high, shape, generator=generator)
        if self.kind in ("late", "late_float"):  # time steps near the last one, whole and between two
            step = torch.full(shape, self.high)
            return step if self.kind == "late" else step.float() + 0.37
        if self.kind == "range":  # positions: the last dimension counts
            return torch.arange(shape[-1]).expand(shape).contiguous()
        if self.kind == "boxes":  # x0 y0 x1 y1, ordered
            low = torch.randint(0, self.high // 2, (*shape[:-1], 2), generator=generator)
            return torch.cat([low, low + torch.randint(1, self.high // 2, low.shape, generator=generator)], -1)
        if self.kind in ("mask", "ones"):  # the last sequence is padded at its end
            mask = torch.ones(shape, dtype=torch.int64)
            if self.kind == "mask" and shape[0] > 1 and shape[-1] > 3:
                mask[-1, -3:] = 0
            return mask
        raise ValueError(self.kind)

    def dynamic(self):
        return {i: d for i, d in enumerate(self.dims) if isinstance(d, str)}


def normal(*dims):
    return Tensor("normal", dims)


def uniform(*dims):
    return Tensor("uniform", dims)


def ids(*dims, high=64):
    return Tensor("ids", dims, high)


def mask(*dims):
    return Tensor("mask", dims)


def ones(*dims):
    return Tensor("ones", dims)


def positions(*dims):
    return Tensor("range", dims)


def boxes(*dims, high=100):
    return Tensor("boxes", dims, high)


TOKENS = {"input_ids": ids("batch", "seq"), "attention_mask": mask("batch", "seq")}
EXPORTERS = ("dynamo", "torchscript")


@dataclass
class Row:
    make: Callable[[], nn.Module]
    inputs: dict
    outputs: tuple = ()  # fields of the module's result; none: it gives tensors
    sizes: dict = field(default_factory=dict)
    fixed: dict = field(default_factory=dict)  # further arguments of forward
    exporters: tuple = EXPORTERS
    positional: bool = False  # forward knows the inputs by their places
    task: str = ""  # Optimum's
    optimise: str = ""  # onnxruntime.transformers' model type
    quantize: bool = False
    group: str = ""
    tolerance: float = 1e-4

    def at(self, index):
        """The sizes number `index`."""
        return {k: v[min(index, len(v) - 1)] for k, v in {**DEFAULT_SIZES, **self.sizes}.items()}

    def feeds(self, index):
        generator = torch.Generator().manual_seed(100 + index)
        return {name: tensor.make(self.at(index), generator) for name, tensor in self.inputs.items()}


def tensors_of(result, fields):
    """The named tensors of a module's result; those of tuples are numbered."""
    if isinstance(result, torch.Tensor):
        return {"output": result}
    if fields:
        result = {f: result[f] for f in fields}
    elif not isinstance(result, dict):
        result = {f"output{i or ''}": x for i, x in enumerate(result)}
    found = {}
    for name, value in result.items():
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, (tuple, list)):
            found.update({f"{name}_{i}": x for i, x in enumerate(value) if isinstance(x, torch.Tensor)})
    return found


class Exported(nn.Module):
    """A row's module as exporters take it: tensors in, a tuple of tensors out."""

    def __init__(self, row, module):
        super().__init__()
        self.module, self.row = module, row
        self.names = list(row.inputs)

    def named(self, *tensors):
        if self.row.positional:
            result = self.module(*tensors, **self.row.fixed)
        else:
            result = self.module(**dict(zip(self.names, tensors)), **self.row.fixed)
        return tensors_of(result, self.row.outputs)

    def forward(self, *tensors):
        return tuple(self.named(*tensors).values())


class CachedDecoder(nn.Module):
    """A causal language model whose cache comes in and goes out as tensors past_key_0, past_value_0, .."""

    def __init__(self, model, layers):
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, input_ids, attention_mask, **past):
        from transformers import DynamicCache
        pairs = [(past[f"past_key_{i}"], past[f"past_value_{i}"]) for i in range(self.layers)]
        cache = DynamicCache()
        for i, (key, value) in enumerate(pairs):
            cache.update(key, value, i)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        result = {"logits": out.logits}
        for i in range(self.layers):
            result[f"present_key_{i}"] = cache.layers[i].keys
            result[f"present_value_{i}"] = cache.layers[i].values
        return result


def cache_inputs(layers, heads, width):
    kinds = [(f"past_key_{i}", f"past_value_{i}") for i in range(layers)]
    return {"input_ids": ids("batch", "seq"), "attention_mask": ones("batch", "total"),
            **{name: normal("batch", heads, "past", width) for pair in kinds for name in pair}}


def hugging(model, outputs, config, inputs=None, nested=(), **settings):
    """A row of transformers: the model's class by name and its configuration's arguments. `nested` names a
    part of the model to export alone."""
    def make():
        import transformers as t
        cls = getattr(t, model)
        arguments = {k: v() if callable(v) else v for k, v in config.items()}
        made = cls(cls.config_class(**arguments))
        for name in nested:
            made = getattr(made, name)
        return made
    outputs = (outputs,) if isinstance(outputs, str) else outputs
    return Row(make, inputs or TOKENS, outputs, **settings)
