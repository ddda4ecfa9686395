// SPDX-License-Identifier: Apache-2.0
// Loop and Scan: unrolled at import, or loops of the plan; the operator table of control flow.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/conditional.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

std::string iteration_label(std::int64_t i) { return fmt::format("[{}]", i); }

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

/// Imports the loop as a While node; nullopt after unsupported nodes. `tentative`: nullopt also if
/// unrolling is better, or the only possibility.
std::optional<LoopResult> as_while(NodeContext& node, const LoopEnd& end,
                                   const std::vector<ValueId>& carried, std::size_t scanned,
                                   bool tentative) {
  WhileBody body(node);
  std::vector<ValueId> inputs{body.index(), node.constant(DType::kBool, 1)};
  std::vector<GrowingValue> growing;
  for (std::size_t k = 0; k < carried.size(); ++k) {
    const bool counted = end.trips && !end.condition.valid() && !end.limit.valid();
    auto growth =
        counted && !tentative ? node.growth_in_subgraph("body", 2 + k, 1 + k) : std::nullopt;
    if (!growth) {
      inputs.push_back(body.state(carried[k]));
      continue;
    }
    // The initial value is empty, so the body's result is exactly the part that it appends.
    Shape none = node.shape(carried[k]);
    growth->axis = node.normalise_axis(growth->axis, std::ssize(none));
    none[static_cast<std::size_t>(growth->axis)] = 0;
    inputs.push_back(node.expand(node.constant(node.dtype(carried[k]), 0), none));
    growing.push_back({k, *growth});
  }
  const auto outputs =
      tentative ? node.try_subgraph("body", inputs) : node.subgraph("body", inputs);
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
  WhileBody::End when{end.trips, {}, {}};
  const auto both = [&](ValueId a, ValueId b) { return a.valid() ? node.add("And", {a, b}) : b; };
  if (!goes_on || end.condition.valid() || (!end.trips && !end.limit.valid())) {
    const ValueId yes = node.constant(DType::kBool, 1);
    when.first = end.condition.valid() ? node.reshape(end.condition, {}) : yes;
    when.next = node.reshape(outputs->front(), {});
  }
  if (end.limit.valid()) {
    const ValueId next = node.add("Add", {body.index(), node.constant(DType::kInt64, 1)});
    const ValueId limit = node.cast(end.limit, DType::kInt64);
    when.first = both(when.first, node.add("Less", {node.constant(DType::kInt64, 0), limit}));
    when.next = both(when.next, node.add("Less", {next, limit}));
  }
  if (scanned > 0 && when.first.valid())
    node.unsupported(
        "how many iterations it has depends on the data of the model's inputs, and it has scan "
        "outputs, whose size that is: give it a trip count that is a constant or a size and a "
        "condition that stays true, or carry a tensor of the greatest size instead");
  if (!growing.empty() && when.first.valid())
    node.unsupported(
        "how many iterations it has depends on the data of the model's inputs, and a value that it "
        "carries grows in each: carry a tensor of the greatest size instead");
  std::vector<ValueId> after;
  auto next_growing = growing.begin();
  for (std::size_t k = 0; k < carried.size(); ++k) {
    if (next_growing == growing.end() || next_growing->carried != k) {
      after.push_back((*outputs)[1 + k]);
      continue;
    }
    body.collect((*outputs)[1 + k], *end.trips, !next_growing->growth.behind);
    ++next_growing;
  }
  for (std::size_t k = 1 + carried.size(); k < outputs->size(); ++k)
    body.collect((*outputs)[k], *end.trips, false);
  std::vector<ValueId> results = body.finish(when, after);
  LoopResult result{{results.begin(), results.begin() + std::ssize(after)}, {}};
  auto collected = results.begin() + std::ssize(after);
  for (const GrowingValue& each : growing) {
    const auto at = result.carried.begin() + static_cast<std::ptrdiff_t>(each.carried);
    result.carried.insert(at, grown(node, carried[each.carried], *collected++, each.growth));
  }
  result.scanned.assign(collected, results.end());
  return result;
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
    result = as_while(node, end, carried, scanned, true);
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
      result = as_while(node, end, carried, scanned, false);
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

Ints per_scan(NodeContext& node, const char* name, std::size_t count) {
  auto values = node.attr_ints(name).value_or(Ints(count, 0));
  if (values.size() != count)
    node.invalid("attribute '{}' has {} values; it must have {}", name, values.size(), count);
  return values;
}

/// Directions of `count` sequences or outputs: whether each is read or written from the end.
Ints read_directions(NodeContext& node, const char* name, std::size_t count) {
  auto values = per_scan(node, name, count);
  for (const std::int64_t value : values)
    if (value != 0 && value != 1)
      node.invalid("attribute '{}' holds {}; a direction is 0 or 1", name, value);
  return values;
}

/// A scan's inputs: initial states, and sequences with the axes and directions in which they are
/// read.
struct ScanInputs {
  std::vector<ValueId> states, sequences;
  Ints axes, directions;
};

ScanInputs read_scan(NodeContext& node, std::vector<ValueId> inputs, const char* directions) {
  const std::int64_t count = node.attr_int("num_scan_inputs");
  const auto total = std::ssize(inputs);
  if (count < 1 || count > total)
    node.invalid("num_scan_inputs is {}, but it has {} inputs", count, total);
  const auto first = inputs.begin() + (total - count);
  ScanInputs scan{{inputs.begin(), first}, {first, inputs.end()}, {}, {}};
  if (node.subgraph_output_count("body") < scan.states.size())
    node.invalid("its body has {} outputs; with {} states it needs as many at least",
                 node.subgraph_output_count("body"), scan.states.size());
  scan.directions = read_directions(node, directions, scan.sequences.size());
  return scan;
}

/// The common length of all sequences.
Dim scan_length(NodeContext& node, const ScanInputs& scan) {
  std::optional<Dim> length;
  for (std::size_t k = 0; k < scan.sequences.size(); ++k) {
    const Dim extent = node.shape(scan.sequences[k])[static_cast<std::size_t>(scan.axes[k])];
    if (length && *length != extent)
      node.invalid("its scan inputs have lengths {} and {}", length->to_string(), extent);
    length = extent;
  }
  return *length;
}

/// Runs the body over the sequences; see iterate.
std::optional<IterationResult> run_scan(NodeContext& node, const ScanInputs& scan,
                                        const std::vector<bool>& backwards,
                                        const std::string& label) {
  const auto states = static_cast<std::ptrdiff_t>(scan.states.size());
  return iterate(
      node, scan_length(node, scan), scan.states, backwards,
      [&](const Iteration& at) -> std::optional<IterationResult> {
        std::vector<ValueId> arguments = at.states;
        for (std::size_t k = 0; k < scan.sequences.size(); ++k)
          arguments.push_back(at.element(scan.sequences[k], scan.axes[k], scan.directions[k] != 0));
        const auto outputs = node.subgraph("body", arguments, label + at.label);
        if (!outputs) return std::nullopt;
        const auto middle = outputs->begin() + states;
        return IterationResult{{outputs->begin(), middle}, {middle, outputs->end()}};
      });
}

void scan(NodeContext& node) {
  ScanInputs inputs = read_scan(node, node.all_inputs(), "scan_input_directions");
  inputs.axes = per_scan(node, "scan_input_axes", inputs.sequences.size());
  for (std::size_t k = 0; k < inputs.sequences.size(); ++k)
    inputs.axes[k] = node.normalise_axis(inputs.axes[k], node.rank(inputs.sequences[k]));
  const std::size_t states = inputs.states.size();
  const std::size_t collected = node.subgraph_output_count("body") - states;
  const auto axes = per_scan(node, "scan_output_axes", collected);
  const auto directions = read_directions(node, "scan_output_directions", collected);
  const auto result = run_scan(node, inputs, {directions.begin(), directions.end()}, "");
  if (!result) return;
  for (std::size_t k = 0; k < states; ++k) node.output(k, result->states[k]);
  for (std::size_t k = 0; k < collected; ++k) {
    // Moves the first dimension, the iterations, to the output's axis.
    const std::int64_t rank = node.rank(result->collected[k]);
    const std::int64_t axis = node.normalise_axis(axes[k], rank);
    std::vector<std::int64_t> order;
    for (std::int64_t d = 1; d < rank; ++d) order.push_back(d);
    order.insert(order.begin() + axis, 0);
    node.output(states + k,
                axis == 0 ? result->collected[k] : node.transpose(result->collected[k], order));
  }
}

/// Before opset 9 every input has a leading batch dimension, and sequences run along the second
/// dimension.
void scan_of_batches(NodeContext& node) {
  if (node.has_input(0))
    node.unsupported(
        "its sequences have lengths of their own (sequence_lens); export with opset 9 or later");
  std::vector<ValueId> all;
  for (std::size_t i = 1; i < node.input_count(); ++i) all.push_back(node.input(i, "input"));
  if (all.empty() || node.rank(all[0]) == 0) node.invalid("it has nothing to scan");
  const Dim batch = node.shape(all[0])[0];
  if (!batch.is_constant() || batch.value() < 1 || batch.value() > kMaxIterations)
    node.unsupported(
        "its batch is {}; the scan of each sample is unrolled at compile time, so it "
        "must be known and at most {}",
        batch, kMaxIterations);
  std::vector<std::vector<ValueId>> outputs;  // by output, then by sample
  for (std::int64_t b = 0; b < batch.value(); ++b) {
    std::vector<ValueId> sample;
    for (const ValueId value : all) {
      if (node.rank(value) == 0 || node.shape(value)[0] != batch)
        node.invalid("input {} has no batch dimension of {}", node.type(value), batch);
      sample.push_back(element(node, value, 0, b));
    }
    ScanInputs inputs = read_scan(node, sample, "directions");
    inputs.axes.assign(inputs.sequences.size(), 0);
    for (const ValueId sequence : inputs.sequences)
      if (node.rank(sequence) == 0) node.invalid("a scan input has one dimension only");
    const std::vector<bool> forwards(node.subgraph_output_count("body") - inputs.states.size());
    const auto result = run_scan(node, inputs, forwards, iteration_label(b));
    if (!result) return;
    outputs.push_back(result->states);
    outputs.back().insert(outputs.back().end(), result->collected.begin(), result->collected.end());
  }
  for (std::size_t k = 0; k < outputs[0].size(); ++k) {
    std::vector<ValueId> samples;
    for (const auto& sample : outputs) samples.push_back(sample[k]);
    node.output(k, stack(node, samples, node.type(samples[0]), 0));
  }
}

}  // namespace

const OpRows kControlFlowOps = {
    {"If", 1, if_then_else, "else_branch then_branch"},
    {"Loop", 1, loop, "body"},
    {"Scan", 8, scan_of_batches, "body directions num_scan_inputs"},
    {"Scan", 9, scan,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
     "scan_output_directions"},
};

}  // namespace sinter::frontend
