// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/choose_products.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/calibration/activation_samples.h"
#include "fusion/calibration/held_out.h"
#include "fusion/calibration/trial.h"
#include "fusion/regions/constant_values.h"
#include "fusion/scales/choice/activation_scale.h"
#include "fusion/scales/choice/compensate.h"
#include "fusion/scales/choice/equal_rows.h"
#include "fusion/scales/choice/find_products.h"
#include "fusion/scales/choice/rewrite_products.h"
#include "fusion/scales/choice/smoothing.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/scales/rounding/quantizer.h"
#include "ir/reference/kernels.h"

namespace sinter::fusion {
namespace {

class ProductChooser {
 public:
  ProductChooser(const Graph& graph, Context& context)
      : graph_(graph), context_(context), options_(context.eight_bit), values_(graph) {}

  EightBitProducts choose() {
    const Calibration* given = context_.weights.calibration.get();
    if (is_static() && given == nullptr)
      throw Error(ErrorCode::kUsage,
                  "--precision int8 and fp8 need --calibration FILE.npz, samples of what the model "
                  "reads, to find the ranges of activations; without samples there is "
                  "--activation-scales token, or block for fp8, which finds them in each run");
    products_ = find_products(graph_, context_, values_);
    if (!products_.layers.empty()) {
      if (given != nullptr) {
        calibration_ = with_rows_as_samples(graph_, *given);
        divided_ = divide_samples(*calibration_);
      }
      choose_scales();
      choose_layers();
    }
    report();
    return std::move(products_);
  }

 private:
  bool is_static() const { return options_.activation_scales == ActivationScales::kStatic; }
  bool is_block() const { return options_.activation_scales == ActivationScales::kBlock; }
  const Node& node_of(const EightBitLayer& layer) const { return graph_.nodes()[layer.node_index]; }

  /// Those of a grouped matmul as one matrix [k, groups * n].
  Ints shape_of_weights(const EightBitLayer& layer) const {
    if (layer.groups != 0) return {layer.report.k, layer.report.n};
    return ir::reference::concrete_shape(graph_.type(node_of(layer).inputs[1]).shape);
  }
  Tensor weights_of(const EightBitLayer& layer) {
    const Node& node = node_of(layer);
    const Tensor& weights = values_.tensor(node.inputs[1]);
    return layer.groups != 0 ? transposed(rows_of_groups(node, weights)) : weights;
  }

  /// A layer's weights multiplied by the factors of its group, traced.
  Tensor smoothed_weights(const EightBitLayer& layer) {
    const Tensor weights = weights_of(layer);
    const auto& factors = products_.groups[layer.group].scale.smoothing;
    if (factors.empty()) return weights;
    const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {weights});
    Ints shape(wide.shape().size(), 1);
    shape[layer.is_conv ? 1 : 0] = std::ssize(factors);
    return computed("Mul", {}, {wide, Tensor::of(DType::kFloat32, shape, factors)});
  }

  void choose_scales() {
    if (!calibration_) {
      for (ActivationGroup& group : products_.groups) group.scale = scale_of_runs({}, 0);
    } else {
      choose_scales_on_samples();
    }
    for (EightBitLayer& layer : products_.layers) {
      if (layer.has_four_bits) continue;
      if (const EightBitLayer* same = with_same_weights(layer))
        layer.weights = same->weights;
      else
        round_weights(layer);
    }
    const bool compensates = calibration_ && options_.compensate;
    if (compensates) compensate_weights();
    for (EightBitLayer& layer : products_.layers) {
      const EightBitLayer* same = compensates ? nullptr : with_same_weights(layer);
      describe_weights(layer, same);
    }
  }

  /// An earlier layer that rounds the same weights in the same way: layers that share them.
  const EightBitLayer* with_same_weights(const EightBitLayer& layer) const {
    const auto is_smoothed = [&](const EightBitLayer& each) {
      return !products_.groups[each.group].scale.smoothing.empty();
    };
    if (is_smoothed(layer) || layer.has_four_bits) return nullptr;
    for (const EightBitLayer& other : products_.layers) {
      if (&other == &layer) return nullptr;
      if (other.is_conv == layer.is_conv && !is_smoothed(other) &&
          node_of(other).inputs[1] == node_of(layer).inputs[1])
        return &other;
    }
    return nullptr;
  }

  void compensate_weights() {
    std::vector<RoundedLayer> rounded;
    for (EightBitLayer& layer : products_.layers)
      rounded.push_back({layer.node_index,
                         layer.is_conv || layer.has_four_bits ? Tensor() : smoothed_weights(layer),
                         &layer.weights});
    compensate(graph_, divided_.fitted, rounded, add_rounded_layers());
  }

