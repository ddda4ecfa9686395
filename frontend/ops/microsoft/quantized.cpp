// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft on block-quantized weights.
#include <algorithm>
#include <numeric>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/products.h"
#include "frontend/ops/quantization/block_quantized.h"
#include "frontend/ops/quantization/gpu_packing.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/transforms.h"
#include "ir/scale_format.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

const Tensor& constant_input(NodeContext& node, std::size_t i, const char* what,
                             std::int64_t elements) {
  const Tensor* tensor = node.builder().constant_of(node.input(i, what));
  if (tensor == nullptr)
    node.unsupported(
        "input {} ({}) is not a constant; quantized weights are packed at compile time", i, what);
  if (tensor->element_count() != elements)
    node.invalid("input {} ({}) is {}; it must have {} elements", i, what, tensor->type(),
                 elements);
  return *tensor;
}

WeightPacking packing_of(const NodeContext& node) {
  switch (node.attr_int("weight_prepacked", 0)) {
    case 0: return WeightPacking::kRows;
    case 1: return WeightPacking::kMixedSm80;
    case 2: return WeightPacking::kMixedSm90;
    default: node.invalid("attribute 'weight_prepacked' is not 0 to 2");
  }
}

/// The numbers minus the middle of their range, as ScaleFormat stores them; columns are permuted by
/// `order`, if it is not empty.
Tensor packed_values(NodeContext& node, const BlockedWeights& w, const Ints& order) {
  Tensor packed = constant_input(node, 1, "B", w.rows * w.pitch());
  if (const WeightPacking packing = packing_of(node); packing != WeightPacking::kRows)
    packed = packed_by_rows(packed, packing, 1, w.rows, w.columns, w.bits);
  if (w.bits == 4 && 2 * w.pitch() == w.columns && order.empty())
    return packed.reshaped({w.rows, w.pitch()});
  return scaled_values(packed, w, order);
}

/// Zero points minus the middle: packed ones as int8, others as float32.
Tensor zero_points(NodeContext& node, const BlockedWeights& w) {
  const bool is_packed = node.dtype(node.input(3, "zero_points")) == DType::kUInt8;
  const std::int64_t pitch = is_packed ? (w.blocks * w.bits + 7) / 8 : w.blocks;
  const Tensor& zeros = constant_input(node, 3, "zero_points", w.rows * pitch);
  if (!is_packed && !is_float(zeros.dtype()))
    node.unsupported("zero_points are {}; supported are packed uint8 and floats", zeros.type());
  return scaled_zeros(zeros, w);
}

/// Input g_idx gives the group of scales for each column. Returns the columns sorted by group;
/// groups must fill blocks. Empty if they are sorted already.
Ints columns_by_group(NodeContext& node, const BlockedWeights& w) {
  const Tensor& groups = constant_input(node, 4, "g_idx", w.columns);
  const auto group_of = [&](std::int64_t column) {
    return static_cast<std::int64_t>(groups.at(column));
  };
  Ints order(static_cast<std::size_t>(w.columns));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) {
    return group_of(left) < group_of(right);
  });
  for (std::int64_t i = 0; i < w.columns; ++i)
    if (const std::int64_t column = order[static_cast<std::size_t>(i)];
        group_of(column) != i / w.block)
      node.unsupported(
          "input g_idx puts column {} into group {}, which does not have {} columns as "
          "its block: export with groups of one size",
          column, group_of(column), w.block);
  if (std::ranges::is_sorted(order)) order.clear();
  return order;
}

BlockedWeights read_weights(NodeContext& node) {
  const BlockedWeights w = blocked_weights(node, node.attr_int("N"), 32);
  const bool is_whole = w.blocks * w.block == w.columns;
  if (const WeightPacking packing = packing_of(node);
      packing != WeightPacking::kRows &&
      (!is_whole || !fits_packing(packing, w.rows, w.columns, w.bits)))
    node.invalid("weights [{}, {}] of {} bits cannot have the packing of 'weight_prepacked'",
                 w.rows, w.columns, w.bits);
  return w;
}

/// Input `i` as `shape`; the model may have flattened it.
Term shaped(NodeContext& node, std::size_t i, const char* what, const Shape& shape) {
  const ValueId value = node.input(i, what);
  if (node.rank(value) != 1 || ir::element_count(shape) != node.shape(value)[0])
    check_shape(node, value, what, shape);
  return Term(node, value).reshape(shape);
}

