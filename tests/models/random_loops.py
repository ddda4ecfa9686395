#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random loops and branches: plans at several lengths, against ONNX Runtime.

  tests/models/random_loops.py --count 5000                  on the CPU
  tests/models/random_loops.py --count 64 --target cuda      on a GPU
  tests/models/random_loops.py --seed 17 --count 1 --keep one.onnx

Every seed is a graph of Loop, Scan and If in each other, up to three deep, over int64, so that results are equal or
wrong: trip counts that are constants, sizes, inputs, none or beyond what any run reaches, conditions on data and on the
number of the iteration, carried values that change places, sequences and results in both directions, branches whose
condition data decide, no iteration at all. Several graphs make one model; those of a model that fails are tried one by
one. What is refused as unsupported is counted.
"""
import argparse
import collections
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runs import Failed, Sinter, onnx_runtime

I, B = TensorProto.INT64, TensorProto.BOOL
MODULUS = 1009
DEEPEST = 3
LENGTHS = (1, 2, 5, 19)


def info(name, shape, kind=I):
    return helper.make_tensor_value_info(name, kind, shape)


class Scope:
    """Nodes of one graph or body; values of the scopes around it may be read."""

    def __init__(self, maker, outer=None):
        self.maker, self.nodes = maker, []
        self.values = {0: [], 1: []} if outer is None else {rank: list(names) for rank, names in outer.values.items()}
        self.depth = 0 if outer is None else outer.depth + 1

    def name(self):
        self.maker.count += 1
        return f"{self.maker.prefix}v{self.maker.count}"

    def node(self, op, inputs, count=1, **attributes):
        outputs = [self.name() for _ in range(count)]
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0] if count == 1 else outputs

    def constant(self, value):
        return self.node("Constant", [], value=numpy_helper.from_array(np.asarray(value, np.int64)))

    def pick(self, rank):
        return str(self.maker.random.choice(self.values[rank]))

    def keep(self, name, rank):
        self.values[rank].append(name)
        return name

    def small(self, name):
        """Below the modulus, so that nothing overflows."""
        return self.node("Mod", [name, self.constant(MODULUS)])

    def flag(self):
        """A condition on data."""
        return self.node("Less", [self.pick(0), self.constant(self.maker.random.integers(0, MODULUS))])

    def arithmetic(self, rank=None):
        random = self.maker.random
        rank = int(random.integers(0, 2)) if rank is None else rank
        a, b = self.pick(rank), self.pick(int(random.integers(0, 2)) if rank else 0)
        kind = random.choice(["Add", "Sub", "Mul", "Min", "Max", "Where", "Sum"])
        if kind == "Sum" and rank == 0:
            out = self.node("ReduceSum", [self.pick(1)], keepdims=0)
        elif kind == "Where":
            out = self.node("Where", [self.flag(), a, b])
        else:
            out = self.node("Add" if kind == "Sum" else str(kind), [a, b])
        return self.keep(self.small(out), rank)

    def fill(self):
        for _ in range(self.maker.random.integers(1, 4)):
            self.arithmetic()
        if self.depth < DEEPEST:
            for _ in range(self.maker.random.integers(1, 3) if self.depth == 0 else self.maker.random.integers(0, 2)):
                getattr(self, str(self.maker.random.choice(["branch", "loop", "scan"])))()
        self.arithmetic()

    def body(self, scope, inputs, outputs):
        return helper.make_graph(scope.nodes, scope.name(), inputs, outputs)

    def branch(self):
        self.maker.made["If"] += 1
        ranks = [int(r) for r in self.maker.random.integers(0, 2, self.maker.random.integers(1, 3))]
        condition, graphs = self.flag(), []
        for _ in range(2):
            inner = Scope(self.maker, self)
            if self.maker.random.random() < .8:
                inner.fill()
            outputs = [inner.node("Identity", [inner.pick(rank)]) for rank in ranks]
            graphs.append(self.body(inner, [], [info(o, [4] * r) for o, r in zip(outputs, ranks)]))
        names = self.node("If", [condition], len(ranks), then_branch=graphs[0], else_branch=graphs[1])
        for name, rank in zip([names] if len(ranks) == 1 else names, ranks):
            self.keep(name, rank)

    def states(self, inner, ranks):
        names = [inner.name() for _ in ranks]
        for name, rank in zip(names, ranks):
            inner.keep(name, rank)
        return names

    def results(self, inner, ranks):
        """New values of states: new ones, old ones of others, or the same."""
        return [inner.node("Identity", [inner.pick(rank)]) for rank in ranks]

    def loop(self):
        random = self.maker.random
        self.maker.made["Loop"] += 1
        ranks = [int(r) for r in random.integers(0, 2, random.integers(1, 4))]
        trips = str(random.choice(["constant", "size", "input", "none", "endless"]))
        endless = trips in ("none", "endless")
        # Without a trip count a loop ends by data, or after a number of iterations that its body has as a constant.
        on_data = random.random() < (.7 if endless else .4)
        limit = {"constant": lambda: self.constant(random.choice([0, 1, 3, 17, 30])), "size": lambda: self.maker.length,
                 "input": lambda: self.maker.limit, "none": lambda: "",
                 "endless": lambda: self.constant(random.choice([2**63 - 1, 2**62]))}[trips]()
        begin = self.flag() if on_data and random.random() < .5 else ""
        initial = [self.pick(rank) for rank in ranks]
        inner = Scope(self.maker, self)
        number, go = inner.keep(inner.name(), 0), inner.name()
        before = self.states(inner, ranks)
        inner.fill()
        goes = inner.flag() if on_data else inner.node("Identity", [go])
        if endless:  # it ends after some iterations at least
            near = inner.node("Less", [number, inner.constant(random.integers(0, 20))])
            goes = inner.node("And", [goes, near]) if on_data else near
        after = self.results(inner, ranks)
        collected = int(random.integers(0, 3)) if not on_data and trips != "input" else 0
        rows = [inner.node("Identity", [inner.pick(1)]) for _ in range(collected)]
        inputs = [info(number, []), info(go, [], B), *(info(n, [4] * r) for n, r in zip(before, ranks))]
        outputs = [info(goes, [], B), *(info(n, [4] * r) for n, r in zip(after, ranks)), *(info(n, [4]) for n in rows)]
        names = self.node("Loop", [limit, begin, *initial], len(ranks) + collected, body=self.body(inner, inputs, outputs))
        names = [names] if len(ranks) + collected == 1 else names
        for name, rank in zip(names, ranks):
            self.keep(name, rank)
        for name in names[len(ranks):]:
            self.keep(self.small(self.node("ReduceSum", [name, self.constant([0])], keepdims=0)), 1)

    def scan(self):
        random = self.maker.random
        self.maker.made["Scan"] += 1
        ranks = [int(r) for r in random.integers(0, 2, random.integers(0, 3))]
        sequences = int(random.integers(1, 3))
        initial = [self.pick(rank) for rank in ranks]
        inner = Scope(self.maker, self)
        before = self.states(inner, ranks)
        rows = [inner.keep(inner.name(), 1) for _ in range(sequences)]
        inner.fill()
        after = self.results(inner, ranks)
        collected = int(random.integers(0 if ranks else 1, 3))
        made = [inner.node("Identity", [inner.pick(1)]) for _ in range(collected)]
        inputs = [*(info(n, [4] * r) for n, r in zip(before, ranks)), *(info(n, [4]) for n in rows)]
        outputs = [*(info(n, [4] * r) for n, r in zip(after, ranks)), *(info(n, [4]) for n in made)]
        directions = [int(d) for d in random.integers(0, 2, collected)]
        names = self.node("Scan", [*initial, *[self.maker.sequence] * sequences], len(ranks) + collected,
                          body=self.body(inner, inputs, outputs), num_scan_inputs=sequences,
                          scan_input_directions=[int(d) for d in random.integers(0, 2, sequences)],
                          **({"scan_output_directions": directions} if collected else {}))
        names = [names] if len(ranks) + collected == 1 else names
        for name, rank in zip(names, ranks):
            self.keep(name, rank)
        weight = self.node("Mul", [self.maker.sequence, self.constant(3)])
        for name in names[len(ranks):]:  # the order of rows matters
            product = self.small(self.node("Mul", [name, weight]))
            self.keep(self.small(self.node("ReduceSum", [product, self.constant([0])], keepdims=0)), 1)


class Maker:
    """The graph of one seed, whose names begin with the seed."""

    def __init__(self, seed):
        self.seed, self.random, self.prefix = seed, np.random.default_rng(seed), f"g{seed}_"
        self.count, self.made = 0, collections.Counter()
        self.sequence, self.limit = "sequence", "limit"
        top = Scope(self)
        shape = top.node("Shape", ["sequence"])
        self.length = top.node("Gather", [shape, top.constant(0)])
        top.keep("scalar", 0)
        top.keep("vector", 1)
        top.fill()
        while not self.made:
            top.fill()
        self.nodes = top.nodes
        self.outputs = [(top.node("Identity", [name]), rank) for rank in (0, 1) for name in top.values[rank][-3:]]


def model_of(makers):
    graph = helper.make_graph([n for m in makers for n in m.nodes], "loops",
                              [info("sequence", ["n", 4]), info("scalar", []), info("vector", [4]), info("limit", [])],
                              [info(o, [4] * rank) for m in makers for o, rank in m.outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def feeds(random):
    for length in LENGTHS:
        yield {"sequence": random.integers(0, MODULUS, (length, 4)), "scalar": random.integers(0, MODULUS, ()),
               "vector": random.integers(0, MODULUS, 4), "limit": np.array(random.integers(0, 9))}


def attempt(makers, a):
    """What is wrong, '' if nothing is, and whether it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loops.onnx"
        onnx.save(model_of(makers), path)
        if a.keep:
            onnx.save(model_of(makers), a.keep)
        sinter = Sinter(a.sinter, folder, a.target)
        try:
            plan = sinter.compile(path)
            peer = onnx_runtime(path, threads=1)
            names = [each.name for each in peer.get_outputs()]
            for feed in feeds(np.random.default_rng(makers[0].seed)):
                found = sinter.run(plan, feed)
                for name, value in zip(names, peer.run(None, feed)):
                    if not np.array_equal(found[name], value):
                        return f"{name} at {len(feed['sequence'])}: {found[name]} instead of {value}", False
        except Failed as error:
            return str(error), "exit code 3" in str(error)
    return "", False


