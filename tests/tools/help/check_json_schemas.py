#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb's --json against its JSON Schema, and no field without one:

check_json_schemas.py SINTER [--cuda]
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
from json_outputs import commands, output_of


def strict(schema):
    """The schema, which lets what comes later be, without what it does not describe."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def main() -> int:
    sinter = Path(sys.argv[1])
    verbs = [verb["name"] for verb in json.loads(
        subprocess.run([sinter, "help", "--json"], capture_output=True, check=True).stdout)["verbs"]]
    schemas = {}
    for verb in [*verbs, "error"]:
        text = subprocess.run([sinter, "help", "--json-schema", verb], capture_output=True, check=True, text=True).stdout
        schemas[verb] = json.loads(text)
        jsonschema.Draft202012Validator.check_schema(schemas[verb])
    tried, wrong = set(), 0
    with tempfile.TemporaryDirectory() as folder:
        for verb, words, code in commands(Path(folder), "--cuda" in sys.argv):
            tried.add(verb)
            output = output_of(sinter, verb, words, code)
            for schema in (schemas[verb], strict(schemas[verb])):
                for error in jsonschema.Draft202012Validator(schema).iter_errors(output):
                    print(f"{verb} {' '.join(map(str, words))}: {error.json_path}: {error.message[:300]}")
                    wrong += 1
    for verb in sorted(set(schemas) - tried):
        print(f"{verb} is not tried")
        wrong += 1
    print(f"{len(tried)} verbs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
