# SPDX-License-Identifier: Apache-2.0
"""Folders of models for Triton's model repository, from plans."""
from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from .. import _core
from .._errors import UnsupportedError, UsageError, check_file
from .._plan import Binding, Plan, load

_TYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
          "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64"}
_NAMES = re.compile(r"[^\W\d]\w*")  # of symbols in a dimension's text
# Rows of a batch where the plan takes any number.
_DEFAULT_ROWS, _MANY_ROWS = 64, 4096

_TEXT_INPUTS = (("text_input", "STRING", 1), ("input_ids", "INT64", -1), ("sampling_parameters", "STRING", 1),
                ("stream", "BOOL", 1))
_TEXT_OUTPUTS = (("text_output", "STRING", 1), ("token_ids", "INT64", -1), ("finish_reason", "STRING", 1))


def row_symbol(plan: Plan) -> str | None:
    """The first dimension of all inputs and outputs, if they have the same there, of open size, and nothing else has it:
    then rows of several requests may be one run."""
    bindings = [*plan.inputs, *plan.outputs]
    firsts = {binding.shape[0].text if binding.shape and binding.shape[0].min < binding.shape[0].max else None
              for binding in bindings}
    symbol = firsts.pop()
    if firsts or symbol is None or any(binding.is_read_by_host for binding in bindings):
        return None
    others = {name for binding in bindings for dim in binding.shape[1:] for name in _NAMES.findall(dim.text)}
    return None if others & set(_NAMES.findall(symbol)) else symbol


def _dims(binding: Binding, is_batched: bool) -> list[int]:
    shape = binding.shape[1:] if is_batched else binding.shape
    # Triton has one dimension at least beside the batch's: backend.py takes it away and puts it there.
    return [dim.min if dim.min == dim.max else -1 for dim in shape] or [1]


def _tensors(kind: str, bindings: Sequence[Binding], is_batched: bool) -> list[str]:
    lines = []
    for binding in bindings:
        if binding.dtype not in _TYPES:
            raise UnsupportedError(f"{kind} '{binding.name}' is {binding.dtype}, a type that Triton's Python backend does not have: "
                                   "compile a model that casts to float16 or float32 there")
        lines.append(_tensor(binding.name, _TYPES[binding.dtype], _dims(binding, is_batched)))
    return _list(kind, lines)


def _tensor(name: str, dtype: str, dims: Sequence[int], more: str = "") -> str:
    return f"{{ name: {_quoted(name)} data_type: TYPE_{dtype} dims: [ {', '.join(map(str, dims))} ]{more} }}"


def _list(key: str, items: Sequence[str]) -> list[str]:
    return [f"{key} [", *(f"  {item}{',' if place + 1 < len(items) else ''}" for place, item in enumerate(items)), "]"]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _group(plan: Plan, instances: int, gpus: Sequence[int]) -> str:
    if plan.target == "cpu":
        if gpus:
            raise UsageError(f"gpus={list(gpus)}: the plan is for the CPU")
        return f"instance_group [ {{ kind: KIND_CPU count: {instances} }} ]"
    chosen = f" gpus: [ {', '.join(map(str, gpus))} ]" if gpus else ""
    return f"instance_group [ {{ kind: KIND_GPU count: {instances}{chosen} }} ]"


def _batching(plan: Plan, max_rows: int | None, queue_delay_us: int) -> tuple[int, list[str]]:
    """max_batch_size, and how requests are gathered."""
    if row_symbol(plan) is None:
        if max_rows:
            raise UsageError(f"max_batch={max_rows}: requests cannot be one run, since inputs and outputs do not share a first "
                             "dimension of open size")
        return 0, []
    least = max(binding.shape[0].min for binding in plan.inputs)
    most = min(binding.shape[0].max for binding in plan.inputs)
    if max_rows is None:
        max_rows = most if most <= _MANY_ROWS else max(least, _DEFAULT_ROWS)
    if max_rows == 0:
        return 0, []
    if not least <= max_rows <= most:
        raise UsageError(f"max_batch={max_rows}: the plan takes {least} to {most} rows")
    # A GPU's plan is captured once for each number of rows: few of them. A CPU's runs any as it comes.
    sizes = [1 << k for k in range(1, max_rows.bit_length()) if least <= 1 << k <= max_rows] if plan.target != "cpu" else []
    preferred = [f"  preferred_batch_size: [ {', '.join(map(str, sizes))} ]"] if sizes else []
    return max_rows, ["dynamic_batching {", *preferred, f"  max_queue_delay_microseconds: {queue_delay_us}", "}"]


def tensor_config(plan: Plan, name: str, parameters: dict[str, str], *, max_batch: int | None, queue_delay_us: int,
                  instances: int, gpus: Sequence[int]) -> str:
    """config.pbtxt of a plan that takes and gives tensors."""
    if plan.states:
        raise UnsupportedError(f"the plan keeps states ('{plan.states[0].input}') between runs, which requests of many clients would "
                               "share: compile a decoder with serve=True (--serve), and others with states=None")
    rows, batching = _batching(plan, max_batch, queue_delay_us)
    return _lines(name, rows, [*_tensors("input", plan.inputs, rows > 0), *_tensors("output", plan.outputs, rows > 0),
                               *batching, _group(plan, instances, gpus)], parameters)


