// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/epilogue.h"

#include <algorithm>
#include <array>

#include "fusion/regions/dequantized_sums.h"
#include "fusion/regions/operand.h"
#include "ir/ops/product_types.h"

namespace sinter::fusion {
namespace {

/// Activations that the libraries of some target support.
constexpr std::array<std::string_view, 10> kActivations = {
    "Relu", "Gelu", "GeluTanh",    "Sigmoid",   "Tanh",
    "Silu", "Clip", "HardSigmoid", "HardSwish", "LeakyRelu"};

/// Traverses the readers of a matmul or convolution.
class EpilogueMatcher {
 public:
  EpilogueMatcher(const Graph& graph, const Node& node, const EpilogueOptions& options)
      : graph_(graph),
        options_(options),
        is_conv_(node.op->name == "Conv"),
        is_narrow_(has_eight_bit_operands(graph, node)),
        last_(&node) {
    epilogue_.result = node.outputs[0];
  }

  Epilogue run(double alpha) {
    epilogue_.alpha = alpha;
    // Libraries store the accumulators; another kernel dequantizes them.
    if (!options_.target.gemm_kernels &&
        ir::is_eight_bit_integer(graph_.type(last_->inputs[0]).dtype))
      return std::move(epilogue_);
    while (const Node* reader = only_reader()) {
      const auto reason = take(*reader);
      if (!reason.empty()) {
        if (reader->op->kind != OpKind::kView) options_.decide(*last_, *reader, true, reason);
        last_ = reader;
        continue;
      }
      if (!refusal_.empty()) options_.decide(*last_, *reader, false, refusal_);
      break;
    }
    settle_views();
    return std::move(epilogue_);
  }

 private:
  const Node* only_reader() const {
    const auto& users = graph_.users(epilogue_.result);
    if (graph_.is_output(epilogue_.result) || users.size() != 1 ||
        options_.is_stored(epilogue_.result))
      return nullptr;
    return &graph_.node(users[0]);
  }

  /// Why `reader` is now part of the epilogue, or nothing.
  std::string take(const Node& reader) {
    refusal_.clear();
    const std::string& op = reader.op->name;
    const ValueId current = epilogue_.result;
    const TensorType& type = graph_.type(current);
    const bool open = epilogue_.activation.empty();
    const bool plain = views_.empty();
    const bool bare = open && !epilogue_.bias.valid() && !epilogue_.residual.valid();
    if (op == "Transpose" || op == "Reshape") {
      views_.push_back(id_of(reader));
      epilogue_.result = reader.outputs[0];
      return "the result is stored through it";
    }
    if (!is_conv_ && bare && !(is_narrow_ && epilogue_.cast)) {
      if (const auto factor = scalar_factor(graph_, reader, current)) {
        epilogue_.alpha *= *factor;
        return absorb(reader, "the product's scalar factor");
      }
    }
    // Dequantized results have their type already.
    if (!is_conv_ && bare && plain && epilogue_.chain.empty() &&
        (widens(reader) || narrows(reader))) {
      epilogue_.cast = graph_.type(reader.outputs[0]).dtype;
      return absorb(reader, is_narrow_ ? "the product is stored as it is wanted"
                                       : "the product is stored as it was summed up");
    }
    // Libraries differ in what they can add after such a cast.
    if (epilogue_.cast) return refuse("a product that is stored in another type ends there");
    if (is_narrow_ && options_.target.gemm_kernels) {
      epilogue_.chain = plain ? dequantization(graph_, current, reader, options_.is_stored)
                              : std::vector<NodeId>();
      if (epilogue_.chain.empty())
        return refuse(
            "what follows the sums of 8-bit products is the work of a kernel behind them");
      return absorb_chain();
    }
    if (op == "Add" && open && plain && reader.inputs[0] != reader.inputs[1]) {
      const ValueId other = reader.inputs[reader.inputs[0] == current ? 1 : 0];
      if (!is_conv_ && !epilogue_.bias.valid() && is_bias(graph_, other, type.shape)) {
        if (better_left(reader)) return "";
        epilogue_.bias = other;
        return absorb(reader, "the product's bias");
      }
      if (!epilogue_.residual.valid() && graph_.type(other) == type) {
        if (is_conv_ ? !options_.target.conv_epilogue_residual
                     : !options_.target.matmul_epilogue_residual)
          return refuse("this target's products add no residual");
        if (options_.target.gemm_kernels && is_gathered(other))
          return refuse("what is added is gathered, which a kernel behind the product does itself");
        epilogue_.residual = other;
        if (!is_conv_ && !options_.target.gemm_kernels) {
          Operand rows = fold_rows(graph_, other);
          for (const NodeId view : rows.nodes)
            options_.decide(graph_.node(view), reader, true, "an access of the product's residual");
          epilogue_.residual = rows.source;
          epilogue_.residual_views = std::move(rows.nodes);
        }
        return absorb(reader, "the product's residual");
      }
      return refuse(
          "the product adds only a bias along its last dimension and a residual of its "
          "own shape");
    }
    if (const auto parameters = activation_parameters(reader, current)) {
      if (!open) return refuse("the product already ends with " + epilogue_.activation);
      epilogue_.activation = op;
      epilogue_.parameters = *parameters;
      return absorb(reader, "the product's activation");
    }
    if (std::ranges::find(kActivations, op) != kActivations.end())
      return refuse("this target's products do not end with " + op);
    return refuse("'" + describe(reader) + "' is not part of a product's epilogue");
  }

