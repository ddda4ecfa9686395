#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's classifiers on the CPU in float32, batch 1, against ONNX Runtime with the same number of threads.

  run_vision.py --out tests/perf/results/vision_cpu.json [--models swin_t,googlenet] [--threads 2]

Seeded random weights, exported through TorchScript at 224 x 224. Both take turns in one run; recorded are the median of
the turns' medians, and whether results agree. Needs torch and torchvision (models/requirements-export.txt).
"""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from common import ROOT, provenance, write
from run_cpu import against_onnx_runtime
from runs import Failed, Sinter, onnx_runtime, relative_error

MODELS = ("convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet1_0 "
          "mobilenet_v2 mobilenet_v3_large regnet_y_400mf resnet50 shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t "
          "vgg11 vit_b_16").split()


def export(name, path):
    """Writes the model and returns an input for it."""
    import torch
    import torchvision
    torch.manual_seed(0)
    special = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    module = getattr(torchvision.models, name)(weights=None, **special).eval()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_var.uniform_(.5, 1.5)
            part.running_mean.normal_(0, .2)
    with torch.no_grad():
        for values in module.parameters():  # what begins as zeros hides what is wrong
            if not values.any():
                values.normal_(0, .02)
    x = torch.randn(1, 3, 224, 224)
    # Not under no_grad: attention would be an operator that the exporter does not know.
    torch.onnx.export(module, (x,), str(path), opset_version=17, input_names=["x"], dynamo=False)
    return {"x": x.numpy()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    rows = {}
    for name in a.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model = folder / f"{name}.onnx"
            feeds, command = export(name, model), Sinter(a.sinter, folder)
            try:
                began = time.perf_counter()
                plan = command.compile(model)
                seconds = time.perf_counter() - began
                expected = onnx_runtime(model, a.threads).run(None, feeds)[0]
                found = next(iter(command.run(plan, feeds).values()))
                row = against_onnx_runtime(a.sinter, folder, a.threads, model, feeds, turns=a.turns, runs=15)
                row |= {"compile_s": round(seconds, 2), "error": relative_error(found, expected)}
                print(f"{name}: {row['sinter_us'] / 1e3:.1f} ms, ONNX Runtime {row['onnxruntime_us'] / 1e3:.1f} ms, "
                      f"{row['ratio']}x its time, error {row['error']:.1e}", flush=True)
            except Failed as error:
                row = {"failed": str(error)[:500]}
                print(name, row["failed"], flush=True)
        rows[name] = row
    mean = float(np.exp(np.mean([np.log(row["ratio"]) for row in rows.values() if "ratio" in row])))
    print(f"geometric mean {mean:.3f}")
    write(a.out, provenance() | {"threads": a.threads, "onnxruntime": onnxruntime.__version__,
                                 "geometric_mean": round(mean, 3), "models": rows})


if __name__ == "__main__":
    main()
