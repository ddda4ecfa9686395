# SPDX-License-Identifier: Apache-2.0
"""What writes a peer case: a seeded model of one operator, what is fed to it and what comes out, in the
layout of ONNX's backend tests."""
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parent / "peer" / "node"
MS = "com.microsoft"
rng = np.random.default_rng(7)


class Const:
    """An input that is an initializer."""

    def __init__(self, value):
        self.value = np.asarray(value)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64):
    return rng.integers(low, high, shape).astype(dtype)


def case(name, op, inputs, outputs=1, domain="", opset=17, answers=None, stated=None, **attributes):
    """`outputs` is how many, or a list of names in which "" is left out; `opset_` is an attribute "opset".
    `answers` are what comes out of an operator that the peer lacks on the CPU, computed apart; `stated` is the element type of outputs of which the peer cannot tell it."""
    names, feeds, initializers, infos = [], {}, [], []
    for i, value in enumerate(inputs):
        if value is None:
            names.append("")
            continue
        names.append(f"in{i}")
        array = np.asarray(value.value if isinstance(value, Const) else value, order="C")
        if isinstance(value, Const):
            initializers.append(numpy_helper.from_array(array, names[-1]))
        else:
            feeds[names[-1]] = array
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            infos.append(helper.make_tensor_value_info(names[-1], kind, array.shape))
    results = [f"out{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, results, name=f"the_{op}", domain=domain,
                            **{key.rstrip("_"): value for key, value in attributes.items()})
    kept = [name for name in results if name]
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    save(name, [node], initializers, feeds, infos, kept, imports, answers=answers, stated=stated)


def run(model, kept, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(kept, feeds)


def answer(op, inputs, domain="", opset=17, **attributes):
    """What the peer computes for one node."""
    names = [f"in{i}" if value is not None else "" for i, value in enumerate(inputs)]
    feeds = {name: value for name, value in zip(names, inputs) if name}
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in feeds.items()]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "answer", infos, [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    return run(helper.make_model(graph, opset_imports=imports, ir_version=8), ["y"], feeds)[0]


def save(name, nodes, initializers, feeds, infos, kept, imports, ir_version=8, answers=None, stated=None):
    """Writes a model of these nodes, what is fed to it and what ONNX Runtime makes of that (or `answers`)."""
    graph = helper.make_graph(nodes, name, infos,
                              [helper.make_tensor_value_info(name, stated, None) if stated
                               else helper.make_empty_tensor_value_info(name) for name in kept],
                              initializers)
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    values = run(model, kept, feeds) if answers is None else answers
    del graph.output[:]
    for output, value in zip(kept, values):
        graph.output.append(helper.make_tensor_value_info(
            output, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version,
                              producer_name="peer")
    folder = ROOT / f"test_{name}"
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for i, value in enumerate(feeds.values()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    for i, value in enumerate(values):
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
