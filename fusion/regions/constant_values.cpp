// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/constant_values.h"

#include <algorithm>
#include <cstring>

#include "fusion/transforms.h"
#include "ir/parallel.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

bool all_constant(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& dim) { return dim.is_constant(); });
}

bool is_concrete(const Node& node) {
  return std::ranges::all_of(node.attrs.values(), [](const auto& attr) {
    const auto* dims = std::get_if<std::vector<Dim>>(&attr.second);
    return dims == nullptr || all_constant(*dims);
  });
}

}  // namespace

ConstantValues::ConstantValues(const Graph& graph)
    : graph_(graph), known_(graph.values().size(), false) {
  for (std::size_t i = 0; i < graph.values().size(); ++i)
    known_[i] = graph.values()[i].constant != nullptr;
  for (const Node& node : graph.nodes()) {
    const bool from_nothing = node.inputs.empty() && node.op->generate() == nullptr;
    const bool known = !node.body && !from_nothing && is_concrete(node) &&
                       std::ranges::all_of(node.inputs, [&](ValueId v) { return knows(v); }) &&
                       std::ranges::all_of(node.outputs, [&](ValueId v) {
                         return all_constant(graph.type(v).shape);
                       });
    for (const ValueId output : node.outputs) known_[output.position()] = known;
  }
}

const Tensor& ConstantValues::tensor(ValueId value) {
  if (const auto& constant = graph_.value(value).constant) return *constant;
  if (const auto found = computed_.find(value); found != computed_.end()) return found->second;
  const Node& node = *graph_.producer(value);
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(tensor(input));
  std::vector<Tensor> results = ir::evaluate_op(*node.op, node.attrs, inputs);
  for (std::size_t i = 0; i < results.size(); ++i)
    computed_[node.outputs[i]] = std::move(results[i]);
  return computed_.at(value);
}

namespace {

/// In strips, and in blocks of one cache line of rows, so that lines of both matrices stay in the
/// cache and the result's are written once.
template <std::size_t kSize>
void transpose(const std::byte* from, std::size_t rows, std::size_t columns, std::byte* to,
               std::size_t pitch) {
  constexpr std::size_t kStrip = 64, kRows = 64 / kSize;
  ir::for_each_range(columns, kStrip, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = 0; row < rows; row += kRows) {
      const std::size_t end = std::min(rows, row + kRows);
      for (std::size_t column = first; column < last; ++column)
        for (std::size_t r = row; r < end; ++r)
          std::memcpy(to + (column * pitch + r) * kSize, from + (r * columns + column) * kSize,
                      kSize);
    }
  });
}

}  // namespace

void write_transposed(std::span<const std::byte> from, std::size_t rows, std::size_t columns,
                      std::size_t size, std::byte* to, std::size_t pitch) {
  switch (size) {
    case 1: return transpose<1>(from.data(), rows, columns, to, pitch);
    case 2: return transpose<2>(from.data(), rows, columns, to, pitch);
    case 4: return transpose<4>(from.data(), rows, columns, to, pitch);
    default: return transpose<8>(from.data(), rows, columns, to, pitch);
  }
}

const ir::Derivation kTransposed = {
    "transposed",
    [](const Attrs&, std::span<const Tensor> inputs) { return ir::has_inputs(inputs, 1, 2); },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const Tensor& matrix = inputs[0];
      return std::pair(matrix.dtype(), Ints{matrix.shape()[1], matrix.shape()[0]});
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const Tensor& matrix = inputs[0];
      const ir::HeldBytes from = matrix.hold();
      std::vector<std::byte> bytes(from.bytes.size());
      const auto rows = static_cast<std::size_t>(matrix.shape()[0]);
      write_transposed(from.bytes, rows, static_cast<std::size_t>(matrix.shape()[1]),
                       size_of(matrix.dtype()), bytes.data(), rows);
      return bytes;
    }};

Tensor transposed(const Tensor& matrix) {
  return ir::derive(kTransposed, {}, std::span(&matrix, 1));
}

}  // namespace sinter::fusion
