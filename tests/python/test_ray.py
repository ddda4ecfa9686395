# SPDX-License-Identifier: Apache-2.0
"""The examples with real Ray on two local workers. A worker is killed in the middle, and nothing is lost."""
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from conftest import ROOT, in_threads

import pysinter

sys.path.insert(0, str(ROOT / "tools/python/examples"))
SENTENCES, FILE = 10_000, 500
BATCH = 25  # the same batches in the loop as in Ray: the bits of a row may depend on how many rows there are


@pytest.fixture(scope="module")
def cluster(request):
    if not request.config.getoption("--ray"):
        pytest.skip("asked for with --ray")
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DATA_DISABLE_PROGRESS_BARS="1",
                      PYTHONPATH=str(ROOT / "tools/python/examples"))
    import ray
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not import the tests
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
             object_store_memory=500 * 2**20)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def serve(cluster):
    """Ray Serve, for applications at http://127.0.0.1:8123."""
    from ray import serve
    serve.start(http_options={"host": "127.0.0.1", "port": 8123})
    yield serve
    serve.shutdown()


@pytest.fixture(scope="module")
def encoder(minilm):
    model, tokenizer = minilm
    return pysinter.compile(str(model), target="cpu", threads=1), str(tokenizer)


def sentences(count):
    words = (ROOT / "models/sentences.txt").read_text().split()
    r = np.random.default_rng(0)
    return [" ".join(r.choice(words, int(r.integers(3, 9)))) + f" {i}" for i in range(count)]


def plain_loop(plan, tokenizer, texts, batch_size=BATCH):
    from ray_batch import encode
    rows = [plan(**encode(texts[i:i + batch_size], tokenizer)) for i in range(0, len(texts), batch_size)]
    return np.concatenate(rows)


def test_batch_loses_nothing(cluster, encoder, tmp_path):
    import pyarrow
    import pyarrow.parquet
    import ray_batch
    plan, tokenizer = encoder
    short = ray_batch.make_tokenizer(tokenizer, LENGTH)
    texts = sentences(SENTENCES)
    (tmp_path / "sentences").mkdir()
    for begin in range(0, SENTENCES, FILE):
        rows = {"number": range(begin, begin + FILE), "sentence": texts[begin:begin + FILE]}
        pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / f"sentences/{begin}.parquet")
    pids = tmp_path / "pids"
    pids.mkdir()

    def kill_one():
        while len(os.listdir(pids)) < 2 or not any((pids / name).stat().st_size > 10 for name in os.listdir(pids)):
            time.sleep(0.05)
        victim = max(os.listdir(pids), key=lambda name: (pids / name).stat().st_size)
        os.kill(int(victim), signal.SIGKILL)
        (tmp_path / "killed").write_text(victim)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    dataset = cluster.data.read_parquet(str(tmp_path / "sentences"))
    dataset = ray_batch.embed(dataset, plan, (tokenizer, str(pids)), actor=Recorded, batch_size=BATCH)
    table = dataset.to_pandas().sort_values("number")
    assert (tmp_path / "killed").exists(), "no worker was killed"
    victim = (tmp_path / "killed").read_text()
    assert len(os.listdir(pids)) > 2, f"worker {victim} was not replaced"
    assert list(table["number"]) == list(range(SENTENCES)) and list(table["sentence"]) == texts
    found = np.stack(table["embedding"].to_list()).astype(np.float32)
    both_cores = pysinter.load(plan.to_bytes())  # how many threads compute a result does not change it
    assert found.tobytes() == plain_loop(both_cores, short, texts).tobytes()


LENGTH = 12  # tokens: short, that ten thousand sentences take a minute


class Recorded:
    """The example's actor, which leaves a mark for each batch that it has done."""

    def __init__(self, plan, settings, column):
        import ray_batch
        tokenizer, self.folder = settings
        self.actor = ray_batch.Embed(plan, tokenizer, column)
        self.actor.tokenizer = ray_batch.make_tokenizer(tokenizer, 12)

    def __call__(self, batch):
        result = self.actor(batch)
        with open(os.path.join(self.folder, str(os.getpid())), "a") as file:
            file.write(".")
        return result


def test_tables_of_columns(cluster, plan, tmp_path):
    import pyarrow
    import pyarrow.parquet
    import ray_table
    r, names = np.random.default_rng(2), [f"f{i}" for i in range(8)]
    rows = r.standard_normal((20_000, 8), np.float32)
    (tmp_path / "rows").mkdir()
    for begin in range(0, len(rows), 1000):
        part = {"number": np.arange(begin, begin + 1000)} | {name: rows[begin:begin + 1000, i]
                                                             for i, name in enumerate(names)}
        pyarrow.parquet.write_table(pyarrow.table(part), tmp_path / f"rows/{begin}.parquet")
    dataset = ray_table.run(cluster.data.read_parquet(str(tmp_path / "rows")), plan, columns={"x": names},
                            keep=["number"], batch_size=500, actor=MortalRun, folder=str(tmp_path))
    table = dataset.to_pandas().sort_values("number")
    assert (tmp_path / "killed").exists() and list(table["number"]) == list(range(len(rows)))
    wanted = plan.run_table({name: rows[:, i].copy() for i, name in enumerate(names)}, columns={"x": names})["y"]
    np.testing.assert_allclose(np.stack(table["y"].to_list()), wanted, rtol=1e-5, atol=1e-5)


