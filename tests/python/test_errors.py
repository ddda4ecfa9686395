# SPDX-License-Identifier: Apache-2.0
"""One clear error for each wrong use; nothing crashes on hostile input."""
import os
import pickle

import numpy as np
import onnx
import pytest
from conftest import make_mlp, make_pair, model_of, value
from onnx import helper

import pysinter


def refused(call, text, kind=pysinter.UsageError):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value), str(caught.value)
    return caught.value


def test_kinds():
    assert issubclass(pysinter.UsageError, ValueError) and issubclass(pysinter.OutOfMemoryError, MemoryError)
    codes = {kind.code for kind in pysinter.Error.__subclasses__()}
    assert codes == {"usage", "unsupported", "invalid_model", "invalid_plan", "out_of_memory", "device", "internal",
                     "cancelled", "verification"}


def test_wrong_arguments(plan, pair, x):
    refused(lambda: plan(), "input 'x' is missing")
    refused(lambda: plan(x, x), "2 positional inputs given, and the plan takes 1")
    refused(lambda: plan(x, x=x), "input 'x' is given twice")
    refused(lambda: plan(z=x), "'z'")
    refused(lambda: pair(x), "input 'b' is missing")
    assert plan(x).shape == (5, 4)


def test_no_silent_conversion(plan, x):
    error = refused(lambda: plan(x.astype(np.float64)), "x")
    assert "f64" in str(error) or "float64" in str(error)
    refused(lambda: plan(x.astype(np.int32)), "x")
    refused(lambda: plan(x.tolist()), "input 'x' is a list")
    refused(lambda: plan(1.0), "input 'x' is a float")
    refused(lambda: plan(None), "input 'x' is a NoneType")
    refused(lambda: plan("text"), "input 'x' is a str")


def test_types_that_no_tensor_has(plan, x):
    refused(lambda: plan(x.astype(">f4")), "byte order")
    refused(lambda: plan(x.astype(complex)), "no tensor of a plan holds")
    refused(lambda: plan(np.array(["a", "b"])), "no tensor of a plan holds")
    refused(lambda: plan(np.zeros((5, 8), "datetime64[s]")), "no tensor of a plan holds")
    refused(lambda: plan(np.zeros((5, 8), object)), "no tensor of a plan holds")
    refused(lambda: plan(np.zeros((5, 8), [("a", "f4")])), "no tensor of a plan holds")


def test_wrong_shapes(plan, x):
    for wrong in (x[0], x[:, :7], np.zeros((65, 8), np.float32), np.zeros((5, 8, 1), np.float32),
                  np.zeros((0, 8), np.float32), np.float32(1)):
        refused(lambda: plan(wrong), "x")
    assert plan(x).shape == (5, 4)


def test_wrong_out(plan, pair, x):
    refused(lambda: plan(x, out=np.zeros((4, 4), np.float32)), "y")
    refused(lambda: plan(x, out=np.zeros((5, 4), np.float64)), "y")
    refused(lambda: plan(x, out=np.zeros((5, 8), np.float32)[:, ::2]), "not contiguous")
    read_only = np.zeros((5, 4), np.float32)
    read_only.flags.writeable = False
    with pytest.raises((pysinter.UsageError, ValueError), match="read-only"):
        plan(x, out=read_only)
    refused(lambda: plan(x, out={"z": read_only}), "'z'")
    refused(lambda: pair(x[:, :3].copy(), x[:, :3].copy(), out=np.zeros((5, 3), np.float32)), "give a list")
    refused(lambda: plan(x, out=[]), "out has 0 arrays")
    assert plan(x).shape == (5, 4)


def test_liars(plan):
    class Liar:
        def __dlpack__(self, **_):
            return object()

        def __dlpack_device__(self):
            return 1, 0

    class Elsewhere(Liar):
        def __dlpack_device__(self):
            return 2, 0

    class Thrower:
        @property
        def __dlpack__(self):
            raise RuntimeError("no")

    with pytest.raises((ValueError, TypeError)):
        plan(Liar())
    refused(lambda: plan(Elsewhere()), "device memory")
    with pytest.raises((RuntimeError, pysinter.UsageError)):
        plan(Thrower())


