// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts of com.microsoft. Every expert computes every token, and zero weights remove
// experts that a token does not select. The result equals that of routing, whose numbers of tokens
// per expert depend on data.
#include <algorithm>
#include <cmath>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/quantization/block_quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

constexpr std::int64_t kMostExperts = 1024;

struct Mixture {
  ValueId tokens;  // [tokens, size]
  Dim count;
  std::int64_t size, experts;
};

Mixture read_mixture(NodeContext& node) {
  const ValueId x = node.input(0, "input"), router = node.input(1, "router_probs");
  if (node.rank(x) != 2 && node.rank(x) != 3)
    node.invalid("input must be [tokens, size] or [batch, length, size], but is {}", node.type(x));
  const Shape shape = node.shape(x);
  const Dim count = ir::element_count(Shape(shape.begin(), shape.end() - 1));
  if (node.rank(router) != 2)
    node.invalid("router_probs must be [tokens, experts], but is {}", node.type(router));
  const Dim experts = node.shape(router)[1];
  check_shape(node, router, "router_probs", {count, experts});
  if (!shape.back().is_constant() || !experts.is_constant() || experts.value() > kMostExperts)
    node.unsupported(
        "tokens of size {} and {} experts; both must be known, and the experts at most {}",
        shape.back(), experts, kMostExperts);
  return {node.reshape(x, {count, shape.back()}), count, shape.back().value(), experts.value()};
}

/// The weight of each expert for each token, [tokens, experts]: the router's softmax, with zeros
/// outside the top k. `mixing`, if valid, provides the weights instead.
Term routing_weights(NodeContext& node, const Mixture& m, ValueId mixing) {
  const std::int64_t k = node.attr_int("k", 1);
  if (k < 1 || k > m.experts)
    node.invalid("attribute 'k' is {}, but there are {} experts", k, m.experts);
  if (node.attr_int("use_sparse_mixer", 0) != 0)
    node.unsupported("attribute 'use_sparse_mixer' is set; export without it");
  const Term logits = Term(node, node.input(1, "router_probs")).cast(DType::kFloat32);
  const Term chosen(node, node.add("ArgSort", {logits.value()},
                                   {{"axis", std::int64_t{1}},
                                    {"count", std::vector<Dim>{Dim(k)}},
                                    {"descending", std::int64_t{1}}}));
  const Term expert = iota(node, Dim(m.experts), 2, 3, chosen.dtype());
  const Term is_chosen = reduce(
      "ReduceMax",
      chosen.reshape({m.count, Dim(k), Dim(1)}).with("Equal", expert).cast(DType::kUInt8), 1);
  Term weights(node, node.add("Softmax", {logits.value()}, {{"axis", std::int64_t{1}}}));
  if (mixing.valid()) {
    check_shape(node, mixing, "router_weights", {m.count, Dim(m.experts)});
    weights = Term(node, mixing).cast(DType::kFloat32);
  }
  weights = select(is_chosen.cast(DType::kBool), weights, weights.number(0));
  if (node.attr_int("normalize_routing_weights", 0) != 0)
    weights = weights / reduce("ReduceSum", weights, 1, true);
  return weights;
}

// ---- Activations

struct Gating {
  double alpha, beta, limit;
};

Term swiglu(const Term& gate, const Term& linear, const Gating& form) {
  const bool is_limited = std::isfinite(form.limit);
  const Term g = is_limited ? gate.with("Min", form.limit) : gate;
  const Term l = is_limited ? clamp(linear, -form.limit, linear.number(form.limit)) : linear;
  return g * (g * form.alpha).apply("Sigmoid") * (l + form.beta);
}

