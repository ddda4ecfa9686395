#include "fusion/patterns/positions.h"

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::ValueId;

std::optional<Dim> of_sequence(const ir::Tensor& constant, std::span<const Dim> index) {
  const std::int64_t count = constant.element_count();
  constexpr std::int64_t kLongest = 1 << 20;
  if (count < 1 || count > kLongest) return std::nullopt;
  const std::int64_t first = constant.at_int(0);
  for (std::int64_t i = 1; i < count; ++i)
    if (constant.at_int(i) != first + i) return std::nullopt;
  Dim position = 0;
  const ir::Shape shape(constant.shape().begin(), constant.shape().end());
  const auto strides = ir::contiguous_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) position = position + index[d] * strides[d];
  return position + Dim(first);
}

}  // namespace

std::optional<Dim> number_at(const Graph& graph, ValueId value, std::span<const Dim> index,
                             const ir::Ranges& ranges) {
  const ir::TracedView view = ir::trace_view(graph, value, index, ranges);
  if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return std::nullopt;
  const ir::TracedSource& source = view.sources[0];
  if (is_float(graph.type(source.source).dtype)) return std::nullopt;
  if (const auto& constant = graph.value(source.source).constant)
    return of_sequence(*constant, source.index);
  const Node* node = graph.producer(source.source);
  if (node == nullptr || node->op->generate() == nullptr) return std::nullopt;
  return node->op->generate()->value(node->attrs, source.index);
}

std::vector<Dim> operand_index(const ir::Shape& shape, std::span<const Dim> index) {
  std::vector<Dim> result(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == Dim(1)) result[d] = Dim(0);
  return result;
}

}  // namespace sinter::fusion
