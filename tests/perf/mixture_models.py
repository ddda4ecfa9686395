# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts as ONNX files, and the same in PyTorch: what run_mixtures.py compares.

Weights are drawn where PyTorch computes and go to a file beside the model. Scores come from outside, except in `Einsum`,
and differ for all experts of a token: nothing but rounding can change which are taken.
"""
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

SEED = 58
ALIGNMENT = 4096
# Of onnx.TensorProto, which has the last one since 1.20.
ONNX_TYPES = {torch.float16: 10, torch.bfloat16: 16, torch.float32: 1, torch.uint8: 2, torch.int64: 7}
ONNX_E8M0 = 24
MICROSOFT = "com.microsoft"
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm  # its name before 2.10
ALPHA, BETA, LIMIT = 1.702, 1.0, 7.0  # of gpt-oss's gates


@dataclass(frozen=True)
class Shape:
    hidden: int
    inner: int
    experts: int
    taken: int
    layers: int = 1
    dtype: torch.dtype = torch.float16

    def tiny(self):
        """As many experts in all, of sizes that a CPU multiplies at once."""
        return replace(self, hidden=self.hidden // 16 // 32 * 32 or 32, inner=self.inner // 16 // 32 * 32 or 32,
                       layers=min(self.layers, 2))


class Random:
    """Tensors of one seed on one device."""

    def __init__(self, device, seed=SEED):
        self.device, self.generator = device, torch.Generator(device).manual_seed(seed)

    def normal(self, *shape, dtype, scale=1.0):
        """In pieces: float32 of all experts may not fit beside what is there."""
        result = torch.empty(shape, dtype=dtype, device=self.device)
        for part in result if len(shape) > 2 else [result]:
            part.copy_(torch.randn(part.shape, device=self.device, generator=self.generator) * scale)
        return result

    def integers(self, low, high, *shape):
        return torch.randint(low, high, shape, dtype=torch.uint8, device=self.device, generator=self.generator)

    def scores(self, tokens, experts, dtype):
        """Each row has the same numbers, far enough from each other for any type, in an order of its own."""
        order = torch.rand(tokens, experts, device=self.device, generator=self.generator).argsort(1)
        return torch.linspace(-3, 3, experts, device=self.device)[order].to(dtype)


# ---- In PyTorch

class Einsum(nn.Module):
    """Layers of x + mixture(x), the experts' matrices gathered for each token. Gates square what they get and there are no
    norms: mixtures add a tenth of x's size, such that float16 holds the last layer."""

    def __init__(self, shape, device):
        super().__init__()
        draw, s = Random(device), shape
        self.taken, self.layers, self.inner = s.taken, s.layers, s.inner
        for i in range(s.layers):
            self.register_buffer(f"router{i}", draw.normal(s.hidden, s.experts, dtype=s.dtype, scale=4 * s.hidden**-0.5))
            self.register_buffer(f"w1_{i}", draw.normal(s.experts, 2 * s.inner, s.hidden, dtype=s.dtype, scale=s.hidden**-0.5))
            self.register_buffer(f"w2_{i}", draw.normal(s.experts, s.hidden, s.inner, dtype=s.dtype, scale=0.1 * s.inner**-0.5))

    def inputs(self, shape, tokens, device):
        return {"x": Random(device, SEED + tokens).normal(tokens, shape.hidden, dtype=shape.dtype)}

    def forward(self, x):
        for i in range(self.layers):
            shares, chosen = torch.topk(torch.softmax(x @ getattr(self, f"router{i}"), -1), self.taken)
            shares = shares / shares.sum(-1, keepdim=True)
            h = torch.einsum("ti,taoi->tao", x, getattr(self, f"w1_{i}")[chosen])
            a = F.silu(h[..., :self.inner]) * h[..., self.inner:]
            y = torch.einsum("tao,taio->tai", a, getattr(self, f"w2_{i}")[chosen])
            x = x + torch.einsum("tai,ta->ti", y, shares)
        return x


def dequantized(codes, scales, dtype):
    """E2M1 codes, two for a byte, with e8m0 scales of 32: in `dtype`, expert after expert."""
    numbers = torch.tensor([*FP4, *(-n for n in FP4)], device=codes.device)
    result = torch.empty(*codes.shape[:2], codes.shape[2] * 2, dtype=dtype, device=codes.device)
    for to, packed, exponents in zip(result, codes, scales):
        values = torch.stack([packed & 15, packed >> 4], -1).flatten(1).int()
        to.copy_(numbers[values] * torch.exp2(exponents.float() - 127).repeat_interleave(32, 1))
    return result


