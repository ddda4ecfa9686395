#include "fusion/patterns/one_hot.h"

#include <algorithm>

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::Shape;
using ir::ValueId;

const Node* producer_of(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = graph.producer(value);
  return node != nullptr && node->op->name == op ? node : nullptr;
}

/// 0, 1, 2, .. along the last dimension.
bool counts_up(const Graph& graph, ValueId value, std::int64_t rows) {
  const auto& constant = graph.value(value).constant;
  if (constant == nullptr) {
    const Shape& shape = graph.type(value).shape;
    ir::Ranges ranges = graph.ranges();
    const std::vector<Dim> index = ir::index_symbols(shape, ranges);
    return !shape.empty() && shape.back() == Dim(rows) &&
           ir::index_of_value(graph, value, index, ranges) == index.back();
  }
  if (constant == nullptr || !is_integer(constant->dtype()) || constant->shape().empty() ||
      constant->shape().back() != rows || constant->element_count() != rows)
    return false;
  for (std::int64_t i = 0; i < rows; ++i)
    if (constant->at_int(i) != i) return false;
  return true;
}

}  // namespace

std::optional<Piece> one_hot_product(const Graph& graph, const Node& node) {
  if (node.op->name != "MatMul") return std::nullopt;
  const ir::TensorType& table = graph.type(node.inputs[1]);
  if (!graph.is_constant(node.inputs[1]) || table.shape.size() != 2) return std::nullopt;
  const std::int64_t rows = table.shape[0].value();
  const Node* cast = producer_of(graph, node.inputs[0], "Cast");
  const Node* equal = cast != nullptr ? producer_of(graph, cast->inputs[0], "Equal") : nullptr;
  if (equal == nullptr) return std::nullopt;
  const Shape& matrix = graph.type(node.inputs[0]).shape;
  Shape one_each = matrix;
  one_each.back() = Dim(1);
  for (std::size_t side = 0; side < 2; ++side) {
    if (!counts_up(graph, equal->inputs[1 - side], rows)) continue;
    ValueId ids = equal->inputs[side];
    if (const Node* expand = producer_of(graph, ids, "Expand")) ids = expand->inputs[0];
    if (graph.type(ids).shape != one_each) continue;

    Piece piece;
    piece.reads = {ids, node.inputs[1]};
    piece.writes = node.outputs;
    std::vector<std::string> origins = node.origins;
    for (const Node* part : {cast, equal})
      origins.insert(origins.end(), part->origins.begin(), part->origins.end());
    piece.emit = [rows, one_each, origins](ir::GraphBuilder& b, std::span<const ValueId> reads) {
      ir::GraphBuilder::OriginScope scope(b, origins);
      const DType index_type = b.type(reads[0]).dtype, type = b.type(reads[1]).dtype;
      const Shape prefix(one_each.begin(), one_each.end() - 1);
      const ValueId last = b.scalar(index_type, static_cast<double>(rows - 1));
      const ValueId low = b.add("Max", {reads[0], b.scalar(index_type, 0)});
      const ValueId row = b.add("Min", {low, last});
      const ValueId flat = b.add("Reshape", {row}, {{"shape", prefix}});
      const ValueId found = b.add("Gather", {reads[1], flat}, {{"axis", std::int64_t{0}}});
      const ValueId exists = b.add("Equal", {reads[0], row});
      return std::vector{b.add("Where", {exists, found, b.scalar(type, 0)})};
    };
    return piece;
  }
  return std::nullopt;
}

}  // namespace sinter::fusion
