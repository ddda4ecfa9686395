#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch's whose lengths and sizes only the run knows, one plan at five inputs, against ONNX Runtime.

torchvision's detectors; a one-stage detector of any image with the suppression inside; text to speech whose durations are
computed; speech recognition and a text recogniser of any length under masks; mixtures of experts that gather each
expert's tokens. Seeded random weights, exported through TorchScript. Options: see made_cases.py. Needs torch, torchvision
and transformers (models/requirements-export.txt); a beam search is one of check_loops.py.
"""
import sys

import numpy as np

import detectors
from made_cases import ROOT, main, worst

sys.path[:0] = [str(ROOT / "models")]


def export(module, path, inputs, outputs, dynamic):
    """`inputs` by name; `dynamic`: dimensions that have a name, by input."""
    import torch
    module.eval()
    with torch.no_grad():
        torch.onnx.export(module, tuple(torch.from_numpy(x) for x in inputs.values()), str(path), opset_version=17,
                          input_names=list(inputs), output_names=outputs, dynamic_axes=dynamic, dynamo=False)


def detector(name):
    def feeds():
        for x in list(detectors.images(detectors.SIZES[name], 6))[1:]:
            yield {"image": x}

    def compare(found, expected):
        """The error of the detections that are the same. Of thousands of candidates of random weights rounding decides
        about some: ONNX Runtime itself keeps 33 to 39 of Faster R-CNN's 40 where the picture changes by 1e-7."""
        same = [(place, at) for place, at, _ in detectors.pairs(found, expected)
                if detectors.masks_error(found, place, expected, at) < 1e-3]
        if len(same) < .8 * detectors.count(expected) or detectors.count(found) != detectors.count(expected):
            return float("inf")
        places, others = map(list, zip(*same))
        return worst({name: value[places] for name, value in found.items()},
                     {name: value[others] for name, value in expected.items()})

    return lambda path: detectors.export(name, path), feeds, detectors.bounds, compare


