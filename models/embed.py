#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embed sentences with a compiled MiniLM plan and print how alike they are.

  embed.py --plan minilm.plan --sentences models/sentences.txt
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from minilm_inputs import encode, tokenizer

ROOT = Path(__file__).resolve().parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plan", required=True)
    p.add_argument("--sentences", default=str(ROOT / "models" / "sentences.txt"))
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    a = p.parse_args()
    sentences = Path(a.sentences).read_text().splitlines()
    with tempfile.TemporaryDirectory() as tmp:
        inputs, outputs = Path(tmp) / "inputs.npz", Path(tmp) / "outputs.npz"
        np.savez(inputs, **encode(sentences, tokenizer()))
        subprocess.run([a.sinter, "run", a.plan, "--inputs", inputs, "--outputs", outputs], check=True,
                       stdout=subprocess.DEVNULL)
        e = np.load(outputs)["sentence_embedding"].astype(np.float32)
    similarity = e @ e.T
    print("Cosine similarity of the sentences' embeddings:\n")
    print("     " + "".join(f"{j + 1:6d}" for j in range(len(sentences))))
    for i, (row, sentence) in enumerate(zip(similarity, sentences)):
        print(f"{i + 1:4d} " + "".join(f"{v:6.2f}" for v in row) + f"   {sentence}")
    for i in range(len(sentences)):
        others = np.where(np.arange(len(sentences)) == i, -2, similarity[i])
        j = int(np.argmax(others))
        if i < j and int(np.argmax(np.where(np.arange(len(sentences)) == j, -2, similarity[j]))) == i:
            print(f"\n  most alike: {i + 1} and {j + 1} ({similarity[i, j]:.2f})", end="")
    print("\n")


if __name__ == "__main__":
    main()
