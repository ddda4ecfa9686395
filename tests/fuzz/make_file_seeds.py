#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_ct2, fuzz_texts and of fuzz_safetensors' indices in folders of their names: make_file_seeds.py FOLDER"""
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def write(folder, name, data):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def ct2():
    """A Whisper of one layer, of float32 and two elements a row."""
    def text(s):
        return struct.pack("<H", len(s) + 1) + s.encode() + b"\0"

    def variable(name, shape, kind, data):
        return text(name) + bytes([len(shape)]) + struct.pack(f"<{len(shape)}I", *shape) + struct.pack("<BI", kind, len(data)) + data

    def floats(name, *shape):
        count = 1
        for d in shape:
            count *= d
        return variable(name, shape, 0, bytes(4 * count))

    width, words = 4, 10
    found = [variable("encoder/num_heads", (), 2, struct.pack("<h", 2)), variable("decoder/num_heads", (), 2, struct.pack("<h", 2)),
             floats("encoder/conv1/weight", width, 4, 3), floats("encoder/conv1/bias", width), floats("encoder/conv2/weight", width, width, 3),
             floats("encoder/conv2/bias", width), floats("encoder/position_encodings/encodings", 6, width),
             floats("decoder/position_encodings/encodings", 5, width), floats("decoder/embeddings/weight", words, width)]
    for side in ("encoder", "decoder"):
        found += [floats(f"{side}/layer_norm/{part}", width) for part in ("gamma", "beta")]
        attentions = ["self_attention"] + (["attention"] if side == "decoder" else [])
        for name in [*attentions, "ffn"]:
            found += [floats(f"{side}/layer_0/{name}/layer_norm/{part}", width) for part in ("gamma", "beta")]
        rows = {"self_attention/linear_0": 3 * width, "self_attention/linear_1": width, "ffn/linear_0": 2 * width}
        if side == "decoder":
            rows |= {"attention/linear_0": width, "attention/linear_1": 2 * width, "attention/linear_2": width}
        for name, count in rows.items():
            found += [floats(f"{side}/layer_0/{name}/weight", count, width), floats(f"{side}/layer_0/{name}/bias", count)]
        found += [floats(f"{side}/layer_0/ffn/linear_1/weight", width, 2 * width), floats(f"{side}/layer_0/ffn/linear_1/bias", width)]
    return struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(found)) + b"".join(found) + struct.pack("<I", 0)


def main():
    folder = Path(sys.argv[1])
    write(folder, "fuzz_ct2/whisper", ct2())
    for one in json.loads((HERE.parent / "tools/goldens/gguf_tokenizers.json").read_text()):
        write(folder, f"fuzz_texts/{one['name']}", bytes.fromhex(one["gguf"]))
    write(folder, "fuzz_texts/generation", json.dumps({
        "do_sample": True, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1, "max_new_tokens": 20,
        "decoder_start_token_id": 1, "eos_token_id": [1, 2]}).encode())
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    write(folder, "fuzz_safetensors/index", b"i" + json.dumps(index).encode())


if __name__ == "__main__":
    main()
