// SPDX-License-Identifier: Apache-2.0
// Folds scales and shifts after a matmul with constant weights into its weights and bias:
// BatchNormalization, the matmul's own bias, a scalar factor.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>

#include "fusion/passes/passes.h"
#include "fusion/regions/broadcast.h"
#include "fusion/regions/rebuild.h"
#include "fusion/transforms.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A MatMul or Conv with constant weights.
struct Product {
  const Node* node = nullptr;
  std::size_t operand = 1;          // index of the weights among the inputs
  const Node* transpose = nullptr;  // between the weights and the node
  ValueId weight;                   // the constant
  std::size_t axis = 0;             // of the constant: the result's channels
  std::size_t channel = 1;          // dimension of the result
  std::int64_t channels = 0;
  bool is_conv() const { return node->op->name == "Conv"; }
};

/// scale * product + shift with one number for each channel, then `views`. Both result from
/// applying `operators` with `numbers`, in order.
struct Affine {
  std::vector<std::string> operators;  // "RSub": number - product
  std::vector<Tensor> numbers;
  std::vector<NodeId> views;
  std::vector<std::string> origins;
  ValueId result;
};

bool is_view(const Node& node) {
  return node.op->name == "Transpose" || node.op->name == "Reshape";
}

struct ScaleAndShift {
  std::vector<double> scale, shift;
};

/// `operators`: names separated by spaces.
ScaleAndShift scale_and_shift(const std::string& operators, std::span<const Tensor> numbers,
                              std::size_t channels) {
  ScaleAndShift result{std::vector<double>(channels, 1), std::vector<double>(channels, 0)};
  std::istringstream names(operators);
  std::string op;
  for (const Tensor& tensor : numbers) {
    names >> op;
    std::vector<double> values = tensor.to_doubles();
    if (values.size() == 1) values.resize(channels, values[0]);
    for (std::size_t c = 0; c < channels; ++c) {
      double &scale = result.scale[c], &shift = result.shift[c];
      const double number = values[c];
      if (op == "Mul" || op == "Div") {
        scale = op == "Mul" ? scale * number : scale / number;
        shift = op == "Mul" ? shift * number : shift / number;
      } else if (op == "Add") {
        shift += number;
      } else {
        scale = op == "Sub" ? scale : -scale;
        shift = op == "Sub" ? shift - number : number - shift;
      }
    }
  }
  return result;
}

/// Whether scale_and_shift() accepts these numbers.
bool are_for_channels(std::span<const Tensor> numbers, std::int64_t channels) {
  return std::ranges::all_of(numbers, [&](const Tensor& each) {
    return each.element_count() == 1 || each.element_count() == channels;
  });
}

std::string joined(const std::vector<std::string>& operators) {
  std::string text;
  for (const std::string& op : operators) text += (text.empty() ? "" : " ") + op;
  return text;
}

/// The weights times their channel's scale; nothing if the type represents them less exactly.
std::optional<Tensor> scaled(const Tensor& weight, std::size_t axis,
                             const std::vector<double>& scale) {
  const double least = weight.dtype() == DType::kFloat16 ? 0x1p-14 : 0x1p-126;
  const auto& shape = weight.shape();
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const std::size_t size = size_of(weight.dtype());
  const ir::HeldBytes held = weight.hold();
  std::vector<std::byte> bytes(held.bytes.begin(), held.bytes.end());
  std::vector<double> before(scale.size()), after(scale.size());
  for (std::size_t i = 0; i * size < bytes.size(); ++i) {
    const std::size_t channel = i / inner % scale.size();
    std::byte* at = bytes.data() + i * size;
    const double value = ir::load_as_double(weight.dtype(), at);
    ir::store_double(weight.dtype(), at, value * scale[channel]);
    const double stored = std::abs(ir::load_as_double(weight.dtype(), at));
    if (!std::isfinite(stored)) return std::nullopt;
    before[channel] = std::max(before[channel], std::abs(value));
    after[channel] = std::max(after[channel], stored);
  }
  for (std::size_t c = 0; c < scale.size(); ++c)
    if (before[c] >= least && scale[c] != 0 && after[c] < least) return std::nullopt;
  return Tensor(weight.dtype(), shape, ir::Buffer::take(std::move(bytes)));
}

}  // namespace

