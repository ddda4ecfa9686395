// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fusion/passes/simplify_rules.h"
#include "fusion/regions/rebuild.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::fusion {
namespace {

using Result = std::optional<ValueId>;

/// Operator `op` on `inputs`, if the result has the same shape; otherwise nothing.
Result fitting(const Site& site, std::string_view op, const std::vector<ValueId>& inputs) {
  Shape shape;
  for (ValueId input : inputs) shape = ir::broadcast(shape, site.builder.type(input).shape);
  if (shape != site.type.shape) return std::nullopt;
  return site.builder.add(op, inputs, site.node.attrs);
}

/// The same for the node itself with other inputs.
Result with_inputs(const Site& site, const std::vector<ValueId>& inputs) {
  return fitting(site, site.node.op->name, inputs);
}

std::vector<ValueId> replaced(const Site& site, std::size_t i, ValueId value) {
  std::vector<ValueId> inputs(site.inputs.begin(), site.inputs.end());
  inputs[i] = value;
  return inputs;
}

/// True if input `i` is a vector that libraries' matmuls can add along columns.
bool is_product_bias(const Site& site, std::size_t i) {
  if (!site.is("Add") || site.input_node(1 - i, "MatMul") == nullptr) return false;
  const Shape& shape = site.input_type(i).shape;
  return shape.back() == site.type.shape.back() && ir::element_count(shape) == shape.back();
}

/// Reduces a constant of equal elements to one element; leading dimensions broadcast anyway.
Result shrink_constants(const Site& site) {
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const Tensor* constant = site.builder.constant_of(site.inputs[i]);
    if (constant == nullptr || constant->shape().empty()) continue;
    Ints shape = constant->shape();
    if (!is_product_bias(site, i) && splat_value(*constant)) {
      const std::size_t size = size_of(constant->dtype());
      const Tensor scalar(constant->dtype(), {},
                          ir::Buffer::copy_of(constant->bytes().subspan(0, size)));
      if (Result result = with_inputs(site, replaced(site, i, site.builder.constant(scalar))))
        return result;
    }
    if (shape[0] != 1) continue;
    while (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
    const ValueId flat = site.builder.constant(constant->reshaped(shape));
    if (Result result = with_inputs(site, replaced(site, i, flat))) return result;
  }
  return std::nullopt;
}

/// True if `shape` is `inner` with leading ones.
bool adds_leading_ones(const Shape& inner, const Shape& shape) {
  if (shape.size() <= inner.size()) return false;
  const std::size_t more = shape.size() - inner.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!(shape[d] == (d < more ? Dim(1) : inner[d - more]))) return false;
  return true;
}

/// Drops views that only do what broadcasting does.
Result drop_expands(const Site& site) {
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const Node* view = site.input_node(i, "Expand");
    if (view == nullptr) {
      view = site.input_node(i, "Reshape");
      if (view == nullptr ||
          !adds_leading_ones(site.builder.type(view->inputs[0]).shape, site.input_type(i).shape))
        continue;
    }
    if (Result result = with_inputs(site, replaced(site, i, view->inputs[0]))) return result;
  }
  return std::nullopt;
}

/// x + 0, x - 0, x * 1, x / 1, x ^ 1, max(x, -inf), min(x, inf), x and true, x or false
Result neutral(const Site& site) {
  struct Row {
    std::string_view op;
    double value;
    bool either;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<Row, 9> rows = {{{"Add", 0, true},
                                        {"Sub", 0, false},
                                        {"Mul", 1, true},
                                        {"Div", 1, false},
                                        {"Pow", 1, false},
                                        {"Max", -kInfinity, true},
                                        {"Min", kInfinity, true},
                                        {"And", 1, true},
                                        {"Or", 0, true}}};
  for (const Row& row : rows) {
    if (!site.is(row.op)) continue;
    if (site.constant(1) == row.value) return site.fitted(site.inputs[0]);
    if (row.either && site.constant(0) == row.value) return site.fitted(site.inputs[1]);
  }
  return std::nullopt;
}

/// --x, !!x
Result twice(const Site& site) {
  for (std::string_view op : {"Neg", "Not"})
    if (site.is(op))
      if (const Node* inner = site.input_node(0, op)) return inner->inputs[0];
  return std::nullopt;
}

/// (x * a) * b = x * (a * b), (x + a) + b = x + (a + b), for floats and one element each.
Result merge_constants(const Site& site) {
  const bool mul = site.is("Mul");
  if ((!mul && !site.is("Add")) || !is_float(site.type.dtype)) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto outer = site.constant(i);
    const Node* inner = site.input_node(1 - i, site.node.op->name);
    if (!outer || inner == nullptr) continue;
    const std::vector<ValueId> operands = inner->inputs;
    for (std::size_t j = 0; j < 2; ++j) {
      const auto own = splat_value(site.builder, operands[j]);
      if (!own) continue;
      const Tensor merged = Tensor::scalar(site.type.dtype, mul ? *own * *outer : *own + *outer);
      if (!std::isfinite(merged.at(0)) || (mul && merged.at(0) == 0)) continue;
      if (Result result = with_inputs(site, {operands[1 - j], site.builder.constant(merged)}))
        return result;
    }
  }
  return std::nullopt;
}

