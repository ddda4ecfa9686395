// SPDX-License-Identifier: Apache-2.0
// Turns decoders of one sequence into decoders of many: tokens of several sequences are
// concatenated, and caches are paged, with block tables.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/paging/biased_attention.h"
#include "fusion/paging/length_table.h"
#include "fusion/paging/paged_states.h"
#include "fusion/paging/paging_refused.h"
#include "fusion/paging/position_limit.h"
#include "fusion/paging/position_trials.h"
#include "fusion/paging/token_check.h"
#include "fusion/paging/token_sampler.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/expert_rows.h"
#include "fusion/patterns/scores.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

using ir::Attr;

[[noreturn]] void refuse_paging(const Node& node, const std::string& why) {
  throw PagingRefused(fmt::format("{}: {}", describe(node), why));
}

class CachePager {
 public:
  CachePager(const Graph& graph, Context& context)
      : graph_(graph),
        context_(context),
        options_(*context.paging),
        inputs_(decoder_inputs(graph)),
        trials_(graph, inputs_),
        mixtures_(graph),
        states_(graph, inputs_.states),
        b_(graph.name()),
        mapped_(graph.values().size()) {}

  Graph run() {
    for (const DecoderCache& cache : inputs_.caches)
      if (const auto symbol = graph_.type(cache.input).shape[cache.axis].as_symbol();
          cache.kept && symbol)
        sliding_.insert(*symbol);
    logits_ = find_logits();
    declare();
    for (const Node& node : graph_.nodes()) {
      const GraphBuilder::OriginScope scope(b_, node.origins);
      visit(node);
    }
    if (attention_ == 0 && !inputs_.caches.empty())
      throw PagingRefused(
          "no attention over the caches was recognised: for a GPU give --precision fp16 or bf16");
    finish_outputs();
    Graph paged = b_.finish();
    check_inputs(paged);
    check_tokens(paged);
    limit_positions(paged);
    return without_old(paged);
  }

 private:
  // ---------------------------------------------------------------- inputs

  Dim resized(const Dim& dim) const { return ir::simplify(dim.substitute(sizes_), b_.ranges()); }
  Shape resized(Shape shape) const {
    for (Dim& dim : shape) dim = resized(dim);
    return shape;
  }

  /// `bound`: what it is never larger than, either.
  void range(const char* symbol, std::int64_t least, std::int64_t most,
             const std::optional<Dim>& bound = {}) {
    Range range;
    range.min = least;
    range.max = most;
    if (bound) range.symbolic_max = std::make_shared<const Dim>(*bound);
    b_.range(symbol, range);
  }

  /// Whether a symbol is the number of tokens, of previous tokens, or of both.
  bool is_replaced(const std::string& symbol) const {
    const Dim dim = Dim::symbol(symbol);
    return symbol == inputs_.length || dim == inputs_.tokens || sliding_.contains(symbol) ||
           std::ranges::any_of(inputs_.masks,
                               [&](ValueId mask) { return graph_.type(mask).shape.back() == dim; });
  }

