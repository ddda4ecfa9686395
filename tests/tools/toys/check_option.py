#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A toy option costs two files, its row and where it acts (option.patch), and is everywhere then.

check_option.py           the patch fits the sources, and touches two files
check_option.py --build   also builds them with it, in build/toy_option, and looks for it
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOYS = Path(__file__).parent


def run(*words, **options) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def build(folder: Path, patch: Path) -> Path:
    """The command, of a copy of the sources with the patch."""
    sources = folder / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    for name in run("git", "ls-files", cwd=ROOT).splitlines():
        target = sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    (sources / ".deps").symlink_to((ROOT / ".deps").resolve())
    run("patch", "-p1", "-i", patch, cwd=sources)
    run("cmake", "--preset", "quickstart", cwd=sources)
    run("ninja", "-C", "build", "-j2", "sinter", cwd=sources)
    return sources / "build/bin/sinter"


def touched(patch: Path, most: int) -> list[str]:
    """The files of a patch, which fits the sources."""
    files = [line.split("/", 1)[1] for line in patch.read_text().splitlines() if line.startswith("+++ ")]
    assert len(files) <= most, files
    run("patch", "-p1", "--dry-run", "-i", patch, cwd=ROOT)
    return files


def look(sinter: Path, folder: Path) -> None:
    def said(*words):
        return run(sinter, *words)

    for verb in ("compile", "verify", "compare", "inspect", "report", "bench", "profile"):
        assert "--toy-label TEXT" in said(verb, "--help"), verb
    for shell in ("bash", "zsh", "fish"):
        assert "toy-label" in said("completion", shell), shell
    rows = {row["flag"]: row for row in json.loads(said("help", "--options", "--json"))["options"]}
    assert rows["--toy-label"]["keyword"] == rows["--toy-label"]["field"] == "toy_label"
    assert "toy_label" in said("help", "--options")
    plan = folder / "toy.plan"
    said("compile", ROOT / "models/tiny/bert.onnx", "-o", plan, "--target=cpu", "--toy-label=mine", "--quiet")
    report = json.loads(said("inspect", plan, "--json"))
    assert report["model"] == "mine" and "toy-label=mine" in " ".join(report["options"]).replace(": ", "="), report


def main() -> int:
    patch = TOYS / "option.patch"
    files = touched(patch, 2)
    if "--build" in sys.argv:
        folder = ROOT / "build/toy_option"
        look(build(folder, patch), folder)
    print(f"a toy option: {', '.join(files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
