#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the command load what its words need, and nothing more?

  check_loaded.py --sinter build/bin/sinter

The loader of glibc tells what it opens (LD_DEBUG=files). Also: what is missing is said by name, with the package that
has it, and threads of OpenMP stay out where oneDNN comes late. Exit code 0 if all holds.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serve"))
from check_clients import started  # noqa: E402

# What each process of the command has: C, C++, texts, patterns of tokenizers.
BASE = {"libc", "ld-linux-x86-64", "libm", "libstdc++", "libgcc_s", "libfmt", "libonig", "libpthread", "libdl"}
SIZE = 256


def model(path, *nodes, constants=()):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", SIZE])  # noqa: E731
    graph = helper.make_graph(list(nodes), "g", [value("x")], [value("y")], list(constants))
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


class Checks:
    def __init__(self, sinter, folder):
        self.sinter, self.folder, self.failed = Path(sinter).resolve(), folder, []

    def check(self, holds, what):
        print(f"{'ok' if holds else 'FAILED'}: {what}")
        if not holds:
            self.failed.append(what)

    def opened(self, *words):
        """Names of the libraries' files that a process opens."""
        trace = self.folder / "trace"
        for old in self.folder.glob("trace.*"):
            old.unlink()
        environment = dict(os.environ, LD_DEBUG="files", LD_DEBUG_OUTPUT=str(trace))
        environment.pop("LD_PRELOAD", None)
        subprocess.run([self.sinter, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
        text = "".join(file.read_text() for file in self.folder.glob("trace.*"))
        return {Path(name).name for name in re.findall(r"calling init: (\S+)", text)}

    def loads(self, words, needed=()):
        """Exactly the base and `needed`, and what these link in turn."""
        found = {name.split(".so")[0] for name in self.opened(*words)}
        extra = found - BASE - set(needed)
        heavy = {name for name in extra if not any(self.is_of(name, library) for library in needed)}
        self.check(not heavy, f"sinter {words[0]} loads nothing but {', '.join(sorted(needed)) or 'the least'}: "
                              f"{', '.join(sorted(heavy)) or 'so it is'}")
        self.check(set(needed) <= found, f"sinter {words[0]} loads {', '.join(needed) or 'the least'}")

    # What large libraries link themselves.
    OF = {"libdnnl": ("libgomp",), "libzip": ("libz", "libbz2", "liblzma", "libzstd", "libcrypto", "libmbedcrypto",
                                              "libgnutls", "libnettle")}

    def is_of(self, name, library):
        return name in self.OF.get(library, ())

    def refused(self, words, *says, sinter=None, **environment):
        run = subprocess.run([sinter or self.sinter, *words], capture_output=True, text=True, timeout=60,
                             env=dict(os.environ, **environment))
        holds = run.returncode == 7 and all(text in run.stderr for text in says)
        self.check(holds, f"refused, saying {', '.join(says)}" + ("" if holds else f": {run.returncode} {run.stderr}"))


def check_loads(checks, relu, product, npz):
    checks.loads(["--version"])
    checks.loads(["run", relu], ["libhwy"])
    checks.loads(["run", product], ["libhwy", "libdnnl"])
    checks.loads(["run", relu, "--inputs", npz], ["libhwy", "libzip"])
    checks.loads(["inspect", relu, "--steps"])
    checks.loads(["inspect", relu.with_suffix(".onnx"), "--graph"])
    checks.loads(["compile", relu.with_suffix(".onnx"), "-o", checks.folder / "again.plan", "--target=cpu", "--quiet"])
    with started(checks.sinter, relu, "--grpc-port=0") as (process, _):
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        checks.check("libgrpc" in maps, "sinter serve --grpc-port loads gRPC")
    with started(checks.sinter, relu) as (process, _):
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        checks.check(not re.search("libgrpc|libabsl|libprotobuf|libsndfile|libdnnl", maps), "sinter serve alone does not")


def check_damaged(checks, words, library, *says):
    """With a library that is none in front of the one that `words` open."""
    [file] = [name for name in checks.opened(*words) if name.startswith(library + ".so")]
    folder = checks.folder / library
    folder.mkdir()
    (folder / file).write_text("no library")
    checks.refused(words, "cannot be loaded", file, *says, LD_LIBRARY_PATH=str(folder))


def check_modules(checks, relu):
    """Of a command elsewhere: modules are found beside it alone."""
    prefix = checks.folder / "prefix"
    (prefix / "bin").mkdir(parents=True)
    copy = Path(shutil.copy(checks.sinter, prefix / "bin" / "sinter"))
    words = ["serve", relu, "--port=0", "--grpc-port=0"]
    checks.refused(words, "gRPC's module is not installed", "install the package sinter-grpc", sinter=copy)
    [module] = (checks.sinter.parent.parent / "lib").rglob("libsinter_grpc.so")
    there = prefix / module.relative_to(checks.sinter.parent.parent)
    there.parent.mkdir(parents=True)
    source = 'const char sinter_module_version[] = "0.0.7";\n'
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", there], input=source, text=True, check=True)
    checks.refused(words, "of version 0.0.7", "install the package sinter-grpc", sinter=copy)
    there.write_bytes(b"no library")
    checks.refused(words, "cannot be loaded", "install the package sinter-grpc", sinter=copy)
    there.write_bytes(module.read_bytes())
    with started(copy, relu, "--grpc-port=0") as (_, said):
        checks.check(said["grpc_port"] > 0, "a module beside a copy of the command serves")


def threads_of(checks, product, threads):
    """Counts the threads of a server with --threads=1 that has computed a matmul, while OMP_NUM_THREADS is `threads`."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with started(checks.sinter, product, "--threads=1") as (process, said):
        rows = 64
        inputs = [dict(name="x", datatype="FP32", shape=[rows, SIZE], data=[1.0] * (rows * SIZE))]
        ask = urllib.request.Request(f"http://127.0.0.1:{said['port']}/v2/models/{product.stem}/infer",
                                     json.dumps({"inputs": inputs}).encode(), {"Content-Type": "application/json"})
        json.load(urllib.request.urlopen(ask, timeout=60))
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        checks.check("libgomp" in maps, "a matmul loads oneDNN, and OpenMP with it")
        # Threads that end with the request may still be there.
        counts = []
        for _ in range(10):
            counts.append(len(list(Path(f"/proc/{process.pid}/task").iterdir())))
            time.sleep(0.05)
        return min(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks = Checks(options.sinter, folder)
        relu, product, npz = folder / "relu.plan", folder / "product.plan", folder / "in.npz"
        model(relu.with_suffix(".onnx"), helper.make_node("Relu", ["x"], ["y"]))
        weights = numpy_helper.from_array(np.ones((SIZE, SIZE), np.float32), "w")
        model(product.with_suffix(".onnx"), helper.make_node("MatMul", ["x", "w"], ["y"]), constants=[weights])
        for plan in (relu, product):
            subprocess.run([checks.sinter, "compile", plan.with_suffix(".onnx"), "-o", plan, "--target=cpu", "--quiet"],
                           check=True)
        np.savez(npz, x=np.ones((1, SIZE), np.float32))
        check_loads(checks, relu, product, npz)
        # Not libdnnl: the command's RPATH names its folder, and comes before LD_LIBRARY_PATH.
        check_damaged(checks, ["run", relu], "libhwy", "Highway", "apt install libhwy1")
        check_damaged(checks, ["run", relu, "--inputs", npz], "libzip", ".npz", "apt install libzip")
        check_modules(checks, relu)
        checks.check(threads_of(checks, product, 1) == threads_of(checks, product, 7), "OpenMP's threads stay out")
        print(f"{len(checks.failed)} failed")
        return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
