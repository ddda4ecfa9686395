# SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr."""
import sys


class Bar:
    """One line, rewritten; nothing where stderr is no terminal or notebook."""

    WIDTH = 30

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._length = 0
        self._shown = self._stream.isatty() or "ipykernel" in sys.modules

    def __call__(self, stage, done, total):
        if not self._shown:
            return
        filled = self.WIDTH * done // max(total, 1)
        line = f"{stage} [{'#' * filled}{' ' * (self.WIDTH - filled)}] {done}/{total}"
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)

    def close(self):
        if self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length = 0
