# SPDX-License-Identifier: Apache-2.0
"""What the page does, over the stub."""
import json
import random
import re

from page_fixture import MESSAGE, MODEL
from stub_server import MODELS, prefix_proxy

FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const step = (now) => {
    if (!window.frames_) return;
    frames_.push(now - last);
    last = now;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}"""


def conversation(bench):
    stub = bench.serve()
    page = bench.open()
    bench.send("Hello")
    bench.send("And again")
    assert bench.answers() == ["Answer 1 of smollm2 to turn 1: Hello", "Answer 2 of smollm2 to turn 2: And again"], bench.answers()
    assert [message["role"] for message in stub.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert "tokens/s" in page.inner_text(".message.assistant .figures >> nth=0")
    page.click(".message.assistant [aria-label=Copy] >> nth=0")
    page.wait_for_selector(".message.assistant .icon-check")


def settings_are_sent(bench):
    stub = bench.serve()
    page = bench.open()
    page.click("#open-settings")
    assert page.get_attribute("#set-temperature", "placeholder") == "0.7"
    for name, value in (("system", "Be short."), ("temperature", "0"), ("max_tokens", "5"), ("seed", "7"), ("stop", "END\n\\n\\n")):
        page.fill(f"#set-{name}", value)
    bench.send("Hello there")
    sent = stub.requests[-1]
    assert sent["messages"][0] == {"role": "system", "content": "Be short."}, sent
    assert (sent["temperature"], sent["max_tokens"], sent["seed"], sent["stop"]) == (0, 5, 7, ["END", "\n\n"]), sent
    assert "top_p" not in sent
    assert "cut off" in page.inner_text(".message.assistant .figures")
    page.click("#new-chat")
    assert page.input_value("#set-system") == "Be short.", "a new conversation goes on with what was set"


def stop(bench):
    stub = bench.serve(rate=50)
    page = bench.open()
    bench.send("slow", waits=False)
    bench.until("document.querySelector('.message.assistant .message-body').innerText.split(' ').length > 5")
    page.keyboard.press("Escape")
    bench.wait_for_answer()
    assert "stopped" in page.inner_text(".message.assistant .figures")
    count = len(bench.answers()[0].split())
    assert 5 < count < 300, count
    page.wait_for_timeout(300)
    assert len(bench.answers()[0].split()) == count and stub.cancelled == 1


def regenerate(bench):
    bench.serve()
    page = bench.open()
    bench.send("Hello")
    page.click("[aria-label=Regenerate]")
    page.wait_for_selector("text=2 / 2")
    bench.wait_for_answer()
    assert bench.answers() == ["Answer 2 of smollm2 to turn 1: Hello"]
    page.click("[aria-label='Previous branch']")
    assert bench.answers() == ["Answer 1 of smollm2 to turn 1: Hello"]
    bench.choose("qwen3")
    page.click("[aria-label=Regenerate]")
    page.wait_for_selector("text=3 / 3")
    bench.wait_for_answer()
    assert bench.answers() == ["Answer 3 of qwen3 to turn 1: Hello"]


def edit_with_branches(bench):
    bench.serve()
    page = bench.open()
    bench.send("One")
    bench.send("Two")
    page.locator(".message.user").first.hover()
    page.click(".message.user [aria-label=Edit] >> nth=0")
    page.fill(".edit-area", "Uno")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=2 / 2")
    bench.wait_for_answer()
    assert bench.answers() == ["Answer 3 of smollm2 to turn 1: Uno"]
    page.click("[aria-label='Previous branch']")
    assert len(bench.answers()) == 2 and bench.answers()[1].endswith("Two")
    # An answer that is edited is a branch of its own, without a new request.
    page.click(".message.assistant [aria-label=Edit] >> nth=1")
    page.fill(".edit-area", "My **own** words")
    page.click("text=Save as a branch")
    assert bench.answers()[1] == "My own words"
    # What is deleted goes with all that follows.
    page.click(".message.assistant [aria-label='Delete from here on'] >> nth=0")
    page.click("dialog >> text=Delete >> nth=-1")
    bench.until("document.querySelectorAll('.message').length === 1")


def history(bench):
    """What was said is there after a reload, and by its address; export, deletion and import."""
    bench.serve()
    page = bench.open()
    bench.send("Remember me")
    page.click("[aria-label=Regenerate]")
    page.wait_for_selector("text=2 / 2")
    bench.wait_for_answer()
    address = page.url
    assert "#chat/" in address
    page.reload()
    page.wait_for_selector("text=2 / 2")
    assert bench.answers() == ["Answer 2 of smollm2 to turn 1: Remember me"]
    page.click("#new-chat")
    bench.send("Another")
    assert page.locator(".conversation").all_inner_texts() == ["Another", "Remember me"]
    page.fill("#search-history", "remember")
    assert page.locator(".conversation").all_inner_texts() == ["Remember me"]
    page.click(".conversation")
    assert bench.answers()[0].endswith("Remember me")
    page.fill("#search-history", "")
    with page.expect_download() as download:
        page.click("text=Export")
    saved = json.loads(download.value.path().read_text())
    assert len(saved["conversations"]) == 2
    page.click("text=Delete all")
    page.click("dialog >> text=Delete all >> nth=-1")
    page.wait_for_selector("text=Conversations stay in this browser")
    page.set_input_files("#history input[type=file]", {"name": "x.json", "mimeType": "application/json", "buffer": json.dumps(saved).encode()})
    page.wait_for_selector(".conversation >> text=Remember me")
    page.reload()
    page.click(".conversation >> text=Remember me")
    page.wait_for_selector("text=2 / 2")
    saved["conversations"][0]["nodes"] = {"x": {"id": "x", "role": "user", "content": {"bad": 1}, "parent": ""}}
    for bad in (json.dumps(saved), "[1, 2", '{"format": "other"}'):
        page.set_input_files("#history input[type=file]", {"name": "bad.json", "mimeType": "application/json", "buffer": bad.encode()})
        page.wait_for_selector(".toast.bad >> text=cannot be imported")
        page.click(".toast.bad [aria-label=Dismiss] >> nth=0")


def reload_while_it_answers(bench):
    bench.serve(rate=30)
    page = bench.open()
    bench.send("slow", waits=False)
    page.wait_for_timeout(2800)
    page.reload()
    page.wait_for_selector(".message.assistant")
    assert len(bench.answers()[0].split()) > 10, "what had come is kept"


def two_conversations_at_once(bench):
    bench.serve(rate=40)
    page = bench.open()
    bench.send("slow", waits=False)
    page.wait_for_selector(".message.assistant .markdown")
    page.click("#new-chat")
    bench.send("short")
    assert bench.answers() == ["A short answer."]
    page.click(".conversation >> text=slow")
    before = len(bench.answers()[0].split())
    page.wait_for_timeout(500)
    assert len(bench.answers()[0].split()) > before, "it goes on while another is looked at"
    page.keyboard.press("Escape")
    bench.wait_for_answer()


def two_models(bench):
    stub = bench.serve()
    page = bench.open()
    assert page.locator(f"{MODEL} option").all_inner_texts() == [model["id"] for model in MODELS]
    bench.send("Hello")
    bench.choose("qwen3")
    bench.send("And you")
    assert [sent["model"] for sent in stub.requests] == ["smollm2", "qwen3"]
    assert page.locator(".message.assistant .who").all_inner_texts() == ["smollm2", "qwen3"]
    page.reload()
    page.wait_for_selector(".message")
    assert page.input_value(MODEL) == "qwen3"


def frames_of(bench, text):
    """While an answer of 4,000 tokens comes, at 200 a second."""
    page = bench.page
    page.set_default_timeout(120000)
    page.evaluate(FRAMES)
    bench.send(text, waits=False)
    page.wait_for_selector("#stop:not([hidden])")
    bench.wait_for_answer()
    frames = page.evaluate("() => { const all = frames_; window.frames_ = null; return all.slice(1); }")
    seconds = sum(frames) / 1000
    tokens = int(re.search(r"(\d+) tokens", page.inner_text(".message.assistant .figures >> nth=-1")).group(1))
    return {"tokens": tokens, "seconds": round(seconds, 1), "frames_per_second": round(len(frames) / seconds, 1),
            "frames_over_20_ms": sum(each > 20 for each in frames), "frames_over_50_ms": sum(each > 50 for each in frames), "longest_frame_ms": round(max(frames), 1)}


def assert_same(streamed, whole):
    """But for blanks between tags."""
    streamed, whole = (re.sub(r">\s+<", "><", each) for each in (streamed, whole))
    at = next((i for i, (a, b) in enumerate(zip(streamed, whole)) if a != b), min(len(streamed), len(whole)))
    assert streamed == whole, f"{streamed[max(0, at - 150):at + 100]}\n---\n{whole[max(0, at - 150):at + 100]}"


def long_answer(bench):
    """Frames are counted, no time is a condition. What came bit by bit looks as what is there."""
    bench.serve(rate=200)
    page = bench.open()
    bench.results["long_answer"] = frames_of(bench, "long")
    streamed = page.evaluate("document.querySelector('.markdown').innerHTML")
    page.reload()
    page.wait_for_selector(".markdown table")
    assert_same(streamed, page.evaluate("document.querySelector('.markdown').innerHTML"))
    assert page.evaluate("(e => e.scrollHeight - e.scrollTop - e.clientHeight)(document.querySelector('.scroller'))") < 200, "it follows the text"


def long_blocks(bench):
    """The same, if the whole answer is one block."""
    bench.serve(rate=200)
    for kind, last in (("list", "li"), ("table", "tr"), ("code", ".code"), ("paragraph", "p")):
        page = bench.open()
        bench.results[f"long_{kind}"] = frames_of(bench, f"block {kind}")
        count = page.locator(f".markdown {last}").count()
        streamed = page.evaluate("document.querySelector('.markdown').innerHTML")
        page.reload()
        page.wait_for_selector(f".markdown {last}")
        assert_same(streamed, page.evaluate("document.querySelector('.markdown').innerHTML"))
        assert page.locator(f".markdown {last}").count() == count > 0, kind


PIECES = ["# Head\n\n", "A paragraph with *stars*\nand a line\n\n", "- one\n- two\n  - deep\n  - deeper\n- three\n\n", "1. a\n2. b\n\n   more of b\n3. c\n\n", "```py\n\tx = 1\n\n```\n", "~~~\n```\n~~~\n\n",
          "> quoted\n> more\n\n", "| a | b |\n|:-|-:|\n| 1 | `x` |\n| 2 |\n\n", "| a |\n|---|\n\n", "---\n\n", "\ttabbed code\n\n", "<div>\nhtml\n</div>\n\n", "Title\n=====\n\n", "* star\n\n+ plus\n\n",
          "[x]: https://example.com\n\n", "a < b && c\r\n\r\n", "```\nleft open"]


def streams_as_whole(bench):
    """Blocks in any order, cut anywhere: the nodes are those of the whole text."""
    bench.serve()
    page = bench.open()
    draw = random.Random(7)
    for _ in range(150):
        text = "".join(draw.choices(PIECES[:-1], k=draw.randrange(1, 7))) + draw.choice(["", PIECES[-1], "| a | b |\n|---", "- last"])
        cuts = sorted(draw.sample(range(len(text) + 1), min(len(text), draw.randrange(1, 30))))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
        if any(part.endswith("\r") for part in parts):
            continue
        streamed, whole = page.evaluate("""async (parts) => {
          const {MarkdownStream} = await import('./page/markdown_stream.js');
          const draws = [];
          const real = window.requestAnimationFrame;
          window.requestAnimationFrame = (draw) => { draws.push(draw); return 1; };
          const show = (parts) => {
            const box = document.createElement('div');
            const stream = new MarkdownStream(box);
            for (const part of parts) {
              stream.add(part);
              draws.splice(0).forEach((draw) => draw(performance.now()));
            }
            stream.finish();
            return box.innerHTML;
          };
          try { return [show(parts), show([parts.join('')])]; } finally { window.requestAnimationFrame = real; }
        }""", parts)
        try:
            assert_same(streamed, whole)
        except AssertionError as error:
            raise AssertionError(f"{parts}\n{error}") from None


def tool_call(bench):
    stub = bench.serve()
    page = bench.open()
    page.click("#open-settings")
    page.click("summary >> text=Tools")
    page.click(".group:has(#set-tools) >> text=Insert an example")
    page.keyboard.press("Escape")
    bench.send("weather in Oslo?")
    page.wait_for_selector("text=Calls get_weather")
    assert json.loads(page.inner_text(".call code")) == {"city": "Oslo"}
    page.fill(".results textarea", '{"degrees": 3}')
    page.click("text=Send the results")
    bench.wait_for_answer()
    assert bench.answers()[-1] == 'The tool says {"degrees": 3}.', bench.answers()
    sent = stub.requests[-1]
    assert sent["tools"][0]["function"]["name"] == "get_weather"
    assert sent["messages"][-2]["tool_calls"][0]["id"] == sent["messages"][-1]["tool_call_id"] == "call_1", sent
    page.fill("#set-tools", "[{")
    page.press("#set-tools", "Tab")
    page.wait_for_selector("text=The tools are no JSON")
    bench.send("again", waits=False)
    page.wait_for_selector(".toast.bad >> text=The tools are no JSON")


def json_schema(bench):
    stub = bench.serve()
    page = bench.open()
    page.click("#open-settings")
    page.click("summary >> text=Form of the answer")
    page.select_option("#set-form", "schema")
    page.click(".group:has(#set-schema) >> text=Insert an example")
    page.click("#panel [aria-label=Close]")
    bench.send("Who?")
    assert stub.requests[-1]["response_format"]["json_schema"]["schema"]["required"] == ["name", "age"], stub.requests[-1]
    assert json.loads(bench.answers()[0]) == {"name": "Ada", "age": 36}
    page.wait_for_selector(".mark >> text=JSON schema")


def probabilities(bench):
    bench.serve()
    page = bench.open()
    page.click("#open-settings")
    page.check("#set-logprobs")
    bench.send("short")
    assert page.locator(".tok").all_inner_texts() == ["A ", "short ", "answer."]
    page.hover(".tok >> nth=1")
    assert page.locator(".tip-row").count() == 3 and "60.0 %" in page.inner_text(".tip-row.drawn")
    page.focus(".tokens")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute(".tok >> nth=2", "aria-selected") == "true"
    page.click(".message-foot >> text=Markdown")
    assert bench.answers() == ["A short answer."]


def reasoning(bench):
    bench.serve(rate=30)
    page = bench.open()
    bench.send("think")
    assert page.inner_text(".answer > .markdown") == "Then that."
    assert page.text_content(".thought-text").strip() == "First this."
    assert page.locator(".thought[open]").count() == 0


def refusals(bench):
    bench.serve()
    page = bench.open()
    bench.send("fail")
    assert page.inner_text(".problem") == "'messages' cannot be answered: <b>this</b> is the reason"
    bench.send("Hello")
    bench.allow("400 (Bad Request)")


def strangers(bench):
    """What a model writes stays text, however it looks; also as it streams."""
    for rate in (0, 40):
        bench.serve(rate=rate)
        page = bench.open()
        bench.send("xss")
        page.reload()
        page.wait_for_selector(".markdown")
        assert page.evaluate("window.owned") is None
        found = page.evaluate("""() => [...document.querySelectorAll('.markdown *')].flatMap((element) =>
            [...element.attributes].map((each) => [element.tagName, each.name, each.value]))""")
        assert not [each for each in found if each[1].startswith("on") or each[1] in ("style", "src", "srcdoc", "id", "name")], found
        links = [value for _, name, value in found if name == "href"]
        assert links and all(re.match("https?://", link) for link in links), links
        assert page.locator(".markdown :is(script, img, svg:not(.icon), iframe, form, input, style, math)").count() == 0
        assert "onerror" in page.inner_text(".markdown"), "it is shown as text"
        page.click(".markdown >> text=a link")


def themes(bench):
    bench.serve()
    page = bench.open(color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    assert dark == "rgb(25, 23, 21)" and light == "rgb(255, 255, 255)", (dark, light)
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate(colour) == dark
    page.reload()
    page.wait_for_selector(MESSAGE)
    assert page.evaluate(colour) == dark, "the choice is kept"


def phone(bench):
    bench.serve()
    page = bench.open(width=360, height=740, has_touch=True)
    for model in [model["id"] for model in MODELS]:
        bench.choose(model)
        page.wait_for_timeout(150)
        if model == "smollm2":
            bench.send("markdown")
            bench.send("a-word-without-an-end-" * 20)
        if model == "minilm":
            page.click("#run")
            page.wait_for_selector(".matrix")
        wide = page.evaluate("[document.documentElement.scrollWidth, document.querySelector('#view').scrollWidth, innerWidth]")
        assert max(wide[:2]) <= wide[2] == 360, (model, wide)
        bench.picture(f"phone_{model}")
    page.click("#toggle-history")
    page.click(".conversation")
    page.wait_for_selector(".message")
    assert not page.is_visible("#history")
    page.click("#open-settings")
    assert page.is_visible("#set-system")
    page.keyboard.press("Escape")
    assert not page.is_visible("#set-system")


def completion(bench):
    stub = bench.serve(models=[MODELS[2]])
    page = bench.open()
    assert "without a chat template" in page.inner_text("#view")
    page.fill("#prompt", "Once")
    page.press("#prompt", "Control+Enter")
    page.wait_for_selector("text=Go on from here")
    assert page.inner_text("#output") == "Once and so the text goes on, word for word, until it ends.", page.inner_text("#output")
    page.click("text=Go on from here")
    bench.until("document.querySelector('#output').innerText.endsWith('ends. and so the text goes on, word for word, until it ends.')")
    assert stub.requests[-1]["prompt"].endswith("it ends.")
    page.click("#open-settings")
    assert page.locator("#set-system").count() == 0
    page.check("#set-logprobs")
    page.click("#run")
    page.wait_for_selector(".tok >> nth=3")


def token_ids(bench):
    stub = bench.serve(models=[{**MODELS[2], "prompt": "ids"}])
    page = bench.open()
    page.fill("#prompt", "words")
    page.click("#run")
    page.wait_for_selector("text=served without a tokenizer")
    page.fill("#prompt", "5, 6")
    page.click("#run")
    page.wait_for_selector("text=Go on from here")
    assert stub.requests[-1]["prompt"] == [5, 6]
    assert page.inner_text("#output").startswith("5, 6, 0, 1, 2")


def encoder(bench):
    bench.serve(models=[MODELS[3]])
    page = bench.open()
    page.fill("#texts", "red apples\nred apples\nblue whales\n\n<b>x</b>")
    page.click("#run")
    page.wait_for_selector(".matrix")
    cells = page.locator(".matrix td.heat").all_inner_texts()
    assert len(cells) == 16 and cells[0] == cells[1] == "1.00" and float(cells[2]) < 0.9, cells
    assert page.locator(".matrix th[scope=row]").all_inner_texts()[-1] == "4. <b>x</b>"
    page.click(".tabs >> text=Search")
    page.fill("#lines", "blue whales swim\ngreen leaves\nred apples fall")
    page.fill("#query", "red apples")
    page.press("#query", "Enter")
    page.wait_for_selector(".found")
    assert page.inner_text(".found >> nth=0") == "red apples fall"


def ranking(bench):
    stub = bench.serve(models=[MODELS[4]])
    page = bench.open()
    page.fill("#lines", "blue whales swim\nred apples fall")
    page.fill("#query", "red apples")
    page.click("#run")
    page.wait_for_selector(".found")
    assert page.inner_text(".found >> nth=0") == "red apples fall"
    assert stub.requests[-1]["documents"] == ["blue whales swim", "red apples fall"]


def tensors(bench):
    stub = bench.serve(models=[MODELS[6]])
    page = bench.open()
    page.wait_for_selector(".tensor")
    assert page.locator(".dim").evaluate_all("all => all.map(each => each.value)") == ["1", "3", "4", "4", "2"]
    page.select_option("[id$=from] >> nth=0", "ones")
    page.fill("textarea >> nth=1", "[9007199254740993, -3]")
    page.click("#run")
    page.wait_for_selector(".numbers-table")
    cells = page.locator(".numbers-table td").all_inner_texts()
    assert "48" in cells, cells
    assert stub.requests[-1]["inputs"][1] == {"name": "count", "datatype": "INT64", "shape": [2], "parameters": {"binary_data_size": 16}}
    page.fill("textarea >> nth=1", "1 2 3")
    page.click("#run")
    page.wait_for_selector("text=count: 3 numbers, and the shape [2] has 2")
    npy = page.evaluate("""async () => {
      const {npyOf, readNpy, bytesOf, valuesOf} = await import('./page/tensor_data.js');
      const halves = [0, 1, -2.5, 65504, 6e-8, 1e-9, 0.1, NaN, Infinity];
      const parts = npyOf('FP16', [3, 3], bytesOf('FP16', 9, (i) => halves[i]));
      const whole = new Uint8Array([...parts[0], ...parts[1]]);
      const back = readNpy(whole.buffer);
      return [whole.length % 64, back.shape, valuesOf('FP16', back.bytes).map(String), valuesOf('BF16', bytesOf('BF16', 2, (i) => [1.00390625, 3e38][i]))];
    }""")
    assert npy[:2] == [18, [3, 3]] and npy[2][:4] == ["0", "1", "-2.5", "65504"] and npy[2][7:] == ["NaN", "Infinity"], npy
    assert npy[3][0] == 1 and abs(float(npy[2][6]) - 0.1) < 1e-4, npy


def speech(bench):
    stub = bench.serve(models=[MODELS[5]])
    page = bench.open()
    page.set_input_files("#sound", {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"RIFF1234"})
    page.wait_for_selector("text=bytes were heard")
    assert b'filename="a.wav"' in stub.requests[-1]["form"] and b"RIFF1234" in stub.requests[-1]["form"]
    # Chromium's own device for tests beeps.
    page.click("#record")
    page.wait_for_selector("text=Stop and transcribe")
    page.wait_for_timeout(1500)
    page.click("#record")
    bench.until("document.querySelector('#note').innerText.includes(' in ') || document.querySelector('#note.bad-text')")
    assert b'filename="recording.wav"' in stub.requests[-1]["form"], page.inner_text("#note")
    sound = stub.requests[-1]["form"].split(b"\r\n\r\n")[-1]
    assert sound[:4] == b"RIFF" and sound[22:28] == b"\x01\x00\x80\x3e\x00\x00" and len(sound) > 16000, len(sound)
    page.set_input_files("#sound", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"words"})
    page.wait_for_selector("text='a.txt' is no sound that this browser can decode")


def figures(bench):
    bench.serve(rate=40)
    page = bench.open()
    page.click("#open-server")
    bench.send("slow", waits=False)
    bench.until("[...document.querySelectorAll('.plot')].some(each => each.innerText.startsWith('Tokens generated') && parseFloat(each.querySelector('strong').innerText) > 10)")
    bench.until("document.querySelector('.plot-line').getAttribute('d').split('L').length > 2")
    assert "Prefix hits" in page.inner_text(".plots")
    assert page.get_attribute(".plot svg >> nth=0", "aria-label").startswith("Tokens generated: ")


def api_key(bench):
    bench.serve(key="secret")
    page = bench.open(waits="dialog")
    page.wait_for_selector("dialog >> text=API key")
    page.fill("dialog input[type=password]", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=does not know this key")
    page.fill("dialog input[type=password]", "secret")
    page.keyboard.press("Enter")
    page.wait_for_selector(MESSAGE)
    bench.send("Hello")
    assert len(bench.answers()) == 1
    page.reload()
    page.wait_for_selector(MESSAGE)
    bench.allow("401 (Unauthorized)")


def below_a_prefix(bench):
    stub = bench.serve()
    bench.port = bench.stack.enter_context(prefix_proxy(bench.port))
    page = bench.open("some/prefix/")
    bench.send("Hello")
    assert len(bench.answers()) == 1 and len(stub.requests) == 1
    page.reload()
    page.wait_for_selector(".message.assistant")


def policy_holds(bench):
    """The browser itself refuses what is inline."""
    bench.serve()
    page = bench.open()
    tried = page.evaluate("""() => {
      const script = document.createElement('script');
      try { script.textContent = 'window.owned = 1'; document.body.append(script); } catch { /* Trusted Types */ }
      let refused = false;
      try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.owned = 2">'); } catch { refused = true; }
      return [window.owned, refused];
    }""")
    assert tried == [None, True], tried
    assert page.evaluate("fetch('https://example.com/').then(() => 'went', () => 'refused')") == "refused"
    bench.allow("Content Security Policy", "TrustedHTML", "TrustedScript", "Trusted Type", "example.com")


def by_keyboard(bench):
    """From the first Tab to an answer, an edited message and a deleted conversation, without a pointer."""
    bench.serve()
    page = bench.open()
    focused = "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || document.activeElement.id || '').trim()"

    def go_to(name, most=60, key="Tab"):
        for _ in range(most):
            page.keyboard.press(key)
            if page.evaluate(focused).startswith(name):
                return
        raise AssertionError(f"no way to '{name}': {page.evaluate(focused)}")

    page.keyboard.press("Control+Shift+O")
    page.keyboard.type("By hand")
    page.keyboard.press("Enter")
    bench.wait_for_answer()
    go_to("Edit", key="Shift+Tab")
    go_to("Edit", key="Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("By keys")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=2 / 2")
    bench.wait_for_answer()
    go_to("Previous branch", key="Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 / 2")
    page.keyboard.press("Control+,")
    go_to("set-temperature")
    page.keyboard.type("0.5")
    page.keyboard.press("Control+,")
    page.keyboard.press("Control+k")
    page.keyboard.type("hand")
    go_to("Delete By hand")
    page.keyboard.press("Enter")
    go_to("Delete")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message", state="detached")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=Ctrl")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "message"


def accessible(bench):
    """axe-core: nothing serious or critical, in each view, light and dark, wide and narrow."""
    from axe_playwright_python.sync_playwright import Axe
    axe, wrong = Axe(), []
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
        bench.serve()
        # axe-core is put into the page by the test, which the page's own policy forbids.
        page = bench.open(width=width, color_scheme=scheme, bypass_csp=True)

        def look(what):
            violations = axe.run(page).response["violations"]
            wrong.extend((scheme, width, what, each["id"], each["nodes"][0]["html"][:150], each["nodes"][0].get("failureSummary", "")[:200])
                         for each in violations if each["impact"] in ("serious", "critical"))
        look("empty")
        bench.send("markdown")
        bench.send("think")
        look("conversation")
        page.click("#open-settings")
        page.click("summary >> text=Tools")
        page.check("#set-logprobs")
        look("settings")
        page.click("#panel .tabs >> text=Server")
        page.wait_for_selector(".plot")
        look("server")
        page.click("#panel [aria-label=Close]")
        bench.send("short")
        page.focus(".tokens")
        look("probabilities")
        for model in ("base", "minilm", "reranker", "whisper", "vision"):
            bench.choose(model)
            page.wait_for_selector({"base": "#prompt", "minilm": "#texts", "reranker": "#label", "whisper": "#record", "vision": ".tensor"}[model])
            if model in ("base", "minilm", "vision"):
                if model == "vision":
                    page.select_option("[id$=from] >> nth=0", "random")
                    page.select_option("[id$=from] >> nth=1", "ones")
                page.click("#run")
                page.wait_for_selector(".new-text, .tok, .matrix, .numbers-table")
            look(model)
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        page.wait_for_selector("dialog")
        look("keys")
    bench.results["accessible"] = {"serious": len(wrong)}
    assert not wrong, "\n".join(map(str, wrong[:12]))


def all_cases():
    return [conversation, settings_are_sent, stop, regenerate, edit_with_branches, history, reload_while_it_answers, two_conversations_at_once, two_models, long_answer, long_blocks, streams_as_whole, tool_call,
            json_schema, probabilities, reasoning, refusals, strangers, themes, phone, completion, token_ids, encoder, ranking, tensors, speech, figures, api_key,
            below_a_prefix, policy_holds, by_keyboard, accessible]
