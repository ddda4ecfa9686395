# SPDX-License-Identifier: Apache-2.0
"""What compile() takes as a model: files, bytes, ONNX objects and torch modules."""
from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import _core
from ._errors import UnsupportedError, UsageError

# An export sets the module's mode, levels of loggers and filters of warnings, which all threads share.
_exporting = threading.Lock()
MOST_MESSAGE_BYTES = 2**31 - 2**20  # protobuf's limit, with room for what is around the weights


def _is_torch_module(model) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_exported_program(model) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "export") and isinstance(model, torch.export.ExportedProgram)


@contextlib.contextmanager
def source_of(model, *, example_inputs=None, dynamic_shapes="auto", external_data=None, name=None):
    """The model as the compiler takes it."""
    torch_only = example_inputs is not None or dynamic_shapes != "auto"
    is_module = _is_torch_module(model)
    if torch_only and not is_module:
        raise UsageError("example_inputs and dynamic_shapes are for torch modules, and the model is a "
                         f"{type(model).__name__}")
    folder = os.fspath(external_data) if external_data is not None else ""
    if isinstance(model, (str, os.PathLike)):
        yield _core.Source(os.fspath(model), "", "")
    elif isinstance(model, (bytes, bytearray, memoryview)):
        yield _core.Source(model, folder, name or "model")
    elif is_module or _is_exported_program(model) or hasattr(model, "model_proto") and hasattr(model, "save"):
        program = _export(model, example_inputs, dynamic_shapes) if not hasattr(model, "model_proto") else model
        with tempfile.TemporaryDirectory(prefix="sinter-") as temporary:
            path = Path(temporary) / f"{name or type(model).__name__}.onnx"
            program.save(str(path))
            yield _core.Source(str(path), "", "")
    elif hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        with _proto_source(model, folder, name or model.graph.name or "model") as source:
            yield source
    else:
        raise UsageError(f"the model is a {type(model).__module__}.{type(model).__qualname__}: taken are a path, "
                         "bytes, onnx.ModelProto, torch.nn.Module, torch.export.ExportedProgram and torch.onnx.ONNXProgram")


@contextlib.contextmanager
def _proto_source(model, folder, name):
    if model.ByteSize() < MOST_MESSAGE_BYTES:
        yield _core.Source(model.SerializeToString(), folder, name)
        return
    # No message is so large: weights go to a file beside it. onnx does that in place, so to a copy.
    import onnx
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    with tempfile.TemporaryDirectory(prefix="sinter-") as temporary:
        path = str(Path(temporary) / f"{name}.onnx")
        onnx.save_model(copy, path, save_as_external_data=True, location="weights")
        del copy
        yield _core.Source(path, "", "")


def _automatic(value, torch):
    """Every dimension of every tensor as the exporter finds it: of any size where the module allows it."""
    if isinstance(value, torch.Tensor):
        return {d: torch.export.Dim.AUTO for d in range(value.dim())}
    if isinstance(value, Mapping):
        return {key: _automatic(each, torch) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_automatic(each, torch) for each in value)
    return None


def _export(model, example_inputs, dynamic_shapes):
    import torch
    if importlib.util.find_spec("onnxscript") is None:
        raise UsageError("exporting a torch module needs onnxscript: pip install onnxscript")
    if _is_exported_program(model):
        with _exporting:
            return _run_export(model, (), None, None)
    if example_inputs is None:
        raise UsageError("a torch module needs example_inputs: a tensor, a sequence of tensors, or a dict by the names "
                         "of forward()'s parameters; their shapes are examples unless dynamic_shapes is None")
    args, kwargs = (), None
    if isinstance(example_inputs, torch.Tensor):
        args = (example_inputs,)
    elif isinstance(example_inputs, Mapping):
        kwargs = dict(example_inputs)
    elif isinstance(example_inputs, Sequence):
        args = tuple(example_inputs)
    else:
        raise UsageError(f"example_inputs is a {type(example_inputs).__name__}: it takes a tensor, a sequence, or a "
                         "dict")
    with _exporting, _evaluating(model):
        if dynamic_shapes != "auto":
            made = _run_export(model, args, kwargs, dynamic_shapes)
            _keep_ranges(made, {dim.__name__: (dim.min, dim.max) for dim in _dims_in(dynamic_shapes, torch)})
            return made
        return _run_automatic(model, args, kwargs or {})


