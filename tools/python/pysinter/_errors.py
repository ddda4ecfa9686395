# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each tells what is wrong as text, and what is known of it as data."""
from __future__ import annotations

import errno
import functools
import os
import stat
from typing import Any


class Error(Exception):
    """The base of all of them.

    code: a stable word, "usage", "unsupported", ...
    node, op, shapes: the ONNX node that it is about, its operator ("Loop-16") and the types of its inputs, or None
    hint: what to do instead, or None
    diagnostics: what the compiler said before, and the errors; of other calls empty
    """

    code = "internal"

    def __init__(self, message: str, *, node: str | None = None, op: str | None = None,
                 shapes: tuple[str, ...] = (), hint: str | None = None, diagnostics: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.node, self.op, self.shapes = node, op, tuple(shapes)
        self.hint, self.diagnostics = hint, tuple(diagnostics)

    def _facts(self) -> dict[str, Any]:
        return dict(node=self.node, op=self.op, shapes=self.shapes, hint=self.hint, diagnostics=self.diagnostics)

    def __reduce__(self) -> Any:
        return _restore, (type(self), str(self), self._facts())


class UsageError(Error, ValueError):
    """A wrong option, name, type, rank or dimension."""
    code = "usage"


class UnsupportedError(Error):
    """A valid model that asks for what Sinter does not do."""
    code = "unsupported"


class InvalidModelError(Error):
    """Not an ONNX model, or one that contradicts itself."""
    code = "invalid_model"


class InvalidPlanError(Error):
    """Not a plan, damaged, newer, or made for something else."""
    code = "invalid_plan"


class OutOfMemoryError(Error, MemoryError):
    """Of the host or of a GPU."""
    code = "out_of_memory"


class DeviceError(Error):
    """A missing or failing GPU, driver or library."""
    code = "device"


class InternalError(Error):
    """A defect of Sinter."""
    code = "internal"


class CancelledError(Error):
    """The caller asked to stop."""
    code = "cancelled"


class FileError(Error, OSError):
    """A file that cannot be opened, read or written.

    errno, strerror, filename: as OSError has them; the message names the file, too

    Each is also what its `code` says (a UsageError; an InvalidModelError where a model's file of weights is missing) and
    what Python raises for its `errno`: FileNotFoundError, PermissionError, IsADirectoryError, ...
    """

    code = "usage"

    def __str__(self) -> str:
        return str(self.args[0])  # OSError's has number and name in front

    def __reduce__(self) -> Any:
        return _restore_file, (self.code, str(self), self.errno, self.filename, self._facts())


class VerificationError(Error):
    """compile(verify=...): the measured error is above its bound, and there is no plan. `report` has the numbers."""
    code = "verification"

    def __init__(self, message: str, *, report: Any = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.report = report

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | dict(report=self.report)


_CLASSES = {kind.code: kind for kind in (UsageError, UnsupportedError, InvalidModelError, InvalidPlanError,
                                         OutOfMemoryError, DeviceError, InternalError, CancelledError)}


@functools.cache
def _file_class(code, builtin):
    bases = (FileError, _CLASSES.get(code, InternalError), builtin)
    return type("FileError", bases, {"__module__": __name__, "__doc__": FileError.__doc__, "code": code})


def _file_error(code, message, number, path, facts):
    error = _file_class(code, type(OSError(number, "")))(message, **facts)
    error.errno, error.strerror, error.filename = number, os.strerror(number), path
    return error


def file_error(message: str, cause: OSError, path: Any) -> Error:
    """What Python says of a file, as an error of ours with `message`."""
    if cause.errno is None:  # of libraries that raise OSError for what is in a file
        return UsageError(message)
    return _file_error("usage", message, cause.errno, os.fspath(path), {})


def check_file(path: Any, what: str = "", *, folder: bool = False) -> None:
    """Raises the error of a file, or a folder, that is to be read and cannot be. `what` stands in front of its name."""
    text = f"cannot read {what + ' ' if what else ''}'{os.fspath(path)}'"
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode) != folder:
            number = errno.ENOTDIR if folder else errno.EISDIR
            raise OSError(number, os.strerror(number))
        if not folder and not stat.S_ISREG(mode):  # opening a pipe may wait for ever
            raise UsageError(f"{text}: it is no regular file")
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise file_error(f"{text}: {error.strerror}", error, path) from None


def make(code, message, node, op, shapes, diagnostics, path="", number=0):
    """Called by the extension; `number`: the errno of what is wrong with the file `path`, 0: nothing is."""
    from ._results import Diagnostic, build
    said = tuple(build(Diagnostic, each) for each in diagnostics)
    causes = [each for each in said if each.severity == "error"]
    # All of one cause: that of the error's node, else the first of a node, else the first.
    about = [each for each in causes if each.node == node] if node else [each for each in causes if each.node] or causes
    cause = about[0] if about else Diagnostic("error", code, message)
    facts = dict(node=node or cause.node or None, op=op or cause.op or None, shapes=tuple(shapes) or cause.shapes,
                 hint=cause.hint or None, diagnostics=said)
    if number:
        return _file_error(code, message, number, path, facts)
    return _CLASSES.get(code, InternalError)(message, **facts)


def _restore(kind, message, facts):
    return kind(message, **facts)


_restore_file = _file_error
