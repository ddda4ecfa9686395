// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/drawn_inputs.h"

#include <algorithm>
#include <set>

#include "fusion/precision/sensitivity.h"
#include "tools/compiler/build/built_plan.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {
namespace {

constexpr std::int64_t kUnbounded = 1024, kBatch = 2;
constexpr double kMostMultiplications = 5e9, kMostElements = 3e7;
constexpr std::int64_t kLastStep = 1000;

double elements(const ir::Shape& shape, const ir::Bindings& sizes) {
  double count = 1;
  for (const ir::Dim& dim : shape) count *= static_cast<double>(dim.evaluate(sizes));
  return count;
}

/// Number of terms per element of the result.
double terms(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes) {
  if (node.inputs.size() < 2) return 1;
  const ir::Shape& left = graph.type(node.inputs[0]).shape;
  if (node.op->name == "MatMul" && !left.empty())
    return static_cast<double>(left.back().evaluate(sizes));
  if (node.op->name == "Conv") {
    const ir::Shape& weights = graph.type(node.inputs[1]).shape;
    return elements(weights, sizes) /
           std::max<double>(1, static_cast<double>(weights[0].evaluate(sizes)));
  }
  if (node.op->name == "Attention")
    return 2 *
           static_cast<double>(graph.type(node.inputs[1]).shape[left.size() - 2].evaluate(sizes));
  return 1;
}

Work work_within(const ir::Graph& graph, ir::Bindings& sizes) {
  Work work;
  for (const auto& [symbol, range] : graph.ranges())
    if (!sizes.contains(symbol))
      sizes[symbol] = std::max(range.min, std::min<std::int64_t>(range.max, 64));
  for (const ir::Node& node : graph.nodes()) {
    double made = 0;
    for (const ir::ValueId output : node.outputs) made += elements(graph.type(output).shape, sizes);
    work.largest = std::max(work.largest, made);
    work.multiplications += made * terms(graph, node, sizes);
    if (node.body == nullptr) continue;
    const Work inside = work_within(*node.body, sizes);
    double times = 1;
    if (node.op->kind == ir::OpKind::kWhile && !node.attrs.get_dims("trips").empty())
      times = static_cast<double>(node.attrs.get_dims("trips")[0].evaluate(sizes));
    work.multiplications += times * inside.multiplications;
    work.largest = std::max(work.largest, inside.largest);
  }
  return work;
}

/// Symbols in the inputs' shapes, and whether each occurs only as the first dimension.
std::map<std::string, bool> symbols_of(const ir::Graph& model) {
  std::map<std::string, bool> leading;
  for (const ir::ValueId input : model.inputs()) {
    const ir::Shape& shape = model.type(input).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      for (const std::string& symbol : shape[d].symbols()) {
        const bool leads = d == 0 && shape.size() > 1 && shape[d].to_string() == symbol;
        leading.emplace(symbol, true).first->second &= leads;
      }
  }
  return leading;
}

ir::Bindings greatest_sizes(const ir::Graph& model, const ir::Bindings& given) {
  ir::Bindings sizes = given;
  std::set<std::string> free;
  for (const auto& [symbol, leads] : symbols_of(model)) {
    const auto range = model.ranges().find(symbol);
    const ir::Range bounds = range == model.ranges().end() ? ir::Range{} : range->second;
    const std::int64_t most = bounds.max == INT64_MAX ? kUnbounded : bounds.max;
    if (sizes.emplace(symbol, std::max(bounds.min, leads ? std::min(kBatch, most) : most)).second)
      free.insert(symbol);
  }
  const auto least = [&](const std::string& symbol) {
    const auto range = model.ranges().find(symbol);
    return range == model.ranges().end() ? 1 : std::max<std::int64_t>(range->second.min, 1);
  };
  for (;;) {
    const Work work = work_of(model, sizes);
    if (work.multiplications <= kMostMultiplications && work.largest <= kMostElements) return sizes;
    const auto largest = std::ranges::max_element(free, {}, [&](const std::string& symbol) {
      return sizes.at(symbol) > least(symbol) ? sizes.at(symbol) : 0;
    });
    if (largest == free.end() || sizes.at(*largest) <= least(*largest)) return sizes;
    sizes[*largest] = std::max(least(*largest), sizes.at(*largest) / 2);
  }
}

/// Rows of the smallest constant table that an integer input indexes; 0: none.
std::int64_t rows_chosen(const ir::Graph& graph, ir::ValueId value) {
  std::int64_t rows = 0;
  for (const ir::NodeId id : graph.users(value)) {
    const ir::Node& node = graph.node(id);
    std::int64_t found = 0;
    if (node.op->name == "Gather" && node.inputs[1] == value) {
      const ir::Shape& data = graph.type(node.inputs[0]).shape;
      const ir::Dim& dim = data[static_cast<std::size_t>(node.attrs.get_int("axis"))];
      if (dim.is_constant()) found = dim.value();
    } else if (node.outputs.size() == 1 && is_integer(graph.type(node.outputs[0]).dtype) &&
               (node.op->kind == ir::OpKind::kView || node.op->name == "Cast")) {
      found = rows_chosen(graph, node.outputs[0]);
    }
    if (found > 0) rows = rows == 0 ? found : std::min(rows, found);
  }
  return rows;
}

}  // namespace

Work work_of(const ir::Graph& model, const ir::Bindings& sizes) {
  ir::Bindings all = sizes;
  return work_within(model, all);
}

RunInputs long_inputs(const ir::Graph& model, const RunInputs& asked) {
  RunInputs result = asked;
  if (!asked.files.empty() || !asked.tensors.empty()) return result;
  ir::Bindings given;
  if (!asked.shapes.empty()) {
    // Symbols from the given shapes; those of other inputs follow.
    InputDims names;
    for (const auto& input : describe_inputs(model)) {
      names.emplace_back(input.name, std::vector<std::string>());
      for (const auto& dim : input.shape) names.back().second.push_back(dim.text);
    }
    given = given_sizes(names, asked.shapes);
  }
  const ir::Bindings sizes = greatest_sizes(model, given);
  const std::vector<bool> angles = fusion::find_angle_inputs(model);
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const ir::Value& input = model.value(model.inputs()[i]);
    std::vector<std::int64_t> shape;
    for (const ir::Dim& dim : input.type.shape) shape.push_back(dim.evaluate(sizes));
    std::int64_t longest = 0;
    for (const auto& [symbol, size] : sizes) longest = std::max(longest, size);
    result.shapes.try_emplace(input.name, std::move(shape));
    const std::int64_t rows =
        is_integer(input.type.dtype) ? rows_chosen(model, model.inputs()[i]) : 0;
    if (rows > 0)
      result.ranges.try_emplace(input.name, 0.0, static_cast<double>(rows - 1));
    else if (angles[i])
      result.ranges.try_emplace(input.name, 0.0,
                                static_cast<double>(std::max(longest, kLastStep) - 1));
  }
  return result;
}

bool are_too_long(const Error& error) {
  return error.code() == ErrorCode::kUsage || error.code() == ErrorCode::kInvalidModel ||
         error.code() == ErrorCode::kOutOfMemory;
}

}  // namespace sinter::tools
