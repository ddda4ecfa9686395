// SPDX-License-Identifier: Apache-2.0
#include "fusion/precision/sensitivity.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/regions/operand.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

using ir::Rounding;

/// Why a value should stay float32: bits.
enum Want : std::uint8_t { kNothing = 0, kAbsolute = 1, kIndex = 2, kExponent = 4 };

bool is_float32(const Graph& graph, ValueId value) {
  return graph.type(value).dtype == DType::kFloat32;
}

/// What `node` needs of operand `i`. Wide integers cast to floats are positions and counts; those
/// of 8 and 16 bits are quantized values, coarser than the rounding.
std::uint8_t wanted_by(const Graph& graph, const Node& node, std::size_t i) {
  if (!is_float32(graph, node.inputs[i])) return kNothing;
  if (node.op->kind == OpKind::kPointwise && node.outputs.size() == 1) {
    const DType made = graph.type(node.outputs[0]).dtype;
    if (is_integer(made) && size_of(made) >= 4) return kIndex;
  }
  switch (node.op->rounding_of(i)) {
    case Rounding::kRelative: return kNothing;
    case Rounding::kExponent: return kExponent;
    case Rounding::kAbsolute: return kAbsolute;
    case Rounding::kIndex: return kIndex;
  }
  return kNothing;
}

bool has_few_terms(const Graph& graph, const Node& node) {
  if (!ir::is_plain_matmul(node)) return false;
  const Dim& terms = graph.type(node.inputs[0]).shape.back();
  return terms.is_constant() && terms.value() <= kFewTerms;
}

/// True if errors of float operands become errors of the result, and computing it is cheap.
bool passes_errors(const Graph& graph, const Node& node) {
  switch (node.op->kind) {
    case OpKind::kPointwise:
    case OpKind::kView:
    case OpKind::kReduce:
    case OpKind::kIndexed: return node.outputs.size() == 1;
    default: return has_few_terms(graph, node);
  }
}

/// True if the results need heavy arithmetic, whatever the operands.
bool computes(const Graph& graph, const Node& node) {
  if (node.op->kind == OpKind::kExtent) return false;
  if (node.op->kind != OpKind::kWhile || node.body == nullptr) return !passes_errors(graph, node);
  return std::ranges::any_of(node.body->nodes(),
                             [&](const Node& inner) { return computes(*node.body, inner); });
}

/// True if the expression contains a sine or a cosine.
bool is_periodic(const Node& node) {
  return node.op->kind == OpKind::kPointwise &&
         std::ranges::any_of(node.op->pointwise().expr.nodes, [](const ir::ScalarNode& part) {
           return part.kind == ir::ScalarNode::Kind::kOp &&
                  (part.op == ScalarOp::kSin || part.op == ScalarOp::kCos);
         });
}

class Search {
 public:
  Search(const Graph& graph, bool logits)
      : graph_(graph),
        logits_(logits),
        computed_(graph.values().size()),
        wanted_(graph.values().size()),
        readers_(graph.values().size()) {}

