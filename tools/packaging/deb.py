# SPDX-License-Identifier: Apache-2.0
"""Debian packages of a staged tree, by packages.toml."""
import email.utils
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path

from . import notice, stage

MAINTAINER = "Sinter contributors <sinter@localhost>"


def matches(path, pattern):
    expression = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(expression, path) is not None


def divide(tree, table):
    """Files of the tree by package."""
    files = {package["name"]: [] for package in table["deb"]}
    for path in sorted(tree.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = str(path.relative_to(tree))
        owner = next((package["name"] for package in table["deb"] if any(matches(name, each) for each in package["files"])), None)
        if owner is None:
            raise SystemExit(f"{name} belongs to no package: tools/packaging/packages.toml has no pattern for it")
        files[owner].append(path)
    return files


def copyright_text():
    rows = [row for row in notice.read_rows() if row.ships]
    text = ["Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/", "Upstream-Name: Sinter", "",
            "Files: *", "Copyright: 2026 Sinter contributors", "License: Apache-2.0", " On Debian systems, the full text is in",
            " /usr/share/common-licenses/Apache-2.0.", "",
            "Comment: what is compiled in or linked, with its licence (/usr/share/doc/libsinter/NOTICE has the whole table):"]
    text += [f" {row.name} {row.version}: {row.licence}" for row in rows]
    return "\n".join(text) + "\n"


def packages_of(names):
    """Those of Debian that have the libraries."""
    cache = stage.loader_cache()
    for name in names:
        if name in cache:
            # Where /lib is a link to /usr/lib, packages have either name.
            real = os.path.realpath(cache[name])
            found = subprocess.run(["dpkg", "-S", real, real.removeprefix("/usr")], capture_output=True, text=True).stdout
            yield from {line.split(":")[0] for line in found.splitlines()}


def changelog(version):
    """This version's part of CHANGELOG.md, in Debian's form."""
    text = (notice.ROOT / "CHANGELOG.md").read_text()
    part = re.search(rf"^## \[{re.escape(version)}\].*?$(.*?)(?=^## |\Z)", text, re.M | re.S)
    items = re.findall(r"^- (.*(?:\n  .*)*)", part[1] if part else "", re.M) or ["See CHANGELOG.md."]
    lines = "\n".join(textwrap.fill(" ".join(item.split()), 78, initial_indent="  * ", subsequent_indent="    ") for item in items)
    told = subprocess.run(["git", "-C", notice.ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True).stdout.strip()
    date = email.utils.formatdate(int(told or 0))
    return f"sinter ({version}) unstable; urgency=medium\n\n{lines}\n\n -- {MAINTAINER}  {date}\n"


def shared_dependencies(paths, tree, work):
    """As dpkg-shlibdeps has them; libraries of our own and in lib/sinter are none."""
    if not paths:
        return ""
    beside = [path.name for path in (tree / "lib/sinter").iterdir()]
    debian = work / "debian"
    debian.mkdir(exist_ok=True)
    (debian / "control").write_text("Source: sinter\n\nPackage: sinter\nArchitecture: any\n")
    found = stage.run("dpkg-shlibdeps", "-O", "--ignore-missing-info", f"-l{tree / 'lib'}", f"-l{tree / 'lib/sinter'}", *[f"-x{each}" for each in packages_of(beside)],
                      *[f"-e{path}" for path in paths], cwd=work)
    line = re.search(r"^shlibs:Depends=(.*)$", found, re.M)
    return line[1] if line else ""


def build_package(package, files, tree, version, into, work, packed):
    root = work / package["name"]
    name = package["name"]
    size = 0
    for path in files:
        relative = path.relative_to(tree)
        # Documents lie where Debian looks for them.
        target = root / "usr" / re.sub(r"^share/doc/sinter/", f"share/doc/{name}/", str(relative))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
        else:
            shutil.copyfile(path, target)
            target.chmod(0o755 if relative.parts[0] == "bin" else 0o644)
            size += path.stat().st_size
    documents = root / "usr/share/doc" / name
    documents.mkdir(parents=True, exist_ok=True)
    (documents / "LICENSE").unlink(missing_ok=True)  # common-licenses has it
    (documents / "copyright").write_text(copyright_text())
    (documents / "changelog.gz").write_bytes(gzip.compress(changelog(version).encode(), 9, mtime=0))
    for path in documents.iterdir():
        path.chmod(0o644)
    depends = [f"{each} (= {version})" for each in package.get("needs", [])]
    found = shared_dependencies([path for path in files if not path.is_symlink() and path.suffix != ".a" and stage.is_elf(path)], tree, work)
    depends += [found] if found else []
    # What is opened by name no one finds but by that.
    late = {each for path in files if not path.is_symlink() and path.suffix != ".a" and stage.is_elf(path)
            for each in stage.TABLE["opened"] if each in stage.TABLE["system"] and stage.opens(path, each)}
    depends += [each for each in sorted(set(packages_of(late))) if not re.search(rf"\b{re.escape(each)}\b", found)]
    control = {"Package": name, "Version": version, "Architecture": stage.run("dpkg", "--print-architecture").strip(),
               "Maintainer": MAINTAINER, "Installed-Size": str((size + 1023) // 1024), "Depends": ", ".join(depends),
               "Suggests": ", ".join(package.get("suggests", [])), "Section": package["section"], "Priority": "optional",
               "Description": package["summary"] + "\n" + textwrap.fill(package["text"], 78, initial_indent=" ", subsequent_indent=" ")}
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in control.items() if value))
    if any(re.match(r"lib/lib[^/]*\.so\.", str(path.relative_to(tree))) for path in files):
        (root / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
        libraries = {re.match(r"(lib[\w]+)\.so\.([\d]+\.[\d]+)$", path.name) for path in files if path.is_symlink()} - {None}
        (root / "DEBIAN/shlibs").write_text("".join(f"{each[1]} {each[2]} {name} (= {version})\n" for each in libraries))
    sums = []
    for path in sorted((root / "usr").rglob("*")):
        if path.is_file() and not path.is_symlink():
            sums.append(f"{stage.run('md5sum', path).split()[0]}  {path.relative_to(root)}\n")
    (root / "DEBIAN/md5sums").write_text("".join(sums))
    stage.run("chmod", "-R", "go-w,a+rX", root)
    stage.run("dpkg-deb", "--root-owner-group", "-Zxz" if packed else "-Znone", "--build", root, into)


def build(tree, into, packed=True):
    """Makes the packages of `tree`, which has its libraries beside it, in the folder `into`."""
    if shutil.which("dpkg-shlibdeps") is None:
        raise SystemExit("Debian packages need dpkg-shlibdeps: apt-get install dpkg-dev")
    version = stage.version()
    files = divide(tree, stage.TABLE)
    with tempfile.TemporaryDirectory() as folder:
        for package in stage.TABLE["deb"]:
            if files[package["name"]]:
                stage.say(f"  {package['name']}")
                build_package(package, files[package["name"]], tree, version, into, Path(folder), packed)
    return sorted(into.glob("*.deb"))


def lint(packages):
    """What lintian says, if it is installed; lines of errors."""
    if shutil.which("lintian") is None:
        stage.say("  lintian is not installed: packages are not looked at by it")
        return []
    # The project has no mail host yet; what is Debian's own in lib/sinter is as Debian built it.
    done = subprocess.run(["lintian", "--fail-on", "none", "--allow-root", "--suppress-tags", "bogus-mail-host,library-not-linked-against-libc",
                           *map(str, packages)], capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith("E:")]