def test_bad_plans(plan, tmp_path):
    good = plan.to_bytes()
    for bad in (b"", b"x" * 1000, good[:100], good[: len(good) // 2], good[:-1], good + b"\0",
                bytes(good[:200] + bytes([good[200] ^ 255]) + good[201:])):
        refused(lambda: pysinter.load(bad), "", pysinter.InvalidPlanError)
    refused(lambda: pysinter.load(tmp_path / "absent.plan"), "absent.plan", (pysinter.Error, FileNotFoundError))
    (tmp_path / "text.plan").write_text("no plan")
    refused(lambda: pysinter.load(tmp_path / "text.plan"), "", pysinter.InvalidPlanError)
    with pytest.raises(TypeError):
        pysinter.load(5)


def test_flipped_bytes_never_crash(plan, x):
    good, r = bytearray(plan.to_bytes()), np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(good)
        for _ in range(int(r.integers(1, 4))):
            bad[int(r.integers(len(bad)))] ^= 1 << int(r.integers(8))
        try:
            pysinter.load(bytes(bad))(x)
        except pysinter.Error:
            pass


def test_bad_models(mlp):
    refused(lambda: pysinter.compile(b"no model"), "", pysinter.InvalidModelError)
    refused(lambda: pysinter.compile("/nowhere/model.onnx"), "/nowhere/model.onnx", pysinter.Error)
    refused(lambda: pysinter.compile(5), "the model is a builtins.int")
    refused(lambda: pysinter.compile(mlp, example_inputs=()), "are for torch modules")
    refused(lambda: pysinter.compile(mlp, target="tpu"), "tpu")
    refused(lambda: pysinter.compile(mlp, precision="fp7"), "fp7")
    refused(lambda: pysinter.compile(mlp, dims={"batch": "x"}, target="cpu"), "")
    refused(lambda: pysinter.compile(mlp, dims={"batch": 1.5}), "it takes a number")
    refused(lambda: pysinter.compile(mlp, states="none"), "states is 'none'")
    refused(lambda: pysinter.compile(mlp, serve={"tempo": 1}), "'tempo=1' is not known")
    refused(lambda: pysinter.compile(mlp, verify={"error": 1}), "verify has no 'error'")
    refused(lambda: pysinter.inspect(mlp, "steps"), "views and shapes are for plans")
    with pytest.raises(TypeError):
        pysinter.compile(mlp, presicion="fp16")


def test_refused_node_is_data():
    model = model_of([helper.make_node("Relu", ["x"], ["h"], name="fine"),
                      helper.make_node("NoSuchOperator", ["h"], ["y"], name="strange", domain="com.example")],
                     [value("x", ["batch", 8])], [value("y", ["batch", 8])])
    error = refused(lambda: pysinter.compile(model, target="cpu"), "strange", pysinter.UnsupportedError)
    assert error.code == "unsupported" and error.node == "strange" and "NoSuchOperator" in error.op
    said = [each for each in error.diagnostics if each.severity == "error"]
    assert said and said[-1].node == "strange"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and copy.node == "strange"
    assert copy.diagnostics == error.diagnostics


def test_way_out_is_the_nodes(mlp):
    """Of several refused nodes, what an error says is about one."""
    said = [dict(severity="error", code="unsupported", message=f"no {node}", node=node, op=node.upper(), shapes=[],
                 hint=way) for node, way in (("a", ""), ("b", "write b as c"))]
    error = pysinter._errors.make("unsupported", "no a, no b", "", "", [], said)
    assert (error.node, error.op, error.hint) == ("a", "A", None) and len(error.diagnostics) == 2
    error = pysinter._errors.make("unsupported", "no b", "b", "B", [], said)
    assert (error.node, error.hint) == ("b", "write b as c")
    assert pysinter._errors.make("usage", "no", "", "", [], []).hint is None


def test_names_that_are_not_utf8(x):
    """They are bytes to the compiler, and come with a replacement character; in messages with escapes."""
    def with_bytes(model, *names):
        contents = model.SerializeToString()
        for name in names:
            assert name.encode() in contents
            contents = contents.replace(name.encode(), b"\xff\xfe" + name.encode()[2:])
        return contents

    nodes = [helper.make_node("Relu", ["input_x"], ["h"], name="node_a"),
             helper.make_node("Add", ["h", "h"], ["output_y"], name="node_b")]
    model = model_of(nodes, [value("input_x", [5, 8])], [value("output_y", [5, 8])])
    contents, stages = with_bytes(model, "node_a", "input_x", "output_y"), []
    plan = pysinter.compile(contents, target="cpu", on_diagnostic=stages.append)
    assert plan.inputs[0].name == "\ufffd\ufffdput_x" and plan.outputs[0].name == "\ufffd\ufffdtput_y"
    assert (plan(x) == 2 * np.maximum(x, 0)).all() and "\ufffd" in repr(plan) + plan.graph()
    assert any("\ufffd" in each.producer for each in plan.report.decisions) or plan.report.decisions == ()
    assert pysinter.inspect(contents, target="cpu") and pysinter.inspect(plan, "steps", "graph", "source")
    assert pysinter.verify(contents, target="cpu").ok and pysinter.profile(plan, rounds=1).steps
    refused(lambda: plan(), "\ufffd\ufffdput_x")
    assert pickle.loads(pickle.dumps(plan)).inputs == plan.inputs
    strange = model_of([helper.make_node("NoSuchOperator", ["x"], ["y"], name="strange", domain="com.example")],
                       [value("x", [5, 8])], [value("y", [5, 8])])
    error = refused(lambda: pysinter.compile(with_bytes(strange, "strange"), target="cpu"), r"\xff\xferange",
                    pysinter.UnsupportedError)
    assert error.node == "\ufffd\ufffdrange"


def test_external_data(mlp, tmp_path, x, plan):
    path = tmp_path / "outside.onnx"
    onnx.save_model(make_mlp(), path, save_as_external_data=True, location="weights", size_threshold=0)
    from_file = pysinter.compile(path, target="cpu", dims={"batch": (1, 64)})
    assert from_file(x).tobytes() == plan(x).tobytes()
    proto = onnx.load(path, load_external_data=False)
    refused(lambda: pysinter.compile(proto, target="cpu"), "", pysinter.Error)
    beside = pysinter.compile(proto, external_data=tmp_path, target="cpu", dims={"batch": (1, 64)})
    assert beside(x).tobytes() == plan(x).tobytes()
    assert pysinter.compile(path.read_bytes(), external_data=tmp_path, target="cpu")(x).shape == (5, 4)


def test_replaced_file(plan, tmp_path, x):
    path = tmp_path / "a.plan"
    plan.save(path)
    loaded = pysinter.load(path)
    os.replace(_write(tmp_path / "b.plan", pysinter.compile(make_pair(), target="cpu").to_bytes()), path)
    assert loaded(x).shape == (5, 4)
    refused(lambda: pickle.dumps(loaded), "no longer the file")


def _write(path, contents):
    path.write_bytes(contents)
    return path


def test_gpu_plan_needs_one(mlp):
    try:
        if pysinter.gpus():
            pytest.skip("there is a GPU")
    except pysinter.DeviceError as error:
        assert str(error)
    try:
        made = pysinter.compile(mlp, target="cuda:sm_90", dims={"batch": (1, 64)})
    except (pysinter.DeviceError, pysinter.UnsupportedError):
        pytest.skip("nothing here compiles kernels")
    refused(lambda: made(np.zeros((1, 8), np.float32)), "", pysinter.DeviceError)


def test_a_copied_plan_does_not_need_its_file(plan, x, tmp_path):
    path = tmp_path / "a.plan"
    plan.save(path)
    copied = pysinter.load(path, copy=True)
    os.truncate(path, 0)
    assert copied(x).tobytes() == plan(x).tobytes() and copied.path == str(path)


def test_saving_follows_no_link_and_replaces_no_pipe(plan, tmp_path):
    victim, link, pipe = (tmp_path / name for name in ("victim", "link", "pipe"))
    victim.write_text("mine")
    link.symlink_to(victim)
    plan.save(link)
    assert victim.read_text() == "mine" and not link.is_symlink()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        plan.save(pipe)
        assert os.read(reader, 8) == plan.to_bytes()[:8] and pipe.is_fifo()
    finally:
        os.close(reader)
    refused(lambda: pysinter.load(pipe), "it is a pipe")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "victim"]
