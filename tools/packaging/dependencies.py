# SPDX-License-Identifier: Apache-2.0
"""Has each dependency a row in NOTICE? What tools/setup installs, what CMake looks for, what Python's files name, what is vendored."""
import re
import subprocess
import tomllib

from . import notice

ROOT = notice.ROOT
CMAKE = re.compile(r"^\s*(find_package|find_library|find_program|find_path|find_file|pkg_check_modules)\s*\(([^)]*)\)", re.M)
OURS = {"Sinter"}


def git_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def cmake_names(text):
    for command, arguments in CMAKE.findall(re.sub(r"#[^\n]*", "", text)):
        words = arguments.split()
        if command == "find_package":
            found = words[:1]
        elif command == "pkg_check_modules":
            found = [re.split(r"[<>=]", word)[0] for word in words[1:] if word not in ("REQUIRED", "QUIET", "IMPORTED_TARGET")]
        elif "NAMES" in words:
            rest = words[words.index("NAMES") + 1:]
            found = rest[:next((i for i, word in enumerate(rest) if word.isupper()), len(rest))]
        else:
            found = words[1:2]
        yield from (name for name in found if name not in OURS and "$" not in name)


def pypi_names(text):
    for line in text.splitlines():
        if name := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line.strip()):
            yield normalized(name[0])


def dependencies(files):
    """(where, kind:name) of everything that is built with or installed."""
    listed = subprocess.run([ROOT / "tools/setup", "--test", "--cudnn", "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        yield "tools/setup", f"deb:{name}"
    setup = (ROOT / "tools/setup").read_text()
    for name in re.findall(r"(?<![\w.-])([a-z][\w-]*)==\d", setup) + re.findall(r"([a-z][\w-]*)-\{version\}\.tar", setup):
        yield "tools/setup", f"pypi:{normalized(name)}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
    wanted += [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    for name in pypi_names("\n".join(wanted)):
        yield "pyproject.toml", f"pypi:{name}"
    for path in files:
        name = path.rpartition("/")[2]
        if re.fullmatch(r"requirements[\w-]*\.txt", name):
            for package in pypi_names((ROOT / path).read_text()):
                yield path, f"pypi:{package}"
        elif name == "CMakeLists.txt" or name.endswith((".cmake", ".cmake.in")):
            for package in cmake_names((ROOT / path).read_text()):
                yield path, f"cmake:{package}"


def problems(files=None, rows=None):
    files = git_files() if files is None else files
    rows = notice.read_rows() if rows is None else rows
    known = notice.known_names(rows)
    found = set()
    for where, name in dependencies(files):
        if name not in known:
            found.add(f"{where}: {name} has no row in NOTICE: add one with its version and licence")
    copies = [name.removeprefix("file:") for name in known if name.startswith("file:")]
    for path in files:
        if re.search(r"(^|/)(vendor|vendored|third_party|3rdparty)/", path) and \
                not any(path == copy or path.startswith(copy + "/") for copy in copies):
            found.add(f"{path}: is vendored and has no row in NOTICE (file:...)")
    found |= {f"NOTICE: there is no {copy}" for copy in copies if not (ROOT / copy).exists()}
    return sorted(found) + list(notice.bad_licences(rows))
