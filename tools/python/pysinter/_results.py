# SPDX-License-Identifier: Apache-2.0
"""What the compiler tells, as frozen dataclasses."""
from __future__ import annotations

import dataclasses
import functools
import typing
from dataclasses import dataclass
from typing import Optional

from ._html import table


@dataclass(frozen=True)
class Diagnostic:
    """One thing that the compiler says.

    severity: "note", "warning" or "error". code: a stable word: an error's, else "import", "passes", "precision", "weights",
    "tuning" or "accuracy". message: whole by itself, it names the node, too. node, op, shapes: the ONNX node that it is about,
    its operator and version ("Loop-16") and the types of its inputs; empty: about no single one. hint: what to do instead.
    """
    severity: str
    code: str
    message: str
    node: str = ""
    op: str = ""
    shapes: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class OutputAccuracy:
    """How far one output is off the reference.

    output: its name. relative_error: in the 2-norm, relative to the reference's. largest_difference: of one element. max_error:
    the most that relative_error may be. ok: whether it is no more.
    """
    output: str
    relative_error: float
    largest_difference: float
    max_error: float
    ok: bool


@dataclass(frozen=True)
class Accuracy:
    """Errors against the reference evaluation in float64.

    outputs: of each output. shapes, source: of the inputs, "x [2, 8]", "seed 0". same_bits: all runs gave the same. ok: of all
    outputs, and of same_bits.
    """
    outputs: tuple[OutputAccuracy, ...]
    shapes: str
    source: str
    same_bits: bool
    ok: bool

    def _repr_html_(self) -> str:
        rows = [(each.output, f"{each.relative_error:.3g}", f"{each.max_error:.3g}", f"{each.largest_difference:.3g}",
                 "yes" if each.ok else "no") for each in self.outputs]
        title = f"{self.shapes}, {self.source}" + ("" if self.same_bits else ": results differ from run to run")
        return table(title, ("output", "relative error", "allowed", "largest difference", "ok"), rows)


@dataclass(frozen=True)
class LayerReport:
    """What became of the weights of one layer. Errors are relative, in the 2-norm.

    name: its ONNX nodes. n, k: the sizes of its weights. bits: of a weight; 0: kept as they were. type: of both operands, if the
    activation is rounded, too. weight_error, output_error: of the weights; of the layer's output, on the calibration's samples or
    on normal deviates. bytes_before, bytes_after: of the weights. wider: why it has more bits than asked for. kept: why it stays
    as it was.
    """
    name: str
    n: int
    k: int
    bits: int
    type: str
    weight_error: float
    output_error: float
    bytes_before: float
    bytes_after: float
    wider: str
    kept: str


@dataclass(frozen=True)
class StateReport:
    """A state that sessions keep.

    input, output: of the plan. in_place: the run writes where it reads. why_copied: why it does not.
    """
    input: str
    output: str
    in_place: bool
    why_copied: str


@dataclass(frozen=True)
class CacheReport:
    """A cache in rows of 8 bits.

    input, output: the state's. scales: the state that has their scales. model_type, type: of an element before and now. shape: as
    text. error: of a row of normal deviates, relative, in the 2-norm. bytes_before, bytes_after: of the cache at its largest.
    """
    input: str
    output: str
    scales: str
    model_type: str
    type: str
    shape: str
    error: float
    bytes_before: float
    bytes_after: float


@dataclass(frozen=True)
class PassReport:
    """One pass of the compiler.

    name: as disabled_passes takes it. milliseconds: that it took. nodes_before, nodes_after: of the graph.
    """
    name: str
    milliseconds: float
    nodes_before: int
    nodes_after: int


@dataclass(frozen=True)
class FusionDecision:
    """What a pass decided about two nodes.

    producer, consumer: the nodes. fused: whether they went into one kernel. reason: why.
    """
    producer: str
    consumer: str
    fused: bool
    reason: str


@dataclass(frozen=True)
class LayoutDecision:
    """Why the result of a node lies in memory as it lies.

    node: whose. bytes, other_bytes: moved around it for what lies otherwise than it is read: as it is, and in the next best order.
    reason: why it was chosen.
    """
    node: str
    bytes: float
    other_bytes: float
    reason: str


