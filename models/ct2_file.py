# SPDX-License-Identifier: Apache-2.0
"""Weights of a CTranslate2 checkpoint (model.bin), and those of Whisper by the names that Hugging Face gives them.

The file: a version (uint32), and from version 2 on the name of the model's kind and its revision (uint32); a number of
variables (uint32), and each of them: its name, its rank (uint8), its dimensions (uint32 each), the type of its elements
(uint8), the bytes that follow (uint32) and these. Then the number of aliases (uint32) and each of them: its name and that of
the variable. A name is its length with the zero at its end (uint16), and its characters. All little-endian.
"""
import struct

import numpy as np

TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
VERSIONS = (4, 5, 6)


class Ct2Error(ValueError):
    pass


class Ct2File:
    """`kind`: of model, as "WhisperSpec"; `variables`: arrays by name, aliases among them."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data, self.at = f.read(), 0
        version = self.number("I")
        if version not in VERSIONS:
            raise Ct2Error(f"{path}: version {version} of model.bin, not one of {VERSIONS}")
        self.kind, self.revision = self.name(), self.number("I")
        self.variables = {}
        for _ in range(self.number("I")):
            name = self.name()
            shape = [self.number("I") for _ in range(self.number("B"))]
            kind, size = self.number("B"), self.number("I")
            if kind not in TYPES:
                raise Ct2Error(f"{path}: '{name}' is of type {kind}, which is not known here")
            self.variables[name] = np.frombuffer(self.take(size), TYPES[kind]).reshape(shape)
        for _ in range(self.number("I")):
            alias, name = self.name(), self.name()
            self.variables[alias] = self.variables[name]
        if self.at != len(self.data):
            raise Ct2Error(f"{path}: {len(self.data) - self.at} bytes behind the last alias")

    def take(self, size):
        if size > len(self.data) - self.at:
            raise Ct2Error(f"the file ends within what should have {size} bytes at {self.at}")
        self.at += size
        return memoryview(self.data)[self.at - size:self.at]

    def number(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize(kind)))[0]

    def name(self):
        return bytes(self.take(self.number("H"))).rstrip(b"\0").decode()


def whisper_weights(file):
    """float32 arrays by Hugging Face's names, and the heads of attention. Queries, keys and values lie one below the other."""
    if file.kind != "WhisperSpec":
        raise Ct2Error(f"a checkpoint of {file.kind}, not of WhisperSpec")
    found, result = file.variables, {}

    def copy(source, target, rows=None):
        for part in ("weight", "bias"):
            name = f"{source}/{part}"
            if name not in found:
                continue
            if found[name].dtype not in (np.float32, np.float16):
                raise Ct2Error(f"'{name}' is {found[name].dtype}: convert the checkpoint to float16 or float32")
            result[f"{target}.{part}"] = found[name].astype(np.float32)[rows or slice(None)]

    def norm(source, target):
        for ours, theirs in (("gamma", "weight"), ("beta", "bias")):
            result[f"{target}.{theirs}"] = found[f"{source}/{ours}"].astype(np.float32)

    def parts(source, names, target):
        width = found[source + "/weight"].shape[0] // len(names)
        for i, name in enumerate(names):
            copy(source, f"{target}.{name}_proj", slice(i * width, (i + 1) * width))

    for side in ("encoder", "decoder"):
        i = 0
        while f"{side}/layer_{i}/ffn/linear_0/weight" in found:
            source, target = f"{side}/layer_{i}", f"model.{side}.layers.{i}"
            parts(f"{source}/self_attention/linear_0", "qkv", target + ".self_attn")
            copy(f"{source}/self_attention/linear_1", target + ".self_attn.out_proj")
            norm(f"{source}/self_attention/layer_norm", target + ".self_attn_layer_norm")
            if side == "decoder":
                parts(f"{source}/attention/linear_0", "q", target + ".encoder_attn")
                parts(f"{source}/attention/linear_1", "kv", target + ".encoder_attn")
                copy(f"{source}/attention/linear_2", target + ".encoder_attn.out_proj")
                norm(f"{source}/attention/layer_norm", target + ".encoder_attn_layer_norm")
            copy(f"{source}/ffn/linear_0", target + ".fc1")
            copy(f"{source}/ffn/linear_1", target + ".fc2")
            norm(f"{source}/ffn/layer_norm", target + ".final_layer_norm")
            i += 1
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        result[f"model.{side}.embed_positions.weight"] = found[f"{side}/position_encodings/encodings"].astype(np.float32)
    copy("encoder/conv1", "model.encoder.conv1")
    copy("encoder/conv2", "model.encoder.conv2")
    result["model.decoder.embed_tokens.weight"] = found["decoder/embeddings/weight"].astype(np.float32)
    return result, int(found["encoder/num_heads"])
