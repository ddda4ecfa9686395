// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/loop.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "frontend/ops/control/conditional.h"
#include "frontend/ops/control/sized_state.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"

namespace sinter::frontend {
namespace {

/// No loop runs this often. Exporters write INT64_MAX for an unlimited trip count.
constexpr std::int64_t kEndless = std::int64_t{1} << 48;

/// ONNX's two end conditions of a loop: after `trips` iterations, if known, and when a condition is
/// false.
struct LoopEnd {
  std::optional<Dim> trips;  // nullopt: none given, beyond kEndless, or data-dependent (`limit`)
  ValueId limit;             // a data-dependent number; invalid: none
  ValueId condition;         // whether the first iteration runs; invalid: always
};

LoopEnd read_end(NodeContext& node) {
  LoopEnd end;
  if (node.has_input(0)) {
    const ValueId limit = node.input(0, "M");
    const auto trips = node.folder().contents(limit);
    if (!trips || trips->size() != 1)
      end.limit = node.reshape(limit, {});
    else if (!trips->front().is_constant())
      end.trips = trips->front();
    else if (trips->front().value() <= kEndless)
      end.trips = Dim(std::max<std::int64_t>(trips->front().value(), 0));
  }
  if (node.has_input(1)) end.condition = node.input(1, "cond");
  return end;
}

/// A loop's results: carried values, then the values stacked from each iteration's scan outputs.
struct LoopResult {
  std::vector<ValueId> carried, scanned;
};

std::size_t check_loop_body(NodeContext& node, std::size_t carried) {
  const std::size_t outputs = node.subgraph_output_count("body");
  if (outputs < 1 + carried)
    node.invalid("its body has {} outputs; with {} carried values it needs at least {}", outputs,
                 carried, 1 + carried);
  return outputs - 1 - carried;
}

/// A carried value to which each iteration appends a part of constant size; the parts are
/// collected.
struct GrowingValue {
  std::size_t carried;  // its index
  NodeContext::Growth growth;
};

/// `initial` with the collected parts `all` [iterations, ..] appended.
ValueId grown(NodeContext& node, ValueId initial, ValueId all, NodeContext::Growth growth) {
  Shape shape = node.shape(all);
  std::vector<std::int64_t> order;  // moves the iterations before the growing dimension
  for (std::int64_t d = 1; d < std::ssize(shape); ++d) order.push_back(d);
  order.insert(order.begin() + growth.axis, 0);
  if (growth.axis != 0) all = node.transpose(all, order);
  const Dim trips = shape.front();
  shape.erase(shape.begin());
  auto& size = shape[static_cast<std::size_t>(growth.axis)];
  size = size * trips;
  all = node.reshape(all, shape);
  return node.concat(
      growth.behind ? std::vector<ValueId>{initial, all} : std::vector<ValueId>{all, initial},
      growth.axis);
}

/// Values whose sizes differ between iterations, by their number among the carried ones.
using Sized = std::map<std::size_t, SizedForm>;

std::string name_of(std::size_t carried) { return fmt::format("/carried{}", carried); }

/// Trip counts beyond this are no sizes of buffers.
constexpr std::int64_t kMostBuffered = 1 << 16;

/// The most iterations that a buffer has to hold, if the model says it.
std::optional<Dim> buffered_trips(const LoopEnd& end) {
  const bool is_long = end.trips && end.trips->is_constant() && end.trips->value() > kMostBuffered;
  return is_long ? std::nullopt : end.trips;
}

[[noreturn]] void refuse_sizes(NodeContext& node, std::size_t k, const ir::TensorType& before,
                               const ir::TensorType& after) {
  node.unsupported(
      "carried value {} is {}, but {} after an iteration, and nothing bounds how large it becomes: "
      "give its most elements along the dimension that changes with --bound '{}=N', or pad it to "
      "its longest",
      k, before, after, node.size_name(name_of(k)));
}

/// The form of carried value `k`, which is `before` the first iteration and `after` it.
SizedForm sized_form(NodeContext& node, std::size_t k, const ir::TensorType& before,
                     const ir::TensorType& after) {
  const auto axis = only_difference(before, after);
  if (!axis)
    node.unsupported(
        "carried value {} is {}, but {} after an iteration: a loop whose number of iterations is "
        "not a constant carries values of one type, in which one size may differ",
        k, before, after);
  const auto along = static_cast<std::int64_t>(*axis);
  const Dim first = before.shape[*axis], next = after.shape[*axis];
  if (const auto given = node.given_bound(name_of(k))) return {along, *given, true};
  const ir::Ranges& ranges = node.builder().ranges();
  if (!ir::upper_bound(first, ranges) || !ir::upper_bound(next, ranges))
    refuse_sizes(node, k, before, after);
  return {along, ir::max(ir::largest(first, ranges), ir::largest(next, ranges), ranges), false};
}

/// Whether a value of size `size` fits into a buffer of `most` in every run.
bool fits(NodeContext& node, const Dim& size, const Dim& most) {
  const ir::Ranges& ranges = node.builder().ranges();
  return ir::upper_bound(size, ranges) && ir::max(ir::largest(size, ranges), most, ranges) == most;
}

/// What a While is made from: the imported body and the states of it.
class WhileLoop {
 public:
  WhileLoop(NodeContext& node, const LoopEnd& end, const std::vector<ValueId>& carried,
            const Sized& sized, bool tentative)
      : node_(node), end_(end), carried_(carried), sized_(sized), body_(node) {
    inputs_ = {body_.index(), node.constant(DType::kBool, 1)};
    for (std::size_t k = 0; k < carried.size(); ++k) carry(k, tentative);
  }

