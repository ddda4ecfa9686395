#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products of 8 bits: bench_gemm's best schedule of each shape beside the library.

    run_eight_bit.py [--bench build/bin/bench_gemm] [--out FILE.json] [--filter TEXT,..]
                     [--most N] [--repeats N]

Prints a line for each product once it is measured: our best with a cold and with a warm L2, the
library's time, and what bias, GELU and a quantized result add to the bare product; then a table of
its best schedules. Of products that need promoted sums one without promotion is among them
("fast"), whose error says what it costs. The whole of bench_gemm's figures goes to FILE.json, which
is written anew after every product.
"""

import argparse
import json
import pathlib
import subprocess
import sys

# So many products follow each other in a graph: their weights and inputs exceed the L2.
COPIES = {"4096_4096_4096": 4, "8192_8192_8192": 2, "4096_3072_768": 12, "4096_768_3072": 12,
          "2048_14336_4096": 2, "64_14336_4096": 4}
# With scales of blocks, into float16.
BLOCKS = {"4096_4096_4096": 4, "4096_4096_7168": 3, "2048_14336_4096": 2, "4096_7168_2048": 6,
          "64_7168_2048": 8}
# Tensor cores add up all of k, which no rule chooses where it is deep.
FAST = ("pingpong 128x256x128 consumers=1 warpgroups=2 stages=4 blocks=132 passes=spread "
        "split_k=1 cluster_n=1")
DEEP = 1024  # of k, beyond which sums are promoted
SHAPES = {name: tuple(int(part) for part in name.split("_")) for name in COPIES}


def measure(bench: str, name: str, most: int, repeats: int) -> list:
    types, shape = name.split("_", 1)[0], name.split("_", 1)[1].rsplit("_", 1)[0]
    copies = (BLOCKS if types == "block" else COPIES)[shape]
    command = [bench, "--filter", name, "--copies", str(copies), "--repeats", str(repeats),
               "--most", str(most), "--early", "1"]
    if types == "e4m3" and SHAPES[shape][2] > DEEP and SHAPES[shape][0] > 64:
        command += ["--also", FAST]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(result.stderr)
    if result.returncode != 0:
        return []
    report = json.loads(result.stdout)
    return [{**row, "gpu": report["gpu"]} for row in report.get("products", [])]


def best_of(rows: list, library: bool) -> dict | None:
    timed = [row for row in rows if "cold_us" in row and row["way"] != FAST
             and (row["way"] == "library") == library]
    return min(timed, key=lambda row: row["cold_us"], default=None)


def print_table(rows: list) -> None:
    timed = sorted((row for row in rows if "cold_us" in row), key=lambda row: row["cold_us"])
    for row in timed[:6] + [row for row in timed[6:] if row["way"] == FAST]:
        print(f"    {row['cold_us']:8.2f} cold {row['warm_us']:8.2f} warm  error "
              f"{row['error']:.1e}  {'fast: ' if row['way'] == FAST else ''}{row['way']}",
              flush=True)
    for row in rows:
        if "failed" in row:
            print(f"    {row['way']}: {row['failed']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_gemm")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    wanted = [text for text in args.filter.split(",") if text]
    all_rows = []
    for types in ("e4m3", "block", "i8"):
        for shape in BLOCKS if types == "block" else COPIES:
            m, n, k = (int(part) for part in shape.split("_"))
            bare = None
            for after in ("bare",) if types == "block" else ("bare", "gelu"):
                name = f"{types}_{shape}_{after}"
                if wanted and not any(text in name for text in wanted):
                    continue
                rows = measure(args.bench, name, args.most, args.repeats)
                all_rows += rows
                ours, library = best_of(rows, False), best_of(rows, True)
                if ours is None:
                    print(f"{name:28} no kernel ran", flush=True)
                    continue
                bare = ours["cold_us"] if after == "bare" else bare
                beside = f"library {library['cold_us']:8.2f}" if library else "no library"
                more = f"  x{ours['cold_us'] / bare:.3f} of bare" if after != "bare" and bare else ""
                rate = 2e-6 * m * n * k / ours["cold_us"]
                print(f"{name:28} {ours['cold_us']:8.2f} us cold {ours['warm_us']:8.2f} warm "
                      f"{rate:6.0f} Top/s  {beside}  error {ours['error']:.1e} in "
                      f"{ours['others']:.1%} of elements{more}  "
                      f"{ours['way']}", flush=True)
                print_table(rows)
                if args.out:
                    args.out.write_text(json.dumps(all_rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
