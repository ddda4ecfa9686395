// Operators of com.microsoft on weights of few bits, whose blocks of elements share a scale.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/op_table.h"
#include "frontend/ops/products.h"
#include "frontend/ops/term.h"
#include "ir/quantised.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Tensor;
using ir::ValueId;

constexpr std::int64_t kMostSize = 1 << 24;

/// Number `i` of a row of `bits`-bit numbers, the first ones in the low bits of each byte.
int packed_number(std::span<const std::byte> row, std::int64_t i, std::int64_t bits) {
  const std::int64_t bit = i * bits;
  const int byte = std::to_integer<int>(row[static_cast<std::size_t>(bit / 8)]);
  return (byte >> (bit % 8)) & ((1 << bits) - 1);
}

struct BlockedWeights {
  std::int64_t rows, columns, bits, block, blocks;
  /// The middle of the numbers' range, which stands for zero unless the model says otherwise.
  int middle() const { return 1 << (bits - 1); }
};

const Tensor& constant_input(NodeContext& node, std::size_t i, const char* what,
                             std::int64_t elements) {
  const Tensor* tensor = node.builder().constant_of(node.input(i, what));
  if (tensor == nullptr)
    node.unsupported(fmt::format(
        "input {} ({}) is not a constant; quantised weights are packed at compile time", i, what));
  if (tensor->element_count() != elements)
    node.invalid(fmt::format("input {} ({}) is {}; it must have {} elements", i, what,
                             ir::to_string(tensor->type()), elements));
  return *tensor;
}

/// The numbers, less the middle of their range, as QuantMatMul has them; columns in this order, if
/// there is one.
Tensor packed_values(NodeContext& node, const BlockedWeights& w,
                     const std::vector<std::int64_t>& order) {
  const std::int64_t pitch = w.blocks * (w.block * w.bits / 8);
  const Tensor& packed = constant_input(node, 1, "B", w.rows * pitch);
  if (packed.dtype() != DType::kUInt8)
    node.unsupported("B is " + ir::to_string(packed.type()) + ", not uint8");
  if (w.bits == 4 && 2 * pitch == w.columns && order.empty())
    return packed.reshaped({w.rows, pitch});
  std::vector<std::int8_t> values;
  values.reserve(static_cast<std::size_t>(w.rows * w.columns));
  for (std::int64_t row = 0; row < w.rows; ++row) {
    const auto bytes = packed.bytes().subspan(static_cast<std::size_t>(row * pitch),
                                              static_cast<std::size_t>(pitch));
    for (std::int64_t i = 0; i < w.columns; ++i) {
      const std::int64_t column = order.empty() ? i : order[static_cast<std::size_t>(i)];
      values.push_back(static_cast<std::int8_t>(packed_number(bytes, column, w.bits) - w.middle()));
    }
  }
  return w.bits == 8 ? Tensor::of(DType::kInt8, {w.rows, w.columns}, values)
                     : ir::pack_four_bits(values, w.rows, w.columns);
}

/// Packed zero points as int8, others as float32; less the middle.
Tensor zero_points(NodeContext& node, const BlockedWeights& w) {
  const bool is_packed = node.dtype(node.input(3, "zero_points")) == DType::kUInt8;
  const std::int64_t pitch = is_packed ? (w.blocks * w.bits + 7) / 8 : w.blocks;
  const Tensor& zeros = constant_input(node, 3, "zero_points", w.rows * pitch);
  if (!is_packed && !is_float(zeros.dtype()))
    node.unsupported("zero_points are " + ir::to_string(zeros.type()) +
                     "; supported are packed uint8 and floats");
  std::vector<double> values;
  for (std::int64_t row = 0; row < w.rows; ++row)
    for (std::int64_t b = 0; b < w.blocks; ++b)
      values.push_back(
          (is_packed ? packed_number(zeros.bytes().subspan(static_cast<std::size_t>(row * pitch)),
                                     b, w.bits)
                     : zeros.at(row * w.blocks + b)) -
          w.middle());
  return Tensor::from_doubles(is_packed ? DType::kInt8 : DType::kFloat32, {w.rows, w.blocks},
                              values);
}

