#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves generated text over HTTP with Ray Serve: each replica's pysinter.Engine runs all its requests at once.

  sinter compile decoder.onnx -o decoder.plan
  ray_generate.py --plan decoder.plan --tokenizer tokenizer.json --replicas 2
  curl http://127.0.0.1:8000/generate -d '{"prompt": "The sky is", "max_tokens": 20}'
  curl -N http://127.0.0.1:8000/generate -d '{"prompt": "The sky is", "max_tokens": 20, "stream": true}'

The body's other members are those of pysinter.Engine.submit(). With "stream" the answer is lines of JSON, a part each, as they come;
the last has a "finish" other than "none". A replica that dies is replaced. Its requests fail, or their streams end without such a
line: clients ask again, as ask() does, and get the same text, since a request's seed decides about it.
Both files must lie where all replicas can read them. Without --tokenizer prompts are token ids.
"""
import argparse
import http.client
import json
import os
import time
import urllib.error
import urllib.request

from ray import serve
from starlette.responses import JSONResponse, StreamingResponse

import pysinter


def as_json(part):
    return {"text": part.text, "tokens": part.tokens, "finish": part.finish, "process": os.getpid()}


@serve.deployment(max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.5})
class Generator:
    def __init__(self, plan, tokenizer, options):
        # A copy: what happens to the file does not end a replica.
        self.engine = pysinter.Engine(pysinter.load(plan, threads=1, copy=True), tokenizer=tokenizer, **options)

    async def __call__(self, request):
        try:
            body = await request.json()
            if not isinstance(body, dict) or "prompt" not in body:
                raise ValueError("an object of JSON with a prompt is wanted")
            streams = body.pop("stream", False)
            parts = self.engine.stream_async(body.pop("prompt"), **body)
            first = await anext(parts)  # what is wrong with a request is known before the answer's first line
        except (TypeError, ValueError) as error:  # pysinter.UsageError is one
            return JSONResponse({"error": str(error)}, status_code=400)
        if streams:
            return StreamingResponse(self.lines(first, parts), media_type="application/x-ndjson")
        whole = as_json(first)
        async for part in parts:
            whole |= {"text": whole["text"] + part.text, "tokens": whole["tokens"] + part.tokens, "finish": part.finish}
        return JSONResponse(whole)

    async def lines(self, first, parts):
        yield json.dumps(as_json(first)) + "\n"
        async for part in parts:
            yield json.dumps(as_json(part)) + "\n"


def deploy(plan, tokenizer=None, *, replicas=2, **options):
    """Starts the application at /generate and returns its handle when all replicas answer. `options`: pysinter.Engine's."""
    application = Generator.options(num_replicas=replicas).bind(plan, tokenizer, options)
    return serve.run(application, name="sinter-text", route_prefix="/generate")


def ask(address, body, *, retries=3, pause=0.5, timeout=60):
    """The parts of a text, as dictionaries, and how often it was asked for again. A request that a replica's death broke off is
    asked again from its beginning, `retries` times at most; one that is refused (400) is a ValueError."""
    for attempt in range(retries + 1):
        parts = []
        try:
            request = urllib.request.Request(address, json.dumps({**body, "stream": True}).encode())
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                parts = [json.loads(line) for line in answer]
        except urllib.error.HTTPError as error:
            if error.code == 400:
                raise ValueError(json.loads(error.read())["error"]) from None
        except (OSError, http.client.HTTPException, ValueError):  # no connection, a broken one, or an end within a line
            pass
        if parts and parts[-1]["finish"] != "none":
            return parts, attempt
        time.sleep(pause)
    raise ConnectionError(f"{address}: no whole answer, asked {retries + 1} times")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--tokenizer", help="tokenizer.json")
    p.add_argument("--replicas", type=int, default=2)
    a = p.parse_args()
    deploy(a.plan, a.tokenizer, replicas=a.replicas)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
