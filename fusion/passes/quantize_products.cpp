// --precision int8 and fp8: products and convolutions of activations and constant weights get
// operands of 8 bits, as if the model had QuantizeLinear and DequantizeLinear in front of them.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/eight_bit/activation_samples.h"
#include "fusion/eight_bit/activation_scale.h"
#include "fusion/eight_bit/column_source.h"
#include "fusion/eight_bit/compensate.h"
#include "fusion/eight_bit/operands.h"
#include "fusion/eight_bit/trial.h"
#include "fusion/passes/passes.h"
#include "fusion/quantize/block_product.h"
#include "fusion/quantize/layer_inputs.h"
#include "fusion/quantize/quantizer.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/reference/kernels.h"

namespace sinter::fusion {
namespace {

/// Layers that read one activation, which is rounded once for all of them.
struct ActivationGroup {
  ValueId activation;
  bool is_conv = false;
  std::vector<std::size_t> layers;
  ActivationScale scale;
};

struct EightBitLayer {
  std::size_t place = 0;  // of the node
  bool is_conv = false;
  bool has_four_bits = false;  // of weights, which stay as they are
  std::size_t group = 0;
  EightBitWeights weights;
  QuantizedLayer report;
};

Tensor vector_of(const std::vector<float>& values, Ints shape) {
  return Tensor::of(DType::kFloat32, std::move(shape), values);
}

class ProductQuantizer {
 public:
  ProductQuantizer(const Graph& graph, Context& context)
      : graph_(graph),
        context_(context),
        options_(context.eight_bit),
        calibration_(context.weights.calibration.get()),
        values_(graph) {}

  Graph run() {
    if (is_static() && calibration_ == nullptr)
      throw Error(ErrorCode::kUsage,
                  "--precision int8 and fp8 need --calibration FILE.npz, samples of what the model "
                  "reads, to find the ranges of activations; without samples there is "
                  "--activation-scales token, or block for fp8, which finds them in each run");
    find_layers();
    if (!layers_.empty()) {
      choose_scales();
      choose_layers();
    }
    report();
    return layers_.empty() ? graph_ : rewritten();
  }

 private:
  bool is_static() const { return options_.activation_scales == ActivationScales::kStatic; }
  bool is_block() const { return options_.activation_scales == ActivationScales::kBlock; }
  const Node& node_of(const EightBitLayer& layer) const { return graph_.nodes()[layer.place]; }

  /// Weights of 4 bits, which e4m3 holds exactly.
  bool has_four_bits(const Node& node) const {
    constexpr int kBits = 4;
    return *options_.type == DType::kFloat8E4M3FN && node.op->name == "QuantMatMul" &&
           node.attrs.get_int("bits") == kBits;
  }

  bool is_layer(const Node& node) const {
    const bool is_conv = node.op->name == "Conv", is_four_bit = has_four_bits(node);
    if (!is_conv && !is_four_bit && node.op->name != "MatMul") return false;
    const ValueId x = node.inputs[0], weight = node.inputs[1];
    const auto is_wide = [&](ValueId value) {
      const DType type = graph_.type(value).dtype;
      return is_arithmetic_float(type) && type != DType::kFloat64;
    };
    const Shape& shape = graph_.type(weight).shape;
    return is_wide(x) && (is_four_bit || is_wide(weight)) && !values_.knows(x) &&
           values_.knows(weight) && (is_conv || shape.size() == 2) &&
           graph_.type(x).shape.size() >= 2 &&
           std::ranges::none_of(shape, [](const Dim& dim) { return dim == Dim(0); });
  }

