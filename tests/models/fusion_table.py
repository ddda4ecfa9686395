#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches and bytes moved, unfused and fused, of every model in models/manifest.json; writes models/FUSION.md.

  fusion_table.py --models all           compiles for cuda:sm_90, which needs no GPU: no kernel is compiled
  fusion_table.py --table                only writes models/FUSION.md from the committed results

Bytes are what the plan's steps must move: each reads its inputs once and writes its outputs once. Launches
are kernels, library calls and copies, of a step with tactics those of the plan's first guess. Shapes
are those of the first input in models/real_inputs.py, or of the tiny models' own.
"""
import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
import real_inputs  # noqa: E402
from common import INPUTS, provenance, write  # noqa: E402
from runs import Failed, Sinter  # noqa: E402

MODELS = ROOT / "models"
RESULTS = Path(__file__).with_name("results") / "fusion_sm90.json"
TABLE = MODELS / "FUSION.md"
PRECISIONS = {"model": "the model's own types", "fp16": "float16"}
# Of models that are not in real_inputs.py because scripts of their own check them.
SHAPES = {"minilm": {name: (1, 64) for name in INPUTS}, "magika": {"bytes": (1, 2048)}}


def shapes_of(key, entry):
    """The shape of each input by name."""
    if "inputs" in entry:
        with np.load(MODELS / entry["inputs"]) as f:
            return {k: f[k].shape for k in f if not k.startswith("expected/")}
    if key in SHAPES:
        return SHAPES[key]
    state = real_inputs.STATE.get(key, {}).values()
    return {**{k: v.shape for k, v in real_inputs.INPUTS[key]()[0].items()}, **dict(state)}


def measure(sinter, path, shapes, options, precision):
    """Totals of the steps, unfused and fused."""
    given = "--shapes=" + ",".join(f"{k}:{'x'.join(map(str, v))}" for k, v in shapes.items())
    totals = {"convolutions": sinter.json("inspect", path, *options)["operators"].get("Conv", 0)}
    for name, fuse in (("unfused", "off"), ("fused", "on")):
        report = sinter.json("inspect", path, "--steps", f"--target={sinter.target}", f"--precision={precision}",
                             f"--fuse={fuse}", given, *options)
        totals[name] = report["totals"]
        totals[name]["bytes"] = totals[name]["bytes_read"] + totals[name]["bytes_written"]
    return totals


def run(a):
    manifest = json.loads((MODELS / "manifest.json").read_text())
    groups = {"tiny": [k for k in manifest if "path" in manifest[k]], "all": [k for k in manifest if not manifest[k].get("large")]}
    chosen = [key for word in a.models.split(",") for key in groups.get(word, [word])]
    sinter, rows, failed = Sinter(a.sinter, ".", a.target), [], 0
    for key in chosen:
        entry = manifest[key]
        path = MODELS / entry["path"] if "path" in entry else MODELS / "cache" / next(iter(entry["builds"]))
        for precision in PRECISIONS:
            row = {"model": key, "precision": precision}
            try:
                if not path.exists():
                    raise Failed(f"models/cache/{path.name} is not there: models/fetch.py {key}")
                shapes = shapes_of(key, entry)
                row["shapes"] = {k: list(v) for k, v in shapes.items()}
                row.update(measure(sinter, path, shapes, entry.get("options", []), precision))
                print(f"{key} {precision}: {row['unfused']['launches']} -> {row['fused']['launches']} launches, "
                      f"{row['unfused']['bytes'] / 1e6:.1f} -> {row['fused']['bytes'] / 1e6:.1f} MB", flush=True)
            except Failed as e:
                row["why"], failed = str(e), failed + 1
                print(f"{key} {precision}: {e}", flush=True)
            rows.append(row)
    write(a.out, {**provenance(a.commit), "target": a.target, "models": rows})
    return failed


def mean_ratio(rows, what):
    """Geometric mean of unfused over fused."""
    ratios = [row["unfused"][what] / row["fused"][what] for row in rows]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def size(count):
    megabytes = count / 1e6
    return f"{megabytes:,.0f}" if megabytes >= 100 else f"{megabytes:.3g}"


def cells(row):
    if "why" in row:
        return ["", row["why"].replace("|", "\\|")[:80]]
    off, on = row["unfused"], row["fused"]
    return [f"{off['launches']:,}→{on['launches']:,} ({off['launches'] / on['launches']:.1f}×)",
            f"{size(off['bytes'])}→{size(on['bytes'])} ({off['bytes'] / on['bytes']:.1f}×)"]


def write_table(results):
    manifest = json.loads((MODELS / "manifest.json").read_text())
    by_precision = {p: {r["model"]: r for r in results["models"] if r["precision"] == p} for p in PRECISIONS}
    lines = ["# Fused against unfused", "",
             "`tests/models/fusion_table.py` writes this page: launches and MB that a plan's steps move, unfused (`--fuse=off`)",
             "and fused. `tests/models/results/fusion_sm90.json` has all.",
             "Each step reads its inputs, weights included, and writes its outputs once. Batch 1, the first test input's shapes.",
             "Unfused convolutions are an unfolded input and a matmul, which moves more than a library; so the last row leaves",
             "these models out. The last rows count the tiny networks of `models/tiny`, too.", "",
             f"Target {results['target']}, commit {results['commit'][:10]}, {results['date']}. Rows are unfused → fused."]
    heads = [h for what in PRECISIONS.values() for h in (f"launches, {what}", "MB moved")]
    lines += ["", "| model | " + " | ".join(heads) + " |", "|" + "---|" * (len(heads) + 1)]
    for key in manifest:
        rows = [by_precision[p].get(key) for p in PRECISIONS]
        if all(rows) and "path" not in manifest[key]:  # the tiny ones count below
            lines.append(f"| {key} | " + " | ".join(c for row in rows for c in cells(row)) + " |")
    total, mean, plain = [], [], []
    for rows in by_precision.values():
        good = [row for row in rows.values() if "why" not in row]
        summed = {side: {what: sum(row[side][what] for row in good) for what in ("launches", "bytes")}
                  for side in ("unfused", "fused")}
        total += cells(summed)
        mean += [f"{mean_ratio(good, what):.2f}×" for what in ("launches", "bytes")]
        without = [row for row in good if row["convolutions"] == 0]
        plain += [f"{mean_ratio(without, what):.2f}×" if without else "" for what in ("launches", "bytes")]
    lines.append("| **all** | " + " | ".join(total) + " |")
    lines.append("| **geometric mean** | " + " | ".join(mean) + " |")
    lines.append("| **of models without convolutions** | " + " | ".join(plain) + " |")
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"wrote {TABLE}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda:sm_90")
    p.add_argument("--models", default="all", help="names with commas; 'tiny' and 'all' stand for many")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--table", action="store_true", help="only write models/FUSION.md anew")
    p.add_argument("--out", type=Path, default=RESULTS)
    a = p.parse_args()
    failed = 0 if a.table else run(a)
    write_table(json.loads(a.out.read_text()))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
