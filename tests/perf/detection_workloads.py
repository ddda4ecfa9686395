# SPDX-License-Identifier: Apache-2.0
"""Detectors as PyTorch modules: one as YOLOv8 (decoded boxes, no suppression), one as RT-DETR (deformable attention,
queries selected by TopK)."""
import torch
import torch.nn.functional as F
from torch import nn

from diffusion_workloads import attend
from workload import on_images, settled


class Conv(nn.Sequential):
    """Convolution, batch norm and an activation."""

    def __init__(self, c_in, c_out, kernel=1, stride=1, act=nn.SiLU):
        super().__init__(nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(c_out), act())


class Bottleneck(nn.Module):
    def __init__(self, width, shortcut):
        super().__init__()
        self.first, self.second, self.shortcut = Conv(width, width, 3), Conv(width, width, 3), shortcut

    def forward(self, x):
        y = self.second(self.first(x))
        return x + y if self.shortcut else y


class C2f(nn.Module):
    """Bottlenecks on half of the channels; all that they give is concatenated."""

    def __init__(self, c_in, c_out, count, shortcut=False):
        super().__init__()
        self.half = c_out // 2
        self.first, self.last = Conv(c_in, c_out), Conv((2 + count) * self.half, c_out)
        self.blocks = nn.ModuleList(Bottleneck(self.half, shortcut) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Sppf(nn.Module):
    """Max poolings of one size, one behind the other, concatenated."""

    def __init__(self, width):
        super().__init__()
        self.first, self.pool, self.last = Conv(width, width // 2), nn.MaxPool2d(5, 1, 2), Conv(2 * width, width)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


def upsampled(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def centres(height, width, like):
    """x and y of the cells of a grid, in cells: [height * width] each."""
    y = torch.arange(height, dtype=like.dtype, device=like.device) + 0.5
    x = torch.arange(width, dtype=like.dtype, device=like.device) + 0.5
    y, x = torch.meshgrid(y, x, indexing="ij")
    return x.reshape(-1), y.reshape(-1)


class YoloHead(nn.Module):
    """For each level a branch of distances to a box's sides, each the mean of a distribution over `bins` (DFL), and one
    of scores."""

    def __init__(self, widths, classes, bins=16):
        super().__init__()
        self.bins = bins
        box, score = max(widths[0] // 4, 4 * bins), max(widths[0], min(classes, 100))

        def branch(c, inner, outputs):
            return nn.Sequential(Conv(c, inner, 3), Conv(inner, inner, 3), nn.Conv2d(inner, outputs, 1))
        self.boxes = nn.ModuleList(branch(c, box, 4 * bins) for c in widths)
        self.scores = nn.ModuleList(branch(c, score, classes) for c in widths)

    def forward(self, levels):
        boxes, scores = [], []
        for i, x in enumerate(levels):
            n, _, h, w = x.shape
            stride = 8 << i
            # bins before places: the softmax is over dimension 2
            distances = self.boxes[i](x).reshape(n, 4, self.bins, h * w).softmax(2)
            steps = torch.arange(self.bins, dtype=x.dtype, device=x.device)[:, None]
            left, top, right, bottom = (distances * steps).sum(2).unbind(1)
            cx, cy = centres(h, w, x)
            sides = (cx - left, cy - top, cx + right, cy + bottom)
            boxes.append(torch.stack(sides, 1) * stride)
            scores.append(self.scores[i](x).flatten(2).sigmoid())
        return torch.cat(boxes, 2), torch.cat(scores, 2)


class Yolo(nn.Module):
    """Images whose sides are multiples of 32 -> boxes [batch, 4, places], scores [batch, classes, places]."""

    def __init__(self, width=32, depth=1, classes=80):
        super().__init__()
        w2, w4, w8, w16 = (width * f for f in (2, 4, 8, 16))
        self.stem = nn.Sequential(Conv(3, width, 3, 2), Conv(width, w2, 3, 2), C2f(w2, w2, depth, True))
        self.fine = nn.Sequential(Conv(w2, w4, 3, 2), C2f(w4, w4, 2 * depth, True))
        self.middle = nn.Sequential(Conv(w4, w8, 3, 2), C2f(w8, w8, 2 * depth, True))
        self.coarse = nn.Sequential(Conv(w8, w16, 3, 2), C2f(w16, w16, depth, True), Sppf(w16))
        self.up1, self.up2 = C2f(w16 + w8, w8, depth), C2f(w8 + w4, w4, depth)
        self.shrink1, self.down1 = Conv(w4, w4, 3, 2), C2f(w4 + w8, w8, depth)
        self.shrink2, self.down2 = Conv(w8, w8, 3, 2), C2f(w8 + w16, w16, depth)
        self.head = YoloHead((w4, w8, w16), classes)

    def forward(self, image):
        fine = self.fine(self.stem(image))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        middle = self.up1(torch.cat([upsampled(coarse), middle], 1))
        fine = self.up2(torch.cat([upsampled(middle), fine], 1))
        middle = self.down1(torch.cat([self.shrink1(fine), middle], 1))
        coarse = self.down2(torch.cat([self.shrink2(middle), coarse], 1))
        return self.head((fine, middle, coarse))


class ResNetBlock(nn.Module):
    def __init__(self, c_in, inner, stride):
        super().__init__()
        self.body = nn.Sequential(Conv(c_in, inner, act=nn.ReLU), Conv(inner, inner, 3, stride, nn.ReLU),
                                  Conv(inner, 4 * inner, act=nn.Identity))
        # As in trained networks a block changes its input a little. Else rounding errors grow with each.
        nn.init.constant_(self.body[-1][1].weight, 0.3)
        if stride > 1:  # ResNet-vd: pooled, not skipped, places
            self.skip = nn.Sequential(nn.AvgPool2d(2, 2), Conv(c_in, 4 * inner, act=nn.Identity))
        else:
            self.skip = Conv(c_in, 4 * inner, act=nn.Identity) if c_in != 4 * inner else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Backbone(nn.Module):
    """ResNet-vd; gives the last three levels."""

    def __init__(self, width, blocks):
        super().__init__()
        self.stem = nn.Sequential(Conv(3, width // 2, 3, 2, nn.ReLU), Conv(width // 2, width // 2, 3, 1, nn.ReLU),
                                  Conv(width // 2, width, 3, 1, nn.ReLU), nn.MaxPool2d(3, 2, 1))
        stages, c = [], width
        for level, count in enumerate(blocks):
            inner, stage = width << level, []
            for i in range(count):
                stage.append(ResNetBlock(c, inner, 2 if level and not i else 1))
                c = 4 * inner
            stages.append(nn.Sequential(*stage))
        self.stages = nn.ModuleList(stages)

    def forward(self, x):
        x, levels = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        return levels[1:]


class RepBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.three, self.one = Conv(width, width, 3, act=nn.Identity), Conv(width, width, act=nn.Identity)

    def forward(self, x):
        return F.silu(self.three(x) + self.one(x))


class CspRep(nn.Module):
    def __init__(self, c_in, c_out, count=3):
        super().__init__()
        self.first, self.second = Conv(c_in, c_out), Conv(c_in, c_out)
        self.blocks = nn.Sequential(*(RepBlock(c_out) for _ in range(count)))

    def forward(self, x):
        return self.blocks(self.first(x)) + self.second(x)


class SelfAttention(nn.Module):
    """Queries and keys see positions, values do not."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, positions):
        y = x + positions
        return self.out(attend(self.q(y), self.k(y), self.v(x), self.heads))


def sine_positions(size, width):
    """[size * size, width]: sines and cosines of columns and rows."""
    rates = 1e4 ** -(torch.arange(width // 4) / (width // 4))
    x, y = (torch.outer(p - 0.5, rates) for p in centres(size, size, rates))
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)


class HybridEncoder(nn.Module):
    """Attention on the coarsest level, then a two-way pyramid."""

    def __init__(self, widths, width, heads, inner, size):
        super().__init__()
        self.project = nn.ModuleList(Conv(c, width, act=nn.Identity) for c in widths)
        self.attention, self.norm1 = SelfAttention(width, heads), nn.LayerNorm(width)
        self.up, self.down, self.norm2 = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)
        self.register_buffer("positions", sine_positions(size // 32, width))
        self.lateral = nn.ModuleList(Conv(width, width) for _ in range(2))
        self.merge = nn.ModuleList(CspRep(2 * width, width) for _ in range(4))
        self.shrink = nn.ModuleList(Conv(width, width, 3, 2) for _ in range(2))

    def forward(self, levels):
        fine, middle, coarse = (project(x) for project, x in zip(self.project, levels))
        n, c, h, w = coarse.shape
        x = coarse.flatten(2).transpose(1, 2)
        x = self.norm1(x + self.attention(x, self.positions))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        coarse = self.lateral[0](x.transpose(1, 2).reshape(n, c, h, w))
        middle = self.lateral[1](self.merge[0](torch.cat([upsampled(coarse), middle], 1)))
        fine = self.merge[1](torch.cat([upsampled(middle), fine], 1))
        middle = self.merge[2](torch.cat([self.shrink[0](fine), middle], 1))
        coarse = self.merge[3](torch.cat([self.shrink[1](middle), coarse], 1))
        return fine, middle, coarse


class DeformableAttention(nn.Module):
    """Each query reads `points` places of each level around its box, for each head."""

    def __init__(self, width, heads, levels=3, points=4):
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        count = heads * levels * points
        self.offsets, self.weights = nn.Linear(width, 2 * count), nn.Linear(width, count)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, boxes, memory, sizes):
        n, queries, width = x.shape
        shape = n, queries, self.heads, self.levels, self.points
        weights = self.weights(x).reshape(*shape[:3], -1).softmax(-1)
        spread = self.offsets(x).reshape(*shape, 2) * (0.5 / self.points)
        boxes = boxes[:, :, None, None, None]
        places = 2 * (boxes[..., :2] + spread * boxes[..., 2:]) - 1
        values = self.value(memory).reshape(n, -1, self.heads, width // self.heads)
        sampled, first = [], 0
        for i, (h, w) in enumerate(sizes):
            level = values[:, first:first + h * w].permute(0, 2, 3, 1).reshape(n * self.heads, -1, h, w)
            grid = places[:, :, :, i].transpose(1, 2).reshape(n * self.heads, queries, self.points, 2)
            sampled.append(F.grid_sample(level, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
            first += h * w
        weights = weights.transpose(1, 2).reshape(n * self.heads, 1, queries, -1)
        found = (torch.cat(sampled, -1) * weights).sum(-1)
        return self.out(found.reshape(n, width, queries).transpose(1, 2))


class DetrLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.own, self.norm1 = SelfAttention(width, heads), nn.LayerNorm(width)
        self.cross, self.norm2 = DeformableAttention(width, heads), nn.LayerNorm(width)
        self.up, self.down, self.norm3 = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def forward(self, x, positions, boxes, memory, sizes):
        x = self.norm1(x + self.own(x, positions))
        x = self.norm2(x + self.cross(x + positions, boxes, memory, sizes))
        return self.norm3(x + self.down(F.relu(self.up(x))))


def perceptron(*widths):
    layers = []
    for c_in, c_out in zip(widths, widths[1:]):
        layers += [nn.Linear(c_in, c_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def anchors(size):
    """Logits of a box at every place of the three levels: [places, 4]."""
    boxes = []
    for level, stride in enumerate((8, 16, 32)):
        count = size // stride
        x, y = (p / count for p in centres(count, count, torch.zeros(1)))
        side = torch.full_like(x, 0.05 * 2 ** level)
        boxes.append(torch.stack([x, y, side, side], 1))
    return torch.logit(torch.cat(boxes))


def spread_apart(count):
    """Numbers that are added to the scores of places and decide which are selected. Scores of random weights are so close
    that rounding would; those of trained ones seldom are."""
    generator = torch.Generator("cpu").manual_seed(0)
    return 2.0 ** 15 * torch.exp(-0.01 * torch.randperm(count, generator=generator, device="cpu"))


class RtDetr(nn.Module):
    """Square images of one size, a multiple of 32 -> logits [batch, queries, classes], boxes [batch, queries, 4]."""

    def __init__(self, size=640, width=256, heads=8, inner=1024, layers=6, queries=300, classes=80, backbone=64,
                 blocks=(3, 4, 6, 3)):
        super().__init__()
        self.queries = queries
        self.backbone = Backbone(backbone, blocks)
        self.encoder = HybridEncoder([4 * backbone << i for i in (1, 2, 3)], width, heads, inner, size)
        self.project = nn.ModuleList(Conv(width, width, act=nn.Identity) for _ in range(3))
        self.register_buffer("anchors", anchors(size))
        self.register_buffer("apart", spread_apart(len(self.anchors)).to(self.anchors.device))
        self.enter, self.enter_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.enter_scores, self.enter_boxes = nn.Linear(width, classes), perceptron(width, width, width, 4)
        self.positions = perceptron(4, 2 * width, width)
        self.layers = nn.ModuleList(DetrLayer(width, heads, inner) for _ in range(layers))
        self.boxes = nn.ModuleList(perceptron(width, width, width, 4) for _ in range(layers))
        self.scores = nn.Linear(width, classes)

    def select(self, memory):
        """The queries: of the places with the best scores what they hold, and logits of their boxes."""
        x = self.enter_norm(self.enter(memory))
        best = (self.enter_scores(x).amax(-1) + self.apart).topk(self.queries, 1).indices[..., None]
        boxes = self.enter_boxes(x) + self.anchors
        return x.gather(1, best.expand(-1, -1, x.shape[-1])), boxes.gather(1, best.expand(-1, -1, 4))

    def forward(self, image):
        levels = [project(x) for project, x in zip(self.project, self.encoder(self.backbone(image)))]
        sizes = [(x.shape[2], x.shape[3]) for x in levels]
        memory = torch.cat([x.flatten(2).transpose(1, 2) for x in levels], 1)
        x, boxes = self.select(memory)
        boxes = boxes.sigmoid()
        for layer, refine in zip(self.layers, self.boxes):
            x = layer(x, self.positions(boxes), boxes, memory, sizes)
            inside = boxes.clamp(1e-3, 1 - 1e-3)
            boxes = (refine(x) + torch.log(inside / (1 - inside))).sigmoid()
        return self.scores(x), boxes


WORKLOADS = {
    "yolo_640": on_images(settled(Yolo, 640), size=640, outputs=("boxes", "scores"), channels_last=True),
    "rt_detr_640": on_images(settled(RtDetr, 640), size=640, outputs=("logits", "boxes"), channels_last=True),
}
