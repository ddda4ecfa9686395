# SPDX-License-Identifier: Apache-2.0
"""The compiler's calls."""
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

from . import _core
from ._errors import UsageError, VerificationError
from ._html import Facts, Why
from ._models import source_of
from ._options import Tensors, compile_options, run_inputs, session_options, shapes, verify_options
from ._plan import Plan
from ._progress import Bar
from ._results import Accuracy, CompareReport, CompileReport, Diagnostic, ProfileReport, build

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
            target: str = "auto", precision: Any = "model", weights: str = "model", keep_layers: Sequence[str] = (),
            max_layer_error: float = 0.0, calibration: Mapping[str, Any] | str | os.PathLike[str] | None = None,
            activation_scales: str = "static", weight_scales: str = "channel", smoothing: float | None = None,
            weight_rounding: str = "compensated", max_error: float | None = None, include_layers: Sequence[str] = (), emulate: bool = False,
            attention_precision: str = "model",
            dims: Mapping[str, Any] | None = None, bounds: Mapping[str, int] | None = None,
            min_shapes: Mapping[str, Sequence[int]] | str | None = None,
            max_shapes: Mapping[str, Sequence[int]] | str | None = None, constants: Mapping[str, Any] | None = None,
            operators: Sequence[Any] = (), operator_libraries: Sequence[str | os.PathLike[str]] = (),
            pad_selections: bool = False, drop_unsupported_outputs: bool = False,
            states: str | Mapping[str, str] | None = "auto", cache_precision: str = "model", packed: bool = False,
            serve: bool | str | Mapping[str, int] | None = None, sample: str | Mapping[str, Any] | None = None, entries: Mapping[str, Mapping[str, Any]] | None = None,
            fuse: bool = True, disabled_passes: Sequence[str] = (), programmatic_launch: bool = True,
            precise_math: bool = False, fast_accumulation: bool = False, schedule: str = "", strict: bool = False, tune: float = 0.0,
            tuning_file: str | os.PathLike[str] | None = None, tuning_gpu: str = "",
            tuning_shapes: Mapping[str, Sequence[int]] | str | None = None, jobs: int = 0,
            max_compile_memory: int | str | None = None,
            kernel_cache: str | os.PathLike[str] | None = "default", verify: bool | Mapping[str, Any] | None = None,
            progress: Progress = None, on_diagnostic: Callable[[Diagnostic], None] | None = None, device: int = 0,
            threads: int = 0, max_sessions: int = 0) -> CompiledPlan:
    """Compiles a model and returns its plan, ready to be called.

    The model
      model: the path of an ONNX file (or Graph text), its bytes, an onnx.ModelProto, a torch.nn.Module, a
        torch.export.ExportedProgram or a torch.onnx.ONNXProgram
      path: where the plan's file is written; without it the plan stays in memory
      example_inputs: of a torch module: a tensor, a sequence, or a dict by forward()'s parameters
      dynamic_shapes: of a torch module. "auto": every dimension that the module allows to vary does (one whose example
        is 1 stays 1); None: none does; else what torch.export takes, {"ids": {0: "batch", 1: "seq"}}
      external_data: the folder where weights of bytes or a ModelProto lie
      name: what the plan says its model is called

    What is asked for
      target: "auto" (the GPU that is here, else the CPU), "cpu", "cuda", "cuda:sm_90,sm_80"
      precision: "model", "fp16", "bf16", "tf32"; "int8" and "fp8": products with operands of 8 bits
      weights: "int8" or "int4", with ":group=N", ":asymmetric", ":embeddings", ":head", ":wide=E"
      keep_layers, max_layer_error, calibration: layers that keep their weights; samples by input, or a file.npz
      activation_scales, weight_scales, smoothing, weight_rounding, max_error, include_layers, emulate: of "int8" and
        "fp8": "static" (on `calibration`), "token" or, of "fp8", "block"; "channel" or "tensor"; SmoothQuant's exponent (0: none, None: the
        best for each layer); "compensated" (on `calibration`) or "nearest"; the most that outputs may be off by on the samples; layers that would stay for what they are; products
        that the target does not have in float on rounded operands
      attention_precision: "model", or "fp8": queries, keys, values and weights of attention in e4m3 (sm_90), with
        scales from `calibration`
      dims: by name: 8, (1, 64), (32, 960, 32) for multiples of 32, range(32, 961, 32), or what it equals ("batch",
        "past + seq"); an input of one bool that chooses between two bodies: 0 or 1
      bounds: the most that sizes may be which follow from data, by the value that holds one or the node that finds it
      min_shapes, max_shapes: by input: the least and the largest
      constants: inputs that become constants, as arrays
      operators: operators of your own: files that define them, by expressions, by CUDA text or as functions of a
        library, and what custom_op() makes
      operator_libraries: shared libraries with such functions, for verify, tune and the plan
      pad_selections: NonMaxSuppression gives all rows that it may, -1 where fewer are
      drop_unsupported_outputs: leave out outputs that depend on what is not supported (strings), with a warning
      states: "auto", None, or {input: output}: memory that sessions keep
      cache_precision: "model", or "fp8" or "int8": caches among the states in rows of 8 bits with a scale each; with
        `calibration` keys less the means of their channels
      packed: encoders compute the tokens alone that the attention mask, an input of 0 and 1, says exist
      serve: True, "block=16,sequences=256", or a dict of block, sequences, step_tokens, positions and few_tokens: a decoder
        becomes one of many sequences at once, for Engine; steps of few_tokens have kernels of their own
      sample: the plan chooses the next token: "greedy", "top_k=40,temperature=0.7", or a dict
      entries: steps of their own: {"prefill": {"sequence": (2, 512)}, "decode": {"sequence": 1}}
      verify: True or a dict (inputs, shapes, ranges, seed, max_error, runs, device, threads, save_folder): runs the
        plan beside the reference and keeps the errors in it; raises VerificationError above max_error
      fast_accumulation: sums of products of 8-bit floats stay in the tensor cores' accumulators, of about 14 bits
      fuse, disabled_passes, programmatic_launch, precise_math, schedule: for measurements
      strict: a generated kernel that NVRTC does not take is an error; else its operators have kernels of their own
      tune: seconds to time kernels for on this machine's GPU; tuning_file, tuning_gpu, tuning_shapes
      jobs: kernels compiled at once; kernel_cache: a folder, None for none
      max_compile_memory: bytes or "512M" that constants and tables may take which are computed while compiling; None:
        half of the memory that this process may use

    While it works
      progress: True for a bar on stderr, or a function of stage, done and total
      on_diagnostic: called with each Diagnostic as it arises; the plan's `diagnostics` have all. Exceptions of both end
        the call, and so does Ctrl-C.

    device, threads, max_sessions: of the plan, as load() takes them.
    """
    tensors = Tensors()
    options = compile_options(
        tensors, target=target, precision=precision, weights=weights, keep_layers=keep_layers,
        max_layer_error=max_layer_error, calibration=calibration, activation_scales=activation_scales,
        weight_scales=weight_scales, smoothing=smoothing, weight_rounding=weight_rounding, max_error=max_error,
        include_layers=include_layers, emulate=emulate, attention_precision=attention_precision, dims=dims, bounds=bounds, min_shapes=min_shapes,
        max_shapes=max_shapes, constants=constants, operators=operators, pad_selections=pad_selections,
        drop_unsupported_outputs=drop_unsupported_outputs, states=states, cache_precision=cache_precision, packed=packed, serve=serve, sample=sample,
        entries=entries, fuse=fuse, disabled_passes=disabled_passes, programmatic_launch=programmatic_launch,
        precise_math=precise_math, fast_accumulation=fast_accumulation, schedule=schedule, strict=strict, tune=tune, tuning_file=tuning_file,
        tuning_gpu=tuning_gpu, tuning_shapes=tuning_shapes, jobs=jobs, max_compile_memory=max_compile_memory,
        kernel_cache=kernel_cache, verify=verify, operator_libraries=operator_libraries)
    path = os.path.abspath(os.fspath(path)) if path is not None else None
    tell = None if on_diagnostic is None else lambda said: on_diagnostic(build(Diagnostic, said))
    with _shown(progress) as bar, source_of(model, example_inputs=example_inputs, dynamic_shapes=dynamic_shapes,
                                            external_data=external_data, name=name) as source:
        contents, report = _core.compile(source, options, path, bar, tell)
    report = build(CompileReport, report)
    if not report.ok:
        raise _failed(report)
    plan = CompiledPlan(path if path is not None else contents, device=device, threads=threads,
                        max_sessions=max_sessions, operator_libraries=operator_libraries)
    plan.report = report
    return plan


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
