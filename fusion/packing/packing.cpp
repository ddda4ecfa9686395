// SPDX-License-Identifier: Apache-2.0
#include "fusion/packing/packing.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::Attr;

Attrs scan(std::int64_t axis, bool exclusive) {
  return {{"axis", axis},
          {"combine", std::string("sum")},
          {"exclusive", std::int64_t{exclusive ? 1 : 0}},
          {"reverse", std::int64_t{0}}};
}

/// The permutation that moves dimension `from` to index `to`.
Ints moved(std::size_t rank, std::size_t from, std::size_t to) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return perm;
}

}  // namespace

Packing::Packing(GraphBuilder& builder, const Graph& graph, ValueId mask, std::string symbol,
                 bool first)
    : b_(builder), graph_(graph), mask_(mask), symbol_(std::move(symbol)), first_(first) {
  const Shape& shape = graph.type(mask).shape;
  const Dim most = shape[0] * shape[1];
  Range range;
  range.max = ir::upper_bound(most, graph.ranges()).value_or(INT64_MAX);
  if (!most.is_constant()) range.symbolic_max = std::make_shared<const Dim>(most);
  b_.range(symbol_, range);
  dims_ = {shape[0], shape[1], Dim::symbol(symbol_)};
}

ValueId Packing::reshaped(ValueId value, const Shape& shape) {
  return b_.type(value).shape == shape ? value : b_.add("Reshape", {value}, {{"shape", shape}});
}

ValueId Packing::transposed(ValueId value, const Ints& perm) {
  return std::ranges::is_sorted(perm) ? value : b_.add("Transpose", {value}, {{"perm", perm}});
}

ValueId Packing::size(const Dim& dim) {
  return b_.add("Size", {}, {{"value", Shape{dim}}, {"dtype", Attr(DType::kInt64)}});
}

void Packing::find_rows() {
  if (known_) return;
  known_ = true;
  GraphBuilder::OriginScope scope(b_, {});
  const auto& [batch, sequence, tokens] = dims_;
  const ValueId mask = copies_.at(mask_);
  b_.add("TokenCount", {mask}, {{"symbol", symbol_}, {"first", std::int64_t{first_ ? 1 : 0}}});
  const auto as = [&](DType type) {
    return b_.type(mask).dtype == type ? mask : b_.add("Cast", {mask}, {{"to", Attr(type)}});
  };
  const ValueId ones = as(DType::kInt64);
  exists_ = as(DType::kBool);
  const ValueId lengths =
      b_.add("ReduceSum", {ones}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  const ValueId ends = b_.add("Scan", {lengths}, scan(0, false));
  const ValueId begins = reshaped(b_.add("Sub", {ends, lengths}), {batch, Dim(1)});
  const ValueId row = b_.add("Add", {b_.add("Scan", {ones}, scan(1, true)), begins});
  const ValueId zero = b_.scalar(DType::kInt64, 0);
  // Rows after the last token refer to the first position; their values are unused.
  const ValueId none = b_.add("Expand", {zero}, {{"shape", Shape{tokens + Dim(1)}}});
  const ValueId numbers = reshaped(b_.add("Iota", {},
                                          {{"shape", Shape{batch * sequence}},
                                           {"axis", std::int64_t{0}},
                                           {"dtype", Attr(DType::kInt64)}}),
                                   {batch, sequence});
  const ValueId to = b_.add("Where", {exists_, row, size(tokens)});
  order_ =
      b_.add("Slice", {b_.add("Scatter", {none, numbers, to}, {{"distinct", std::int64_t{1}}})},
             {{"starts", Shape{Dim(0)}}, {"steps", Ints{1}}, {"shape", Shape{tokens}}});
  position_ = b_.add("Mod", {order_, size(sequence)});
  sequence_ = b_.add("Div", {order_, size(sequence)});
  row_ = b_.add("Where", {exists_, row, zero});
  bounds_ = b_.add("Concat", {reshaped(zero, {Dim(1)}), ends}, {{"axis", std::int64_t{0}}});
}

ValueId Packing::bounds() {
  find_rows();
  return bounds_;
}

void Packing::set_packed(ValueId value, const TokenAxes& axes, ValueId packed) {
  axes_.insert_or_assign(value, axes);
  packed_.insert_or_assign({value, axes.batch, axes.sequence}, packed);
}

const TokenAxes* Packing::axes_of(ValueId value) const {
  const auto found = axes_.find(value);
  return found == axes_.end() ? nullptr : &found->second;
}

ValueId Packing::packed(ValueId value, const TokenAxes& axes) {
  const std::tuple key{value, axes.batch, axes.sequence};
  if (const auto found = packed_.find(key); found != packed_.end()) return found->second;
  if (axes_of(value) != nullptr)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a value of its is read by other dimensions than those of the batch "
                            "and the sequence: {}",
                            to_string(graph_.type(value))));
  find_rows();
  const ValueId result = by_tokens(value, axes);
  packed_.emplace(key, result);
  return result;
}

