# SPDX-License-Identifier: Apache-2.0
"""What every verb prints with --json, on small models: commands that check_json_schemas.py validates."""
from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "models/tiny"
GOLDENS = ROOT / "tests/tools/goldens"


def tokenizer() -> dict:
    """Byte-level, of the tiny decoder's 96 tokens (tiny_tokenizer.h)."""
    vocabulary = {chr(c): c - 33 for c in range(33, 127)} | {"\u0120": 94}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [{"id": 95, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": []}}


# Verb (of the schema), words, exit code.
def commands(folder: Path, has_cuda: bool = True) -> Iterator[tuple[str, list, int]]:
    bert, decoder = TINY / "bert.onnx", TINY / "decoder.onnx"
    plan, own = folder / "bert.plan", folder / "own.key"
    cpu = ["--target=cpu"]
    yield "compile", [bert, "-o", plan, *cpu, "--verify"], 0
    yield "compile", [bert, "-o", folder / "int8.plan", *cpu, "--weights=int8", "--precision=model"], 0
    yield "compile", [bert, "-o", folder / "bad.plan", *cpu, "--verify", "--max-error=1e-30"], 1
    yield "compile", [decoder, "-o", folder / "decoder.plan", *cpu, "--explain-fusion=all"], 0
    yield "compile", [decoder, "-o", folder / "own.plan", *cpu, "--serve=off"], 0
    yield "compile", [decoder, "-o", folder / "served.plan", *cpu, "--serve=block=4,sequences=4,step-tokens=16"], 0
    yield "compile", [bert, *cpu, "--stop-after=simplify"], 0
    yield "compile", [bert, "-o", folder / "ranks.plan", *cpu, "--tensor-parallel=2", "--verify"], 0
    if has_cuda:
        yield "compile", [bert, "--target=cuda:sm_90", "--tensor-parallel=2", "--explain-sharding"], 0
    yield "run", [plan, "--outputs", folder / "out.npz"], 0
    yield "run", [plan, "--expected", folder / "out.npz"], 0
    yield "run", [plan, "--expected", folder / "out.npz", "--seed", 9], 1
    yield "refit", [plan, "--weights", bert, "-o", folder / "again.plan"], 0
    yield "sign", ["--new-key", own], 0
    yield "sign", [plan, "--key", own, "-o", folder / "signed.plan"], 0
    yield "bench", [plan, "--iterations", 2, "--duration", 0.1], 0
    yield "bench", [plan, bert, "--iterations", 2, "--duration", 0.1], 0
    yield "compare", [bert, *cpu, "--rounds", 1], 0
    yield "compare", [bert, *cpu, "--rounds", 1, "--weights=int8"], 0
    yield "profile", [plan, "--rounds", 2], 0
    for words in (["--steps"], ["--kernels"], ["--memory", "--shapes=input_ids:2x8,attention_mask:2x8"], ["--graph"], ["--source"], ["--tuning"], ["--refit"], []):
        yield "inspect", [plan, *words], 0
    yield "inspect", [bert], 0
    yield "inspect", [bert, "--graph"], 0
    yield "inspect", [bert, *cpu, "--steps"], 0
    yield "inspect", [bert, *cpu, "--onnx", folder / "fused.onnx"], 0
    yield "inspect", ["--passes"], 0
    nodes = ["--why", *node_names(bert)[:2]]
    yield "inspect", [bert, *cpu, *nodes], 0
    yield "inspect", [decoder, *cpu, "--entry", "a:capacity=8", "--entry", "b:capacity=9", "--why",
                      *node_names(decoder)[:2]], 0
    yield "verify", [bert, *cpu], 0
    yield "verify", [bert, *cpu, "--tolerance=1e-30"], 1
    yield "verify", [bert, *cpu, "--per-node"], 0
    yield "verify", [bert, *cpu, "--bisect"], 0
    yield "verify", [bert, *cpu, "--bisect", "--tolerance=1e-30"], 1
    yield "verify", [bert, *cpu, "--reduce", folder / "least.txt"], 0
    yield "report", [plan, "-o", folder / "report.html", "--rounds", 1], 0
    yield "report", [bert, *cpu, "-o", folder / "report.html", "--no-profile"], 0
    if has_cuda:  # which compiles without a GPU
        gpu = folder / "gpu.plan"
        yield "compile", [bert, "-o", gpu, "--target=cuda:sm_90", "--precision=fp16"], 0
        for words in (["--steps"], ["--kernels"], ["--source"], []):
            yield "inspect", [gpu, *words], 0
    yield "ops", [], 0
    yield "ops", ["Conv"], 0
    yield "ops", ["--functions"], 0
    yield "doctor", [], 0
    for words in ([], ["compile"], ["serve"], ["tuning"], ["--options"]):
        yield "help", words, 0
    yield "completion", ["bash"], 0
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "requests.jsonl").write_text('{"ids": [1, 2, 3], "max_tokens": 3}\n{"ids": [4], "max_tokens": 2}\n')
    generate = ["--max-tokens", 4, "--no-rates", "--no-stop"]
    yield "generate", [folder / "decoder.plan", "--ids", "1,2,3", *generate], 0
    yield "generate", [folder / "decoder.plan", "--prompt", "abc", "--tokenizer", folder / "tokenizer.json",
                       "--max-tokens", 4], 0
    yield "generate", [folder / "served.plan", "--requests", folder / "requests.jsonl"], 0
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }};{% endfor %}")
    yield "chat", [folder / "decoder.plan", "--max-tokens", 4, "--context", 32], 0
    sentences = folder / "sentences"
    sentences.mkdir()
    (sentences / "model.onnx").write_bytes(bert.read_bytes())
    (sentences / "tokenizer.json").write_text(json.dumps(tokenizer()))
    yield "embed", [sentences, "ABC", "DEF", *cpu, "--plan-cache", folder / "plans"], 0
    for part in ("encoder", "decoder"):
        yield "compile", [TINY / f"speech_{part}.onnx", "-o", folder / f"speech_{part}.plan", *cpu], 0
    yield "transcribe", [folder / "speech_decoder.plan", GOLDENS / "speech.wav", "--encoder",
                         folder / "speech_encoder.plan", "--tokenizer", GOLDENS / "speech_tokenizer.json",
                         "--timestamps"], 0
    yield "serve", [plan, "--port", 0, "--grpc-port", 0], 0
    yield "error", ["compile", folder / "none.onnx"], 2
    yield "error", ["compile", bert, "--precison=fp16"], 2
    yield "error", ["fly"], 2


def node_names(model: Path) -> list[str]:
    import onnx
    return [node.name for node in onnx.load(model, load_external_data=False).graph.node if node.name]


def output_of(sinter: Path, verb: str, words: list, code: int):
    """The object that a command prints; raises for another exit code, or for what is no single object."""
    # serve prints it once it answers, and goes on until it is ended.
    command = [str(sinter), *([] if verb == "error" else [verb]), *map(str, words), "--json"]
    if verb == "serve":
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            text = ""
            while not text.rstrip().endswith("}"):
                line = process.stdout.readline()
                assert line, "the server ended"
                text += line
            process.terminate()
        return json.loads(text)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, input="abc\n")
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout[:500]}\n{done.stderr[-2000:]}"
    return json.loads(done.stdout)
