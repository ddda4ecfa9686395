// SPDX-License-Identifier: Apache-2.0
// Turns decoders of one sequence into decoders of many: tokens of several sequences are
// concatenated, caches are paged, with block tables, and states have slots.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/paging/length_table.h"
#include "fusion/paging/paged_attention.h"
#include "fusion/paging/paged_inputs.h"
#include "fusion/paging/paging_refused.h"
#include "fusion/paging/token_check.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/expert_rows.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

class CachePager {
 public:
  CachePager(const Graph& graph, Context& context)
      : context_(context),
        g_(graph, *context.paging),
        mixtures_(graph),
        in_(g_),
        attention_(g_),
        logits_(find_logits()) {}

  Graph run() {
    in_.declare(g_.old.type(g_.old.outputs()[logits_]).shape.back());
    for (const Node& node : g_.old.nodes()) {
      const GraphBuilder::OriginScope scope(g_.b, node.origins);
      visit(node);
    }
    if (!attention_.has_any() && !g_.inputs.caches.empty())
      throw PagingRefused(
          "no attention over the caches was recognised: for a GPU give --precision fp16 or bf16");
    g_.states.add_stores(g_.b);
    finish_outputs();
    Graph paged = g_.b.finish();
    in_.check(paged);
    check_tokens(paged);
    in_.limit_positions(paged, context_);
    return in_.without_old(paged, dropped_);
  }

 private:
  void visit(const Node& node) {
    const ValueId first = node.outputs[0];
    const NodeId id = g_.old.value(first).producer;
    if (const DecoderCache* cache = attention_.writes(id))
      return set(node, attention_.write(node, *cache));
    if (g_.states.is_around(id)) return;
    if (const DecoderState* state = g_.states.of_layer(id))
      return set(node, g_.states.add_layer(g_.b, *state, g_.starts,
                                           [&](ValueId value) { return new_value(node, value); }));
    if (node.op->name == "Attention") return set(node, attention_.attend(node));
    if (node.outputs.size() == 1)
      if (const auto positions = g_.trials.positions(first);
          positions && has_tokens(g_.old.type(first).shape, positions->axis))
        return set(node, g_.token_positions(*positions, g_.old.type(first)));
    if (const auto axis = takes_last_token(node)) {
      ValueId row = rows_of(node.inputs[0], *axis);
      Shape shape = in_.resized(g_.old.type(first).shape);
      // The rows replace the batch dimension if the axis is removed.
      if (shape.size() < g_.b.type(row).shape.size()) {
        shape = g_.b.type(row).shape;
        if (*axis == 0 || shape[0] != Dim(1)) return set(node, row);
        shape.erase(shape.begin());
        row = g_.shaped(row, shape);
      }
      return set(node, row);
    }
    if (const auto view = view_of_rows(node)) return set(node, *view);
    if (const Node* table = length_table(g_.old, node, g_.inputs, g_.trials))
      return set(node, rows_of_table(node, *table));
    copy(node);
  }

  /// Each token's row of the table that its text's length chooses.
  ValueId rows_of_table(const Node& node, const Node& table) {
    const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
    const ValueId at = g_.mapped[node.inputs[1].position()];
    const TensorType& type = g_.b.type(at);
    const ValueId lengths = g_.shaped(g_.as(g_.lengths, type.dtype), type.shape);
    const ValueId first = of_lengths(g_.b, table.attrs.get_dims("starts")[axis], lengths);
    return g_.b.add("Gather", {g_.mapped[table.inputs[0].position()], g_.b.add("Add", {at, first})},
                    node.attrs);
  }

  /// A reshape of the last token's row, which now has a row for each sample: these stay first.
  std::optional<ValueId> view_of_rows(const Node& node) {
    if (node.op->name != "Reshape" && node.op->name != "Expand") return std::nullopt;
    const ValueId rows = g_.mapped[node.inputs[0].position()];
    if (!has_samples(g_.b.type(rows).shape)) return std::nullopt;
    Shape shape = in_.resized(node.attrs.get_dims("shape"));
    if (shape.empty()) return rows;  // a scalar broadcasts as before
    if (shape[0] != Dim(1)) return std::nullopt;
    shape[0] = Dim::symbol(paged_names::kSamples);
    return g_.b.add(node.op->name, {rows}, {{"shape", shape}});
  }

  static bool has_samples(const Shape& shape) {
    return !shape.empty() && shape[0] == Dim::symbol(paged_names::kSamples);
  }

