// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/narrow_maxima.h"

#include <algorithm>
#include <limits>

#include "fusion/regions/rebuild.h"
#include "fusion/scales/quantization.h"
#include "fusion/scales/quantized_operand.h"

namespace sinter::fusion {
namespace {

/// scale * (values - zero) with known numbers, scale > 0.
struct Affine {
  ValueId values;
  double scale = 1, zero = 0;
};

std::optional<Affine> affine_of(const Graph& graph, const QuantizedOperand& found) {
  Affine result{found.values};
  if (found.scale) {
    const auto scale = known_number(graph, found.scale->value);
    if (!scale || !(*scale > 0)) return std::nullopt;
    result.scale = *scale;
  }
  if (found.zero) {
    const auto zero = known_number(graph, found.zero->value);
    if (!zero) return std::nullopt;
    result.zero = *zero;
  }
  return result;
}

/// A reduction's operand as views of quantized values.
struct Maximum {
  QuantizedOperand found;
  std::vector<NodeId> windows;  // views between the quantized value and the reduction, in order
};

std::optional<Maximum> maximum_of(const Graph& graph, const Node& node) {
  const bool is_max = node.op->name == "ReduceMax";
  if ((!is_max && node.op->name != "ReduceMin") || !is_float(graph.type(node.outputs[0]).dtype))
    return std::nullopt;
  const double loses =
      is_max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  Maximum result;
  ValueId value = node.inputs[0];
  for (const Node* view = graph.producer(value); view != nullptr; view = graph.producer(value)) {
    if (auto found = find_quantized_operand(graph, value)) {
      if (!found->views.empty() || is_float(graph.type(found->values).dtype)) return std::nullopt;
      result.found = std::move(*found);
      std::reverse(result.windows.begin(), result.windows.end());
      return result;
    }
    const std::string& op = view->op->name;
    const auto pads_nothing = [&](const char* name) {
      return std::ranges::all_of(view->attrs.get_ints(name), [](auto pad) { return pad == 0; });
    };
    const bool passes = op == "Reshape" || op == "Transpose" || op == "Slice" || op == "Expand" ||
                        (op == "Pad" && view->attrs.get_float("fill") == loses) ||
                        (op == "Unfold" && pads_nothing("pads_begin") && pads_nothing("pads_end"));
    if (!passes) return std::nullopt;
    result.windows.push_back(graph.value(value).producer);
    value = view->inputs[0];
  }
  return std::nullopt;
}

/// The maxima of the integers, dequantized.
std::vector<ValueId> write_maximum(GraphBuilder& b, const Graph& graph, const Node& node,
                                   const Maximum& maximum, const Affine& affine, ValueId values) {
  const bool is_signed = b.type(values).dtype == DType::kInt8,
             is_max = node.op->name == "ReduceMax";
  for (const NodeId id : maximum.windows) {
    const Node& view = graph.node(id);
    Attrs attrs = view.attrs;
    if (view.op->name == "Pad")
      attrs.set("fill", is_max ? (is_signed ? -128.0 : 0.0) : (is_signed ? 127.0 : 255.0));
    values = b.add(view.op->name, {values}, std::move(attrs));
  }
  ValueId result = b.add(node.op->name, {values}, node.attrs);
  if (affine.zero != 0) {
    result = b.add("Cast", {result}, {{"to", DType::kInt32}});
    result = b.add("Sub", {result, b.scalar(DType::kInt32, affine.zero)});
  }
  result = b.add("Cast", {result}, {{"to", DType::kFloat32}});
  if (maximum.found.scale) result = b.add("Mul", {result, b.scalar(DType::kFloat32, affine.scale)});
  const DType type = graph.type(node.outputs[0]).dtype;
  return {type == DType::kFloat32 ? result : b.add("Cast", {result}, {{"to", type}})};
}

}  // namespace

Graph narrow_maxima(const Graph& graph, Context& context) {
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    auto maximum = maximum_of(graph, node);
    if (!maximum) continue;
    const auto affine = affine_of(graph, maximum->found);
    if (!affine) continue;
    const Node* x = graph.producer(node.inputs[0]);
    decide(context, x != nullptr ? *x : node, node, true, "its maxima are those of 8-bit integers");
    Piece piece;
    piece.reads = {affine->values};
    piece.writes = node.outputs;
    piece.emit = [&graph, &node, maximum = std::move(*maximum), affine = *affine](
                     GraphBuilder& builder, std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, node.origins);
      return write_maximum(builder, graph, node, maximum, affine, reads[0]);
    };
    pieces.push_back(std::move(piece));
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

Graph drop_requantization(const Graph& graph) {
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    const auto quantization = quantization_of(graph, node);
    if (!quantization || !is_integer(graph.type(node.outputs[0]).dtype)) continue;
    const auto found = find_quantized_operand(graph, quantization->x);
    if (!found || !found->scale ||
        graph.type(found->values).dtype != graph.type(node.outputs[0]).dtype)
      continue;
    // For float32 only: (value - zero) * scale / scale rounds to the difference.
    const auto affine = affine_of(graph, *found);
    if (!affine || graph.type(quantization->x).dtype != DType::kFloat32 ||
        affine->scale != quantization->scale || affine->zero != quantization->zero)
      continue;
    Piece piece;
    piece.reads = {found->values};
    piece.writes = node.outputs;
    piece.emit = [&graph, found = *found](GraphBuilder& builder, std::span<const ValueId> reads) {
      return std::vector{place_values(builder, graph, found, reads[0])};
    };
    pieces.push_back(std::move(piece));
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace sinter::fusion
