# SPDX-License-Identifier: Apache-2.0
"""Peer cases of com.microsoft's operators beyond those in make_peer_cases.py, but for attention: each
input, output and attribute that transformers' optimisers write. Where ONNX Runtime has an operator for
GPUs alone, its formula is here in NumPy."""
import math

import ml_dtypes
import numpy as np

from attention_cases import BATCH, HEADS, LENGTH, SIZE, WIDTH, heads_of, i32, softmax
from peer_support import MS, Const, answer, case, f32, ints



def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return (x - mean) * inverse * gamma + beta, mean, inverse


def normalisation_cases():
    x, skip = f32(BATCH, LENGTH, WIDTH), f32(BATCH, LENGTH, WIDTH)
    gamma, beta, bias = Const(f32(WIDTH)), Const(f32(WIDTH)), Const(f32(WIDTH))
    total = x + skip + bias.value
    # The peer does not fill the statistics in.
    case("skip_layer_norm_all_outputs", "SkipLayerNormalization", [x, skip, gamma, beta, bias], 4, MS, epsilon=0.1,
         answers=[*layer_norm(total, gamma.value, beta.value, 0.1), total])
    inverse = 1 / np.sqrt((total ** 2).mean(-1, keepdims=True) + np.float32(0.1))
    case("skip_simplified_layer_norm_all_outputs", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], 4, MS,
         epsilon=0.1, answers=[total * inverse * gamma.value, total.mean(-1, keepdims=True), inverse, total])
    case("skip_layer_norm_rank_2", "SkipLayerNormalization", [x, f32(LENGTH, WIDTH), gamma], ["y", "", "", "sum"], MS)
    case("skip_simplified_layer_norm_tokens", "SkipSimplifiedLayerNormalization",
         [f32(5, WIDTH), f32(5, WIDTH), gamma], 1, MS)
    words, places = Const(f32(11, WIDTH)), Const(f32(5, WIDTH))
    ids = ints(0, 11, BATCH, LENGTH, dtype=np.int32)
    case("embed_layer_norm_sum", "EmbedLayerNormalization", [ids, None, words, places, None, gamma, beta],
         3, MS, epsilon=1e-3)
    case("embed_layer_norm_shared_positions", "EmbedLayerNormalization",
         [ids, None, words, places, None, gamma, beta, i32(1, 1, 1, 1, 0, 0).reshape(2, 3), i32(4, 0, 2).reshape(1, 3)],
         2, MS)
    quantized = [quantized_table(*shape) for shape in ((11, WIDTH), (5, WIDTH), (2, WIDTH), (WIDTH,), (WIDTH,))]
    tables, scales, zeros = zip(*quantized)
    mask = i32(1, 1, 1, 1, 0, 0).reshape(2, 3)
    for name, used in (("", True), ("_no_segment", False)):
        own = [list(each) if used else [*each[:2], None, *each[3:]] for each in (tables, scales, zeros)]
        case(f"quantized_embed_layer_norm{name}", "QEmbedLayerNormalization",
             [ids, ints(0, 2, BATCH, LENGTH, dtype=np.int32) if used else None, *own[0], mask, *own[1], *own[2]], 2, MS,
             epsilon=1e-3)
    group_norm_cases()


def quantized_table(*shape):
    return Const(ints(0, 256, *shape, dtype=np.uint8)), Const(np.float32(0.02)), Const(np.uint8(121))