/// x / c = x * (1 / c) where 1 / c is exact.
Result divide_by_power_of_two(const Site& site) {
  if (!site.is("Div") || !is_float(site.type.dtype)) return std::nullopt;
  const auto divisor = site.constant(1);
  int exponent = 0;
  if (!divisor || *divisor == 0 || std::abs(std::frexp(*divisor, &exponent)) != 0.5)
    return std::nullopt;
  const Tensor factor = Tensor::scalar(site.type.dtype, 1 / *divisor);
  if (factor.at(0) != 1 / *divisor) return std::nullopt;
  return fitting(site, "Mul", {site.inputs[0], site.builder.constant(factor)});
}

/// Powers with a dedicated operator.
Result power(const Site& site) {
  if (!site.is("Pow")) return std::nullopt;
  const auto exponent = site.constant(1);
  if (!exponent || site.input_type(0).shape != site.type.shape) return std::nullopt;
  GraphBuilder& b = site.builder;
  const ValueId x = site.inputs[0];
  if (*exponent == 2) return b.add("Square", {x});
  if (*exponent == 3) return b.add("Mul", {b.add("Square", {x}), x});
  if (!is_float(site.type.dtype)) return std::nullopt;
  if (*exponent == 0.5) return b.add("Sqrt", {x});
  if (*exponent == -0.5) return b.add("Rsqrt", {x});
  if (*exponent == -1) return b.add("Reciprocal", {x});
  return std::nullopt;
}

/// True if `to` represents every value of `from`.
bool is_lossless(DType from, DType to) {
  const auto bits = [](DType type) { return 8 * size_of(type); };
  if (from == to || from == DType::kBool) return true;
  if (is_float(from)) return is_float(to) && bits(to) > bits(from);
  if (is_float8(to)) return false;
  if (is_float(to)) {
    const std::size_t mantissa = to == DType::kFloat64   ? 53
                                 : to == DType::kFloat32 ? 24
                                 : to == DType::kFloat16 ? 11
                                                         : 8;
    return bits(from) <= mantissa;
  }
  if (is_signed_integer(from) == is_signed_integer(to)) return bits(to) >= bits(from);
  return is_signed_integer(to) && bits(to) > bits(from);
}

/// A cast to the same type, and casts of lossless casts.
Result casts(const Site& site) {
  if (!site.is("Cast")) return std::nullopt;
  if (site.input_type(0).dtype == site.type.dtype) return site.inputs[0];
  const Node* inner = site.input_node(0, "Cast");
  if (inner == nullptr) return std::nullopt;
  const ValueId source = inner->inputs[0];
  const DType from = site.builder.type(source).dtype, between = site.input_type(0).dtype;
  // Every nonzero number is true, which loses the value.
  if (!is_lossless(from, between) || between == DType::kBool) return std::nullopt;
  // Casting to this type turns infinity into the largest number.
  if (from == DType::kFloat8E5M2 && is_float8(site.type.dtype)) return std::nullopt;
  if (from == site.type.dtype) return source;
  return site.builder.add("Cast", {source}, {{"to", site.type.dtype}});
}

/// A selection with a known result.
Result constant_where(const Site& site) {
  if (!site.is("Where")) return std::nullopt;
  if (site.inputs[1] == site.inputs[2]) return site.fitted(site.inputs[1]);
  const auto condition = site.constant(0);
  if (!condition) return std::nullopt;
  return site.fitted(site.inputs[*condition != 0 ? 1 : 2]);
}

/// The bool of Where(c, a, b) is c if constant a is true and constant b false, and !c for the
/// reverse: exporters make triangular masks this way.
Result bool_of_where(const Site& site) {
  if (!site.is("Cast") || site.type.dtype != DType::kBool) return std::nullopt;
  const Node* where = site.input_node(0, "Where");
  if (where == nullptr) return std::nullopt;
  const ValueId condition = where->inputs[0];
  const auto is_true = [&](std::size_t i) -> std::optional<bool> {
    const Tensor* constant = site.builder.constant_of(where->inputs[i]);
    const auto value = constant == nullptr ? std::nullopt : splat_value(*constant);
    return value ? std::optional(*value != 0) : std::nullopt;
  };
  const auto chosen = is_true(1), other = is_true(2);
  if (!chosen || !other || *chosen == *other) return std::nullopt;
  return site.fitted(*chosen ? condition : site.builder.add("Not", {condition}));
}

