#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the pages of the folders and the references of C++, C and Python into one folder of HTML.

usage: build.py OUT        run by tools/docs, with the Python that has tools/site/requirements.txt

Warnings of Doxygen and Sphinx are errors. Every Markdown page that git knows is there; sources that a page links to are
pages, too. A new page needs no entry anywhere: it stands in the navigation below its folder.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent.parent
# Pages in front of the others, by what a reader is after. All others follow by folder.
SECTIONS = {
    "Use": ["tools/cli/README.md", "tools/python/README.md", "runtime/README.md", "runtime/c/README.md",
            "tools/compiler/README.md", "tools/serve/README.md", "tools/python/examples/README.md", "frontend/OPERATORS.md"],
    "Understand": ["ARCHITECTURE.md", "GLOSSARY.md", "runtime/plan/FORMAT.md", "tests/perf/RESULTS.md", "models/RESULTS.md"],
    "Contribute": ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md"],
}
SOURCES = {".cpp": "cpp", ".h": "cpp", ".cuh": "cuda", ".py": "python", ".fbs": "text", ".toml": "toml", "": "bash"}
FENCE = re.compile(r"(?ms)^( *)(```+).*?^\1\2 *$")
LINK = re.compile(r"(\]\(|(?:src|href)=\")([^)\s\"#]*)(#[^)\s\"]*)?(?=[)\"])")


def git_pages():
    run = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
                         capture_output=True, text=True)
    return sorted(name for name in run.stdout.split() if (ROOT / name).exists())


