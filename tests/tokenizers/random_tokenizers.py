# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of random parts, and texts of all kinds, for check_tokenizers.py."""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# Characters whose values in the library's tables are older than the version that README.md says (tools/tokenizer).
OTHER_VALUES = {0x295, 0x589, 0x61C, 0x953, 0x954, 0x166D, 0x1734, 0x1885, 0x1886, 0x1CF2, 0x1CF3, 0xA9BD, 0x111C9, 0x1171E, 0x1F16C}

SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x904, 0x939),
           (0xE01, 0xE3A), (0x1100, 0x11FF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x10A0, 0x10FF)]
MARKS = [(0x300, 0x345), (0x591, 0x5BD), (0x64B, 0x65F), (0x93C, 0x94D), (0xE34, 0xE3A), (0x1DC0, 0x1DCF), (0x20D0, 0x20DC), (0x302A, 0x302F)]
EMOJI = ["\U0001F600", "\U0001F469\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\uFE0F", "\U0001F44D\U0001F3FD", "\u231A"]
CONTROLS = [*map(chr, range(0, 32)), "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200d", "\u200e", "\u2028", "\u2029", "\u3000", "\ufeff", "\ufffd",
            "\u1680", "\u180e", "\u2003", "\ue000"]
WORDS = ("the The THE then there don't we'll I'm you're it's naive na\u00efve stra\u00dfe caf\u00e9 cafe\u0301 \u0130stanbul \u03a3\u03a3 hello world "
         "foo_bar baz-qux x2y 3.14 1234567 1,000 def return {} [] () => != a+=1; // # \"quoted\" 'single' <b> </s> <0x41> ##ing \u2581 \u0120a "
         "\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4 \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627 "
         "\u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u041f\u0440\u0438\u0432\u0435\u0442 \ufb01 \u212b \u2460 \u00b2 \u00bd "
         "\u0663\u0664 do not n't . , ? ! ' '").split()
NAMES = ["<s>", "</s>", "<pad>", "[CLS]", "[MASK]", "<|user|>", "covid", "COVID", "Na\u00efve", "the", "new york", " x", "x ", "12", "\u2581", "\u4e16", "ing",
         "e\u0301", "\u00e9", "'", ".", "<|user|>>", "a b", "STRASSE", "##x", "\U0001F600"]


def code_point(rng, ranges):
    while True:
        code = rng.randint(*rng.choice(ranges))
        if code not in OTHER_VALUES:
            return chr(code)


def any_character(rng):
    while True:
        code = rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x10000), rng.randrange(0x10000, 0x20000)])
        if code not in OTHER_VALUES:
            return chr(code)


def text(rng):
    parts = []
    for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 13, 21])):
        kind = rng.randrange(14)
        if kind < 5:
            parts.append(rng.choice(WORDS))
        elif kind == 5:
            parts.append("".join(code_point(rng, [rng.choice(SCRIPTS)]) for _ in range(rng.randrange(1, 6))))
        elif kind == 6:
            parts.append(code_point(rng, SCRIPTS) + "".join(code_point(rng, MARKS) for _ in range(rng.randrange(1, 4))))
        elif kind == 7:
            parts.append(rng.choice(EMOJI))
        elif kind == 8:
            parts.append(rng.choice(CONTROLS))
        elif kind == 9:
            parts.append(rng.choice(NAMES))
        elif kind == 10:
            parts.append("".join(rng.choice("0123456789.,") for _ in range(rng.randrange(1, 9))))
        elif kind == 11:
            parts.append(any_character(rng))
        elif kind == 12:
            parts.append(rng.choice([" ", "  ", "\n", "\n\n", "\t", " \n ", "   "]))
        else:
            parts.append(rng.choice("!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`'\"") * rng.randrange(1, 4))
        if rng.random() < 0.6:
            parts.append(rng.choice([" ", " ", " ", "  ", "\n"]))
    return "".join(parts)