  /// fp8 accumulators cast to 16-bit floats.
  bool narrows(const Node& reader) const {
    const DType to = graph_.type(reader.outputs[0]).dtype;
    return is_narrow_ && options_.target.gemm_kernels && reader.op->name == "Cast" &&
           graph_.type(reader.inputs[0]).dtype == DType::kFloat32 &&
           (to == DType::kFloat16 || to == DType::kBFloat16);
  }

  bool widens(const Node& reader) const {
    const DType from = graph_.type(reader.inputs[0]).dtype;
    return reader.op->name == "Cast" && graph_.type(reader.outputs[0]).dtype == DType::kFloat32 &&
           is_narrow_float(from) && is_arithmetic_float(from);
  }

  /// The operands of `reader` after the first, if it is an activation that the call supports.
  std::optional<std::vector<double>> activation_parameters(const Node& reader,
                                                           ValueId current) const {
    const std::string& op = reader.op->name;
    const bool known = is_conv_ ? options_.target.conv_epilogue_activations.count(op) != 0
                                : has_activation(options_.target, op);
    if (!known || reader.inputs[0] != current ||
        graph_.type(reader.outputs[0]) != graph_.type(current))
      return std::nullopt;
    std::vector<double> parameters;
    for (std::size_t i = 1; i < reader.inputs.size(); ++i) {
      const auto value = splat_value(graph_, reader.inputs[i]);
      if (!value) return std::nullopt;
      parameters.push_back(*value);
    }
    return parameters;
  }

  /// Whether `value` is gathered rows without other readers.
  bool is_gathered(ValueId value) const {
    const Node* producer = graph_.producer(value);
    return producer != nullptr && producer->op->take() != nullptr &&
           graph_.users(value).size() == 1 && !graph_.is_output(value);
  }

  /// A bias whose only reader starts a pointwise kernel anyway is free there, and leaves the
  /// library's choice of algorithm open.
  bool better_left(const Node& add) {
    const auto& users = graph_.users(add.outputs[0]);
    if (graph_.is_output(add.outputs[0]) || users.size() != 1) return false;
    const Node& next = graph_.node(users[0]);
    if (next.op->kind != OpKind::kPointwise || next.inputs.size() != 1 ||
        has_activation(options_.target, next.op->name))
      return false;
    refusal_ = "the bias goes with '" + describe(next) + "', which needs a kernel in any case";
    return true;
  }

  std::string absorb(const Node& reader, std::string reason) {
    epilogue_.absorbed.push_back(id_of(reader));
    epilogue_.result = reader.outputs[0];
    committed_ = views_.size();
    return reason;
  }

  std::string absorb_chain() {
    epilogue_.chain_from = epilogue_.result;
    std::string reason;
    for (const NodeId id : epilogue_.chain)
      reason = absorb(graph_.node(id), "the product is stored dequantized");
    epilogue_.cast = graph_.type(epilogue_.result).dtype;
    return reason;
  }

  std::string refuse(std::string reason) {
    refusal_ = std::move(reason);
    return "";
  }

  NodeId id_of(const Node& node) const { return graph_.value(node.outputs[0]).producer; }

  /// Drops trailing views without further nodes; keeps only a leading transpose. Views before an
  /// absorbed activation must stay.
  void settle_views() {
    while (views_.size() > committed_) {
      const Node& view = graph_.node(views_.back());
      const bool keep = views_.size() == 1 && !is_conv_ && view.op->name == "Transpose" &&
                        stores_matrix(graph_.node(views_.front()));
      if (keep) break;
      epilogue_.result = view.inputs[0];
      views_.pop_back();
    }
    for (NodeId id : views_) {
      const Node& view = graph_.node(id);
      const bool first = !epilogue_.transpose && epilogue_.outer_views.empty();
      if (!first || is_conv_ || view.op->name != "Transpose" || !stores_matrix(view)) {
        epilogue_.outer_views.push_back(id);
        continue;
      }
      epilogue_.transpose = id;
      options_.decide(*graph_.producer(view.inputs[0]), view, true,
                      "the result is stored through it");
    }
  }

