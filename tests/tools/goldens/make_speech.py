#!/usr/bin/env python3
"""Writes speech.json, speech_tokenizer.json, speech.wav and long_speech.wav: what tiny encoder-decoder models say by Hugging
Face's transformers.

The models are models/tiny/speech_*.onnx and marian_*.onnx, their weights those of whisper_onnx.random_weights() and
marian_onnx.random_weights(). Logits are transformers', of its own log-mel spectra. Which tokens follow from them, in windows
and with times, is written here from OpenAI's description of its decoder. Needs torch, transformers, onnx, tokenizers.
"""
import json
import sys
import wave
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import MarianConfig, MarianMTModel, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "models"))
import marian_onnx  # noqa: E402
import whisper_onnx  # noqa: E402

torch.set_num_threads(1)
RATE, LEAD, LEAST_DISTINCT = 16000, 2e-4, 2
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|startoflm|>",
           "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
END, START, EN, DE, TRANSLATE, TRANSCRIBE, LM, PREVIOUS, NO_SPEECH, NO_TIMES = range(256, 266)
FIRST_TIME, VOCABULARY, CAPACITY = 266, 317, 64


class TooClose(Exception):
    """Rounding would decide."""


def tokenizer():
    """A token for each byte, and the special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    result = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    times = [f"<|{i * 0.02:.2f}|>" for i in range(VOCABULARY - FIRST_TIME)]
    result.add_special_tokens(SPECIAL + times)
    assert result.token_to_id("<|endoftext|>") == END and result.token_to_id("<|1.00|>") == VOCABULARY - 1
    return result


def suppressed(words):
    """As OpenAI's tokenizer has it: what is not spoken."""
    ids = lambda text: words.encode(text, add_special_tokens=False).ids
    symbols = list("\"#()*+/:;<=>@[\\]^_`{|}~「」『』")
    symbols += "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪".split()
    notes = set("♩♪♫♬♭♮♯")
    result = {ids(" -")[0], ids(" '")[0]}
    for text in symbols + sorted(notes):
        for found in (ids(text), ids(" " + text)):
            if len(found) == 1 or text in notes:
                result.add(found[0])
    return sorted(result | {START, PREVIOUS, NO_SPEECH, TRANSLATE, TRANSCRIBE, LM, NO_TIMES}), ids(" ")[0]


def whisper():
    weights, heads = whisper_onnx.random_weights()
    vocabulary, width = weights["model.decoder.embed_tokens.weight"].shape
    config = WhisperConfig(
        vocab_size=vocabulary, num_mel_bins=80, encoder_layers=2, decoder_layers=2, encoder_attention_heads=heads,
        decoder_attention_heads=heads, d_model=width, encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width,
        max_source_positions=50, max_target_positions=CAPACITY, pad_token_id=END, bos_token_id=START, eos_token_id=END,
        decoder_start_token_id=START)
    model = WhisperForConditionalGeneration(config).eval()
    missing, unexpected = model.load_state_dict({k: torch.tensor(v) for k, v in weights.items()}, strict=False)
    assert missing == ["proj_out.weight"] and not unexpected
    return model


