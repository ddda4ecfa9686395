#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server as its users meet it: the binary, OpenAI's Python package, raw sockets, signals.

  check_clients.py --sinter build/bin/sinter [--seconds 5]

Serves the tiny decoder on the CPU, and a tiny BERT, whose vectors of texts
are compared with ONNX Runtime's. Exit code 0 if all holds. --seconds is how long clients that leave, send nonsense or ask for too
much run beside one that compares each answer with the one that its request got alone.
"""
import argparse
import contextlib
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import onnxruntime
import openai
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 64


@contextlib.contextmanager
def server(sinter, folder, *options):
    """The process and its port."""
    plan = folder / "tiny.plan"
    if not plan.exists():
        subprocess.run([sinter, "compile", ROOT / "models" / "tiny" / "decoder.onnx", "-o", plan, "--target=cpu", "--quiet",
                        f"--serve=block=4,sequences=24,positions={CONTEXT}"], check=True)
    with serving(sinter, plan, "--cache-memory=256K", *options) as ready:
        yield ready


@contextlib.contextmanager
def started(sinter, plan, *options):
    """The process, and what it says of itself."""
    process = subprocess.Popen([sinter, "serve", plan, "--port=0", "--json", "--quiet", *options],
                               stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the server ended with {process.wait()}")
            said += line
        yield process, json.loads(said)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextlib.contextmanager
def serving(sinter, plan, *options):
    """The process and its port."""
    with started(sinter, plan, *options) as (process, said):
        yield process, said["port"]


def request(i):
    return {"model": "tiny", "prompt": [i % 11 + 1, i % 7 + 1], "max_tokens": 3 + i % 30, "seed": i,
            "temperature": 0 if i % 3 == 0 else 1, "n": 2 if i % 5 == 0 else 1}


def tokens_of(answer):
    return [choice.model_extra["token_ids"] for choice in answer.choices]


def check_openai(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    whole = client.completions.create(**request(3))
    assert whole.usage.completion_tokens == sum(map(len, tokens_of(whole))), whole
    pieces = {}
    for piece in client.completions.create(**request(3), stream=True):
        for choice in piece.choices:
            pieces.setdefault(choice.index, []).extend(choice.model_extra["token_ids"])
    assert [pieces[i] for i in sorted(pieces)] == tokens_of(whole), (pieces, whole)
    for wrong, kind in (({"model": "other"}, openai.NotFoundError), ({"max_tokens": 1000}, openai.BadRequestError),
                        ({"prompt": "text"}, openai.BadRequestError)):
        try:
            client.completions.create(**{**request(1), **wrong})
        except kind as error:
            assert error.body["message"], error
        else:
            raise AssertionError(f"{wrong} was answered")


def nonsense(port, draw):
    """What a broken client sends, and how it leaves."""
    body = json.dumps({**request(draw.randrange(100)), "stream": draw.random() < 0.5, "max_tokens": 60}).encode()
    body = draw.choice([body, body[:-4], b"{" * 2000, b'{"prompt": "\xff\xfe"}', b"", body.replace(b"60", b"6000")])
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    whole = draw.choice([head + body, head + body, head[:20], b"\x00\xff" * 50, head + body + body])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(whole)
        if draw.random() < 0.5:
            connection.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection.recv(draw.choice([1, 100, 4096]))
        if draw.random() < 0.5:  # a reset in place of an end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def figures(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line.split(" ") for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name.split("{")[0]: float(value) for name, value in lines}


def check_crowd(process, client, port, seconds, most_growth):
    alone = {i: tokens_of(client.completions.create(**request(i))) for i in range(30)}
    end, failures, asked = time.monotonic() + seconds, [], [0]

    def breaks(seed):
        draw = random.Random(seed)
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionError):
                nonsense(port, draw)

    def compares(seed):
        draw = random.Random(seed)
        while time.monotonic() < end:
            i = draw.randrange(30)
            try:
                found = tokens_of(client.completions.create(**request(i)))
            except openai.RateLimitError:
                continue
            asked[0] += 1
            if found != alone[i]:
                failures.append((i, found, alone[i]))

    threads = [threading.Thread(target=body, args=(seed,)) for seed in range(6) for body in (breaks, compares)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)  # by then all has been allocated that is kept
    early = memory_of(process)
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    assert asked[0] > 0
    deadline = time.monotonic() + 20
    while (now := figures(port))["sinter_sequences_running"] + now["sinter_sequences_waiting"] > 0:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    assert now["sinter_cache_blocks_used"] == 0, now
    assert now["sinter_requests_total"] == now["sinter_requests_finished_total"], now
    late = memory_of(process)
    assert late - early < most_growth, (early, late)
    print(f"{asked[0]} answers compared, {now['sinter_requests_total']:.0f} requests in all; {early >> 20} MiB, then {late >> 20}", flush=True)


def check_turns(port):
    """More clients than are served at once, which keep their connections: each has its turn."""
    counts, end = [0] * 6, time.monotonic() + 60

    def ask(i):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while min(counts) < 10 and time.monotonic() < end:
            connection.request("POST", "/v1/completions", json.dumps(request(i)), {"Content-Type": "application/json"})
            assert connection.getresponse().read().endswith(b"}")
            counts[i] += 1
        connection.close()
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(counts) >= 10, counts
    print(f"answers of {len(counts)} clients on 2 connections: {counts}", flush=True)


def memory_of(process):
    """Bytes that are resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def check_drain(process, client):
    """A text that runs when SIGTERM comes is whole, one that is asked for later is refused; the process ends with 0."""
    answers, others = [], []

    def ask():
        try:
            answers.append(client.completions.create(model="tiny", prompt=[1, 2], max_tokens=60, n=2, seed=1))
        except (openai.APIConnectionError, openai.InternalServerError) as error:
            others.append(error)
    asks = [threading.Thread(target=ask) for _ in range(8)]
    for thread in asks:
        thread.start()
    while not answers:
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    for thread in asks:
        thread.join()
    assert process.wait(timeout=60) == 0
    assert all("shut down" in str(error) or isinstance(error, openai.APIConnectionError) for error in others), others
    for answer in answers:
        assert all(len(each) == 60 for each in tokens_of(answer)), answer


