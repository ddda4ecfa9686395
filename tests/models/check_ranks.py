#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of several kinds with seeded weights, split over 2 and 4 ranks: outputs as of one rank within rounding.

  check_ranks.py                             ranks of the CPU
  check_ranks.py --only unet,mamba2 --ranks 2
  check_ranks.py --sizes cuda:sm_90          compile for one, 2 and 4 GPUs, without any, and compare the plans' sizes
  check_ranks.py --target cuda --precision bf16 --tolerance 5e-2 --only wide
                                             ranks on GPUs, which share large models alone; SINTER_RANK_DEVICES=0,0 places
                                             two on one
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "models"), str(HERE.parent / "perf")]
from runs import Failed, Sinter, relative_error  # noqa: E402

MOST_GROWTH = 1.05


class Network:
    """A graph of images under construction."""

    def __init__(self, seed):
        self.random, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(value, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def conv(self, x, inputs, outputs, kernel=3, stride=1):
        weight = self.random.normal(0, (inputs * kernel * kernel) ** -0.5, (outputs, inputs, kernel, kernel))
        return self.op("Conv", x, self.constant(weight.astype(np.float32)), self.constant(np.zeros(outputs, np.float32)),
                       pads=[kernel // 2] * 4, strides=[stride] * 2)

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def unit(self, x, inputs, outputs):
        """A residual unit of two convolutions behind group norms."""
        norm = lambda y, n: self.silu(self.op("GroupNormalization", y, self.constant(np.ones(n, np.float32)),
                                              self.constant(np.zeros(n, np.float32)), num_groups=8))
        y = self.conv(norm(x, inputs), inputs, outputs)
        y = self.conv(norm(y, outputs), outputs, outputs)
        return self.op("Add", y, x if inputs == outputs else self.conv(x, inputs, outputs, 1))


def unet():
    """Two levels, and a product of all pixels in the middle."""
    n = Network(3)
    first = n.conv("image", 4, 64)
    high = n.unit(first, 64, 64)
    low = n.unit(n.conv(high, 64, 128, stride=2), 128, 128)
    flat = n.op("Reshape", low, n.constant(np.array([0, 128, -1])))
    rows = n.op("Transpose", flat, perm=[0, 2, 1])
    matrix = lambda: n.constant(n.random.normal(0, 128 ** -0.5, (128, 128)).astype(np.float32))
    q, k, v = (n.op("MatMul", rows, matrix()) for _ in range(3))
    scores = n.op("Softmax", n.op("Mul", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 2, 1])),
                                  n.constant(np.float32(128 ** -0.5))), axis=-1)
    mixed = n.op("MatMul", n.op("MatMul", scores, v), matrix())
    low = n.op("Add", low, n.op("Reshape", n.op("Transpose", mixed, perm=[0, 2, 1]), n.constant(np.array([0, 128, 16, 16]))))
    up = n.op("Resize", low, "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    joined = n.op("Concat", up, high, axis=1)
    out = n.conv(n.silu(n.unit(joined, 192, 64)), 64, 4)
    graph = helper.make_graph(n.nodes, "unet", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 4, 32, 32])],
                              [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 4, 32, 32])], n.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def tiny():
    """Two products, column then row."""
    n = Network(4)
    matrix = lambda a, b: n.constant(n.random.normal(0, a ** -0.5, (a, b)).astype(np.float32))
    out = n.op("MatMul", n.op("Relu", n.op("MatMul", "x", matrix(256, 1024))), matrix(1024, 256))
    graph = helper.make_graph(n.nodes, "tiny", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 256])],
                              [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["rows", 256])], n.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def wide():
    """A residual and a norm behind products of 268 MB in 16 bits, which GPUs share."""
    n = Network(6)
    matrix = lambda a, b: n.constant((n.random.standard_normal((a, b), np.float32) * a ** -0.5))
    mixed = n.op("MatMul", n.op("Relu", n.op("MatMul", "x", matrix(4096, 16384))), matrix(16384, 4096))
    h = n.op("Add", "x", mixed)
    mean = n.op("ReduceMean", n.op("Mul", h, h), n.constant(np.array([-1])))
    root = n.op("Sqrt", n.op("Add", mean, n.constant(np.float32(1e-5))))
    y = n.op("Mul", n.op("Div", h, root), n.constant(n.random.uniform(0.5, 1.5, 4096).astype(np.float32)))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4096])
    graph = helper.make_graph(n.nodes, "wide", [value("x")], [value(h), value(y)], n.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def whisper(side):
    from whisper_onnx import WhisperEncoder, config_of, decoder_model, random_weights
    weights, heads = random_weights(width=256, heads=4)
    config = config_of(weights, heads)
    return WhisperEncoder(config, weights, False).model() if side == "encoder" else decoder_model(config, weights)


def mamba2():
    from hybrid_onnx import Hybrid, HybridDecoder, hybrid_weights
    c = Hybrid(layers=2, hidden=256, heads=4, kv_heads=4, intermediate=512, vocabulary=512, positions=256,
               kinds=("mamba", "mamba"), key_heads=4, value_heads=8, key_size=16, value_size=32)
    return HybridDecoder(c, hybrid_weights(c)).model()


def folder(script, row):
    """A Hugging Face folder of a row of check_decoders.py or check_encoders.py."""
    def write(path):
        module = __import__(script)
        module.write_folder(row, json.loads(module.GOLDENS.read_text())[row], path)
    return write


MODELS = {"tiny": tiny, "unet": unet, "whisper_encoder": lambda: whisper("encoder"), "whisper_decoder": lambda: whisper("decoder"),
          "mamba2": mamba2, "bert": folder("check_encoders", "bert"), "llama": folder("check_decoders", "llama"),
          "qwen3_moe": folder("check_decoders", "qwen3_moe")}
LARGE = {"wide": wide}  # not by default
TEXTS = ("llama", "qwen3_moe")  # greedy tokens are compared, too


def make(name, path):
    made = {**MODELS, **LARGE}[name]
    if name in ("bert", *TEXTS):
        made(path / name)
        return path / name
    onnx.save(made(), path / f"{name}.onnx")
    return path / f"{name}.onnx"


def outputs_of(sinter, plan):
    file = sinter.folder / "outputs.npz"
    sinter.text("run", plan, "--seed", 5, "--outputs", file)
    with np.load(file) as f:
        return {key: f[key] for key in f}


def tokens_of(sinter, model):
    plan = sinter.compile(model, "--serve=step-tokens=512")
    found = sinter.json("generate", plan, "--ids", "5,17,33,2", "--max-tokens", 24, "--no-stop", "--no-rates", "--greedy",
                        "--no-generation-config")["tokens"]
    plan.unlink()
    return found


def check(a, name, path, report):
    model, expected, size = make(name, path), None, 0
    for ranks in (1, *a.ranks):
        sinter = Sinter(a.sinter, path, a.sizes or a.target, a.precision, ranks)
        plan = sinter.compile(model, name=f"{name}_{ranks}")
        if a.sizes:
            size = size or os.path.getsize(plan)
            report[f"{name} of {ranks}"] = growth = round(os.path.getsize(plan) / size, 4)
            if growth > MOST_GROWTH:
                raise Failed(f"the plan of {ranks} ranks has {growth} times the size of one's")
            continue
        found = outputs_of(sinter, plan), tokens_of(sinter, model) if name in TEXTS else None
        expected = expected or found
        if set(found[0]) != set(expected[0]):
            raise Failed(f"{ranks} ranks have other outputs")
        worst = max(relative_error(found[0][key], expected[0][key]) for key in found[0])
        report[f"{name} of {ranks}"] = float(f"{worst:.1e}")
        if not worst <= a.tolerance:
            raise Failed(f"outputs of {ranks} ranks are off by {worst:.1e}, may be {a.tolerance:.0e}")
        if a.tolerance < 1e-4 and found[1] != expected[1]:
            raise Failed(f"tokens of {ranks} ranks are {found[1]}, not {expected[1]}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(HERE.parents[1] / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model", choices=("model", "fp16", "bf16"))
    p.add_argument("--tolerance", type=float, default=2e-5)
    p.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4])
    p.add_argument("--only", help="models, divided by commas")
    p.add_argument("--sizes", metavar="TARGET")
    p.add_argument("--out", help="write the errors, or growths, as JSON")
    a = p.parse_args()
    failed, report = 0, {}
    for name in a.only.split(",") if a.only else MODELS:
        with tempfile.TemporaryDirectory() as path:
            try:
                check(a, name, Path(path), report)
                print("ok    ", name, {k: v for k, v in report.items() if k.startswith(name + " ")}, flush=True)
            except Failed as e:
                failed += 1
                print(f"FAILED {name}: {e}", flush=True)
    if a.out:
        Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
