// SPDX-License-Identifier: Apache-2.0
#include "fusion/precision/wide_values.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "fusion/calibration/activation_samples.h"

namespace sinter::fusion {
namespace {

constexpr double kHalfLimit = 65504, kLeastMask = 1e8;

std::vector<ValueId> float_results(const Graph& graph) {
  std::vector<ValueId> found;
  for (const Node& node : graph.nodes())
    for (const ValueId output : node.outputs)
      if (graph.type(output).dtype == DType::kFloat32) found.push_back(output);
  return found;
}

ValueId magnitude(GraphBuilder& builder, ValueId value) {
  ir::Ints axes(builder.type(value).shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  // Larger ones are masks.
  ValueId x = builder.add("Abs", {value});
  x = builder.add("Where", {builder.add("Less", {x, builder.scalar(DType::kFloat32, kLeastMask)}),
                            x, builder.scalar(DType::kFloat32, 0)});
  if (axes.empty()) return x;
  return builder.add("ReduceMax", {x}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

}  // namespace

bool makes_spectra(const Node& node) {
  return std::ranges::find(node.origins, "log_mel") != node.origins.end();
}

std::map<ValueId, std::string> find_wide_values(const Graph& graph, const Context& context,
                                                DType narrow) {
  std::map<ValueId, std::string> found;
  for (const std::string& text : context.weights.keep)
    for (const Node& node : graph.nodes())
      if (std::ranges::any_of(node.origins, [&](const std::string& origin) {
            return origin.find(text) != std::string::npos;
          }))
        for (const ValueId output : node.outputs)
          if (graph.type(output).dtype == DType::kFloat32)
            found.emplace(output, fmt::format("--keep {}", text));
  const auto& calibration = context.weights.calibration;
  if (calibration == nullptr || narrow != DType::kFloat16) return found;
  const std::vector<ValueId> values = float_results(graph);
  std::vector<double> largest(values.size(), 0);
  for_each_sample(
      graph, *calibration, values,
      [](GraphBuilder& builder, std::size_t, ValueId value) {
        return std::vector<ValueId>{magnitude(builder, value)};
      },
      "finding what 16 bits cannot hold",
      [&](std::size_t, std::size_t i, std::span<const Tensor> probes) {
        largest[i] = std::max(largest[i], probes[0].at(0));
      });
  for (std::size_t i = 0; i < values.size(); ++i)
    if (largest[i] > kHalfLimit / 2)
      found.emplace(values[i], "a sample's values exceed half of float16's 65,504");
  return found;
}

}  // namespace sinter::fusion
