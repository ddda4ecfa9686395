# SPDX-License-Identifier: Apache-2.0
"""What Triton's Python backend runs: 1/model.py of a model that write_model() made imports one of these classes.

Parameters of config.pbtxt are write_model()'s: plan, tokenizer (files, by default beside model.py), threads, sequences,
cache_bytes. Others in small letters are refused; those in capitals are the backend's own.
"""
from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # of the backend's process; whole when initialize() is called

from .._engine import Engine, Generation, draw_names
from .._errors import Error, UsageError
from .._plan import load
from .repository import row_symbol

_PARAMETERS = ("plan", "tokenizer", "threads", "sequences", "cache_bytes")


def _status(error: Exception) -> Any:
    """A request's error, as Triton has them."""
    codes = {"usage": pb_utils.TritonError.INVALID_ARG, "unsupported": pb_utils.TritonError.UNSUPPORTED,
             "out_of_memory": pb_utils.TritonError.UNAVAILABLE, "cancelled": pb_utils.TritonError.CANCELLED}
    default = pb_utils.TritonError.INVALID_ARG if isinstance(error, (TypeError, ValueError)) else pb_utils.TritonError.INTERNAL
    return pb_utils.TritonError(str(error), codes.get(getattr(error, "code", ""), default))


def _failed(error: Exception) -> Any:
    return pb_utils.InferenceResponse(error=_status(error))


class _Model:
    """A plan of config.pbtxt."""

    def initialize(self, args: dict[str, str]) -> None:
        self._args, self._config = args, json.loads(args["model_config"])
        try:
            self._parameters = {key: each["string_value"] for key, each in self._config["parameters"].items() if not key.isupper()}
            for key in self._parameters:
                if key not in _PARAMETERS:
                    raise UsageError(f"config.pbtxt has parameter '{key}': there are {', '.join(_PARAMETERS)}")
            self._plan = load(self._file("plan", "model.plan"), device=self._device(), threads=self._number("threads"))
            self._check_target()
            self._open()
        except (Error, OSError, ValueError) as error:
            raise pb_utils.TritonModelException(f"model '{args['model_name']}': {error}") from None

    def _number(self, key: str) -> int:
        text = self._parameters.get(key, "0")
        if not text.isdecimal():
            raise UsageError(f"parameter '{key}' of config.pbtxt is '{text}': a number is wanted")
        return int(text)

    def _file(self, key: str, default: str) -> str:
        folder = os.path.join(self._args["model_repository"], self._args["model_version"])
        return os.path.join(folder, self._parameters.get(key, default))

    def _device(self) -> int:
        return int(self._args["model_instance_device_id"]) if self._args["model_instance_kind"] == "GPU" else 0

    def _check_target(self) -> None:
        wanted, kind = "CPU" if self._plan.target == "cpu" else "GPU", self._args["model_instance_kind"]
        if kind != wanted:
            raise UsageError(f"the plan is for the {wanted}, and this instance is of KIND_{kind}: "
                             f"instance_group [ {{ kind: KIND_{wanted} }} ], or a plan compiled for the other target")

    def _open(self) -> None:
        raise NotImplementedError


class TensorModel(_Model):
    """Tensors in, tensors out. Requests that the dynamic batcher gathered are one run, as far as they differ along the first
    dimension alone."""

    def _open(self) -> None:
        is_batched = self._config["max_batch_size"] > 0
        self._rows = row_symbol(self._plan) if is_batched else None
        if is_batched and self._rows is None:
            raise UsageError("config.pbtxt has max_batch_size, and the plan's inputs and outputs do not share a first dimension of "
                             "open size: max_batch_size: 0, and dims with the first one")
        for kind, bindings in (("input", self._plan.inputs), ("output", self._plan.outputs)):
            named, there = {each["name"] for each in self._config[kind]}, {each.name for each in bindings}
            if named - there or kind == "input" and there - named:
                raise UsageError(f"config.pbtxt has {kind}s {', '.join(sorted(named))}, and the plan {', '.join(sorted(there))}: "
                                 "write it anew with `sinter triton`")
        # Triton has one dimension at least beside the batch's.
        self._flat = {each.name for each in (*self._plan.inputs, *self._plan.outputs) if len(each.shape) == int(is_batched)}
        self._names = [each.name for each in self._plan.outputs]

    def execute(self, requests: list[Any]) -> list[Any]:
        taken = [{each.name(): self._array(each) for each in request.inputs()} for request in requests]
        groups: dict[Any, list[int]] = {}
        for place, inputs in enumerate(taken):
            groups.setdefault(self._kind(place, inputs), []).append(place)
        responses: list[Any] = [None] * len(requests)
        for places in groups.values():
            for place, outputs in zip(places, self._run([taken[place] for place in places])):
                responses[place] = self._response(requests[place], outputs)
        return responses

    def _array(self, tensor: Any) -> Any:
        array = tensor.as_numpy()
        return array.reshape(array.shape[:-1]) if tensor.name() in self._flat else array

    def _kind(self, place: int, inputs: dict[str, Any]) -> Any:
        """Requests of one kind may be one run."""
        rows = {array.shape[:1] for array in inputs.values()}
        if self._rows is None or len(rows) != 1:
            return place  # what does not fit is refused by itself
        return tuple(sorted((name, array.dtype.str, array.shape[1:]) for name, array in inputs.items()))

    def _run(self, group: list[dict[str, Any]]) -> list[Any]:
        """Of each request its outputs by name, or what went wrong."""
        try:
            if len(group) == 1:
                return [self._outputs(group[0])]
            ends = np.cumsum([next(iter(inputs.values())).shape[0] for inputs in group])
            whole = self._outputs({name: np.concatenate([inputs[name] for inputs in group]) for name in group[0]})
            parts = {name: np.split(array, ends[:-1]) for name, array in whole.items()}
            return [{name: part[i] for name, part in parts.items()} for i in range(len(group))]
        except Exception as error:
            if len(group) == 1:
                return [error]
            return [result for inputs in group for result in self._run([inputs])]  # an error is its request's own

    def _outputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        result = self._plan(**inputs)
        return dict(zip(self._names, result if len(self._names) > 1 else (result,)))

    def _response(self, request: Any, outputs: Any) -> Any:
        if isinstance(outputs, Exception):
            return _failed(outputs)
        wanted = set(request.requested_output_names())
        return pb_utils.InferenceResponse([
            pb_utils.Tensor(name, array.reshape(*array.shape, 1) if name in self._flat else array)
            for name, array in outputs.items() if name in wanted])


