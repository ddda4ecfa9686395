# SPDX-License-Identifier: Apache-2.0
"""pysinter.compile and its relatives: options, reports, and the command line's own bits."""
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from conftest import SINTER, OnlyDlpack, make_mlp, model_of, value
from onnx import helper

import pysinter


def cli(*words, **options):
    return subprocess.run([str(SINTER), *map(str, words)], capture_output=True, text=True, timeout=120, **options)


def test_same_plan_and_bits_as_the_command_line(mlp, x, tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(mlp, model)
    done = cli("compile", model, "-o", tmp_path / "cli.plan", "--target=cpu", "--dim", "batch=1..64", "--quiet")
    assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "in.npz", x=x)
    assert cli("run", tmp_path / "cli.plan", "--inputs", tmp_path / "in.npz", "--outputs",
               tmp_path / "out.npz").returncode == 0
    expected = np.load(tmp_path / "out.npz")["y"]
    ours = pysinter.compile(model, tmp_path / "ours.plan", target="cpu", dims={"batch": (1, 64)})
    assert (tmp_path / "ours.plan").read_bytes() == (tmp_path / "cli.plan").read_bytes()
    assert ours.path == str(tmp_path / "ours.plan")
    assert ours(x).tobytes() == expected.tobytes()
    assert pysinter.load(tmp_path / "cli.plan")(x).tobytes() == expected.tobytes()


def test_minilm_is_the_command_lines_bit_by_bit(minilm, tmp_path):
    model, _ = minilm
    r = np.random.default_rng(0)
    feeds = {"input_ids": r.integers(1000, 20000, (2, 16)), "attention_mask": np.ones((2, 16), np.int64),
             "token_type_ids": np.zeros((2, 16), np.int64)}
    assert cli("compile", model, "-o", tmp_path / "cli.plan", "--target=cpu", "--quiet").returncode == 0
    np.savez(tmp_path / "in.npz", **feeds)
    assert cli("run", tmp_path / "cli.plan", "--inputs", tmp_path / "in.npz", "--outputs",
               tmp_path / "out.npz").returncode == 0
    with np.load(tmp_path / "out.npz") as expected:
        plan = pysinter.compile(str(model), target="cpu")
        found = plan(**feeds)
        by_name = dict(found) if isinstance(found, pysinter.Outputs) else {plan.outputs[0].name: found}
        assert set(by_name) == set(expected)
        for name in by_name:
            assert by_name[name].tobytes() == expected[name].tobytes()


