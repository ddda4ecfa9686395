#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the code of all Markdown pages: what a page shows works, or says in its source why it is not run here.

  run.py                              after tools/build; Python of .venv (tools/setup)
  run.py --python PATH                also Python and the wheel's commands, by a Python that has the package (tools/wheel)
  run.py --all                        also blocks that take long or need the network (nightly)
  run.py tools/cli/README.md ...      of some pages alone

Shell blocks run in a folder of their page with small models under the names that the page uses (fixtures.py); C and C++ are
built against an installation and run; those of inner headers are compiled as the sources of their folder are. A comment in
front of a block, which readers do not see:
  <!-- docs-test: check, REASON -->     it is checked alone: syntax, options, paths. REASONS of pages.py
  <!-- docs-test: nightly, REASON -->   so, but run by --all, in the root of the checkout
  <!-- docs-test: before                what goes in front of it (a line or more)
  <!-- docs-test: output of: COMMAND -->  the block is a part of what the command prints
Of code in lines (`sinter compile --dim`) verbs and options are checked. Exit code 1: something is wrong.
"""
import argparse
import ast
import collections
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fixtures import Fixtures  # noqa: E402
from pages import ROOT, PageError, blocks_of, commands, pages, spans  # noqa: E402

HERE = Path(__file__).parent
OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")

# What verbs of the package's command take besides.
OF_PACKAGE = {"run": {"--columns", "--keep"}, "embed": {"--column", "--inputs", "--model"}}


class Wrong(Exception):
    """What is wrong with a block."""


def run(words, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, "text": True, "timeout": 600,
               **options}
    done = subprocess.run([str(word) for word in words], **options)
    if done.returncode != 0:
        raise Wrong(f"ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


class Options:
    """Which options there are, by verb."""

    def __init__(self, programs):
        self.programs = programs
        self.found, self.own = {}, []
        everything = subprocess.run(["git", "grep", "-ohIE", "-e", r"--[A-Za-z][A-Za-z0-9-]+", "--", ":!*.md"], cwd=ROOT, text=True,
                                    capture_output=True, check=True).stdout
        self.everywhere = set(everything.split())

    def texts(self):
        """Help of the programs themselves."""
        if not self.own:
            self.own = [subprocess.run([program, "--help"], capture_output=True, text=True).stdout for program in self.programs]
        return self.own

    def of(self, *verb):
        """Of `sinter VERB`; None if there is no such verb, or no program that has it."""
        if verb not in self.found:
            texts = [subprocess.run([program, *verb, "--help"], capture_output=True, text=True) for program in self.programs]
            texts = [done.stdout for done in texts if done.returncode == 0 and "--help" in done.stdout]
            if verb:  # of what is no verb, it is the command's own
                texts = [text for text in texts if text not in self.texts()]
            if verb in (("run",), ("embed",)) and len(self.programs) > 1:  # what the package's command does with rows of files
                texts.append(subprocess.run([self.programs[1], *verb, "--inputs", "x.parquet", "--help"], capture_output=True, text=True).stdout)
            self.found[verb] = set(OPTION.findall("".join(texts))) | {"--help-all", "--version"} if texts else None
        return self.found[verb]

    def check(self, words, page):
        """Of one command. Scripts are named from the root or from the page's folder."""
        name = words[0]
        if name.startswith(("tools/", "models/", "tests/", "build/")) and not name.startswith(("build/bin", "models/cache")):
            path = next((path for path in (ROOT / name, (ROOT / page).parent / name) if path.exists()), ROOT / name)
            if not path.exists():
                raise Wrong(f"there is no {name}")
            text = path.read_text() if path.is_file() else ""
            unknown = [option for word in words[1:] for option in OPTION.findall(word) if word.startswith("--") and option not in text]
            if unknown:
                raise Wrong(f"{name} does not know {', '.join(unknown)}")
        elif name == "sinter" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            known = self.of(words[1])
            if known is None:
                if len(self.programs) > 1 or words[1] not in ("triton", "embed"):
                    raise Wrong(f"'sinter {words[1]}' is no verb")
                return
            if len(self.programs) == 1:
                known = known | OF_PACKAGE.get(words[1], set())
            unknown = [word for word in words[2:] if (match := OPTION.match(word)) and match[0] not in known | self.of()]
            if unknown:
                raise Wrong(f"'sinter {words[1]}' does not know {', '.join(unknown)}")

    def check_lines(self, text, page):
        for command in commands(text):
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise Wrong(f"{command}: {error}") from None
            while words and re.match(r"\w+=|(\S+/)?python3?$", words[0]):
                words.pop(0)
            if words:
                self.check(words, page)

    def check_spans(self, page, text):
        """What is wrong in the code of lines."""
        for span in spans(text):
            words = span.split(" ")
            try:
                if words[0] == "sinter" or (words[0].startswith(("tools/", "models/")) and len(words) > 1):
                    self.check(words, page)
                elif words[0].startswith("--"):
                    option = OPTION.match(words[0])
                    if option and option[0] not in self.everywhere:
                        raise Wrong(f"nothing has an option {option[0]}")
            except Wrong as wrong:
                yield f"{page}: `{span}`: {wrong}"