@contextlib.contextmanager
def _evaluating(model):
    """In evaluation mode; afterwards each part is in the mode that it was in, which need not be the whole's."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _run_automatic(model, args, kwargs):
    """With every dimension free that the module leaves free. torch.onnx.export knows no such thing by itself: it calls
    dimensions free that the module fixes."""
    import torch
    if kwargs:
        free = _automatic(kwargs, torch)
    else:
        free = tuple(_automatic(each, torch) for each in args)
    begun = time.monotonic()
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(model, args, kwargs, dynamic_shapes=free, strict=False)
    except Exception as error:
        raise _explain(error) from error
    seconds = time.monotonic() - begun
    made = _run_export(program, (), None, None)
    names = _name_dimensions(made.model.graph)
    # 2 is the least that torch lets a free dimension be, whatever the module does.
    _keep_ranges(made, {names[str(symbol)]: (range.lower if range.lower > 2 else 0, range.upper)
                        for symbol, range in program.range_constraints.items() if str(symbol) in names})
    for number, (name, d, size) in enumerate(_fixed_dimensions(program, args, kwargs, torch)):
        if size == 1:
            why = "torch takes a size of 1 for a fixed one: give an example of 2 or more, if others are meant"
        elif number < _MOST_REASONS and seconds < _MOST_SECONDS:
            why = _reason_of(model, args, kwargs, free, (name, d), program, torch)
        else:
            why = "forward() decides by it"
        _note(made, f"dimension {d} of input '{name}' is fixed at {size}, the example's: {why}")
    return made


# Each reason takes another export.
_MOST_REASONS, _MOST_SECONDS = 4, 20


def _note(made, text):
    """A warning that the importer gives."""
    made.model.metadata_props[f"sinter.note.{len(made.model.metadata_props)}"] = text


def _dims_in(shapes, torch):
    """The dimensions with a name and a range in what torch.export takes as dynamic_shapes."""
    if isinstance(shapes, Mapping):
        shapes = list(shapes.values())
    if isinstance(shapes, (list, tuple)):
        return [dim for each in shapes for dim in _dims_in(each, torch)]
    return [shapes] if hasattr(shapes, "__name__") and hasattr(shapes, "min") and hasattr(shapes, "max") else []


def _keep_ranges(made, ranges):
    """ONNX has names of dimensions, and no ranges: these go into the model's metadata, which the importer reads."""
    for name, (least, most) in ranges.items():
        limits = [str(int(limit)) if inside else "" for limit, inside in
                  ((least, least > 1), (most, most < 2**31))]
        if any(limits):
            made.model.metadata_props[f"sinter.range.{name}"] = "..".join(limits)


def _fixed_dimensions(program, args, kwargs, torch):
    """Input, dimension and size of what the export has fixed although it might have been free."""
    from torch.utils import _pytree
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    examples = [leaf for leaf in _pytree.tree_leaves((args, kwargs))]
    for name, example in zip(program.graph_signature.user_inputs, examples):
        if not isinstance(example, torch.Tensor) or name not in nodes:
            continue
        for d, size in enumerate(nodes[name].meta["val"].shape):
            if str(size).isdigit():  # a number, or a symbol that the module has fixed
                yield name, d, int(str(size))


