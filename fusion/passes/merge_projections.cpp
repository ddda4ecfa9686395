#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "fusion/transforms.h"

namespace sinter::fusion {
namespace {

/// A product of an activation with a constant weight of k rows and n columns, and its bias if any.
struct Projection {
  const Node* matmul = nullptr;
  const Node* add = nullptr;               // null: no bias
  const Tensor* weight = nullptr;          // of a MatMul
  std::vector<const Tensor*> quantized{};  // of a QuantMatMul: its operands behind x
  bool transposed = false;                 // weight is [n, k]
  const Tensor* bias = nullptr;
  std::int64_t k = 0, n = 0;
  ValueId result() const { return add != nullptr ? add->outputs[0] : matmul->outputs[0]; }
};

std::optional<Projection> projection(const Graph& graph, const Node& node) {
  if (!is_matrix_product(node)) return std::nullopt;
  if (graph.is_constant(node.inputs[0]) || graph.type(node.inputs[1]).shape.size() != 2)
    return std::nullopt;
  Projection result;
  if (node.op->name == "QuantMatMul") {
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      result.quantized.push_back(graph.value(node.inputs[i]).constant.get());
      if (result.quantized.back() == nullptr) return std::nullopt;
    }
    result.n = result.quantized[0]->shape()[0];
  } else {
    ValueId weight = node.inputs[1];
    const Node* view = graph.producer(weight);
    if (view != nullptr && view->op->name == "Transpose") {
      result.transposed = true;
      weight = view->inputs[0];
    }
    result.weight = graph.value(weight).constant.get();
    if (result.weight == nullptr) return std::nullopt;
    result.k = result.weight->shape()[result.transposed ? 1 : 0];
    result.n = result.weight->shape()[result.transposed ? 0 : 1];
  }
  result.matmul = &node;
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
bool reads_slices(const Graph& graph, ValueId value, const TargetTraits& target, bool through_view,
                  std::set<ValueId>& seen) {
  // Views of views lead to one value by many ways; what was seen has not refused.
  if (!seen.insert(value).second) return true;
  if (graph.is_output(value)) return false;
  const auto& users = graph.users(value);
  for (NodeId id : users) {
    const Node& user = graph.node(id);
    switch (user.op->kind) {
      case OpKind::kView:
        if (!reads_slices(graph, user.outputs[0], target, true, seen)) return false;
        break;
      case OpKind::kIndexed:
        // Indices and updates are read element by element, what is looked up in stays whole.
        if (user.inputs[0] == value) return false;
        break;
      case OpKind::kPointwise:
        if (!through_view && users.size() == 1 && has_activation(target, user.op->name))
          return false;
        if (!through_view && user.op->name == "Add" && target.matmul_epilogue_residual &&
            graph.type(user.inputs[0]) == graph.type(user.inputs[1]))
          return false;
        break;
      case OpKind::kReduce: break;
      case OpKind::kLibrary:
        if (user.op->name == "Attention") {
          if (!is_strided_rows(graph, value, user.inputs.size() < 4 || user.inputs[3] != value))
            return false;
          break;
        }
        if (!is_matrix_product(user) || !is_matrix_access(graph, value)) return false;
        break;
      default: return false;
    }
  }
  return true;
}

/// Whether `inputs`, of one type, have sizes[i] rows (or elements) for each i that is present.
bool are_parts(const Ints& sizes, const Ints& present, std::span<const Tensor> inputs, int rank) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (present[i] == 0) continue;
    if (next == inputs.size() || std::ssize(inputs[next].shape()) != rank ||
        inputs[next].dtype() != inputs[0].dtype() || inputs[next].shape()[0] != sizes[i])
      return false;
    ++next;
  }
  return next == inputs.size();
}

}  // namespace

