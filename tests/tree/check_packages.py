#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a build take only what tools/setup installs? A machine where something was installed by hand hides it.

  check_packages.py --build DIR        fails if the configured build uses a file that a minimal Debian system
                                       with the packages of tools/setup would not have

What the build uses: paths in CMakeCache.txt, headers that compiled files depend on (ninja -t deps), libraries in link
lines, and what these link. What there would be: packages that are essential, required or named in BASE, those of
`tools/setup --list` (for tests `--test --list`), and all that these depend on, recommendations left out: by
`apt-get -s` on an empty system where apt knows packages, else by the installed packages' own fields. Needs neither
root nor a network. Exit code 77: this is not Debian.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STATUS = Path("/var/lib/dpkg/status")
INFO = Path("/var/lib/dpkg/info")
BASE = ["ca-certificates", "git", "python3", "sudo"]  # what the README takes for granted
# What may lie outside packages: optional, found where it is, and never needed; the Python that tools/wheel was given.
OPTIONAL = re.compile(r"CUDA|CUDNN|^_?PYTHON3?_", re.IGNORECASE)


def read_status():
    """Fields of each installed package, by name."""
    packages = {}
    for block in STATUS.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", block, re.M))
        if fields.get("Status", "").endswith(" installed"):
            packages[fields["Package"]] = fields
    return packages


def is_base(name, fields):
    return fields.get("Essential") == "yes" or fields.get("Priority") == "required" or name in BASE or name == "apt"


def closure_of_installed(names, packages):
    """What `names` depend on among the installed packages. Of alternatives the first that is installed."""
    providers = {}
    for name, fields in packages.items():
        for provided in re.split(r",\s*", fields.get("Provides", "")):
            providers.setdefault(provided.split(" ")[0].split(":")[0], []).append(name)
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found or name not in packages:
            continue
        found.add(name)
        fields = packages[name]
        for group in re.split(r",\s*", ", ".join(filter(None, [fields.get("Pre-Depends"), fields.get("Depends")]))):
            alternatives = [re.split(r"[ :(]", a.strip())[0] for a in group.split("|") if a.strip()]
            for alternative in alternatives:
                if alternative in packages:
                    todo.append(alternative)
                    break
                if alternative in providers:
                    todo += providers[alternative]
                    break
    return found


def closure_by_apt(names, packages):
    """What apt would install on a system that has the base alone, with that base; None if apt knows nothing."""
    base = closure_of_installed([n for n, f in packages.items() if is_base(n, f)], packages)
    with tempfile.TemporaryDirectory() as folder:
        status = Path(folder) / "status"
        blocks = [b for b in STATUS.read_text().split("\n\n")
                  if (m := re.match(r"Package: (\S+)", b)) and m.group(1) in base]
        status.write_text("\n\n".join(blocks) + "\n")
        run = subprocess.run(["apt-get", "-s", "-qq", "--no-install-recommends", "-o", f"Dir::State::status={status}",
                              "-o", "Debug::NoLocking=1", "install", *names], capture_output=True, text=True)
    if run.returncode != 0:
        return None
    return base | set(re.findall(r"^Inst (\S+)", run.stdout, re.M))


def owners():
    """The packages that a file belongs to, by path with links followed."""
    result = {}
    for listing in INFO.glob("*.list"):
        package = listing.stem.split(":")[0]
        for path in listing.read_text().split("\n"):
            if path and path != "/.":
                result.setdefault(path, set()).add(package)
                if path.startswith(("/lib", "/bin", "/sbin")):  # merged into /usr
                    result.setdefault("/usr" + path, set()).add(package)
    return result


