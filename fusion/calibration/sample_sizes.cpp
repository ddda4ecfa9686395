// SPDX-License-Identifier: Apache-2.0
#include "fusion/calibration/sample_sizes.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/narrow_dims.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {

ir::Bindings sample_sizes(const Graph& graph, const Calibration& calibration) {
  const auto& samples = calibration.samples;
  if (samples.empty()) throw Error(ErrorCode::kUsage, "there are no samples to calibrate with");
  for (const auto& sample : samples)
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      if (sample.size() != graph.inputs().size() || sample[i].type() != samples[0][i].type())
        throw Error(ErrorCode::kUsage,
                    fmt::format("samples to calibrate with differ in the shape of '{}'",
                                graph.value(graph.inputs()[i]).name));
  return ir::bind_symbols(graph, samples[0]);
}

Graph with_sizes(const Graph& graph, const ir::Bindings& sizes) {
  std::map<std::string, Range> ranges;
  for (const auto& [symbol, size] : sizes)
    if (graph.ranges().contains(symbol)) ranges[symbol] = Range{size, size, nullptr};
  return narrow_dims(graph, ranges);
}

}  // namespace sinter::fusion
