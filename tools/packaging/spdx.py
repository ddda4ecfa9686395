# SPDX-License-Identifier: Apache-2.0
"""SPDX lines: which files must have one, which have none, and how they get one."""
import fnmatch
import re
import tomllib

from .dependencies import ROOT, git_files

LICENCE = "SPDX-License-Identifier: Apache-2.0"
SLASHES = (".cpp", ".h", ".cuh", ".cu", ".c", ".fbs", ".proto")
HASHES = (".py", ".sh", ".cmake", ".cmake.in", ".pc.in", ".toml", ".yml", ".yaml", "CMakeLists.txt", "Dockerfile", ".dockerfile",
          ".clang-format", ".clang-tidy", ".gitignore")


def covered():
    """Patterns of files that cannot have comments, or are not ours: REUSE.toml."""
    return [pattern for each in tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"] for pattern in each["path"]]


def is_covered(path, patterns):
    """As REUSE reads them: `*` stays within a folder, `**` does not."""
    for pattern in patterns:
        expression = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        if re.fullmatch(expression, path):
            return True
    return False


def mark_of(path, head):
    """How a comment begins there; None: none is known."""
    if path.endswith(SLASHES):
        return "//"
    name = path.rpartition("/")[2]
    if path.endswith(HASHES) or fnmatch.fnmatch(name, "requirements*.txt"):
        return "#"
    first = head.split(b"\n", 1)[0]
    if first.startswith(b"#!") and re.search(rb"\b(sh|bash|python3?)\b", first):
        return "#"
    return None


def with_line(data, mark):
    """The bytes of a file with the line as its first comment, behind a shebang."""
    line = f"{mark} {LICENCE}\n".encode()
    if data.startswith(b"#!"):
        first, _, rest = data.partition(b"\n")
        return first + b"\n" + line + rest
    return line + data


def has_line(data):
    return any(b"SPDX-License-Identifier:" in line for line in data.split(b"\n", 4)[:4])


def check(fix=False, files=None):
    """What is wrong, one text for each file. With `fix` lines are added."""
    patterns, wrong = covered(), []
    for path in git_files() if files is None else files:
        if is_covered(path, patterns) or (ROOT / path).is_symlink():
            continue
        with (ROOT / path).open("rb") as file:
            head = file.read(512)
            if has_line(head):
                continue
            mark = mark_of(path, head)
            if mark and fix:
                data = with_line(head + file.read(), mark)
                (ROOT / path).write_bytes(data)
                continue
        wrong.append(f"{path}: has no SPDX line: tools/lint --fix" if mark else
                     f"{path}: has no SPDX line and no known comments: add it to REUSE.toml")
    return wrong
