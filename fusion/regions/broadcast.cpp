// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/broadcast.h"

#include <algorithm>

#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

std::optional<Tensor> before_reshape(const Shape& from, const Shape& to, const Tensor& constant) {
  const auto runs = reshape_runs(from, to);
  if (!runs) return std::nullopt;
  const Ints& own = constant.shape();
  std::vector<Dim> expanded;
  Ints result;
  for (const ReshapeRun& run : *runs) {
    const auto begin = own.begin() + static_cast<std::ptrdiff_t>(run.to);
    const auto end = own.begin() + static_cast<std::ptrdiff_t>(run.to_end);
    const bool broadcasts = std::all_of(begin, end, [](auto dim) { return dim == 1; });
    for (std::size_t d = run.to; d < run.to_end; ++d) {
      if (!broadcasts && !to[d].is_constant()) return std::nullopt;
      expanded.push_back(broadcasts ? Dim(1) : to[d]);
    }
    for (std::size_t d = run.from; d < run.from_end; ++d) {
      if (!broadcasts && !from[d].is_constant()) return std::nullopt;
      result.push_back(broadcasts ? 1 : from[d].value());
    }
  }
  const Tensor inputs[] = {constant};
  return ir::evaluate_op(ir::get_op("Expand"), {{"shape", std::move(expanded)}}, inputs)
      .at(0)
      .reshaped(std::move(result));
}

}  // namespace

Ints inverse(const Ints& perm) {
  Ints result(perm.size());
  for (std::size_t d = 0; d < perm.size(); ++d)
    result[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
  return result;
}

std::optional<std::vector<ReshapeRun>> reshape_runs(const Shape& from, const Shape& to) {
  std::vector<ReshapeRun> runs;
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    ReshapeRun run{i, i + 1, j, j + 1};
    Dim left = from[i], right = to[j];
    while (!(left == right)) {
      const bool grow_right = ir::divide_exactly(left, right).has_value();
      if (grow_right && run.to_end < to.size())
        right *= to[run.to_end++];
      else if (!grow_right && run.from_end < from.size())
        left *= from[run.from_end++];
      else
        return std::nullopt;
    }
    i = run.from_end;
    j = run.to_end;
    runs.push_back(run);
  }
  // The remaining dimensions have size 1. New ones belong to the preceding dimension.
  for (; i < from.size(); ++i) runs.push_back({i, i + 1, j, j});
  if (runs.empty() && j < to.size()) runs.push_back({0, 0, 0, 0});
  if (!runs.empty()) runs.back().to_end = to.size();
  return runs;
}

const Tensor* broadcast_constant(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  while (node != nullptr && node->op->name == "Expand") {
    value = node->inputs[0];
    node = graph.producer(value);
  }
  return graph.value(value).constant.get();
}

std::optional<Tensor> with_rank(const Tensor& tensor, std::size_t rank) {
  Ints shape = tensor.shape();
  if (shape.size() > rank) return std::nullopt;
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return tensor.reshaped(std::move(shape));
}

std::optional<Tensor> before_view(const Graph& graph, const Node& view, const Tensor& constant) {
  if (view.op->name == "Reshape")
    return before_reshape(graph.type(view.inputs[0]).shape, graph.type(view.outputs[0]).shape,
                          constant);
  const Tensor inputs[] = {constant};
  const Ints back = inverse(view.attrs.get_ints("perm"));
  return ir::evaluate_op(*view.op, {{"perm", back}}, inputs).at(0);
}

}  // namespace sinter::fusion
