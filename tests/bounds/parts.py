# SPDX-License-Identifier: Apache-2.0
"""What the models here are put together from."""
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSET = 18


def value(name: str, shape, dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(name: str, *numbers: int) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def scalar(name: str, number: int) -> TensorProto:
    return numpy_helper.from_array(np.array(number, np.int64), name)


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)


def node(op: str, inputs, outputs, **attributes) -> NodeProto:
    """As helper.make_node, at a tenth of its time where there are no attributes."""
    if attributes:
        return helper.make_node(op, inputs, outputs, **attributes)
    made = NodeProto()
    made.op_type = op
    made.input.extend(inputs)
    made.output.extend(outputs)
    return made


def model(nodes, inputs, outputs, initializers=(), opset: int = OPSET, functions=()) -> ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    if functions:
        opsets.append(helper.make_opsetid("local", 1))
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = 8
    return made


def one_node(op: str, initializers=(), shape=(4,), opset: int = OPSET, dtype: int = FLOAT, out_type: int = 0,
             out_rank: int | None = None, **attributes) -> ModelProto:
    """`op` of input x and the initializers, in order."""
    names = ["x"] + [each.name for each in initializers]
    out = value("y", [None] * (len(shape) if out_rank is None else out_rank), out_type or dtype)
    return model([node(op, names, ["y"], **attributes)], [value("x", list(shape), dtype)], [out], initializers, opset)
