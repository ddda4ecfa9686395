// SPDX-License-Identifier: Apache-2.0
// Fuses a decoding step's queries and new cache rows (of keys and of values) into the attention
// that reads them; its blocks compute what they need. Nothing else waits for these rows: separate
// kernels would cost launches and memory traffic for a few thousand elements.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/region.h"
#include "ir/attention_inputs.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

// Operators that each block recomputes.
constexpr std::size_t kMostOperators = 48;

/// The node that computes an operand, and the reshapes in between.
struct Source {
  NodeId node;
  std::vector<NodeId> reshapes;
};

class CacheRowFuser {
 public:
  CacheRowFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<Piece> pieces;
    for (const Node& node : graph_.nodes())
      if (is_kind(node, "attention"))
        if (auto piece = fuse(node)) pieces.push_back(std::move(*piece));
    return rebuild(graph_, pieces);
  }

 private:
  std::optional<Piece> fuse(const Node& attention) {
    const Node* inner = nullptr;
    for (const Node& node : attention.body->nodes())
      if (node.op->name == "Attention") inner = &node;
    if (!inner) return std::nullopt;
    const auto q = source(attention, *inner, 0);
    std::vector<Source> caches;  // keys, values, and their scales, if any
    const ir::AttentionInputs which = ir::attention_inputs(
        inner->attrs, inner->inputs.size(), attention.body->type(inner->inputs[1]).dtype);
    // A paged step of one token: its row is the last one that it sees.
    if (which.tables && (attention.body->type(inner->inputs[*which.tables]).shape[0] != Dim(1) ||
                         inner->attrs.get_int("window") > 0))
      return std::nullopt;
    std::vector<std::size_t> operands{1, 2};
    if (which.key_scales) operands.insert(operands.end(), {*which.key_scales, *which.value_scales});
    for (const std::size_t i : operands) {
      const auto cache = source(attention, *inner, i);
      // Not reported: keys and values are no caches.
      if (!cache || !changes_state(graph_, graph_.node(cache->node))) return std::nullopt;
      caches.push_back(*cache);
    }
    if (!q || caches[0].node == caches[1].node) return std::nullopt;
    const Verdict verdict = can_fuse(*attention.body, *inner, *q, caches);
    std::vector<Source> parts{*q};
    parts.insert(parts.end(), caches.begin(), caches.end());
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    std::vector<ValueId> writes, stored;
    for (const Source& part : parts) {
      const Node& node = graph_.node(part.node);
      if (std::ranges::find(writes, node.outputs[0]) == writes.end()) {
        decide(context_, node, attention, verdict.ok,
               verdict.ok ? "each block makes its own queries and new row" : verdict.reason);
        body.copy(node);
        writes.insert(writes.end(), node.outputs.begin(), node.outputs.end());
      }
      for (std::size_t i = part.reshapes.size(); i-- > 0;) body.copy(graph_.node(part.reshapes[i]));
    }
    if (!verdict.ok) return std::nullopt;
    context_.decisions.back().launches = 1;
    body.copy(attention);
    std::erase(writes, graph_.node(q->node).outputs[0]);
    writes.push_back(attention.outputs[0]);
    for (const ValueId value : writes) stored.push_back(body.import(value));
    return body_piece("attention", body, stored, writes);
  }

  /// The source of operand `i` of the Attention, if only views lead to it from a value computed for
  /// it.
  std::optional<Source> source(const Node& attention, const Node& inner, std::size_t i) const {
    const Graph& body = *attention.body;
    ValueId within = inner.inputs[i];
    for (const Node* view = body.producer(within); view; view = body.producer(within)) {
      if (view->inputs.size() != 1) return std::nullopt;
      within = view->inputs[0];
    }
    const auto at = body.input_number(within);
    if (!at) return std::nullopt;
    ValueId value = attention.inputs[*at];
    if (std::ranges::count(attention.inputs, value) != 1) return std::nullopt;
    Source result;
    while (graph_.users(value).size() == 1) {
      const Node* node = graph_.producer(value);
      if (!node) return std::nullopt;
      result.node = graph_.value(value).producer;
      if (node->op->name != "Reshape") return result;
      if (graph_.is_output(value)) return std::nullopt;
      result.reshapes.push_back(result.node);
      value = node->inputs[0];
    }
    return std::nullopt;
  }

  Verdict can_fuse(const Graph& body, const Node& inner, const Source& q,
                   const std::vector<Source>& caches) const {
    const Node& queries = graph_.node(q.node);
    if (!is_kind(queries, "pointwise") || queries.outputs.size() != 1 ||
        graph_.is_output(queries.outputs[0]))
      return {false, "its queries are not computed element by element, for it alone"};
    const Shape& shape = body.type(inner.inputs[0]).shape;
    if (shape[shape.size() - 2] != ir::Dim(1))
      return {false, "a head has several queries, which the rows in front of theirs see as well"};
    if (inner.attrs.get_int("causal") == 1) return {false, "its rows see different keys"};
    if (!std::ranges::all_of(
            caches, [&](const Source& cache) { return has_one_place(graph_.node(cache.node)); }))
      return {false, "the place of the new row is not one for all sequences"};
    const bool has_scales = caches.size() > 2;
    for (std::size_t i = 0; i < 2; ++i)
      if (graph_.node(caches[i].node).outputs.size() != (has_scales ? 2 : 1) ||
          (has_scales && caches[i].node != caches[i + 2].node))
        return {false, "the new rows of its caches and their scales are not made together"};
    std::size_t operators = operators_of(*queries.body);
    for (std::size_t i = 0; i < 2; ++i)
      operators += operators_of(exact_rows(graph_.node(caches[i].node)));
    if (operators > kMostOperators)
      return {false, fmt::format("each block would do {} operators again", operators)};
    const auto asking = ir::divide_exactly(ir::element_count(shape), shape.back());
    const auto added = new_rows(graph_.node(caches[0].node));
    const auto shared = asking && added ? ir::divide_exactly(*asking, *added) : std::nullopt;
    // Queries that share a head's keys are in one block.
    const std::int64_t most = context_.target.attention_prologue_rows;
    if (!shared || !shared->is_constant() || shared->value() > most ||
        new_rows(graph_.node(caches[1].node)) != added)
      return {false,
              fmt::format("it is not one row for up to {} queries each that is added", most)};
    return {true, ""};
  }

  /// Whether everything that a region scatters goes to one index, besides its own position.
  static bool has_one_place(const Node& scatter) {
    const Graph& body = *scatter.body;
    for (const Node& part : body.nodes()) {
      if (part.op->scatter() == nullptr) continue;
      for (std::size_t i = 2; i < part.inputs.size(); ++i) {
        const Node* made = body.producer(part.inputs[i]);
        const bool is_counted = made != nullptr && made->op->generate() != nullptr;
        if (!is_counted && ir::element_count(body.type(part.inputs[i]).shape) != Dim(1))
          return false;
      }
    }
    return true;
  }

  /// `part`, or the rows before rounding to 8 bits: attention kernels have their own rounding
  /// code.
  static Graph exact_rows(const Node& part) {
    return ir::rows_before_rounding(*part.body, ir::kRowScaleType).value_or(*part.body);
  }

  /// Number of operators that each block recomputes, without index arithmetic.
  static std::size_t operators_of(const Graph& part) {
    return static_cast<std::size_t>(std::ranges::count_if(part.nodes(), [](const Node& node) {
      return node.op->kind != OpKind::kIndexed || node.op->take() != nullptr;
    }));
  }

  /// Number of scattered rows: elements / last dimension.
  static std::optional<Dim> new_rows(const Node& scatter) {
    for (const Node& part : scatter.body->nodes()) {
      if (part.op->scatter() == nullptr) continue;
      const Shape& shape = scatter.body->type(part.inputs[1]).shape;
      return ir::divide_exactly(ir::element_count(shape), shape.back());
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Context& context_;
};

}  // namespace

Graph fuse_cache_rows(const Graph& graph, Context& context) {
  if (context.target.attention_prologue_rows == 0) return graph;
  return CacheRowFuser(graph, context).run();
}

}  // namespace sinter::fusion
