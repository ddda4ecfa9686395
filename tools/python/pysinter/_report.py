# SPDX-License-Identifier: Apache-2.0
"""The page of `sinter report`, for files and notebooks."""
from __future__ import annotations

import os
from typing import Any

from . import _core
from ._compile import Progress, _shown, _split
from ._errors import UsageError, file_error
from ._html import frame
from ._models import source_of
from ._options import Tensors, compile_options, run_inputs, session_options
from ._plan import Plan


class Report:
    """A picture of a plan: one HTML page that loads nothing. Notebooks show it inline.

    html: the page, as text
    height: of the frame in a notebook, in CSS pixels
    """

    def __init__(self, html: str, *, height: int = 640) -> None:
        """report() makes it."""
        self.html, self.height = html, height

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to the file `path`. Raises FileError where that cannot be."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.html)
        except OSError as error:
            raise file_error(f"cannot write the report '{os.fspath(path)}': {error.strerror}", error, path) from None

    def __repr__(self) -> str:
        return f"<pysinter.Report of {len(self.html):,} characters: save(path) writes it>"

    def _repr_html_(self) -> str:
        return frame(self.html, "Sinter's report", self.height)


def report(what: Any, *, inputs: Any = None, shapes: Any = None, ranges: Any = None, seed: int = 0, measure: bool = True,
           rounds: int = 5, verify: bool = False, against: Report | None = None, device: int = 0, threads: int = 0,
           progress: Progress = None, **options: Any) -> Report:
    """A page of the graph, the kernels, memory and where the time goes: what `sinter report` writes.

    what: a model, as compile() takes it, or a Plan, which does not know refused fusions
    inputs: arrays by name, or files; the rest is random
    shapes: by input, {"x": (1, 8)}: those that sizes and times are shown for
    ranges: of random inputs, {"x": (low, high)}; seed: of these
    measure: False: the plan is not run, and the page has no times
    rounds: of measuring; medians are shown
    verify: of a model: each kernel is run on the reference's inputs, and its error is shown
    against: another Report, which the page puts beside this one
    device, threads: where it is measured, as load() takes them
    progress: True for a bar on stderr, or a function of stage, done and total
    options: of a model, compile()'s

    Raises what compile() raises, and UsageError for options of a model beside a plan.
    """
    tensors = Tensors()
    how = _core.ProfileOptions()
    how.inputs = run_inputs(tensors, inputs, shapes, ranges, seed)
    how.session = session_options(device, threads, options.get("operator_libraries", ()))
    how.rounds = int(rounds)
    other = "" if against is None else against.html
    if isinstance(what, Plan):
        if options or verify:
            raise UsageError(f"{', '.join(options) or 'verify'}: for models; a plan is reported as it was compiled")
        with _shown(progress) as bar:
            name = what.path or f"{what.metadata['model_name']}.plan"
            return Report(_core.report_plan(what, name, how, bool(measure), other, bar))
    source_keys, options = _split(options)
    made = compile_options(tensors, **options)
    with _shown(progress) as bar, source_of(what, **source_keys) as source:
        return Report(_core.report_model(source, made, how, bool(measure), bool(verify), other, bar))
