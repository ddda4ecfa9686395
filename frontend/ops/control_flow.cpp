// If, Loop and Scan: decided or unrolled at import.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/op_table.h"
#include "frontend/ops/unroll.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::ValueId;

/// What a condition is at compile time, if it is known.
std::optional<bool> known_condition(NodeContext& node, ValueId condition) {
  if (node.dtype(condition) != DType::kBool)
    node.invalid("its condition must be bool, but is " + ir::to_string(node.type(condition)));
  const auto contents = node.folder().contents(condition);
  if (contents && contents->size() == 1 && contents->front().is_constant())
    return contents->front().value() != 0;
  return std::nullopt;
}

void if_then_else(NodeContext& node) {
  const ValueId condition = node.input(0, "cond");
  if (const auto known = known_condition(node, condition)) {
    const char* branch = *known ? "then_branch" : "else_branch";
    node.ignore_attr(*known ? "else_branch" : "then_branch");
    const auto values = node.subgraph(branch, {});
    for (std::size_t i = 0; values && i < values->size(); ++i) node.output(i, (*values)[i]);
    return;
  }
  const auto then_values = node.subgraph("then_branch", {}, "/then");
  const auto else_values = node.subgraph("else_branch", {}, "/else");
  if (!then_values || !else_values) return;
  if (then_values->size() != else_values->size())
    node.invalid(fmt::format("its branches have {} and {} outputs", then_values->size(),
                             else_values->size()));
  const ValueId flag = node.reshape(condition, {});
  for (std::size_t i = 0; i < then_values->size(); ++i) {
    if (!node.output_is_used(i)) continue;
    const ValueId a = (*then_values)[i], b = (*else_values)[i];
    if (node.type(a) != node.type(b)) {
      node.folder().need(condition);
      node.unsupported(fmt::format(
          "its condition depends on the data of the model's inputs, and its branches "
          "make {} and {} for output {}: both are computed and one is selected, so they "
          "must agree; make the condition a constant, or the shapes equal",
          ir::to_string(node.type(a)), ir::to_string(node.type(b)), i));
    }
    node.output(i, a == b ? a : node.add("Where", {flag, a, b}));
  }
}

std::string iteration_label(std::int64_t i) { return fmt::format("[{}]", i); }

/// How often a loop runs at most; kMaxIterations + 1 stands for any larger number.
std::int64_t trip_limit(NodeContext& node) {
  if (!node.has_input(0)) return kMaxIterations + 1;
  const auto trips = node.folder().contents(node.input(0, "M"));
  if (!trips) node.folder().need(node.input(0, "M"));
  if (!trips || trips->size() != 1)
    node.unsupported(
        "its trip count depends on the data of the model's inputs; loops are unrolled at compile "
        "time: make the count a constant, or keep the loop outside of the model");
  if (!trips->front().is_constant())
    node.unsupported(fmt::format(
        "its trip count is {}, a symbolic dimension; loops are unrolled at compile time: compile "
        "with that dimension fixed (--shapes), or export without the loop",
        trips->front().to_string()));
  return std::clamp<std::int64_t>(trips->front().value(), 0, kMaxIterations + 1);
}

void loop(NodeContext& node) {
  const std::int64_t limit = trip_limit(node);
  std::vector<ValueId> carried;
  for (std::size_t i = 2; i < node.input_count(); ++i)
    carried.push_back(node.input(i, "a loop-carried value"));
  const std::size_t count = carried.size(), body_outputs = node.subgraph_output_count("body");
  if (body_outputs < 1 + count)
    node.invalid(fmt::format("its body has {} outputs; with {} carried values it needs at least {}",
                             body_outputs, count, 1 + count));
  const ValueId yes = node.constant(DType::kBool, 1);
  std::vector<std::vector<ValueId>> scanned(body_outputs - 1 - count);
  const auto run_body = [&](std::int64_t i) {
    std::vector<ValueId> inputs{node.folder().scalar_of(i), yes};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return node.subgraph("body", inputs, iteration_label(i));
  };
  const auto goes_on = [&](ValueId condition, std::int64_t i) {
    const auto known = known_condition(node, condition);
    if (!known) node.folder().need(condition);
    if (!known)
      node.unsupported(fmt::format(
          "whether it goes on after {} iterations depends on the data of the model's inputs; loops "
          "are unrolled at compile time: give it a constant trip count and condition, or keep the "
          "loop outside of the model",
          i));
    return *known;
  };
  bool running = !node.has_input(1) || goes_on(node.input(1, "cond"), 0);
  std::int64_t i = 0;
  for (; running && i < limit; ++i) {
    if (i == kMaxIterations)
      node.unsupported(
          fmt::format("it has more than {} iterations; loops are unrolled at compile "
                      "time: shorten it, or keep it outside of the model",
                      kMaxIterations));
    const auto outputs = run_body(i);
    if (!outputs) return;
    carried.assign(outputs->begin() + 1, outputs->begin() + 1 + static_cast<std::ptrdiff_t>(count));
    for (std::size_t k = 0; k < scanned.size(); ++k)
      scanned[k].push_back((*outputs)[1 + count + k]);
    running = i + 1 >= limit || goes_on((*outputs)[0], i + 1);
  }
  for (std::size_t k = 0; k < count; ++k) node.output(k, carried[k]);
  if (scanned.empty()) return;
  // A loop that never runs still has scan outputs of a shape: that of its body's.
  const auto shapes = i == 0 ? run_body(0) : std::nullopt;
  if (i == 0 && !shapes) return;
  for (std::size_t k = 0; k < scanned.size(); ++k) {
    const ValueId like = i == 0 ? (*shapes)[1 + count + k] : scanned[k].front();
    node.output(count + k, stack(node, scanned[k], node.type(like), 0));
  }
}

