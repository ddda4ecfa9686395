// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/run/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/reference/kernels.h"
#include "runtime/format_error.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {

Statistics statistics_of(std::vector<double> samples) {
  Statistics s;
  if (samples.empty()) return s;
  std::ranges::sort(samples);
  // Linear interpolation between the two nearest order statistics.
  const auto quantile = [&](double q) {
    const double position = q * static_cast<double>(samples.size() - 1);
    const auto low = static_cast<std::size_t>(position);
    const auto high = std::min(low + 1, samples.size() - 1);
    return std::lerp(samples[low], samples[high], position - static_cast<double>(low));
  };
  s.count = samples.size();
  s.min = samples.front();
  s.max = samples.back();
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(s.count);
  s.median = quantile(0.5);
  s.p10 = quantile(0.1);
  s.p90 = quantile(0.9);
  s.p95 = quantile(0.95);
  s.p99 = quantile(0.99);
  return s;
}

nlohmann::ordered_json to_json(const Statistics& s) {
  return {{"min", s.min}, {"mean", s.mean}, {"median", s.median}, {"p10", s.p10},   {"p90", s.p90},
          {"p95", s.p95}, {"p99", s.p99},   {"max", s.max},       {"runs", s.count}};
}

double time_run(Session& session) {
  const auto start = std::chrono::steady_clock::now();
  session.run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

void set_inputs(Session& session, const Plan& plan, const std::vector<ir::Tensor>& inputs) {
  const auto bindings = plan.inputs();
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    // A plan of lower precision stores the caches of a float32 model in that precision.
    const DType type = bindings[i].dtype;
    if (inputs[i].dtype() == DType::kFloat32 && is_float(type) && size_of(type) == 2)
      session.set_input(bindings[i].name, view_of(ir::reference::convert(inputs[i], type)));
    else
      session.set_input(bindings[i].name, view_of(inputs[i]));
  }
}

void first_run(Session& session, const RunInputs& inputs) {
  try {
    session.run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage || !inputs.files.empty()) throw;
    throw usage_error(
        "{} (the inputs were drawn at random: --inputs, --input-range and --shapes give others; "
        "decoders are run by `sinter generate`)",
        error.what());
  }
}

std::vector<ir::Tensor> get_outputs(const Session& session, const Plan& plan) {
  std::vector<ir::Tensor> outputs;
  for (const auto& binding : plan.outputs())
    outputs.push_back(tensor_of(session.output(binding.name)));
  return outputs;
}

std::string describe_shapes(const Plan& plan, const std::vector<ir::Tensor>& inputs) {
  std::vector<std::string> texts;
  const auto bindings = plan.inputs();
  for (std::size_t i = 0; i < bindings.size(); ++i)
    texts.push_back(fmt::format("{} [{}]", bindings[i].name, fmt::join(inputs[i].shape(), ", ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace sinter::tools
