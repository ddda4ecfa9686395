// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/position_trials.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/narrow_dims.h"
#include "fusion/paging/paging_refused.h"
#include "fusion/patterns/masks.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

// Larger constants are weights.
constexpr std::int64_t kMostConstant = 1 << 22;
/// Tokens, previous tokens, and extra rows of a fixed-length cache.
struct Sizes {
  std::int64_t tokens, before, spare;
};
constexpr std::array kTrials = {Sizes{3, 5, 4}, Sizes{1, 9, 1}, Sizes{4, 2, 7}};
constexpr std::int64_t kCrossPositions = 6;
// Steps of a bias: each score runs through all.
constexpr std::size_t kMostSteps = 64;
// Larger than the windows of models.
constexpr std::int64_t kFar = 40000;

/// Whether a row of the mask sees the key.
bool sees(const Tensor& mask, std::int64_t row, std::int64_t key, bool negated) {
  const double element = mask.at(row * mask.shape().back() + key);
  return mask.dtype() == DType::kBool ? (element != 0) != negated : element > kHidden;
}

bool is_mask(const TensorType& type) {
  return type.shape.size() >= 2 && (type.dtype == DType::kBool || is_float(type.dtype));
}

}  // namespace

PositionTrials::PositionTrials(const Graph& graph, const DecoderInputs& inputs) : graph_(graph) {
  choose(graph, inputs);
  std::int64_t rows = 0;  // of sliding windows
  for (const DecoderCache& cache : inputs.caches) {
    if (!cache.kept) continue;
    const Dim& length = graph.type(cache.input).shape[cache.axis];
    const std::int64_t least = ir::lower_bound(length, graph.ranges()).value_or(1);
    if (const auto symbol = length.as_symbol())
      sliding_[*symbol] = std::max<std::int64_t>(least, 1);
    rows = std::max(rows, least);
  }
  const auto add = [&](std::vector<Trial>& to, const Sizes& sizes) {
    Trial trial{sizes.tokens,
                sizes.before,
                inputs.growth == DecoderInputs::Growth::kNone
                    ? sizes.tokens + sizes.before + sizes.spare
                    : sizes.before,
                {}};
    run(inputs, trial);
    to.push_back(std::move(trial));
  };
  const auto range = graph.ranges().find(inputs.length);
  const std::int64_t most = range == graph.ranges().end() ? kFar : range->second.max;
  // The last trial has the most keys: all that a text can have, if there are fewer.
  const std::int64_t far = std::min(kFar, most - 1);
  for (const Sizes& sizes : kTrials) {
    const std::int64_t room = std::max<std::int64_t>(far + 1 - sizes.tokens, 0);
    add(trials_, {sizes.tokens, std::min(sizes.before, room), sizes.spare});
  }
  add(trials_, {1, far, far == kFar ? 1 : 0});
  // Until the window has moved on behind some of them.
  const std::int64_t many = std::min(rows / 3 + 1, most / 8 + 1);
  std::int64_t before = 0;
  for (const std::int64_t tokens : {many, std::int64_t{1}, many, many, many, std::int64_t{1}}) {
    if (rows > 0) add(turns_, {tokens, before, 1});
    before += tokens;
  }
}

void PositionTrials::choose(const Graph& graph, const DecoderInputs& inputs) {
  std::set<ValueId> known;
  for (const auto* each : {&inputs.counts, &inputs.positions, &inputs.masks, &inputs.cross_masks})
    for (const ValueId input : *each) known.insert(input);
  inputs_.assign(known.begin(), known.end());
  const auto is_small = [&](ValueId value) {
    const auto& constant = graph.value(value).constant;
    return constant != nullptr && constant->element_count() <= kMostConstant;
  };
  for (const Node& node : graph.nodes()) {
    const bool depends = std::ranges::all_of(
        node.inputs, [&](ValueId input) { return known.contains(input) || is_small(input); });
    if (!depends || node.body != nullptr || node.outputs.size() != 1) continue;
    const ValueId value = node.outputs[0];
    known.insert(value);
    nodes_.push_back(graph.value(value).producer);
    const TensorType& type = graph.type(value);
    const bool is_index = is_integer(type.dtype) && type.shape.size() <= 4;
    const bool masks = is_mask(type) && std::ranges::any_of(graph.users(value), [&](NodeId user) {
                         return graph.node(user).op->name == "Attention";
                       });
    if (is_index || masks) index_.emplace(value, index_.size());
  }
}

