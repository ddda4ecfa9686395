#!/usr/bin/env python3
"""Embeds a Parquet data set of sentences with Ray Data: actors that hold a plan each take batches.

  ray_batch.py --plan minilm.plan --tokenizer tokenizer.json --input sentences.parquet --output embeddings

The data set has a column of text; embeddings are written as Parquet, in a column of their own beside it. The plan is sent
as an object: Ray keeps its bytes in shared memory once for each machine, and no worker needs the file. A worker that dies
is replaced, and its batches are done again.
"""
import argparse

import numpy as np
import ray

import sinter


def encode(sentences, tokenizer):
    """MiniLM's inputs: int64 [batch, tokens], padded to the longest."""
    rows = tokenizer.encode_batch([str(sentence) for sentence in sentences])
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(row, field) for row in rows], dtype=np.int64) for name, field in fields.items()}


def make_tokenizer(path, length=128):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(path)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)  # one shape: a sentence's embedding does not depend on its neighbours
    return tokenizer


class Embed:
    """An actor: takes batches of a column of text, adds a column of embeddings."""

    def __init__(self, plan, tokenizer, column):
        self.plan, self.tokenizer, self.column = plan, make_tokenizer(tokenizer), column

    def __call__(self, batch):
        batch["embedding"] = self.plan(**encode(batch[self.column], self.tokenizer))
        return batch


def embed(dataset, plan, tokenizer, *, column="sentence", batch_size=32, actors=2, actor=Embed):
    """The data set with embeddings; lazy, as Ray's data sets are."""
    return dataset.map_batches(actor, fn_constructor_args=(plan, tokenizer, column), batch_size=batch_size,
                               batch_format="numpy", compute=ray.data.ActorPoolStrategy(size=actors), num_cpus=1,
                               max_restarts=-1, max_task_retries=-1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--tokenizer", required=True, help="tokenizer.json")
    p.add_argument("--input", required=True, help="Parquet file or folder")
    p.add_argument("--output", required=True, help="folder")
    p.add_argument("--column", default="sentence")
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--actors", type=int, default=2)
    a = p.parse_args()
    plan = sinter.load(a.plan, threads=1)
    dataset = embed(ray.data.read_parquet(a.input), plan, a.tokenizer, column=a.column, batch_size=a.batch_size,
                    actors=a.actors)
    dataset.write_parquet(a.output)


if __name__ == "__main__":
    main()
