# SPDX-License-Identifier: Apache-2.0
"""Peer cases of com.microsoft's attention: each mask, past and packed form that transformers' optimisers
write. Where ONNX Runtime has a form for GPUs alone, its formula is here in NumPy."""
import numpy as np
from onnx import TensorProto

from peer_support import MS, Const, case, f32, ints

BATCH, LENGTH, HEADS, SIZE = 2, 3, 2, 4
WIDTH = HEADS * SIZE


def i32(*values):
    return np.array(values, np.int32)


def heads_of(x):
    """[batch, length, width] -> [batch, heads, length, size]"""
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, added=0.0):
    """Attention of [batch, heads, length, size], as [batch, length, width]."""
    weights = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]) + added)
    y = (weights @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1).astype(np.float32)


def multi_head_cases():
    def head(name, inputs, outputs=1, **attributes):
        case(f"multi_head_{name}", "MultiHeadAttention", inputs, outputs, MS, num_heads=HEADS, **attributes)

    x, keys = f32(BATCH, LENGTH, WIDTH), 5
    key, value = f32(BATCH, keys, WIDTH), f32(BATCH, keys, WIDTH)
    bias = Const(f32(3 * WIDTH))
    own = f32(BATCH, LENGTH, WIDTH), f32(BATCH, LENGTH, WIDTH)
    past = f32(BATCH, HEADS, 2, SIZE), f32(BATCH, HEADS, 2, SIZE)
    packed = f32(BATCH, LENGTH, HEADS, 3, SIZE)
    parts = [packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3)]
    head("packed", [packed], answers=[attend(*parts)])
    biased = [part + b.reshape(HEADS, 1, SIZE) for part, b in zip(parts, np.split(bias.value, 3))]
    head("packed_bias", [packed, None, None, bias], answers=[attend(*biased)])
    pairs = f32(BATCH, keys, HEADS, 2, SIZE)
    head("packed_keys", [x, pairs],
         answers=[attend(heads_of(x), *(pairs[:, :, :, i].transpose(0, 2, 1, 3) for i in range(2)))])
    head("lengths", [x, key, value, None, i32(5, 3)])
    head("cumulated", [x, key, value, None, i32(5, 3, 0, 3, 6, 0, 5, 10)])
    head("mask_3d", [x, key, value, None, ints(0, 2, BATCH, LENGTH, keys, dtype=np.int32)])
    head("mask_past", [x, *own, bias, ints(0, 2, BATCH, 5, dtype=np.int32), None, *past], 3)
    head("mask_bias_past_causal", [x, *own, bias, ints(0, 2, BATCH, 5, dtype=np.int32),
                                   f32(BATCH, 1, LENGTH, 5), *past], 3, unidirectional=1)
    head("value_size", [x, key, f32(BATCH, keys, 2 * WIDTH), Const(f32(4 * WIDTH))])
    head("cross_cache_bias", [x, f32(BATCH, HEADS, keys, SIZE), f32(BATCH, HEADS, keys, SIZE), bias])
    head("filter_value", [x, key, value, None, ints(0, 2, BATCH, keys, dtype=np.int32)], mask_filter_value=-1.0)
    head("scores", [x, key, value, None, i32(5, 3), f32(1, HEADS, LENGTH, keys)], ["y", "", "", "qk"],
         stated=TensorProto.FLOAT, scale=0.7)
    head("scores_causal", [x, *own, None, None, f32(1, HEADS, LENGTH, LENGTH)], ["y", "", "", "qk"],
         stated=TensorProto.FLOAT, unidirectional=1)


def decoder_cases():
    def one(name, inputs, outputs=1, **attributes):
        case(f"decoder_attention_{name}", "DecoderMaskedMultiHeadAttention", inputs, outputs, MS, num_heads=HEADS,
             **attributes)

    x = f32(BATCH, 1, WIDTH)
    own = f32(BATCH, 1, WIDTH), f32(BATCH, 1, WIDTH)
    past = f32(BATCH, HEADS, 4, SIZE), f32(BATCH, HEADS, 4, SIZE)
    mask = ints(0, 2, BATCH, 5, dtype=np.int32)
    added = np.where(mask > 0, 0, -10000.0)[:, None, None, :]
    bias = f32(3 * WIDTH)
    q, k, v = (heads_of(t + b) for t, b in zip((x, *own), np.split(bias, 3)))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    one("past", [x, *own, mask, None, *past, None, None, None, Const(bias)], 3, answers=[attend(q, k, v, added), k, v])
    packed = np.concatenate([x, *own], 2)
    one("packed", [packed, None, None, mask, None, *past, None, None, None, Const(bias)], 3,
        answers=[attend(q, k, v, added), k, v])
    cache = f32(BATCH, HEADS, 5, SIZE), f32(BATCH, HEADS, 5, SIZE)
    one("cross", [x, *cache, mask])
    one("cross_scores", [x, *cache], ["y", "", "", "qk"], stated=TensorProto.FLOAT, output_qk=1, scale=0.4)


