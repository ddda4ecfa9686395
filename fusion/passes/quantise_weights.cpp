#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/patterns/dequantisation.h"
#include "fusion/quantise/gather_integers.h"
#include "fusion/quantise/quantiser.h"
#include "fusion/quantise/read_weights.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::Graph;
using ir::Node;
using ir::QuantisedWeights;
using ir::Tensor;
using ir::ValueId;

bool is_narrow_float(DType type) { return is_float(type) && type != DType::kFloat64; }

/// The origins of a node as a layer's name: "model/layers.0/q_proj/MatMul".
std::string layer_name(const Node& node) {
  std::string name;
  for (const std::string& origin : node.origins) name += (name.empty() ? "" : ", ") + origin;
  return name.empty() ? describe(node) : name;
}

class WeightQuantiser {
 public:
  WeightQuantiser(const Graph& graph, Context& context)
      : graph_(graph), context_(context), values_(graph) {}

  Graph run() {
    std::vector<Piece> pieces;
    for (const Node& node : graph_.nodes()) {
      auto piece = node.op->name == "MatMul" ? product(node) : embedding(node);
      if (piece) pieces.push_back(std::move(*piece));
    }
    return rebuild(graph_, pieces);
  }

 private:
  /// A product of an activation and weights [k, n] that no input has a part in.
  std::optional<Piece> product(const Node& node) {
    const ValueId x = node.inputs[0], weight = node.inputs[1];
    const ir::Shape& shape = graph_.type(weight).shape;
    if (!is_narrow_float(graph_.type(x).dtype) || values_.knows(x) || !values_.knows(weight) ||
        shape.size() != 2 || shape[0] == ir::Dim(0) || shape[1] == ir::Dim(0))
      return std::nullopt;
    const auto known = [&](ValueId value) { return values_.knows(value); };
    if (auto found = match_dequantisation(graph_, weight, known))
      return stored(node, *found, shape[0].value(), shape[1].value());
    return context_.weights.bits == 0 ? std::nullopt : chosen(node);
  }

  /// Weights that the model itself keeps as integers.
  std::optional<Piece> stored(const Node& node, const Dequantisation& found, std::int64_t k,
                              std::int64_t n) {
    const Node* scaling = found.scale ? nullptr : scale_behind(node);
    std::vector<double> columns;
    if (scaling != nullptr) columns = column_scale(*scaling, node, n);
    std::string refusal;
    const auto weights = read_weights(graph_, values_, found, k, n, columns, refusal);
    if (!weights) {
      context_.decisions.push_back(
          decision(node, node, false,
                   fmt::format("its weights are dequantised at compile time: {}", refusal)));
      return std::nullopt;
    }
    return replacement(node, scaling, *weights);
  }

  /// The only reader of a product, if it multiplies its columns by constants.
  const Node* scale_behind(const Node& node) {
    const ValueId result = node.outputs[0];
    const auto& users = graph_.users(result);
    if (users.size() != 1 || graph_.is_output(result)) return nullptr;
    const Node& scaling = graph_.node(users[0]);
    if (scaling.op->name != "Mul" || graph_.type(scaling.outputs[0]) != graph_.type(result))
      return nullptr;
    const ValueId factor = scaling.inputs[scaling.inputs[0] == result ? 1 : 0];
    const ir::Shape& shape = graph_.type(factor).shape;
    const bool along_columns =
        shape.empty() ||
        std::all_of(shape.begin(), shape.end() - 1, [](auto& dim) { return dim == ir::Dim(1); });
    return factor != result && values_.knows(factor) && along_columns ? &scaling : nullptr;
  }

  std::vector<double> column_scale(const Node& scaling, const Node& node, std::int64_t n) {
    const ValueId factor = scaling.inputs[scaling.inputs[0] == node.outputs[0] ? 1 : 0];
    std::vector<double> scales = values_.tensor(factor).to_doubles();
    if (scales.size() == 1) scales.resize(static_cast<std::size_t>(n), scales[0]);
    return scales;
  }

  /// Float weights, where the user wants them in few bits.
  std::optional<Piece> chosen(const Node& node) {
    const auto weights = quantised_layer(node, transposed(node.inputs[1]), context_.weights, false);
    return weights ? std::optional(replacement(node, nullptr, *weights)) : std::nullopt;
  }

  /// `weight` [n, k] as integers, unless the layer is to stay as it is; either way a row of the
  /// report. The rows of a table are its outputs.
  std::optional<QuantisedWeights> quantised_layer(const Node& node, const Tensor& weight,
                                                  const WeightOptions& options, bool is_table) {
    QuantisedLayer layer;
    layer.name = layer_name(node);
    layer.n = weight.shape()[0];
    layer.k = weight.shape()[1];
    layer.bytes_before = layer.bytes_after = static_cast<double>(weight.bytes().size());
    for (const std::string& pattern : options.keep)
      if (layer.name.find(pattern) != std::string::npos)
        layer.kept = fmt::format("its name has '{}' (--keep)", pattern);
    std::optional<QuantisedWeights> result;
    if (layer.kept.empty()) {
      result =
          with_context("layer '" + layer.name + "'", [&] { return quantise(weight, options); });
      const Tensor rounded = ir::dequantised(*result, DType::kFloat32);
      constexpr std::int64_t kRows = 4;
      layer.weight_error = weight_error(weight, rounded);
      layer.output_error = is_table ? layer.weight_error : output_error(weight, rounded, kRows);
      if (layer.output_error > options.max_error) {
        layer.kept = fmt::format("its output would be off by {:.3g} (--max-layer-error {:.3g})",
                                 layer.output_error, options.max_error);
        result.reset();
      } else {
        layer.bytes_after =
            static_cast<double>(result->values.bytes().size() + result->scales.bytes().size() +
                                (result->zero_points ? result->zero_points->bytes().size() : 0));
      }
    }
    context_.layers.push_back(std::move(layer));
    return result;
  }