def one_stage():
    """Boxes of every cell of three levels; those of a class and a score, the best of those that overlap."""
    def feeds():
        random = np.random.default_rng(31)
        for height, width in ((64, 64), (96, 128), (160, 96), (64, 256), (320, 320)):
            x = next(detectors.images(320, 1, random.integers(1 << 30)))
            yield {"image": np.ascontiguousarray(x[None, :, :height, :width]) * 4 - 2}

    def write(path):
        import torch
        from torch import nn
        from torchvision.ops import batched_nms
        from export_torch import seeded
        from zoo_own import Pyramid

        class OneStage(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = Pyramid(16, 4)

            def forward(self, image):
                found = self.body(image)
                raw, scores = found["boxes"][0], found["scores"][0]
                size = torch.tensor([image.shape[3], image.shape[2]], dtype=torch.float32)
                middle, half = raw[:, :2].sigmoid() * size, raw[:, 2:].sigmoid() * 20
                boxes = torch.cat([middle - half, middle + half], 1)
                best, labels = scores.max(1)
                places = torch.nonzero(best > .5)[:, 0]
                boxes, best, labels = boxes[places], best[places], labels[places]
                kept = batched_nms(boxes, best, labels, .45)[:100]
                return boxes[kept], best[kept], labels[kept]

        export(seeded(OneStage), path, next(feeds()), ["boxes", "scores", "labels"], {"image": {2: "height", 3: "width"}})

    return write, feeds


def speech():
    """Text to speech in the manner of VITS: how long each sound is follows from the text and from noise, and with it how
    many frames there are; frames gather their sounds, pass coupling layers backwards and become a wave."""
    def feeds():
        random = np.random.default_rng(32)
        for count in (1, 8, 21, 40, 77):
            yield {"sounds": random.integers(1, 38, (1, count)),
                   "noise": random.standard_normal((1, 1, count)).astype(np.float32)}

    def write(path):
        import torch
        from torch import nn

        from export_torch import seeded

        def conv(inputs, outputs, size):
            return nn.Conv1d(inputs, outputs, size, padding=size // 2)

        class Coupling(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.first, self.gates, self.last = conv(width // 2, width, 1), conv(width, 2 * width, 5), conv(width, width // 2, 1)

            def forward(self, x):
                a, b = x.chunk(2, 1)
                t, s = self.gates(self.first(a)).chunk(2, 1)
                return torch.cat([a, b - self.last(t.tanh() * s.sigmoid())], 1).flip(1)

        class Speech(nn.Module):
            def __init__(self, width=32):
                super().__init__()
                self.table, self.mix = nn.Embedding(38, width), nn.ModuleList([conv(width, width, 5) for _ in range(2)])
                self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
                self.duration = nn.Sequential(conv(width + 1, width, 3), nn.ReLU(), conv(width, 1, 1))
                self.flow = nn.ModuleList([Coupling(width) for _ in range(4)])
                self.up = nn.Sequential(conv(width, 32, 7), nn.LeakyReLU(.1), nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.LeakyReLU(.1),
                                        nn.ConvTranspose1d(16, 8, 8, 4, 2), nn.LeakyReLU(.1), conv(8, 1, 7), nn.Tanh())

            def forward(self, sounds, noise):
                x = self.table(sounds).transpose(1, 2)
                for mix, norm in zip(self.mix, self.norms):
                    x = norm((x + mix(x).relu()).transpose(1, 2)).transpose(1, 2)
                frames = torch.ceil(torch.exp(self.duration(torch.cat([x, noise], 1)) + 1))[:, 0]
                count = frames.sum(1).clamp(min=1).long()
                ends = frames.cumsum(1)
                at = torch.arange(count.max())[None, :, None]
                path = (at < ends[:, None]) & (at >= (ends - frames)[:, None])
                y = torch.matmul(path.float(), x.transpose(1, 2)).transpose(1, 2)
                for coupling in self.flow:
                    y = coupling(y)
                return self.up(y), count

        export(seeded(Speech), path, next(iter(feeds())), ["wave", "count"], {"sounds": {1: "sounds"}, "noise": {2: "sounds"}})

    return write, feeds, lambda path: ["--bound", f"{label_of(path, 'Range')}=2000"]


def label_of(path, op):
    """Of the model's one node of a kind, as messages call it."""
    import onnx
    return next(node.name for node in onnx.load(path).graph.node if node.op_type == op)


def from_zoo(name, sizes, options=(), exporter="torchscript"):
    """A row of the export zoo at other sizes than its own."""
    def row():
        import export_zoo
        return export_zoo.all_rows()[name]

    def feeds():
        import torch
        made = row()
        for i, size in enumerate(sizes):
            generator = torch.Generator().manual_seed(i)
            yield {k: t.make(made.at(0) | size, generator).numpy() for k, t in made.inputs.items()}

    def write(path):
        import zoo_exporters
        zoo_exporters.export_torch(row(), exporter, path)

    return write, feeds, options


def tokens(*counts):
    return [{"batch": 1 + i % 3, "seq": count} for i, count in enumerate(counts)]


def cases():
    for name in detectors.SIZES:
        yield name, detector(name)
    yield "one_stage", one_stage()
    yield "speech", speech()
    yield "wav2vec2_masked", from_zoo("wav2vec2_masked", [{"batch": 1 + i, "samples": n}
                                                          for i, n in enumerate((1000, 1600, 4000, 9000, 16000))])
    yield "crnn", from_zoo("crnn", [{"batch": 1 + i % 2, "width": n} for i, n in enumerate((16, 64, 100, 320, 1000))])
    yield "recurrent", from_zoo("recurrent", tokens(1, 5, 30, 200, 1200))
    for name in ("olmoe", "switch"):
        yield name, from_zoo(name, tokens(1, 4, 9, 30, 50))


if __name__ == "__main__":
    sys.exit(main(cases, __doc__))
