#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How tools/release divides files into packages, what its bill of materials says, how Dockerfiles are read."""
import importlib.machinery
import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT))
from tools.packaging import deb, notice, sbom, stage  # noqa: E402


def load_script(path):
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    loader.exec_module(module)
    return module


class Packages(unittest.TestCase):
    def divided(self, names):
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            return {package: [str(path.relative_to(folder)) for path in files]
                    for package, files in deb.divide(Path(folder), stage.TABLE).items() if files}

    def test_each_file_is_in_one_package(self):
        self.assertEqual(self.divided(["bin/sinter", "lib/libsinter.so.0.2.0", "lib/libsinter.so", "lib/libsinter.a",
                                       "lib/libsinter_compiler.so.0.2", "lib/sinter/libdnnl.so.3", "lib/sinter/libsinter_grpc.so",
                                       "lib/sinter/libzip.so.4", "include/sinter/sinter.h", "lib/cmake/Sinter/SinterConfig.cmake",
                                       "share/doc/sinter/NOTICE"]),
                         {"sinter": ["bin/sinter"], "libsinter-compiler": ["lib/libsinter_compiler.so.0.2"],
                          "libsinter": ["lib/libsinter.so.0.2.0", "lib/sinter/libdnnl.so.3", "share/doc/sinter/NOTICE"],
                          "libsinter-zip": ["lib/sinter/libzip.so.4"], "sinter-grpc": ["lib/sinter/libsinter_grpc.so"],
                          "libsinter-dev": ["include/sinter/sinter.h", "lib/cmake/Sinter/SinterConfig.cmake", "lib/libsinter.a",
                                            "lib/libsinter.so"]})

    def test_a_file_of_no_package_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "bin/other belongs to no package"):
            self.divided(["bin/other"])

    def test_packages_need_packages_that_are_there(self):
        names = {package["name"] for package in stage.TABLE["deb"]}
        for package in stage.TABLE["deb"]:
            self.assertLessEqual(set(package.get("needs", [])), names)


class Bill(unittest.TestCase):
    def test_it_has_what_ships(self):
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder, "a.deb")
            made.write_bytes(b"x")
            bill = json.loads(sbom.write(Path(folder), [made]).read_text())
        names = {each["name"]: each for each in bill["components"]}
        self.assertEqual(set(names), {"a.deb"} | {row.name for row in notice.read_rows() if row.ships})
        self.assertEqual(names["a.deb"]["hashes"][0]["content"], "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")
        self.assertEqual(names["{fmt}"]["licenses"], [{"license": {"id": "MIT"}}])
        self.assertIn("WITH", names["libgomp"]["licenses"][0]["expression"])
        self.assertEqual(len({each["bom-ref"] for each in bill["components"]}), len(bill["components"]))


class Dockerfiles(unittest.TestCase):
    def test_lines_are_joined_and_arguments_filled_in(self):
        steps_of = load_script(ROOT / "tools/packaging/try_release").steps_of
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "Dockerfile")
            path.write_text("# what\nARG A=1\nARG B=\nFROM x:$A\nRUN one ${A} \\\n && two $B$C\n")
            self.assertEqual(steps_of(path, {"B": "b"}), [("FROM", "x:1"), ("RUN", "one 1   && two b$C")])
            self.assertEqual(steps_of(path, {"A": "2"})[0], ("FROM", "x:2"))

    def test_ours_ends_as_a_user(self):
        steps = load_script(ROOT / "tools/packaging/try_release").steps_of(ROOT / "tools/packaging/Dockerfile", {})
        words = [word for word, _ in steps]
        self.assertLess(words.index("USER"), words.index("ENTRYPOINT"))
        self.assertIn("HEALTHCHECK", words)
        version = stage.version()
        self.assertTrue(any(f"sinter-{version}-linux" in rest for _, rest in steps), "the Dockerfile names another version")


if __name__ == "__main__":
    unittest.main()
