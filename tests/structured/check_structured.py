#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of random models under random schemas: each that ends is JSON and satisfies its schema, by `jsonschema`.

  check_structured.py [--schemas 500] [--texts 20] [--seed 1] [--sampler build/bin/sample_texts]

Schemas are those of random_schemas.py. One that is refused must be by a keyword and its place. Texts of its expressions, as constraints of
their own, must match them whole, by Python's `re`. Prints each text or refusal that is wrong, with its schema's seed, and in the end how
many schemas, texts and refusals there were, by keyword. Exit code 0 if all holds.
"""
import argparse
import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
from random_schemas import PATTERNS, schema_of

ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sampler", default=ROOT / "build/bin/sample_texts")
    options = parser.parse_args()
    seeds = [options.seed * 1_000_000 + i for i in range(options.schemas)]
    schemas = [schema_of(seed) for seed in seeds]
    lines = "".join(json.dumps({"kind": "json_schema", "text": json.dumps(schema, ensure_ascii=False)}) + "\n" for schema in schemas)
    lines += "".join(json.dumps({"kind": "regex", "text": pattern}) + "\n" for pattern in PATTERNS)
    process = subprocess.Popen([options.sampler, str(options.texts), str(options.seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answers, _ = process.communicate(lines)
    if process.returncode != 0:
        sys.exit(f"the sampler ended with {process.returncode}")
    wrong, finished, unfinished, refused, without = [], 0, 0, collections.Counter(), 0
    answers = answers.splitlines()
    for pattern, line in zip(PATTERNS, answers[len(schemas):], strict=True):
        answer = json.loads(line)
        wrong += [f"{pattern}: {why}" for why in answer.get("failed", [answer.get("refused")])]
        wrong += [f"{pattern}: {text!r} does not match" for text, has_ended in answer.get("texts", []) if has_ended and not re.fullmatch(pattern, text)]
    for seed, schema, line in zip(seeds, schemas, answers[:len(schemas)], strict=True):
        answer = json.loads(line)
        if "refused" in answer:
            keyword = re.search(r"at (?:its root|'.*?'): .*?'(\$?[A-Za-z]+)'", answer["refused"], re.DOTALL)
            if keyword is None:
                wrong.append(f"{seed}: refused without a keyword: {answer['refused']}")
            refused[keyword[1] if keyword else "none"] += 1
            continue
        wrong += [f"{seed}: {why[:300]}" for why in answer["failed"]]
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        ended = [text for text, has_ended in answer["texts"] if has_ended]
        finished += len(ended)
        unfinished += len(answer["texts"]) - len(ended)
        without += not ended
        for text in ended:
            try:
                value = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
                validator.validate(value)
            except ValueError as error:
                wrong.append(f"{seed}: no JSON: {text!r}: {error}")
            except RecursionError:
                wrong.append(f"{seed}: {text!r}: the validator does not end")
            except jsonschema.ValidationError as error:
                wrong.append(f"{seed}: {text!r}: {error.message} at {list(error.absolute_path)} by {list(error.absolute_schema_path)}")
    for one in wrong[:40]:
        print(one)
    print(f"{len(PATTERNS)} expressions, {options.schemas} schemas: {sum(refused.values())} refused ({', '.join(f'{k} {n}' for k, n in refused.most_common())}); "
          f"{finished} texts ended, {unfinished} did not, {without} schemas without a text that ended; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
