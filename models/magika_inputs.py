# SPDX-License-Identifier: Apache-2.0
"""Files as Magika's input: the first and the last bytes, stripped of white space and padded.

The rule is that of the model's configuration (config.min.json) and of Magika's documentation.
"""
import json
from pathlib import Path

import numpy as np

CACHE = Path(__file__).resolve().parent / "cache"


def config():
    return json.loads((CACHE / "magika" / "config.min.json").read_text())


def features(content, c):
    """int32 [beg_size + end_size]; bytes, or the padding token where the file is too short."""
    block, pad = c["block_size"], c["padding_token"]
    first, last = content[:block], content[-block:]
    if len(content) <= block:
        first = last = content.strip()
    begin = list(first.lstrip()[: c["beg_size"]])
    end = list(last.rstrip()[-c["end_size"]:])
    begin += [pad] * (c["beg_size"] - len(begin))
    end = [pad] * (c["end_size"] - len(end)) + end
    return np.array(begin + end, dtype=np.int32)


def encode(paths, c):
    """int32 [files, 2048]"""
    return {"bytes": np.stack([features(Path(p).read_bytes(), c) for p in paths])}
