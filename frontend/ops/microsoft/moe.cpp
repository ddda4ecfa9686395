// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts of com.microsoft: routing, and matmuls of rows sorted by expert
// (ir/mixture/expert_rows.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/quantization/block_quantized.h"
#include "frontend/ops/quantization/gpu_packing.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "ir/mixture/expert_rows.h"
#include "ir/scale_format.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

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
  if (!shape.back().is_constant() || !experts.is_constant())
    node.unsupported("tokens of size {} and {} experts; both must be known", shape.back(), experts);
  return {node.reshape(x, {count, shape.back()}), count, shape.back().value(), experts.value()};
}

struct Routing {
  ir::ExpertRows rows;
  ValueId shares;  // [tokens, k]
};

/// `mixing`, if valid, has the shares of all experts.
Routing route(NodeContext& node, const Mixture& m, ValueId mixing) {
  const std::int64_t k = node.attr_int("k", 1);
  if (k < 1 || k > m.experts)
    node.invalid("attribute 'k' is {}, but there are {} experts", k, m.experts);
  // sparsemixer's shares are weights of softmaxes of their own.
  const bool is_mixer = node.attr_int("use_sparse_mixer", 0) != 0;
  const bool normalises = node.attr_int("normalize_routing_weights", 0) != 0 && !is_mixer;
  const std::string scores = mixing.valid() ? "none" : is_mixer ? "sparsemixer" : "softmax";
  const auto routed = node.builder().add_multi(
      "Route", {node.input(1, "router_probs")},
      {{"k", k}, {"scores", scores}, {"normalise", std::int64_t{normalises && !mixing.valid()}}});
  Term shares(node, routed[1]);
  if (mixing.valid()) {
    check_shape(node, mixing, "router_weights", {m.count, Dim(m.experts)});
    shares = take(Term(node, mixing).cast(DType::kFloat32),
                  {iota(node, m.count, 0, 2, DType::kInt32), Term(node, routed[0])});
    if (normalises) shares = shares / reduce("ReduceSum", shares, 1, true);
  }
  return {ir::sort_by_expert(node.builder(), routed[0], m.experts), shares.value()};
}

// ---- Activations

struct Gating {
  double alpha, beta, limit;
  bool limits_activated = false;  // the limit is of the activated gate, not of the gate
};

Term swiglu(const Term& gate, const Term& linear, const Gating& form) {
  const bool is_limited = std::isfinite(form.limit);
  const Term g = is_limited && !form.limits_activated ? gate.with("Min", form.limit) : gate;
  const Term l = is_limited ? clamp(linear, -form.limit, linear.number(form.limit)) : linear;
  Term activated = g * (g * form.alpha).apply("Sigmoid");
  if (is_limited && form.limits_activated) activated = activated.with("Min", form.limit);
  return activated * (l + form.beta);
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
                   node.attr_float("swiglu_limit", kInfinity),
                   node.attr_int("swiglu_limit_after_activation", 0) != 0});
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

/// Input indices of one of an expert's matmuls, and the format of its weights.
struct Product {
  const char* name;
  std::size_t weights, bias;
  std::size_t scales = 0, zeros = 0, global_scale = 0;
  std::int64_t bits = 0, block = 0;  // block 0: one block per row
  WeightPacking packing = WeightPacking::kRows;
};

/// Rows `h` times the weights of their experts, without bias.
using Multiply = ValueId(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                         const Term& h, const Product& product);

ValueId plain_product(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                      const Term& h, const Product& product) {
  const ValueId weights = node.input(product.weights, product.name);
  if (node.rank(weights) != 3)
    node.invalid("{} must be [experts, outputs, inputs], but is {}", product.name,
                 node.type(weights));
  check_shape(node, weights, product.name,
              {Dim(m.experts), node.shape(weights)[1], h.shape().back()});
  return node.add("GroupedMatMul", {h.value(), weights, rows.offsets},
                  {{"transposed", std::int64_t{1}}});
}

