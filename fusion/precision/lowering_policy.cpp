// SPDX-License-Identifier: Apache-2.0
#include "fusion/precision/lowering_policy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "fusion/regions/operand.h"
#include "fusion/transforms.h"

namespace sinter::fusion {
namespace {

// In trained models only representations of minus infinity are this large.
constexpr double kMask = 1e8;
// Underflow matters for a scalar, not for an element of weights.
constexpr std::int64_t kScalarElements = 1;

/// The bits of `value` rounded to the narrow type, to nearest even, if the result is normal.
std::optional<std::uint16_t> narrow_bits(DType narrow, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7fffffff;
  if (narrow == DType::kBFloat16) {
    if (size >= 0x7f000000) return std::nullopt;
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  // From 2^-14 to below 2^15: rounding cannot leave the range.
  if (size < 0x38800000 || size >= 0x47000000) return std::nullopt;
  const std::uint32_t rounded = (size + 0xfff + ((size >> 13) & 1)) >> 13;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | (rounded - (112u << 10)));
}

/// True for x^e that may be much larger than x.
bool is_growing_power(const Graph& graph, const Node& node) {
  if (node.op->name == "Mul") return node.inputs[0] == node.inputs[1];
  if (node.op->numerics.growth != ir::Growth::kPower) return false;
  if (node.op->name != "Pow") return true;
  const auto& exponent = graph.value(node.inputs[1]).constant;
  return exponent == nullptr || exponent->element_count() != 1 || exponent->at(0) < 0 ||
         exponent->at(0) > 1;
}

double largest_of(DType narrow) {
  return narrow == DType::kFloat16 ? 65504.0 : std::ldexp(1.9921875, 127);
}

}  // namespace

/// Results: the constant, the number of clamped values, and one of these.
const ir::Transform kNarrowed = {
    "narrowed",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const DType narrow = attrs.get_dtype("narrow");
      return ir::has_inputs(inputs, 1) && inputs[0].dtype() == DType::kFloat32 &&
             (narrow == DType::kFloat16 || narrow == DType::kBFloat16) &&
             is_float(attrs.get_dtype("to"));
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const DType narrow = attrs.get_dtype("narrow"), to = attrs.get_dtype("to");
      const double largest = largest_of(narrow);
      const Tensor& constant = inputs[0];
      double clamped = 0, example = 0;
      const std::size_t size = size_of(to);
      const ir::HeldBytes held = constant.hold();
      const std::span values(reinterpret_cast<const float*>(held.bytes.data()),
                             held.bytes.size() / sizeof(float));
      std::vector<std::byte> bytes(values.size() * size);
      std::byte* out = bytes.data();
      for (const float element : values) {
        // A fast path for nearly every weight, as models have millions.
        if (const auto bits = to == narrow ? narrow_bits(narrow, element) : std::nullopt) {
          std::memcpy(out, &*bits, sizeof(*bits));
          out += size;
          continue;
        }
        double value = element;
        if (std::isfinite(value) && std::abs(value) > largest) {
          example = value;
          ++clamped;
          value = std::copysign(largest, value);
        }
        ir::store_double(to, out, value);
        out += size;
      }
      const double facts[] = {clamped, example};
      return std::vector{Tensor(to, constant.shape(), ir::Buffer::take(std::move(bytes))),
                         Tensor::from_doubles(DType::kFloat64, {2}, facts)};
    },
    2};

const ir::Transform kIsMask = {
    "is_mask",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      attrs.get_float("largest");
      return ir::has_inputs(inputs, 1) && inputs[0].dtype() == DType::kFloat32;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const double largest = attrs.get_float("largest");
      const bool is_mask = std::ranges::any_of(inputs[0].as<float>(), [&](float value) {
        return std::isfinite(value) && std::abs(value) >= kMask && std::abs(value) > largest;
      });
      return std::vector{Tensor::scalar(DType::kBool, is_mask ? 1 : 0)};
    },
    1};

/// The first value that does not fit, or zero.
const ir::Transform kUnfitConstant = {
    "unfit_constant",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      attrs.get_float("largest"), attrs.get_float("smallest");
      return ir::has_inputs(inputs, 1) && inputs[0].dtype() == DType::kFloat32;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const double largest = attrs.get_float("largest"), smallest = attrs.get_float("smallest");
      const bool scalar = inputs[0].element_count() <= kScalarElements;
      const auto values = inputs[0].as<float>();
      const auto unfit = std::ranges::find_if(values, [&](float value) {
        const double size = std::abs(static_cast<double>(value));
        return (std::isfinite(size) && size > largest && size < kMask) ||
               (scalar && size != 0 && size < smallest);
      });
      return std::vector{Tensor::scalar(DType::kFloat64, unfit == values.end() ? 0 : *unfit)};
    },
    1};

LoweringPolicy::LoweringPolicy(DType narrow)
    : narrow_(narrow),
      largest_(largest_of(narrow)),
      smallest_normal_(narrow == DType::kFloat16 ? std::ldexp(1.0, -14) : std::ldexp(1.0, -126)) {}

NarrowedConstant LoweringPolicy::clamp_constant(const Tensor& constant, DType to) const {
  const std::vector<Tensor> made =
      ir::apply(kNarrowed, {{"narrow", narrow_}, {"to", to}}, std::span(&constant, 1));
  return {made[0], static_cast<std::int64_t>(made[1].at(0)), made[1].at(1)};
}

