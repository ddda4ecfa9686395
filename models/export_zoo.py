#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the export zoo: tiny models with seeded random weights, as the exporters that people use write them.

  export_zoo.py --out FOLDER                  all rows, two processes at once
  export_zoo.py --out FOLDER bert 'llama*'    some rows; what the folder has already is kept
  export_zoo.py --list                        names of the rows

For every file NAME.onnx a NAME.npz: inputs as 0/in/<input> .. 3/in/<input> and what is expected as
0/out/<output> ..: PyTorch's float32 results, or ONNX Runtime's for what ONNX Runtime or Optimum wrote.
index.json has a row for every file, and one for every export that failed, with the exporter's error; "half" has
PyTorch's own errors in float16 and bfloat16 at each size, on a CPU. A file
that ONNX Runtime itself does not run as the module says, at any of the four sizes, counts as failed export.
tests/models/check_exports.py compiles and compares them. Needs models/requirements-export.txt.
"""
import argparse
import fnmatch
import json
import multiprocessing
import multiprocessing.connection
import shutil
import sys
import time
import traceback
import warnings
import zlib
from pathlib import Path

import numpy as np



def all_rows():
    import zoo_audio
    import zoo_decoders
    import zoo_long
    import zoo_mixtures
    import zoo_new
    import zoo_own
    import zoo_recurrent
    import zoo_text
    import zoo_vision
    import zoo_workloads
    rows = {}
    for module in (zoo_text, zoo_decoders, zoo_vision, zoo_audio, zoo_own, zoo_workloads, zoo_long,
                   zoo_mixtures, zoo_new, zoo_recurrent):
        for name, row in module.rows().items():
            assert name not in rows, name
            row.group = module.__name__.removeprefix("zoo_")
            rows[name] = row
    return rows


def tasks(rows):
    """(row, way): by an exporter, or by a tool of ONNX Runtime from an export that is there before."""
    result = []
    for name, row in rows.items():
        result += [(name, exporter) for exporter in row.exporters]
        result += [(name, "optimum")] * bool(row.task)
        result += [(name, "quantized")] * row.quantize
        result += [(name, "optimised")] * bool(row.optimise)
    return result


def save(folder, name, feeds, expected):
    arrays = {}
    for i, (feed, result) in enumerate(zip(feeds, expected)):
        arrays.update({f"{i}/in/{k}": v for k, v in feed.items()})
        arrays.update({f"{i}/out/{k}": v for k, v in result.items()})
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def files_of(name, row, way, folder, temporary):
    """Yields (file's name, path, feeds, expected, notes) of what one way writes."""
    import zoo_exporters as z
    if way in ("dynamo", "torchscript"):
        path = temporary / "model.onnx"
        yield f"{name}_{way}", path, *z.export_torch(row, way, path)
        return
    if way == "optimum":
        for suffix, source in z.export_optimum(row, temporary / "optimum"):
            if z.branches_agree(source):
                continue
            path = temporary / f"{suffix or 'model'}.onnx"
            z.inline_weights(source, path)
            feeds = [z.optimum_feeds(path, row, i) for i in range(z.SIZES)]
            yield f"{name}_optimum" + f"_{suffix}" * bool(suffix), path, feeds, z.run(path, feeds), {}
        return
    source = folder / f"{name}_torchscript.onnx"
    if not source.exists():
        source = folder / f"{name}_dynamo.onnx"
    with np.load(source.with_suffix(".npz")) as f:
        feeds = [{k.split("/", 2)[2]: f[k] for k in f if k.startswith(f"{i}/in/")} for i in range(z.SIZES)]
    quantize = way == "quantized"
    made = z.quantized(source, feeds, temporary) if quantize else z.optimised(source, row.optimise, temporary)
    for suffix, path in made:
        yield (f"{name}_{suffix}", path, feeds, z.run(path, feeds),
               dict(tolerance=z.QUANTISED_TOLERANCE) if quantize else {})


def export(name, row, way, folder):
    """Index rows of one way."""
    import onnx
    import zoo_exporters as z
    result, half = [], None
    with z.scratch() as temporary:
        temporary = Path(temporary)
        for file, path, feeds, expected, notes in files_of(name, row, way, folder, temporary):
            save(folder, file, feeds, expected)
            model = onnx.load(path)
            if half is None:
                half = z.half_errors(row)
            shutil.move(path, folder / f"{file}.onnx")
            result.append({"name": file, "architecture": name, "group": row.group, "way": way, "exported": True,
                           "tolerance": row.tolerance, "options": [], "nodes": len(model.graph.node),
                           "opsets": {o.domain or "ai.onnx": o.version for o in model.opset_import},
                           "reference": "torch" if way in ("dynamo", "torchscript") else "onnxruntime", "half": half,
                           **notes})
    return result


def child(name, row, way, folder, connection, verbose):
    import torch
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not verbose:
        sys.stdout = sys.stderr = open("/dev/null", "w")
    try:
        connection.send(export(name, row, way, folder))
    except BaseException as e:  # of any library: recorded, and the rest goes on
        if verbose:
            traceback.print_exc()
        connection.send([{"name": f"{name}_{way}", "architecture": name, "group": row.group, "way": way,
                          "exported": False, "why": f"{type(e).__name__}: {e}"[:1500]}])


class Job:
    def __init__(self, task, row, folder, context, seconds, verbose):
        self.task, self.start, self.seconds = task, time.monotonic(), seconds
        self.receive, send = context.Pipe(False)
        self.process = context.Process(target=child, args=(task[0], row, task[1], folder, send, verbose))
        self.process.start()
        send.close()
        self.group = row.group

    def result(self):
        """Index rows once it ended, else nothing."""
        name, way = self.task
        why = "the exporter crashed"
        if self.receive.poll():
            try:
                return self.receive.recv()
            except EOFError:
                pass
        elif time.monotonic() - self.start < self.seconds:
            return None
        else:
            why = f"no end after {self.seconds} s"
            self.process.kill()
        return [{"name": f"{name}_{way}", "architecture": name, "group": self.group, "way": way, "exported": False,
                 "why": why}]


class Index:
    def __init__(self, path):
        self.path = path
        self.rows = {r["name"]: r for r in json.loads(path.read_text())["files"]} if path.exists() else {}

    def done(self, task):
        return any((r["architecture"], r["way"]) == task and r["exported"] for r in self.rows.values())

    def put(self, task, found):
        self.rows = {k: r for k, r in self.rows.items() if (r["architecture"], r["way"]) != task}
        self.rows.update({r["name"]: r for r in found})
        self.path.write_text(json.dumps({"files": sorted(self.rows.values(), key=lambda r: r["name"])}, indent=1))


def progress(done, total, text):
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"\x1b[K[{done}/{total}] {text[:150]}" if end == "\r" else f"[{done}/{total}] {text[:200]}", end=end,
          file=sys.stderr, flush=True)


