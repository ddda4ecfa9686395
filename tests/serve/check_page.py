#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's page in headless Chromium: a prompt's tokens come, figures move, nothing on the console.

  check_page.py --sinter build/bin/sinter [--screenshot FILE.png] [--browser PATH]

Needs Playwright (`pip install playwright`), openai (tools/setup) and a Chromium (`apt install chromium`). Exits 77 where one of them is
missing, 1 if something is wrong. The screenshot is to be looked at.
"""
import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from check_clients import ROOT, server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--screenshot")
    arguments = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("Playwright is missing: pip install playwright")
        return 77
    if arguments.browser is None:
        print("Chromium is missing: apt install chromium")
        return 77
    failures = []

    def say(is_right, text):
        print("ok  " if is_right else "FAIL", text)
        if not is_right:
            failures.append(text)

    with tempfile.TemporaryDirectory() as folder, server(arguments.sinter, Path(folder)) as (_, port), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 900, "height": 760})
        errors = []
        page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.append(f"loads {request.url}") if f":{port}/" not in request.url else None)
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_function("document.getElementById('model').options.length > 0")
        say(page.input_value("#model") == "tiny", "the model is listed")
        page.fill("#prompt", "1, 2, 3")
        page.fill("#tokens", "40")
        page.click("#run")
        page.wait_for_function("document.getElementById('note').textContent.includes('tokens/s')")
        say(page.inner_text("#note").startswith("40 tokens (length)"), page.inner_text("#note"))
        say(len(page.inner_text("#text .new").split()) == 40, "40 tokens are shown")
        page.wait_for_function("document.querySelector('#figures tr:nth-child(3) td:nth-child(2)')?.textContent === '40'")
        say(True, "the figures count them")
        page.fill("#tokens", "4000")
        page.click("#run")
        page.wait_for_function("document.getElementById('note').textContent.startsWith('error')")
        say("do not fit" in page.inner_text("#note"), page.inner_text("#note"))
        errors = [error for error in errors if "400" not in error]  # the refusal that was asked for
        say(not errors, f"nothing on the console: {errors[:3]}")
        if arguments.screenshot:
            page.fill("#tokens", "60")
            page.click("#run")
            page.wait_for_function("document.getElementById('note').textContent.includes('tokens/s')")
            page.screenshot(path=arguments.screenshot)
        browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
