# SPDX-License-Identifier: Apache-2.0
"""Models through the command line and through ONNX Runtime: what every script that compares them shares."""
import json
import subprocess
from pathlib import Path

import numpy as np


class Failed(Exception):
    """The command line refused or failed; str() is its error message."""


class Sinter:
    """The command line of one binary, for one target and precision (None: by options); files go to `folder`. Plans are of `ranks`."""

    def __init__(self, binary, folder, target="cpu", precision="model", ranks=1):
        self.binary, self.folder = str(binary), Path(folder)
        self.target, self.precision, self.ranks = target, precision, ranks

    def _start(self, words, accepted):
        done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True)
        if done.returncode not in accepted:
            at = done.stderr.find("error")  # what follows it may name several nodes
            raise Failed(f"{done.stderr[max(at, 0):].strip()} (sinter {' '.join(map(str, words))}, exit code {done.returncode})")
        return done.stdout

    def text(self, *words):
        """What a verb prints."""
        return self._start(words, (0,))

    def json(self, *words):
        """The JSON object that a verb prints; a comparison that failed (exit code 1) prints one too."""
        return json.loads(self._start([*words, "--json", "--quiet"], (0, 1)))

    def for_target(self):
        return [f"--target={self.target}", *([f"--precision={self.precision}"] if self.precision else []),
                *([f"--tensor-parallel={self.ranks}"] if self.ranks > 1 else [])]

    def compile(self, model, *options, name=None):
        """The plan of a model, a decoder's with its own inputs."""
        plan = self.folder / f"{name or Path(model).stem}.plan"
        serve = () if any(str(option).startswith("--serve") for option in options) else ("--serve=off",)
        self.text("compile", model, "-o", plan, *self.for_target(), "--quiet", *serve, *options)
        return plan

    def save(self, feeds):
        """A file that --inputs takes."""
        path = self.folder / "in.npz"
        np.savez(path, **feeds)
        return path

    def run(self, plan, feeds):
        """The outputs of a plan by name."""
        outputs = self.folder / "out.npz"
        self.text("run", plan, "--inputs", self.save(feeds), "--outputs", outputs)
        with np.load(outputs) as f:
            return {key: f[key] for key in f}


def onnx_runtime(model, threads=None, config=None):
    """A session on the CPU; `threads`: how many threads an operator takes, all cores if not given."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def relative_error(found, expected):
    """Of the whole tensor; infinite if the shapes differ."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    if found.shape != expected.shape:
        return float("inf")
    scale = np.linalg.norm(expected)
    if scale == 0:
        return float(np.abs(found).max(initial=0))
    return float(np.linalg.norm(found - expected) / scale)