def packed_cases():
    def one(name, inputs, outputs=1, **attributes):
        case(f"attention_{name}", "Attention", inputs, outputs, MS, num_heads=HEADS, **attributes)

    x, weights, bias = f32(BATCH, LENGTH, WIDTH), Const(f32(WIDTH, 3 * WIDTH, scale=0.5)), Const(f32(3 * WIDTH))
    past = f32(2, BATCH, HEADS, 2, SIZE)
    one("ends_begins", [x, weights, bias, i32(3, 2, 1, 0)])
    one("cumulated", [x, weights, bias, i32(3, 1, 0, 3, 6, 0, 3, 6)])
    one("mask_past", [x, weights, bias, ints(0, 2, BATCH, 5, dtype=np.int32), past], 2)
    one("mask_3d_past_causal", [x, weights, bias, ints(0, 2, BATCH, LENGTH, 5, dtype=np.int32), past], 2,
        unidirectional=1)
    one("present_without_past", [x, weights, bias], 2)
    one("filter_value", [x, weights, bias, ints(0, 2, BATCH, LENGTH, dtype=np.int32)], mask_filter_value=-3.0)
    sizes = [WIDTH, WIDTH, 2 * WIDTH]
    one("sizes", [x, Const(f32(WIDTH, sum(sizes))), Const(f32(sum(sizes)))], qkv_hidden_sizes=sizes)

    # What follows the peer has for GPUs alone.
    q, k, v = (heads_of(part) for part in np.split(x @ weights.value, 3, 2))
    one("no_bias", [x, weights], answers=[attend(q, k, v)])
    q, k, v = (heads_of(part) for part in np.split(x @ weights.value + bias.value, 3, 2))
    longest = 7
    mask = ints(0, 2, BATCH, 1, longest, longest, dtype=np.int32)
    mask[..., 0] = 1
    keys, values = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    seen = np.where(mask[:, :, 2:5, :5] > 0, 0, -10000.0)
    one("mask_4d_past", [x, weights, bias, mask, past], 2,
        answers=[attend(q, keys, values, seen), np.stack([keys, values])])

    def rotated(t, position):
        angle = position[:, None] * 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
        a, b = t[..., :SIZE // 2], t[..., SIZE // 2:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)],
                              -1).astype(np.float32)

    place = np.arange(2, 2 + LENGTH)
    keys = np.concatenate([past[0], rotated(k, place)], 2)
    causal = np.where(np.arange(5) <= place[:, None], 0, -np.inf)
    one("rotary_past_causal", [x, weights, bias, None, past], 2, do_rotary=1, unidirectional=1,
        answers=[attend(rotated(q, place), keys, values, causal), np.stack([keys, values])])


def quantized_attention_cases():
    for name, dtype, columns in (("", np.uint8, False), ("_columns", np.int8, True)):
        n = 3 * WIDTH
        low, high = (0, 256) if dtype == np.uint8 else (-127, 128)
        weights = Const(ints(low, high, WIDTH, n, dtype=dtype))
        x = ints(0, 256, BATCH, LENGTH, WIDTH, dtype=np.uint8)
        scale = Const(np.abs(f32(n)) * 0.01 if columns else np.float32(0.01))
        zero = Const(np.zeros(n, np.int8) if columns else np.uint8(120))
        case(f"quantized_attention{name}", "QAttention",
             [x, weights, Const(f32(n)), Const(np.float32(0.02)), scale, ints(0, 2, BATCH, 5, dtype=np.int32),
              Const(np.uint8(130)), zero, f32(2, BATCH, HEADS, 2, SIZE)], 2, MS, num_heads=HEADS, unidirectional=1)
    # The peer's quantizer writes it without a bias, which its kernel does not take.
    projected = (x.astype(np.int32) - 130) @ weights.value.astype(np.int32) * (scale.value * np.float32(0.02))
    case("quantized_attention_no_bias", "QAttention",
         [x, weights, None, Const(np.float32(0.02)), scale, None, Const(np.uint8(130)), zero], 1, MS, num_heads=HEADS,
         answers=[attend(*(heads_of(part.astype(np.float32)) for part in np.split(projected, 3, 2)))])


def attention_cases():
    multi_head_cases()
    decoder_cases()
    packed_cases()
    quantized_attention_cases()
