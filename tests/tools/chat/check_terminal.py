#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sinter chat` at a pseudo-terminal, with a tiny decoder: editing, history, Ctrl-C within an answer and at the prompt, commands,
characters of several bytes.

    tests/tools/chat/check_terminal.py --sinter build/bin/sinter
"""
import argparse
import json
import os
import pty
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = "{% for m in messages %}{% if m.role == 'user' %}u{% else %}a{% endif %}:{{ m.content }};{% endfor %}"


def tokenizer():
    """Of the tiny decoder's 96 tokens: ASCII's printable characters, and an end; other characters are 'unknown'."""
    vocabulary = {chr(code): code - 33 for code in range(33, 127)} | {"\u0120": 94}
    bytes_part = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 95, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": bytes_part,
            "post_processor": None, "decoder": bytes_part,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []}}


class Terminal:
    def __init__(self, words, env):
        self.seen = ""
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.execve(words[0], words, env)

    def wait_for(self, text, seconds=20):
        """Until `text` comes; what came before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            if time.monotonic() > end:
                sys.exit(f"no {text!r} after {self.seen[-2000:]!r}")
            if not select.select([self.file], [], [], 1)[0]:
                continue
            try:
                self.seen += os.read(self.file, 65536).decode(errors="replace")
            except OSError:
                sys.exit(f"it ended without {text!r}: {self.seen[-2000:]!r}")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.file, text.encode())

    def end(self, seconds=20):
        """Its exit status, once it has ended by itself."""
        until = time.monotonic() + seconds
        while True:
            if not select.select([self.file], [], [], max(0, until - time.monotonic()))[0]:
                os.kill(self.child, signal.SIGKILL)
                sys.exit(f"it did not end within {seconds} s: {self.seen[-2000:]!r}")
            try:
                data = os.read(self.file, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode(errors="replace")
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", type=Path, required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "model.onnx").write_bytes((ROOT / "models/tiny/decoder.onnx").read_bytes())
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        env = {**os.environ, "SINTER_PLAN_CACHE": str(folder / "plans"), "TERM": "xterm"}
        words = [str(a.sinter.resolve()), "chat", str(folder), "--target=cpu", "--max-tokens=12", "--context=60", "--no-stop"]
        terminal = Terminal(words, env)
        terminal.wait_for("/help lists commands")
        terminal.wait_for("> ")
        terminal.type("helo\x1b[Dl\r")  # "hello", by going back
        terminal.wait_for("12 tokens, 0 of the prompt's 8")
        terminal.wait_for("\n\r> ")
        terminal.type("/save " + str(folder / "one.json") + "\r")
        terminal.wait_for("2 messages are in")
        terminal.wait_for("\n\r> ")
        assert json.loads((folder / "one.json").read_text())["messages"][0] == {"role": "user", "content": "hello"}
        terminal.type("\x03")  # at the prompt it drops the line
        terminal.wait_for("^C")
        terminal.type("/reset\r")
        terminal.wait_for("begins anew")
        terminal.wait_for("\n\r> ")
        terminal.type("ab\x7fc\r")
        terminal.wait_for("of the prompt's 5")
        terminal.wait_for("\n\r> ")
        terminal.type("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[B\x1b[B\r")  # history: the line before the last
        terminal.wait_for("begins anew")
        terminal.wait_for("\n\r> ")
        # A character of several bytes is one: erased at once, and what is left is whole.
        terminal.type("x漢\x7fy\r")
        terminal.wait_for("of the prompt's 5")
        terminal.wait_for("\n\r> ")
        terminal.type("/save " + str(folder / "two.json") + "\r")
        terminal.wait_for("2 messages are in")
        terminal.wait_for("\n\r> ")
        assert json.loads((folder / "two.json").read_text())["messages"][0]["content"] == "xy"
        terminal.type("/nothing\r")
        terminal.wait_for("there is no command '/nothing'")
        terminal.wait_for("\n\r> ")
        terminal.type("/load " + str(folder / "none.json") + "\r")
        terminal.wait_for("error: ")
        terminal.wait_for("\n\r> ")
        terminal.type("so\r")  # the conversation goes on
        terminal.wait_for("12 tokens")
        terminal.type("\x04")
        assert terminal.end() == 0

        # The end typed ahead, while the terminal is in line mode, counts at the next prompt.
        terminal = Terminal(words, env)
        terminal.type("\x04")
        assert terminal.end() == 0

        # Ctrl-C ends an answer, or what is typed, and not the program.
        terminal = Terminal(words, env)
        terminal.wait_for("> ")
        for _ in range(20):
            terminal.type("/reset\r")
            terminal.wait_for("begins anew")
            terminal.wait_for("> ")
            terminal.type("a\r")
            terminal.wait_for("\r\r\n")
            terminal.type("\x03")
            terminal.wait_for("in the caches; first after")
        terminal.type("/exit\r")
        assert terminal.end() == 0
    print("a terminal's conversation: passed")


if __name__ == "__main__":
    main()
