# SPDX-License-Identifier: Apache-2.0
"""Causal convolutions of ragged batches: each sequence as one array, its kept inputs in front, by np.convolve."""

import numpy as np

from golden_cases import NAMES, case, wide


def causal_convolutions():
    draw = np.random.default_rng(61)

    def add(lengths, sources, channels, taps, dilation=1, dtype="f32", bias=True, stored=(), note=""):
        """`lengths` and `sources`: of each sequence; `stored`: (token of all, its slot)."""
        kept, tokens, slots = dilation * (taps - 1), sum(lengths), 6
        x = draw.standard_normal((tokens, channels)).astype(NAMES[dtype])
        states = draw.standard_normal((slots, kept, channels)).astype(NAMES[dtype])
        weights = draw.standard_normal((channels, taps)).astype(NAMES[dtype])
        biases = draw.standard_normal(channels).astype(NAMES[dtype])
        offsets = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
        of_token = np.repeat(sources, lengths).astype(np.int32)
        spread = np.zeros((channels, kept + 1))
        spread[:, ::dilation] = wide(weights)
        out, new_states, begin = np.zeros((tokens, channels)), wide(states).copy(), 0
        for length, source in zip(lengths, sources):
            front = wide(states)[source] if source >= 0 else np.zeros((kept, channels))
            whole = np.concatenate([front, wide(x)[begin:begin + length]])
            for c in range(channels if length else 0):
                out[begin:begin + length, c] = np.convolve(whole[:, c], spread[c, ::-1], "valid")
            for token, slot in stored:
                if begin <= token < begin + length:
                    new_states[slot] = whole[token - begin + 1:token - begin + 1 + kept]
            begin += length
        rows = [x, states, offsets, of_token]
        case("CausalConv", rows + [weights] + [biases] * bias, out + wide(biases) * bias,
             {"dilation": dilation}, note=note)
        if stored:
            to = np.full(tokens, -1, np.int32)
            for token, slot in stored:
                to[token] = slot
            # The last token again, as padding has it.
            stores = np.array([token for token, _ in stored] + [stored[-1][0]], np.int32)
            case("CausalConvStates", rows + [to, stores], new_states, note=note)

    add([5], [-1], 3, 4, stored=[(4, 2)], note="from nothing")
    add([1, 1, 1], [4, -1, 0], 3, 4, stored=[(0, 4), (1, 5), (2, 0)], note="a token of each")
    add([2, 7, 1], [3, -1, 5], 2, 4, stored=[(1, 3), (8, 1), (9, 5)], note="ragged")
    add([4, 3], [1, 2], 4, 3, stored=[(0, 0), (1, 3), (2, 4), (3, 5), (6, 2)], note="a state for each guess")
    add([3, 6], [0, -1], 2, 3, dilation=2, bias=False, stored=[(2, 0), (8, 1)], note="dilated")
    add([3, 2], [0, -1], 5, 1, note="one tap, which keeps nothing")
    for dtype in ("f16", "bf16", "f64"):
        add([2, 4], [5, -1], 3, 4, dtype=dtype, stored=[(1, 5), (5, 0)], note="ragged")