void mixture_of_experts(NodeContext& node, const Mixture& m, const Routing& routing,
                        Multiply& multiply, const std::array<Product, 3>& products) {
  const ir::ExpertRows& rows = routing.rows;
  const auto product = [&](const Term& h, const Product& which) {
    const Term y(node, multiply(node, m, rows, h, which));
    if (!node.has_input(which.bias)) return y;
    const ValueId bias = node.input(which.bias, "bias");
    check_shape(node, bias, "its bias", {Dim(m.experts), y.shape().back()});
    return y + Term(node, ir::take_experts(node.builder(), rows, bias));
  };
  const Term x(node, ir::take_tokens(node.builder(), rows, m.tokens));
  const Term h = product(x, products[0]);
  std::optional<Term> other;
  if (node.has_input(products[2].weights)) other = product(x, products[2]);
  const Term y = product(activated(node, h, other), products[1]);
  const Term sum(node, ir::combine_rows(node.builder(), rows, y.value(), routing.shares));
  const ValueId input = node.input(0, "input");
  node.output(sum.cast(node.dtype(input)).reshape(node.shape(input)).value());
}

void plain_mixture(NodeContext& node) {
  const Mixture m = read_mixture(node);
  mixture_of_experts(node, m, route(node, m, {}), plain_product,
                     {{{"fc1_experts_weights", 2, 3},
                       {"fc2_experts_weights", 4, 5},
                       {"fc3_experts_weights", 6, 7}}});
}

// ---- Experts with quantized weights

const Tensor& constant_input(NodeContext& node, std::size_t i, const char* what) {
  const Tensor* tensor = node.builder().constant_of(node.input(i, what));
  if (tensor == nullptr)
    node.unsupported(
        "input {} ({}) is not a constant; quantized weights are packed at compile time", i, what);
  return *tensor;
}

/// Rows `h` times codes [experts, outputs, bytes] in `format`, whose parts are those of a matrix of
/// all experts' outputs.
ValueId scaled_product(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                       const Term& h, const ir::ScaleFormat& format,
                       const std::vector<ValueId>& parts) {
  std::vector<ValueId> inputs{h.value()};
  for (const ValueId part : parts) {
    const Shape shape = node.shape(part);
    const Shape wanted{Dim(m.experts), *ir::divide_exactly(shape[0], m.experts), shape[1]};
    const Tensor* constant = node.builder().constant_of(part);
    inputs.push_back(constant == nullptr ? node.reshape(part, wanted)
                                         : node.builder().constant(constant->reshaped(
                                               {m.experts, wanted[1].value(), wanted[2].value()})));
  }
  inputs.push_back(rows.offsets);
  return node.add("GroupedMatMul", std::move(inputs), ir::product_attrs(format));
}

ValueId scaled_product(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                       const Term& h, const ir::ScaledTensor& weights) {
  std::vector<ValueId> parts;
  for (const Tensor& part : ir::parts_of(weights)) parts.push_back(node.builder().constant(part));
  return scaled_product(node, m, rows, h, weights.format, parts);
}

/// Checks codes [experts, outputs, inputs * bits / 8] and scales for blocks, or for whole rows.
/// Returns the rows of all experts as one matrix.
BlockedWeights read_blocked(NodeContext& node, const Mixture& m, const Term& h,
                            const Product& product) {
  check_bits(node, product.bits);
  const ValueId weights = node.input(product.weights, product.name);
  check_dtype(node, weights, product.name, {DType::kUInt8});
  const Tensor& values = constant_input(node, product.weights, product.name);
  const Dim inputs = h.shape().back();
  if (values.shape().size() != 3 || !inputs.is_constant())
    node.invalid("{} is {}; it must be [experts, outputs, bytes]", product.name, values.type());
  const std::int64_t columns = inputs.value();
  const std::int64_t outputs = product.packing == WeightPacking::kRows
                                   ? values.shape()[1]
                                   : values.shape()[2] * 8 / product.bits;
  BlockedWeights w = {m.experts * outputs, columns, product.bits,
                      product.block == 0 ? columns : product.block, 1};
  if (columns < 1 || outputs < 1)
    node.invalid("{} is {}, which has no weights", product.name, values.type());
  if (columns % w.block != 0 || w.block * w.bits % 8 != 0)
    node.invalid("blocks of {} do not divide {} inputs into whole bytes", w.block, columns);
  w.blocks = columns / w.block;
  if (!fits_packing(product.packing, outputs, columns, product.bits))
    node.invalid("{} is {}, which is no packing of [{}, {}]", product.name, values.type(), outputs,
                 columns);
  const Shape by_rows{Dim(m.experts), Dim(outputs), Dim(w.pitch())};
  const Shape by_columns{Dim(m.experts), inputs, Dim(outputs * product.bits / 8)};
  check_shape(node, weights, product.name,
              product.packing == WeightPacking::kRows ? by_rows : by_columns);
  Shape scales{Dim(m.experts), Dim(outputs)};
  if (product.block != 0) scales.emplace_back(w.blocks);
  check_shape(node, node.input(product.scales, "scales"), "its scales", scales);
  return w;
}