  void declare() {
    namespace names = paged_names;
    const Dim tokens = Dim::symbol(names::kTokens), length = Dim::symbol(names::kCachePositions);
    for (const auto& [symbol, range] : graph_.ranges())
      if (!is_replaced(symbol)) b_.range(symbol, range);
    const auto most = graph_.ranges().find(inputs_.length);
    positions_ = options_.max_positions > 0      ? options_.max_positions
                 : most == graph_.ranges().end() ? kMostPositions
                                                 : std::min(kMostPositions, most->second.max);
    const std::int64_t block = options_.block_size;
    range(names::kTokens, 1, options_.max_step_tokens);
    range(names::kSequences, 1, options_.max_sequences);
    range(names::kSamples, 1, options_.max_step_tokens, tokens);
    range(names::kTableBlocks, 1, (positions_ + block - 1) / block);
    // Later code looks for sizes that depend on the cache's length: no range may make it a
    // constant.
    range(names::kCachePositions, 0, kMostCache);
    sizes_.emplace(*inputs_.tokens.as_symbol(), tokens);
    const bool is_appended = inputs_.growth == DecoderInputs::Growth::kConcatenated;
    if (!inputs_.length.empty())
      sizes_.emplace(inputs_.length, is_appended ? length - tokens : length);
    for (const std::string& symbol : sliding_) sizes_.emplace(symbol, length - tokens);
    for (const ValueId mask : inputs_.masks)
      if (const auto all = graph_.type(mask).shape.back().as_symbol()) sizes_.emplace(*all, length);

    const auto add = [&](const char* name, Shape shape) {
      return b_.input(name, {DType::kInt32, std::move(shape)});
    };
    const Dim sequences = Dim::symbol(names::kSequences);
    const ValueId ids = add(names::kIds, {tokens});
    places_ = add(names::kPositions, {tokens});
    slots_ = add(names::kSlotMapping, {tokens});
    starts_ = add(names::kSequenceStarts, {sequences + Dim(1)});
    tables_ = add(names::kBlockTables, {sequences, Dim::symbol(names::kTableBlocks)});
    rows_ = add(names::kSampleRows, {Dim::symbol(names::kSamples)});
    if (std::ranges::any_of(graph_.nodes(), [&](const Node& node) {
          return length_table(graph_, node, inputs_, trials_);
        }))
      lengths_ = add(names::kTextLengths, {tokens});
    sampler_.declare(b_, graph_.type(graph_.outputs()[logits_]).shape.back());
    states_.declare_inputs(b_, options_);
    mapped_[inputs_.ids.position()] =
        shaped(as(ids, graph_.type(inputs_.ids).dtype), resized(graph_.type(inputs_.ids).shape));
    for (const DecoderCache& cache : inputs_.caches) {
      const TensorType& type = graph_.type(cache.input);
      Shape shape = type.shape;
      shape[cache.axis] = length;
      mapped_[cache.input.position()] =
          b_.input(graph_.value(cache.input).name, {type.dtype, shape});
    }
    states_.declare_pools(b_);
    if (!inputs_.crossed.empty()) declare_crossed();
    // Inputs with the number of previous tokens disappear. Remaining readers are reported.
    for (const auto* each :
         {&inputs_.counts, &inputs_.positions, &inputs_.masks, &inputs_.cross_masks})
      for (const ValueId input : *each) {
        mapped_[input.position()] =
            b_.input(graph_.value(input).name,
                     {graph_.type(input).dtype, resized(graph_.type(input).shape)});
      }
    for (std::size_t i = 0; i < graph_.values().size(); ++i)
      if (const Value& value = graph_.values()[i]; value.constant)
        mapped_[i] = b_.constant(value.constant, value.name);
    for (const ValueId input : inputs_.positions)
      mapped_[input.position()] =
          token_positions({graph_.type(input).shape.size() - 1, 0}, graph_.type(input));
  }

  /// Of all sequences: slots of the same number of blocks.
  void declare_crossed() {
    namespace names = paged_names;
    const std::int64_t block = options_.block_size;
    const Shape& first = graph_.type(inputs_.crossed[0]).shape;
    const auto most = ir::upper_bound(first[first.size() - 2], graph_.ranges());
    const std::int64_t blocks =
        (std::min(most.value_or(kMostPositions), kMostPositions) + block - 1) / block;
    range(names::kCrossBlocks, 1, blocks);
    range(names::kCrossPositions, 0, kMostCache);
    const Dim tokens = Dim::symbol(names::kTokens), sequences = Dim::symbol(names::kSequences);
    cross_limits_ = b_.input(names::kCrossLimits, {DType::kInt32, {tokens}});
    cross_tables_ = b_.input(names::kCrossTables,
                             {DType::kInt32, {sequences, Dim::symbol(names::kCrossBlocks)}});
    for (const ValueId input : inputs_.crossed) {
      Shape shape = graph_.type(input).shape;
      shape[shape.size() - 2] = Dim::symbol(names::kCrossPositions);
      mapped_[input.position()] =
          b_.input(graph_.value(input).name, {graph_.type(input).dtype, shape});
    }
  }

  /// Whether input `i` of the new graph is one of the former token counts, which follow its own
  /// inputs, the caches and what an encoder gives.
  bool is_old(std::size_t i) const {
    const std::size_t own =
        6 + (lengths_.valid() ? 1 : 0) + TokenSampler::kInputs + states_.inputs();
    const std::size_t crossed = inputs_.crossed.empty() ? 0 : inputs_.crossed.size() + 2;
    return i >= own + inputs_.caches.size() + inputs_.states.size() + crossed;
  }