@dataclass(frozen=True)
class TunedKernel:
    """What timing one kernel came to.

    name: the kernel's. uses: steps that run it. rule, chosen: the schedule by rule, and the one taken. rule_us, chosen_us: their
    microseconds. tried, candidates: schedules that were timed, and that there are. problem: why it was not timed.
    """
    name: str
    uses: int
    rule: str
    chosen: str
    rule_us: float
    chosen_us: float
    tried: int
    candidates: int
    problem: str


@dataclass(frozen=True)
class TunedLibraryCall:
    """What was chosen for one product or convolution of a library.

    environment: GPU, driver and the library's version. problem: what it computes. chosen: the algorithm. microseconds: of it.
    """
    environment: str
    problem: str
    chosen: str
    microseconds: float


@dataclass(frozen=True)
class TuningReport:
    """What tuning came to.

    gpu, versions: where it was timed; empty: nothing was. file: where choices are kept. kernels, libraries: that were timed.
    kernels_from_file: how many were known already.
    """
    gpu: str
    versions: str
    file: str
    kernels: tuple[TunedKernel, ...]
    libraries: tuple[TunedLibraryCall, ...]
    kernels_from_file: int


@dataclass(frozen=True)
class CompileReport:
    """How a plan came about.

    ok: False: the measured error is above max_error, and there is no plan. plan_bytes: of its file. target: "cpu", "cuda:sm_90".
    diagnostics: all that was said. nodes_imported: of the model. steps, kernels, kernels_from_cache: of the plan. import_ms,
    passes_ms, codegen_ms: milliseconds. passes: each. precision_notes: what was lowered, what was kept and why. layers: of
    `weights` and 8-bit `precision`. bytes_without_rounding: of the plan, had these layers kept their floats. states, caches: that
    sessions keep. decisions, layouts: of the passes. accuracy: if `verify` asked. tuning: if `tune` did.
    """
    ok: bool
    plan_bytes: int
    target: str
    diagnostics: tuple[Diagnostic, ...]
    nodes_imported: int
    steps: int
    kernels: int
    kernels_from_cache: int
    import_ms: float
    passes_ms: float
    codegen_ms: float
    passes: tuple[PassReport, ...]
    precision_notes: tuple[str, ...]
    layers: tuple[LayerReport, ...]
    bytes_without_rounding: float
    states: tuple[StateReport, ...]
    caches: tuple[CacheReport, ...]
    decisions: tuple[FusionDecision, ...] = dataclasses.field(repr=False, default=())
    layouts: tuple[LayoutDecision, ...] = dataclasses.field(repr=False, default=())
    accuracy: Optional[Accuracy] = None
    tuning: Optional[TuningReport] = None

    def _repr_html_(self) -> str:
        rows = [("plan", f"{self.plan_bytes:,} bytes"), ("nodes of the model", self.nodes_imported),
                ("steps", self.steps), ("kernels", f"{self.kernels}, {self.kernels_from_cache} of them from the cache"),
                ("import, passes, code", f"{self.import_ms:.0f}, {self.passes_ms:.0f}, {self.codegen_ms:.0f} ms")]
        rows += [(f"error of {each.output}", f"{each.relative_error:.3g} of {each.max_error:.3g}")
                 for each in (self.accuracy.outputs if self.accuracy else ())]
        rows += [(said.severity, said.message) for said in self.diagnostics]
        return table(f"plan for {self.target}" + ("" if self.ok else ": refused"), ("", ""), rows)


@dataclass(frozen=True)
class Statistics:
    """Order statistics in microseconds.

    min, mean, median, p10, p90, p95, p99, max: of all runs; pN: N percent took no longer. count: of runs.
    """
    min: float
    mean: float
    median: float
    p10: float
    p90: float
    p95: float
    p99: float
    max: float
    count: int


@dataclass(frozen=True)
class Variant:
    """One way to compile a model, as compare() measured it.

    name: "unfused", "fused", ... compute, wall: device time and whole time of a run. speed_up: of compute's median, against the
    first variant. launches: of a run. bytes_moved: that its steps must read and write. plan_bytes, weight_bytes, memory_bytes: of
    the file, of the weights, of a session.
    """
    name: str
    compute: Statistics
    wall: Statistics
    speed_up: float
    launches: int
    bytes_moved: int
    plan_bytes: int
    weight_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class CompareReport:
    """Unfused and fused, measured in turns in one process.

    target, shapes: of the plans, of the inputs. variants: the first is the baseline. difference: the largest relative error of an
    output against it. weights_error: against the model's own weights, if others were asked for, else None. diagnostics: of all
    compilations.
    """
    target: str
    shapes: str
    variants: tuple[Variant, ...]
    difference: float
    weights_error: Optional[float]
    diagnostics: tuple[Diagnostic, ...]

    def _repr_html_(self) -> str:
        rows = [(each.name, f"{each.compute.median:.1f}", f"{each.wall.median:.1f}", f"{each.speed_up:.2f}×",
                 each.launches, f"{each.bytes_moved:,}", f"{each.memory_bytes:,}") for each in self.variants]
        return table(f"{self.shapes} on {self.target}: medians",
                     ("variant", "compute µs", "wall µs", "speed-up", "launches", "bytes moved", "memory"), rows)


