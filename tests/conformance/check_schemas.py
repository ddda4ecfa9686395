#!/usr/bin/env python3
"""Compares the attributes that import knows of each operator and version with ONNX's schemas, and for
com.microsoft with ONNX Runtime's. Prints what differs; exit status 1 if anything does.

    check_schemas.py [SINTER]      # build/bin/sinter
"""
import json
import subprocess
import sys

import onnx

# ONNX Runtime writes these into models of older opsets, or under ONNX's name without a schema there.
EARLIER = {"LayerNormalization": 17, "SimplifiedLayerNormalization": None}


def schemas_of_onnx():
    """Attribute names by (domain, operator) and version."""
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = (schema.domain or "ai.onnx", schema.name)
        found.setdefault(key, {})[schema.since_version] = set(schema.attributes)
    return found


def schemas_of_runtime():
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = {}
    for schema in state.get_all_operator_schema():
        if schema.domain == "com.microsoft":
            found.setdefault((schema.domain, schema.name), {})[schema.since_version] = set(schema.attributes)
    return found


def differences(op, schemas, last_opset):
    name, is_onnx = op["operator"], op["domain"] == "ai.onnx"
    versions = schemas.get((op["domain"], name))
    if versions is None:
        if name not in EARLIER and name != "SimplifiedLayerNormalization":
            yield "has no schema"
        return
    for version in range(op["since"], (last_opset if is_onnx else op["since"]) + 1):
        if version > op["until"]:
            return
        since = max((v for v in versions if v <= version), default=None)
        if since is None:
            since = EARLIER.get(name, min(versions))
            if name not in EARLIER:
                continue  # an operator that is older than its first schema that is listed
        known = {a["name"] for a in op["attributes"] if a["first"] <= version <= a["last"]}
        if known != versions[since]:
            lacking, extra = versions[since] - known, known - versions[since]
            yield f"in version {version} lacks {sorted(lacking)}, has besides {sorted(extra)}"
            return


def main():
    sinter = sys.argv[1] if len(sys.argv) > 1 else "build/bin/sinter"
    report = json.loads(subprocess.check_output([sinter, "ops", "--json"]))
    last = report["opsets"][1]
    schemas = {**schemas_of_onnx(), **schemas_of_runtime()}
    # A row of the same name that begins later takes over.
    starts = {}
    for op in report["operators"]:
        starts.setdefault((op["domain"], op["operator"]), []).append(op["since"])
    failures = 0
    for op in report["operators"]:
        later = [v for v in starts[op["domain"], op["operator"]] if v > op["since"]]
        if later:
            op["until"] = min(op["until"], min(later) - 1)
        for difference in differences(op, schemas, last):
            failures += 1
            print(f"{op['domain']}::{op['operator']}-{op['since']}: {difference}")
    newest = onnx.defs.onnx_opset_version()
    print(f"{len(report['operators'])} rows against onnx {onnx.__version__} (opset {newest}): {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
