# SPDX-License-Identifier: Apache-2.0
"""Rows of files in, rows of files out: Parquet through pyarrow, a row group at a time; CSV and JSON lines, for texts."""
from __future__ import annotations

import csv
import errno
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._errors import UsageError, check_file, file_error


def import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet is read and written by pyarrow: pip install pyarrow") from None
    return pyarrow


def read_tokenizer(path: str | os.PathLike[str]) -> Any:
    """A tokenizers.Tokenizer of a tokenizer.json."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError("texts are tokenized by tokenizers: pip install tokenizers") from None
    check_file(path, "the tokenizer")
    try:
        return Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # what the library raises has no class of its own
        raise UsageError(f"cannot read the tokenizer '{os.fspath(path)}': {error}") from None


class ParquetInput:
    """One Parquet file, or those of a folder in the order of their names, which have one schema."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._pyarrow = import_pyarrow()
        self._path = Path(path)
        self.files = sorted(self._path.glob("*.parquet")) if self._path.is_dir() else [self._path]
        if not self.files:
            raise UsageError(f"'{path}' has no .parquet files")
        self.rows, self.schema = 0, None
        for file in self.files:
            with self._open(file) as opened:
                self.rows += opened.metadata.num_rows
                if self.schema is None:
                    self.schema = opened.schema_arrow
                elif not self.schema.equals(opened.schema_arrow):
                    raise UsageError(f"'{file}' has other columns or types than '{self.files[0]}'")
        if self.rows == 0:
            raise UsageError(f"'{path}' has no rows")

    def _open(self, file: Path) -> Any:
        try:
            return self._pyarrow.parquet.ParquetFile(file, memory_map=True)
        except OSError as error:
            raise file_error(f"cannot read '{file}': {error}", error, file) from None
        except self._pyarrow.ArrowException as error:
            raise UsageError(f"'{file}' is no Parquet file: {error}") from None

    def check_columns(self, columns: Sequence[str]) -> None:
        for column in columns:
            if column not in self.schema.names:
                raise UsageError(f"'{self._path}' has no column '{column}'; it has {', '.join(self.schema.names[:20])}"
                                 + (", ..." if len(self.schema.names) > 20 else ""))

    def groups(self, columns: Sequence[str]) -> Iterator[Any]:
        """Each row group as a pyarrow.RecordBatch, or several where it has more than one chunk."""
        for file in self.files:
            with self._open(file) as opened:
                for group in range(opened.metadata.num_row_groups):
                    try:
                        table = opened.read_row_group(group, columns=list(columns), use_threads=True)
                    except (OSError, self._pyarrow.ArrowException) as error:
                        raise UsageError(f"'{file}' cannot be read at row group {group}: {error}") from None
                    yield from table.to_batches()

    def pieces(self, columns: Sequence[str], batch_rows: int) -> Iterator[tuple[Any, Any, int, int]]:
        """For a Pipeline: the tag is the pyarrow batch of the piece."""
        for batch in self.groups(columns):
            taken = _core.batch_of_capsules(*batch.__arrow_c_array__())
            for first in range(0, batch.num_rows, batch_rows):
                rows = min(batch_rows, batch.num_rows - first)
                yield batch.slice(first, rows), taken, first, rows


