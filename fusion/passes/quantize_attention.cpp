// SPDX-License-Identifier: Apache-2.0
// --attention-precision fp8: attention with 8-bit queries, keys and values, each with a scale from
// calibration samples, and with 8-bit weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/calibration/activation_samples.h"
#include "fusion/calibration/layer_inputs.h"
#include "fusion/calibration/trial.h"
#include "fusion/passes/passes.h"
#include "fusion/scales/choice/operands.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

constexpr std::size_t kOperands = 3;  // queries, keys, values
// Lower bound for operands that are zero on all samples, to avoid division by zero.
constexpr double kLeastOperandScale = 0x1p-100;
// Scales within this factor are merged: e4m3 has the same relative step over 15 powers of two.
// Operands that are slices of one value are then rounded at once.
constexpr double kCommonScales = 64;

struct AttentionLayer {
  std::size_t node_index = 0;  // index of the node
  std::array<double, kOperands> scales{};
  bool is_common = false;  // all share one scale
  QuantizedLayer report;
};

/// A view between a value and its source.
struct ViewStep {
  std::string op;
  Attrs attrs;
};

/// `value` as codes of `type` times `scale`, rounded before its views, so that the kernel that
/// computes it can round in its store. `whole`: also rounds values of which others have slices.
ValueId add_codes(GraphBuilder& builder, ValueId value, DType type, double scale, bool whole) {
  std::vector<ViewStep> views;
  for (const Node* node = builder.producer(value); node != nullptr;
       node = builder.producer(value)) {
    const std::string& op = node->op->name;
    const bool is_passed = op == "Reshape" || op == "Transpose" || op == "Expand";
    if (!is_passed && !(op == "Slice" && whole)) break;
    views.insert(views.begin(), {op, node->attrs});
    value = node->inputs[0];
  }
  if (builder.type(value).dtype != DType::kFloat32)
    value = builder.add("Cast", {value}, {{"to", DType::kFloat32}});
  value = builder.add("Quotient", {value, builder.scalar(DType::kFloat32, scale)});
  value = builder.add("Cast", {value}, {{"to", type}});
  for (const ViewStep& view : views) value = builder.add(view.op, {value}, view.attrs);
  return value;
}

