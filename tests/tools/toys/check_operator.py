#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A toy operator with a kernel (operator.patch) is a folder of the runtime and one of the compiler, and three files outside of them.

check_operator.py           the patch fits the sources, and touches no more
check_operator.py --build   also builds them with it, in build/toy_operator, and runs it
"""
import sys
from pathlib import Path

from check_option import ROOT, build, run

PATCH = Path(__file__).with_name("operator.patch")
FOLDERS = ("runtime/operators/runs/", "codegen/families/runs/")
GRAPH = """graph @toy(%x: f32[300, 64]) {
  %rounded = Round(%x)
  %y = Runs(%rounded) {most = 2}
  return %y
}
"""


def look(sinter: Path, folder: Path) -> None:
    def said(*words):
        return run(sinter, *words)

    graph, plan = folder / "toy.sinter", folder / "toy.plan"
    graph.write_text(GRAPH)
    said("verify", graph, "--target=cpu")
    assert "Runs" in said("ops", "Runs")
    said("compile", graph, "-o", plan, "--target=cpu", "--quiet")
    assert " runs " in said("inspect", plan, "--steps")
    said("compile", graph, "-o", plan, "--target=cuda:sm_90", "--quiet")
    assert "runs_of_row(x + row" in said("inspect", plan, "--source")


def main() -> int:
    files = [line.split("/", 1)[1] for line in PATCH.read_text().splitlines() if line.startswith("+++ ")]
    outside = [name for name in files if not name.startswith(FOLDERS)]
    assert len(outside) <= 3, outside
    run("patch", "-p1", "--dry-run", "-i", PATCH, cwd=ROOT)
    if "--build" in sys.argv:
        folder = ROOT / "build/toy_operator"
        look(build(folder, PATCH), folder)
    print(f"a toy operator: {len(files) - len(outside)} files in its folders, and {', '.join(outside)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
