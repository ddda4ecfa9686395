# SPDX-License-Identifier: Apache-2.0
"""Tables of columns: pyarrow, pandas, polars, dicts of arrays, and whatever has Arrow's PyCapsule interface. None of
these is imported before a program has it."""
from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._errors import UsageError
from ._html import table as html_table

BATCH_ROWS = 65536  # unless a plan takes fewer, or the caller says otherwise


class Table:
    """Record batches of outputs: what a call gives where the caller's table is of no kind that is known. Speaks
    Arrow's PyCapsule interface: pyarrow.table(t), polars.DataFrame(t).

    batches: record batches of the same columns.
    """

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = tuple(batches)

    @property
    def rows(self) -> int:
        """Of all batches."""
        return sum(batch.rows for batch in self.batches)

    @property
    def names(self) -> list[str]:
        """Of the columns: those of the plan's outputs."""
        return list(self.batches[0].names)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return _core.make_stream(self.batches[0], list(self.batches))

    def __repr__(self) -> str:
        return f"<pysinter.Table of {self.rows} rows: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        return html_table(f"{self.rows} rows", ("column",), [(name,) for name in self.names])


def _kind(table):
    library = type(table).__module__.partition(".")[0]
    name = type(table).__name__
    if library in ("pandas", "polars") and name == "DataFrame":
        return library
    if library == "pyarrow" and name in ("Table", "RecordBatch"):
        return name
    return "dict" if isinstance(table, Mapping) else None


def _pandas_column(frame, name):
    """An array, and where there is a value, or None if everywhere."""
    column = frame[name]
    if column.ndim != 1:
        raise UsageError(f"the frame has two columns '{name}': rename one")
    dtype = column.dtype
    if hasattr(dtype, "categories"):
        codes = column.cat.codes.to_numpy()
        return codes, None if (codes >= 0).all() else codes >= 0
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "biuf":
            raise UsageError(f"column '{name}' is of pandas' type {dtype}, which no tensor holds: convert it to a "
                             "number, or to a category, whose codes are given")
        return np.ascontiguousarray(column.to_numpy()), None
    plain = getattr(dtype, "numpy_dtype", None)  # of the types that know nulls
    if plain is None or plain.kind not in "biuf":
        raise UsageError(f"column '{name}' is of pandas' type {dtype}, which no tensor holds: convert it to a number, "
                         "or to a category, whose codes are given")
    missing = column.isna().to_numpy()
    zero = plain.type(0)
    return column.to_numpy(dtype=plain, na_value=zero), None if not missing.any() else ~missing


def _columns_of(columns):
    """A batch of arrays by name."""
    names = list(columns)
    values = [columns[name] if isinstance(columns[name], tuple) else (columns[name], None) for name in names]
    return _core.batch_of_arrays([str(name) for name in names], [array for array, _ in values],
                                 [valid for _, valid in values])


def names_of(table) -> list[str]:
    kind = _kind(table)
    if kind == "dict":
        return [str(name) for name in table]
    if kind in ("pandas", "polars"):
        return [str(name) for name in table.columns]
    if kind in ("Table", "RecordBatch"):
        return list(table.schema.names)
    raise UsageError(f"'*' stands for all columns, and a {type(table).__name__} does not say which it has: name them")


def batches_of(table, wanted: Sequence[str]) -> Iterator[Any]:
    """Record batches with the columns that are wanted, and maybe others."""
    kind = _kind(table)
    if kind == "pandas":
        yield _columns_of({name: _pandas_column(table, name) for name in wanted if name in table.columns})
    elif kind == "dict":
        yield _columns_of({name: table[name] for name in wanted if name in table})
    elif hasattr(table, "__arrow_c_device_array__"):
        yield _core.batch_of_capsules(*table.__arrow_c_device_array__())
    elif hasattr(table, "__arrow_c_stream__"):
        reader = _core.BatchReader(table.__arrow_c_stream__())
        while (batch := reader.next()) is not None:
            yield batch
    elif hasattr(table, "__arrow_c_array__"):
        yield _core.batch_of_capsules(*table.__arrow_c_array__())
    else:
        hint = "; call collect() first" if type(table).__name__ == "LazyFrame" else ""
        raise UsageError(f"a {type(table).__module__}.{type(table).__qualname__} is no table: taken are pyarrow's Table "
                         "and RecordBatch, pandas' and polars' DataFrame, dicts of arrays, and what has "
                         f"__arrow_c_stream__{hint}")


def inputs_of(plan, names, columns=None, masks=None) -> list[tuple[str, list[str], str]]:
    """Which columns each input takes, and the input that its mask goes to. `names`: called for all columns, where
    '*' stands for them."""
    columns, masks = dict(columns or {}), dict(masks or {})
    known = [binding.name for binding in plan.inputs]
    for name in (*columns, *masks, *masks.values()):
        if name not in known:
            raise UsageError(f"the plan has no input '{name}': it has {', '.join(known)}")
    result = []
    for name in dict.fromkeys((*columns, *masks)):
        taken = columns.get(name, [name])
        if taken == "*":
            taken = names()
        elif isinstance(taken, str):
            taken = [taken]
        result.append((name, [str(each) for each in taken], masks.get(name, "")))
    return result


