#!/usr/bin/env python3
"""Writes greedy.json: what models/tiny/decoder.onnx says after prompts, by NumPy in float64."""
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "models"))
from build_llama import SIZES  # noqa: E402
from llama_numpy import Llama  # noqa: E402
from llama_onnx import random_weights  # noqa: E402


TINY = SIZES["tiny"]


def main():
    rng, cases = np.random.default_rng(4), []
    for length in (1, 5, 11):
        leads = [0]
        while min(leads) < 2e-2:  # so that no rounding decides
            prompt = rng.integers(0, TINY.vocabulary, length).tolist()
            tokens, leads = Llama(TINY, random_weights(TINY), TINY.positions, dtype=np.float64).greedy(prompt, 24)
        cases.append({"prompt": prompt, "tokens": tokens})
    (HERE / "greedy.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
