#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service of embeddings (`sinter serve`, /v1/embeddings): many clients against one after the other.

  models/fetch.py minilm && models/build_minilm.py       make the model
  run_embeddings.py --model models/cache/minilm.onnx --tokenizer TOKENIZER.json --out tests/perf/results/embeddings_h200.json

Texts are of 5 to 200 tokens, a request each, over connections that are kept. `one_by_one`: one client, a server that gathers
nothing; `together`: --clients at once, in eight processes, a server with --batch-rows. Times are of the wall; every vector of the second is compared
with the first's.
"""
import argparse
import base64
import http.client
import json
import multiprocessing
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from common import ROOT, provenance, sinter_json, write

PROCESSES = 8  # of clients
WORDS = ("time river stone letter garden engine morning paper winter signal number window travel market silver theory memory "
         "ocean planet kitchen music doctor story bridge animal colour science village summer history").split()


def texts_of(count):
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, size)) for size in draw.integers(3, 199, count)]  # two tokens are put around


def start(sinter, plan, tokenizer, *options):
    process = subprocess.Popen([sinter, "serve", f"minilm={plan}", f"--tokenizer={tokenizer}", "--port=0", "--json", "--quiet",
                                *options], stdout=subprocess.PIPE, text=True)
    said = ""
    while not said.endswith("}\n"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended with {process.wait()}")
        said += line
    return process, json.loads(said)["port"]


def ask(port, texts, vectors, times):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for i, text in texts:
        began = time.perf_counter()
        connection.request("POST", "/v1/embeddings", json.dumps({"input": text, "encoding_format": "base64"}))
        answer = json.loads(connection.getresponse().read())
        times.append(time.perf_counter() - began)
        vectors[i] = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), np.float32)


def be_clients(port, shares, begin):
    """A process of some of the clients: one alone cannot ask often enough. Vectors by text, times, when the last had ended."""
    vectors, times = {}, []
    threads = [threading.Thread(target=ask, args=(port, share, vectors, times)) for share in shares]
    begin.wait()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return vectors, times, time.time()


def figures(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return {line.split("{")[0]: float(line.split(" ")[1]) for line in lines if not line.startswith("#") and "{" in line}


def measure(port, texts, clients, repeat):
    best = None
    for _ in range(repeat + 1):  # the first captures graphs of new shapes
        vectors, times = {}, []
        before = figures(port)
        shares = [list(enumerate(texts))[i::clients] for i in range(clients)]
        processes = min(clients, PROCESSES)
        with multiprocessing.Manager() as manager, ProcessPoolExecutor(processes) as pool:
            begin = manager.Barrier(processes + 1)
            parts = [pool.submit(be_clients, port, shares[i::processes], begin) for i in range(processes)]
            begin.wait()
            began = time.time()
            ends = []
            for part in parts:
                own, took, ended = part.result()
                vectors.update(own)
                times += took
                ends.append(ended)
        seconds = max(ends) - began
        runs = figures(port)["sinter_inference_runs_total"] - before["sinter_inference_runs_total"]
        row = {"texts_per_s": round(len(texts) / seconds, 1), "runs": int(runs), "median_ms": round(float(np.median(times)) * 1e3, 3),
               "p99_ms": round(float(np.quantile(times, 0.99)) * 1e3, 3)}
        if best is None or row["texts_per_s"] > best["texts_per_s"]:
            best = row
    return best, vectors


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--model", required=True)
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--target", default="auto")
    p.add_argument("--precision", default="fp16")
    p.add_argument("--texts", type=int, default=1000)
    p.add_argument("--clients", type=int, default=64)
    p.add_argument("--batch-rows", type=int, default=64)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    texts, result = texts_of(a.texts), {**provenance(a.commit), "clients": a.clients, "batch_rows": a.batch_rows}
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "minilm.plan"
        sinter_json(a.sinter, "compile", a.model, "-o", plan, f"--target={a.target}", f"--precision={a.precision}")
        ways = {"one_by_one": (1, []), "together": (a.clients, [f"--batch-rows={a.batch_rows}", "--batch-delay-ms=0.5"])}
        vectors = {}
        for way, (clients, options) in ways.items():
            process, port = start(a.sinter, plan, a.tokenizer, *options)
            result[way], vectors[way] = measure(port, texts, clients, a.repeat)
            process.terminate()
            process.wait()
            print(way, result[way], flush=True)
    apart = [1 - float(vectors["one_by_one"][i] @ vectors["together"][i]) for i in range(len(texts))]
    result["largest_cosine_distance"] = max(apart)
    result["speedup"] = round(result["together"]["texts_per_s"] / result["one_by_one"]["texts_per_s"], 2)
    print({key: result[key] for key in ("largest_cosine_distance", "speedup")})
    if a.out:
        write(a.out, result)


if __name__ == "__main__":
    main()
