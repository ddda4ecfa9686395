#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Doxygen reads instead of a header: our plain comments as the marks that it takes for documentation. The first
comment of a file describes the file, one above a declaration that declaration, one behind a member that member."""
import re
import sys


def code_and_comment(line):
    """Splits a line at the `//` that begins its comment, or gives None for it. Those in strings count as code."""
    string = False
    for at, character in enumerate(line):
        if character == '"' and (at == 0 or line[at - 1] not in "\\'"):
            string = not string
        elif not string and line.startswith("//", at):
            return line[:at], line[at + 2:]
    return line, None


def convert(lines):
    result = []
    at = 0
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith("// SPDX")):
        result.append(lines[at])
        at += 1
    if at < len(lines) and lines[at].startswith("//"):
        result.append("/// @file")
        while at < len(lines) and lines[at].startswith("//"):
            result.append("/// " + lines[at][2:].strip())
            at += 1
        if at < len(lines) and lines[at].startswith("#pragma once"):
            at += 1  # so that numbers of lines stay
    column = -1  # of the comment behind a member that goes on
    while at < len(lines):
        line = lines[at]
        code, comment = code_and_comment(line)
        if comment is None or comment.startswith("/"):
            column = -1
            result.append(line)
            at += 1
        elif code.strip():
            column = len(code)
            is_member = code.rstrip()[-1] in ";,)" or not re.search(r"[{}(]$", code.rstrip())
            result.append(code + ("///<" if is_member else "//") + comment)
            if not is_member:
                column = -1
            at += 1
        elif len(code) == column:
            result.append(code + "///<" + comment)
            at += 1
        else:
            column = -1
            end = at
            while end < len(lines) and re.match(r"\s*//(?!/)", lines[end]):
                end += 1
            is_documentation = (end < len(lines) and lines[end].strip() and not comment.startswith(" ----")
                                and not re.match(r"\s*(#|/|})", lines[end]))
            for each in lines[at:end]:
                result.append(re.sub(r"//", "///", each, count=1) if is_documentation else each)
            at = end
    return result


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("\n".join(convert(file.read().split("\n"))))
