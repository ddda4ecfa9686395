"""What belongs to the process: threads, GPUs, the log."""
from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import _core
from ._errors import DeviceError, UsageError

_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
_LOGGING = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str
    architecture: str  # "sm_90": what a plan for it is compiled for
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int


def gpus() -> list[Gpu]:
    """The GPUs that plans run on. Raises DeviceError, which says why there are none and how to get one."""
    found, problem = _core.gpus()
    if not found:
        raise DeviceError(problem)
    return [Gpu(**each) for each in found]


def set_threads(threads: int = 0, *, cpus: Sequence[int] = (), spin_microseconds: int = 50) -> None:
    """Sets the pool of threads that CPU plans of this process are computed with, callers included. 0: what
    SINTER_THREADS says, else as many as processors that this process may use. `cpus`: those that the pool's own threads
    may run on. `spin_microseconds`: how long one that waits looks for work before it sleeps. Plans that have run
    use at most as many threads as they did."""
    _core.set_threads(threads, list(cpus), spin_microseconds)


def get_threads() -> int:
    """How many threads the pool has, callers included."""
    return _core.get_threads()


def set_logger(logger: logging.Logger | Callable[[str, str], None] | None, level: str = "info") -> None:
    """Gives the library's messages of `level` ("debug", "info", "warning", "error") and above to a logging.Logger, or to a
    function of level and message; None: to nobody. Any thread may call it; it must not call the library."""
    if level not in _LEVELS:
        raise UsageError(f"level '{level}' is none of {', '.join(_LEVELS)}")
    names = list(_LEVELS)
    if logger is None:
        _core.log_to(None, 0)
    elif isinstance(logger, logging.Logger):
        _core.log_to(lambda number, message: logger.log(_LOGGING[number], "%s", message), _LEVELS[level])
    else:
        _core.log_to(lambda number, message: logger(names[number], message), _LEVELS[level])
