#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does tools/sizes refuse what is too large, unknown, or not as the table says? Exit code 0 if it does."""
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SIZES = Path(__file__).resolve().parents[2] / "tools" / "sizes"


def wheel(folder, name, megabytes):
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", bytes(int(megabytes * 1e6)))
    return path


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, says in [(wheel(folder, "large-1-py3-none-any.whl", 41), "more than 40"),
                           (wheel(folder, "small-1-py3-none-any.whl", 1), "tools/SIZES.md says"),
                           (wheel(folder, "unknown.zip", 1), "has no row"),
                           (folder / "none.whl", "there is no file")]:
            run = subprocess.run([sys.executable, SIZES, "--check", file], capture_output=True, text=True)
            if run.returncode == 0 or says not in run.stderr:
                print(f"FAILED: {file.name}: '{says}' is not in: {run.stderr}")
                failed += 1
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
