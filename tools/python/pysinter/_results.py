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
    """One thing that the compiler says. The message is whole by itself: it names the node, too."""
    severity: str  # "note", "warning", "error"
    code: str
    message: str
    node: str = ""
    op: str = ""
    shapes: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class OutputAccuracy:
    output: str
    relative_error: float
    largest_difference: float
    max_error: float
    ok: bool


@dataclass(frozen=True)
class Accuracy:
    """Errors against the reference evaluation in float64."""
    outputs: tuple[OutputAccuracy, ...]
    shapes: str  # of the inputs
    source: str  # of the inputs
    same_bits: bool  # in all runs
    ok: bool

    def _repr_html_(self) -> str:
        rows = [(each.output, f"{each.relative_error:.3g}", f"{each.max_error:.3g}", f"{each.largest_difference:.3g}",
                 "yes" if each.ok else "no") for each in self.outputs]
        title = f"{self.shapes}, {self.source}" + ("" if self.same_bits else ": results differ from run to run")
        return table(title, ("output", "relative error", "allowed", "largest difference", "ok"), rows)


@dataclass(frozen=True)
class LayerReport:
    """What became of the weights of one layer. Errors are relative, in the 2-norm."""
    name: str
    n: int
    k: int
    bits: int  # 0: kept
    type: str  # of both operands, if the activation is rounded, too
    weight_error: float
    output_error: float
    bytes_before: float
    bytes_after: float
    wider: str
    kept: str


@dataclass(frozen=True)
class StateReport:
    input: str
    output: str
    in_place: bool
    why_copied: str


@dataclass(frozen=True)
class CacheReport:
    """A cache in rows of 8 bits; `scales` is the state that has their scales."""
    input: str
    output: str
    scales: str
    model_type: str
    type: str
    shape: str
    error: float  # of a row of normal deviates, relative, in the 2-norm
    bytes_before: float
    bytes_after: float


@dataclass(frozen=True)
class PassReport:
    name: str
    milliseconds: float
    nodes_before: int
    nodes_after: int


@dataclass(frozen=True)
class FusionDecision:
    producer: str
    consumer: str
    fused: bool
    reason: str


@dataclass(frozen=True)
class LayoutDecision:
    node: str
    bytes: float
    other_bytes: float
    reason: str


@dataclass(frozen=True)
class TunedKernel:
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
    environment: str
    problem: str
    chosen: str
    microseconds: float


@dataclass(frozen=True)
class TuningReport:
    gpu: str
    versions: str
    file: str
    kernels: tuple[TunedKernel, ...]
    libraries: tuple[TunedLibraryCall, ...]
    kernels_from_file: int


@dataclass(frozen=True)
class CompileReport:
    """How a plan came about."""
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
    """Order statistics in microseconds."""
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
    """Unfused and fused, measured in turns in one process. The first variant is the baseline."""
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
    machine: str
    copy_bytes_per_second: float
    copy_bytes: int
    empty_step_microseconds: float
    operations_per_second: dict[str, float]
    operations_from: str
    timing: str


@dataclass(frozen=True)
class StepProfile:
    name: str
    microseconds: float
    bytes: int
    flops: int
    how: str
    arithmetic: str
    origins: tuple[str, ...]
    stream: int  # of those that independent steps are put on
    waits: tuple[str, ...]  # steps of other streams that it starts behind
    bound: str  # "memory", "compute", "launch"
    memory_us: float
    compute_us: float
    launch_us: float
    launches: int
    bandwidth: float  # bytes per second
    operations_per_second: float
    share_of_bound: float


@dataclass(frozen=True)
class ProfileReport:
    """Where the time of a run goes. Microseconds, but for counts; steps are the longest first."""
    target: str
    shapes: str
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
    host_to_device: float  # copies of inputs and outputs, which are not part of whole_us
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
