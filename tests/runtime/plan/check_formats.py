#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Can today's library read tables of the last two formats? runtime/plan/plan.fbs against the schemas that formats/ keeps of them:
fields stay where they are and are none the less (flatc --conform sees the first alone), structures and numbers stay as they are."""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent.parent / "runtime/plan/plan.fbs"


def declarations(path):
    text = re.sub(r"//[^\n]*", "", path.read_text())
    for kind, name, body in re.findall(r"(table|struct|enum|union)\s+(\w+)[^{]*\{([^}]*)\}", text):
        yield kind, name, [" ".join(part.split()) for part in re.split(r"[;,]", body) if part.strip()]


def problems(old, new, flatc):
    done = subprocess.run([flatc, "--conform", old, new], capture_output=True, text=True)
    if done.returncode != 0:
        yield f"{old.name}: {(done.stdout + done.stderr).strip()}"
    today = {name: parts for _, name, parts in declarations(new)}
    for kind, name, parts in declarations(old):
        found = today.get(name, [])
        if kind == "struct" and parts != found:
            yield f"{old.name}: the structure {name} has changed: add another one beside it"
        for at, part in enumerate(parts):
            field = part.split(":")[0].split("=")[0].strip()
            if at >= len(found) or found[at].split(":")[0].split("=")[0].strip() != field:
                yield f"{old.name}: {name}.{field} is not where it was: fields are added at the end, and marked (deprecated)"
                break


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--flatc", default="flatc")
    flatc = p.parse_args().flatc
    kept = sorted((HERE / "formats").glob("format_*.fbs"))
    header = (SCHEMA.parent / "plan_data.h").read_text()
    newest, oldest = (int(re.search(rf"{name} = (\d+)", header)[1]) for name in ("kFormatVersion", "kOldestFormatVersion"))
    wrong = [f"formats/format_{version}.fbs is missing: keep the schema of a version that is read" for version in range(oldest, newest)
             if HERE / f"formats/format_{version}.fbs" not in kept]
    for old in kept:
        if int(re.search(r"\d+", old.stem)[0]) >= oldest:
            wrong += problems(old, SCHEMA, flatc)
    # What it must find.
    text = SCHEMA.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for pattern, by in ((r"\n  refit: string;", "\n  ;"), (r"  graph_text: string;", "  x: uint;\n  graph_text: string;"),
                            (r"window: ulong;", "window: uint;"), (r"divisor: ulong;", "divisor: uint;")):
            broken = Path(folder, "broken.fbs")
            changed = re.sub(pattern, by, text, count=1).replace("\n  ;", "")
            broken.write_text(changed)
            if changed == text or not list(problems(kept[-1], broken, flatc)):
                wrong.append(f"a schema without '{pattern.strip()}' is not refused")
    print("\n".join(wrong) or f"{len(kept)} schemas: today's reads their tables")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