/// The two halves of the last dimension of h: interleaved, or one after the other.
std::pair<Term, Term> halves(NodeContext& node, const Term& h, bool interleaved) {
  Shape split = h.shape();
  const auto half = ir::divide_exactly(split.back(), 2);
  if (!half)
    node.invalid("fc1_experts_weights give {} numbers for a token, which are no pairs",
                 split.back());
  split.back() = interleaved ? *half : Dim(2);
  split.push_back(interleaved ? Dim(2) : *half);
  const ValueId pairs = h.reshape(split).value();
  const auto axis = std::ssize(split) - (interleaved ? 1 : 2);
  return {Term(node, element(node, pairs, axis, 0)), Term(node, element(node, pairs, axis, 1))};
}

/// The activation after the first matmul `h`; `other` is the result of fc3, if the node has it.
Term activated(NodeContext& node, const Term& h, const std::optional<Term>& other) {
  const std::string name = node.attr_string("activation_type", "relu");
  const std::int64_t fusion = node.attr_int("swiglu_fusion", 0);
  if (fusion < 0 || fusion > 2) node.invalid("attribute 'swiglu_fusion' is {}, not 0 to 2", fusion);
  if (name == "swiglu" || name == "geglu") {
    if ((fusion == 0) != other.has_value())
      node.invalid("activation {} with swiglu_fusion={} {} fc3_experts_weights", name, fusion,
                   fusion == 0 ? "needs" : "has both of its parts in fc1 and takes no");
    const auto [gate, linear] = fusion == 0 ? std::pair(h, *other) : halves(node, h, fusion == 1);
    if (name == "geglu") return gate.apply("GeluTanh") * linear;
    return swiglu(gate, linear,
                  {node.attr_float("activation_alpha", 1), node.attr_float("activation_beta", 0),
                   node.attr_float("swiglu_limit", kInfinity)});
  }
  const auto apply = [&] {
    if (name == "relu") return h.apply("Relu");
    if (name == "relu2") return h.apply("Relu").apply("Square");
    if (name == "gelu") return h.apply("GeluTanh");
    if (name == "silu") return h.apply("Silu");
    if (name == "identity") return h;
    node.unsupported("activation '" + name +
                     "'; supported are relu, relu2, gelu, silu, identity, swiglu and geglu");
  };
  return other ? apply() * *other : apply();
}

// ---- Experts

/// Input indices of one of an expert's matmuls.
struct Product {
  const char* name;
  std::size_t weights, bias;
};

/// `h` [tokens, size] or [experts, tokens, size] times the experts' weights [experts, outputs,
/// size]: [experts, tokens, outputs].
Term all_experts(NodeContext& node, const Mixture& m, const Term& h, const Product& product) {
  const ValueId weights = node.input(product.weights, product.name);
  const Dim size = h.shape().back();
  if (node.rank(weights) != 3)
    node.invalid("{} must be [experts, outputs, inputs], but is {}", product.name,
                 node.type(weights));
  const Dim outputs = node.shape(weights)[1];
  check_shape(node, weights, product.name, {Dim(m.experts), outputs, size});
  Term y = h.with("MatMul", Term(node, node.transpose(weights, {0, 2, 1})));
  if (!node.has_input(product.bias)) return y;
  const ValueId bias = node.input(product.bias, "bias");
  check_shape(node, bias, "its bias", {Dim(m.experts), outputs});
  return y + Term(node, bias).reshape({Dim(m.experts), Dim(1), outputs});
}

void give(NodeContext& node, const Term& y) {
  const ValueId x = node.input(0, "input");
  node.output(y.cast(node.dtype(x)).reshape(node.shape(x)).value());
}

void mixture_of_experts(NodeContext& node) {
  const Mixture m = read_mixture(node);
  const Term weights = routing_weights(node, m, {});
  const Term x = Term(node, m.tokens).reshape({Dim(1), m.count, Dim(m.size)});
  const Term h = all_experts(node, m, x, {"fc1_experts_weights", 2, 3});
  std::optional<Term> other;
  if (node.has_input(6)) other = all_experts(node, m, x, {"fc3_experts_weights", 6, 7});
  const Term y = all_experts(node, m, activated(node, h, other), {"fc2_experts_weights", 4, 5});
  const Term share(node, node.transpose(weights.value(), {1, 0}));
  const Term shares = share.reshape({Dim(m.experts), m.count, Dim(1)});
  give(node, reduce("ReduceSum", y.cast(DType::kFloat32) * shares, 0));
}

