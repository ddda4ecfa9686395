# SPDX-License-Identifier: Apache-2.0
"""Reads runtime/plan/plan.fbs and writes a header that shows every field of a plan to a visitor:

  plan_fields.py plan.fbs plan_fields.h

For each table T of the schema: `template <typename V> void visit(fb::TT& table, V& v)`, which calls for each field
v.scalar(x), v.text(x), v.list(vector of scalars), v.texts(vector of strings), v.structs(vector of structs),
v.tables(vector of pointers), v.optional(pointer that may be null), v.required(pointer) or v.choice(union). For each
struct S: `visit(fb::S& value, V& v)`, scalars alone.
"""
import re
import sys

text = re.sub(r"//.*", "", open(sys.argv[1]).read())
unions = {name: [one.strip() for one in body.split(",")] for name, body in re.findall(r"union (\w+) \{([^}]*)\}", text)}
types = {name: (kind, re.findall(r"(\w+)\s*:\s*(\[?\w+\]?)([^;]*);", body))
         for kind, name, body in re.findall(r"(table|struct) (\w+) \{([^}]*)\}", text)}
# What flatc puts "_" behind, of those that name a field.
KEYWORDS = {"module", "register", "default", "switch", "union", "export", "operator"}


def member(field):
    return field + "_" * (field in KEYWORDS)


def call(field, of, rest):
    field = member(field)
    element = of.strip("[]")
    is_list, kind = of.startswith("["), types.get(element, ("scalar",))[0]
    if element in unions:
        return f"v.choice(of.{field});"
    if element == "string":
        return f"v.{'texts' if is_list else 'text'}(of.{field});"
    if kind == "table":
        return f"v.{'tables' if is_list else 'required' if 'required' in rest else 'optional'}(of.{field});"
    if kind == "struct":
        assert is_list, field
        return f"v.structs(of.{field});"
    return f"v.{'list' if is_list else 'scalar'}(of.{field});"


lines = ["// Made by plan_fields.py.", "#pragma once", "", '#include "plan_generated.h"', "", "namespace sinter::fuzz {",
         "namespace fb = plan::fb;", ""]
suffix = {"table": "T", "struct": ""}
lines += [f"template <typename V>\nvoid visit(fb::{name}{suffix[kind]}& of, V& v);" for name, (kind, _) in types.items()]
for name, (kind, fields) in types.items():
    lines += ["", "template <typename V>", f"void visit(fb::{name}{suffix[kind]}& of, [[maybe_unused]] V& v) {{"]
    if kind == "table":
        lines += ["  " + call(*field) for field in fields]
    else:
        lines += [f"  auto {field} = of.{member(field)}();" for field, _, _ in fields]
        lines += [f"  v.scalar({field});" for field, _, _ in fields]
        lines += [f"  of = fb::{name}({', '.join(field for field, _, _ in fields)});"]
    lines += ["}"]
for name, members in unions.items():
    lines += ["", "template <typename V>", f"void visit(fb::{name}Union& of, V& v) {{", "  switch (of.type) {"]
    lines += [f"    case fb::{name}::{member}: return visit(*of.As{member}(), v);" for member in members]
    lines += ["    default: return;", "  }", "}"]
lines += ["", "}  // namespace sinter::fuzz", ""]
open(sys.argv[2], "w").write("\n".join(lines))
