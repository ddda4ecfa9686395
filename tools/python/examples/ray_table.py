#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a plan over the columns of a Parquet data set with Ray Data: actors that hold a plan each take batches as Arrow.

  ray_table.py --plan pipeline.plan --input rows --output predictions --columns x=age,income,height --keep id

Batches go to the plan as they lie in Ray's shared memory, without a copy where a column fills an input alone, and come back
with a column for each output. The plan is an object of Ray's, as in ray_batch.py; an actor that dies is replaced, and its
batches are done again. --gpus gives each actor a share of a GPU, for plans of one.
"""
import argparse

import ray

import pysinter


class Run:
    """An actor: takes batches (pyarrow.Table), gives the outputs beside the columns that are kept."""

    def __init__(self, plan, columns, keep, options):
        self.plan, self.columns, self.keep, self.options = ray.get(plan), columns, keep, options

    def __call__(self, table):
        result = self.plan.run_table(table, columns=self.columns, **self.options)
        for name in self.keep:
            result = result.append_column(table.schema.field(name), table.column(name))
        return result


def run(dataset, plan, *, columns, keep=(), batch_size=65536, actors=2, cpus=0.5, gpus=0, actor=Run, **options):
    """The data set of outputs; lazy. `columns`, and `options` (nulls, masks, cast), are those of Plan.run_table."""
    return dataset.map_batches(actor, fn_constructor_args=(ray.put(plan), columns, list(keep), options),
                               batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True,
                               compute=ray.data.ActorPoolStrategy(size=actors), num_cpus=cpus, num_gpus=gpus)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--input", required=True, help="Parquet file or folder")
    p.add_argument("--output", required=True, help="folder")
    p.add_argument("--columns", action="append", default=[], metavar="INPUT=A,B,..")
    p.add_argument("--keep", default="", metavar="A,B,..")
    p.add_argument("--nulls", choices=("refuse", "nan"), default="refuse")
    p.add_argument("--cast", action="store_true")
    p.add_argument("--batch-size", type=int, default=65536)
    p.add_argument("--actors", type=int, default=2)
    p.add_argument("--cpus", type=float, default=0.5, help="processors that Ray counts for an actor")
    p.add_argument("--gpus", type=float, default=0)
    a = p.parse_args()
    columns = {name: taken.split(",") for name, taken in (each.split("=", 1) for each in a.columns)}
    keep = [name for name in a.keep.split(",") if name]
    wanted = list(dict.fromkeys([column for taken in columns.values() for column in taken] + keep))
    # Columns that nobody takes are not read; inputs without --columns take those of their own names.
    dataset = ray.data.read_parquet(a.input, columns=wanted if columns else None)
    dataset = run(dataset, pysinter.load(a.plan, threads=1), columns=columns, keep=keep, batch_size=a.batch_size,
                  actors=a.actors, cpus=a.cpus, gpus=a.gpus, nulls=a.nulls, cast=a.cast)
    dataset.write_parquet(a.output)


if __name__ == "__main__":
    main()
