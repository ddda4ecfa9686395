# SPDX-License-Identifier: Apache-2.0
"""Strings at the border of a plan, for which integers stand in it: columns of words of a table, names of classes."""
from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import UsageError

KEY = "texts"  # of the manifest's options: tools/compiler/run/binding_texts.h


def texts_of(options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the plan says of its inputs and its outputs, by name."""
    if KEY not in options:
        return {}, {}
    texts = json.loads(options[KEY])
    return texts["inputs"], texts["outputs"]


def _rotated(x, bits):
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def murmur3(texts: Sequence[bytes], seed: int) -> np.ndarray:
    """MurmurHash3 (x86, 32 bits) of each, as uint32: all at once, block by block."""
    with np.errstate(over="ignore"):
        sizes = np.array([len(text) for text in texts], np.uint32)
        width = -(-max([1, *sizes]) // 4) * 4
        blocks = np.frombuffer(b"".join(text.ljust(width, b"\0") for text in texts), "<u4").reshape(len(texts), -1)
        hashes = np.full(len(texts), seed, np.uint32)
        whole = sizes // np.uint32(4)
        for i in range(blocks.shape[1]):
            mixed = _rotated(blocks[:, i] * np.uint32(0xcc9e2d51), 15) * np.uint32(0x1b873593)
            full = _rotated(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xe6546b64)
            # Zeros behind a text's end change nothing of its last, partial block.
            hashes = np.where(i < whole, full, np.where((i == whole) & (sizes % 4 != 0), hashes ^ mixed, hashes))
        hashes ^= sizes
        hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85ebca6b)
        hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xc2b2ae35)
        return hashes ^ (hashes >> np.uint32(16))


def encoder_of(name: str, text: dict[str, Any], dtype: str) -> Callable[[Any], np.ndarray]:
    """Arrays of strings to the integers of input `name`. Arrays of numbers pass: they are such integers."""
    places: dict[str, int] = {}
    for i, label in enumerate(text.get("labels", ())):
        places.setdefault(label, i)

    def codes(values):
        flat = [value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else value
                for value in values]
        for value in flat:
            if not isinstance(value, str):
                raise UsageError(f"input '{name}' takes strings, and one is a {type(value).__name__}: {value!r}")
        if text["code"] == "murmur3":
            hashes = murmur3([value.encode() for value in flat], text["seed"])
            return hashes.astype(np.int32, casting="unsafe") if dtype == "int32" else hashes
        return np.array([places.get(value, -1) for value in flat], dtype)

    def encode(array):
        if not isinstance(array, (np.ndarray, list, tuple)):
            return array
        array = np.asarray(array, object) if not isinstance(array, np.ndarray) else array
        if array.dtype.kind not in "OUST":
            return array
        return codes(array.ravel().tolist()).reshape(array.shape).astype(dtype, copy=False)

    return encode
