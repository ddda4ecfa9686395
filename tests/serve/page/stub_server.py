#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that speaks as much of the API as the page uses, with texts that tests ask for; and a proxy that puts a server below a prefix.

  stub_server.py [--port 8000]      serves the page's files as they lie in tools/serve/page, for work on the page
"""
import argparse
import contextlib
import hashlib
import http.client
import json
import math
import re
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "tools" / "serve" / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SAMPLING = {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.0, "repetition_penalty": 1.1, "presence_penalty": 0.0, "frequency_penalty": 0.0}
MODELS = [
    {"id": "smollm2", "tasks": ["chat", "completion"], "prompt": "text", "max_model_len": 8192, "tool_calls": "hermes", "sampling": SAMPLING},
    {"id": "qwen3", "tasks": ["chat", "completion"], "prompt": "text", "max_model_len": 40960, "tool_calls": "hermes", "sampling": SAMPLING},
    {"id": "base", "tasks": ["completion"], "prompt": "text", "max_model_len": 1024, "tool_calls": None, "sampling": SAMPLING},
    {"id": "minilm", "tasks": ["embedding", "inference"], "prompt": "text", "max_model_len": 256},
    {"id": "reranker", "tasks": ["ranking", "inference"], "prompt": "text", "max_model_len": 512},
    {"id": "whisper", "tasks": ["transcription"]},
    {"id": "vision", "tasks": ["inference"]},
]
XSS = """<script>window.owned = 1</script>

<img src=x onerror="window.owned = 2"> and <svg onload="window.owned = 3"></svg> in a line

