# SPDX-License-Identifier: Apache-2.0
"""Long answers as they stream: frames, and that they end as the whole text renders."""
import random
import re


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