  const std::vector<ValueId>& inputs() const { return inputs_; }

  /// The forms of carried values whose sizes an iteration changes; nullopt: those that it was
  /// imported with are right.
  std::optional<Sized> other_forms(const std::vector<ValueId>& outputs) const {
    Sized all = sized_;
    bool is_other = false;
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      if (is_growing(k)) continue;
      const ir::TensorType before = node_.type(carried_[k]), after = node_.type(outputs[1 + k]);
      const auto known = all.find(k);
      if (known != all.end()) {
        is_other = is_corrected(k, before, after, known->second) || is_other;
      } else if (before.dtype == after.dtype && before != after) {
        all.emplace(k, sized_form(node_, k, before, after));
        is_other = true;
      }
    }
    return is_other ? std::optional(all) : std::nullopt;
  }

  /// Adds the While. `when`: its conditions, whose trips are those of the loop.
  LoopResult finish(WhileBody::End when, const std::vector<ValueId>& outputs) {
    const std::size_t scanned = outputs.size() - 1 - carried_.size();
    const bool counts = when.first.valid() && (scanned > 0 || !growing_.empty());
    std::optional<Dim> trips = end_.trips;
    if (counts) when.trips = trips = most_iterations(scanned > 0);
    std::vector<ValueId> after;
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      if (is_growing(k)) continue;
      const auto found = states_.find(k);
      if (found == states_.end())
        after.push_back(outputs[1 + k]);
      else
        found->second.append_after(outputs[1 + k], after);
    }
    for (const GrowingValue& each : growing_)
      body_.collect(outputs[1 + each.carried], *trips, !each.growth.behind);
    for (std::size_t k = 1 + carried_.size(); k < outputs.size(); ++k)
      body_.collect(outputs[k], *trips, false);
    if (counts) after.push_back(iterations(when.next, *trips));
    const std::vector<ValueId> results = body_.finish(std::move(when), after);
    const auto count =
        counts ? std::optional(node_.size_from_data(results[after.size() - 1], trips, kIterations))
               : std::nullopt;
    return collected(results, after.size(), trips, count);
  }

 private:
  static constexpr const char* kIterations = "/iterations";

  bool is_growing(std::size_t k) const {
    return std::ranges::any_of(growing_, [&](const auto& each) { return each.carried == k; });
  }

  /// Whether `form` was too small, and is what the number of iterations says now.
  bool is_corrected(std::size_t k, const ir::TensorType& initial, const ir::TensorType& after,
                    SizedForm& form) const {
    const ir::TensorType before = node_.type(inputs_[2 + k]);
    const auto axis = static_cast<std::size_t>(form.axis);
    if (before != after && only_difference(before, after) != axis)
      refuse_sizes(node_, k, before, after);
    if (form.is_checked || fits(node_, after.shape[axis], form.most)) return false;
    const Dim more = after.shape[axis] - before.shape[axis];
    const auto trips = buffered_trips(end_);
    if (!trips || !more.is_constant()) refuse_sizes(node_, k, before, after);
    form.most = ir::largest(initial.shape[axis], node_.builder().ranges()) + more * *trips;
    form.is_checked = true;
    return true;
  }

