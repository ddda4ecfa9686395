# SPDX-License-Identifier: Apache-2.0
"""Plans as models of NVIDIA's Triton Inference Server: write_model() makes their folders, `pysinter.triton.backend` is what its
Python backend runs."""
from .repository import write_model

__all__ = ["write_model"]
