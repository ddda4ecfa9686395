// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// The type to which a float32 layer will be lowered.
DType lowered(const Context& context, DType type) {
  if (type != DType::kFloat32) return type;
  if (context.precision == Precision::kFloat16) return DType::kFloat16;
  if (context.precision == Precision::kBFloat16) return DType::kBFloat16;
  return type;
}

/// Why the target has no kernel for the layer; empty if it has one.
std::string recurrent_refusal(const Context& context, const Graph& graph, const Node& node) {
  const TargetTraits& target = context.target;
  if (!context.fuse) return "unfused each operator is a kernel";
  if (target.recurrent_units.empty()) return "this target has no kernel for recurrent layers";
  if (const std::string& special = node.attrs.get_string("special"); !special.empty())
    return special;
  const DType type = lowered(context, graph.type(node.inputs[0]).dtype);
  const auto most = target.recurrent_units.find(type);
  if (most == target.recurrent_units.end())
    return fmt::format("this target's kernel for recurrent layers does not take {}",
                       to_string(type));
  const Dim& units = graph.type(node.inputs[1]).shape.back();
  if (!units.is_constant()) return "how many units it has is known only when it runs";
  if (units.value() > most->second)
    return fmt::format("it has {} units, and {} are the most whose {} weights stay on chip",
                       units.value(), most->second, to_string(type));
  return "";
}

bool has_reference(const Graph& body) {
  return std::ranges::none_of(body.nodes(),
                              [](const Node& node) { return node.op->name == "NoReference"; });
}

/// Why a user's kernels do not fit the target; empty if they do. Throws Error(kUnsupported) if
/// there is no replacement.
std::string custom_refusal(const Context& context, const Node& node) {
  if (context.target.generates_kernels) return "";
  if (!has_reference(*node.body))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("'{}': operator '{}' has CUDA text alone, which this target does not "
                            "run: give it [operator.host], its outputs a 'value', or name a model "
                            "as its 'reference'",
                            describe(node), node.attrs.get_string("operator")));
  return "this target runs no CUDA text: its reference is computed";
}

}  // namespace

Graph expand_bodies(const Graph& graph, Context& context) {
  bool found = false;
  Graph result =
      ir::rewrite(graph,
                  [&](GraphBuilder& builder, const Graph& old, const Node& node,
                      std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                    const bool is_custom = node.op->name == "CustomKernel";
                    if (!is_custom && node.op->name != "Recurrent") return std::nullopt;
                    const std::string no = is_custom ? custom_refusal(context, node)
                                                     : recurrent_refusal(context, old, node);
                    if (no.empty()) return std::nullopt;
                    decide(context, node, node, false, is_custom ? no : no + ": it is a loop");
                    found = true;
                    return node.op->composite().decompose(builder, node, inputs);
                  });
  // A body may contain such nodes.
  return found ? expand_bodies(result, context) : result;
}

}  // namespace sinter::fusion
