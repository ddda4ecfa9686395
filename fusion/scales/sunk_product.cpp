// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/sunk_product.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "fusion/regions/operand.h"
#include "fusion/scales/block_product.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/transforms.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Most elements in a sum: beyond that an int32 might overflow, where the model's floats would
/// not.
constexpr std::int64_t kMostSummed = 65'000;

/// A summed dimension along which a parameter of shape `shape` varies; -1 if there is none.
std::int64_t varies_along(const Shape& shape, const Ints& summed) {
  for (const std::int64_t axis : summed)
    if (!shape.empty() && shape[static_cast<std::size_t>(axis)] != Dim(1)) return axis;
  return -1;
}

}  // namespace

bool ScaleSink::choose_types(SunkProduct& product) const {
  const auto type_of = [&](const SunkOperand& operand) {
    return operand.difference ? DType::kInt8 : graph_.type(operand.found.values).dtype;
  };
  const DType x = type_of(product.x), w = type_of(*product.w);
  for (const bool shift_x : {false, true})
    for (const bool shift_w : {false, true}) {
      if ((shift_x && x != DType::kUInt8) || (shift_w && w != DType::kUInt8)) continue;
      if (target_.sums(product.node->op->name, shift_x ? DType::kInt8 : x,
                       shift_w ? DType::kInt8 : w) == nullptr)
        continue;
      product.x.shifted = shift_x;
      product.w->shifted = shift_w;
      return true;
    }
  return false;
}

/// Merges the zero point into weights if the difference fits.
void ScaleSink::take_difference(SunkOperand& operand, DType wanted) const {
  const QuantizedOperand& found = operand.found;
  if (!operand.has_zero || found.zero->views != found.views.size() ||
      !values_.knows(found.values) || !values_.knows(found.zero->value) ||
      found.zero->rank != graph_.type(found.values).shape.size() || wanted != DType::kInt8)
    return;
  const Tensor inputs[] = {values_.tensor(found.values), values_.tensor(found.zero->value)};
  std::vector<Tensor> made = ir::apply(kIntegerDifference, {}, inputs);
  if (made[0].at_int(0) == 0) return;
  operand.difference = std::move(made[1]);
  operand.has_zero = false;
}

std::string ScaleSink::check_operand(SunkOperand& operand, const Node& node, bool is_left) const {
  const QuantizedOperand& found = operand.found;
  const char* name = is_left ? "x" : "the weights";
  const std::size_t rank =
      graph_.type(found.views.empty() ? found.values : graph_.node(found.views.back()).outputs[0])
          .shape.size();
  const Ints summed = summed_axes(node, is_left, rank);
  const auto misfit = [&](const OperandParameter& parameter, const char* what) -> std::string {
    const auto shape = parameter_shape(graph_, found, parameter);
    if (!shape) return fmt::format("the {} of {} is read through other views than it", what, name);
    const std::int64_t axis = varies_along(*shape, summed);
    if (axis < 0) return "";
    return fmt::format(
        "the {} of {} has a value for each element of dimension {}, along which "
        "products are summed up",
        what, name, axis);
  };
  if (found.scale)
    if (std::string why = misfit(*found.scale, "scale"); !why.empty()) return why;
  operand.has_zero = found.zero.has_value();
  if (found.zero && values_.knows(found.zero->value) &&
      splat_value(values_.tensor(found.zero->value)) == 0.0)
    operand.has_zero = false;
  if (operand.has_zero)
    if (std::string why = misfit(*found.zero, "zero point"); !why.empty()) return why;
  return "";
}

std::string ScaleSink::check(SunkProduct& product) const {
  const Node& node = *product.node;
  const bool is_conv = product.is_conv();
  if (is_conv && node.attrs.get_int("channels_last") != 0) return "its channels are last";
  if (std::string why = check_operand(product.x, node, true); !why.empty()) return why;
  if (std::string why = check_operand(*product.w, node, false); !why.empty()) return why;
  take_difference(*product.w, DType::kInt8);
  if (!choose_types(product))
    return fmt::format("this target has no {} of {} and {}",
                       is_conv                ? "convolution"
                       : product.is_grouped() ? "grouped product"
                                              : "product",
                       to_string(graph_.type(product.x.found.values).dtype),
                       to_string(graph_.type(product.w->found.values).dtype));
  if (product.is_grouped() &&
      (product.x.has_zero || product.w->has_zero || product.x.shifted || product.w->shifted))
    return "a grouped product has zero points";
  if (is_conv) {
    if ((product.x.has_zero &&
         ir::element_count(graph_.type(product.x.found.zero->value).shape) != Dim(1)))
      return "the zero point of x has a value for each image: windows pad with one number";
    const Shape& w = graph_.type(node.inputs[1]).shape;
    if ((product.w->has_zero || product.w->shifted) &&
        !std::all_of(w.begin(), w.end(), [](const Dim& dim) { return dim.is_constant(); }))
      return "the weights have a zero point and a size that is not known";
  }
  const bool sums_integers = !is_float(graph_.type(product.x.found.values).dtype);
  if (sums_integers && is_float(graph_.type(node.outputs[0]).dtype)) {
    Dim summed(1);
    const Shape& w = graph_.type(node.inputs[1]).shape;
    for (const std::int64_t axis : summed_axes(node, false, w.size()))
      summed *= w[static_cast<std::size_t>(axis)];
    const auto most = ir::upper_bound(summed, graph_.ranges());
    if (!most || *most > kMostSummed)
      return fmt::format("it sums up {} products: int32 holds sums of {}", summed.to_string(),
                         kMostSummed);
  }
  return "";
}

