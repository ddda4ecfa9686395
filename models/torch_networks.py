# SPDX-License-Identifier: Apache-2.0
"""Networks to export: tiny and full configurations of what people deploy."""
from dataclasses import dataclass, field
from typing import Callable

import torch
from torch import nn


@dataclass
class Network:
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict]
    dynamic: dict = field(default_factory=dict)  # input or output -> {dimension: symbol}
    outputs: list = None
    positional: int = 0  # inputs behind these are the module's *args

    def dynamic_shapes(self, inputs):
        """As torch.export wants it: one entry for each input."""
        symbols = {}

        def dim(name):
            return symbols.setdefault(name, torch.export.Dim.DYNAMIC)

        rows = [{d: dim(s) for d, s in self.dynamic.get(name, {}).items()} or None for name in inputs]
        return (*rows[:self.positional], tuple(rows[self.positional:])) if self.positional else tuple(rows)


class Only(nn.Module):
    """A transformers model whose output is one named tensor."""

    def __init__(self, model, output):
        super().__init__()
        self.model, self.output = model, output

    def forward(self, x):
        return getattr(self.model(x), self.output)


class Masked(Only):
    def forward(self, input_ids, attention_mask):
        return getattr(self.model(input_ids=input_ids, attention_mask=attention_mask), self.output)


class CachedDecoder(nn.Module):
    """A causal language model whose cache goes in and comes out as tensors."""

    def __init__(self, model, layers):
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, input_ids, *past):
        from transformers import DynamicCache
        cache = DynamicCache()
        for i in range(self.layers):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        present = []
        for i in range(self.layers):
            if hasattr(cache, "layers"):
                present += [cache.layers[i].keys, cache.layers[i].values]
            else:
                present += [cache.key_cache[i], cache.value_cache[i]]
        return (out.logits, *present)


class ConvUnit(nn.Sequential):
    def __init__(self, c_in, c_out, kernel=3, stride=1):
        super().__init__(nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(c_out),
                         nn.SiLU())


class Detector(nn.Module):
    """YOLO-style: strided units, pyramid pooling, an upsampling neck, a head decoded on a grid."""

    def __init__(self, width, classes):
        super().__init__()
        w = width
        self.stem, self.down1 = ConvUnit(3, w, 3, 2), ConvUnit(w, 2 * w, 3, 2)
        self.down2, self.down3 = ConvUnit(2 * w, 4 * w, 3, 2), ConvUnit(4 * w, 8 * w, 3, 2)
        self.squeeze, self.pool = ConvUnit(8 * w, 4 * w, 1), nn.MaxPool2d(5, 1, 2)
        self.spread = ConvUnit(16 * w, 4 * w, 1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = ConvUnit(8 * w, 4 * w)
        self.heads = nn.ModuleList([nn.Conv2d(4 * w, 5 + classes, 1) for _ in range(2)])

    def decode(self, y, stride):
        n, c, h, w = y.shape
        rows, columns = torch.arange(h, dtype=y.dtype), torch.arange(w, dtype=y.dtype)
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], 0).reshape(1, 2, h, w)
        centre = (torch.sigmoid(y[:, :2]) * 2 - 0.5 + grid) * stride
        size = (torch.sigmoid(y[:, 2:4]) * 2) ** 2 * stride * 4
        return torch.cat([centre, size, torch.sigmoid(y[:, 4:])], 1).flatten(2).transpose(1, 2)

    def forward(self, image):
        fine = self.down2(self.down1(self.stem(image)))
        x = self.squeeze(self.down3(fine))
        pools = [x]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        coarse = self.spread(torch.cat(pools, 1))
        merged = self.merge(torch.cat([self.up(coarse), fine], 1))
        return torch.cat([self.decode(self.heads[0](merged), 8), self.decode(self.heads[1](coarse), 16)], 1)