class TextModel(_Model):
    """Text from a plan of compile(serve=True): all requests of an instance are one pysinter.Engine's.

    Inputs, with the names of Triton's vLLM backend: text_input (with a tokenizer) or input_ids; sampling_parameters, JSON of
    what pysinter.Engine.submit() takes by name; stream, whether parts are sent as they come. What the generate extension has under
    "parameters" are sampling parameters, too. Outputs: text_output, token_ids, finish_reason ("none" until the last part).
    A client that leaves ends its text.
    """

    _SAMPLING = ("max_tokens", *draw_names(), "min_tokens", "seed", "stop", "stop_tokens", "logit_bias", "priority", "timeout")

    def _open(self) -> None:
        tokenizer = self._file("tokenizer", "") if "tokenizer" in self._parameters else None
        self._engine = Engine(self._plan, tokenizer=tokenizer, sequences=self._number("sequences"),
                              cache_bytes=self._number("cache_bytes"))

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            try:
                prompt, sampling, streams = self._read(request)
                self._engine.submit(prompt, _Answer(self._engine, sender, set(request.requested_output_names()), streams), **sampling)
            except Exception as error:
                sender.send(_failed(error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _read(self, request: Any) -> tuple[Any, dict[str, Any], bool]:
        given = {each.name(): each.as_numpy().reshape(-1) for each in request.inputs()}
        if ("text_input" in given) == ("input_ids" in given):
            raise UsageError("one of text_input and input_ids is wanted")
        sampling = {**self._json("sampling_parameters", given["sampling_parameters"][0] if "sampling_parameters" in given else b"{}"),
                    **self._json("parameters", request.parameters() or "{}")}
        if "logit_bias" in sampling:  # JSON's keys are texts
            sampling["logit_bias"] = {int(token): bias for token, bias in sampling["logit_bias"].items()}
        for name in sampling:
            if name not in self._SAMPLING:
                raise UsageError(f"there is no sampling parameter '{name}': there are {', '.join(self._SAMPLING)}")
        prompt = given["text_input"][0].decode() if "text_input" in given else given["input_ids"].tolist()
        return prompt, sampling, bool(given["stream"][0]) if "stream" in given else False

    @staticmethod
    def _json(name: str, text: Any) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
        if not isinstance(value, dict):
            raise UsageError(f"{name}: an object of JSON is wanted")
        return value

    def finalize(self) -> None:
        self._engine.close()


class _Answer:
    """Sends what the engine's thread has for a request."""

    def __init__(self, engine: Engine, sender: Any, wanted: set[str], streams: bool) -> None:
        self._engine, self._sender, self._wanted, self._streams, self._whole = engine, sender, wanted, streams, Generation()

    def __call__(self, request: int, sample: int, tokens: list[int], text: str, logprobs: list[Any], finish: str,
                 error: str) -> None:
        flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if finish != "none" else 0
        if finish == "error":
            self._sender.send(_failed(RuntimeError(error)), flags=flags)
            return
        if finish == "none" and self._sender.is_cancelled():
            self._engine.cancel(request)
            return
        part = Generation(tokens, text, logprobs, finish)
        if not self._streams:
            self._whole._add(part)
            if finish == "none":
                return
            part = self._whole
        self._sender.send(self._response(part), flags=flags)

    def _response(self, part: Generation) -> Any:
        values = {"text_output": np.array([part.text.encode()], dtype=np.object_),
                  "token_ids": np.array(part.tokens, dtype=np.int64),
                  "finish_reason": np.array([part.finish.encode()], dtype=np.object_)}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in values.items() if name in self._wanted])
