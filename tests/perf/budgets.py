# SPDX-License-Identifier: Apache-2.0
"""Reads budgets.toml: every figure of the pages once, with where it was measured and what it must be.

A table has columns and rows. A column is one of
  value = PATH           a figure of the row's result file, in `unit`
  value = [PATH, PATH]   two of them, "97 / 101 µs" (GPU and wall time)
  ratio = [PATH, PATH]   the first divided by the second, "2.45×"
A PATH names keys of the file, divided by '/', where {key} stands for the row's `key`; a list's element is named by its "name" or its
place; FILE:PATH is of another file. What is `failed` or absent, as all of a file that nobody measured yet, is an empty cell. A row is `what`, `key`, `file`, and may have `must` and `goal`, bounds of
the table's `judged` column: at least so much, or at most, as the table's `better` says ("higher", "lower"). A row may
override a column's paths, `paths = {column = ...}`, and the `unit` and `factor` of all columns. A row with `same = "TABLE/KEY"` shows that row under another name.
A table with `fold = true` has rows called "GROUP: WHAT", and is shown with a column for each GROUP.

[[sweep]] has the bounds of run_operator_sweep.py's cases: see Sweep.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
SLOW = 0.67  # a case whose ratio is below that counts as slow


@cache
def _result(file: str):
    path = RESULTS / file
    return json.loads(path.read_text()) if path.is_file() else {}


def look_up(file: str, path: str):
    """The figure at `path` of a result file, or None where it is absent."""
    if ":" in path:
        file, path = path.split(":", 1)
    found = _result(file)
    for part in path.split("/"):
        if isinstance(found, list):
            named = [each for each in found if isinstance(each, dict) and each.get("name") == part]
            found = named[0] if named else found[int(part)] if part.isdigit() and int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
        if found is None:
            return None
    return found if isinstance(found, (int, float)) else None


@dataclass
class Column:
    head: str
    unit: str = ""
    value: str | list[str] | None = None
    ratio: list[str] | None = None
    factor: float = 1.0  # of the file's unit
    digits: int | None = None

    def figures(self, row: "Row") -> list[float | None]:
        paths = row.paths.get(self.head) or self.value or self.ratio
        paths = [paths] if isinstance(paths, str) else paths
        found = [look_up(row.file, path.format(key=row.key)) for path in paths]
        if self.ratio is None:
            factor = self.factor if row.factor is None else row.factor
            return [None if each is None else each * factor for each in found]
        return [None if None in found or not found[1] else found[0] / found[1]]

    def text(self, row: "Row", with_unit: bool = True) -> str:
        found = [each for each in self.figures(row) if each is not None]
        if not found:
            return ""
        if self.ratio is not None:
            return f"{found[0]:.{2 if self.digits is None else self.digits}f}×"
        unit = self.unit if row.unit is None else row.unit
        return " / ".join(_number(each, self.digits) for each in found) + (f" {unit}" if unit and with_unit else "")

    def common_unit(self, rows: list["Row"]) -> str:
        """The unit of all rows, which then stands in the head."""
        units = {self.unit if row.unit is None else row.unit for row in rows}
        return self.unit if self.ratio is None and units == {self.unit} else ""


def _number(value: float, digits: int | None) -> str:
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


@dataclass
class Row:
    table: "Table"
    what: str
    key: str
    file: str
    must: float | None
    goal: float | None
    paths: dict
    unit: str | None = None
    factor: float | None = None

    def judged(self) -> float | None:
        column = self.table.column(self.table.judged)
        return column.figures(self)[0] if column else None

    def meets(self, bound: float) -> bool:
        """An absent figure meets nothing."""
        found = self.judged()
        return found is not None and (found <= bound if self.table.better == "lower" else found >= bound)


def _lines(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


@dataclass
class Table:
    id: str
    first: str
    judged: str
    better: str
    columns: list[Column]
    rows: list[Row]
    fold: bool = False

    def column(self, head: str) -> Column | None:
        return next((each for each in self.columns if each.head == head), None)

    def markdown(self) -> str:
        """A bound that all rows have stands once, in the head of the judged column."""
        sign = "≤" if self.better == "lower" else "≥"
        bounds = {row.must for row in self.rows}
        common = next(iter(bounds)) if len(bounds) == 1 else None
        units = [each.common_unit(self.rows) for each in self.columns]
        heads = [each.head + (f", {unit}" if unit else "") for each, unit in zip(self.columns, units)]
        if common is not None:
            heads = [head + (f" (must {sign} {common:,g})" if each.head == self.judged else "") for each, head in zip(self.columns, heads)]
        cells = [[each.text(row, not unit) for each, unit in zip(self.columns, units)] for row in self.rows]
        if self.fold:
            return self._folded(heads, cells)
        has_bounds = common is None and bounds != {None}
        lines = [[self.first, *heads, *(["must"] if has_bounds else [])]]
        for row, figures in zip(self.rows, cells):
            bound = "" if row.must is None else f"{sign} {row.must:,g}"
            lines.append([row.what, *figures, *([bound] if has_bounds else [])])
        return _lines(lines)

    def _folded(self, heads: list[str], cells: list[list[str]]) -> str:
        """Rows called "GROUP: WHAT": a row for each WHAT, a column for each GROUP."""
        shown = {tuple(row.what.split(": ", 1)): "; ".join(figures) for row, figures in zip(self.rows, cells)}
        groups, whats = (list(dict.fromkeys(key[i] for key in shown)) for i in (0, 1))
        lines = [[f"{self.first}: {'; '.join(heads)}", *groups]]
        return _lines(lines + [[what, *(shown.get((group, what), "") for group in groups)] for what in whats])


def read(path: Path = HERE / "budgets.toml") -> dict[str, Table]:
    """All tables by name. Raises ValueError that names the table and the row for what does not fit together."""
    tables: dict[str, Table] = {}
    for given in tomllib.loads(path.read_text())["table"]:
        columns = [Column(**each) for each in given["column"]]
        table = Table(given["id"], given.get("first", "workload"), given.get("judged", ""), given.get("better", "higher"), columns, [],
                      given.get("fold", False))
        if table.judged and table.column(table.judged) is None:
            raise ValueError(f"budgets.toml: table '{table.id}' judges by '{table.judged}', which is no column of it")
        for row in given["row"]:
            if same := row.get("same"):
                of, _, key = same.partition("/")
                found = [each for each in tables[of].rows if each.key == key] if of in tables else []
                if len(found) != 1:
                    raise ValueError(f"budgets.toml: table '{table.id}' shows '{same}', and there are {len(found)} such rows above it")
                row = {"key": key, "file": found[0].file, "what": found[0].what, **row}
            made = Row(table, row["what"], row["key"], row.get("file", given.get("file", "")), row.get("must"), row.get("goal"), row.get("paths", {}),
                       row.get("unit"), row.get("factor"))
            table.rows.append(made)
        tables[table.id] = table
    return tables


@dataclass
class Sweep:
    """Bounds of run_operator_sweep.py's cases: of each by its class, and of all together."""
    file: str
    of: str          # "gpu", or how many threads
    mean: float      # least geometric mean of the ratios
    slow: float      # most of the cases that may be below SLOW
    least: float     # least ratio of a case whose class has no bound of its own
    classes: dict = field(default_factory=dict)

    def short(self) -> list[tuple[str, float | None, float]] | None:
        """What is short of its bound, with its ratio and the bound; None where nothing was measured."""
        if not (RESULTS / self.file).is_file():
            return None
        rows = {name: row for name, row in _result(self.file)["rows"].items() if side_of(name) == self.of}
        all_of = summarise(rows)["summary"].get(self.of)
        if all_of is None:
            return None
        found = [("the geometric mean", all_of["mean"], self.mean)] if all_of["mean"] < self.mean else []
        if all_of["slow"] > self.slow:
            found.append((f"the share of cases below {SLOW}", all_of["slow"], self.slow))
        for name, row in rows.items():
            bound = self.classes.get(row["class"], self.least)
            if "failed" in row or row.get("ratio", bound) < bound:
                found.append((name, row.get("ratio"), bound))
        return found


