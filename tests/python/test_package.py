# SPDX-License-Identifier: Apache-2.0
"""What the wheel holds."""
import ast
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pysinter

FOLDER = Path(pysinter.__file__).parent


def test_typed():
    assert (FOLDER / "py.typed").exists()
    names = {node.name for node in ast.parse((FOLDER / "_core.pyi").read_text()).body if hasattr(node, "name")}
    assert {"Plan", "Session", "CompileOptions", "compile", "run_cli"} <= names
    assert set(pysinter.__all__) <= set(dir(pysinter))


def test_types_are_of_use(tmp_path):
    """mypy finds what is wrong in a program, and nothing else."""
    pytest.importorskip("mypy")
    program = Path(__file__).with_name("typed_program.py")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--allow-any-generics", "--no-error-summary",
                           "--cache-dir", tmp_path, program], capture_output=True, text=True)
    found = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in done.stdout.splitlines()
             if ": error:" in line}
    lines = enumerate(program.read_text().splitlines(), 1)
    expected = {number: line.rpartition("# error: ")[2] for number, line in lines if "# error: " in line}
    assert found == expected, done.stdout + done.stderr


def undocumented(what, text, names):
    missing = [name for name in names if not re.search(rf"\b{name}\b", text or "")]
    return [f"{what}: {', '.join(missing)}"] if missing or not (text or "").strip() else []


def parameters_of(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls", "_")]


def without_words(name, thing):
    """What of a public name its docstrings do not speak of."""
    if not inspect.isclass(thing):
        return undocumented(name, thing.__doc__, parameters_of(thing))
    text = vars(thing).get("__doc__")
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
    elif issubclass(thing, BaseException) or "__init__" not in vars(thing):
        names = []
    else:
        text = (text or "") + (thing.__init__.__doc__ or "")
        names = [each for each in parameters_of(thing.__init__)] if "Use " not in text else []
    problems = undocumented(name, text, names)
    for base in thing.__mro__:
        if not base.__module__.startswith("pysinter"):
            continue
        for key, member in vars(base).items():
            if key.startswith("_") and key != "__call__" or dataclasses.is_dataclass(base) and not callable(member):
                continue
            if isinstance(member, property):
                problems += undocumented(f"{name}.{key}", member.__doc__, [])
            elif inspect.isfunction(member):
                problems += undocumented(f"{name}.{key}", member.__doc__, parameters_of(member))
            elif callable(member) and key != "__call__":  # the extension's: its text begins with the signature
                problems += undocumented(f"{name}.{key}", member.__doc__.partition("\n")[2], [])
    return problems


def test_all_that_is_public_has_words():
    """The reference is made of docstrings: each says what its parameters and members are."""
    public = {name: getattr(pysinter, name) for name in pysinter.__all__ if name != "__version__"}
    assert [problem for name, thing in public.items() for problem in without_words(name, thing)] == []
    assert without_words("f", lambda shape: shape) == ["f: shape"]


def test_metadata():
    facts = importlib.metadata.metadata("pysinter")
    assert facts["Version"] == pysinter.__version__ and facts["Requires-Python"] == ">=3.11"
    needed = importlib.metadata.requires("pysinter")
    assert [each for each in needed if "extra" not in each] == ["numpy>=1.26"]
    assert facts["License-Expression"] == "Apache-2.0" and facts["Author"] == "Sinter contributors"
    texts = {name: importlib.metadata.distribution("pysinter").read_text(f"licenses/{name}") for name in facts.get_all("License-File")}
    assert "Apache License" in texts["LICENSE"] and "nanobind" in texts["NOTICE"]
    assert set(facts.get_all("Provides-Extra")) == {"cuda", "torch", "arrow", "embed", "serve", "ray", "export"}


def test_command_has_a_name_of_its_own():
    """PyPI's `sinter` has a command `sinter`: whichever is installed last has that name."""
    names = {each.name: each.value for each in importlib.metadata.distribution("pysinter").entry_points}
    assert names == {"sinter": "pysinter._cli:run", "pysinter": "pysinter._cli:run"}


def test_nothing_else_is_imported():
    code = "import sys, pysinter; sys.exit(any(m in sys.modules for m in ('torch', 'onnx', 'ray', 'ml_dtypes', 'pyarrow', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_shared_object_shows_its_entry_alone():
    (core,) = FOLDER.glob("_core*.so")
    listed = subprocess.run(["nm", "-D", "--defined-only", core], capture_output=True, text=True)
    if listed.returncode == 0:
        assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__core"]


def load_show_build():
    spec = importlib.util.spec_from_file_location("show_build", Path(__file__).parents[2] / "tools/python/show_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_shows_how_far_it_is():
    module = load_show_build()
    lines = ["  [1/2] Re-running CMake...", "  -- Configuring done", *(f"  [{done}/20] Building x" for done in range(1, 21))]
    plain = io.StringIO()
    shown = module.Shown(plain, False)
    for line in lines:
        shown.line(line)
    assert [line.strip() for line in plain.getvalue().splitlines()] == ["1/2", *(f"{done}/20" for done in range(2, 21, 2))]

    seconds = iter(range(0, 1000, 10))
    bar = io.StringIO()
    shown = module.Shown(bar, True, now=lambda: next(seconds))
    for line in lines:
        shown.line(line)
    shown.close()
    drawn = [line.rstrip() for line in bar.getvalue().split("\r")]
    assert drawn[2] == "[#" + " " * 29 + "] 1/20" and "] 11/20, 1:30 left" in drawn[12] and drawn[-1].endswith("] 20/20")