def group_norm_cases():
    """For GPUs alone in the peer."""
    channels, groups = 6, 3
    gamma, beta, bias = f32(channels), f32(channels), f32(channels)

    def normalised(x, silu):
        grouped = x.reshape(x.shape[0], -1, groups, channels // groups)
        mean = grouped.mean((1, 3), keepdims=True)
        normal = (grouped - mean) / np.sqrt(grouped.var((1, 3), keepdims=True) + 1e-3)
        y = normal.reshape(x.shape) * gamma + beta
        return (y / (1 + np.exp(-y)) if silu else y).astype(np.float32)

    x = f32(2, 3, 5, channels)
    attributes = {"groups": groups, "epsilon": 1e-3}
    case("group_norm_nhwc", "GroupNorm", [x, Const(gamma), Const(beta)], 1, MS, **attributes, activation=0,
         answers=[normalised(x, False)])
    case("group_norm_silu", "GroupNorm", [x, Const(gamma), Const(beta)], 1, MS, **attributes, activation=1,
         channels_last=1, answers=[normalised(x, True)])
    case("group_norm_nchw", "GroupNorm", [x.transpose(0, 3, 1, 2), Const(gamma), Const(beta)], 1, MS, **attributes,
         activation=1, channels_last=0, answers=[normalised(x, True).transpose(0, 3, 1, 2)])
    for name, skip in (("", f32(2, 3, 5, channels)), ("_channels", f32(2, 1, 1, channels)), ("_rank_2", f32(2, channels))):
        total = x + skip.reshape(2, *(skip.shape[1:3] if skip.ndim == 4 else (1, 1)), channels) + bias
        case(f"skip_group_norm{name}", "SkipGroupNorm", [x, Const(gamma), Const(beta), skip, Const(bias)], 2, MS,
             **attributes, activation=1, answers=[normalised(total, True), total])


def product_cases():
    a, b, c = f32(4, 3), Const(f32(3, 5)), Const(f32(5))
    case("fused_gemm_relu", "FusedGemm", [a, b, c], 1, MS, activation="Relu", alpha=0.5, beta=2.0)
    case("fused_gemm_leaky_relu", "FusedGemm", [f32(3, 4), b], 1, MS, transA=1, activation="LeakyRelu",
         activation_alpha=0.2)
    case("fused_gemm_elu", "FusedGemm", [a, Const(f32(5, 3)), c], 1, MS, transB=1, activation="Elu", activation_alpha=0.7)
    case("fused_gemm_hard_sigmoid", "FusedGemm", [a, b], 1, MS, activation="HardSigmoid", activation_alpha=0.3,
         activation_beta=0.4)
    case("fused_matmul_vector", "FusedMatMul", [f32(3), f32(2, 3, 4)], 1, MS, transA=1, alpha=0.5)
    case("fused_matmul_batches_of_both", "FusedMatMul", [f32(4, 2, 5), f32(3, 2, 4)], 1, MS, transA=1, transB=1,
         transBatchA=1, transBatchB=1)
    case("transpose_matmul", "TransposeMatMul", [f32(3, 4), f32(3, 5)], 1, MS, transA=1)
    product = a @ b.value
    case("fused_matmul_activation", "FusedMatMulActivation", [a, b], 1, MS, activation="Tanh", alpha=0.5,
         answers=[np.tanh(0.5 * product)])
    x, bias = f32(2, 3, 8), f32(8)
    half = (x + bias)[..., :4], (x + bias)[..., 4:]
    erf = np.vectorize(math.erf)
    case("bias_split_gelu", "BiasSplitGelu", [x, Const(bias)], 1, MS,
         answers=[(half[0] * half[1] * 0.5 * (1 + erf(half[1] / math.sqrt(2)))).astype(np.float32)])
    skip = f32(2, 3, 8)
    case("bias_add", "BiasAdd", [x, Const(bias), skip], 1, MS, answers=[x + bias + skip])
    small = f32(4, 3, scale=0.3)  # far below zero 1 + tanh(..) cancels
    y = small @ b.value
    case("gemm_fast_gelu", "GemmFastGelu", [small, b], 1, MS,
         answers=[0.5 * y * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (y + np.float32(0.044715) * y ** 3)))])


