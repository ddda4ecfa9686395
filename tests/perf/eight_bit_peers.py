# SPDX-License-Identifier: Apache-2.0
"""PyTorch's products of 8 bits, as peers of ours: torchao's, and torch._scaled_mm and torch._int_mm by hand.

Each peer replaces the Linear layers of a module whose sizes its product takes; torch.compile does the rest (it fuses
quantization with what makes an activation). `PEERS` says which there are. torchao is not part of PyTorch (0.17 and
0.18 work with torch 2.11); where it is missing its peers say so.
"""
import os
import time

import torch
from torch import nn

import torch_workloads
from gpu_timing import measure

E4M3 = torch.float8_e4m3fn
LARGEST = {E4M3: 448.0, torch.int8: 127.0}
STEP = 16  # sizes of products are multiples of it


def rounded(x, scale, dtype):
    x = x.float() / scale
    if dtype == torch.int8:
        x = x.round()
    return x.clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


class EightBitLinear(nn.Module):
    """x w' + bias of operands of 8 bits; weights have a scale for each output channel (`by_row`) or one for all,
    activations one for each row, found in each run, or one that `static` gives."""

    def __init__(self, linear, dtype, by_row, static=None):
        super().__init__()
        weight = linear.weight.detach()
        largest = weight.abs().amax(1, keepdim=True) if by_row else weight.abs().amax()
        scale = (largest.float() / LARGEST[dtype]).clamp(min=1e-12)
        self.dtype, self.by_row = dtype, by_row
        self.register_buffer("weight", rounded(weight, scale, dtype).t())  # column-major, as the products want it
        self.register_buffer("weight_scale", scale.t().contiguous())
        self.register_buffer("activation_scale", static)
        self.register_buffer("bias", linear.bias.detach() if linear.bias is not None else None)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        scale = self.activation_scale
        if scale is None:
            largest = rows.abs().amax(1, keepdim=True) if self.by_row else rows.abs().amax()
            scale = (largest.float() / LARGEST[self.dtype]).clamp(min=1e-12)
        operand = rounded(rows, scale, self.dtype)
        if self.dtype == torch.int8:
            y = (torch._int_mm(operand, self.weight).float() * scale * self.weight_scale).to(x.dtype)
            y = y if self.bias is None else y + self.bias
        else:
            y = torch._scaled_mm(operand, self.weight, scale_a=scale, scale_b=self.weight_scale, bias=self.bias,
                                 out_dtype=x.dtype, use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


def takes(linear):
    return linear.in_features % STEP == 0 and linear.out_features % STEP == 0


def by_hand(dtype, by_row, is_static):
    def convert(module, arguments):
        layers = {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear) and takes(part)}
        largest = {}
        if is_static:
            hooks = [part.register_forward_pre_hook(
                lambda _, inputs, name=name: largest.update({name: inputs[0].abs().amax().float()}))
                for name, part in layers.items()]
            with torch.inference_mode():
                module(*arguments)
            for hook in hooks:
                hook.remove()
        for name, part in layers.items():
            if is_static and name not in largest:
                continue  # functional uses of its weights, as nn.MultiheadAttention's, do not go through it
            static = (largest[name].clone() / LARGEST[dtype]).clamp(min=1e-12) if is_static else None
            parent, _, own = name.rpartition(".")
            setattr(module.get_submodule(parent), own, EightBitLinear(part, dtype, by_row, static))
        return module
    return convert


def by_torchao(make_config):
    def convert(module, _):
        # What these configurations run are PyTorch's own products.
        os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
        from torchao import quantization
        quantization.quantize_(module, make_config(quantization),
                               lambda part, _: isinstance(part, nn.Linear) and takes(part))
        return module
    return convert


# Name: type of what is not a product, and what makes the products' operands numbers of 8 bits. One scale for each row
# is there for results in bfloat16 alone.
PEERS = {
    "torch_fp8_static": (torch.float16, by_hand(E4M3, False, True)),
    "torchao_fp8_row": (torch.bfloat16, by_torchao(
        lambda q: q.Float8DynamicActivationFloat8WeightConfig(granularity=q.PerRow()))),
    "torchao_fp8_tensor": (torch.bfloat16, by_torchao(
        lambda q: q.Float8DynamicActivationFloat8WeightConfig(granularity=q.PerTensor()))),
    "torchao_int8": (torch.bfloat16, by_torchao(lambda q: q.Int8DynamicActivationInt8WeightConfig())),
    "torch_fp8_row": (torch.bfloat16, by_hand(E4M3, True, False)),
    "torch_int8_row": (torch.float16, by_hand(torch.int8, True, False)),
}


def time_peer(workload, peer, mode):
    """Microseconds of the GPU and of a synchronised call, the relative error against float16's eager result, and how
    long the first call took, compilation included."""
    torch._dynamo.reset()
    dtype, convert = PEERS[peer]
    module, inputs = torch_workloads.seeded(workload)
    module = module.to("cuda", dtype)
    arguments = [torch_workloads.lowered(t, dtype) for t in inputs.values()]
    if workload.channels_last:
        module = module.to(memory_format=torch.channels_last)
        arguments = [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in arguments]

    def first_of(result):
        return (result[0] if isinstance(result, tuple) else result).double()

    with torch.inference_mode():
        exact = first_of(module(*arguments))
        module = convert(module, arguments)
        start = time.perf_counter()
        call = torch_workloads.MODES[mode](module)
        found = first_of(call(*arguments))
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        error = float((found - exact).norm() / exact.norm())
        result = measure(lambda: call(*arguments))
    del call, module
    torch.cuda.empty_cache()
    return {**result, "mode": mode, "relative_error": error, "first_call_s": round(seconds, 1)}
