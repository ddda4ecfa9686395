#include "fusion/patterns/causal.h"

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;

/// True if element (i, j) of the last two dimensions is seen exactly where j <= i; all other
/// dimensions have one element.
bool is_triangle(const ir::Tensor& mask, bool negated) {
  const auto& shape = mask.shape();
  if (shape.size() < 2) return false;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d)
    if (shape[d] != 1) return false;
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const double value = mask.at(i * columns + j);
      const bool boolean = mask.dtype() == DType::kBool;
      const bool seen = boolean ? (value != 0) != negated : value == 0;
      const bool hidden = boolean ? !seen : value <= kHidden;
      if (j <= i ? !seen : !hidden) return false;
    }
  return true;
}

}  // namespace

int causal_of(const ir::Graph& graph, ir::ValueId mask, const ir::Shape& scores, bool negated) {
  const ir::TensorType& type = graph.type(mask);
  const ir::Shape& shape = type.shape;
  const Dim m = scores[scores.size() - 2], n = scores.back();
  if (shape.size() < 2 || !(shape[shape.size() - 2] == m) || !(shape.back() == n) || m == Dim(1) ||
      (type.dtype != DType::kBool && !is_float(type.dtype)))
    return 0;
  ir::Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(shape, ranges);
  const ir::TracedView view = ir::trace_view(graph, mask, index, ranges);
  if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return 0;
  const ir::TracedSource& source = view.sources[0];
  const auto& constant = graph.value(source.source).constant;
  if (constant == nullptr || source.index.size() < 2) return 0;
  const Dim offset = source.index[source.index.size() - 2] - index[index.size() - 2];
  if (!(source.index.back() == index.back())) return 0;
  const int causal = offset == Dim(0) ? 1 : offset == n - m ? 2 : 0;
  return causal != 0 && is_triangle(*constant, negated) ? causal : 0;
}

}  // namespace sinter::fusion