class Uses:
    """Files outside the source tree that a build takes, with who takes them."""

    def __init__(self, build):
        self.build = build
        self.product, self.tests = {}, {}

    def add(self, path, why, is_test=False):
        path = os.path.normpath(path)
        if not os.path.exists(path) or path.startswith((str(ROOT) + "/", str(self.build) + "/")):
            return
        (self.tests if is_test else self.product).setdefault(path, why)

    def read_cache(self):
        for line in (self.build / "CMakeCache.txt").read_text().split("\n"):
            entry = re.match(r"([^#/:][^:]*):(FILEPATH|PATH|STRING|INTERNAL)=(/.*)", line)
            if not entry or OPTIONAL.search(entry[1]):
                continue
            for path in entry[3].split(";"):
                self.add(path, f"{entry[1]} in CMakeCache.txt", is_test=entry[1].startswith(("GTest", "GMock", "TEST_")))

    def read_headers(self):
        deps = subprocess.run(["ninja", "-C", self.build, "-t", "deps"], capture_output=True, text=True, check=True)
        target = ""
        for line in deps.stdout.split("\n"):
            if line.startswith("    "):
                path = line.strip()
                if path.startswith("/"):
                    self.add(path, f"a header of {target}", target.startswith("tests/"))
            elif ":" in line:
                target = line.split(":")[0]

    def read_links(self):
        target = ""
        for line in (self.build / "build.ninja").read_text().split("\n"):
            if line.startswith("build "):
                target = line[6:].split(":")[0]
            elif line.strip().startswith("LINK_LIBRARIES ="):
                for path in re.findall(r"(?<!\S)/\S+", line):
                    self.add(path, f"linked by {target}", Path(target).name.startswith(("test_", "bench_", "fuzz_")))
        for program in (self.build / "bin").glob("*"):
            if not os.access(program, os.X_OK) or program.is_dir():
                continue
            ldd = subprocess.run(["ldd", program], capture_output=True, text=True)
            for path in re.findall(r"(/\S+) \(0x", ldd.stdout):
                self.add(path, f"loaded by {program.name}", program.name.startswith(("test_", "bench_", "fuzz_")))


def is_optional(path):
    return any(part in path for part in ("/cuda", "/.deps/", "/site-packages/"))


def check(used, allowed, files, label):
    """Prints what belongs to no allowed package; returns how many there are."""
    wrong = {}
    for path, why in sorted(used.items()):
        real = os.path.realpath(path)
        if is_optional(path) or is_optional(real):
            continue
        # A link counts by itself: one without a version is of the package for development. Others are alternatives.
        packages = files.get(path) or files.get(real, set())
        if os.path.isdir(real) and len(packages) != 1:
            continue  # shared by packages, as /usr/include is
        if not packages & allowed:
            wrong.setdefault(", ".join(sorted(packages)) or "no package", []).append(f"{path}: {why}")
    for package, lines in wrong.items():
        print(f"{label}: of {package}, which tools/setup does not install:")
        for line in lines[:5]:
            print(f"  {line}")
        if len(lines) > 5:
            print(f"  and {len(lines) - 5} more")
    return len(wrong)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True, type=Path)
    build = p.parse_args().build.resolve()
    if not STATUS.exists() or not INFO.exists():
        print("no database of Debian packages: nothing to compare with")
        sys.exit(77)
    packages, files = read_status(), owners()
    uses = Uses(build)
    uses.read_cache()
    uses.read_headers()
    uses.read_links()
    failures = 0
    for label, options, used in [("sinter", [], uses.product), ("tests", ["--test"], uses.tests)]:
        names = subprocess.run([ROOT / "tools/setup", *options, "--list"], capture_output=True, text=True,
                               check=True).stdout.split()
        allowed = closure_by_apt(names, packages)
        how = "apt"
        if allowed is None:
            how = "the installed packages"
            base = [n for n, f in packages.items() if is_base(n, f)]
            allowed = closure_of_installed(names + base, packages)
        print(f"{label}: {len(used)} files used; {len(allowed)} packages, by {how}")
        failures += check(used, allowed, files, label)
    if failures or not uses.product:
        print("add the package to tools/setup, or let the build do without it; what only an earlier configuration of this "
              f"folder took goes with {build}/CMakeCache.txt" if failures else "no file was found")
        sys.exit(1)


if __name__ == "__main__":
    main()
