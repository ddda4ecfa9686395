#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens reports in headless Chromium: no errors on the console, ready in time, clicks do what they say.

usage: check_report_page.py [--within SECONDS] [--screenshots FOLDER] REPORT.html...

Needs Playwright (`pip install playwright`) and a Chromium (`apt install chromium`, or --browser PATH). Exits
77 where one of them is missing, 1 if something is wrong. Screenshots are to be looked at.
"""
import argparse
import pathlib
import shutil
import sys

TABS = ["overview", "graph", "steps", "time", "memory", "quantization", "difference"]


def check(page, path, options, say):
    errors = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(f"loads {request.url}")
            if not request.url.startswith(("file:", "data:")) else None)
    page.goto(pathlib.Path(path).resolve().as_uri())
    page.wait_for_function("page.ready_ms !== undefined")
    ready = page.evaluate("page.ready_ms") / 1000
    nodes, steps = page.evaluate("[page.report.nodes.length, page.report.steps.length]")
    say(ready < options.within, f"{nodes} nodes, {steps} steps: ready in {ready:.2f} s (most {options.within} s)")

    def shot(name):
        if options.screenshots:
            folder = pathlib.Path(options.screenshots)
            folder.mkdir(parents=True, exist_ok=True)
            page.wait_for_timeout(150)
            page.screenshot(path=folder / f"{pathlib.Path(path).stem}_{name}.png")

    # A click on a box shows that kernel; on one of its nodes, the node.
    page.click("#tab-graph")
    page.click("#mode-kernels")
    x, y = page.evaluate("graph_view.window_place('step 0')")
    page.mouse.click(x, y)
    name = page.evaluate("page.report.steps[0].name")
    say(name in page.inner_text("#details h2"), f"a click on the first box shows '{name}'")
    say(page.locator("#origins li").count() == page.evaluate("page.report.steps[0].origins.length"),
        "its ONNX nodes are listed")
    shot("graph")
    for mode in ("nodes", "blocks"):
        if page.locator(f"#mode-{mode}").is_disabled():
            continue
        before = page.evaluate("performance.now()")
        page.click(f"#mode-{mode}")
        page.evaluate("new Promise(requestAnimationFrame)")
        took = (page.evaluate("performance.now()") - before) / 1000
        boxes = page.evaluate("graph_view.items.length")
        say(took < options.within, f"{mode}: {boxes} boxes in {took:.2f} s")
        shot(f"graph_{mode}")
    if not page.locator("#mode-blocks").is_disabled():
        before = page.evaluate("graph_view.items.length")
        block = page.evaluate("graph_view.items.find((item) => item.block !== undefined).key")
        page.evaluate("(key) => graph_view.centre(graph_view.by_key.get(key))", block)
        x, y = page.evaluate("(key) => graph_view.window_place(key)", block)
        page.mouse.dblclick(x, y)
        after = page.evaluate("graph_view.items.length")
        say(after > before, f"a double click opens block '{block}': {before} to {after} boxes")
    page.click("#mode-nodes")
    target = page.evaluate("page.report.nodes[page.report.nodes.length - 1].name")
    page.fill("#search", target)
    say(page.evaluate("graph_view.found.some((item) => item.name === page.report.nodes[page.report.nodes.length - 1].name)"),
        f"search finds '{target}'")
    page.fill("#search", "no such node")
    say(page.inner_text("#count") == "0 found", "search says that there is nothing")
    page.fill("#search", "")
    page.click("text=Fit")
    shot("graph_fit")
    page.keyboard.press("Escape")
    say(page.locator("#details").is_hidden(), "Escape closes the panel")

    # The legend has the kinds of all boxes; a click marks those of one.
    page.click("#mode-kernels")
    kinds = page.evaluate("[...new Set(page.report.steps.map(kind_of))].length")
    say(page.locator("#legend button").count() == kinds, f"the legend has {kinds} kinds")
    page.click("#legend button >> nth=0")
    marked = page.evaluate("new Set(graph_view.found.map((item) => graph_view.kind_of_item(item))).size")
    say(marked == 1, "a click on one marks its boxes")
    page.click("#legend button >> nth=0")
    if page.evaluate("Boolean(page.report.raw.passes)"):
        page.click("#tab-overview")
        hidden = page.locator("#idle-passes table").is_hidden()
        say(hidden, f"{page.inner_text('#idle-passes summary')}: folded")
        page.click("#idle-passes summary")
        say(page.locator("#idle-passes table").is_visible(), "a click opens them")

    for tab in TABS:
        if page.locator(f"#tab-{tab}").count() == 0:
            continue
        page.click(f"#tab-{tab}")
        say(len(page.inner_text("#view")) > 0 or tab == "graph", f"tab {tab} shows something")
        if tab == "time" and page.evaluate("Boolean(page.report.profile)"):
            lanes, copies = page.evaluate("(({lanes, copies}) => [lanes.length, copies.length])(charts.schedule(page.report))")
            texts = page.locator("svg text.soft").all_text_contents()  # innerText is not of SVG
            say(texts.count("launches") == lanes and page.locator("svg .copy").count() == copies,
                f"the timeline has {lanes} streams and {copies} copies")
        if tab in ("steps", "time", "memory"):
            mark = {"steps": "tbody tr[data-step]", "time": "svg .hit", "memory": "svg .hit"}[tab]
            if page.locator(mark).count() > 0:
                page.locator(mark).first.click(force=True)
                say(page.locator("#details").is_visible(), f"a click in {tab} shows a kernel")
                shot(f"{tab}_chosen")
                page.keyboard.press("Escape")
        if tab != "graph":
            shot(tab)
    before = page.evaluate("document.documentElement.dataset.theme")
    page.click("#theme")
    say(page.evaluate("document.documentElement.dataset.theme") != before, "the theme changes")
    say(page.locator("b:text-is('Relu')").count() == 0, "names of nodes are no HTML")
    say(not errors, "no errors on the console" + "".join(f"\n     {error}" for error in errors[:5]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="REPORT.html")
    parser.add_argument("--within", type=float, default=3, help="most seconds until a page is ready")
    parser.add_argument("--screenshots", help="folder for screenshots")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("Playwright is missing: pip install playwright")
        return 77
    if not options.browser:
        print("Chromium is missing: apt install chromium, or name one with --browser")
        return 77
    failures = 0

    def say(is_right, what):
        nonlocal failures
        failures += not is_right
        print("ok  " if is_right else "BAD ", what, flush=True)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        for path in options.reports:
            for scheme in ("light", "dark"):
                print(f"{path}, {scheme}")
                context = browser.new_context(color_scheme=scheme, viewport={"width": 1400, "height": 900})
                page = context.new_page()
                folder = options.screenshots
                if folder:
                    options.screenshots = str(pathlib.Path(folder) / scheme)
                check(page, path, options, say)
                options.screenshots = folder
                context.close()
        browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
