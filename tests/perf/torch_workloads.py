"""Benchmark workloads as PyTorch modules with seeded weights, and how PyTorch's time is taken."""
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROWS, COLUMNS = 8192, 4096
SEED = 0


@dataclass
class Workload:
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict]  # name -> float32 or integer tensor on the host
    half: bool = False          # exported in float16; else in float32, to be lowered by the compiler


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


class Encoder(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        from transformers import BertConfig, BertModel
        self.bert = BertModel(BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
                                         intermediate_size=4 * width), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def encoder(batch, length, layers=12, width=768, heads=12):
    def inputs():
        mask = torch.ones(batch, length, dtype=torch.long)
        for row in range(1, batch):
            mask[row, max(1, length - 7 * row):] = 0  # padding, more for each row
        return {"input_ids": torch.randint(0, 30522, (batch, length)), "attention_mask": mask}
    return Workload(lambda: Encoder(layers, width, heads), inputs)


def vision(name, batch):
    def make():
        import timm
        return timm.create_model(name, pretrained=False)
    return Workload(make, lambda: {"image": torch.randn(batch, 3, 224, 224)})


def normal(**shapes):
    return lambda: {name: torch.randn(*shape) for name, shape in shapes.items()}


def many():
    sizes = np.random.default_rng(SEED).integers(256, 65536, 1000)
    return {f"t{i}": torch.randn(int(n)) for i, n in enumerate(sizes)}


WORKLOADS = {
    "chain_ln_relu_add": Workload(LnReluAdd, normal(x=(ROWS, COLUMNS)), half=True),
    "chain_sin4": Workload(Sin4, normal(x=(ROWS, COLUMNS)), half=True),
    "chain_softmax_mask": Workload(SoftmaxMask, normal(x=(16, 12, 512, 512), mask=(16, 1, 1, 512)), half=True),
    "chain_bias_gelu_rms": Workload(BiasGeluRms, normal(x=(ROWS, COLUMNS), gate=(ROWS, COLUMNS)), half=True),
    "sum_many_1000": Workload(SumMany, many, half=True),
    "minilm_b1_s64": encoder(1, 64, layers=6, width=384),
    "bert_b1_s128": encoder(1, 128),
    "bert_b8_s384": encoder(8, 384),
    "bert_b32_s128": encoder(32, 128),
    "vit_b16_b1": vision("vit_base_patch16_224", 1),
    "vit_b16_b8": vision("vit_base_patch16_224", 8),
    "resnet50_b1": vision("resnet50", 1),
    "resnet50_b8": vision("resnet50", 8),
    "convnext_t_b1": vision("convnext_tiny", 1),
}

MODES = {
    "eager": lambda module: module,
    "default": lambda module: torch.compile(module, fullgraph=True),
    "reduce-overhead": lambda module: torch.compile(module, fullgraph=True, mode="reduce-overhead"),
    "max-autotune": lambda module: torch.compile(module, fullgraph=True, mode="max-autotune"),
}


def seeded(workload):
    """The module with reproducible weights, in eval mode, and its inputs."""
    torch.manual_seed(SEED)
    module = workload.make().eval()
    return module, workload.inputs()


def lowered(tensor, dtype=torch.float16):
    return tensor.to("cuda", dtype) if tensor.is_floating_point() else tensor.to("cuda")


def measure(call, seconds=1.0):
    """Microseconds: 'gpu' with events, a cold L2 and a full queue; 'wall' of one synchronised call."""
    flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    wall, began = [], time.perf_counter()
    while len(wall) < 10 or (time.perf_counter() - began < seconds / 2 and len(wall) < 300):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        wall.append(time.perf_counter() - start)
    runs = int(np.clip(seconds / np.median(wall), 20, 300))
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, stop in events:
        flush.zero_()
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    gpu = [start.elapsed_time(stop) * 1e3 for start, stop in events]
    return {"gpu_us": round(float(np.median(gpu)), 2), "p10_us": round(float(np.percentile(gpu, 10)), 2),
            "p90_us": round(float(np.percentile(gpu, 90)), 2),
            "wall_us": round(float(np.median(wall)) * 1e6, 2), "runs": runs}


def time_mode(workload, mode):
    torch._dynamo.reset()
    module, inputs = seeded(workload)
    module = module.to("cuda", torch.float16)
    arguments = [lowered(t) for t in inputs.values()]
    with torch.inference_mode():
        start = time.perf_counter()
        call = MODES[mode](module)
        call(*arguments)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        result = measure(lambda: call(*arguments))
    torch.cuda.empty_cache()
    return {**result, "first_call_s": round(first, 1)}


def export(workload, path):
    """Writes `path` and beside it the inputs (.npz) and PyTorch's float32 output (.expected.npz)."""
    module, inputs = seeded(workload)
    with torch.no_grad():
        expected = module(*inputs.values())
    if workload.half:
        module = module.half()
        inputs = {name: t.half() if t.is_floating_point() else t for name, t in inputs.items()}
    arguments = tuple(inputs.values())
    program = torch.onnx.export(module, arguments, dynamo=True, opset_version=20, verbose=False,
                                input_names=list(inputs), output_names=["output"])
    program.save(str(path), external_data=True)
    np.savez(path.with_suffix(".npz"), **{k: v.numpy() for k, v in inputs.items()})
    np.savez(path.with_suffix(".expected.npz"), output=expected.numpy())
