#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every relative link and image of every Markdown file leads to a file or folder that exists, and to a heading that it
has; so do paths in backticks that begin with a folder of the repository, from there or from the page's own folder. Exits
with 1 and a line for each that does not.

  check_links.py              what needs no network
  check_links.py --external   links to other sites instead: 77 where there is no network
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "frontend", "fusion", "codegen", "runtime", "graphs", "tools", "tests", "models")
SUFFIXES = ("", ".h", ".cpp", ".py", ".cuh")
# What builds, downloads and runs make.
MADE = ("models/cache", "models/tiny/cache")
FENCE = re.compile(r"(?ms)^ *```.*?^ *```[ \t]*$")
# [text](target), ![text](target "title"), <a href="target">, <img src="target">, [name]: target
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|\b(?:href|src)=\"([^\"]+)\"|^\[[^\]]+\]: (\S+)", re.M)


def headings(path):
    """Anchors as GitHub makes them: of two headings that are alike the second ends in -1."""
    found = set()
    for line in FENCE.sub("", path.read_text()).splitlines():
        if match := re.match(r"#+ (.*)", line):
            text = re.sub(r"\]\([^)]*\)", "", match[1].lower())
            anchor = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
            number = 0
            while (f"{anchor}-{number}" if number else anchor) in found:
                number += 1
            found.add(f"{anchor}-{number}" if number else anchor)
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def links(text):
    return [next(filter(None, match)) for match in LINK.findall(text)]


def bad_links(page, text):
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or not target.resolve().is_relative_to(ROOT):
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


def problem_of(url):
    """What a server says of an address: None, or what is wrong. That it asks for a person or is slow is no fault of ours."""
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (a check of links)"})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        return f"{error.code}" if error.code in (404, 410) else None
    except OSError as error:
        return f"no answer: {error}"
    return None


def check_external(texts):
    pages = {}
    for name, text in texts.items():
        for link in links(text):
            if re.match(r"https?://(?!localhost|127\.)", link):
                pages.setdefault(link.partition("#")[0], name)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        problems = {url: problem for url, problem in zip(pages, pool.map(problem_of, pages)) if problem}
    if problems and all(problem.startswith("no answer") for problem in problems.values()) and len(problems) == len(pages):
        print(f"none of {len(pages)} addresses answers: there is no network")
        return 77
    for url, problem in problems.items():
        print(f"{pages[url]}: {url}: {problem}")
    print(f"{len(pages)} links to other sites, {len(problems)} wrong")
    return 1 if problems else 0


def main():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split()
    texts = {name: FENCE.sub("", (ROOT / name).read_text()) for name in names if (ROOT / name).exists()}
    if sys.argv[1:] == ["--external"]:
        return check_external(texts)
    wrong = []
    for name, text in texts.items():
        page = ROOT / name
        wrong += [f"{name}: {bad}" for bad in [*bad_links(page, text), *bad_paths(page, text)]]
    print("\n".join(wrong) if wrong else f"the links of {len(texts)} pages lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
