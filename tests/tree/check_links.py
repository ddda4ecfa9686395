#!/usr/bin/env python3
"""Every relative link of every Markdown file leads to a file or folder that exists, and to a heading that it has; so do
paths in backticks that begin with a folder of the repository, from there or from the page's own folder. Exits with 1 and a line for each that does not."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "frontend", "fusion", "codegen", "runtime", "graphs", "tools", "tests", "models")
SUFFIXES = ("", ".h", ".cpp", ".py", ".cuh")
# What builds, downloads and runs make.
MADE = ("models/cache", "models/tiny/cache")


def headings(path):
    """Anchors as GitHub makes them."""
    found = set()
    for line in path.read_text().splitlines():
        if match := re.match(r"#+ (.*)", line):
            text = re.sub(r"[^\w\- ]", "", match[1].lower())
            found.add(text.strip().replace(" ", "-"))
    return found


def bad_links(page, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md" and anchor not in headings(target):
            yield link


def bad_paths(page, text):
    for path in re.findall(r"`([\w./-]+)`", text):
        if path.split("/")[0] not in FOLDERS or "/" not in path or path.startswith(MADE):
            continue
        if set(path.split("/")) & {"NAME", "X"}:  # stands for any
            continue
        places = [folder / (path.rstrip("/") + suffix) for folder in (ROOT, page.parent) for suffix in SUFFIXES]
        if not any(place.exists() for place in places):
            yield path


def main():
    pages = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split()
    wrong = []
    for name in pages:
        page = ROOT / name
        if not page.exists():
            continue
        text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
        wrong += [f"{name}: {bad}" for bad in [*bad_links(page, text), *bad_paths(page, text)]]
    print("\n".join(wrong) if wrong else f"the links of {len(pages)} pages lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
