// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/operand.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/affine.h"
#include "ir/constants/recipe.h"
#include "ir/dim/matrix_access.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

bool batch_is_forward(const ir::StridedAccess& access, std::size_t dims, const Graph& graph) {
  return std::all_of(access.strides.begin(),
                     access.strides.begin() + static_cast<std::ptrdiff_t>(dims),
                     [&](const Dim& s) { return ir::proves_le(Dim(0), s, graph.ranges()); });
}

bool is_by_rows(const Graph& graph, ValueId value) {
  const auto access = ir::strided_access(graph, value);
  return access && access->strides.back() == Dim(1);
}

}  // namespace

bool is_single_view(const Node& node) {
  return node.op->kind == OpKind::kView && node.inputs.size() == 1 && node.op->name != "Concat";
}

Graph views_only(const Graph& graph, const TensorType& from, std::span<const NodeId> nodes) {
  GraphBuilder builder("views");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  ValueId value = builder.input("source", from);
  for (const NodeId id : nodes)
    if (const Node& node = graph.node(id); is_single_view(node))
      value = builder.add(node.op->name, {value}, node.attrs);
  builder.output("value", value);
  return builder.finish();
}

bool is_matrix_product(const Node& node) { return node.op->name == "MatMul"; }

bool has_four_bit_weights(const Node& node) {
  return ir::has_scaled_weights(node) &&
         ir::ProductFormats(node.attrs).w->codes == &ir::integer_codes(4);
}

bool has_eight_bit_operands(const Graph& graph, const Node& node) {
  if (!is_matrix_product(node) && node.op->name != "Conv") return false;
  return size_of(graph.type(node.inputs[0]).dtype) == 1 &&
         size_of(graph.type(node.outputs[0]).dtype) > 1;
}

bool multiplies_narrow(const TargetTraits& target, const Graph& graph, const Node& node) {
  if (!has_eight_bit_operands(graph, node)) return false;
  const DType x = graph.type(node.inputs[0]).dtype;
  if (ir::has_scaled_weights(node)) return quantized_refusal(target, graph, node, x).empty();
  return target.sums(node.op->name, x, graph.type(node.inputs[1]).dtype) != nullptr;
}

bool has_gemm_kernel(const TargetTraits& target, const Node& fused) {
  return std::ranges::all_of(fused.body->nodes(), [&](const Node& part) {
    if (ir::has_scaled_weights(part) || (part.op->name != "MatMul" && part.op->name != "Conv"))
      return true;
    if (multiplies_narrow(target, *fused.body, part)) return true;
    const DType type = fused.body->type(part.outputs[0]).dtype;
    return (type == DType::kFloat16 || type == DType::kBFloat16 || type == DType::kFloat32) &&
           fused.body->type(part.inputs[0]).dtype == type;
  });
}

std::string quantized_refusal(const TargetTraits& target, const Graph& graph, const Node& node,
                              DType x) {
  return quantized_refusal(target, graph, node, x, *ir::ProductFormats(node.attrs).w);
}

std::string quantized_refusal(const TargetTraits& target, const Graph& graph, const Node& node,
                              DType x, const ir::ScaleFormat& format) {
  if (target.first_of("MatMul", true, x) == nullptr)
    return fmt::format("this target has no product of {} with quantized weights", to_string(x));
  const ir::OperandFormats* const row = target.takes("MatMul", x, format.codes->name, true);
  if (row == nullptr)
    return fmt::format("this target has no product with weights of {}", format.codes->name);
  if (format.offset && !row->offsets)
    return "this target's products add no offsets to quantized weights";
  const Dim& columns = graph.type(node.inputs[1]).shape[0];
  if (columns.is_constant() && columns.value() < row->least)
    return fmt::format("this target's products with quantized weights have {} columns or more",
                       row->least);
  const Dim& k = graph.type(node.inputs[0]).shape.back();
  const std::int64_t group = format.depth;
  const bool all = group == 0 || (k.is_constant() && group >= k.value());
  if (!all && group % row->unit != 0)
    return fmt::format("this target's groups are multiples of {}, not {}", row->unit, group);
  constexpr double kLargestHalf = 65504;
  // Some kernels multiply 8-bit floats as float16.
  const bool as_halves = x == DType::kFloat16 || is_float8(x);
  if (row->zeros_in_left && as_halves && format.zero)
    if (const Tensor* zeros = graph.value(node.inputs[3]).constant.get())
      if (!ir::is_within(*zeros, kLargestHalf)) return "a zero point is beyond f16";
  return "";
}

std::size_t viewed_operands(const Node& product) { return ir::has_scaled_weights(product) ? 1 : 2; }

