#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves sentence embeddings over HTTP with Ray Serve: replicas hold a plan each and run requests in batches.

  ray_serve.py --plan minilm.plan --tokenizer tokenizer.json --replicas 2
  curl 'http://127.0.0.1:8000/embed?sentence=A+cat'

Requests that arrive within a few milliseconds of each other are one call of the plan. A replica that dies is replaced.
Both files must lie where all replicas can read them.
"""
import argparse
import os
import time

import numpy as np
from ray import serve

import pysinter
from ray_batch import encode, make_tokenizer


@serve.deployment(max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.5})
class Embedder:
    def __init__(self, plan, tokenizer):
        # A copy: what happens to the file does not end a replica.
        self.plan, self.tokenizer = pysinter.load(plan, threads=1, copy=True), make_tokenizer(tokenizer)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.005)
    async def embed(self, sentences: list[str]) -> list[np.ndarray]:
        # The event loop goes on taking requests while the plan runs.
        return list(await self.plan.call_async(**encode(sentences, self.tokenizer)))

    async def __call__(self, request):
        embedding = await self.embed(request.query_params["sentence"])
        return {"embedding": embedding.tolist(), "process": os.getpid()}


def deploy(plan, tokenizer, *, replicas=2):
    """Starts the application at /embed and returns its handle when all replicas answer."""
    application = Embedder.options(num_replicas=replicas).bind(plan, tokenizer)
    return serve.run(application, name="sinter", route_prefix="/embed")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--tokenizer", required=True, help="tokenizer.json")
    p.add_argument("--replicas", type=int, default=2)
    a = p.parse_args()
    deploy(a.plan, a.tokenizer, replicas=a.replicas)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