  /// Samples are in the first dimension, where the batch of 1 was: an operand of lower rank would
  /// broadcast them along a later one.
  void align_samples(std::vector<ValueId>& operands) {
    std::size_t rank = 0;
    for (const ValueId value : operands) rank = std::max(rank, g_.b.type(value).shape.size());
    for (ValueId& value : operands) {
      Shape shape = g_.b.type(value).shape;
      if (!has_samples(shape) || shape.size() == rank) continue;
      shape.insert(shape.begin() + 1, rank - shape.size(), Dim(1));
      value = g_.shaped(value, shape);
    }
  }

  bool has_tokens(const Shape& shape, std::size_t axis) const {
    return axis < shape.size() && shape[axis] == g_.inputs.tokens;
  }

  void set(const Node& node, ValueId value) {
    g_.mapped[node.outputs[0].position()] = value;
    g_.b.name(value, g_.old.value(node.outputs[0]).name);
  }

  /// What `value`, an operand of `node`, has become.
  ValueId new_value(const Node& node, ValueId value) const {
    const ValueId now = g_.mapped[value.position()];
    if (!now.valid()) refuse_paging(node, "it reads a state beside the layer that has it");
    return now;
  }

  void copy(const Node& node) {
    Attrs attrs = node.attrs;
    for (const auto& [name, value] : node.attrs.values())
      if (const auto* dims = std::get_if<std::vector<Dim>>(&value))
        attrs.set(name, in_.resized(*dims));
    if (node.body != nullptr) refuse_paging(node, "it has a body");
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(new_value(node, input));
    if (node.op->kind == OpKind::kPointwise) align_samples(inputs);
    if (node.op->name == "Reshape" && mixtures_.role(node.outputs[0]) == RowRole::kChoices)
      inputs[0] = without_padding(inputs[0], mixtures_.experts(node.outputs[0]));
    const auto results = g_.b.add_multi(node.op->name, std::move(inputs), attrs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      g_.mapped[node.outputs[i].position()] = results[i];
      g_.b.name(results[i], g_.old.value(node.outputs[i]).name);
    }
  }

  /// The experts that tokens choose: those of padding choose none.
  ValueId without_padding(ValueId choices, std::int64_t experts) {
    const TensorType type = g_.b.type(choices);
    const Dim& tokens = type.shape[0];
    if (tokens != Dim::symbol(paged_names::kTokens)) return choices;
    const ValueId is_token = g_.b.add(
        "GreaterOrEqual", {g_.shaped(g_.places, {tokens, Dim(1)}), g_.b.scalar(DType::kInt32, 0)});
    return g_.b.add("Where",
                    {is_token, choices, g_.b.scalar(type.dtype, static_cast<double>(experts))});
  }

  // ---------------------------------------------------------------- logits

  /// The axis along which `node` takes the last token's row.
  std::optional<std::size_t> takes_last_token(const Node& node) const {
    if (node.op->name == "Gather") {
      const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
      if (has_tokens(g_.old.type(node.inputs[0]).shape, axis) &&
          g_.trials.is_last_token(node.inputs[1]))
        return axis;
    }
    if (node.op->name == "Slice") {
      const Shape& all = g_.old.type(node.inputs[0]).shape;
      const auto& starts = node.attrs.get_dims("starts");
      const auto& shape = node.attrs.get_dims("shape");
      for (std::size_t d = 0; d < all.size(); ++d)
        if (all[d] == g_.inputs.tokens && shape[d] == Dim(1) &&
            starts[d] == g_.inputs.tokens - Dim(1))
          return d;
    }
    return std::nullopt;
  }

  /// Rows of the old `value` to sample, along `axis`; select_rows limits their computation.
  ValueId rows_of(ValueId value, std::size_t axis) {
    return g_.b.add("Gather", {g_.mapped[value.position()], g_.rows},
                    {{"axis", static_cast<std::int64_t>(axis)}});
  }

  const DecoderCache* cache_at(std::size_t output) const {
    const auto at =
        std::ranges::find(g_.inputs.caches, static_cast<int>(output), &DecoderCache::output);
    return at == g_.inputs.caches.end() ? nullptr : &*at;
  }

  /// Whether output `output` is a cache or a state.
  bool is_kept(std::size_t output) const {
    return cache_at(output) != nullptr || g_.states.at_output(output) != nullptr;
  }

  /// Of what an encoder gives: nothing, or as it came.
  bool is_dropped(std::size_t output) const {
    const ValueId value = g_.old.outputs()[output];
    return !is_kept(output) && (g_.old.is_constant(value) || g_.is_crossed(value));
  }

