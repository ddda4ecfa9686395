# SPDX-License-Identifier: Apache-2.0
"""Plans and sessions."""
from __future__ import annotations

import asyncio
import json
import os
import pickle
import secrets
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import _core
from ._errors import UsageError, file_error
from ._html import Text, table
from ._tables import Sessions, run_table
from ._texts import encoder_of, texts_of
from ._operators import libraries


@dataclass(frozen=True)
class Dim:
    """One dimension: fixed (min == max), or named with a range.

    text: "384", "batch", "batch*seq". min, max: the sizes that it may have, both inclusive.
    """
    text: str
    min: int
    max: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Binding:
    """An input or an output.

    name: the model's. dtype: as NumPy names it, or "bfloat16". shape: a Dim for each axis. is_state: sessions keep it.
    is_read_by_host: an input whose value decides about sizes.
    """
    name: str
    dtype: str
    shape: tuple[Dim, ...]
    is_state: bool
    is_read_by_host: bool

    def __str__(self) -> str:
        state = ", state" if self.is_state else ""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{state}"


@dataclass(frozen=True)
class State:
    """An input that sessions keep: what a run leaves in `output`, the next takes as `input`."""
    input: str
    output: str


@dataclass(frozen=True)
class Entry:
    """Steps of their own for shapes within limits.

    name: what compile() calls it. limits: the range of each dimension that it is for.
    """
    name: str
    limits: tuple[Dim, ...]


def _dims(dims):
    return tuple(Dim(*each) for each in dims)


def _bindings(bindings):
    return tuple(Binding(name, dtype, _dims(shape), *flags) for name, dtype, shape, *flags in bindings)