def test_every_source_gives_the_same(mlp, plan, x, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(mlp, path)
    contents = path.read_bytes()
    for source in (str(path), path, contents, bytearray(contents), memoryview(contents), mlp):
        assert pysinter.compile(source, target="cpu", dims={"batch": (1, 64)})(x).tobytes() == plan(x).tobytes()


def test_save_and_load(plan, x, tmp_path):
    plan.save(tmp_path / "a.plan")
    assert os.listdir(tmp_path) == ["a.plan"]
    for source in (tmp_path / "a.plan", str(tmp_path / "a.plan"), plan.to_bytes(), bytearray(plan.to_bytes()),
                   memoryview(plan)):
        loaded = pysinter.load(source)
        assert loaded(x).tobytes() == plan(x).tobytes()
        assert loaded.to_bytes() == plan.to_bytes()


def test_dims(mlp):
    shape = lambda dims: pysinter.compile(mlp, target="cpu", dims=dims).inputs[0].shape[0]
    assert (shape({"batch": 8}).min, shape({"batch": 8}).max) == (8, 8)
    for dims in ({"batch": (2, 32)}, {"batch": range(2, 33)}, {"batch": "2..32"}):
        assert (shape(dims).min, shape(dims).max) == (2, 32)
    assert shape({"batch": (4, 32, 4)}).max == 32
    assert shape({"batch": np.int64(8)}).max == 8 and shape({"batch": (np.int32(2), np.uint8(32))}).max == 32
    for wrong in ((1.5, 3), 1.5, np.float32(2), (1, 2, 3, 4), (), None):
        with pytest.raises(pysinter.UsageError, match="it takes a number"):
            pysinter.compile(mlp, target="cpu", dims={"batch": wrong})
    with pytest.raises(pysinter.UsageError, match="whole numbers"):
        pysinter.compile(mlp, target="cpu", max_shapes={"x": (2.5, 8)})


def test_options(mlp, x, reference):
    unfused = pysinter.compile(mlp, target="cpu", fuse=False)
    assert unfused.metadata["steps"] > pysinter.compile(mlp, target="cpu").metadata["steps"]
    np.testing.assert_allclose(unfused(x), reference(x), rtol=1e-5, atol=1e-5)
    half = pysinter.compile(mlp, target="cpu", precision="fp16")
    assert half.report.precision_notes and half.metadata["precision_notes"]
    np.testing.assert_allclose(half(x).astype(np.float32), reference(x), rtol=0.05, atol=0.05)
    fixed = pysinter.compile(mlp, target="cpu", min_shapes={"x": (5, 8)}, max_shapes={"x": (5, 8)})
    assert fixed(x).shape == (5, 4)
    constant = pysinter.compile(mlp, target="cpu", constants={"x": x})
    assert constant.inputs == ()
    np.testing.assert_allclose(constant(), reference(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["strided", "fortran", "dlpack"])
def test_constants_that_are_copied(kind):
    """The copy must live as long as the compiler reads it: of 40 MB, whose memory is gone at once when it is freed."""
    wide = np.random.default_rng(5).standard_normal((2560, 4096), np.float32)
    given = {"strided": np.repeat(wide, 2, axis=1)[:, ::2], "fortran": np.asfortranarray(wide),
             "dlpack": OnlyDlpack(np.asfortranarray(wide))}[kind]
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [4096]), value("w", [2560, 4096])],
                     [value("y", [2560, 4096])])
    plan = pysinter.compile(model, target="cpu", constants={"w": given})
    assert [each.name for each in plan.inputs] == ["x"]
    assert (plan(np.zeros(4096, np.float32)) == wide).all()
    accuracy = pysinter.verify(model, target="cpu", inputs={"x": np.zeros(4096, np.float32), "w": given})
    assert accuracy.ok and accuracy.source == "given tensors"


def test_entries(mlp, x):
    plan = pysinter.compile(mlp, target="cpu", entries={"one": {"batch": 1}, "many": {"batch": (2, 64)}})
    assert [entry.name for entry in plan.entries] == ["one", "many"]
    assert plan(x[:1]).shape == (1, 4) and plan(x).shape == (5, 4)


def test_report(mlp):
    said, stages = [], []
    plan = pysinter.compile(mlp, target="cpu", progress=lambda *each: stages.append(each), on_diagnostic=said.append)
    assert plan.report.ok and plan.report.target == "cpu" and plan.report.steps == plan.metadata["steps"]
    assert plan.report.passes and plan.diagnostics == tuple(said)
    assert f"{plan.report.plan_bytes:,} bytes" in plan.report._repr_html_()
    assert {"import", "passes"} <= {stage for stage, _, _ in stages}
    assert all(0 <= done <= total for _, done, total in stages)


def test_callback_ends_the_call(mlp):
    def stop(stage, done, total):
        raise KeyError("enough")
    with pytest.raises(KeyError, match="enough"):
        pysinter.compile(mlp, target="cpu", progress=stop)