def version():
    return re.search(r"project\(sinter VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class Stage:
    """A copy of the pages for Sphinx. The README is the front page, `index`."""

    def __init__(self, folder):
        self.folder = folder
        self.pages = git_pages()
        self.files = set()  # sources that become pages

    def link(self, page, target, anchor):
        """What a relative link of `page` becomes: to a page, to a page of a source, or to a file that is copied."""
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        real = ROOT / path
        if real.is_dir():
            if f"{path}/README.md" in self.pages:
                path = f"{path}/README.md"
            else:
                names = sorted(each.name for each in real.iterdir() if not each.name.startswith("."))
                self.write(f"files/{path}/index.md", f"---\norphan: true\n---\n# {path}\n\n"
                           + "".join(f"- `{name}`\n" for name in names))
                path = f"files/{path}/index.md"
        elif real.suffix in SOURCES and real.exists():
            self.files.add(path)
            path = f"files/{path}.md"
        elif real.suffix != ".md" and real.exists():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(real, self.folder / path)
        if path == "README.md":
            path = "index.md"
        here = "index.md" if page == "README.md" else page
        return os.path.relpath(path, os.path.dirname(here) or ".") + anchor

    def rewrite(self, page, text):
        def replace(match):
            head, target, anchor = match[1], match[2], match[3] or ""
            if re.match(r"[a-z]+:", target) or not (target or anchor):
                return match[0]
            return head + self.link(page, target, anchor)

        result, at = [], 0
        for fence in FENCE.finditer(text):
            result += [LINK.sub(replace, text[at:fence.start()]), fence[0]]
            at = fence.end()
        return "".join([*result, LINK.sub(replace, text[at:])])

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def navigation(self):
        def tree(caption, entries):
            return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(entries) + "\n```\n"
        sections = {caption: [name for name in names if name in self.pages] for caption, names in SECTIONS.items()}
        taken = {"README.md", *sum(sections.values(), [])}
        folders = {}
        for name in self.pages:
            if name not in taken:
                folders.setdefault(name.split("/")[0] if "/" in name else "pages", []).append(name)
        result = tree("Use", sections.pop("Use"))
        result += tree("Reference", ["C++ <cpp/index>", "C <c/index>", "python"])
        for caption, names in sections.items():
            result += tree(caption, names)
        result += tree("Folders", [f"folders/{folder}" for folder in folders])
        for folder, names in folders.items():
            entries = "\n".join(f"/{name}" for name in names)
            self.write(f"folders/{folder}.md", f"# {folder}\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n")
        return result

    def language_of(self, path):
        """Of what has no ending, by its shebang."""
        if Path(path).suffix or (ROOT / path).read_bytes().startswith(b"#!"):
            return SOURCES[Path(path).suffix]
        return "text"

    def build(self):
        for name in self.pages:
            text = self.rewrite(name, (ROOT / name).read_text())
            if name == "README.md":
                self.write("index.md", text + self.navigation())
            else:
                self.write(name, text)
        for path in self.files:
            depth = "../" * (path.count("/") + 1)
            self.write(path, (ROOT / path).read_text())
            self.write(f"files/{path}.md", f"---\norphan: true\n---\n# {path}\n\n```{{literalinclude}} {depth}{path}\n"
                       f":language: {self.language_of(path)}\n:linenos:\n```\n")
        # Doxygen's folders are there under Sphinx's names; their pages replace these.
        for kind in ("cpp", "c"):
            self.write(f"{kind}/index.md", f"# {'C++' if kind == 'cpp' else 'C'}\n")
        shutil.copyfile(SITE / "python.rst", self.folder / "python.rst")
        shutil.copyfile(SITE / "conf.py", self.folder / "conf.py")


def stage_python(folder):
    """A copy of the package in which comments behind fields are what Sphinx takes for their documentation."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (ROOT / "tools/python/pysinter").glob("*.py"):
        (folder / "pysinter").mkdir(parents=True, exist_ok=True)
        text = re.sub(r"(?m)^(    \w+: .*?  #) ", r"\1: ", path.read_text())
        (folder / "pysinter" / path.name).write_text(text)


def headers():
    """The public headers: those that are C alone, or C too, and those of C++."""
    c = [ROOT / "runtime/include/sinter" / name for name in
         ("sinter_c.h", "sinter_c_engine.h", "sinter_operator.h", "arrow_abi.h", "export.h")]
    cpp = [path for folder in ("runtime", "tools/compiler") for path in sorted((ROOT / folder / "include/sinter").glob("*.h"))
           if not path.name.startswith(("sinter_c", "sinter_operator"))]
    return {"cpp": cpp, "c": c}


def doxygen(kind, inputs, out):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    includes = " ".join(str(ROOT / folder / "include") for folder in ("runtime", "tools/compiler"))
    environment = {"SINTER_BRIEF": "C++" if kind == "cpp" else "C", "SINTER_VERSION": version(), "SINTER_OUT": str(out),
                   "SINTER_INPUT": " ".join(map(str, [SITE / f"{kind}.dox", *inputs])), "SINTER_INCLUDES": includes,
                   "SINTER_IS_C": "YES" if kind == "c" else "NO", "SINTER_SITE": str(SITE)}
    return subprocess.Popen(["doxygen", str(SITE / "Doxyfile")], env={**os.environ, **environment}, cwd=SITE)


def main():
    out = Path(sys.argv[1]).resolve()
    if shutil.which("doxygen") is None:
        sys.exit("tools/docs: there is no doxygen: tools/setup --docs installs it")
    stage = Stage(out / "stage")
    shutil.rmtree(stage.folder, ignore_errors=True)
    stage.build()
    stage_python(out / "python")
    html = out / "html"
    parts = [(kind, doxygen(kind, inputs, out / kind)) for kind, inputs in headers().items()]
    sphinx = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html",
                             "-D", f"release={version()}", "-d", out / "doctrees", stage.folder, html],
                            env={**os.environ, "SINTER_PYTHON": str(out / "python"), "SINTER_SITE": str(SITE)})
    failed = [kind for kind, process in parts if process.wait() != 0]
    if sphinx.returncode != 0:
        failed.append("pages and Python")
    if failed:
        sys.exit(f"tools/docs: warnings above are errors: {', '.join(failed)}")
    for kind, _ in parts:
        shutil.rmtree(html / kind, ignore_errors=True)
        shutil.move(out / kind, html / kind)
    print(f"{len(stage.pages)} pages, references of C++, C and Python: {html}/index.html")


if __name__ == "__main__":
    main()
