# SPDX-License-Identifier: Apache-2.0
"""A pipeline of three stages on threads of their own: read and decode; fill the memory that is copied from; compute."""
from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from . import _core

SESSIONS = 3  # one is filled, one copies, one computes
DEPTH = 2  # pieces that wait between two stages


def share_processors(pyarrow: Any) -> int:
    """How many threads fill while others read; pyarrow decodes with half of the processors from now on. Both stages are
    bound by memory, which fewer threads than processors use up, and where each has one for each processor, all of a
    stage's threads wait for the one that got none."""
    processors = len(os.sched_getaffinity(0))
    pyarrow.set_cpu_count(max(1, processors // 2))
    return max(1, processors * 3 // 16)


class _Stopped(Exception):
    """Another stage has failed, or nobody wants results any more."""


class _Queue:
    """Items in order, `size` at most; end() comes behind the last, stop() before all.

    Of queues in C alone: an interrupt may come anywhere in Python's own locks, and leave one held for ever.
    """

    END = object()

    def __init__(self, size: int) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopped = False
        for _ in range(size):
            self._room.put(None)

    def put(self, item: Any) -> None:
        self._room.get()
        if self._stopped:
            self._room.put(None)  # for the next one who waits
            raise _Stopped
        self._items.put(item)

    def get(self, wait: bool = True) -> Any:
        """END behind the last; None if there is nothing yet and wait is False."""
        try:
            item = self._items.get(block=wait)
        except queue.Empty:
            item = None
        if self._stopped:
            self._items.put(None)
            raise _Stopped
        if item is self.END:
            self._items.put(item)
        elif item is not None:
            self._room.put(None)
        return item

    def end(self) -> None:
        self._items.put(self.END)

    def stop(self) -> None:
        self._stopped = True
        self._items.put(None)
        self._room.put(None)


class Pipeline:
    """Runs a plan over pieces of a table. Iterating gives (tag, record batch of outputs) in the order of the pieces;
    it must be run to its end or closed (`with`), which ends the threads. An error of any stage ends all of them and is
    raised once.

    pieces: of (tag, batch, first row, rows); read by a thread of their own.
    inputs, nan, cast: as TableSession.bind takes them.
    sessions: of the plan, two or more, which are used by nothing else meanwhile; by default three new ones.
    threads: that fill, at most; 0: all that sessions compute with. See share_processors().
    """

    def __init__(self, plan: Any, pieces: Iterable[tuple[Any, Any, int, int]], inputs: Any, *, nan: bool = False,
                 cast: bool = False, sessions: Sequence[Any] | None = None, depth: int = DEPTH,
                 threads: int = 0) -> None:
        self.busy = {"read": 0.0, "fill": 0.0, "compute": 0.0}  # seconds
        self._pieces, self._bind = pieces, (inputs, nan, cast, threads)
        if sessions is None:
            sessions = [_core.TableSession(plan) for _ in range(SESSIONS)]
        self._read, self._filled, self._done = _Queue(depth), _Queue(len(sessions)), _Queue(depth)
        self._free = _Queue(len(sessions))
        for session in sessions:
            self._free.put(session)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._stage, args=each, name=f"sinter-{name}", daemon=True)
                         for name, each in (("read", (self._read_pieces, self._read)),
                                            ("fill", (self._fill, self._filled)),
                                            ("compute", (self._compute, self._done)))]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        try:
            while (item := self._done.get()) is not _Queue.END:
                yield item
        except _Stopped:
            pass
        finally:
            self.close()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._stop()
        for thread in self._threads:
            thread.join()

    def _stop(self) -> None:
        for each in (self._read, self._filled, self._done, self._free):
            each.stop()

    def _stage(self, body: Callable[[], None], output: _Queue) -> None:
        try:
            body()
            output.end()
        except _Stopped:
            pass
        except BaseException as error:  # of whatever kind: the caller's thread raises it
            with self._lock:
                if self._error is None:
                    self._error = error
            self._stop()

    def _timed(self, stage: str, call: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        result = call(*arguments)
        self.busy[stage] += time.perf_counter() - began
        return result

    def _read_pieces(self) -> None:
        pieces = iter(self._pieces)
        try:
            while (piece := self._timed("read", next, pieces, None)) is not None:
                self._read.put(piece)
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    def _fill(self) -> None:
        while (piece := self._read.get()) is not _Queue.END:
            tag, batch, first, rows = piece
            session = self._free.get()
            self._timed("fill", session.bind, batch, first, rows, *self._bind)
            self._filled.put((tag, session))

    def _compute(self) -> None:
        started: deque[tuple[Any, Any]] = deque()

        def finish() -> None:
            tag, session = started.popleft()
            result = self._timed("compute", session.finish)
            self._free.put(session)
            self._done.put((tag, result))

        while True:
            # The next run is started before the last is waited for, so that its copy is beside it; with nothing to
            # start, results do not wait for more.
            item = self._filled.get(wait=not started)
            if item is None:
                finish()
                continue
            if item is _Queue.END:
                break
            self._timed("compute", item[1].start)
            started.append(item)
            while len(started) > 1:
                finish()
        while started:
            finish()
