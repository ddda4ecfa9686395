# SPDX-License-Identifier: Apache-2.0
"""Models of two bodies, between which an input of one bool chooses: merged decoders."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pysinter


def merged(flag_shape=(1,), second=False):
    """Attention's cache in small: with `use_cache` what is new is put behind `past`, which is given back;
    without it `past` is not looked at. As Optimum merges decoders."""
    weight = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) / 10, "w")

    def body(name, nodes):
        outputs = [helper.make_tensor_value_info(f"{name}_{each}", TensorProto.FLOAT, None) for each in ("y", "present")]
        return helper.make_graph(nodes, name, [], outputs)

    first = body("first", [helper.make_node("Relu", ["x"], ["first_present"]),
                           helper.make_node("MatMul", ["first_present", "w"], ["first_y"])])
    later = body("later", [helper.make_node("Relu", ["x"], ["new"]),
                           helper.make_node("Concat", ["past", "new"], ["later_present"], axis=1),
                           helper.make_node("ReduceMean", ["later_present"], ["mean"], axes=[1], keepdims=1),
                           helper.make_node("Add", ["new", "mean"], ["sum"]),
                           helper.make_node("MatMul", ["sum", "w"], ["later_y"])])
    nodes = [helper.make_node("If", ["use_cache"], ["y", "present"], name="choose", then_branch=later, else_branch=first)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "new", 4]),
              helper.make_tensor_value_info("past", TensorProto.FLOAT, ["batch", "past", 4]),
              helper.make_tensor_value_info("use_cache", TensorProto.BOOL, flag_shape)]
    outputs = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in ("y", "present")]
    if second:
        other = [helper.make_graph([helper.make_node("Relu", [source], [f"z{i}"])], f"g{i}", [],
                                   [helper.make_tensor_value_info(f"z{i}", TensorProto.FLOAT, None)])
                 for i, source in enumerate(("x", "past"))]
        nodes.append(helper.make_node("If", ["other"], ["z"], name="again", then_branch=other[0], else_branch=other[1]))
        inputs.append(helper.make_tensor_value_info("other", TensorProto.BOOL, [1]))
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "merged", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("flag_shape", [(1,), ()])
def test_each_run_takes_the_body_that_its_input_says(flag_shape):
    model = merged(flag_shape)
    peer = onnxruntime.InferenceSession(model.SerializeToString())
    plan = pysinter.compile(model, target="cpu")
    assert [entry.name for entry in plan.entries] == ["use_cache=false", "use_cache=true"]
    session = plan.session()
    random = np.random.default_rng(3)
    for batch, lengths in ((1, (3, 1, 1)), (2, (1, 2)), (3, (5, 1)), (1, (1, 1, 1, 1)), (2, (4, 3))):
        past = np.zeros((batch, 0, 4), np.float32)
        for step, length in enumerate(lengths):
            feeds = {"x": random.standard_normal((batch, length, 4), np.float32), "past": past,
                     "use_cache": np.full(flag_shape, step > 0)}
            wanted = dict(zip(("y", "present"), peer.run(None, feeds)))
            found = session.run(**feeds)
            for name in wanted:
                np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)
            past = wanted["present"]


def test_one_body_alone():
    plan = pysinter.compile(merged(), target="cpu", dims={"use_cache": 1})
    assert not plan.entries
    x = np.ones((1, 1, 4), np.float32)
    found = plan.session().run(x=x, past=x, use_cache=np.array([False]))
    assert found["present"].shape == (1, 2, 4)
    with pytest.raises(pysinter.Error, match="use_cache=0 or use_cache=1"):
        pysinter.compile(merged(), target="cpu", dims={"use_cache": (0, 1)})


def test_two_such_inputs_are_refused_by_name():
    with pytest.raises(pysinter.Error, match="inputs 'use_cache' and 'other'.*constants other=FILE"):
        pysinter.compile(merged(second=True), target="cpu")


def test_both_bodies_are_verified():
    plan = pysinter.compile(merged(), target="cpu", verify=True)
    assert set(plan.metadata["measured_errors"]) == {"y", "present"}
