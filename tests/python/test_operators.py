# SPDX-License-Identifier: Apache-2.0
"""Operators of one's own: functions of Python's, and loaders that allow none."""
import gc
import pickle
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import model_of, value
from onnx import helper

import pysinter

KERNEL = """
extern "C" __global__ void row_sum(const types::x* x, types::y* y, long long columns, float bias) {
  float sum = bias;
  for (long long c = 0; c < columns; ++c) sum += widen(x[blockIdx.x * columns + c]);
  y[blockIdx.x] = narrow<types::y>(sum);
}
"""
CUDA = {"source": KERNEL, "kernel": [{"function": "row_sum", "grid": ["x[0]"], "block": [1],
                                      "arguments": ["x", "y", "x[1]", "f32(bias)"]}]}


def model(op="RowSum", inputs=("x",), shape=("n", 3), out=("n",), **attributes):
    node = helper.make_node(op, list(inputs), ["s"], domain="test", **attributes)
    return model_of([node, helper.make_node("Neg", ["s"], ["y"])], [value(name, list(shape)) for name in inputs],
                    [value("y", list(out))])


@pysinter.custom_op("test::RowSum", outputs={"y": {"shape": ["x[0]"]}}, cuda=CUDA)
def row_sum(x, *, bias=0.5):
    """Sums of rows."""
    return x.sum(axis=1) + np.float32(bias)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_function_computes_the_operator():
    plan = pysinter.compile(model(bias=2.0), target="cpu", operators=[row_sum])
    assert plan.custom_code == plan.host_operators == ("test::RowSum",)
    np.testing.assert_array_equal(plan(X), [-5, -14])
    np.testing.assert_array_equal(pysinter.compile(model(), target="cpu", operators=[row_sum])(X), [-3.5, -12.5])
    np.testing.assert_array_equal(row_sum(X), [3.5, 12.5])
    assert row_sum.__doc__ == "Sums of rows." and "test::RowSum" in repr(row_sum)


def test_a_plan_of_a_file_finds_it(tmp_path):
    path = tmp_path / "a.plan"
    pysinter.compile(model(), path, target="cpu", operators=[row_sum])
    np.testing.assert_array_equal(pysinter.load(path)(X), [-3.5, -12.5])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pysinter.load(path)))(X), [-3.5, -12.5])
    # Another process has no such function.
    code = f"import pysinter, numpy; pysinter.load({str(path)!r})(numpy.zeros((1, 3), 'f4'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "'test::RowSum' (of 'the Python function row_sum')" in done.stderr
    with pytest.raises(pysinter.InvalidPlanError, match="'test::RowSum', and custom code is not allowed"):
        pysinter.load(path, allow_custom_code=False)
    with pytest.raises(pysinter.InvalidPlanError, match="custom code is not allowed"):
        pysinter.load(path.read_bytes(), allow_custom_code=False)
    with pytest.raises(pysinter.UsageError, match="/nowhere.so' cannot be opened"):
        pysinter.load(path, operator_libraries=["/nowhere.so"])
    with pytest.raises(pysinter.UsageError, match="a list of paths"):
        pysinter.load(path, operator_libraries="/nowhere.so")


def test_a_shared_library_computes_it(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    root, library = Path(__file__).parents[2], tmp_path / "operators.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-I", root / "runtime/include",
                    root / "tests/runtime/operators/library.c", "-o", library], check=True)
    (tmp_path / "ops.toml").write_text("""
        [[operator]]
        domain = "test"
        name = "Copy"
        inputs = ["x"]
        [[operator.output]]
        name = "y"
        [operator.host]
    """)
    made = model("Copy", out=("n", 3))
    plan = pysinter.compile(made, tmp_path / "a.plan", target="cpu", operators=[tmp_path / "ops.toml"],
                          operator_libraries=[library])
    np.testing.assert_array_equal(plan(X), -X)
    plan = pysinter.load(tmp_path / "a.plan", operator_libraries=[library])
    assert plan.host_operators == ("test::Copy",)
    np.testing.assert_array_equal(plan(X), -X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(plan))(X), -X)
    with pytest.raises(pysinter.UsageError, match="'test::Copy'"):
        pysinter.load(tmp_path / "a.plan")(X)


def test_several_inputs_outputs_and_kinds_of_attributes():
    @pysinter.custom_op("test::Split", outputs={"low": {"type": "i32", "shape": "a"}, "high": {}})
    def split(a, b, *, limit: float, shift=1):
        return np.minimum(a, limit).astype(np.int32) + shift, np.maximum(a, b)

    node = helper.make_node("Split", ["a", "b"], ["low", "high"], domain="test", limit=2.5)
    made = model_of([node], [value("a", ["n"]), value("b", ["n"])],
                    [value("low", ["n"], onnx.TensorProto.INT32), value("high", ["n"])])
    low, high = pysinter.compile(made, target="cpu", operators=[split])(X[0], X[0][::-1].copy())
    np.testing.assert_array_equal(low, [1, 2, 3])
    np.testing.assert_array_equal(high, [2, 1, 2])
    assert low.dtype == np.int32


