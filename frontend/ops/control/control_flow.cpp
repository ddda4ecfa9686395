// SPDX-License-Identifier: Apache-2.0
// Scan: unrolled at import, or a loop of the plan; the operator table of control flow.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/conditional.h"
#include "frontend/ops/control/loop.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

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
