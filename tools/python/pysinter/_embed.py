# SPDX-License-Identifier: Apache-2.0
"""Texts to vectors: a tokenizer, a plan of an encoder, and the pooling that the model was trained with."""
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import UsageError, check_file
from ._files import read_tokenizer

# What an encoder's inputs are called, and which of a tokenizer's lists they take.
TOKEN_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids",
                "segment_ids": "type_ids", "input_mask": "attention_mask"}


def _read_json(path: Path) -> Any:
    check_file(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read '{path}': {error}") from None


class ModelFiles:
    """What sentence-transformers writes beside a model: modules.json names the modules and their folders."""

    def __init__(self, folder: str | None) -> None:
        self.pooling: str | None = None
        self.normalize: bool | None = None
        self.max_length: int | None = None
        self.tokenizer: Path | None = None
        if folder is None:
            return
        path = Path(folder)
        check_file(path, "the model's folder", folder=True)
        if (path / "tokenizer.json").exists():
            self.tokenizer = path / "tokenizer.json"
        if (path / "sentence_bert_config.json").exists():
            self.max_length = _read_json(path / "sentence_bert_config.json").get("max_seq_length")
        if not (path / "modules.json").exists():
            return
        self.normalize = False
        for module in _read_json(path / "modules.json"):
            kind = str(module.get("type", "")).rpartition(".")[2]
            if kind == "Pooling":
                self.pooling = self._pooling_of(path / module["path"] / "config.json")
            elif kind == "Normalize":
                self.normalize = True
            elif kind != "Transformer":
                raise UsageError(f"'{path / 'modules.json'}' has the module {module.get('type')}, which is not done "
                                 "here: compile it into the plan")

    @staticmethod
    def _pooling_of(path: Path) -> str:
        names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
        config = _read_json(path)
        wanted = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
        if len(wanted) != 1 or wanted[0] not in names:
            raise UsageError(f"'{path}' wants {', '.join(wanted) or 'no pooling'}: one of mean, cls and max is done "
                             "here; others belong into the plan")
        return names[wanted[0]]


class Embedder:
    """embedder(texts) gives float32 [texts, width].

    plan: takes input_ids, attention_mask and maybe token_type_ids, [batch, tokens]. Its output is a vector for each
        text, [batch, width], which is taken as it is, or one for each token, [batch, tokens, width], which is pooled.
    tokenizer, model: tokenizer.json, and the folder of the model's sentence-transformers files.
    pooling, normalize, max_length: in place of what the model's files say. Without either, no pooling is guessed.
    batch_tokens: most tokens of a run, with their padding unless the plan is packed. Texts of like length run
        together.

    `tokens` counts those of all texts, `cut` the texts that were longer than max_length.
    """

    CHUNK = 8192  # texts that are sorted by length at once

    def __init__(self, plan: Any, *, tokenizer: str | None = None, model: str | None = None,
                 pooling: str | None = None, normalize: bool | None = None, max_length: int | None = None,
                 batch_tokens: int = 8192) -> None:
        files = ModelFiles(model)
        path = Path(tokenizer) if tokenizer is not None else files.tokenizer
        if path is None:
            raise UsageError("no tokenizer is given: --tokenizer tokenizer.json, or --model FOLDER that has one")
        self.plan, self.tokens, self.cut, self.width = plan, 0, 0, 0
        self._inputs = [each for each in plan.inputs if not each.is_state]
        for each in self._inputs:
            if each.name not in TOKEN_INPUTS or len(each.shape) != 2:
                raise UsageError(f"the plan takes {each}: an encoder takes {', '.join(TOKEN_INPUTS)}, [batch, tokens]")
        if batch_tokens < 1:
            raise UsageError(f"batch_tokens is {batch_tokens}: it is 1 or more")
        output = next(each for each in plan.outputs if not each.is_state)
        self._output, self._per_token = output.name, len(output.shape) == 3
        if len(output.shape) not in (2, 3):
            raise UsageError(f"the plan gives {output}: a vector for each text has the shape [batch, width], one for "
                             "each token [batch, tokens, width]")
        self._pooling = pooling or files.pooling
        # A vector for each text is as the plan's model made it; its own modules are in it.
        self._normalize = normalize if normalize is not None else bool(files.normalize)
        if self._per_token and self._pooling is None:
            raise UsageError("the plan gives a vector for each token, and nothing says how they are pooled: "
                             "--model FOLDER with the model's modules.json, or --pooling mean|cls|max")
        if not self._per_token and pooling is not None:
            raise UsageError(f"the plan pools by itself (output '{output.name}' has the shape [batch, width]): leave "
                             "--pooling out")
        rows, length = (self._inputs[0].shape[d] for d in (0, 1))
        self._rows, self._lengths = (rows.min, rows.max), (length.min, length.max)
        most = min(length.max, files.max_length or length.max, max_length or length.max)
        if max_length is not None and (max_length < 1 or max_length > length.max):
            raise UsageError(f"max_length is {max_length}: the plan takes 1 to {length.max} tokens")
        self._batch_tokens = batch_tokens
        self._is_packed = plan.metadata["options"].get("packed") == "on"  # padding is not computed
        self._tokenizer = read_tokenizer(path)
        self._pad = (self._tokenizer.padding or {}).get("pad_id", 0)  # what the model has seen as padding
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(most)
        self.max_length = most
        mask = next((each for each in self._inputs if "mask" in each.name), None)
        if mask is None and self._lengths[0] != self._lengths[1]:
            self._batch_tokens = 1  # nothing tells padding from tokens: each text by itself

    def __call__(self, texts: Sequence[str]) -> Any:
        rows = self._tokenizer.encode_batch(list(texts))
        self.tokens += sum(len(row.ids) for row in rows)
        self.cut += sum(bool(row.overflowing) for row in rows)
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i].ids))
        result: Any = None
        for batch in self._batches(order, rows):
            vectors = self._run([rows[i] for i in batch])[:len(batch)]
            if result is None:
                self.width = vectors.shape[1]
                result = np.empty((len(rows), self.width), np.float32)
            result[batch] = vectors
        return result if result is not None else np.empty((0, self.width), np.float32)

    def _batches(self, order, rows):
        """Of the longest first, so that the memory of a run grows once."""
        first = 0
        while first < len(order):
            length = self._padded(len(rows[order[first]].ids))
            count, tokens = 0, 0
            while count < min(self._rows[1], len(order) - first):
                tokens += len(rows[order[first + count]].ids) if self._is_packed else length
                if tokens > self._batch_tokens and count > 0:
                    break
                count += 1
            yield order[first:first + count]
            first += count

    def _padded(self, length):
        return max(self._lengths[0], min(self._lengths[1], length))

    def _run(self, rows):
        length = self._padded(max(len(row.ids) for row in rows))
        count = max(len(rows), self._rows[0])  # of a plan that takes no fewer: rows of padding
        arrays = {}
        for each in self._inputs:
            values = np.full((count, length), self._pad if each.name == "input_ids" else 0, each.dtype)
            for i, row in enumerate(rows):
                taken = getattr(row, TOKEN_INPUTS[each.name])
                values[i, :len(taken)] = taken
            if "mask" in each.name:
                values[len(rows):, 0] = 1  # no sequence is empty
            arrays[each.name] = values
        found = self.plan(**arrays)
        output = np.asarray(found[self._output] if isinstance(found, tuple) else found, dtype=np.float32)
        if self._per_token:
            output = self._pool(output, np.array([len(row.ids) for row in rows] + [1] * (count - len(rows))))
        if self._normalize:
            output = output / np.maximum(np.linalg.norm(output, axis=1, keepdims=True), 1e-12)
        return output

    def _pool(self, output, lengths):
        if self._pooling == "cls":
            return output[:, 0]
        there = np.arange(output.shape[1])[None, :, None] < lengths[:, None, None]
        if self._pooling == "max":
            return np.where(there, output, -np.inf).max(axis=1)
        return np.where(there, output, 0).sum(axis=1) / lengths[:, None]
