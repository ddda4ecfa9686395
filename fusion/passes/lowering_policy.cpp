#include "fusion/passes/lowering_policy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "fusion/regions/operand.h"

namespace sinter::fusion {
namespace {

// Nothing in a trained model is this large but what stands for minus infinity.
constexpr double kMask = 1e8;
// Weights are tested element by element; a scalar's underflow matters, a weight's does not.
constexpr std::int64_t kScalarElements = 1;

/// The bits of `value` in the narrow type, to nearest even, where it is normal in it.
std::optional<std::uint16_t> narrow_bits(DType narrow, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7fffffff;
  if (narrow == DType::kBFloat16) {
    if (size >= 0x7f000000) return std::nullopt;
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  // From 2^-14 to below 2^15, where rounding cannot leave the range.
  if (size < 0x38800000 || size >= 0x47000000) return std::nullopt;
  const std::uint32_t rounded = (size + 0xfff + ((size >> 13) & 1)) >> 13;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | (rounded - (112u << 10)));
}

/// True for x^e whose size may be much larger than that of x.
bool is_growing_power(const Graph& graph, const Node& node) {
  if (node.op->name == "Square") return true;
  if (node.op->name == "Mul") return node.inputs[0] == node.inputs[1];
  if (node.op->name != "Pow") return false;
  const auto& exponent = graph.value(node.inputs[1]).constant;
  return exponent == nullptr || exponent->element_count() != 1 || exponent->at(0) < 0 ||
         exponent->at(0) > 1;
}

bool is_exponential(const Node& node) {
  constexpr std::array<std::string_view, 4> kNames = {"Exp", "Expm1", "Sinh", "Cosh"};
  return std::ranges::find(kNames, node.op->name) != kNames.end();
}

}  // namespace

LoweringPolicy::LoweringPolicy(DType narrow)
    : narrow_(narrow),
      largest_(narrow == DType::kFloat16 ? 65504.0 : std::ldexp(1.9921875, 127)),
      smallest_normal_(narrow == DType::kFloat16 ? std::ldexp(1.0, -14) : std::ldexp(1.0, -126)) {}

NarrowedConstant LoweringPolicy::clamp_constant(const Tensor& constant, DType to) const {
  NarrowedConstant result;
  const std::size_t size = size_of(to);
  const ir::HeldBytes held = constant.hold();
  std::vector<std::byte> bytes(constant.as<float>().size() * size);
  std::byte* out = bytes.data();
  for (float element : constant.as<float>()) {
    // Nearly every weight: a fast path, since a model has millions of them.
    if (const auto bits = to == narrow_ ? narrow_bits(narrow_, element) : std::nullopt) {
      std::memcpy(out, &*bits, sizeof(*bits));
      out += size;
      continue;
    }
    double value = element;
    if (std::isfinite(value) && std::abs(value) > largest_) {
      result.example = value;
      ++result.clamped;
      value = std::copysign(largest_, value);
    }
    ir::store_double(to, out, value);
    out += size;
  }
  result.tensor = ir::Tensor(to, constant.shape(), ir::Buffer::take(std::move(bytes)));
  return result;
}

bool LoweringPolicy::is_mask(const Tensor& constant) const {
  const auto values = constant.as<float>();
  return std::ranges::any_of(values, [&](float value) {
    return std::isfinite(value) && std::abs(value) >= kMask && std::abs(value) > largest_;
  });
}

std::optional<std::string> LoweringPolicy::overflow_reason(const Graph& graph,
                                                           const Node& node) const {
  if (narrow_ != DType::kFloat16) return std::nullopt;
  if (is_growing_power(graph, node)) return "a power may be beyond the range of f16";
  if (is_exponential(node)) return "an exponential may be beyond the range of f16";
  return std::nullopt;
}

std::optional<std::string> LoweringPolicy::unfit_constant(const Graph& graph,
                                                          const Node& node) const {
  for (ValueId input : node.inputs) {
    const auto& constant = graph.value(input).constant;
    if (constant == nullptr || constant->dtype() != DType::kFloat32) continue;
    const bool scalar = constant->element_count() <= kScalarElements;
    const auto values = constant->as<float>();
    for (float value : values) {
      const double size = std::abs(static_cast<double>(value));
      if (std::isfinite(size) && size > largest_ && size < kMask)
        return fmt::format("its constant {:g} is beyond the range of {}", value,
                           to_string(narrow_));
      if (scalar && size != 0 && size < smallest_normal_)
        return fmt::format("its constant {:g} is too small for {}", value, to_string(narrow_));
    }
  }
  return std::nullopt;
}

std::vector<bool> feeds_exponentials(const Graph& graph) {
  const auto& nodes = graph.nodes();
  // Those that read float32 too: a product only stores it.
  std::vector<bool> feeds(nodes.size(), false), reads(nodes.size(), false);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    if (node.outputs.size() != 1 || graph.type(node.outputs[0]).dtype != DType::kFloat32) continue;
    const auto& users = graph.users(node.outputs[0]);
    const auto wide = [&](NodeId user) { return reads[user.position()]; };
    const OpKind kind = node.op->kind;
    if (node.op->name == "Softmax" || node.op->name == "Exp") {
      reads[i] = true;
    } else if (kind == OpKind::kPointwise || kind == OpKind::kView || kind == OpKind::kReduce) {
      reads[i] = !users.empty() && std::ranges::all_of(users, wide);
    }
    feeds[i] = reads[i] || (is_matrix_product(node) && std::ranges::any_of(users, wide));
  }
  return feeds;
}

}  // namespace sinter::fusion
