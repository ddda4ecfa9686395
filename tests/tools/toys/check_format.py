#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A toy format of weights costs four files: its numbers, how kernels widen them, and which target has them (format.patch).

check_format.py           the patch fits the sources, and touches four files at most
check_format.py --build   also builds them with it, in build/toy_format, and compiles a product for both targets
"""
import sys
from pathlib import Path

from check_option import ROOT, TOYS, build, run, touched

GRAPH = """graph @main(%x: {type}[m, 64]) {{
  %w = const u8[32, 32] random(1)
  %s = const f16[32, 2] splat(0.5)
  %y = MatMul(%x, %w, %s) {{w = "toy4 * f16 group 32"}}
  return y = %y
}}
"""


def look(sinter: Path, folder: Path) -> None:
    import numpy as np
    for target, dtype in (("cuda:sm_90", "f16"), ("cpu", "f32")):
        graph, plan = folder / f"{dtype}.graph", folder / f"{dtype}.plan"
        graph.write_text(GRAPH.format(type=dtype))
        run(sinter, "compile", graph, "-o", plan, f"--target={target}", "--quiet")
        if target != "cpu":
            assert "PackedToys" in run(sinter, "inspect", plan, "--source")
            continue
        np.savez(folder / "x.npz", x=np.eye(64, dtype=np.float32))
        run(sinter, "run", plan, "--inputs", folder / "x.npz", "--outputs", folder / "y.npz")
        numbers = np.load(folder / "y.npz")["y"]
        assert set(numbers.reshape(-1)) <= set(range(-8, 8)) and len(set(numbers.reshape(-1))) == 16, numbers


def main() -> int:
    patch = TOYS / "format.patch"
    files = touched(patch, 4)
    if "--build" in sys.argv:
        folder = ROOT / "build/toy_format"
        look(build(folder, patch), folder)
    print(f"a toy format: {', '.join(files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
