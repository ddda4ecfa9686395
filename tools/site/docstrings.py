# SPDX-License-Identifier: Apache-2.0
"""Docstrings are plain text: paragraphs, "name: what it is" with lines that go on deeper, and code, four columns deeper.
This makes reStructuredText of them, which Sphinx reads."""
import re

ITEM = re.compile(r"( *)((?:[A-Za-z_]\w*)(?:, [A-Za-z_]\w*)*): (.*)")


def escape(text):
    """Names in backticks stay code; what else would be markup is text."""
    parts = re.split(r"`([^`]+)`", text)
    for at, part in enumerate(parts):
        parts[at] = f"``{part}``" if at % 2 else re.sub(r"([*|\\`]|_(?=\W|$))", r"\\\1", part)
    return "".join(parts)


def indent_of(line):
    return len(line) - len(line.lstrip())


def convert(lines):
    result, at = [], 0
    while at < len(lines):
        line = lines[at]
        after_blank = at == 0 or not lines[at - 1].strip()
        if not line.strip():
            result.append("")
            at += 1
        elif after_blank and at and indent_of(line) >= 4:
            end = at
            while end < len(lines) and (not lines[end].strip() or indent_of(lines[end]) >= 4):
                end += 1
            result += ["", ".. code-block:: python", "", *lines[at:end], ""]
            at = end
        elif item := ITEM.fullmatch(line):
            words, at = [item[3]], at + 1
            while at < len(lines) and indent_of(lines[at]) > len(item[1]) and lines[at].strip():
                words.append(lines[at].strip())
                at += 1
            # One that does not go on deeper is a paragraph whose first word has a colon.
            while at < len(lines) and lines[at].strip() and not ITEM.fullmatch(lines[at]) and len(words) == 1:
                while at < len(lines) and lines[at].strip():
                    words.append(lines[at].strip())
                    at += 1
            if result and result[-1] and not result[-1].startswith("- "):
                result.append("")
            result.append(f"- **{item[2]}**: {escape(' '.join(words))}")
            if at < len(lines) and lines[at].strip() and not ITEM.fullmatch(lines[at]):
                result.append("")
        else:
            text = line.strip()
            is_title = at + 1 < len(lines) and ITEM.fullmatch(lines[at + 1]) and indent_of(lines[at + 1]) > indent_of(line)
            result.append(f"**{escape(text)}**" if is_title else escape(text))
            at += 1
    return result
