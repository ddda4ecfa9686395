// SPDX-License-Identifier: Apache-2.0
#include "fusion/facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/layouts/forms.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// A fact of a pass that has nothing left to do: that it is so is that it changes nothing.
template <Graph (*pass)(const Graph&, Context&)>
std::string changes_nothing(const Graph& graph, const Context& context) {
  Context trial = context;
  const Graph again = pass(graph, trial);
  if (again.is_same(graph) || structurally_equal(again, graph)) return "";
  return fmt::format("once more it makes {} nodes of {}", again.nodes().size(),
                     graph.nodes().size());
}

/// That, with the first node that it changes.
std::string all_is_decomposed(const Graph& graph, const Context& context) {
  std::string why = changes_nothing<decompose>(graph, context);
  if (why.empty()) return why;
  for (const Node& node : graph.nodes())
    if (node.op->kind == OpKind::kComposite && context.fuse)
      return fmt::format("'{}' is composite; {}", describe(node), why);
  return why;
}

/// Convolutions have channels last where the target takes nothing else.
std::string layouts_are_assigned(const Graph& graph, const Context& context) {
  for (const Node& node : graph.nodes())
    if (node.op->name == "Conv" && node.attrs.get_int("channels_last") == 0 &&
        (context.target.conv_channels_last || context.target.conv_any_float) &&
        !second_form(graph, node, context.target))
      return fmt::format("'{}' has channels first", describe(node));
  return "";
}

std::string states_are_found(const Graph& graph, const Context& context) {
  for (const auto& [input, output] : context.states.pairs) {
    const auto is_pair = [&, &in = input, &out = output](const ir::State& state) {
      return graph.value(graph.inputs()[static_cast<std::size_t>(state.input)]).name == in &&
             graph.output_names()[static_cast<std::size_t>(state.output)] == out;
    };
    if (std::ranges::none_of(graph.states(), is_pair))
      return fmt::format("'{}' and '{}' are no state", input, output);
  }
  return "";
}

std::string all_is_fused(const Graph& graph, const Context&) {
  for (const Node& node : graph.nodes())
    if (node.op->kind != OpKind::kFused && node.op->kind != OpKind::kWhile &&
        node.op->kind != OpKind::kExtent && node.op->name != "Reshape")
      return fmt::format("'{}' is not part of a kernel", describe(node));
  return "";
}

}  // namespace

namespace facts {

const Fact kBodiesExpanded{"bodies expanded", changes_nothing<expand_bodies>, true};
const Fact kStatesFound{"states found", states_are_found};
const Fact kWeightsRead{"weights in few bits read", changes_nothing<quantize_weights>};
const Fact kConstantsFolded{"constants folded", changes_nothing<fold_constants>};
const Fact kIdiomsRecognised{"idioms recognised", changes_nothing<recognise>};
const Fact kPrecisionLowered{"precision lowered", changes_nothing<lower_precision>};
const Fact kSimplified{"simplified", changes_nothing<simplify>};
const Fact kEightBitOperandsFound{"8-bit operands found", changes_nothing<sink_scales>};
const Fact kAttentionFound{"attention found", changes_nothing<recognise_attention>};
const Fact kDecomposed{"decomposed", all_is_decomposed, true};
const Fact kLayoutsAssigned{"layouts assigned", layouts_are_assigned};
const Fact kWeightsLaidOut{"weights laid out", changes_nothing<lay_out_weights>};
const Fact kAllFused{"all fused", all_is_fused, true};

}  // namespace facts

}  // namespace sinter::fusion
