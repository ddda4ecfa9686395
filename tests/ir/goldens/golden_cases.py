"""Drawing numbers, asking ONNX Runtime, and writing cases down: what all of the goldens share."""

import base64

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

NAMES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
         "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
         "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
         "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz}
ELEM = {"bool": TensorProto.BOOL, "i8": TensorProto.INT8, "i16": TensorProto.INT16,
        "i32": TensorProto.INT32, "i64": TensorProto.INT64, "u8": TensorProto.UINT8,
        "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "u64": TensorProto.UINT64,
        "f16": TensorProto.FLOAT16, "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE}
FLOATS = ("f16", "bf16", "f32", "f64")
# Of 8 bits, which are not computed in: they have goldens of their own.
FLOATS8 = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")
COMPUTED = tuple(name for name in NAMES if name not in FLOATS8)
# What ONNX Runtime, computing in the type itself, may differ by from a rounded float64 result.
WITNESS_TOLERANCE = {"f16": 4e-3, "f32": 2e-5, "f64": 1e-6}

rng = np.random.default_rng(20260101)
cases = []


def name_of(array):
    return next(name for name, dtype in NAMES.items() if array.dtype == np.dtype(dtype))


def normal(shape, dtype="f32", scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(NAMES[dtype])


def positive(shape, dtype="f32"):
    return rng.uniform(0.1, 4.0, shape).astype(NAMES[dtype])


def integers(shape, dtype="i64", low=-9, high=10):
    if dtype.startswith("u"):
        low = max(low, 0)
    return rng.integers(low, high, shape).astype(NAMES[dtype])


def bools(shape):
    return rng.integers(0, 2, shape).astype(np.bool_)


def wide(array):
    """The value in the type that NumPy computes it in: float64 for floats, else itself."""
    return array.astype(np.float64) if name_of(array) in FLOATS else array


def encode(array):
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return f"{name_of(array)}[{','.join(map(str, array.shape))}] {data}"


def run_onnx(nodes, inputs, constants=(), opset=20):
    """Runs a chain of (op, inputs, output, attributes); inputs are x0, x1, .., the result is y.
    Nothing where ONNX Runtime has no kernel for the type."""
    if any(name_of(x) not in ELEM for x in inputs):
        return None
    graph = helper.make_graph(
        [helper.make_node(op, args, [out] if isinstance(out, str) else out,
                          domain=attrs.pop("domain", ""), **attrs)
         for op, args, out, attrs in ((o, a, r, dict(t)) for o, a, r, t in nodes)],
        "golden",
        [helper.make_tensor_value_info(f"x{i}", ELEM[name_of(x)], x.shape)
         for i, x in enumerate(inputs)],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset),
                                                    helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    except ort.capi.onnxruntime_pybind11_state.InvalidGraph as error:
        if "type" in str(error).lower():
            return None
        raise
    return session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})[0]


def case(op, inputs, expected, attrs=None, onnx_nodes=None, constants=(), opset=20, note="",
         dtype=None):
    """Adds one case. `expected` is float64 or exact; `dtype` is the result's (default: inputs[0])."""
    inputs = [np.asarray(x) for x in inputs]
    dtype = dtype or name_of(inputs[0])
    with np.errstate(all="ignore"):
        expected = np.asarray(expected).astype(NAMES[dtype])
    sources = ["numpy"]
    witness = run_onnx(onnx_nodes, inputs, constants, opset) if onnx_nodes else None
    label = f"{op} {note} {[name_of(x) + str(list(x.shape)) for x in inputs]}"
    if witness is not None:
        assert witness.dtype == expected.dtype, (label, witness.dtype, expected.dtype)
        assert witness.shape == expected.shape, (label, witness.shape, expected.shape)
        tolerance = WITNESS_TOLERANCE.get(dtype, 0)
        np.testing.assert_allclose(wide(witness), wide(expected), rtol=tolerance, atol=tolerance,
                                   err_msg=label)
        sources.append("onnxruntime")
    entry = {"op": op, "note": note, "attrs": attrs, "by": "+".join(sources),
             "inputs": [encode(x) for x in inputs], "output": encode(expected)}
    cases.append({key: value for key, value in entry.items() if value not in ("", None)})


def one(op, count=1, **attrs):
    return [(op, [f"x{i}" for i in range(count)], "y", attrs)]