/// Runs a copy of the index arithmetic with these sizes.
void PositionTrials::run(const DecoderInputs& inputs, Trial& trial) const {
  if (index_.empty()) return;
  GraphBuilder builder("positions");
  for (const auto& [symbol, range] : graph_.ranges()) builder.range(symbol, range);
  std::vector<ValueId> mapped(graph_.values().size());
  for (const ValueId input : inputs_)
    mapped[input.position()] = builder.input(graph_.value(input).name, graph_.type(input));
  const auto map = [&](ValueId value) {
    ValueId& to = mapped[value.position()];
    if (!to.valid() && graph_.is_constant(value))
      to = builder.constant(graph_.value(value).constant);
    return to;
  };
  for (const NodeId id : nodes_) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> operands;
    for (const ValueId input : node.inputs) operands.push_back(map(input));
    mapped[node.outputs[0].position()] =
        builder.add(node.op->name, std::move(operands), node.attrs);
  }
  std::vector<std::pair<std::size_t, ValueId>> order;
  for (const auto& [value, number] : index_) order.emplace_back(number, value);
  std::ranges::sort(order);
  for (const auto& [number, value] : order)
    builder.output(fmt::format("{}", number), mapped[value.position()]);

  std::map<std::string, Range> sizes;
  const auto set = [&](const Dim& dim, std::int64_t value) {
    if (const auto symbol = dim.as_symbol(); symbol && graph_.ranges().contains(*symbol))
      sizes[*symbol] = {value, value, nullptr};
  };
  set(inputs.tokens, trial.tokens);
  if (!inputs.length.empty()) set(Dim::symbol(inputs.length), trial.length);
  for (const auto& [symbol, length] : sliding_) set(Dim::symbol(symbol), length);
  for (const ValueId mask : inputs.cross_masks)
    set(graph_.type(mask).shape.back(), kCrossPositions);
  for (const ValueId mask : inputs.masks)
    set(graph_.type(mask).shape.back(), trial.tokens + trial.before);
  const Graph narrow = narrow_dims(builder.finish(), sizes);
  std::vector<Tensor> given;
  for (const ValueId input : narrow.inputs()) {
    const TensorType& type = narrow.type(input);
    Ints shape;
    for (const Dim& dim : type.shape) {
      if (!dim.is_constant())
        throw PagingRefused(fmt::format(
            "the input '{}' has the dimension '{}', which is not that of the tokens: say what it "
            "is with --dim",
            narrow.value(input).name, dim.to_string()));
      shape.push_back(dim.value());
    }
    const std::string& name = narrow.value(input).name;
    const auto is_one_of = [&](const std::vector<ValueId>& all) {
      return std::ranges::any_of(all,
                                 [&](ValueId each) { return graph_.value(each).name == name; });
    };
    std::vector<double> values(static_cast<std::size_t>(ir::element_count(type.shape).value()),
                               is_one_of(inputs.counts) ? static_cast<double>(trial.before) : 1);
    if (is_one_of(inputs.positions))
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(trial.before + static_cast<std::int64_t>(i));
    given.push_back(Tensor::from_doubles(type.dtype, shape, values));
  }
  trial.values = ir::evaluate(narrow, given);
}

std::optional<TokenPositions> PositionTrials::positions(ValueId value) const {
  const auto at = index_.find(value);
  if (at == index_.end() || !is_integer(graph_.type(value).dtype)) return std::nullopt;
  std::optional<TokenPositions> found;
  for (const Trial& trial : trials_) {
    const Tensor& all = trial.values[at->second];
    if (all.element_count() != trial.tokens) return std::nullopt;
    const std::int64_t more = all.at_int(0) - trial.before;
    for (std::int64_t i = 0; i < trial.tokens; ++i)
      if (all.at_int(i) != trial.before + i + more) return std::nullopt;
    if (!found) {
      found.emplace();
      found->more = more;
      for (std::size_t d = 0; d < all.shape().size(); ++d)
        if (all.shape()[d] == trial.tokens) found->axis = d;
    } else if (found->more != more) {
      return std::nullopt;
    }
  }
  return found;
}

bool PositionTrials::is_last_token(ValueId value) const {
  if (const auto& constant = graph_.value(value).constant)
    return is_integer(constant->dtype()) && constant->element_count() == 1 &&
           constant->at_int(0) == -1;
  const auto at = index_.find(value);
  return at != index_.end() && is_integer(graph_.type(value).dtype) &&
         std::ranges::all_of(trials_, [&](const Trial& trial) {
           const Tensor& all = trial.values[at->second];
           return all.element_count() == 1 &&
                  (all.at_int(0) == trial.tokens - 1 || all.at_int(0) == -1);
         });
}

std::optional<std::int64_t> PositionTrials::window(ValueId mask, bool negated) const {
  const auto at = index_.find(mask);
  if (at == index_.end()) return std::nullopt;
  // Counts how many the only row of the last trial sees.
  const Trial& far = trials_.back();
  const Tensor& last = far.values[at->second];
  std::int64_t count = 0;
  for (std::int64_t key = 0; key < last.shape().back(); ++key)
    count += sees(last, 0, key, negated) ? 1 : 0;
  const std::int64_t window = count == far.before + 1 ? 0 : count;
  for (const Trial& trial : trials_) {
    const Tensor& all = trial.values[at->second];
    if (all.shape().size() < 2 || all.element_count() != trial.tokens * all.shape().back())
      return std::nullopt;
    for (std::int64_t row = 0; row < trial.tokens; ++row)
      for (std::int64_t key = 0; key < all.shape().back(); ++key) {
        const std::int64_t own = trial.before + row;
        const bool seen = key <= own && (window == 0 || key > own - window);
        if (sees(all, row, key, negated) != seen) return std::nullopt;
        if (seen && all.dtype() != DType::kBool && all.at(row * all.shape().back() + key) != 0)
          return std::nullopt;
      }
  }
  return window;
}

