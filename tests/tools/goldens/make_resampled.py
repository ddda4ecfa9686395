#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes resampled.json: what Pillow's filters make of a small image, rows first. (Pillow 13 may begin with columns, where that is less
work.) Needs Pillow."""
import base64
import json
from pathlib import Path

import numpy as np
from PIL import Image

SIZES = [(7, 5), (23, 31), (40, 29), (13, 12), (64, 3), (1, 1)]

image = np.random.default_rng(1).integers(0, 256, (29, 23, 3), np.uint8)
image[10:20, 5:15] = 255
image[:8, 16:] = 0
text = lambda x: base64.b64encode(np.asarray(x).tobytes()).decode()
cases = [{"filter": filter_, "width": w, "height": h, "pixels": text(Image.fromarray(image).resize((w, 29), filter_).resize((w, h), filter_))}
         for filter_ in range(6) for w, h in SIZES]
lines = ",\n".join(json.dumps(case) for case in cases)
Path(__file__).with_name("resampled.json").write_text(f'{{"width": 23, "height": 29, "pixels": "{text(image)}", "cases": [\n{lines}\n]}}\n')
