# SPDX-License-Identifier: Apache-2.0
"""Benchmark workloads as PyTorch modules with seeded weights, and how they are compiled and timed."""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import decoder_workloads
import detection_workloads
import diffusion_workloads
import graph_workloads
import text_workloads
import vision_workloads
from gpu_timing import measure
from workload import Workload, normal

ROWS, COLUMNS = 8192, 4096
SEED = 0


class LnReluAdd(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(COLUMNS)

    def forward(self, x):
        return x + F.relu(self.norm(x))


class Sin4(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = torch.sin(x)
        return x


class SoftmaxMask(nn.Module):
    def forward(self, x, mask):
        return torch.softmax(x * 0.125 + mask, dim=-1)


class BiasGeluRms(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(COLUMNS) * 0.02)
        self.scale = nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x, gate):
        y = F.gelu(x + self.bias) * gate
        variance = y.float().square().mean(-1, keepdim=True)
        return y * torch.rsqrt(variance + 1e-6).to(y.dtype) * self.scale


class SumMany(nn.Module):
    """The mean of each of many tensors of different sizes."""

    def forward(self, *tensors):
        return torch.stack([t.float().mean() for t in tensors])


def many():
    sizes = np.random.default_rng(SEED).integers(256, 65536, 1000)
    return {f"t{i}": torch.randn(int(n)) for i, n in enumerate(sizes)}


WORKLOADS = {
    "chain_ln_relu_add": Workload(LnReluAdd, normal(x=(ROWS, COLUMNS)), half=True),
    "chain_sin4": Workload(Sin4, normal(x=(ROWS, COLUMNS)), half=True),
    "chain_softmax_mask": Workload(SoftmaxMask, normal(x=(16, 12, 512, 512), mask=(16, 1, 1, 512)), half=True),
    "chain_bias_gelu_rms": Workload(BiasGeluRms, normal(x=(ROWS, COLUMNS), gate=(ROWS, COLUMNS)), half=True),
    "sum_many_1000": Workload(SumMany, many, half=True),
    **text_workloads.WORKLOADS, **vision_workloads.WORKLOADS, **detection_workloads.WORKLOADS,
    **diffusion_workloads.WORKLOADS, **decoder_workloads.WORKLOADS, **graph_workloads.WORKLOADS,
}

MODES = {
    "eager": lambda module: module,
    "default": lambda module: torch.compile(module, fullgraph=True),
    "reduce-overhead": lambda module: torch.compile(module, fullgraph=True, mode="reduce-overhead"),
    "max-autotune": lambda module: torch.compile(module, fullgraph=True, mode="max-autotune"),
    # CUDA graphs, and products of one row as fused passes.
    "gpt-fast": lambda module: torch.compile(module, fullgraph=True, options={"triton.cudagraphs": True,
                                                                              "coordinate_descent_tuning": True}),
}


def seeded(workload):
    """The module with reproducible weights, in eval mode, and its inputs."""
    torch.manual_seed(SEED)
    with torch.device("cuda" if workload.large and torch.cuda.is_available() else "cpu"):
        return workload.make().eval(), workload.inputs()


def lowered(tensor, dtype):
    return tensor.to("cuda", dtype) if tensor.is_floating_point() else tensor.to("cuda")


def time_mode(workload, mode):
    torch._dynamo.reset()
    module, inputs = seeded(workload)
    module = module.to("cuda", workload.dtype)
    if workload.channels_last:
        module = module.to(memory_format=torch.channels_last)
    if workload.caches:
        module.keep_caches([lowered(inputs.pop(name), workload.dtype) for name in workload.caches])
    arguments = [lowered(t, workload.dtype) for t in inputs.values()]
    if workload.channels_last:
        arguments = [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in arguments]
    with torch.inference_mode():
        start = time.perf_counter()
        call = MODES[mode](module)
        call(*arguments)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        result = measure(lambda: call(*arguments))
    del call, module
    torch.cuda.empty_cache()
    return {**result, "first_call_s": round(first, 1)}


def half(inputs):
    return {name: t.half() if t.is_floating_point() else t for name, t in inputs.items()}


def save_tensors(path, tensors):
    np.savez(path, **{name: tensor.cpu().numpy() for name, tensor in tensors.items()})


def export(workload, path):
    """Writes `path` and beside it the inputs (.npz) and PyTorch's float32 outputs (.expected.npz)."""
    torch.backends.cudnn.allow_tf32 = False  # by default convolutions round float32 to 10 bits
    module, inputs = seeded(workload)
    with torch.no_grad():
        expected = module(*(t.clone() for t in inputs.values()))
    if workload.half:
        module, inputs = module.half(), half(inputs)
    if workload.caches:
        import torch_export
        torch_export.export(workload, module, path)
    else:
        program = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, opset_version=20, verbose=False,
                                    input_names=list(inputs), output_names=list(workload.outputs))
        program.save(str(path), external_data=True)
    save_tensors(path.with_suffix(".npz"), inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    save_tensors(path.with_suffix(".expected.npz"), dict(zip(workload.outputs, expected)))
