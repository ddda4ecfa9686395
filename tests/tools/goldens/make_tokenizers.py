#!/usr/bin/env python3
"""Writes tokenizers.json: small tokenizers as Hugging Face's library trains and applies them, and what they make of
texts. The kinds that models have: SmolLM, GPT-2, Llama 3, T5, XLM-R, and cuts of other behaviours. SentencePiece's Python
package compiles the maps of characters."""
import base64
import io
import json
import random
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
VOCABULARY = 300  # of Unigram
TEXTS = [
    "Hello world", "  leading and trailing  ", "don't we'll I'M you'RE", "a\n\n\nb\t\tc \n d",
    "1234567890 3.14 x2y \u00b2\u00b3 \u00bd \u0663\u0664", "na\u00efve caf\u00e9 \u00c0\u00c9\u00ce",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\U0001f600\U0001f469\u200d\U0001f469 emoji",
    "<|user|>hi<|end|>\n", "<|user", "a<|end|>b <|end|>", "<|user|>>x", "", "   ", "\r\n\r\n x",
    "\u00a0nbsp\u2003em\u3000wide\u180eno space\u0085next", "foo_bar-baz(){}[];:'\"", "\x00\x01\x7f",
    "aaaaaaaaaaaaaaaaaaaaaaaa", "?!?!?!", "the then there, THE THEN", "one-two--three---four",
    "cafe\u0301 \u1100\u1161 \u212b \ufb01 x\u094d\u0952 \u0130stanbul \u03a3\u03a3 \ufffd \u200f",
    "\u4e2d\u6587\u3068\u304b\u306a \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627\u064b \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "I don't do not , you ' ve .", "x" * 120 + " end",
]


def random_texts():
    rng = random.Random(1)
    pool = [*range(32, 0x180), 9, 10, 13, 0xA0, 0x85, 0x2003, 0x3000, 0x4E00, 0x660, 0x1F600, 0x300, 0x180E, 0x200B]
    for _ in range(60):
        yield "".join(chr(rng.choice(pool)) if rng.random() < 0.5 else rng.choice(" \n'sdtmreABC09-")
                      for _ in range(rng.randrange(1, 40)))


