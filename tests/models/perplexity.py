#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perplexity of SmolLM2 on a real text, by Sinter: float32, the file's own 4-bit blocks, and ours.

  perplexity.py                                  for the CPU; --out results/perplexity_smollm2_cpu.json
  perplexity.py --target cuda --precision fp16 --ways float32,int8

The text is of Python's documentation as its standard library ships it (pydoc_data.topics, PSF licence: 'objects',
'execmodel', 'import'), cut into windows that do not see each other; every token of a window but the first counts. The
GGUF file is where the weights come from, so 'float32' are its blocks as float32, and what is measured of 'int8' and
'int4' comes on top of Q4_1. ONNX Runtime's float32 is the reference of float32. What 'calibrated' reads to make up for
rounding errors is other text than what is measured: of the other topics, windows evenly spread over them (--samples;
of 'W8A8', which also runs each layer rounded beside exact, a quarter of them). fp8 on the CPU is emulated.
"""
import argparse
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402
from runs import Sinter, onnx_runtime  # noqa: E402

CACHE = ROOT / "models" / "cache"
GGUF = CACHE / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TOPICS = ("objects", "execmodel", "import")
# Name: how the model's weights are written, how they are compiled, whether calibrated, and how much more perplexity
# than float32's is allowed in all (none: stated, not judged).
CACHES = ["--form", "cached-score"]  # keys and values by way of caches, which a run fills from their beginning
WAYS = {
    "float32": ([], [], False, None),
    "int8": ([], ["--weights=int8"], False, 0.005),
    "int8 rounded rows": ([], ["--weights=int8", "--cpu-activations=int8"], False, 0.005),
    "int4 g128 calibrated": ([], ["--weights=int4:group=128:asymmetric"], True, 0.06),
    "int4 g128 calibrated none wider": ([], ["--weights=int4:group=128:asymmetric:wide=0"], True, None),
    "int4 g128 symmetric calibrated": ([], ["--weights=int4:group=128"], True, None),
    "int4 g32 calibrated": ([], ["--weights=int4:group=32:asymmetric"], True, None),
    "int4 g128": ([], ["--weights=int4:group=128:asymmetric"], False, None),
    "int4 g32": ([], ["--weights=int4:group=32"], False, None),
    "nvfp4": ([], ["--weights=nvfp4"], False, None),
    "mxfp4": ([], ["--weights=mxfp4"], False, None),
    "int8 W8A8": ([], ["--precision=int8"], True, 0.02),
    "int8 W8A8 all": ([], ["--precision=int8", "--max-error=1"], True, None),
    "int8 W8A8 not smoothed": ([], ["--precision=int8", "--smooth=off", "--max-error=1"], True, None),
    "int8 W8A8 by token": ([], ["--precision=int8", "--activation-scales=token"], True, 0.02),
    "int4 g128 W4A8": ([], ["--weights=int4:group=128:asymmetric", "--precision=fp8", "--activation-scales=token"],
                       False, None),
    "fp8 W8A8": ([], ["--precision=fp8"], True, 0.01),
    "float32 caches": (CACHES, [], False, None),
    "fp8 caches": (CACHES, ["--cache-precision=fp8"], False, 0.01),  # three bits of mantissa are few for keys
    "fp8 caches calibrated": (CACHES, ["--cache-precision=fp8"], True, 0.005),
    "int8 caches": (CACHES, ["--cache-precision=int8"], False, 0.005),
}
REFERENCE_TOLERANCE = 1e-4  # of float32 against ONNX Runtime


def text():
    from pydoc_data.topics import topics
    return "".join(topics[name] for name in TOPICS)


def other_text():
    from pydoc_data.topics import topics
    return "".join(value for name, value in sorted(topics.items()) if name not in TOPICS)


def windows(text, size, count, spread=False):
    """int64 [1, size] each: the first ones, or `spread` evenly over the text."""
    from tokenizers import Tokenizer
    ids = Tokenizer.from_file(str(CACHE / "smollm2_tokenizer.json")).encode(text).ids
    whole = len(ids) // size
    if whole < count:
        sys.exit(f"the text has {len(ids)} tokens, fewer than {count} windows of {size}")
    places = [i * whole // count if spread else i for i in range(count)]
    return [np.array([ids[i * size:(i + 1) * size]]) for i in places]


def model(options):
    """The form that says what each token costs, made once."""
    form = [] if "--form" in options else ["--form", "score"]
    path = CACHE / f"smollm2_score{'_caches' if options == CACHES else ''}.onnx"
    sources = [ROOT / "models" / name for name in ("build_llama.py", "llama_onnx.py", "gguf_file.py")]
    if not path.exists() or any(s.stat().st_mtime > path.stat().st_mtime for s in [GGUF, *sources]):
        subprocess.run([sys.executable, sources[0], "--gguf", GGUF, *form, *options, "--out", path],
                       check=True)
    return path


def perplexity(costs):
    return float(np.exp(np.mean(np.concatenate([c.astype(np.float64).ravel() for c in costs]))))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", default="model")
    p.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}")
    p.add_argument("--window", type=int, default=1024, help="tokens of a window")
    p.add_argument("--windows", type=int, default=5)
    p.add_argument("--samples", type=int, default=16, help="windows that 'calibrated' reads")
    p.add_argument("--calibration", help="a file of text for 'calibrated' instead")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    a = p.parse_args()
    texts, rows, failed = windows(text(), a.window, a.windows), [], []
    calibration = Path(a.calibration).read_text() if a.calibration else other_text()
    samples = np.array(windows(calibration, a.window, a.samples, spread=True))
    session = onnx_runtime(model([]))
    base = perplexity([session.run(None, {"input_ids": ids})[0] for ids in texts])
    del session
    print(f"ONNX Runtime, float32: {base:.4f}", flush=True)
    rows.append({"way": "ONNX Runtime, float32", "perplexity": base})
    for way in a.ways.split(","):
        written, compiled, calibrated, bound = WAYS[way]
        with tempfile.TemporaryDirectory() as folder:
            is_eight_bit = "A8" in way  # of activations
            sinter = Sinter(a.sinter, folder, a.target, None if is_eight_bit else a.precision)
            read = ["--emulate"] if a.target == "cpu" and "--precision=fp8" in compiled else []
            if calibrated:
                own = samples[::4] if is_eight_bit else samples
                np.savez(Path(folder) / "samples.npz", input_ids=own)
                read += ["--calibration", str(Path(folder) / "samples.npz")]
            start = time.perf_counter()
            sizes = ["--dim", f"sequence={a.window}"]
            sizes += ["--dim", f"capacity={a.window}"] if written == CACHES else []
            plan = sinter.compile(model(written), *sizes, *compiled, *read)
            seconds = time.perf_counter() - start
            place = {"position": np.array([0])} if written == CACHES else {}
            found = perplexity([sinter.run(plan, {"input_ids": ids, **place})["cost"] for ids in texts])
            more = found / base - 1
            if way == "float32" and a.precision == "model":
                bound = REFERENCE_TOLERANCE
            ok = bound is None or more <= bound and (way != "float32" or more >= -bound)
            failed += [] if ok else [way]
            rows.append({"way": way, "compiled_with": compiled, "perplexity": found, "more_than_float32": more,
                         "allowed": bound, "plan_bytes": plan.stat().st_size, "compile_seconds": seconds,
                         "samples": len(own) if calibrated else 0})
            allowed = "" if bound is None else f" (at most {100 * bound:g} %)"
            print(f"{'ok    ' if ok else 'FAILED'} {way}: {found:.4f}, {100 * more:+.3f} % against float32{allowed}; "
                  f"plan {plan.stat().st_size / 1e6:.1f} MB, compiled in {seconds:.0f} s", flush=True)
    if a.out:
        write(a.out, {**provenance(a.commit), "target": a.target, "precision": a.precision, "text": {
            "source": f"pydoc_data.topics of Python {platform.python_version()}, PSF licence: {', '.join(TOPICS)}",
            "sha256": hashlib.sha256(text().encode()).hexdigest(), "tokens": sum(t.size for t in texts),
            "window": a.window, "counted": sum(t.size - 1 for t in texts)}, "results": rows})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