def test_verify(mlp):
    accuracy = pysinter.verify(mlp, target="cpu", shapes={"x": (3, 8)}, runs=2)
    assert accuracy.ok and accuracy.same_bits and accuracy.outputs[0].output == "y"
    assert "<table>" in accuracy._repr_html_() and "x [3, 8]" in accuracy._repr_html_()
    plan = pysinter.compile(mlp, target="cpu", verify={"shapes": {"x": (3, 8)}})
    assert plan.metadata["measured_errors"]["y"] == plan.report.accuracy.outputs[0].relative_error
    for asked in ({}, True):
        assert pysinter.compile(mlp, target="cpu", verify=asked).report.accuracy.ok
    for asked in (None, False):
        assert pysinter.compile(mlp, target="cpu", verify=asked).report.accuracy is None
    with pytest.raises(pysinter.VerificationError, match="max_error") as caught:
        pysinter.compile(mlp, target="cpu", precision="fp16", verify={"max_error": 1e-9})
    assert not caught.value.report.ok and caught.value.code == "verification"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is pysinter.VerificationError and str(copy) == str(caught.value)
    assert copy.report == caught.value.report and copy.hint == caught.value.hint


def test_results_that_differ_from_run_to_run(mlp, monkeypatch):
    """No model of ours does that: the compiler's report is changed."""
    made = pysinter._core.compile

    def differing(*arguments):
        _, report = made(*arguments)
        report["ok"] = report["accuracy"]["ok"] = report["accuracy"]["same_bits"] = False
        return None, report

    monkeypatch.setattr(pysinter._core, "compile", differing)
    with pytest.raises(pysinter.VerificationError, match="differ from run to run") as caught:
        pysinter.compile(mlp, target="cpu", verify={"runs": 2})
    assert "is off by" not in str(caught.value) and not caught.value.report.accuracy.same_bits


def test_compare(mlp):
    report = pysinter.compare(mlp, target="cpu", shapes={"x": (3, 8)}, rounds=3, seconds=0.5)
    assert len(report.variants) >= 2 and report.variants[0].speed_up == 1
    assert report.difference < 1e-4 and report.variants[0].compute.count >= 1
    assert all(each.name in report._repr_html_() for each in report.variants)


def test_profile(plan, tmp_path):
    report = pysinter.profile(plan, shapes={"x": (3, 8)}, rounds=2)
    assert report.steps and report.steps[0].bound in ("memory", "compute", "launch")
    assert report.rates.copy_bytes_per_second > 0 and "<table>" in report._repr_html_()


def test_why_and_inspect(mlp, plan):
    answer = pysinter.why(mlp, "bias", "tanh", target="cpu")
    assert json.loads(repr(answer)) == answer and "\n" in repr(answer) and "tanh" in answer._repr_html_()
    assert pysinter.inspect(mlp)
    assert pysinter.inspect(plan) and pysinter.inspect(plan, "steps", "graph", shapes={"x": (3, 8)})
    with pytest.raises(pysinter.UsageError, match="no view 'nodes'"):
        pysinter.inspect(plan, "nodes")
    with pytest.raises(pysinter.UsageError, match="nobody"):
        pysinter.why(mlp, "bias", "nobody", target="cpu")


