# SPDX-License-Identifier: Apache-2.0
"""Tokenizers as families of models have them: the parts of their tokenizer.json, over small vocabularies that are trained here."""
import json

from tokenizers import AddedToken, Tokenizer, models, trainers
from tokenizers.pre_tokenizers import ByteLevel as Bytes

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TIKTOKEN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
QWEN = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
KIMI = "|".join([
    r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def part(kind, **fields):
    return {"type": kind, **fields}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def normal(*parts):
    return parts[0] if len(parts) == 1 else sequence("normalizers", *parts)


def cuts(*parts):
    return parts[0] if len(parts) == 1 else sequence("pretokenizers", *parts)


def joins(*parts):
    return sequence("decoders", *parts)


def byte_level(prefix=False, regex=True, trim=True):
    return part("ByteLevel", add_prefix_space=prefix, trim_offsets=trim, use_regex=regex)


def split(regex, behavior="Isolated", invert=False):
    return part("Split", pattern={"Regex": regex}, behavior=behavior, invert=invert)


def replace(content, to):
    return part("Replace", pattern={"String": content}, content=to)


def replace_all(regex, to):
    return part("Replace", pattern={"Regex": regex}, content=to)


def metaspace(scheme="always", splits=True):
    return part("Metaspace", replacement="\u2581", prepend_scheme=scheme, split=splits)


def around(*names, pair=None):
    """A template: names of tokens, and $ for the text."""
    piece = lambda name: {"Sequence": {"id": name[1:], "type_id": 0}} if name.startswith("$") else {"SpecialToken": {"id": name, "type_id": 0}}
    both = pair or [*names, *("$B" if name == "$A" else name for name in names)]
    return {"type": "TemplateProcessing", "single": [piece(n) for n in names], "pair": [piece(n) for n in both],
            "special_tokens": {n: {"id": n, "ids": [n], "tokens": [n]} for n in {*names, *both} if not n.startswith("$")}}


SPACES = [replace("\u2581", " "), part("ByteFallback"), part("Fuse")]
PLAIN = byte_level(prefix=True)  # what most byte-level decoders are written as
BERT = lambda lower: part("BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lower)
WORDS = part("WordPiece", prefix="##", cleanup=True)
CLS = around("[CLS]", "$A", "[SEP]", pair=["[CLS]", "$A", "[SEP]", "$B", "[SEP]"])
ROBERTA = part("RobertaProcessing", sep=["</s>", "</s>"], cls=["<s>", "<s>"], trim_offsets=True, add_prefix_space=False)


def families(charsmap):
    """name, kind of model, its options, added tokens, normalizer, pre-tokenizer, post-processor, decoder."""
    compiled = part("Precompiled", precompiled_charsmap=charsmap)
    spaced = [compiled, replace_all(" {2,}", "\u2581")]
    bytes_of = lambda name, cut, added=("<|endoftext|>",), normalizer=None, post=None, **options: (
        name, "bytes", options, added, normalizer, cut, post or byte_level(prefix=True, trim=False), PLAIN)
    llama = lambda name, added, **options: (
        name, "characters", dict(fuse_unk=True, byte_fallback=True, **options), ["<unk>", "<s>", "</s>", *added],
        normal(part("Prepend", prepend="\u2581"), replace(" ", "\u2581")), None, around("<s>", "$A"), joins(*SPACES, part("Strip", content=" ", start=1, stop=0)))
    mask = ("<mask>", dict(lstrip=True))
    xlm = lambda name, post, cut=metaspace(), normalizer=compiled, added=("<s>", "</s>", mask): (
        name, "unigram", {}, added, normalizer, cut, post, metaspace())
    bert = lambda name, lower: (name, "pieces", {}, ["[PAD]", "[CLS]", "[SEP]", "[MASK]"], BERT(lower), part("BertPreTokenizer"), CLS, WORDS)
    splits = lambda regex: cuts(split(regex), byte_level(regex=False))
    yield bytes_of("GPT-2", byte_level())
    yield bytes_of("RoBERTa", byte_level(), ["<s>", "</s>", mask], post=ROBERTA)
    yield bytes_of("BART", byte_level(), ["<s>", "</s>", mask], post=ROBERTA)
    yield bytes_of("OPT", byte_level(), ["</s>", "<pad>"], post=around("</s>", "$A"))
    yield bytes_of("GPT-NeoX, Pythia", byte_level(), ["<|endoftext|>", *((" " * n, dict(special=False, normalized=True)) for n in range(2, 9))], part("NFC"))
    yield bytes_of("Phi-2, CodeGen", byte_level(), ["<|endoftext|>", *((" " * n, dict(special=False, normalized=True)) for n in range(2, 9)), ("\t\t", dict(special=False))])
    yield bytes_of("Phi-4", splits(CL100K), ["<|im_start|>", "<|im_sep|>", ("<|im_end|>", dict(rstrip=True, lstrip=True))])
    yield bytes_of("GPT-4 (cl100k_base)", splits(TIKTOKEN), ["<|endoftext|>", "<|fim_prefix|>"])
    yield bytes_of("GPT-4o (o200k_base)", splits(O200K), ["<|endoftext|>", "<|endofprompt|>"])
    yield bytes_of("gpt-oss (o200k_harmony)", splits(O200K), ["<|start|>", "<|message|>", "<|end|>"])
    yield bytes_of("Llama 3", splits(CL100K), ["<|begin_of_text|>", "<|eot_id|>"], ignore_merges=True,
                   post=sequence("processors", byte_level(prefix=True, trim=False), around("<|begin_of_text|>", "$A")))
    yield bytes_of("Llama 4", splits(O200K), ["<|begin_of_text|>", "<|eot|>"], post=sequence("processors", byte_level(), around("<|begin_of_text|>", "$A")))
    yield bytes_of("Qwen 2", splits(QWEN), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], part("NFC"))
    yield bytes_of("Qwen 3", splits(QWEN), ["<|im_start|>", "<|im_end|>", ("<think>", dict(special=False)), ("</think>", dict(special=False))], part("NFC"))
    yield bytes_of("DeepSeek V3", cuts(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), byte_level(regex=False)),
                   ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", ("<\uff5cUser\uff5c>", dict(special=False))], normal(sequence("normalizers")))
    yield bytes_of("DeepSeek Coder", cuts(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                                          part("Digits", individual_digits=True), byte_level(regex=False)))
    yield bytes_of("BLOOM", cuts(split(BLOOM), byte_level(regex=False)), ["<s>", "</s>"])
    yield bytes_of("Falcon", cuts(part("Punctuation", behavior="Contiguous"), byte_level(), part("Digits", individual_digits=False), split("[0-9][0-9][0-9]")))
    yield bytes_of("StarCoder, SmolLM", cuts(part("Digits", individual_digits=True), byte_level()))
    yield bytes_of("Command R", cuts(part("Digits", individual_digits=True), byte_level()), ["<BOS_TOKEN>"], part("NFC"), post=around("<BOS_TOKEN>", "$A"))
    yield bytes_of("OLMo 2", splits(CL100K), ["<|endoftext|>", ("|||EMAIL_ADDRESS|||", dict(special=False))])
    yield bytes_of("ModernBERT", byte_level(), ["[CLS]", "[SEP]", ("[MASK]", dict(lstrip=True)), ("  ", dict(special=False, normalized=True))], part("NFC"), post=CLS)
    yield bytes_of("Mistral Nemo (tekken)", splits(TEKKEN), ["<s>", "</s>", "[INST]"], post=around("<s>", "$A"))
    yield bytes_of("Kimi K2", splits(KIMI), ["[BOS]", "<|im_user|>"])
    yield bytes_of("GLM-4", splits(CL100K), ["<|endoftext|>", "[gMASK]", "<sop>"], post=sequence("processors", byte_level(), around("[gMASK]", "<sop>", "$A")))
    yield bytes_of("Whisper", byte_level(), ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>", ("<|0.00|>", dict(special=False))],
                   post=around("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>", "$A", "<|endoftext|>"))
    yield ("CLIP", "characters", dict(end_of_word_suffix="</w>", alphabet=True), ["<|startoftext|>", "<|endoftext|>"],
           normal(part("NFC"), replace_all(r"\s+", " "), part("Lowercase")), cuts(split(CLIP, "Removed", True), byte_level()),
           part("RobertaProcessing", sep=["<|endoftext|>"] * 2, cls=["<|startoftext|>"] * 2, trim_offsets=False, add_prefix_space=False), PLAIN)
    yield ("OpenAI GPT", "characters", dict(end_of_word_suffix="</w>"), ["<unk>"], BERT(True), part("BertPreTokenizer"), None, part("BPEDecoder", suffix="</w>"))
    yield llama("Llama 2", [])
    yield llama("Mistral 7B v0.1, Yi", ["<|im_start|>"])
    yield llama("Phi-3", [("<|user|>", dict(rstrip=True)), ("<|end|>", dict(rstrip=True)), ("</s>", dict(rstrip=True, special=False))])
    yield ("Mistral 7B v0.3", "characters", dict(fuse_unk=True, byte_fallback=True), ["<unk>", "<s>", "</s>", "[INST]"], None, metaspace("first", False),
           around("<s>", "$A"), joins(*SPACES, part("Strip", content=" ", start=1, stop=0)))
    for name, added in (("Gemma 2", []), ("Gemma 3", [*(f"<unused{i}>" for i in range(100)), *(("\n" * n, dict(special=False)) for n in range(2, 12))])):
        yield (name, "characters", dict(fuse_unk=True, byte_fallback=True), ["<pad>", "<eos>", "<bos>", "<unk>", *added], replace(" ", "\u2581"),
               part("Split", pattern={"String": " "}, behavior="MergedWithPrevious", invert=False), around("<bos>", "$A"), joins(*SPACES))
    yield ("NLLB, M2M", "characters", dict(fuse_unk=True), ["<s>", "</s>", "eng_Latn", mask], normal(compiled, replace_all(" {2,}", " ")), metaspace(),
           around("eng_Latn", "$A", "</s>"), metaspace())
    yield bert("BERT uncased, MiniLM, DistilBERT, LayoutLM", True)
    yield bert("BERT cased", False)
    yield ("ELECTRA, MPNet", "pieces", {}, ["<s>", "</s>", mask], BERT(True), part("BertPreTokenizer"), part("RobertaProcessing", sep=["</s>"] * 2, cls=["<s>"] * 2,
           trim_offsets=True, add_prefix_space=False), WORDS)
    yield xlm("XLM-R, BGE-M3, E5", around("<s>", "$A", "</s>", pair=["<s>", "$A", "</s>", "</s>", "$B", "</s>"]), cuts(part("WhitespaceSplit"), metaspace()))
    yield xlm("CamemBERT", around("<s>", "$A", "</s>"), normalizer=normal(*spaced))
    yield xlm("mBART", around("$A", "</s>", "en_XX"), added=("<s>", "</s>", "en_XX", mask))
    yield xlm("T5, Flan", around("$A", "</s>"), cuts(part("WhitespaceSplit"), metaspace()), added=("<pad>", "</s>", *(f"<extra_id_{i}>" for i in range(20))))
    yield xlm("mT5, Pegasus", around("$A", "</s>"), normalizer=normal(*spaced), added=("<pad>", "</s>"))
    yield xlm("Marian", around("$A", "</s>"), normalizer=compiled, added=("</s>", "<pad>"))
    yield xlm("ALBERT", around("[CLS]", "$A", "[SEP]"), normalizer=normal(replace("``", '"'), replace("''", '"'), part("NFKD"), part("StripAccents"), part("Lowercase"), *spaced),
              added=("[CLS]", "[SEP]", ("[MASK]", dict(lstrip=True))))
    yield xlm("XLNet", around("$A", "<sep>", "<cls>"), normalizer=normal(replace("``", '"'), replace("''", '"'), *spaced), added=("<sep>", "<cls>"))
    yield xlm("DeBERTa v3", around("[CLS]", "$A", "[SEP]"), normalizer=normal(part("Strip", strip_left=True, strip_right=True), *spaced), cut=cuts(metaspace()),
              added=("[CLS]", "[SEP]", "[MASK]"))
    yield ("Wav2Vec2", "words", {}, ["<pad>", "|"], None, part("Split", pattern={"String": ""}, behavior="Isolated", invert=False), None,
           part("CTC", pad_token="<pad>", word_delimiter_token="|", cleanup=True))


def tokenizer_file(family, texts):
    """The JSON of one of families()."""
    name, kind, options, added, normalizer, cut, post, decoder = family
    options = dict(options)
    alphabet = Bytes.alphabet() if kind == "bytes" or options.pop("alphabet", False) else []
    unknown = {"bytes": None, "pieces": "[UNK]"}.get(kind, "<unk>")
    made = json.loads(Tokenizer(models.BPE()).to_str())
    made.update(normalizer=normalizer, pre_tokenizer=cut)
    tokenizer = Tokenizer.from_str(json.dumps(made))
    special = [each for each in [unknown] if each]
    if options.get("byte_fallback"):
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    common = dict(show_progress=False, vocab_size=500 + len(special) + len(alphabet))
    if kind in ("bytes", "characters"):
        suffix = {key: options[key] for key in ("end_of_word_suffix",) if key in options}
        tokenizer.model = models.BPE(**({"unk_token": unknown} if unknown else {}), **options)
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, special_tokens=special, max_token_length=24, **suffix, **common)
    elif kind == "pieces":
        tokenizer.model = models.WordPiece(unk_token=unknown)
        trainer = trainers.WordPieceTrainer(special_tokens=special, **common)
    elif kind == "words":
        tokenizer.model = models.WordLevel(unk_token=unknown)
        trainer = trainers.WordLevelTrainer(special_tokens=special, **common)
    else:
        tokenizer.model = models.Unigram()
        common["vocab_size"] += len({c for text in texts for c in text})
        trainer = trainers.UnigramTrainer(special_tokens=special, unk_token=unknown, **common)
    tokenizer.train_from_iterator(texts, trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(made))
    for each in added:
        content, fields = each if isinstance(each, tuple) else (each, {})
        tokenizer.add_tokens([AddedToken(content, **{"special": True, "normalized": False, **fields})])

    def with_ids(value):  # of the tokens that post-processors name
        if isinstance(value, dict):
            return {key: [tokenizer.token_to_id(n) for n in inner] if key == "ids" else
                    [inner[0], tokenizer.token_to_id(inner[0])] if key in ("sep", "cls") else with_ids(inner) for key, inner in value.items()}
        return [with_ids(each) for each in value] if isinstance(value, list) else value

    made = json.loads(tokenizer.to_str())
    made.update(post_processor=with_ids(post), decoder=decoder)
    return json.dumps(made)