bool LoweringPolicy::is_mask(const Tensor& constant) const {
  return ir::apply(kIsMask, {{"largest", largest_}}, std::span(&constant, 1))[0].at(0) != 0;
}

std::optional<std::string> LoweringPolicy::overflow_reason(const Graph& graph,
                                                           const Node& node) const {
  if (narrow_ != DType::kFloat16) return std::nullopt;
  if (is_growing_power(graph, node)) return "a power may be beyond the range of f16";
  if (node.op->numerics.growth == ir::Growth::kExponential)
    return "an exponential may be beyond the range of f16";
  return std::nullopt;
}

std::optional<std::string> LoweringPolicy::unfit_constant(const Graph& graph,
                                                          const Node& node) const {
  for (ValueId input : node.inputs) {
    const auto& constant = graph.value(input).constant;
    if (constant == nullptr || constant->dtype() != DType::kFloat32) continue;
    const Tensor unfit =
        ir::apply(kUnfitConstant, {{"largest", largest_}, {"smallest", smallest_normal_}},
                  std::span(constant.get(), 1))[0];
    if (const double value = unfit.at(0); value != 0)
      return fmt::format("its constant {:g} is {} {}", value,
                         std::abs(value) > 1 ? "beyond the range of" : "too small for",
                         to_string(narrow_));
  }
  return std::nullopt;
}

namespace {

/// How an element of a value depends on an element of another.
enum class Path : std::uint8_t { kNone, kChosen, kComputed };

/// How the results of `node` depend on corresponding elements of input `i`. A matmul sums many:
/// earlier rounding is one of many small errors, which iterations do not accumulate.
Path step_of(const Graph& graph, const Node& node, std::size_t i) {
  constexpr std::array<std::string_view, 6> kChoices = {"Where", "Max", "Min",
                                                        "Relu",  "Neg", "Abs"};
  const auto is_wide = [&](ValueId value) { return graph.type(value).dtype == DType::kFloat32; };
  if (node.outputs.size() != 1 || !is_wide(node.inputs[i]) || !is_wide(node.outputs[0]))
    return Path::kNone;
  switch (node.op->kind) {
    case OpKind::kView: return Path::kChosen;
    case OpKind::kReduce: return Path::kComputed;
    case OpKind::kPointwise:
      return std::ranges::find(kChoices, node.op->name) != kChoices.end() ? Path::kChosen
                                                                          : Path::kComputed;
    case OpKind::kIndexed:
      if (const ir::ScatterDef* scatter = node.op->scatter())
        return scatter->combine(node.attrs) ? Path::kComputed : Path::kChosen;
      return Path::kChosen;
    default: return Path::kNone;
  }
}

/// How each value depends on `from`.
std::vector<Path> paths_from(const Graph& graph, ValueId from) {
  std::vector<Path> paths(graph.values().size(), Path::kNone);
  paths[from.position()] = Path::kChosen;
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Path before = paths[node.inputs[i].position()], step = step_of(graph, node, i);
      if (before == Path::kNone || step == Path::kNone) continue;
      Path& after = paths[node.outputs[0].position()];
      after = std::max({after, before, step});
    }
  return paths;
}

/// The nodes on a path to `to`.
std::vector<bool> nodes_before(const Graph& graph, ValueId to) {
  std::vector<bool> values(graph.values().size(), false), found(graph.nodes().size(), false);
  values[to.position()] = true;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    if (node.outputs.size() != 1 || !values[node.outputs[0].position()]) continue;
    found[n] = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (step_of(graph, node, i) != Path::kNone) values[node.inputs[i].position()] = true;
  }
  return found;
}

}  // namespace

Accumulation find_accumulation(const Graph& body, std::size_t states) {
  std::vector<std::vector<Path>> values, between(states, std::vector<Path>(states));
  for (std::size_t i = 0; i < states; ++i) {
    values.push_back(paths_from(body, body.inputs()[1 + i]));
    for (std::size_t j = 0; j < states; ++j)
      between[i][j] = values[i][body.outputs()[j].position()];
  }
  // Transitive closure over iterations: states may be permuted.
  for (std::size_t k = 0; k < states; ++k)
    for (std::size_t i = 0; i < states; ++i)
      for (std::size_t j = 0; j < states; ++j)
        if (between[i][k] != Path::kNone && between[k][j] != Path::kNone)
          between[i][j] = std::max({between[i][j], between[i][k], between[k][j]});
  Accumulation result{std::vector<bool>(states), std::vector<bool>(body.nodes().size())};
  for (std::size_t i = 0; i < states; ++i) result.states[i] = between[i][i] == Path::kComputed;
  for (std::size_t j = 0; j < states; ++j) {
    if (!result.states[j]) continue;
    const std::vector<bool> before = nodes_before(body, body.outputs()[j]);
    for (std::size_t i = 0; i < states; ++i) {
      if (!result.states[i] || between[j][i] == Path::kNone) continue;
      for (std::size_t n = 0; n < before.size(); ++n)
        if (before[n] && values[i][body.nodes()[n].outputs[0].position()] != Path::kNone)
          result.nodes[n] = true;
    }
  }
  return result;
}

}  // namespace sinter::fusion