/// Inputs are the weights, the matmul's own bias ("biases" of them), and the operators' numbers.
/// Results: whether the types can hold the results, new weights and bias.
const ir::Transform kFoldedScales = {
    "folded_scales",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t axis = attrs.get_int("axis"), biases = attrs.get_int("biases");
      attrs.get_string("operators");
      if (biases < 0 || biases > 1 || std::ssize(inputs) < 1 + biases || axis < 0 ||
          axis >= std::ssize(inputs[0].shape()))
        return false;
      const std::int64_t channels = inputs[0].shape()[static_cast<std::size_t>(axis)];
      const Ints& shape = attrs.get_ints("shape");
      const auto own = inputs.subspan(1, static_cast<std::size_t>(biases));
      return is_float(inputs[0].dtype()) && is_float(attrs.get_dtype("type")) &&
             ir::has_counts(attrs, {"shape"}) && shape.size() <= 8 &&
             std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<double>()) ==
                 static_cast<double>(channels) &&
             std::ranges::all_of(own,
                                 [&](auto& bias) { return bias.element_count() == channels; }) &&
             are_for_channels(inputs.subspan(1 + own.size()), channels);
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
      const auto biases = static_cast<std::size_t>(attrs.get_int("biases"));
      const auto channels = static_cast<std::size_t>(inputs[0].shape()[axis]);
      auto [scale, bias] =
          scale_and_shift(attrs.get_string("operators"), inputs.subspan(1 + biases), channels);
      const auto weight = scaled(inputs[0], axis, scale);
      if (biases != 0) {
        const std::vector<double> own = inputs[1].to_doubles();
        for (std::size_t c = 0; c < channels; ++c) bias[c] += own[c] * scale[c];
      }
      const Tensor shift =
          Tensor::from_doubles(attrs.get_dtype("type"), attrs.get_ints("shape"), bias);
      const bool fits = weight && std::ranges::all_of(shift.to_doubles(), [](double value) {
                          return std::isfinite(value);
                        });
      std::vector<Tensor> results{Tensor::scalar(DType::kBool, fits ? 1 : 0)};
      if (fits) results.insert(results.end(), {*weight, shift});
      return results;
    },
    1};

/// Inputs are the operators' numbers: whether some channel is shifted.
const ir::Transform kShifts = {
    "shifts",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      constexpr std::int64_t kMost = std::int64_t{1} << 26;
      const std::int64_t channels = attrs.get_int("channels");
      attrs.get_string("operators");
      return channels >= 0 && channels <= kMost && are_for_channels(inputs, channels);
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const auto [scale, shift] =
          scale_and_shift(attrs.get_string("operators"), inputs,
                          static_cast<std::size_t>(attrs.get_int("channels")));
      const bool shifts = std::ranges::any_of(shift, [](double value) { return value != 0; });
      return std::vector{Tensor::scalar(DType::kBool, shifts ? 1 : 0)};
    },
    1};

const ir::Transform kIsUniform = {
    "is_uniform",
    [](const Attrs&, std::span<const Tensor> inputs) { return ir::has_inputs(inputs, 1); },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const std::vector<double> values = inputs[0].to_doubles();
      const bool is_uniform =
          std::ranges::all_of(values, [&](double value) { return value == values.front(); });
      return std::vector{Tensor::scalar(DType::kBool, is_uniform ? 1 : 0)};
    },
    1};