/// Input g_idx says to which group of scales each column belongs. Returns the columns in the order
/// of their groups, which has to fill blocks; nothing if they lie so.
std::vector<std::int64_t> columns_by_group(NodeContext& node, const BlockedWeights& w) {
  const Tensor& groups = constant_input(node, 4, "g_idx", w.columns);
  const auto group_of = [&](std::int64_t column) {
    return static_cast<std::int64_t>(groups.at(column));
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(w.columns));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t left, std::int64_t right) {
    return group_of(left) < group_of(right);
  });
  for (std::int64_t i = 0; i < w.columns; ++i)
    if (const std::int64_t column = order[static_cast<std::size_t>(i)];
        group_of(column) != i / w.block)
      node.unsupported(
          fmt::format("input g_idx puts column {} into group {}, which does not have {} columns as "
                      "its block: export with groups of one size",
                      column, group_of(column), w.block));
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

/// A [.., K] times the transpose of block-quantised weights [N, K].
void matmul_nbits(NodeContext& node) {
  // 'accuracy_level' is not read: it says how rough A may become; here it stays as it is
  ValueId a = node.input(0, "A");
  BlockedWeights w{node.attr_int("N"), node.attr_int("K"), node.attr_int("bits", 4),
                   node.attr_int("block_size", 32), 0};
  if (const std::int64_t packing = node.attr_int("weight_prepacked", 0); packing != 0)
    node.unsupported(
        fmt::format("its weights are packed for one GPU kernel (weight_prepacked={}); export with "
                    "weight_prepacked=0",
                    packing));
  if (w.rows < 1 || w.columns < 1 || w.rows > kMostSize || w.columns > kMostSize || w.block < 1 ||
      w.block > kMostSize || w.block % 8 != 0)
    node.invalid(fmt::format("N {}, K {} and block_size {} are not sizes of a matrix", w.rows,
                             w.columns, w.block));
  if (w.bits != 2 && w.bits != 4 && w.bits != 8)
    node.unsupported(fmt::format("weights of {} bits; supported are 2, 4 and 8", w.bits));
  w.blocks = (w.columns + w.block - 1) / w.block;
  const bool is_vector = node.rank(a) == 1;
  if (is_vector) a = node.reshape(a, {Dim(1), node.shape(a)[0]});
  std::vector<std::int64_t> order;
  if (node.has_input(4)) order = columns_by_group(node, w);
  if (!order.empty()) {
    const ValueId columns = node.builder().constant(Tensor::of(DType::kInt64, {w.columns}, order));
    a = node.add("Gather", {a, columns}, {{"axis", node.rank(a) - 1}});
  }
  const Tensor scales = constant_input(node, 2, "scales", w.rows * w.blocks);
  std::vector<ValueId> inputs{a, node.builder().constant(packed_values(node, w, order)),
                              node.builder().constant(scales.reshaped({w.rows, w.blocks}))};
  if (node.has_input(3)) inputs.push_back(node.builder().constant(zero_points(node, w)));
  ValueId y = node.add("QuantMatMul", std::move(inputs),
                       {{"bits", std::int64_t{w.bits == 8 ? 8 : 4}},
                        {"group", w.blocks == 1 ? std::int64_t{0} : w.block}});
  if (node.has_input(5)) y = node.add("Add", {y, node.input(5, "bias")});
  node.output(is_vector ? node.reshape(y, {Dim(w.rows)}) : y);
}

/// The numbers of `x` [.., n], bytes of 8 / `bits` each, as [.., count].
Term unpacked(NodeContext& node, const Term& x, std::int64_t bits, const Dim& count) {
  if (bits == 8) return x;
  const std::int64_t each = 8 / bits;
  Shape split = x.shape(), merged = split, wanted = split;
  split.emplace_back(1);
  merged.back() = merged.back() * Dim(each);
  wanted.back() = count;
  const Term shifts = iota(node, Dim(each), split.size() - 1, split.size(), DType::kUInt8) *
                      static_cast<double>(bits);
  const Term all = x.reshape(split)
                       .with("ShiftRight", shifts)
                       .with("BitwiseAnd", static_cast<double>((1 << bits) - 1))
                       .reshape(merged);
  if (merged == wanted) return all;
  return {node, node.add("Slice", {all.value()},
                         {{"starts", std::vector<Dim>(wanted.size(), Dim(0))},
                          {"steps", std::vector<std::int64_t>(wanted.size(), 1)},
                          {"shape", wanted}})};
}

