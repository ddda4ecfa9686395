#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows how far a build is, of whose output ninja's lines "[12/283] .." are a part: COMMAND 2>&1 | show_build.py LOG.

A bar with the time that is left where stdout is a terminal, else a line for each tenth. All of the output goes to LOG.
"""
import collections
import re
import sys
import time

COUNT = re.compile(r"^\s*\[(\d+)/(\d+)\] ")
WIDTH = 30
WINDOW = 60.0  # seconds: what came from a cache at first says little about the rest


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Shown:
    def __init__(self, stream, is_terminal: bool, now=time.monotonic) -> None:
        self._stream, self._is_terminal, self._now = stream, is_terminal, now
        self._recent: collections.deque[tuple[float, int]] = collections.deque()
        self._total, self._tenth, self._length = 0, 0, 0

    def line(self, text: str) -> None:
        if match := COUNT.match(text):
            self.count(int(match[1]), int(match[2]))

    def count(self, done: int, total: int) -> None:
        now = self._now()
        if total != self._total:  # ninja begins anew when it has run CMake
            self._total, self._tenth = total, 0
            self._recent.clear()
        self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[1][0] > WINDOW:
            self._recent.popleft()
        if self._is_terminal:
            first, before = self._recent[0]
            left = f", {clock((now - first) / (done - before) * (total - done))} left" if before < done < total else ""
            filled = WIDTH * done // max(total, 1)
            text = f"[{'#' * filled}{' ' * (WIDTH - filled)}] {done}/{total}{left}"
            self._stream.write("\r" + text.ljust(self._length))
            self._length = len(text)
        elif done * 10 // max(total, 1) > self._tenth or done == total:
            self._tenth = done * 10 // max(total, 1)
            self._stream.write(f"   {done}/{total}\n")
        self._stream.flush()

    def close(self) -> None:
        if self._length:
            self._stream.write("\n")
            self._stream.flush()


def main() -> None:
    shown = Shown(sys.stdout, sys.stdout.isatty())
    with open(sys.argv[1], "w", encoding="utf-8", errors="replace") as log:
        for text in sys.stdin:
            log.write(text)
            shown.line(text)
    shown.close()


if __name__ == "__main__":
    main()