  /// The output from which tokens are drawn: the one of that name, or the first.
  std::size_t find_logits() const {
    const auto& names = g_.old.output_names();
    if (const auto named = std::ranges::find(names, "logits"); named != names.end()) {
      const auto i = static_cast<std::size_t>(named - names.begin());
      const TensorType& type = g_.old.type(g_.old.outputs()[i]);
      if (!is_kept(i) && !is_dropped(i) && is_float(type.dtype) && !type.shape.empty() &&
          type.shape.back().is_constant())
        return i;
    }
    for (std::size_t i = 0; i < g_.old.outputs().size(); ++i) {
      const TensorType& type = g_.old.type(g_.old.outputs()[i]);
      if (is_kept(i) || is_dropped(i) || !is_float(type.dtype) || type.shape.empty()) continue;
      if (type.shape.back().is_constant()) return i;
      throw PagingRefused(fmt::format("the output '{}', {}, has no constant vocabulary",
                                      g_.old.output_names()[i], to_string(type)));
    }
    throw PagingRefused("no output is logits [samples, vocabulary]");
  }

  /// [mixtures, experts + 1]: the first sorted row of each expert; rows of padding are behind.
  ValueId expert_offsets() {
    std::vector<ValueId> rows;
    std::int64_t experts = 0;
    for (const Node& node : g_.old.nodes()) {
      if (node.op->name != "GroupByIndex" || mixtures_.role(node.outputs[1]) != RowRole::kOffsets)
        continue;
      const std::int64_t own = mixtures_.experts(node.inputs[0]);
      if (experts != 0 && own != experts)
        throw PagingRefused(fmt::format(
            "its mixtures have {} and {} experts, and expert-counts are one number", experts, own));
      experts = own;
      const ValueId offsets =
          g_.b.add("Slice", {g_.mapped[node.outputs[1].position()]},
                   {{"starts", Shape{Dim(0)}}, {"steps", Ints{1}}, {"shape", Shape{Dim(own + 1)}}});
      rows.push_back(g_.shaped(offsets, {Dim(1), Dim(own + 1)}));
    }
    if (rows.empty()) throw PagingRefused("no mixture of experts was recognised (expert-counts)");
    return rows.size() == 1 ? rows[0]
                            : g_.b.add("Concat", std::move(rows), {{"axis", std::int64_t{0}}});
  }

  void finish_outputs() {
    ValueId logits;
    for (std::size_t i = 0; i < g_.old.outputs().size(); ++i) {
      const ValueId old = g_.old.outputs()[i];
      if (is_dropped(i)) {
        dropped_.push_back(i);
        continue;
      }
      if (const DecoderState* const state = g_.states.at_output(i)) {
        g_.b.output(g_.old.output_names()[i], g_.states.result(*state));
        continue;
      }
      const DecoderCache* const cache = cache_at(i);
      ValueId value = g_.mapped[(cache != nullptr ? cache->result : old).position()];
      if (cache == nullptr) {
        const Shape& shape = g_.old.type(old).shape;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape[d] == g_.inputs.tokens) value = rows_of(old, d);
        const Dim samples = Dim::symbol(paged_names::kSamples);
        const Shape& now = g_.b.type(value).shape;
        if (shape.empty() || ir::element_count(now) != samples * now.back())
          throw PagingRefused(fmt::format(
              "the output '{}', {}, is no row of logits of each token or of the last one",
              g_.old.output_names()[i], to_string(g_.old.type(old))));
        value = g_.shaped(value, {samples, now.back()});
        if (i == logits_) logits = value;
      }
      g_.b.output(g_.old.output_names()[i], value);
    }
    if (g_.options.counts_experts) g_.b.output(paged_names::kExpertOffsets, expert_offsets());
    const GraphBuilder::OriginScope scope(g_.b, {"sampler"});
    if (size_of(g_.b.type(logits).dtype) > 4) logits = g_.as(logits, DType::kFloat32);
    in_.sampler().draw(g_.b, logits);
  }

  Context& context_;
  PagedGraph g_;
  const ExpertRows mixtures_;
  PagedInputs in_;
  PagedAttention attention_;
  const std::size_t logits_;
  std::vector<std::size_t> dropped_;  // outputs
};

}  // namespace

Graph page_caches(const Graph& graph, Context& context) {
  if (!context.paging) return graph;
  if (!context.fuse)
    throw Error(ErrorCode::kUsage,
                "--serve pages the caches of attention, which --fuse=off does not look for: leave "
                "one of both out");
  return CachePager(graph, context).run();
}

}  // namespace sinter::fusion
