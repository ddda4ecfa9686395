#!/usr/bin/env python3
"""Writes greedy.json: what tiny decoders of models/tiny say after prompts: decoder.onnx by NumPy in float64, one
whose caches grow by ONNX Runtime."""
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "models"
sys.path.insert(0, str(MODELS))
from build_llama import TINY  # noqa: E402
from llama_numpy import Llama  # noqa: E402
from llama_onnx import random_weights  # noqa: E402

TOKENS, LEAD, DISTINCT = 24, 1e-3, 12


def by_numpy(prompt):
    return Llama(TINY, random_weights(TINY), TINY.positions, dtype=np.float64).greedy(prompt, TOKENS)


def by_onnx_runtime(session, prompt):
    """Tokens and leads of a model whose caches grow."""
    caches = {i.name: np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32) for i in session.get_inputs()[1:]}
    names, tokens, leads, new = [o.name for o in session.get_outputs()], [], [], prompt
    while len(tokens) < TOKENS:
        outputs = dict(zip(names, session.run(None, {"input_ids": np.array([new]), **caches})))
        caches = {k.replace("present", "past"): v for k, v in outputs.items() if k != "logits"}
        logits = outputs["logits"][0, -1]
        second, best = np.sort(logits)[-2:]
        leads.append(float(best - second))
        new = [int(logits.argmax())]
        tokens += new
    return tokens, leads


def cases(rng, vocabulary, greedy):
    for length in (1, 5, 11):
        tokens, leads = [], [0]
        # So that no rounding decides, and caches do.
        while min(leads) < LEAD or len(set(tokens)) < DISTINCT:
            prompt = rng.integers(0, vocabulary, length).tolist()
            tokens, leads = greedy(prompt)
        yield {"prompt": prompt, "tokens": tokens}


def main():
    result = {"decoder": list(cases(np.random.default_rng(4), TINY.vocabulary, by_numpy))}
    name = "llama_ts"
    session = onnxruntime.InferenceSession(str(MODELS / "tiny" / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    vocabulary = session.get_outputs()[0].shape[2]
    result[name] = list(cases(np.random.default_rng(4), vocabulary, lambda ids: by_onnx_runtime(session, ids)))
    (HERE / "greedy.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
