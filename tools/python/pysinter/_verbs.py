# SPDX-License-Identifier: Apache-2.0
"""The verbs of the `sinter` command that are Python's: `run` over Parquet, `embed` of rows (--inputs) and `triton`."""
from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ._errors import Error, UsageError
from ._progress import Bar

# As those of the verbs in C++.
EXIT_CODES = {"usage": 2, "unsupported": 3, "invalid_model": 4, "invalid_plan": 5, "out_of_memory": 6, "device": 7,
              "internal": 70, "cancelled": 130}
INTERRUPTED = 130


def is_ours(words: list[str]) -> bool:
    """Whether the verb and its files are for this module."""
    verb = next((word for word in words if not word.startswith("-")), None)
    inputs = list(_values(words, "--inputs"))
    return verb == "triton" or verb == "embed" and bool(inputs) or verb == "run" and any(_is_parquet(word) for word in inputs)


def _values(words, option):
    for place, word in enumerate(words):
        if word.startswith(option + "="):
            yield word.partition("=")[2]
        if word == option and place + 1 < len(words):
            yield words[place + 1]


def _is_parquet(path):
    return path.endswith(".parquet") or Path(path).is_dir()


def main(words: list[str]) -> int:
    # Ctrl-C ends the stages and removes what is half written, with one message.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # Flags of all verbs may come first, as in the verbs of C++.
        verb = next(place for place, word in enumerate(words) if not word.startswith("-"))
        arguments = _parser().parse_args([*words[verb:], *words[:verb]])
        report = arguments.call(arguments)
    except Error as error:
        return _fail(words, error.code, str(error))
    except MemoryError:
        return _fail(words, "out_of_memory", "out of host memory")
    except OSError as error:
        return _fail(words, "usage", str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    if arguments.json:
        print(json.dumps(report, indent=2))
    return 0


def _fail(words, code, message):
    print(f"error: {message}", file=sys.stderr)
    if "--json" in words:
        print(json.dumps({"error": {"code": code, "message": message}}))
    return EXIT_CODES.get(code, 70)


def _parser():
    top = argparse.ArgumentParser(prog="sinter")
    verbs = top.add_subparsers(required=True)
    run = verbs.add_parser("run", help="run a plan over the rows of a Parquet file",
                           description="Runs a plan over the rows of a Parquet file: row groups are read, copied and "
                           "computed at once. Other inputs than Parquet are `sinter run` of the command itself.")
    run.add_argument("plan")
    run.add_argument("--inputs", required=True, help="a .parquet file, or a folder of them")
    run.add_argument("--outputs", required=True, help=".parquet file with a column for each output")
    run.add_argument("--columns", action="append", default=[], metavar="INPUT=A,B,..",
                     help="the columns that an input takes, several side by side; '*': all; once for each input. "
                     "Others take the column of their own name")
    run.add_argument("--nulls", choices=("refuse", "nan"), default="refuse", help="what a null becomes (refuse)")
    run.add_argument("--mask", action="append", default=[], metavar="INPUT=MASK",
                     help="the input MASK is given 1 where INPUT has a value and 0 where it has a null")
    run.add_argument("--cast", action="store_true", help="convert numbers to the type of the input")
    run.add_argument("--keep", default="", metavar="A,B,..", help="columns to write beside the outputs")
    run.add_argument("--batch-rows", type=int, help="rows of a run (65536, or the most that the plan takes)")
    _common(run)
    run.set_defaults(call=_run)
    embed = verbs.add_parser("embed", help="embed a column of texts",
                             description="Embeds a column of texts: tokenizes, runs the plan over texts of like length "
                             "together, pools and normalises as the model's sentence-transformers files say.")
    embed.add_argument("plan")
    embed.add_argument("--inputs", required=True, help=".parquet, .csv or .jsonl file")
    embed.add_argument("--outputs", required=True,
                       help=".parquet or .jsonl (the rows with their vectors) or .npy (vectors alone)")
    embed.add_argument("--column", required=True, help="the column of texts")
    embed.add_argument("--tokenizer", help="tokenizer.json; default: the model's")
    embed.add_argument("--model", help="folder of the model's sentence-transformers files (modules.json, "
                       "sentence_bert_config.json, 1_Pooling/config.json) and tokenizer.json")
    embed.add_argument("--pooling", choices=("mean", "cls", "max"), help="of tokens, in place of what the model says")
    embed.add_argument("--normalize", action=argparse.BooleanOptionalAction,
                       help="to length 1, in place of what the model says")
    embed.add_argument("--max-length", type=int, help="tokens of a text; longer ones are cut")
    embed.add_argument("--batch-tokens", type=int, default=8192, help="most tokens of a run (8192)")
    embed.add_argument("--name", default="embedding", help="the column of vectors (embedding)")
    _common(embed)
    embed.set_defaults(call=_embed)
    triton = verbs.add_parser("triton", help="write a model for NVIDIA's Triton Inference Server",
                              description="Writes a plan as a model of the Python backend into Triton's model repository. A plan of "
                              "`compile --serve` generates text; others take and give their tensors, and requests are gathered.")
    triton.add_argument("plan")
    triton.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the model repository")
    triton.add_argument("--name", help="of the model (the file's)")
    triton.add_argument("--tokenizer", help="tokenizer.json, of a plan that generates text; without it prompts are token ids")
    triton.add_argument("--max-batch", type=int, metavar="ROWS",
                        help="most rows of a run; 0: each request by itself (what the plan takes, or 64)")
    triton.add_argument("--queue-delay-us", type=int, default=1000, metavar="US",
                        help="how long a request waits for others to run with, in microseconds (1000)")
    triton.add_argument("--instances", type=int, default=1, help="processes that hold the plan each (1)")
    triton.add_argument("--gpus", default="", metavar="A,B,..", help="GPUs, each with --instances instances (all)")
    triton.add_argument("--sequences", type=int, default=0, help="texts at once; 0: as many as the plan takes")
    triton.add_argument("--cache-bytes", type=int, default=0, help="of the caches of texts; 0: most of what a GPU has left, 1 GiB of "
                        "the host's")
    triton.add_argument("--no-copy", action="store_true", help="name the plan's and the tokenizer's files in place of copying them")
    triton.add_argument("--replace", action="store_true", help="replace a model of that name")
    _common(triton, device=False)
    triton.set_defaults(call=_triton)
    return top


def _common(verb, device=True):
    if device:
        verb.add_argument("--device", type=int, default=0, help="CUDA device")
    verb.add_argument("--threads", type=int, default=0, help="most threads of the CPU; 0: all")
    verb.add_argument("--json", action="store_true", help="print what was done as JSON")
    verb.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def _pairs(texts, option):
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{option} {text!r}: write INPUT=...")
        if name in pairs:
            raise UsageError(f"{option}: input '{name}' is there twice")
        pairs[name] = value
    return pairs


def _bar(arguments):
    bar = Bar()
    return (lambda *_: None) if arguments.quiet else bar, bar.close


def _run(arguments: Any) -> dict[str, Any]:
    from . import load
    from ._files import ParquetInput, ParquetOutput, check_paths, import_pyarrow
    from ._pipeline import Pipeline, share_processors
    from ._tables import batch_rows_of, inputs_of, wanted_columns
    if not arguments.outputs.endswith(".parquet"):
        raise UsageError(f"rows of Parquet are written to Parquet: name '{arguments.outputs}' .parquet")
    pyarrow = import_pyarrow()
    check_paths(arguments.inputs, arguments.outputs)
    plan = load(arguments.plan, device=arguments.device, threads=arguments.threads)
    source = ParquetInput(arguments.inputs)
    columns = {name: value if value == "*" else value.split(",")
               for name, value in _pairs(arguments.columns, "--columns").items()}
    inputs = inputs_of(plan, lambda: source.schema.names, columns, _pairs(arguments.mask, "--mask"))
    wanted, kept = wanted_columns(plan, inputs), [each for each in arguments.keep.split(",") if each]
    source.check_columns([*wanted, *kept])
    outputs = [each.name for each in plan.outputs if not each.is_state]
    for name in kept:
        if name in outputs:
            raise UsageError(f"column '{name}' is kept, and the plan has an output of that name")
    batch_rows = batch_rows_of(plan, arguments.batch_rows)
    began, rows = time.perf_counter(), 0
    show, close = _bar(arguments)
    try:
        with (Pipeline(plan, source.pieces(list(dict.fromkeys([*wanted, *kept])), batch_rows), inputs,
                       nan=arguments.nulls == "nan", cast=arguments.cast,
                       threads=share_processors(pyarrow)) as pipeline,
              ParquetOutput(arguments.outputs) as target):
            for read, result in pipeline:
                batch = pyarrow.record_batch(result)
                for name in kept:
                    batch = batch.append_column(read.schema.field(name), read.column(name))
                target.write(batch)
                rows += batch.num_rows
                show("rows", rows, source.rows)
    finally:
        close()
    seconds = time.perf_counter() - began
    if not arguments.json:
        print(f"{rows} rows in {seconds:.2f} s, {rows / seconds:,.0f} rows/s")
    return {"rows": rows, "seconds": seconds, "busy_seconds": pipeline.busy, "batch_rows": batch_rows}


def _embed(arguments: Any) -> dict[str, Any]:
    from . import load
    from ._embed import Embedder
    from ._files import VectorOutput, check_paths, text_chunks
    check_paths(arguments.inputs, arguments.outputs)
    embedder = Embedder(load(arguments.plan, device=arguments.device, threads=arguments.threads),
                        tokenizer=arguments.tokenizer, model=arguments.model, pooling=arguments.pooling,
                        normalize=arguments.normalize, max_length=arguments.max_length,
                        batch_tokens=arguments.batch_tokens)
    began, count = time.perf_counter(), 0
    show, close = _bar(arguments)
    try:
        with VectorOutput(arguments.outputs, arguments.name) as target:
            for texts, rows in text_chunks(arguments.inputs, arguments.column, embedder.CHUNK):
                target.write(rows, embedder(texts))
                count += len(texts)
                show("texts", count, count)
            if count == 0:
                raise UsageError(f"'{arguments.inputs}' has no rows")
    finally:
        close()
    seconds = time.perf_counter() - began
    if not arguments.json:
        print(f"{count} texts in {seconds:.2f} s, {count / seconds:,.1f} texts/s, {embedder.tokens} tokens"
              + (f", {embedder.cut} texts cut to {embedder.max_length} tokens" if embedder.cut else ""))
    return {"texts": count, "cut": embedder.cut, "max_length": embedder.max_length, "tokens": embedder.tokens, "seconds": seconds, "width": embedder.width}


def _triton(arguments: Any) -> dict[str, Any]:
    from .triton import write_model
    try:
        gpus = [int(each) for each in arguments.gpus.split(",") if each]
    except ValueError:
        raise UsageError(f"--gpus {arguments.gpus!r}: numbers of GPUs, as 0,1") from None
    folder = write_model(arguments.plan, arguments.output, name=arguments.name, tokenizer=arguments.tokenizer,
                         max_batch=arguments.max_batch, queue_delay_us=arguments.queue_delay_us, instances=arguments.instances,
                         gpus=gpus, threads=arguments.threads, sequences=arguments.sequences, cache_bytes=arguments.cache_bytes,
                         copy=not arguments.no_copy, replace=arguments.replace)
    if not arguments.json and not arguments.quiet:
        print(f"{folder}: config.pbtxt, 1/model.py\ntritonserver --model-repository={arguments.output}")
    return {"folder": str(folder)}
