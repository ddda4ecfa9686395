# SPDX-License-Identifier: Apache-2.0
"""Diffusion models as PyTorch modules of usual sizes: a U-Net as that of Stable Diffusion 1.5, a VAE's decoder, blocks of a
diffusion transformer (DiT; adaLN-Zero) and of a joint one over text and image (SD3's MMDiT)."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from workload import Workload, normal


def attend(q, k, v, heads, causal=False):
    """[batch, tokens, channels] each."""
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=causal)
    return y.transpose(1, 2).flatten(2)


def time_embedding(steps, width):
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float32, device=steps.device) * (-math.log(1e4) / (width // 2)))
    angles = steps[:, None].float() * rates[None]
    return torch.cat([torch.cos(angles), torch.sin(angles)], 1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, time=None, eps=1e-5):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, c_in, eps), nn.Conv2d(c_in, c_out, 3, 1, 1)
        self.time = nn.Linear(time, c_out) if time else None
        self.norm2, self.conv2 = nn.GroupNorm(32, c_out, eps), nn.Conv2d(c_out, c_out, 3, 1, 1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t=None):
        y = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None:
            y = y + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class TokenBlock(nn.Module):
    """Self-attention, attention on the text, and a feed-forward layer with GEGLU."""

    def __init__(self, width, heads, text):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.q1, self.k1, self.v1 = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.q2 = nn.Linear(width, width, bias=False)
        self.k2, self.v2 = (nn.Linear(text, width, bias=False) for _ in range(2))
        self.out1, self.out2 = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, context):
        y = self.norm1(x)
        x = x + self.out1(attend(self.q1(y), self.k1(y), self.v1(y), self.heads))
        x = x + self.out2(attend(self.q2(self.norm2(x)), self.k2(context), self.v2(context), self.heads))
        value, gate = self.up(self.norm3(x)).chunk(2, -1)
        return x + self.down(value * F.gelu(gate))


class SpatialTransformer(nn.Module):
    def __init__(self, width, heads, text):
        super().__init__()
        self.norm = nn.GroupNorm(32, width, 1e-6)
        self.first, self.last = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.block = TokenBlock(width, heads, text)

    def forward(self, x, context):
        n, c, h, w = x.shape
        y = self.first(self.norm(x)).flatten(2).transpose(1, 2)
        y = self.block(y, context).transpose(1, 2).reshape(n, c, h, w)
        return x + self.last(y)


class UNet(nn.Module):
    """Levels of `width` times `factors`; attention on all but the last; `blocks` of each kind going down."""

    def __init__(self, width=320, factors=(1, 2, 4, 4), blocks=2, heads=8, text=768):
        super().__init__()
        self.width, time = width, 4 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, 1, 1)
        channels, skips = width, [width]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, factor in enumerate(factors):
            stage = nn.ModuleDict({"blocks": nn.ModuleList(), "attention": nn.ModuleList()})
            for _ in range(blocks):
                stage["blocks"].append(ResBlock(channels, factor * width, time))
                channels = factor * width
                if level + 1 < len(factors):
                    stage["attention"].append(SpatialTransformer(channels, heads, text))
                skips.append(channels)
            if level + 1 < len(factors):
                stage["down"] = nn.Conv2d(channels, channels, 3, 2, 1)
                skips.append(channels)
            self.down.append(stage)
        self.middle = nn.ModuleList([ResBlock(channels, channels, time), SpatialTransformer(channels, heads, text),
                                     ResBlock(channels, channels, time)])
        for level, factor in reversed(list(enumerate(factors))):
            stage = nn.ModuleDict({"blocks": nn.ModuleList(), "attention": nn.ModuleList()})
            for _ in range(blocks + 1):
                stage["blocks"].append(ResBlock(channels + skips.pop(), factor * width, time))
                channels = factor * width
                if level + 1 < len(factors):
                    stage["attention"].append(SpatialTransformer(channels, heads, text))
            if level:
                stage["up"] = nn.Conv2d(channels, channels, 3, 1, 1)
            self.up.append(stage)
        self.norm, self.last = nn.GroupNorm(32, width), nn.Conv2d(width, 4, 3, 1, 1)

    def forward(self, sample, timestep, context):
        t = self.time(time_embedding(timestep, self.width).to(sample.dtype))
        x = self.first(sample)
        skips = [x]
        for stage in self.down:
            for i, block in enumerate(stage["blocks"]):
                x = block(x, t)
                if len(stage["attention"]):
                    x = stage["attention"][i](x, context)
                skips.append(x)
            if "down" in stage:
                x = stage["down"](x)
                skips.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, t), context), t)
        for stage in self.up:
            for i, block in enumerate(stage["blocks"]):
                x = block(torch.cat([x, skips.pop()], 1), t)
                if len(stage["attention"]):
                    x = stage["attention"][i](x, context)
            if "up" in stage:
                x = stage["up"](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.norm(x)))


class PixelAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(32, width, 1e-6)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = self.out(attend(self.q(y), self.k(y), self.v(y), 1))
        return x + y.transpose(1, 2).reshape(n, c, h, w)


class VaeDecoder(nn.Module):
    def __init__(self, widths=(512, 512, 256, 128), blocks=3):
        super().__init__()
        c = widths[0]
        self.first = nn.Conv2d(4, c, 3, 1, 1)
        self.middle = nn.Sequential(ResBlock(c, c, eps=1e-6), PixelAttention(c), ResBlock(c, c, eps=1e-6))
        layers = []
        for level, width in enumerate(widths):
            for _ in range(blocks):
                layers.append(ResBlock(c, width, eps=1e-6))
                c = width
            if level + 1 < len(widths):
                layers += [nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(c, c, 3, 1, 1)]
        self.up = nn.Sequential(*layers)
        self.norm, self.last = nn.GroupNorm(32, c, 1e-6), nn.Conv2d(c, 3, 3, 1, 1)

    def forward(self, latents):
        return self.last(F.silu(self.norm(self.up(self.middle(self.first(latents))))))


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class DitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.LayerNorm(width, 1e-6, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.adapt = nn.Linear(width, 6 * width)

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adapt(F.silu(c)).chunk(6, 1)
        q, k, v = self.qkv(modulate(self.norm1(x), shift1, scale1)).chunk(3, -1)
        x = x + gate1[:, None] * self.out(attend(q, k, v, self.heads))
        y = self.down(F.gelu(self.up(modulate(self.norm2(x), shift2, scale2)), approximate="tanh"))
        return x + gate2[:, None] * y


class Dit(nn.Module):
    """`depth` blocks between patches of 2 × 2 and back. Heads of 72 as in DiT-XL."""

    def __init__(self, depth=8, width=1152, heads=16):
        super().__init__()
        self.width = width
        self.patch, self.time = nn.Conv2d(4, width, 2, 2), nn.Linear(256, width)
        self.blocks = nn.ModuleList(DitBlock(width, heads) for _ in range(depth))
        self.norm, self.last = nn.LayerNorm(width, 1e-6, elementwise_affine=False), nn.Linear(width, 16)
        self.adapt = nn.Linear(width, 2 * width)

    def forward(self, latents, timestep):
        c = self.time(time_embedding(timestep, 256).to(latents.dtype))
        x = self.patch(latents)
        n, _, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.adapt(F.silu(c)).chunk(2, 1)
        x = self.last(modulate(self.norm(x), shift, scale))
        return x.reshape(n, h, w, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(n, 4, 2 * h, 2 * w)


class JointBlock(nn.Module):
    """Text and image, each with weights of its own, in one attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.head = heads, width // heads
        for name in ("image", "text"):
            self.add_module(name, nn.ModuleDict({
                "norm1": nn.LayerNorm(width, 1e-6, elementwise_affine=False),
                "norm2": nn.LayerNorm(width, 1e-6, elementwise_affine=False),
                "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "up": nn.Linear(width, 4 * width),
                "down": nn.Linear(4 * width, width), "adapt": nn.Linear(width, 6 * width)}))
            for part in ("q", "k"):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.ones(self.head)))

    def rms(self, x, weight):
        # Not F.rms_norm: on a GPU it is one operator, which not every exporter of PyTorch knows.
        y = x.unflatten(-1, (self.heads, self.head))
        wide = y.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (wide.to(y.dtype) * weight).flatten(2)

    def forward(self, image, text, c):
        halves, parts = [], []
        for x, name in ((image, "image"), (text, "text")):
            m = getattr(self, name)
            chunks = m["adapt"](F.silu(c)).chunk(6, 1)
            q, k, v = m["qkv"](modulate(m["norm1"](x), chunks[0], chunks[1])).chunk(3, -1)
            parts.append((self.rms(q, getattr(self, f"{name}_q")), self.rms(k, getattr(self, f"{name}_k")), v))
            halves.append((x, m, chunks))
        y = attend(*(torch.cat(pair, 1) for pair in zip(*parts)), self.heads)
        results, count = [], image.shape[1]
        for (x, m, chunks), y in zip(halves, (y[:, :count], y[:, count:])):
            x = x + chunks[2][:, None] * m["out"](y)
            y = m["down"](F.gelu(m["up"](modulate(m["norm2"](x), chunks[3], chunks[4])), approximate="tanh"))
            results.append(x + chunks[5][:, None] * y)
        return results


class Joint(nn.Module):
    def __init__(self, depth=6, width=1536, heads=24):
        super().__init__()
        self.blocks = nn.ModuleList(JointBlock(width, heads) for _ in range(depth))

    def forward(self, image, text, condition):
        for block in self.blocks:
            image, text = block(image, text, condition)
        return image, text


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
    return Workload(lambda: Joint(depth, width), normal(image=(1, tokens, width), text=(1, text, width),
                                                                   condition=(1, width)),
                    half=True, outputs=("image_out", "text_out"), large=True)


WORKLOADS = {
    "unet_64": latents(UNet, 64, context=(77, 768), steps=True),
    "unet_128": latents(UNet, 128, context=(77, 768), steps=True),
    "vae_decoder_64": latents(VaeDecoder, 64, batch=1),
    "dit_128": latents(Dit, 128, batch=1, steps=True),
    "joint_4096": joint(),
}