def work(todo, rows, folder, index, jobs, seconds, verbose):
    """Runs the tasks, some at once; those that start from another export come behind it."""
    import torch
    import transformers  # noqa: F401  once, for all the processes
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    waiting, running, done = list(todo), [], 0
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Job(waiting[0], rows[waiting[0][0]], folder, context, seconds, verbose))
            waiting.pop(0)
        multiprocessing.connection.wait([job.receive for job in running], 0.5)
        for job in list(running):
            found = job.result()
            if found is None:
                continue
            job.process.join()
            running.remove(job)
            done += 1
            index.put(job.task, found)
            bad = [r for r in found if not r["exported"]]
            progress(done, len(todo), f"{' '.join(job.task)}: {bad[0]['why'] if bad else f'{len(found)} files'}")
    print(file=sys.stderr)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path)
    p.add_argument("--list", action="store_true")
    p.add_argument("--way", help="one of dynamo, torchscript, optimum, quantized, optimised")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--seconds", type=int, default=240, help="that one row may take by one exporter")
    p.add_argument("--again", action="store_true", help="also what failed before")
    p.add_argument("--verbose", action="store_true", help="with the exporters' own output")
    p.add_argument("names", nargs="*", help="rows, or patterns of them; default: all")
    a = p.parse_args()
    rows = all_rows()
    if a.names:
        rows = {k: r for k, r in rows.items() if any(fnmatch.fnmatch(k, n) for n in a.names)}
    if a.list or not a.out:
        print("\n".join(rows))
        return
    a.out.mkdir(parents=True, exist_ok=True)
    index = Index(a.out / "index.json")
    known = {(r["architecture"], r["way"]) for r in index.rows.values()}
    todo = [t for t in tasks(rows) if not index.done(t) and (a.again or t not in known) and a.way in (None, t[1])]
    late = ("quantized", "optimised")  # start from other exports
    mixed = sorted(todo, key=lambda t: (t[1] in late, zlib.crc32("/".join(t).encode())))  # an early end has of each
    work(mixed, rows, a.out, index, a.jobs, a.seconds, a.verbose)
    files = list(index.rows.values())
    print(f"{sum(r['exported'] for r in files)} files of {len({r['architecture'] for r in files if r['exported']})} "
          f"architectures; {sum(not r['exported'] for r in files)} exports failed")


if __name__ == "__main__":
    main()
