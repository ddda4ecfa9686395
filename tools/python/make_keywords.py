# SPDX-License-Identifier: Apache-2.0
"""Writes what type checkers know of compile()'s options, from the compiler's rows:

make_keywords.py OUTPUT FOLDER_OF_CORE OPTIONS.PY
"""
import ast
import sys
from pathlib import Path

PATH = "str | os.PathLike[str]"
TYPES = {"switch": "bool", "integer": "int", "number": "float | None", "text": f"{PATH} | None", "choice": "str",
         "texts": f"Sequence[{PATH}]", "bytes": "int | str | None"}


def main() -> None:
    output, core, options = sys.argv[1:]
    sys.path.insert(0, core)
    import _core
    forms = {}  # annotations of `value` in the functions _set_KEYWORD
    for function in ast.parse(Path(options).read_text(encoding="utf-8")).body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("_set_"):
            forms[function.name.removeprefix("_set_")] = ast.unparse(function.args.args[2].annotation)
    lines = ["import os", "from collections.abc import Mapping, Sequence", "from typing import Any, TypedDict", "",
             "class CompileKeywords(TypedDict, total=False):"]
    for row in _core.compile_option_rows():
        if row["keyword"]:
            kind = "bool | str" if row["kind"] == "switch" and row["values"] else TYPES.get(row["kind"], "str")
            lines.append(f"    {row['keyword']}: {forms.get(row['keyword'], kind)}")
    Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