/// The weights [rows, columns] in float32, dequantized at run time from computed inputs.
Term dequantized_weights(NodeContext& node, const BlockedWeights& w) {
  const Shape by_block{w.rows, w.blocks, w.block}, one_each{w.rows, w.blocks, 1};
  const Term bytes =
      shaped(node, 1, "B", {w.rows, w.blocks, w.block * w.bits / 8}).reshape({w.rows, w.pitch()});
  const Term numbers = unpacked_bits(node, bytes, w.bits, w.blocks * w.block);
  Term values = numbers.cast(DType::kFloat32).reshape(by_block);
  if (!node.has_input(3)) {
    values = values - static_cast<double>(w.middle());
  } else if (node.dtype(node.input(3, "zero_points")) == DType::kUInt8) {
    const Term zeros = shaped(node, 3, "zero_points", {w.rows, (w.blocks * w.bits + 7) / 8});
    values = values -
             unpacked_bits(node, zeros, w.bits, w.blocks).cast(DType::kFloat32).reshape(one_each);
  } else {
    values =
        values -
        shaped(node, 3, "zero_points", {w.rows, w.blocks}).cast(DType::kFloat32).reshape(one_each);
  }
  const Term scales = shaped(node, 2, "scales", {w.rows, w.blocks}).cast(DType::kFloat32);
  const Term all = (values * scales.reshape(one_each)).reshape({w.rows, w.blocks * w.block});
  return {node, part(node, all.value(), 1, 0, w.columns)};
}

/// A times the transpose of quantized weights: in a ScaleFormat if they are constant, else
/// dequantized in each run.
ValueId times_weights(NodeContext& node, ValueId a, const BlockedWeights& w) {
  Ints order;
  if (node.has_input(4)) order = columns_by_group(node, w);
  const auto is_constant = [&](std::size_t i) {
    return !node.has_input(i) || node.builder().constant_of(node.input(i, "")) != nullptr;
  };
  if (is_constant(1) && is_constant(2) && is_constant(3)) {
    const Tensor scales = constant_input(node, 2, "scales", w.rows * w.blocks);
    std::optional<Tensor> zeros;
    if (node.has_input(3)) zeros = zero_points(node, w);
    if (!order.empty()) {
      const ValueId columns =
          node.builder().constant(Tensor::of(DType::kInt64, {w.columns}, order));
      a = node.add("Gather", {a, columns}, {{"axis", node.rank(a) - 1}});
    }
    return scaled_matmul(node, a, w, packed_values(node, w, order), scales, zeros,
                         node.attr_int("accuracy_level", 0));
  }
  if (packing_of(node) != WeightPacking::kRows)
    node.unsupported(
        "its weights are packed for one GPU kernel and not constant; export with "
        "weight_prepacked=0");
  if (!order.empty())
    node.unsupported(
        "its weights are computed and their columns reordered (g_idx): export without reordering");
  const Term weights = dequantized_weights(node, w).cast(node.dtype(a));
  return node.add("MatMul", {a, node.transpose(weights.value(), {1, 0})});
}

/// A [.., K] times the transpose of block-quantized weights [N, K].
void matmul_nbits(NodeContext& node) {
  ValueId a = node.input(0, "A");
  const BlockedWeights w = read_weights(node);
  check_dtype(node, node.input(1, "B"), "B", {DType::kUInt8});
  const bool is_vector = node.rank(a) == 1;
  if (is_vector) a = node.reshape(a, {Dim(1), node.shape(a)[0]});
  ValueId y = times_weights(node, a, w);
  if (node.has_input(5)) {
    const ValueId bias = node.input(5, "bias");
    check_shape(node, bias, "bias", {w.rows});
    y = node.add("Add", {y, bias});
  }
  node.output(is_vector ? node.reshape(y, {Dim(w.rows)}) : y);
}

