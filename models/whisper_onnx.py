# SPDX-License-Identifier: Apache-2.0
"""Whisper as two ONNX graphs (seq2seq_onnx.py): an encoder that reads sound, and a decoder.

The encoder: audio [1, samples], float32 at 16 kHz, of the window's length (30 s; silence is zeros), to the keys and values of
the decoder's cross-attention. The log-mel front end is in the graph: power spectra of 400 samples under a Hann window every
160 samples, the sound reflected at its ends; mel bands; log10, at least 8 below the largest; (x + 4) / 4.
"""
import numpy as np
from onnx import TensorProto, helper

from seq2seq_onnx import Config, Decoder, Encoder, layers_of, random_layers

RATE, WINDOW, HOP = 16000, 400, 160
BINS = WINDOW // 2 + 1


def config_of(weights, heads):
    vocabulary, width = weights["model.decoder.embed_tokens.weight"].shape
    return Config(width=width, heads=heads, encoder_layers=layers_of(weights, "encoder"),
                  decoder_layers=layers_of(weights, "decoder"), vocabulary=vocabulary, pre_norm=True, activation="Gelu")


def spectrum_weights():
    """float32 [3 hops, 2 * BINS]: cosines, then sines, under the window. Samples that a frame does not have weigh nothing."""
    n = np.arange(WINDOW)
    angles = 2 * np.pi * np.outer(n, np.arange(BINS)) / WINDOW
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / WINDOW)
    result = np.zeros((3 * HOP, 2 * BINS))
    result[:WINDOW] = window[:, None] * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return result.astype(np.float32)


def mel_filters(bands):
    """float32 [BINS, bands]: triangles between points that are evenly spaced on Slaney's mel scale (linear to 1 kHz, then
    logarithmic), each of area 1 over hertz."""
    step, knee = 200 / 3, 15.0
    log_step = np.log(6.4) / 27
    hertz = lambda mel: np.where(mel < knee, step * mel, 1000 * np.exp(log_step * (np.maximum(mel, knee) - knee)))
    top = knee + np.log(RATE / 2 / 1000) / log_step
    edges = hertz(np.linspace(0, top, bands + 2))
    bins = np.linspace(0, RATE / 2, BINS)
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    return (np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])).astype(np.float32)


class WhisperEncoder(Encoder):
    def features(self, frames, bands):
        """The log-mel spectrum [1, frames, bands] of `audio`."""
        w = self.w
        w.scope = "mel/"
        x = w.op("Pad", "audio", w.ints(0, WINDOW // 2, 0, WINDOW // 2), mode="reflect")
        # Each frame is two hops and a half. So frames are neighbouring rows of hops, and their spectra one product.
        x = w.op("Slice", x, w.ints(0), w.ints((frames + 2) * HOP), w.ints(1))
        x = w.op("Reshape", x, w.ints(1, frames + 2, HOP))
        part = lambda i: w.op("Slice", x, w.ints(i), w.ints(i + frames), w.ints(1))
        x = w.op("Concat", part(0), part(1), part(2), axis=2)
        x = w.op("MatMul", x, w.constant("spectrum", spectrum_weights()))
        x = w.op("Reshape", w.op("Mul", x, x), w.ints(1, frames, 2, BINS, 1))
        x = w.op("ReduceSum", x, w.ints(2), keepdims=0)
        # A sum, and no product: in 16 bits powers of quiet sounds would be zeros.
        x = w.op("ReduceSum", w.op("Mul", x, w.constant("mel_filters", mel_filters(bands))), w.ints(2), keepdims=0)
        x = w.op("Mul", w.op("Log", w.op("Max", x, w.scalar(1e-10))), w.scalar(1 / np.log(10)))
        least = w.op("Sub", w.op("ReduceMax", x, w.ints(1, 2), keepdims=1), w.scalar(8))
        return w.op("Mul", w.op("Add", w.op("Max", x, least), w.scalar(4)), w.scalar(0.25))

    def model(self):
        w, positions = self.w, self.weights["model.encoder.embed_positions.weight"]
        bands, frames = self.weights["model.encoder.conv1.weight"].shape[1], 2 * len(positions)
        x = w.op("Transpose", self.features(frames, bands), perm=[0, 2, 1])
        w.scope = "convolutions/"
        for name, stride in (("conv1", 1), ("conv2", 2)):
            p = f"model.encoder.{name}"
            x = w.op("Gelu", w.op("Conv", x, self.vector(p + ".weight"), self.vector(p + ".bias"), kernel_shape=[3],
                                  pads=[1, 1], strides=[stride]))
        x = w.op("Transpose", x, perm=[0, 2, 1])
        x = w.op("Add", x, self.vector("model.encoder.embed_positions.weight"))
        self.crossed(self.layers(x))
        audio = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, frames * HOP])
        return self.finished("encoder", [audio], self.crossing(len(positions)))


def decoder_model(config, weights, half=False):
    return Decoder(config, weights, half).model("model.decoder.embed_tokens.weight", "capacity",
                                                len(weights["model.encoder.embed_positions.weight"]))


def sinusoids(positions, width):
    """float32 [positions, width]: sines, then cosines, as the encoder of trained models has them."""
    steps = np.exp(-np.log(10000) / (width // 2 - 1) * np.arange(width // 2))
    angles = np.arange(positions)[:, None] * steps
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def random_weights(seed=0, width=32, heads=2, layers=2, bands=80, seconds=1, vocabulary=317, capacity=64):
    """Seeded weights of a small model for tests, and its heads."""
    rng = np.random.default_rng(seed)
    config = Config(width, heads, layers, layers, vocabulary, True, "Gelu")
    normal = lambda scale, *shape: rng.normal(0, scale, shape).astype(np.float32)
    out = {**random_layers(rng, config, 2 * width, "encoder"), **random_layers(rng, config, 2 * width, "decoder")}
    for name, channels in (("conv1", bands), ("conv2", width)):
        out[f"model.encoder.{name}.weight"] = normal((3 * channels) ** -0.5, width, channels, 3)
        out[f"model.encoder.{name}.bias"] = normal(0.1, width)
    out["model.encoder.embed_positions.weight"] = sinusoids(seconds * RATE // HOP // 2, width)
    out["model.decoder.embed_positions.weight"] = normal(0.3, capacity, width)
    out["model.decoder.embed_tokens.weight"] = normal(0.2, vocabulary, width)
    return out, heads