  void find_layers() {
    std::set<std::size_t> found, products;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (is_layer(graph_.nodes()[i])) found.insert(i);
      if (found.contains(i) || graph_.nodes()[i].op->name == "QuantMatMul") products.insert(i);
    }
    const std::set<std::size_t> last = last_layers(graph_, products);
    std::map<std::pair<ValueId, bool>, std::size_t> groups;
    for (const std::size_t place : found) {
      const Node& node = graph_.nodes()[place];
      EightBitLayer layer;
      layer.place = place;
      layer.is_conv = node.op->name == "Conv";
      layer.has_four_bits = has_four_bits(node);
      layer.report = start_report(layer, node);
      QuantizedLayer& report = layer.report;
      report.kept = reason_to_keep(node, report, last.contains(place));
      if (!report.kept.empty()) {
        note_kept(std::move(layer));
        continue;
      }
      const auto [group, is_new] =
          groups.emplace(std::pair(node.inputs[0], layer.is_conv), groups_.size());
      if (is_new) groups_.push_back({node.inputs[0], layer.is_conv, {}, {}});
      layer.group = group->second;
      groups_[layer.group].layers.push_back(layers_.size());
      layers_.push_back(std::move(layer));
    }
  }

  /// Of weights of 4 bits what is said of them already.
  QuantizedLayer start_report(const EightBitLayer& layer, const Node& node) const {
    QuantizedLayer report;
    report.name = layer_name(node);
    const Shape& weight = graph_.type(node.inputs[1]).shape;
    if (!layer.has_four_bits) {
      report.n = weight[layer.is_conv ? 0 : 1].value();
      report.k = ir::element_count(weight).value() / report.n;
      report.bytes_before = report.bytes_after =
          static_cast<double>(report.n * report.k) *
          static_cast<double>(size_of(graph_.type(node.inputs[1]).dtype));
      return report;
    }
    if (const auto known = own_report(report.name); known != context_.layers.end()) return *known;
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

  std::vector<QuantizedLayer>::iterator own_report(const std::string& name) const {
    return std::ranges::find_if(context_.layers,
                                [&](const QuantizedLayer& each) { return each.name == name; });
  }

  /// Weights of 4 bits stay so: of them it is the activation that is kept.
  void note_kept(EightBitLayer layer) {
    if (layer.has_four_bits)
      context_.precision_notes.push_back(fmt::format("{}: '{}' keeps its activations: {}",
                                                     name_of_type(), layer.report.name,
                                                     layer.report.kept));
    else
      kept_.push_back(std::move(layer));
  }

  std::string reason_to_keep(const Node& node, const QuantizedLayer& layer, bool is_last) const {
    const auto has = [&](const std::string& text) {
      return layer.name.find(text) != std::string::npos;
    };
    for (const std::string& text : context_.weights.keep)
      if (has(text)) return fmt::format("its name has '{}' (--keep)", text);
    if (!multiplies(*options_.type, node.op->name == "Conv"))
      return fmt::format("the target has no {} of {} (--emulate)",
                         node.op->name == "Conv" ? "convolution" : "product",
                         to_string(*options_.type));
    const bool is_conv = node.op->name == "Conv";
    if (is_conv && !is_static())
      return "a convolution has no tokens to have scales: --activation-scales static";
    if (has_four_bits(node)) {
      if (is_block())
        return "weights of 4 bits have scales of their own: --activation-scales token or static";
      const std::string no = quantized_refusal(context_.target, graph_, node, DType::kFloat8E4M3FN);
      if (!no.empty() && !options_.emulate) return no;
    } else if (is_block() && layer.k % kScaleBlock != 0)
      return fmt::format("its k of {} is no multiple of {}, which share a scale", layer.k,
                         kScaleBlock);
    if (std::ranges::any_of(options_.include, has)) return "";
    if (is_last) return "no layer is behind it (--include)";
    if (is_conv && graph_.type(node.inputs[1]).shape[1] == Dim(1) &&
        node.attrs.get_int("group") > 1)
      return "a convolution of single channels is bound by memory (--include)";
    const std::int64_t depth = is_conv ? graph_.type(node.inputs[1]).shape[1].value() : layer.k;
    if (depth % context_.target.narrow_unit != 0)
      return fmt::format("its {} of {} is no multiple of {}: 8 bits are not faster (--include)",
                         is_conv ? "number of channels" : "k", depth, context_.target.narrow_unit);
    return "";
  }

  /// The weights of a layer times the factors of its group, traced.
  Tensor smoothed_weights(const EightBitLayer& layer) {
    const Tensor& weights = values_.tensor(node_of(layer).inputs[1]);
    const auto& factors = groups_[layer.group].scale.smoothing;
    if (factors.empty()) return weights;
    const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {weights});
    Ints shape(wide.shape().size(), 1);
    shape[layer.is_conv ? 1 : 0] = std::ssize(factors);
    return computed("Mul", {}, {wide, vector_of(factors, shape)});
  }

