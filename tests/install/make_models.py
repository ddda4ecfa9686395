#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real models as users have them, of what models/fetch.py brings, for tests/install/try_models.

  make_models.py FOLDER     smollm2.gguf (Q4_0), smollm2, minilm and whisper (folders), speech.wav

Needs espeak-ng, for the sound.
"""
import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "models")]
from check_speech import SENTENCES, speak, write_wav  # noqa: E402
from gguf_file import Checkpoint  # noqa: E402

CACHE = ROOT / "models" / "cache"
SMOLLM2 = CACHE / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def write_gguf(source, path, kind=gguf.GGMLQuantizationType.Q4_0):
    """The same file with another type of blocks."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            inner = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        shape = [int(size) for size in tensor.shape[::-1]]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        if len(shape) == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(checkpoint, folder):
    """As Hugging Face's: weights in float16."""
    folder.mkdir()
    c, of = checkpoint.config, lambda name: checkpoint.field(f"tokenizer.ggml.{name}_token_id")
    weights = checkpoint.weights()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16", "hidden_act": "silu",
        "hidden_size": c.hidden, "intermediate_size": c.intermediate, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "vocab_size": c.vocabulary,
        "max_position_embeddings": c.positions, "rms_norm_eps": c.epsilon, "rope_theta": c.theta,
        "tie_word_embeddings": "lm_head.weight" not in weights, "bos_token_id": of("bos"), "eos_token_id": of("eos")}, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": of("bos"), "eos_token_id": of("eos")}))
    (folder / "tokenizer_config.json").write_text(json.dumps(checkpoint.tokenizer_config(), indent=2))
    checkpoint.tokenizer().save(str(folder / "tokenizer.json"))
    save_file({name: np.ascontiguousarray(x, np.float16) for name, x in weights.items()}, folder / "model.safetensors")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    folder = p.parse_args().folder
    subprocess.run([sys.executable, ROOT / "models/fetch.py", "--files", "smollm2", "minilm", "whisper_base"], check=True, stdout=subprocess.DEVNULL)
    folder.mkdir(parents=True)
    write_gguf(SMOLLM2, folder / "smollm2.gguf")
    write_folder(Checkpoint(SMOLLM2), folder / "smollm2")
    for name, own in (("minilm", "minilm"), ("whisper_base", "whisper")):
        shutil.copytree(CACHE / name, folder / own)
    write_wav(folder / "speech.wav", speak(SENTENCES[0]))


if __name__ == "__main__":
    main()