class Grouped(nn.Module):
    """Rows sorted by expert and torch.nn.functional.grouped_mm: scores from outside, `four_bits` as gpt-oss's."""

    def __init__(self, shape, device, four_bits=False):
        super().__init__()
        draw, s = Random(device), shape
        self.taken, self.experts, self.four_bits, self.inner = s.taken, s.experts, four_bits, s.inner
        if four_bits:
            for name, rows, columns in (("1", 2 * s.inner, s.hidden), ("2", s.hidden, s.inner)):
                self.register_buffer(f"codes{name}", draw.integers(0, 256, s.experts, rows, columns // 2))
                # Numbers of E2M1 have a mean square of 8.6.
                middle = 127 - round(0.5 * torch.log2(torch.tensor(8.6 * columns)).item())
                self.register_buffer(f"scales{name}", draw.integers(middle - 1, middle + 2, s.experts, rows, columns // 32))
                self.register_buffer(f"bias{name}", draw.normal(s.experts, rows, dtype=s.dtype, scale=0.1))
        else:
            self.register_buffer("w1", draw.normal(s.experts, 2 * s.inner, s.hidden, dtype=s.dtype, scale=s.hidden**-0.5))
            self.register_buffer("w2", draw.normal(s.experts, s.hidden, s.inner, dtype=s.dtype, scale=s.inner**-0.5))

    def inputs(self, shape, tokens, device):
        draw = Random(device, SEED + tokens)
        return {"x": draw.normal(tokens, shape.hidden, dtype=shape.dtype),
                "scores": draw.scores(tokens, shape.experts, shape.dtype)}

    def plain(self):
        """With weights that grouped_mm takes."""
        if self.four_bits and not hasattr(self, "w1"):
            for name in "12":
                weights = dequantized(getattr(self, f"codes{name}"), getattr(self, f"scales{name}"), getattr(self, f"bias{name}").dtype)
                self.register_buffer(f"w{name}", weights, persistent=False)
        return self

    def activated(self, h):
        if not self.four_bits:
            return F.silu(h[:, :self.inner]) * h[:, self.inner:]
        gate, linear = h[:, ::2].clamp(max=LIMIT), h[:, 1::2].clamp(-LIMIT, LIMIT)
        return gate * torch.sigmoid(ALPHA * gate) * (linear + BETA)

    def routed(self, scores):
        shares, chosen = torch.topk(torch.softmax(scores.float(), -1), self.taken)
        return shares / shares.sum(-1, keepdim=True), chosen

    def forward(self, x, scores):
        shares, chosen = self.routed(scores)
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        tokens, experts = order // self.taken, flat[order]
        ends = (experts[None] <= torch.arange(self.experts, device=x.device)[:, None]).sum(1).int()
        h = grouped_mm(x[tokens], self.w1.transpose(1, 2), offs=ends)
        if self.four_bits:
            h = h + self.bias1[experts]
        y = grouped_mm(self.activated(h), self.w2.transpose(1, 2), offs=ends)
        if self.four_bits:
            y = y + self.bias2[experts]
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=x.device))
        parts = y[back].view(len(x), self.taken, -1)
        return (parts.float() * shares[..., None]).sum(1).to(x.dtype)

    def exact(self, x, scores):
        """In float32, expert after expert."""
        shares, chosen = self.routed(scores)
        result = torch.zeros_like(x, dtype=torch.float32)
        for expert in chosen.unique().tolist():
            token, place = (chosen == expert).nonzero(as_tuple=True)
            if self.four_bits:
                w1, w2 = (dequantized(getattr(self, f"codes{n}")[expert:expert + 1], getattr(self, f"scales{n}")[expert:expert + 1],
                                      torch.float32)[0] for n in "12")
                b1, b2 = self.bias1[expert].float(), self.bias2[expert].float()
            else:
                w1, w2, b1, b2 = self.w1[expert].float(), self.w2[expert].float(), 0, 0
            y = self.activated(x[token].float() @ w1.T + b1) @ w2.T + b2
            result.index_add_(0, token, y * shares[token, place, None])
        return result


def exact(module, inputs):
    """The result in float32."""
    if isinstance(module, Grouped):
        return module.exact(**inputs)
    return Widened(module)(**{name: x.float() for name, x in inputs.items()})


class Widened(nn.Module):
    """An Einsum in float32 whose weights are widened layer by layer."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        one = Einsum.__new__(Einsum)
        nn.Module.__init__(one)
        one.taken, one.layers, one.inner = self.module.taken, 1, self.module.inner
        for i in range(self.module.layers):
            for name in ("router", "w1_", "w2_"):
                setattr(one, f"{name}0", getattr(self.module, f"{name}{i}").float())
            x = one(x)
        return x


def taken_bytes(module, shape, inputs):
    """Bytes of the weights of the experts that any token takes: what must be read."""
    if isinstance(module, Einsum):  # of later layers as many as of the first
        _, chosen = torch.topk(inputs["x"] @ module.router0, module.taken)
    else:
        _, chosen = module.routed(inputs["scores"])
    count = len(chosen.unique()) * shape.layers
    weights = 3 * shape.hidden * shape.inner
    if getattr(module, "four_bits", False):
        return count * weights * (16 + 1) // 32
    return count * weights * shape.dtype.itemsize


# ---- In ONNX

class Writer:
    """A model whose weights lie in one file beside it."""

    def __init__(self, path):
        import onnx
        self.onnx, self.path = onnx, path
        self.data = open(path.with_suffix(".weights"), "wb")
        self.nodes, self.initializers = [], []

    def weights(self, name, tensor, onnx_type=None):
        at = -(-self.data.tell() // ALIGNMENT) * ALIGNMENT
        self.data.seek(at)
        for part in tensor if tensor.ndim > 2 else [tensor]:
            part.detach().contiguous().cpu().view(torch.uint8).numpy().tofile(self.data)
        proto = self.onnx.TensorProto(name=name, data_type=onnx_type or ONNX_TYPES[tensor.dtype], dims=list(tensor.shape),
                                      data_location=self.onnx.TensorProto.EXTERNAL)
        for key, value in (("location", self.path.with_suffix(".weights").name), ("offset", at), ("length", tensor.nbytes)):
            proto.external_data.add(key=key, value=str(value))
        self.initializers.append(proto)
        return name

    def constant(self, values, name):
        self.initializers.append(self.onnx.helper.make_tensor(name, ONNX_TYPES[torch.int64], [len(values)], values))
        return name

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", domain=domain, **attributes))
        return names if outputs > 1 else names[0]

    def save(self, inputs, result, dtype):
        helper = self.onnx.helper
        self.nodes[-1].output[0] = result
        value = lambda name, width: helper.make_tensor_value_info(name, ONNX_TYPES[dtype], ["tokens", width])  # noqa: E731
        graph = helper.make_graph(self.nodes, "mixture", [value(*each) for each in inputs.items()],
                                  [value(result, inputs["x"])], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)], ir_version=10)
        self.data.close()
        self.path.write_bytes(model.SerializeToString())


def write_einsum(module, shape, path):
    w = Writer(path)
    x, axis = "x", w.constant([-1], "axis")
    one, half, whole = w.constant([0], "zero"), w.constant([shape.inner], "half"), w.constant([2 * shape.inner], "whole")
    for i in range(shape.layers):
        logits = w.node("MatMul", [x, w.weights(f"router{i}", getattr(module, f"router{i}"))])
        taken = w.constant([shape.taken], f"taken{i}")
        shares, chosen = w.node("TopK", [w.node("Softmax", [logits], axis=-1), taken], 2)
        shares = w.node("Div", [shares, w.node("ReduceSum", [shares, axis], keepdims=1)])
        gathered = [w.node("Gather", [w.weights(f"{name}{i}", getattr(module, f"{name}{i}")), chosen], axis=0) for name in ("w1_", "w2_")]
        h = w.node("Einsum", [x, gathered[0]], equation="ti,taoi->tao")
        gate, linear = w.node("Slice", [h, one, half, axis]), w.node("Slice", [h, half, whole, axis])
        a = w.node("Mul", [w.node("Mul", [gate, w.node("Sigmoid", [gate])]), linear])
        y = w.node("Einsum", [a, gathered[1]], equation="tao,taio->tai")
        x = w.node("Add", [x, w.node("Einsum", [y, shares], equation="tai,ta->ti")])
    w.save({"x": shape.hidden}, "output", shape.dtype)


def write_mixture(module, shape, path):
    """com.microsoft's MoE, or QMoE as gpt-oss is exported."""
    w = Writer(path)
    common = dict(domain=MICROSOFT, k=shape.taken, normalize_routing_weights=1, activation_type="swiglu")
    if not module.four_bits:
        w.node("MoE", ["x", "scores", w.weights("w1", module.w1), "", w.weights("w2", module.w2)], swiglu_fusion=2,
               activation_alpha=1.0, activation_beta=0.0, **common)
    else:
        parts = []
        for n in "12":
            parts += [w.weights(f"codes{n}", getattr(module, f"codes{n}")), w.weights(f"scales{n}", getattr(module, f"scales{n}"), ONNX_E8M0),
                      w.weights(f"bias{n}", getattr(module, f"bias{n}"))]
        wholes = [w.weights(f"whole{n}", torch.ones(shape.experts)) for n in "12"]
        w.node("QMoE", ["x", "scores", *parts, *[""] * 7, *wholes], swiglu_fusion=1, quant_type="fp4", expert_weight_bits=4,
               activation_alpha=ALPHA, activation_beta=BETA, swiglu_limit=LIMIT, **common)
    w.save({"x": shape.hidden, "scores": shape.experts}, "output", shape.dtype)
