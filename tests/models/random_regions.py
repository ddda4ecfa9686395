#!/usr/bin/env python3
"""Random fusable regions, compiled and compared with the reference.

  tests/models/random_regions.py --count 200                       on the CPU
  tests/models/random_regions.py --count 2000 --target cuda        on a GPU; each also runs twice: the same bits

Every seed is a model: pointwise operators, reductions over any axes, norms and softmax, views and broadcasts in
float32, float16 or bfloat16, with sizes from 1 to 2^18 elements in all, odd ones too. A seed that fails is printed
and can be run alone: --seed N --count 1 --keep model.onnx.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runs import Failed, Sinter

TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
TOLERANCE = {"float": 1e-3, "float16": 1e-2, "bfloat16": 8e-2}
# Continuous, and of modest size for operands of modest size.
UNARY = ["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Sin", "Cos", "Erf", "Gelu", "Softplus"]
BINARY = ["Add", "Sub", "Mul", "Min", "Max"]
REDUCTIONS = ["ReduceMean", "ReduceMax", "ReduceMin"]
SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 31, 33, 64, 100, 129, 256, 384, 1000, 1024, 2049, 4096, 30001, 131072, 262144]


class Region:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.type = str(self.random.choice(list(TYPES), p=[0.4, 0.4, 0.2]))
        self.nodes, self.inputs, self.initializers, self.shapes = [], [], [], {}

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def op(self, kind, shape, *inputs, **attributes):
        name = f"v{len(self.shapes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(int(n) for n in shape)
        return name

    def ints(self, values):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[self.type], [int(n) for n in shape]))
        self.shapes[name] = tuple(int(n) for n in shape)
        return name

    def random_shape(self):
        shape, room = [], 1 << 18
        for _ in range(int(self.random.integers(1, 5))):
            shape.append(self.pick([n for n in SIZES if n <= room]))
            room //= shape[-1]
        return shape

    def pointwise(self, x):
        kind = self.random.random()
        if kind < 0.5:
            return self.op(self.pick(UNARY), self.shapes[x], x)
        shape = [n if self.random.random() < 0.6 else 1 for n in self.shapes[x]]
        shape = shape[int(self.random.integers(len(shape))) if self.random.random() < 0.3 and len(shape) > 1 else 0:]
        other = self.input(shape)
        return self.op(self.pick(BINARY), self.shapes[x], *self.pick([(x, other), (other, x)]))

    def reduction(self, x):
        shape = self.shapes[x]
        if self.random.random() < 0.4 and len(shape) > 0:
            return self.op("Softmax", shape, x, axis=int(self.random.integers(len(shape))))
        axes = sorted(set(int(a) for a in self.random.integers(0, len(shape), int(self.random.integers(1, 3)))))
        kept = [1 if d in axes else n for d, n in enumerate(shape)]
        reduced = self.op(self.pick(REDUCTIONS), kept, x, self.ints(axes), keepdims=1)
        return self.op(self.pick(["Sub", "Add"]), shape, x, reduced) if self.random.random() < 0.7 else reduced

    def view(self, x):
        shape = self.shapes[x]
        kind = self.random.integers(4)
        if kind == 0:
            perm = [int(p) for p in self.random.permutation(len(shape))]
            return self.op("Transpose", [shape[p] for p in perm], x, perm=perm)
        if kind == 1 and len(shape) > 1:
            d = int(self.random.integers(len(shape) - 1))
            to = [*shape[:d], shape[d] * shape[d + 1], *shape[d + 2:]]
            return self.op("Reshape", to, x, self.ints(to))
        d = int(self.random.integers(len(shape)))
        if kind == 2 and shape[d] > 2:
            first = int(self.random.integers(1, shape[d]))
            to = [*shape[:d], shape[d] - first, *shape[d + 1:]]
            return self.op("Slice", to, x, self.ints([first]), self.ints([shape[d]]), self.ints([d]))
        if 2 * int(np.prod(shape)) <= 1 << 18:
            to = [*shape[:d], 2 * shape[d], *shape[d + 1:]]
            return self.op("Concat", to, x, self.op("Neg", shape, x), axis=d)
        return x

    def model(self):
        values = [self.input(self.random_shape())]
        for _ in range(int(self.random.integers(2, 12))):
            x = values[-1] if self.random.random() < 0.8 else self.pick(values)
            step = self.pick([self.pointwise, self.pointwise, self.pointwise, self.reduction, self.view])
            if self.shapes[x]:
                values.append(step(x))
        outputs = {values[-1], self.pick(values)} - {i.name for i in self.inputs}
        outputs = sorted(outputs) or [self.op("Neg", self.shapes[values[-1]], values[-1])]
        infos = [helper.make_tensor_value_info(o, TYPES[self.type], self.shapes[o]) for o in outputs]
        graph = helper.make_graph(self.nodes, "region", self.inputs, infos, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def check(sinter, seed, folder, twice):
    region = Region(seed)
    path = folder / "region.onnx"
    onnx.save(region.model(), path)
    report = sinter.json("verify", path, *sinter.for_target(), f"--tolerance={TOLERANCE[region.type]}")
    wrong = [f"{o['output']}: {o['relative_error']:.1e}" for o in report["outputs"] if not o["ok"]]
    if twice:
        plan, results = sinter.compile(path), []
        for run in range(2):
            out = folder / f"out{run}.npz"
            sinter.text("run", plan, "--outputs", out)
            results.append({k: v.tobytes() for k, v in np.load(out).items()})
        if results[0] != results[1]:
            wrong.append("two runs differ")
    return f"{region.type}: {', '.join(wrong)}" if wrong else ""


def main():
    root = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(root / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--seed", type=int, default=1, help="the first seed")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--keep", help="write the (last) model here")
    a = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target)
        for seed in range(a.seed, a.seed + a.count):
            try:
                problem = check(sinter, seed, Path(folder), a.target != "cpu")
            except Failed as error:
                problem = str(error)
            if problem:
                failed += 1
                print(f"seed {seed}: {problem}", flush=True)
        if a.keep:
            Path(a.keep).write_bytes((Path(folder) / "region.onnx").read_bytes())
    print(f"{a.count - failed} of {a.count} regions from seed {a.seed} agree with the reference on {a.target}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