def _identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Plan(_core.Plan):
    """A compiled model. Immutable; any number of threads may call it at once.

    plan(*arrays, **arrays, out=None) runs it. Inputs go by position (in the order of `inputs`, states left out) or by
    name. NumPy arrays, torch tensors and CuPy arrays are taken, in host memory or, by CUDA plans, in the GPU's; types are
    never converted, and arrays that are not dense are copied. One output is returned by itself, several as `Outputs`:
    of the library that the first input was of, on the device where the inputs are, new and the caller's. With inputs
    in GPU memory, all of one library, the work is put on its current stream and the call returns; the first call with
    a shape, or with inputs at other addresses, prepares it and waits for the run before. `out` is memory for the
    outputs, apart from that of the inputs: an array, a sequence with None for what is not given, or a dict by name.

    Calls know no states: each begins with zeros. `session()` keeps them.
    """

    _facts: dict[str, Any]

    def __init__(self, source: Any, *, device: int = 0, threads: int = 0, max_sessions: int = 0,
                 copy: bool = False, max_iterations: int = 10_000_000, allow_custom_code: bool = True,
                 operator_libraries: Sequence[str | os.PathLike[str]] = (), weight_budget: int = 0,
                 require_signature: str | os.PathLike[str] | None = None) -> None:
        """Use load()."""
        options = _core.RunOptions()
        options.device, options.threads, options.max_sessions = device, threads, max_sessions
        options.copy, options.max_iterations, options.weight_budget = copy, max_iterations, weight_budget
        options.allow_custom_code, options.operator_libraries = allow_custom_code, libraries(operator_libraries)
        if require_signature is not None:
            key = os.fspath(require_signature)
            if not key:
                raise UsageError("require_signature is empty: give a public key of Ed25519, or the path of one; None: none")
            options.require_signature = key
        if isinstance(source, (str, os.PathLike)):
            source = os.path.abspath(os.fspath(source))
            super().__init__(source, options)
            self._file = _identity(source)
        else:
            super().__init__(source, options)
            self._file = None
        self._settings = dict(device=device, threads=threads, max_sessions=max_sessions, max_iterations=max_iterations,
                              allow_custom_code=allow_custom_code,
                              operator_libraries=[os.fspath(each) for each in operator_libraries],
                              weight_budget=weight_budget, require_signature=require_signature)
        self._facts = self._describe()
        texts, self._output_texts = texts_of(self._facts["options"])
        types = {name: dtype for name, dtype, *_ in self._facts["inputs"]}
        self._encoders = {name: encoder_of(name, text, types[name]) for name, text in texts.items() if name in types}
        if self._encoders:
            self.__class__ = _taking_strings(type(self))
        self._executor: tuple[int, ThreadPoolExecutor] | None = None
        self._table_sessions = Sessions(self, self._options().max_sessions)

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """In the order of a call's positions, states among them."""
        return _bindings(self._facts["inputs"])

    @property
    def outputs(self) -> tuple[Binding, ...]:
        """In the order of a call's results, states among them."""
        return _bindings(self._facts["outputs"])

    @property
    def states(self) -> tuple[State, ...]:
        """What sessions keep from run to run."""
        return tuple(State(*each) for each in self._facts["states"])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Empty if one list of steps serves all shapes."""
        return tuple(Entry(name, _dims(limits)) for name, limits in self._facts["entries"])

    @property
    def target(self) -> str:
        """"cpu" or "cuda"."""
        return self._facts["target"]

    @property
    def architectures(self) -> tuple[str, ...]:
        """Of the GPUs that it has kernels for: "sm_90"; empty for the CPU."""
        return tuple(self._facts["architectures"])

    @property
    def custom_code(self) -> tuple[str, ...]:
        """Operators whose code is that of whoever compiled the plan: kernels in it, and host operators."""
        return tuple(self._facts["custom_code"])

    @property
    def host_operators(self) -> tuple[str, ...]:
        """Those of them that functions of a library, or of Python's, compute."""
        return tuple(self._facts["host_operators"])

    @property
    def path(self) -> str | None:
        """The file it was loaded from."""
        return self._facts["path"] or None

    @property
    def metadata(self) -> dict[str, Any]:
        """Where it is from: compiler_version, format_version, cuda_version, model_name, model_hash, options,
        measured_errors, precision_notes; and its steps and weight_bytes."""
        names = ("compiler_version", "format_version", "cuda_version", "model_name", "model_hash", "options",
                 "measured_errors", "precision_notes", "steps", "weight_bytes")
        return {name: self._facts[name] for name in names}

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """By output: the strings that its integers are indices of (-1: none of them), as a classifier's labels; of an
        output of scores the names of its columns."""
        return {name: tuple(text["labels"]) for name, text in self._output_texts.items() if "labels" in text}

    def graph(self) -> str:
        """The graph behind the passes, as text."""
        return Text(self._graph())

    def with_weights(self, weights: Mapping[str, Any], *, partial: bool = False) -> Plan:
        """The plan with other values for its model's constants: what compiling that model gives, without compiling.

        weights: arrays of the model's types and shapes, by the names of the ONNX model's initializers
        partial: weights of which no array is given stay as they are

        Raises UnsupportedError for what was compiled into code and would be another value, UsageError for other names,
        types and shapes."""
        options = _core.RefitOptions()
        options.partial = partial
        tensors = [_core.NamedTensor(name, array) for name, array in weights.items()]
        return Plan(_core.refit(self, tensors, options), **self._settings)

    def refittable(self) -> dict[str, Any]:
        """Which of the model's constants with_weights() takes, and which not and why, as `sinter inspect --refit`
        has it."""
        report: dict[str, Any] = json.loads(_core.inspect_refit(self))
        return report

    async def call_async(self, *args: Any, **kwargs: Any) -> Any:
        """The same as calling the plan, without blocking the event loop. On a GPU the work goes on the stream that is
        current here. A caller that is cancelled no longer waits; the run goes on to its end. args, kwargs: a call's."""
        stream = _current_stream((*args, *kwargs.values()))

        def call():
            if stream is None:
                return self(*args, **kwargs)
            with stream:
                return self(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._threads(), call)

    def run_table(self, table: Any, *, columns: Mapping[str, str | Sequence[str]] | None = None, nulls: str = "refuse",
                  masks: Mapping[str, str] | None = None, cast: bool = False, batch_rows: int | None = None) -> Any:
        """Runs the plan over the rows of a table and returns a table of the same kind, with a column for each output.

        table: pyarrow's Table or RecordBatch, pandas' or polars' DataFrame, a dict of arrays, or whatever has Arrow's
            __arrow_c_stream__, __arrow_c_array__ or __arrow_c_device_array__ (the result is a pysinter.Table then).
        columns: the columns that an input takes, by name of the input: one, or several side by side in a row of
            features; "*" is all, in the table's order. Other inputs take the column of their own name.
        nulls: "refuse", or "nan" in inputs of floats. NaN of pandas' columns of floats is NaN.
        masks: by name of an input the one that is given 1 where it has a value and 0 where it has a null.
        cast: numbers are converted to the input's float32, float64, int32 or int64; else another type is an error.
        batch_rows: rows of a run; by default 65536, or as many as the plan takes.

        Raises UsageError for columns that are missing or of another type, and for nulls that nothing is said of.

        Fixed-size lists are rows of several values, and so are results with more than one value a row; dictionaries
        and categories are their codes. A CPU plan reads a column that fills an input alone where it lies. Results are
        in host memory.
        """
        return run_table(self, table, self._table_sessions, columns, nulls, masks, cast, batch_rows)

    def _threads(self) -> ThreadPoolExecutor:
        # A child of fork() has inherited the object, but not its threads.
        if self._executor is None or self._executor[0] != os.getpid():
            self._executor = os.getpid(), ThreadPoolExecutor(self._options().max_sessions, "sinter")
        return self._executor[1]

    def session(self, *, device_outputs: bool = False) -> Session:
        """A session of its own, which keeps states and inputs from run to run. `device_outputs`: inputs and outputs
        are in GPU memory."""
        return Session(self, device_outputs)

    def to_bytes(self) -> bytes:
        """What save() writes."""
        if self._file is None:
            return bytes(memoryview(self))
        self._check_file()
        with open(self.path, "rb") as file:
            return file.read()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan's file to `path`, where it appears whole or not at all. What is no regular file, such as a pipe, is
        written to. Raises FileError."""
        path = os.fspath(path)
        contents = memoryview(self) if self._file is None else self.to_bytes()
        try:
            self._write(path, contents)
        except OSError as error:
            raise file_error(f"cannot write the plan '{path}': {error.strerror}", error, path) from None

    @staticmethod
    def _write(path, contents):
        if os.path.exists(path) and not os.path.isfile(path):
            # A pipe that nobody reads is an error instead of a wait.
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "wb") as file:
                os.set_blocking(descriptor, True)
                file.write(contents)
            return
        partial = f"{path}.{secrets.token_hex(4)}.tmp"
        with open(partial, "xb") as file:  # never through a link that somebody planted
            try:
                file.write(contents)
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                os.remove(partial)
                raise

    def _check_file(self):
        try:
            now = _identity(self.path)
        except OSError as error:
            raise file_error(f"cannot read the plan '{self.path}': {error.strerror}", error, self.path) from None
        if now != self._file:
            raise UsageError(f"'{self.path}' is no longer the file that this plan was loaded from: load it again")

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The bytes travel, since another machine need not have the file. With protocol 5 a receiver may take them out
        # of band: Ray puts them into shared memory, where all workers of a machine read the same.
        if self._file is None:
            contents = pickle.PickleBuffer(self) if protocol >= 5 else self.to_bytes()
        else:
            contents = self.to_bytes()
            if protocol >= 5:
                contents = pickle.PickleBuffer(contents)
        return _restore, (contents, self._settings)

    def __repr__(self) -> str:
        lines = [f"<pysinter.Plan '{self._facts['model_name']}' for {self.target}"
                 + (f" ({', '.join(self.architectures)})" if self.architectures else "")]
        lines += [f"  in  {binding}" for binding in self.inputs]
        lines += [f"  out {binding}" for binding in self.outputs]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        def rows(kind, bindings):
            return [(kind, each.name, each.dtype, "[" + ", ".join(map(str, each.shape)) + "]",
                     ", ".join(f"{dim}: {dim.min} to {dim.max}" for dim in each.shape if dim.min != dim.max),
                     "state" if each.is_state else "") for each in bindings]
        return table(f"{self._facts['model_name']} for {self.target}",
                     ("", "name", "type", "shape", "range", ""), rows("input", self.inputs)
                     + rows("output", self.outputs))


_TAKING_STRINGS: dict[type, type] = {}


def _taking_strings(kind):
    """A kind of plan whose calls take arrays of strings (objects, Unicode, bytes), which become the integers that stand for
    them."""
    def call(self, *args: Any, **kwargs: Any) -> Any:
        names = [each.name for each in self.inputs if not each.is_state]
        encoders = self._encoders
        encoded = [encoders[name](array) if name in encoders else array for name, array in zip(names, args)]
        kwargs = {name: encoders[name](array) if name in encoders else array for name, array in kwargs.items()}
        return kind.__call__(self, *encoded, *args[len(names):], **kwargs)

    if kind not in _TAKING_STRINGS:
        _TAKING_STRINGS[kind] = types.new_class(
            kind.__name__, (kind,), exec_body=lambda body: body.update(__call__=call, __module__=kind.__module__))
    return _TAKING_STRINGS[kind]


class Session(_core.Session):
    """One session of a plan: states and inputs stay from run to run. One thread at a time uses it.

    run(*arrays, **arrays, out=None) takes what calling the plan takes; inputs that are not given are those of the run
    before. Arrays in host memory are copied when they are given; those in GPU memory are read by every later run, too.
    """

    def __init__(self, plan: Plan, device_outputs: bool = False) -> None:
        """Use Plan.session()."""
        super().__init__(plan, device_outputs)

    @property
    def plan(self) -> Plan:
        """That it runs."""
        plan: Plan = super().plan
        return plan

    def warm_up(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Prepares a run, so that the first one does not. shapes: by name of the input, {"x": (1, 8)}."""
        self._warm_up({name: list(shape) for name, shape in shapes.items()})

    def set_weights(self, plan: Plan) -> None:
        """Later runs, of all sessions that share the weights, compute with those of `plan`, which plan.with_weights()
        or `sinter refit` has made of this session's plan. Nothing is allocated."""
        self._set_weights(plan)

    @property
    def outputs(self) -> dict[str, Any]:
        """What the last run left in all outputs, states included, by name: copies."""
        return {binding.name: self.output(binding.name) for binding in self.plan.outputs}

    def __repr__(self) -> str:
        return f"<pysinter.Session of {self.plan!r}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a session cannot be pickled: send its plan, and make a session there")


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview, *, device: int = 0, threads: int = 0,
         max_sessions: int = 0, copy: bool = False, max_iterations: int = 10_000_000, allow_custom_code: bool = True,
         operator_libraries: Sequence[str | os.PathLike[str]] = (), weight_budget: int = 0,
         require_signature: str | os.PathLike[str] | None = None) -> Plan:
    """A plan from a file, which must not be changed while it is used, or from the bytes of one.

    source: the file's path, or its bytes.
    device: the GPU of a CUDA plan.
    threads: most threads of the pool (set_threads) that one call of a CPU plan uses; 0: all.
    max_sessions: most calls that run at once, each with memory of its own; others wait. 0: as many as get_threads(),
        and 4 of a CUDA plan.
    max_iterations: of all loops of the model in a call; more are an error.
    weight_budget: most bytes of a GPU's memory for weights, of each session; others stay in pinned host memory and are
        copied ahead of the steps that read them. 0: no limit.
    copy: the file is read into memory instead of mapped, so that it may be changed: a mapped file that is truncated
        ends the process. Bytes are used where they lie if they cannot change, else copied.
    allow_custom_code: False: a plan with code in it is an InvalidPlanError, unless require_signature says who vouches for
        it. Kernels are code, and what a plan says of itself is no proof: so is every plan for GPUs.
    require_signature: the public key of Ed25519 of its maker (PEM, base64, or the path of a file): a plan without a
        signature by it over all of its file (`sinter sign`) is an InvalidPlanError, before anything else is read of it.
    operator_libraries: shared libraries that compute operators of the plan's (Plan.host_operators); functions of
        custom_op() are found without.

    Raises FileError (a FileNotFoundError where there is none), InvalidPlanError, OutOfMemoryError, DeviceError.
    """
    return Plan(source, device=device, threads=threads, max_sessions=max_sessions, copy=copy,
                max_iterations=max_iterations, allow_custom_code=allow_custom_code,
                operator_libraries=operator_libraries, weight_budget=weight_budget, require_signature=require_signature)


def _restore(contents, settings):
    return Plan(contents, **settings)


def _current_stream(arguments):
    """What makes the stream current that is so here, in another thread; None if nothing is in GPU memory."""
    for value in arguments:
        if getattr(value, "is_cuda", False):
            import torch
            return torch.cuda.stream(torch.cuda.current_stream(value.device))
        if type(value).__module__.partition(".")[0] == "cupy":
            import cupy
            return cupy.cuda.get_current_stream()
    return None