  /// `computed`: by input; `wanted`: by output, kIndex if it stays float32 outside.
  Sensitivity run(const std::vector<bool>& computed, const std::vector<std::uint8_t>& wanted) {
    find_computed(computed);
    Sensitivity& result = result_;
    result.nodes.assign(graph_.nodes().size(), Kept::kNo);
    result.readers.resize(graph_.nodes().size());
    for (std::size_t k = 0; k < wanted.size(); ++k) want(graph_.outputs()[k], wanted[k], {});
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) visit(i);
    for (const ValueId input : graph_.inputs())
      result.inputs.push_back((wanted_[input.position()] & ~kExponent) != 0);
    return std::move(result);
  }

  void find_computed(const std::vector<bool>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      computed_[graph_.inputs()[i].position()] = inputs[i];
    const auto is_computed = [&](ValueId value) { return computed_[value.position()]; };
    for (const Node& node : graph_.nodes()) {
      const bool any = computes(graph_, node) || std::ranges::any_of(node.inputs, is_computed);
      for (const ValueId output : node.outputs) computed_[output.position()] = any;
    }
  }

 private:
  void want(ValueId value, std::uint8_t why, const std::set<std::string>& readers) {
    if (why == kNothing || !is_float32(graph_, value)) return;
    wanted_[value.position()] |= why;
    readers_[value.position()].insert(readers.begin(), readers.end());
  }

  /// True if all readers of `value` compute in float32 at any precision.
  bool all_read_wide(ValueId value) const {
    const auto& users = graph_.users(value);
    return !users.empty() && std::ranges::all_of(users, [&](NodeId id) {
      return result_.nodes[id.position()] == Kept::kExact ||
             result_.nodes[id.position()] == Kept::kLogits;
    });
  }

  void visit(std::size_t i) {
    const Node& node = graph_.nodes()[i];
    if (node.op->kind == OpKind::kWhile && node.body != nullptr) return visit_loop(i);
    if (node.outputs.size() != 1) {
      for (std::size_t j = 0; j < node.inputs.size(); ++j)
        want(node.inputs[j], wanted_by(graph_, node, j), {node.op->name});
      return;
    }
    const ValueId result = node.outputs[0];
    Kept& kept = result_.nodes[i];
    if (is_float32(graph_, result)) kept = kept_for_readers(node);
    if (kept == Kept::kNo) kept = kept_for_itself(node);
    const bool passes = passes_errors(graph_, node) && kept != Kept::kMatmul;
    for (std::size_t j = 0; j < node.inputs.size(); ++j) {
      if (const std::uint8_t own = wanted_by(graph_, node, j); own != kNothing)
        want(node.inputs[j], own, {node.op->name});
      if (passes && kept != Kept::kNo)
        want(node.inputs[j], wanted_[result.position()], readers_[result.position()]);
    }
    if (kept == Kept::kExact)
      result_.readers[i] = fmt::format("{}", fmt::join(readers_[result.position()], ", "));
  }

  Kept kept_for_readers(const Node& node) const {
    const ValueId value = node.outputs[0];
    const std::uint8_t why = wanted_[value.position()];
    const bool passes = passes_errors(graph_, node);
    const bool absolute = (why & (kAbsolute | kIndex)) != 0;
    if (passes && absolute && !computed_[value.position()]) return Kept::kExact;
    if (is_matrix_product(node)) {
      const bool wide = std::ranges::any_of(graph_.users(value), [&](NodeId id) {
        return result_.nodes[id.position()] == Kept::kLogits;
      });
      return wide || (why & kIndex) != 0 ? Kept::kMatmul : Kept::kNo;
    }
    if (passes && (why & kIndex) != 0) return Kept::kExact;
    if (passes && logits_ && (why & kExponent) != 0 && all_read_wide(value)) return Kept::kLogits;
    return Kept::kNo;
  }

  /// For operators that declare their operands' errors significant, if the operands are float32. A
  /// constant beside a value does not count: exponents and bounds have few digits.
  Kept kept_for_itself(const Node& node) const {
    bool absolute = false, exact = true, constant = true;
    for (std::size_t j = 0; j < node.inputs.size(); ++j) {
      const ValueId operand = node.inputs[j];
      const std::uint8_t own = wanted_by(graph_, node, j);
      if (own == kExponent && logits_ && is_float32(graph_, node.outputs[0])) return Kept::kLogits;
      if (own == kIndex) return Kept::kExact;
      exact = exact && !computed_[operand.position()];
      constant = constant && own == kAbsolute && graph_.is_constant(operand);
      absolute = absolute || (own == kAbsolute && !graph_.is_constant(operand));
    }
    return exact && (absolute || constant) ? Kept::kExact : Kept::kNo;
  }

  void visit_loop(std::size_t i) {
    const Node& node = graph_.nodes()[i];
    const std::size_t count = node.outputs.size();
    std::vector<bool> computed(node.inputs.size());
    for (std::size_t j = 0; j < computed.size(); ++j)
      computed[j] =
          computed_[(j > 0 && j <= count ? node.outputs[j - 1] : node.inputs[j]).position()];
    // A state that is wanted in float32 stays so after each iteration.
    std::vector<std::uint8_t> wanted(count);
    for (std::size_t k = 0; k < count; ++k)
      wanted[k] = wanted_[node.outputs[k].position()] & (kAbsolute | kIndex);
    for (;;) {
      Search search(*node.body, logits_);
      auto body = std::make_shared<const Sensitivity>(search.run(computed, wanted));
      bool changed = false;
      for (std::size_t k = 0; k < count; ++k)
        if (body->inputs[1 + k] && wanted[k] == kNothing) wanted[k] = kIndex, changed = true;
      if (changed) continue;
      for (std::size_t j = 0; j < node.inputs.size(); ++j)
        if (body->inputs[j]) want(node.inputs[j], kIndex, {node.op->name});
      std::vector<bool> kept(count);
      for (std::size_t k = 0; k < count; ++k) kept[k] = wanted[k] != kNothing;
      result_.states[i] = std::move(kept);
      result_.bodies[i] = std::move(body);
      return;
    }
  }

  const Graph& graph_;
  bool logits_;
  std::vector<bool> computed_;
  std::vector<std::uint8_t> wanted_;
  std::vector<std::set<std::string>> readers_;
  Sensitivity result_;
};

}  // namespace

Sensitivity find_sensitivity(const Graph& graph, bool logits) {
  return Search(graph, logits).run(std::vector<bool>(graph.inputs().size()), {});
}

std::vector<bool> find_angle_inputs(const Graph& graph) {
  std::vector<bool> angles(graph.values().size());
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const OpKind kind = node.op->kind;
    const bool passes =
        (kind == OpKind::kPointwise || kind == OpKind::kView || has_few_terms(graph, node)) &&
        angles[node.outputs[0].position()];
    for (std::size_t j = 0; j < node.inputs.size(); ++j)
      if (graph.type(node.inputs[j]).dtype != DType::kBool && (passes || is_periodic(node)))
        angles[node.inputs[j].position()] = true;
  }
  std::vector<bool> result;
  for (const ValueId input : graph.inputs()) result.push_back(angles[input.position()]);
  return result;
}

}  // namespace sinter::fusion