const ir::Derivation kJoinedColumns = {
    "joined_columns",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& transposed = attrs.get_ints("transposed");
      if (inputs.empty() || !ir::has_inputs(inputs, transposed.size(), 2)) return false;
      const auto rows = [&](std::size_t i) {
        return inputs[i].shape()[transposed[i] != 0 ? 1 : 0];
      };
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].dtype() != inputs[0].dtype() || rows(i) != rows(0)) return false;
      return true;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& transposed = attrs.get_ints("transposed");
      std::int64_t columns = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        columns += inputs[i].shape()[transposed[i] != 0 ? 0 : 1];
      return std::pair(inputs[0].dtype(),
                       Ints{inputs[0].shape()[transposed[0] != 0 ? 1 : 0], columns});
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const auto [type, shape] = kJoinedColumns.type(attrs, inputs);
      const std::size_t size = size_of(type);
      const auto rows = static_cast<std::size_t>(shape[0]),
                 pitch = static_cast<std::size_t>(shape[1]);
      const Ints& transposed = attrs.get_ints("transposed");
      std::vector<std::byte> bytes(rows * pitch * size);
      std::byte* to = bytes.data();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const ir::HeldBytes from = inputs[i].hold();
        const bool is_transposed = transposed[i] != 0;
        const auto columns = static_cast<std::size_t>(inputs[i].shape()[is_transposed ? 0 : 1]);
        const std::size_t width = columns * size;
        if (is_transposed)
          write_transposed(from.bytes, columns, rows, size, to, pitch);
        else
          for (std::size_t row = 0; row < rows; ++row)
            std::memcpy(to + row * pitch * size, from.bytes.data() + row * width, width);
        to += width;
      }
      return bytes;
    }};

const ir::Derivation kJoinedRows = {
    "joined_rows",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_counts(attrs, {"rows", "present"}) || inputs.empty()) return false;
      return are_parts(attrs.get_ints("rows"), attrs.get_ints("present"), inputs, 2) &&
             std::ranges::all_of(inputs, [&](const Tensor& input) {
               return input.shape()[1] == inputs[0].shape()[1];
             });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      std::int64_t rows = 0;
      for (const std::int64_t count : attrs.get_ints("rows")) rows += count;
      return std::pair(inputs[0].dtype(), Ints{rows, inputs[0].shape()[1]});
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& rows = attrs.get_ints("rows");
      const Ints& present = attrs.get_ints("present");
      const std::size_t pitch =
          static_cast<std::size_t>(inputs[0].shape()[1]) * size_of(inputs[0].dtype());
      std::vector<std::byte> bytes;
      std::size_t next = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t end = bytes.size() + static_cast<std::size_t>(rows[i]) * pitch;
        if (present[i] != 0) {
          const ir::HeldBytes from = inputs[next++].hold();
          bytes.insert(bytes.end(), from.bytes.begin(), from.bytes.end());
        }
        bytes.resize(end);
      }
      return bytes;
    }};

const ir::Transform kJoinedBiases = {
    "joined_biases",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_counts(attrs, {"widths", "present"}) || inputs.empty()) return false;
      const Ints& widths = attrs.get_ints("widths");
      constexpr std::int64_t kMost = std::int64_t{1} << 26;
      return are_parts(widths, attrs.get_ints("present"), inputs, 1) &&
             std::accumulate(widths.begin(), widths.end(), std::int64_t{0}) <= kMost;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& widths = attrs.get_ints("widths");
      const Ints& present = attrs.get_ints("present");
      const DType type = inputs[0].dtype();
      const std::size_t size = size_of(type);
      std::vector<std::byte> bytes;
      std::int64_t columns = 0;
      std::size_t next = 0;
      for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::size_t width = static_cast<std::size_t>(widths[i]) * size;
        if (present[i] != 0) {
          const auto own = inputs[next++].bytes().first(width);
          bytes.insert(bytes.end(), own.begin(), own.end());
        } else {
          bytes.resize(bytes.size() + width);
        }
        columns += widths[i];
      }
      return std::vector{Tensor(type, {columns}, ir::Buffer::take(std::move(bytes)))};
    }};

