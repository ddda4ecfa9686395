# SPDX-License-Identifier: Apache-2.0
"""Many texts at once: the engine over a plan of compile(serve=..)."""
import json
import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import pytest
import pysinter

ROOT = Path(__file__).resolve().parents[2]
DECODER = ROOT / "models" / "tiny" / "decoder.onnx"
GREEDY = json.loads((ROOT / "tests" / "tools" / "goldens" / "greedy.json").read_text())["decoder"]


@pytest.fixture(scope="module")
def plan():
    return pysinter.compile(DECODER, target="cpu", serve={"block": 4, "sequences": 8})


@pytest.fixture
def engine(plan):
    with pysinter.Engine(plan, cache_bytes=1 << 20) as engine:
        yield engine


def test_texts_of_many_are_those_of_each(engine):
    prompts = [case["prompt"] for case in GREEDY] * 5
    texts = engine.generate(prompts, max_tokens=len(GREEDY[0]["tokens"]))
    for i, text in enumerate(texts):
        assert text.tokens == GREEDY[i % len(GREEDY)]["tokens"]
        assert text.finish == "length" and text.text == ""
    stats = engine.stats()
    assert stats["finished"] == len(prompts) and stats["running"] == 0 and stats["used_blocks"] == 0
    assert stats["step_sequences"] > stats["steps"]


def test_one_prompt_gives_one_text_and_samples_a_list(engine):
    case = GREEDY[0]
    assert engine.generate(case["prompt"], max_tokens=3).tokens == case["tokens"][:3]
    both = engine.generate(case["prompt"], max_tokens=3, n=2, temperature=2.0, seed=5, logprobs=1)
    assert len(both) == 2 and all(len(text.logprobs) == 3 for text in both)


def test_parts_come_one_by_one_and_closing_cancels(engine):
    case = GREEDY[0]
    tokens = [token for part in engine.stream(case["prompt"], max_tokens=6) for token in part.tokens]
    assert tokens == case["tokens"][:6]
    stream = engine.stream(case["prompt"], max_tokens=40)
    next(stream)
    stream.close()
    engine.drain()
    assert engine.stats()["used_blocks"] == 0


def test_a_tokenizer_makes_text(plan):
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, pre_tokenizers
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:96]
    tokenizer = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    with pysinter.Engine(plan, tokenizer=tokenizer, cache_bytes=1 << 20) as engine:
        text = engine.generate("AB", max_tokens=8)
        assert text.text == tokenizer.decode(text.tokens)
        stopped = engine.generate("AB", max_tokens=8, stop=text.text[3])
        assert stopped.text == text.text[:text.text.index(text.text[3])] and stopped.finish == "stop"
    # Not only the bytes of tokens: words that are joined, a first blank that is dropped, tokens as they are.
    for decoder in (decoders.WordPiece(), decoders.Metaspace(replacement=alphabet[0]), decoders.BPEDecoder(alphabet[1])):
        tokenizer.decoder = decoder
        with pysinter.Engine(plan, tokenizer=tokenizer, cache_bytes=1 << 20) as engine:
            text = engine.generate("AB", max_tokens=8)
            assert text.text == tokenizer.decode(text.tokens) == "".join(part.text for part in engine.stream("AB", max_tokens=8))


def test_a_draft_model_changes_no_text(plan):
    draft = pysinter.compile(DECODER, target="cpu", serve={"block": 4, "sequences": 8, "few_tokens": 3}, weights="int4")
    assert [entry.name for entry in draft.entries] == ["few", "all"]
    prompts = [case["prompt"] for case in GREEDY]
    with pysinter.Engine(plan, draft=draft, cache_bytes=1 << 20) as engine:
        for i, text in enumerate(engine.generate(prompts, max_tokens=len(GREEDY[0]["tokens"]))):
            assert text.tokens == GREEDY[i]["tokens"]
        assert engine.stats()["accepted_draft_tokens"] > 0
    with pytest.raises(pysinter.UsageError, match="block"):
        pysinter.Engine(plan, draft=pysinter.compile(DECODER, target="cpu", serve={"block": 8}))


