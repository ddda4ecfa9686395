#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A toy number of the sampler costs two files, its row and where it acts (sampler.patch), and is everywhere then.

check_sampler.py          the patch fits the sources, and touches four files at most
check_sampler.py --build  also builds them with it, in build/toy_sampler, and generates with it
"""
import json
import subprocess
import sys
from pathlib import Path

from check_option import ROOT, TOYS, build, run, touched

PROGRAM = """#include <sinter/sinter_c.h>
int main(void) {
  sinter_generation_request request = {sizeof(sinter_generation_request)};
  request.toy_greedy_after = 3;
  return request.toy_greedy_after != 3;
}
"""


def look(sinter: Path, folder: Path) -> None:
    assert "--toy-greedy-after N" in run(sinter, "generate", "--help")
    plan = folder / "toy.plan"
    run(sinter, "compile", ROOT / "models/tiny/decoder.onnx", "-o", plan, "--target=cpu", "--quiet")

    def tokens(*options):
        said = run(sinter, "generate", plan, "--max-tokens=12", "--no-rates", "--json", *options)
        return json.loads(said)

    alone = ["--ids=1,2", "--temperature=5", "--seed=3"]
    drawn, toy = tokens(*alone)["tokens"], tokens(*alone, "--toy-greedy-after=4")["tokens"]
    assert toy[:4] == drawn[:4], (toy, drawn)
    assert toy[4:] == tokens("--ids=" + ",".join(map(str, [1, 2, *toy[:4]])))["tokens"][:8], toy
    # A body of HTTP's.
    request = {"ids": [1, 2], "temperature": 5, "seed": 3, "toy_greedy_after": 4}
    (folder / "requests").write_text(json.dumps(request) + "\n")
    assert tokens("--requests", folder / "requests")["answers"][0]["tokens"] == toy
    refused = subprocess.run([sinter, "generate", plan, *alone, "--toy-greedy-after=-1"], capture_output=True, text=True)
    assert refused.returncode == 2 and "toy-greedy-after -1 is not a number from 0 on" in refused.stderr, refused.stderr
    program = folder / "toy.c"
    program.write_text(PROGRAM)
    run("gcc", "-fsyntax-only", "-I", folder / "sources/runtime/include", program)


def main() -> int:
    patch = TOYS / "sampler.patch"
    files = touched(patch, 4)
    if "--build" in sys.argv:
        folder = ROOT / "build/toy_sampler"
        look(build(folder, patch), folder)
    print(f"a toy number of the sampler: {', '.join(files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
