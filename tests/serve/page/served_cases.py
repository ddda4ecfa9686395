# SPDX-License-Identifier: Apache-2.0
"""The page of `sinter serve` itself, with tiny models of random weights: what is asked is taken, what comes is shown."""
import contextlib
import json
import subprocess
import tempfile
from pathlib import Path

from page_fixture import MODEL
from stub_server import ROOT

TINY = ROOT / "models" / "tiny"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{# <tool_call> #}"


def letters():
    """A tokenizer.json of what is printable, and the end of a text."""
    names = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["\u0120", "\u010a"]  # the last stand for a blank and a new line
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"id": len(names), "content": "<end>", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"version": "1.0", "added_tokens": [special], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(names)}, "merges": []}}


def word_pieces():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(chr(c) for c in range(ord("a"), ord("z") + 1)), *("##" + chr(c) for c in range(ord("a"), ord("z") + 1))]
    return {"version": "1.0", "added_tokens": [], "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {name: i for i, name in enumerate(names)}}}


@contextlib.contextmanager
def server(sinter):
    """Its port; models: writer (a template), base, ids, words (an encoder), picture, hearer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, target in (("decoder", ["--serve=block=4,sequences=8,positions=64"]), ("bert", []), ("resnet", []), ("speech_encoder", []), ("speech_decoder", [])):
            subprocess.run([sinter, "compile", TINY / f"{model}.onnx", "-o", folder / f"{model}.plan", "--target=cpu", "--quiet", *target], check=True)
        for path, value in (("chat/tokenizer.json", letters()), ("chat/tokenizer_config.json", {"chat_template": TEMPLATE}), ("base/tokenizer.json", letters()), ("words/tokenizer.json", word_pieces())):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(value))
        speech = ROOT / "tests" / "tools" / "goldens" / "speech_tokenizer.json"
        process = subprocess.Popen([sinter, "serve", f"writer={folder}/decoder.plan", f"base={folder}/decoder.plan", f"ids={folder}/decoder.plan", f"words={folder}/bert.plan", f"picture={folder}/resnet.plan",
                                    f"hearer={folder}/speech_decoder.plan", f"--encoder=hearer={folder}/speech_encoder.plan", f"--tokenizer=hearer={speech}", f"--tokenizer=writer={folder}/chat/tokenizer.json",
                                    f"--tokenizer=base={folder}/base/tokenizer.json", f"--tokenizer=words={folder}/words/tokenizer.json", "--cache-memory=256K", "--port=0", "--json", "--quiet"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            said = ""
            while not said.endswith("}\n"):
                line = process.stdout.readline()
                assert line, f"the server ended with {process.wait()}"
                said += line
            yield json.loads(said)["port"]
        finally:
            process.terminate()
            process.wait()


def served(bench):
    bench.port = bench.stack.enter_context(server(bench.arguments.sinter))
    page = bench.open()
    found = page.locator(f"{MODEL} option").all_inner_texts()
    assert sorted(found) == ["base", "hearer", "ids", "picture", "words", "writer"], found
    bench.choose("writer")
    page.wait_for_selector("#message")
    # A conversation: random letters, up to the end of the context.
    page.click("#open-settings")
    page.fill("#set-max_tokens", "12")
    page.fill("#set-seed", "5")
    bench.send("Hi")
    assert "12 tokens" in page.inner_text(".message.assistant .figures"), page.inner_text(".message.assistant")
    first = bench.answers()[0]
    page.click("[aria-label=Regenerate]")
    page.wait_for_selector("text=2 / 2")
    bench.wait_for_answer()
    assert bench.answers()[0] == first, "the same seed"
    page.check("#set-logprobs")
    page.click("[aria-label=Regenerate]")
    page.wait_for_selector("text=3 / 3")
    bench.wait_for_answer()
    assert page.locator(".tok").count() == 12
    page.uncheck("#set-logprobs")
    page.fill("#set-max_tokens", "30")
    page.press("#set-max_tokens", "Tab")
    # What is drawn holds to what was asked for.
    page.click("summary >> text=Form of the answer")
    page.select_option("#set-form", "regex")
    page.fill("#set-regex", "(yes|no)!")
    page.press("#set-regex", "Tab")
    page.click("#new-chat")
    bench.send("Hm?")
    assert bench.answers()[0] in ("yes!", "no!"), bench.answers()
    page.select_option("#set-form", "text")
    # A call of a tool that must be: with arguments of its schema.
    page.click("summary >> text=Tools")
    tool = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}}]
    page.fill("#set-tools", json.dumps(tool))
    page.press("#set-tools", "Tab")
    page.select_option("#set-toolChoice", "required")
    page.fill("#set-max_tokens", "50")
    page.press("#set-max_tokens", "Tab")
    page.click("#new-chat")
    bench.send("x")
    called = page.locator(".call code")
    assert called.count() == 0 or json.loads(called.inner_text())["a"] in (1, 2), bench.answers()
    page.click("text=Reset all")
    # What does not fit is said.
    page.click("#new-chat")
    bench.send("too long " * 20)
    assert page.inner_text(".problem") != ""
    # Figures of the server.
    page.click("#panel .tabs >> text=Server")
    page.wait_for_selector(".plot >> text=Prefix hits")
    bench.choose("base")
    page.fill("#prompt", "Ab")
    page.click("#run")
    page.wait_for_selector("text=Go on from here")
    bench.choose("ids")
    page.wait_for_selector("#prompt[placeholder='1, 2, 3']")
    page.fill("#prompt", "1, 2")
    page.click("#run")
    page.wait_for_selector("text=Go on from here")
    bench.choose("words")
    page.fill("#texts", "abc\nabc\nxyz ab")
    page.click("#run")
    page.wait_for_selector(".matrix")
    cells = page.locator(".matrix td.heat").all_inner_texts()
    assert cells[:2] == ["1.00", "1.00"], cells
    bench.choose("picture")
    page.wait_for_selector(".tensor")
    page.select_option("[id$=from]", "random")
    page.click("#run")
    page.wait_for_selector(".numbers-table")
    bench.choose("hearer")
    page.wait_for_selector("#sound")
    page.set_input_files("#sound", str(ROOT / "tests" / "tools" / "goldens" / "speech.wav"))
    page.wait_for_selector(".transcript")
    bench.allow("400 (Bad Request)")


def all_cases():
    return [served]
