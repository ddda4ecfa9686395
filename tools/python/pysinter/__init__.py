# SPDX-License-Identifier: Apache-2.0
"""Compiles ONNX and torch models ahead of time into plans, and runs them.

    plan = pysinter.compile("model.onnx", dims={"batch": (1, 32)})
    result = plan(array)
    plan.save("model.plan")
    plan = pysinter.load("model.plan")
"""
from ._arrays import Outputs
from ._compile import CompiledPlan, compare, compile, inspect, profile, verify, why
from ._core import __version__
from ._engine import Engine, Generation
from ._errors import (CancelledError, DeviceError, Error, FileError, InternalError, InvalidModelError, InvalidPlanError,
                      OutOfMemoryError, UnsupportedError, UsageError, VerificationError)
from ._operators import CustomOp, custom_op
from ._plan import Binding, Dim, Entry, Plan, Session, State, load
from ._report import Report, report
from ._process import Gpu, get_threads, gpus, set_logger, set_threads
from ._results import (Accuracy, CacheReport, CompareReport, CompileReport, Diagnostic, FusionDecision, LayerReport, LayoutDecision,
                       MachineRates, OutputAccuracy, PassReport, ProfileReport, StateReport, Statistics, StepProfile,
                       TunedKernel, TunedLibraryCall, TuningReport, Variant)
from ._tables import Table

__all__ = [
    "Accuracy", "Binding", "CacheReport", "CancelledError", "CompareReport", "CompileReport", "CompiledPlan", "CustomOp",
    "DeviceError", "Diagnostic", "Dim", "Engine", "Entry", "Error", "FileError", "FusionDecision", "Generation", "Gpu", "InternalError", "InvalidModelError",
    "InvalidPlanError", "LayerReport", "LayoutDecision", "MachineRates", "OutOfMemoryError", "OutputAccuracy", "Outputs",
    "PassReport", "Plan", "ProfileReport", "Report", "Session", "State", "StateReport", "Statistics", "StepProfile", "Table",
    "TunedKernel", "TunedLibraryCall", "TuningReport", "UnsupportedError", "UsageError", "Variant", "VerificationError",
    "__version__", "compare", "compile", "custom_op", "get_threads", "gpus", "inspect", "load", "profile", "report", "set_logger",
    "set_threads", "verify", "why",
]