// ---- Experts with quantized weights

struct QuantizedWeights {
  const char* name;
  std::size_t weights, scales, bias, zeros;
  std::int64_t bits, block;  // block 0: one block per row
};

const Tensor& constant_input(NodeContext& node, std::size_t i, const char* what) {
  const Tensor* tensor = node.builder().constant_of(node.input(i, what));
  if (tensor == nullptr)
    node.unsupported(
        "input {} ({}) is not a constant; quantized weights are packed at compile time", i, what);
  return *tensor;
}

/// One expert's weights as those of a separate matmul.
class QuantizedExpert {
 public:
  QuantizedExpert(NodeContext& node, const Mixture& m, const Dim& inputs,
                  const QuantizedWeights& product)
      : node_(node),
        product_(product),
        values_(constant_input(node, product.weights, product.name)),
        scales_(constant_input(node, product.scales, "scales")) {
    check_bits(node, product.bits);
    check_dtype(node, node.input(product.weights, product.name), product.name, {DType::kUInt8});
    if (values_.shape().size() != 3 || !inputs.is_constant())
      node.invalid("{} is {}; it must be [experts, outputs, bytes]", product.name, values_.type());
    w_ = {values_.shape()[1], inputs.value(), product.bits,
          product.block == 0 ? inputs.value() : product.block, 1};
    if (w_.columns < 1 || w_.rows < 1)
      node.invalid("{} is {}, which has no weights", product.name, values_.type());
    if (w_.columns % w_.block != 0 || w_.block * w_.bits % 8 != 0)
      node.invalid("blocks of {} do not divide {} inputs into whole bytes", w_.block, w_.columns);
    w_.blocks = w_.columns / w_.block;
    check_shape(node, node.input(product.weights, product.name), product.name,
                {Dim(m.experts), Dim(w_.rows), Dim(w_.pitch())});
    Shape scales{Dim(m.experts), Dim(w_.rows)};
    if (product.block != 0) scales.emplace_back(w_.blocks);
    check_shape(node, node.input(product.scales, "scales"), "its scales", scales);
    if (!node.has_input(product.zeros)) return;
    zeros_ = constant_input(node, product.zeros, "zero_points");
    scales.back() = Dim((scales.back().value() * w_.bits + 7) / 8);
    check_shape(node, node.input(product.zeros, "zero_points"), "its zero points", scales);
  }

  /// h [tokens, inputs] times the transpose of expert `e`'s weights, plus its bias.
  Term product(const Term& h, std::int64_t e) const {
    const auto of_expert = [&](const Tensor& tensor) {
      const std::size_t bytes =
          tensor.bytes().size() / static_cast<std::size_t>(values_.shape()[0]);
      return tensor.bytes().subspan(static_cast<std::size_t>(e) * bytes, bytes);
    };
    const auto values_of = [&](std::span<const std::byte> packed) {
      return scaled_values(Tensor(DType::kUInt8, {std::ssize(packed)}, ir::Buffer::copy_of(packed)),
                           w_);
    };
    const std::int64_t count = w_.rows * w_.blocks;
    std::vector<double> scales;
    for (std::int64_t i = 0; i < count; ++i) scales.push_back(scales_.at(e * count + i));
    std::optional<Tensor> zeros;
    if (zeros_) zeros = zero_points(of_expert(*zeros_));
    Term y(node_, scaled_matmul(node_, h.value(), w_, values_of(of_expert(values_)),
                                Tensor::from_doubles(scales_.dtype(), {w_.rows, w_.blocks}, scales),
                                zeros));
    if (!node_.has_input(product_.bias)) return y;
    const ValueId bias = node_.input(product_.bias, "bias");
    check_shape(node_, bias, "its bias", {Dim(values_.shape()[0]), Dim(w_.rows)});
    return y + Term(node_, element(node_, bias, 0, e));
  }