PATTERNS = [r"\s+", r"\w+|[^\w\s]+", r"\p{N}{1,3}", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+", r"(?=(\d{3})+(?!\d))",
            r"[\p{Han}]+", r"\b", "", r"$", r"^", r"[\p{L}&&[^\p{Han}]]+", r" ?[^(\s|[.,!?])]+", r"[A-Z]", r"(?<=\p{L})(?=\p{N})", r"[[:punct:]]", r"\p{M}+", r"\h",
            r"(a|b)+", r".", r"(?m).+", r"\p{Lu}\p{Ll}*", r"\R", r"[^\p{ASCII}]", r"\X"]


def pattern(rng):
    return {"Regex": rng.choice(PATTERNS)} if rng.random() < 0.7 else {"String": rng.choice([" ", "-", ".", "the", "\u2581", "'", "", "e", "  ", "\n"])}


def behavior(rng):
    return rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])


def metaspace(rng):
    return {"type": "Metaspace", "replacement": rng.choice(["\u2581", "\u2581", "_", "\u0120"]), "prepend_scheme": rng.choice(["always", "first", "never"]),
            "split": rng.random() < 0.7}


def byte_level(rng):
    return {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": rng.random() < 0.6}


def normalizer(rng, charsmap):
    return rng.choice([
        *({"type": each} for each in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
        {"type": "BertNormalizer", "clean_text": rng.random() < 0.7, "handle_chinese_chars": rng.random() < 0.7, "strip_accents": rng.choice([None, True, False]),
         "lowercase": rng.random() < 0.6},
        {"type": "Strip", "strip_left": rng.random() < 0.6, "strip_right": rng.random() < 0.6},
        {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", " ", "\u2581", "xy", "-"])},
        {"type": "Prepend", "prepend": rng.choice(["\u2581", "x", "ab"])},
        {"type": "Precompiled", "precompiled_charsmap": charsmap}, {"type": "ByteLevel"}])


def pre_tokenizer(rng):
    return rng.choice([
        *({"type": each} for each in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "UnicodeScripts")), byte_level(rng), byte_level(rng), metaspace(rng), metaspace(rng),
        {"type": "CharDelimiterSplit", "delimiter": rng.choice(" -e_")}, {"type": "Digits", "individual_digits": rng.random() < 0.5},
        {"type": "FixedLength", "length": rng.randrange(1, 9)}, {"type": "Punctuation", "behavior": behavior(rng)},
        {"type": "Split", "pattern": pattern(rng), "behavior": behavior(rng), "invert": rng.random() < 0.3}])


def decoder(rng):
    return rng.choice([
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "ByteFallback"}, {"type": "Fuse"}, metaspace(rng),
        {"type": "BPEDecoder", "suffix": rng.choice(["</w>", "e", ""])}, {"type": "CTC", "pad_token": rng.choice(["<pad>", "e"]), "word_delimiter_token": "|", "cleanup": rng.random() < 0.5},
        {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", " ", "x"])},
        {"type": "Strip", "content": rng.choice([" ", "\u2581", "e"]), "start": rng.randrange(3), "stop": rng.choice([0, 0, 1])},
        {"type": "WordPiece", "prefix": "##", "cleanup": rng.random() < 0.5}])


def sequence(rng, kind, key, make, most=4):
    count = rng.choice([0, 1, 1, 2, 2, 3, most])
    parts = [make() for _ in range(count)]
    if len(parts) > 2 and rng.random() < 0.3:
        parts[1:3] = [{"type": "Sequence", key: parts[1:3]}]
    return None if count == 0 else parts[0] if count == 1 and rng.random() < 0.8 else {"type": "Sequence", key: parts}


def post_processor(rng, ids):
    pair = lambda: (lambda name: [name, ids[name]])(rng.choice(list(ids)))
    kind = rng.randrange(6)
    if kind == 0:
        return {"type": "BertProcessing", "sep": pair(), "cls": pair()}
    if kind == 1:
        return {"type": "RobertaProcessing", "sep": pair(), "cls": pair(), "trim_offsets": True, "add_prefix_space": rng.random() < 0.5}
    if kind == 2:
        return byte_level(rng)
    names = rng.sample(list(ids), min(3, len(ids)))
    token = lambda: {"SpecialToken": {"id": rng.choice(names), "type_id": rng.randrange(2)}}
    text = lambda which: {"Sequence": {"id": which, "type_id": 0}}
    around = lambda inner: [token() for _ in range(rng.randrange(3))] + inner + [token() for _ in range(rng.randrange(3))]
    return {"type": "TemplateProcessing", "single": around([text("A")]), "pair": around([text("A"), *([token()] if rng.random() < 0.5 else []), text("B")]),
            "special_tokens": {name: {"id": name, "ids": [ids[name]] * rng.choice([1, 1, 2]), "tokens": [name]} for name in names}}


def model(rng, tokenizer, corpus):
    """Trains one on what the parts in front make of the corpus."""
    kind = rng.choice(["BPE", "BPE", "BPE", "WordPiece", "WordLevel", "Unigram"])
    size = rng.choice([120, 300, 600])
    if kind == "BPE":
        prefix, suffix = rng.choice([None, None, None, "##"]), rng.choice([None, None, None, "</w>"])
        options = {name: text for name, text in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)) if text}
        special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))] if rng.random() < 0.4 else ["<unk>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet() if rng.random() < 0.5 else []
        tokenizer.model = models.BPE(unk_token="<unk>", **options)
        trainer = trainers.BpeTrainer(vocab_size=size + len(special) + len(alphabet), show_progress=False, special_tokens=special, initial_alphabet=alphabet,
                                      limit_alphabet=rng.choice([50, 1000]), **options)
    elif kind == "WordPiece":
        tokenizer.model = models.WordPiece(unk_token="<unk>")
        trainer = trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>"])
    elif kind == "WordLevel":
        tokenizer.model = models.WordLevel(unk_token="<unk>")
        trainer = trainers.WordLevelTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>"])
    else:
        tokenizer.model = models.Unigram()
        trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(corpus, trainer)
    made = json.loads(tokenizer.to_str())
    if kind == "BPE":
        made["model"].update(unk_token=rng.choice(["<unk>", "<unk>", None]), fuse_unk=rng.random() < 0.5, byte_fallback=rng.random() < 0.5,
                             ignore_merges=rng.random() < 0.3, dropout=rng.choice([None, None, None, None, 0.0, 1.0]))
    elif kind == "WordPiece":
        made["model"]["max_input_chars_per_word"] = rng.choice([5, 100])
    elif kind == "Unigram":
        made["model"]["byte_fallback"] = rng.random() < 0.3
    return made


def tokenizer_file(rng, charsmap):
    """The JSON of a tokenizer, or None where the library cannot make one of what was drawn."""
    corpus = [text(rng) for _ in range(120)] + [" ".join(rng.sample(WORDS, 30)) for _ in range(20)]
    empty = json.loads(Tokenizer(models.BPE()).to_str())
    empty["normalizer"] = sequence(rng, "normalizer", "normalizers", lambda: normalizer(rng, charsmap))
    empty["pre_tokenizer"] = sequence(rng, "pre_tokenizer", "pretokenizers", lambda: pre_tokenizer(rng))
    made = model(rng, Tokenizer.from_str(json.dumps(empty)), corpus)
    tokenizer = Tokenizer.from_str(json.dumps(made))
    taken = set()
    for _ in range(rng.randrange(1, 9)):
        name = rng.choice(NAMES)
        # Of names that normalizers make equal the library takes any, by the order of a hash table.
        normal = name if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(name)
        if normal in taken:
            continue
        taken.add(normal)
        tokenizer.add_tokens([AddedToken(name, single_word=rng.random() < 0.2, lstrip=rng.random() < 0.2, rstrip=rng.random() < 0.2,
                                         normalized=rng.random() < 0.5, special=rng.random() < 0.4)])
    made = json.loads(tokenizer.to_str())
    ids = {token["content"]: token["id"] for token in made["added_tokens"]}
    made["post_processor"] = sequence(rng, "post_processor", "processors", lambda: post_processor(rng, ids), 2) if ids else None
    made["decoder"] = sequence(rng, "decoder", "decoders", lambda: decoder(rng))
    if rng.random() < 0.2:
        made["truncation"] = {"direction": rng.choice(["Left", "Right"]), "max_length": rng.randrange(12, 40), "strategy": rng.choice(["LongestFirst", "OnlyFirst"]), "stride": 0}
    return json.dumps(made)
