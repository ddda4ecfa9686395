# SPDX-License-Identifier: Apache-2.0
"""Detectors of torchvision with seeded random weights, as ONNX files. Needs torch, torchvision and onnx.

Layers are scaled so that their values keep the size of the image's, and scores spread: boxes are found, and rounding
does not decide which. The same seeds give the same weights.
"""
from pathlib import Path

import numpy as np

from runs import relative_error

SIZES = {"fasterrcnn": 800, "maskrcnn": 800, "ssdlite": 320, "fasterrcnn_small": 320, "maskrcnn_small": 320}


def images(size, count, seed=0):
    """Smooth random pictures, [3, size, size] in 0..1."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        coarse = random.random((3, 12, 12)).astype(np.float32)
        places = np.linspace(0, 11, size)
        low, part = np.minimum(places.astype(int), 10), (places % 1).astype(np.float32)
        part[places == 11] = 1
        rows = coarse[:, low] * (1 - part)[:, None] + coarse[:, low + 1] * part[:, None]
        yield (rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part).astype(np.float32)


def module_of(name):
    """The module in eval mode on the CPU."""
    import torch
    import torchvision
    torch.manual_seed(0)
    detection, size = torchvision.models.detection, SIZES[name]
    kind = name.split("_")[0]
    if kind == "ssdlite":
        module = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, score_thresh=.02)
    else:
        make = getattr(detection, f"{kind}_resnet50_fpn")
        module = make(weights=None, weights_backbone=None, min_size=size, max_size=size, box_score_thresh=.02,
                      box_detections_per_img=40)
    module.eval()

    def keep_size(layer, given, made):
        scale = made.std().item()
        if scale > 0:
            for p in layer.parameters(recurse=False):
                p.data.div_(scale)
            return made / scale
        return made

    # One picture through it: every product's result gets the deviation one, from the first layer to the last.
    hooks = [layer.register_forward_hook(keep_size) for layer in module.modules()
             if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear, torch.nn.ConvTranspose2d))]
    with torch.no_grad():
        module([torch.from_numpy(next(images(size, 1, 99)))])
        for hook in hooks:
            hook.remove()
        for path, p in module.named_parameters():
            if path.endswith("weight") and any(part in path for part in ("bbox_pred", "bbox_deltas", "regression_head")):
                p.mul_(.2)
            if path.endswith("weight") and any(part in path for part in ("cls_score", "cls_logits")):
                p.mul_(2)
    return module


def export(name, path):
    """Writes the model and returns the module."""
    import torch
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same weights everywhere
    module = module_of(name)
    torch.set_num_threads(threads)
    x = torch.from_numpy(next(images(SIZES[name], 1)))
    with torch.no_grad():
        torch.onnx.export(module, ([x],), str(path), opset_version=17, input_names=["image"], dynamo=False)
    return module


def rows_of(tensors, names):
    """A detection in each row: of boxes, scores and labels, what masks belong to."""
    return np.concatenate([np.asarray(tensors[name], np.float64).reshape(len(tensors[name]), -1)
                           for name in names if tensors[name].ndim < 3], 1)


def pairs(found, expected):
    """(place in `found`, in `expected`, difference) of detections that are the same: each is beside the one that is most
    like it, since equal scores may come in any order."""
    left = dict(enumerate(rows_of(found, expected)))
    for place, row in enumerate(rows_of(expected, expected)):
        apart = {other: np.abs(values - row).max() for other, values in left.items()}
        best = min(apart, key=apart.get, default=None)
        if best is not None and apart[best] < .1:
            yield best, place, float(apart[best])
            del left[best]


def masks_error(found, place, expected, at):
    """Of one detection's mask, which is pasted at whole pixels: where rounding moves an edge, the whole mask is another."""
    return max((relative_error(found[name][place], value[at]) for name, value in expected.items() if value.ndim > 2),
               default=0.0)


def count(detections):
    return len(next(iter(detections.values())))


def bounds(path):
    """Options that say how large what a model pastes into the picture may be: masks of Mask R-CNN."""
    import onnx
    nodes = onnx.load(path, load_external_data=False).graph.node
    options, side = [], max(SIZES.values())
    for i, node in enumerate(nodes):
        if node.op_type != "Loop":
            continue
        values = {name for inner in node.attribute[0].g.node for name in inner.output}
        for name in ("w.3", "h.3", "x_0", "x_1", "y_0", "y_1"):
            if name in values:
                options += ["--bound", f"{node.name or f'Loop_{i}'}/{name}={side + side // 4}"]
    return options


if __name__ == "__main__":
    import sys
    for each in sys.argv[2:]:
        export(each, Path(sys.argv[1]) / f"{each}.onnx")