std::optional<double> scalar_factor(const Graph& graph, const Node& node, ValueId value) {
  if (!is_float(graph.type(value).dtype) || node.inputs.size() != 2) return std::nullopt;
  const bool div = node.op->name == "Div";
  if (!div && node.op->name != "Mul") return std::nullopt;
  if (div && node.inputs[0] != value) return std::nullopt;
  const ValueId other = node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
  const auto& constant = graph.value(other).constant;
  if (constant == nullptr || constant->element_count() != 1 ||
      graph.type(node.outputs[0]).shape != graph.type(value).shape)
    return std::nullopt;
  const double factor = div ? 1 / constant->at(0) : constant->at(0);
  return std::isfinite(factor) ? std::optional(factor) : std::nullopt;
}

bool is_matrix_access(const Graph& graph, ValueId value) {
  const Shape& shape = graph.type(value).shape;
  if (shape.size() < 2) return false;
  const auto access = ir::strided_access(graph, value);
  if (!access) return false;
  const std::size_t row = shape.size() - 2, column = shape.size() - 1;
  return ir::is_addressable({shape[row], access->strides[row]},
                            {shape[column], access->strides[column]}, graph.ranges()) &&
         batch_is_forward(*access, row, graph);
}

namespace {

/// If `shape` has matrices of one row (or column), `single` from the right: the innermost batch
/// dimension that `other` lacks, counted from the right. It replaces the row, as one matmul of many
/// rows is much faster than many of one. 0: there is none.
std::size_t dimension_in_place(const Shape& shape, std::size_t single, const Shape& other) {
  if (shape[shape.size() - single] != Dim(1)) return 0;
  for (std::size_t d = 3; d <= shape.size(); ++d) {
    const bool is_shared = d > other.size() || other[other.size() - d] == Dim(1);
    if (shape[shape.size() - d] != Dim(1) && is_shared) return d;
  }
  return 0;
}

/// Whether operand `i` of `product` (`value` of `views`, which has only its views) can be lowered
/// by codegen/families/gemm/matmul_lowering.cpp.
bool is_operand_access(const Graph& views, ValueId value, const Graph& graph, const Node& product,
                       std::size_t i) {
  if (!is_matrix_access(views, value)) return false;
  const Shape& shape = views.type(value).shape;
  const std::size_t rank = shape.size(), single = i == 0 ? 2 : 1;
  const std::size_t d = dimension_in_place(shape, single, graph.type(product.inputs[1 - i]).shape);
  if (d == 0) return true;
  const auto access = ir::strided_access(views, value);
  const auto walk = [&](std::size_t from_right) {
    return ir::Walk{shape[rank - from_right], access->strides[rank - from_right]};
  };
  return i == 0 ? ir::is_addressable(walk(d), walk(1), views.ranges())
                : ir::is_addressable(walk(2), walk(d), views.ranges());
}

}  // namespace

Operand fold_operand(const Graph& graph, const Node& product, std::size_t i, bool by_rows) {
  // Each step checks all views so far; exporters write a few.
  constexpr std::size_t kMost = 64;
  Operand best{product.inputs[i], {}, 1}, next = best;
  while (next.nodes.size() < kMost) {
    const NodeId id = graph.value(next.source).producer;
    if (!id.valid()) return best;
    const Node& node = graph.node(id);
    if (is_single_view(node)) {
      next.source = node.inputs[0];
    } else {
      std::optional<double> factor;
      for (ValueId input : node.inputs)
        if (!factor && (factor = scalar_factor(graph, node, input))) next.source = input;
      if (!factor) return best;
      next.alpha *= *factor;
    }
    next.nodes.insert(next.nodes.begin(), id);
    const Graph views = views_only(graph, graph.type(next.source), next.nodes);
    const ValueId result = views.outputs()[0];
    if (is_operand_access(views, result, graph, product, i) &&
        (!by_rows || is_by_rows(views, result)))
      best = next;
  }
  return best;
}

Operand fold_rows(const Graph& graph, ValueId value) {
  constexpr std::size_t kMost = 64;
  Operand best{value, {}, 1}, next = best;
  while (next.nodes.size() < kMost) {
    const NodeId id = graph.value(next.source).producer;
    if (!id.valid() || !is_single_view(graph.node(id))) return best;
    next.source = graph.node(id).inputs[0];
    next.nodes.insert(next.nodes.begin(), id);
    const Graph views = views_only(graph, graph.type(next.source), next.nodes);
    const ValueId result = views.outputs()[0];
    if (is_matrix_access(views, result) && is_by_rows(views, result)) best = next;
  }
  return best;
}

ValueId build_operand(BodyBuilder& body, const Graph& graph, const Operand& operand,
                      ValueId value) {
  if (operand.nodes.empty()) return body.import(value);
  ValueId result = body.import(operand.source);
  for (NodeId id : operand.nodes) {
    const Node& node = graph.node(id);
    body.origins().insert(body.origins().end(), node.origins.begin(), node.origins.end());
    if (!is_single_view(node)) continue;
    GraphBuilder::OriginScope scope(body.builder(), node.origins);
    result = body.builder().add(node.op->name, {result}, node.attrs);
  }
  return result;
}

}  // namespace sinter::fusion
