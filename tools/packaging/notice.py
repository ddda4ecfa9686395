# SPDX-License-Identifier: Apache-2.0
"""The table of NOTICE: what Sinter is built with and what ships with it."""
import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = set("RCTPI")  # letters of "in" whose parts leave this repository in a package


@dataclasses.dataclass
class Row:
    name: str
    version: str
    licence: str
    where: set
    how: str
    names: set  # "cmake:fmt", "deb:libfmt-dev", "pypi:nanobind", "so:libfmt", "file:a/path"

    @property
    def ships(self):
        return bool(self.where & SHIPPED)


def read_rows(path=ROOT / "NOTICE"):
    rows = []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "name" or set(cells[0]) == {"-"}:
            continue
        if len(cells) != 6:
            raise SystemExit(f"{path.name}: a row has {len(cells)} cells, not 6: {line}")
        rows.append(Row(*cells[:3], set(cells[3].split()), cells[4], set(cells[5].split())))
    return rows


def known_names(rows):
    """All names of a kind by what they are known as: {"cmake:fmt": row}."""
    return {name: row for row in rows for name in row.names}


def is_copyleft(licence):
    """GPL without an exception for what is linked with it."""
    return any(re.search(r"(?<![A-Z])A?GPL", part) and "WITH" not in part for part in re.split(r",|\bOR\b|\bAND\b", licence))


def bad_licences(rows):
    """What may not be linked into what ships."""
    for row in rows:
        if row.ships and is_copyleft(row.licence) and row.how != "program":
            yield f"NOTICE: {row.name} is under {row.licence}, and what ships may link nothing under the GPL"
        elif row.ships and "LGPL" in row.licence and row.how != "dynamic":
            yield f"NOTICE: {row.name} is under {row.licence}, which may be linked dynamically alone; NOTICE says '{row.how}'"