def side_of(name: str) -> str:
    """Of a row's name: "gpu", or its number of threads."""
    return name.rpartition("@")[2] if "@" in name else "gpu"


def _of_ratios(rows: list[tuple[str, dict]]) -> dict:
    ratios = sorted((row["ratio"], name) for name, row in rows if "ratio" in row)
    if not ratios:
        return {"cases": len(rows), "compared": 0}
    values = [ratio for ratio, _ in ratios]
    return {"cases": len(rows), "compared": len(ratios), "mean": round(math.exp(sum(map(math.log, values)) / len(values)), 3),
            "slow": round(sum(value < SLOW for value in values) / len(values), 4), "least": values[0], "worst": ratios[0][1]}


def summarise(rows: dict[str, dict]) -> dict:
    """Of a sweep's rows by name: "summary" of all and "classes", each for the GPU or for each number of threads."""
    sides = {side: [each for each in rows.items() if side_of(each[0]) == side] for side in sorted({side_of(name) for name in rows})}
    return {"summary": {side: _of_ratios(each) for side, each in sides.items()},
            "classes": {side: {group: _of_ratios([row for row in each if row[1]["class"] == group])
                               for group in sorted({row["class"] for _, row in each})} for side, each in sides.items()}}


def sweeps(path: Path = HERE / "budgets.toml") -> list[Sweep]:
    return [Sweep(**given) for given in tomllib.loads(path.read_text()).get("sweep", [])]