class Speech:
    def __init__(self, model, words):
        self.model, self.features = model, WhisperFeatureExtractor(feature_size=80, chunk_length=1)
        self.suppressed, self.space = suppressed(words)

    def encode(self, samples):
        features = self.features(samples, sampling_rate=RATE, return_tensors="pt").input_features
        self.hidden = self.model.model.encoder(features)

    def logits(self, ids):
        """float64 of the token behind `ids`."""
        with torch.no_grad():
            return self.model(encoder_outputs=self.hidden, decoder_input_ids=torch.tensor([ids])).logits[0, -1].double().numpy()

    def greedy(self, ids, count):
        found = []
        while len(found) < count:
            found.append(best(self.logits(ids + found)))
        return found

    def window(self, before, with_times, language):
        if language is None:
            logits = self.logits([START])
            language = (EN, DE)[best(logits[[EN, DE]])]
        prompt = ([PREVIOUS, *before[-(CAPACITY // 2 - 1):]] if before else []) + [START]
        logits = self.logits(prompt)
        no_speech = np.exp(logits[NO_SPEECH] - log_sum(logits))
        prompt += [language, TRANSCRIBE] + ([] if with_times else [NO_TIMES])
        text, total = [], 0.0
        while True:
            logits = self.logits(prompt + text)
            logits[self.suppressed] = -np.inf
            if not text:
                logits[[self.space, END]] = -np.inf
            if with_times:
                logits[NO_TIMES] = -np.inf
                self.keep_times(text, logits)
            chosen = best(logits)
            total += logits[chosen] - log_sum(logits)
            if chosen == END:
                break
            text.append(chosen)
            if len(text) == CAPACITY // 2 or len(prompt) + len(text) > CAPACITY:
                break
        return text, total / (len(text) + 1), no_speech, language

    @staticmethod
    def keep_times(text, logits):
        is_time = [token >= FIRST_TIME for token in text]
        if is_time and is_time[-1]:
            if len(text) < 2 or is_time[-2]:
                logits[FIRST_TIME:] = -np.inf
            else:
                logits[:END] = -np.inf
        times = [token for token in text if token >= FIRST_TIME]
        if times:
            least = times[-1] if is_time[-1] and not (len(text) < 2 or is_time[-2]) else times[-1] + 1
            logits[FIRST_TIME:least] = -np.inf
        if not text:
            logits[:FIRST_TIME] = -np.inf
            logits[FIRST_TIME + 51:] = -np.inf
        together, word = log_sum(logits[FIRST_TIME:]), logits[:FIRST_TIME].max()
        if np.isfinite(word) and np.isfinite(together) and abs(together - word) < LEAD:
            raise TooClose
        if together > word:
            logits[:FIRST_TIME] = -np.inf

    def transcribe(self, samples, with_times, language=None):
        segments, before, at = [], [], 0
        while at < len(samples):
            part = samples[at:at + RATE]
            self.encode(part)
            text, mean, no_speech, language = self.window(before, with_times, language)
            if no_speech > 0.6 and mean < -1:
                at += len(part)
                continue
            seconds, start = len(part) / RATE, at / RATE
            cut, moved = (self.cut(text, seconds) if with_times else ([(0, seconds, text)], seconds))
            for begin, end, tokens in cut:
                shown = bytes(token for token in tokens if token < 256)
                if not shown or (with_times and begin == end):
                    continue
                segments.append({"start": round(start + begin, 4), "end": round(start + end, 4), "tokens": tokens,
                                 "avg_logprob": mean, "no_speech_prob": no_speech})
                before += tokens
            at += round(moved * RATE) or len(part)
        return {"language": {EN: "en", DE: "de"}[language], "segments": segments}

    @staticmethod
    def cut(text, seconds):
        is_time = [token >= FIRST_TIME for token in text]
        when = lambda token: (token - FIRST_TIME) * 0.02
        pairs = [i for i in range(1, len(text)) if is_time[i] and is_time[i - 1]]
        is_whole = is_time[-2:] == [False, True]
        if not pairs:
            times = [token for token in text if token > FIRST_TIME]
            return [(0, min(seconds, when(times[-1])) if times else seconds, text)], seconds
        ends = pairs + ([len(text)] if is_whole else [])
        result = [(when(text[a]), when(text[b - 1]), text[a:b]) for a, b in zip([0, *ends], ends)]
        return result, seconds if is_whole else min(seconds, when(text[ends[-1] - 1]))


def best(logits):
    second, first = np.sort(logits)[-2:]
    if first - second < LEAD:
        raise TooClose
    return int(logits.argmax())


def log_sum(logits):
    return float(np.logaddexp.reduce(logits))


def sound(rng, seconds):
    """Tones that rise and fall, and noise, of 16 bits."""
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = rng.uniform(100, 400) + 300 * np.sin(2 * np.pi * rng.uniform(0.5, 3) * t)
    values = 0.4 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) * np.abs(np.sin(2 * np.pi * 2 * t)) + rng.normal(0, 0.02, len(t))
    return np.round(np.clip(values, -1, 1) * 32767).astype("<i2")


def write_wav(name, samples, rate=RATE):
    with wave.open(str(HERE / name), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


def speech(words):
    spoken, result = Speech(whisper(), words), {}
    for name, seconds in (("speech", 0.8), ("long_speech", 2.3)):
        seed = 0
        while True:
            seed += 1
            samples = sound(np.random.default_rng(seed), seconds)
            values = (samples / 32768).astype(np.float32)
            try:
                spoken.encode(values)
                found = {"seed": seed}
                if seconds <= 1:
                    prompt = [START, EN, TRANSCRIBE, NO_TIMES]
                    found.update(prompt=prompt, logits=[float(f"{x:.6g}") for x in spoken.logits(prompt)],
                                 tokens=spoken.greedy(prompt, 16), plain=spoken.transcribe(values, False, EN))
                found.update(detected=spoken.transcribe(values, True), german=spoken.transcribe(values, True, DE))
            except TooClose:
                continue
            print(name, seed, {k: len(v["segments"]) for k, v in found.items() if isinstance(v, dict)}, flush=True)
            if all(len(v["segments"]) > (seconds > 1) for v in found.values() if isinstance(v, dict)):
                break
        write_wav(f"{name}.wav", samples)
        result[name] = found
    return result


def marian():
    weights, heads = marian_onnx.random_weights()
    vocabulary, width = weights[marian_onnx.TABLE].shape
    config = MarianConfig(
        vocab_size=vocabulary, encoder_layers=2, decoder_layers=2, encoder_attention_heads=heads, decoder_attention_heads=heads,
        d_model=width, encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width, activation_function="swish", scale_embedding=True,
        max_position_embeddings=64, pad_token_id=95, eos_token_id=0, decoder_start_token_id=95,
        share_encoder_decoder_embeddings=True)
    model = MarianMTModel(config).eval()
    given = {k: torch.tensor(v) for k, v in weights.items() if "embed_positions" not in k}
    missing, unexpected = model.load_state_dict(given, strict=False)
    assert not unexpected and all("embed" in name or name == "lm_head.weight" for name in missing), (missing, unexpected)
    model.tie_weights()
    rng, cases = np.random.default_rng(0), []
    for length in (1, 4, 13):
        while True:
            source = rng.integers(0, vocabulary, length).tolist()
            found = [95]
            try:
                while len(found) < 21:
                    with torch.no_grad():
                        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([found])).logits
                    found.append(best(logits[0, -1].double().numpy()))
            except TooClose:
                continue
            if len(set(found)) > LEAST_DISTINCT:
                break
        cases.append({"source": source, "tokens": found[1:]})
    return cases


def main():
    words = tokenizer()
    words.save(str(HERE / "speech_tokenizer.json"), pretty=False)
    result = {"suppressed": suppressed(words)[0], **speech(words), "marian": marian()}
    (HERE / "speech.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