/// The codes of all experts' rows, [rows, bytes].
Tensor codes_by_rows(NodeContext& node, const Mixture& m, const Product& product,
                     const BlockedWeights& w) {
  const Tensor& codes = constant_input(node, product.weights, product.name);
  if (product.packing == WeightPacking::kRows) return codes.reshaped({w.rows, w.pitch()});
  return packed_by_rows(codes, product.packing, m.experts, w.rows / m.experts, w.columns, w.bits);
}

/// Exporters for CUDA lay weights out for its kernels, and say so only by the shape: [experts,
/// inputs, outputs * bits / 8]. Of a matrix with as many inputs as outputs the other one tells.
bool has_inputs_first(NodeContext& node) {
  for (const auto& [weights, scales] : {std::pair{2, 3}, std::pair{5, 6}, std::pair{8, 9}}) {
    if (!node.has_input(std::size_t(weights)) || !node.has_input(std::size_t(scales))) continue;
    const Shape codes = node.shape(node.input(std::size_t(weights), "weights")),
                factors = node.shape(node.input(std::size_t(scales), "scales"));
    if (codes.size() == 3 && factors.size() >= 2 && codes[1] != factors[1]) return true;
  }
  return false;
}

ValueId integer_product(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                        const Term& h, const Product& product) {
  const BlockedWeights w = read_blocked(node, m, h, product);
  const Tensor values = scaled_values(codes_by_rows(node, m, product, w), w),
               scales = constant_input(node, product.scales, "scales");
  std::optional<Tensor> zeros;
  if (node.has_input(product.zeros)) {
    // Without blocks, the zero points of an expert's rows are packed in one row of bytes.
    BlockedWeights packed = w;
    if (product.block == 0) packed = {m.experts, w.columns, w.bits, w.block, w.rows / m.experts};
    Shape shape{Dim(m.experts), Dim(w.rows / m.experts)};
    if (product.block != 0) shape.emplace_back(w.blocks);
    shape.back() = Dim((shape.back().value() * w.bits + 7) / 8);
    check_shape(node, node.input(product.zeros, "zero_points"), "its zero points", shape);
    zeros = scaled_zeros(constant_input(node, product.zeros, "zero_points"), packed)
                .reshaped({w.rows, w.blocks});
  }
  const ir::ScaledTensor weights =
      ir::scaled_rows_of(w.bits == 8 ? 8 : 4, w.blocks == 1 ? 0 : w.block, w.columns, values,
                         scales.reshaped({w.rows, w.blocks}), zeros);
  return scaled_product(node, m, rows, h, weights);
}

