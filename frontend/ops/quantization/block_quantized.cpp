// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/quantization/block_quantized.h"

#include <algorithm>

#include "frontend/transforms.h"
#include "ir/scale_format.h"
#include "ir/scaled_rows.h"

namespace sinter::frontend {

using ir::Tensor;

int packed_number(std::span<const std::byte> row, std::int64_t i, std::int64_t bits) {
  const std::int64_t bit = i * bits;
  const int byte = std::to_integer<int>(row[static_cast<std::size_t>(bit / 8)]);
  return (byte >> (bit % 8)) & ((1 << bits) - 1);
}

namespace {

Tensor unpacked_less_middle(std::span<const std::byte> packed, const BlockedWeights& w,
                            std::span<const std::int64_t> order) {
  std::vector<std::int8_t> values;
  values.reserve(static_cast<std::size_t>(w.rows * w.columns));
  for (std::int64_t row = 0; row < w.rows; ++row) {
    const auto bytes = packed.subspan(static_cast<std::size_t>(row * w.pitch()),
                                      static_cast<std::size_t>(w.pitch()));
    for (std::int64_t i = 0; i < w.columns; ++i) {
      const std::int64_t column = order.empty() ? i : order[static_cast<std::size_t>(i)];
      values.push_back(static_cast<std::int8_t>(packed_number(bytes, column, w.bits) - w.middle()));
    }
  }
  return w.bits == 8 ? Tensor::of(DType::kInt8, {w.rows, w.columns}, values)
                     : ir::pack_four_bits(values, w.rows, w.columns);
}

ir::Attrs attributes_of(const BlockedWeights& w) {
  return {{"bits", w.bits},
          {"block", w.block},
          {"blocks", w.blocks},
          {"columns", w.columns},
          {"rows", w.rows}};
}

BlockedWeights blocked_weights(const ir::Attrs& attrs) {
  return {attrs.get_int("rows"), attrs.get_int("columns"), attrs.get_int("bits"),
          attrs.get_int("block"), attrs.get_int("blocks")};
}

/// Whether the attributes describe valid weights.
bool are_sizes(const ir::Attrs& attrs) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  const BlockedWeights w = blocked_weights(attrs);
  const auto is_size = [](std::int64_t size) { return size >= 0 && size <= kMost; };
  return is_size(w.rows) && is_size(w.columns) && is_size(w.block) && is_size(w.blocks) &&
         (w.bits == 2 || w.bits == 4 || w.bits == 8) && w.block * w.bits % 8 == 0 &&
         w.columns <= w.block * w.blocks && w.block * w.blocks <= kMost;
}

}  // namespace

const ir::Transform kScaledValues = {
    "quant_matmul_values",
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      if (!are_sizes(attrs) || !ir::has_inputs(inputs, 1)) return false;
      const BlockedWeights w = blocked_weights(attrs);
      const Ints& order = attrs.get_ints("order");
      return (order.empty() || std::ssize(order) == w.columns) &&
             std::ranges::all_of(order,
                                 [&](auto at) { return at >= 0 && at < w.block * w.blocks; }) &&
             w.rows * w.pitch() <= static_cast<std::int64_t>(inputs[0].byte_count());
    },
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      return std::vector{
          unpacked_less_middle(inputs[0].bytes(), blocked_weights(attrs), attrs.get_ints("order"))};
    }};

Tensor scaled_values(const Tensor& packed, const BlockedWeights& w, const Ints& order) {
  ir::Attrs attrs = attributes_of(w);
  attrs.set("order", order);
  return ir::apply(kScaledValues, attrs, std::span(&packed, 1)).front();
}