def layout_cases():
    for activation, numbers in (("HardSwish", []), ("HardSigmoid", [0.3, 0.6]), ("Tanh", []), ("Sigmoid", [])):
        case(f"fused_conv_{activation.lower()}", "FusedConv", [f32(1, 2, 4, 5), Const(f32(3, 2, 3, 3)), Const(f32(3))],
             1, MS, activation=activation, **({"activation_params": numbers} if numbers else {}))
    # Conv of the peer, turned: it has these for GPUs alone.
    x, w, b, z = f32(2, 4, 5, 6), f32(6, 2, 3, 2), f32(6), f32(2, 6, 2, 6)
    sizes = {"group": 2, "strides": [2, 1], "pads": [0, 1, 0, 0], "kernel_shape": [3, 2]}
    y = answer("Conv", [x, w, b], **sizes)
    last, back = (0, 2, 3, 1), lambda t: np.ascontiguousarray(t.transpose(0, 2, 3, 1))
    case("nhwc_conv", "NhwcConv", [back(x), Const(w.transpose(last)), Const(b)], 1, MS, **sizes, answers=[back(y)])
    case("nhwc_fused_conv", "NhwcFusedConv", [back(x), Const(w), Const(b), back(z)], 1, MS, **sizes,
         activation="Relu", answers=[np.maximum(back(y + z), 0)])
    small = Const(np.float32(0.05)), Const(np.uint8(120))
    for last in (0, 1):
        shape = (2, 5, 6, 4) if last else (2, 4, 5, 6)
        case(f"qlinear_conv{'_channels_last' if last else ''}", "QLinearConv",
             [ints(0, 256, *shape, dtype=np.uint8), *small, Const(ints(-127, 128, 6, 2, 3, 2, dtype=np.int8)),
              Const((np.abs(f32(6)) * 0.01 + 0.01).astype(np.float32)), Const(np.zeros(6, np.int8)),
              Const(np.float32(0.2)), Const(np.uint8(110)), Const(ints(-500, 500, 6, dtype=np.int32))], 1, MS, **sizes,
             channels_last=last)
    for dtype in (np.uint8, np.int8):
        low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
        case(f"nhwc_max_pool_{dtype.__name__}", "NhwcMaxPool", [ints(low, high, 2, 7, 6, 3, dtype=dtype)], 1, MS,
             kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], ceil_mode=1)


def mixture_cases():
    experts, size, inner = 4, 16, 32
    x, router = f32(2, 3, size), f32(6, experts)

    def mixture(name, fused=1, bias=True, tokens=x, **attributes):
        weights = [Const(f32(experts, fused * inner, size, scale=0.3)),
                   Const(f32(experts, fused * inner)) if bias else None,
                   Const(f32(experts, size, inner, scale=0.3)), Const(f32(experts, size)) if bias else None]
        case(f"moe_{name}", "MoE", [tokens, router, *(weights if bias else weights[:3])], 1, MS, **attributes)

    mixture("relu_top_1")
    mixture("silu_normalised", k=2, activation_type="silu", normalize_routing_weights=1)
    mixture("gelu_tokens", k=3, tokens=f32(6, size), activation_type="gelu", bias=False)
    mixture("identity_all", k=4, activation_type="identity")
    mixture("swiglu", 2, k=2, activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1,
            activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.5)
    mixture("swiglu_plain", 2, k=1, activation_type="swiglu", swiglu_fusion=1)

    # What follows the peer has for GPUs alone: a product of its own, or halves behind each other.
    w1, w2, w3 = (f32(experts, *shape, scale=0.3) for shape in ((inner, size), (size, inner), (inner, size)))
    tokens = x.reshape(6, size)
    probability = softmax(router)
    chosen = np.argsort(-router, 1)[:, :2]
    share = np.zeros_like(probability)
    np.put_along_axis(share, chosen, np.take_along_axis(probability, chosen, 1), 1)

    def mixed(gate, linear):
        h = gate / (1 + np.exp(-gate)) * linear
        y = np.einsum("eti,ehi->eth", h, w2)
        return np.einsum("eth,te->th", y, share).reshape(x.shape).astype(np.float32)

    gate, linear = (np.einsum("th,eih->eti", tokens, w) for w in (w1, w3))
    for name, activation in (("swiglu_apart", "swiglu"), ("silu_gated", "silu")):
        case(f"moe_{name}", "MoE", [x, router, Const(w1), None, Const(w2), None, Const(w3)], 1, MS, k=2,
             activation_type=activation, answers=[mixed(gate, linear)])
    case("moe_swiglu_halves", "MoE", [x, router, Const(np.concatenate([w1, w3], 1)), None, Const(w2)], 1, MS, k=2,
         activation_type="swiglu", swiglu_fusion=2, answers=[mixed(gate, linear)])

    # All tokens take one expert, and most experts none; a NaN concerns its token alone.
    weights = [Const(w1), None, Const(w2)]
    one = np.zeros((6, experts), np.float32)
    one[:, 2] = 9
    case("moe_one_expert", "MoE", [x, one, *weights], 1, MS, activation_type="silu")
    unknown = router.copy()
    unknown[4] = np.nan
    share[4] = np.nan
    h = gate / (1 + np.exp(-gate))
    y = np.einsum("eth,te->th", np.einsum("eti,ehi->eth", h, w2), share).reshape(x.shape).astype(np.float32)
    case("moe_nan", "MoE", [x, unknown, *weights], 1, MS, k=2, activation_type="silu", answers=[y])

    # sparsemixer, whose shares are weights of softmaxes over what is near.
    share = np.zeros_like(probability)
    left, near = router.copy(), router * 0.02 + 3
    left[:] = near
    for _ in range(2):
        best = left.argmax(1)
        most = np.take_along_axis(left, best[:, None], 1)
        weight = np.exp(np.where((most - near) / np.maximum(abs(near), most) > 0.02, -np.inf, left) - most)
        share[np.arange(6), best] = (1 / weight.sum(1))
        left[np.arange(6), best] = -np.inf
    y = np.einsum("eth,te->th", np.einsum("eti,ehi->eth", h, w2), share).reshape(x.shape).astype(np.float32)
    case("moe_sparse_mixer", "MoE", [x, near, *weights], 1, MS, k=2, use_sparse_mixer=1, activation_type="silu",
         answers=[y])