  AddRoundedLayer add_rounded_layers() const {
    return [this](GraphBuilder& builder, std::size_t i, const Node& node,
                  std::span<const ValueId> inputs) {
      const EightBitLayer& layer = products_.layers[i];
      const bool smooths = true;
      return add_eight_bit_layer(
          builder, layer, products_.groups[layer.group].scale, node, inputs, smooths,
          [&](DType type) {
            // A constant of the graph's type: computing it here is faster than folding it there.
            const Tensor weights =
                layer.groups != 0
                    ? dequantized_rows(layer.weights)
                          .reshaped({layer.groups, layer.report.n / layer.groups, layer.report.k})
                    : dequantized_operand(layer.weights, shape_of_weights(layer));
            return builder.constant(ir::reference::convert(weights, type));
          });
    };
  }

  ActivationScale scale_of_runs(std::vector<float> smoothing, std::size_t axis) const {
    ActivationScale scale;
    scale.format = activation_format(*options_.type, options_.activation_scales);
    scale.smoothing = std::move(smoothing);
    scale.axis = axis;
    return scale;
  }

  void choose_scales_on_samples() {
    std::vector<ValueId> activations;
    std::vector<std::size_t> axes;
    std::vector<std::string> names;
    for (const ActivationGroup& group : products_.groups) {
      activations.push_back(group.activation);
      axes.push_back(group.is_conv ? 1 : graph_.type(group.activation).shape.size() - 1);
      names.push_back(products_.layers[group.layers.front()].report.name);
    }
    const auto samples = sample_activations(graph_, *calibration_, activations, axes, names);
    std::vector<RangeChoice> choices;
    for (std::size_t g = 0; g < products_.groups.size(); ++g) {
      if (calibration_->progress) calibration_->progress("smoothing", g, products_.groups.size());
      choices.push_back(range_choice(products_.groups[g], samples[g]));
      std::vector<float>& smoothing = choices.back().whole.smoothing;
      products_.groups[g].scale =
          is_static() ? choices.back().whole : scale_of_runs(std::move(smoothing), axes[g]);
    }
    if (!is_static() || !is_integer(*options_.type)) return;
    const auto parts = best_parts(graph_, *calibration_, activations, samples, choices);
    for (std::size_t g = 0; g < products_.groups.size(); ++g)
      products_.groups[g].scale.scale *= parts[g];
  }

  /// With the chosen smoothing. Floats have none and one scale: they do not depend on weights.
  RangeChoice range_choice(const ActivationGroup& group, const ActivationSample& sample) {
    const std::vector<Tensor> weights =
        is_integer(*options_.type) ? matrices_of(group) : std::vector<Tensor>();
    RangeChoice choice;
    if (!weights.empty()) {
      choice.by_row = are_rows_equal(group);
      choice.importance = row_norms(weights);
      choice.smoothing =
          smoothing_with(best_exponent(sample, weights, choice.by_row, options_), weights);
    }
    const ColumnRanges ranges = ranges_of(sample);
    choice.whole = whole_scale(ranges, sample.axis,
                               choice.smoothing ? choice.smoothing(ranges) : std::vector<float>(),
                               *options_.type, zeros_of(group));
    return choice;
  }

  /// Whether norms make the rows of all layers' results equal. Rows of images are pixels.
  bool are_rows_equal(const ActivationGroup& group) const {
    return !group.is_conv && std::ranges::all_of(group.layers, [&](std::size_t i) {
      return are_rows_made_equal(graph_, node_of(products_.layers[i]).outputs[0]);
    });
  }

  /// Padding of an image reads zeros, so that padded inputs get no zero point.
  ZeroPoints zeros_of(const ActivationGroup& group) const {
    if (!takes_activations(context_, DType::kUInt8, group.is_conv ? "Conv" : "MatMul"))
      return ZeroPoints::kNone;
    const bool is_padded = std::ranges::any_of(group.layers, [&](std::size_t i) {
      const Attrs& attrs = node_of(products_.layers[i]).attrs;
      const auto pads = [&](const char* name) {
        return std::ranges::any_of(attrs.get_ints(name), [](auto size) { return size != 0; });
      };
      return group.is_conv && (pads("pads_begin") || pads("pads_end"));
    });
    return is_padded ? ZeroPoints::kOfRange : ZeroPoints::kAny;
  }

  /// Float32 weights as matrices [k, n] whose k is the summed dimension; for a convolution, its
  /// input channels. Empty for grouped convolutions.
  std::vector<Tensor> matrices_of(const ActivationGroup& group) {
    std::vector<Tensor> matrices;
    for (const std::size_t i : group.layers) {
      const Node& node = node_of(products_.layers[i]);
      Tensor weights =
          computed("Cast", {{"to", DType::kFloat32}}, {weights_of(products_.layers[i])});
      if (group.is_conv) {
        if (node.attrs.get_int("group") != 1) return {};
        Ints perm(weights.shape().size());
        std::iota(perm.begin(), perm.end(), std::int64_t{0});
        std::swap(perm[0], perm[1]);
        weights = computed("Transpose", {{"perm", perm}}, {weights});
        const std::int64_t k = weights.shape()[0];
        weights = weights.reshaped({k, weights.element_count() / k});
      }
      matrices.push_back(std::move(weights));
    }
    return matrices;
  }