/// Rows of block-quantised data, dequantised.
void gather_block_quantized(NodeContext& node) {
  const ValueId data = node.input(0, "data"), indices = node.input(1, "indices"),
                scales = node.input(2, "scales");
  const std::int64_t rank = node.rank(data), block = node.attr_int("block_size", 128),
                     gathered = node.normalise_axis(node.attr_int("gather_axis", 0), rank),
                     quantised = node.normalise_axis(node.attr_int("quantize_axis", 1), rank);
  const DType type = node.dtype(data);
  if (type != DType::kUInt8 && type != DType::kInt8)
    node.unsupported("data is " + ir::to_string(node.type(data)) +
                     "; supported are int4, uint4 and uint8");
  if (block < 1 || block > kMostSize)
    node.invalid(fmt::format("block_size {} is no size of a block", block));
  if (gathered == quantised)
    node.unsupported("it gathers along the axis of its blocks: gather along another one");
  // Of int4 and uint4 the importer holds a byte each already; bytes hold what `bits` says.
  const bool is_packed = !node.is_four_bit(0);
  if (is_packed && type == DType::kInt8)
    node.unsupported("data is " + ir::to_string(node.type(data)) +
                     "; supported are int4, uint4 and uint8");
  const std::int64_t bits = is_packed ? node.attr_int("bits", 4) : 8;
  if (bits != 2 && bits != 4 && bits != 8)
    node.unsupported(fmt::format("data of {} bits; supported are 2, 4 and 8", bits));
  if (bits != 8 && (quantised != rank - 1 || gathered == rank - 1))
    node.unsupported("its bytes are not packed along the axis of its blocks");
  Shape whole = node.shape(data);
  whole.back() = whole.back() * Dim(8 / bits);
  const Dim count = whole[static_cast<std::size_t>(quantised)];
  Shape blocks = whole;
  if (!count.is_constant()) node.unsupported("data is not a constant");
  blocks[static_cast<std::size_t>(quantised)] = Dim((count.value() + block - 1) / block);
  if (node.shape(scales) != blocks)
    node.invalid(fmt::format("scales are {}; blocks of {} of {} need {}",
                             ir::to_string(node.type(scales)), block, ir::to_string(whole),
                             ir::to_string(blocks)));
  const auto rows = [&](ValueId value) {
    return Term(node, node.add("Gather", {value, indices}, {{"axis", gathered}}));
  };
  const std::int64_t axis = quantised < gathered ? quantised : quantised + node.rank(indices) - 1;
  const Term values = unpacked(node, rows(data), bits, count).cast(DType::kInt32);
  const auto spread = [&](const Term& parameter) {
    return Term(node, spread_blocks(node, parameter.value(), values.shape(), axis, block));
  };
  Term difference = values;
  if (node.has_input(3)) {
    const Term zeros = unpacked(node, rows(node.input(3, "zero_points")), bits,
                                blocks[static_cast<std::size_t>(quantised)]);
    difference = values - spread(zeros.cast(DType::kInt32));
  } else if (is_packed) {
    difference = values - static_cast<double>(1 << (bits - 1));
  }
  const Term steps = spread(rows(scales)).cast(DType::kFloat32);
  node.output((difference.cast(DType::kFloat32) * steps).cast(node.dtype(scales)).value());
}

constexpr OpRow kMicrosoftQuantizedOps[] = {
    {"MatMulNBits", 1, matmul_nbits, "K N accuracy_level bits block_size weight_prepacked",
     kMicrosoft},
    {"GatherBlockQuantized", 1, gather_block_quantized, "bits block_size gather_axis quantize_axis",
     kMicrosoft, Types::kFloats, FourBits::kReads},
};

}  // namespace

std::span<const OpRow> microsoft_quantized_ops() { return kMicrosoftQuantizedOps; }

}  // namespace sinter::frontend