namespace {

class ScaleFolder {
 public:
  ScaleFolder(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    struct Site {
      Product product;
      Affine affine;
    };
    std::vector<Site> sites;
    std::map<ValueId, std::size_t> readers;  // of weights: readers that would use the folded ones
    for (const Node& node : graph_.nodes()) {
      const auto product = product_of(node);
      if (!product) continue;
      if (auto affine = follow(*product)) {
        sites.push_back({*product, std::move(*affine)});
        ++readers[product->weight];
      }
    }
    std::vector<Piece> pieces;
    for (const Site& site : sites)
      // Weights with other readers would be stored twice.
      if (readers[site.product.weight] == graph_.users(site.product.weight).size())
        if (auto piece = folded(site.product, site.affine)) pieces.push_back(std::move(*piece));
    return rebuild(graph_, pieces);
  }

 private:
  bool is_read_once(ValueId value) const {
    return graph_.users(value).size() == 1 && !graph_.is_output(value);
  }

  std::optional<Product> product_of(const Node& node) const {
    const TensorType& type = graph_.type(node.outputs.at(0));
    // 8-bit weights have no precision left for a scale.
    if (!is_float(type.dtype) || has_eight_bit_operands(graph_, node)) return std::nullopt;
    Product product;
    product.node = &node;
    if (node.op->name == "Conv") {
      if (node.inputs.size() > 2 && !graph_.is_constant(node.inputs[2])) return std::nullopt;
      if (node.attrs.get_int("channels_last") == 1) product.channel = type.shape.size() - 1;
    } else if (ir::is_plain_matmul(node)) {
      if (type.shape.size() < 2) return std::nullopt;
      product.operand = graph_.is_constant(node.inputs[0]) ? 0 : 1;
      product.axis = product.operand;
      product.channel = type.shape.size() - 2 + product.operand;
    } else {
      return std::nullopt;
    }
    product.weight = node.inputs[product.operand];
    if (const Node* view = graph_.producer(product.weight);
        view != nullptr && view->op->name == "Transpose" && !product.is_conv()) {
      product.transpose = view;
      product.weight = view->inputs[0];
      product.axis = 1 - product.axis;
      if (!is_read_once(view->outputs[0])) return std::nullopt;
    }
    const auto& constant = graph_.value(product.weight).constant;
    if (constant == nullptr || (!product.is_conv() && constant->shape().size() != 2))
      return std::nullopt;
    product.channels = constant->shape()[product.axis];
    return product;
  }

  /// One number for each channel of the product, if `value` is a constant before `views`.
  std::optional<Tensor> per_channel(const Product& product, ValueId value, std::size_t rank,
                                    const std::vector<NodeId>& views) const {
    const Tensor* constant = broadcast_constant(graph_, value);
    if (constant == nullptr) return std::nullopt;
    auto seen = with_rank(*constant, rank);
    for (auto view = views.rbegin(); seen && view != views.rend(); ++view)
      seen = before_view(graph_, graph_.node(*view), *seen);
    if (!seen) return std::nullopt;
    for (std::size_t d = 0; d < seen->shape().size(); ++d)
      if (d != product.channel && seen->shape()[d] != 1) return std::nullopt;
    return seen;
  }

  enum class Taken { kNo, kYes, kWorthwhile };

  /// Adds `reader` of `value` to `affine`, if it is a constant scale or shift.
  Taken take(const Product& product, const Node& reader, ValueId value, Affine& affine) const {
    const std::string& op = reader.op->name;
    const bool scales = op == "Mul" || op == "Div";
    if (!scales && op != "Add" && op != "Sub") return Taken::kNo;
    const Shape& shape = graph_.type(value).shape;
    if (graph_.type(reader.outputs[0]).shape != shape) return Taken::kNo;
    const bool first = reader.inputs[0] == value;
    if (!first && op == "Div") return Taken::kNo;
    auto numbers = per_channel(product, reader.inputs[first ? 1 : 0], shape.size(), affine.views);
    if (!numbers) return Taken::kNo;
    // MatMuls have a factor and a bias anyway; anything beyond needs a kernel.
    const bool is_worthwhile =
        product.is_conv() || (scales ? !is_uniform(*numbers) : is_shifted(product, affine));
    affine.operators.push_back(op == "Sub" && !first ? "RSub" : op);
    affine.numbers.push_back(std::move(*numbers));
    affine.origins.insert(affine.origins.end(), reader.origins.begin(), reader.origins.end());
    affine.result = reader.outputs[0];
    return is_worthwhile ? Taken::kWorthwhile : Taken::kYes;
  }

