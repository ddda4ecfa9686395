// If, Loop and Scan: decided or unrolled at import.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// What a condition is at compile time, if it is known.
std::optional<bool> known_condition(NodeContext& node, ValueId condition) {
  if (node.dtype(condition) != DType::kBool)
    node.invalid("its condition must be bool, but is {}", node.type(condition));
  const auto contents = node.folder().contents(condition);
  if (contents && contents->size() == 1 && contents->front().is_constant())
    return contents->front().value() != 0;
  return std::nullopt;
}

/// The input of the model whose one bool `condition` is, if it is that.
std::optional<ValueId> flag_behind(NodeContext& node, ValueId condition) {
  ValueId value = condition;
  for (const ir::Node* from; (from = node.builder().producer(value)) != nullptr;) {
    if (from->op->name != "Reshape") return std::nullopt;
    value = from->inputs[0];
  }
  if (node.builder().constant_of(value) != nullptr || node.dtype(value) != DType::kBool ||
      ir::element_count(node.shape(value)) != Dim(1))
    return std::nullopt;
  return value;
}

/// One if `condition` is true, else zero: where it compares sizes.
std::optional<Dim> condition_on_sizes(NodeContext& node, ValueId condition) {
  const ir::Node* test = node.builder().producer(condition);
  if (test == nullptr || test->inputs.size() != 2) return std::nullopt;
  const std::string op = test->op->name;
  const bool is_less = op.starts_with("Less"), or_equal = op.ends_with("OrEqual");
  if (!is_less && !op.starts_with("Greater")) return std::nullopt;
  const auto left = node.folder().contents(test->inputs[0]),
             right = node.folder().contents(test->inputs[1]);
  if (!left || !right || left->size() != 1 || right->size() != 1) return std::nullopt;
  const Dim more = is_less ? right->front() - left->front() : left->front() - right->front();
  const ir::Ranges& ranges = node.builder().ranges();
  return ir::min(ir::max(more + Dim(or_equal ? 1 : 0), 0, ranges), 1, ranges);
}

/// The dimension in which alone two tensors differ.
std::optional<std::size_t> only_difference(const ir::TensorType& a, const ir::TensorType& b) {
  if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) return std::nullopt;
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] == b.shape[d]) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

/// `a` where `is_a` is one, else `b`, of another size along `axis`: angles for short texts and for
/// long ones are tables of different lengths. It is a view of both.
ValueId select_part(NodeContext& node, const Dim& is_a, ValueId a, ValueId b, std::size_t axis) {
  const Shape of_a = node.shape(a), of_b = node.shape(b);
  std::vector<Dim> starts(of_a.size(), Dim(0));
  starts[axis] = of_a[axis] * (Dim(1) - is_a);
  Shape own = of_a;
  own[axis] = of_b[axis] + (of_a[axis] - of_b[axis]) * is_a;
  return node.add("Slice", {node.concat({a, b}, static_cast<std::int64_t>(axis))},
                  {{"starts", starts}, {"steps", Ints(own.size(), 1)}, {"shape", own}});
}

