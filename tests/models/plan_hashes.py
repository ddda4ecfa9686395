#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hashes of the plans of many models: what a change that moves code about has to leave as it is.

  plan_hashes.py --out plans.json                       the manifest's tiny models, chains, a decoder; all targets
  plan_hashes.py --against plans.json                   compiles them again, and names the plans that differ
  plan_hashes.py --against plans.json --targets cpu     some of them; --models 'tiny_*' likewise
  plan_hashes.py --against plans.json --only code       what is to have the same machine code under other names
  plan_hashes.py --out more.json --fetched              with the models that models/fetch.py has brought

A row is a model, a target and what is asked of types: the model's own, float16, and weights of 8 and 4 bits. It has
the hash of the plan's file and, for a GPU, of all kernels' text and of their machine code, which plans that differ in
their text may still have in common. Two runs give the same bytes, so a difference is the change's. Exit code 1 if there is any.
A model that does not compile has its message as its hash.
"""
import argparse
import fnmatch
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "perf")]
from common import provenance, write  # noqa: E402

MODELS = ROOT / "models"
TARGETS = {"cpu": "cpu", "sm_80": "cuda:sm_80", "sm_90": "cuda:sm_90"}
MODULES = 2  # the section of machine code
FORMS = {"model": [], "fp16": ["--precision=fp16"], "int8": ["--weights=int8"], "int4": ["--weights=int4:group=32"]}


def sha(data):
    return hashlib.sha256(data).hexdigest()[:16]


def models_of(folder, fetched):
    """Paths by name, with the options that the manifest has for them; chains and a decoder are written to `folder`."""
    manifest = json.loads((MODELS / "manifest.json").read_text())
    found = {key: (MODELS / entry["path"], entry.get("options", [])) for key, entry in manifest.items()
             if "path" in entry}
    if fetched:
        for key, entry in manifest.items():
            for name in entry.get("builds", {}):
                if (MODELS / "cache" / name).exists():
                    found[Path(name).stem] = (MODELS / "cache" / name, entry.get("options", []))
    subprocess.run([sys.executable, MODELS / "chains.py", "--out", folder, "--rows", "256", "--cols", "1024"],
                   check=True, stdout=subprocess.DEVNULL)
    for path in sorted(Path(folder).glob("*.onnx")):
        found[path.stem] = (path, [])
    found["decoder"] = (MODELS / "tiny" / "decoder.onnx", [])
    found["decoder_paged"] = (MODELS / "tiny" / "decoder.onnx", ["--serve"])
    found["decoder_entries"] = (MODELS / "tiny" / "decoder.onnx", ["--entry", "prefill:sequence=2..32", "--entry",
                                                                  "decode:sequence=1"])
    return found


def own_inputs(sinter, options):
    """Plans of decoders that keep the model's inputs, as all plans did of a sinter that does not find decoders."""
    said = subprocess.run([sinter, "compile", "--help"], capture_output=True, text=True).stdout
    return ["--serve=off"] if "off: their own inputs" in " ".join(said.split()) and "--serve" not in options else []


def hash_one(a, folder, name, path, options, target, form):
    plan = Path(folder) / f"{name}.{target}.{form}.plan"
    done = subprocess.run([a.sinter, "compile", path, "-o", plan, f"--target={TARGETS[target]}", "-q", *own_inputs(a.sinter, options), *options,
                           *FORMS[form]], capture_output=True, text=True)
    key = f"{name} {target} {form}"
    if done.returncode:
        return key, {"refused": done.stderr.strip().splitlines()[-1][:200]}
    data = plan.read_bytes()
    row = {"plan": sha(data)}
    if target != "cpu":
        # The header has a hash of each section: runtime/plan/FORMAT.md.
        row["code"] = f"{struct.unpack_from('<Q', data, 32 + 24 * MODULES + 16)[0]:016x}"
        source = subprocess.run([a.sinter, "inspect", plan, "--source"], capture_output=True, check=True).stdout
        row["text"] = sha(source)
    plan.unlink()
    return key, row


def differences(found, expected, only):
    for key, row in found.items():
        if key not in expected:
            yield f"{key}: is new"
            continue
        was = expected[key]
        compared = [only] if only else [part for part in row if part in was]
        if any(row.get(part) != was.get(part) for part in compared) or row.get("refused") != was.get("refused"):
            same = [part for part in row if row[part] == was.get(part)]
            yield f"{key}: differs{' but for its ' + ', '.join(same) if same else ''}: {row} was {was}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--targets", default=",".join(TARGETS))
    p.add_argument("--forms", default=",".join(FORMS))
    p.add_argument("--models", default="*", help="a pattern of names")
    p.add_argument("--fetched", action="store_true", help="also the models in models/cache")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--out", type=Path)
    p.add_argument("--against", type=Path)
    p.add_argument("--only", choices=["plan", "text", "code"], help="compare nothing else")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.jobs) as pool:
        models = {k: v for k, v in models_of(folder, a.fetched).items() if fnmatch.fnmatch(k, a.models)}
        work = [(a, folder, name, path, options, target, form) for target in a.targets.split(",")
                for form in a.forms.split(",") for name, (path, options) in sorted(models.items())]
        found = {}
        for done, (key, row) in enumerate(pool.map(lambda one: hash_one(*one), work), 1):
            found[key] = row
            if sys.stderr.isatty():
                print(f"\r{done} of {len(work)}", end="", file=sys.stderr, flush=True)
    if a.out:
        write(str(a.out), {**provenance(None), "plans": found})
    if not a.against:
        return 0
    different = list(differences(found, json.loads(a.against.read_text())["plans"], a.only))
    print("\n".join(different) if different else f"all {len(found)} plans are as they were")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
