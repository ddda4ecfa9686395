# SPDX-License-Identifier: Apache-2.0
"""Strings at the border: columns of words in, names of classes out."""
import numpy as np
import pytest
from conftest import value
from onnx import TensorProto, helper

import pysinter
from pysinter._texts import murmur3

ML = "ai.onnx.ml"
CITIES = ["Rome", "Zürich", "Oslo"]


def compiled(nodes, inputs, outputs):
    model = helper.make_model(helper.make_graph(nodes, "strings", inputs, outputs), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 3),
                                             helper.make_opsetid("com.microsoft", 1)])
    return pysinter.compile(model, target="cpu")


@pytest.fixture(scope="module")
def encoder():
    nodes = [helper.make_node("LabelEncoder", ["city"], ["code"], domain=ML, keys_strings=CITIES, values_int64s=[5, 6, 7],
                              default_int64=-1),
             helper.make_node("Add", ["age", "age"], ["twice"])]
    return compiled(nodes, [value("city", ["n", 1], TensorProto.STRING), value("age", ["n", 1])],
                    [value("code", ["n", 1], TensorProto.INT64), value("twice", ["n", 1])])


def test_arrays_of_strings(encoder):
    age = np.ones((3, 1), np.float32)
    for words in (np.array([["Zürich"], ["Paris"], ["Rome"]]), np.array([["Zürich"], ["Paris"], ["Rome"]], object)):
        assert encoder(words, age)["code"].tolist() == [[6], [-1], [5]]
        assert encoder(city=words, age=age)["code"].tolist() == [[6], [-1], [5]]
    with pytest.raises(pysinter.UsageError, match="takes strings, and one is a float"):
        encoder(np.array([["Rome"], [1.5], ["Rome"]], object), age)


@pytest.mark.parametrize("kind", ["dict", "pandas", "category", "pyarrow", "dictionary", "polars"])
def test_tables(encoder, kind):
    words, ages = ["Oslo", "Rome", "nowhere"], np.array([1, 2, 3], np.float32)
    if kind == "dict":
        table = {"city": np.array(words, object), "age": ages}
    elif kind in ("pandas", "category"):
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"city": words, "age": ages})
        if kind == "category":
            table["city"] = table["city"].astype("category")
    elif kind == "polars":
        table = pytest.importorskip("polars").DataFrame({"city": words, "age": ages})
    else:
        pyarrow = pytest.importorskip("pyarrow")
        column = pyarrow.array(words)
        table = pyarrow.table({"city": column.dictionary_encode() if kind == "dictionary" else column, "age": ages})
    result = encoder.run_table(table)
    codes = result["code"].to_pylist() if kind in ("pyarrow", "dictionary") else list(result["code"])
    assert [int(np.ravel(code)[0]) for code in codes] == [7, 5, -1]


def test_labels():
    probabilities = helper.make_node("Identity", ["x"], ["p"])
    zip_map = helper.make_node("ZipMap", ["p"], ["scores"], domain=ML, classlabels_strings=["no", "yes"])
    linear = helper.make_node("LinearClassifier", ["x"], ["label", "rest"], domain=ML, classlabels_strings=["no", "yes"],
                              coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.0, 0.0])
    plan = compiled([probabilities, zip_map, linear], [value("x", ["n", 2])],
                    [value("label", ["n"], TensorProto.STRING), value("scores", ["n", 2])])
    assert plan.labels == {"label": ("no", "yes"), "scores": ("no", "yes")}
    label, scores = plan(np.array([[1, 2], [4, 3]], np.float32))
    assert [plan.labels["label"][i] for i in label] == ["yes", "no"]
    assert scores.tolist() == [[1, 2], [4, 3]]


def test_murmur3():
    """Values of the reference implementation."""
    assert murmur3([b"", b"a", b"hello", b"hello, world", b"ab\0"], 0).tolist()[:4] == [0, 0x3c2569b2, 0x248bfa47, 0x149bbb7f]
    assert murmur3([b""], 1).tolist() == [0x514e28b7]
    nodes = [helper.make_node("MurmurHash3", ["s"], ["h"], domain="com.microsoft", positive=1, seed=0)]
    plan = compiled(nodes, [value("s", ["n"], TensorProto.STRING)], [value("h", ["n"], TensorProto.UINT32)])
    assert plan(np.array(["hello", "a"])).tolist() == [0x248bfa47, 0x3c2569b2]