def wanted_columns(plan, inputs) -> list[str]:
    """Columns that the inputs take, by inputs_of and by their own names."""
    named = [name for name, _, _ in inputs] + [mask for _, _, mask in inputs]
    own = [each.name for each in plan.inputs if not each.is_state and each.name not in named]
    return list(dict.fromkeys([column for _, columns, _ in inputs for column in columns] + own))


def batch_rows_of(plan, batch_rows=None) -> int:
    most = min([each.shape[0].max for each in plan.inputs if each.shape and not each.is_state], default=1)
    if batch_rows is None:
        return max(1, min(most, BATCH_ROWS))
    if batch_rows < 1 or batch_rows > most:
        raise UsageError(f"batch_rows is {batch_rows}: the plan takes 1 to {most} rows")
    return batch_rows


class Sessions:
    """Sessions of a plan for tables, kept from call to call; callers beyond `limit` wait."""

    def __init__(self, plan, limit):
        self._plan, self._limit = plan, limit
        self._start()

    def _start(self):
        self._process, self._free, self._room = os.getpid(), [], threading.BoundedSemaphore(self._limit)

    @contextlib.contextmanager
    def lease(self):
        if self._process != os.getpid():  # a child of fork() has none of them
            self._start()
        free, room = self._free, self._room
        with room:
            try:
                session = free.pop()
            except IndexError:
                session = _core.TableSession(self._plan)
            yield session
            free.append(session)  # not after an error


def _encoded(plan, table, kind, inputs):
    """The table with columns of strings as the integers that stand for them in the plan's inputs. Arrow's dictionaries
    and pandas' categories are what their codes stand for."""
    taken = {column: name for name, columns, _ in inputs for column in columns}
    encoders = {column: plan._encoders[taken.get(column, column)] for column in wanted_columns(plan, inputs)
                if taken.get(column, column) in plan._encoders}
    if not encoders:
        return table
    if kind == "dict":
        return {name: encoders[name](column) if name in encoders else column for name, column in table.items()}
    if kind == "pandas":
        return table.assign(**{name: encode(table[name].astype(object).where(table[name].notna(), None).to_numpy())
                               for name, encode in encoders.items() if name in table.columns})
    if kind == "polars":
        polars = sys.modules["polars"]
        return table.with_columns([polars.Series(name, encode(np.array(table[name].cast(polars.String).to_list(), object)))
                                   for name, encode in encoders.items() if name in table.columns])
    if kind in ("Table", "RecordBatch"):
        pyarrow = sys.modules["pyarrow"]
        for name, encode in encoders.items():
            if name in table.schema.names:
                at = table.schema.get_field_index(name)
                codes = encode(np.array(table.column(at).to_pylist(), object))
                table = table.set_column(at, name, pyarrow.array(codes))
    return table


def run_table(plan, table, sessions, columns, nulls, masks, cast, batch_rows):
    if nulls not in ("refuse", "nan"):
        raise UsageError(f"nulls is {nulls!r}: it is 'refuse' or 'nan'; masks={{input: mask}} gives them to an input")
    kind = _kind(table)
    inputs = inputs_of(plan, lambda: names_of(table), columns, masks)
    if plan._encoders:
        table = _encoded(plan, table, kind, inputs)
    step = batch_rows_of(plan, batch_rows)
    as_arrays = kind in ("pandas", "dict")
    results = []
    with sessions.lease() as session:
        for batch in batches_of(table, wanted_columns(plan, inputs)):
            for first in range(0, batch.rows, step):
                session.bind(batch, first, min(step, batch.rows - first), inputs, nulls == "nan", cast)
                session.start()
                results.append(session.finish_arrays() if as_arrays else session.finish())
    if not results:
        raise UsageError("the table has no rows: a plan runs on one or more")
    return _as_kind(kind, table, results)


def _as_kind(kind, table, results):
    if kind in ("pandas", "dict"):
        arrays = {name: np.concatenate([each[name] for each in results]) for name in results[0]}
        if kind == "dict":
            return arrays
        import pandas
        # A row of a matrix is one value of a column, as in Arrow.
        return pandas.DataFrame({name: list(array) if array.ndim > 1 else array for name, array in arrays.items()},
                                index=table.index)
    if kind in ("Table", "RecordBatch"):
        pyarrow = sys.modules["pyarrow"]
        batches = [pyarrow.record_batch(batch) for batch in results]
        return batches[0] if kind == "RecordBatch" and len(batches) == 1 else pyarrow.Table.from_batches(batches)
    if kind == "polars":
        return sys.modules["polars"].DataFrame(Table(results))
    return Table(results)
