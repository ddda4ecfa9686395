#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other packages of onnx and onnxruntime bring: operators, versions, attributes, inputs and node tests that the
installed ones, and our rows, lack.

  whats_new.py                                the newest packages of PyPI against those of .venv, and our rows
  whats_new.py --onnx 1.24.0rc1               that one
  whats_new.py --sinter build/bin/sinter      whose rows they are

The packages go to build/whats-new and are not installed. Prints a line for each thing; exit status 1 if something is
new that no row has.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A domain of ONNX Runtime that users' files have; others are its own layouts and training.
DOMAINS = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "com.microsoft")


def described():
    """What the packages of this process have, as JSON: it runs with others' folders in front of its path."""
    import importlib.metadata as metadata

    import onnx
    from onnx.backend.test import loader
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    operators = {}
    for schema in (*onnx.defs.get_all_schemas_with_history(), *state.get_all_operator_schema()):
        domain = schema.domain or "ai.onnx"
        if domain in DOMAINS:
            operators.setdefault(f"{domain}::{schema.name}", {})[schema.since_version] = {
                "attributes": sorted(schema.attributes), "inputs": [each.name for each in schema.inputs],
                "deprecated": bool(schema.deprecated)}
    return {"packages": {name: metadata.version(name) for name in ("onnx", "onnxruntime")},
            "opset": onnx.defs.onnx_opset_version(), "operators": operators,
            "cases": sorted(case.name for case in (loader.load_node_model_tests() if hasattr(loader, "load_node_model_tests")
                                                   else loader.load_model_tests(kind="node")))}


def of(folders):
    path = os.pathsep.join(map(str, folders))
    text = subprocess.check_output([sys.executable, "-W", "ignore", __file__, "--describe"],
                                   env={**os.environ, "PYTHONPATH": path}, text=True)
    return json.loads(text.splitlines()[-1])


def fetched(package, version):
    """A folder with that package, of the newest version if none is given, and what it needs of its own kind."""
    folder = ROOT / "build" / "whats-new" / f"{package}-{version or 'newest'}"
    if version is None or not folder.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--disable-pip-version-check",
                        "--target", folder, package + (f"=={version}" if version else "")], check=True)
    return folder


def rows_of(sinter):
    """Of each operator of import, the last version that a row holds for, and the attributes that it knows there."""
    found = {}
    for op in json.loads(subprocess.check_output([sinter, "ops", "--json"]))["operators"]:
        rows = found.setdefault(f"{op['domain']}::{op['operator']}", [])
        rows.append((op["since"], op["until"], {a["name"] for a in op["attributes"] if a["first"] <= op["until"] <= a["last"]}))
    return found


def news(old, new, rows):
    """(what, whether a row has it) of each operator."""
    for key, versions in sorted(new["operators"].items()):
        known = old["operators"].get(key, {})
        own = rows.get(key)
        for version, schema in sorted(versions.items(), key=lambda each: int(each[0])):
            before = known.get(version)
            if before == schema or schema["deprecated"]:
                continue
            holds = [row for row in own or () if row[0] <= int(version) <= row[1] or "::" in key and not key.startswith("ai.onnx::")]
            lacks = sorted(set(schema["attributes"]) - set().union(*(row[2] for row in holds))) if holds else []
            if before is None:
                what = "is new" if not known else "has a new version"
            else:
                more = [f"{kind[:-1]} {name}" for kind in ("attributes", "inputs") for name in schema[kind] if name not in before[kind]]
                what = "has " + (", ".join(more) or "other words")
            yield f"{key} {version} {what}: " + (
                "no row" if not own else "no row holds" if not holds else f"its row lacks {lacks}" if lacks else "a row has it"), bool(holds) and not lacks


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--onnx", metavar="VERSION")
    p.add_argument("--onnxruntime", metavar="VERSION")
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.describe:
        print(json.dumps(described()))
        return
    old, new = of([]), of([fetched("onnx", a.onnx), fetched("onnxruntime", a.onnxruntime)])
    opsets = json.loads(subprocess.check_output([a.sinter, "ops", "--json"]))["opsets"]
    for name, version in new["packages"].items():
        print(f"{name} {old['packages'][name]} -> {version}")
    lacking = new["opset"] > opsets[1]
    if lacking:
        print(f"opset {new['opset']}: rows hold up to {opsets[1]}")
    for line, is_there in news(old, new, rows_of(a.sinter)):
        print(line)
        lacking |= not is_there
    cases = [case for case in new["cases"] if case not in set(old["cases"])]
    for case in cases:
        print(f"node test {case}")
    print(f"{len(cases)} new node tests, {len(set(old['cases']) - set(new['cases']))} gone; "
          f"tests/conformance/run --onnx {new['packages']['onnx']} runs them")
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    main()