/// The value that `value` negates: c for !c, x as a bool for x == 0.
Result negated(GraphBuilder& builder, ValueId value) {
  const Node* node = builder.producer(value);
  if (node == nullptr) return std::nullopt;
  if (node->op->name == "Not") return node->inputs[0];
  if (node->op->name != "Equal") return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId other = node->inputs[1 - i];
    const Tensor* zero = builder.constant_of(node->inputs[i]);
    if (zero == nullptr || splat_value(*zero) != 0.0 ||
        builder.type(other).shape != builder.type(value).shape)
      continue;
    return builder.add("Cast", {other}, {{"to", DType::kBool}});
  }
  return std::nullopt;
}

/// Where(!c, a, b) = Where(c, b, a), also with reshapes or expansions of the mask in between.
Result negated_where(const Site& site) {
  if (!site.is("Where")) return std::nullopt;
  std::vector<Node> views;  // copies: adding nodes invalidates the builder's
  ValueId base = site.inputs[0];
  for (const Node* node = site.builder.producer(base);
       node != nullptr &&
       (node->op->name == "Reshape" || node->op->name == "Transpose" || node->op->name == "Expand");
       node = site.builder.producer(base)) {
    views.push_back(*node);
    base = node->inputs[0];
  }
  Result condition = negated(site.builder, base);
  if (!condition) return std::nullopt;
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    condition = site.builder.add(view->op->name, {*condition}, view->attrs);
  return with_inputs(site, {*condition, site.inputs[2], site.inputs[1]});
}

/// Moves a reshape after quantization with one scale: matmuls and kernels can end with 8 bits, in
/// their own shape.
Result quantized_reshape(const Site& site) {
  const DType type = site.type.dtype;
  if (!site.is("Cast") || size_of(type) != 1 || (!is_integer(type) && !is_float(type)))
    return std::nullopt;
  std::vector<Node> steps;  // copies: adding nodes invalidates the builder's
  ValueId value = site.inputs[0];
  bool divides = false;
  const Node* node = site.builder.producer(value);
  for (; node != nullptr && node->op->name != "Reshape"; node = site.builder.producer(value)) {
    const std::string& op = node->op->name;
    const bool is_step = op == "Cast" || op == "Round" || op == "Quotient" || op == "Add";
    if (!is_step || !std::all_of(node->inputs.begin() + 1, node->inputs.end(), [&](ValueId input) {
          return site.builder.constant_of(input) != nullptr &&
                 site.builder.type(input).shape.empty();
        }))
      return std::nullopt;
    divides = divides || op == "Quotient";
    steps.push_back(*node);
    value = node->inputs[0];
  }
  if (node == nullptr || !divides) return std::nullopt;
  value = node->inputs[0];
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::vector<ValueId> inputs = step->inputs;
    inputs[0] = value;
    value = site.builder.add(step->op->name, std::move(inputs), step->attrs);
  }
  value = site.builder.add("Cast", {value}, site.node.attrs);
  return site.builder.add("Reshape", {value}, {{"shape", site.type.shape}});
}

/// For commutative operators constants come last, so that equivalent spellings are equal.
Result constant_last(const Site& site) {
  if (!site.node.op->commutative || site.builder.constant_of(site.inputs[0]) == nullptr ||
      site.builder.constant_of(site.inputs[1]) != nullptr)
    return std::nullopt;
  std::vector<ValueId> inputs(site.inputs.begin(), site.inputs.end());
  std::swap(inputs[0], inputs[1]);
  return with_inputs(site, inputs);
}

constexpr std::array<SimplifyRule, 13> kPointwiseRules = {{
    {"neutral", neutral},
    {"twice", twice},
    {"casts", casts},
    {"constant_where", constant_where},
    {"bool_of_where", bool_of_where},
    {"negated_where", negated_where},
    {"shrink_constants", shrink_constants},
    {"drop_expands", drop_expands},
    {"constant_last", constant_last},
    {"merge_constants", merge_constants},
    {"divide_by_power_of_two", divide_by_power_of_two},
    {"power", power},
    {"quantized_reshape", quantized_reshape},
}};

}  // namespace

std::span<const SimplifyRule> pointwise_rules() { return kPointwiseRules; }

}  // namespace sinter::fusion