  void check_inputs(const Graph& paged) const {
    for (std::size_t i = 0; i < paged.inputs().size(); ++i) {
      const Value& input = paged.value(paged.inputs()[i]);
      if (!is_old(i) || paged.users(paged.inputs()[i]).empty()) continue;
      refuse_paging(
          paged.node(paged.users(paged.inputs()[i])[0]),
          fmt::format("it reads '{}' in a way that is neither the positions of tokens nor a mask "
                      "of those before them",
                      input.name));
    }
  }

  /// The model's position tables limit the length of a sequence.
  void limit_positions(const Graph& paged) {
    if (const auto limit = position_limit(paged); limit && limit->most < positions_) {
      context_.position_table = describe(paged.node(limit->node));
      if (limit->most < 1)
        refuse_paging(paged.node(limit->node), "its table has no row for the first position");
      positions_ = limit->most;
    }
    context_.paging->max_positions = positions_;
  }

  /// The graph without unread inputs, and with the caches as states.
  Graph without_old(const Graph& paged) const {
    GraphBuilder builder(paged.name());
    for (auto [symbol, range] : paged.ranges()) {
      if (symbol == paged_names::kCachePositions || symbol == paged_names::kCrossPositions)
        range.min = options_.block_size;
      if (symbol == paged_names::kTableBlocks)
        range.max = (positions_ + options_.block_size - 1) / options_.block_size;
      builder.range(symbol, range);
    }
    std::vector<ValueId> inputs;
    std::map<std::string, int> numbers;
    int count = 0;
    for (const ValueId input : paged.inputs()) {
      const std::string& name = paged.value(input).name;
      if (is_old(inputs.size())) {
        inputs.push_back(builder.placeholder(paged.type(input)));
        continue;
      }
      numbers[name] = count++;
      inputs.push_back(builder.input(name, paged.type(input)));
    }
    const std::vector<ValueId> outputs = ir::inline_graph(builder, paged, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      builder.output(paged.output_names()[i], outputs[i]);
    const auto add_state = [&](ValueId input, int output) {
      const auto dropped = std::ranges::count_if(
          dropped_, [&](std::size_t each) { return std::cmp_less(each, output); });
      builder.state({numbers.at(graph_.value(input).name), output - static_cast<int>(dropped)});
    };
    for (const DecoderCache& cache : inputs_.caches) add_state(cache.input, cache.output);
    for (const DecoderState& state : inputs_.states) add_state(state.input, state.output);
    return builder.finish();
  }

  // ---------------------------------------------------------------- nodes

  ValueId as(ValueId value, DType type) {
    return b_.type(value).dtype == type ? value : b_.add("Cast", {value}, {{"to", Attr(type)}});
  }
  ValueId shaped(ValueId value, Shape shape) {
    return b_.type(value).shape == shape ? value : b_.add("Reshape", {value}, {{"shape", shape}});
  }

  /// Token positions in place of a value of type `type`.
  ValueId token_positions(const TokenPositions& what, const TensorType& type) {
    const GraphBuilder::OriginScope scope(b_, {});
    ValueId value = as(places_, type.dtype);
    if (what.more != 0)
      value = b_.add("Add", {value, b_.scalar(type.dtype, static_cast<double>(what.more))});
    Shape shape(type.shape.size(), Dim(1));
    if (!shape.empty()) shape[what.axis] = Dim::symbol(paged_names::kTokens);
    return shaped(value, shape);
  }

  const DecoderCache* cache_written_by(NodeId id) const {
    const auto at = std::ranges::find_if(
        inputs_.caches, [&](const DecoderCache& cache) { return cache.writer == id; });
    return at == inputs_.caches.end() ? nullptr : &*at;
  }

  void visit(const Node& node) {
    const ValueId first = node.outputs[0];
    const NodeId id = graph_.value(first).producer;
    if (const DecoderCache* cache = cache_written_by(id)) return set(node, write(node, *cache));
    if (states_.is_around(id)) return;
    if (const DecoderState* state = states_.of_layer(id))
      return set(node, states_.add_layer(b_, *state, starts_,
                                         [&](ValueId value) { return new_value(node, value); }));
    if (node.op->name == "Attention") return set(node, attention(node));
    if (node.outputs.size() == 1)
      if (const auto positions = trials_.positions(first);
          positions && has_tokens(graph_.type(first).shape, positions->axis))
        return set(node, token_positions(*positions, graph_.type(first)));
    if (const auto axis = takes_last_token(node)) {
      ValueId row = rows_of(node.inputs[0], *axis);
      Shape shape = resized(graph_.type(first).shape);
      // The rows replace the batch dimension if the axis is removed.
      if (shape.size() < b_.type(row).shape.size()) {
        shape = b_.type(row).shape;
        if (*axis == 0 || shape[0] != Dim(1)) return set(node, row);
        shape.erase(shape.begin());
        row = shaped(row, shape);
      }
      return set(node, row);
    }
    if (const auto view = view_of_rows(node)) return set(node, *view);
    if (const Node* table = length_table(graph_, node, inputs_, trials_))
      return set(node, rows_of_table(node, *table));
    copy(node);
  }

  /// Each token's row of the table that its text's length chooses.
  ValueId rows_of_table(const Node& node, const Node& table) {
    const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
    const ValueId at = mapped_[node.inputs[1].position()];
    const TensorType& type = b_.type(at);
    const ValueId lengths = shaped(as(lengths_, type.dtype), type.shape);
    const ValueId first = of_lengths(b_, table.attrs.get_dims("starts")[axis], lengths);
    return b_.add("Gather", {mapped_[table.inputs[0].position()], b_.add("Add", {at, first})},
                  node.attrs);
  }

  /// A reshape of the last token's row, which now has a row for each sample: these stay first.
  std::optional<ValueId> view_of_rows(const Node& node) {
    if (node.op->name != "Reshape" && node.op->name != "Expand") return std::nullopt;
    const ValueId rows = mapped_[node.inputs[0].position()];
    if (!has_samples(b_.type(rows).shape)) return std::nullopt;
    Shape shape = resized(node.attrs.get_dims("shape"));
    if (shape.empty()) return rows;  // a scalar broadcasts as before
    if (shape[0] != Dim(1)) return std::nullopt;
    shape[0] = Dim::symbol(paged_names::kSamples);
    return b_.add(node.op->name, {rows}, {{"shape", shape}});
  }

  static bool has_samples(const Shape& shape) {
    return !shape.empty() && shape[0] == Dim::symbol(paged_names::kSamples);
  }

  /// Samples are in the first dimension, where the batch of 1 was: an operand of lower rank would
  /// broadcast them along a later one.
  void align_samples(std::vector<ValueId>& operands) {
    std::size_t rank = 0;
    for (const ValueId value : operands) rank = std::max(rank, b_.type(value).shape.size());
    for (ValueId& value : operands) {
      Shape shape = b_.type(value).shape;
      if (!has_samples(shape) || shape.size() == rank) continue;
      shape.insert(shape.begin() + 1, rank - shape.size(), Dim(1));
      value = shaped(value, shape);
    }
  }

  bool has_tokens(const Shape& shape, std::size_t axis) const {
    return axis < shape.size() && shape[axis] == inputs_.tokens;
  }

  void set(const Node& node, ValueId value) {
    mapped_[node.outputs[0].position()] = value;
    b_.name(value, graph_.value(node.outputs[0]).name);
  }

  /// What `value`, an operand of `node`, has become.
  ValueId new_value(const Node& node, ValueId value) const {
    const ValueId now = mapped_[value.position()];
    if (!now.valid()) refuse_paging(node, "it reads a state beside the layer that has it");
    return now;
  }

  void copy(const Node& node) {
    Attrs attrs = node.attrs;
    for (const auto& [name, value] : node.attrs.values())
      if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) attrs.set(name, resized(*dims));
    if (node.body != nullptr) refuse_paging(node, "it has a body");
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(new_value(node, input));
    if (node.op->kind == OpKind::kPointwise) align_samples(inputs);
    if (node.op->name == "Reshape" && mixtures_.role(node.outputs[0]) == RowRole::kChoices)
      inputs[0] = without_padding(inputs[0], mixtures_.experts(node.outputs[0]));
    const auto results = b_.add_multi(node.op->name, std::move(inputs), attrs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      mapped_[node.outputs[i].position()] = results[i];
      b_.name(results[i], graph_.value(node.outputs[i]).name);
    }
  }

