# SPDX-License-Identifier: Apache-2.0
"""A page in a browser of its own, and what it must not do: complain on the console, or ask anyone but its server."""
import contextlib
import time
from urllib.parse import urlsplit

from stub_server import Stub, stub_server

MESSAGE, MODEL = "#message", "#model"


class Bench:
    def __init__(self, browser, arguments, results):
        self.browser, self.arguments, self.results = browser, arguments, results
        self.complaints, self.strangers, self.allowed = [], [], []
        self.stack = contextlib.ExitStack()
        self.context = self.page = self.port = None

    def serve(self, **options):
        """A stub that the next pages are of."""
        stub = Stub(**options)
        self.port = self.stack.enter_context(stub_server(stub))
        return stub

    def open(self, path="", width=1280, height=800, waits="#view > *", **options):
        """A page with nothing stored."""
        self.context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self.stack.callback(self.context.close)
        self.context.set_default_timeout(15000)
        return self.tab(path, waits)

    def tab(self, path="", waits="#view > *"):
        self.page = page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.strangers.append(request.url)
                if request.url.startswith("http") and urlsplit(request.url).netloc != f"127.0.0.1:{self.port}" else None)
        page.goto(f"http://127.0.0.1:{self.port}/{path}")
        page.wait_for_selector(waits)
        return page

    def send(self, text, waits=True):
        self.page.fill(MESSAGE, text)
        self.page.press(MESSAGE, "Enter")
        if waits:
            self.wait_for_answer()

    def wait_for_answer(self):
        self.page.wait_for_selector("#send:not([hidden])")

    def until(self, expression, seconds=30):
        """Playwright's wait_for_function would evaluate text in the page, which its policy forbids."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.02)

    def answers(self):
        return self.page.locator(".message.assistant .message-body").all_inner_texts()

    def choose(self, model):
        self.page.select_option(MODEL, model)

    def allow(self, *texts):
        """What the console may say: refusals that were asked for."""
        self.allowed += texts

    def check_console(self):
        left = [each for each in self.complaints if not any(text in each for text in self.allowed)]
        assert not left, left[:5]
        assert not self.strangers, self.strangers[:5]

    def picture(self, name):
        if self.arguments.screenshots and self.page:
            self.arguments.screenshots.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=self.arguments.screenshots / f"{name}.png")

    def close(self):
        self.stack.close()
