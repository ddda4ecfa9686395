"""What the wheel holds."""
import ast
import importlib.metadata
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


def test_metadata():
    facts = importlib.metadata.metadata("pysinter")
    assert facts["Version"] == pysinter.__version__ and facts["Requires-Python"] == ">=3.11"
    needed = importlib.metadata.requires("pysinter")
    assert [each for each in needed if "extra" not in each] == ["numpy>=1.26"]
    assert facts["License-Expression"] == "Apache-2.0" and facts["Author"] == "Sinter contributors"
    texts = {name: importlib.metadata.distribution("pysinter").read_text(f"licenses/{name}") for name in facts.get_all("License-File")}
    assert "Apache License" in texts["LICENSE"] and "nanobind" in texts["NOTICE"]
    assert set(facts.get_all("Provides-Extra")) == {"cuda", "torch", "arrow", "embed", "serve", "ray"}


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
