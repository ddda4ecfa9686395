"""Fourier transforms, by NumPy's own."""

import numpy as np

from golden_cases import NAMES, case, wide


def roots(length):
    angle = 2 * np.pi * np.arange(length) / length
    return np.stack([np.cos(angle), -np.sin(angle)], -1).astype(np.float32)


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def transforms():
    draw = np.random.default_rng(11)

    def add(x, length, expected, window=None, note="", **attrs):
        inputs = [x, roots(length)] + ([] if window is None else [window])
        case("Dft", inputs, expected, {"length": length, **attrs}, note=note)

    for dtype in ("f32", "f64", "f16", "bf16"):
        for length in (1, 2, 8, 30, 49, 22):
            x = draw.standard_normal((3, length)).astype(NAMES[dtype])
            z = draw.standard_normal((2, length, 2)).astype(NAMES[dtype])
            half = length // 2 + 1
            complex_z = wide(z)[..., 0] + 1j * wide(z)[..., 1]
            add(x, length, pairs(np.fft.rfft(wide(x))), count=half)
            add(z, length, pairs(np.fft.fft(complex_z)), count=length, complex=1)
            add(z, length, pairs(np.fft.ifft(complex_z)), count=length, complex=1, inverse=1)
            add(z[:, :half], length, np.fft.irfft(complex_z[:, :half], length)[..., None],
                count=length, complex=1, half=1, inverse=1)
    x = draw.standard_normal((2, 10)).astype(np.float32)
    add(x, 16, pairs(np.fft.fft(wide(x), 16)), count=16, note="zeros behind")
    add(x, 6, pairs(np.fft.fft(wide(x), 6)), count=6, note="the rest left out")
    window = draw.standard_normal(4).astype(np.float32)
    frames = np.stack([wide(x)[:, i:i + 4] for i in range(0, 7, 3)], 1)
    add(x, 4, pairs(np.fft.rfft(frames * wide(window))), window, count=3, step=3, note="frames")
