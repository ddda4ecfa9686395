#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Llama-style decoders that serve many requests at once on a GPU (`compile --serve`, `generate --requests`).

  run_serving.py --out tests/perf/results/serving_h200.json
  run_serving.py --sizes 1b --work decode_1,decode_64 --ways f16 --out part.json   results are added to a file of the same commit

decoder_models.py makes the models: random weights, all layers. Prompts are random tokens; texts run to their
full length. Work:
  offline_128_128   256 requests at once, 128 tokens in and 128 out; offline_2048_2048 likewise
  decode_1 .. _256  1 to 256 requests of 32 tokens in, 256 out: the time between tokens
  prefix            64 requests whose prompts of 1,280 tokens begin with the same 1,152, 32 out; and without the prefix cache
  invariance        64 requests of 64 in, 64 out, all at once and one by one: how many texts are equal
  poisson           arrivals at 70 % of the rate of offline_128_128, 256 requests of 128 in, 128 out
Times are of the wall, in milliseconds, by the engine's callbacks. `idle_share`: of the time, how long no step ran though there
were requests. --sampling: how tokens are drawn. A way is how a plan is compiled, of decoder_models.py.
"""
import argparse
import dataclasses
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from common import ROOT, provenance, write
from decoder_models import SIZES, WAYS, compile_ways, shared_weights, write_decoder

POSITIONS = 4352
WORK = ["offline_128_128", "offline_2048_2048", "decode_1", "decode_8", "decode_64", "decode_256", "prefix", "invariance", "poisson"]


def requests_of(work, vocabulary, rate=0):
    """Lines of the file of requests."""
    draw = np.random.default_rng(2)
    ids = lambda count: draw.integers(0, vocabulary, count).tolist()
    kind, *numbers = work.split("_")
    if kind == "offline":
        return [{"ids": ids(int(numbers[0])), "max_tokens": int(numbers[1])} for _ in range(256)]
    if kind == "decode":
        return [{"ids": ids(32), "max_tokens": 256} for _ in range(int(numbers[0]))]
    if kind == "invariance":
        return [{"ids": ids(64), "max_tokens": 64} for _ in range(64)]
    if kind == "prefix":
        shared = ids(1152)
        return [{"ids": shared + ids(128), "max_tokens": 32} for _ in range(64)]
    arrivals = np.cumsum(draw.exponential(1000 / rate, 256))
    return [{"ids": ids(128), "max_tokens": 128, "arrival_ms": float(at)} for at in arrivals]


def generate(sinter, plan, lines, folder, *options):
    """The report of `sinter generate --requests` over such lines."""
    file = folder / "requests.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([sinter, "generate", str(plan), "--requests", str(file), "--json", "--quiet", *options],
                          capture_output=True, text=True)
    result = json.loads(done.stdout) if done.stdout else {}
    errors = [answer["error"] for answer in result.get("answers", []) if "error" in answer]
    if done.returncode != 0:
        raise RuntimeError(" ".join([done.stderr, *errors[:1]])[-600:])
    return result


def serve(sinter, plan, lines, folder, *options):
    result = generate(sinter, plan, lines, folder, *options)
    keep = ("requests", "seconds", "tokens", "tokens_per_s", "requests_per_s", "steps", "sequences_a_step", "tokens_a_step",
            "idle_share", "preemptions", "prefix_hit_tokens", "blocks", "cache_bytes")
    row = {key: round(result[key], 4) if isinstance(result[key], float) else result[key] for key in keep}
    for name in ("first_token_ms", "between_tokens_ms"):
        row[name] = {key: round(result[name][key], 3) for key in ("median", "p90", "p99")}
    return row, [answer["tokens"] for answer in result["answers"]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cuda")
    p.add_argument("--sizes", default="8b", help=f"of {', '.join(SIZES)}")
    p.add_argument("--work", default=",".join(WORK))
    p.add_argument("--ways", default="f16,w8a8_cache8", help=f"of {', '.join(WAYS)}")
    p.add_argument("--paging", default="", help="what --serve= is given")
    p.add_argument("--sampling", type=json.loads, default={}, help='of every request, as \'{"temperature": 1, "top_p": 0.95}\'; else greedy')
    p.add_argument("--options", default="", help="more options of generate, divided by blanks")
    p.add_argument("--compile-options", default="", help="more options of compile, divided by blanks, as --tuning-cache=FILE")
    p.add_argument("--compile-only", action="store_true", help="no GPU is needed, with --target=cuda:sm_90")
    p.add_argument("--jobs", type=int, default=3, help="compilers at a time")
    p.add_argument("--deadline", type=float, default=500, help="seconds after which nothing new starts")
    p.add_argument("--folder", type=Path, help="where models and plans go; they stay there, and are used again")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    began = time.perf_counter()
    result = {**provenance(a.commit), "sampling": a.sampling, "serving": {}}
    if a.out and a.out.exists():
        before = json.loads(a.out.read_text())
        if before["commit"] == result["commit"]:
            result["serving"] = before["serving"]

    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in a.sizes.split(","):
            config, distinct = SIZES[size]
            config = dataclasses.replace(config, positions=POSITIONS)
            model = folder / f"{size}.onnx"
            if not model.exists():
                write_decoder(model, config, shared_weights(config, distinct, folder / f"{size}.weights"))
            paging = f"--serve=positions={POSITIONS}" + ("," + a.paging if a.paging else "")

            def compile_plan(way):
                plan = folder / f"{size}.{way}.serve.plan"
                if plan.exists():
                    return plan
                done = subprocess.run([a.sinter, "compile", model, "-o", plan, f"--target={a.target}", paging, *WAYS[way],
                                       *a.compile_options.split()],
                                      capture_output=True, text=True)
                if done.returncode != 0:
                    raise RuntimeError(done.stderr[-600:])
                return plan

            made, failed = compile_ways(a.ways.split(","), compile_plan, a.jobs)
            for way, error in failed.items():
                result["serving"].setdefault(f"{size}_{way}", {})["failed"] = error
                print(size, way, error, flush=True)
            print(f"compiled after {time.perf_counter() - began:.0f} s", flush=True)
            for way, plan in made.items():
                rows = result["serving"].setdefault(f"{size}_{way}", {})
                for work in [] if a.compile_only else a.work.split(","):
                    if time.perf_counter() - began > a.deadline:
                        break
                    rate = 0.7 * rows.get("offline_128_128", {}).get("requests_per_s", 10)
                    lines = [{**line, **a.sampling} for line in requests_of(work, config.vocabulary, rate)]
                    try:
                        rows[work], texts = serve(a.sinter, plan, lines, folder, *a.options.split())
                        if work == "prefix":
                            rows["prefix_off"], _ = serve(a.sinter, plan, lines, folder, "--no-prefix-cache", *a.options.split())
                            rows[work]["times_as_fast"] = round(rows["prefix_off"]["seconds"] / rows[work]["seconds"], 3)
                        if work == "invariance":
                            _, alone = serve(a.sinter, plan, lines, folder, "--sequences=1", *a.options.split())
                            rows[work]["equal_texts"] = sum(x == y for x, y in zip(texts, alone))
                    except RuntimeError as error:
                        rows[work] = {"failed": str(error)}
                    print(f"{size}_{way:16} {work:18} {rows[work]} ({time.perf_counter() - began:.0f} s)", flush=True)
                    if a.out:
                        write(a.out, result)


if __name__ == "__main__":
    main()
