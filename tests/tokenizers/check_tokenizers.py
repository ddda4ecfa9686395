#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our tokenizers beside Hugging Face's library: encoding, decoding and streaming of tokenizers that are made of random parts, and of
those that families of models have.

    tests/tokenizers/check_tokenizers.py --lines build/bin/tokenize_lines             # what CI runs: 20 files
    tests/tokenizers/check_tokenizers.py --lines .. --files 200 --strings 2000        # by hand
"""
import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(TOKENIZERS_PARALLELISM="false", RUST_BACKTRACE="0")
from tokenizers import Tokenizer

import model_families
import random_tokenizers


class Lines:
    """tokenize_lines, asked line by line."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit(f"tokenize_lines ended with {self.process.wait()} at {str(line)[:200]}")
        return json.loads(said)


def of_library(call):
    """What the library gives; None where it panics or raises."""
    try:
        return call()
    except BaseException as error:  # PanicException is none of Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None


class Differences:
    def __init__(self, name, shown=5):
        self.name, self.shown, self.count = name, shown, 0

    def add(self, what, given, expected, got):
        self.count += 1
        if self.count <= self.shown:
            print(f"{self.name}: {what} {given!a}\n  library {expected!a}\n  ours    {got!a}", flush=True)


def check(lines, path, texts, rng, differences):
    """Compares one tokenizer. False: ours refuses it (what it says is printed)."""
    library = Tokenizer.from_file(str(path))
    said = lines.ask(load=str(path))
    if said != "loaded":
        print(f"{differences.name}: refused: {said['error']}", flush=True)
        return False
    ids = [of_library(lambda: library.encode(text).ids) for text in texts]
    if ids.count(None) * 2 > len(ids):
        print(f"{differences.name}: the library fails for {ids.count(None)} of {len(ids)} texts", flush=True)
    for text, expected, got in zip(texts, ids, lines.ask(encode=texts)):
        if expected is not None and got != expected:
            differences.add("encode", text, expected, got)
    some = texts[: len(texts) // 10]
    for text, got in zip(some, lines.ask(encode=some, special=False)):
        expected = of_library(lambda: library.encode(text, add_special_tokens=False).ids)
        if expected is not None and got != expected:
            differences.add("encode without special tokens", text, expected, got)
    if library.truncation is None:
        pairs = list(zip(some, reversed(some)))
        for pair, got in zip(pairs, lines.ask(pairs=pairs)):
            expected = of_library(lambda: library.encode(*pair).ids)
            if expected is not None and got != expected:
                differences.add("encode a pair", pair, expected, got)
    size = library.get_vocab_size() + 3
    sequences = [each for each in ids if each is not None] + [[rng.randrange(size) for _ in range(rng.randrange(12))] for _ in range(len(texts) // 4)]
    for each, got in zip(sequences, lines.ask(decode=sequences)):
        for skip, one in zip((False, True), got if isinstance(got, list) else [got, got]):
            expected = of_library(lambda: library.decode(each, skip_special_tokens=skip))
            if expected is not None and one != [expected, expected]:
                differences.add(f"decode (skip_special_tokens={skip}; whole, streamed)", each, expected, one)
    return True


def map_of_characters():
    """As tests/tools/goldens/make_tokenizers.py has SentencePiece compile it, of a golden."""
    goldens = Path(__file__).resolve().parents[1] / "tools" / "goldens" / "tokenizers.json"
    t5 = next(each for each in json.loads(goldens.read_text()) if each["name"] == "t5")
    return t5["tokenizer"]["normalizer"]["precompiled_charsmap"]


EQUAL, DIFFERENT, REFUSED, NOT_MADE = range(4)  # exit codes


def check_one(program, number, strings, path, charsmap):
    """Makes a file and compares, in a process of its own: the library may take all memory for some."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        signal.alarm(300)
        rng, code = random.Random(number), NOT_MADE
        errors = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the library's panics
        made = of_library(lambda: random_tokenizers.tokenizer_file(rng, charsmap))
        if made is not None and of_library(lambda: Tokenizer.from_str(made).encode("a")) is not None:
            path.write_text(made)
            differences = Differences(f"file {number}")
            try:
                taken = check(Lines(program), path, [random_tokenizers.text(rng) for _ in range(strings)], rng, differences)
                code = DIFFERENT if differences.count else EQUAL if taken else REFUSED
            except BaseException as error:
                os.dup2(errors, 2)
                print(f"file {number}: {error}", flush=True)
                code = DIFFERENT
            if differences.count:
                print(f"file {number}: {differences.count} differences", flush=True)
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        print(f"file {number}: the library ends with signal {os.WTERMSIG(status)}", flush=True)
        return NOT_MADE
    return os.WEXITSTATUS(status)


def fuzz(program, files, strings, seed, keep):
    charsmap, drawn, codes = map_of_characters(), 0, []
    with tempfile.TemporaryDirectory() as folder:
        while len(codes) < files:
            number = seed * 100000 + drawn
            drawn += 1
            code = check_one(program, number, strings, Path(keep or folder) / f"{number}.json", charsmap)
            if code != NOT_MADE:
                codes.append(code)
    different, refused = codes.count(DIFFERENT), codes.count(REFUSED)
    print(f"{files} files of {drawn} drawn, {strings} strings each: {different} with differences, {refused} refused")
    return different == 0 and refused * 50 <= files


def check_families(lines, strings, keep):
    """Of each family of models; prints those that differ."""
    rng, differing, count = random.Random(1), 0, 0
    texts = [random_tokenizers.text(rng) for _ in range(strings)]
    sentences = (Path(__file__).resolve().parents[2] / "models" / "sentences.txt").read_text()[:60000].splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for family in model_families.families(map_of_characters()):
            path = Path(keep or folder) / f"{count}.json"
            path.write_text(model_families.tokenizer_file(family, texts[:400] + sentences))
            differences = Differences(family[0])
            count += 1
            if not check(lines, path, texts + sentences[:50], rng, differences):
                differing += 1
            differing += differences.count
    print(f"{count} families, {strings + 50} strings each: {differing} differences")
    return differing == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True, help="the program tokenize_lines")
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--strings", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for the files")
    options = parser.parse_args()
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
    results = [fuzz(options.lines, options.files, options.strings, options.seed, options.keep), check_families(Lines(options.lines), options.strings, options.keep)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