def test_compiles_from_several_threads(mlp, x, plan):
    found = []
    threads = [threading.Thread(target=lambda: found.append(
        pysinter.compile(mlp, target="cpu", dims={"batch": (1, 64)})(x).tobytes())) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [plan(x).tobytes()] * 4


SLOW = """
import signal, sys, time, pysinter
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path.insert(0, {folder!r})
from test_compile import slow_model
model = slow_model()
print("begun", flush=True)

def progress(*_):
    print("at work", flush=True)
    time.sleep(0.05)  # on a busy machine the signal comes late

try:
    pysinter.compile(model, target="cpu", progress=progress)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def slow_model():
    """Several thousand nodes that the passes take a while for."""
    nodes = [helper.make_node("Sin" if i % 3 else "Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"], name=f"n{i}")
             for i in range(20000)]
    return model_of(nodes, [value("x", [4])], [value("v20000", [4])])


def test_ctrl_c_ends_a_compile():
    process = subprocess.Popen([sys.executable, "-c", SLOW.format(folder=os.path.dirname(__file__))],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 7 and output.endswith("interrupted\n")


def test_command_line(mlp, tmp_path):
    version = cli("--version")
    assert version.returncode == 0 and pysinter.__version__ in version.stdout
    assert subprocess.run([sys.executable, "-m", "pysinter", "--version"], capture_output=True).returncode == 0
    assert cli("no-such-verb").returncode == 2
    assert cli("compile", tmp_path / "absent.onnx", "-o", tmp_path / "a.plan").returncode in (2, 4)
    (tmp_path / "bad.plan").write_bytes(b"bad")
    assert cli("inspect", tmp_path / "bad.plan").returncode != 0
    onnx.save(mlp, tmp_path / "m.onnx")
    done = cli("compile", tmp_path / "m.onnx", "-o", tmp_path / "a.plan", "--target=cpu", "--json", "--quiet")
    assert done.returncode == 0 and json.loads(done.stdout)


def test_ctrl_c_ends_the_command(tmp_path):
    onnx.save(make_mlp(), tmp_path / "m.onnx")
    assert cli("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.plan", "--target=cpu", "--quiet").returncode == 0
    process = subprocess.Popen([str(SINTER), "bench", str(tmp_path / "m.plan"), "--shapes=x:4x8", "--duration=60",
                                "--iterations=1000000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (-signal.SIGINT, 130)


def test_operands_of_eight_bits(mlp, x, reference):
    samples = {"x": np.stack([x, -x, 2 * x])}
    plan = pysinter.compile(mlp, target="cpu", precision="int8", calibration=samples, max_error=0.2)
    assert any(layer.type for layer in plan.report.layers)
    assert 0 < np.abs(np.asarray(plan(x)) - reference(x)).max() < 0.2 * np.abs(reference(x)).max()
    token = pysinter.compile(mlp, target="cpu", precision="int8", activation_scales="token")
    assert any("each token" in layer.type for layer in token.report.layers)
    with pytest.raises(pysinter.UsageError, match="calibration"):
        pysinter.compile(mlp, target="cpu", precision="int8")
    with pytest.raises(pysinter.UsageError, match="static, token or block"):
        pysinter.compile(mlp, target="cpu", precision="int8", activation_scales="row")


def test_other_weights_are_those_of_the_compiled_model(x):
    old, new = make_mlp(seed=0), make_mlp(seed=1)
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in new.graph.initializer}
    plan = pysinter.compile(old, target="cpu")
    assert plan(x).tobytes() != pysinter.compile(new, target="cpu")(x).tobytes()
    assert plan.with_weights(weights)(x).tobytes() == pysinter.compile(new, target="cpu")(x).tobytes()
    session = plan.session()
    before = session.run(x).tobytes()
    session.set_weights(plan.with_weights(weights))
    assert session.run(x).tobytes() == plan.with_weights(weights)(x).tobytes() != before
    session.set_weights(plan)
    with pytest.raises(pysinter.UsageError, match="other"):
        session.set_weights(pysinter.compile(new, target="cpu", weights="int8"))
    assert {each["name"] for each in plan.refittable()["tensors"]} == set(weights)
    name = next(iter(weights))
    with pytest.raises(pysinter.UsageError, match=name):
        plan.with_weights({other: array for other, array in weights.items() if other != name})
    with pytest.raises(pysinter.UsageError, match="nothing"):
        plan.with_weights({"nothing": x})


def test_options_are_the_compilers_rows(mlp):
    """Signature, text and refusals come from the table that the command line has, too."""
    rows = json.loads(cli("help", "--options", "--json").stdout)["options"]
    parameters = inspect.signature(pysinter.compile).parameters
    for row in rows:
        if row["keyword"]:
            assert row["keyword"] in parameters and f"      {row['keyword']}" in pysinter.compile.__doc__, row
    assert parameters["fuse"].default is True and parameters["precision"].default == "model"
    assert parameters["calibration"].default is None and parameters["states"].default == "auto"
    with pytest.raises(TypeError, match="did you mean 'precision'"):
        pysinter.compile(mlp, precison="fp16")
    with pytest.raises(pysinter.UsageError, match="jobs is 'x': it takes a whole number"):
        pysinter.compile(mlp, jobs="x")
    with pytest.raises(pysinter.UsageError, match="^max_compile_memory: "):
        pysinter.compile(mlp, max_compile_memory="much")
