// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/calibration.h"

#include <algorithm>
#include <cmath>

#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/kernels.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/built_plan.h"
#include "tools/compiler/options/shapes.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

using ir::Tensor;

/// Sample `at` of an array whose first dimension counts samples.
Tensor sample_of(const Tensor& all, std::int64_t at) {
  std::vector<std::int64_t> shape(all.shape().begin() + 1, all.shape().end());
  const std::size_t size = all.bytes().size() / static_cast<std::size_t>(all.shape()[0]);
  return Tensor(
      all.dtype(), std::move(shape),
      ir::Buffer::copy_of(all.bytes().subspan(static_cast<std::size_t>(at) * size, size)));
}

/// Samples from the files, by input; empty for inputs without samples.
std::vector<std::vector<Tensor>> read_samples(const WeightOptions& weights,
                                              const std::vector<BindingInfo>& inputs) {
  // The input of an array; checked before the array is read.
  const auto index_of = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto input =
        std::ranges::find_if(inputs, [&](const BindingInfo& info) { return info.name == name; });
    if (input == inputs.end())
      throw usage_error("--calibration: the model has no input '{}'", name);
    const std::size_t rank = input->shape.size();
    if (shape.size() != rank && shape.size() != rank + 1)
      throw usage_error(
          "--calibration: '{}' has {} dimensions: write {}, or {} with samples along the first",
          name, shape.size(), rank, rank + 1);
    return static_cast<std::size_t>(input - inputs.begin());
  };
  NamedTensors all =
      read_tensor_files(weights.calibration_files,
                        [&](const std::string& name, DType,
                            const std::vector<std::int64_t>& shape) { index_of(name, shape); });
  for (const NamedTensor& given : weights.calibration)
    all.emplace_back(given.name, tensor_of(given.tensor));
  std::vector<std::vector<Tensor>> samples(inputs.size());
  for (const auto& [name, tensor] : all) {
    const std::size_t input = index_of(name, tensor.shape());
    auto& own = samples[input];
    if (tensor.shape().size() == inputs[input].shape.size()) {
      own.push_back(tensor);
    } else {
      for (std::int64_t i = 0; i < tensor.shape()[0]; ++i) own.push_back(sample_of(tensor, i));
    }
  }
  return samples;
}

bool has_nan(const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    if (std::isnan(tensor.at(i))) return true;
  return false;
}

Tensor zeros(DType type, std::vector<std::int64_t> shape) {
  std::size_t bytes = size_of(type);
  for (const std::int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes))
      throw usage_error("--calibration: the size of an input overflows");
  return Tensor(type, std::move(shape), ir::Buffer::take(std::vector<std::byte>(bytes)));
}

fusion::Calibration::Run compile_part(const ir::Graph& graph) {
  fusion::Context context;
  context.target = codegen::cpu_target().traits();
  context.states.find = false;
  const auto fused = fusion::run_pipeline(graph, context).graph;
  const Plan plan = load_built(codegen::compile(fused, {}));
  const auto session = std::make_shared<Session>(plan);
  return [plan, session](std::span<const Tensor> inputs) {
    set_inputs(*session, plan, {inputs.begin(), inputs.end()});
    session->run();
    return get_outputs(*session, plan);
  };
}

}  // namespace

std::shared_ptr<const fusion::Calibration> make_calibration(const WeightOptions& weights,
                                                            const ir::Graph& model,
                                                            const Reporter& reporter) {
  if (weights.calibration.empty() && weights.calibration_files.empty()) return nullptr;
  const auto inputs = describe_inputs(model);
  const auto given = read_samples(weights, inputs);
  std::size_t count = 0;
  std::int64_t greatest = 1;
  Shapes shapes;
  std::vector<std::pair<std::string, std::vector<std::string>>> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.emplace_back(inputs[i].name, std::vector<std::string>());
    for (const auto& dim : inputs[i].shape) names.back().second.push_back(dim.text);
    if (given[i].empty()) continue;
    if (count != 0 && given[i].size() != count)
      throw usage_error("--calibration: {} samples of '{}', but {} of the inputs before it",
                        given[i].size(), inputs[i].name, count);
    count = given[i].size();
    shapes[inputs[i].name] = given[i][0].shape();
    for (const std::int64_t dim : given[i][0].shape()) greatest = std::max(greatest, dim);
  }
  const Shapes complete = complete_shapes(names, shapes, greatest);
  auto result = std::make_shared<fusion::Calibration>();
  result->compile = compile_part;
  result->progress = [&reporter](std::string_view stage, std::size_t done, std::size_t all) {
    reporter.progress(stage, done, all);
  };
  result->samples.resize(count);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType type = inputs[i].dtype;
    const Tensor empty =
        given[i].empty() ? zeros(type, complete.at(inputs[i].name)) : given[i].front();
    for (std::size_t s = 0; s < count; ++s) {
      const Tensor& found = given[i].empty() ? empty : given[i][s];
      if (is_float(found.dtype()) && has_nan(found))
        throw usage_error("--calibration: sample {} of '{}' has an element that is no number", s,
                          inputs[i].name);
      const bool converts = is_float(type) && is_float(found.dtype());
      result->samples[s].push_back(converts ? ir::reference::convert(found, type) : found);
    }
  }
  return result;
}

}  // namespace sinter::tools
