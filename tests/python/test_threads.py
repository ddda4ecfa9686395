# SPDX-License-Identifier: Apache-2.0
"""One plan, many threads; event loops; processes; sessions."""
import asyncio
import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import make_mlp, model_of, value
from onnx import helper

import pysinter


def inputs(count, seed=3):
    r = np.random.default_rng(seed)
    return [r.standard_normal((int(r.integers(1, 65)), 8), np.float32) for _ in range(count)]


def test_many_threads(plan):
    arrays = inputs(400)
    expected = [plan(x).tobytes() for x in arrays]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda x: plan(x).tobytes(), arrays))
    assert found == expected


def test_sessions_are_bounded(mlp, x, tmp_path):
    plan = pysinter.load(pysinter.compile(mlp, target="cpu").to_bytes(), max_sessions=1)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: plan(x).tobytes(), range(100)))) == 1
    with pytest.raises(pysinter.UsageError, match="max_sessions"):
        pysinter.load(plan.to_bytes(), max_sessions=-1)
    # By default as many as threads compute at once, by a quota or what the user says, not as many as processors.
    code = "import sys, pysinter; print(pysinter.load(sys.argv[1])._options().max_sessions, pysinter.get_threads())"
    plan.save(tmp_path / "a.plan")
    for threads in ("1", "3"):
        done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.plan"], capture_output=True, text=True,
                              env=os.environ | {"SINTER_THREADS": threads})
        assert done.stdout.split() == [threads] * 2, done.stderr


def test_errors_from_many_threads(plan, x):
    def call(i):
        if i % 2:
            with pytest.raises(pysinter.UsageError):
                plan(x[:, :3].copy())
            return None
        return plan(x).tobytes()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len({each for each in pool.map(call, range(200)) if each}) == 1


@pytest.fixture(scope="module")
def heavy():
    """Some tens of milliseconds a call."""
    r = np.random.default_rng(0)
    weights = {f"w{i}": r.standard_normal((1024, 1024), np.float32) / 32 for i in range(6)}
    nodes = [helper.make_node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"]) for i in range(6)]
    model = model_of(nodes, [value("x", [512, 1024])], [value("h6", [512, 1024])], weights)
    return pysinter.compile(model, target="cpu"), r.standard_normal((512, 1024), np.float32)


LEFT_RUNNING = """
import sys, threading, time
import numpy, pysinter
plan = pysinter.load(sys.argv[1])
x = numpy.ones((512, 1024), numpy.float32)
def work():
    while True:
        plan(x)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(.3)
print("ends")
"""


def test_daemon_threads_may_be_within_calls_when_the_process_ends(heavy, tmp_path):
    heavy[0].save(tmp_path / "a.plan")
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", LEFT_RUNNING, tmp_path / "a.plan"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.split() == ["ends"], (done.returncode, done.stderr)


def test_the_gil_is_released(heavy):
    plan, x = heavy
    plan(x)
    done, counted = threading.Event(), 0

    def run():
        for _ in range(10):
            plan(x)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    # With the GIL held, this loop would get a turn between two calls, some ten times.
    assert counted > 100


def test_async_does_not_block(heavy):
    plan, x = heavy

    async def main():
        ticks, stop = 0, False

        async def tick():
            nonlocal ticks
            while not stop:
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(tick())
        results = await asyncio.gather(*(plan.call_async(x) for _ in range(6)))
        stop = True
        await ticker
        return ticks, results

    ticks, results = asyncio.run(main())
    expected = plan(x).tobytes()
    assert ticks > 100 and all(each.tobytes() == expected for each in results)


def test_async_errors_and_out(plan, x):
    async def main():
        with pytest.raises(pysinter.UsageError, match="missing"):
            await plan.call_async()
        out = np.zeros((5, 4), np.float32)
        assert await plan.call_async(x, out=out) is out
        return out
    assert asyncio.run(main()).tobytes() == plan(x).tobytes()


def test_async_caller_is_cancelled(heavy, x):
    plan, x = heavy

    async def main():
        task = asyncio.create_task(plan.call_async(x))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await plan.call_async(x)
    assert asyncio.run(main()).tobytes() == plan(x).tobytes()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickle(plan, x, protocol, tmp_path):
    copy = pickle.loads(pickle.dumps(plan, protocol))
    assert copy(x).tobytes() == plan(x).tobytes() and copy.report == plan.report
    plan.save(tmp_path / "a.plan")
    loaded = pysinter.load(tmp_path / "a.plan", max_sessions=3)
    copy = pickle.loads(pickle.dumps(loaded, protocol))
    os.remove(tmp_path / "a.plan")
    assert copy(x).tobytes() == plan(x).tobytes() and copy.path is None
    assert pickle.loads(pickle.dumps(copy, protocol)).to_bytes() == plan.to_bytes()


def test_pickle_out_of_band(plan, x):
    buffers = []
    small = pickle.dumps(plan, 5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(small) < len(buffers[0].raw())
    assert pickle.loads(small, buffers=buffers)(x).tobytes() == plan(x).tobytes()
    # The plan keeps what holds its bytes; they need not be aligned.
    size = buffers[0].raw().nbytes
    for shift in (0, 1, 8):
        memory = np.zeros(size + 128, np.uint8)
        first = -memory.ctypes.data % 64 + shift
        part = memory[first:first + size]
        part[...] = np.frombuffer(buffers[0].raw(), np.uint8)
        part.flags.writeable = False
        copy = pickle.loads(small, buffers=[part])
        del memory, part
        assert copy(x).tobytes() == plan(x).tobytes()


def _in_child(plan, x, queue):
    queue.put(plan(x).tobytes())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(plan, x, method):
    expected = plan(x).tobytes()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(plan, x, queue)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=120) for _ in children] == [expected] * 2
    for child in children:
        child.join(60)
        assert child.exitcode == 0


