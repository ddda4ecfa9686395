# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments as the compiler's options."""
from __future__ import annotations

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


def compile_options(tensors: Tensors, *, target="auto", precision="model", weights="model", keep_layers=(),
                    max_layer_error=0.0, calibration=None, activation_scales="static", weight_scales="channel", smoothing=None, weight_rounding="compensated",
                    max_error=None, include_layers=(), emulate=False, attention_precision="model", dims=None, bounds=None, min_shapes=None, max_shapes=None, constants=None,
                    operators=(), pad_selections=False, drop_unsupported_outputs=False, states="auto", cache_precision="model", packed=False, serve=None, sample=None, entries=None, fuse=True, disabled_passes=(),
                    programmatic_launch=True, precise_math=False, fast_accumulation=False, schedule="", strict=False, tune=0.0, tuning_file=None,
                    tuning_gpu="", tuning_shapes=None, jobs=0, max_compile_memory=None, kernel_cache="default",
                    verify=None, operator_libraries=()):
    options = _core.CompileOptions()
    options.target = target
    name = precision if isinstance(precision, str) else getattr(precision, "__name__", str(precision)).split(".")[-1]
    name = name.removeprefix("torch.")
    if name not in PRECISIONS:
        raise UsageError(f"precision '{name}' is none of {', '.join(PRECISIONS)}")
    options.precision = PRECISIONS[name]

    weight_options = _core.parse_weights(weights)
    weight_options.keep = list(keep_layers)
    weight_options.max_layer_error = float(max_layer_error)
    if isinstance(calibration, Mapping):
        weight_options.calibration = tensors.named(calibration)
    elif calibration is not None:
        weight_options.calibration_files = [os.fspath(calibration)]
    options.weights = weight_options
    if weight_scales not in ("channel", "tensor"):
        raise UsageError(f"weight_scales is {weight_scales!r}: it is 'channel' or 'tensor'")
    eight_bit = _core.EightBitOptions()
    if weight_rounding not in ("compensated", "nearest"):
        raise UsageError(f"weight_rounding is {weight_rounding!r}: it is 'compensated' or 'nearest'")
    eight_bit.compensate = weight_rounding == "compensated"
    eight_bit.activation_scales, eight_bit.per_channel = activation_scales, weight_scales == "channel"
    if smoothing is not None:
        eight_bit.smoothing = float(smoothing)
    if max_error is not None:
        eight_bit.max_error = float(max_error)
    eight_bit.include, eight_bit.emulate = list(include_layers), bool(emulate)
    options.eight_bit = eight_bit
    options.attention_precision = attention_precision

    options.min_shapes, options.max_shapes = shapes(min_shapes), shapes(max_shapes)
    options.dims = dim_ranges(dims)
    options.bounds = {name: int(most) for name, most in (bounds or {}).items()}
    options.constants = tensors.named(constants or {})
    options.operators = tensors.definitions(operators)
    options.pad_selections = bool(pad_selections)
    options.drop_unsupported_outputs = bool(drop_unsupported_outputs)
    options.packed = bool(packed)
    if isinstance(serve, Mapping):
        serve = ",".join(f"{name.replace('_', '-')}={int(value)}" for name, value in serve.items())
    if serve is not None and serve is not False:
        options.paging = _core.parse_paging("" if serve is True else serve)
    state_options = _core.StateOptions()
    if states is None:
        state_options.find = False
    elif isinstance(states, Mapping):
        state_options.pairs = [(taken, given) for taken, given in states.items()]
    elif states != "auto":
        raise UsageError(f"states is {states!r}: it takes 'auto', None, or a dict of inputs and their outputs")
    state_options.cache_precision = cache_precision
    options.states = state_options
    if isinstance(sample, str):
        options.sample = _core.parse_sample(sample)
    elif sample is not None:
        chosen = _core.SampleOptions()
        for key, value in sample.items():
            if not hasattr(chosen, key):
                raise UsageError(f"sample has no '{key}': there are temperature, top_k, top_p, keep_logits, ids, logits, "
                                 "position")
            setattr(chosen, key, [value] if key == "position" and isinstance(value, str) else value)
        options.sample = chosen
    made = []
    for entry_name, limits in (entries or {}).items():
        entry = _core.EntryOptions()
        entry.name, entry.limits = entry_name, dim_ranges(limits)
        made.append(entry)
    options.entries = made

    options.fuse = bool(fuse)
    options.disabled_passes = list(disabled_passes)
    options.programmatic_launch, options.precise_math = bool(programmatic_launch), bool(precise_math)
    options.fast_accumulation = bool(fast_accumulation)
    options.schedule, options.strict = schedule, bool(strict)
    tuning = _core.TuneOptions()
    tuning.seconds = float(tune)
    tuning.file, tuning.gpu = os.fspath(tuning_file or ""), tuning_gpu
    tuning.shapes = shapes(tuning_shapes)
    tuning.operator_libraries = libraries(operator_libraries)
    options.tuning = tuning
    options.jobs = int(jobs)
    if max_compile_memory is not None:
        options.max_compile_memory = _core.parse_bytes(str(max_compile_memory))
    if kernel_cache is None:
        options.kernel_cache = ""
    elif kernel_cache != "default":
        options.kernel_cache = os.fspath(kernel_cache)
    if verify is not None and verify is not False:
        options.verify = verify_options(tensors, verify, operator_libraries)
    return options
