// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/paged_inputs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "fusion/paging/length_table.h"
#include "fusion/paging/position_limit.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

constexpr std::int64_t kMostPositions = 1 << 17, kMostCache = 1 << 24;

}  // namespace

PagedInputs::PagedInputs(PagedGraph& graph) : g_(graph) {
  for (const DecoderCache& cache : g_.inputs.caches)
    if (const auto symbol = g_.old.type(cache.input).shape[cache.axis].as_symbol();
        cache.kept && symbol)
      sliding_.insert(*symbol);
}

Dim PagedInputs::resized(const Dim& dim) const {
  return ir::simplify(dim.substitute(sizes_), g_.b.ranges());
}
Shape PagedInputs::resized(Shape shape) const {
  for (Dim& dim : shape) dim = resized(dim);
  return shape;
}

void PagedInputs::range(const char* symbol, std::int64_t least, std::int64_t most,
                        const std::optional<Dim>& bound) {
  Range range;
  range.min = least;
  range.max = most;
  if (bound) range.symbolic_max = std::make_shared<const Dim>(*bound);
  g_.b.range(symbol, range);
}

bool PagedInputs::is_replaced(const std::string& symbol) const {
  const Dim dim = Dim::symbol(symbol);
  return symbol == g_.inputs.length || dim == g_.inputs.tokens || sliding_.contains(symbol) ||
         std::ranges::any_of(g_.inputs.masks,
                             [&](ValueId mask) { return g_.old.type(mask).shape.back() == dim; });
}

void PagedInputs::declare(const Dim& vocabulary) {
  namespace names = paged_names;
  const Dim tokens = Dim::symbol(names::kTokens), length = Dim::symbol(names::kCachePositions);
  for (const auto& [symbol, range] : g_.old.ranges())
    if (!is_replaced(symbol)) g_.b.range(symbol, range);
  const auto most = g_.old.ranges().find(g_.inputs.length);
  positions_ = g_.options.max_positions > 0    ? g_.options.max_positions
               : most == g_.old.ranges().end() ? kMostPositions
                                               : std::min(kMostPositions, most->second.max);
  const std::int64_t block = g_.options.block_size;
  range(names::kTokens, 1, g_.options.max_step_tokens);
  range(names::kSequences, 1, g_.options.max_sequences);
  range(names::kSamples, 1, g_.options.max_step_tokens, tokens);
  range(names::kTableBlocks, 1, (positions_ + block - 1) / block);
  // Later code looks for sizes that depend on the cache's length: no range may make it a
  // constant.
  range(names::kCachePositions, 0, kMostCache);
  sizes_.emplace(*g_.inputs.tokens.as_symbol(), tokens);
  // Rows behind those before, by concatenation or by padding of as many.
  const bool is_appended =
      g_.inputs.growth == DecoderInputs::Growth::kConcatenated ||
      std::ranges::any_of(g_.inputs.caches, [&](const DecoderCache& cache) {
        return !cache.kept && g_.old.type(cache.result).shape[cache.axis] ==
                                  Dim::symbol(g_.inputs.length) + g_.inputs.tokens;
      });
  if (!g_.inputs.length.empty())
    sizes_.emplace(g_.inputs.length, is_appended ? length - tokens : length);
  for (const std::string& symbol : sliding_) sizes_.emplace(symbol, length - tokens);
  for (const ValueId mask : g_.inputs.masks)
    if (const auto all = g_.old.type(mask).shape.back().as_symbol()) sizes_.emplace(*all, length);

  const auto add = [&](const char* name, Shape shape) {
    return g_.b.input(name, {DType::kInt32, std::move(shape)});
  };
  const Dim sequences = Dim::symbol(names::kSequences);
  const ValueId ids = add(names::kIds, {tokens});
  g_.places = add(names::kPositions, {tokens});
  g_.slots = add(names::kSlotMapping, {tokens});
  g_.starts = add(names::kSequenceStarts, {sequences + Dim(1)});
  g_.tables = add(names::kBlockTables, {sequences, Dim::symbol(names::kTableBlocks)});
  g_.rows = add(names::kSampleRows, {Dim::symbol(names::kSamples)});
  if (std::ranges::any_of(g_.old.nodes(), [&](const Node& node) {
        return length_table(g_.old, node, g_.inputs, g_.trials);
      }))
    g_.lengths = add(names::kTextLengths, {tokens});
  declare_given();
  sampler_.declare(g_.b, vocabulary);
  g_.states.declare_inputs(g_.b, g_.options);
  g_.mapped[g_.inputs.ids.position()] = g_.shaped(g_.as(ids, g_.old.type(g_.inputs.ids).dtype),
                                                  resized(g_.old.type(g_.inputs.ids).shape));
  for (const DecoderCache& cache : g_.inputs.caches) {
    const TensorType& type = g_.old.type(cache.input);
    Shape shape = type.shape;
    shape[cache.axis] = length;
    g_.mapped[cache.input.position()] =
        g_.b.input(g_.old.value(cache.input).name, {type.dtype, shape});
  }
  g_.states.declare_pools(g_.b);
  if (!g_.inputs.crossed.empty()) declare_crossed();
  // Inputs with the number of previous tokens disappear. Remaining readers are reported.
  for (const auto* each :
       {&g_.inputs.counts, &g_.inputs.positions, &g_.inputs.masks, &g_.inputs.cross_masks})
    for (const ValueId input : *each) {
      g_.mapped[input.position()] = g_.b.input(
          g_.old.value(input).name, {g_.old.type(input).dtype, resized(g_.old.type(input).shape)});
    }
  for (std::size_t i = 0; i < g_.old.values().size(); ++i)
    if (const Value& value = g_.old.values()[i]; value.constant)
      g_.mapped[i] = g_.b.constant(value.constant, value.name);
  for (const ValueId input : g_.inputs.positions)
    g_.mapped[input.position()] =
        g_.token_positions({g_.old.type(input).shape.size() - 1, 0}, g_.old.type(input));
}

