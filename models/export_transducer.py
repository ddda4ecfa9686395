#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny transducers of speech as folders of ONNX files, with seeded random weights: RNN-T in sherpa-onnx's spelling (encoder, decoder
and joiner apart), TDT in NeMo's own, which onnx-asr takes (decoder and joint network in one file).

  export_transducer.py --out FOLDER [--only rnnt,tdt]

Needs torch (requirements-export.txt).
"""
import argparse
import json
from pathlib import Path

import torch
from torch import nn

PIECES = ["<unk>", *(f"▁{word}" for word in "a and cat dog go in is moon of on red sea see sky so sun the to tree was we".split()),
          *"s ed ing er ly un re t n o".split()]
WIDTH, HIDDEN, LAYERS = 24, 16, 2
# Bands of the spectrum, times that the time is halved, durations of a token: none is RNN-T.
KINDS = {"rnnt": (80, 2, 0), "tdt": (128, 3, 5)}
SEEDS = {"rnnt": 6, "tdt": 8}
NUMBERED = {"states_c": "162"}  # a name that torch.onnx does not take


class Encoder(nn.Module):
    """Convolutions that halve the time, then attention under a mask: [batch, bands, frames] to [batch, WIDTH, frames']."""

    def __init__(self, bands, halvings):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(bands if i == 0 else WIDTH, WIDTH, 3, 2, 1) for i in range(halvings))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, audio_signal, length):
        x = audio_signal
        for convolution in self.convolutions:
            x = convolution(x)
            length = torch.div(length - 1, 2, rounding_mode="floor") + 1
            valid = torch.arange(x.shape[2])[None] < length[:, None]
            x = torch.relu(x) * valid[:, None].to(x.dtype)
        x = x.transpose(1, 2)
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.transpose(1, 2)) * WIDTH ** -0.5
        weights = torch.softmax(scores.masked_fill(~valid[:, None], -10000.0), -1)
        return self.norm(x + self.out(weights @ v)).transpose(1, 2) * 2, length


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(len(PIECES) + 1, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, LAYERS)

    def forward(self, targets, target_length, state_h, state_c):
        x, (h, c) = self.lstm(self.table(targets).transpose(0, 1), (state_h, state_c))
        return x.permute(1, 2, 0), target_length, h, c


class Joiner(nn.Module):
    def __init__(self, durations):
        super().__init__()
        self.sound, self.text = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, len(PIECES) + 1 + durations)

    def forward(self, encoder_outputs, decoder_outputs):
        sound = self.sound(encoder_outputs.transpose(1, 2))[:, :, None]
        return self.out(torch.tanh(sound + self.text(decoder_outputs.transpose(1, 2))[:, None]))


class DecoderJoint(nn.Module):
    def __init__(self, decoder, joiner):
        super().__init__()
        self.decoder, self.joiner = decoder, joiner

    def forward(self, encoder_outputs, targets, target_length, input_states_1, input_states_2):
        outputs, lengths, h, c = self.decoder(targets, target_length, input_states_1, input_states_2)
        return self.joiner(encoder_outputs, outputs), lengths, h, c


def seeded(name):
    bands, halvings, durations = KINDS[name]
    torch.manual_seed(SEEDS[name])
    parts = Encoder(bands, halvings), Predictor(), Joiner(durations)
    with torch.no_grad():
        for part in parts:
            for parameter in part.parameters():
                parameter.normal_(0, 0.45) if parameter.dim() > 1 else parameter.add_(0.1 * torch.randn_like(parameter))
        parts[2].out.weight.mul_(2)
        parts[2].out.bias[len(PIECES)] += {"rnnt": 13, "tdt": 7}[name]  # blanks
    return [part.eval() for part in parts]


def save(module, inputs, path, names, outputs, axes):
    torch.onnx.export(module, inputs, str(path), input_names=names, output_names=outputs, dynamic_axes=axes, opset_version=17, dynamo=False)
    import onnx
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ""
        node.output[:] = [NUMBERED.get(name, name) for name in node.output]
    for value in model.graph.output:
        value.name = NUMBERED.get(value.name, value.name)
    onnx.save(model, path)


def export(name, folder):
    encoder, decoder, joiner = seeded(name)
    bands, halvings, durations = KINDS[name]
    folder.mkdir(parents=True, exist_ok=True)
    is_sherpa = durations == 0
    file = lambda ours, nemos: folder / (ours if is_sherpa else nemos)
    save(encoder, (torch.randn(2, bands, 50), torch.tensor([50, 40])), file("encoder.onnx", "encoder-model.onnx"), ["audio_signal", "length"],
         ["outputs", "encoded_lengths"], {"audio_signal": {0: "audio_signal_dynamic_axes_1", 2: "audio_signal_dynamic_axes_2"},
                                          "length": {0: "length_dynamic_axes_1"},
                                          "outputs": {0: "outputs_dynamic_axes_1", 2: "outputs_dynamic_axes_2"},
                                          "encoded_lengths": {0: "encoded_lengths_dynamic_axes_1"}})
    states = [torch.zeros(LAYERS, 2, HIDDEN)] * 2
    tokens = (torch.ones(2, 3, dtype=torch.int32), torch.tensor([3, 3], dtype=torch.int32))
    sound = torch.randn(2, WIDTH, 4)
    rows = {0: "batch"}
    if is_sherpa:
        names = ["targets", "target_length", "states.1", "onnx::Slice_3"]
        save(decoder, (*tokens, *states), folder / "decoder.onnx", names, ["outputs", "prednet_lengths", "states", "states_c"],
             {"targets": {0: "batch", 1: "tokens"}, "target_length": rows, names[2]: {1: "batch"}, names[3]: {1: "batch"}})
        save(joiner, (sound, torch.randn(2, HIDDEN, 3)), folder / "joiner.onnx", ["encoder_outputs", "decoder_outputs"], ["outputs"],
             {"encoder_outputs": {0: "batch", 2: "frames"}, "decoder_outputs": {0: "batch", 2: "tokens"}})
    else:
        names = ["encoder_outputs", "targets", "target_length", "input_states_1", "input_states_2"]
        save(DecoderJoint(decoder, joiner), (sound, *tokens, *states), folder / "decoder_joint-model.onnx", names,
             ["outputs", "prednet_lengths", "output_states_1", "output_states_2"],
             {"encoder_outputs": {0: "batch", 2: "frames"}, "targets": {0: "batch", 1: "tokens"}, "target_length": rows,
              names[3]: {1: "batch"}, names[4]: {1: "batch"}})
        (folder / "config.json").write_text(json.dumps(
            {"model_type": "nemo-conformer-tdt", "features_size": bands, "subsampling_factor": 2 ** halvings}) + "\n")
    blank = "<blk>"
    file("tokens.txt", "vocab.txt").write_text("".join(f"{piece} {i}\n" for i, piece in enumerate([*PIECES, blank])))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--only", default="")
    a = p.parse_args()
    for name in KINDS:
        if not a.only or name in a.only.split(","):
            export(name, a.out / name)


if __name__ == "__main__":
    main()
