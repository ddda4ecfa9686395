#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where compiled models transpose: at their border alone, not between two convolutions.

  check_layouts.py                        the models below that lie here, or have been fetched
  check_layouts.py --models ppocr_det

Looks at the graph after pass assign_layouts, for CUDA; needs no GPU. What counts are transposes between
channels first and channels last. One is at the border if views and casts alone lie between it and an
input or an output of the model, or if it is of weights.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from graph_text import NAME

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
CHECKED = ["tiny_resnet", "tiny_mobilenetv3", "tiny_efficientnet", "tiny_detector", "light_resnet50",
           "light_squeezenet", "ppocr_cls", "ppocr_det", "ddddocr_det"]
PASSIVE = {"Cast", "Concat", "Expand", "Layout", "Pad", "Reshape", "Slice", "Transpose", "Unfold"}


def parse(text):
    """Nodes {name: (operator, operands)} and outputs of the printed graph, which has no bodies yet. An
    operator that brings channels to the end or back is called Layout."""
    nodes, outputs = {}, set()
    for line in text.splitlines():
        if line.strip().startswith("return"):
            outputs = set(re.findall(rf"= ({NAME})", line))
        elif made := re.match(rf"\s*({NAME}) = (\w+)\(([^)]*)\)", line):
            perm = [int(d) for d in (re.search(r"perm = \[([^]]*)\]", line) or ["", ""])[1].split(",") if d]
            last = [0, *range(2, len(perm)), 1]
            is_layout = perm == last or perm == [0, len(perm) - 1, *range(1, len(perm) - 1)]
            nodes[made[1]] = ("Layout" if is_layout and len(perm) > 2 else made[2], re.findall(NAME, made[3]))
    return nodes, outputs


def inner_transposes(text):
    nodes, outputs = parse(text)
    readers = {}
    for name, (_, operands) in nodes.items():
        for operand in operands:
            readers.setdefault(operand, []).append(name)

    def from_border(name):
        if name not in nodes:  # an input or a constant
            return True
        op, operands = nodes[name]
        return op in PASSIVE and all(from_border(operand) for operand in operands)

    def to_border(name):
        if name in outputs:
            return True
        return bool(readers.get(name)) and all(nodes[reader][0] in PASSIVE and to_border(reader)
                                               for reader in readers[name])

    return [name for name, (op, _) in nodes.items()
            if op == "Layout" and not from_border(name) and not to_border(name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build/bin/sinter"))
    parser.add_argument("--models", default=",".join(CHECKED))
    a = parser.parse_args()
    manifest = json.loads((MODELS / "manifest.json").read_text())
    failed = 0
    for key in a.models.split(","):
        entry = manifest[key]
        path = MODELS / entry["path"] if "path" in entry else MODELS / "cache" / next(iter(entry["builds"]))
        if not path.exists():
            print(f"{key}: not fetched")
            continue
        for precision in ("model", "fp16"):
            text = subprocess.run([a.sinter, "compile", str(path), "--target=cuda:sm_90", f"--precision={precision}",
                                   "--stop-after=assign_layouts", *entry.get("options", [])],
                                  check=True, capture_output=True, text=True).stdout
            inner = inner_transposes(text)
            failed += bool(inner)
            print(f"{key} {precision}: {len(parse(text)[0])} nodes, " +
                  (f"transposed between others: {', '.join(inner)}" if inner else "transposes at the border alone"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