std::vector<std::int64_t> per_scan(NodeContext& node, const char* name, std::size_t count) {
  auto values = node.attr_ints(name).value_or(std::vector<std::int64_t>(count, 0));
  if (values.size() != count)
    node.invalid(
        fmt::format("attribute '{}' has {} values; it must have {}", name, values.size(), count));
  return values;
}

void scan(NodeContext& node) {
  const std::int64_t scan_inputs = node.attr_int("num_scan_inputs");
  const auto total = static_cast<std::int64_t>(node.input_count());
  if (scan_inputs < 1 || scan_inputs > total)
    node.invalid(fmt::format("num_scan_inputs is {}, but it has {} inputs", scan_inputs, total));
  const auto states = static_cast<std::size_t>(total - scan_inputs);
  const auto sequences = static_cast<std::size_t>(scan_inputs);
  const std::vector<ValueId> inputs = node.all_inputs();
  const std::size_t body_outputs = node.subgraph_output_count("body");
  if (body_outputs < states)
    node.invalid(fmt::format("its body has {} outputs; with {} states it needs as many at least",
                             body_outputs, states));
  const std::size_t scan_outputs = body_outputs - states;
  auto axes = per_scan(node, "scan_input_axes", sequences);
  const auto directions = per_scan(node, "scan_input_directions", sequences);
  const auto out_axes = per_scan(node, "scan_output_axes", scan_outputs);
  const auto out_directions = per_scan(node, "scan_output_directions", scan_outputs);

  std::optional<Dim> length;
  for (std::size_t k = 0; k < sequences; ++k) {
    const ValueId value = inputs[states + k];
    axes[k] = node.normalise_axis(axes[k], node.rank(value));
    const Dim extent = node.shape(value)[static_cast<std::size_t>(axes[k])];
    if (length && *length != extent)
      node.invalid(fmt::format("its scan inputs have lengths {} and {}", length->to_string(),
                               extent.to_string()));
    length = extent;
  }
  if (!length->is_constant())
    node.unsupported(fmt::format(
        "it scans the symbolic dimension {}; scans are unrolled at compile time: compile with that "
        "dimension fixed (--shapes)",
        length->to_string()));
  const std::int64_t count = length->value();
  if (count < 1 || count > kMaxIterations)
    node.unsupported(
        fmt::format("it scans {} elements; it is unrolled at compile time to at least "
                    "1 and at most {}",
                    count, kMaxIterations));

  std::vector<ValueId> state(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
  std::vector<std::vector<ValueId>> scanned(scan_outputs);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<ValueId> arguments = state;
    for (std::size_t k = 0; k < sequences; ++k)
      arguments.push_back(
          element(node, inputs[states + k], axes[k], directions[k] != 0 ? count - 1 - i : i));
    const auto outputs = node.subgraph("body", arguments, iteration_label(i));
    if (!outputs) return;
    state.assign(outputs->begin(), outputs->begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t k = 0; k < scan_outputs; ++k) scanned[k].push_back((*outputs)[states + k]);
  }
  for (std::size_t k = 0; k < states; ++k) node.output(k, state[k]);
  for (std::size_t k = 0; k < scan_outputs; ++k) {
    if (out_directions[k] != 0) std::reverse(scanned[k].begin(), scanned[k].end());
    const ir::TensorType type = node.type(scanned[k].front());
    const auto rank = static_cast<std::int64_t>(type.shape.size());
    node.output(states + k,
                stack(node, scanned[k], type, node.normalise_axis(out_axes[k], rank + 1)));
  }
}

/// Before opset 9 every input has a batch dimension in front, and sequences may differ in length.
void scan_of_batches(NodeContext& node) {
  node.unsupported("Scan of opset 8 works on batches; export with opset 9 or later");
}

constexpr OpRow kRows[] = {
    {"If", 1, if_then_else},
    {"Loop", 1, loop},
    {"Scan", 8, scan_of_batches},
    {"Scan", 9, scan},
};

}  // namespace

std::span<const OpRow> control_flow_ops() { return kRows; }

}  // namespace sinter::frontend
