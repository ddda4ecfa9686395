#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the test of pages takes of a page, and refuses. Needs no build."""
import unittest

from pages import PageError, blocks_of, commands, spans


class Pages(unittest.TestCase):
    def test_blocks_have_their_language_and_place(self):
        found = blocks_of("P.md", "a\n```sh\nls\n```\n\n```python\nx = 1\n```\n")
        self.assertEqual([(b.language, b.line, b.text) for b in found], [("sh", 2, "ls\n"), ("python", 6, "x = 1\n")])

    def test_marks_belong_to_the_block_behind_them(self):
        text = ("<!-- docs-test: before\nimport os\n-->\n<!-- docs-test: check, needs a GPU -->\n```python\nx\n```\n"
                "```sh\nls\n```\n<!-- docs-test: nightly, takes long -->\n```sh\nls\n```\n"
                "<!-- docs-test: output of: ls -->\n```text\na\n```\n")
        first, second, third, fourth = blocks_of("P.md", text)
        self.assertEqual((first.before, first.reason, first.is_nightly), (["import os\n"], "needs a GPU", False))
        self.assertEqual((second.before, second.reason), ([], ""))
        self.assertTrue(third.is_nightly)
        self.assertEqual(fourth.output_of, "ls")

    def test_what_is_not_said_is_refused(self):
        for text in ("```\nls\n```\n", "```bash\nls\n```\n", "```sh\nls\n", "<!-- docs-test: check, is hard -->\n```sh\n```\n",
                     "<!-- docs-test: skip -->\n```sh\n```\n", "<!-- docs-test: check, takes long -->\ntext\n```sh\n```\n", "a\n\n    ls\n"):
            with self.assertRaises(PageError, msg=text):
                blocks_of("P.md", text)

    def test_what_a_list_holds_is_no_code(self):
        self.assertEqual(blocks_of("P.md", "- a\n\n    b\n"), [])

    def test_commands_go_on_in_the_next_line_and_end_before_a_comment(self):
        self.assertEqual(list(commands("a --b \\\n    c   # what\nd && e | f\n\n# all\n")), ["a --b c", "d", "e", "f"])

    def test_code_in_lines_is_none_of_blocks(self):
        self.assertEqual(spans("`a\nb` and ``c``\n```sh\n`d`\n```\n`--e`"), ["a b", "--e"])


if __name__ == "__main__":
    unittest.main()
