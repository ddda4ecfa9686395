#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each kind of block, as frontend/decoders reads it, against the gguf package's reading, bit by bit.

  check_gguf.py --sinter build/bin/sinter
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, dequantize, quantize

ROOT = Path(__file__).resolve().parents[2]
# Where each block of a kind has numbers of float16.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q8_0": (0,), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
          "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": (), "NVFP4": (),
          "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ1_S": (0,), "IQ1_M": ()}
# Those that the package makes of floats.
MADE = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")


def random_blocks(rng, kind, rows, columns):
    """Bytes of a tensor: any numbers, with scales such that values are about as large as those of a layer."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    data = rng.integers(0, 256, (rows, columns // block, size), dtype=np.uint8)
    for at in SCALES[kind]:
        scale = rng.uniform(1e-4, 4e-4, data.shape[:2]).astype(np.float16)
        data[..., at:at + 2] = scale[..., None].view(np.uint8)
    if kind == "MXFP4":
        data[..., 0] = rng.integers(0, 250, data.shape[:2])  # beyond, numbers are infinite
    elif kind == "NVFP4":
        data[..., :4] &= 127  # scales have no sign
    elif kind == "IQ1_M":  # the highest bits of a float16, in a word of its own
        data[..., 55] = data[..., 55] & 15 | 0x10
    else:
        data[0, 0, 4:12] = 0  # in Q4_K also scales of zero
    return data.reshape(rows, -1)


def bits(x):
    """What distinguishes floats but zeros of either sign."""
    return (np.asarray(x, np.float32) + np.float32(0)).view(np.uint32)


def check_reader(rng, binary, folder):
    """Tensors written by the package: any blocks, and those that it makes of floats, with values near zero and far from it."""
    tensors = {}
    for kind in SCALES:  # of codebooks all entries, the largest of which has 2,048
        tensors[f"any.{kind}"] = kind, random_blocks(rng, kind, 256 if kind[:3] in ("IQ1", "IQ2", "IQ3") else 7, 1024)
    for kind in MADE:
        x = rng.standard_normal((5, 512)).astype(np.float32) * np.float32(10) ** rng.integers(-3, 3, (5, 1)).astype(np.float32)
        x[0, :256] = 0
        tensors[f"made.{kind}"] = kind, quantize(x, GGMLQuantizationType[kind])
    tensors["vector.Q8_0"] = "Q8_0", random_blocks(rng, "Q8_0", 1, 64)[0]
    tensors["experts.Q4_K"] = "Q4_K", random_blocks(rng, "Q4_K", 6, 512).reshape(2, 3, -1)
    path = folder / "blocks.gguf"
    writer = GGUFWriter(path, "llama")
    for name, (kind, data) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = np.frombuffer(subprocess.run([binary, path], check=True, stdout=subprocess.PIPE).stdout, np.float32)
    for name, (kind, data) in sorted(tensors.items()):
        expected = dequantize(data, GGMLQuantizationType[kind]).reshape(-1)
        np.testing.assert_array_equal(bits(found[:expected.size]), bits(expected), name)
        found = found[expected.size:]
    assert not found.size
    print(f"ok     the compiler's reading of {', '.join(sorted({kind for kind, _ in tensors.values()}))}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check_reader(np.random.default_rng(0), Path(a.sinter).parent / "gguf_values", Path(folder))


if __name__ == "__main__":
    main()
