# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings; tools/site/build.py copies this beside the pages."""
import os
import sys
from pathlib import Path
import types

project = "Sinter"
author = "Sinter contributors"
copyright = "Sinter contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
html_theme = "furo"
html_title = "Sinter"
html_show_sphinx = False
html_copy_source = False
smartquotes = False  # what stands in quotes is code as often as not
myst_heading_anchors = 6
myst_enable_extensions = []
# A field may be called `bytes`, as a type is.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["numpy"]


class Extension(types.ModuleType):
    """Stands for the extension, pysinter._core, which a machine that builds the pages has not built. Every name of it is a
    class of its own, which classes of the package can derive from."""

    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        value = "" if name == "__version__" else type(name, (object,), {"__module__": "pysinter._core"})
        setattr(self, name, value)
        return value


def process_docstring(app, what, name, subject, options, lines):
    lines[:] = [] if what == "module" else convert(lines)  # python.rst says what the module is


def setup(app):
    app.connect("autodoc-process-docstring", process_docstring)


sys.path.insert(0, os.environ["SINTER_PYTHON"])
sys.path.insert(0, os.environ["SINTER_SITE"])
from docstrings import convert  # noqa: E402
from option_rows import option_rows, sampling_rows  # noqa: E402

core = Extension("pysinter._core")
core.compile_option_rows = lambda: option_rows(Path(os.environ["SINTER_SITE"]).resolve().parents[1])
core.sampling_rows = lambda: sampling_rows(Path(os.environ["SINTER_SITE"]).resolve().parents[1])
sys.modules["pysinter._core"] = core
