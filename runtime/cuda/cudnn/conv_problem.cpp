// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn/conv_problem.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

constexpr std::size_t kSpatial = 2;  // index of the first spatial dimension

// `stored`: the dense tensor's sizes in memory order.
ConvTensor make_tensor(std::vector<std::int64_t> stored, bool channels_last) {
  if (stored.size() == kSpatial + 1) stored.insert(stored.begin() + (channels_last ? 1 : 2), 1);
  std::vector<std::int64_t> strides(stored.size(), 1);
  for (std::size_t d = stored.size() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * std::max<std::int64_t>(stored[d], 1);
  if (channels_last)
    for (auto* list : {&stored, &strides})
      std::rotate(list->begin() + 1, list->end() - 1, list->end());
  return {std::move(stored), std::move(strides)};
}

std::vector<std::int64_t> per_dimension(const std::vector<std::uint64_t>& given,
                                        std::int64_t neutral) {
  std::vector<std::int64_t> result(given.begin(), given.end());
  if (result.size() == 1) result.insert(result.begin(), neutral);
  return result;
}

bool has_no_elements(const ConvTensor& tensor) {
  return std::ranges::find(tensor.sizes, 0) != tensor.sizes.end();
}

}  // namespace

bool ConvProblem::is_empty() const { return has_no_elements(output); }

bool ConvProblem::sums_nothing() const { return has_no_elements(input) || has_no_elements(weight); }

std::string ConvProblem::key() const {
  std::string text = fmt::format(
      "conv {} {} x{} w{} s{} d{} p{}+{}", to_string(dtype), channels_last ? "last" : "first",
      fmt::join(input.sizes, ","), fmt::join(weight.sizes, ","), fmt::join(strides, ","),
      fmt::join(dilations, ","), fmt::join(pads_begin, ","), fmt::join(pads_end, ","));
  if (has_bias) text += " bias";
  if (has_residual) text += " residual";
  if (activation != fb::Activation::None)
    text +=
        fmt::format(" {}({},{})", fb::EnumNameActivation(activation), activation_a, activation_b);
  if (math == fb::MathMode::Tf32) text += " tf32";
  return text;
}

ConvProblem bind_conv(const fb::PlanT& plan, const fb::ConvStepT& step,
                      std::span<const std::int64_t> expressions) {
  const auto tensor = [&](const std::vector<std::uint32_t>& shape) {
    std::vector<std::int64_t> sizes;
    for (const std::uint32_t size : shape) sizes.push_back(expressions[size]);
    return make_tensor(std::move(sizes), step.channels_last);
  };
  ConvProblem problem;
  problem.dtype = static_cast<DType>(plan.buffers[step.input]->dtype);
  problem.channels_last = step.channels_last;
  problem.input = tensor(step.input_shape);
  problem.weight = tensor(step.weight_shape);
  problem.output = tensor(step.output_shape);
  problem.strides = per_dimension(step.strides, 1);
  problem.dilations = per_dimension(step.dilations, 1);
  problem.pads_begin = per_dimension(step.pads_begin, 0);
  problem.pads_end = per_dimension(step.pads_end, 0);
  problem.has_bias = step.bias >= 0;
  problem.has_residual = step.residual >= 0;
  problem.activation = step.activation;
  problem.activation_a = step.activation_a;
  problem.activation_b = step.activation_b;
  problem.math = step.math;
  return problem;
}

}  // namespace sinter::runtime