def text_config(plan: Plan, name: str, parameters: dict[str, str], *, instances: int, gpus: Sequence[int]) -> str:
    """config.pbtxt of a decoder of compile(serve=True): pysinter.Engine gathers requests, and answers come in pieces."""
    inputs = [_tensor(*each[:2], [each[2]], " optional: true") for each in _TEXT_INPUTS]
    outputs = [_tensor(*each[:2], [each[2]]) for each in _TEXT_OUTPUTS]
    return _lines(name, 0, [*_list("input", inputs), *_list("output", outputs),
                            "model_transaction_policy { decoupled: true }", _group(plan, instances, gpus)], parameters)


def _lines(name, rows, body, parameters):
    items = [f"{{ key: {_quoted(key)} value: {{ string_value: {_quoted(value)} }} }}" for key, value in parameters.items()]
    head = [f"# Written by `sinter triton` of Sinter {_core.__version__}.", f"name: {_quoted(name)}", 'backend: "python"',
            f"max_batch_size: {rows}"]
    return "\n".join([*head, *body, *_list("parameters", items)]) + "\n"


def write_model(plan: str | os.PathLike[str], repository: str | os.PathLike[str], *, name: str | None = None,
                tokenizer: str | os.PathLike[str] | None = None, max_batch: int | None = None, queue_delay_us: int = 1000,
                instances: int = 1, gpus: Sequence[int] = (), threads: int = 0, sequences: int = 0, cache_bytes: int = 0,
                copy: bool = True, replace: bool = False) -> Path:
    """Writes a model of Triton's Python backend into a model repository, and returns its folder: config.pbtxt, 1/model.py,
    and the plan's file beside it.

    plan: the path of a plan. One of compile(serve=True) generates text, with the names of Triton's vLLM backend, in pieces;
        others take and give their tensors, and requests that differ along the first dimension alone are one run.
    name: of the model; by default the file's.
    tokenizer: tokenizer.json, of plans that generate text; without it prompts and answers are token ids.
    max_batch: most rows of a run; 0: each request by itself. By default what the plan takes, or 64 if that is any number.
    queue_delay_us: how long a request waits for others to run with, in microseconds.
    instances, gpus: processes that hold the plan each; on which GPUs (each one's), by default all.
    threads: most threads of a run on the CPU; 0: all.
    sequences, cache_bytes: of plans that generate text, as pysinter.Engine takes them.
    copy: False: the plan and the tokenizer stay where they are, and config.pbtxt names them.
    replace: a model of that name is replaced.

    Raises UsageError, and UnsupportedError for plans with states and for types that the Python backend does not have.
    """
    source = Path(plan)
    name = name or source.stem
    if not re.fullmatch(r"[\w.+-]+", name) or name.startswith("."):
        raise UsageError(f"name {name!r}: letters, digits, '_', '-', '+' and '.' name a model's folder")
    for key, value in (("instances", instances - 1), ("queue_delay_us", queue_delay_us), ("threads", threads),
                       ("sequences", sequences), ("cache_bytes", cache_bytes), ("max_batch", max_batch or 0)):
        if value < 0:
            raise UsageError(f"{key} is too small")
    loaded = load(source)
    files = {"plan": source.absolute()}
    if tokenizer is not None:
        files["tokenizer"] = Path(tokenizer).absolute()
        check_file(files["tokenizer"], "the tokenizer")
    names = {"plan": "model.plan", "tokenizer": "tokenizer.json"}
    parameters = {key: names[key] if copy else str(path) for key, path in files.items()}
    parameters |= {key: str(value) for key, value in (("threads", threads), ("sequences", sequences), ("cache_bytes", cache_bytes))
                   if value}
    if "serve" in loaded.metadata["options"]:
        if max_batch is not None:
            raise UsageError("max_batch: a plan of compile(serve=True) runs as many sequences at once as `sequences` says")
        kind, config = "TextModel", text_config(loaded, name, parameters, instances=instances, gpus=gpus)
    else:
        for key, value in (("tokenizer", tokenizer), ("sequences", sequences), ("cache_bytes", cache_bytes)):
            if value:
                raise UsageError(f"{key}: '{source}' generates no text for many clients: that is a plan of compile(serve=True)")
        kind, config = "TensorModel", tensor_config(loaded, name, parameters, max_batch=max_batch, queue_delay_us=queue_delay_us,
                                                    instances=instances, gpus=gpus)
    folder = Path(repository) / name
    if folder.exists() and not replace:
        raise UsageError(f"'{folder}' is there already: replace=True (--replace) writes it anew")
    # Whole or not at all.
    partial = folder.with_name(f".{name}.{os.getpid()}.tmp")
    (partial / "1").mkdir(parents=True)
    try:
        (partial / "config.pbtxt").write_text(config, encoding="utf-8")
        (partial / "1" / "model.py").write_text(f"from pysinter.triton.backend import {kind} as TritonPythonModel  # noqa: F401\n")
        if copy:
            for key, path in files.items():
                shutil.copyfile(path, partial / "1" / names[key])
        if replace and folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
