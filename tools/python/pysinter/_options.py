# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments as the compiler's options."""
from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._errors import UsageError
from ._operators import definition_files, libraries

PRECISIONS = {"model": "model", "fp16": "fp16", "float16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32",
              "int8": "int8", "fp8": "fp8"}


class Tensors:
    """Arrays by name for the compiler; kept while it works, for options hold views of them."""

    def __init__(self) -> None:
        self._kept: list[_core.NamedTensor] = []
        self._folders: list[Any] = []
        self.operator_libraries: Sequence[str | os.PathLike[str]] = ()  # paths

    def definitions(self, operators: Sequence[Any]) -> list[str]:
        """Files that define the operators, there as long as this is."""
        files, folder = definition_files(operators)
        self._folders.append(folder)
        return files

    def named(self, arrays: Mapping[str, Any]) -> list[_core.NamedTensor]:
        result = []
        for name, value in arrays.items():
            if hasattr(value, "detach"):
                value = value.detach().cpu()
            elif type(value).__module__.partition(".")[0] == "cupy":
                value = value.get()
            elif not hasattr(value, "__dlpack__"):
                value = np.asarray(value)
            result.append(_core.NamedTensor(name, value))
        self._kept += result
        return result


def shapes(value: Mapping[str, Sequence[int]] | str | None) -> dict[str, list[int]]:
    if value is None:
        return {}
    if isinstance(value, str):
        return _core.parse_shapes(value)
    try:
        return {name: [operator.index(size) for size in shape] for name, shape in value.items()}
    except TypeError:
        raise UsageError(f"shapes are {value!r}: they take whole numbers by name, {{'x': (1, 8)}}") from None


def dim_range(name: str, value: Any):
    """8, (1, 64), (32, 960, 32), range(32, 961, 32), or the name of a dimension that it equals."""
    result = _core.DimRange()
    if isinstance(value, str):
        return _core.parse_dim(f"{name}={value}")[name]
    if isinstance(value, range):
        if len(value) == 0 or value.step < 1 or value.start % value.step != 0:
            raise UsageError(f"dimension '{name}' is {value!r}: a range must begin with a multiple of its step")
        value = (value[0], value[-1], value.step)
    try:  # whatever counts as a whole number, NumPy's included
        numbers = [operator.index(each) for each in (value if isinstance(value, Sequence) else (value, value))]
    except TypeError:
        numbers = []
    if len(numbers) not in (2, 3):
        raise UsageError(f"dimension '{name}' is {value!r}: it takes a number, (least, most), (least, most, multiple), "
                         "a range, or the name of a dimension that it equals")
    result.min, result.max = numbers[:2]
    result.multiple_of = numbers[2] if len(numbers) == 3 else 1
    return result


def dim_ranges(value: Mapping[str, Any] | None) -> dict:
    return {name: dim_range(name, each) for name, each in (value or {}).items()}


def session_options(device: int, threads: int, operator_libraries=()):
    result = _core.SessionOptions()
    result.device, result.threads = device, threads
    result.operator_libraries = libraries(operator_libraries)
    return result