/// Values [.., n, dv] in the layout of 8-bit attention: [.., dv, columns], zero-padded after the
/// keys.
ValueId add_value_columns(GraphBuilder& builder, ValueId values) {
  const Shape shape = builder.type(values).shape;
  const std::size_t rank = shape.size();
  const Dim& n = shape[rank - 2];
  const Dim missing = ir::value_columns(n) - n;
  if (missing != Dim(0)) {
    Shape begins(rank, Dim(0)), ends(rank, Dim(0));
    ends[rank - 2] = missing;
    values = builder.add("Pad", {values}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
  }
  Ints perm(rank);
  for (std::size_t d = 0; d < rank; ++d) perm[d] = static_cast<std::int64_t>(d);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return builder.add("Transpose", {values}, {{"perm", perm}});
}

class AttentionQuantizer {
 public:
  AttentionQuantizer(const Graph& graph, Context& context)
      : graph_(graph),
        context_(context),
        type_(*context.eight_bit.attention),
        calibration_(context.weights.calibration.get()) {}

  Graph run() {
    if (calibration_ == nullptr)
      throw Error(ErrorCode::kUsage,
                  "--attention-precision fp8 needs --calibration FILE.npz, samples of what the "
                  "model reads, to find the ranges of queries, keys and values");
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (graph_.nodes()[i].op->name == "Attention") add_layer(i);
    if (!layers_.empty()) {
      choose_scales();
      choose_layers();
    }
    note();
    return rewritten();
  }

 private:
  const Node& node_of(const AttentionLayer& layer) const {
    return graph_.nodes()[layer.node_index];
  }

  void add_layer(std::size_t node_index) {
    const Node& node = graph_.nodes()[node_index];
    AttentionLayer layer;
    layer.node_index = node_index;
    layer.report.name = layer_name(node);
    const auto width = [&](std::size_t i) {
      const Dim& dim = graph_.type(node.inputs[i]).shape.back();
      return dim.is_constant() ? dim.value() : 0;
    };
    layer.report.k = width(1);
    layer.report.n = width(2);
    layer.report.kept = reason_to_keep(node, layer.report);
    (layer.report.kept.empty() ? layers_ : kept_).push_back(std::move(layer));
  }

  std::string reason_to_keep(const Node& node, const QuantizedLayer& layer) const {
    for (const std::string& text : context_.weights.keep)
      if (layer.name.find(text) != std::string::npos)
        return fmt::format("its name has '{}' (--keep)", text);
    const DType type = graph_.type(node.inputs[0]).dtype;
    for (std::size_t i = 1; i < kOperands; ++i)
      if (graph_.type(node.inputs[i]).dtype != type)
        return "its keys and values have another type than its queries";
    if (node.attrs.get_int("limited") != 0)
      return "its rows see as many keys as an input says, as those of caches do";
    if (node.body) return "its scores are made by operators in front of the softmax";
    if (layer.k == 0 || layer.n == 0) return "its heads have no known size";
    if (context_.eight_bit.emulate) return "";
    const ir::OperandFormats* const heads = context_.target.first_of("Attention", false);
    if (heads == nullptr) return "the target has no attention of 8 bits";
    for (const std::int64_t head : {layer.k, layer.n})
      if (head % heads->unit != 0 || head < heads->least || head > heads->most)
        return fmt::format("its heads of {} are no multiple of {} from {} to {}", head, heads->unit,
                           heads->least, heads->most);
    return "";
  }

  void choose_scales() {
    std::vector<ValueId> values;
    std::vector<std::size_t> axes;
    std::vector<std::string> names;
    for (const AttentionLayer& layer : layers_)
      for (std::size_t i = 0; i < kOperands; ++i) {
        values.push_back(node_of(layer).inputs[i]);
        axes.push_back(graph_.type(values.back()).shape.size() - 1);
        names.push_back(layer.report.name);
      }
    const auto samples = sample_activations(graph_, *calibration_, values, axes, names);
    for (std::size_t v = 0; v < samples.size(); ++v) {
      double largest = 0;
      const ColumnRanges ranges = ranges_of(samples[v]);
      for (const auto* ends : {&ranges.low, &ranges.high})
        for (const float end : *ends) largest = std::max(largest, std::abs(double{end}));
      layers_[v / kOperands].scales[v % kOperands] = double{static_cast<float>(
          std::max(largest / ir::codes_stored_as(type_).largest, kLeastOperandScale))};
    }
    for (AttentionLayer& layer : layers_) {
      const auto [least, most] = std::ranges::minmax(layer.scales);
      layer.is_common = most <= least * kCommonScales;
      if (layer.is_common) layer.scales.fill(most);
    }
  }

  void choose_layers() {
    std::vector<std::size_t> node_indices;
    for (const AttentionLayer& layer : layers_) node_indices.push_back(layer.node_index);
    EightBitTrial trial(graph_, *calibration_, node_indices,
                        [this](GraphBuilder& builder, std::size_t i, const Node& node,
                               std::span<const ValueId> inputs) {
                          return add_rounded(builder, layers_[i], node, inputs);
                        });
    std::set<std::size_t> dropped;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      QuantizedLayer& report = layers_[i].report;
      report.output_error = trial.layer_errors()[i];
      report.bits = 8;
      report.type = fmt::format("{0}: q, k, v, weights", to_string(type_));
      if (report.output_error > context_.weights.max_error)
        keep(i, dropped,
             fmt::format("its output would be off by {:.3g}, --max-layer-error is {:.3g}",
                         report.output_error, context_.weights.max_error));
    }
    const EightBitTrial::Outcome outcome = trial.choose(dropped, context_.eight_bit.max_error);
    for (const std::size_t i : outcome.kept)
      keep(i, dropped,
           fmt::format("the model's output would be off by {:.3g} with it and all others, "
                       "--max-error is {:.3g}",
                       outcome.error_of_all, context_.eight_bit.max_error));
    std::erase_if(layers_, [](const AttentionLayer& layer) { return !layer.report.kept.empty(); });
    error_ = outcome.error;
  }

  void keep(std::size_t i, std::set<std::size_t>& dropped, std::string reason) {
    QuantizedLayer& report = layers_[i].report;
    report.kept = std::move(reason);
    report.bits = 0;
    report.type.clear();
    kept_.push_back(layers_[i]);
    dropped.insert(i);
  }

  void note() {
    const std::size_t all = layers_.size() + kept_.size();
    std::string text = fmt::format("attention in fp8: {} of {}", layers_.size(), all);
    if (all == 0)
      text += ", as none was found that the target has a kernel for";
    else if (!layers_.empty())
      text += fmt::format(
          "; on {} samples they put the model's outputs off by {:.3g}, {:.3g} at most "
          "(--max-error)",
          calibration_->samples.size(), error_, context_.eight_bit.max_error);
    context_.precision_notes.push_back(std::move(text));
    std::vector<AttentionLayer> reported = layers_;
    reported.insert(reported.end(), kept_.begin(), kept_.end());
    std::ranges::sort(reported, {}, &AttentionLayer::node_index);
    for (AttentionLayer& layer : reported) context_.layers.push_back(std::move(layer.report));
  }

  ValueId add_rounded(GraphBuilder& builder, const AttentionLayer& layer, const Node& node,
                      std::span<const ValueId> inputs) const {
    const DType type = builder.type(inputs[0]).dtype;
    std::vector<ValueId> operands(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < kOperands; ++i)
      operands[i] = add_codes(builder, inputs[i], type_, layer.scales[i], layer.is_common);
    operands[2] = add_value_columns(builder, operands[2]);
    Attrs attrs = node.attrs;
    const double scale = attrs.get_float("scale") * layer.scales[0] * layer.scales[1];
    attrs.set("scale", double{static_cast<float>(scale)});
    const ValueId sums = builder.add("Attention", std::move(operands), std::move(attrs));
    const ValueId result =
        builder.add("Mul", {sums, builder.scalar(DType::kFloat32, layer.scales[2])});
    return type == DType::kFloat32 ? result : builder.add("Cast", {result}, {{"to", type}});
  }

  Graph rewritten() const {
    return ir::rewrite(
        graph_,
        [&](GraphBuilder& builder, const Graph& old, const Node& node,
            std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
          const auto node_index = static_cast<std::size_t>(&node - old.nodes().data());
          const auto found = std::ranges::find(layers_, node_index, &AttentionLayer::node_index);
          if (found == layers_.end()) return std::nullopt;
          return std::vector{add_rounded(builder, *found, node, inputs)};
        });
  }

  const Graph& graph_;
  Context& context_;
  DType type_;
  const Calibration* calibration_;
  std::vector<AttentionLayer> layers_, kept_;
  double error_ = 0;  // of the model's outputs
};

}  // namespace

Graph quantize_attention(const Graph& graph, Context& context) {
  return context.eight_bit.attention ? AttentionQuantizer(graph, context).run() : graph;
}

}  // namespace sinter::fusion
