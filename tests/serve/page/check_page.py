#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's page in headless Chromium, over a stub of the API and over `sinter serve` itself.

  check_page.py [--sinter build/bin/sinter] [--only NAME..] [--results FILE.json] [--screenshots FOLDER] [--browser PATH]

Needs requirements.txt and a Chromium (`apt install chromium`); with --sinter also what check_clients.py needs. Exits 77 where the browser
is missing, 1 if something is wrong. Figures (frames a second of a long answer) are written to --results; none is a condition.
"""
import argparse
import json
import shutil
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", help="also the cases that ask the server itself")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("Playwright is missing: pip install -r tests/serve/page/requirements.txt")
        return 77
    if arguments.browser is None:
        print("Chromium is missing: apt install chromium")
        return 77
    import page_cases
    from page_fixture import Bench
    cases = page_cases.all_cases()
    if arguments.sinter:
        import served_cases
        cases += served_cases.all_cases()
    failed, results = [], {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"])
        for case in cases:
            name = case.__name__
            if arguments.only and name not in arguments.only:
                continue
            bench = Bench(browser, arguments, results)
            try:
                case(bench)
                bench.check_console()
                print(f"ok   {name}", flush=True)
            except Exception:
                failed.append(name)
                traceback.print_exc()
                bench.picture(f"failed_{name}")
                print(f"FAIL {name}; console: {bench.complaints[:3]}", flush=True)
            finally:
                bench.close()
        browser.close()
    if arguments.results:
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results))
    print(f"failed: {', '.join(failed)}" if failed else "all hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
