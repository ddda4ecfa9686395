#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PP-OCR's recogniser reads and Magika says, with operands of 8 bits: as in float32.

  tests/models/check_eight_bit.py --out tests/models/results/eight_bit_cpu.json
  tests/models/check_eight_bit.py --target cuda --precisions int8,fp8

The recogniser reads lines that are rendered here, in several sizes, after calibration on other lines; lines that float32
misreads do not count. Magika names the types of this repository's files, after calibration on others of them. Both must
give the same answers as their plan of the model's own precision. fp8 on the CPU is emulated.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
import magika_inputs  # noqa: E402
import real_inputs  # noqa: E402
from common import provenance, write  # noqa: E402
from runs import Sinter  # noqa: E402

CACHE = ROOT / "models" / "cache"
TEST = ["Sinter fuses many small grains", "into one solid piece of 4096", "Memory bound, 3.35 TB/s",
        "The quick brown fox jumps", "over the lazy dog; 0123456789", "Total: 1,299.00 EUR", "invoice no. 2024-11-0815",
        "Dear Sir or Madam,", "thank you for your order", "Kind regards, J. Smith", "page 7 of 12",
        "RETURN WITHIN 30 DAYS", "https://example.org/a?b=c", "Tel. +49 30 1234567", "x = (a + b) * c - d / 2"]
CALIBRATION = ["A ferry leaves at 6:45 in the morning", "Platform 9 is closed today", "Beans, bread and butter: 7.80",
               "Chapter 3: The Long Way Home", "call me before Friday, please", "ISBN 978-3-16-148410-0",
               "MEETING ROOM B, SECOND FLOOR", "19 March 1987, about noon"]
SIZES = (24, 32, 40)
WIDTH = 640  # of each line's image


def line_image(line, size):
    """One line as the recogniser reads it, padded to WIDTH."""
    image = real_inputs.text_image([line], size=size, margin=8, spacing=0)
    width = min(WIDTH, round(48 * image.shape[1] / image.shape[0]))
    x = real_inputs.resized(image, 48, width)[:, :, ::-1] / 127.5 - 1
    x = np.pad(x, ((0, 0), (0, WIDTH - width), (0, 0)), constant_values=1)
    return x.transpose(2, 0, 1)[None].astype(np.float32)


def lines(texts, sizes):
    return [{"x": line_image(text, size)} for size in sizes for text in texts]


def files(first, count, folder=ROOT):
    """Of many types, evenly spread, none of them empty; with `first` 0 others than with 1."""
    found = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 1024
                   and p.suffix in (".md", ".py", ".json", ".txt", ".cpp", ".h", ".cuh", ".cmake", ".fbs", ".onnx")
                   and not {"cache", "build", "__pycache__"} & set(p.relative_to(folder).parts)
                   and not any(part.startswith(".") for part in p.relative_to(folder).parts))
    found = found[first::2]
    return [found[i * len(found) // count] for i in range(min(count, len(found)))]


def magika_runs(paths, batch):
    config = magika_inputs.config()
    return [magika_inputs.encode(paths[i:i + batch], config) for i in range(0, len(paths) - batch + 1, batch)]


def labels(outputs):
    return [int(label) for run in outputs for label in next(iter(run.values())).argmax(-1)]


MODELS = {
    "ppocr_rec": (lambda: lines(TEST, SIZES), lambda: lines(CALIBRATION, (28, 36)), real_inputs.recognised),
    "magika": (lambda: magika_runs(files(0, 128), 8),
               lambda: magika_runs(files(1, 64), 8), labels),
}


# The recogniser's output is a softmax over 6,625 characters, most of them never near: an error of 0.03 is much there.
OPTIONS = {"ppocr_rec": [], "magika": []}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--precisions", default="int8")
    p.add_argument("--options", nargs="*", default=[], help="more for sinter compile")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the result as JSON")
    a = p.parse_args()
    results, failed = [], 0
    manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
    for name in a.models.split(","):
        made, calibration, meaning = MODELS[name]
        dims = manifest[name].get("options", [])
        model, runs, samples = CACHE / f"{name}.onnx", made(), calibration()
        with tempfile.TemporaryDirectory() as folder:
            plain = Sinter(a.sinter, folder, a.target, "model")
            plan = plain.compile(model, *dims)
            expected = [plain.run(plan, feeds) for feeds in runs]
            np.savez(Path(folder) / "samples.npz", **{key: np.stack([s[key] for s in samples]) for key in samples[0]})
            for precision in a.precisions.split(","):
                sinter = Sinter(a.sinter, folder, a.target, precision)
                emulate = ["--emulate"] if a.target == "cpu" and precision == "fp8" else []
                report = sinter.json("compile", model, "-o", Path(folder) / f"{precision}.plan", *sinter.for_target(),
                                     "--calibration", Path(folder) / "samples.npz", *dims, *emulate,
                                     *OPTIONS[name], *a.options)
                found = [sinter.run(Path(folder) / f"{precision}.plan", feeds) for feeds in runs]
                wanted, got = meaning(expected), meaning(found)
                truth = TEST * len(SIZES) if name == "ppocr_rec" else wanted
                pairs = [(w, g) for t, w, g in zip(truth, wanted, got) if w == t]
                differ = [pair for pair in pairs if pair[0] != pair[1]]
                rounded = sum(not layer["kept"] for layer in report["layers"])
                failed += bool(differ)
                results.append(dict(model=name, precision=precision, options=OPTIONS[name], compared=len(pairs), of=len(wanted), differ=differ,
                                    layers=len(report["layers"]), rounded=rounded, ok=not differ))
                print(f"{'FAILED' if differ else 'ok    '} {name} {precision} on {a.target}: {len(pairs)} of {len(wanted)} compared, "
                      f"{len(differ)} differ {differ[:3] or ''}; {rounded} of {len(report['layers'])} layers rounded",
                      flush=True)
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "options": a.options, "results": results})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
