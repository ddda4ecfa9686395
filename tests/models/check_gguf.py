#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each kind of block, as frontend/decoders and models/gguf_file.py read it, against the gguf package's reading, bit by bit; and a small
Qwen2 checkpoint with biases through build_llama.py and the compiler against NumPy in float64.

  check_gguf.py --sinter build/bin/sinter --target cpu
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType, dequantize, quantize

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models")]
from build_llama import example  # noqa: E402
from gguf_file import LAYER, READERS, Checkpoint  # noqa: E402
from runs import Sinter  # noqa: E402

WIDTH, HEADS, KV_HEADS, LAYERS, WORDS = 256, 4, 2, 2, 64
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


def check_blocks(rng):
    for kind, read in READERS.items():
        data = random_blocks(rng, kind, 7, 1024)
        np.testing.assert_array_equal(read(data).values(), dequantize(data, GGMLQuantizationType[kind]), kind)


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


def write_checkpoint(rng, path, words="Q6_K", has_head=False):
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(1e4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*(chr(33 + i) for i in range(WORDS - 1)), "AB"])
    writer.add_token_types([TokenType.NORMAL] * WORDS)
    writer.add_token_merges(["A B"])

    def blocks(name, kind, rows, columns):
        writer.add_tensor(name + ".weight", random_blocks(rng, kind, rows, columns), raw_dtype=GGMLQuantizationType[kind])

    def vector(name, low, high, count=WIDTH):
        writer.add_tensor(name, rng.uniform(low, high, count).astype(np.float32))

    blocks("token_embd", words, WORDS, WIDTH)
    if has_head:
        blocks("output", "Q6_K", WORDS, WIDTH)
    vector("output_norm.weight", 0.5, 1.5)
    kv = WIDTH // HEADS * KV_HEADS
    shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH), "attn_output": (WIDTH, WIDTH),
              "ffn_gate": (2 * WIDTH, WIDTH), "ffn_up": (2 * WIDTH, WIDTH), "ffn_down": (WIDTH, 2 * WIDTH)}
    assert {*shapes, "attn_norm", "ffn_norm"} == set(LAYER)
    for i in range(LAYERS):
        for (name, shape), kind in zip(shapes.items(), ["Q4_K", "Q5_0", "Q6_K", "Q4_K", "Q8_0", "Q4_1", "Q6_K"]):
            blocks(f"blk.{i}.{name}", kind, *shape)
        for name in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{name}.weight", 0.5, 1.5)
        for name in ("attn_q", "attn_k", "attn_v"):
            vector(f"blk.{i}.{name}.bias", -1, 1, shapes[name][0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_checkpoint(a, folder, path):
    checkpoint = Checkpoint(path)
    arrays = example(checkpoint.config, checkpoint.weights())
    feeds = {name: value for name, value in arrays.items() if not name.startswith("expected/")}
    for options in ([], ["--keep-blocks"], ["--keep-blocks", "--blocks", "dequantize"]):
        model = folder / "tiny.onnx"
        subprocess.run([sys.executable, ROOT / "models" / "build_llama.py", "--gguf", path, *options, "--out", model], check=True)
        sinter = Sinter(a.sinter, folder, a.target)
        found = sinter.run(sinter.compile(model), feeds)
        for name, value in arrays.items():
            if name.startswith("expected/"):
                name = name.removeprefix("expected/")
                np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-5 * np.abs(value).max(), err_msg=name)
        print(f"ok     {path.name} {' '.join(options)}", flush=True)
    tokenizer = folder / "tokenizer.json"
    subprocess.run([sys.executable, ROOT / "models" / "build_llama.py", "--gguf", path, "--out", tokenizer], check=True)
    from tokenizers import Tokenizer
    assert Tokenizer.from_file(str(tokenizer)).encode("AB77A").tokens == ["AB", "7", "7", "A"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    a = p.parse_args()
    rng = np.random.default_rng(0)
    check_blocks(rng)
    print(f"ok     blocks of {', '.join(READERS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        check_reader(rng, Path(a.sinter).parent / "gguf_values", folder)
        write_checkpoint(rng, folder / "shared.gguf")
        write_checkpoint(rng, folder / "shared_minima.gguf", words="Q4_K")
        write_checkpoint(rng, folder / "head.gguf", words="Q4_K", has_head=True)
        for path in sorted(folder.glob("*.gguf")):
            if path.name != "blocks.gguf":
                check_checkpoint(a, folder, path)


if __name__ == "__main__":
    main()
