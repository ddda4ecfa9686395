#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of seeded random weights that ONNX Runtime's quantizers make 8-bit: what they cost, not what they know.

  models/quantized_networks.py --out FOLDER [NAME ...]

Convolutions and batch normalisation of ResNet-50, MobileNetV3-Large and a YOLO (C2f blocks, one scale), the encoders
BERT-base and MiniLM. Static ones are QDQ (u8 activations, i8 weights for each channel), calibrated on random images;
dynamic ones have DynamicQuantizeLinear with MatMulInteger and ConvInteger. `make(name, folder)` gives the path.
"""
import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnxruntime import quantization

sys.path.insert(0, str(Path(__file__).parent))
from bert_onnx import Config, Encoder, random_weights  # noqa: E402
from onnx_writer import Writer  # noqa: E402

OPSET = 17


class Network(Writer):
    """A convolutional network; images are [1, 3, size, size]."""

    def __init__(self, size, seed=0):
        super().__init__(OPSET)
        self.size, self.rng, self.channels = size, np.random.default_rng(seed), {"x": 3}

    def conv(self, x, outputs, kernel, stride=1, groups=1):
        inputs = self.channels[x]
        fan = inputs // groups * kernel * kernel
        number = len(self.nodes)
        weight = self.rng.standard_normal((outputs, inputs // groups, kernel, kernel)) * np.sqrt(2 / fan)
        y = self.op("Conv", x, self.constant(f"w{number}", weight.astype(np.float32)),
                    self.constant(f"b{number}", (0.1 * self.rng.standard_normal(outputs)).astype(np.float32)),
                    kernel_shape=[kernel] * 2, strides=[stride] * 2, group=groups, pads=[kernel // 2] * 4)
        self.channels[y] = outputs
        return y

    def same(self, kind, *inputs, **attributes):
        """An operator whose result has as many channels as its first input."""
        y = self.op(kind, *inputs, **attributes)
        self.channels[y] = self.channels[inputs[0]]
        return y

    def classify(self, x, classes=1000, hidden=0):
        x = self.op("Flatten", self.op("GlobalAveragePool", x) if not hidden else x, axis=1)
        width = self.rng.standard_normal((self.last, classes)) / np.sqrt(self.last)
        return self.op("Gemm", x, self.constant("head", width.astype(np.float32)),
                       self.constant("head_bias", np.zeros(classes, np.float32)), output="y")

    def model(self, outputs):
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, self.size, self.size])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def resnet50():
    n = Network(224)
    x = n.same("Relu", n.conv("x", 64, 7, 2))
    x = n.same("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            y = n.same("Relu", n.conv(x, width, 1))
            y = n.same("Relu", n.conv(y, width, 3, stride))
            y = n.conv(y, 4 * width, 1)
            short = n.conv(x, 4 * width, 1, stride) if block == 0 else x
            x = n.same("Relu", n.same("Add", y, short))
    n.last = n.channels[x]
    return n.model([n.classify(x)])


# Kernel, expanded channels, channels, squeeze and excitation, hard swish, stride: table 1 of the paper.
MOBILE = ((3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
          (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
          (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2),
          (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1))


def mobilenet_v3():
    n = Network(224)
    x = n.same("HardSwish", n.conv("x", 16, 3, 2))
    for kernel, expanded, channels, squeezed, swish, stride in MOBILE:
        act = "HardSwish" if swish else "Relu"
        y = n.same(act, n.conv(x, expanded, 1)) if expanded != n.channels[x] else x
        y = n.same(act, n.conv(y, expanded, kernel, stride, expanded))
        if squeezed:
            s = n.same("Relu", n.conv(n.same("GlobalAveragePool", y), expanded // 4 // 8 * 8, 1))
            y = n.same("Mul", y, n.same("HardSigmoid", n.conv(s, expanded, 1), alpha=1 / 6, beta=0.5))
        y = n.conv(y, channels, 1)
        x = n.same("Add", x, y) if stride == 1 and n.channels[x] == channels else y
    x = n.same("HardSwish", n.conv(x, 960, 1))
    x = n.same("HardSwish", n.conv(n.same("GlobalAveragePool", x), 1280, 1))
    n.last = 1280
    return n.model([n.classify(x, hidden=1280)])


def yolo():
    n = Network(640)

    def block(x, outputs, kernel=1, stride=1):
        y = n.conv(x, outputs, kernel, stride)
        return n.same("Mul", y, n.same("Sigmoid", y))

    def c2f(x, outputs, depth, short):
        y = block(x, outputs)
        parts = []
        for start in (0, outputs // 2):
            part = n.op("Slice", y, n.ints(start), n.ints(start + outputs // 2), n.ints(1))
            n.channels[part] = outputs // 2
            parts.append(part)
        for _ in range(depth):
            z = block(block(parts[-1], outputs // 2, 3), outputs // 2, 3)
            parts.append(n.same("Add", parts[-1], z) if short else z)
        y = n.op("Concat", *parts, axis=1)
        n.channels[y] = outputs // 2 * len(parts)
        return block(y, outputs)

    x = block(block("x", 16, 3, 2), 32, 3, 2)
    x = c2f(x, 32, 1, True)
    for width, depth in ((64, 2), (128, 2), (256, 1)):
        x = c2f(block(x, width, 3, 2), width, depth, True)
    pools = [block(x, 128)]
    for _ in range(3):
        pools.append(n.same("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    y = n.op("Concat", *pools, axis=1)
    n.channels[y] = 512
    x = block(block(y, 256), 64, 3)
    x = n.conv(x, 144, 1)
    return n.model([n.op("Identity", x, output="y")])


def encoder(config, vocabulary=30522, positions=512):
    return lambda: Encoder(config, random_weights(config, vocabulary, positions), "old").model()


NETWORKS = {"resnet50_qdq": (resnet50, "qdq"), "mobilenet_v3_qdq": (mobilenet_v3, "qdq"), "yolo_dynamic": (yolo, "dynamic"),
            "bert_base_dynamic": (encoder(Config(12, 768, 12, 3072)), "dynamic"),
            "minilm_dynamic": (encoder(Config(6, 384, 12, 1536)), "dynamic")}


class Images:
    """Calibration on random images."""

    def __init__(self, size, count=2):
        rng = np.random.default_rng(1)
        self.rest = iter([{"x": rng.standard_normal((1, 3, size, size)).astype(np.float32)} for _ in range(count)])

    def get_next(self):
        return next(self.rest, None)


def make(name, folder):
    """The quantized network `name` in `folder`; NAME_float.onnx stays beside it."""
    build, form = NETWORKS[name]
    source, path = Path(folder) / f"{name}_float.onnx", Path(folder) / f"{name}.onnx"
    model = build()
    onnx.save(onnx.shape_inference.infer_shapes(model), source)
    if form == "dynamic":
        quantization.quantize_dynamic(source, path, weight_type=quantization.QuantType.QInt8)
    else:
        size = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
        quantization.quantize_static(source, path, Images(size), quant_format=quantization.QuantFormat.QDQ,
                                     per_channel=True, activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)
    return path


def feeds(name, batch=1, seq=128):
    """One input of the network."""
    rng = np.random.default_rng(2)
    if not name.startswith(("bert", "minilm")):
        size = 640 if name.startswith("yolo") else 224
        return {"x": rng.standard_normal((1, 3, size, size)).astype(np.float32)}
    return {"input_ids": rng.integers(0, 30522, (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64),
            "token_type_ids": np.zeros((batch, seq), np.int64)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    a = p.parse_args()
    Path(a.out).mkdir(parents=True, exist_ok=True)
    for name in a.names or NETWORKS:
        print(make(name, a.out), flush=True)


if __name__ == "__main__":
    main()