  void round_weights(EightBitLayer& layer) {
    with_context("layer '" + layer.report.name + "'", [&] {
      layer.weights = is_block() ? block_weights(smoothed_weights(layer))
                                 : eight_bit_weights(smoothed_weights(layer), *options_.type,
                                                     options_.per_channel);
    });
  }

  void describe_weights(EightBitLayer& layer, const EightBitLayer* same) {
    QuantizedLayer& report = layer.report;
    if (layer.has_four_bits) {
      constexpr int kBits = 4;
      report.bits = kBits;
      report.type = type_text(layer);
      return;
    }
    if (same != nullptr) {
      report.weight_error = same->report.weight_error;
      report.output_error = same->report.output_error;
    } else {
      measure_weights(layer);
    }
    report.bits = 8;
    report.bytes_after =
        static_cast<double>(layer.weights.values.byte_count() + layer.weights.scales.byte_count());
    report.type = type_text(layer);
  }

  void measure_weights(EightBitLayer& layer) {
    const Tensor exact = smoothed_weights(layer).plain(),
                 rounded = dequantized_operand(layer.weights, exact.shape());
    layer.report.weight_error = weight_error(exact, rounded);
    if (calibration_) return;
    layer.report.output_error = output_error(transposed(exact), transposed(rounded));
  }

  std::string type_text(const EightBitLayer& layer) const {
    const ActivationScale& scale = products_.groups[layer.group].scale;
    std::string text = fmt::format("{} x {}", scale.format.codes->name,
                                   layer.has_four_bits ? "int4" : to_string(*options_.type));
    if (scale.format.has_rows_of_scales())
      text += scale.format.depth == 0 ? ", each token" : ", each block";
    if (scale.zero != 0) text += fmt::format(", zero {}", scale.zero);
    if (!scale.smoothing.empty()) text += ", smoothed";
    return text;
  }

  void choose_layers() {
    if (!calibration_) return;
    std::vector<std::size_t> node_indices;
    for (const EightBitLayer& layer : products_.layers) node_indices.push_back(layer.node_index);
    // Fitted values have smaller errors on the samples that they were fitted to.
    const Calibration& measured = divided_.held_out;
    EightBitTrial trial(graph_, measured, node_indices, add_rounded_layers());
    for (std::size_t i = 0; i < products_.layers.size(); ++i)
      products_.layers[i].report.output_error = trial.layer_errors()[i];
    std::set<std::size_t> dropped;
    for (std::size_t i = 0; i < products_.layers.size(); ++i)
      if (products_.layers[i].report.output_error > context_.weights.max_error)
        keep(i, dropped,
             fmt::format("its output would be off by {:.3g}, --max-layer-error is {:.3g}",
                         products_.layers[i].report.output_error, context_.weights.max_error));
    const EightBitTrial::Outcome outcome = trial.choose(dropped, options_.max_error);
    for (const std::size_t i : outcome.kept)
      keep(i, dropped,
           fmt::format("the model's output would be off by {:.3g} with it and all others, "
                       "--max-error is {:.3g}",
                       outcome.error_of_all, options_.max_error));
    std::erase_if(products_.layers,
                  [](const EightBitLayer& layer) { return !layer.report.kept.empty(); });
    const std::string measured_on =
        measured.parts > 1 ? fmt::format("{} of {} parts of the samples", measured.samples.size(),
                                         calibration_->samples.size())
                           : fmt::format("{} samples", measured.samples.size());
    context_.precision_notes.push_back(
        fmt::format("{}: {} of {} layers; on {} the model's outputs are off by {:.3g}, {:.3g} at "
                    "most (--max-error)",
                    name_of_type(options_), products_.layers.size(),
                    products_.layers.size() + products_.kept.size(), measured_on, outcome.error,
                    options_.max_error));
  }

  void keep(std::size_t i, std::set<std::size_t>& dropped, std::string reason) {
    EightBitLayer& layer = products_.layers[i];
    layer.report.kept = std::move(reason);
    layer.report.bits = 0;
    layer.report.type.clear();
    layer.report.bytes_after = layer.report.bytes_before;
    note_kept(context_, products_, layer);
    dropped.insert(i);
  }

  /// Reports layers in the graph's order.
  void report() {
    std::vector<EightBitLayer> all = products_.layers;
    all.insert(all.end(), products_.kept.begin(), products_.kept.end());
    std::ranges::sort(all, {}, &EightBitLayer::node_index);
    for (EightBitLayer& layer : all) {
      const auto known =
          layer.has_four_bits ? own_report(context_, layer.report.name) : context_.layers.end();
      if (known != context_.layers.end())
        *known = std::move(layer.report);
      else
        context_.layers.push_back(std::move(layer.report));
    }
  }

  const Graph& graph_;
  Context& context_;
  const EightBitOptions& options_;
  std::optional<Calibration> calibration_;  // unset without samples
  DividedSamples divided_;
  ConstantValues values_;
  EightBitProducts products_;
};

}  // namespace

EightBitProducts choose_products(const Graph& graph, Context& context) {
  return ProductChooser(graph, context).choose();
}

}  // namespace sinter::fusion
