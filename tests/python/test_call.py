# SPDX-License-Identifier: Apache-2.0
"""What a plan takes and returns."""
import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import OnlyDlpack, dltensor, make_typed
from onnx import TensorProto

import pysinter


def test_position_and_name_give_the_same(plan, reference, x):
    by_position, by_name = plan(x), plan(x=x)
    assert isinstance(by_position, np.ndarray) and by_position.dtype == np.float32
    assert by_position.shape == (5, 4)
    assert by_position.tobytes() == by_name.tobytes()
    np.testing.assert_allclose(by_position, reference(x), rtol=1e-5, atol=1e-5)


def test_several_outputs_are_a_tuple_with_names(pair):
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 3, np.float32)
    total, difference = pair(a, b)
    assert (total == 8).all() and (difference == 2).all()
    outputs = pair(b=b, a=a)
    assert isinstance(outputs, pysinter.Outputs) and isinstance(outputs, tuple)
    assert outputs.names == ("sum", "difference")
    assert (outputs["difference"] == 2).all() and outputs["sum"] is outputs[0]
    assert list(dict(outputs)) == ["sum", "difference"]
    with pytest.raises(KeyError, match="no output 'product': there are sum, difference"):
        outputs["product"]


def test_positions_and_names_mix(pair):
    a, b = np.full((1, 3), 5, np.float32), np.full((1, 3), 3, np.float32)
    assert (pair(a, b=b)["difference"] == 2).all()


def test_results_are_the_callers(plan, x):
    first = plan(x)
    kept = first.copy()
    second = plan(-x)
    assert (first == kept).all() and not np.shares_memory(first, second)
    first[...] = 0  # writable
    assert first.flags.owndata or first.base is not None


def test_shapes_vary_from_call_to_call(plan, reference):
    r = np.random.default_rng(2)
    for batch in (1, 64, 3, 64, 1, 17, 3):
        x = r.standard_normal((batch, 8), np.float32)
        np.testing.assert_allclose(plan(x), reference(x), rtol=1e-5, atol=1e-5)


def test_strided_input_is_copied(plan, x):
    dense = plan(x)
    for strided in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1].copy()[::-1]):
        assert not strided.flags.c_contiguous
        assert plan(strided).tobytes() == dense.tobytes()