def word_pieces(path):
    """A tokenizer of BERT's kind whose ids the tiny model has: letters, and a few pieces."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + letter for letter in letters), "the", "##ing", ".", ","]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path))
    return tokenizer


def check_embeddings(sinter, folder):
    """Texts of many lengths by clients at once; each vector is that of ONNX Runtime for the text alone."""
    model, plan = ROOT / "models" / "tiny" / "bert.onnx", folder / "bert.plan"
    subprocess.run([sinter, "compile", model, "-o", plan, "--target=cpu", "--quiet"], check=True)
    tokenizer, session = word_pieces(folder / "tokenizer.json"), onnxruntime.InferenceSession(str(model))
    draw = random.Random(3)
    words = ["The", "walking", "caf\u00e9", "x,y.", "\u4e2d\u6587", "don't", "A", "quick brown"]
    texts = [" ".join(draw.choices(words, k=draw.randrange(1, 40))) for _ in range(60)]

    def expected(text):
        ids = np.array([tokenizer.encode(text).ids])
        mean = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0].mean(0)
        return mean / np.linalg.norm(mean)

    with serving(sinter, plan, f"--tokenizer={folder / 'tokenizer.json'}", "--batch-rows=16", "--batch-delay-ms=5") as (_, port):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        found = {}

        def ask(share):
            for first in range(0, len(share), 3):
                some = share[first:first + 3]
                answer = client.embeddings.create(model="bert", input=some)  # base64, as the package asks for
                found.update(zip(some, (each.embedding for each in answer.data)))
        threads = [threading.Thread(target=ask, args=(texts[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for text in texts:
            np.testing.assert_allclose(found[text], expected(text), atol=1e-5)
        runs, rows = (figures(port)[f"sinter_inference_{name}_total"] for name in ("runs", "rows"))
        assert runs < rows == len(texts), (runs, rows)
    # Texts that are too long are cut as tokenizer.json says, and the answer says which.
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    with serving(sinter, plan, f"--tokenizer={folder / 'tokenizer.json'}") as (_, port):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        for each, text in zip(client.embeddings.create(model="bert", input=texts[:20], encoding_format="float").data, texts):
            np.testing.assert_allclose(each.embedding, expected(text), atol=1e-5)
            tokenizer.no_truncation()
            assert getattr(each, "truncated", False) == (len(tokenizer.encode(text).ids) > 8), text
            tokenizer.enable_truncation(8)
    print(f"{len(texts)} vectors compared, {runs:.0f} runs", flush=True)


def letters(path):
    """A tokenizer of bytes whose ids the tiny decoder has: what is printable, and the end of a text."""
    alphabet = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["\u0120"]  # the last stands for a blank
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(path))


def check_constraints(client):
    """Texts of a decoder with random weights are what was asked for, or a beginning of it; what cannot be is refused."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "maximum": 99},
                                               "kind": {"enum": ["cat", "dog"]}}, "required": ["name", "age", "kind"]}
    ask = lambda **more: client.completions.create(**{"model": "tiny", "prompt": "Hi", "max_tokens": 60, "temperature": 1, **more})
    whole = 0
    for seed in range(12):
        wanted = {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema, "strict": True}}
        for choice in ask(seed=seed, n=2, extra_body={"response_format": wanted}).choices:
            if choice.finish_reason != "stop":
                continue  # blanks up to the most tokens
            found = json.loads(choice.text)
            whole += 1
            assert list(found) == list(schema["properties"]) and len(found["name"]) <= 6, found
            assert isinstance(found["age"], int) and found["age"] <= 99 and found["kind"] in ("cat", "dog"), found
    assert whole > 0, "no text ended"
    for more, pattern in (({"guided_regex": "[a-f]{3,9}!"}, "[a-f]{3,9}!"), ({"guided_choice": ["yes", "no"]}, "yes|no"),
                          ({"structured_outputs": {"regex": "(ab)+c"}}, "(ab)+c"),
                          ({"guided_grammar": 'root ::= "x" [0-9] [0-9]'}, "x[0-9]{2}")):
        for seed in range(6):
            choice = ask(seed=seed, extra_body=more).choices[0]
            assert choice.finish_reason == "length" or re.fullmatch(pattern, choice.text), (more, choice)
        pieces = [piece.choices[0].text for piece in ask(seed=3, extra_body=more, stream=True) if piece.choices]
        assert "".join(pieces) == ask(seed=3, extra_body=more).choices[0].text
    object_alone = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], max_tokens=60, seed=2,
                                                  temperature=1, response_format={"type": "json_object"}).choices[0]
    assert object_alone.message.content.lstrip()[:1] == "{", object_alone
    if object_alone.finish_reason == "stop":
        json.loads(object_alone.message.content)
    for wrong in ({"guided_regex": "("}, {"guided_grammar": "root ::= other"},
                  {"guided_json": {"not": {}}}, {"guided_json": {"$ref": "#/nowhere"}}, {"guided_choice": []},
                  {"guided_regex": "a", "guided_choice": ["b"]}, {"response_format": {"type": "xml"}},
                  {"guided_choice": [str(i) * 20 for i in range(20000)]}):
        try:
            ask(extra_body=wrong)
        except openai.BadRequestError as error:
            assert error.body["message"] and len(error.body["message"]) < 2000, error
        else:
            raise AssertionError(f"{str(wrong)[:80]} was answered")
    # Deeper than Python writes it.
    deep = '{"type": "array", "items": ' * 3000 + "{}" + "}" * 3000
    connection = http.client.HTTPConnection("127.0.0.1", client.base_url.port)
    connection.request("POST", "/v1/completions", '{"model": "tiny", "prompt": "Hi", "guided_json": ' + deep + "}")
    assert connection.getresponse().status == 400
    assert ask(seed=1, max_tokens=3).choices  # it still answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--growth", type=int, default=64, help="MiB that the server's memory may grow by from the first quarter to the "
                        "end; a sanitizer needs more")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with server(arguments.sinter, folder) as (process, port):
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
            check_openai(client)
            check_crowd(process, client, port, arguments.seconds, arguments.growth << 20)
            assert process.poll() is None
        with server(arguments.sinter, folder) as (process, port):
            # A connection for each request: one that is kept could be closed beside a request.
            check_drain(process, openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0))
        letters(folder / "letters.json")
        (folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        with server(arguments.sinter, folder, f"--tokenizer={folder / 'letters.json'}",
                    f"--chat-template={folder / 'chat.jinja'}") as (_, port):
            check_constraints(openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0))
        with server(arguments.sinter, folder, f"--draft={folder / 'tiny.plan'}") as (_, port):
            check_openai(openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0))
            assert figures(port)["sinter_accepted_draft_tokens_total"] > 0
        with server(arguments.sinter, folder, "--connections=2") as (_, port):
            check_turns(port)
        check_embeddings(arguments.sinter, folder)
        keys = folder / "keys"
        keys.write_text("secret\n")
        with server(arguments.sinter, folder, f"--api-key-file={keys}") as (_, port):
            try:
                openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="guess").models.list()
                raise AssertionError("any key is taken")
            except openai.AuthenticationError:
                pass
            openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="secret").models.list()
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