def _async_in_child(plan, x, queue):
    queue.put(asyncio.run(plan.call_async(x)).tobytes())


def test_fork_while_others_run(plan, x):
    """The child of a process whose threads are in calls."""
    expected, stop = plan(x).tobytes(), threading.Event()
    asyncio.run(plan.call_async(x))

    def work():
        while not stop.is_set():
            plan(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        context = multiprocessing.get_context("fork")
        for target in (_in_child, _async_in_child) * 3:
            queue = context.Queue()
            child = context.Process(target=target, args=(plan, x, queue))
            child.start()
            assert queue.get(timeout=60) == expected
            child.join(60)
            assert child.exitcode == 0
    finally:
        stop.set()
        for each in threads:
            each.join()


def test_session_keeps_states(counter):
    assert [each.name for each in counter.inputs if each.is_state] == ["total"]
    assert counter.states[0].input == "total" and counter.states[0].output == "next"
    session = counter.session()
    one = np.ones(4, np.float32)
    assert [float(session.run(one)[0]) for _ in range(3)] == [2, 4, 6]
    assert float(session.run()[0]) == 8  # inputs stay
    assert (session.output("next") == 4).all() and set(session.outputs) == {"twice", "next"}
    session.reset()
    assert float(session.run(one)[0]) == 2
    assert (session.run(one, total=np.full(4, 10, np.float32)) == 22).all()
    # Calls of the plan know no states.
    assert [float(counter(one)[0]) for _ in range(3)] == [2, 2, 2]
    assert (counter(one, total=np.full(4, 10, np.float32)) == 22).all()
    assert (counter(one) == 2).all()


def test_session_results_and_inputs_are_copies(counter):
    session, one = counter.session(), np.ones(4, np.float32)
    first = session.run(one)
    one[...] = 100  # was copied
    second = session.run()
    assert (first == 2).all() and (second == 4).all()
    out = np.zeros(4, np.float32)
    assert session.run(out=out) is out and (out == 6).all()
    assert session.memory["io"] > 0 and session.launches >= 0
    session.reset()
    session.warm_up({"x": (4,)})
    with pytest.raises(TypeError, match="send its plan"):
        pickle.dumps(session)
    with pytest.raises(pysinter.UsageError):
        counter.session().run()
    with pytest.raises(pysinter.UsageError, match="GPU"):
        counter.session(device_outputs=True)


def test_one_session_from_two_threads(heavy):
    plan, x = heavy
    session, errors = plan.session(), []
    session.run(x)

    def run():
        for _ in range(20):
            try:
                session.run()
            except pysinter.UsageError as error:
                errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors and session.run().tobytes() == plan(x).tobytes()


@pytest.fixture(scope="module")
def large():
    """Most of a call is the copying of its input and output."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 1 << 20])],
                     [value("y", ["n", 1 << 20])])
    return pysinter.compile(model, target="cpu", dims={"n": (1, 2)})


def test_one_session_from_two_threads_gives_nobody_the_others_results(large):
    """Setting inputs, running and copying is one step to other threads."""
    session, found = large.session(), []
    session.run(np.ones((1, 1 << 20), np.float32))

    def use(number):
        x = np.full((1, 1 << 20), number, np.float32)
        for call in range(100):
            try:
                if call % 10 == 9:
                    assert np.ptp(session.output("y")) == 0
                    session.reset()
                    assert session.memory["io"] > 0
                else:
                    found.append((session.run(x) == number).all())
            except pysinter.UsageError as error:
                assert "two threads at once" in str(error)
                time.sleep(0.001)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(use, (1, 2)))
    assert found and all(found)
    assert (session.run() >= 1).all()


def test_session_keeps_memory_of_out(large):
    """output() reads what the last run has written, where the caller may have let go of it."""
    plan, session, x = large, large.session(), np.ones((1, 1 << 20), np.float32)
    session.run(x, out=np.empty_like(x))
    assert (session.output("y") == 1).all() and (session.outputs["y"] == 1).all()
    session.run(3 * x, out=np.empty_like(x))
    with pytest.raises(pysinter.UsageError):
        session.run(x[:, :5].copy(), out=np.empty_like(x))
    with pytest.raises(pysinter.UsageError):
        session.run(x, out=np.empty((1, 5), np.float32))
    assert session.run(x).shape == x.shape and (session.output("y") == 1).all()


def test_session_outlives_its_plan(x):
    session = pysinter.compile(make_mlp(), target="cpu").session()
    assert session.run(x).shape == (5, 4) and session.plan(x).shape == (5, 4)


def test_threads_and_log(plan, x):
    import logging
    before, expected = pysinter.get_threads(), plan(x).tobytes()
    try:
        pysinter.set_threads(1)
        assert pysinter.get_threads() == 1 and plan(x).tobytes() == expected
        with pytest.raises(pysinter.UsageError):
            pysinter.set_threads(-1)
    finally:
        pysinter.set_threads(before)
    said = []
    pysinter.set_logger(lambda level, message: said.append((level, message)), "debug")
    try:
        pysinter.load(plan.to_bytes())(x)
    finally:
        pysinter.set_logger(None)
    count = len(said)
    assert count > 0 and all(level in ("debug", "info", "warning") for level, _ in said)
    pysinter.load(plan.to_bytes())(x)
    assert len(said) == count
    pysinter.set_logger(logging.getLogger("sinter"), "warning")
    pysinter.set_logger(None)
    with pytest.raises(pysinter.UsageError, match="level"):
        pysinter.set_logger(print, "loud")
