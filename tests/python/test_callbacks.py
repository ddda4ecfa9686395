# SPDX-License-Identifier: Apache-2.0
"""Functions of Python's that the library calls, from many threads at once. run_tsan looks for races in it."""
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import in_threads, make_mlp, model_of, value
from onnx import helper

import pysinter

ROOT = Path(__file__).resolve().parents[2]
GREEDY = json.loads((ROOT / "tests" / "tools" / "goldens" / "greedy.json").read_text())["decoder"]
THREADS, ROUNDS = 6, 12


@pysinter.custom_op("callbacks::Shifted")
def shifted(x, *, by=1.0):
    return x + np.float32(by)


@pytest.fixture(scope="module")
def decoder():
    return pysinter.compile(ROOT / "models" / "tiny" / "decoder.onnx", target="cpu", serve={"block": 4, "sequences": 4})


@pytest.fixture(scope="module")
def with_operator():
    model = model_of([helper.make_node("Shifted", ["x"], ["s"], domain="callbacks", by=2.0), helper.make_node("Neg", ["s"], ["y"])],
                     [value("x", ["n", 3])], [value("y", ["n", 3])])
    return pysinter.compile(model, target="cpu", operators=[shifted])


def test_all_kinds_at_once(decoder, with_operator):
    """Texts' callbacks, which submit and cancel, operators, progress and diagnostics of compilations, and a logger that
    is replaced: each result is what it is alone."""
    said, lock = [], threading.Lock()

    def log(level, message):
        with lock:
            said.append(message)

    with pysinter.Engine(decoder, cache_bytes=1 << 20) as engine:
        def texts(number):
            for turn in range(ROUNDS):
                case, ends, parts = GREEDY[(number + turn) % len(GREEDY)], threading.Event(), []

                def take(request, sample, tokens, text, logprobs, finish, error, parts=parts, ends=ends):
                    parts.extend(tokens)
                    engine.stats()
                    if finish != "none":
                        engine.cancel(request)  # which has ended: no matter
                        ends.set()

                engine.submit(case["prompt"], take, max_tokens=5)
                assert ends.wait(120) and parts == case["tokens"][:5]

        def operators(number):
            x = np.full((number + 1, 3), number, np.float32)
            for _ in range(ROUNDS * 10):
                np.testing.assert_array_equal(with_operator(x), -(x + 2))

        def compilations(number):
            for _ in range(ROUNDS):
                stages, heard = [], []
                plan = pysinter.compile(make_mlp(seed=number), target="cpu", on_diagnostic=heard.append,
                                        progress=lambda *each, stages=stages: stages.append(each))
                assert tuple(heard) == plan.diagnostics and stages

        def loggers(number):
            for turn in range(ROUNDS * 10):
                pysinter.set_logger(None if turn % 2 else log, "debug")
                with_operator(np.zeros((2, 3), np.float32))

        kinds = (texts, operators, compilations, loggers)
        try:
            in_threads(THREADS * len(kinds), lambda number: kinds[number % len(kinds)](number // len(kinds)))
        finally:
            pysinter.set_logger(None)
        engine.drain()
    assert all(isinstance(message, str) for message in said)
