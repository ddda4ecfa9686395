# SPDX-License-Identifier: Apache-2.0
"""The rows of tools/compiler/include/sinter/compile_option_rows.inc as pysinter._core.compile_option_rows() gives them, and those of
runtime/include/sinter/sampling_rows.inc as sampling_rows() does, for a machine that has not built it."""
import re
from pathlib import Path

KINDS = {"bool": "switch", "int": "integer", "std::int64_t": "integer", "std::uint64_t": "bytes", "double": "number",
         "std::string": "text", "std::vector<std::string>": "texts"}
STRINGS = r'((?:"(?:[^"\\\\]|\\\\.)*"\s*)+)'


def option_rows(root):
    text = re.sub(r"(?m)^//.*\n", "", (Path(root) / "tools/compiler/include/sinter/compile_option_rows.inc").read_text())
    rows, groups = [], []
    for macro in re.split(r"(?m)^(?=SINTER_)", text)[1:]:
        fields = {name: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', value)) for name, value in re.findall(r"\.(\w+) = " + STRINGS, macro)}
        if not fields:
            continue
        group = re.search(r"OptionGroup::k(\w+)", macro)
        group = re.sub(r"(?<=[a-z])([A-Z])", lambda m: " " + m[1].lower(), group[1]) if group else ""
        if group not in groups:
            groups.append(group)
        declared = re.match(r"SINTER_OPTION\(([^,]+),", macro)
        kind = KINDS.get(declared[1], "choice" if "|" in fields.get("values", "") else "other") if declared else (
            "choice" if "|" in fields.get("values", "") else "text")
        rows.append({"flag": fields.get("flag", ""), "keyword": fields.get("keyword", ""), "type": fields.get("type", ""),
                     "values": fields.get("values", ""), "default": fields.get("standard", ""), "help": fields.get("help", ""),
                     "kind": kind, "group": group, "group_index": groups.index(group)})
    return rows


def sampling_rows(root):
    text = re.sub(r"(?m)^//.*\n", "", (Path(root) / "runtime/include/sinter/sampling_rows.inc").read_text())
    rows = []
    for macro in re.split(r"(?m)^(?=SINTER_)", text)[1:]:
        _, name, default = re.match(r"SINTER_SAMPLING\w*\((\w+), (\w+), ([^,]+),", macro).groups()
        help_text = re.search(r"\.help = " + STRINGS, macro)[1]
        rows.append({"name": name, "default": default, "help": "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', help_text))})
    return rows
