#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors on a GPU: sizes that the run finds, against ONNX Runtime's results and PyTorch's times.

  run_detection.py --out tests/perf/results/detection_h200.json [--models fasterrcnn,ssdlite] [--inputs 5]

Models are tests/models/detectors.py's. Each is compiled in its own types, which are compared with ONNX Runtime on the CPU
for several pictures, and with TF32 products and convolutions, which is what PyTorch's eager convolutions take and what
is timed beside it. Times are microseconds with a cold L2: of the GPU, between events, and of one synchronised call.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import ROOT, provenance, write
from runs import Failed, Sinter, onnx_runtime

sys.path[:0] = [str(ROOT / "tests" / "models")]
import detectors  # noqa: E402


def difference(found, expected):
    """How many detections are the same, and by how much those differ at most. Of thousands of candidates a few have
    nearly the same score, or overlap by nearly the threshold: there rounding decides, and another box is kept."""
    same = [apart for _, _, apart in detectors.pairs(found, expected)]
    return {"detections": detectors.count(expected), "found": detectors.count(found), "same": len(same),
            "difference": max(same, default=0.0)}


def check(a, runner, model, plan, size):
    peer = onnx_runtime(model)
    names, image = [each.name for each in peer.get_outputs()], peer.get_inputs()[0].name
    rows = []
    for x in list(detectors.images(size, a.inputs + 1))[1:]:
        expected = dict(zip(names, peer.run(None, {image: x})))
        found = runner.run(plan, {image: x})
        rows.append(difference(found, expected))
    return rows


def torch_times(module, x, seconds):
    import torch

    from gpu_timing import measure
    module, x = module.cuda(), [torch.from_numpy(x).cuda()]
    times = {}
    with torch.inference_mode():
        module(x)
        times["torch"] = measure(lambda: module(x), seconds)
        try:
            compiled = torch.compile(module)
            compiled(x)
            times["torch_compile"] = measure(lambda: compiled(x), seconds)
        except Exception as error:  # noqa: BLE001: whatever the peer says
            times["torch_compile"] = str(error).splitlines()[0][:160]
    return times


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--models", default="fasterrcnn,ssdlite")
    p.add_argument("--inputs", type=int, default=5, help="pictures that are compared")
    p.add_argument("--seconds", type=float, default=1.5, help="that each is timed for")
    p.add_argument("--profile", action="store_true")
    p.add_argument("--commit")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in a.models.split(","):
            size, model = detectors.SIZES[name], Path(folder) / f"{name}.onnx"
            module = detectors.export(name, model)
            x = list(detectors.images(size, 2))[1]
            row = {"name": name}
            rows.append(row)
            for precision in ("model", "tf32"):
                runner = Sinter(a.sinter, folder, "cuda:sm_90", precision)
                try:
                    plan = runner.compile(model, *detectors.bounds(model), name=f"{name}.{precision}")
                    image = runner.json("inspect", plan)["inputs"][0]["name"]
                    if precision == "model":
                        row["checks"] = check(a, runner, model, plan, size)
                    row[precision] = runner.json("bench", plan, "--inputs", runner.save({image: x}), "--deviceIo",
                                                 f"--duration={a.seconds}", "--iterations=50")
                    if a.profile and precision == "tf32":
                        print(runner.text("profile", plan, "--inputs", runner.save({image: x})))
                except Failed as error:
                    row[precision] = str(error)
            row |= torch_times(module, x, a.seconds)
            print(row, flush=True)
    write(a.out, provenance(a.commit) | {"workloads": rows})


if __name__ == "__main__":
    main()
