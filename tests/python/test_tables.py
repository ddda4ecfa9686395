# SPDX-License-Identifier: Apache-2.0
"""Tables in and out: pyarrow, pandas, polars, dicts, and what speaks Arrow's PyCapsule interface alone."""
import os
import threading

import numpy as np
import pytest
from conftest import model_of, value
from onnx import TensorProto, helper

import pysinter

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = [f"f{i}" for i in range(8)]


class OnlyArrow:
    """A table of a library that nobody knows."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def copies():
    """An output for each input, of several types."""
    specs = {"f": (TensorProto.FLOAT, ["n"]), "v": (TensorProto.FLOAT, ["n", 3]), "k": (TensorProto.INT64, ["n"]),
             "there": (TensorProto.FLOAT, ["n"])}
    nodes = [helper.make_node("Add", [name, name], [name + "2"]) for name in specs]
    model = model_of(nodes, [value(name, shape, kind) for name, (kind, shape) in specs.items()],
                     [value(name + "2", shape, kind) for name, (kind, shape) in specs.items()])
    return pysinter.compile(model, target="cpu", dims={"n": (1, 1000)})


@pytest.fixture
def rows():
    return np.random.default_rng(5).standard_normal((150, 8), np.float32)  # three runs: the plan takes 64


def test_each_kind_of_table(plan, rows, reference):
    wanted = reference(rows)
    columns = {name: rows[:, i].copy() for i, name in enumerate(NAMES)}
    columns["unused"] = np.zeros(len(rows))
    table = pa.table(columns)
    given = {"pyarrow": table, "pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns), "dict": columns,
             "other": OnlyArrow(table), "chunks": pa.concat_tables([table.slice(0, 100), table.slice(100)])}
    results = {kind: plan.run_table(each, columns={"x": NAMES}) for kind, each in given.items()}
    for kind in ("pyarrow", "chunks"):
        assert isinstance(results[kind], pa.Table) and results[kind].schema.field("y").type == pa.list_(pa.float32(), 4)
        found = results[kind]["y"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert isinstance(results["polars"], pl.DataFrame)
    np.testing.assert_allclose(results["polars"]["y"].to_numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert isinstance(results["pandas"], pd.DataFrame)
    np.testing.assert_allclose(np.stack(results["pandas"]["y"]), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results["dict"]["y"], wanted, rtol=1e-5, atol=1e-5)
    assert isinstance(results["other"], pysinter.Table) and results["other"].rows == 150
    again = pa.table(results["other"])
    assert again.equals(pa.table(results["other"])) and again.equals(results["pyarrow"])
    batch = plan.run_table(table.slice(0, 10).to_batches()[0], columns={"x": NAMES})
    assert isinstance(batch, pa.RecordBatch) and batch.num_rows == 10


def test_all_columns_in_their_order(plan, rows, reference):
    table = pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})
    found = plan.run_table(table, columns={"x": "*"}, batch_rows=50)
    np.testing.assert_allclose(found["y"].combine_chunks().flatten().to_numpy().reshape(-1, 4), reference(rows),
                               rtol=1e-5, atol=1e-5)


def test_pandas_keeps_its_index_and_types(copies):
    frame = pd.DataFrame({"f": np.array([1, 2], np.float32), "k": pd.array([3, None], dtype="Int64"),
                          "there": np.zeros(2, np.float32)}, index=["a", "b"])
    frame["v"] = np.zeros(2, np.float32)
    with pytest.raises(pysinter.UsageError, match="column 'k' has 1 nulls"):
        copies.run_table(frame, columns={"v": ["v", "v", "v"]})
    with pytest.raises(pysinter.UsageError, match="i64 has no NaN"):
        copies.run_table(frame, columns={"v": ["v", "v", "v"]}, nulls="nan")
    found = copies.run_table(frame, columns={"v": ["v", "v", "v"]}, masks={"k": "there"})
    assert list(found.index) == ["a", "b"]
    assert found["k2"].tolist() == [6, 0] and found["there2"].tolist() == [2, 0] and found["f2"].tolist() == [2, 4]
    frame["k"] = pd.Categorical(["u", "v"])
    found = copies.run_table(frame, columns={"v": ["v", "v", "v"]}, cast=True)
    assert found["k2"].tolist() == [0, 2]
    frame["k"] = ["u", "v"]
    with pytest.raises(pysinter.UsageError, match="column 'k' is of pandas' type"):
        copies.run_table(frame, columns={"v": ["v", "v", "v"]})


def test_nulls_lists_and_dictionaries(copies):
    table = pa.table({"f": pa.array([1, None, 3], pa.float32()),
                      "v": pa.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], pa.list_(pa.float32(), 3)),
                      "k": pa.array(["b", "a", "b"]).dictionary_encode(), "there": pa.array([0.0, 0, 0], pa.float32())})
    with pytest.raises(pysinter.UsageError, match="column 'f' has 1 nulls.*'nulls'"):
        copies.run_table(table, cast=True)
    found = copies.run_table(table, nulls="nan", cast=True).to_pydict()
    assert found["f2"][0] == 2 and np.isnan(found["f2"][1]) and found["v2"][1] == [8, 10, 12]
    assert found["k2"] == [0, 2, 0]
    found = copies.run_table(table, masks={"f": "there"}, cast=True).to_pydict()
    assert found["f2"] == [2, 0, 6] and found["there2"] == [2, 0, 2]
    with pytest.raises(pysinter.UsageError, match="'k' is i32, and the plan takes i64.*'cast'"):
        copies.run_table(table, nulls="nan")
    with pytest.raises(pysinter.UsageError, match="column 'k' is text .*dictionary"):
        copies.run_table(table.set_column(2, "k", pa.array(["b", "a", "b"])), nulls="nan")


def test_what_is_refused(plan, rows):
    table = pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})
    for call, message in ((lambda: plan.run_table(table), "no column is called 'x'"),
                          (lambda: plan.run_table(table, columns={"z": NAMES}), "no input 'z'"),
                          (lambda: plan.run_table(table, columns={"x": ["g"]}), "no column 'g'; it has f0"),
                          (lambda: plan.run_table(table, columns={"x": NAMES[:3]}), "input 'x'"),
                          (lambda: plan.run_table(table, columns={"x": NAMES}, batch_rows=65), "1 to 64 rows"),
                          (lambda: plan.run_table(table, columns={"x": NAMES}, nulls="zero"), "'refuse' or 'nan'"),
                          (lambda: plan.run_table(table.slice(0, 0), columns={"x": NAMES}), "no rows"),
                          (lambda: plan.run_table(pl.LazyFrame(), columns={"x": NAMES}), "collect"),
                          (lambda: plan.run_table(7, columns={"x": NAMES}), "builtins.int is no table"),
                          (lambda: plan.run_table(OnlyArrow(table), columns={"x": "*"}), "name them"),
                          (lambda: plan.run_table({"f0": np.zeros(2), "f1": np.zeros(3)}, columns={"x": ["f0", "f1"]}),
                           "'f1' has 3 rows, and column 'f0' has 2")):
        with pytest.raises(pysinter.UsageError, match=message):
            call()
    plan.run_table(table, columns={"x": NAMES})


def test_results_outlive_everything(mlp, rows):
    plan = pysinter.compile(mlp, target="cpu", dims={"batch": (1, 200)})
    result = plan.run_table(OnlyArrow(pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})),
                            columns={"x": NAMES})
    first = pa.table(result)
    copy = np.array(first["y"].combine_chunks().flatten())
    del plan, result
    rows[:] = 0
    assert (np.array(first["y"].combine_chunks().flatten()) == copy).all()


def test_a_column_is_read_where_it_lies(copies):
    """A CPU plan, and a column that fills an input alone: what the array holds later does not matter to the result."""
    f = np.ones(3, np.float32)
    batch = {"f": f, "v": np.zeros((3, 3), np.float32), "k": np.zeros(3, np.int64), "there": f}
    assert copies.run_table(batch)["f2"].tolist() == [2, 2, 2]
    f[:] = 4
    assert copies.run_table(batch)["f2"].tolist() == [8, 8, 8]


def test_threads_share_a_plan(plan, rows, reference):
    wanted, failures = reference(rows), []
    table = pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})

    def call():
        for _ in range(20):
            found = plan.run_table(table, columns={"x": NAMES})["y"].combine_chunks().flatten().to_numpy()
            if not np.allclose(found.reshape(-1, 4), wanted, rtol=1e-5, atol=1e-5):
                failures.append(found)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_after_fork(plan, rows):
    table = {name: rows[:, i].copy() for i, name in enumerate(NAMES)}
    wanted = plan.run_table(table, columns={"x": NAMES})["y"]
    child = os.fork()
    if child == 0:
        os._exit(0 if (plan.run_table(table, columns={"x": NAMES})["y"] == wanted).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