def run_inputs(tensors: Tensors, inputs, input_shapes, ranges, seed):
    """`inputs`: arrays by name, or files ("in.npz", "NAME=file.npy")."""
    result = _core.RunInputs()
    if isinstance(inputs, Mapping):
        result.tensors = tensors.named(inputs)
    elif inputs is not None:
        result.files = [os.fspath(each) for each in ([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)]
    result.shapes = shapes(input_shapes)
    result.ranges = {name: (float(low), float(high)) for name, (low, high) in (ranges or {}).items()}
    result.seed = int(seed)
    return result


VERIFY_KEYS = ("inputs", "shapes", "ranges", "seed", "max_error", "runs", "device", "threads", "save_folder")


def verify_options(tensors: Tensors, value, operator_libraries=()):
    """True, or a dict with some of VERIFY_KEYS."""
    settings = {} if value is True else dict(value)
    unknown = set(settings) - set(VERIFY_KEYS)
    if unknown:
        raise UsageError(f"verify has no '{sorted(unknown)[0]}': there are {', '.join(VERIFY_KEYS)}")
    result = _core.VerifyOptions()
    result.inputs = run_inputs(tensors, settings.get("inputs"), settings.get("shapes"), settings.get("ranges"),
                               settings.get("seed", 0))
    result.session = session_options(settings.get("device", 0), settings.get("threads", 0), operator_libraries)
    result.max_error = float(settings.get("max_error") or 0)
    result.runs = int(settings.get("runs", 1))
    result.save_folder = os.fspath(settings.get("save_folder") or "")
    return result


# Keywords of compile() whose values are no plain texts, numbers or lists: what each makes of the options. The
# keywords themselves, their defaults and help are the compiler's rows (`sinter help --options`). Annotations of
# `value` are what type checkers see (make_keywords.py).


def _set_precision(tensors: Tensors, options: Any, value: Any) -> None:
    name = value if isinstance(value, str) else getattr(value, "__name__", str(value)).split(".")[-1]
    name = name.removeprefix("torch.")
    if name not in PRECISIONS:
        raise UsageError(f"precision '{name}' is none of {', '.join(PRECISIONS)}")
    _core.set_option(options, "precision", PRECISIONS[name])


def _set_calibration(tensors: Tensors, options: Any,
                     value: Mapping[str, Any] | str | os.PathLike[str] | None) -> None:
    weights = options.weights
    if isinstance(value, Mapping):
        weights.calibration = tensors.named(value)
    elif value is not None:
        weights.calibration_files = [os.fspath(value)]
    options.weights = weights


def _set_smoothing(tensors: Tensors, options: Any, value: float | None) -> None:
    """SmoothQuant's exponent (0: none; None: the best for each layer)."""
    _core.set_option(options, "smoothing", "auto" if value is None else repr(float(value)))


def _set_dims(tensors: Tensors, options: Any, value: Mapping[str, Any] | None) -> None:
    """By name: 8, (1, 64), (32, 960, 32) or range(32, 961, 32) for multiples of 32, or what it equals ("batch",
    "past + seq"); of an input of one bool that chooses between two bodies 0 or 1."""
    options.dims = dim_ranges(value)


def _set_bounds(tensors: Tensors, options: Any, value: Mapping[str, int] | None) -> None:
    options.bounds = {name: int(most) for name, most in (value or {}).items()}


def _set_min_shapes(tensors: Tensors, options: Any, value: Mapping[str, Sequence[int]] | str | None) -> None:
    options.min_shapes = shapes(value)


def _set_max_shapes(tensors: Tensors, options: Any, value: Mapping[str, Sequence[int]] | str | None) -> None:
    options.max_shapes = shapes(value)


def _set_tuning_shapes(tensors: Tensors, options: Any, value: Mapping[str, Sequence[int]] | str | None) -> None:
    tuning = options.tuning
    tuning.shapes = shapes(value)
    options.tuning = tuning


def _set_constants(tensors: Tensors, options: Any, value: Mapping[str, Any] | None) -> None:
    """Arrays by name."""
    options.constants = tensors.named(value or {})


def _set_operators(tensors: Tensors, options: Any, value: Sequence[Any] | None) -> None:
    """Files, and what custom_op() makes."""
    options.operators = tensors.definitions(value or ())


def _set_operator_libraries(tensors: Tensors, options: Any, value: Sequence[str | os.PathLike[str]] | None) -> None:
    tensors.operator_libraries = value = value or ()
    tuning = options.tuning
    tuning.operator_libraries = libraries(value)
    options.tuning = tuning


def _set_serve(tensors: Tensors, options: Any, value: bool | str | Mapping[str, int] | None) -> None:
    """True, False, "auto", "block=16,sequences=256", or a dict of block, sequences, step_tokens, positions and few_tokens."""
    if isinstance(value, Mapping):
        value = ",".join(f"{name.replace('_', '-')}={int(each)}" for name, each in value.items()) or "on"
    if isinstance(value, bool):
        value = "on" if value else "off"
    _core.set_option(options, "serve", value or "auto")


def _set_states(tensors: Tensors, options: Any, value: str | Mapping[str, str] | None) -> None:
    """"auto", None, or {input: output}."""
    states = options.states
    if value is None:
        states.find = False
    elif isinstance(value, Mapping):
        states.pairs = list(value.items())
    elif value != "auto":
        raise UsageError(f"states is {value!r}: it takes 'auto', None, or a dict of inputs and their outputs")
    options.states = states


def _set_entries(tensors: Tensors, options: Any, value: Mapping[str, Mapping[str, Any]] | None) -> None:
    """{"prefill": {"sequence": (2, 512)}, "decode": {"sequence": 1}}."""
    made = []
    for name, limits in (value or {}).items():
        entry = _core.EntryOptions()
        entry.name, entry.limits = name, dim_ranges(limits)
        made.append(entry)
    options.entries = made


def _set_kernel_cache(tensors: Tensors, options: Any, value: str | os.PathLike[str] | None) -> None:
    """A folder; None: none."""
    if value != "default":
        options.kernel_cache = "" if value is None else os.fspath(value)


def _set_verify(tensors: Tensors, options: Any, value: bool | Mapping[str, Any] | None) -> None:
    """True, or a dict of inputs, shapes, ranges, seed, max_error, runs, device, threads, save_folder. Raises
    VerificationError above max_error."""
    if value is not None and value is not False:
        options.verify = verify_options(tensors, value, tensors.operator_libraries)


FORMS = {name.removeprefix("_set_"): form for name, form in list(globals().items()) if name.startswith("_set_")}
# In the order of the compiler's rows, where `weights` stand in front of what it keeps; what verify runs comes last.
ROWS = {row["keyword"]: row for row in _core.compile_option_rows() if row["keyword"]}
ROWS = {keyword: row for keyword, row in ROWS.items() if keyword != "verify"} | {"verify": ROWS["verify"]}


def default_of(row: Mapping[str, Any]) -> Any:
    """A keyword's default, as a signature has it."""
    keyword, kind, text = row["keyword"], row["kind"], row["default"]
    if keyword in FORMS:
        return {"kernel_cache": "default", "smoothing": None}.get(keyword, text or None)
    if kind == "switch":
        return text if keyword in WORDS else bool(text) and text == row["values"].partition("|")[0]
    if kind == "texts":
        return ()
    if kind in ("integer", "number") and text:
        return (int if kind == "integer" else float)(text)
    return text or ("" if kind == "text" else None)


# Switches whose values Python names, too.
WORDS = ("weight_scales", "weight_rounding")
NAMES = {"integer": "whole number", "bytes": "number of bytes", "choice": "text", "other": "text"}


def _text(row, value):
    """The text of a plain value, as the command line has it."""
    kind = row["kind"]
    try:
        if kind == "switch":
            on, _, off = (row["values"] or "on|off").partition("|")
            return value if isinstance(value, str) else on if value else off
        if kind == "integer":
            return str(operator.index(value))
        return repr(float(value)) if kind == "number" else os.fspath(value) if kind != "bytes" else str(value)
    except TypeError:
        raise UsageError(f"{row['keyword']} is {value!r}: it takes a {NAMES.get(kind, kind)}") from None


def compile_options(tensors: Tensors, **keywords):
    """Options from the keywords of compile()."""
    for keyword in keywords:
        if keyword not in ROWS:
            near = difflib.get_close_matches(keyword, ROWS, 1)
            raise TypeError(f"there is no option '{keyword}'" + (f": did you mean '{near[0]}'?" if near else ""))
    options = _core.CompileOptions()
    for keyword, row in ROWS.items():
        if keyword not in keywords:
            continue
        value = keywords[keyword]
        if keyword in FORMS:
            FORMS[keyword](tensors, options, value)
        elif row["kind"] == "texts":
            for each in value:
                _core.set_option(options, keyword, os.fspath(each))
        elif value is not None:
            _core.set_option(options, keyword, _text(row, value))
    return options