 private:
  /// Without blocks, the zero points of all rows are packed in one row of bytes; else each row has
  /// its own.
  Tensor zero_points(std::span<const std::byte> packed) const {
    const bool is_flat = product_.block == 0;
    const std::int64_t pitch = (w_.blocks * w_.bits + 7) / 8;
    std::vector<double> values;
    for (std::int64_t row = 0; row < w_.rows; ++row)
      for (std::int64_t b = 0; b < w_.blocks; ++b)
        values.push_back((is_flat
                              ? packed_number(packed, row, w_.bits)
                              : packed_number(packed.subspan(static_cast<std::size_t>(row * pitch)),
                                              b, w_.bits)) -
                         w_.middle());
    return Tensor::from_doubles(DType::kInt8, {w_.rows, w_.blocks}, values);
  }

  NodeContext& node_;
  QuantizedWeights product_;
  const Tensor values_, scales_;
  std::optional<Tensor> zeros_;
  BlockedWeights w_{};
};

void refuse_other_formats(NodeContext& node) {
  if (const std::string type = node.attr_string("quant_type", "int"); type != "int")
    node.unsupported("quant_type '{}'; supported is 'int'", type);
  if (node.attr_int("weights_prepacked", 0) > 0)
    node.unsupported("its weights are packed for one GPU kernel; export with weights_prepacked=0");
  for (std::size_t i = 15; i < node.input_count(); ++i)
    if (node.has_input(i))
      node.unsupported(
          "its input {} is of weights or activations of 8-bit floats; export with quant_type 'int'",
          i);
}

void quantized_mixture_of_experts(NodeContext& node) {
  // ignores 'accuracy_level', which permits rounding of the tokens; here they stay exact
  refuse_other_formats(node);
  const Mixture m = read_mixture(node);
  const std::int64_t bits = node.attr_int("expert_weight_bits", 4),
                     block = std::max<std::int64_t>(node.attr_int("block_size", 0), 0);
  const Term weights =
      routing_weights(node, m, node.has_input(14) ? node.input(14, "router_weights") : ValueId{});
  const Term x(node, m.tokens);
  const auto width = [&](const char* attribute) { return node.attr_int(attribute, bits); };
  const QuantizedExpert first(
      node, m, Dim(m.size),
      {"fc1_experts_weights", 2, 3, 4, 11, width("fc1_expert_weight_bits"), block});
  std::optional<QuantizedExpert> third, second;
  if (node.has_input(8))
    third.emplace(node, m, Dim(m.size),
                  QuantizedWeights{"fc3_experts_weights", 8, 9, 10, 13,
                                   width("fc3_expert_weight_bits"), block});
  std::optional<Term> sum;
  for (std::int64_t e = 0; e < m.experts; ++e) {
    std::optional<Term> other;
    if (third) other = third->product(x, e);
    const Term h = activated(node, first.product(x, e), other);
    if (!second)
      second.emplace(node, m, h.shape().back(),
                     QuantizedWeights{"fc2_experts_weights", 5, 6, 7, 12,
                                      width("fc2_expert_weight_bits"), block});
    const Term share(node, part(node, weights.value(), 1, e, 1));
    const Term y = second->product(h, e).cast(DType::kFloat32) * share;
    sum = sum ? *sum + y : y;
  }
  give(node, *sum);
}

}  // namespace

const OpRows kMicrosoftMoeOps = {
    {"MoE", 1, mixture_of_experts,
     "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion "
     "swiglu_limit use_sparse_mixer",
     kMicrosoft},
    {"QMoE", 1, quantized_mixture_of_experts,
     "accuracy_level activation_alpha activation_beta activation_type block_size "
     "expert_weight_bits fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits k "
     "normalize_routing_weights quant_type swiglu_fusion swiglu_limit use_sparse_mixer "
     "weights_prepacked",
     kMicrosoft},
};

}  // namespace sinter::frontend
