#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/lint says of licences: files without an SPDX line, dependencies without a row in NOTICE, licences that may not be linked."""
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT))
from tools.packaging import dependencies, notice, spdx  # noqa: E402


class Spdx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "REUSE.toml").write_text('[[annotations]]\npath = ["**.json", "goldens/**"]\n')
        patch = mock.patch.object(spdx, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return path

    def test_lines_are_added_once_and_behind_a_shebang(self):
        files = [self.put("a.cpp", "#pragma once\n"), self.put("run", "#!/usr/bin/env bash\n# Help\n"), self.put("t.toml", ""),
                 self.put("x/CMakeLists.txt", "project(x)\n")]
        self.assertEqual(len(spdx.check(files=files)), 4)
        self.assertEqual(spdx.check(fix=True, files=files), [])
        texts = [(self.root / path).read_text() for path in files]
        self.assertEqual(texts, [f"// {spdx.LICENCE}\n#pragma once\n", f"#!/usr/bin/env bash\n# {spdx.LICENCE}\n# Help\n",
                                 f"# {spdx.LICENCE}\n", f"# {spdx.LICENCE}\nproject(x)\n"])
        self.assertEqual(spdx.check(fix=True, files=files), [])
        self.assertEqual([(self.root / path).read_text() for path in files], texts)

    def test_files_without_comments_are_covered_or_refused(self):
        self.assertEqual(spdx.check(files=[self.put("a.json", "{}"), self.put("goldens/b.cu", "x")]), [])
        (wrong,) = spdx.check(fix=True, files=[self.put("b.bin", "x")])
        self.assertIn("REUSE.toml", wrong)


class Notice(unittest.TestCase):
    def test_every_dependency_has_a_row(self):
        rows, files = notice.read_rows(), dependencies.git_files()
        self.assertEqual(dependencies.problems(files, rows), [])
        for kind in ("deb:libfmt-dev", "cmake:fmt", "pypi:nanobind", "pypi:xgrammar", "pypi:pytest", "file:tools/generate/vendor/minja"):
            for row in rows:
                row.names.discard(kind)
            self.assertTrue(any(kind.split(":")[1] in line for line in dependencies.problems(files, rows)), kind)

    def test_what_may_not_be_linked(self):
        def wrong(licence, how, where="R"):
            return list(notice.bad_licences([notice.Row("x", "1", licence, {where}, how, set())]))
        self.assertTrue(wrong("GPL-3.0-or-later", "dynamic"))
        self.assertTrue(wrong("AGPL-3.0-only", "header"))
        self.assertTrue(wrong("LGPL-2.1-or-later", "static"))
        self.assertFalse(wrong("LGPL-2.1-or-later", "dynamic"))
        self.assertFalse(wrong("GPL-3.0-or-later WITH GCC-exception-3.1", "dynamic"))
        self.assertFalse(wrong("GPL-3.0-or-later", "program", "B"))

    def test_names_in_cmake(self):
        found = list(dependencies.cmake_names("find_package(a 3 QUIET)\nfind_library(X_LIB NAMES b bb REQUIRED)\n# find_package(no)\n"
                                              "find_path(Y y/y.h HINTS /x)\npkg_check_modules(Z REQUIRED z>=1)\n"))
        self.assertEqual(found, ["a", "b", "bb", "y/y.h", "z"])


if __name__ == "__main__":
    unittest.main()