std::optional<DistanceBias> PositionTrials::distance_bias(ValueId mask) const {
  const auto at = index_.find(mask);
  if (at == index_.end() || !is_float(graph_.type(mask).dtype)) return std::nullopt;
  // Of the last trial, which has the most keys, each distance.
  const Trial& far = trials_.back();
  const Tensor& last = far.values[at->second];
  const auto rank = last.shape().size();
  const std::int64_t keys = last.shape().back();
  if (rank < 2 || last.shape()[rank - 2] != 1 || keys <= far.before) return std::nullopt;
  const std::int64_t heads = last.element_count() / keys;
  const auto bias = [&](std::int64_t head, std::int64_t distance) {
    return last.at(head * keys + far.before - distance);
  };
  for (const Trial& trial : trials_) {
    const Tensor& all = trial.values[at->second];
    const std::int64_t own_keys = all.shape().back();
    if (all.shape().size() != rank || all.shape()[rank - 2] != trial.tokens ||
        all.element_count() != heads * trial.tokens * own_keys)
      return std::nullopt;
    for (std::int64_t row = 0; row < heads * trial.tokens; ++row)
      for (std::int64_t key = 0; key < own_keys; ++key) {
        const std::int64_t distance = trial.before + row % trial.tokens - key;
        if (sees(all, row, key, false) != (distance >= 0) || distance > far.before)
          return std::nullopt;
        if (distance >= 0 && all.at(row * own_keys + key) != bias(row / trial.tokens, distance))
          return std::nullopt;
      }
  }
  DistanceBias result;
  result.shape = last.shape();
  result.shape.back() = 1;
  for (std::int64_t distance = 0; distance <= far.before; ++distance) {
    std::vector<double> values;
    for (std::int64_t head = 0; head < heads; ++head) values.push_back(bias(head, distance));
    if (!result.steps.empty() && result.steps.back().values == values) continue;
    if (result.steps.size() == kMostSteps) return std::nullopt;
    result.steps.push_back({distance, std::move(values)});
  }
  return result;
}

bool PositionTrials::shows_all(ValueId mask) const {
  const auto at = index_.find(mask);
  return at != index_.end() && std::ranges::all_of(trials_, [&](const Trial& trial) {
           const Tensor& all = trial.values[at->second];
           const double shown = all.dtype() == DType::kBool ? 1 : 0;
           for (std::int64_t i = 0; i < all.element_count(); ++i)
             if (all.at(i) != shown) return false;
           return true;
         });
}

std::optional<std::int64_t> PositionTrials::sliding_window(ValueId mask,
                                                           const DecoderCache& cache) const {
  const auto at = index_.find(mask), kept_at = index_.find(*cache.kept);
  if (at == index_.end() || kept_at == index_.end()) return std::nullopt;
  const Tensor& last = trials_.back().values[at->second];
  std::int64_t window = 0;
  for (std::int64_t key = 0; key < last.shape().back(); ++key) window += sees(last, 0, key, false);
  std::vector<std::int64_t> held;  // positions of the cache's rows, and of the run's tokens
  for (const Trial& turn : turns_) {
    const Tensor &all = turn.values[at->second], &kept = turn.values[kept_at->second];
    held.resize(static_cast<std::size_t>(kept.element_count()), -1);
    for (std::int64_t i = 0; i < turn.tokens; ++i) held.push_back(turn.before + i);
    if (all.shape().empty() || all.shape().back() != std::ssize(held) ||
        all.element_count() != turn.tokens * std::ssize(held))
      return std::nullopt;
    for (std::int64_t row = 0; row < turn.tokens; ++row) {
      const std::int64_t own = turn.before + row;
      std::vector<bool> seen(static_cast<std::size_t>(std::min(window, own + 1)));
      for (std::int64_t key = 0; key < std::ssize(held); ++key) {
        if (!sees(all, row, key, false)) continue;
        const std::int64_t back = own - held[static_cast<std::size_t>(key)];
        if (back < 0 || back >= std::ssize(seen) || seen[static_cast<std::size_t>(back)])
          return std::nullopt;
        seen[static_cast<std::size_t>(back)] = true;
      }
      if (std::ranges::find(seen, false) != seen.end()) return std::nullopt;
    }
    std::vector<std::int64_t> next;
    for (std::int64_t i = 0; i < kept.element_count(); ++i) {
      const std::int64_t row = kept.at_int(i);
      if (row < 0 || row >= std::ssize(held)) return std::nullopt;
      next.push_back(held[static_cast<std::size_t>(row)]);
    }
    held = std::move(next);
  }
  return window;
}

}  // namespace sinter::fusion