class MortalRun:
    """The example's actor; the first that has done ten batches kills itself."""

    def __init__(self, plan, columns, keep, options):
        import ray_table
        self.folder, self.batches = options.pop("folder"), 0
        self.actor = ray_table.Run(plan, columns, keep, options)

    def __call__(self, table):
        self.batches += 1
        if self.batches > 10:
            try:
                open(os.path.join(self.folder, "killed"), "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return self.actor(table)


def test_serve_survives_a_replica(serve, encoder, tmp_path):
    import ray_batch
    import ray_serve
    import requests
    plan, tokenizer = encoder
    plan.save(tmp_path / "minilm.plan")
    texts = sentences(120)
    expected = plain_loop(plan, ray_batch.make_tokenizer(tokenizer), texts)
    ray_serve.deploy(str(tmp_path / "minilm.plan"), tokenizer, replicas=2)

    answers, lock = {}, threading.Lock()

    def ask(i):
        deadline = time.monotonic() + 120
        while True:  # a request whose replica died under it is asked again, as a client would
            try:
                reply = requests.get("http://127.0.0.1:8123/embed", params={"sentence": texts[i]}, timeout=60)
                if reply.status_code == 200:
                    break
            except requests.RequestException:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.2)
        with lock:
            answers[i] = reply.json()

    def worker(numbers):
        for i in numbers:
            ask(i)

    threads = [threading.Thread(target=worker, args=(range(k, len(texts), 8),)) for k in range(8)]
    for each in threads:
        each.start()
    while True:
        with lock:
            processes = {answer["process"] for answer in answers.values()}
            if len(answers) > 30:
                break
        time.sleep(0.05)
    victim = sorted(processes)[0]
    os.kill(victim, signal.SIGKILL)
    for each in threads:
        each.join()
    assert len(answers) == len(texts)
    found = np.array([answers[i]["embedding"] for i in range(len(texts))], np.float32)
    # Batches are as they came: a row may be computed in another batch's blocking than the loop's.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    serve.delete("sinter")


def test_text_survives_its_replicas(serve, tmp_path):
    """kill -9 of replicas while texts are streamed: each request is answered after three retries at most, with the text that it
    has without."""
    import ray_generate
    decoder = pysinter.compile(str(ROOT / "models/tiny/decoder.onnx"), target="cpu", threads=1, serve={"block": 4, "sequences": 8})
    decoder.save(tmp_path / "decoder.plan")
    bodies = [{"prompt": [i % 11 + 1, i % 7 + 1], "max_tokens": 40 + i % 9, "seed": i, "temperature": float(i % 2)}
              for i in range(100)]
    with pysinter.Engine(decoder, cache_bytes=1 << 20) as engine:
        expected = [engine.generate(body["prompt"], **{k: v for k, v in body.items() if k != "prompt"}).tokens for body in bodies]
    ray_generate.deploy(str(tmp_path / "decoder.plan"), replicas=2, cache_bytes=1 << 20)
    address, answers, killed, done = "http://127.0.0.1:8123/generate", [], set(), threading.Event()
    for wrong in ({"warmth": 1}, {"temperature": -1}, {"n": 2}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ray_generate.ask(address, {"prompt": [1], **wrong})

    def asks(number):
        while not done.is_set():
            parts, retries = ray_generate.ask(address, bodies[number % 100])
            assert [token for part in parts for token in part["tokens"]] == expected[number % 100], number
            (process,) = {part["process"] for part in parts}
            answers.append((process, retries))
            number += 16

    def kills():
        # Until a request was under way on a replica that died: most are quicker.
        while len(killed) < 2 or not any(retries for _, retries in answers):
            assert len(killed) < 10
            wait_for_two()
            victim = max(process for process, _ in answers if process not in killed)
            killed.add(victim)
            os.kill(victim, signal.SIGKILL)
            time.sleep(1)
        wait_for_two()

    def wait_for_two():
        deadline = time.monotonic() + 300
        while len({process for process, _ in answers[-100:]} - killed) < 2:
            assert time.monotonic() < deadline and not done.is_set()
            time.sleep(0.05)

    def run(number):
        try:
            kills() if number == 16 else asks(number)
        finally:
            done.set()

    in_threads(17, run)
    again = sum(retries > 0 for _, retries in answers)
    print(f"{len(killed)} replicas killed, {len(answers)} texts, {again} of them asked for again, "
          f"{max(retries for _, retries in answers)} times at most")
    serve.delete("sinter-text")
