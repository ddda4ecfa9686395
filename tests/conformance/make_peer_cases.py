#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of tests/conformance/peer: seeded one-operator models with what ONNX Runtime
computes for them, in the layout of ONNX's backend tests, for operators that ONNX has no tests of
(com.microsoft) or few (recurrent layers).

  .venv/bin/python tests/conformance/make_peer_cases.py      rewrites tests/conformance/peer/node
  tests/conformance/run --data tests/conformance/peer        runs them

A case is a call of `case`: operator, inputs (initializers where marked Const), attributes.
"""
import shutil

import numpy as np

from attention_cases import attention_cases
from contrib_cases import contrib_cases
from edge_cases import edge_cases
from export_cases import export_cases
from float8_cases import float8_cases
from group_query_cases import group_query_cases
from matmul_nbits_cases import matmul_nbits_cases
from peer_support import MS, ROOT, Const, case, f32, ints, rng, save
from quantized_weights import quantized_weights
from recurrence_cases import recurrence_cases


def recurrent_cases():
    steps, batch, size, hidden = 4, 3, 2, 3

    def layer(op, gates, directions=1, bias=True, lengths=None, state=False, cell=False,
              peepholes=False, layout=0):
        x = f32(batch, steps, size) if layout else f32(steps, batch, size)
        shape = (batch, directions, hidden) if layout else (directions, batch, hidden)
        inputs = [x, Const(f32(directions, gates * hidden, size)),
                  Const(f32(directions, gates * hidden, hidden, scale=0.5)),
                  Const(f32(directions, 2 * gates * hidden)) if bias else None,
                  lengths,
                  f32(*shape) if state else None]
        if op == "LSTM":
            inputs.append(f32(*shape) if cell else None)
            inputs.append(Const(f32(directions, 3 * hidden)) if peepholes else None)
        while inputs[-1] is None:
            inputs.pop()
        return inputs

    lengths = np.array([4, 2, 3], np.int32)
    both = {"direction": "bidirectional", "hidden_size": hidden}
    back = {"direction": "reverse", "hidden_size": hidden}
    plain = {"hidden_size": hidden}
    case("rnn_bidirectional_lengths", "RNN", layer("RNN", 1, 2, lengths=lengths, state=True), 2,
         **both, activations=["Tanh", "Relu"])
    case("rnn_affine_clip", "RNN", layer("RNN", 1), 2, **plain, clip=0.7, activations=["Affine"],
         activation_alpha=[0.8], activation_beta=[0.1])
    case("gru_bidirectional", "GRU", layer("GRU", 3, 2, state=True), 2, **both)
    case("gru_reverse_lengths", "GRU", layer("GRU", 3, lengths=lengths, state=True), 2, **back)
    case("gru_linear_before_reset", "GRU", layer("GRU", 3, 2, lengths=lengths), 2, **both,
         linear_before_reset=1)
    case("gru_activations", "GRU", layer("GRU", 3), 2, **plain, activations=["HardSigmoid", "Softsign"],
         activation_alpha=[0.3], activation_beta=[0.4])
    case("lstm_bidirectional_peepholes", "LSTM",
         layer("LSTM", 4, 2, state=True, cell=True, peepholes=True), 3, **both)
    case("lstm_reverse_lengths", "LSTM",
         layer("LSTM", 4, lengths=lengths, state=True, cell=True), 3, **back)
    case("lstm_input_forget", "LSTM", layer("LSTM", 4), 3, **plain, input_forget=1)
    case("lstm_no_bias_last_state", "LSTM", layer("LSTM", 4, bias=False), ["", "h", "c"], **plain)
    case("lstm_clip", "LSTM", layer("LSTM", 4, state=True), 3, **plain, clip=0.3)


def convolution_cases():
    case("conv_transpose_groups_dilations", "ConvTranspose",
         [f32(1, 4, 3, 4), Const(f32(4, 2, 2, 3)), Const(f32(4))], group=2, dilations=[2, 1],
         strides=[2, 3], output_padding=[1, 2], pads=[1, 0, 0, 2])
    case("conv_transpose_1d_same", "ConvTranspose", [f32(2, 2, 5), Const(f32(2, 3, 4))],
         auto_pad="SAME_UPPER", strides=[2])
    case("conv_transpose_output_shape", "ConvTranspose",
         [f32(1, 2, 3, 3), Const(f32(2, 1, 3, 3))], strides=[2, 2], output_shape=[6, 5])
    case("conv_transpose_cut", "ConvTranspose", [f32(1, 1, 4), Const(f32(1, 1, 2))], pads=[2, 1])
    case("conv_3d_groups", "Conv", [f32(1, 4, 3, 4, 5), Const(f32(4, 2, 2, 2, 3))], group=2,
         auto_pad="SAME_LOWER", strides=[1, 2, 2])
    case("max_pool_indices_columns", "MaxPool", [f32(2, 2, 5, 4)], 2, kernel_shape=[2, 3],
         strides=[2, 1], pads=[1, 0, 0, 1], storage_order=1)
    case("max_pool_indices_dilated_ceil", "MaxPool", [f32(1, 2, 7, 6)], 2, kernel_shape=[2, 2],
         dilations=[2, 1], strides=[2, 2], ceil_mode=1)
    case("lp_pool_3", "LpPool", [f32(1, 2, 5, 5)], kernel_shape=[3, 2], p=3, strides=[2, 1],
         pads=[1, 0, 1, 1])
    case("lp_normalization_1", "LpNormalization", [f32(3, 4)], p=1, axis=0)
    case("group_normalization_18", "GroupNormalization",
         [f32(2, 4, 3), Const(f32(2)), Const(f32(2))], opset=18, num_groups=2)
    case("layer_normalization_statistics", "LayerNormalization",
         [f32(2, 3, 4), Const(f32(3, 4)), Const(f32(3, 4))], 3, axis=1)
    case("fused_conv_leaky_sum", "FusedConv",
         [f32(1, 2, 4, 4), Const(f32(3, 2, 3, 3)), Const(f32(3)), f32(1, 3, 4, 4)], domain=MS,
         activation="LeakyRelu", activation_params=[0.2], pads=[1, 1, 1, 1])
    case("fused_conv_clip", "FusedConv", [f32(1, 2, 4), Const(f32(2, 2, 3))], domain=MS,
         activation="Clip", activation_params=[-0.5, 0.75])


def microsoft_cases():
    batch, length, heads, size = 2, 3, 2, 4
    width = heads * size
    x = f32(batch, length, width)
    gamma, beta, bias = Const(f32(width)), Const(f32(width)), Const(f32(width))
    case("skip_layer_norm", "SkipLayerNormalization",
         [x, f32(batch, length, width), gamma, beta, bias], ["y", "", "", "sum"], MS)
    case("skip_layer_norm_broadcast", "SkipLayerNormalization",
         [x, f32(1, length, width), gamma], ["y"], MS, epsilon=1e-3)
    case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization",
         [x, f32(batch, length, width), gamma, bias], ["y", "", "", "sum"], MS)
    case("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], 1, epsilon=1e-5)
    table = Const(f32(11, width)), Const(f32(5, width)), Const(f32(2, width))
    ids, segments = ints(0, 11, batch, length, dtype=np.int32), ints(0, 2, batch, length, dtype=np.int32)
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    case("embed_layer_norm", "EmbedLayerNormalization",
         [ids, segments, *table, gamma, beta, mask], 3, MS)
    case("embed_layer_norm_positions", "EmbedLayerNormalization",
         [ids, None, table[0], table[1], None, gamma, beta, None,
          ints(0, 5, batch, length, dtype=np.int32)], 2, MS)
    # Small ones: far below zero 1 + tanh(..) cancels, here and in the peer.
    small = f32(batch, length, width, scale=0.5), Const(f32(width, scale=0.5))
    case("bias_gelu", "BiasGelu", small, 1, MS)
    case("fast_gelu", "FastGelu", small, 1, MS)
    case("fast_gelu_alone", "FastGelu", small[:1], 1, MS)
    case("gelu", "Gelu", [x], 1, MS)
    case("quick_gelu", "QuickGelu", [x], 1, MS, alpha=1.25)
    case("fused_matmul", "FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], 1, MS, alpha=0.5, transA=1,
         transB=1)
    case("fused_matmul_batches", "FusedMatMul", [f32(3, 2, 4), f32(2, 4, 5)], 1, MS, transBatchA=1)

    for bits, block, zero in ((4, 16, True), (4, 32, False), (8, 16, True)):
        rows, columns = 5, 40
        blocks = -(-columns // block)
        packed = ints(0, 256, rows, blocks, block * bits // 8, dtype=np.uint8)
        zeros = Const(ints(0, 256, rows, -(-blocks * bits // 8), dtype=np.uint8)) if zero else None
        inputs = [f32(2, 3, columns), Const(packed), Const(np.abs(f32(rows, blocks)) * 0.1), zeros]
        case(f"matmul_{bits}bits_{block}{'_zero' if zero else ''}", "MatMulNBits",
             inputs if zero else inputs[:3], 1, MS, K=columns, N=rows, bits=bits, block_size=block)

    cos, sin = Const(f32(8, size // 2)), Const(f32(8, size // 2))
    positions = ints(0, 8, batch, length)
    case("rotary", "RotaryEmbedding", [x, positions, cos, sin], 1, MS)
    case("rotary_interleaved_first", "RotaryEmbedding",
         [f32(batch, heads, length, size), np.array([2], np.int64), cos, sin], 1, MS, interleaved=1)

    weights, merged = Const(f32(width, 3 * width, scale=0.5)), Const(f32(3 * width))
    past = f32(2, batch, heads, 2, size)
    case("attention_mask", "Attention", [x, weights, merged, mask], 1, MS, num_heads=heads)
    case("attention_lengths", "Attention", [x, weights, merged, np.array([3, 1], np.int32)], 1, MS,
         num_heads=heads)
    case("attention_past_causal", "Attention", [x, weights, merged, None, past], 2, MS,
         num_heads=heads, unidirectional=1)
    case("attention_mask_3d_bias", "Attention",
         [x, weights, merged, ints(0, 2, batch, length, length, dtype=np.int32), None,
          f32(1, heads, length, length)], 1, MS, num_heads=heads, scale=0.3)
    case("attention_value_size", "Attention",
         [x, Const(f32(width, 2 * width + 4)), Const(f32(2 * width + 4))], 1, MS, num_heads=heads,
         qkv_hidden_sizes=[width, width, 4])

    key, value = f32(batch, 5, width), f32(batch, 5, width)
    case("multi_head", "MultiHeadAttention", [x, key, value], 1, MS, num_heads=heads)
    case("multi_head_bias_mask", "MultiHeadAttention",
         [x, key, value, merged, ints(0, 2, batch, 5, dtype=np.int32)], 1, MS, num_heads=heads)
    case("multi_head_cross_cache", "MultiHeadAttention",
         [x, f32(batch, heads, 5, size), f32(batch, heads, 5, size)], 1, MS, num_heads=heads)
    case("multi_head_past", "MultiHeadAttention",
         [x, f32(batch, length, width), f32(batch, length, width), None, None,
          f32(1, heads, length, 5), f32(batch, heads, 2, size), f32(batch, heads, 2, size)], 3, MS,
         num_heads=heads, unidirectional=1)

    heads, kv, size = 4, 2, 16  # the peer wants sizes in multiples of 16
    cos, sin = Const(f32(8, size // 2)), Const(f32(8, size // 2))

    def group_query(name, length, past_length, totals, packed=False, rotary=False, **attributes):
        q, k = f32(batch, length, heads * size), f32(batch, length, kv * size)
        v = f32(batch, length, kv * size)
        if packed:
            q, k, v = np.concatenate([q, k, v], 2), None, None
        inputs = [q, k, v, f32(batch, kv, past_length, size), f32(batch, kv, past_length, size),
                  np.array(totals, np.int32) - 1, Const(np.array(max(totals), np.int32))]
        if past_length == 0:
            inputs[3] = inputs[4] = None
        if rotary:
            inputs += [cos, sin]
            attributes["do_rotary"] = 1
        case(f"group_query_{name}", "GroupQueryAttention", inputs, 3, MS, num_heads=heads,
             kv_num_heads=kv, **attributes)

    group_query("prompt", 3, 0, [3, 3])
    group_query("prompt_rotary", 3, 0, [3, 3], rotary=True)
    group_query("decode", 1, 4, [5, 5], rotary=True)
    group_query("decode_packed", 1, 4, [5, 5], packed=True, rotary=True, rotary_interleaved=1)
    group_query("window_softcap", 1, 5, [6, 6], local_window_size=3, softcap=2.0)
    group_query("smooth", 3, 0, [3, 3], smooth_softmax=1)


def ordered_cases():
    few = ints(-3, 4, 3, 5, 40).astype(np.float32)  # ties
    case("top_k_ties", "TopK", [few, Const([11])], 2, axis=-1)
    case("top_k_ties_smallest", "TopK", [few, Const([5])], 2, axis=1, largest=0)
    case("top_k_of_many", "TopK", [f32(2, 5000), Const([70])], 2)
    case("top_k_all_of_int64", "TopK", [ints(-50, 50, 300, 4), Const([300])], 2, axis=0)
    case("cum_sum_long", "CumSum", [ints(-9, 10, 3, 5000).astype(np.float32), Const(np.array(1))])
    # Whole numbers: sums are exact in any order.
    case("cum_sum_columns_reverse", "CumSum", [ints(-9, 10, 70, 300).astype(np.float32), Const(np.array(0))],
         reverse=1, exclusive=1)


def quantized_recurrent_cases():
    steps, inputs, hidden = 6, 5, 4

    def lstm(name, directions, batch, dtype, per_column, bias, **attributes):
        low, high = (0, 256) if dtype == np.uint8 else (-127, 128)
        columns = (directions, 4 * hidden) if per_column else (directions,)
        w = Const(ints(low, high, directions, inputs, 4 * hidden, dtype=dtype))
        r = Const(ints(low, high, directions, hidden, 4 * hidden, dtype=dtype))
        scales = [Const((rng.random(columns) * 0.01 + 0.002).astype(np.float32)) for _ in range(2)]
        zeros = [Const(np.full(columns, 128 if dtype == np.uint8 else 0, dtype)) for _ in range(2)]
        case(name, "DynamicQuantizeLSTM",
             [f32(steps, batch, inputs), w, r, Const(f32(directions, 8 * hidden, scale=0.3)) if bias else None, None,
              None, None, None, scales[0], zeros[0], scales[1], zeros[1]],
             3, MS, hidden_size=hidden, direction=["forward", "bidirectional"][directions - 1], **attributes)

    lstm("dynamic_quantize_lstm", 1, 1, np.uint8, False, True)
    lstm("dynamic_quantize_lstm_both_ways", 2, 1, np.int8, False, False)
    lstm("dynamic_quantize_lstm_columns", 1, 1, np.int8, True, True)


def quantized(*shape, dtype=np.uint8):
    """Numbers of 8 bits, their scale and their zero point."""
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    return (ints(low, high, *shape, dtype=dtype), Const(np.float32(0.02 + 0.05 * rng.random())),
            Const(dtype(ints(low // 2, high // 2))))


def qlinear_cases():
    """What ONNX Runtime's quantizer writes between quantized convolutions and products."""
    result = (Const(np.float32(0.06)), Const(np.uint8(121)))
    for dtype in (np.uint8, np.int8):
        of, to = dtype.__name__, (result[0], Const(dtype(21)))
        case(f"qlinear_add_{of}", "QLinearAdd", [*quantized(2, 3, 4, dtype=dtype), *quantized(3, 1, dtype=dtype), *to],
             domain=MS)
        case(f"qlinear_mul_{of}", "QLinearMul", [*quantized(2, 3, 4, dtype=dtype), *quantized(4, dtype=dtype), *to],
             domain=MS)
        case(f"qlinear_sigmoid_{of}", "QLinearSigmoid",
             [*quantized(2, 40, dtype=dtype), Const(np.float32(1 / 256)), to[1]], domain=MS)
        case(f"qlinear_leaky_relu_{of}", "QLinearLeakyRelu", [*quantized(2, 40, dtype=dtype), *to], domain=MS,
             alpha=0.2)
    unit = (Const(np.float32(1 / 256)), Const(np.uint8(0)))
    case("qlinear_softmax", "QLinearSoftmax", [*quantized(3, 5, 4), *unit], domain=MS, axis=1, opset_=13)
    case("qlinear_softmax_flattened", "QLinearSoftmax", [*quantized(3, 5, 4), *unit], domain=MS, axis=1, opset_=12)
    for last in (0, 1):
        shape = (2, 7, 8, 3) if last else (2, 3, 7, 8)
        name = "_channels_last" if last else ""
        case(f"qlinear_global_average_pool{name}", "QLinearGlobalAveragePool", [*quantized(*shape), *result], domain=MS,
             channels_last=last)
        case(f"qlinear_average_pool{name}", "QLinearAveragePool", [*quantized(*shape), *result], domain=MS,
             channels_last=last, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
    case("qlinear_where", "QLinearWhere",
         [ints(0, 2, 4, 5).astype(bool), *quantized(4, 5), *quantized(5), *result], domain=MS)
    case("qlinear_concat", "QLinearConcat", [*result, *quantized(2, 3, 4), *quantized(2, 1, 4), *quantized(2, 5, 4)],
         domain=MS, axis=1)
    a, b = quantized(4, 6), quantized(6, 5)
    bias = Const(ints(-900, 900, 5, dtype=np.int32))
    columns = (Const(ints(-128, 128, 5, 6, dtype=np.int8)), Const((0.01 + 0.03 * rng.random(5)).astype(np.float32)),
               Const(np.zeros(5, np.int8)))
    case("qgemm", "QGemm", [*a, *b, bias, Const(np.float32(0.3)), Const(np.uint8(130))], domain=MS, alpha=0.5)
    case("qgemm_to_float", "QGemm", [*a, *columns, bias], domain=MS, transB=1)
    case("qgemm_transposed", "QGemm", [quantized(6, 4)[0], *a[1:], *b, None, Const(np.float32(0.3)), Const(np.uint8(7))],
         domain=MS, transA=1)


if __name__ == "__main__":
    shutil.rmtree(ROOT, ignore_errors=True)
    recurrent_cases()
    convolution_cases()
    microsoft_cases()
    ordered_cases()
    quantized_recurrent_cases()
    quantized_weights(save)
    qlinear_cases()
    attention_cases()
    contrib_cases()
    group_query_cases(save)
    matmul_nbits_cases()
    float8_cases()
    edge_cases()
    recurrence_cases()
    export_cases()
    print(f"{len(list(ROOT.iterdir()))} cases")
