#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our tokenizers' time beside Hugging Face's library, on one thread: chat prompts, long texts with many added tokens, runs of
combining marks. Tokenizers are trained on the sources of this repository, with the parts of models' own.

    tests/perf/run_tokenizers.py --lines build/bin/tokenize_lines --out tests/perf/results/tokenizers.json
"""
import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tokenizers"))
from check_tokenizers import Lines
from common import provenance, write
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCABULARY = 16000


def corpus():
    files = sorted(p for p in ROOT.rglob("*") if p.suffix in (".md", ".py", ".h", ".cpp") and ".venv" not in p.parts and ".deps" not in p.parts
                   and "build" not in p.parts)
    return [p.read_text(errors="replace") for p in files[:600]]


def tokenizers(texts):
    def trained(tokenizer, trainer, **options):
        tokenizer.train_from_iterator(texts, trainer(vocab_size=VOCABULARY, show_progress=False, **options))
        return tokenizer

    def byte_pairs(pre_tokenizer, normalizer=None):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
        if normalizer:
            tokenizer.normalizer = normalizer
        return trained(tokenizer, trainers.BpeTrainer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                       special_tokens=["<|begin|>", "<|user|>", "<|end|>"])

    byte_level = pre_tokenizers.ByteLevel
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level(add_prefix_space=False, use_regex=False)])
    yield "GPT-2 (ByteLevel)", byte_pairs(byte_level(add_prefix_space=False))
    yield "Llama 3 (Split, ByteLevel)", byte_pairs(split)
    yield "Qwen 2 (NFC, Split, ByteLevel)", byte_pairs(split, normalizers.NFC())
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert.normalizer, bert.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    yield "BERT (BertNormalizer, BertPreTokenizer, WordPiece)", trained(bert, trainers.WordPieceTrainer, special_tokens=["[UNK]", "[CLS]", "[SEP]"])
    mistral = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    mistral.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    yield "Mistral (Metaspace, BPE of characters)", trained(mistral, trainers.BpeTrainer, special_tokens=["<unk>", *(f"<0x{b:02X}>" for b in range(256))])
    t5 = Tokenizer(models.Unigram())
    t5.normalizer, t5.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    yield "T5 (NFKC, Metaspace, Unigram)", trained(t5, trainers.UnigramTrainer, special_tokens=["<unk>"], unk_token="<unk>")


def seconds_of(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(lines, tokenizer, texts, folder, rounds):
    path = Path(folder) / "tokenizer.json"
    tokenizer.save(str(path))
    said = lines.ask(load=str(path))
    if said != "loaded":
        raise SystemExit(said)
    library = Tokenizer.from_file(str(path))
    tokens = sum(len(each.ids) for each in library.encode_batch_fast(texts))
    assert tokens == sum(len(ids) for ids in lines.ask(encode=texts))
    ours = lines.ask(time=texts, rounds=rounds)
    fast = seconds_of(lambda: library.encode_batch_fast(texts), rounds)  # without offsets
    full = seconds_of(lambda: [library.encode(text) for text in texts], rounds)
    result = {"texts": len(texts), "characters": sum(map(len, texts)), "tokens": tokens, "seconds": ours, "library_seconds": fast,
              "library_seconds_with_offsets": full, "ratio": round(ours / fast, 3)}
    print(result, flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True)
    parser.add_argument("--out")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    lines, rng, texts = Lines(options.lines), random.Random(1), corpus()
    whole = "\n".join(texts)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        made = dict(tokenizers(texts))
        for name, tokenizer in made.items():
            # Prompts of 500 tokens: as many characters as these have.
            size = round(500 * 100000 / len(tokenizer.encode(whole[:100000]).ids))
            starts = [rng.randrange(len(whole) - size) for _ in range(1000)]
            results[f"1,000 prompts of 500 tokens: {name}"] = compare(lines, tokenizer, [whole[s : s + size] for s in starts], folder, options.rounds)
        many = made["Llama 3 (Split, ByteLevel)"]
        many.add_tokens([AddedToken(f"<extra_{i}>", normalized=i % 2 == 0) for i in range(6000)])
        long = "".join(whole[s : s + 180] + f"<extra_{rng.randrange(6000)}>" for s in (rng.randrange(len(whole) - 200) for _ in range(5300)))[:1000000]
        results["1 MB, 6,000 added tokens"] = compare(lines, many, [long], folder, options.rounds)
        for name, normalizer in (("NFC", normalizers.NFC()), ("NFKD", normalizers.NFKD()), ("BertNormalizer", normalizers.BertNormalizer())):
            tokenizer = made["GPT-2 (ByteLevel)"]
            tokenizer.normalizer = normalizer
            marks = "a" + "\u0301" * 50000 + "\u0327" * 50000
            results[f"100,000 combining marks: {name}"] = compare(lines, tokenizer, [marks], folder, options.rounds)
    if options.out:
        import tokenizers as library
        write(options.out, {**provenance(), "tokenizers": library.__version__, "points": results})


if __name__ == "__main__":
    main()
