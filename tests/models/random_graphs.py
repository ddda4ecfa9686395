#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs over the operators of ai.onnx, compiled and compared with ONNX Runtime or ONNX's reference.

  tests/models/random_graphs.py --count 300                  fused and unfused, on the CPU
  tests/models/random_graphs.py --count 5000 --target cuda   on a GPU
  tests/models/random_graphs.py --seed 17 --keep one.onnx    one seed, its model kept
  tests/models/random_graphs.py --count 5000 --sizes-from-data

Every seed is a graph (graph_generator.py) of opset 11 to 25 with types, shapes of rank 0 to 8, empty dimensions and
attributes at random. With --sizes-from-data it is a chain that selects, suppresses, slices and repeats by data
(graph_data_sizes.py), and computes on what comes of it. Graphs of one opset make one model, so that a process answers for many; graphs that an error
names are taken out of it and counted. A result must have the type and shape that ONNX gives, be equal where
nothing rounds, and near where something does: as far as rounding can move it, which the generator measures.
What is refused as unsupported is counted by message (--refused prints them); anything else is a problem. Problems
that are known stand in known_differences.json, each with its reason, and so does what is not generated because
others are known to answer it in another way.
"""
import argparse
import collections
import json
import multiprocessing
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "perf"))
from common import provenance, write  # noqa: E402
from graph_generator import FLOATS, Graph, feeds_of, model_of  # noqa: E402
from graph_data_sizes import DATA_MAKERS  # noqa: E402
from graph_operators import MAKERS  # noqa: E402
import graph_layers  # noqa: E402, F401  more makers
from runs import Failed, Sinter  # noqa: E402

KNOWN = Path(__file__).with_name("known_differences.json")
OPSETS = list(range(11, 26))
UNSUPPORTED, INVALID = 3, 4
FORK = multiprocessing.get_context("fork")


def unpacked(array, expected):
    """bfloat16 travels as uint16."""
    return array.view(ml_dtypes.bfloat16) if expected.dtype == ml_dtypes.bfloat16 and array.dtype == np.uint16 else array


def difference(found, value):
    """What is wrong with an output, or ''."""
    expected = value.array
    found = unpacked(found, expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if not found.size:
        return ""
    if value.type in FLOATS:
        with np.errstate(all="ignore"):
            f, e = found.astype(np.float64), expected.astype(np.float64)
            error = np.zeros(e.shape) if value.exact else np.where(np.isnan(value.error), np.inf, value.error)
            far = np.abs(f - e)
            same = (f == e) | (np.isnan(f) & np.isnan(e))
            # Where rounding may make it infinite, nothing is asked for.
            unsure = ~np.isfinite(error) | (np.abs(e) + error > float(ml_dtypes.finfo(expected.dtype).max))
            wrong = ~same & ~unsure & ~(far <= error)
    else:
        wrong = found != expected
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} wrong, at {list(at)} {found[at]} instead of {expected[at]}"


class Batch:
    def __init__(self, seeds, opset, a):
        self.a, self.opset = a, opset
        makers = MAKERS
        if a.sizes_from_data:  # half of all nodes, whose makers are few
            makers = MAKERS + DATA_MAKERS * (len(MAKERS) // len(DATA_MAKERS))
        self.graphs = [Graph(seed, opset, makers) for seed in seeds]
        self.graphs = [g for g in self.graphs if g.outputs]
        self.problems, self.refused = {}, {}

    def run(self):
        count = len(self.graphs)
        operators = collections.Counter(n.op_type for g in self.graphs for n in g.nodes)
        for fuse in ("on", "off"):
            graphs = list(self.graphs)
            while graphs and not self.attempt(graphs, fuse):
                pass
        return count, operators, self.problems, self.refused

    def attempt(self, graphs, fuse):
        """Compiles and runs what is left; takes out what an error names and says whether all is done."""
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            path = folder / "graphs.onnx"
            model = model_of(graphs)
            onnx.save(model, path)
            if self.a.keep:
                onnx.save(model, self.a.keep)
            sinter = Sinter(self.a.sinter, folder, self.a.target)
            try:
                plan = sinter.compile(path, f"--fuse={fuse}", *self.a.option)
                found = self.outputs(sinter, plan, graphs, folder)
            except Failed as error:
                return self.take_out(graphs, str(error), fuse)
        for g in graphs:
            for v in g.outputs:
                wrong = difference(found[v.name], v)
                if wrong:
                    kinds = [n.op_type for n in g.nodes if v.name in n.output]
                    self.problems.setdefault(g.seed, f"--fuse={fuse} opset {g.opset} {v.name} ({kinds[0]}): {wrong}")
        return True

    @staticmethod
    def outputs(sinter, plan, graphs, folder):
        feeds, words = feeds_of(graphs), []
        for name in [k for k, v in feeds.items() if v.dtype == ml_dtypes.bfloat16]:  # NumPy has none
            tensor = onnx.numpy_helper.from_array(feeds.pop(name), name)
            (folder / f"{name}.pb").write_bytes(tensor.SerializeToString())
            words.append(f"{name}={folder / name}.pb")
        result = folder / "found.npz"
        sinter.text("run", plan, "--inputs", sinter.save(feeds), *words, "--outputs", result)
        with np.load(result) as f:
            return {k: f[k] for k in f}

    def take_out(self, graphs, message, fuse):
        """Of a batch that failed as a whole: the graphs that the message names, or halves."""
        code = int(re.search(r"exit code (-?\d+)", message).group(1))
        said = re.split(r"\(operators of |\(sinter (?:compile|run)", message)[0]  # what follows names all outputs
        named = {int(s) for s in re.findall(r"\bs(\d+)_", said)}
        named &= {g.seed for g in graphs}
        if not named and len(graphs) > 1:
            half = len(graphs) // 2
            for part in (graphs[:half], graphs[half:]):
                while part and not self.attempt(part, fuse):
                    pass
            graphs.clear()
            return True
        for g in [g for g in graphs if g.seed in named] or list(graphs):
            graphs.remove(g)
            self.graphs = [other for other in self.graphs if other is not g]
            text = f"--fuse={fuse} opset {g.opset} exit {code}: {message.split('(sinter ')[0][:900]}"
            # Sizes that have to be equal or multiples are seen while importing, or refused by a run.
            if code == UNSUPPORTED or g.symbolic and (code == 2 or code == INVALID and "importing node" in message):
                self.refused[g.seed] = text
            else:
                self.problems[g.seed] = text
        return False


def answer(send, task):
    send.send(Batch(*task).run())


def run_batch(task):
    """What a batch's own process says: ONNX Runtime ends some processes. Then halves are tried, and a seed that ends
    its process alone has no answer."""
    seeds, opset, a = task
    receive, send = FORK.Pipe(False)
    child = FORK.Process(target=answer, args=(send, task))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        if len(seeds) == 1:
            return 0, collections.Counter(), {}, {}
    finally:
        child.join()
    half = len(seeds) // 2
    parts = [run_batch((part, opset, a)) for part in (seeds[:half], seeds[half:])]
    return (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], parts[0][2] | parts[1][2], parts[0][3] | parts[1][3])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--seed", type=int, default=1, help="the first seed")
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--batch", type=int, default=25, help="graphs in a model")
    p.add_argument("--sizes-from-data", action="store_true")
    p.add_argument("--opset", type=int, help="one opset instead of all from 11 to 25, one after the other")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1e9, help="begin no other model after this time")
    p.add_argument("--refused", action="store_true", help="print what is refused")
    p.add_argument("--keep", help="write the (last) model here")
    p.add_argument("--option", action="append", default=[], help="an option for `sinter compile`")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write a summary as JSON here")
    a = p.parse_args()
    known = json.loads(KNOWN.read_text())["problems"]
    ends, began = a.seed + a.count, time.monotonic()
    # A seed's opset follows from the seed, so that a seed alone is the same graph.
    by_opset = collections.defaultdict(list)
    for seed in range(a.seed, ends):
        by_opset[a.opset or OPSETS[seed // a.batch % len(OPSETS)]].append(seed)
    tasks = [(seeds[i:i + a.batch], opset, a) for opset, seeds in by_opset.items()
             for i in range(0, len(seeds), a.batch)]
    count, operators, problems, refused = 0, collections.Counter(), {}, {}
    def in_time(task):
        return run_batch(task) if time.monotonic() - began < a.seconds else (0, collections.Counter(), {}, {})

    with ThreadPoolExecutor(a.jobs) as pool:
        for n, kinds, wrong, not_taken in pool.map(in_time, tasks):
            count += n
            operators += kinds
            refused |= not_taken
            for seed, problem in wrong.items():
                reason = next((r for pattern, r in known.items() if re.search(pattern, problem)), "")
                problems[seed] = {"problem": problem, "known": reason}
                if not reason:
                    print(f"seed {seed}: {problem}", flush=True)
            if a.refused:
                for seed, text in not_taken.items():
                    print(f"refused {seed}: {text}", flush=True)
    new = {s: w for s, w in problems.items() if not w["known"]}
    print(f"{count} graphs of {len(operators)} operators from seed {a.seed} on {a.target}: {len(new)} problems, "
          f"{len(problems) - len(new)} known, {len(refused)} refused, {time.monotonic() - began:.0f} s")
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "first_seed": a.seed, "count": count,
                      "seconds": round(time.monotonic() - began, 1), "operators": dict(operators.most_common()),
                      "refused": len(refused), "problems": problems})
    return 1 if new or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