  /// A library stores row-major or column-major matrices: one of the last two dimensions must be
  /// last.
  bool stores_matrix(const Node& transpose) const {
    const auto& perm = transpose.attrs.get_ints("perm");
    const auto rank = static_cast<std::int64_t>(perm.size());
    // cuBLASLt adds a bias only along the columns of a row-major result, and a residual with its
    // layout.
    const bool by_rows = !options_.target.matmul_stores_columns ||
                         (options_.target.matmul_epilogue_by_rows &&
                          (epilogue_.bias.valid() || epilogue_.residual.valid()));
    return perm.back() >= rank - (by_rows ? 1 : 2);
  }

  const Graph& graph_;
  const EpilogueOptions& options_;
  const bool is_conv_, is_narrow_;  // is_narrow_: 8-bit operands
  const Node* last_;
  Epilogue epilogue_;
  std::vector<NodeId> views_;
  std::size_t committed_ = 0;  // views before an absorbed node
  std::string refusal_;
};

}  // namespace

bool has_activation(const TargetTraits& target, std::string_view op) {
  if (op == "Relu") return target.matmul_epilogue_relu;
  if (op == "Gelu") return target.matmul_epilogue_gelu_erf;
  if (op == "GeluTanh") return target.matmul_epilogue_gelu_tanh;
  return false;
}

bool is_bias(const Graph& graph, ValueId value, const Shape& shape) {
  // A single element becomes a literal: it is no vector for a library.
  const Shape& own = graph.type(value).shape;
  return graph.is_constant(value) && own.size() == 1 && own.back() == shape.back() &&
         own.back() != Dim(1);
}

Epilogue match_epilogue(const Graph& graph, const Node& node, double alpha,
                        const EpilogueOptions& options) {
  return EpilogueMatcher(graph, node, options).run(alpha);
}

namespace {

/// The chain's nodes after `value`; single numbers become literals.
ValueId build_chain(BodyBuilder& body, const Graph& graph, ValueId value,
                    const Epilogue& epilogue) {
  GraphBuilder& builder = body.builder();
  ValueId old = epilogue.chain_from;
  for (const NodeId id : epilogue.chain) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      const auto number = splat_value(graph, input);
      inputs.push_back(input == old ? value
                       : number     ? builder.scalar(graph.type(input).dtype, *number)
                                    : body.import(input));
    }
    value = builder.add(node.op->name, inputs, node.attrs);
    old = node.outputs[0];
  }
  return value;
}

}  // namespace

ValueId build_epilogue(BodyBuilder& body, const Graph& graph, ValueId product,
                       const Epilogue& epilogue) {
  std::vector<std::string> origins;
  for (NodeId id : epilogue.absorbed) {
    const auto& from = graph.node(id).origins;
    origins.insert(origins.end(), from.begin(), from.end());
  }
  GraphBuilder& builder = body.builder();
  ValueId value = product;
  {
    GraphBuilder::OriginScope scope(builder, origins);
    // The factor applies in the wider type.
    const bool widens = epilogue.cast == DType::kFloat32;
    const auto cast = [&] { value = builder.add("Cast", {value}, {{"to", *epilogue.cast}}); };
    if (widens) cast();
    if (epilogue.alpha != 1)
      value =
          builder.add("Mul", {value, builder.scalar(builder.type(value).dtype, epilogue.alpha)});
    if (!epilogue.chain.empty())
      value = build_chain(body, graph, value, epilogue);
    else if (epilogue.cast && !widens)
      cast();
    const DType dtype = builder.type(value).dtype;
    if (epilogue.bias.valid()) value = builder.add("Add", {value, body.import(epilogue.bias)});
    if (epilogue.residual.valid())
      value = builder.add(
          "Add", {value, build_operand(body, graph, {epilogue.residual, epilogue.residual_views},
                                       epilogue.residual)});
    if (!epilogue.activation.empty()) {
      std::vector<ValueId> operands{value};
      for (const double parameter : epilogue.parameters)
        operands.push_back(builder.scalar(dtype, parameter));
      value = builder.add(epilogue.activation, operands);
    }
  }
  if (epilogue.transpose) {
    const Node& node = graph.node(*epilogue.transpose);
    GraphBuilder::OriginScope scope(builder, node.origins);
    value = builder.add("Transpose", {value}, node.attrs);
    origins.insert(origins.end(), node.origins.begin(), node.origins.end());
  }
  body.origins().insert(body.origins().end(), origins.begin(), origins.end());
  return value;
}

}  // namespace sinter::fusion
