# SPDX-License-Identifier: Apache-2.0
"""Views of models that do not chat: completion, vectors, ranking, tensors, speech."""
from stub_server import MODELS


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