class ResidualUnit(nn.Module):
    def __init__(self, c_in, c_out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, c_in), nn.Conv2d(c_in, c_out, 3, 1, 1)
        self.time = nn.Linear(time, c_out)
        self.norm2, self.conv2 = nn.GroupNorm(4, c_out), nn.Conv2d(c_out, c_out, 3, 1, 1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(nn.functional.silu(t))[:, :, None, None]
        return self.conv2(nn.functional.silu(self.norm2(y))) + self.skip(x)


class PixelAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(4, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(n, c, h, w))


class UNet(nn.Module):
    """A diffusion U-Net of two levels with a sinusoidal time step."""

    def __init__(self, width, heads):
        super().__init__()
        w, t = width, 4 * width
        self.width = w
        self.time = nn.Sequential(nn.Linear(w, t), nn.SiLU(), nn.Linear(t, t))
        self.first = nn.Conv2d(4, w, 3, 1, 1)
        self.down1, self.pool = ResidualUnit(w, w, t), nn.Conv2d(w, w, 3, 2, 1)
        self.down2, self.attend = ResidualUnit(w, 2 * w, t), PixelAttention(2 * w, heads)
        self.up1, self.last = ResidualUnit(3 * w, w, t), nn.Conv2d(w, 4, 3, 1, 1)

    def forward(self, sample, timestep):
        half = self.width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32) * (-9.21 / half))
        angles = timestep[:, None].float() * rates[None]
        t = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], 1))
        x = self.down1(self.first(sample), t)
        y = self.attend(self.down2(self.pool(x), t))
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(nn.functional.silu(self.up1(torch.cat([x, y], 1), t)))


def image(size, channels=3, name="image", batch=2):
    return lambda: {name: torch.randn(batch, channels, size, size)}


def ids(vocabulary, length, batch=2):
    return torch.randint(0, vocabulary, (batch, length))


BATCH = {0: "batch"}
TEXT = {0: "batch", 1: "seq"}


def vision(full):
    import timm
    import transformers as t

    def timm_model(name, tiny):
        return lambda: timm.create_model(name, **({} if full else dict(num_classes=10, **tiny)))

    def mobilenet():
        from timm.models.mobilenetv3 import _gen_mobilenet_v3
        if full:
            return timm.create_model("mobilenetv3_large_100")
        return _gen_mobilenet_v3("mobilenetv3_small_050", 0.125, num_classes=10)

    def efficientnet():
        from timm.models.efficientnet import _gen_efficientnet
        if full:
            return timm.create_model("efficientnet_b0")
        return _gen_efficientnet("efficientnet_b0", channel_multiplier=0.125, depth_multiplier=0.3, num_classes=10)

    def swin():
        config = t.SwinConfig() if full else t.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                                                         num_heads=[1, 2], window_size=4, num_labels=10)
        return Only(t.SwinForImageClassification(config), "logits")

    def vit():
        config = t.ViTConfig() if full else t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                       intermediate_size=64, image_size=32, patch_size=8,
                                                       num_labels=10)
        return Only(t.ViTForImageClassification(config), "logits")

    size = 224 if full else 32
    dynamic = {"image": BATCH, "output": BATCH}
    rows = {
        "vit": vit,
        "swin": swin,
        "convnext": timm_model("convnext_tiny" if full else "convnext_atto", dict(depths=(1, 1, 1, 1),
                                                                                 dims=(8, 16, 24, 32))),
        "efficientnet": efficientnet,
        "mobilenetv3": mobilenet,
        "resnet": timm_model("resnet50" if full else "resnet10t", dict(channels=(8, 16, 24, 32), stem_width=4)),
        "detector": lambda: Detector(32 if full else 4, 80 if full else 3),
    }
    sizes = {"detector": 640 if full else 64, "convnext": 224 if full else 64, "efficientnet": 224 if full else 64,
             "mobilenetv3": 224 if full else 64, "resnet": 224 if full else 64}
    return {name: Network(make, image(sizes.get(name, size)), dynamic) for name, make in rows.items()}


