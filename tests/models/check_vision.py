#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny models of images and texts (models/export_vision.py): what `sinter serve` answers to conversations with PNG, JPEG and WebP
images of several sizes is, token by token, what transformers generates with its own image processors.

  check_vision.py --only idefics3 --target cuda
  check_vision.py --make           write vision/*/ and vision/cases.json (needs torch and transformers)
"""
import argparse
import base64
import concurrent.futures
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from check_sentences import server
from runs import Failed, Sinter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("vision")
CASES = FOLDER / "cases.json"
TOKENS = 12
# Size, kind of file.
IMAGES = {"wide": (61, 34, "PNG"), "tall": (40, 90, "JPEG"), "small": (20, 17, "WEBP"), "clear": (48, 48, "PNG")}
# Messages: text, or the name of an image.
CONVERSATIONS = [
    [("user", ["wide", "what is in there ."])],
    [("user", ["describe", "tall", "and", "small", "."])],
    [("user", ["what color is the sky"]), ("assistant", ["red"]), ("user", ["clear", "and there"])],
    [("user", ["small", "small", "wide", "two cats"])],
    [("system", ["you describe"]), ("user", ["the tree is red ."])],
]


def make_images():
    from PIL import Image
    found = {}
    for number, (name, (width, height, kind)) in enumerate(IMAGES.items()):
        y, x = np.mgrid[:height, :width]
        waves = [127 + 120 * np.sin((x * (c + 1) + y * (3 - c) + 9 * number) / (5 + 2 * c)) for c in range(3)]
        if name == "clear":
            waves.append(255 * (x > y))
        file = io.BytesIO()
        Image.fromarray(np.stack(waves, -1).astype(np.uint8)).save(file, kind, **({"quality": 90} if kind != "PNG" else {}))
        found[name] = base64.b64encode(file.getvalue()).decode()
    return found


def messages_of(conversation, images, part):
    """As the API has them: `part` makes a part of an image's name."""
    return [{"role": role, "content": [part(x) if x in images else {"type": "text", "text": x} for x in content]}
            for role, content in conversation]


def make_model(name, images):
    """What transformers generates, and how far its second best token was behind at the closest."""
    sys.path.insert(0, str(ROOT / "models"))
    import torch
    import transformers as hf
    from export_vision import seeded
    from PIL import Image
    folder, model = FOLDER / name, seeded(name)
    config = json.loads((folder / "preprocessor_config.json").read_text())
    processor = getattr(hf, config["image_processor_type"])(**{k: v for k, v in config.items() if k != "image_processor_type"})
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    marker = tokenizer.decode([model.config.image_token_id])
    opened = {key: Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB") for key, data in images.items()}
    found, closest = [], np.inf
    for conversation in CONVERSATIONS:
        text = tokenizer.apply_chat_template(messages_of(conversation, images, lambda x: {"type": "image"}), tokenize=False,
                                             add_generation_prompt=True)
        given = [opened[x] for _, content in conversation for x in content if x in images]
        more = {}
        if name == "idefics3":
            whole = hf.Idefics3Processor(image_processor=processor, tokenizer=tokenizer, image_seq_len=4)
            more = dict(whole(text=text, images=[given] if given else None, return_tensors="pt", add_special_tokens=False))
        else:
            count = 16 if name == "llava" else 4
            text = text.replace(marker, marker * count if name == "llava" else f"<img>{marker * count}</img>")
            more = dict(tokenizer(text, return_tensors="pt", add_special_tokens=False))
            if given:
                more["pixel_values"] = processor(images=given, return_tensors="pt")["pixel_values"]
        more.pop("token_type_ids", None)
        with torch.no_grad():
            out = model.generate(**more, do_sample=False, max_new_tokens=TOKENS, output_logits=True, return_dict_in_generate=True,
                                 eos_token_id=2, pad_token_id=0)
        for logits in out.logits:
            best = logits[0].topk(2).values
            closest = min(closest, float(best[0] - best[1]))
        prompt = more["input_ids"].shape[1]
        found.append({"prompt_tokens": prompt, "tokens": out.sequences[0, prompt:].tolist()})
    print(f"{name}: {[case['tokens'][:5] for case in found]}, {[case['prompt_tokens'] for case in found]}, closest {closest:.1e}",
          flush=True)
    return found


def make(only):
    sys.path.insert(0, str(ROOT / "models"))
    from export_vision import PROCESSORS, export
    images = make_images()
    old = json.loads(CASES.read_text())["models"] if CASES.exists() else {}
    models = {}
    for name in PROCESSORS:
        if only and name not in only.split(","):
            models[name] = old[name]
            continue
        export(name, FOLDER / name)
        models[name] = make_model(name, images)
    lines = [f"{json.dumps(name)}: {json.dumps(cases)}" for name, cases in models.items()]
    CASES.write_text(f'{{"images": {json.dumps(images)},\n"models": {{\n' + ",\n".join(lines) + "\n}}\n")


def check(sinter, name, cases, images, folder):
    """All conversations one by one, then at once: those with images run beside others in a step."""
    def url_of(key):
        kind = {"PNG": "png", "JPEG": "jpeg", "WEBP": "webp"}[IMAGES[key][2]]
        return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{images[key]}", "detail": "auto"}}

    def check_one(call, conversation, case):
        answer = call("/v1/chat/completions", messages=messages_of(conversation, images, url_of), max_tokens=TOKENS, temperature=0,
                      return_token_ids=True)
        if isinstance(answer, tuple):
            raise Failed(f"is answered with {answer}")
        found = answer["choices"][0]["token_ids"]
        if answer["usage"]["prompt_tokens"] != case["prompt_tokens"] or found != case["tokens"]:
            raise Failed(f"{answer['usage']['prompt_tokens']} tokens of a prompt gave {found}, should be "
                         f"{case['prompt_tokens']} and {case['tokens']}")

    with server(sinter, FOLDER / name, folder) as call:
        for conversation, case in zip(CONVERSATIONS, cases, strict=True):
            check_one(call, conversation, case)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(check_one, call, CONVERSATIONS[i % len(cases)], cases[i % len(cases)]) for i in range(20)]:
                done.result()
        for part, message in (({"type": "image_url", "image_url": {"url": "http://a/b.png"}}, "no data URL"),
                              ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "no PNG, JPEG or WebP"),
                              ({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}, "no base64"),
                              ({"type": "image_url", "image_url": {"url": url_of("tall")["image_url"]["url"][:399]}}, "JPEG file"),
                              ({"type": "image_url"}, "without a 'url'"),
                              ({"type": "input_audio"}, "neither text nor image_url")):
            status, text = call("/v1/chat/completions", messages=[{"role": "user", "content": [part]}])
            if status != 400 or message not in text:
                raise Failed(f"{part} is answered with {status}, {text}")
        status, text = call("/v1/chat/completions", messages=[{"role": "user", "content": [url_of("small")] * 65}])
        if status != 400 or "more than 64 images" not in text:
            raise Failed(f"65 images are answered with {status}, {text}")
        marker = json.loads((FOLDER / name / "tokenizer_config.json").read_text())["chat_template"].split("'image' %}")[1].split("{%")[0]
        status, text = call("/v1/chat/completions", messages=[
            {"role": "user", "content": [url_of("small"), {"type": "text", "text": marker}]}])
        if status != 400 or "2 markers of images" not in text:
            raise Failed(f"a marker in a text is answered with {status}, {text}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--precision", help="none: the model's own")
    p.add_argument("--only", help="models, divided by commas")
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make:
        return make(a.only)
    cases, failed = json.loads(CASES.read_text()), 0
    names = [name for name in cases["models"] if not a.only or name in a.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target, a.precision)
        for name in names:
            try:
                check(sinter, name, cases["models"][name], cases["images"], Path(folder))
                print(f"ok     {name}", flush=True)
            except Failed as e:
                failed += 1
                print(f"FAILED {name}: {e}", flush=True)
    print(f"{len(names) - failed} of {len(names)} models as they should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
