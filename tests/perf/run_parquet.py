#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Parquet file through a compiled pipeline: each stage alone, and all at once.

  run_parquet.py --make-only --target cuda:sm_90 --folder /tmp/rows      compiles and writes the file, without a GPU
  run_parquet.py --folder /tmp/rows --out tests/perf/results/parquet_h200.json

Runs with a Python that has Sinter's package, pyarrow and numpy; what is in --folder already is used. The file has
--columns float32 columns of --rows rows; the plan scales a row and runs an MLP on it (--model mlp), or as many trees of
depth 8 as --trees says (--model trees). The stages are those of `sinter run data.parquet`: read and decode a row group; put
its columns side by side into page-locked memory; copy that to the GPU, compute, and copy back. Alone, a stage has its input
at hand: reading throws away what it reads, filling and computing take batches that are in memory. Together they are what the
command does without writing its output, which is as large as the model says. `ratio` is the whole over the slowest stage
alone; rounds take turns, and medians are over rounds. The file is in the page cache: it is read once before.
"""
import argparse
import itertools
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

import pysinter
from pysinter import _core
from pysinter._files import ParquetInput
from pysinter._pipeline import SESSIONS, Pipeline, share_processors
from pysinter._tables import inputs_of

from common import provenance, write


def scaler(columns, draw):
    from onnx import helper, numpy_helper
    weights = [numpy_helper.from_array(draw.standard_normal(columns).astype(np.float32), "mean"),
               numpy_helper.from_array(draw.uniform(0.5, 2, columns).astype(np.float32), "scale")]
    return weights, [helper.make_node("Sub", ["x", "mean"], ["centred"]),
                     helper.make_node("Mul", ["centred", "scale"], ["scaled"])]


def mlp(columns, draw):
    from onnx import helper, numpy_helper
    weights, nodes = scaler(columns, draw)
    last = "scaled"
    for i, (a, b) in enumerate([(columns, 256), (256, 64), (64, 1)]):
        weights.append(numpy_helper.from_array(draw.standard_normal((a, b)).astype(np.float32) / np.sqrt(a), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"h{i}"]))
        last = f"h{i}"
        if b > 1:
            nodes.append(helper.make_node("Relu", [last], [f"r{i}"]))
            last = f"r{i}"
    nodes.append(helper.make_node("Sigmoid", [last], ["y"]))
    return weights, nodes


def trees(columns, draw, count, depth=8):
    """Whole trees of random columns and thresholds."""
    from onnx import helper
    weights, nodes = scaler(columns, draw)
    inner, size = 2**depth - 1, 2**(depth + 1) - 1
    ids = np.tile(np.arange(size), count)
    is_leaf = ids >= inner
    tree = np.repeat(np.arange(count), size)
    leaves = np.flatnonzero(is_leaf)
    attributes = {
        "nodes_treeids": tree, "nodes_nodeids": ids, "nodes_featureids": draw.integers(0, columns, len(ids)),
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * ids + 1), "nodes_falsenodeids": np.where(is_leaf, 0, 2 * ids + 2),
        "nodes_missing_value_tracks_true": np.zeros(len(ids), int), "target_treeids": tree[leaves],
        "target_nodeids": ids[leaves], "target_ids": np.zeros(len(leaves), int)}
    nodes.append(helper.make_node(
        "TreeEnsembleRegressor", ["scaled"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_values=[float(v) for v in draw.standard_normal(len(ids)).astype(np.float32)],
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        target_weights=[float(v) for v in draw.standard_normal(len(leaves)).astype(np.float32)],
        **{name: values.tolist() for name, values in attributes.items()}))
    return weights, nodes


def make_plan(a, path):
    from onnx import TensorProto, helper
    draw = np.random.default_rng(0)
    weights, nodes = mlp(a.columns, draw) if a.model == "mlp" else trees(a.columns, draw, a.trees)
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
    graph = helper.make_graph(nodes, a.model, [value("x", a.columns)], [value("y", 1)], weights)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18),
                                                                  helper.make_opsetid("ai.onnx.ml", 3)])
    pysinter.compile(model, path, target=a.target, dims={"rows": (1, a.batch_rows)})


def make_rows(a, path):
    draws = np.random.default_rng(1).spawn(a.columns)
    names = [f"f{i}" for i in range(a.columns)]
    partial = path.with_suffix(".tmp")
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    # Random floats do not shrink: plain pages, as such data has them in practice after a dictionary was given up.
    with (pyarrow.parquet.ParquetWriter(partial, schema, compression=a.compression, use_dictionary=False) as writer,
          ThreadPoolExecutor() as pool):
        for first in range(0, a.rows, a.group_rows):
            rows = min(a.group_rows, a.rows - first)
            columns = list(pool.map(lambda draw: draw.standard_normal(rows, np.float32), draws))
            writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=rows)
    partial.rename(path)


def seconds_of(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Stages:
    """The three stages alone, and together."""

    def __init__(self, a, plan, path):
        self.a, self.plan = a, plan
        self.threads = share_processors(pyarrow)
        self.source = ParquetInput(path)
        self.names = self.source.schema.names
        self.inputs = inputs_of(plan, lambda: self.names, {"x": "*"})
        self.count = sum(1 for _ in self.pieces())
        # Batches of two row groups, again and again: more than the caches hold.
        self.held = list(itertools.islice(self.pieces(), 2 * -(-a.group_rows // a.batch_rows)))
        self.sessions = [_core.TableSession(plan) for _ in range(SESSIONS)]

    def pieces(self):
        return self.source.pieces(self.names, self.a.batch_rows)

    def held_pieces(self):
        return itertools.islice(itertools.cycle(self.held), self.count)

    def read(self):
        for _ in self.pieces():
            pass

    def fill(self):
        for (_, batch, first, rows), session in zip(self.held_pieces(), itertools.cycle(self.sessions)):
            session.bind(batch, first, rows, self.inputs, False, False, self.threads)

    def compute(self):
        """Sessions that were filled, two under way at a time: copies and kernels overlap as in the whole."""
        under_way = []
        for _, session in zip(range(self.count), itertools.cycle(self.sessions)):
            session.start()
            under_way.append(session)
            if len(under_way) > 1:
                under_way.pop(0).finish()
        for session in under_way:
            session.finish()

    def whole(self):
        rows = 0
        with Pipeline(self.plan, self.pieces(), self.inputs, sessions=self.sessions,
                      threads=self.threads) as pipeline:
            for _, result in pipeline:
                rows += result.rows
        assert rows == self.source.rows

    def check(self, count=1000):
        """The pipeline gives what the plan gives on the same rows by itself."""
        _, batch, first, rows = self.held[0]
        table = pyarrow.record_batch(batch).slice(first, min(count, rows))
        x = np.stack([table.column(i).to_numpy() for i in range(len(self.names))], axis=1)
        wanted = self.plan(np.ascontiguousarray(x))
        with Pipeline(self.plan, [(0, batch, first, len(x))], self.inputs) as pipeline:
            ((_, result),) = pipeline
        found = np.array(pyarrow.record_batch(result).column(0).flatten()).reshape(wanted.shape)
        assert (found == wanted).all(), float(np.abs(found - wanted).max())


def summary(rounds, gigabytes):
    """Medians over the rounds so far."""
    medians = {name: round(statistics.median(each[name] for each in rounds), 4) for name in rounds[0]}
    slowest = max(("read", "fill", "compute"), key=medians.get)
    return {"seconds": medians, "rounds": {name: [each[name] for each in rounds] for name in medians},
            "GB_per_s": {name: round(gigabytes / value, 2) for name, value in medians.items()}, "slowest": slowest,
            "ratio": round(medians["whole"] / medians[slowest], 3)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--folder", required=True, help="for the plan and the file, which are made if they are not there")
    p.add_argument("--target", default="cpu", help="cpu, or cuda:sm_90")
    p.add_argument("--model", choices=["mlp", "trees"], default="mlp")
    p.add_argument("--trees", type=int, default=500)
    p.add_argument("--rows", type=int, default=200_000, help="10000000 for the figure of the issue")
    p.add_argument("--columns", type=int, default=100)
    p.add_argument("--batch-rows", type=int, default=65536)
    p.add_argument("--group-rows", type=int, default=131072, help="rows of a row group")
    p.add_argument("--compression", default="none", help="none, snappy, zstd")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--make-only", action="store_true")
    p.add_argument("--commit")
    p.add_argument("--out")
    a = p.parse_args()
    folder = Path(a.folder)
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / f"{a.model}_{a.target.replace(':', '_')}_{a.columns}_{a.batch_rows}.plan"
    rows = folder / f"rows_{a.rows}x{a.columns}_{a.group_rows}_{a.compression}.parquet"
    if not plan.exists():
        make_plan(a, plan)
    if a.make_only:
        print(plan)
        return
    if not rows.exists():
        make_rows(a, rows)
    stages = Stages(a, pysinter.load(plan), rows)
    stages.check()
    stages.fill()
    names = ("read", "fill", "compute", "whole")
    first = {name: round(seconds_of(getattr(stages, name)), 4) for name in names}  # page cache, memory, graphs
    print("first", first, flush=True)
    origin = dict(provenance(a.commit), model=a.model, target=a.target, rows=a.rows, columns=a.columns,
                  batch_rows=a.batch_rows, group_rows=a.group_rows, compression=a.compression,
                  pyarrow=pyarrow.__version__, sinter=pysinter.__version__, first=first)
    rounds = []
    for _ in range(a.rounds):
        rounds.append({name: round(seconds_of(getattr(stages, name)), 4) for name in names})
        print(rounds[-1], flush=True)
        if a.out:
            write(a.out, {**origin, **summary(rounds, a.rows * a.columns * 4 / 1e9)})
    result = summary(rounds, a.rows * a.columns * 4 / 1e9)
    print(", ".join(f"{name} {result['seconds'][name]:.3f} s ({result['GB_per_s'][name]:.2f} GB/s)" for name in names))
    print(f"the whole takes {result['ratio']:.2f} times the slowest stage alone ({result['slowest']})")


if __name__ == "__main__":
    main()
