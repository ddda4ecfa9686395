# SPDX-License-Identifier: Apache-2.0
"""What a build installs, as a tree with the libraries that it needs beside it."""
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from . import notice

ROOT = notice.ROOT
TABLE = tomllib.loads((Path(__file__).parent / "packages.toml").read_text())


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def say(text):
    print(text, file=sys.stderr, flush=True)


def version():
    return re.search(r"project\(sinter VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def install(build, into, components=("runtime", "compiler", "tools", "grpc", "dev")):
    """Installs components of a build, without symbols that no program needs."""
    for component in components:
        run("cmake", "--install", build, "--prefix", into, "--component", component)
    for path in binaries(into):
        run("strip", "--strip-unneeded", "--remove-section=.comment", path)
    if "tools" in components:
        add_completion(into)


def add_completion(tree):
    """Writes what the shells of Debian complete `sinter` by, where they look for it."""
    for shell, name in (("bash", "bash-completion/completions/sinter"), ("zsh", "zsh/vendor-completions/_sinter"),
                        ("fish", "fish/vendor_completions.d/sinter.fish")):
        file = tree / "share" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(run(tree / "bin/sinter", "completion", shell))


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(folder):
    """Programs and shared libraries there."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.suffix != ".a" and is_elf(path))


def headers(path):
    return run("readelf", "-d", "-W", path)


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", headers(path))


def loader_cache():
    """Files of the system's libraries by soname."""
    found = {}
    for name, path in re.findall(r"^\s+(\S+) \(libc6,x86-64[^)]*\) => (\S+)", run("/sbin/ldconfig", "-p"), re.M):
        found.setdefault(name, path)
    return found


def opens(path, soname):
    """Does the file have the name of the library as a text?"""
    return soname.encode() in path.read_bytes()


def bundle(tree, system):
    """Puts each library that files of `tree` need, or open by name, and that is not of `system`, into lib/sinter. Returns
    what `system` has that is needed."""
    private, cache, from_system = tree / "lib/sinter", loader_cache(), set()
    own = {path.name for path in binaries(tree)} | {path.name for path in tree.rglob("*.so*")}
    todo = binaries(tree)
    while todo:
        path = todo.pop()
        wanted = needed(path) + [name for name in TABLE["opened"] if opens(path, name)]
        for name in wanted:
            if name in own:
                continue
            if name in system:
                from_system.add(name)
                continue
            if name not in cache:
                raise SystemExit(f"{path.relative_to(tree)} needs {name}, which ldconfig does not know")
            private.mkdir(parents=True, exist_ok=True)
            target = private / name
            shutil.copyfile(Path(cache[name]).resolve(), target)
            target.chmod(0o644)
            own.add(name)
            todo.append(target)
    return from_system


def brought(name, system, known={}):
    """Is it loaded because a library of the system's own needs it?"""
    key = tuple(system)
    if key not in known:
        cache, found, todo = loader_cache(), set(), [each for each in system]
        while todo:
            each = todo.pop()
            if each in cache:
                more = set(needed(Path(cache[each]))) - found
                found |= more
                todo += more
        known[key] = found
    return name in known[key]


def check_closure(tree, system):
    """By ldd, without what this machine's user has set: every library is in `tree` or of `system`, has a row in NOTICE, and
    may be linked. Returns a list of what is wrong."""
    rows = {name.removeprefix("so:"): row for name, row in notice.known_names(notice.read_rows()).items() if name.startswith("so:")}
    wrong = set()
    for path in binaries(tree):
        if path.parent == tree / "lib/sinter" and not path.name.startswith("libsinter"):
            continue  # is looked at as part of what loads it
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
        for name, where in re.findall(r"^\s+(\S+)(?: => (.+?))?(?: \(0x[0-9a-f]+\))?$", listed.stdout, re.M):
            name = Path(name).name
            if name.startswith(("linux-vdso", "libsinter", "statically")):
                continue
            if "not found" in where:
                wrong.add(f"{path.relative_to(tree)}: {name} is not found")
                continue
            key = next((key for key in rows if re.match(re.escape(key) + r"([-_.][\w.-]*)?\.so|" + re.escape(key) + r"\.so", name) or
                        name.split(".so")[0] == key or name.startswith(key + "_")), None)
            if key is None:
                wrong.add(f"{name}, which {path.relative_to(tree)} loads, has no row in NOTICE (so:...)")
            elif notice.is_copyleft(rows[key].licence):
                wrong.add(f"{name}, which {path.relative_to(tree)} loads, is under {rows[key].licence}")
            inside = where and Path(where).resolve().is_relative_to(tree.resolve())
            if not inside and name not in system and not brought(name, system):
                wrong.add(f"{path.relative_to(tree)}: {name} is neither beside it nor of the system's libraries that packages may use")
    return sorted(wrong)
