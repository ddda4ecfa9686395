// SPDX-License-Identifier: Apache-2.0
// Fuses users' kernels with elementwise readers of their outputs, if the definition writes an
// output only by store(i, value): the readers are computed there.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/result_reader.h"

namespace sinter::fusion {
namespace {

class CustomFuser {
 public:
  CustomFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<Piece> pieces;
    for (const Node& node : graph_.nodes())
      if (node.op->name == "CustomKernel") add_piece(node, pieces);
    return rebuild(graph_, pieces);
  }

 private:
  void add_piece(const Node& kernel, std::vector<Piece>& pieces) {
    std::vector<ResultReader> chosen;
    std::vector<ValueId> writes;
    for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
      const ValueId output = kernel.outputs[i];
      const std::optional<ResultReader> reader = choose_reader(kernel, i);
      if (!reader || is_read_beside(graph_, output, *reader)) writes.push_back(output);
      if (!reader) continue;
      taken_.insert(reader->node);
      chosen.push_back(*reader);
    }
    if (chosen.empty()) return;
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    body.copy(kernel);
    for (const ResultReader& reader : chosen) {
      for (const NodeId reshape : reader.reshapes) body.copy(graph_.node(reshape));
      const Node& rest = graph_.node(reader.node);
      body.copy(rest);
      writes.insert(writes.end(), rest.outputs.begin(), rest.outputs.end());
    }
    std::vector<ValueId> stored;
    for (const ValueId value : writes) stored.push_back(body.import(value));
    pieces.push_back(body_piece("custom", body, stored, writes));
  }

  std::optional<ResultReader> choose_reader(const Node& kernel, std::size_t output) {
    for (const ResultReader& reader : result_readers(graph_, kernel.outputs[output])) {
      const Verdict verdict = may_follow(kernel, output, reader);
      decide(context_, kernel, graph_.node(reader.node), verdict.ok,
             verdict.ok ? "computed as the operator's kernel stores its output" : verdict.reason);
      if (verdict.ok) return reader;
    }
    return std::nullopt;
  }

  Verdict may_follow(const Node& kernel, std::size_t output, const ResultReader& reader) const {
    const auto& epilogues = kernel.attrs.get_ints("epilogues");
    if (std::ranges::find(epilogues, static_cast<std::int64_t>(output)) == epilogues.end())
      return {false,
              fmt::format("the kernels of '{}' write this output themselves: 'epilogue' in its "
                          "definition lets what reads it be computed there",
                          kernel.attrs.get_string("operator"))};
    const Node& node = graph_.node(reader.node);
    if (!is_kind(node, "pointwise"))
      return {false, "it reduces elements that a user's kernel stores one by one"};
    if (taken_.count(reader.node) != 0)
      return {false, "'" + describe(node) + "' is computed by another output's kernel already"};
    const ValueId value = kernel.outputs[output];
    if (Verdict v = is_next(graph_, kernel, value, reader); !v.ok) return v;
    const auto at = std::ranges::find(node.inputs, reader.read) - node.inputs.begin();
    return follows(*node.body, node.body->inputs()[static_cast<std::size_t>(at)],
                   graph_.type(reader.read).shape, {}, std::nullopt);
  }

  const Graph& graph_;
  Context& context_;
  std::set<NodeId> taken_;
};

}  // namespace

Graph fuse_custom(const Graph& graph, Context& context) {
  return CustomFuser(graph, context).run();
}

}  // namespace sinter::fusion
