# SPDX-License-Identifier: Apache-2.0
"""The modules of the benchmarks (tests/perf/*_workloads.py) in tiny configurations, in the export zoo."""
import sys
from collections import OrderedDict
from pathlib import Path

from torch import nn

from zoo_rows import Row, ids, normal

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "perf"))
import detection_workloads as detection  # noqa: E402
import diffusion_workloads as diffusion  # noqa: E402
import text_workloads as text  # noqa: E402
import vision_workloads as vision  # noqa: E402

ANY_SIZE = {"image": normal("batch", 3, "height", "width")}
SQUARE = {"image": normal("batch", 3, 64, 64)}
LATENTS = {"latents": normal("batch", 4, "height", "width")}
LATENT_SIZES = dict(height=(8, 12, 16, 16), width=(8, 16, 4, 16))


def deeplab():
    """torchvision's head behind two convolutions."""
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3
    layers = OrderedDict(first=detection.Conv(3, 8, 3, 2), last=detection.Conv(8, 16, 3, 2))
    body = IntermediateLayerGetter(nn.Sequential(layers), {"last": "out"})
    return vision.OnlyOut(DeepLabV3(body, DeepLabHead(16, 5)))


def swin(version):
    from torchvision.models import swin_transformer as swins
    block, merging = {1: (swins.SwinTransformerBlock, swins.PatchMerging),
                      2: (swins.SwinTransformerBlockV2, swins.PatchMergingV2)}[version]
    return swins.SwinTransformer([2, 2], 16, [2, 2], [1, 2], [4, 4], num_classes=10, block=block,
                                 downsample_layer=merging)


def efficientnet():
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig
    stages = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(6, 5, 2, 8, 16, 2, 1.0, 1.0)]
    return EfficientNet(stages, 0.0, num_classes=10, last_channel=32)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=10)


def maxvit():
    from torchvision.models import MaxVit
    return MaxVit(input_size=(64, 64), stem_channels=8, partition_size=4, block_channels=[8, 16], block_layers=[1, 1],
                  head_dim=4, stochastic_depth_prob=0.0, num_classes=10)


def rows():
    tokens = dict(input_ids=ids("batch", "seq"))
    found = {
        "unet_text": Row(lambda: diffusion.UNet(32, (1, 2), 1, 2, 24), {
            **LATENTS, "timestep": ids("batch", high=900), "context": normal("batch", "seq", 24)}, sizes=LATENT_SIZES),
        "vae_decoder": Row(lambda: diffusion.VaeDecoder((64, 32), 1), LATENTS, sizes=LATENT_SIZES),
        "dit": Row(lambda: diffusion.Dit(2, 32, 2), {**LATENTS, "timestep": ids("batch", high=900)},
                   sizes=LATENT_SIZES),
        "joint": Row(lambda: diffusion.Joint(2, 32, 2), {
            "image": normal("batch", "seq", 32), "text": normal("batch", "target", 32),
            "condition": normal("batch", 32)}),
        "yolo": Row(lambda: detection.Yolo(8, 1, 5), ANY_SIZE),
        "rt_detr_own": Row(lambda: detection.RtDetr(64, 32, 2, 32, 2, 5, 4, 8, (1, 1, 1, 1)), SQUARE),
        "gpt2_own": Row(lambda: text.Gpt2(32, 2, 2, 64, 32), tokens, sizes=dict(seq=(12, 7, 20, 32))),
        "speech_encoder": Row(lambda: text.SpeechEncoder(16, 48, 32, 2, 2), {"features": normal("batch", 16, 48)}),
        "vit_scaled": Row(lambda: vision.Vit(64, 16, 32, 2, 2, scaled=True), SQUARE),
        "segformer_own": Row(lambda: vision.SegFormer((8, 16, 16, 32), (1, 1, 1, 1), (1, 2, 2, 4), inner=16, classes=5),
                             ANY_SIZE),
        "deeplab": Row(deeplab, ANY_SIZE),
        "swin_tv": Row(lambda: swin(1), SQUARE),
        "swin_tv_any": Row(lambda: swin(1), ANY_SIZE),
        "swinv2_tv": Row(lambda: swin(2), SQUARE),
        "efficientnet_tv": Row(efficientnet, ANY_SIZE),
        "convnext_tv": Row(convnext, ANY_SIZE),
        "maxvit_tv": Row(maxvit, SQUARE),
    }
    for row in found.values():
        row.positional = True
    return found