  void carry(std::size_t k, bool tentative) {
    if (const auto found = sized_.find(k); found != sized_.end()) {
      const auto at =
          states_.try_emplace(k, node_, body_, carried_[k], found->second, name_of(k)).first;
      inputs_.push_back(at->second.before());
      return;
    }
    const bool counted = end_.trips && !end_.condition.valid() && !end_.limit.valid();
    auto growth =
        counted && !tentative ? node_.growth_in_subgraph("body", 2 + k, 1 + k) : std::nullopt;
    if (!growth) {
      inputs_.push_back(body_.state(carried_[k]));
      return;
    }
    // The initial value is empty, so the body's result is exactly the part that it appends.
    Shape none = node_.shape(carried_[k]);
    growth->axis = node_.normalise_axis(growth->axis, std::ssize(none));
    none[static_cast<std::size_t>(growth->axis)] = 0;
    inputs_.push_back(node_.expand(node_.constant(node_.dtype(carried_[k]), 0), none));
    growing_.push_back({k, *growth});
  }

  /// The most iterations of a loop that data ends and that collects values.
  Dim most_iterations(bool scans) const {
    const auto given = node_.given_bound(kIterations);
    const auto known = buffered_trips(end_);
    if (given && known) return ir::min(*given, *known, node_.builder().ranges());
    if (given || known) return given ? Dim(*given) : *known;
    node_.unsupported(
        "how many iterations it has depends on the data of the model's inputs, and {}: give the "
        "most iterations with --bound '{}=N', or a trip count that is a constant or a size",
        scans ? "it has scan outputs, whose size that is" : "a value that it carries grows in each",
        node_.size_name(kIterations));
  }

  /// A state that counts the iterations. It says one more than `most`, which is an error of the
  /// run, where the loop would go on and the model has no such end.
  ValueId iterations(ValueId next, const Dim& most) {
    body_.state(node_.constant(DType::kInt64, 0));
    const ValueId count = node_.add("Add", {body_.index(), node_.constant(DType::kInt64, 1)});
    if (end_.trips && *end_.trips == most) return count;
    const ValueId last = node_.add("GreaterOrEqual", {count, node_.folder().scalar_of(most)});
    return node_.add("Add", {count, node_.cast(node_.add("And", {next, last}), DType::kInt64)});
  }

  /// The loop's results of those of the While, of which the first `states` are no collections.
  LoopResult collected(const std::vector<ValueId>& results, std::size_t states,
                       const std::optional<Dim>& trips, const std::optional<Dim>& count) const {
    LoopResult result;
    auto next = results.begin();
    auto all = results.begin() + static_cast<std::ptrdiff_t>(states);
    const auto taken = [&](bool backwards) {
      const ValueId value = *all++;
      return count ? part(node_, value, 0, backwards ? *trips - *count : Dim(0), *count) : value;
    };
    auto growing = growing_.begin();
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      if (growing != growing_.end() && growing->carried == k) {
        result.carried.push_back(
            grown(node_, carried_[k], taken(!growing->growth.behind), growing->growth));
        ++growing;
      } else if (const auto sized = states_.find(k); sized != states_.end()) {
        const ValueId buffer = *next++;
        result.carried.push_back(sized->second.result(buffer, *next++));
      } else {
        result.carried.push_back(*next++);
      }
    }
    while (all != results.end()) result.scanned.push_back(taken(false));
    return result;
  }

  NodeContext& node_;
  const LoopEnd& end_;
  const std::vector<ValueId>& carried_;
  const Sized& sized_;
  WhileBody body_;
  std::vector<ValueId> inputs_;
  std::vector<GrowingValue> growing_;
  std::map<std::size_t, SizedState> states_;

 public:
  ValueId index() const { return body_.index(); }
};

/// Imports the loop as a While node; nullopt after unsupported nodes. `tentative`: nullopt also if
/// unrolling is better, or the only possibility. `sized`: what an import before this one has found.
std::optional<LoopResult> as_while(NodeContext& node, const LoopEnd& end,
                                   const std::vector<ValueId>& carried, bool tentative,
                                   const Sized& sized = {}) {
  WhileLoop loop(node, end, carried, sized, tentative);
  const auto outputs =
      tentative ? node.try_subgraph("body", loop.inputs()) : node.subgraph("body", loop.inputs());
  if (!outputs) return std::nullopt;
  const bool goes_on = known_condition(node, outputs->front()).value_or(false);
  // The condition may become constant when unrolled, since the iteration number is known then.
  if (tentative && !goes_on) return std::nullopt;
  bool keeps_types = true;
  for (std::size_t k = 0; k < carried.size(); ++k)
    keeps_types = keeps_types && node.type((*outputs)[1 + k]) == node.type(carried[k]);
  if (tentative && !keeps_types) return std::nullopt;
  if (goes_on && keeps_types && !end.trips && !end.limit.valid())
    node.invalid(
        "it has no end: its condition stays true, and it has no trip count that a run could reach");
  if (const auto forms = loop.other_forms(*outputs))
    return as_while(node, end, carried, false, *forms);
  WhileBody::End when{end.trips, {}, {}};
  const auto both = [&](ValueId a, ValueId b) { return a.valid() ? node.add("And", {a, b}) : b; };
  if (!goes_on || end.condition.valid() || (!end.trips && !end.limit.valid())) {
    const ValueId yes = node.constant(DType::kBool, 1);
    when.first = end.condition.valid() ? node.reshape(end.condition, {}) : yes;
    when.next = node.reshape(outputs->front(), {});
  }
  if (end.limit.valid()) {
    const ValueId next = node.add("Add", {loop.index(), node.constant(DType::kInt64, 1)});
    const ValueId limit = node.cast(end.limit, DType::kInt64);
    when.first = both(when.first, node.add("Less", {node.constant(DType::kInt64, 0), limit}));
    when.next = both(when.next, node.add("Less", {next, limit}));
  }
  return loop.finish(std::move(when), *outputs);
}

