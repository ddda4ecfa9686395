# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be read or written: errors of ours that are also Python's own."""
import contextlib
import errno
import os
import pickle

import numpy as np
import onnx
import pytest
from conftest import make_mlp, model_of, value
from onnx import helper

import pysinter

NOBODY = 65534


def refused(kind, number, path, call):
    """The error of `call`: of the given kind, about `path`."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert isinstance(error, pysinter.FileError) and isinstance(error, OSError), type(error).__mro__
    assert error.errno == number and error.strerror == os.strerror(number)
    assert os.path.abspath(error.filename) == str(path) and os.path.basename(path) in str(error)
    assert not str(error).startswith("[Errno")
    return error


@contextlib.contextmanager
def as_nobody():
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


READERS = {
    "load": lambda mlp, plan, path: pysinter.load(path),
    "load a copy": lambda mlp, plan, path: pysinter.load(path, copy=True),
    "engine": lambda mlp, plan, path: pysinter.Engine(path),
    "compile": lambda mlp, plan, path: pysinter.compile(path, target="cpu"),
    "inspect": lambda mlp, plan, path: pysinter.inspect(path),
    "why": lambda mlp, plan, path: pysinter.why(path, "a", "b", target="cpu"),
    "report": lambda mlp, plan, path: pysinter.report(path, target="cpu"),
    "inputs": lambda mlp, plan, path: pysinter.verify(mlp, target="cpu", inputs=f"{path}"),
    "one input": lambda mlp, plan, path: pysinter.profile(plan, inputs=f"x={path}"),
    "calibration": lambda mlp, plan, path: pysinter.compile(mlp, target="cpu", precision="int8", calibration=path, emulate=True),
    "operators": lambda mlp, plan, path: pysinter.compile(mlp, target="cpu", operators=[path]),
    "operator_libraries": lambda mlp, plan, path: pysinter.load(plan.to_bytes(), operator_libraries=[path]),
    "require_signature": lambda mlp, plan, path: pysinter.load(plan.to_bytes(), require_signature=path),
    "tokenizer": lambda mlp, plan, path: pysinter.Engine(plan, tokenizer=path),
}
NAMES = {"inputs": "absent.npz", "one input": "absent.npy", "calibration": "absent.npz"}


def path_for(what, folder):
    if what == "tokenizer":
        pytest.importorskip("tokenizers")
    return folder / NAMES.get(what, "absent")


@pytest.mark.parametrize("what", READERS)
def test_a_missing_file_is_a_file_not_found_error(what, mlp, plan, tmp_path):
    path = path_for(what, tmp_path)
    error = refused(FileNotFoundError, errno.ENOENT, path, lambda: READERS[what](mlp, plan, path))
    assert isinstance(error, pysinter.UsageError) and error.code == "usage"


@pytest.mark.parametrize("what", READERS)
def test_a_folder_is_no_file(what, mlp, plan, tmp_path):
    path = path_for(what, tmp_path)
    path.mkdir()
    refused(IsADirectoryError, errno.EISDIR, path, lambda: READERS[what](mlp, plan, path))


@pytest.mark.parametrize("what", [each for each in READERS if each != "operator_libraries"])
def test_a_file_that_may_not_be_read(what, mlp, plan, tmp_path):
    path = path_for(what, tmp_path)
    path.write_bytes(b"secret")
    path.chmod(0)
    with as_nobody():
        refused(PermissionError, errno.EACCES, path, lambda: READERS[what](mlp, plan, path))


@pytest.mark.parametrize("what", [each for each in READERS if each not in ("require_signature", "inputs", "operator_libraries")])
def test_a_pipe_is_refused_without_waiting(what, mlp, plan, tmp_path):
    path = path_for(what, tmp_path)
    os.mkfifo(path)
    with pytest.raises(pysinter.UsageError):
        READERS[what](mlp, plan, path)


WRITERS = {
    "compile": lambda mlp, plan, path: pysinter.compile(mlp, path, target="cpu"),
    "save": lambda mlp, plan, path: plan.save(path),
    "report": lambda mlp, plan, path: pysinter.report(plan, measure=False).save(path),
}


@pytest.mark.parametrize("what", WRITERS)
def test_files_that_cannot_be_written(what, mlp, plan, tmp_path):
    path = tmp_path / "absent" / "out.plan"
    refused(FileNotFoundError, errno.ENOENT, path, lambda: WRITERS[what](mlp, plan, path))
    refused(IsADirectoryError, errno.EISDIR, tmp_path, lambda: WRITERS[what](mlp, plan, tmp_path))
    os.chmod(tmp_path, 0o555)
    with as_nobody():
        refused(PermissionError, errno.EACCES, tmp_path / "out.plan", lambda: WRITERS[what](mlp, plan, tmp_path / "out.plan"))
    os.chmod(tmp_path, 0o755)


def test_weights_that_are_not_there(tmp_path):
    """The model is at fault, and a file is missing."""
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", ["n", 64])], [value("y", ["n", 64])],
                     {"w": np.zeros((64, 64), np.float32)})
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    error = refused(FileNotFoundError, errno.ENOENT, tmp_path / "weights",
                    lambda: pysinter.compile(tmp_path / "m.onnx", target="cpu"))
    assert isinstance(error, pysinter.InvalidModelError) and error.code == "invalid_model"
    assert error.diagnostics[-1].severity == "error"
    contents = (tmp_path / "m.onnx").read_bytes()
    refused(FileNotFoundError, errno.ENOENT, tmp_path / "absent",
            lambda: pysinter.compile(contents, external_data=tmp_path / "absent", target="cpu"))


def test_a_plan_whose_file_is_gone(mlp, tmp_path):
    path = tmp_path / "m.plan"
    plan = pysinter.compile(mlp, path, target="cpu")
    path.unlink()
    refused(FileNotFoundError, errno.ENOENT, path, lambda: pickle.dumps(plan))


def test_the_error_is_pickled_whole(tmp_path):
    error = refused(FileNotFoundError, errno.ENOENT, tmp_path / "absent", lambda: pysinter.compile(tmp_path / "absent"))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and copy.code == error.code
    assert (copy.errno, copy.filename, copy.diagnostics) == (error.errno, error.filename, error.diagnostics)
    assert type(error).__name__ == "FileError"


def test_a_file_that_says_something_wrong_is_no_file_error(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(pysinter.InvalidModelError) as caught:
        pysinter.compile(tmp_path / "m.onnx", target="cpu")
    assert not isinstance(caught.value, OSError)


def test_definitions_and_what_they_name(tmp_path):
    path = tmp_path / "op.toml"
    path.write_text('[[operator]]\ndomain = "com.example"\nname = "Twice"\ninputs = ["x"]\n[[operator.output]]\nname = "y"\n'
                    '[operator.cuda]\nfile = "absent.cu"\n[[operator.cuda.kernel]]\nname = "twice"\n')
    with pytest.raises(pysinter.Error) as caught:
        pysinter.compile(make_mlp(), operators=[path], target="cpu")
    assert "absent.cu" in str(caught.value) and isinstance(caught.value, FileNotFoundError), caught.value
