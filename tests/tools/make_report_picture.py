#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the picture of a report that the README shows, tools/report/report.png.

  make_report_picture.py [--sinter build/bin/sinter] [--browser PATH] [--out FILE.png]

Compiles models/tiny/bert.onnx for a GPU, which needs NVRTC and no GPU, and opens the report in headless Chromium with a
kernel selected. Needs Playwright and Pillow (`pip install playwright pillow`) and a Chromium (`apt install chromium`).
Look at what it made.
"""
import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 200_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", type=Path, default=ROOT / "build" / "bin" / "sinter")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--out", type=Path, default=ROOT / "tools" / "report" / "report.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        report = Path(folder) / "report.html"
        subprocess.run([options.sinter, "report", ROOT / "models" / "tiny" / "bert.onnx", "-o", report, "--target=cuda:sm_90",
                        "--precision=fp16", "--shapes=input_ids:1x64,attention_mask:1x64", "--quiet"], check=True)
        page = play.chromium.launch(executable_path=options.browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1280, "height": 720})
        page.goto(report.as_uri())
        page.wait_for_function("page.ready_ms !== undefined")
        # A norm that became the epilogue of a product.
        page.evaluate("page.select({step: page.report.steps.find((step) => step.name.includes('_reducemean_') && kind_of(step) === 'gemm').index})")
        page.evaluate("document.querySelectorAll('#details details').forEach((each) => { each.open = true; })")
        page.evaluate("document.querySelector('#origins').previousSibling.scrollIntoView()")
        page.wait_for_timeout(300)
        page.evaluate("graph_view.fit()")
        page.wait_for_timeout(300)
        page.screenshot(path=options.out)
    # A palette of 256 colours is enough for flat areas and text.
    Image.open(options.out).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        options.out, optimize=True)
    size = options.out.stat().st_size
    print(f"{options.out}: {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    main()
