#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles this folder's Triton kernels ahead of time, for the architectures that softmax.toml names. No GPU is needed.

  models/operators/make_cubins.py [--out FOLDER]      # pip install triton

Prints what a definition has to say of each kernel.
"""
import argparse
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
BLOCK, WARPS = 1024, 4


@triton.jit
def softmax_rows(y, x, rows, columns, block: tl.constexpr):
    """A row stays on chip: read once, written once."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        # Offsets of 64 bits: a matrix may have more than 2^31 elements.
        first = row.to(tl.int64) * columns
        column = tl.arange(0, block)
        inside = column < columns
        value = tl.load(x + first + column, mask=inside, other=-float("inf"))
        weight = tl.exp(value - tl.max(value, axis=0))
        tl.store(y + first + column, weight / tl.sum(weight, axis=0), mask=inside)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=HERE)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for number in (80, 90, 100):
        source = ASTSource(fn=softmax_rows, constexprs={"block": BLOCK},
                           signature={"y": "*fp32", "x": "*fp32", "rows": "i32", "columns": "i32", "block": "constexpr"},
                           attrs={(i,): [["tt.divisibility", 16]] for i in (0, 1)})
        compiled = triton.compile(source, target=GPUTarget("cuda", number, 32), options={"num_warps": WARPS})
        path = a.out / f"softmax_sm_{number}.cubin"
        path.write_bytes(compiled.asm["cubin"])
        told = compiled.metadata
        print(f"{path.name}: function = \"{told.name}\", block = [{32 * told.num_warps}], shared_bytes = {told.shared}")


if __name__ == "__main__":
    main()