def check(makers, a):
    """By seed: what is wrong, and whether it is refused."""
    wrong, _ = attempt(makers, a)
    if not wrong:
        return {}
    if len(makers) == 1:
        return {makers[0].seed: attempt(makers, a)}
    return {m.seed: found for m in makers if (found := attempt([m], a))[0]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(Path(__file__).resolve().parents[2] / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=0, help="the first one")
    p.add_argument("--batch", type=int, default=8, help="graphs in a model")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", help="a file for the model")
    p.add_argument("--make", type=Path, help="a folder: the models are written there, and that is all")
    p.add_argument("--refused", action="store_true", help="print what is refused")
    a = p.parse_args()
    seeds = range(a.seed, a.seed + a.count)
    batches = [[Maker(s) for s in seeds[i:i + a.batch]] for i in range(0, len(seeds), a.batch)]
    if a.make:
        for batch in batches:
            onnx.save(model_of(batch), a.make / f"loops_{batch[0].seed}.onnx")
        return 0
    made = sum((m.made for batch in batches for m in batch), collections.Counter())
    refused, wrong = 0, 0
    with ThreadPoolExecutor(a.jobs) as pool:
        for found in pool.map(lambda batch: check(batch, a), batches):
            for seed, (what, is_refused) in found.items():
                refused, wrong = refused + is_refused, wrong + (not is_refused)
                if not is_refused or a.refused:
                    print(f"{seed}: {what[:600]}", flush=True)
    print(f"{a.count} graphs with {dict(made)}: {refused} refused, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
