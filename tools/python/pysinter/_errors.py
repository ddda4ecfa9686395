"""Exceptions. Each tells what is wrong as text, and what is known of it as data."""
from __future__ import annotations

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


def make(code, message, node, op, shapes, diagnostics):
    """Called by the extension."""
    from ._results import Diagnostic, build
    said = tuple(build(Diagnostic, each) for each in diagnostics)
    causes = [each for each in said if each.severity == "error"]
    # All of one cause: that of the error's node, else the first of a node, else the first.
    about = [each for each in causes if each.node == node] if node else [each for each in causes if each.node] or causes
    cause = about[0] if about else Diagnostic("error", code, message)
    return _CLASSES.get(code, InternalError)(
        message, node=node or cause.node or None, op=op or cause.op or None, shapes=tuple(shapes) or cause.shapes,
        hint=cause.hint or None, diagnostics=said)


def _restore(kind, message, facts):
    return kind(message, **facts)
