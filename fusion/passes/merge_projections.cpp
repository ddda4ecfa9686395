#include <algorithm>
#include <cstring>
#include <map>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Tensor;
using ir::ValueId;

/// A product of an activation with a constant weight of k rows and n columns, and its bias if any.
struct Projection {
  const Node* matmul = nullptr;
  const Node* add = nullptr;  // null: no bias
  const Tensor* weight = nullptr;
  bool transposed = false;  // weight is [n, k]
  const Tensor* bias = nullptr;
  std::int64_t k = 0, n = 0;
  ValueId result() const { return add != nullptr ? add->outputs[0] : matmul->outputs[0]; }
};

std::optional<Projection> projection(const Graph& graph, const Node& node) {
  if (node.op->name != "MatMul") return std::nullopt;
  if (graph.is_constant(node.inputs[0]) || graph.type(node.inputs[1]).shape.size() != 2)
    return std::nullopt;
  Projection result;
  ValueId weight = node.inputs[1];
  const Node* view = graph.producer(weight);
  if (view != nullptr && view->op->name == "Transpose") {
    result.transposed = true;
    weight = view->inputs[0];
  }
  result.weight = graph.value(weight).constant.get();
  if (result.weight == nullptr) return std::nullopt;
  result.matmul = &node;
  result.k = result.weight->shape()[result.transposed ? 1 : 0];
  result.n = result.weight->shape()[result.transposed ? 0 : 1];
  const auto& users = graph.users(node.outputs[0]);
  if (users.size() != 1 || graph.is_output(node.outputs[0])) return result;
  const Node& add = graph.node(users[0]);
  if (add.op->name != "Add") return result;
  const ValueId other = add.inputs[add.inputs[0] == node.outputs[0] ? 1 : 0];
  if (!is_bias(graph, other, graph.type(node.outputs[0]).shape)) return result;
  result.add = &add;
  result.bias = graph.value(other).constant.get();
  return result;
}

/// True if everything that reads `value` can as well read a slice: through views into generated
/// kernels or into products whose operand stays a matrix. An activation that the product would end
/// with, or a residual, is worth more than one launch saved.
bool reads_slices(const Graph& graph, ValueId value, const TargetTraits& target,
                  bool through_view) {
  if (graph.is_output(value)) return false;
  const auto& users = graph.users(value);
  for (NodeId id : users) {
    const Node& user = graph.node(id);
    switch (user.op->kind) {
      case ir::OpKind::kView:
        if (user.op->name == "Concat" || !reads_slices(graph, user.outputs[0], target, true))
          return false;
        break;
      case ir::OpKind::kPointwise:
        if (!through_view && users.size() == 1 && has_activation(target, user.op->name))
          return false;
        if (!through_view && user.op->name == "Add" && target.matmul_epilogue_residual &&
            graph.type(user.inputs[0]) == graph.type(user.inputs[1]))
          return false;
        break;
      case ir::OpKind::kReduce: break;
      case ir::OpKind::kLibrary:
        if (user.op->name == "Attention") {
          if (!is_strided_rows(graph, value, user.inputs.size() < 4 || user.inputs[3] != value))
            return false;
          break;
        }
        if (user.op->name != "MatMul" || !is_matrix_access(graph, value)) return false;
        break;
      default: return false;
    }
  }
  return true;
}

/// The weights side by side, as one [k, columns].
Tensor join_columns(const std::vector<Projection>& parts, std::int64_t columns) {
  const std::size_t size = size_of(parts[0].weight->dtype());
  const std::size_t rows = static_cast<std::size_t>(parts[0].k);
  const std::size_t pitch = static_cast<std::size_t>(columns) * size;
  std::vector<std::byte> bytes(rows * pitch);
  std::size_t at = 0;
  for (const Projection& part : parts) {
    const std::size_t width = static_cast<std::size_t>(part.n) * size;
    const std::byte* from = part.weight->bytes().data();
    const std::size_t columns_here = static_cast<std::size_t>(part.n);
    for (std::size_t row = 0; row < rows; ++row) {
      std::byte* to = bytes.data() + row * pitch + at;
      if (!part.transposed) {
        std::memcpy(to, from + row * width, width);
        continue;
      }
      for (std::size_t column = 0; column < columns_here; ++column)
        std::memcpy(to + column * size, from + (column * rows + row) * size, size);
    }
    at += width;
  }
  return Tensor(parts[0].weight->dtype(), {parts[0].k, columns},
                ir::Buffer::take(std::move(bytes)));
}

/// The biases one after the other, zeros where there is none.
Tensor join_biases(const std::vector<Projection>& parts, std::int64_t columns) {
  const std::size_t size = size_of(parts[0].weight->dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(columns) * size);
  std::size_t at = 0;
  for (const Projection& part : parts) {
    const std::size_t width = static_cast<std::size_t>(part.n) * size;
    if (part.bias != nullptr) std::memcpy(bytes.data() + at, part.bias->bytes().data(), width);
    at += width;
  }
  return Tensor(parts[0].weight->dtype(), {columns}, ir::Buffer::take(std::move(bytes)));
}

Piece merged(const Graph& graph, std::vector<Projection> parts) {
  Piece piece;
  piece.reads = {parts[0].matmul->inputs[0]};
  std::vector<std::string> origins;
  std::int64_t columns = 0;
  for (const Projection& part : parts) {
    piece.writes.push_back(part.result());
    columns += part.n;
    for (const Node* node : {part.matmul, part.add})
      if (node != nullptr)
        origins.insert(origins.end(), node->origins.begin(), node->origins.end());
  }
  ir::Shape shape = graph.type(parts[0].matmul->outputs[0]).shape;
  piece.emit = [parts = std::move(parts), columns, shape, origins](ir::GraphBuilder& builder,
                                                                   std::span<const ValueId> reads) {
    ir::GraphBuilder::OriginScope scope(builder, origins);
    ValueId value =
        builder.add("MatMul", {reads[0], builder.constant(join_columns(parts, columns))});
    if (std::any_of(parts.begin(), parts.end(), [](auto& part) { return part.bias != nullptr; }))
      value = builder.add("Add", {value, builder.constant(join_biases(parts, columns))});
    std::vector<ValueId> results;
    std::int64_t start = 0;
    for (const Projection& part : parts) {
      std::vector<Dim> starts(shape.size(), Dim(0)), extents = shape;
      starts.back() = Dim(start);
      extents.back() = Dim(part.n);
      start += part.n;
      results.push_back(builder.add("Slice", {value},
                                    {{"starts", std::move(starts)},
                                     {"steps", std::vector<std::int64_t>(shape.size(), 1)},
                                     {"shape", std::move(extents)}}));
    }
    return results;
  };
  return piece;
}

}  // namespace

Graph merge_projections(const Graph& graph, Context& context) {
  std::map<ValueId, std::vector<Projection>> by_activation;
  for (const Node& node : graph.nodes()) {
    auto found = projection(graph, node);
    if (!found || !reads_slices(graph, found->result(), context.target, false)) continue;
    auto& parts = by_activation[node.inputs[0]];
    if (parts.empty() || parts[0].weight->dtype() == found->weight->dtype())
      parts.push_back(*found);
  }
  std::vector<Piece> pieces;
  for (auto& [activation, parts] : by_activation) {
    if (parts.size() < 2) continue;
    for (std::size_t i = 1; i < parts.size(); ++i)
      context.decisions.push_back(decision(*parts[0].matmul, *parts[i].matmul, true,
                                           "products of one activation, weights side by side"));
    pieces.push_back(merged(graph, std::move(parts)));
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