def trained(pre_tokenizer, size=330, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [(HERE.parents[2] / "models" / "sentences.txt").read_text()[:6000], *TEXTS]
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<|user|>", "<|end|>")])
    tokenizer.add_tokens([AddedToken("<|user|>>", normalized=False), AddedToken("two words", normalized=False)])
    return tokenizer


def tokenizers():
    byte_level, sequence = pre_tokenizers.ByteLevel, pre_tokenizers.Sequence
    yield "smollm", trained(sequence([pre_tokenizers.Digits(True), byte_level(add_prefix_space=False)]))
    yield "gpt2", trained(byte_level(add_prefix_space=True))
    llama = trained(sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                              byte_level(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    llama.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|user|> $A <|end|>",
                                      special_tokens=[(t, llama.token_to_id(t)) for t in ("<|user|>", "<|end|>")])])
    yield "llama3", llama
    yield "whole words", trained(sequence([pre_tokenizers.Split(" ", "isolated"),
                                           byte_level(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            cut = pre_tokenizers.Split("-", behavior, invert)
            yield f"{behavior}{', inverted' if invert else ''}", trained(
                sequence([cut, pre_tokenizers.Digits(False), byte_level(add_prefix_space=False, use_regex=False)]), 270)
    yield "bert uncased", word_pieces(True)
    yield "bert cased", word_pieces(False)
    yield "llama2", of_characters(None, byte_fallback=True, fuse_unk=True)
    yield "mistral", of_characters("first", byte_fallback=True, fuse_unk=True)
    yield "characters always", of_characters("always", fuse_unk=True)
    yield "characters never", of_characters("never")
    precompiled = normalizers.Precompiled(character_map())
    single_blanks = normalizers.Replace(Regex(" {2,}"), " ")
    metaspace = lambda scheme="always": pre_tokenizers.Metaspace(prepend_scheme=scheme)
    yield "t5", unigram(precompiled, sequence([pre_tokenizers.WhitespaceSplit(), metaspace()]), "$A </s>")
    yield "xlm-r", unigram(normalizers.Sequence([precompiled, single_blanks]), metaspace(), "<s> $A </s>",
                           mask={"lstrip": True})
    yield "albert", unigram(normalizers.Sequence([
        normalizers.Replace("--", "-"), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), precompiled,
        normalizers.Replace(Regex(" {2,}"), "\u2581")]), metaspace("first"), "<s> $A", mask={"lstrip": True, "rstrip": True})
    yield "unigram with bytes", unigram(normalizers.Sequence([normalizers.Nmt(), normalizers.Strip()]), metaspace(), "$A",
                                        byte_fallback=True)
    yield "nfc", normalized("NFC")
    yield "nfkd small without accents", normalized("NFKD", "Lowercase", "StripAccents")
    yield "nfd nfkc", normalized("NFD", "NFKC")


def word_pieces(lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=400, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator([(HERE.parents[2] / "models" / "sentences.txt").read_text()[:6000], *TEXTS], trainer)
    ends = [(t, tokenizer.token_to_id(t)) for t in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = (processors.BertProcessing(*ends) if lowercase else processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends))
    return tokenizer


def of_characters(metaspace, **model):
    """As Llama 2, Mistral and Gemma have them: SentencePiece's byte pairs over characters, bytes for what is rare."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **model))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=metaspace)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                               decoders.Strip(" ", 1, 0)])
    byte_names = [f"<0x{byte:02X}>" for byte in range(256)] if model.get("byte_fallback") else []
    trainer = trainers.BpeTrainer(vocab_size=400 + len(byte_names), show_progress=False, limit_alphabet=60,
                                  special_tokens=["<unk>", "<s>", "</s>"])
    tokenizer.train_from_iterator([(HERE.parents[2] / "models" / "sentences.txt").read_text()[:6000]], trainer)
    if byte_names:
        file = json.loads(tokenizer.to_str())
        for name in byte_names:
            file["model"]["vocab"][name] = len(file["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    return tokenizer


def character_map():
    """As SentencePiece compiles one, but for a few characters: of several bytes, of two characters, to none, to blanks."""
    rules = {"\ufb01": "fi", "\u212b": "\u00c5", "e\u0301": "\u00e9", "\u00bd": "1/2", "\u00b2": "2", "\u00a0": " ", "\u3000": " ",
             "\u2003": " ", "\n": " ", "\t": " ", "\r": " ", "\u200d": "", "\u1100\u1161": "\uac00", "qx": "xq", "q": "k",
             "\U0001f600": ":)", "\u0958": "\u0915\u093c"}
    points = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.TemporaryDirectory() as folder:
        tsv, model = Path(folder) / "rules.tsv", io.BytesIO()
        tsv.write_text("".join(f"{points(a)}\t{points(b)}\n" for a, b in rules.items()))
        sentences = (HERE.parents[2] / "models" / "sentences.txt").read_text()[:6000].splitlines()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=model, vocab_size=100,
                                                 normalization_rule_tsv=str(tsv), minloglevel=2, hard_vocab_limit=False)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram(normalizer, pre_tokenizer, template, mask=None, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    trainer = trainers.UnigramTrainer(vocab_size=VOCABULARY, show_progress=False, unk_token="<unk>",
                                      special_tokens=["<pad>", "</s>", "<unk>", "<s>"])
    tokenizer.train_from_iterator([(HERE.parents[2] / "models" / "sentences.txt").read_text()[:6000], *TEXTS], trainer)
    if byte_fallback:
        file = json.loads(tokenizer.to_str())
        file["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
        file["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(file))
    scheme = "first" if '"first"' in tokenizer.to_str() else "always"
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")])
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False, **(mask or {}))])
    return tokenizer


def normalized(*steps):
    tokenizer = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.normalizer = normalizers.Sequence([getattr(normalizers, step)() for step in steps])
    return tokenizer


def main():
    cases = []
    for name, tokenizer in tokenizers():
        texts = []
        for text in [*TEXTS, "two words and two  words", *random_texts()]:
            ids = tokenizer.encode(text).ids
            texts.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                          "shown": tokenizer.decode(ids, skip_special_tokens=True)})
        cases.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "texts": texts})
    (HERE / "tokenizers.json").write_text(
        "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