namespace {

/// The weights side by side, as one [k, columns], made when it is read.
Tensor join_columns(const std::vector<Projection>& parts) {
  std::vector<Tensor> weights;
  Ints transposed;
  for (const Projection& part : parts) {
    weights.push_back(*part.weight);
    transposed.push_back(part.transposed ? 1 : 0);
  }
  return ir::derive(kJoinedColumns, {{"transposed", transposed}}, weights);
}

/// True if the weights of both can lie side by side.
bool fit_together(const Projection& a, const Projection& b) {
  if (a.matmul->op != b.matmul->op || a.matmul->attrs != b.matmul->attrs) return false;
  if (a.weight != nullptr) return a.weight->dtype() == b.weight->dtype();
  if (a.quantized[1]->dtype() != b.quantized[1]->dtype()) return false;
  return a.quantized.size() < 3 || b.quantized.size() < 3 ||
         a.quantized[2]->dtype() == b.quantized[2]->dtype();
}

/// Operand `operand` of each, one below the other; zeros where there is none (zero points). Made
/// when it is read.
Tensor join_rows(const std::vector<Projection>& parts, std::size_t operand) {
  std::vector<Tensor> sources;
  Ints rows, present;
  for (const Projection& part : parts) {
    const bool is_present = operand < part.quantized.size();
    if (is_present) sources.push_back(*part.quantized[operand]);
    rows.push_back(part.n);
    present.push_back(is_present ? 1 : 0);
  }
  return ir::derive(kJoinedRows, {{"present", present}, {"rows", rows}}, sources);
}

/// The one product of all columns.
ValueId join_products(GraphBuilder& builder, ValueId x, const std::vector<Projection>& parts) {
  if (parts[0].weight != nullptr)
    return builder.add("MatMul", {x, builder.constant(join_columns(parts))});
  std::size_t operands = 0;
  for (const Projection& part : parts) operands = std::max(operands, part.quantized.size());
  std::vector<ValueId> inputs{x};
  for (std::size_t i = 0; i < operands; ++i)
    inputs.push_back(builder.constant(join_rows(parts, i)));
  return builder.add("QuantMatMul", std::move(inputs), parts[0].matmul->attrs);
}

/// The biases one after the other, zeros where there is none.
Tensor join_biases(const std::vector<Projection>& parts) {
  std::vector<Tensor> biases;
  Ints widths, present;
  for (const Projection& part : parts) {
    if (part.bias != nullptr) biases.push_back(*part.bias);
    widths.push_back(part.n);
    present.push_back(part.bias != nullptr ? 1 : 0);
  }
  return ir::apply(kJoinedBiases, {{"present", present}, {"widths", widths}}, biases).front();
}

Piece merged(const Graph& graph, std::vector<Projection> parts) {
  Piece piece;
  piece.reads = {parts[0].matmul->inputs[0]};
  std::vector<std::string> origins;
  for (const Projection& part : parts) {
    piece.writes.push_back(part.result());
    for (const Node* node : {part.matmul, part.add})
      if (node != nullptr)
        origins.insert(origins.end(), node->origins.begin(), node->origins.end());
  }
  Shape shape = graph.type(parts[0].matmul->outputs[0]).shape;
  piece.emit = [parts = std::move(parts), shape, origins](GraphBuilder& builder,
                                                          std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(builder, origins);
    ValueId value = join_products(builder, reads[0], parts);
    if (std::ranges::any_of(parts, [](auto& part) { return part.bias != nullptr; }))
      value = builder.add("Add", {value, builder.constant(join_biases(parts))});
    std::vector<ValueId> results;
    std::int64_t start = 0;
    for (const Projection& part : parts) {
      std::vector<Dim> starts(shape.size(), Dim(0)), extents = shape;
      starts.back() = Dim(start);
      extents.back() = Dim(part.n);
      start += part.n;
      results.push_back(builder.add("Slice", {value},
                                    {{"starts", std::move(starts)},
                                     {"steps", Ints(shape.size(), 1)},
                                     {"shape", std::move(extents)}}));
    }
    return results;
  };
  return piece;
}

}  // namespace

Graph merge_projections(const Graph& graph, Context& context) {
  std::map<ValueId, std::vector<std::vector<Projection>>> by_activation;
  for (const Node& node : graph.nodes()) {
    // Our own kernels end with what the sums stand for, of 16 bits; joined they would store sums.
    if (context.target.gemm_kernels && has_eight_bit_operands(graph, node)) continue;
    auto found = projection(graph, node);
    std::set<ValueId> seen;
    if (!found || !reads_slices(graph, found->result(), context.target, false, seen)) continue;
    auto& groups = by_activation[node.inputs[0]];
    const auto group = std::ranges::find_if(
        groups, [&](const auto& parts) { return fit_together(parts[0], *found); });
    if (group != groups.end())
      group->push_back(*found);
    else
      groups.push_back({*found});
  }
  std::vector<Piece> pieces;
  for (auto& [activation, groups] : by_activation) {
    for (auto& parts : groups) {
      if (parts.size() < 2) continue;
      for (std::size_t i = 1; i < parts.size(); ++i)
        decide(context, *parts[0].matmul, *parts[i].matmul, true,
               "products of one activation, weights side by side");
      pieces.push_back(merged(graph, std::move(parts)));
    }
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
