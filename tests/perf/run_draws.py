#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of one draw on the host (bench_draws.cpp), on one core of a quiet machine.

  run_draws.py [--bench build/bin/bench_draws] [--draws 200] [--commit C] [--results FILE]
"""
import argparse
import json
import os
import subprocess
from pathlib import Path

from common import ROOT, provenance, write


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=ROOT / "build" / "bin" / "bench_draws", type=Path)
    parser.add_argument("--draws", type=int, default=200, help="of each row")
    parser.add_argument("--commit", help="of the binary, where it was built elsewhere")
    parser.add_argument("--results", default=ROOT / "tests" / "perf" / "results" / "draws.json")
    options = parser.parse_args()
    said = subprocess.run([options.bench.resolve(), str(options.draws)], capture_output=True, text=True, check=True)
    result = dict(provenance(options.commit), load=round(os.getloadavg()[0], 1), draws=options.draws, rows=json.loads(said.stdout))
    for row in result["rows"]:
        print(f"{row['vocabulary']:>8} deviation {row['deviation']:<4} {row['draw']:<12} {row['median_us']:8.1f} us, p90 {row['p90_us']:.1f}")
    write(options.results, result)


if __name__ == "__main__":
    main()
