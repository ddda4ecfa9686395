#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Idle and slow clients beside honest ones: what the honest ones notice, and what the server's memory does.

  check_slow_clients.py --sinter build/bin/sinter [--idle 10000 --slow 1000 --honest 64 --streams 4096 --seconds 600 --strict]

Serves the tiny decoder on the CPU, twice. One server has `--idle` connections that say nothing and `--slow` ones that send a byte a
second of a head or of a body, or read nothing of a stream; what it closes comes again. The other has none. Honest clients ask both for
texts, in turn, so that what else the machine does touches both alike. Then `--streams` clients read a stream each at once. At last
SIGTERM must end the server in time, with all of them there. Exit code 0 if every honest request was answered, each stream whole, and
memory grew by `--growth` MiB at most; --strict also wants the honest ones' 99th percentile to be at most 1.5 times that of the server
that has no others. The defaults are small, for the test suite.
"""
import argparse
import contextlib
import http.client
import json
import multiprocessing
import random
import resource
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from check_clients import ROOT, memory_of, server

BODY = json.dumps({"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 12, "temperature": 0}).encode()
STREAM = json.dumps({"model": "tiny", "prompt": [1, 2], "max_tokens": 40, "ignore_eos": True, "stream": True}).encode()
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
DRAIN = 3


def connect(port):
    connection = socket.socket()
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        connection.connect(("127.0.0.1", port))
    return connection


def beginning(kind):
    """What a slow client of that kind has sent at first."""
    return (b"GET /health HTTP/1.1\r\nX: ", POST % 10000 + b"{", POST % len(STREAM) + STREAM, b"")[kind]


def bothers(port, idle, slow, reopened, ready, end):
    """A process of its own: holds idle connections, and slow ones that send a byte a second."""
    raise_files()
    held = {}

    def open_one(kind):
        with contextlib.suppress(OSError):
            held[connect(port)] = [kind, False]
    for i in range(idle):
        open_one(3)
        if i % 200 == 199:
            time.sleep(0.02)
    for i in range(slow):
        open_one(i % 3)
    time.sleep(1)
    ready.set()
    while not end.is_set():
        start = time.monotonic()
        for connection, (kind, began) in list(held.items()):
            try:
                if not began:
                    connection.send(beginning(kind))
                    held[connection][1] = True
                elif kind < 2:
                    connection.send(b"a")
                if kind != 2 and connection.recv(1, socket.MSG_PEEK) in (b"", b"H"):  # closed, or refused: again
                    raise ConnectionError
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                del held[connection]
                reopened.value += 1
                open_one(kind)
        end.wait(max(0, 1 - (time.monotonic() - start)))
    time.sleep(60)  # they are there while the server ends


def honest(ports, clients, seconds):
    """Seconds of each answer, for each of the ports."""
    took, wrong, end = [[] for _ in ports], [], time.monotonic() + seconds
    expected = set()

    def ask(seed):
        draw = random.Random(seed)
        connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for port in ports]
        while time.monotonic() < end:
            for i in draw.sample(range(len(ports)), len(ports)):
                time.sleep(draw.uniform(0.2, 0.8))
                start = time.monotonic()
                try:
                    connections[i].request("POST", "/v1/completions", BODY, {"Content-Type": "application/json"})
                    expected.add(tuple(json.loads(connections[i].getresponse().read())["choices"][0]["token_ids"]))
                except (OSError, http.client.HTTPException, KeyError) as error:
                    wrong.append(repr(error))
                    connections[i].close()
                    continue
                took[i].append(time.monotonic() - start)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, (len(wrong), wrong[:3])
    assert len(expected) == 1, expected
    return took


def quantile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def streams(port, count):
    """Reads `count` streams at once; each must be whole."""
    ready, seen = selectors.DefaultSelector(), {}
    for i in range(count):
        connection = connect(port)
        seen[connection] = b""
        ready.register(connection, selectors.EVENT_WRITE)
        if i % 200 == 199:
            time.sleep(0.02)
    running, whole, most, deadline = set(seen), 0, 0, time.monotonic() + 300
    while running and time.monotonic() < deadline:
        for key, mask in ready.select(1):
            connection = key.fileobj
            if mask & selectors.EVENT_WRITE:
                connection.send(POST % len(STREAM) + STREAM)
                ready.modify(connection, selectors.EVENT_READ)
                continue
            try:
                piece = connection.recv(65536)
            except ConnectionError:
                piece = b""
            seen[connection] += piece
            if not piece or seen[connection].endswith(b"0\r\n\r\n"):
                whole += seen[connection].count(b"data: ") >= 2 and seen[connection].endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
                running.discard(connection)
                ready.unregister(connection)
                connection.close()
        most = max(most, sum(1 for connection in running if seen[connection]))
    assert whole == count, (whole, count, next((text[:300] for text in seen.values() if b"DONE" not in text), b""))
    return most


def raise_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--idle", type=int, default=400)
    parser.add_argument("--slow", type=int, default=100)
    parser.add_argument("--honest", type=int, default=8)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--growth", type=int, default=200, help="MiB")
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    raise_files()
    wrong = []
    options = (f"--drain-seconds={DRAIN}", "--waiting=8192")
    with tempfile.TemporaryDirectory() as folder, server(arguments.sinter, Path(folder), *options) as (process, port), server(
            arguments.sinter, Path(folder), *options) as (_, quiet):
        honest((port, quiet), arguments.honest, 1)
        before, most = memory_of(process), 0
        context = multiprocessing.get_context("spawn")
        reopened, ready, end = context.Value("i", 0), context.Event(), context.Event()
        others = context.Process(target=bothers, args=(port, arguments.idle, arguments.slow, reopened, ready, end), daemon=True)
        others.start()
        assert ready.wait(120), "the slow clients did not begin"
        stop = time.monotonic() + arguments.seconds
        beside, alone = [], []
        while time.monotonic() < stop:
            some, other = honest((port, quiet), arguments.honest, min(10, arguments.seconds))
            beside += some
            alone += other
            most = max(most, memory_of(process) - before)
        beside.sort()
        alone.sort()
        running = streams(port, arguments.streams)
        most = max(most, memory_of(process) - before)
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        code = process.wait(60)
        took = time.monotonic() - start
        end.set()
        others.terminate()
    for name, values in (("alone", alone), ("beside", beside)):
        print(f"{name}: {len(values)} answers, median {quantile(values, 0.5) * 1e3:.1f} ms, 99 % {quantile(values, 0.99) * 1e3:.1f} ms, "
              f"most {values[-1] * 1e3:.1f} ms")
    ratio = quantile(beside, 0.99) / quantile(alone, 0.99)
    print(f"{arguments.idle} idle and {arguments.slow} slow clients, {reopened.value} came again; {arguments.streams} streams, {running} at "
          f"once; memory +{most >> 20} MiB; the 99th percentile is {ratio:.2f} times that of alone; SIGTERM ended it with {code} in {took:.1f} s")
    if most > arguments.growth << 20:
        wrong.append("memory")
    if code != 0 or took > DRAIN + 3:
        wrong.append("SIGTERM")
    if arguments.strict and ratio > 1.5:
        wrong.append("the honest ones' 99th percentile")
    print("wrong: " + ", ".join(wrong) if wrong else "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