ValueId Packing::by_tokens(ValueId value, const TokenAxes& axes) {
  const Node* node = graph_.producer(value);
  const Shape& shape = graph_.type(value).shape;
  const auto is_one = [&](int axis) { return axis < 0 || shape[dimension(axis)] == Dim(1); };
  if (node == nullptr || is_one(axes.batch) || is_one(axes.sequence)) return gathered(value, axes);
  const auto operands = operand_axes(graph_, *node, axes, dims_);
  if (!operands) return gathered(value, axes);
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < node->inputs.size(); ++i)
    inputs.push_back((*operands)[i] ? packed(node->inputs[i], *(*operands)[i])
                                    : copies_.at(node->inputs[i]));
  return add_packed(b_, graph_, *node, axes, inputs, dims_);
}

ValueId Packing::gathered(ValueId value, const TokenAxes& axes) {
  const ValueId copy = copies_.at(value);
  const Node* node = graph_.producer(value);
  GraphBuilder::OriginScope scope(b_, node == nullptr ? std::vector<std::string>() : node->origins);
  const Shape& shape = graph_.type(value).shape;
  const Shape result = packed_shape(shape, axes, dims_);
  const auto is_one = [&](int axis) { return axis < 0 || shape[dimension(axis)] == Dim(1); };
  const auto along = [&](ValueId from, ValueId indices, int axis) {
    return b_.add("Gather", {from, indices}, {{"axis", std::int64_t{axis}}});
  };
  if (is_one(axes.batch) && is_one(axes.sequence)) return reshaped(copy, result);
  if (axes.is_flat()) return along(copy, order_, axes.sequence);
  if (is_one(axes.batch)) return reshaped(along(copy, position_, axes.sequence), result);
  const auto unfit = [&] {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("no way to pack {} is known", to_string(graph_.type(value))));
  };
  if (axes.merged != Dim(1) || axes.sequence < 0) unfit();
  if (is_one(axes.sequence)) {
    Shape without = shape;
    without[dimension(axes.batch)] = dims_.tokens;
    without.erase(without.begin() + axes.sequence);
    const int from = axes.batch - (axes.sequence < axes.batch ? 1 : 0);
    return transposed(reshaped(along(copy, sequence_, axes.batch), without),
                      moved(without.size(), dimension(from),
                            static_cast<std::size_t>(packed_axis(axes, axes.sequence))));
  }
  // Moves batch and sequence to the front, as one dimension.
  const std::size_t rank = shape.size();
  Ints perm = moved(rank, dimension(axes.sequence), 0);
  const auto batch = std::ranges::find(perm, std::int64_t{axes.batch});
  std::rotate(perm.begin(), batch, batch + 1);
  Shape flat{dims_.batch * dims_.sequence};
  for (std::size_t d = 2; d < rank; ++d) flat.push_back(shape[static_cast<std::size_t>(perm[d])]);
  return transposed(along(reshaped(transposed(copy, perm), flat), order_, 0),
                    moved(rank - 1, 0, static_cast<std::size_t>(packed_axis(axes, axes.sequence))));
}

ValueId Packing::padded(ValueId value, const TensorType& type, const TokenAxes& axes) {
  find_rows();
  GraphBuilder::OriginScope scope(b_, {});  // values shared by all belong to no node
  const ValueId packed = packed_.at({value, axes.batch, axes.sequence});
  const std::size_t rank = type.shape.size();
  // Expands rows to [batch, sequence] in place, then moves the batch.
  const auto axis = packed_axis(axes, axes.sequence);
  ValueId all = b_.add("Gather", {packed, row_}, {{"axis", axis}});
  Shape flags(b_.type(all).shape.size(), Dim(1));
  flags[static_cast<std::size_t>(axis)] = dims_.batch;
  flags[static_cast<std::size_t>(axis) + 1] = dims_.sequence;
  all = b_.add("Where", {reshaped(exists_, flags), all, b_.scalar(type.dtype, 0)});
  if (axes.is_flat()) return reshaped(all, type.shape);
  // If other dimensions are merged into the batch, there is one dimension more than the value has.
  all = transposed(all, moved(flags.size(), static_cast<std::size_t>(axis), dimension(axes.batch)));
  if (flags.size() > rank) return reshaped(all, type.shape);
  return all;
}

}  // namespace sinter::fusion