class Compiler:
    """Builds blocks of C and C++."""

    def __init__(self, build, work):
        self.build, self.prefix = build, work / "prefix"
        self.commands = None
        self.lock = threading.Lock()

    def install(self):
        with self.lock:
            if self.prefix.exists():
                return
            for component in ("runtime", "compiler", "dev"):
                run(["cmake", "--install", self.build, "--prefix", self.prefix, "--component", component])
            self.libraries = next(self.prefix.glob("**/libsinter.so")).parent

    def program(self, block, folder):
        """Of the public headers: linked with what is installed."""
        self.install()
        source = folder / ("block.c" if block.language == "c" else "block.cpp")
        source.write_text(whole_program(block))
        out = folder / "block"
        if block.language == "c":
            words = ["cc", "-std=c99", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]
        else:
            words = ["c++", "-std=c++20", "-Wall", "-Wextra", "-Wno-unused", "-Wno-missing-field-initializers"]
        is_library = block.language == "c" and "int main" not in source.read_text()
        run([*words, *(["-shared", "-fPIC"] if is_library else []), source, "-o", out, f"-I{self.prefix}/include", f"-L{self.libraries}",
             "-lsinter", "-lsinter_compiler", f"-Wl,-rpath,{self.libraries}"])
        return None if is_library else out

    def entries(self):
        if self.commands is None:
            self.commands = json.loads((self.build / "compile_commands.json").read_text())
        return self.commands

    def lacks(self, folder):
        """True for folders that a build without CUDA leaves out."""
        name = folder.replace("/", "_")
        here = any(re.search(rf"/{name}(_\d+)?\.cpp|/{folder}/", entry["file"]) for entry in self.entries())
        return not here and not any("-DSINTER_WITH_CUDA" in entry["command"] for entry in self.entries())

    def flags_of(self, folder):
        """How the sources of a folder are compiled: include folders and macros."""
        for entry in self.entries():
            # Folders are compiled in batches, named after them.
            name = folder.replace("/", "_")
            if re.search(rf"/{name}(_\d+)?\.cpp|/{folder}/", entry["file"]):
                words = shlex.split(entry["command"])
                kept = [word for word in words if re.match(r"-(I|D|std)", word)]
                for at, word in enumerate(words):
                    if word == "-isystem":
                        kept += words[at:at + 2]
                return kept
        raise Wrong(f"no source of {folder} is compiled in {self.build}")

    def check(self, block, folder):
        """Of inner headers."""
        source = folder / "block.cpp"
        source.write_text(whole_program(block))
        run(["c++", "-fsyntax-only", "-Wno-unused", *self.flags_of(str(Path(block.page).parent)), f"-I{ROOT}", source])


