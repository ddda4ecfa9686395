# SPDX-License-Identifier: Apache-2.0
"""Sentences as MiniLM's inputs: tokenise with the model's own tokenizer."""
from pathlib import Path

import numpy as np

CACHE = Path(__file__).resolve().parent / "cache"


def tokenizer():
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(str(CACHE / "minilm" / "tokenizer.json"))
    t.enable_truncation(512)
    return t


def encode(sentences, tokenizer):
    """input_ids, attention_mask and token_type_ids, int64 [batch, seq], padded to the longest."""
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(list(sentences))
    ints = lambda field: np.array([getattr(r, field) for r in rows], dtype=np.int64)
    return {"input_ids": ints("ids"), "attention_mask": ints("attention_mask"), "token_type_ids": ints("type_ids")}
