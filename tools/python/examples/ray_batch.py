#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeds a Parquet data set of sentences with Ray Data: actors that hold a plan each take batches.

  ray_batch.py --plan minilm.plan --tokenizer tokenizer.json --input sentences.parquet --output embeddings

The data set has a column of text; embeddings are written as Parquet, in a column of their own beside it. The plan is an
object of Ray's: its bytes lie in shared memory once for each machine, where all actors read them, and no worker needs the
file. An actor that dies is replaced, and its batches are done again.
"""
import argparse

import numpy as np
import ray

import pysinter


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
        self.plan, self.tokenizer, self.column = ray.get(plan), make_tokenizer(tokenizer), column

    def __call__(self, batch):
        batch["embedding"] = self.plan(**encode(batch[self.column], self.tokenizer))
        return batch


def embed(dataset, plan, tokenizer, *, column="sentence", batch_size=32, actors=2, cpus=0.5, actor=Embed):
    """The data set with embeddings; lazy, as Ray's data sets are. `cpus`: what Ray counts for an actor. Actors keep it
    from beginning to end, and reading needs a processor, too: were all of them the actors', nothing would begin."""
    # A block goes to one actor, and a small data set is read as one block.
    dataset = dataset.repartition(target_num_rows_per_block=20 * batch_size)
    # Sent with each actor, the plan would be gone when one is replaced; as an object it stays as long as the data set.
    return dataset.map_batches(actor, fn_constructor_args=(ray.put(plan), tokenizer, column), batch_size=batch_size,
                               compute=ray.data.ActorPoolStrategy(size=actors), num_cpus=cpus)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--tokenizer", required=True, help="tokenizer.json")
    p.add_argument("--input", required=True, help="Parquet file or folder")
    p.add_argument("--output", required=True, help="folder")
    p.add_argument("--column", default="sentence")
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--actors", type=int, default=2)
    p.add_argument("--cpus", type=float, default=0.5, help="processors that Ray counts for an actor")
    a = p.parse_args()
    plan = pysinter.load(a.plan, threads=1)
    dataset = embed(ray.data.read_parquet(a.input), plan, a.tokenizer, column=a.column, batch_size=a.batch_size,
                    actors=a.actors, cpus=a.cpus)
    dataset.write_parquet(a.output)


if __name__ == "__main__":
    main()