  void choose_scales() {
    if (calibration_ == nullptr) {
      for (ActivationGroup& group : groups_) group.scale = scale_of_runs({}, 0);
    } else {
      choose_scales_on_samples();
    }
    for (EightBitLayer& layer : layers_) {
      if (layer.has_four_bits) continue;
      if (const EightBitLayer* same = with_same_weights(layer))
        layer.weights = same->weights;
      else
        round_weights(layer);
    }
    const bool compensates = calibration_ != nullptr && options_.compensate;
    if (compensates) compensate_weights();
    for (EightBitLayer& layer : layers_) {
      const EightBitLayer* same = compensates ? nullptr : with_same_weights(layer);
      describe_weights(layer, same);
    }
  }

  /// A layer in front of this one that rounds the same weights alike: layers that share them.
  const EightBitLayer* with_same_weights(const EightBitLayer& layer) const {
    const auto is_smoothed = [&](const EightBitLayer& each) {
      return !groups_[each.group].scale.smoothing.empty();
    };
    if (is_smoothed(layer) || layer.has_four_bits) return nullptr;
    for (const EightBitLayer& other : layers_) {
      if (&other == &layer) return nullptr;
      if (other.is_conv == layer.is_conv && !is_smoothed(other) &&
          node_of(other).inputs[1] == node_of(layer).inputs[1])
        return &other;
    }
    return nullptr;
  }

  void compensate_weights() {
    std::vector<RoundedLayer> rounded;
    for (EightBitLayer& layer : layers_)
      rounded.push_back({layer.place,
                         layer.is_conv || layer.has_four_bits ? Tensor() : smoothed_weights(layer),
                         &layer.weights});
    divide_samples();
    compensate(graph_, fitted_, rounded, add_rounded_layers());
  }

  /// Weights that were fitted to some samples are less off on these than on any others: errors are
  /// measured on every fourth, which they have not seen. Of fewer than four all are used for both.
  void divide_samples() {
    constexpr std::size_t kMeasured = 4;
    fitted_ = measured_ = *calibration_;
    if (calibration_->samples.size() < kMeasured) return;
    fitted_.samples.clear();
    measured_.samples.clear();
    for (std::size_t s = 0; s < calibration_->samples.size(); ++s)
      (s % kMeasured == 0 ? measured_ : fitted_).samples.push_back(calibration_->samples[s]);
  }

  AddRoundedLayer add_rounded_layers() const {
    return [this](GraphBuilder& builder, std::size_t i, const Node& node,
                  std::span<const ValueId> inputs) {
      const bool smooths = true;
      return add_layer(builder, layers_[i], node, inputs, smooths, [&](DType type) {
        // A constant of the graph's type, which is made faster here than it is folded there.
        return builder.constant(ir::reference::convert(dequantized(layers_[i].weights), type));
      });
    };
  }

  ActivationScale scale_of_runs(std::vector<float> smoothing, std::size_t axis) const {
    ActivationScale scale;
    scale.type = *options_.type;
    scale.scales = options_.activation_scales;
    scale.smoothing = std::move(smoothing);
    scale.axis = axis;
    return scale;
  }