[a link](javascript:window.owned=4) [data](data:text/html,<script>window.owned=5</script>) ![image](x" onerror="window.owned=6) ![shown](https://example.com/pixel.png)

<a href="javascript:window.owned=7" style="color: red" onclick="window.owned=8">click</a>

<iframe srcdoc="<script>parent.owned = 9</script>"></iframe><form action="https://example.com"><input name="attributes"></form>

```"><script>window.owned=10</script>
<script>window.owned = 11</script>
```

| a | b |
|---|---|
| <style>* { display: none }</style> | <math><mtext></table><img src=x onerror=window.owned=12> |

[ref]: javascript:window.owned=13
[ref] and <https://example.com/a> &lt;script&gt; <b onmouseover=window.owned=14>bold</b>
"""
MARKDOWN = """## Merging two sorted vectors

The standard library has `std::merge`, which is **linear** in both lengths:

```cpp
#include <algorithm>
#include <vector>

// Both inputs are sorted; so is the result.
std::vector<int> merged(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> result;
  result.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}
```

1. It compares each pair of heads once.
2. Elements of `a` stay in front of equal ones of `b`: the merge is stable.

| way | time | memory |
|---|---|---|
| `std::merge` | O(n + m) | O(n + m) |
| sort of both | O((n + m) log(n + m)) | O(1) |
"""


def long_answer(words):
    """Headings, paragraphs, a list, a table and code, of that many words."""
    parts, count, section = [], 0, 0
    while count < words:
        section += 1
        text = f"## Part {section}\n\n" + " ".join(f"Sentence {i} of *part* {section} says **something** with `code`." for i in range(14)) + "\n\n"
        text += "".join(f"- item {i} of a list\n" for i in range(12)) + "\n```python\n"
        text += "".join(f"def function_{i}(x):\n    return x + {i}  # a comment\n" for i in range(8)) + "```\n\n| a | b |\n|---|---|\n"
        text += "".join(f"| {i} | {i * i} |\n" for i in range(8)) + "\n"
        parts.append(text)
        count += len(re.findall(r"\S+\s*", text))
    return "".join(parts)


def long_block(kind, words):
    """All of it one block: what is rendered again and again if anything is."""
    if kind == "list":
        return "".join(f"{i}. Item {i} with some *words* and `code`\n" for i in range(1, words // 9))
    if kind == "table":
        return "| number | square | words |\n|---|---|---|\n" + "".join(f"| {i} | {i * i} | some **words** |\n" for i in range(words // 8))
    if kind == "code":
        return "```python\n" + "".join(f"def function_{i}(x, y):\n    return x + y * {i}  # a comment\n" for i in range(words // 12)) + "```\n"
    return " ".join(f"Sentence {i} says **something** with `code` and a [link](https://example.com)." for i in range(words // 10))


def policy():
    """The header that the server sends, of its source."""
    source = (ROOT / "tools" / "serve" / "page.cpp").read_text()
    return "".join(re.findall(r'"([^"]*)"', source.split("kPolicy =")[1].split(";\n")[0]))


def vector_of(text):
    """Of length 1; texts with like letters are near."""
    counts = [0.05] * 32
    for word in text.lower().split():
        counts[hashlib.md5(word[:4].encode()).digest()[0] % 32] += 1
    length = math.sqrt(sum(x * x for x in counts))
    return [x / length for x in counts]


class Stub:
    """What requests change, and what tests set."""

    def __init__(self, key=None, models=None, rate=0):
        self.key, self.rate = key, rate  # tokens a second; 0: as fast as it goes
        self.models = MODELS if models is None else models
        self.requests, self.cancelled = [], 0
        self.generated = self.prompts = self.hits = self.running = 0

    def text_for(self, body):
        """The answer to the last message, and calls of tools."""
        messages = body["messages"]
        last = messages[-1]
        if last["role"] == "tool":
            return f"The tool says {last['content']}.", []
        asked = last["content"]
        if body.get("tools") and "weather" in asked:
            return "", [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
        if body.get("response_format", {}).get("type") == "json_schema":
            return '{"name": "Ada", "age": 36}', []
        if asked.startswith("block "):
            return long_block(asked.split()[1], 4000), []
        for word, text in (("xss", XSS), ("markdown", MARKDOWN), ("long", long_answer(4000)), ("slow", "word " * 400), ("short", "A short answer."),
                           ("think", "<think>\nFirst **this**.\n</think>\n\nThen that.")):
            if word in asked:
                return text, []
        turn = sum(1 for message in messages if message["role"] == "user")
        return f"Answer {len(self.requests)} of {body['model']} to turn {turn}: {asked}", []

    def metrics(self):
        lines = []
        for model in self.models:
            if "completion" in model["tasks"]:
                figures = {"generated_tokens_total": self.generated, "prompt_tokens_total": self.prompts, "sequences_running": self.running, "sequences_waiting": 0,
                           "cache_blocks": 400, "cache_blocks_used": 40 + 30 * self.running, "cache_blocks_cached": 25, "prefix_tokens_total": self.prompts,
                           "prefix_hit_tokens_total": self.hits, "time_to_first_token_seconds_sum": 0.04 * len(self.requests),
                           "time_to_first_token_seconds_count": len(self.requests), "time_between_tokens_seconds_sum": self.generated * 0.01,
                           "time_between_tokens_seconds_count": self.generated}
            else:
                figures = {"inferences_total": len(self.requests), "inferences_running": 0, "inferences_waiting": 0, "inference_rows_total": len(self.requests),
                           "inference_runs_total": len(self.requests), "inference_run_seconds_sum": 0.01 * len(self.requests), "inference_run_seconds_count": len(self.requests)}
            lines += [f'sinter_{name}{{model="{model["id"]}"}} {value}' for name, value in figures.items()]
        return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def stub(self):
        return self.server.stub

    def answer(self, body, content_type="application/json", status=200, headers=()):
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message):
        self.answer({"error": {"message": message, "type": "invalid_request_error"}}, status=status)

    def is_refused(self):
        if self.stub.key and self.headers.get("Authorization") != f"Bearer {self.stub.key}":
            self.refuse(401, "a key is needed")
            return True
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/" or path.startswith("/page/"):
            return self.page("index.html" if path == "/" else path[len("/page/"):])
        if self.is_refused():
            return None
        if path == "/v1/models":
            return self.answer({"object": "list", "data": [{"object": "model", "created": 1, "ready": True, **model} for model in self.stub.models]})
        if path == "/metrics":
            return self.answer(self.stub.metrics(), "text/plain")
        if path.startswith("/v2/models/"):
            return self.answer({"name": path.split("/")[3], "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 3, 4, 4]}, {"name": "count", "datatype": "INT64", "shape": [2]}],
                                "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 5]}]})
        return self.refuse(404, "no such route")

    def page(self, name):
        file = PAGE / name
        if not file.is_file() or PAGE not in file.resolve().parents:
            return self.refuse(404, "no such file")
        return self.answer(file.read_bytes(), TYPES.get(file.suffix, "text/plain"), headers=[("Content-Security-Policy", policy())])

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.is_refused():
            return None
        path = self.path
        if path.startswith("/v1/audio/"):
            self.stub.requests.append({"path": path, "form": data})
            return self.answer({"text": f" {len(data)} bytes were heard.", "language": "english", "duration": 2.5,
                                "segments": [{"id": 0, "start": 0.0, "end": 2.5, "text": f" {len(data)} bytes were heard."}]})
        if path.startswith("/v2/models/"):
            return self.infer(data)
        body = json.loads(data)
        self.stub.requests.append(body)
        if path == "/v1/embeddings":
            return self.answer({"data": [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(body["input"])]})
        if path == "/v1/rerank":
            query = vector_of(body["query"])
            scores = [sum(a * b for a, b in zip(query, vector_of(text))) for text in body["documents"]]
            return self.answer({"results": [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]})
        if path == "/v1/completions":
            pieces = re.findall(r"\s*\S+", " and so the text goes on, word for word, until it ends.")
            return self.stream(body, [({"text": piece}, None) for piece in pieces], "logprobs" in body)
        if path == "/v1/chat/completions":
            if body["messages"][-1]["content"] == "fail":
                return self.refuse(400, "'messages' cannot be answered: <b>this</b> is the reason")
            text, calls = self.stub.text_for(body)
            pieces = [({"delta": {"content": piece}}, None) for piece in re.findall(r"\S+\s*|\s+", text)]
            if calls:
                pieces.append(({"delta": {"tool_calls": calls}}, "tool_calls"))
            return self.stream(body, pieces, body.get("logprobs"))
        return self.refuse(404, "no such route")

    def infer(self, data):
        head = int(self.headers["Inference-Header-Content-Length"])
        request = json.loads(data[:head])
        self.stub.requests.append(request)
        at, sums = head, []
        for tensor in request["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            values = struct.unpack(f"<{size // 4}f" if tensor["datatype"] == "FP32" else f"<{size // 8}q", data[at:at + size])
            sums.append(sum(values))
            at += size
        out = struct.pack("<5f", sums[0], sums[1] if len(sums) > 1 else 0, 0.5, -1, 2)
        text = json.dumps({"outputs": [{"name": "logits", "datatype": "FP32", "shape": [1, 5], "parameters": {"binary_data_size": len(out)}}]}).encode()
        self.answer(text + out, "application/octet-stream", headers=[("Inference-Header-Content-Length", str(len(text)))])

    def stream(self, body, pieces, has_logprobs):
        stub = self.stub
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        stub.running += 1
        stub.prompts += 40
        stub.hits += 30
        began = time.monotonic()
        most = body.get("max_tokens", 1 << 30)
        try:
            for i, (piece, finish) in enumerate(pieces[:most]):
                if stub.rate and (wait := began + i / stub.rate - time.monotonic()) > 0:
                    time.sleep(wait)
                text = piece.get("text") or piece.get("delta", {}).get("content") or ""
                choice = {"index": 0, **piece, "token_ids": [i], "finish_reason": finish, "logprobs": None}
                if has_logprobs and "delta" in piece:
                    near = [{"token": name, "logprob": math.log(p)} for name, p in ((text, 0.6 if i % 3 else 0.1), (" other", 0.25), ("<b>", 0.1))]
                    choice["logprobs"] = {"content": [{"token": text, "logprob": near[0]["logprob"], "bytes": None, "top_logprobs": near}]}
                elif has_logprobs:
                    choice["logprobs"] = {"tokens": [text], "token_logprobs": [-0.4], "top_logprobs": [{text: -0.4, "x": -1.2}], "text_offset": [0]}
                stub.generated += 1
                self.event({"choices": [choice]})
            last = {"index": 0, "token_ids": [], "finish_reason": "length" if len(pieces) > most else "stop"}
            if not (pieces and pieces[-1][1]):
                self.event({"choices": [{**last, "text": "", "delta": {}}]})
            self.event({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": len(pieces)}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            stub.cancelled += 1
        finally:
            stub.running -= 1
            self.close_connection = True

    def event(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # browsers leave


@contextlib.contextmanager
def served(handler, **members):
    """A server in a thread: its port."""
    server = Server(("127.0.0.1", 0), handler)
    for name, value in members.items():
        setattr(server, name, value)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def stub_server(stub):
    return served(Handler, stub=stub)


class Proxy(BaseHTTPRequestHandler):
    """Everything below /some/prefix/ is the server's; there is nothing else."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self):
        if not self.path.startswith("/some/prefix/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.request(self.command, self.path[len("/some/prefix"):], body, dict(self.headers))
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read1():
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True

    do_GET = do_POST = forward


def prefix_proxy(port):
    return served(Proxy, port=port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    server = Server(("127.0.0.1", arguments.port), Handler)
    server.stub = Stub(rate=60)
    print(f"http://127.0.0.1:{arguments.port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