def whole_program(block):
    """The block's lines in main(), unless it has one; includes in front. A line that holds `...` is left out."""
    text = "".join(block.before) + f'\n#line {block.line + 1} "{block.page}"\n' + block.text
    if block.language == "c" or "int main" in text:
        return text
    head, body = [], []
    for line in text.split("\n"):
        (head if line.startswith(("#include", "using namespace")) else body).append(line)
    return "\n".join([*head, "int main() {", *body, "}", ""])


class Runner:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.wheel = options.python.parent / "sinter" if options.python else None
        doctor = subprocess.run([options.sinter, "doctor"], capture_output=True, text=True).stdout
        self.has_nvrtc, self.has_gpu = "found    NVRTC" in doctor, "found    NVIDIA driver" in doctor
        self.fixtures = Fixtures(work / "fixtures", options.sinter, options.python)
        self.known = Options([options.sinter, *([self.wheel] if self.wheel else [])])
        self.compiler = Compiler(options.build, work)
        self.lock = threading.Lock()

    def environment(self, page, folder):
        """Nothing is fetched from anywhere."""
        is_package = page.startswith("tools/python") and self.wheel
        path = [HERE / "shims", *([self.options.python.parent] if self.options.python else []), Path(sys.executable).parent]
        return {**os.environ, "PATH": ":".join([*map(str, path), os.environ["PATH"]]),
                "DOCS_TEST_SINTER": str(self.wheel if is_package else self.options.sinter), "DOCS_TEST_STATE": str(folder / ".server"),
                "DOCS_TEST_NVRTC": "1" if self.has_nvrtc and self.options.all else "0", "DOCS_TEST_GPU": "1" if self.has_gpu else "0",
                "SINTER_CACHE_DIR": str(self.work / "cache"), "PYTHONDONTWRITEBYTECODE": "1", "PIP_NO_INDEX": "1"}

    def shell(self, block, folder, script=None):
        environment = self.environment(block.page, folder)
        if block.output_of:
            environment["DOCS_TEST_GPU"] = "1"  # as it is written: kernels are shown, and not run
        script = "set -euo pipefail\n" + (script or "".join(block.before) + block.text)
        try:
            return run(["bash", "-c", script], cwd=ROOT if block.is_nightly else folder, env=environment)
        finally:
            subprocess.run([HERE / "shims" / "sinter", "--stop-server"], env=environment)

    def python(self, block, folder):
        """With `await` outside of functions, as prompts of asyncio have it."""
        (folder / "block.py").write_text("".join(block.before) + block.text)
        code = ("import ast, asyncio, inspect\n"
                "code = compile(open('block.py').read(), 'block.py', 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
                "async def main():\n    made = eval(code, {'__name__': '__main__'})\n"
                "    if inspect.isawaitable(made): await made\nasyncio.run(main())\n")
        run([self.options.python, "-c", code], cwd=folder, env=self.environment(block.page, folder))

    def toml(self, block):
        data = tomllib.loads("".join(block.before) + block.text)
        if not isinstance(data.get("operator"), list):
            raise Wrong("defines no operator: say what it is a part of")
        for operator in data["operator"]:
            self.operator(block, operator)

    def operator(self, block, operator):
        """A definition of an operator: a model of one node of it is verified."""
        import onnx
        from onnx import helper
        folder = self.work / "operator"
        folder.mkdir(exist_ok=True)
        (folder / "operator.toml").write_text("".join(block.before) + block.text)
        names = [each["name"] for each in operator["output"]]
        attributes = {name: 1 for name, value in operator.get("attributes", {}).items() if value in ("int", "float")}
        node = helper.make_node(operator["name"], operator["inputs"], names, domain=operator["domain"], **attributes)
        infos = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 4]) for name in each] for each in (operator["inputs"], names)]
        model = helper.make_model(helper.make_graph([node], "page", *infos), ir_version=9,
                                  opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(operator["domain"], 1)])
        onnx.save(model, str(folder / "operator.onnx"))
        run([self.options.sinter, "verify", "operator.onnx", "--op", "operator.toml", "--target=cpu"], cwd=folder)

    def output(self, block, folder):
        """Lines of the block are lines of what the command prints, in order."""
        found = self.shell(block, folder, "".join(block.before) + block.output_of).split("\n")
        at = 0
        for line in block.text.rstrip("\n").split("\n"):
            if line.strip() == "...":
                continue
            while at < len(found) and " ".join(found[at].split()) != " ".join(line.split()):
                at += 1
            if at == len(found):
                raise Wrong(f"`{block.output_of}` does not print '{line}'")

    def check(self, block):
        """What can be said of a block without running it."""
        text = "".join(block.before) + block.text
        if block.language == "sh":
            run(["bash", "-n"], input=text, stdin=None)
            self.known.check_lines(block.text, block.page)
        elif block.language == "python":
            compile(text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "toml":
            tomllib.loads(block.text)
        if block.output_of:
            self.known.check_lines(block.output_of, block.page)

    def do(self, block, folder):
        """Runs a block, or says why it is only checked; returns what was done."""
        self.check(block)
        if block.language == "text" and not block.output_of:
            return "text"
        if block.reason and not (block.is_nightly and self.options.all):
            return f"checked: {block.reason}"
        if block.output_of:
            if "--source" in block.output_of and not self.has_nvrtc:
                return "checked: NVRTC is not here"
            self.output(block, folder)
        elif block.language == "sh":
            if self.wheel is None and re.search(r"^sinter (triton|embed .*--inputs|run \S+ --inputs \S+parquet)", block.text, re.M):
                return "checked: no --python"
            self.shell(block, folder)
        elif block.language == "python":
            if self.options.python is None:
                return "checked: no --python"
            self.python(block, folder)
        elif block.language == "toml":
            self.toml(block)
        elif block.language == "cuda":
            raise Wrong("a block of CUDA runs nowhere: say what it is a part of")
        else:
            public = re.findall(r"#include <sinter/", "".join(block.before) + block.text)
            if not public:
                if self.compiler.lacks(str(Path(block.page).parent)):
                    return "checked: the build has no CUDA"
                self.compiler.check(block, folder)
                return "compiled"
            program = self.compiler.program(block, folder)
            if program is None:
                return "compiled"
            run([program], cwd=folder, timeout=60)
        return "run"

    def page(self, page, text):
        """Does a page's blocks, in order; what was done with each, and what is wrong."""
        done, failures = [], list(self.known.check_spans(page, text))
        try:
            blocks = blocks_of(page, text)
        except PageError as error:
            return done, [*failures, str(error)]
        folder = self.work / page.replace("/", "_")
        if blocks:
            folder.mkdir(exist_ok=True)
            with self.lock:
                self.fixtures.bring(page, "".join("".join(block.before) + block.text for block in blocks), folder)
        for block in blocks:
            start = time.monotonic()
            try:
                what = self.do(block, folder)
            except (Wrong, SyntaxError, tomllib.TOMLDecodeError, subprocess.TimeoutExpired) as wrong:
                what = "wrong"
                failures.append(f"{block.place}: {wrong}")
            done.append((block.place, block.language, what, time.monotonic() - start))
        return done, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for all that is made, which stays")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.sinter = options.build / "bin" / "sinter"
    if options.python:
        options.python = options.python.parent.resolve() / options.python.name  # a link in an environment's folder stays
    work = options.keep.resolve() if options.keep else Path(tempfile.mkdtemp(prefix="sinter_docs_"))
    work.mkdir(exist_ok=True)
    counts, failures, began = collections.Counter(), [], time.monotonic()
    try:
        runner = Runner(options, work)
        texts = {page: text for page, text in pages().items() if not options.pages or page in options.pages}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done, wrong in pool.map(runner.page, texts, texts.values()):
                failures += wrong
                for place, language, what, seconds in done:
                    counts[what] += 1
                    print(f"{place:44} {language:7} {what} ({seconds:.1f} s)", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    for failure in failures:
        print(failure, file=sys.stderr)
    total = sum(counts.values())
    print(f"{total} blocks in {time.monotonic() - began:.0f} s: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