/// A [.., K] times the transpose of NVFP4 weights [N, K]: packed 4-bit floats, an e4m3 scale for
/// each block, and one global scale.
void matmul_fp4(NodeContext& node) {
  // ignores 'input_scale', which is for 4-bit activations; here they are not quantized
  ValueId a = node.input(0, "A");
  const std::int64_t block = node.attr_int("block_size", 16);
  if (block < 1 || block > kMostBlockedSize || block % 16 != 0)
    node.unsupported("block_size {}; supported are multiples of 16", block);
  const Shape packed = node.shape(node.input(1, "B"));
  if (packed.size() != 2 || !packed[0].is_constant() || !packed[1].is_constant() ||
      packed[0].value() < 1 || packed[1].value() < 1)
    node.invalid("B is {}; it must be [N, K / 2]", node.type(node.input(1, "B")));
  const std::int64_t n = packed[0].value(), k = 2 * packed[1].value(),
                     blocks = (k + block - 1) / block;
  check_dtype(node, node.input(1, "B"), "B", {DType::kUInt8});
  check_dtype(node, node.input(2, "weight_scale"), "weight_scale", {DType::kUInt8});
  check_dtype(node, node.input(3, "weight_scale_2"), "weight_scale_2", {DType::kFloat32});
  const Tensor codes = constant_input(node, 1, "B", n * k / 2),
               scales = constant_input(node, 2, "weight_scale", n * blocks),
               whole = constant_input(node, 3, "weight_scale_2", 1).reshaped({});
  const Tensor by_block = scales.reshaped({n, blocks});
  const ir::ScaledTensor weights =
      ir::scaled_rows_of(ir::float4_codes(), block, k, codes,
                         ir::apply(kFloat8OfCodes, {}, std::span(&by_block, 1)).front(),
                         std::nullopt, ir::factors_of_rows(whole, n));
  const bool is_vector = node.rank(a) == 1;
  if (is_vector) a = node.reshape(a, {Dim(1), node.shape(a)[0]});
  if (node.shape(a).back() != Dim(k))
    node.invalid("A is {}, but B has {} columns", node.type(a), k);
  ValueId y =
      node.add("MatMul",
               {a, node.builder().constant(weights.values), node.builder().constant(weights.scales),
                node.builder().constant(*weights.factors)},
               ir::product_attrs(weights.format));
  if (node.has_input(5)) {
    const ValueId bias = node.input(5, "bias");
    check_shape(node, bias, "bias", {n});
    y = node.add("Add", {y, bias});
  }
  node.output(is_vector ? node.reshape(y, {Dim(n)}) : y);
}

// ---- MatMulBnb4: 4-bit indices into a table

/// bitsandbytes' number formats: FP4 (sign, 2 bits of exponent, 1 of mantissa) and the quantiles of
/// a normal distribution, NF4 (QLoRA, appendix E).
constexpr double kBnbTables[2][16] = {
    {0, 0.0625 / 12, 8.0 / 12, 1, 4.0 / 12, 6.0 / 12, 2.0 / 12, 3.0 / 12,  //
     -0.0, -0.0625 / 12, -8.0 / 12, -1, -4.0 / 12, -6.0 / 12, -2.0 / 12, -3.0 / 12},
    {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1}};

/// A [.., K] times the transpose of weights [N, K] (or A [.., N] times the weights). They are
/// flattened, with the first number of a byte in its high nibble and a scale per block.
void matmul_bnb4(NodeContext& node) {
  // ignores 'training_mode', which concerns gradients
  const std::int64_t n = node.attr_int("N"), k = node.attr_int("K"),
                     block = node.attr_int("block_size"), type = node.attr_int("quant_type");
  if (n < 1 || k < 1 || n > kMostBlockedSize || k > kMostBlockedSize || block < 1 ||
      block > kMostBlockedSize)
    node.invalid("N {}, K {} and block_size {} are not sizes of a matrix", n, k, block);
  if (type != 0 && type != 1)
    node.invalid("attribute 'quant_type' is {}, not 0 (FP4) or 1 (NF4)", type);
  const std::int64_t count = n * k, blocks = (count + block - 1) / block, bytes = (count + 1) / 2;
  const ValueId a = node.input(0, "A"), packed = node.input(1, "B"),
                absmax = node.input(2, "absmax");
  check_dtype(node, packed, "B", {DType::kUInt8});
  if (ir::element_count(node.shape(packed)) != Dim(bytes)) check_shape(node, packed, "B", {bytes});
  check_shape(node, absmax, "absmax", {blocks});
  const Term half = Term(node, packed).reshape({bytes, 1});
  const Term numbers(
      node,
      node.concat({half.with("ShiftRight", 4).value(), half.with("BitwiseAnd", 15).value()}, 1));
  const std::span<const double> table = kBnbTables[type];
  const Term values =
      take(Term(node, node.builder().constant(ir::Tensor::from_doubles(
                          DType::kFloat32, {16}, std::vector<double>(table.begin(), table.end())))),
           {Term(node, part(node, numbers.reshape({2 * bytes}).value(), 0, 0, count))
                .cast(DType::kInt64)});
  const Term scales(node, spread_blocks(node, absmax, {count}, 0, block));
  const Term weights = (values * scales.cast(DType::kFloat32)).cast(node.dtype(a)).reshape({n, k});
  const ValueId matrix = weights.value();
  node.output(multiply_matrices(
      node, a, node.attr_int("transB", 1) != 0 ? node.transpose(matrix, {1, 0}) : matrix));
}