def text(full):
    import transformers as t
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64)

    def masked():
        mask = torch.ones(2, 12, dtype=torch.int64)
        mask[1, 9:] = 0
        return {"input_ids": ids(64, 12), "attention_mask": mask}

    def bert():
        return Masked(t.BertModel(t.BertConfig() if full else t.BertConfig(**small)), "last_hidden_state")

    def t5():
        config = t.T5Config(d_model=512) if full else t.T5Config(d_model=32, d_kv=16, d_ff=64, num_layers=2,
                                                                 num_heads=2, vocab_size=64)
        return Masked(t.T5EncoderModel(config), "last_hidden_state")

    def clip_text():
        config = t.CLIPTextConfig() if full else t.CLIPTextConfig(max_position_embeddings=32, eos_token_id=63,
                                                                  bos_token_id=0, **small)
        return Masked(t.CLIPTextModel(config), "last_hidden_state")

    def clip_image():
        config = t.CLIPVisionConfig() if full else t.CLIPVisionConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32,
            patch_size=8)
        return Only(t.CLIPVisionModel(config), "pooler_output")

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            config = t.WhisperConfig() if full else t.WhisperConfig(
                d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=16,
                max_source_positions=24, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=64,
                vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
            self.encoder = t.WhisperModel(config).encoder

        def forward(self, features):
            return self.encoder(features).last_hidden_state

    mels, frames = (80, 3000) if full else (16, 48)
    dynamic = {"input_ids": TEXT, "attention_mask": TEXT, "output": TEXT}
    return {
        "bert": Network(bert, masked, dynamic),
        "t5_encoder": Network(t5, masked, dynamic),
        "clip_text": Network(clip_text, masked, dynamic),
        "clip_image": Network(clip_image, image(224 if full else 32), {"image": BATCH, "output": BATCH}),
        "whisper_encoder": Network(Encoder, lambda: {"features": torch.randn(2, mels, frames)},
                                   {"features": BATCH, "output": BATCH}),
    }


def decoders(full):
    import transformers as t

    def gpt2():
        config = t.GPT2Config() if full else t.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64,
                                                         n_positions=64, bos_token_id=0, eos_token_id=0)
        return CachedDecoder(t.GPT2LMHeadModel(config), config.n_layer)

    def llama():
        config = t.LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                               num_attention_heads=32, num_key_value_heads=8) if full else t.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=64, max_position_embeddings=64, bos_token_id=0, eos_token_id=0)
        return CachedDecoder(t.LlamaForCausalLM(config), config.num_hidden_layers)

    def network(make, layers, heads, width, vocabulary):
        names = [f"{kind}_{which}_{i}" for i in range(layers) for kind, which in (("past", "key"), ("past", "value"))]
        present = [n.replace("past", "present") for n in names]

        def inputs():
            result = {"input_ids": ids(vocabulary, 3)}
            result.update({n: torch.randn(2, heads, 5, width) for n in names})
            return result

        cache = {0: "batch", 2: "past"}
        dynamic = {"input_ids": TEXT, "logits": TEXT, **{n: cache for n in names},
                   **{n: {0: "batch", 2: "total"} for n in present}}
        return Network(make, inputs, dynamic, ["logits", *present], positional=1)

    return {
        "gpt2": network(gpt2, 12 if full else 2, 12 if full else 2, 64 if full else 16, 64),
        "llama": network(llama, 16 if full else 2, 8 if full else 2, 64 if full else 8, 64),
    }


def networks(full):
    result = {**vision(full), **text(full), **decoders(full)}
    width, size = (64, 64) if full else (8, 16)
    result["unet"] = Network(lambda: UNet(width, 4 if full else 2),
                             lambda: {"sample": torch.randn(2, 4, size, size),
                                      "timestep": torch.tensor([10, 500])},
                             {"sample": BATCH, "timestep": BATCH, "output": BATCH})
    return result
