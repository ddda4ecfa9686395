// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/calibration/layer_inputs.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/dequantization.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/scales/kept_product.h"
#include "fusion/scales/read_weights.h"
#include "fusion/scales/rounding/quantizer.h"
#include "fusion/scales/sunk_product.h"
#include "ir/scale_format.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

using ir::ScaledTensor;

/// Whether weights of this type can be quantized.
bool is_quantized_from(DType type) { return is_arithmetic_float(type) && type != DType::kFloat64; }

class WeightQuantizer {
 public:
  WeightQuantizer(const Graph& graph, Context& context)
      : graph_(graph), context_(context), values_(graph) {}

  Graph run() {
    find_layers();
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      const auto found = stored_.find(i);
      std::optional<Piece> piece;
      if (found != stored_.end())
        piece = stored(node, found->second);
      else if (layers_.contains(i))
        piece = chosen(i);
      else if (const auto halves = halves_.find(i); halves != halves_.end())
        piece = replacement(node, nullptr, halves->second);
      else if (piece = with_power_scales(values_, node); !piece)
        piece = embedding(node);
      report_kept(i);
      if (piece) pieces.push_back(std::move(*piece));
    }
    return rebuild(graph_, pieces);
  }

 private:
  /// Finds matmuls of an activation and weights that depend on no input, [k, n] or a matrix for
  /// each group of rows: weights that the model stores as integers, and those to quantize.
  void find_layers() {
    const auto known = [&](ValueId value) { return values_.knows(value); };
    std::set<std::size_t> products;
    // With 8-bit x the matmul is integer: see sink_scales.
    const std::vector<bool> is_narrow = products_of_codes(graph_, context_);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (context_.weights.bits != 0 && !is_narrow[i])
        if (auto kept = kept_product(graph_, values_, node); kept && node.op->name != "Conv") {
          products.insert(i);
          kept_.emplace(i, std::move(*kept));
          continue;
        }
      const bool is_grouped = is_plain_grouped(node);
      if ((!ir::is_plain_matmul(node) && !is_grouped) || is_narrow[i]) continue;
      const ValueId x = node.inputs[0], weight = node.inputs[1];
      const Shape& shape = graph_.type(weight).shape;
      if (!is_quantized_from(graph_.type(x).dtype) || values_.knows(x) || !values_.knows(weight) ||
          shape.size() != (is_grouped ? 3U : 2U) ||
          std::ranges::any_of(shape, [](const ir::Dim& dim) { return dim == ir::Dim(0); }))
        continue;
      products.insert(i);
      if (auto found = match_dequantization(graph_, weight, known); found && !is_grouped)
        stored_.emplace(i, std::move(*found));
      else if (context_.weights.bits != 0)
        layers_.insert(i);
      else if (auto halves = is_grouped ? std::nullopt : half_weights(graph_, context_, node))
        halves_.emplace(i, std::move(*halves));
    }
    choosing_ = choosing_products(graph_);
    const auto ends = last_layers(graph_, products);
    if (!context_.weights.last_as_others) last_ = ends;
    std::size_t others = 0;
    for (const std::size_t layer : layers_) {
      if (ends.contains(layer)) continue;
      mean_size_ += size_of_weights(layer);
      ++others;
    }
    if (others > 0) mean_size_ /= static_cast<double>(others);
    const Calibration* calibration = context_.weights.calibration.get();
    if (calibration != nullptr && !layers_.empty())
      inputs_.emplace(graph_, values_, *calibration, layers_);
  }

  /// Reports matmuls with float weights that no option quantizes.
  void report_kept(std::size_t node_index) {
    if (context_.weights.bits == 0) return;
    if (const auto kept = kept_.find(node_index); kept != kept_.end())
      context_.layers.push_back(std::move(kept->second));
    for (QuantizedLayer& row : products_of_bodies(values_, graph_.nodes()[node_index]))
      context_.layers.push_back(std::move(row));
  }

  double size_of_weights(std::size_t layer) const {
    const Shape& shape = graph_.type(graph_.nodes()[layer].inputs[1]).shape;
    return static_cast<double>(ir::element_count(shape).value());
  }

  /// Weights that the model stores as integers.
  std::optional<Piece> stored(const Node& node, const Dequantization& found) {
    const Shape& shape = graph_.type(node.inputs[1]).shape;
    const std::int64_t k = shape[0].value(), n = shape[1].value();
    const Node* scaling = found.scale ? nullptr : scale_behind(node);
    const Tensor* columns = scaling != nullptr ? &column_scale(*scaling, node) : nullptr;
    std::string refusal;
    const auto weights = read_weights(graph_, values_, found, k, n, columns, refusal);
    if (!weights) {
      decide(context_, node, node, false,
             fmt::format("its weights are dequantized at compile time: {}", refusal));
      return std::nullopt;
    }
    return replacement(node, scaling, *weights);
  }

  /// The only reader of a matmul, if it multiplies its columns by constants.
  const Node* scale_behind(const Node& node) {
    const ValueId result = node.outputs[0];
    const auto& users = graph_.users(result);
    if (users.size() != 1 || graph_.is_output(result)) return nullptr;
    const Node& scaling = graph_.node(users[0]);
    if (scaling.op->name != "Mul" || graph_.type(scaling.outputs[0]) != graph_.type(result))
      return nullptr;
    const ValueId factor = scaling.inputs[scaling.inputs[0] == result ? 1 : 0];
    const Shape& shape = graph_.type(factor).shape;
    const bool along_columns =
        shape.empty() ||
        std::all_of(shape.begin(), shape.end() - 1, [](auto& dim) { return dim == ir::Dim(1); });
    return factor != result && values_.knows(factor) && along_columns ? &scaling : nullptr;
  }

  const Tensor& column_scale(const Node& scaling, const Node& node) {
    return values_.tensor(scaling.inputs[scaling.inputs[0] == node.outputs[0] ? 1 : 0]);
  }

  /// Float weights that the user wants quantized.
  std::optional<Piece> chosen(std::size_t node_index) {
    const Node& node = graph_.nodes()[node_index];
    std::optional<Tensor> moments;
    if (inputs_) moments = inputs_->moments(node_index);
    const bool is_grouped = is_plain_grouped(node);
    const auto weights = quantized_layer(
        node,
        is_grouped ? rows_of_groups(node, values_.tensor(node.inputs[1]))
                   : transposed(node.inputs[1]),
        context_.weights, moments ? &*moments : nullptr, last_.contains(node_index));
    if (!weights) return std::nullopt;
    if (inputs_) {
      const Tensor rows = ir::dequantized(*weights, graph_.type(node.inputs[0]).dtype);
      inputs_->replace(node_index, is_grouped ? operand_of_rows(node, rows, groups_of(node))
                                              : fusion::transposed(rows));
    }
    return replacement(node, nullptr, *weights);
  }

  /// `weight` [n, k] quantized, unless the layer is kept; reports it in both cases. `moments` of
  /// its input, if known.
  std::optional<ScaledTensor> quantized_layer(const Node& node, const Tensor& weight,
                                              WeightOptions options, const Tensor* moments,
                                              bool is_last) {
    // Errors are only reported, unless a maximum error is set.
    const bool errors_decide = std::isfinite(options.max_error) || moments != nullptr;
    const Tensor exact = errors_decide ? weight : weight.plain();
    const ir::HeldBytes held = exact.hold();  // until its last use
    QuantizedLayer layer;
    layer.name = layer_name(node);
    layer.n = weight.shape()[0];
    layer.k = weight.shape()[1];
    layer.bytes_before = layer.bytes_after = static_cast<double>(held.bytes.size());
    for (const std::string& pattern : options.keep)
      if (layer.name.find(pattern) != std::string::npos)
        layer.kept = fmt::format("its name has '{}' (--keep)", pattern);
    if (layer.kept.empty() && choosing_.contains(position(node)))
      layer.kept = "it chooses experts: an error changes which of them compute";
    std::optional<ScaledTensor> result;
    if (layer.kept.empty()) {
      const auto round = [&] {
        result = with_context("layer '" + layer.name + "'", [&] {
          return moments != nullptr && !options.floats ? quantize(weight, options, *moments)
                                                       : quantize(weight, options);
        });
        ScaledTensor plain = *result;
        plain.values = plain.values.plain();
        plain.scales = plain.scales.plain();
        for (std::optional<Tensor>* part : {&plain.zero_points, &plain.factors})
          if (*part) *part = (*part)->plain();
        const Tensor rounded = ir::dequantized(plain, DType::kFloat32);
        layer.weight_error = weight_error(exact, rounded);
        const bool is_table = node.op->name == "Gather";  // rows of a table are its outputs
        layer.output_error = is_table             ? layer.weight_error
                             : moments != nullptr ? output_error(exact, rounded, *moments)
                                                  : output_error(exact, rounded);
      };
      constexpr int kWideBits = 8;
      const auto widen = [&](std::string reason) {
        options.bits = kWideBits;
        options.group = 0;
        options.floats = false;
        layer.wider = std::move(reason);
      };
      if (is_last && options.bits < kWideBits) widen("no layer is behind it");
      round();
      const double scaled =
          layer.output_error * std::sqrt(mean_size_ / static_cast<double>(layer.n * layer.k));
      if (moments != nullptr && options.bits < kWideBits && scaled > options.wide_error) {
        widen(fmt::format("its output would be off by {:.3g}", layer.output_error));
        round();
      }
      if (layer.output_error > options.max_error) {
        layer.kept = fmt::format("its output would be off by {:.3g}, --max-layer-error is {:.3g}",
                                 layer.output_error, options.max_error);
        layer.wider.clear();
        result.reset();
      } else {
        layer.bits = result->bits();
        layer.bytes_after =
            static_cast<double>(result->values.byte_count() + result->scales.byte_count() +
                                (result->zero_points ? result->zero_points->byte_count() : 0) +
                                (result->factors ? result->factors->byte_count() : 0));
      }
    }
    context_.layers.push_back(std::move(layer));
    return result;
  }

  /// A known matrix, transposed.
  Tensor transposed(ValueId value) {
    const Node* view = graph_.producer(value);
    if (view != nullptr && view->op->name == "Transpose") return values_.tensor(view->inputs[0]);
    return fusion::transposed(values_.tensor(value));
  }

  std::size_t position(const Node& node) const {
    return static_cast<std::size_t>(&node - graph_.nodes().data());
  }
  std::int64_t groups_of(const Node& node) const {
    return graph_.type(node.inputs[1]).shape[0].value();
  }

  /// The matmul with `weights`, which includes `scaling`.
  Piece replacement(const Node& node, const Node* scaling, const ScaledTensor& weights) const {
    Piece piece;
    piece.reads = {node.inputs[0]};
    piece.writes = scaling != nullptr ? scaling->outputs : node.outputs;
    std::vector<std::string> origins = node.origins;
    if (scaling != nullptr)
      origins.insert(origins.end(), scaling->origins.begin(), scaling->origins.end());
    const bool is_grouped = is_plain_grouped(node);
    if (is_grouped) piece.reads.push_back(node.inputs.back());
    std::vector<Tensor> parts =
        is_grouped ? parts_of_groups(weights, groups_of(node)) : ir::parts_of(weights);
    piece.emit = [op = node.op->name, attrs = ir::product_attrs(weights.format),
                  parts = std::move(parts),
                  origins](GraphBuilder& builder, std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, origins);
      std::vector<ValueId> inputs{reads[0]};
      for (const Tensor& part : parts) inputs.push_back(builder.constant(part));
      if (reads.size() > 1) inputs.push_back(reads[1]);
      return std::vector{builder.add(op, std::move(inputs), attrs)};
    };
    return piece;
  }

  /// Embedding rows: of the model's integers, or quantized as the user wants.
  std::optional<Piece> embedding(const Node& node) {
    if (auto piece = gather_integers(graph_, values_, node)) return piece;
    const WeightOptions& wanted = context_.weights;
    if (wanted.bits == 0 || !wanted.embeddings || node.op->name != "Gather" ||
        node.attrs.get_int("axis") != 0)
      return std::nullopt;
    const ValueId table = node.inputs[0];
    const TensorType& type = graph_.type(table);
    // Narrower tables hold rotary positions, where rounding would affect all rows.
    constexpr std::int64_t kLeastWidth = 256;
    if (!is_quantized_from(type.dtype) || type.shape.size() != 2 || !values_.knows(table) ||
        values_.knows(node.inputs[1]) || type.shape[1].value() < kLeastWidth ||
        type.shape[0] == ir::Dim(0) || type.shape[1] == ir::Dim(0))
      return std::nullopt;
    WeightOptions options = wanted;  // one scale for a row: bytes are gathered directly
    options.bits = 8;
    options.group = 0;
    options.symmetric = true;
    options.floats = false;
    auto weights = quantized_layer(node, values_.tensor(table), options, nullptr, false);
    return weights ? std::optional(gathered(node, std::move(*weights), type.dtype)) : std::nullopt;
  }

  static Piece gathered(const Node& node, ScaledTensor weights, DType type) {
    Piece piece;
    piece.reads = {node.inputs[1]};
    piece.writes = node.outputs;
    piece.emit = [weights = std::move(weights), &node, type](GraphBuilder& builder,
                                                             std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, node.origins);
      return std::vector{ir::add_gathered(builder, weights, reads[0], type)};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  ConstantValues values_;
  // By index of the matmul in the graph.
  std::map<std::size_t, Dequantization> stored_;
  std::map<std::size_t, ScaledTensor> halves_;  // floats of 16 bits
  std::map<std::size_t, QuantizedLayer> kept_;  // floats that are kept whatever is requested
  std::set<std::size_t> layers_, last_, choosing_;
  double mean_size_ = 0;  // of all but the last layers
  std::optional<LayerInputs> inputs_;
};

}  // namespace

Graph quantize_weights(const Graph& graph, Context& context) {
  return WeightQuantizer(graph, context).run();
}

}  // namespace sinter::fusion
