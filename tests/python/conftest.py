# SPDX-License-Identifier: Apache-2.0
"""Small models for all tests. The package that is imported is the installed wheel's."""
import ctypes
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pysinter

ROOT = Path(__file__).resolve().parents[2]
SINTER = Path(sys.executable).parent / "sinter"
os.environ.setdefault("SINTER_CACHE_DIR", str(Path(sys.prefix) / "sinter-cache"))


def pytest_addoption(parser):
    parser.addoption("--ray", action="store_true", help="run the examples with Ray")
    parser.addoption("--servers", action="store_true", help="run what needs Triton's server and KServe's")
    parser.addoption("--torch", action="store_true", help="fail instead of skipping where torch is missing")


def in_threads(count, body):
    """body(number) in `count` threads at once; the first exception of one is raised here."""
    failures = []

    def run(number):
        try:
            body(number)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class OnlyDlpack:
    """An array of a library that nobody knows."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Dltensor(ctypes.Structure):
    """What a DLPack capsule holds."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


def dltensor(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Dltensor.from_address(get(capsule, b"dltensor"))


def model_of(nodes, inputs, outputs, weights=(), name="tiny", **options):
    """Domains of the nodes that are not ONNX's own are imported in version 1."""
    graph = helper.make_graph(nodes, name, inputs, outputs,
                              [numpy_helper.from_array(array, key) for key, array in dict(weights).items()])
    opsets = {"": 20, **{node.domain: 1 for node in nodes if node.domain}}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets.items()],
                             ir_version=10, **options)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_mlp(width=16, seed=0):
    r = np.random.default_rng(seed)
    weights = {"w1": r.standard_normal((8, width), np.float32), "b1": r.standard_normal(width, np.float32),
               "w2": r.standard_normal((width, 4), np.float32)}
    return model_of([helper.make_node("MatMul", ["x", "w1"], ["h0"], name="first"),
                     helper.make_node("Add", ["h0", "b1"], ["h1"], name="bias"),
                     helper.make_node("Tanh", ["h1"], ["h2"], name="tanh"),
                     helper.make_node("MatMul", ["h2", "w2"], ["y"], name="second")],
                    [value("x", ["batch", 8])], [value("y", ["batch", 4])], weights, name="mlp")


def make_pair():
    """Two inputs, two outputs."""
    return model_of([helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
                    [value("a", ["n", 3]), value("b", ["n", 3])],
                    [value("sum", ["n", 3]), value("difference", ["n", 3])], name="pair")


def make_typed(dtype):
    """y = x + x in a type."""
    return model_of([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", ["n", 4], dtype)],
                    [value("y", ["n", 4], dtype)], name="typed")


def make_counter():
    """A state: total + x."""
    return model_of([helper.make_node("Add", ["total", "x"], ["next"]),
                     helper.make_node("Mul", ["next", "two"], ["twice"])],
                    [value("x", [4]), value("total", [4])], [value("twice", [4]), value("next", [4])],
                    {"two": np.float32(2)}, name="counter")


@pytest.fixture(scope="session")
def mlp():
    return make_mlp()


@pytest.fixture(scope="session")
def plan(mlp):
    return pysinter.compile(mlp, target="cpu", dims={"batch": (1, 64)})


@pytest.fixture(scope="session")
def pair():
    return pysinter.compile(make_pair(), target="cpu", dims={"n": (1, 64)})


@pytest.fixture(scope="session")
def counter():
    return pysinter.compile(make_counter(), target="cpu", states={"total": "next"})


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((5, 8), np.float32)


@pytest.fixture(scope="session")
def reference(mlp):
    import onnxruntime
    session = onnxruntime.InferenceSession(mlp.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


@pytest.fixture(scope="session")
def torch(request):
    if request.config.getoption("--torch"):
        import torch
        return torch
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def minilm(request):
    """The model's file and tokenizer, where models/fetch.py, which tools/wheel calls, has put them."""
    model, tokenizer = ROOT / "models/cache/minilm.onnx", ROOT / "models/cache/minilm/tokenizer.json"
    if not model.exists():
        missing = pytest.fail if request.config.getoption("--ray") else pytest.skip
        missing("models/fetch.py minilm has not been run")
    return model, tokenizer
