#!/usr/bin/env python3
"""Writes gguf_tokenizers.json: GGUF files that have a small tokenizer alone, written by the `gguf` package, and what the libraries
that trained them make of texts: Hugging Face's `tokenizers` for byte pairs, SentencePiece for its own."""
import io
import json
import tempfile
from pathlib import Path

import gguf
import sentencepiece
from make_tokenizers import LLAMA3, TEXTS, random_texts
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SPECIAL = ["<|end|>", "<|user|>"]
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def corpus():
    return ["the cat and the dog then ran there", "it's 1234 times 56", "don't we'll you're", "naïve café", "  two  spaces\n"] * 8


def split(pattern):
    return [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


BYTE_PAIRS = {  # the library's own spelling of what llama.cpp names so
    "smollm": dict(words=[pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "gpt-2": dict(words=[pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": dict(words=split(LLAMA3), whole=True, begins=True),
    "qwen2": dict(words=split(QWEN2), nfc=True),
}


def byte_pairs(pre, words, whole=False, begins=False, nfc=False):
    library = Tokenizer(models.BPE())
    if nfc:
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.Sequence(words)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    library.train_from_iterator(corpus(), trainer)
    state = json.loads(library.to_str())
    state["model"]["ignore_merges"] = whole
    library = Tokenizer.from_str(json.dumps(state))
    vocabulary = sorted(library.get_vocab().items(), key=lambda item: item[1])
    writer = [("model", "gpt2"), ("pre", pre), ("tokens", [name for name, _ in vocabulary]),
              ("types", [CONTROL if name in SPECIAL else NORMAL for name, _ in vocabulary]),
              ("merges", [" ".join(merge) for merge in state["model"]["merges"]]), ("bos", 0), ("eos", 1)]
    encode = lambda text: ([0] if begins else []) + library.encode(text).ids
    return writer, encode, lambda ids: library.decode(ids, skip_special_tokens=True)


def sentence_pieces(prefix):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, model_type="bpe", vocab_size=360, byte_fallback=True,
        add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity", character_coverage=1.0,
        user_defined_symbols=["<|user|>"], minloglevel=2, num_threads=1)
    library = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(library.get_piece_size())
    kind = lambda i: (UNKNOWN if library.is_unknown(i) else CONTROL if library.is_control(i) else BYTE if library.is_byte(i)
                      else USER if library.id_to_piece(i) == "<|user|>" else NORMAL)
    writer = [("model", "llama"), ("tokens", [library.id_to_piece(i) for i in ids]), ("types", [kind(i) for i in ids]),
              ("scores", [library.get_score(i) for i in ids]), ("bos", library.bos_id()), ("eos", library.eos_id()),
              ("unk", library.unk_id()), ("prefix", prefix)]
    return writer, lambda text: [library.bos_id(), *library.encode(text)], lambda ids: library.decode(ids[1:])


def gguf_bytes(values):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        add = {"model": writer.add_tokenizer_model, "pre": writer.add_tokenizer_pre, "tokens": writer.add_token_list,
               "types": writer.add_token_types, "merges": writer.add_token_merges, "scores": writer.add_token_scores,
               "bos": writer.add_bos_token_id, "eos": writer.add_eos_token_id, "unk": writer.add_unk_token_id,
               "prefix": writer.add_add_space_prefix}
        for key, value in values:
            add[key](value)
        writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def main():
    texts = [text for text in [*TEXTS, *random_texts()] if "\0" not in text]
    cases = []
    made = [(pre, byte_pairs(pre, **how)) for pre, how in BYTE_PAIRS.items()]
    made += [("llama", sentence_pieces(True)), ("gemma", sentence_pieces(False))]
    for name, (values, encode, decode) in made:
        # SentencePiece puts its blank in front of the text alone; a user's token begins another part in tokenizer.json.
        own = [text for text in texts if name not in ("llama", "gemma") or (text and "<|user|>" not in text)]
        cases.append({"name": name, "gguf": gguf_bytes(values).hex(), "texts": own, "ids": [encode(text) for text in own],
                      "decoded": [decode(encode(text)) for text in own]})
    (HERE / "gguf_tokenizers.json").write_text(json.dumps(cases, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