  void choose_scales_on_samples() {
    std::vector<ValueId> activations;
    std::vector<std::size_t> axes;
    std::vector<std::string> names;
    for (const ActivationGroup& group : groups_) {
      activations.push_back(group.activation);
      axes.push_back(group.is_conv ? 1 : graph_.type(group.activation).shape.size() - 1);
      names.push_back(layers_[group.layers.front()].report.name);
    }
    const auto samples = sample_activations(graph_, *calibration_, activations, axes, names);
    std::vector<ScaleChoice> choices;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (calibration_->progress) calibration_->progress("smoothing", g, groups_.size());
      ActivationGroup& group = groups_[g];
      // Floats have one possible scale, and no smoothing: they ask nothing of the weights.
      const std::vector<Tensor> weights =
          is_integer(*options_.type) ? matrices_of(group) : std::vector<Tensor>();
      std::vector<float> smoothing;
      if (!weights.empty()) smoothing = best_smoothing(samples[g], weights, options_);
      if (!is_static()) {
        group.scale = scale_of_runs(std::move(smoothing), axes[g]);
        continue;
      }
      ScaleChoice choice;
      if (!weights.empty()) choice.importance = row_norms(weights, smoothing);
      choice.by_row = !group.is_conv;
      choice.possible =
          possible_scales(samples[g], std::move(smoothing), *options_.type, zeros_of(group));
      choices.push_back(std::move(choice));
    }
    if (!is_static()) return;
    const auto best = best_scales(graph_, *calibration_, activations, choices);
    for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].scale = best[g];
  }

  /// What is read beyond the border of an image is a zero, so that padding takes none.
  ZeroPoints zeros_of(const ActivationGroup& group) const {
    if (!multiplies(DType::kUInt8, group.is_conv)) return ZeroPoints::kNone;
    const bool is_padded = std::ranges::any_of(group.layers, [&](std::size_t i) {
      const Attrs& attrs = node_of(layers_[i]).attrs;
      const auto pads = [&](const char* name) {
        return std::ranges::any_of(attrs.get_ints(name), [](auto size) { return size != 0; });
      };
      return group.is_conv && (pads("pads_begin") || pads("pads_end"));
    });
    return is_padded ? ZeroPoints::kOfRange : ZeroPoints::kAny;
  }

  /// True if activations of `type` can be.
  bool multiplies(DType type, bool is_conv) const {
    const auto& pairs = is_conv ? context_.target.narrow_convs : context_.target.narrow_products;
    return options_.emulate || pairs.contains({type, *options_.type});
  }

  /// Weights in float32 as matrices [k, n], where k runs along what is summed up: of a convolution
  /// the channels of its input. None for convolutions in groups.
  std::vector<Tensor> matrices_of(const ActivationGroup& group) {
    std::vector<Tensor> matrices;
    for (const std::size_t i : group.layers) {
      const Node& node = node_of(layers_[i]);
      Tensor weights =
          computed("Cast", {{"to", DType::kFloat32}}, {values_.tensor(node.inputs[1])});
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
                                 : eight_bit_weights(smoothed_weights(layer), layer.is_conv ? 0 : 1,
                                                     *options_.type, options_.per_channel);
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
    const Tensor exact = smoothed_weights(layer).plain(), rounded = dequantized(layer.weights);
    layer.report.weight_error = weight_error(exact, rounded);
    if (calibration_ != nullptr) return;
    constexpr std::int64_t kRows = 4;
    layer.report.output_error = output_error(transposed(exact), transposed(rounded), kRows);
  }

  static std::string_view text_of(ActivationScales scales) {
    switch (scales) {
      case ActivationScales::kToken: return ", each token";
      case ActivationScales::kBlock: return ", each block";
      case ActivationScales::kStatic: break;
    }
    return "";
  }

  std::string type_text(const EightBitLayer& layer) const {
    const ActivationScale& scale = groups_[layer.group].scale;
    std::string text = fmt::format("{} x {}{}", to_string(scale.type),
                                   layer.has_four_bits ? "int4" : to_string(*options_.type),
                                   text_of(scale.scales));
    if (scale.zero != 0) text += fmt::format(", zero {}", scale.zero);
    if (!scale.smoothing.empty()) text += ", smoothed";
    return text;
  }

  void choose_layers() {
    if (calibration_ == nullptr) return;
    std::vector<std::size_t> places;
    for (const EightBitLayer& layer : layers_) places.push_back(layer.place);
    const Calibration& measured = options_.compensate ? measured_ : *calibration_;
    EightBitTrial trial(graph_, measured, places, add_rounded_layers());
    for (std::size_t i = 0; i < layers_.size(); ++i)
      layers_[i].report.output_error = trial.layer_errors()[i];
    std::set<std::size_t> dropped;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i].report.output_error > context_.weights.max_error)
        keep(i, dropped,
             fmt::format("its output would be off by {:.3g}, --max-layer-error is {:.3g}",
                         layers_[i].report.output_error, context_.weights.max_error));
    const EightBitTrial::Outcome outcome = trial.choose(dropped, options_.max_error);
    for (const std::size_t i : outcome.kept)
      keep(i, dropped,
           fmt::format("the model's output would be off by {:.3g} with it and all others, "
                       "--max-error is {:.3g}",
                       outcome.error_of_all, options_.max_error));
    std::erase_if(layers_, [](const EightBitLayer& layer) { return !layer.report.kept.empty(); });
    context_.precision_notes.push_back(fmt::format(
        "{}: {} of {} layers; on {} samples the model's outputs are off by {:.3g}, {:.3g} at most "
        "(--max-error)",
        name_of_type(), layers_.size(), layers_.size() + kept_.size(), measured.samples.size(),
        outcome.error, options_.max_error));
  }

  void keep(std::size_t i, std::set<std::size_t>& dropped, std::string reason) {
    EightBitLayer& layer = layers_[i];
    layer.report.kept = std::move(reason);
    layer.report.bits = 0;
    layer.report.type.clear();
    layer.report.bytes_after = layer.report.bytes_before;
    note_kept(layer);
    dropped.insert(i);
  }

  std::string_view name_of_type() const { return is_integer(*options_.type) ? "int8" : "fp8"; }

  /// In the graph's order.
  void report() {
    std::vector<EightBitLayer> all = layers_;
    all.insert(all.end(), kept_.begin(), kept_.end());
    std::ranges::sort(all, {}, &EightBitLayer::place);
    for (EightBitLayer& layer : all) {
      const auto known =
          layer.has_four_bits ? own_report(layer.report.name) : context_.layers.end();
      if (known != context_.layers.end())
        *known = std::move(layer.report);
      else
        context_.layers.push_back(std::move(layer.report));
    }
  }

  /// The rounded layer; `add_weights(type)` adds its weights as floats of a type.
  template <typename AddWeights>
  ValueId add_layer(GraphBuilder& builder, const EightBitLayer& layer, const Node& node,
                    std::span<const ValueId> inputs, bool smooths,
                    const AddWeights& add_weights) const {
    std::vector<ValueId> operands(inputs.begin(), inputs.end());
    operands[0] = add_rounded(builder, operands[0], groups_[layer.group].scale, smooths);
    if (!layer.has_four_bits) operands[1] = add_weights(builder.type(operands[1]).dtype);
    return builder.add(node.op->name, std::move(operands), node.attrs);
  }

  /// The norm that makes the activation of `group`, whose scale and bias can be divided instead; or
  /// null.
  const Node* norm_of(std::size_t group) const {
    const Node* norm = graph_.producer(groups_[group].activation);
    if (norm == nullptr || (norm->op->name != "LayerNorm" && norm->op->name != "RmsNorm"))
      return nullptr;
    for (std::size_t i = 1; i < norm->inputs.size(); ++i)
      if (!graph_.is_constant(norm->inputs[i])) return nullptr;
    return norm;
  }

  using Chosen = std::map<const Node*, const EightBitLayer*>;

  /// Whether nothing but these layers would see that the activation of `group` is divided.
  bool may_be_divided(std::size_t group, const Chosen& chosen) const {
    const ValueId activation = groups_[group].activation;
    return !groups_[group].scale.smoothing.empty() && !groups_[group].is_conv &&
           !graph_.is_output(activation) &&
           std::ranges::all_of(graph_.users(activation), [&](NodeId user) {
             const auto found = chosen.find(&graph_.node(user));
             return found != chosen.end() && found->second->group == group;
           });
  }

  ValueId add_divided_norm(GraphBuilder& builder, const Node& norm, std::span<const ValueId> inputs,
                           const std::vector<float>& factors) const {
    std::vector<ValueId> operands{inputs[0]};
    for (std::size_t i = 1; i < norm.inputs.size(); ++i)
      operands.push_back(
          builder.constant(divided(*graph_.value(norm.inputs[i]).constant, factors)));
    return builder.add(norm.op->name, std::move(operands), norm.attrs);
  }

  /// A constant whose last dimension is divided by factors.
  static Tensor divided(const Tensor& constant, const std::vector<float>& factors) {
    const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {constant});
    const Tensor result = computed("Div", {}, {wide, vector_of(factors, {std::ssize(factors)})});
    return computed("Cast", {{"to", constant.dtype()}}, {result});
  }

  /// A product or a bias with its constant divided.
  ValueId add_divided_constant(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs,
                               const std::vector<float>& factors) const {
    std::vector<ValueId> operands(inputs.begin(), inputs.end());
    const std::size_t i = graph_.is_constant(node.inputs[1]) ? 1 : 0;
    operands[i] = builder.constant(divided(*graph_.value(node.inputs[i]).constant, factors));
    return builder.add(node.op->name, std::move(operands), node.attrs);
  }

  /// What divides activations in place of their layers: nodes, with the group for which they do.
  struct Divided {
    std::map<const Node*, std::size_t> norms, columns;  // columns: of products and their biases
    std::set<std::size_t> groups;
  };
  Divided find_divided(const Chosen& chosen) const {
    Divided found;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (!may_be_divided(group, chosen)) continue;
      if (const Node* norm = norm_of(group)) {
        found.norms[norm] = group;
      } else if (const auto source = column_source(graph_, groups_[group].activation)) {
        found.columns[source->product] = group;
        if (source->bias != nullptr) found.columns[source->bias] = group;
      } else {
        continue;
      }
      found.groups.insert(group);
    }
    return found;
  }

  Graph rewritten() const {
    Chosen chosen;
    for (const EightBitLayer& layer : layers_) chosen[&node_of(layer)] = &layer;
    const Divided divided = find_divided(chosen);
    const auto factors_of = [&](std::size_t group) -> const std::vector<float>& {
      return groups_[group].scale.smoothing;
    };
    return ir::rewrite(
        graph_,
        [&](GraphBuilder& builder, const Graph&, const Node& node,
            std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
          if (const auto norm = divided.norms.find(&node); norm != divided.norms.end())
            return std::vector{add_divided_norm(builder, node, inputs, factors_of(norm->second))};
          const auto column = divided.columns.find(&node);
          const bool is_divided = column != divided.columns.end();
          const auto found = chosen.find(&node);
          if (found == chosen.end()) {
            if (!is_divided) return std::nullopt;
            return std::vector{
                add_divided_constant(builder, node, inputs, factors_of(column->second))};
          }
          const EightBitLayer& layer = *found->second;
          const bool smooths = !divided.groups.contains(layer.group);
          return std::vector{add_layer(builder, layer, node, inputs, smooths, [&](DType type) {
            EightBitWeights weights = layer.weights;
            if (is_divided)
              weights.scales = ProductQuantizer::divided(
                  weights.scales.reshaped(column_scales(weights)), factors_of(column->second));
            return add_dequantized(builder, weights, type);
          })};
        });
  }

  /// The shape of a product's scales, of one scale, too.
  static Ints column_scales(const EightBitWeights& weights) {
    return weights.scales.element_count() == 1 ? Ints{1, 1} : weights.scales.shape();
  }

  const Graph& graph_;
  Context& context_;
  const EightBitOptions& options_;
  const Calibration* calibration_;
  Calibration fitted_, measured_;  // where weights are compensated
  ConstantValues values_;
  std::vector<ActivationGroup> groups_;
  std::vector<EightBitLayer> layers_, kept_;  // in the graph's order, the former
};

}  // namespace

Graph quantize_products(const Graph& graph, Context& context) {
  return context.eight_bit.type ? ProductQuantizer(graph, context).run() : graph;
}

}  // namespace sinter::fusion
