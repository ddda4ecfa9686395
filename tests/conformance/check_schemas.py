#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the attributes and inputs that import knows of each operator and version with ONNX's schemas,
and for com.microsoft with ONNX Runtime's. Prints what differs; exit status 1 if anything does.

    check_schemas.py [SINTER]               # build/bin/sinter
    check_schemas.py --inputs [SINTER]      prints the rows of frontend/ops/table/input_names.cpp
"""
import json
import subprocess
import sys

import onnx

# ONNX Runtime writes these into models of older opsets, or under ONNX's name without a schema there.
EARLIER = {"LayerNormalization": 17, "SimplifiedLayerNormalization": None, "ThresholdedRelu": 10}


# Once experimental operators of ONNX, which ONNX Runtime alone still has schemas of.
EXPERIMENTAL = {"Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}


# Inputs that ONNX Runtime's later versions have behind those of the installed one.
LATER = {("com.microsoft", "GatedAdd"): ["gate_weight:T"],
         ("com.microsoft", "GroupQueryAttention"): ["query_seqlens:M"],
         ("com.microsoft", "VarlenCausalConvWithState"): ["kernel_delta:T", "previous_mask:T"]}
# Attributes likewise.
LATER_ATTRIBUTES = {("com.microsoft", "GatedDeltaNet"): {"gate_lower_bound"},
                    ("com.microsoft", "CausalConvWithState"): {"input_channel_offset", "input_channels", "state_channels_last",
                                                               "state_length", "state_update_capacity"},
                    ("com.microsoft", "VarlenCausalConvWithState"): {"delta_offset", "group_size"},
                    ("com.microsoft", "GroupQueryAttention"): {"k_norm_epsilon", "q_norm_epsilon"},
                    ("com.microsoft", "MoE"): {"swiglu_limit_after_activation"},
                    ("com.microsoft", "QMoE"): {"swiglu_limit_after_activation"}}
# Operators likewise.
LATER_OPERATORS = {("com.microsoft", "RouterGateUpProj"), ("com.microsoft", "SwiGLU")}


def all_schemas():
    """Schemas by (domain, operator) and version."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain or "ai.onnx", schema.name), {})[schema.since_version] = schema
    for schema in state.get_all_operator_schema():
        if schema.domain == "com.microsoft" or schema.name in EXPERIMENTAL:
            found.setdefault((schema.domain or "ai.onnx", schema.name), {})[schema.since_version] = schema
    return found


def spelled(schema):
    """Names and types of inputs, as the importer's table has them: "A:T B:T axes xs..:V", where a type is
    named that several inputs share."""
    types = [getattr(each, "typeStr", None) or each.type_str for each in schema.inputs]
    words = []
    for each, kind in zip(schema.inputs, types):
        variadic = "Variadic" in str(each.option)
        alike = getattr(each, "isHomogeneous", getattr(each, "is_homogeneous", True))
        is_shared = "(" not in kind and (alike if variadic else types.count(kind) > 1)
        words.append(each.name + (".." if variadic else "") + (f":{kind}" if is_shared else ""))
    return words


def input_rows(operators, schemas):
    """(domain, operator, version, its inputs) where their number or the types that they share change."""
    for key in sorted({(op["domain"], op["operator"]) for op in operators}):
        last = None
        for version, schema in sorted(schemas.get(key, {}).items()):
            words = spelled(schema)
            words += [word for word in LATER.get(key, []) if word not in words]
            pattern = [word.partition(":")[2] for word in words]
            if last != pattern:
                yield (*key, version, " ".join(words))
            last = pattern


def print_inputs(operators, schemas):
    domains = {"ai.onnx": '""', "com.microsoft": "kMicrosoft"}
    for domain, name, version, names in input_rows(operators, schemas):
        print(f'    {{{domains.get(domain) or repr(domain)}, "{name}", {version}, "{names}"}},'.replace("'", '"'))


def input_differences(operators, schemas):
    known = {(op["domain"], op["operator"], each["since"], each["names"])
             for op in operators for each in op["inputs"]}
    wanted = set(input_rows(operators, schemas)) | {row for row in known if row[:2] in LATER_OPERATORS and row[:2] not in schemas}
    for row in sorted(known ^ wanted):
        yield f"inputs {'lacked' if row in wanted else 'had besides'}: {row}"


def differences(op, schemas, last_opset):
    name, is_onnx = op["operator"], op["domain"] == "ai.onnx"
    versions = schemas.get((op["domain"], name))
    if versions is None:
        if (op["domain"], name) not in LATER_OPERATORS and name not in EARLIER and name != "SimplifiedLayerNormalization":
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
        attributes = set(versions[since].attributes) | LATER_ATTRIBUTES.get((op["domain"], name), set())
        known = {a["name"] for a in op["attributes"] if a["first"] <= version <= a["last"]}
        if known != attributes:
            lacking, extra = attributes - known, known - attributes
            yield f"in version {version} lacks {sorted(lacking)}, has besides {sorted(extra)}"
            return


def float8_differences(op, schemas):
    """Whether inputs may be floats of 8 bits, in the newest version."""
    if op["domain"] != "ai.onnx" or op["operator"] not in {name for _, name in schemas}:
        return
    versions = schemas.get((op["domain"], op["operator"]), {})
    if not versions:
        return
    newest = versions[max(versions)]
    wanted = any("tensor(float8e4m3fn)" in each.types for each in newest.inputs)
    if wanted != ("f8e4m3fn" in op["types"]):
        yield f"{'lacks' if wanted else 'has besides'} floats of 8 bits"


def main():
    arguments = [each for each in sys.argv[1:] if each != "--inputs"]
    sinter = arguments[0] if arguments else "build/bin/sinter"
    report = json.loads(subprocess.check_output([sinter, "ops", "--json"]))
    last = report["opsets"][1]
    schemas = all_schemas()
    if "--inputs" in sys.argv:
        return print_inputs(report["operators"], schemas)
    # A row of the same name that begins later takes over.
    starts = {}
    for op in report["operators"]:
        starts.setdefault((op["domain"], op["operator"]), []).append(op["since"])
    failures = 0
    for op in report["operators"]:
        later = [v for v in starts[op["domain"], op["operator"]] if v > op["since"]]
        if later:
            op["until"] = min(op["until"], min(later) - 1)
        if op["domain"] == "trt":
            continue  # TensorRT publishes no schemas
        for difference in [*differences(op, schemas, last), *float8_differences(op, schemas)]:
            failures += 1
            print(f"{op['domain']}::{op['operator']}-{op['since']}: {difference}")
    for difference in input_differences(report["operators"], schemas):
        failures += 1
        print(difference)
    newest = onnx.defs.onnx_opset_version()
    print(f"{len(report['operators'])} rows against onnx {onnx.__version__} (opset {newest}): {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
