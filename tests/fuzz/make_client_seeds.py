#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzzers of what clients send: make_client_seeds.py FOLDER"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/structured"))
from random_schemas import PATTERNS, schema_of  # noqa: E402

BODY = {"model": "tiny", "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 1, "n": 2, "stop": ["a", "b"],
        "logit_bias": {"1": 2.5}, "stream": True, "stream_options": {"include_usage": True}, "logprobs": 2, "priority": 1, "timeout_seconds": 3,
        "repetition_penalty": 1.1, "user": "u", "metadata": {}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, {"b": null}]}'}}


def tokenizers():
    vocabulary = {chr(c): c - 33 for c in range(33, 127)} | {"\u0120": 94, "ab": 95, "he": 96, "ll": 97}
    common = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
              "added_tokens": [{"id": 98, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    yield common | {"pre_tokenizer": level, "decoder": level, "model": {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
        "byte_fallback": False, "vocab": vocabulary, "merges": [["a", "b"], ["h", "e"], ["l", "l"]]}}
    yield common | {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                    "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                              "vocab": {"[UNK]": 0, "hello": 1, "##a": 2, "a": 3, ",": 4}}}
    yield common | {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
                    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+|\\w+"}, "behavior": "Isolated", "invert": False},
                    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0], ["a", -1.5], ["▁", -2], ["he", -3.25]]}}


def field(number, value):
    """Of a message of protobuf: a number, or bytes with their length."""
    def varint(n):
        parts = []
        while n > 127:
            parts.append(n & 127 | 128)
            n >>= 7
        return bytes(parts + [n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def inferences():
    """Of the model of fuzz_grpc: x: f32[n, 3], k: i64[n] -> y: f32[n, 3]. inference.proto has the numbers."""
    def tensor(name, dtype, shape, contents=b""):
        return field(1, name) + field(2, dtype) + field(3, bytes(shape)) + (field(5, contents) if contents else b"")
    floats, integers = bytes(24), bytes([1, 0, 0, 0, 0, 0, 0, 0] * 2)
    raw = [field(5, tensor("x", "FP32", [2, 3])), field(5, tensor("k", "INT64", [2])), field(7, floats), field(7, integers)]
    named = [field(5, tensor("x", "FP32", [2, 3], field(6, floats))), field(5, tensor("k", "INT64", [2], field(3, bytes([1, 2]))))]
    for parts in (raw, named, raw + [field(6, field(1, "y"))], raw + [field(6, field(1, "y"))] * 2):
        yield b"\x00" + field(1, "tiny") + field(2, "1") + field(3, "id") + b"".join(parts)


def main():
    folder = Path(sys.argv[1])

    def write(fuzzer, name, data):
        (folder / fuzzer).mkdir(parents=True, exist_ok=True)
        (folder / fuzzer / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    for i, message in enumerate(inferences()):
        write("fuzz_grpc", f"infer{i}", message)
    for call in range(3, 8):
        write("fuzz_grpc", f"call{call}", bytes([call]) + field(1, "tiny") + field(2, "tiny"))
    for i in range(60):
        write("fuzz_schema", f"schema{i}", b"\x00" + json.dumps(schema_of(i)).encode())
    for i, pattern in enumerate(PATTERNS):
        write("fuzz_schema", f"pattern{i}", b"\x02" + pattern.encode())
    write("fuzz_schema", "grammar", b'\x03root ::= "a" (b | [c-e]*)? "\\n"\nb ::= root{2,3}\n')
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [{"type": "const_string", "value": "x"},
                                                                               {"type": "json_schema", "json_schema": {"type": "object"}}]}}
    write("fuzz_schema", "tag", b"\x04" + json.dumps(tag).encode())
    for name, text in json.loads((ROOT / "tests/tools/goldens/chat.json").read_text())["templates"].items():
        write("fuzz_template", name, text)
    for i, one in enumerate(tokenizers()):
        write("fuzz_tokenizer", str(i), json.dumps(one, ensure_ascii=False))
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "content": "3", "tool_call_id": "1"}]
    schema = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema_of(1)}}
    bodies = [BODY | {"prompt": "hi"}, BODY | {"prompt": [[1, 2], [3]]}, BODY | {"prompt": ["a", "b"], "response_format": schema},
              BODY | {"prompt": "a", "guided_regex": "[a-z]+"}, BODY | {"prompt": "a", "structured_outputs": {"choice": ["a", "b"]}},
              BODY | {"messages": messages, "logprobs": True, "top_logprobs": 2}, BODY | {"messages": messages, "tools": TOOLS, "tool_choice": "required", "logprobs": None},
              BODY | {"messages": messages, "logprobs": False, "response_format": {"type": "json_object"}}]
    for i, body in enumerate(bodies):
        write("fuzz_body", str(i), json.dumps(body))
        write("fuzz_json", str(i), json.dumps(body))


main()
