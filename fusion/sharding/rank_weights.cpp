// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/rank_weights.h"

#include <cstring>

#include "fusion/transforms.h"
#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

std::size_t product(std::span<const std::int64_t> sizes) {
  std::size_t result = 1;
  for (const std::int64_t size : sizes) result *= static_cast<std::size_t>(size);
  return result;
}

/// Where a rank's slice starts along its one dimension that is not whole.
struct Part {
  std::int64_t axis = 0, start = 0, size = 0;
};

/// The part of a constant that `node` is for `rank`; nothing if it is no such slice.
std::optional<Part> part_of_constant(const Node& node, const Ints& shape, std::int64_t rank) {
  if (node.op->name != "Slice") return std::nullopt;
  const ir::Bindings bindings{{std::string(ir::kRankSymbol), rank}};
  const auto &starts = node.attrs.get_dims("starts"), &sizes = node.attrs.get_dims("shape");
  std::optional<Part> part;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (node.attrs.get_ints("steps")[d] != 1 || !sizes[d].is_constant()) return std::nullopt;
    if (starts[d] == Dim(0) && sizes[d] == Dim(shape[d])) continue;
    const auto symbols = starts[d].symbols();
    if (part || symbols.size() != 1 || symbols[0] != ir::kRankSymbol) return std::nullopt;
    part = Part{static_cast<std::int64_t>(d), starts[d].evaluate(bindings), sizes[d].value()};
  }
  return part;
}

}  // namespace

const ir::Derivation kPart = {
    "part",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_inputs(inputs, 1)) return false;
      const Ints& shape = inputs[0].shape();
      const std::int64_t axis = attrs.get_int("axis"), start = attrs.get_int("start"),
                         size = attrs.get_int("size");
      return axis >= 0 && axis < std::ssize(shape) && start >= 0 && size >= 0 &&
             start <= shape[static_cast<std::size_t>(axis)] &&
             size <= shape[static_cast<std::size_t>(axis)] - start;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      Ints shape = inputs[0].shape();
      shape[static_cast<std::size_t>(attrs.get_int("axis"))] = attrs.get_int("size");
      return std::pair(inputs[0].dtype(), shape);
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Tensor& whole = inputs[0];
      const std::span<const std::int64_t> shape = whole.shape();
      const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
      const std::size_t outer = product(shape.first(axis)),
                        inner = product(shape.subspan(axis + 1)) * size_of(whole.dtype());
      const std::size_t start = static_cast<std::size_t>(attrs.get_int("start")) * inner,
                        size = static_cast<std::size_t>(attrs.get_int("size")) * inner,
                        pitch = static_cast<std::size_t>(shape[axis]) * inner;
      std::vector<std::byte> bytes(outer * size);
      const ir::HeldBytes from = whole.hold();
      for (std::size_t i = 0; i < outer && size > 0; ++i)
        std::memcpy(bytes.data() + i * size, from.bytes.data() + i * pitch + start, size);
      return bytes;
    }};

Graph with_weights_of(const Graph& graph, std::int64_t rank) {
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId>) -> std::optional<std::vector<ValueId>> {
        if (node.inputs.empty() || !old.is_constant(node.inputs[0])) return std::nullopt;
        const Value& whole = old.value(node.inputs[0]);
        const auto part = part_of_constant(node, whole.constant->shape(), rank);
        if (!part) return std::nullopt;
        return std::vector{builder.constant(
            ir::derive(kPart, {{"axis", part->axis}, {"start", part->start}, {"size", part->size}},
                       std::span(whole.constant.get(), 1)),
            whole.name)};
      });
}

}  // namespace sinter::fusion