void PagedInputs::declare_given() {
  namespace names = paged_names;
  const Dim tokens = Dim::symbol(names::kTokens);
  const auto add = [&](ValueId old, const char* name, Shape shape) {
    const TensorType& type = g_.old.type(old);
    const ValueId input = g_.b.input(name, {DType::kInt32, std::move(shape)});
    g_.mapped[old.position()] = g_.shaped(g_.as(input, type.dtype), resized(type.shape));
    ++g_.given;
  };
  if (const auto& given = g_.inputs.given) {
    const TensorType& type = g_.old.type(given->vectors);
    sizes_.emplace(*type.shape[0].as_symbol(), Dim::symbol(names::kGiven));
    range(names::kGiven, 1, g_.options.max_step_tokens);
    g_.mapped[given->vectors.position()] =
        g_.b.input(names::kGivenVectors, {type.dtype, resized(type.shape)});
    ++g_.given;
    add(given->rows, names::kGivenRows, {tokens});
  }
  if (const auto& rotary = g_.inputs.rotary)
    add(*rotary, names::kRotaryPositions, {g_.old.type(*rotary).shape[0], tokens});
}

void PagedInputs::declare_crossed() {
  namespace names = paged_names;
  const std::int64_t block = g_.options.block_size;
  const Shape& first = g_.old.type(g_.inputs.crossed[0]).shape;
  const auto most = ir::upper_bound(first[first.size() - 2], g_.old.ranges());
  const std::int64_t blocks =
      (std::min(most.value_or(kMostPositions), kMostPositions) + block - 1) / block;
  range(names::kCrossBlocks, 1, blocks);
  range(names::kCrossPositions, 0, kMostCache);
  const Dim tokens = Dim::symbol(names::kTokens), sequences = Dim::symbol(names::kSequences);
  g_.cross_limits = g_.b.input(names::kCrossLimits, {DType::kInt32, {tokens}});
  g_.cross_tables = g_.b.input(names::kCrossTables,
                               {DType::kInt32, {sequences, Dim::symbol(names::kCrossBlocks)}});
  for (const ValueId input : g_.inputs.crossed) {
    Shape shape = g_.old.type(input).shape;
    shape[shape.size() - 2] = Dim::symbol(names::kCrossPositions);
    g_.mapped[input.position()] =
        g_.b.input(g_.old.value(input).name, {g_.old.type(input).dtype, shape});
  }
}

bool PagedInputs::is_old(std::size_t i) const {
  const std::size_t own =
      6 + (g_.lengths.valid() ? 1 : 0) + g_.given + TokenSampler::kInputs + g_.states.inputs();
  const std::size_t crossed = g_.inputs.crossed.empty() ? 0 : g_.inputs.crossed.size() + 2;
  return i >= own + g_.inputs.caches.size() + g_.inputs.states.size() + crossed;
}

void PagedInputs::check(const Graph& paged) const {
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

void PagedInputs::limit_positions(const Graph& paged, Context& context) {
  if (const auto limit = position_limit(paged); limit && limit->most < positions_) {
    context.position_table = describe(paged.node(limit->node));
    if (limit->most < 1)
      refuse_paging(paged.node(limit->node), "its table has no row for the first position");
    positions_ = limit->most;
  }
  context.paging->max_positions = positions_;
}

Graph PagedInputs::without_old(const Graph& paged,
                               const std::vector<std::size_t>& dropped_outputs) const {
  GraphBuilder builder(paged.name());
  for (auto [symbol, range] : paged.ranges()) {
    if (symbol == paged_names::kCachePositions || symbol == paged_names::kCrossPositions)
      range.min = g_.options.block_size;
    if (symbol == paged_names::kTableBlocks)
      range.max = (positions_ + g_.options.block_size - 1) / g_.options.block_size;
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
        dropped_outputs, [&](std::size_t each) { return std::cmp_less(each, output); });
    builder.state({numbers.at(g_.old.value(input).name), output - static_cast<int>(dropped)});
  };
  for (const DecoderCache& cache : g_.inputs.caches) add_state(cache.input, cache.output);
  for (const DecoderState& state : g_.inputs.states) add_state(state.input, state.output);
  return builder.finish();
}

}  // namespace sinter::fusion
