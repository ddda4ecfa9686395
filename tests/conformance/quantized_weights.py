# SPDX-License-Identifier: Apache-2.0
"""Peer cases of weights in few bits: every spelling in which exporters write them, in front of a
product or of a gather."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(11)
LIMITS = {TensorProto.INT8: (-128, 128), TensorProto.UINT8: (0, 256), TensorProto.INT4: (-8, 8),
          TensorProto.UINT4: (0, 16)}
NAMES = {TensorProto.INT8: "int8", TensorProto.UINT8: "uint8", TensorProto.INT4: "int4",
         TensorProto.UINT4: "uint4"}
MS = "com.microsoft"


def floats(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


class Model:
    """Nodes and initializers of one case, with x as its input."""

    def __init__(self, name, x, opset=21):
        self.name, self.x, self.opset = name, x, opset
        self.nodes, self.initializers, self.domains = [], [], set()

    def add(self, op, inputs, domain="", **attributes):
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [result], name=f"the_{op}_{result}",
                                           domain=domain, **attributes))
        self.domains.add(domain)
        return result

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, name, kind, shape, values=None):
        if values is None:
            values = rng.integers(*LIMITS[kind], shape)
        self.initializers.append(helper.make_tensor(name, kind, shape, np.ravel(values).tolist()))
        return name

    def save(self, save, y):
        info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.x.dtype),
                                             self.x.shape)
        imports = [helper.make_opsetid("", self.opset)] + \
            [helper.make_opsetid(domain, 1) for domain in self.domains if domain]
        save(self.name, self.nodes, self.initializers, {"x": self.x}, [info], [y], imports,
             ir_version=10)


def dequantized(model, kind, shape, axis=None, block=0, zero=True):
    """DequantizeLinear of new integers: for all, along an axis, or in blocks along it."""
    if axis is None:
        parameters = ()
    elif block:
        parameters = tuple(-(-n // block) if d == axis else n for d, n in enumerate(shape))
    else:
        parameters = (shape[axis],)
    inputs = [model.integers("w", kind, shape),
              model.constant("s", np.asarray(rng.uniform(0.01, 0.2, parameters), np.float32))]
    if zero:
        inputs.append(model.integers("z", kind, parameters))
    attributes = {} if axis is None else {"axis": axis}
    if block:
        attributes["block_size"] = block
    return model.add("DequantizeLinear", inputs, **attributes)


def dequantize_linear(save):
    for kind, short in NAMES.items():
        for way, axis, block in (("tensor", None, 0), ("columns", 1, 0), ("blocks", 0, 16)):
            for zero in (False, True):
                k, n = 33, 7
                model = Model(f"weights_{short}_{way}{'_zero' if zero else ''}", floats(2, 3, k))
                w = dequantized(model, kind, (k, n), axis, block, zero)
                model.save(save, model.add("MatMul", ["x", w]))
    for block in (16, 32, 64):
        model = Model(f"weights_gemm_blocks_{block}", floats(3, 64))
        w = dequantized(model, TensorProto.INT4, (5, 64), 1, block)
        bias = model.constant("b", floats(5))
        model.save(save, model.add("Gemm", ["x", w, bias], transB=1, alpha=0.5))
    model = Model("weights_transposed_before", floats(2, 20))
    w = model.integers("w", TensorProto.UINT4, (5, 20))
    turned = model.add("Transpose", [w], perm=[1, 0])
    s = model.constant("s", rng.uniform(0.1, 1, 5).astype(np.float32))
    model.save(save, model.add("MatMul", ["x", model.add("DequantizeLinear", [turned, s], axis=1)]))
    model = Model("weights_from_floats", floats(2, 9))
    w, s = model.constant("w", floats(9, 4)), model.constant("s", np.float32([.1, .02, .03, .04]))
    z = model.integers("z", TensorProto.INT8, (4,), [0, 3, -5, 100])
    q = model.add("QuantizeLinear", [w, s, z], axis=1)
    model.save(save, model.add("MatMul", ["x", model.add("DequantizeLinear", [q, s, z], axis=1)]))


def spelled_out(save):
    """As PyTorch exports weight-only layers: casts, differences and products."""
    for way in ("scale", "difference", "shift", "behind"):
        n, k, group = 6, 32, 16
        model = Model(f"weights_cast_{way}", floats(2, 1, k))
        shape = (n, k) if way == "behind" else (n, k // group, group)
        w = model.add("Cast", [model.integers("w", TensorProto.INT8, shape)], to=TensorProto.FLOAT)
        s = model.constant("s", rng.uniform(0.1, 1, (n,) if way == "behind" else shape[:2] + (1,))
                           .astype(np.float32))
        if way == "difference":
            w = model.add("Sub", [w, model.constant("z", floats(*shape[:2], 1, scale=20))])
        if way != "behind":
            w = model.add("Mul", [w, s])
        if way == "shift":
            w = model.add("Add", [w, model.constant("b", floats(*shape[:2], 1))])
        if way != "behind":
            w = model.add("Reshape", [w, model.constant("shape", np.array([n, k], np.int64))])
        y = model.add("MatMul", ["x", model.add("Transpose", [w], perm=[1, 0])])
        model.save(save, model.add("Mul", [y, s]) if way == "behind" else y)


def matmul_nbits(save):
    for bits, k, block, zero, bias in ((4, 64, 16, None, True), (4, 37, 16, "packed", False),
                                       (4, 96, 32, "floats", True), (8, 50, 32, "packed", True),
                                       (8, 16, 16, None, False), (4, 48, 64, "packed", False),
                                       (2, 40, 16, None, False)):
        n, blocks = 5, -(-k // block)
        model = Model(f"weights_nbits_{bits}_{k}_{block}{'_' + zero if zero else ''}",
                      floats(3, 2, k), 17)
        inputs = ["x", model.constant("w", rng.integers(0, 256, (n, blocks, block * bits // 8))
                                      .astype(np.uint8)),
                  model.constant("s", rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32))]
        if zero == "packed":
            inputs.append(model.constant("z", rng.integers(0, 256, (n, -(-blocks * bits // 8)))
                                         .astype(np.uint8)))
        elif zero == "floats":
            inputs.append(model.constant("z", rng.uniform(0, 15, (n, blocks)).astype(np.float32)))
        if bias:
            inputs += [""] * (5 - len(inputs)) + [model.constant("b", floats(n))]
        model.save(save, model.add("MatMulNBits", inputs, MS, K=k, N=n, bits=bits,
                                   block_size=block))


def embeddings(save):
    ids = np.array([[4, 0, 2], [1, 1, 3]], np.int64)
    for kind in (TensorProto.INT8, TensorProto.UINT4):
        model = Model(f"weights_embedding_{NAMES[kind]}", ids)
        w = dequantized(model, kind, (5, 32), 1, 16)
        model.save(save, model.add("Gather", [w, "x"]))
    model = Model("weights_embedding_rows", ids)
    w = dequantized(model, TensorProto.INT8, (5, 6), 0)
    model.save(save, model.add("Gather", [w, "x"]))
    for kind, bits, zero in ((TensorProto.INT4, 4, False), (TensorProto.UINT4, 4, True),
                             (TensorProto.UINT8, 8, True), (TensorProto.UINT8, 8, False),
                             (TensorProto.UINT8, 4, True), (TensorProto.UINT8, 4, False)):
        model = Model(f"weights_gather_{NAMES[kind]}_{bits}{'_zero' if zero else ''}", ids)
        packed = 8 // bits if kind == TensorProto.UINT8 else 1
        inputs = [model.integers("w", kind, (5, 48 // packed)), "x",
                  model.constant("s", rng.uniform(0.01, 0.1, (5, 3)).astype(np.float32))]
        if zero:
            inputs.append(model.integers("z", kind, (5, -(-3 // packed))))
        model.save(save, model.add("GatherBlockQuantized", inputs, MS, block_size=16, bits=bits,
                                   gather_axis=0, quantize_axis=1))


def dynamic(save):
    """Activations that are quantized as the model runs, which stay so."""
    model = Model("weights_dynamic_quantization", floats(3, 12))
    model.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]))
    w = model.integers("w", TensorProto.INT8, (12, 4))
    z = model.integers("z", TensorProto.INT8, (4,), [0, 0, 0, 0])
    product = model.add("MatMulInteger", ["q", w, "xz", z])
    scale = model.add("Mul", ["xs", model.constant("s", np.float32([.1, .2, .3, .4]))])
    model.save(save, model.add("Mul", [model.add("Cast", [product], to=TensorProto.FLOAT), scale]))


def four_bit_values(save):
    """4-bit integers that nodes make: rounded from floats, constants."""
    for kind in (TensorProto.INT4, TensorProto.UINT4):
        model = Model(f"weights_from_floats_{NAMES[kind]}", floats(2, 20))
        w, s = model.constant("w", floats(20, 4)), model.constant("s", floats(2, 4, scale=.1) + 1)
        z = model.integers("z", kind, (2, 4))
        blocks = {"axis": 0, "block_size": 16}
        q = model.add("QuantizeLinear", [w, s, z], **blocks)
        model.save(save, model.add("MatMul", ["x", model.add("DequantizeLinear", [q, s, z],
                                                             **blocks)]))
        model = Model(f"weights_constant_{NAMES[kind]}", floats(2, 5))
        values = rng.integers(*LIMITS[kind], (5, 3))
        w = model.add("Constant", [], value=helper.make_tensor("w", kind, (5, 3),
                                                               np.ravel(values).tolist()))
        model.save(save, model.add("MatMul", ["x", model.add("DequantizeLinear",
                                                             [w, model.constant("s", floats(3))],
                                                             axis=1)]))


def contributed(save):
    """com.microsoft's own: QuantizeLinear and DequantizeLinear, groups by name, integer products."""
    model = Model("weights_microsoft_axis", floats(2, 20))
    w = model.add("DequantizeLinear",
                  [model.integers("w", TensorProto.INT8, (20, 3)), model.constant("s", floats(3)),
                   model.integers("z", TensorProto.INT8, (3,))], MS, axis=1)
    model.save(save, model.add("MatMul", ["x", w]))
    model = Model("weights_microsoft_pair", floats(2, 20))
    s, z = model.constant("s", np.float32(.02)), model.integers("z", TensorProto.UINT8, (), [100])
    q = model.add("QuantizeLinear", [model.constant("w", floats(20, 3)), s, z], MS)
    model.save(save, model.add("MatMul", ["x", model.add("DequantizeLinear", [q, s, z], MS)]))
    model = Model("weights_nbits_groups_in_order", floats(2, 40), 17)
    model.save(save, model.add("MatMulNBits",
                               ["x", model.constant("w", rng.integers(0, 256, (3, 3, 8))
                                                    .astype(np.uint8)),
                                model.constant("s", floats(3, 3)), "",
                                model.constant("g", (np.arange(40) // 16).astype(np.int32))],
                               MS, K=40, N=3, bits=4, block_size=16))
    for bias in (False, True):
        model = Model(f"weights_dynamic_matmul{'_bias' if bias else ''}", floats(3, 12), 17)
        inputs = ["x", model.integers("w", TensorProto.INT8, (12, 4)),
                  model.constant("s", np.float32([.1, .2, .3, .4])),
                  model.integers("z", TensorProto.INT8, (4,), [0, 3, -7, 100])]
        model.save(save, model.add("DynamicQuantizeMatMul",
                                   inputs + ([model.constant("b", floats(4))] if bias else []), MS))
        a = rng.integers(0, 256, (3, 12)).astype(np.uint8)
        model = Model(f"weights_integer_matmul{'_bias' if bias else ''}", a, 17)
        inputs = ["x", model.integers("w", TensorProto.INT8, (12, 4)),
                  model.constant("a", np.float32(.01)), model.constant("s", np.float32([1, 2, 3, 4])),
                  model.integers("p", TensorProto.UINT8, (), [120])]
        if bias:
            inputs += [model.integers("z", TensorProto.INT8, (4,), [0, 3, -7, 100]),
                       model.constant("b", floats(4))]
        model.save(save, model.add("MatMulIntegerToFloat", inputs, MS))


def divided(save):
    for scalar in (False, True):
        model = Model(f"weights_cast_divided{'_by_one' if scalar else ''}", floats(2, 20))
        w = model.add("Cast", [model.integers("w", TensorProto.INT8, (20, 3))], to=TensorProto.FLOAT)
        s = model.constant("s", np.float32(12.5) if scalar else floats(3) + 3)
        model.save(save, model.add("MatMul", ["x", model.add("Div", [w, s])]))


def gathered_axes(save):
    """Blocks and indices along other axes than the usual ones, from the end too."""
    ids = np.array([[4, 0, -2], [1, -5, 3]], np.int64)
    for name, kind, shape, gather, blocks in (("last", TensorProto.INT4, (32, 5), 1, 0),
                                              ("last_of_3", TensorProto.INT4, (4, 32, 5), -1, 1),
                                              ("middle", TensorProto.UINT4, (4, 5, 32), 1, -1),
                                              ("first_of_3", TensorProto.UINT8, (5, 3, 32), 0, -1)):
        model = Model(f"weights_gather_{name}", ids)
        scales, packed = list(shape), list(shape)
        scales[blocks] = 2
        points = list(scales)
        if kind == TensorProto.UINT8:
            packed[-1], points[-1] = packed[-1] // 2, 1
        inputs = [model.integers("w", kind, tuple(packed)), "x",
                  model.constant("s", rng.uniform(0.01, 0.1, scales).astype(np.float32)),
                  model.integers("z", kind, tuple(points))]
        model.save(save, model.add("GatherBlockQuantized", inputs, MS, block_size=16,
                                   gather_axis=gather, quantize_axis=blocks))


def quantized_weights(save):
    for group in (dequantize_linear, spelled_out, matmul_nbits, embeddings, dynamic,
                  four_bit_values, contributed, divided, gathered_axes):
        group(save)
