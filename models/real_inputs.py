# SPDX-License-Identifier: Apache-2.0
"""Real inputs of the models in manifest.json, and what their outputs say.

INPUTS maps a manifest key to a function that gives a list of runs; a run is a dict of arrays.
MEANING maps a key to a function of the runs' outputs that gives something that must come out equal,
such as a recognised text.
"""
from pathlib import Path

import numpy as np

CACHE = Path(__file__).resolve().parent / "cache"
LINES = ["Sinter fuses many small grains", "into one solid piece of 4096", "Memory bound, 3.35 TB/s"]


def text_image(lines, size=32, margin=24, spacing=20):
    """Black text on white, uint8 [height, width, 3]."""
    from PIL import Image, ImageDraw, ImageFont
    font = ImageFont.load_default(size)
    width = max(int(font.getlength(line)) for line in lines) + 2 * margin
    image = Image.new("RGB", (width, margin * 2 + len(lines) * (size + spacing)), "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((margin, margin + i * (size + spacing)), line, fill="black", font=font)
    return np.asarray(image)


def resized(image, height, width):
    from PIL import Image
    return np.asarray(Image.fromarray(image).resize((width, height), Image.BILINEAR))


def page_for_detection():
    """PP-OCR's detector: BGR, normalised with ImageNet statistics, sides multiples of 32."""
    runs = []
    for lines in (LINES, LINES[:1], LINES + LINES[::-1]):
        page = text_image(lines)
        height, width = (max(32, round(side / 32) * 32) for side in page.shape[:2])
        x = resized(page, height, width)[:, :, ::-1] / 255.0
        x = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        runs.append({"x": x.transpose(2, 0, 1)[None].astype(np.float32)})
    return runs


def boxes(outputs):
    """Rows of the page that the detector marks as text: runs of rows, as a number for each page."""
    found = []
    for run in outputs:
        marked = (next(iter(run.values()))[0, 0] > 0.3).any(axis=1)
        found.append(int(np.sum(marked[1:] & ~marked[:-1]) + marked[0]))
    return found


def lines_for_recognition():
    """PP-OCR's recogniser: one line a run, height 48, values in [-1, 1]."""
    runs = []
    for line in LINES:
        image = text_image([line], margin=8, spacing=0)
        width = round(48 * image.shape[1] / image.shape[0])
        x = resized(image, 48, width)[:, :, ::-1] / 127.5 - 1
        runs.append({"x": x.transpose(2, 0, 1)[None].astype(np.float32)})
    return runs


def recognised(outputs):
    """Best class of each step, repeats and blanks dropped; the characters are in the model's metadata."""
    import onnx
    model = onnx.load(CACHE / "ppocr_rec.onnx", load_external_data=False)
    characters = ["", *next(p.value for p in model.metadata_props if p.key == "character").splitlines(), " "]
    texts = []
    for run in outputs:
        best = next(iter(run.values()))[0].argmax(1)
        texts.append("".join(characters[c] for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1])))
    return [text.strip() for text in texts]


def crops_for_direction():
    """PP-OCR's direction classifier: the same line, upright and turned."""
    image = text_image(LINES[:1], margin=8, spacing=0)
    runs = []
    for turned in (image, image[::-1, ::-1]):
        x = resized(np.ascontiguousarray(turned), 48, 192)[:, :, ::-1] / 127.5 - 1
        runs.append({"x": x.transpose(2, 0, 1)[None].astype(np.float32)})
    return runs


def speech_and_silence(rate=16000):
    """float32 samples: 1 s of silence, 2 s of voiced syllables made from formants, 1 s of silence."""
    t = np.arange(2 * rate) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.9 * t) + 10 * np.sin(2 * np.pi * 3.1 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]
    voice = np.zeros_like(t)
    syllable = (t / 0.22).astype(int)
    for harmonic in range(1, 30):
        gain = np.zeros_like(t)
        for i, formants in enumerate(vowels):
            here = syllable % len(vowels) == i
            for strength, formant in zip((1.0, 0.6, 0.3), formants):
                distance = (harmonic * pitch[here] - formant) / (60 + 0.06 * formant)
                gain[here] += strength / (1 + distance ** 2)
        voice += gain * np.sin(harmonic * phase) / harmonic ** 0.3
    envelope = np.clip(1.6 * np.sin(np.pi * (t / 0.22 % 1)), 0, 1)
    random = np.random.default_rng(3)
    voice = voice * envelope + 0.02 * random.standard_normal(t.size) * envelope
    silence = 1e-4 * random.standard_normal(rate)
    return np.concatenate([silence, 0.25 * voice / np.abs(voice).max(), silence]).astype(np.float32)


def voice_chunks():
    """Silero: 576 samples a run (64 of the chunk before), the state carried from run to run."""
    samples = speech_and_silence()
    chunks = [samples[i:i + 512] for i in range(0, len(samples) - 512, 512)]
    before = [np.zeros(64, np.float32), *(c[-64:] for c in chunks)]
    return [{"input": np.concatenate([b, c])[None], "sr": np.array(16000, np.int64)}
            for b, c in zip(before, chunks)]


def voiced(outputs):
    """Whether each second holds speech, by the mean of its chunks: nothing for fewer than four."""
    p = np.array([float(run["output"].reshape(-1)[0]) for run in outputs])
    return [bool(second.mean() > 0.5) for second in np.array_split(p, 4)] if len(p) >= 4 else None


