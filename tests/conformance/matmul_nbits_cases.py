# SPDX-License-Identifier: Apache-2.0
"""Cases of com.microsoft MatMulNBits as GPTQ's models have it: columns in the order of their importance, biases."""
import numpy as np

from peer_support import MS, Const, case


def matmul_nbits_cases():
    rng = np.random.default_rng(19)
    rows, columns, block = 6, 64, 16
    f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    groups = np.repeat(np.arange(columns // block), block).astype(np.int32)

    def matmul(name, bits, g_idx, bias=False, zeros=True, dtype=np.float32):
        blocks = columns // block
        packed = rng.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
        zero = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
        inputs = [f32(2, 3, columns), Const(packed), Const(np.abs(f32(rows, blocks)) * np.float32(0.1)),
                  Const(zero) if zeros else None, None if g_idx is None else Const(g_idx),
                  Const(f32(rows)) if bias else None]
        while inputs[-1] is None:
            inputs.pop()
        case(f"matmul_nbits_{name}", "MatMulNBits", inputs, 1, MS, K=columns, N=rows, bits=bits, block_size=block)

    # ONNX Runtime's CPU does not look at zero points where there is g_idx.
    matmul("groups_in_order", 4, groups, zeros=False)
    matmul("groups_mixed", 4, rng.permutation(groups), zeros=False)
    matmul("bias", 4, None, bias=True)
    matmul("bias_8bits", 8, None, bias=True)
