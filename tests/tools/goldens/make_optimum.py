#!/usr/bin/env python3
"""Write a tiny T5 as Optimum exports it (models/tiny/optimum_encoder.onnx, optimum_decoder.onnx, whose caches of the
encoder come out of the first step), and what transformers' greedy search says after some prompts (optimum.json).

  make_optimum.py        needs models/requirements-export.txt
"""
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from optimum.exporters.onnx import onnx_export_from_model
from transformers import T5Config, T5ForConditionalGeneration

HERE = Path(__file__).resolve().parent
TINY = HERE.parents[2] / "models" / "tiny"
LENGTHS, TOKENS, DISTINCT, LEAD = (1, 4, 7, 12), 12, 5, 1e-2


def model():
    torch.manual_seed(3)
    config = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0,
                      pad_token_id=0, eos_token_id=1, tie_word_embeddings=False, initializer_factor=3.0)
    return T5ForConditionalGeneration(config).eval()


@torch.no_grad()
def greedy(network, prompt):
    """Tokens, and by how much the least certain one leads."""
    ids = torch.tensor([prompt])
    encoded = network.get_encoder()(ids, attention_mask=torch.ones_like(ids))
    tokens, leads = [network.config.decoder_start_token_id], []
    for _ in range(TOKENS):
        logits = network(encoder_outputs=encoded, attention_mask=torch.ones_like(ids),
                         decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
        best = torch.topk(logits, 2)
        leads.append(float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
    return tokens[1:], min(leads)


def cases(network):
    """So that no rounding decides, and what the encoder gave does."""
    random = np.random.default_rng(4)
    for length in LENGTHS:
        tokens, lead = [], 0.0
        while lead < LEAD or len(set(tokens)) < DISTINCT:
            prompt = random.integers(2, network.config.vocab_size, length).tolist()
            tokens, lead = greedy(network, prompt)
        yield {"prompt": prompt, "tokens": tokens}


def main():
    network = model()
    found = list(cases(network))
    with tempfile.TemporaryDirectory() as folder:
        onnx_export_from_model(network, output=folder, task="text2text-generation-with-past", do_validation=False)
        shutil.copy(Path(folder) / "encoder_model.onnx", TINY / "optimum_encoder.onnx")
        shutil.copy(Path(folder) / "decoder_model_merged.onnx", TINY / "optimum_decoder.onnx")
    (HERE / "optimum.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in found) + "\n]\n")


if __name__ == "__main__":
    main()
