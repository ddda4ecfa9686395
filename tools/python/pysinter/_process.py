# SPDX-License-Identifier: Apache-2.0
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
    """A GPU that plans run on.

    index: what `device` of load() takes. name: NVIDIA's. architecture: "sm_90", what a plan for it is compiled for.
    multiprocessors: how many. memory_bytes, l2_bytes: of its memory and its cache.
    """
    index: int
    name: str
    architecture: str
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
    """Sets the pool of threads that CPU plans of this process are computed with. Plans that have run use at most as many as
    they did.

    threads: how many, callers included; 0: what SINTER_THREADS says, else as many as processors that this process may use
    cpus: numbers of the processors that the pool's own threads may run on; empty: all
    spin_microseconds: how long a thread that waits looks for work before it sleeps; eight times as long in a run

    Raises UsageError for numbers that mean nothing.
    """
    _core.set_threads(threads, list(cpus), spin_microseconds)


def get_threads() -> int:
    """How many threads the pool has, callers included."""
    return _core.get_threads()


def set_logger(logger: logging.Logger | Callable[[str, str], None] | None, level: str = "info") -> None:
    """Says who gets the library's messages.

    logger: a logging.Logger, or a function of level and message; None: nobody. Any thread may call it; it must not call the
        library.
    level: the least that is told: "debug", "info", "warning" or "error"; another is a UsageError
    """
    if level not in _LEVELS:
        raise UsageError(f"level '{level}' is none of {', '.join(_LEVELS)}")
    names = list(_LEVELS)
    if logger is None:
        _core.log_to(None, 0)
    elif isinstance(logger, logging.Logger):
        _core.log_to(lambda number, message: logger.log(_LOGGING[number], "%s", message), _LEVELS[level])
    else:
        _core.log_to(lambda number, message: logger(names[number], message), _LEVELS[level])