  /// A matrix that is known, the other way round.
  Tensor transposed(ValueId value) {
    const Node* view = graph_.producer(value);
    if (view != nullptr && view->op->name == "Transpose") return values_.tensor(view->inputs[0]);
    const Tensor& tensor = values_.tensor(value);
    const std::int64_t k = tensor.shape()[0], n = tensor.shape()[1];
    const std::size_t size = size_of(tensor.dtype());
    std::vector<std::byte> bytes(tensor.bytes().size());
    constexpr std::int64_t kStrip = 64;
    for (std::int64_t first = 0; first < n; first += kStrip)
      for (std::int64_t row = 0; row < k; ++row)
        for (std::int64_t column = first; column < std::min(n, first + kStrip); ++column)
          std::copy_n(tensor.bytes().data() + static_cast<std::size_t>(row * n + column) * size,
                      size, bytes.data() + static_cast<std::size_t>(column * k + row) * size);
    return Tensor(tensor.dtype(), {n, k}, ir::Buffer::take(std::move(bytes)));
  }

  /// The product with `weights`, which also does what `scaling` did.
  Piece replacement(const Node& node, const Node* scaling, QuantisedWeights weights) {
    Piece piece;
    piece.reads = {node.inputs[0]};
    piece.writes = scaling != nullptr ? scaling->outputs : node.outputs;
    std::vector<std::string> origins = node.origins;
    if (scaling != nullptr)
      origins.insert(origins.end(), scaling->origins.begin(), scaling->origins.end());
    piece.emit = [weights = std::move(weights), origins](ir::GraphBuilder& builder,
                                                         std::span<const ValueId> reads) {
      ir::GraphBuilder::OriginScope scope(builder, origins);
      std::vector<ValueId> inputs{reads[0]};
      for (const ValueId operand : add_weights(builder, weights)) inputs.push_back(operand);
      return std::vector{builder.add("QuantMatMul", std::move(inputs), attributes_of(weights))};
    };
    return piece;
  }

  /// Rows of a table: of integers that the model has, or where the user wants them.
  std::optional<Piece> embedding(const Node& node) {
    if (auto piece = gather_integers(graph_, values_, node)) return piece;
    const WeightOptions& wanted = context_.weights;
    if (wanted.bits == 0 || !wanted.embeddings || node.op->name != "Gather" ||
        node.attrs.get_int("axis") != 0)
      return std::nullopt;
    const ValueId table = node.inputs[0];
    const ir::TensorType& type = graph_.type(table);
    // Narrower tables are those of rotary positions: rounding those would turn everything.
    constexpr std::int64_t kLeastWidth = 256;
    if (!is_narrow_float(type.dtype) || type.shape.size() != 2 || !values_.knows(table) ||
        values_.knows(node.inputs[1]) || type.shape[1].value() < kLeastWidth ||
        type.shape[0] == ir::Dim(0) || type.shape[1] == ir::Dim(0))
      return std::nullopt;
    WeightOptions options = wanted;  // one scale for a row: bytes are gathered as they lie
    options.bits = 8;
    options.group = 0;
    options.symmetric = true;
    auto weights = quantised_layer(node, values_.tensor(table), options, true);
    return weights ? std::optional(gathered(node, std::move(*weights), type.dtype)) : std::nullopt;
  }

  static Piece gathered(const Node& node, QuantisedWeights weights, DType type) {
    Piece piece;
    piece.reads = {node.inputs[1]};
    piece.writes = node.outputs;
    piece.emit = [weights = std::move(weights), &node, type](ir::GraphBuilder& builder,
                                                             std::span<const ValueId> reads) {
      ir::GraphBuilder::OriginScope scope(builder, node.origins);
      const auto rows = [&](const Tensor& tensor) {
        return builder.add("Gather", {builder.constant(tensor), reads[0]}, node.attrs);
      };
      const ValueId numbers =
          builder.add("Cast", {rows(weights.values)}, {{"to", DType::kFloat32}});
      const ValueId product = builder.add("Mul", {numbers, rows(weights.scales)});
      return std::vector{type == DType::kFloat32 ? product
                                                 : builder.add("Cast", {product}, {{"to", type}})};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  ConstantValues values_;
};

}  // namespace

Graph quantise_weights(const Graph& graph, Context& context) {
  return WeightQuantiser(graph, context).run();
}

}  // namespace sinter::fusion