/// 4-bit floats with scales that are powers of two, or e4m3, and a scale for each expert.
ValueId float4_product(NodeContext& node, const Mixture& m, const ir::ExpertRows& rows,
                       const Term& h, const Product& product) {
  const BlockedWeights w = read_blocked(node, m, h, product);
  check_shape(node, node.input(product.global_scale, "global_scale"), "its global scale",
              {Dim(m.experts)});
  const Tensor codes = codes_by_rows(node, m, product, w),
               given = constant_input(node, product.scales, "scales").reshaped({w.rows, w.blocks});
  std::vector<double> of_rows;
  for (const double own : constant_input(node, product.global_scale, "global_scale").to_doubles())
    of_rows.insert(of_rows.end(), static_cast<std::size_t>(w.rows / m.experts), own);
  const bool is_one = std::ranges::all_of(of_rows, [](double x) { return x == 1; });
  const Tensor factors = Tensor::from_doubles(DType::kFloat32, {w.rows, 1}, of_rows);
  if (given.dtype() == DType::kFloat8E4M3FN)
    return scaled_product(
        node, m, rows, h,
        ir::scaled_rows_of(ir::float4_codes(), w.block, w.columns, codes, given, std::nullopt,
                           is_one ? std::nullopt : std::optional(factors)));
  ir::GraphBuilder& b = node.builder();
  Term scales = Term(node, b.constant(given)).cast(is_one ? DType::kBFloat16 : DType::kFloat32);
  if (!is_one) scales = scales * Term(node, b.constant(factors));
  ir::ScaleFormat format;
  format.codes = &ir::float4_codes();
  format.scale = scales.dtype();
  format.depth = w.block;
  return scaled_product(node, m, rows, h, format, {b.constant(codes), scales.value()});
}

void quantized_mixture(NodeContext& node) {
  // ignores 'accuracy_level', which permits rounding of the tokens; here they stay exact
  const std::string type = node.attr_string("quant_type", "int");
  if (type != "int" && type != "fp4" && type != "nvfp4")
    node.unsupported("quant_type '{}'; supported are 'int', 'fp4' and 'nvfp4'", type);
  for (std::size_t i = type == "int" ? 15 : 17; i < node.input_count(); ++i)
    if (node.has_input(i))
      node.unsupported("its input {} is a scale that quant_type '{}' does not have", i, type);
  const Mixture m = read_mixture(node);
  const std::int64_t bits = node.attr_int("expert_weight_bits", 4),
                     block = type == "int"
                                 ? std::max<std::int64_t>(node.attr_int("block_size", 0), 0)
                             : type == "fp4" ? 32
                                             : 16;
  const auto width = [&](const char* attribute) {
    return type == "int" ? node.attr_int(attribute, bits) : 4;
  };
  // 0 means by rows; else the shapes tell, as kernels for CPUs have no packing.
  const std::int64_t prepacked = node.attr_int("weights_prepacked", -1);
  WeightPacking packing = WeightPacking::kRows;
  if (type == "int" && (prepacked == 1 || (prepacked == -1 && has_inputs_first(node))))
    packing = WeightPacking::kMixedSm80;
  if (type != "int" && has_inputs_first(node)) {
    packing = WeightPacking::kColumns;
    if (type == "nvfp4" && prepacked == 1)
      node.unsupported(
          "its weights are by rows under the shape of columns (weights_prepacked=1); "
          "export with weights_prepacked=0");
  }
  const Routing routing =
      route(node, m, node.has_input(14) ? node.input(14, "router_weights") : ValueId{});
  mixture_of_experts(
      node, m, routing, type == "int" ? integer_product : float4_product,
      {{{"fc1_experts_weights", 2, 4, 3, 11, 15, width("fc1_expert_weight_bits"), block, packing},
        {"fc2_experts_weights", 5, 7, 6, 12, 16, width("fc2_expert_weight_bits"), block, packing},
        {"fc3_experts_weights", 8, 10, 9, 13, 15, width("fc3_expert_weight_bits"), block,
         packing}}});
}

}  // namespace

const OpRows kMicrosoftMoeOps = {
    {"MoE", 1, plain_mixture,
     "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion "
     "swiglu_limit swiglu_limit_after_activation use_sparse_mixer",
     kMicrosoft},
    {"QMoE", 1, quantized_mixture,
     "accuracy_level activation_alpha activation_beta activation_type block_size "
     "expert_weight_bits fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits k "
     "normalize_routing_weights quant_type swiglu_fusion swiglu_limit "
     "swiglu_limit_after_activation use_sparse_mixer weights_prepacked",
     kMicrosoft, Types::kOfFamily, FourBits::kRefuses, 0, true},
};

}  // namespace sinter::frontend
