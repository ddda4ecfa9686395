# SPDX-License-Identifier: Apache-2.0
"""Many texts at once over a plan of compile(serve=True)."""
from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._errors import Error, UsageError

_DRAWS = {row["name"]: row for row in _core.sampling_rows()}


def draw_names() -> tuple[str, ...]:
    """Of the numbers that say how tokens are drawn."""
    return tuple(_DRAWS)


@dataclass
class Generation:
    """A text that was generated, or a part of one.

    tokens: ids, a stop token among them. text: of whole characters, without stop token and stop string; empty without a
    tokenizer. logprobs: for each token its log probability and those of the likeliest ones, if asked for. finish: "none"
    (it goes on), "stop", "length", "cancelled", "deadline" or "error".
    """
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    finish: str = "none"

    def _add(self, part: Generation) -> None:
        self.tokens += part.tokens
        self.text += part.text
        self.logprobs += part.logprobs
        self.finish = part.finish


def _check_one(sampling: dict[str, Any]) -> None:
    if sampling.get("n", 1) != 1:
        raise UsageError("a stream is of one text: n is 1")


def _constraint(given: dict[str, Any]) -> Any:
    """Of the parameters that say what a text must be; None if none does."""
    said = {name: value for name, value in given.items() if value is not None and value is not False}
    if not said:
        return None
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} are given: a text has one constraint")
    name, value = next(iter(said.items()))
    if name == "json_object":
        return _core.Constraint("json_object")
    if name == "choice":
        return _core.Constraint("choice", "", [value] if isinstance(value, str) else list(value))
    if name == "json_schema" and not isinstance(value, str):
        value = json.dumps(value.model_json_schema() if hasattr(value, "model_json_schema") else value)
    return _core.Constraint(name, value)


class _Texts:
    """Outputs of one request, as they come from the engine's thread."""

    def __init__(self) -> None:
        self.parts: queue.SimpleQueue[tuple[int, Generation, str]] = queue.SimpleQueue()
        self.process = os.getpid()

    def __call__(self, request: int, sample: int, tokens: list[int], text: str, logprobs: list[Any], finish: str,
                 error: str) -> None:
        self.parts.put((sample, Generation(tokens, text, logprobs, finish), error))

    def next(self) -> tuple[int, Generation]:
        if os.getpid() != self.process:
            raise UsageError("this text was begun before fork(), and the parent computes it: begin it in the child, "
                             "with an Engine of its own")
        sample, part, error = self.parts.get()
        if part.finish == "error":
            raise Error(error)
        return sample, part


def _assign(sampling: Any, **values: Any) -> None:
    for name, value in values.items():
        try:
            setattr(sampling, name, value)
        except TypeError:
            raise UsageError(f"{_ARGUMENTS.get(name, name)} is {value!r}, of a type that it does not take: see Engine.submit") from None


# Arguments of submit() whose name in C++ is another.
_ARGUMENTS = {"samples": "n", "stop_strings": "stop"}


