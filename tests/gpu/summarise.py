#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One summary of GoogleTest's JSON files, of one run or of several shards.

  tests/gpu/summarise.py --commit HASH --out tests/gpu/results/test_gpu.json SHARD.json...
"""
import argparse
import json
from pathlib import Path


def summarise(paths, commit):
    runs = [json.loads(path.read_text()) for path in paths]
    suites = {}
    for run in runs:
        for suite in run["testsuites"]:
            total = suites.setdefault(suite["name"], {"name": suite["name"], "tests": 0, "failures": 0, "failed": []})
            done = [test for test in suite["testsuite"] if test["result"] != "SUPPRESSED" and test["status"] == "RUN"]
            failed = [test["name"] for test in done if test.get("failures")]
            total["tests"] += len(done)
            total["failures"] += len(failed)
            total["failed"] += failed
    kept = [suite for suite in suites.values() if suite["tests"]]
    return {"commit": commit, "timestamp": min(run["timestamp"] for run in runs), "shards": len(runs),
            "tests": sum(suite["tests"] for suite in kept), "failures": sum(suite["failures"] for suite in kept),
            "suites": kept}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--commit", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("shards", type=Path, nargs="+")
    a = p.parse_args()
    a.out.write_text(json.dumps(summarise(a.shards, a.commit), indent=1) + "\n")


if __name__ == "__main__":
    main()