/// Unrolls the loop. Nullopt for unsupported nodes. Sets `decided` to false if the condition `by`
/// depends on the model's inputs, or if there are too many iterations.
std::optional<LoopResult> unrolled(NodeContext& node, const LoopEnd& end,
                                   std::vector<ValueId> carried, std::size_t scanned, bool& decided,
                                   ValueId& by) {
  const std::int64_t limit = end.trips ? end.trips->value() : INT64_MAX;
  const ValueId yes = node.constant(DType::kBool, 1);
  std::vector<std::vector<ValueId>> collected(scanned);
  const auto run_body = [&](std::int64_t i) {
    std::vector<ValueId> inputs{node.folder().scalar_of(i), yes};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return node.subgraph("body", inputs, iteration_label(i));
  };
  const auto goes_on = [&](ValueId condition) {
    const auto known = known_condition(node, condition);
    if (!known) by = condition;
    decided = decided && known.has_value();
    return known.value_or(false);
  };
  bool running = true;
  std::int64_t i = 0;
  for (; running && i < limit; ++i) {
    decided = decided && i < kMaxIterations;
    if (!decided) return std::nullopt;
    const auto outputs = run_body(i);
    if (!outputs) return std::nullopt;
    const auto first = outputs->begin() + 1;
    carried.assign(first, first + static_cast<std::ptrdiff_t>(carried.size()));
    for (std::size_t k = 0; k < scanned; ++k)
      collected[k].push_back((*outputs)[1 + carried.size() + k]);
    running = i + 1 >= limit || goes_on(outputs->front());
  }
  // A loop with 0 iterations still needs shapes for its scan outputs: those of its body.
  const auto shapes = i == 0 && scanned > 0 ? run_body(0) : std::nullopt;
  if (i == 0 && scanned > 0 && !shapes) return std::nullopt;
  LoopResult result{std::move(carried), {}};
  for (std::size_t k = 0; k < scanned; ++k) {
    const ValueId like = i == 0 ? (*shapes)[1 + result.carried.size() + k] : collected[k].front();
    result.scanned.push_back(stack(node, collected[k], node.type(like), 0));
  }
  return result;
}

}  // namespace

void loop(NodeContext& node) {
  std::vector<ValueId> carried;
  for (std::size_t i = 2; i < node.input_count(); ++i)
    carried.push_back(node.input(i, "a loop-carried value"));
  const std::size_t scanned = check_loop_body(node, carried.size());
  LoopEnd end = read_end(node);
  if (end.condition.valid())
    if (const auto known = known_condition(node, end.condition)) {
      end.condition = {};
      if (!*known) end.trips = 0;
    }
  std::optional<LoopResult> result;
  // True if no input of the loop, only constants and the body, determines when it ends.
  const bool can_unroll =
      !end.condition.valid() && !end.limit.valid() && (!end.trips || end.trips->is_constant());
  if (can_unroll && (!end.trips || end.trips->value() > kMostUnrolled))
    result = as_while(node, end, carried, true);
  bool decided = can_unroll;
  ValueId by;
  if (can_unroll && !result) result = unrolled(node, end, carried, scanned, decided, by);
  if (!decided) {
    // Unrolling would support more nodes if the number of iterations were known.
    const auto need_end = [&] {
      for (const ValueId value : {end.limit, end.condition, by})
        if (value.valid()) node.folder().need(value);
    };
    try {
      result = as_while(node, end, carried, false);
    } catch (const Error&) {
      need_end();
      throw;
    }
    if (!result) need_end();
  }
  if (!result) return;
  node.keep_body_texts(1, true);
  for (std::size_t k = 0; k < carried.size(); ++k) node.output(k, result->carried[k]);
  for (std::size_t k = 0; k < scanned; ++k) node.output(carried.size() + k, result->scanned[k]);
}

}  // namespace sinter::frontend
