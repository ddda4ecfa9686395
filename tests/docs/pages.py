# SPDX-License-Identifier: Apache-2.0
"""Fenced blocks of Markdown pages, and what comments in front of them say to the test of pages."""
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Why a block is checked and not run. A page takes one of these, so that they can be counted.
REASONS = ("needs a GPU", "needs the network", "needs another program", "is what CI runs", "takes long",
           "is a part of a file", "is a part of a program", "changes the checkout")
LANGUAGES = ("sh", "python", "cpp", "c", "toml", "cuda", "text")


class PageError(Exception):
    """A page has what the test cannot read."""


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    reason: str = ""  # why it is not run
    is_nightly: bool = False  # it is run where all is
    before: list[str] = field(default_factory=list)  # code in front of it that a reader does not see
    output_of: str = ""  # the command whose output it shows

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def take_mark(block, mark):
    head, _, rest = mark.partition("\n")
    word, _, more = head.strip().partition(" ")
    if word == "before":
        block.before.append(rest + "\n")
    elif word in ("check,", "nightly,"):
        if more not in REASONS:
            raise PageError(f"{block.place}: '{more}' is none of the reasons: {', '.join(REASONS)}")
        block.reason, block.is_nightly = more, word == "nightly,"
    elif word == "output" and more.startswith("of: "):
        block.output_of = more.removeprefix("of: ")
    else:
        raise PageError(f"{block.place}: '{head}' is no mark: before, check, nightly, output of:")


def is_code(lines, at):
    """Whether an indented line begins code: behind an empty one, and in no list."""
    if at > 0 and lines[at - 1].strip():
        return False
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    while at > 0 and lines[at - 1].strip():
        at -= 1
        if re.match(r"\s*([-*]|\d+\.) ", lines[at]):
            return False
    return True


def blocks_of(page, text):
    """The blocks of a page, in order. Marks stand right in front of theirs: <!-- docs-test: check, needs a GPU -->."""
    result, marks, at = [], [], 0
    lines = text.split("\n")
    while at < len(lines):
        line = lines[at]
        if line.startswith("<!-- docs-test:"):
            mark = [line.removeprefix("<!-- docs-test:")]
            while "-->" not in mark[-1]:
                at += 1
                mark.append(lines[at])
            marks.append("\n".join(mark).rpartition("-->")[0].strip())
        elif fence := re.match(r"( *)(```+)(.*)$", line):
            block = Block(page, at + 1, fence[3].strip(), "")
            end = at + 1
            while end < len(lines) and not re.fullmatch(rf" *{fence[2]} *", lines[end]):
                end += 1
            if end == len(lines):
                raise PageError(f"{block.place}: a block that does not end")
            block.text = "".join(each.removeprefix(fence[1]) + "\n" for each in lines[at + 1:end])
            if block.language not in LANGUAGES:
                raise PageError(f"{block.place}: a block in '{block.language}': it is one of {', '.join(LANGUAGES)}")
            for mark in marks:
                take_mark(block, mark)
            result.append(block)
            marks, at = [], end
        elif line.startswith("    ") and line.strip() and is_code(lines, at):
            raise PageError(f"{page}:{at + 1}: code by indentation: put it between fences, with its language")
        elif line.strip() and marks:
            raise PageError(f"{page}:{at + 1}: a mark without a block behind it")
        at += 1
    return result


def pages():
    """Texts of the Markdown pages that git knows, by path."""
    run = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
                         capture_output=True, text=True)
    return {name: (ROOT / name).read_text() for name in sorted(run.stdout.split()) if (ROOT / name).exists()}


def commands(text):
    """Command lines of a shell block: lines that go on are one, and what is behind them as a comment is gone."""
    for line in re.sub(r"\s*\\\n\s*", " ", text).split("\n"):
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        for part in re.split(r"\s*(?:&&|\|\||;|\|)\s+", line):
            if part:
                yield part


def spans(text):
    """Code in a line of a page: `sinter compile --dim`."""
    outside = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", outside)]
