# SPDX-License-Identifier: Apache-2.0
"""Vision models as PyTorch modules: torchvision's and timm's classifiers, a vision transformer (also as DINOv2: a scale
behind each branch), a segmenter as SegFormer."""
import torch
import torch.nn.functional as F
from torch import nn

from diffusion_workloads import attend
from workload import on_images, settled


class VitBlock(nn.Module):
    def __init__(self, width, heads, scaled):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        # From 1e-5 on in training; here as large as after it.
        self.scales = nn.ParameterList(torch.rand(width) for _ in range(2)) if scaled else None

    def forward(self, x):
        first = self.out(attend(*self.qkv(self.norm1(x)).chunk(3, -1), self.heads))
        x = x + (first if self.scales is None else first * self.scales[0])
        second = self.down(F.gelu(self.up(self.norm2(x))))
        return x + (second if self.scales is None else second * self.scales[1])


class Vit(nn.Module):
    """Images of one size -> what the last norm gives for a class token and every patch; with `classes` logits of the
    class token alone."""

    def __init__(self, size, patch, width, depth, heads, classes=0, scaled=False):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(VitBlock(width, heads, scaled) for _ in range(depth))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, classes) if classes else None

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.norm(x) if self.head is None else self.head(self.norm(x)[:, 0])


class ReducedAttention(nn.Module):
    """Keys and values of an image that a strided convolution has made smaller."""

    def __init__(self, width, heads, ratio):
        super().__init__()
        self.heads, self.ratio = heads, ratio
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        if ratio > 1:
            self.shrink, self.norm = nn.Conv2d(width, width, ratio, ratio), nn.LayerNorm(width)

    def forward(self, x, height, width):
        seen = x
        if self.ratio > 1:
            image = x.transpose(1, 2).reshape(x.shape[0], -1, height, width)
            seen = self.norm(self.shrink(image).flatten(2).transpose(1, 2))
        return self.out(attend(self.q(x), *self.kv(seen).chunk(2, -1), self.heads))


class MixBlock(nn.Module):
    """Attention, then a feed-forward layer with a depthwise convolution inside."""

    def __init__(self, width, heads, ratio):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = ReducedAttention(width, heads, ratio)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.around = nn.Conv2d(4 * width, 4 * width, 3, 1, 1, groups=4 * width)

    def forward(self, x, height, width):
        x = x + self.attention(self.norm1(x), height, width)
        y = self.up(self.norm2(x))
        y = self.around(y.transpose(1, 2).reshape(y.shape[0], -1, height, width)).flatten(2).transpose(1, 2)
        return x + self.down(F.gelu(y))


class SegFormer(nn.Module):
    """Logits of a quarter of the image's size."""

    def __init__(self, widths=(32, 64, 160, 256), depths=(2, 2, 2, 2), heads=(1, 2, 5, 8), ratios=(8, 4, 2, 1),
                 inner=256, classes=150):
        super().__init__()
        self.patches, self.norms = nn.ModuleList(), nn.ModuleList()
        self.blocks, self.last_norms, c = nn.ModuleList(), nn.ModuleList(), 3
        for level, width in enumerate(widths):
            self.patches.append(nn.Conv2d(c, width, *((3, 2, 1) if level else (7, 4, 3))))
            self.norms.append(nn.LayerNorm(width))
            self.blocks.append(nn.ModuleList(MixBlock(width, heads[level], ratios[level])
                                             for _ in range(depths[level])))
            self.last_norms.append(nn.LayerNorm(width))
            c = width
        self.project = nn.ModuleList(nn.Linear(width, inner) for width in widths)
        self.fuse = nn.Sequential(nn.Conv2d(len(widths) * inner, inner, 1, bias=False), nn.BatchNorm2d(inner),
                                  nn.ReLU())
        self.classify = nn.Conv2d(inner, classes, 1)

    def forward(self, image):
        x, levels = image, []
        for i, patch in enumerate(self.patches):
            x = patch(x)
            n, _, h, w = x.shape
            tokens = self.norms[i](x.flatten(2).transpose(1, 2))
            for block in self.blocks[i]:
                tokens = block(tokens, h, w)
            tokens = self.last_norms[i](tokens)
            x = tokens.transpose(1, 2).reshape(n, -1, h, w)
            level = self.project[i](tokens).transpose(1, 2).reshape(n, -1, h, w)
            if i:
                level = F.interpolate(level, size=levels[0].shape[2:], mode="bilinear", align_corners=False)
            levels.append(level)
        return self.classify(self.fuse(torch.cat(levels[::-1], 1)))


class OnlyOut(nn.Module):
    """Of torchvision's segmenters the main head's logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


def timm_model(name):
    def make():
        import timm
        return timm.create_model(name, pretrained=False)
    return make


def torchvision_model(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None)
    return settled(make)


def deeplab():
    import torchvision
    return OnlyOut(torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None))


CONVOLUTIONAL = dict(channels_last=True)

WORKLOADS = {
    "vit_b16_b1": on_images(timm_model("vit_base_patch16_224")),
    "vit_b16_b8": on_images(timm_model("vit_base_patch16_224"), 8),
    "vit_l14_b1": on_images(lambda: Vit(224, 14, 1024, 24, 16, 1000), half=True, large=True),
    "vit_l14_b8": on_images(lambda: Vit(224, 14, 1024, 24, 16, 1000), 8, half=True, large=True),
    "dinov2_b14_b1": on_images(lambda: Vit(518, 14, 768, 12, 12, scaled=True), size=518, half=True, large=True),
    "resnet50_b1": on_images(timm_model("resnet50"), **CONVOLUTIONAL),
    "resnet50_b8": on_images(timm_model("resnet50"), 8, **CONVOLUTIONAL),
    "resnet50_b64": on_images(timm_model("resnet50"), 64, **CONVOLUTIONAL),
    "resnet50_b256": on_images(timm_model("resnet50"), 256, large=True, **CONVOLUTIONAL),
    "convnext_t_b1": on_images(timm_model("convnext_tiny"), **CONVOLUTIONAL),
    "convnext_b_b8": on_images(torchvision_model("convnext_base"), 8, half=True, large=True, **CONVOLUTIONAL),
    "swin_t_b1": on_images(torchvision_model("swin_t")),
    "swin_t_b8": on_images(torchvision_model("swin_t"), 8),
    "maxvit_t_b1": on_images(torchvision_model("maxvit_t"), **CONVOLUTIONAL),
    "shufflenet_v2_b1": on_images(torchvision_model("shufflenet_v2_x1_0"), **CONVOLUTIONAL),
    "efficientnet_b0_b1": on_images(torchvision_model("efficientnet_b0"), **CONVOLUTIONAL),
    "mobilenet_v3_l_b8": on_images(torchvision_model("mobilenet_v3_large"), 8, **CONVOLUTIONAL),
    "densenet121_b1": on_images(torchvision_model("densenet121"), **CONVOLUTIONAL),
    "deeplab_r50_520": on_images(settled(deeplab), size=520, large=True, **CONVOLUTIONAL),
    "segformer_512": on_images(settled(SegFormer), size=512, **CONVOLUTIONAL),
}
