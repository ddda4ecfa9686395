#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Norms over channels and groups on a GPU, beside PyTorch and a copy of as many bytes.

  tests/perf/run_norms.py --out tests/perf/results/norms_h200.json [--filter nhwc]

GroupNorm with SiLU and LayerNorm over the channels, of images that lie channels first or last, in float16. Times are
microseconds of the GPU with a cold L2. `of_copy`: how fast the bytes are moved that are read once and written once,
over the rate of a copy of such a tensor, timed the same way. Errors are of the whole, against PyTorch's in float32.
"""
import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import ROOT, provenance, write
from runs import Sinter, relative_error

SHAPES = ((2, 320, 64, 64), (2, 640, 32, 32), (2, 1280, 16, 16), (1, 512, 64, 64), (1, 512, 128, 128), (2, 960, 64, 64),
          (1, 256, 256, 256), (2, 128, 512, 512), (8, 96, 56, 56), (8, 384, 28, 28), (1, 768, 24, 24), (3, 192, 80, 72))
GROUPS = 32
PERM, BACK = [0, 3, 1, 2], [0, 2, 3, 1]


@dataclass
class Case:
    kind: str  # "group_silu" or "layer"
    shape: tuple  # n, c, h, w
    last: bool  # channels lie last

    @property
    def name(self):
        return f"{self.kind}_{'x'.join(map(str, self.shape))}_{'nhwc' if self.last else 'nchw'}"

    @property
    def stored(self):
        n, c, h, w = self.shape
        return (n, h, w, c) if self.last else self.shape

    def save(self, path):
        n, c, h, w = self.shape
        random = np.random.default_rng(1)
        values = {"scale": 1 + .1 * random.standard_normal(c), "bias": .1 * random.standard_normal(c)}
        constants = [numpy_helper.from_array(v.astype(np.float16), k) for k, v in values.items()]
        nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=PERM)] if self.last else []
        x = "a" if self.last else "x"
        if self.kind == "group_silu":
            nodes += [helper.make_node("GroupNormalization", [x, "scale", "bias"], ["g"], num_groups=GROUPS, epsilon=1e-5),
                      helper.make_node("Sigmoid", ["g"], ["s"]), helper.make_node("Mul", ["g", "s"], ["m"])]
        else:
            nodes += [helper.make_node("Transpose", [x], ["b"], perm=BACK),
                      helper.make_node("LayerNormalization", ["b", "scale", "bias"], ["l"], axis=-1, epsilon=1e-5),
                      helper.make_node("Transpose", ["l"], ["m"], perm=PERM)]
        if self.last:
            nodes.append(helper.make_node("Transpose", ["m"], ["y"], perm=BACK))
        else:
            nodes[-1].output[0] = "y"
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, self.stored) for name in "xy"]
        graph = helper.make_graph(nodes, "norm", info[:1], info[1:], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return values

    def torch(self, values):
        """A function of x as it lies: [n, c, h, w], in the memory order of the case."""
        import torch
        import torch.nn.functional as F
        scale, bias = (torch.from_numpy(v).cuda() for v in values.values())

        def call(x):
            a, b = scale.to(x.dtype), bias.to(x.dtype)
            if self.kind == "group_silu":
                return F.silu(F.group_norm(x, GROUPS, a, b, 1e-5))
            return F.layer_norm(x.permute(0, 2, 3, 1), (self.shape[1],), a, b, 1e-5).permute(0, 3, 1, 2)
        return call


def cases():
    for shape in SHAPES:
        for last in (True, False):
            if shape[1] % GROUPS == 0:
                yield Case("group_silu", shape, last)
            yield Case("layer", shape, last)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--filter", default="", help="names that contain one of these texts, separated by commas")
    p.add_argument("--disable-pass", default="", help="of the compiler")
    p.add_argument("--seconds", type=float, default=.1, help="about so long for each time of PyTorch's")
    p.add_argument("--no-torch-compile", action="store_true")
    p.add_argument("--commit")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    import torch

    from gpu_timing import measure
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, "cuda")
        for case in cases():
            if not any(text in case.name for text in a.filter.split(",")):
                continue
            path = Path(folder) / f"{case.name}.onnx"
            values = case.save(path)
            plan = sinter.compile(path, *([f"--disable-pass={a.disable_pass}"] if a.disable_pass else []))
            torch.manual_seed(2)
            x = torch.randn(case.stored, device="cuda") * 2 + .5
            half = x.half()
            feeds = {"x": half.cpu().numpy()}
            found = sinter.run(plan, feeds)["y"]
            bench = sinter.json("bench", plan, "--deviceIo", "--iterations=60", "--duration=0.2", "--inputs",
                                sinter.save(feeds))
            reference = case.torch(values)
            with torch.inference_mode():
                seen = (lambda t: t.permute(0, 3, 1, 2)) if case.last else (lambda t: t)
                expected = reference(seen(half.float()))
                expected = (expected.permute(0, 2, 3, 1) if case.last else expected).cpu().numpy()
                given = seen(half)
                times = {"eager": measure(lambda: reference(given), a.seconds)["gpu_us"]}
                if not a.no_torch_compile:
                    torch._dynamo.reset()
                    compiled = torch.compile(reference)
                    compiled(given)
                    times["compile"] = measure(lambda: compiled(given), a.seconds)["gpu_us"]
                copied = torch.empty_like(half)
                copy = measure(lambda: copied.copy_(half), a.seconds)["gpu_us"]
            ours = bench["compute_us"]["median"]
            row = {"sinter_us": round(ours, 2), "copy_us": round(copy, 2), "of_copy": round(copy / ours, 3),
                   "torch_us": {k: round(v, 2) for k, v in times.items()}, "megabytes": round(half.nbytes / 1e6, 2),
                   "launches": bench["launches"], "error": relative_error(found, expected)}
            rows[case.name] = row
            print(f"{case.name:36} {row}", flush=True)
    if a.out:
        write(a.out, provenance(a.commit) | {"disabled": a.disable_pass, "cases": rows})


if __name__ == "__main__":
    main()