def test_constraints_hold(plan):
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, pre_tokenizers
    alphabet = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["\u0120"]
    tokenizer = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    with pysinter.Engine(plan, tokenizer=tokenizer, cache_bytes=1 << 20) as engine:
        draw = dict(max_tokens=40, temperature=1.0, seed=4)
        assert re.fullmatch("[a-c]{2,5}", engine.generate("AB", regex="[a-c]{2,5}", **draw).text)
        assert engine.generate("AB", choice=["yes", "no"], **draw).text in ("yes", "no")
        assert re.fullmatch("x[0-9]", engine.generate("AB", grammar='root ::= "x" [0-9]', **draw).text)
        found = engine.generate(["AB", "C"], json_schema={"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 3}, **draw)
        assert all(text.finish == "length" or set(json.loads(text.text)) <= {1, 2} for text in found)
        for wrong in ({"regex": "("}, {"regex": "a", "choice": ["b"]}, {"json_schema": {"not": {}}}, {"choice": []}):
            with pytest.raises(pysinter.UsageError):
                engine.generate("AB", **wrong)
    with pysinter.Engine(plan, cache_bytes=1 << 20) as engine, pytest.raises(pysinter.UsageError, match="token"):
        engine.generate([1, 2], regex="a")


def test_what_means_nothing_is_refused(engine, plan):
    with pytest.raises(pysinter.UsageError, match="tokenizer"):
        engine.generate("text")
    with pytest.raises(pysinter.UsageError, match="temperature"):
        engine.generate([1, 2], temperature=-1)
    with pytest.raises(pysinter.UsageError, match="temperature is 'hot'"):
        engine.generate([1, 2], temperature="hot")
    with pytest.raises(pysinter.UsageError, match="n is 1.5"):
        engine.submit([1, 2], print, n=1.5)
    with pytest.raises(pysinter.UsageError):
        engine.generate([1, 1000])
    for timeout in (-1, float("nan"), float("inf")):
        with pytest.raises(pysinter.UsageError, match="timeout"):
            engine.generate([1, 2], timeout=timeout)
    with pytest.raises(pysinter.UsageError, match="serve"):
        pysinter.Engine(pysinter.compile(DECODER, target="cpu", serve=False))
    with pytest.raises(pysinter.UsageError, match="power of two"):
        pysinter.compile(DECODER, target="cpu", serve="block=3")
    closed = pysinter.Engine(plan, cache_bytes=1 << 20)
    closed.close()
    with pytest.raises(pysinter.UsageError, match="closed"):
        closed.generate([1, 2])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_of_a_callback_cancels_its_request(engine):
    def fails(*_):
        raise RuntimeError("no")
    engine.submit(GREEDY[0]["prompt"], fails, max_tokens=20)
    assert engine.generate(GREEDY[1]["prompt"], max_tokens=4).tokens == GREEDY[1]["tokens"][:4]
    engine.drain()
    assert engine.stats()["used_blocks"] == 0


def test_parts_in_an_event_loop(engine):
    import asyncio

    async def text(case):
        return [token async for part in engine.stream_async(case["prompt"], max_tokens=6) for token in part.tokens]

    async def all_at_once():
        texts = await asyncio.gather(*(text(case) for case in GREEDY))
        assert texts == [case["tokens"][:6] for case in GREEDY]
        stream = engine.stream_async(GREEDY[0]["prompt"], max_tokens=40)
        await anext(stream)
        await stream.aclose()  # cancels
        waits = asyncio.create_task(text(GREEDY[0]))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        with pytest.raises(pysinter.UsageError, match="temperature"):
            await anext(engine.stream_async([1, 2], temperature=-1))
    asyncio.run(all_at_once())
    engine.drain()
    assert engine.stats()["used_blocks"] == 0


INTERRUPTED = """
import os, signal, sys, threading, time
import pysinter
engine = pysinter.Engine(pysinter.load(sys.argv[1]))
threading.Thread(target=lambda: (time.sleep(.3), os.kill(os.getpid(), signal.SIGINT))).start()
try:
    while True:
        engine.generate([[1, 2]] * 8, max_tokens=20)
except KeyboardInterrupt:
    stats = engine.stats()
    print("interrupted", stats["requests"] - stats["finished"] <= 8)
"""


def test_ctrl_c_ends_the_texts_and_the_process_ends_as_usual(plan, tmp_path):
    plan.save(tmp_path / "a.plan")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", INTERRUPTED, tmp_path / "a.plan"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.split() == ["interrupted", "True"], done.stderr


def test_an_interrupted_call_cancels_its_texts(engine, monkeypatch):
    monkeypatch.setattr(pysinter._engine._Texts, "next", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        engine.generate([[1, 2]] * 4, max_tokens=40)
    engine.drain()
    assert engine.stats()["finished"] == 4


def _in_fork(engine, queue):
    for use in (lambda: engine.generate([1, 2], max_tokens=2), engine.stats, engine.drain, lambda: engine.cancel(1)):
        try:
            use()
            queue.put("it worked")
        except pysinter.UsageError as error:
            queue.put(str(error))
    engine.close()


def test_an_engine_of_the_parent_says_so_in_a_child(engine):
    engine.generate([1, 2], max_tokens=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_fork, args=(engine, queue))
    child.start()
    assert all("fork" in queue.get(timeout=60) for _ in range(4))
    child.join(60)
    assert child.exitcode == 0
    assert engine.generate([1, 2], max_tokens=2).finish == "length"


def test_without_a_limit_a_text_fills_its_positions(plan):
    with pysinter.Engine(plan, cache_bytes=1 << 20) as engine:
        text = engine.generate([1, 2, 3], max_tokens=None)
        assert text.finish == "length" and len(text.tokens) > 20
