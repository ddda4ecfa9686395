# SPDX-License-Identifier: Apache-2.0
"""The compiler's calls."""
from __future__ import annotations

import contextlib
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from inspect import signature as _signature
from typing import TYPE_CHECKING, Any, Union, Unpack

from . import _core
from ._errors import UsageError, VerificationError
from ._html import Facts, Why
from ._models import source_of
from ._options import (FORMS, ROWS, WORDS, Tensors, compile_options, default_of, run_inputs, session_options, shapes,
                       verify_options)
from ._plan import Plan
from ._progress import Bar
from ._results import Accuracy, CompareReport, CompileReport, Diagnostic, ProfileReport, build

if TYPE_CHECKING:
    from ._keywords import CompileKeywords

Progress = Union[bool, Callable[[str, int, int], None], None]
_SOURCE_KEYS = ("example_inputs", "dynamic_shapes", "external_data", "name")


class CompiledPlan(Plan):
    """A plan that compile() made.

    report: a CompileReport, how it came about.
    """

    report: CompileReport

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the compiler said: those of the report."""
        return self.report.diagnostics

    def __reduce_ex__(self, protocol: Any) -> Any:
        make, arguments = super().__reduce_ex__(protocol)
        return _restore, (*arguments, self.report)


def _restore(contents, settings, report):
    plan = CompiledPlan(contents, **settings)
    plan.report = report
    return plan


@contextlib.contextmanager
def _shown(progress: Progress) -> Iterator[Callable[[str, int, int], None] | None]:
    if progress is True:
        bar = Bar()
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield progress or None


def _split(keywords):
    source = {key: keywords.pop(key) for key in _SOURCE_KEYS if key in keywords}
    return source, keywords


def compile(model: Any, path: str | os.PathLike[str] | None = None, *, example_inputs: Any = None,
            dynamic_shapes: Any = "auto", external_data: str | os.PathLike[str] | None = None, name: str | None = None,
            progress: Progress = None, on_diagnostic: Callable[[Diagnostic], None] | None = None, device: int = 0,
            threads: int = 0, max_sessions: int = 0, **options: Unpack[CompileKeywords]) -> CompiledPlan:
    """Compiles a model and returns its plan, ready to be called.

    The model
      model: the path of an ONNX or GGUF file, of a Hugging Face folder or of Graph text, an ONNX file's bytes, an
        onnx.ModelProto, a torch.nn.Module, a torch.export.ExportedProgram or a torch.onnx.ONNXProgram
      path: where the plan's file is written; without it the plan stays in memory
      example_inputs: of a torch module: a tensor, a sequence, or a dict by forward()'s parameters
      dynamic_shapes: of a torch module. "auto": every dimension that the module allows to vary does (one whose example
        is 1 stays 1); None: none does; else what torch.export takes, {"ids": {0: "batch", 1: "seq"}}
      external_data: the folder where weights of bytes or a ModelProto lie
      name: what the plan says its model is called

    While it works
      progress: True for a bar on stderr, or a function of stage, done and total
      on_diagnostic: called with each Diagnostic as it arises; the plan's `diagnostics` have all. Exceptions of both end
        the call, and so does Ctrl-C.

    device, threads, max_sessions: of the plan, as load() takes them.
    """
    tensors = Tensors()
    made = compile_options(tensors, **options)
    path = os.path.abspath(os.fspath(path)) if path is not None else None
    tell = None if on_diagnostic is None else lambda said: on_diagnostic(build(Diagnostic, said))
    with _shown(progress) as bar, source_of(model, example_inputs=example_inputs, dynamic_shapes=dynamic_shapes,
                                            external_data=external_data, name=name) as source:
        contents, report = _core.compile(source, made, path, bar, tell)
    report = build(CompileReport, report)
    if not report.ok:
        raise _failed(report)
    plan = CompiledPlan(path if path is not None else contents, device=device, threads=threads,
                        max_sessions=max_sessions, operator_libraries=options.get("operator_libraries", ()))
    plan.report = report
    return plan


def _describe(function: Any) -> None:
    """Says the options by name: in the signature, and behind the text, by their groups."""
    signature = _signature(function)
    known = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    known += [Parameter(name, Parameter.KEYWORD_ONLY, default=default_of(row)) for name, row in ROWS.items()]
    function.__signature__ = signature.replace(parameters=known)
    names = {row["flag"].rpartition(",")[2]: name for name, row in ROWS.items()}
    lines, group = [], None
    for name, row in sorted(ROWS.items(), key=lambda item: item[1]["group_index"]):
        if row["group"] != group:
            group = row["group"]
            lines += ["", f"    {group}"]
        values = f" ({row['values'].replace('|', ', ')})" if row["kind"] == "choice" or name in WORDS else ""
        said = re.sub("--[a-zA-Z][a-zA-Z-]*", lambda flag: names.get(flag[0], flag[0]), row["help"])
        if name in FORMS and FORMS[name].__doc__:
            said += ". " + FORMS[name].__doc__
        said = " ".join(f"{name}{values}: {said}".split())
        lines += textwrap.wrap(said, 116, initial_indent="      ", subsequent_indent="        ")
    function.__doc__ += "\n".join(lines) + "\n    "


_describe(compile)


def _failed(report: CompileReport) -> VerificationError:
    worst = max(report.accuracy.outputs, key=lambda each: each.relative_error / (each.max_error or 1))
    if worst.ok and not report.accuracy.same_bits:
        message = ("the results of the same inputs differ from run to run: there is no plan; this is a defect of "
                   "Sinter, and verify={'runs': 1} takes it")
        hint = "verify={'runs': 1}"
    else:
        message = (f"output '{worst.output}' is off by {worst.relative_error:.3g}, and max_error is "
                   f"{worst.max_error:.3g}: there is no plan; pysinter.verify tells more, and a higher max_error takes it")
        hint = "a higher precision, or verify={'max_error': ...}"
    return VerificationError(message, hint=hint, diagnostics=report.diagnostics, report=report)


def verify(model: Any, *, inputs: Any = None, shapes: Any = None, ranges: Any = None, seed: int = 0,
           max_error: float | None = None, runs: int = 1, device: int = 0, threads: int = 0,
           save_folder: str | os.PathLike[str] | None = None, progress: Progress = None, **options: Any) -> Accuracy:
    """The error of a model against the reference in float64.

    model, options: as compile() takes them
    inputs: arrays by name, or files ("in.npz", "x=file.npy"); the rest is random
    shapes: by input, {"x": (2, 8)}; ranges: of random inputs, {"x": (low, high)}; seed: of these
    max_error: the most that an output may be off by, relative, in the 2-norm; None: what its precision allows
    runs: with the same inputs, whose results must have the same bits
    device, threads: as load() takes them
    save_folder: where inputs, results and the reference's are written
    progress: True for a bar on stderr, or a function of stage, done and total

    Raises what compile() raises; an error above its bound is `ok` of the Accuracy.
    """
    tensors = Tensors()
    source_keys, options = _split(options)
    measured = verify_options(tensors, dict(inputs=inputs, shapes=shapes, ranges=ranges, seed=seed, max_error=max_error,
                                            runs=runs, device=device, threads=threads, save_folder=save_folder),
                              options.get("operator_libraries", ()))
    made = compile_options(tensors, **options)
    with _shown(progress) as bar, source_of(model, **source_keys) as source:
        return build(Accuracy, _core.verify(source, made, measured, bar, None))


def compare(model: Any, *, inputs: Any = None, shapes: Any = None, ranges: Any = None, seed: int = 0, rounds: int = 100,
            seconds: float = 10.0, hot: bool = False, device: int = 0, threads: int = 0, progress: Progress = None,
            **options: Any) -> CompareReport:
    """Compiles a model fused and unfused (with `weights`, also with its own) and measures all in turns.

    model, options: as compile() takes them; inputs, shapes, ranges, seed, device, threads, progress: as of verify()
    rounds, seconds: how often all are run, and for how long at most
    hot: caches keep what the run before left in them
    """
    tensors = Tensors()
    source_keys, options = _split(options)
    measure = _core.CompareOptions()
    measure.inputs = run_inputs(tensors, inputs, shapes, ranges, seed)
    measure.session = session_options(device, threads, options.get("operator_libraries", ()))
    measure.rounds, measure.seconds, measure.hot = int(rounds), float(seconds), bool(hot)
    made = compile_options(tensors, **options)
    with _shown(progress) as bar, source_of(model, **source_keys) as source:
        return build(CompareReport, _core.compare(source, made, measure, bar, None))


def profile(plan: Plan, *, inputs: Any = None, shapes: Any = None, ranges: Any = None, seed: int = 0, rounds: int = 20,
            device: int = 0, threads: int = 0, progress: Progress = None) -> ProfileReport:
    """Every step's time against what the machine can do.

    plan: a Plan; inputs, shapes, ranges, seed, device, threads, progress: as of verify()
    rounds: of measuring; medians are told
    """
    tensors = Tensors()
    options = _core.ProfileOptions()
    options.inputs = run_inputs(tensors, inputs, shapes, ranges, seed)
    options.session = session_options(device, threads)
    options.rounds = int(rounds)
    with _shown(progress) as bar:
        return build(ProfileReport, _core.profile(plan, options, bar))


def why(model: Any, node_a: str, node_b: str, **options: Any) -> dict[str, Any]:
    """Why two ONNX nodes are or are not in one kernel, and the bytes at stake: what `sinter inspect --why` tells, as a dict,
    which notebooks show as tables.

    model, options: as compile() takes them
    node_a, node_b: names of nodes; another is a UsageError that names those that are like it
    """
    source_keys, options = _split(options)
    tensors = Tensors()
    made = compile_options(tensors, **options)
    with source_of(model, **source_keys) as source:
        return Why(json.loads(_core.why(source, node_a, node_b, made)))


_VIEWS = ("graph", "steps", "kernels", "source", "memory", "tuning")
_shapes = shapes


def inspect(what: Any, *views: str, shapes: Mapping[str, Sequence[int]] | str | None = None,
            **options: Any) -> dict[str, Any]:
    """What is known of a plan or a model, as a dict.

    what: a Plan, or a model as compile() takes it: its opset, inputs, outputs and operators
    views: of a plan, in place of a summary: "graph", "steps", "kernels", "source", "memory", "tuning"
    shapes: of a plan, by input: those that numbers are for
    options: of a model, compile()'s
    """
    if isinstance(what, Plan):
        asked = _core.PlanViews()
        for view in views:
            if view not in _VIEWS:
                raise UsageError(f"no view '{view}': there are {', '.join(_VIEWS)}")
            setattr(asked, view, True)
        asked.shapes = _shapes(shapes)
        return Facts(json.loads(_core.inspect_plan(what, asked)))
    if views or shapes:
        raise UsageError("views and shapes are for plans: inspect(pysinter.compile(model), 'steps')")
    source_keys, options = _split(options)
    tensors = Tensors()
    made = compile_options(tensors, **options)
    with source_of(what, **source_keys) as source:
        return Facts(json.loads(_core.inspect_model(source, made)))