  /// The experts that tokens choose: those of padding choose none.
  ValueId without_padding(ValueId choices, std::int64_t experts) {
    const TensorType type = b_.type(choices);
    const Dim& tokens = type.shape[0];
    if (tokens != Dim::symbol(paged_names::kTokens)) return choices;
    const ValueId is_token =
        b_.add("GreaterOrEqual", {shaped(places_, {tokens, Dim(1)}), b_.scalar(DType::kInt32, 0)});
    return b_.add("Where",
                  {is_token, choices, b_.scalar(type.dtype, static_cast<double>(experts))});
  }

  /// The cache with this step's rows at their slots.
  ValueId write(const Node& node, const DecoderCache& cache) {
    const bool scatters = node.op->name == "Scatter";
    if (scatters) {
      const auto positions = trials_.positions(node.inputs[2 + cache.axis]);
      if (!positions || positions->more != 0)
        refuse_paging(node, "it does not write the rows of tokens at their positions");
    }
    const ValueId rows = mapped_[node.inputs[1].position()];
    const Shape shape = b_.type(rows).shape;
    std::vector<ValueId> inputs{mapped_[cache.input.position()], rows};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Shape own(shape.size(), Dim(1));
      own[d] = shape[d];
      inputs.push_back(d == cache.axis ? shaped(as(slots_, DType::kInt64), own)
                                       : b_.add("Iota", {},
                                                {{"shape", own},
                                                 {"axis", static_cast<std::int64_t>(d)},
                                                 {"dtype", Attr(DType::kInt64)}}));
    }
    return b_.add("Scatter", inputs, {{"combine", std::string("none")}});
  }

  /// The cache that `value` is a view of, with keys in order.
  const DecoderCache* cache_of(ValueId value) const {
    const Shape& shape = graph_.type(value).shape;
    Ranges ranges = graph_.ranges();
    const auto index = ir::index_symbols(shape, ranges);
    const auto traced = ir::trace_to_source(graph_, value, index, ranges, [&](const Node& view) {
      return cache_written_by(graph_.value(view.outputs[0]).producer) == nullptr;
    });
    if (!traced) return nullptr;
    const auto at = std::ranges::find_if(
        inputs_.caches, [&](const DecoderCache& cache) { return cache.result == traced->source; });
    if (at == inputs_.caches.end() || traced->index[at->axis] != index[index.size() - 2])
      return nullptr;
    return &*at;
  }

  bool is_crossed(ValueId value) const {
    return std::ranges::find(inputs_.crossed, value) != inputs_.crossed.end();
  }

  ValueId attention(const Node& node) {
    const ir::AttentionInputs which =
        ir::attention_inputs(node.attrs, node.inputs.size(), graph_.type(node.inputs[1]).dtype);
    if (is_crossed(node.inputs[1]) || is_crossed(node.inputs[2])) {
      const bool shows_all = !which.mask || trials_.shows_all(node.inputs[*which.mask]);
      if (!is_crossed(node.inputs[1]) || !is_crossed(node.inputs[2]) || which.limits ||
          !shows_all || node.attrs.get_int("causal") != 0)
        refuse_paging(node, "it reads an encoder's positions otherwise than all of them");
      return paged(node, 0, as(cross_limits_, DType::kInt64), cross_tables_);
    }
    std::vector<std::size_t> rows{1, 2};
    if (which.key_scales) rows.insert(rows.end(), {*which.key_scales, *which.value_scales});
    for (const std::size_t i : rows)
      if (cache_of(node.inputs[i]) == nullptr)
        refuse_paging(node, fmt::format("its operand {} is no cache", i));
    const Shape& q = graph_.type(node.inputs[0]).shape;
    if (q[q.size() - 2] != inputs_.tokens)
      refuse_paging(node, "its queries are not those of the tokens");
    std::int64_t window = 0;
    std::optional<DistanceBias> bias;
    const DecoderCache &keys = *cache_of(node.inputs[1]), &values = *cache_of(node.inputs[2]);
    if (keys.kept != values.kept || (keys.kept && !which.mask))
      refuse_paging(node, "its keys or values are of a sliding window whose positions it ignores");
    if (which.limits) {
      const auto limits = trials_.positions(node.inputs[*which.limits]);
      if (!limits || limits->more != 1 || which.mask || node.attrs.get_int("causal") != 0)
        refuse_paging(node, "its rows see other keys than those up to their own position");
    } else if (which.mask) {
      const ValueId mask = node.inputs[*which.mask];
      const auto found =
          keys.kept ? trials_.sliding_window(mask, keys) : trials_.window(mask, false);
      if (!found && !keys.kept && !node.body) bias = trials_.distance_bias(mask);
      if ((!found && !bias) || node.attrs.get_int("causal") == 1)
        refuse_paging(node,
                      "its mask is neither that of all tokens before nor of the last of them");
      window = found.value_or(0);
    } else if (node.attrs.get_int("causal") != 2 ||
               inputs_.growth != DecoderInputs::Growth::kConcatenated) {
      refuse_paging(node, "its rows see other keys than those up to their own position");
    }
    ++attention_;
    std::vector<ValueId> scales;
    if (which.key_scales)
      scales = {mapped_[node.inputs[*which.key_scales].position()],
                mapped_[node.inputs[*which.value_scales].position()]};
    const ValueId limits = b_.add("Add", {as(places_, DType::kInt64), b_.scalar(DType::kInt64, 1)});
    return paged(node, window, limits, tables_, scales, bias ? &*bias : nullptr);
  }

  /// Rows see the keys before their `limits`, whose blocks `tables` name.
  ValueId paged(const Node& node, std::int64_t window, ValueId limits, ValueId tables,
                const std::vector<ValueId>& scales = {}, const DistanceBias* bias = nullptr) {
    const Dim tokens = Dim::symbol(paged_names::kTokens);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < 3; ++i) inputs.push_back(mapped_[node.inputs[i].position()]);
    inputs.insert(inputs.end(), {shaped(limits, {tokens, Dim(1)}), starts_, tables});
    inputs.insert(inputs.end(), scales.begin(), scales.end());
    for (std::size_t i = node.inputs.size() - ir::operands_of_scores(node.attrs);
         i < node.inputs.size(); ++i) {
      inputs.push_back(mapped_[node.inputs[i].position()]);
      const Shape& shape = b_.type(inputs.back()).shape;
      const bool is_position = trials_.positions(node.inputs[i]).has_value();
      for (std::size_t d = shape.size() > 2 ? shape.size() - 2 : 0; d < shape.size(); ++d)
        if (shape[d] != Dim(1) && !(is_position && d + 2 == shape.size()))
          refuse_paging(node, "an operand of its scores differs between tokens or keys");
    }
    const Attrs attrs = {{"scale", node.attrs.get_float("scale")},
                         {"limited", std::int64_t{1}},
                         {"guard", ir::kGuardHidden},
                         {"paged", options_.block_size},
                         {"window", window}};
    if (bias != nullptr)
      return add_biased_attention(b_, node, std::move(inputs),
                                  shaped(as(places_, DType::kInt64), {tokens, Dim(1)}), attrs,
                                  *bias);
    const auto result = add_attention_of(b_, node, inputs, attrs, true);
    if (!result) refuse_paging(node, "its scores count tokens");
    return *result;
  }

  // ---------------------------------------------------------------- logits

  /// The axis along which `node` takes the last token's row.
  std::optional<std::size_t> takes_last_token(const Node& node) const {
    if (node.op->name == "Gather") {
      const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
      if (has_tokens(graph_.type(node.inputs[0]).shape, axis) &&
          trials_.is_last_token(node.inputs[1]))
        return axis;
    }
    if (node.op->name == "Slice") {
      const Shape& all = graph_.type(node.inputs[0]).shape;
      const auto& starts = node.attrs.get_dims("starts");
      const auto& shape = node.attrs.get_dims("shape");
      for (std::size_t d = 0; d < all.size(); ++d)
        if (all[d] == inputs_.tokens && shape[d] == Dim(1) && starts[d] == inputs_.tokens - Dim(1))
          return d;
    }
    return std::nullopt;
  }

  /// Rows of the old `value` to sample, along `axis`; select_rows limits their computation.
  ValueId rows_of(ValueId value, std::size_t axis) {
    return b_.add("Gather", {mapped_[value.position()], rows_},
                  {{"axis", static_cast<std::int64_t>(axis)}});
  }

  const DecoderCache* cache_at(std::size_t output) const {
    const auto at =
        std::ranges::find(inputs_.caches, static_cast<int>(output), &DecoderCache::output);
    return at == inputs_.caches.end() ? nullptr : &*at;
  }

  /// Whether output `output` is a cache or a state.
  bool is_kept(std::size_t output) const {
    return cache_at(output) != nullptr || states_.at_output(output) != nullptr;
  }

  /// Of what an encoder gives: nothing, or as it came.
  bool is_dropped(std::size_t output) const {
    const ValueId value = graph_.outputs()[output];
    return !is_kept(output) && (graph_.is_constant(value) || is_crossed(value));
  }

  /// The output from which tokens are drawn.
  std::size_t find_logits() const {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const TensorType& type = graph_.type(graph_.outputs()[i]);
      if (is_kept(i) || is_dropped(i) || !is_float(type.dtype) || type.shape.empty())
        continue;
      if (type.shape.back().is_constant()) return i;
      throw PagingRefused(fmt::format("the output '{}', {}, has no constant vocabulary",
                                      graph_.output_names()[i], to_string(type)));
    }
    throw PagingRefused("no output is logits [samples, vocabulary]");
  }

  /// [mixtures, experts + 1]: the first sorted row of each expert; rows of padding are behind.
  ValueId expert_offsets() {
    std::vector<ValueId> rows;
    std::int64_t experts = 0;
    for (const Node& node : graph_.nodes()) {
      if (node.op->name != "GroupByIndex" || mixtures_.role(node.outputs[1]) != RowRole::kOffsets)
        continue;
      const std::int64_t own = mixtures_.experts(node.inputs[0]);
      if (experts != 0 && own != experts)
        throw PagingRefused(fmt::format(
            "its mixtures have {} and {} experts, and expert-counts are one number", experts, own));
      experts = own;
      const ValueId offsets =
          b_.add("Slice", {mapped_[node.outputs[1].position()]},
                 {{"starts", Shape{Dim(0)}}, {"steps", Ints{1}}, {"shape", Shape{Dim(own + 1)}}});
      rows.push_back(shaped(offsets, {Dim(1), Dim(own + 1)}));
    }
    if (rows.empty()) throw PagingRefused("no mixture of experts was recognised (expert-counts)");
    return rows.size() == 1 ? rows[0]
                            : b_.add("Concat", std::move(rows), {{"axis", std::int64_t{0}}});
  }

  void finish_outputs() {
    ValueId logits;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId old = graph_.outputs()[i];
      if (is_dropped(i)) {
        dropped_.push_back(i);
        continue;
      }
      if (const DecoderState* const state = states_.at_output(i)) {
        b_.output(graph_.output_names()[i], states_.result(*state));
        continue;
      }
      const DecoderCache* const cache = cache_at(i);
      ValueId value = mapped_[(cache != nullptr ? cache->result : old).position()];
      if (cache == nullptr) {
        const Shape& shape = graph_.type(old).shape;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape[d] == inputs_.tokens) value = rows_of(old, d);
        const Dim samples = Dim::symbol(paged_names::kSamples);
        const Shape& now = b_.type(value).shape;
        if (shape.empty() || ir::element_count(now) != samples * now.back())
          throw PagingRefused(fmt::format(
              "the output '{}', {}, is no row of logits of each token or of the last one",
              graph_.output_names()[i], to_string(graph_.type(old))));
        value = shaped(value, {samples, now.back()});
        if (i == logits_) logits = value;
      }
      b_.output(graph_.output_names()[i], value);
    }
    if (options_.counts_experts) b_.output(paged_names::kExpertOffsets, expert_offsets());
    const GraphBuilder::OriginScope scope(b_, {"sampler"});
    if (size_of(b_.type(logits).dtype) > 4) logits = as(logits, DType::kFloat32);
    sampler_.draw(b_, logits);
  }

  static constexpr std::int64_t kMostPositions = 1 << 17, kMostCache = 1 << 24;

  const Graph& graph_;
  Context& context_;
  const PagingOptions options_;
  DecoderInputs inputs_;
  PositionTrials trials_;
  const ExpertRows mixtures_;
  PagedStates states_;
  GraphBuilder b_;
  std::vector<ValueId> mapped_;
  std::map<std::string, Dim, std::less<>> sizes_;
  std::set<std::string> sliding_;  // symbols of the lengths of sliding windows
  ValueId places_, slots_, starts_, tables_, rows_, lengths_, cross_limits_, cross_tables_;
  TokenSampler sampler_;
  std::int64_t positions_ = 0;
  std::size_t logits_ = 0;
  std::vector<std::size_t> dropped_;  // outputs
  int attention_ = 0;
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