  static bool is_uniform(const Tensor& numbers) {
    return ir::apply(kIsUniform, {}, std::span(&numbers, 1))[0].at(0) != 0;
  }

  static bool is_shifted(const Product& product, const Affine& affine) {
    if (affine.numbers.empty()) return false;
    return ir::apply(kShifts,
                     {{"channels", product.channels}, {"operators", joined(affine.operators)}},
                     affine.numbers)[0]
               .at(0) != 0;
  }

  /// All foldable operators; nothing if folding gains nothing.
  std::optional<Affine> follow(const Product& product) const {
    Affine affine;
    std::optional<Affine> best;
    for (ValueId value = product.node->outputs[0]; is_read_once(value);) {
      const NodeId id = graph_.users(value)[0];
      const Node& reader = graph_.node(id);
      if (is_view(reader)) {
        affine.views.push_back(id);
      } else {
        const Taken taken = take(product, reader, value, affine);
        if (taken == Taken::kNo) break;
        if (taken == Taken::kWorthwhile) best = affine;
      }
      value = reader.outputs[0];
    }
    return best;
  }

  std::optional<Piece> folded(const Product& product, const Affine& affine) {
    const Node& node = *product.node;
    Ints shape{product.channels};
    if (!product.is_conv() && product.operand == 0) shape.push_back(1);
    std::vector<Tensor> inputs{*graph_.value(product.weight).constant};
    const bool has_own_bias = node.inputs.size() > 2;
    if (has_own_bias) inputs.push_back(*graph_.value(node.inputs[2]).constant);
    inputs.insert(inputs.end(), affine.numbers.begin(), affine.numbers.end());
    const std::vector<Tensor> made = ir::apply(kFoldedScales,
                                               {{"axis", static_cast<std::int64_t>(product.axis)},
                                                {"biases", std::int64_t{has_own_bias ? 1 : 0}},
                                                {"operators", joined(affine.operators)},
                                                {"shape", std::move(shape)},
                                                {"type", graph_.type(node.outputs[0]).dtype}},
                                               inputs);
    if (made[0].at(0) == 0) return std::nullopt;
    const bool has_bias = has_own_bias || splat_value(made[2]) != 0.0;
    Piece piece;
    piece.reads = {node.inputs[product.is_conv() ? 0 : 1 - product.operand]};
    piece.writes = {affine.result};
    decide(context_, node, *graph_.producer(affine.result), true,
           "constant scale and shift go into the weights");
    std::vector<std::string> origins = node.origins;
    origins.insert(origins.end(), affine.origins.begin(), affine.origins.end());
    piece.emit = [this, product, views = affine.views, weight = made[1], bias = made[2], has_bias,
                  origins](GraphBuilder& builder, std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, origins);
      ValueId weights = builder.constant(weight, graph_.value(product.weight).name);
      if (product.transpose != nullptr)
        weights = builder.add("Transpose", {weights}, product.transpose->attrs);
      std::vector<ValueId> inputs{reads[0]};
      inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(product.operand), weights);
      if (product.is_conv() && has_bias) inputs.push_back(builder.constant(bias));
      ValueId value = builder.add(product.node->op->name, inputs, product.node->attrs);
      if (!product.is_conv() && has_bias)
        value = builder.add("Add", {value, builder.constant(bias)});
      for (const NodeId id : views) {
        const Node& view = graph_.node(id);
        GraphBuilder::OriginScope own(builder, view.origins);
        value = builder.add(view.op->name, {value}, view.attrs);
      }
      return std::vector{value};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
};

}  // namespace

Graph fold_scales(const Graph& graph, Context& context) {
  return ScaleFolder(graph, context).run();
}

}  // namespace sinter::fusion