void if_then_else(NodeContext& node) {
  const ValueId condition = node.input(0, "cond");
  if (const auto known = known_condition(node, condition)) {
    const char* branch = *known ? "then_branch" : "else_branch";
    const auto values = node.subgraph(branch, {});
    for (std::size_t i = 0; values && i < values->size(); ++i) node.output(i, (*values)[i]);
    return;
  }
  const auto then_values = node.subgraph("then_branch", {}, "/then");
  const auto else_values = node.subgraph("else_branch", {}, "/else");
  if (!then_values || !else_values) return;
  if (then_values->size() != else_values->size())
    node.invalid("its branches have {} and {} outputs", then_values->size(), else_values->size());
  const ValueId flag = node.reshape(condition, {});
  for (std::size_t i = 0; i < then_values->size(); ++i) {
    if (!node.output_is_used(i)) continue;
    const ValueId a = (*then_values)[i], b = (*else_values)[i];
    const auto is_a = condition_on_sizes(node, condition);
    if (const auto axis = only_difference(node.type(a), node.type(b)); is_a && axis) {
      node.output(i, select_part(node, *is_a, a, b, *axis));
      continue;
    }
    if (node.type(a) != node.type(b)) {
      std::string why = fmt::format(
          "its condition depends on the data of the model's inputs, and its branches make {} and "
          "{} for output {}: both are computed and one is selected, so they must agree; make the "
          "condition a constant, or the shapes equal",
          node.type(a), node.type(b), i);
      if (const auto flag = flag_behind(node, condition)) throw FlagNeeded(*flag, std::move(why));
      node.folder().need(condition);
      node.unsupported(why);
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
    node.unsupported(
        "its trip count is {}, a symbolic dimension; loops are unrolled at compile "
        "time: compile with that dimension fixed (--dim), or export without the loop",
        trips->front());
  return std::clamp<std::int64_t>(trips->front().value(), 0, kMaxIterations + 1);
}

void loop(NodeContext& node) {
  const std::int64_t limit = trip_limit(node);
  std::vector<ValueId> carried;
  for (std::size_t i = 2; i < node.input_count(); ++i)
    carried.push_back(node.input(i, "a loop-carried value"));
  const std::size_t count = carried.size(), body_outputs = node.subgraph_output_count("body");
  if (body_outputs < 1 + count)
    node.invalid("its body has {} outputs; with {} carried values it needs at least {}",
                 body_outputs, count, 1 + count);
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
      node.unsupported(
          "whether it goes on after {} iterations depends on the data of the model's "
          "inputs; loops are unrolled at compile time: give it a constant trip count "
          "and condition, or keep the loop outside of the model",
          i);
    return *known;
  };
  bool running = !node.has_input(1) || goes_on(node.input(1, "cond"), 0);
  std::int64_t i = 0;
  for (; running && i < limit; ++i) {
    if (i == kMaxIterations)
      node.unsupported(
          "it has more than {} iterations; loops are unrolled at compile time: shorten "
          "it, or keep it outside of the model",
          kMaxIterations);
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

Ints per_scan(NodeContext& node, const char* name, std::size_t count) {
  auto values = node.attr_ints(name).value_or(Ints(count, 0));
  if (values.size() != count)
    node.invalid("attribute '{}' has {} values; it must have {}", name, values.size(), count);
  return values;
}

/// Of each of `count`: whether it is read or written from the end.
Ints read_directions(NodeContext& node, const char* name, std::size_t count) {
  auto values = per_scan(node, name, count);
  for (const std::int64_t value : values)
    if (value != 0 && value != 1)
      node.invalid("attribute '{}' holds {}; a direction is 0 or 1", name, value);
  return values;
}

/// What a scan works on: values before the first iteration, sequences and the dimensions along
/// which they are read, and which of them from the end.
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

/// The length of all sequences: at least 1, and at most kMaxIterations.
std::int64_t scan_length(NodeContext& node, const ScanInputs& scan) {
  std::optional<Dim> length;
  for (std::size_t k = 0; k < scan.sequences.size(); ++k) {
    const Dim extent = node.shape(scan.sequences[k])[static_cast<std::size_t>(scan.axes[k])];
    if (length && *length != extent)
      node.invalid("its scan inputs have lengths {} and {}", length->to_string(), extent);
    length = extent;
  }
  if (!length->is_constant())
    node.unsupported(
        "it scans the symbolic dimension {}; scans are unrolled at compile time: "
        "compile with that dimension fixed (--dim)",
        length->to_string());
  if (length->value() < 1 || length->value() > kMaxIterations)
    node.unsupported(
        "it scans {} elements; it is unrolled at compile time to at least 1 and at most {}",
        length->value(), kMaxIterations);
  return length->value();
}

/// Runs the body along the sequences: the last states, and then all elements of each output that is
/// collected, in the order in which they are made. Nothing after unsupported nodes.
struct Scanned {
  std::vector<ValueId> states;
  std::vector<std::vector<ValueId>> collected;
};
std::optional<Scanned> run_scan(NodeContext& node, const ScanInputs& scan,
                                const std::string& label) {
  const std::int64_t count = scan_length(node, scan);
  const auto states = std::ssize(scan.states);
  Scanned result{scan.states, {}};
  result.collected.resize(node.subgraph_output_count("body") - scan.states.size());
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<ValueId> arguments = result.states;
    for (std::size_t k = 0; k < scan.sequences.size(); ++k)
      arguments.push_back(element(node, scan.sequences[k], scan.axes[k],
                                  scan.directions[k] != 0 ? count - 1 - i : i));
    const auto outputs = node.subgraph("body", arguments, label + iteration_label(i));
    if (!outputs) return std::nullopt;
    result.states.assign(outputs->begin(), outputs->begin() + states);
    for (std::size_t k = 0; k < result.collected.size(); ++k)
      result.collected[k].push_back((*outputs)[scan.states.size() + k]);
  }
  return result;
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
  auto result = run_scan(node, inputs, "");
  if (!result) return;
  for (std::size_t k = 0; k < states; ++k) node.output(k, result->states[k]);
  for (std::size_t k = 0; k < collected; ++k) {
    auto& elements = result->collected[k];
    if (directions[k] != 0) std::ranges::reverse(elements);
    const ir::TensorType type = node.type(elements.front());
    const auto rank = std::ssize(type.shape);
    node.output(states + k, stack(node, elements, type, node.normalise_axis(axes[k], rank + 1)));
  }
}

/// Before opset 9 every input has a batch dimension in front of all others, and the sequences lie
/// along the second one.
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
  std::vector<std::vector<ValueId>> outputs;  // of every sample
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
    const auto result = run_scan(node, inputs, iteration_label(b));
    if (!result) return;
    outputs.push_back(result->states);
    for (const auto& elements : result->collected)
      outputs.back().push_back(stack(node, elements, node.type(elements.front()), 0));
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
