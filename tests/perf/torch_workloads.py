"""Benchmark workloads as PyTorch modules with seeded weights, and how they are compiled and timed."""
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
import diffusion_workloads as diffusion
from gpu_timing import measure
from torch import nn

ROWS, COLUMNS = 8192, 4096
SEED = 0


@dataclass
class Workload:
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict]  # name -> float32 or integer tensor on the host
    half: bool = False          # exported in float16; else in float32, to be lowered by the compiler
    outputs: tuple = ("output",)
    caches: tuple = ()          # inputs that the module changes in place if it holds them
    large: bool = False         # made on the GPU where there is one
    channels_last: bool = False  # PyTorch runs it on images and weights in this order
    dtype: torch.dtype = torch.float16  # in which PyTorch runs it


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


def latents(make, size, batch=2, context=None, steps=False):
    """A model of images of four channels, and what it takes besides."""
    def inputs():
        result = {"latents": torch.randn(batch, 4, size, size)}
        if steps:
            result["timestep"] = torch.full((batch,), 500)
        if context:
            result["context"] = torch.randn(batch, *context)
        return result
    return Workload(make, inputs, half=True, large=True, channels_last=True)


def joint(depth=6, width=1536, tokens=4096, text=154):
    return Workload(lambda: diffusion.Joint(depth, width), normal(image=(1, tokens, width), text=(1, text, width),
                                                                   condition=(1, width)),
                    half=True, outputs=("image_out", "text_out"), large=True)


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
    "resnet50_b64": vision("resnet50", 64),
    "convnext_t_b1": vision("convnext_tiny", 1),
    "unet_64": latents(diffusion.UNet, 64, context=(77, 768), steps=True),
    "unet_128": latents(diffusion.UNet, 128, context=(77, 768), steps=True),
    "vae_decoder_64": latents(diffusion.VaeDecoder, 64, batch=1),
    "dit_128": latents(diffusion.Dit, 128, batch=1, steps=True),
    "joint_4096": joint(),
    **decode_steps("llama_tiny_decode", LLAMA_TINY, 2, position=37),
    **decode_steps("llama1b_decode_b1", LLAMA_1B, 1),
    **decode_steps("llama1b_decode_b8", LLAMA_1B, 8),
    **decode_steps("llama8b_decode_b1", LLAMA_8B, 1),
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