def voice_sequence():
    samples = speech_and_silence()[16000:][:512 * 24]
    padded = np.concatenate([np.zeros(64, np.float32), samples])
    rows = np.stack([padded[i:i + 576] for i in range(0, len(samples), 512)])
    zeros = np.zeros((1, 1, 128), np.float32)
    return [{"input": rows, "h": zeros, "c": zeros}]


def notes():
    """Basic Pitch: 43,844 samples at 22,050 Hz of a chord with overtones that decay."""
    t = np.arange(43844) / 22050
    x = sum(np.sin(2 * np.pi * f * k * t) / k ** 2 for f in (261.63, 329.63, 392.0) for k in (1, 2, 3, 4))
    x = x * np.exp(-1.2 * t)
    return [{"serving_default_input_2:0": (0.3 * x / np.abs(x).max()).astype(np.float32)[None, :, None]}]


def loudest_notes(outputs):
    """The three MIDI notes (21 is A0) that sound most."""
    note = outputs[0]["StatefulPartitionedCall:1"][0].mean(axis=0)
    return sorted(int(i) + 21 for i in np.argsort(note)[-3:])


def code_image():
    """ddddocr's recogniser: grey, height 64, values in [0, 1]."""
    image = text_image(["k7Qx4"], size=44, margin=10, spacing=0)
    width = round(64 * image.shape[1] / image.shape[0])
    return [{"input1": (resized(image, 64, width).mean(axis=2) / 255.0)[None, None].astype(np.float32)}]


def classes(outputs):
    return [np.asarray(next(iter(run.values()))).argmax(-1).reshape(-1).tolist() for run in outputs]


def picture(size, name, batch=1):
    """A smooth picture with edges: seeded waves and discs, roughly normalised."""
    def runs():
        random = np.random.default_rng(11)
        y, x = np.mgrid[0:size, 0:size] / size
        image = np.zeros((batch, 3, size, size))
        for b in range(batch):
            for c in range(3):
                a = random.uniform(-3, 3, 4)
                image[b, c] = np.sin(a[0] * 6 * x + a[1] * 6 * y + a[2])
                image[b, c] += ((x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.06) * a[3]
        return [{name: image.astype(np.float32)}]
    return runs


def detection_picture():
    return [{"images": (text_image(["k7Qx4 sinter"], size=48)[:, :, ::-1].mean(axis=2)[None, None] *
                        np.ones((1, 3, 1, 1)))[:, :, :1, :1].repeat(416, 2).repeat(416, 3).astype(np.float32)
             + 20 * picture(416, "images")()[0]["images"]}]


LAYERS, CAPACITY = 30, 64


def question():
    """SmolLM2: a question as it is put to the model, then the first token of an answer."""
    from tokenizers import Tokenizer
    text = (CACHE / "smollm2_chat.txt").read_text().replace("{prompt}", "What is the capital of France?")
    ids = np.array(Tokenizer.from_file(str(CACHE / "smollm2_tokenizer.json")).encode(text).ids)
    return [{"input_ids": ids[None], "position": np.array([0])},
            {"input_ids": np.array([[504]]), "position": np.array([len(ids)])}]


def words(outputs):
    """The most likely token after each run."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(CACHE / "smollm2_tokenizer.json"))
    return [tokenizer.decode([int(run["logits"].argmax())]) for run in outputs]


INPUTS = {
    "smollm2": question,
    "ppocr_det": page_for_detection,
    "ppocr_rec": lines_for_recognition,
    "ppocr_cls": crops_for_direction,
    "silero_vad": voice_chunks,
    "silero_vad_16k": voice_chunks,
    "silero_vad_sequence": voice_sequence,
    "basic_pitch": notes,
    "ddddocr_rec": code_image,
    "ddddocr_det": detection_picture,
    "light_alexnet": picture(224, "data_0"),
    "light_densenet121": picture(224, "data_0"),
    "light_inception_v1": picture(224, "data_0"),
    "light_inception_v2": picture(224, "data_0"),
    "light_resnet50": picture(224, "gpu_0/data_0"),
    "light_shufflenet": picture(224, "gpu_0/data_0"),
    "light_squeezenet": picture(224, "data_0"),
    "light_vgg19": picture(224, "data_0"),
    "light_zfnet512": picture(224, "gpu_0/data_0"),
}
MEANING = {
    "smollm2": words,
    "ppocr_det": boxes,
    "ppocr_rec": recognised,
    "silero_vad": voiced,
    "silero_vad_16k": voiced,
    "basic_pitch": loudest_notes,
    "ddddocr_rec": classes,
}
# What a person expects of the inputs; the others are compared with ONNX Runtime alone.
EXPECTED = {
    "smollm2": ["The", " capital"],
    "ppocr_det": [3, 1, 6],
    "ppocr_rec": LINES,
    "silero_vad": [False, True, True, False],
    "silero_vad_16k": [False, True, True, False],
    "basic_pitch": [60, 64, 67],
}
# State that a model carries from run to run: output -> input, and its first value.
STATE = {
    "smollm2": {f"present_{kind}_{i}": (f"past_{kind}_{i}", (1, 3, CAPACITY, 64))
                for i in range(LAYERS) for kind in ("key", "value")},
    "silero_vad": {"stateN": ("state", (2, 1, 128))},
    "silero_vad_16k": {"stateN": ("state", (2, 1, 128))},
}
