# SPDX-License-Identifier: Apache-2.0
"""Peer cases of what users' files have: spellings that ONNX Runtime takes although their opset does not, operators that were
experimental, and com.microsoft's small arithmetic."""
import ml_dtypes
import numpy as np

from peer_support import MS, Const, case, f32, ints


def vector(*numbers):
    return np.array(numbers, np.int64)


def leniency_cases():
    x = f32(1, 2, 6, 5)
    case("average_pool_auto_pad_empty", "AveragePool", [x], kernel_shape=[2, 2], auto_pad="")
    case("max_pool_auto_pad_empty_pads", "MaxPool", [x], kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], auto_pad="")
    case("conv_auto_pad_empty", "Conv", [x, Const(f32(3, 2, 3, 3))], pads=[1, 1, 0, 1], auto_pad="")
    case("conv_transpose_auto_pad_empty", "ConvTranspose", [x, Const(f32(2, 3, 2, 2))], strides=[2, 2], auto_pad="")
    condition = ints(0, 2, 2, 3, 4).astype(bool)
    data = f32(2, 3, 4)
    case("compress_nd_condition", "Compress", [data, condition], answers=[data[condition]])
    case("compress_nd_condition_int64", "Compress", [ints(0, 99, 3, 5), ints(0, 2, 3, 5).astype(bool)])
    case("layer_norm_unknown_attribute", "LayerNormalization", [f32(2, 3, 4), Const(f32(4)), Const(f32(4))], epsion=1e-3)
    case("layer_norm_unknown_attribute_given", "SimplifiedLayerNormalization", [f32(2, 4), Const(f32(4))], epsilonn=0.1)
    for name, shape in (("rows", (2, 3, 1)), ("each", (2, 3, 4)), ("batch", (2, 1, 4)), ("ones", (1, 1, 4))):
        x = f32(2, 3, 4)
        scale, bias = f32(*shape), f32(*shape)
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
        case(f"layer_norm_scale_of_{name}", "LayerNormalization", [x, Const(scale), Const(bias)],
             answers=[(normal * scale + bias).astype(np.float32)])
    case("resize_tf_half_pixel_13", "Resize", [f32(1, 1, 3, 4), None, Const(np.array([1, 1, 2, 3], np.float32))], opset=13,
         mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    a, b = f32(3, 5, scale=9), f32(5, scale=4)
    case("mod_of_floats_without_fmod", "Mod", [a, b], opset=13, answers=[np.mod(a, b)])
    for name, starts, ends in (("scalars", np.int64(1), np.int64(3)), ("scalars_from_the_end", np.int64(-3), np.int64(-1))):
        data = f32(5, 2)
        case(f"slice_{name}", "Slice", [data, Const(starts), Const(ends)], answers=[data[int(starts):int(ends)]])
    data = ints(0, 50, 5, 4, dtype=np.int32)
    case("slice_scalars_with_axis", "Slice", [data, Const(np.int64(1)), Const(np.int64(3)), Const(vector(1))],
         answers=[data[:, 1:3]])


def old_cases():
    for opset, alpha in ((7, 1.0), (9, 0.3)):
        case(f"thresholded_relu_{opset}", "ThresholdedRelu", [f32(3, 4)], opset=opset, alpha=alpha)
    case("reshape_1", "Reshape", [f32(2, 3, 4)], opset=1, shape=[4, -1])
    case("reshape_1_zero", "Reshape", [f32(2, 3, 4)], opset=4, shape=[0, 12])
    case("dynamic_slice", "DynamicSlice", [ints(-9, 9, 3, 4, 5, dtype=np.int32), Const(vector(0, 1)), Const(vector(2, -1)),
                                           Const(vector(1, 2))], opset=7)
    case("dynamic_slice_all_axes", "DynamicSlice", [f32(4, 5), Const(vector(1, -3)), Const(vector(3, 10000))], opset=9)
    x, one = f32(5), lambda: Const(np.abs(f32(1)) + 0.5)
    case("batch_norm_of_a_vector", "BatchNormalization", [x, one(), one(), one(), one()], opset=15)
    x, each = f32(3, 2, 4), lambda: Const(np.abs(f32(2, 4)) + 0.5)
    case("batch_norm_by_element", "BatchNormalization", [x, each(), each(), each(), each()], opset=7, spatial=0)


def index_cases():
    none = np.zeros((2, 0), np.int64)
    case("scatter_nd_depth_0", "ScatterND", [f32(3, 4), Const(none), f32(2, 3, 4)])
    case("scatter_nd_depth_0_alone", "ScatterND", [f32(3, 4), Const(np.zeros(0, np.int64)), f32(3, 4)])
    data, updates = f32(3, 4), f32(2, 3, 4)
    for reduction, total in (("add", data + updates.sum(0)), ("max", np.maximum(data, updates.max(0)))):
        case(f"scatter_nd_depth_0_{reduction}", "ScatterND", [data, Const(none), updates], opset=18, reduction=reduction,
             answers=[total])
    case("gather_nd_depth_0", "GatherND", [f32(3, 4), Const(none)])
    case("gather_nd_microsoft", "GatherND", [f32(3, 4), Const(np.array([[0, 1], [2, 3]], np.int64))], domain=MS)


def region_cases():
    def regions(*rows):
        return np.array(rows, np.float32)

    x = f32(2, 3, 7, 9)
    rois = regions([0, 0, 0, 8, 6], [1, 2, 1, 5, 4], [0, 3.5, 2.5, 3.4, 2.4], [1, -4, -3, 20, 30], [0, 8, 6, 2, 1])
    case("max_roi_pool", "MaxRoiPool", [x, rois], pooled_shape=[2, 3])
    case("max_roi_pool_scale", "MaxRoiPool", [x, rois * np.array([1, 4, 4, 4, 4], np.float32)], pooled_shape=[3, 2],
         spatial_scale=0.25)
    case("max_roi_pool_outside", "MaxRoiPool", [x, regions([0, 20, 20, 30, 30], [1, 7, 5, 12, 9])], pooled_shape=[2, 2])


def arithmetic_cases():
    a, b = f32(5, 4), f32(3, 4)
    for metric in ("sqeuclidean", "euclidean"):
        case(f"cdist_{metric}", "CDist", [a, b], domain=MS, metric=metric)
        case(f"cdist_{metric}_f64", "CDist", [a.astype(np.float64), Const(b.astype(np.float64))], domain=MS, metric=metric)
    for upper in (0, 1):
        case(f"trilu_microsoft_{upper}", "Trilu", [f32(2, 3, 4)], domain=MS, upper=upper)
    case("trilu_microsoft_k", "Trilu", [ints(0, 9, 4, 4), Const(np.int64(1))], domain=MS)
    grid = (f32(2, 5, 4, 2) * 0.7)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            case(f"grid_sample_microsoft_{mode}_{padding}", "GridSample", [f32(2, 2, 6, 7), grid], domain=MS, mode=mode,
                 padding_mode=padding, align_corners=int(mode == "bicubic"))
    case("grid_sample_microsoft", "GridSample", [f32(2, 1, 4, 4), grid], domain=MS)
    case("range_microsoft", "Range", [Const(np.int64(2)), Const(np.int64(11)), Const(np.int64(3))], domain=MS)
    case("range_microsoft_two", "Range", [Const(np.float32(0.5)), Const(np.float32(4))], domain=MS)
    case("pad_microsoft", "Pad", [f32(2, 3), Const(vector(1, 0, 0, 2)), Const(np.float32(0.5))], domain=MS)
    case("expand_dims", "ExpandDims", [f32(2, 3), Const(np.int32(-1))], domain=MS)
    case("inverse", "Inverse", [f32(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)], domain=MS)
    case("matmul_integer16", "MatMulInteger16", [ints(-999, 999, 2, 3, dtype=np.int16), ints(-999, 999, 3, 4, dtype=np.int16)],
         domain=MS)
    case("sample_op", "SampleOp", [f32(3)], domain=MS)
    case("unfold_tensor", "UnfoldTensor", [f32(2, 7, 3)], domain=MS, dim=1, size=3, step=2)
    case("unfold_tensor_last", "UnfoldTensor", [f32(2, 5)], domain=MS, size=2)
    x, scale = f32(2, 3), np.array([1.5], np.float32)
    case("scaled_silu", "ScaledSiLU", [x], domain=MS, alpha=0.7)
    case("scaled_silu_input", "ScaledSiLU", [x, Const(scale.reshape(()))], domain=MS)
    x, bias = f32(2, 3, 4, scale=0.5), f32(3, 3, scale=0.3)[:, :3]
    case("fast_gelu_bias_of_rows", "FastGelu", [f32(3, 3, scale=0.5).astype(np.float16), Const(bias.astype(np.float16))], domain=MS)
    branches_cases()


def branches_cases():
    case("branchwise_rms_norm", "BranchwiseRMSNorm", [f32(2, 3, 4, 8), Const(f32(8))], domain=MS, epsilon=1e-3)
    case("branchwise_rms_norm_flat", "BranchwiseRMSNorm", [f32(2, 3, 32), Const(f32(32))], domain=MS, num_branches=4)
    case("branchwise_rms_norm_branches", "BranchwiseRMSNorm", [f32(2, 32), Const(f32(4, 8))], domain=MS, num_branches=4)
    case("hyper_connection_pre_mix", "HyperConnectionPreMix", [f32(2, 3, 4, 8), f32(2, 3, 4)], domain=MS, reduction_scale=0.5)
    case("hyper_connection_pre_mix_flat", "HyperConnectionPreMix", [f32(2, 3, 32), f32(2, 3, 4, 1)], domain=MS, num_branches=4)
    case("hyper_connection_post_mix", "HyperConnectionPostMix", [f32(2, 3, 4, 8), f32(2, 3, 8), f32(2, 3, 4), f32(2, 3, 4, 4)],
         domain=MS)
    case("hyper_connection_post_mix_plain", "HyperConnectionPostMix", [f32(2, 3, 32), f32(2, 3, 8), f32(2, 3, 4, 1)],
         domain=MS, num_branches=4)
    case("engram_gate", "EngramGate", [f32(2, 3, 4, 8), f32(2, 3, 4, 8), f32(2, 3, 8), Const(f32(4, 8)), Const(f32(4, 8)),
                                       Const(f32(4, 8))], 2, MS)


def attention_cases_of_exports():
    batch, heads, length, size = 2, 2, 3, 4
    width = heads * size
    x = f32(batch, length, width)
    cache = [f32(batch, heads, 5, size) for _ in range(4)]
    case("multi_head_cache_and_past", "MultiHeadAttention", [x, cache[0], cache[1], None, None, None, cache[2], cache[3]], 3, MS,
         num_heads=heads)
    cos, sin = Const(f32(8, size // 2)), Const(f32(8, size // 2))
    for value in (0, 3):
        case(f"rotary_scalar_position_{value}", "RotaryEmbedding", [x, np.array(value, np.int64), cos, sin], 1, MS)


def multimodal_rotary_cases():
    batch, heads, length, size = 2, 3, 5, 16
    cos, sin = Const(f32(12, size // 2)), Const(f32(12, size // 2))
    positions = ints(0, 12, 3, batch, length)
    for layout in (0, 1):
        for interleaved in (0, 1):
            case(f"mrotary_{layout}_{interleaved}", "MRotaryEmbedding", [f32(batch, heads, length, size), positions, cos, sin], 1,
                 MS, mrope_section=[4, 2, 2], mrope_layout=layout, interleaved=interleaved)
    case("mrotary_flat", "MRotaryEmbedding", [f32(batch, length, heads * size), positions, cos, sin], 1, MS,
         mrope_section=[2, 3, 3], num_heads=heads, rotary_embedding_dim=size)


def quantized_layer_cases():
    """For GPUs alone in the peer."""
    rows, columns, block = 6, 64, 32

    def weights(rows):
        packed, scales = ints(0, 256, rows, columns // block, block // 2, dtype=np.uint8), np.abs(f32(rows, columns // block)) * 0.1
        numbers = np.stack([packed & 15, packed >> 4], -1).reshape(rows, columns // block, block).astype(np.float32) - 8
        return packed, scales.astype(np.float32), (numbers * scales[..., None]).reshape(rows, columns)

    def normal(x, scale, epsilon):
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + np.float32(epsilon)) * scale

    x, skip, scale = f32(2, 3, columns), f32(2, 3, columns), f32(columns)
    gate, up, bias = weights(rows), weights(rows), f32(rows)
    for name, before, given in (("", x, [None, None]), ("_norm", normal(x, scale, 1e-3), [None, Const(scale)]),
                                ("_skip", normal(x + skip, scale, 1e-3), [skip, Const(scale)])):
        g, u = before @ gate[2].T + bias, before @ up[2].T
        case(f"matmul_nbits_mlp{name}", "MatMulNBitsMlp",
             [x, *given, Const(gate[0]), Const(gate[1]), Const(bias), Const(up[0]), Const(up[1])],
             ["y", "sum"] if name == "_skip" else 1, MS, K=columns, N=rows, bits=4, block_size=block, epsilon=1e-3,
             activation="silu", answers=[(g / (1 + np.exp(-g)) * u).astype(np.float32)] + ([x + skip] if name == "_skip" else []))
    q, k, v = weights(8), weights(rows), weights(rows)
    before = normal(x, scale, 1e-5)
    case("matmul_nbits_qkv", "MatMulNBitsQkv",
         [x, None, Const(scale), Const(q[0]), Const(q[1]), None, Const(k[0]), Const(k[1]), Const(bias), Const(v[0]), Const(v[1])],
         3, MS, K=columns, Nq=8, Nkv=rows, bits=4, block_size=block,
         answers=[before @ q[2].T, before @ k[2].T + bias, before @ v[2].T])
    a, b = f32(2, 40), f32(5, 40).astype(ml_dtypes.float8_e4m3fn)
    scales = np.abs(f32(5, 3)) + np.float32(0.1)
    wide = b.astype(np.float32) * np.repeat(scales, 16, 1)[:, :40]
    half = a.astype(np.float16)
    case("matmul_fp8_weight", "MatMulBlockQuantizedFp8Weight", [half, Const(b), Const(scales)], 1, MS, block_size=16,
         answers=[(half.astype(np.float32) @ wide.astype(np.float16).astype(np.float32).T).astype(np.float16)])


def table_cases():
    ml = "ai.onnx.ml"
    case("feature_vectorizer_of_rank_3", "FeatureVectorizer", [f32(1, 1, 4), f32(1, 2, 3)], domain=ml, inputdimensions=[4, 6])
    case("feature_vectorizer_of_vectors", "FeatureVectorizer", [f32(4), f32(2)], domain=ml, inputdimensions=[4, 2])


def export_cases():
    leniency_cases()
    old_cases()
    index_cases()
    region_cases()
    arithmetic_cases()
    attention_cases_of_exports()
    multimodal_rotary_cases()
    quantized_layer_cases()
    table_cases()
