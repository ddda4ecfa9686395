// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/key_means.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "fusion/calibration/activation_samples.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, node.op->name) != names.end();
}

/// Whether all readers of `value` compare with minus infinity: rows of scores without any valid
/// one.
bool is_asked_for_infinity(const Graph& graph, ValueId value) {
  return std::ranges::all_of(graph.users(value), [&](NodeId user) {
    const Node& node = graph.node(user);
    if (node.op->name != "Equal") return false;
    const auto& constant = graph.value(node.inputs[node.inputs[0] == value ? 1 : 0]).constant;
    return constant && constant->element_count() == 1 &&
           constant->at(0) == -std::numeric_limits<double>::infinity();
  });
}

/// Whether `scores`, whose last dimension is rows of keys, reach only Softmaxes, after a mask
/// computed at run time. Unwritten rows do not have their mean subtracted.
bool reach_softmax(const Graph& graph, ValueId scores, bool is_masked) {
  if (graph.is_output(scores) || graph.users(scores).empty()) return false;
  return std::ranges::all_of(graph.users(scores), [&](NodeId user) {
    const Node& node = graph.node(user);
    const std::int64_t last = std::ssize(graph.type(scores).shape) - 1;
    if (node.op->name == "Softmax") return is_masked && node.attrs.get_int("axis") == last;
    if (node.op->name == "ReduceMax" && node.attrs.get_ints("axes") == Ints{last})
      return is_asked_for_infinity(graph, node.outputs[0]);
    const auto go_on = [&](bool masked) { return reach_softmax(graph, node.outputs[0], masked); };
    if (std::ranges::count(node.inputs, scores) != 1) return false;
    if (node.op->name == "Cast") return go_on(is_masked);
    if (node.op->name == "Where")  // a replaced score does not count
      return node.inputs[0] != scores && go_on(is_masked || !graph.is_constant(node.inputs[0]));
    if (!is_one_of(node, {"Mul", "Div", "Add"})) return false;
    const ValueId other = node.inputs[node.inputs[0] == scores ? 1 : 0];
    if (node.op->name == "Add") return go_on(is_masked || !graph.is_constant(other));
    return std::ranges::all_of(graph.type(other).shape, [](const Dim& d) { return d == Dim(1); }) &&
           go_on(is_masked);
  });
}

/// Whether all readers of `rows`, besides the nodes of `path`, are such matmuls, possibly after
/// views.
bool are_read_as_keys(const Graph& graph, ValueId rows, std::span<const NodeId> path) {
  return std::ranges::all_of(graph.users(rows), [&](NodeId user) {
    if (std::ranges::find(path, user) != path.end()) return true;
    const Node& node = graph.node(user);
    if (ir::is_plain_matmul(node))
      return node.inputs[1] == rows && node.inputs[0] != rows &&
             reach_softmax(graph, node.outputs[0], false);
    return is_one_of(node, {"Transpose", "Reshape", "Expand", "Cast"}) &&
           !graph.is_output(node.outputs[0]) && are_read_as_keys(graph, node.outputs[0], path);
  });
}

}  // namespace

bool are_keys(const Graph& graph, ValueId cache, std::span<const NodeId> path) {
  const auto value_of = [&](NodeId id) { return graph.node(id).outputs[0]; };
  return are_read_as_keys(graph, cache, path) &&
         std::ranges::all_of(
             path, [&](NodeId id) { return are_read_as_keys(graph, value_of(id), path); }) &&
         std::ranges::any_of(path, [&](NodeId id) { return !graph.users(value_of(id)).empty(); });
}

std::vector<Tensor> means_of_rows(const Graph& graph, const Calibration& calibration,
                                  std::span<const ValueId> values,
                                  const std::vector<std::vector<std::int64_t>>& reduced) {
  Calibration samples = calibration;
  for (auto& sample : samples.samples)  // the graph may have a lower precision by now
    for (std::size_t i = 0; i < sample.size() && i < graph.inputs().size(); ++i) {
      const DType type = graph.type(graph.inputs()[i]).dtype;
      if (sample[i].dtype() != type) sample[i] = ir::reference::convert(sample[i], type);
    }
  std::vector<std::vector<double>> sums(values.size());
  std::vector<Ints> shapes(values.size());
  const auto add = [&](GraphBuilder& builder, std::size_t i, ValueId value) {
    const ValueId wide = builder.type(value).dtype == DType::kFloat32
                             ? value
                             : builder.add("Cast", {value}, {{"to", DType::kFloat32}});
    return std::vector{
        builder.add("ReduceMean", {wide}, {{"axes", reduced[i]}, {"keepdims", std::int64_t{1}}})};
  };
  for_each_sample(graph, samples, values, add, "keys",
                  [&](std::size_t, std::size_t i, std::span<const Tensor> found) {
                    const std::vector<double> own = found[0].to_doubles();
                    shapes[i] = found[0].shape();
                    sums[i].resize(own.size());
                    for (std::size_t e = 0; e < own.size(); ++e) sums[i][e] += own[e];
                  });
  std::vector<Tensor> means;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (double& sum : sums[i]) sum /= static_cast<double>(samples.samples.size());
    means.push_back(Tensor::from_doubles(DType::kFloat32, shapes[i], sums[i]));
  }
  return means;
}

}  // namespace sinter::fusion