def quantized_mixture_cases():
    experts, size, inner = 4, 32, 64
    x, router = f32(5, size), f32(5, experts)

    def mixture(name, bits, block=0, zeros=False, fused=1, third=False, weights=None, **attributes):
        def product(outputs, inputs):
            groups = (inputs // block,) if block else ()
            packed = ints(0, 256, experts, outputs, inputs * bits // 8, dtype=np.uint8)
            scales = (np.abs(f32(experts, outputs, *groups)) * 0.02 + 0.01).astype(np.float32)
            pairs = (experts, outputs, inputs // block * bits // 8) if block else (experts, outputs * bits // 8)
            point = ints(0, 256, *pairs, dtype=np.uint8) if zeros else None
            return [Const(packed), Const(scales), Const(f32(experts, outputs))], None if point is None else Const(point)

        first, first_zeros = product(fused * inner, size)
        second, second_zeros = product(size, inner)
        inputs = [x, router, *first, *second, None, None, None, first_zeros, second_zeros, None, weights]
        while inputs[-1] is None:
            inputs.pop()
        if block:
            attributes["block_size"] = block
        case(f"qmoe_{name}", "QMoE", inputs, 1, MS, expert_weight_bits=bits, k=2, normalize_routing_weights=1,
             **attributes)
        return inputs, attributes

    mixture("8_bits_rows", 8, activation_type="relu")
    mixture("4_bits_rows_zeros", 4, zeros=True, activation_type="gelu")
    mixture("4_bits_blocks", 4, 16, activation_type="swiglu", swiglu_fusion=1, fused=2, activation_alpha=1.702,
            activation_beta=1.0, swiglu_limit=7.0)
    mixture("4_bits_blocks_zeros", 4, 16, zeros=True, activation_type="silu")
    mixture("router_weights", 4, activation_type="silu", weights=np.abs(f32(5, experts)))
    inputs, attributes = mixture("4_bits_rows", 4, activation_type="silu")
    # On the CPU the peer always normalises, its MoE and its GPU kernels when they are told to.
    normalised = answer("QMoE", [each.value if isinstance(each, Const) else each for each in inputs], domain=MS, k=2,
                        expert_weight_bits=4, normalize_routing_weights=1, **attributes)
    share = np.sort(softmax(router), 1)[:, -2:].sum(1, keepdims=True)
    case("qmoe_as_routed", "QMoE", inputs, 1, MS, k=2, expert_weight_bits=4, **attributes,
         answers=[normalised * share])

    # 4-bit floats: MXFP4 as gpt-oss is exported, and NVFP4.
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    numbers = np.concatenate([numbers, -numbers])
    draw = np.random.default_rng(58)  # other cases stay as they are
    probability = softmax(router)
    chosen = np.argsort(-router, 1)[:, :2]
    share = np.zeros_like(probability)
    np.put_along_axis(share, chosen, np.take_along_axis(probability, chosen, 1), 1)
    share /= share.sum(1, keepdims=True)
    for name, group, scale_type in (("fp4", 32, ml_dtypes.float8_e8m0fnu), ("nvfp4", 16, ml_dtypes.float8_e4m3fn)):
        def product(outputs, inputs, whole):
            packed = draw.integers(0, 256, (experts, outputs, inputs // 2)).astype(np.uint8)
            codes = np.stack([packed & 15, packed >> 4], -1).reshape(experts, outputs, inputs)
            scales = (2.0 ** draw.integers(-5, -1, (experts, outputs, inputs // group))).astype(scale_type)
            w = numbers[codes] * np.repeat(scales.astype(np.float64), group, -1) * whole[:, None, None]
            bias = draw.standard_normal((experts, outputs)).astype(np.float32)
            return [Const(packed), Const(scales), Const(bias)], w

        wholes = [np.ones(experts, np.float32), np.ones(experts, np.float32) * 0.5]
        first, w1 = product(2 * inner, size, wholes[0])
        second, w2 = product(size, inner, wholes[1])
        h = np.einsum("th,eih->eti", x, w1) + first[2].value[:, None]
        g, linear = np.minimum(h[..., ::2], 7), np.clip(h[..., 1::2], -7, 7)
        h = g / (1 + np.exp(-1.702 * g)) * (linear + 1)
        y = np.einsum("eti,ehi->eth", h, w2) + second[2].value[:, None]
        case(f"qmoe_{name}", "QMoE", [x, router, *first, *second, *[None] * 7, *map(Const, wholes)], 1, MS, k=2,
             quant_type=name, normalize_routing_weights=1, activation_type="swiglu", swiglu_fusion=1,
             activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0,
             answers=[np.einsum("eth,te->th", y, share).astype(np.float32)])


def few_bit_cases():
    rows, columns = 5, 40
    for bits, block, zero, name in ((4, 16, "packed", "4"), (8, 16, "packed", "8"), (4, 32, None, "4_plain"),
                                    (4, 16, "float", "4_float_zeros"), (2, 16, "packed", "2")):
        blocks = -(-columns // block)
        zeros = {"packed": lambda: ints(0, 256, rows, -(-blocks * bits // 8), dtype=np.uint8),
                 "float": lambda: f32(rows, blocks, scale=3.0), None: lambda: None}[zero]()
        inputs = [f32(2, 3, columns), Const(ints(0, 256, rows, blocks, block * bits // 8, dtype=np.uint8)),
                  np.abs(f32(rows, blocks)) * 0.1, zeros, None, f32(rows)]
        case(f"matmul_nbits_computed_scales_{name}", "MatMulNBits", inputs, 1, MS, K=columns, N=rows, bits=bits,
             block_size=block)
    blocks = -(-columns // 16)
    case("matmul_nbits_all_computed", "MatMulNBits",
         [f32(3, columns), ints(0, 256, rows, blocks, 8, dtype=np.uint8), np.abs(f32(rows, blocks)) * 0.1], 1, MS,
         K=columns, N=rows, bits=4, block_size=16)
    for kind, name in enumerate(("fp4", "nf4")):
        packed, largest = ints(0, 256, rows * columns // 2, dtype=np.uint8), np.abs(f32(-(-rows * columns // 16)))
        sizes = {"K": columns, "N": rows, "block_size": 16, "quant_type": kind}
        case(f"matmul_bnb4_{name}", "MatMulBnb4", [f32(2, 3, columns), Const(packed), Const(largest)], 1, MS, **sizes)
        # The peer multiplies by the transpose here too.
        weights = answer("MatMulBnb4", [np.eye(columns, dtype=np.float32), packed, largest], domain=MS, **sizes).T
        a = f32(2, rows)
        case(f"matmul_bnb4_{name}_plain", "MatMulBnb4", [a, Const(packed), Const(largest)], 1, MS, **sizes, transB=0,
             answers=[a @ weights])


def position_bias_cases():
    """For GPUs alone in the peer."""
    queries, keys, count, distance = 6, 6, 8, 9
    table = f32(count, HEADS)
    away = np.arange(keys)[None, :] - np.arange(queries)[:, None]

    def bucket(d, count, both):
        first = 0
        if both:
            count //= 2
            first, d = (count if d > 0 else 0), abs(d)
        else:
            d = max(-d, 0)
        exact = count // 2
        if d < exact:
            return first + d
        return first + min(exact + int(math.log(d / exact) / math.log(distance / exact) * (count - exact)), count - 1)

    for both in (0, 1):
        index = np.vectorize(lambda d: bucket(int(d), count, both))(away)
        # The table's numbers lie by columns.
        case(f"relative_position_bias_{('one_way', 'both_ways')[both]}", "RelativePositionBias",
             [Const(table.T.reshape(count, HEADS)), Const(np.array([queries])), Const(np.array([keys]))], 1, MS,
             max_distance=distance, is_bidirectional=both, answers=[table[index].transpose(2, 0, 1)[None]])
    width, gates = 8, 6
    query, query_bias = f32(BATCH, LENGTH, WIDTH), f32(WIDTH)
    weight, bias, eco = f32(SIZE, gates), f32(gates), f32(1, HEADS, 1, 1)
    place = f32(1, HEADS, LENGTH, LENGTH)
    sums = (heads_of(query + query_bias) @ weight + bias).reshape(BATCH, HEADS, LENGTH, 2, gates // 2).sum(-1)
    u, r = (1 / (1 + np.exp(-sums[..., i:i + 1])) for i in range(2))
    case("gated_relative_position_bias", "GatedRelativePositionBias",
         [query, Const(query_bias), place, Const(weight), Const(bias), Const(eco)], 1, MS, num_heads=HEADS,
         answers=[((u * (r * eco - 1) + 2) * place).astype(np.float32)])


def other_cases():
    """Operators of ONNX: experiments of old, and forms that its own data lacks."""
    x = f32(2, 3, 4, 5)
    case("affine", "Affine", [x], opset=8, alpha=2.0, beta=0.5)
    case("scale", "Scale", [x], opset=8, scale=3.0)
    case("scaled_tanh", "ScaledTanh", [x], opset=8, alpha=2.0, beta=0.5)
    case("parametric_softplus", "ParametricSoftplus", [x], opset=8, alpha=2.0, beta=0.5)
    case("image_scaler", "ImageScaler", [x], opset=8, scale=2.0, bias=[1.0, 2.0, 3.0])
    case("crop_border", "Crop", [x], opset=8, border=[1, 0, 2, 1])
    case("crop_scale", "Crop", [x], opset=8, border=[1, 2, 0, 0], scale=[2, 3])
    image = f32(2, 3, 9, 11)
    regions = np.array([[1, 1, 6.5, 7.2], [-2, -1.5, 14, 12], [3.1, 2.2, 3.9, 2.6], [0, 0, 10, 8], [8, 7, 30, 40],
                        [5, 5, 4, 3]], np.float32)
    for name, opset, attributes in (("", 16, {}), ("_output_half_pixel", 16, {"coordinate_transformation_mode": "output_half_pixel"}),
                                    ("_scaled", 10, {"spatial_scale": 0.6})):
        case(f"roi_align_adaptive{name}", "RoiAlign", [image, regions, ints(0, 2, 6)], opset=opset, output_height=3,
             output_width=2, sampling_ratio=0, **attributes)
    for mode in ("floor", "round_prefer_floor", "ceil"):
        case(f"resize_tf_half_pixel_{mode}", "Resize",
             [x, Const(np.zeros(0, np.float32)), Const(np.array([1, 1, 1.6, 0.7], np.float32))], opset=11, mode="nearest", nearest_mode=mode,
             coordinate_transformation_mode="tf_half_pixel_for_nn")


def contrib_cases():
    normalisation_cases()
    product_cases()
    layout_cases()
    mixture_cases()
    quantized_mixture_cases()
    few_bit_cases()
    position_bias_cases()
    other_cases()
