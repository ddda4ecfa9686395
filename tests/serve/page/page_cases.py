# SPDX-License-Identifier: Apache-2.0
"""The page as a whole: themes, widths, figures, keys, policy; and the list of all cases, over the stub."""
import conversation_cases
import stream_cases
import view_cases
from page_fixture import MESSAGE
from stub_server import MODELS, prefix_proxy


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
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("/")
    bench.until("document.activeElement.id === 'message'")


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
    """In the order of their modules."""
    return [
        conversation_cases.conversation, conversation_cases.settings_are_sent, conversation_cases.stop,
        conversation_cases.regenerate, conversation_cases.edit_with_branches, conversation_cases.history,
        conversation_cases.reload_while_it_answers, conversation_cases.two_conversations_at_once, conversation_cases.two_models,
        conversation_cases.tool_call, conversation_cases.json_schema,
        conversation_cases.probabilities, conversation_cases.reasoning, conversation_cases.refusals,
        conversation_cases.strangers,
        stream_cases.long_answer, stream_cases.long_blocks, stream_cases.streams_as_whole,
        view_cases.completion, view_cases.token_ids, view_cases.encoder, view_cases.ranking, view_cases.tensors,
        view_cases.speech,
        themes, phone, figures, api_key, below_a_prefix, policy_holds, by_keyboard, accessible,
    ]
