#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny decoders as mobius-onnx 0.1 builds them, of the configurations of export_genai.py.

  export_mobius.py --out FOLDER --only llama qwen3 --provider default cpu --precision fp32

Each lies in FOLDER/NAME_PRECISION_PROVIDER, for tests/models/check_genai.py. Needs requirements-genai.txt and mobius-onnx.
"""
import argparse
import contextlib
import itertools
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

from export_genai import save_checkpoint
from genai_rows import rows

TYPES = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}


def export(name, precision, provider, out):
    from mobius.__main__ import main as mobius
    row, target = rows()[name], Path(out) / f"{name}_{precision}_{provider}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as checkpoint, open(os.devnull, "w") as quiet:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            config = row.config()
            save_checkpoint(config, checkpoint)
            words = ["mobius", "build", "--config", checkpoint, "--dtype", TYPES[precision], "--ep", provider, "--runtime", "ort-genai",
                     *(["--text-only"] if hasattr(config, "vision_config") else []), str(target)]
            try:
                with mock.patch.object(sys, "argv", words):
                    mobius()
            except BaseException:
                shutil.rmtree(target, ignore_errors=True)
                raise
    return target


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--only", nargs="+", default=[], metavar="NAME")
    p.add_argument("--precision", nargs="+", choices=TYPES, default=TYPES)
    p.add_argument("--provider", nargs="+", default=["default", "cpu", "cuda"])
    a = p.parse_args()
    logging.disable(logging.WARNING)
    for name, row in rows().items():
        # Rows of the builder's options, and of modules that only it reads, say nothing else.
        if row.only or row.architecture or row.reshape or (a.only and name not in a.only):
            continue
        for precision, provider in itertools.product(a.precision, a.provider):
            try:
                print(export(name, precision, provider, a.out), flush=True)
            except (Exception, SystemExit) as e:  # noqa: BLE001: it lacks some; the others are still wanted
                print(f"not {name} {precision} {provider}: {type(e).__name__}: {str(e)[:200]}", flush=True)


if __name__ == "__main__":
    main()
