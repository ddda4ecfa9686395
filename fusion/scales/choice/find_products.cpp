// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/find_products.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "fusion/calibration/layer_inputs.h"
#include "fusion/precision/sensitivity.h"
#include "fusion/regions/operand.h"
#include "fusion/scales/block_product.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/scales/kept_product.h"
#include "fusion/scales/rounding/quantizer.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

class ProductFinder {
 public:
  ProductFinder(const Graph& graph, Context& context, ConstantValues& values)
      : graph_(graph),
        context_(context),
        options_(context.eight_bit),
        values_(values),
        sensitivity_(find_sensitivity(graph, false)),
        choosing_(choosing_products(graph)) {}

  EightBitProducts find() {
    std::set<std::size_t> found, products;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is_layer(node)) found.insert(i);
      const auto kept = kept_product(graph_, values_, node);
      if (kept) keep(i, *kept);
      for (const QuantizedLayer& row : products_of_bodies(values_, node)) keep(i, row);
      if (found.contains(i) || kept || ir::has_scaled_weights(node)) products.insert(i);
    }
    const std::set<std::size_t> last = last_layers(graph_, products);
    std::map<std::pair<ValueId, bool>, std::size_t> groups;
    for (const std::size_t node_index : found) {
      const Node& node = graph_.nodes()[node_index];
      EightBitLayer layer;
      layer.node_index = node_index;
      layer.is_conv = node.op->name == "Conv";
      layer.has_four_bits = has_four_bits(node);
      if (is_plain_grouped(node)) layer.groups = graph_.type(node.inputs[1]).shape[0].value();
      layer.report = start_report(layer, node);
      QuantizedLayer& report = layer.report;
      report.kept = reason_to_keep(node, report, last.contains(node_index));
      if (!report.kept.empty()) {
        note_kept(context_, products_, std::move(layer));
        continue;
      }
      const auto [group, is_new] =
          groups.emplace(std::pair(node.inputs[0], layer.is_conv), products_.groups.size());
      if (is_new) products_.groups.push_back({node.inputs[0], layer.is_conv, {}, {}});
      layer.group = group->second;
      products_.groups[layer.group].layers.push_back(products_.layers.size());
      products_.layers.push_back(std::move(layer));
    }
    return std::move(products_);
  }

 private:
  bool is_static() const { return options_.activation_scales == ActivationScales::kStatic; }
  bool is_block() const { return options_.activation_scales == ActivationScales::kBlock; }

  /// Records a matmul that is no layer; --weights may have reported it already.
  void keep(std::size_t node_index, const QuantizedLayer& row) {
    if (own_report(context_, row.name) != context_.layers.end()) return;
    EightBitLayer layer;
    layer.node_index = node_index;
    layer.report = row;
    products_.kept.push_back(std::move(layer));
  }

  /// 4-bit weights, which e4m3 represents exactly.
  bool has_four_bits(const Node& node) const {
    return *options_.type == DType::kFloat8E4M3FN && has_four_bit_weights(node);
  }

  bool is_layer(const Node& node) const {
    const bool is_conv = node.op->name == "Conv", is_four_bit = has_four_bits(node);
    const bool is_grouped = is_plain_grouped(node);
    if (!is_conv && !is_four_bit && !is_grouped && !ir::is_plain_matmul(node)) return false;
    const ValueId x = node.inputs[0], weight = node.inputs[1];
    const auto is_wide = [&](ValueId value) {
      const DType type = graph_.type(value).dtype;
      return is_arithmetic_float(type) && type != DType::kFloat64;
    };
    const Shape& shape = graph_.type(weight).shape;
    return is_wide(x) && (is_four_bit || is_wide(weight)) && !values_.knows(x) &&
           values_.knows(weight) && (is_conv || shape.size() == (is_grouped ? 3U : 2U)) &&
           graph_.type(x).shape.size() >= 2 &&
           std::ranges::none_of(shape, [](const Dim& dim) { return dim == Dim(0); });
  }

  /// For 4-bit weights: starts with their existing report.
  QuantizedLayer start_report(const EightBitLayer& layer, const Node& node) const {
    QuantizedLayer report;
    report.name = layer_name(node);
    const Shape& weight = graph_.type(node.inputs[1]).shape;
    if (!layer.has_four_bits) {
      const bool is_grouped = layer.groups != 0;
      const std::size_t columns = is_grouped && node.attrs.get_int("transposed") == 0 ? 2
                                  : layer.is_conv                                     ? 0
                                                                                      : 1;
      report.n = weight[columns].value() * (is_grouped ? layer.groups : 1);
      report.k = ir::element_count(weight).value() / report.n;
      report.bytes_before = report.bytes_after =
          static_cast<double>(report.n * report.k) *
          static_cast<double>(size_of(graph_.type(node.inputs[1]).dtype));
      return report;
    }
    if (const auto known = own_report(context_, report.name); known != context_.layers.end())
      return *known;
    report.n = weight[0].value();
    report.k = graph_.type(node.inputs[0]).shape.back().value();
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const TensorType& type = graph_.type(node.inputs[i]);
      report.bytes_before += static_cast<double>(ir::element_count(type.shape).value()) *
                             static_cast<double>(size_of(type.dtype));
    }
    report.bytes_after = report.bytes_before;
    return report;
  }

  std::string reason_to_keep(const Node& node, const QuantizedLayer& layer, bool is_last) const {
    const auto has = [&](const std::string& text) {
      return layer.name.find(text) != std::string::npos;
    };
    for (const std::string& text : context_.weights.keep)
      if (has(text)) return fmt::format("its name has '{}' (--keep)", text);
    const bool is_grouped = is_plain_grouped(node);
    if (!takes_activations(context_, *options_.type, node.op->name))
      return fmt::format("the target has no {} of {} (--emulate)",
                         node.op->name == "Conv" ? "convolution"
                         : is_grouped            ? "grouped product"
                                                 : "product",
                         to_string(*options_.type));
    if (sensitivity_.nodes[static_cast<std::size_t>(&node - graph_.nodes().data())] == Kept::kExact)
      return "it makes angles or positions, of which an error counts absolutely";
    const bool is_conv = node.op->name == "Conv";
    if (is_conv && !is_static())
      return "a convolution has no tokens to have scales: --activation-scales static";
    if (is_grouped && is_block())
      return "a grouped product has no scales of blocks: --activation-scales token or static";
    if (has_four_bits(node)) {
      if (is_block())
        return "weights of 4 bits have scales of their own: --activation-scales token or static";
      std::string no = quantized_refusal(context_.target, graph_, node, DType::kFloat8E4M3FN);
      if (!no.empty() && !options_.emulate) return no;
    } else if (is_block() && layer.k % kScaleBlock != 0)
      return fmt::format("its k of {} is no multiple of {}, which share a scale", layer.k,
                         kScaleBlock);
    if (std::ranges::any_of(options_.include, has)) return "";
    if (choosing_.contains(static_cast<std::size_t>(&node - graph_.nodes().data())))
      return "it chooses experts: an error changes which of them compute (--include)";
    if (is_last) return "no layer is behind it (--include)";
    if (is_conv && graph_.type(node.inputs[1]).shape[1] == Dim(1) &&
        node.attrs.get_int("group") > 1)
      return "a convolution of single channels is bound by memory (--include)";
    const std::int64_t depth = is_conv ? graph_.type(node.inputs[1]).shape[1].value() : layer.k;
    const ir::OperandFormats* row =
        context_.target.sums(node.op->name, *options_.type, *options_.type);
    if (row == nullptr) row = context_.target.first_of(node.op->name, false);
    if (row != nullptr && depth % row->unit != 0)
      return fmt::format("its {} of {} is no multiple of {}: 8 bits are not faster (--include)",
                         is_conv ? "number of channels" : "k", depth, row->unit);
    return "";
  }

  const Graph& graph_;
  Context& context_;
  const EightBitOptions& options_;
  ConstantValues& values_;
  Sensitivity sensitivity_;
  std::set<std::size_t> choosing_;
  EightBitProducts products_;
};

}  // namespace

EightBitProducts find_products(const Graph& graph, Context& context, ConstantValues& values) {
  return ProductFinder(graph, context, values).find();
}

bool takes_activations(const Context& context, DType type, std::string_view op) {
  return context.eight_bit.emulate ||
         context.target.sums(op, type, *context.eight_bit.type) != nullptr;
}

void note_kept(Context& context, EightBitProducts& products, EightBitLayer layer) {
  if (layer.has_four_bits)
    context.precision_notes.push_back(fmt::format("{}: '{}' keeps its activations: {}",
                                                  name_of_type(context.eight_bit),
                                                  layer.report.name, layer.report.kept));
  else
    products.kept.push_back(std::move(layer));
}

std::vector<QuantizedLayer>::iterator own_report(Context& context, const std::string& name) {
  return std::ranges::find_if(context.layers,
                              [&](const QuantizedLayer& each) { return each.name == name; });
}

std::string_view name_of_type(const EightBitOptions& options) {
  return is_integer(*options.type) ? "int8" : "fp8";
}

}  // namespace sinter::fusion
