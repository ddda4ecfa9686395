# SPDX-License-Identifier: Apache-2.0
"""Conversations: messages, branches, history, tools, what models write."""
import json
import re

from page_fixture import MODEL
from stub_server import MODELS


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
    answer = page.inner_text(".answer > .markdown")
    assert answer == "Then that.", answer
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