def failing(function):
    op = pysinter.custom_op("test::RowSum", outputs={"y": {"shape": ["x[0]"]}})(function)
    try:
        return pysinter.compile(model(), target="cpu", operators=[op])
    finally:
        pysinter.custom_op("test::RowSum", outputs={"y": {"shape": ["x[0]"]}}, cuda=CUDA)(row_sum.function)


@pytest.mark.parametrize("result, message", [
    (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
    (lambda x: x, r"result 0 is float32\[2, 3\], and the plan has float32\[2\] for it"),
    (lambda x: x.sum(axis=1).astype("f8"), r"result 0 is float64\[2\]"),
    (lambda x: (x[0], x[1]), "it returned 2 arrays, and the plan has 1 outputs"),
    (lambda x: "text", "result 0"),
    (lambda x: None, "result 0"),
])
def test_what_it_does_wrong_is_an_error(result, message):
    plan = failing(lambda x: result(x))
    with pytest.raises(pysinter.DeviceError, match=message) as error:
        plan(X)
    assert "test::RowSum" in str(error.value)


def test_its_arrays_are_its_own():
    kept = []

    def keep(x):
        kept.append(x)
        return x.sum(axis=1)

    plan = failing(keep)
    plan(X)
    plan(X + 1)
    np.testing.assert_array_equal(kept[0], X)
    kept[0][:] = 9
    np.testing.assert_array_equal(kept[1], X + 1)


def test_a_function_goes_with_its_last_plan():
    class Sum:
        def __call__(self, x):
            return x.sum(axis=1)

    function = Sum()
    function.__qualname__ = "Sum"
    gone = weakref.ref(function)
    plan = failing(function)
    del function
    assert gone() is not None
    np.testing.assert_array_equal(plan(X), [-3, -12])
    del plan
    gc.collect()
    assert gone() is None


def test_verify_compares_it_with_its_reference(tmp_path):
    reference = model_of([helper.make_node("Mul", ["x", "x"], ["y"])], [value("x", ["n", 3])], [value("y", ["n", 3])])
    onnx.save(reference, tmp_path / "square.onnx")

    @pysinter.custom_op("test::Square", reference=tmp_path / "square.onnx")
    def square(x):
        return x * x

    made = model("Square", out=("n", 3))
    assert pysinter.verify(made, target="cpu", operators=[square], shapes={"x": (4, 3)}).outputs[0].ok
    plan = pysinter.compile(made, target="cpu", operators=[square], verify={"shapes": {"x": (4, 3)}})
    assert plan.report.accuracy.outputs[0].relative_error < 1e-6

    @pysinter.custom_op("test::Square", reference=tmp_path / "square.onnx")
    def cube(x):
        return x * x * x

    assert not pysinter.verify(made, target="cpu", operators=[cube], shapes={"x": (4, 3)}).outputs[0].ok


def test_definitions_that_make_no_sense():
    with pytest.raises(pysinter.UsageError, match="domain and name"):
        pysinter.custom_op("RowSum")
    with pytest.raises(pysinter.UsageError, match=r"\*inputs is no input"):
        pysinter.custom_op("test::A")(lambda *inputs: inputs)
    with pytest.raises(pysinter.UsageError, match="attribute 'a' has neither"):
        pysinter.custom_op("test::A")(lambda x, *, a: x)
    with pytest.raises(pysinter.UsageError, match="attribute 'a' is 'text'"):
        pysinter.custom_op("test::A")(lambda x, *, a="text": x)
    with pytest.raises(pysinter.UsageError, match="a list of files"):
        pysinter.compile(model(), target="cpu", operators="ops.toml")


@pytest.mark.parametrize("target", ["cuda:sm_90"])
def test_a_gpu_runs_its_kernels(target, tmp_path):
    try:
        pysinter.compile(model(), tmp_path / "a.plan", target=target, operators=[row_sum])
    except pysinter.Error as error:
        if "NVRTC" not in str(error) and "CPU-only" not in str(error):
            raise
        pytest.skip(f"no kernels are compiled here: {error}")
    code = f"import pysinter; print(*pysinter.load({str(tmp_path / 'a.plan')!r}).custom_code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["test::RowSum"]  # the text is in the plan: no function is needed
    plan = pysinter.load(tmp_path / "a.plan")
    assert plan.custom_code == ("test::RowSum",) and plan.host_operators == ()
    with pytest.raises(pysinter.InvalidPlanError, match="custom code is not allowed"):
        pysinter.load(tmp_path / "a.plan", allow_custom_code=False)
    try:
        pysinter.gpus()
    except pysinter.DeviceError:
        return
    np.testing.assert_allclose(plan(X), [-3.5, -12.5])


def test_a_cubin_that_is_missing_is_named():
    op = pysinter.CustomOp("test::RowSum", row_sum.function, {"y": {"shape": ["x[0]"]}}, None,
                         {"cubin": {"sm_90": Path("nowhere.cubin")}, "kernel": CUDA["kernel"]})
    with pytest.raises(pysinter.UsageError, match="nowhere.cubin"):
        pysinter.compile(model(), target="cpu", operators=[op])