@dataclass(frozen=True)
class MachineRates:
    """What a machine can do.

    machine: "NVIDIA H200", "2 threads". copy_bytes_per_second: measured: read plus written by a copy from cold caches, of
    copy_bytes. empty_step_microseconds: measured, of a step that does nothing. operations_per_second: by arithmetic: "Scalar"
    counts single operations, others those of products. operations_from, timing: where these rates are from and how steps are
    timed, as text.
    """
    machine: str
    copy_bytes_per_second: float
    copy_bytes: int
    empty_step_microseconds: float
    operations_per_second: dict[str, float]
    operations_from: str
    timing: str


@dataclass(frozen=True)
class StepProfile:
    """One step's time against what the machine can do.

    name: of the kernel or library call. microseconds: of a run. bytes, flops: that it must move, that it computes. how: what runs
    it. arithmetic: of its operations, as in MachineRates. origins: its ONNX nodes. stream, waits: of those that independent steps
    are put on, and the steps of others that it starts behind. bound: "memory", "compute" or "launch": what keeps it from being
    faster. memory_us, compute_us, launch_us: least times by each. launches: of it. bandwidth, operations_per_second: that it
    reaches, bandwidth in bytes per second. share_of_bound: the least time of what it is bound by over its time.
    is_slow: below a tenth of that, and not bound by its launch. faster_form: of its operators, or an option; empty if none is known.
    """
    name: str
    microseconds: float
    bytes: int
    flops: int
    how: str
    arithmetic: str
    origins: tuple[str, ...]
    stream: int
    waits: tuple[str, ...]
    bound: str
    memory_us: float
    compute_us: float
    launch_us: float
    launches: int
    bandwidth: float
    operations_per_second: float
    share_of_bound: float
    is_slow: bool
    faster_form: str


@dataclass(frozen=True)
class ProfileReport:
    """Where the time of a run goes. Microseconds, but for counts.

    target, shapes: of the plan, of the inputs. rates: of the machine. steps: the longest first. whole_us: of the run as it is
    replayed. steps_us: the sum of the steps; memory_us, compute_us, launch_us: its parts by what steps are bound by. gaps_us,
    overlap_us: whole_us less steps_us where that is positive, steps_us less whole_us where that is. launches, bytes, flops: of all
    steps. exact_products: what TF32 would save; empty if no float32 product is exact. host_to_device, device_to_host: of copies of inputs and outputs, which are not part of whole_us.
    """
    target: str
    shapes: str
    exact_products: str
    rates: MachineRates
    steps: tuple[StepProfile, ...]
    whole_us: float
    steps_us: float
    memory_us: float
    compute_us: float
    launch_us: float
    gaps_us: float
    overlap_us: float
    launches: int
    bytes: int
    flops: int
    host_to_device: float
    device_to_host: float

    def _repr_html_(self) -> str:
        rows = [(step.name, f"{step.microseconds:.1f}", step.bound, f"{step.share_of_bound:.0%}",
                 ", ".join(step.origins)) for step in self.steps]
        return table(f"{self.shapes}: {self.whole_us:.1f} µs", ("step", "µs", "bound by", "of bound", "nodes"), rows)


@functools.cache
def _types(kind):
    return typing.get_type_hints(kind)


def build(kind, value):
    """A dataclass of `kind` from the extension's dictionaries and lists."""
    if typing.get_origin(kind) is typing.Union:
        if value is None:
            return None
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is tuple:
        return tuple(build(typing.get_args(kind)[0], each) for each in value)
    if dataclasses.is_dataclass(kind):
        return kind(**{name: build(_types(kind)[name], each) for name, each in value.items()})
    return value