const ir::Transform kScaledZeros = {
    "quant_matmul_zeros",
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      if (!are_sizes(attrs) || !ir::has_inputs(inputs, 1)) return false;
      const BlockedWeights w = blocked_weights(attrs);
      const std::int64_t pitch =
          inputs[0].dtype() == DType::kUInt8 ? (w.blocks * w.bits + 7) / 8 : w.blocks;
      return inputs[0].element_count() >= w.rows * pitch;
    },
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      const BlockedWeights w = blocked_weights(attrs);
      const Tensor& zeros = inputs[0];
      const bool is_packed = zeros.dtype() == DType::kUInt8;
      const auto pitch = static_cast<std::size_t>((w.blocks * w.bits + 7) / 8);
      std::vector<double> values;
      for (std::int64_t row = 0; row < w.rows; ++row)
        for (std::int64_t b = 0; b < w.blocks; ++b)
          values.push_back((is_packed ? packed_number(zeros.bytes().subspan(
                                                          static_cast<std::size_t>(row) * pitch),
                                                      b, w.bits)
                                      : zeros.at(row * w.blocks + b)) -
                           w.middle());
      return std::vector{Tensor::from_doubles(is_packed ? DType::kInt8 : DType::kFloat32,
                                              {w.rows, w.blocks}, values)};
    }};

Tensor scaled_zeros(const Tensor& zeros, const BlockedWeights& w) {
  return ir::apply(kScaledZeros, attributes_of(w), std::span(&zeros, 1)).front();
}

ValueId scaled_matmul(NodeContext& node, ValueId x, const BlockedWeights& w, const Tensor& values,
                      const Tensor& scales, const std::optional<Tensor>& zero_points,
                      std::int64_t level) {
  ir::GraphBuilder& builder = node.builder();
  std::vector<ValueId> inputs{x, builder.constant(values),
                              builder.constant(scales.reshaped({w.rows, w.blocks}))};
  if (zero_points) inputs.push_back(builder.constant(*zero_points));
  const ir::ScaledTensor weights = ir::scaled_rows_of(
      w.bits == 8 ? 8 : 4, w.blocks == 1 ? 0 : w.block, w.columns, values, scales, zero_points);
  ir::Attrs attrs = ir::product_attrs(weights.format);
  constexpr std::int64_t kRounded = 4;
  if (level == kRounded) attrs.set(ir::kMayRound, std::int64_t{1});
  return node.add("MatMul", std::move(inputs), std::move(attrs));
}

Term unpacked_bits(NodeContext& node, const Term& x, std::int64_t bits, const Dim& count) {
  if (bits == 8) return x;
  const std::int64_t each = 8 / bits;
  Shape split = x.shape(), merged = split, wanted = split;
  split.emplace_back(1);
  wanted.back() = count;
  merged.back() = merged.back() * Dim(each);
  const Term shifts = iota(node, Dim(each), split.size() - 1, split.size(), DType::kUInt8) *
                      static_cast<double>(bits);
  const Term all = x.reshape(split)
                       .with("ShiftRight", shifts)
                       .with("BitwiseAnd", static_cast<double>((1 << bits) - 1))
                       .reshape(merged);
  if (merged == wanted) return all;
  return {node, node.add("Slice", {all.value()},
                         {{"starts", std::vector<Dim>(wanted.size(), Dim(0))},
                          {"steps", Ints(wanted.size(), 1)},
                          {"shape", wanted}})};
}

void check_bits(const NodeContext& node, std::int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8)
    node.unsupported("numbers of {} bits; supported are 2, 4 and 8", bits);
}

BlockedWeights blocked_weights(const NodeContext& node, std::int64_t rows, std::int64_t block) {
  BlockedWeights w{rows, node.attr_int("K"), node.attr_int("bits", 4),
                   node.attr_int("block_size", block), 0};
  if (w.rows < 1 || w.columns < 1 || w.rows > kMostBlockedSize || w.columns > kMostBlockedSize ||
      w.block < 8 || w.block > kMostBlockedSize || w.block % 8 != 0)
    node.invalid("N {}, K {} and block_size {} are not sizes of a matrix", w.rows, w.columns,
                 w.block);
  check_bits(node, w.bits);
  w.blocks = (w.columns + w.block - 1) / w.block;
  return w;
}

}  // namespace sinter::frontend