/// x as floats of 8 bits beside weights in a format of 4.
std::optional<SunkProduct> ScaleSink::beside_four_bits(const Node& node,
                                                       std::string& refusal) const {
  constexpr DType kType = DType::kFloat8E4M3FN;
  if (is_float8(graph_.type(node.inputs[0]).dtype)) return std::nullopt;
  auto x = find_quantized_operand(graph_, node.inputs[0]);
  if (!x || graph_.type(x->values).dtype != kType) return std::nullopt;
  SunkProduct product{&node, {std::move(*x), {}, {}, {}}, {}};
  refusal = check_operand(product.x, node, true);
  if (refusal.empty() && product.x.has_zero) refusal = "x has a zero point";
  if (refusal.empty()) refusal = quantized_refusal(target_, graph_, node, kType);
  if (!refusal.empty()) return std::nullopt;
  return product;
}

std::optional<SunkProduct> ScaleSink::find(const Node& node, std::string& refusal) const {
  refusal.clear();
  if (has_four_bit_weights(node)) return beside_four_bits(node, refusal);
  const bool is_conv = node.op->name == "Conv";
  if ((!is_conv && !ir::is_plain_matmul(node) && !is_plain_grouped(node)) ||
      target_.first_of(node.op->name, false) == nullptr)
    return std::nullopt;
  const DType type = graph_.type(node.outputs[0]).dtype;
  if (graph_.type(node.inputs[0]).dtype != type || type == DType::kFloat64 ||
      (!is_float(type) && type != DType::kInt32) ||
      (values_.knows(node.inputs[0]) && values_.knows(node.inputs[1])))
    return std::nullopt;
  auto x = find_quantized_operand(graph_, node.inputs[0]);
  auto w = find_quantized_operand(graph_, node.inputs[1]);
  if (!x || !w) return std::nullopt;
  SunkProduct product{&node, {std::move(*x), {}, {}, {}}, SunkOperand{std::move(*w), {}, {}, {}}};
  refusal = check(product);
  if (!refusal.empty()) return std::nullopt;
  return product;
}

Piece ScaleSink::piece(SunkProduct product) const {
  const Node& node = *product.node;
  Piece piece;
  piece.writes = node.outputs;
  std::vector<std::string> origins = node.origins;
  const auto read = [&](ValueId value) {
    piece.reads.push_back(value);
    return piece.reads.size() - 1;
  };
  constexpr std::size_t kNone = SIZE_MAX;
  struct Places {
    std::size_t values, zero, scale;
  };
  const auto places_of = [&](const SunkOperand& operand) {
    const QuantizedOperand& found = operand.found;
    return Places{read(found.values), operand.has_zero ? read(found.zero->value) : kNone,
                  found.scale ? read(found.scale->value) : kNone};
  };
  const Places x = places_of(product.x);
  const Places w = product.w ? places_of(*product.w) : Places{kNone, kNone, kNone};
  const std::size_t third = product.w && node.inputs.size() > 2 ? read(node.inputs[2]) : kNone;
  const std::size_t bias = product.is_grouped() ? kNone : third,
                    offsets = product.is_grouped() ? third : kNone;
  const std::size_t weights = piece.reads.size();
  if (!product.w) piece.reads.insert(piece.reads.end(), node.inputs.begin() + 1, node.inputs.end());
  const auto take_origins = [&](const SunkOperand& operand) {
    for (const NodeId id : operand.found.nodes) {
      const auto& own = graph_.node(id).origins;
      origins.insert(origins.end(), own.begin(), own.end());
    }
  };
  take_origins(product.x);
  if (product.w) take_origins(*product.w);
  ir::sort_unique(origins);
  piece.emit = [&graph = graph_, product = std::move(product), x, w, bias, offsets, weights,
                origins](GraphBuilder& builder, std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(builder, origins);
    const auto at = [&](std::size_t i) { return i == kNone ? ValueId{} : reads[i]; };
    return std::vector{
        write_product(builder, graph, product,
                      {at(x.values),
                       at(x.zero),
                       at(x.scale),
                       at(w.values),
                       at(w.zero),
                       at(w.scale),
                       at(bias),
                       at(offsets),
                       {reads.begin() + static_cast<std::ptrdiff_t>(weights), reads.end()}})};
  };
  return piece;
}

namespace {

template <typename Visit>
void for_each_product(const Graph& graph, const Context& context, const Visit& visit) {
  if (!context.fuse || (context.target.first_of("MatMul", false) == nullptr &&
                        context.target.first_of("Conv", false) == nullptr))
    return;
  ConstantValues values(graph);
  const ScaleSink products(graph, context.target, values);
  const BlockProducts block_products(graph, context.target, values);
  std::string refusal;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (const auto block = block_products.find(node, refusal))
      visit(i, block->x, block->w);
    else if (const auto product = products.find(node, refusal); product && product->w)
      visit(i, product->x.found, product->w->found);
  }
}

}  // namespace

std::vector<bool> made_of_codes(const Graph& graph, const Context& context) {
  std::vector<bool> made(graph.nodes().size(), false);
  for_each_product(graph, context,
                   [&](std::size_t, const QuantizedOperand& x, const QuantizedOperand& w) {
                     for (const QuantizedOperand* operand : {&x, &w})
                       for (const NodeId id : operand->nodes) made[id.position()] = true;
                   });
  return made;
}

std::vector<bool> products_of_codes(const Graph& graph, const Context& context) {
  std::vector<bool> found(graph.nodes().size(), false);
  for_each_product(
      graph, context,
      [&](std::size_t i, const QuantizedOperand&, const QuantizedOperand&) { found[i] = true; });
  return found;
}

}  // namespace sinter::fusion