class Engine:
    """Generates text for many requests at once: continuous batching, a paged cache, prefix caching, prompt lookup.

        plan = pysinter.compile("decoder.onnx", serve=True)
        with pysinter.Engine(plan, tokenizer="tokenizer.json") as engine:
            texts = engine.generate(["The sky is", "Grass is"], max_tokens=20)
            for part in engine.stream("Once", temperature=0.8, seed=1):
                print(part.text, end="")

    plan: of compile(serve=..); a Plan or the path of one
    tokenizer: a `tokenizers.Tokenizer`, or the path of a tokenizer.json (needs that package); without one prompts are token
        ids and texts are empty
    cache_bytes: of the caches; 0: most of a GPU's memory that is left, of the host's a GiB at most
    sequences: that run at once; 0: as many as the plan takes
    step_tokens: most tokens of a step; 0: as many as the plan takes
    prefix_cache: prompts that begin as earlier ones did are not computed again
    draft_tokens: guessed in each step, by prompt lookup or by `draft`; None: 4 with a draft, else none. No text changes by it
    draft: a plan of a smaller model with the same tokens, or the path of one
    max_waiting: requests that may wait; more are refused

    Its methods may be called by any threads. Raises UsageError for a plan that is of another kind.
    """

    def __init__(self, plan: Any, *, tokenizer: Any = None, cache_bytes: int = 0, sequences: int = 0, step_tokens: int = 0,
                 prefix_cache: bool = True, draft_tokens: int | None = None, draft: Any = None, max_waiting: int = 1 << 20) -> None:
        from ._plan import load
        plan, draft = (load(each) if isinstance(each, (str, os.PathLike)) else each for each in (plan, draft))
        if draft_tokens is None:
            draft_tokens = 0 if draft is None else 4
        if isinstance(tokenizer, (str, os.PathLike)):
            from ._files import read_tokenizer
            tokenizer = read_tokenizer(tokenizer)
        self.tokenizer = tokenizer
        options = _core.EngineOptions()
        options.cache_bytes, options.max_sequences, options.max_step_tokens = cache_bytes, sequences, step_tokens
        options.prefix_cache, options.draft_tokens, options.max_waiting = prefix_cache, draft_tokens, max_waiting
        self._engine = _core.Engine(plan, draft, options, None if tokenizer is None else tokenizer.to_str())

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if not isinstance(prompt, str):
            return [int(token) for token in prompt]
        if self.tokenizer is None:
            raise UsageError("a prompt of text needs a tokenizer: Engine(plan, tokenizer=\"tokenizer.json\"); token ids need none")
        return self.tokenizer.encode(prompt).ids

    def submit(self, prompt: str | Sequence[int], callback: Any, *, max_tokens: int | None = 128, min_tokens: int = 0, seed: int = 0,
               n: int = 1, stop: str | Sequence[str] = (), stop_tokens: Sequence[int] = (), logit_bias: dict[int, float] | None = None,
               logprobs: int | None = None, priority: int = 0, timeout: float | None = None, json_object: bool = False,
               json_schema: Any = None, regex: str | None = None, grammar: str | None = None,
               choice: Sequence[str] | None = None, **draws: float) -> int:
        """The number of a request, of which `callback(request, sample, tokens, text, logprobs, finish, error)` is called on
        the engine's thread until `finish` is not "none" for each of `n` samples.

        prompt: text, or token ids
        max_tokens: None: until the text ends, or the plan's positions or the cache are full; min_tokens: at least
        seed: of the draws; logit_bias: by token
        draws: numbers that say how tokens are drawn: {draws}
        stop, stop_tokens: texts and tokens that end it
        logprobs: how many of the likeliest tokens to tell with each; None: none
        priority: higher ones go in front; timeout: seconds until it ends with finish "deadline"

        One of these says what the text must be, and needs the engine's tokenizer: json_object; json_schema (a dict, text, or
        a pydantic model); regex; grammar (GBNF, of which `root` is the text); choice (one of these texts). A text that may
        end and may go on ends by `stop_tokens` alone; one that cannot go on ends by itself.

        Raises UsageError for parameters that mean nothing, texts beyond the plan's positions, and constraints that cannot be
        met or take too long to compile."""
        if timeout is not None and not 0 <= timeout <= 1e9:
            raise UsageError(f"timeout is {timeout}: seconds from 0 to 1e9, or None")
        for name in draws:
            if name not in _DRAWS:
                raise TypeError(f"submit() got an unexpected keyword argument {name!r}: draws have {', '.join(_DRAWS)}")
        sampling = _core.SamplingParameters()
        constraint = _constraint({"json_object": json_object, "json_schema": json_schema, "regex": regex, "grammar": grammar,
                                  "choice": choice})
        _assign(sampling, max_tokens=-1 if max_tokens is None else max_tokens, min_tokens=min_tokens, seed=seed, samples=n, **draws,
                stop_strings=[stop] if isinstance(stop, str) else list(stop), stop_tokens=list(stop_tokens),
                logit_bias=list((logit_bias or {}).items()), logprobs=logprobs, constraint=constraint)
        return self._engine.submit(self._ids(prompt), sampling, priority, timeout, callback)

    def generate(self, prompts: str | Sequence[Any], **sampling: Any) -> Any:
        """The Generation of each of `prompts`, in order; of one prompt (text, or token ids) that alone. With n > 1 a list of
        them for each. sampling: parameters of submit(). Raises what submit() raises, and Error for a text that failed."""
        is_one = isinstance(prompts, str) or (len(prompts) > 0 and not isinstance(prompts[0], (str, list, tuple)) and
                                              not hasattr(prompts[0], "__len__"))
        count = int(sampling.get("n", 1))
        texts, requests, results = [], [], []
        try:
            for prompt in [prompts] if is_one else prompts:
                texts.append(_Texts())
                requests.append(self.submit(prompt, texts[-1], **sampling))
            for text in texts:
                samples = [Generation() for _ in range(count)]
                while any(each.finish == "none" for each in samples):
                    sample, part = text.next()
                    samples[sample]._add(part)
                results.append(samples if count > 1 else samples[0])
        except BaseException:  # Ctrl-C, too: nobody waits for what is left
            with contextlib.suppress(Error):
                for request in requests:
                    self.cancel(request)
            raise
        return results[0] if is_one else results

    def stream(self, prompt: str | Sequence[int], **sampling: Any) -> Iterator[Generation]:
        """Parts of one text as they come. Closing the iterator cancels the text. prompt, sampling: of submit()."""
        _check_one(sampling)
        texts = _Texts()
        request = self.submit(prompt, texts, **sampling)
        finish = "none"
        try:
            while finish == "none":
                _, part = texts.next()
                finish = part.finish
                yield part
        finally:
            if finish == "none":
                self.cancel(request)

    async def stream_async(self, prompt: str | Sequence[int], **sampling: Any) -> AsyncIterator[Generation]:
        """stream() for an event loop, which goes on while parts are computed. Closing the iterator, or cancelling the task
        that is in it, cancels the text. prompt, sampling: of submit()."""
        _check_one(sampling)
        loop, texts, ready = asyncio.get_running_loop(), _Texts(), asyncio.Event()

        def put(*output: Any) -> None:
            texts(*output)
            with contextlib.suppress(RuntimeError):  # the loop was closed behind a text that it had cancelled
                loop.call_soon_threadsafe(ready.set)

        request = self.submit(prompt, put, **sampling)
        finish = "none"
        try:
            while finish == "none":
                await ready.wait()
                ready.clear()
                while finish == "none" and not texts.parts.empty():
                    _, part = texts.next()
                    finish = part.finish
                    yield part
        finally:
            if finish == "none":
                self.cancel(request)

    def cancel(self, request: int) -> None:
        """Ends the texts of `request`, a number of submit(), soon, with finish "cancelled"."""
        self._engine.cancel(request)

    def drain(self) -> None:
        """Takes no more requests, and returns when all have ended."""
        self._engine.drain()

    def stats(self) -> dict[str, Any]:
        """Counts since the engine was made: steps, tokens, prefix hits, preemptions, seconds without work."""
        return dict(self._engine.stats())

    def close(self) -> None:
        """Cancels what is left."""
        self._engine.close()


if Engine.submit.__doc__:
    Engine.submit.__doc__ = Engine.submit.__doc__.replace(
        "{draws}", "; ".join(f"{name} ({row['default']}): {row['help']}" for name, row in _DRAWS.items()))