/// Rows of block-quantized data, dequantized.
void gather_block_quantized(NodeContext& node) {
  const ValueId data = node.input(0, "data"), indices = node.input(1, "indices"),
                scales = node.input(2, "scales");
  const std::int64_t rank = node.rank(data), block = node.attr_int("block_size", 128),
                     gathered = node.normalise_axis(node.attr_int("gather_axis", 0), rank),
                     quantized = node.normalise_axis(node.attr_int("quantize_axis", 1), rank);
  const DType type = node.dtype(data);
  if (type != DType::kUInt8 && type != DType::kInt8)
    node.unsupported("data is {}; supported are int4, uint4 and uint8", node.type(data));
  if (block < 1 || block > kMostBlockedSize)
    node.invalid("block_size {} is no size of a block", block);
  if (gathered == quantized)
    node.unsupported("it gathers along the axis of its blocks: gather along another one");
  // The importer already stores int4 and uint4 as one byte each; bytes contain numbers of `bits`
  // bits.
  const bool is_packed = !node.is_four_bit(0);
  if (is_packed && type == DType::kInt8)
    node.unsupported("data is {}; supported are int4, uint4 and uint8", node.type(data));
  const std::int64_t bits = is_packed ? node.attr_int("bits", 4) : 8;
  check_bits(node, bits);
  if (bits != 8 && (quantized != rank - 1 || gathered == rank - 1))
    node.unsupported("its bytes are not packed along the axis of its blocks");
  Shape whole = node.shape(data);
  whole.back() = whole.back() * Dim(8 / bits);
  const Dim count = whole[static_cast<std::size_t>(quantized)];
  Shape blocks = whole;
  if (!count.is_constant()) node.unsupported("data is not a constant");
  blocks[static_cast<std::size_t>(quantized)] = Dim((count.value() + block - 1) / block);
  if (node.shape(scales) != blocks)
    node.invalid("scales are {}; blocks of {} of {} need {}", node.type(scales), block, whole,
                 blocks);
  const auto rows = [&](ValueId value) {
    return Term(node, node.add("Gather", {value, indices}, {{"axis", gathered}}));
  };
  const std::int64_t axis = quantized < gathered ? quantized : quantized + node.rank(indices) - 1;
  const Term values = unpacked_bits(node, rows(data), bits, whole.back()).cast(DType::kInt32);
  const auto spread = [&](const Term& parameter) {
    return Term(node, spread_blocks(node, parameter.value(), values.shape(), axis, block));
  };
  Term difference = values;
  if (node.has_input(3)) {
    const Term zeros = unpacked_bits(node, rows(node.input(3, "zero_points")), bits, blocks.back());
    difference = values - spread(zeros.cast(DType::kInt32));
  } else if (is_packed) {
    difference = values - static_cast<double>(1 << (bits - 1));
  }
  const Term steps = spread(rows(scales)).cast(DType::kFloat32);
  node.output((difference.cast(DType::kFloat32) * steps).cast(node.dtype(scales)).value());
}

}  // namespace

const OpRows kMicrosoftQuantizedOps = {
    {"MatMulNBits", 1, matmul_nbits, "K N accuracy_level bits block_size weight_prepacked",
     kMicrosoft},
    {"MatMulBlockQuantizedFp4Weight", 1, matmul_fp4, "block_size", kMicrosoft},
    {"MatMulBnb4", 1, matmul_bnb4, "K N block_size quant_type training_mode transB", kMicrosoft},
    {"GatherBlockQuantized", 1, gather_block_quantized, "bits block_size gather_axis quantize_axis",
     kMicrosoft, Types::kFloats, FourBits::kReads},
};

}  // namespace sinter::frontend