class ParquetOutput:
    """A Parquet file that has its name only once it is whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._pyarrow, self._path = import_pyarrow(), os.fspath(path)
        self._partial = f"{self._path}.{secrets.token_hex(4)}.tmp"
        self._writer: Any = None

    def write(self, batch: Any) -> None:
        if self._writer is None:
            try:
                self._writer = self._pyarrow.parquet.ParquetWriter(self._partial, batch.schema)
            except OSError as error:
                raise file_error(f"cannot write '{self._path}': {error}", error, self._path) from None
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise file_error(f"cannot write '{self._path}': {error}", error, self._path) from None

    def __enter__(self) -> ParquetOutput:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._writer is None:
            return
        try:
            self._writer.close()
            if kind is None:
                os.replace(self._partial, self._path)
        finally:
            if os.path.exists(self._partial):
                os.remove(self._partial)


def check_paths(inputs: str, outputs: str) -> None:
    if os.path.exists(outputs) and os.path.exists(inputs) and os.path.samefile(inputs, outputs):
        raise UsageError(f"'{outputs}' is the input, too: write to another file")
    folder = os.path.dirname(os.path.abspath(outputs))
    if not os.path.isdir(folder):
        number = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        raise file_error(f"there is no folder '{folder}' to write '{os.path.basename(outputs)}' to", OSError(number, ""), folder)


# ---- texts

def _rows_of_csv(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _rows_of_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise UsageError(f"'{path}', line {number}: {error}") from None
            if not isinstance(row, dict):
                raise UsageError(f"'{path}', line {number} is no object, but a {type(row).__name__}")
            yield row


TEXT_SUFFIXES = {".csv": _rows_of_csv, ".jsonl": _rows_of_jsonl}


def text_chunks(path: str, column: str, chunk_rows: int) -> Iterator[tuple[list[str], Any]]:
    """Texts of a column, many at a time, with the rows that they are of: a pyarrow batch, or a list of dicts. A text
    that is missing is refused."""
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet" or Path(path).is_dir():
        source = ParquetInput(path)
        source.check_columns([column])
        for group in source.groups(source.schema.names):
            for first in range(0, group.num_rows, chunk_rows):
                batch = group.slice(first, chunk_rows)
                yield _checked(batch.column(column).to_pylist(), path, column), batch
        return
    if suffix not in TEXT_SUFFIXES:
        raise UsageError(f"'{path}' is no file of rows that is known: .parquet, .csv and .jsonl are taken")
    chunk: list[dict[str, Any]] = []
    try:
        for row in TEXT_SUFFIXES[suffix](Path(path)):
            if column not in row:
                raise UsageError(f"'{path}' has a row without '{column}'; it has {', '.join(map(str, row))}")
            chunk.append(row)
            if len(chunk) == chunk_rows:
                yield _checked([each[column] for each in chunk], path, column), chunk
                chunk = []
    except OSError as error:
        raise file_error(f"cannot read '{path}': {error.strerror}", error, path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read '{path}': {error}") from None
    if chunk:
        yield _checked([each[column] for each in chunk], path, column), chunk


def _checked(texts: list[Any], path: str, column: str) -> list[str]:
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"column '{column}' of '{path}' has {text!r}, which is no text: fill or drop such rows")
    return texts


class VectorOutput:
    """Rows with a vector each, to .parquet (all columns and one of fixed-size lists), .jsonl (the same as objects) or
    .npy (the vectors alone)."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name
        self._suffix = Path(path).suffix.lower()
        if self._suffix not in (".parquet", ".jsonl", ".npy"):
            raise UsageError(f"'{path}' is no file that vectors are written to: name it .parquet, .jsonl or .npy")
        self._partial = f"{path}.{secrets.token_hex(4)}.tmp"
        self._parquet = ParquetOutput(path) if self._suffix == ".parquet" else None
        self._file: Any = None
        self._arrays: list[Any] = []

    def write(self, rows: Any, vectors: Any) -> None:
        if self._suffix == ".npy":
            self._arrays.append(vectors)
        elif self._parquet is not None:
            self._parquet.write(self._batch(rows, vectors))
        else:
            if self._file is None:
                self._file = open(self._partial, "x", encoding="utf-8")
            objects = rows if isinstance(rows, list) else rows.to_pylist()
            for row, vector in zip(objects, vectors):
                self._file.write(json.dumps({**row, self._name: [float(f"{value:.9g}") for value in vector]},
                                            ensure_ascii=False, default=str) + "\n")

    def _batch(self, rows: Any, vectors: Any) -> Any:
        pyarrow = import_pyarrow()
        if isinstance(rows, list):
            rows = pyarrow.RecordBatch.from_pylist(rows)
        if self._name in rows.schema.names:
            raise UsageError(f"the rows have a column '{self._name}' already: call the new one otherwise (--name)")
        made = pyarrow.record_batch(_core.batch_of_arrays([self._name], [np.ascontiguousarray(vectors)], [None]))
        return pyarrow.RecordBatch.from_arrays([*rows.columns, made.column(0)], [*rows.schema.names, self._name])

    def __enter__(self) -> VectorOutput:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if self._parquet is not None:
            self._parquet.__exit__(kind, *rest)
            return
        try:
            if self._suffix == ".npy" and kind is None:
                with open(self._partial, "xb") as file:
                    np.save(file, np.concatenate(self._arrays))
            if self._file is not None:
                self._file.close()
            if kind is None:
                os.replace(self._partial, self._path)
        finally:
            if os.path.exists(self._partial):
                os.remove(self._partial)
