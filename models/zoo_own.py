# SPDX-License-Identifier: Apache-2.0
"""Networks of our own in the export zoo, where a library's smallest is large: diffusion, super-resolution, detection."""
import torch
from torch import nn
from torch.nn import functional

from torch_networks import ConvUnit, Detector, UNet
from zoo_rows import Row, ids, normal


class DenseBlock(nn.Module):
    def __init__(self, width, growth):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(width + i * growth, growth if i < 3 else width, 3, 1, 1)
                                    for i in range(4)])

    def forward(self, x):
        parts = [x]
        for conv in self.convs[:-1]:
            parts.append(functional.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
        return x + 0.2 * self.convs[-1](torch.cat(parts, 1))


class SuperResolution(nn.Module):
    """In the manner of ESRGAN: dense residual blocks, then pixels shuffled to twice the size."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.blocks = nn.Sequential(DenseBlock(width, 4), DenseBlock(width, 4))
        self.up, self.last = nn.Conv2d(width, 4 * width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, image):
        x = self.first(image)
        x = functional.pixel_shuffle(self.up(x + self.blocks(x)), 2)
        wide = functional.interpolate(image, scale_factor=2.0, mode="bilinear", align_corners=False)
        return wide + self.last(functional.leaky_relu(x, 0.2))


class Pyramid(nn.Module):
    """In the manner of EfficientDet: a weighted two-way pyramid of features, boxes and classes of every anchor."""

    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Sequential(ConvUnit(3, width, 3, 2), ConvUnit(width, width, 3, 2))
        self.levels = nn.ModuleList([ConvUnit(width, width, 3, 2) for _ in range(3)])
        self.weights = nn.Parameter(torch.rand(4, 2))
        self.merges = nn.ModuleList([ConvUnit(width, width) for _ in range(4)])
        self.boxes, self.classes = nn.Conv2d(width, 3 * 4, 3, 1, 1), nn.Conv2d(width, 3 * classes, 3, 1, 1)

    def merge(self, i, a, b):
        w = functional.relu(self.weights[i])
        w = w / (w.sum() + 1e-4)
        return self.merges[i](w[0] * a + w[1] * b)

    def forward(self, image):
        features = [self.stem(image)]
        for level in self.levels:
            features.append(level(features[-1]))
        fine, middle, coarse = features[1:]
        size = lambda x: x.shape[2:]  # noqa: E731
        middle = self.merge(0, middle, functional.interpolate(coarse, size=size(middle), mode="nearest"))
        fine = self.merge(1, fine, functional.interpolate(middle, size=size(fine), mode="nearest"))
        middle = self.merge(2, middle, functional.adaptive_max_pool2d(fine, 1) + functional.max_pool2d(fine, 2))
        coarse = self.merge(3, coarse, functional.max_pool2d(middle, 2))
        found = [(self.boxes(x), self.classes(x)) for x in (fine, middle, coarse)]
        flat = lambda y, n: y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, n)  # noqa: E731
        boxes = torch.cat([flat(b, 4) for b, _ in found], 1)
        scores = torch.cat([flat(c, self.classes.out_channels // 3) for _, c in found], 1).sigmoid()
        return {"boxes": boxes, "scores": scores}


class Recurrent(nn.Module):
    """A bidirectional LSTM and a GRU over words, classified by the last state."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 16)
        self.lstm = nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True)
        self.gru, self.last = nn.GRU(32, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, input_ids):
        x, _ = self.lstm(self.table(input_ids))
        return self.last(self.gru(x)[0][:, -1])


class Crnn(nn.Module):
    """A text recogniser: convolutions, columns as a sequence, a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(ConvUnit(1, 8), nn.MaxPool2d(2), ConvUnit(8, 16), nn.MaxPool2d((2, 1)))
        self.columns, self.last = nn.LSTM(16 * 8, 16, batch_first=True, bidirectional=True), nn.Linear(32, 20)

    def forward(self, image):
        x = self.convs(image)
        x = x.permute(0, 3, 1, 2).flatten(2)
        return self.last(self.columns(x)[0]).log_softmax(-1)


class Segmenter(nn.Module):
    """DeepLab-style: dilated convolutions and pooling of the whole image, resized to the input."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvUnit(3, 8, 3, 2), ConvUnit(8, 16, 3, 2))
        self.rates = nn.ModuleList([nn.Conv2d(16, 8, 3, 1, r, dilation=r) for r in (1, 2, 4)])
        self.whole, self.last = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 5, 1)

    def forward(self, image):
        x = self.stem(image)
        parts = [rate(x) for rate in self.rates]
        pooled = self.whole(functional.adaptive_avg_pool2d(x, 1))
        parts.append(functional.interpolate(pooled, size=x.shape[2:], mode="bilinear", align_corners=False))
        return functional.interpolate(self.last(torch.cat(parts, 1)), size=image.shape[2:], mode="bilinear",
                                      align_corners=True)


class StyleTransfer(nn.Module):
    """Reflected padding, instance norms and transposed convolutions."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True),
                                  nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1),
                                nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.ReflectionPad2d(4),
                                nn.Conv2d(8, 3, 9))

    def forward(self, image):
        return torch.tanh(self.up(self.down(image)))


class Transformer(nn.Module):
    """torch's own encoder-decoder with a causal mask."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 32)
        self.body = nn.Transformer(32, 2, 1, 1, 64, 0.0, batch_first=True)
        self.last = nn.Linear(32, 64)

    def forward(self, source, target):
        n = target.shape[1]
        causal = torch.full((n, n), float("-inf")).triu(1)
        return self.last(self.body(self.table(source), self.table(target), tgt_mask=causal))


def rows():
    any_size = {"image": normal("batch", 3, "height", "width")}
    own = dict(positional=True)
    return {
        "unet": Row(lambda: UNet(8, 2), {"sample": normal("batch", 4, "height", "width"),
                                         "timestep": ids("batch", high=900)},
                    sizes=dict(height=(16, 24, 32), width=(16, 32, 8)), **own),
        "super_resolution": Row(lambda: SuperResolution(8), any_size, sizes=dict(height=(16, 24, 31),
                                                                                 width=(16, 17, 40)), **own),
        "detector": Row(lambda: Detector(4, 3), any_size, quantize=True, **own),
        "pyramid_detector": Row(lambda: Pyramid(8, 3), any_size, **own),
        "recurrent": Row(Recurrent, {"input_ids": ids("batch", "seq")}, **own),
        "crnn": Row(Crnn, {"image": normal("batch", 1, 32, "width")}, **own),
        "segmenter": Row(Segmenter, any_size, **own),
        "style_transfer": Row(StyleTransfer, any_size, **own),
        "transformer": Row(Transformer, {"source": ids("batch", "seq"), "target": ids("batch", "target")}, **own),
    }