def _reason_of(model, args, kwargs, free, which, program, torch):
    """Why a dimension cannot vary: what torch says when it has to."""
    from torch.utils import _pytree
    # An export leaves marks on its examples.
    args, kwargs = _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs))
    leaves = _pytree.tree_leaves((args, kwargs))
    names = iter([name for name, leaf in zip(program.graph_signature.user_inputs, leaves) if isinstance(leaf, torch.Tensor)])

    def marked(dims):
        if not isinstance(dims, dict):
            return dims
        own = next(names, None)
        return {d: torch.export.Dim.DYNAMIC if (own, d) == which else dim for d, dim in dims.items()}

    shapes = _pytree.tree_map(marked, free, is_leaf=lambda each: each is None or (
        isinstance(each, dict) and all(isinstance(key, int) for key in each)))
    try:
        with torch.no_grad(), _quiet():
            torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # noqa: BLE001: whatever it is, it is the reason
        for line in str(error).splitlines():
            line = " ".join(line.strip(" -").split())
            if "because" in line or "specialized" in line or "constant" in line:
                return line.split(". ")[0][:300]
    return "forward() decides by it"


def _name_dimensions(graph):
    """Free dimensions are called after the input where they are first: "x_0", where torch says "s77". Returns these names."""
    import onnx_ir
    names = {}
    for value in graph.inputs:
        for d, dim in enumerate(value.shape or ()):
            text = str(getattr(dim, "value", dim))
            if text.isidentifier():
                names.setdefault(text, f"{value.name}_{d}")

    def rename(dim):
        text = str(getattr(dim, "value", dim))
        if text.isdigit():  # an expression that the module has fixed
            return int(text)
        return re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), text)

    for value in (*graph.inputs, *(output for node in graph for output in node.outputs)):
        if value.shape is not None:
            value.shape = onnx_ir.Shape([rename(dim) for dim in value.shape])
    return names


@contextlib.contextmanager
def _quiet():
    """Without what the exporter logs: an error has all of it that is of use."""
    loggers = [logging.getLogger(name) for name in
               ("torch.onnx", "torch.fx", "torch._dynamo", "torch.export", "torch.onnx._internal.exporter._registration",
                "torch.fx.experimental.symbolic_shapes")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _run_export(model, args, kwargs, dynamic_shapes):
    import torch
    try:
        with torch.no_grad(), _quiet():
            return torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, dynamic_shapes=dynamic_shapes,
                                     verbose=False)
    except Exception as error:
        raise _explain(error) from error


def _explain(error):
    """A failed export as an error of ours, with the way out where there is one."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    said = " ".join(lines[:2]) if lines else type(cause).__name__
    text = " ".join(str(each) for each in (error, cause)).lower()
    kind = UnsupportedError
    if "data-dependent" in text or "guardondatadependent" in type(cause).__name__.lower():
        hint = ("forward() decides by the values of a tensor, which no graph can hold: replace the 'if' by "
                   "torch.where or torch.cond, and .item() by tensor arithmetic")
    elif "constraints violated" in text or "dynamic_shapes" in text or "specialized" in text or "inferred ranges" in text:
        kind = UsageError
        hint = ("forward() fixes a dimension that dynamic_shapes lets vary: leave it out there, or give "
                   "dynamic_shapes=None for the example's own sizes")
    elif "no onnx function found" in text or "no decompositions" in text or "dispatch" in text:
        hint = ("the operator has no form in ONNX: write it with others, or register one with "
                   "torch.onnx.export(custom_translation_table=...) and give compile() the ONNXProgram")
    elif isinstance(cause, TypeError) and "argument" in text:
        kind = UsageError
        hint = ("example_inputs must be what forward() takes: model(*example_inputs), or with a dict "
                   "model(**example_inputs), must work")
    else:
        hint = ("torch.export.export(model, args) shows the same error with its place; a model that only "
                   "torch.onnx.export(dynamo=False) can write is compiled from the file")
    return kind(f"torch could not export the module: {type(cause).__name__}: {said}; {hint}", hint=hint)
