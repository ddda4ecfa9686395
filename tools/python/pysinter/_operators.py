# SPDX-License-Identifier: Apache-2.0
"""Operators of your own: definitions, and functions that compute them."""
from __future__ import annotations

import inspect
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _core
from ._errors import UsageError

_registered: dict[str, CustomOp] = {}


class CustomOp:
    """An operator that a Python function computes on the CPU, made by custom_op(). Calling it calls the function.

    name, function, outputs, reference, cuda: what custom_op() was given. inputs, attributes: of the function's parameters.
    """

    def __init__(self, name: str, function: Callable[..., Any], outputs: Mapping[str, Mapping[str, Any]],
                 reference: str | os.PathLike[str] | None, cuda: Mapping[str, Any] | None) -> None:
        self.name = name
        self.function = function
        self.outputs = {output: dict(keys) for output, keys in outputs.items()}
        self.reference = None if reference is None else os.path.abspath(os.fspath(reference))
        self.cuda = None if cuda is None else dict(cuda)
        self.inputs, self.attributes = _parameters(name, function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result for args and kwargs."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<pysinter.CustomOp '{self.name}' ({', '.join(self.inputs)})>"

    def definition(self) -> str:
        """The operator as a definition file has it (`sinter compile --op`)."""
        domain, _, name = self.name.rpartition("::")
        lines = ["[[operator]]", f"domain = {_toml(domain)}", f"name = {_toml(name)}", f"inputs = {_toml(self.inputs)}"]
        if self.attributes:
            lines.append("attributes = {" + ", ".join(f"{key} = {_toml(value)}" for key, value in self.attributes.items())
                         + "}")
        if self.reference is not None:
            lines.append(f"reference = {_toml(self.reference)}")
        for output, keys in self.outputs.items():
            lines += ["[[operator.output]]", f"name = {_toml(output)}"]
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
        if self.cuda is not None:
            lines += _cuda(self.cuda)
        lines += ["[operator.host]", f"library = {_toml('the Python function ' + self.function.__qualname__)}"]
        return "\n".join(lines) + "\n"

    def _compute(self, inputs, attributes):
        results = self.function(*inputs, **attributes)
        if len(self.outputs) == 1 and not isinstance(results, (tuple, list)):
            return (results,)
        return results


def custom_op(name: str, *, outputs: Mapping[str, Mapping[str, Any]] | None = None,
              reference: str | os.PathLike[str] | None = None,
              cuda: Mapping[str, Any] | None = None) -> Callable[[Callable[..., Any]], CustomOp]:
    """Makes a function the operator `name`, "com.example::RowSum": it is called with a NumPy array for each input and
    returns one for each output (one by itself, several as a tuple). Its positional parameters are the inputs, its
    keyword-only ones the attributes; their defaults are the values where a node gives none, and without one the
    annotation says whether it is an int or a float.

        @pysinter.custom_op("com.example::RowSum", outputs={"y": {"shape": ["x[0]"]}})
        def row_sum(x, *, bias=0.0):
            return x.sum(axis=1) + np.float32(bias)

        plan = pysinter.compile("model.onnx", operators=[row_sum])

    outputs: by name, what a definition file says of an output: type, shape, value. Left out: one, "y", like the first
        input.
    reference: a model that computes the same, for verify.
    cuda: what a definition file says in [operator.cuda], as a dict: the kernels that compute it on a GPU, as CUDA text
        or as cubins of Triton. Paths are relative to the working directory.

    Plans that are loaded or compiled from then on find the function by the operator's name. The function gets arrays of
    its own and is called with the GIL, from any thread. Raises UsageError for names and parameters that no operator has.
    """
    if not re.fullmatch(r"[^:\s][^:]*::[A-Za-z_]\w*", name):
        raise UsageError(f"'{name}' names no operator: domain and name, as in \"com.example::RowSum\"")

    def register(function: Callable[..., Any]) -> CustomOp:
        op = CustomOp(name, function, outputs or {"y": {}}, reference, cuda)
        _registered[name] = op
        return op

    return register


def libraries(paths: Sequence[str | os.PathLike[str]]) -> list[Any]:
    """The shared libraries, and the functions that are registered."""
    if isinstance(paths, (str, os.PathLike)):
        raise UsageError("operator_libraries takes a list of paths")
    found = [_core.OperatorLibrary.open(os.fspath(path)) for path in paths]
    if _registered:
        found.append(_core.OperatorLibrary.of_functions({name: op._compute for name, op in _registered.items()}))
    return found


def definition_files(operators: Sequence[Any]) -> tuple[list[str], Any]:
    """The paths among `operators`, and one with the definitions of the others, which is there while the second result
    lives."""
    if isinstance(operators, (str, os.PathLike)):
        raise UsageError("operators takes a list of files and of what custom_op() makes")
    own = [op for op in operators if isinstance(op, CustomOp)]
    files = [os.fspath(op) for op in operators if not isinstance(op, CustomOp)]
    if not own:
        return files, None
    folder = tempfile.TemporaryDirectory(prefix="sinter-")
    path = Path(folder.name) / "operators.toml"
    path.write_text("\n".join(op.definition() for op in own), encoding="utf-8")
    return [*files, str(path)], folder


def _parameters(name, function):
    inputs: list[str] = []
    attributes: dict[str, int | float | str] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            inputs.append(parameter.name)
            continue
        if parameter.kind != parameter.KEYWORD_ONLY:
            raise UsageError(f"operator '{name}': *{parameter.name} is no input: name each one")
        value = parameter.default
        if value is parameter.empty:
            if parameter.annotation not in (int, float):
                raise UsageError(f"operator '{name}': attribute '{parameter.name}' has neither a default nor the "
                                 "annotation int or float")
            value = parameter.annotation.__name__
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"operator '{name}': attribute '{parameter.name}' is {value!r}: it takes an int or a float")
        attributes[parameter.name] = value
    return inputs, attributes


def _cuda(cuda):
    tables = {"workspace": cuda.get("workspace", ()), "kernel": cuda.get("kernel", ())}
    lines = ["[operator.cuda]"]
    for key, value in cuda.items():
        if key == "file":
            value = os.path.abspath(os.fspath(value))
        elif key == "cubin":
            value = {architecture: os.path.abspath(os.fspath(path)) for architecture, path in value.items()}
        if key not in tables:
            lines.append(f"{key} = {_toml(value)}")
    for key, rows in tables.items():
        for row in [rows] if isinstance(rows, Mapping) else rows:
            lines.append(f"[[operator.cuda.{key}]]")
            lines += [f"{name} = {_toml(value)}" for name, value in row.items()]
    return lines


def _toml(value):
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value))
    raise UsageError(f"an operator's definition has {value!r}: it takes text, numbers, lists and dicts of them")