def test_unaligned_and_read_only_inputs(plan, x):
    memory = bytearray(x.nbytes + 1)
    unaligned = np.frombuffer(memory, np.uint8)[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    assert not unaligned.flags.aligned
    read_only = x.copy()
    read_only.flags.writeable = False
    assert plan(unaligned).tobytes() == plan(read_only).tobytes() == plan(x).tobytes()


def test_buffers_are_taken(plan, x):
    array = (ctypes.c_float * 8 * 5).from_buffer_copy(x.tobytes())
    assert plan(memoryview(x)).tobytes() == plan(array).tobytes() == plan(x).tobytes()


def test_dlpack_is_taken(plan, x):
    assert plan(OnlyDlpack(x)).tobytes() == plan(x).tobytes()
    assert plan(OnlyDlpack(np.asfortranarray(x))).tobytes() == plan(x).tobytes()


class Moved(OnlyDlpack):
    """Says that its memory begins some bytes behind where it does, as views of other libraries do."""

    def __dlpack__(self, **_):
        capsule = self._array.__dlpack__()
        dltensor(capsule).byte_offset += 1
        return capsule


def test_unaligned_dlpack_is_copied(plan, x):
    memory = np.zeros(x.nbytes + 4, np.uint8)
    memory[1:x.nbytes + 1] = x.view(np.uint8).ravel()
    assert plan(Moved(memory[:x.nbytes].view(np.float32).reshape(x.shape))).tobytes() == plan(x).tobytes()


# Libraries with arrays in GPU memory, as far as a call looks at them before it needs a GPU.
GPU_LIBRARIES = """
import sys, types
import numpy as np
import pysinter
sys.path.insert(0, sys.argv[2])
from conftest import dltensor

class OnGpu:
    requires_grad = False
    def __init__(self):
        self.array = np.zeros((2, 3), np.float32)
    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__()
        dltensor(capsule).device_type = 2
        return capsule

class Tensor(OnGpu): pass
class ndarray(OnGpu): pass

def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(members)
    return made

plan = pysinter.load(sys.argv[1])
module("cupy", ndarray=ndarray)
dlpack = module("torch.utils.dlpack", to_dlpack=Tensor.__dlpack__, from_dlpack=None)
utils = module("torch.utils", dlpack=dlpack)
module("torch", Tensor=Tensor, utils=utils, empty=None, contiguous_format=None, _C=object())
host = np.zeros((2, 3), np.float32)
for inputs in ((Tensor(), ndarray()), (ndarray(), Tensor()), (Tensor(), Tensor()), (host, ndarray())):
    try:
        plan(*inputs)
    except pysinter.UsageError as error:
        print(error)
"""


def test_gpu_arrays_are_of_one_library(pair, tmp_path):
    pair.save(tmp_path / "pair.plan")
    done = subprocess.run([sys.executable, "-c", GPU_LIBRARIES, tmp_path / "pair.plan", os.path.dirname(__file__)],
                          capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert len(said) == 4, done.stderr
    assert all("of torch and of CuPy" in each for each in said[:2])
    assert all("is in GPU memory, and the plan is for the CPU" in each for each in said[2:])


def test_out_is_written_and_returned(plan, pair, x):
    out = np.zeros((5, 4), np.float32)
    assert plan(x, out=out) is out
    assert out.tobytes() == plan(x).tobytes()
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 3, np.float32)
    total = np.zeros((2, 3), np.float32)
    outputs = pair(a, b, out={"sum": total})
    assert outputs["sum"] is total and (total == 8).all() and (outputs["difference"] == 2).all()
    outputs = pair(a, b, out=[None, total])
    assert outputs[1] is total and (total == 2).all() and (outputs[0] == 8).all()
    assert plan(x).tobytes() == out.tobytes()  # later calls leave it alone
    out[...] = 7
    plan(x)
    assert (out == 7).all()


def test_out_in_a_sequence_or_dict(plan, x):
    """A plan with one output returns that, whatever `out` is."""
    expected, out = plan(x).tobytes(), np.zeros((5, 4), np.float32)
    for given in ([out], (out,), {"y": out}):
        out[...] = 0
        assert plan(x, out=given) is out and out.tobytes() == expected
    for given in ([None], {"y": None}, {}, None):
        assert plan(x, out=given).tobytes() == expected
    session = plan.session()
    assert session.run(x, out=[out]) is out and session.run(x, out={}).tobytes() == expected


def test_out_that_overlaps_is_refused(pair):
    square = pysinter.compile(make_typed(TensorProto.FLOAT), target="cpu")
    memory = np.arange(12, dtype=np.float32).reshape(3, 4)
    for given, out in ((memory[:2], memory[:2]), (memory[:2], memory[1:])):
        with pytest.raises(pysinter.UsageError, match="out for 'y' overlaps with input 'x'"):
            square(given, out=out)
        with pytest.raises(pysinter.UsageError, match="overlaps"):
            square.session().run(given, out=out)
    assert (memory.ravel() == np.arange(12)).all()
    assert (square(memory[:1], out=memory[1:2]) == 2 * memory[:1]).all()  # side by side
    a, rows = np.ones((2, 3), np.float32), np.zeros((3, 3), np.float32)
    for out in ([rows[:2], rows[:2]], {"difference": rows[:2], "sum": rows[1:]}):
        with pytest.raises(pysinter.UsageError, match="out for .* overlaps with out for"):
            pair(a, a, out=out)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64"])
def test_types(name):
    plan = pysinter.compile(make_typed(getattr(TensorProto, {"float64": "DOUBLE", "float32": "FLOAT"}.get(
        name, name.upper()))), target="cpu")
    x = np.arange(8).reshape(2, 4).astype(name)
    for _ in range(2):  # the shapes of results are known from the second call
        y = plan(x)
        assert y.dtype == x.dtype and (y == x + x).all()


def test_bfloat16():
    import ml_dtypes
    plan = pysinter.compile(make_typed(TensorProto.BFLOAT16), target="cpu")
    x = np.arange(8).reshape(2, 4).astype(ml_dtypes.bfloat16)
    for _ in range(2):
        y = plan(x)
        assert y.dtype == x.dtype and (y.astype(np.float32) == 2 * x.astype(np.float32)).all()
    out = np.zeros_like(x)
    assert plan(x, out=out) is out and (out.astype(np.float32) == y.astype(np.float32)).all()
    assert "bfloat16" in repr(plan)


def test_description(plan):
    (x,) = plan.inputs
    assert (x.name, x.dtype, x.is_state) == ("x", "float32", False)
    assert [(d.text, d.min, d.max) for d in x.shape] == [("batch", 1, 64), ("8", 8, 8)]
    assert plan.outputs[0].name == "y" and plan.states == () and plan.entries == ()
    assert plan.target == "cpu" and plan.path is None and plan.architectures == ()
    assert "x: float32[batch, 8]" in repr(plan) and "y: float32[batch, 4]" in repr(plan)
    assert plan.metadata["model_name"].startswith("mlp") and plan.metadata["steps"] > 0
    assert "graph" in plan.graph()
    assert repr(plan.graph()) == plan.graph() and plan.graph()._repr_html_().startswith("<pre>graph")
    html = plan._repr_html_()
    assert "<table>" in html and "float32" in html and "1 to 64" in html
