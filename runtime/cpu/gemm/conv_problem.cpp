// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/conv_problem.h"

#include <algorithm>

namespace sinter::runtime::cpu {
namespace {

using plan::fb::ConvStepT;

dims dims_of(const std::vector<std::uint32_t>& expressions, const BoundShape& shape) {
  dims result;
  for (const auto expression : expressions) result.push_back(shape.expressions[expression]);
  return result;
}

dims dims_of(const std::vector<std::uint64_t>& numbers, std::int64_t minus = 0) {
  dims result;
  for (const auto number : numbers) result.push_back(static_cast<std::int64_t>(number) - minus);
  return result;
}

/// Drops spatial dimensions of size 1 without padding. Kernels block along the last dimension, so
/// it should not be one of these.
void drop_single_dimensions(ConvProblem& p) {
  for (std::size_t d = p.strides.size(); d-- > 0 && p.strides.size() > 1;) {
    const std::size_t at = d + 2;
    if (p.input[at] != 1 || p.output[at] != 1 || p.weight[at] != 1 || p.begin[d] != 0 ||
        p.end[d] != 0)
      continue;
    for (dims* sizes : {&p.input, &p.weight, &p.output})
      sizes->erase(sizes->begin() + static_cast<std::ptrdiff_t>(at));
    for (dims* window : {&p.strides, &p.dilations, &p.begin, &p.end})
      window->erase(window->begin() + static_cast<std::ptrdiff_t>(d));
  }
}

}  // namespace

double ConvProblem::elements(const dims& sizes) {
  double result = 1;
  for (const std::int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

double ConvProblem::multiplications() const {
  double result = elements(output);
  for (std::size_t d = 1; d < weight.size(); ++d) result *= static_cast<double>(weight[d]);
  return result / narrow_rate(weight_type);
}

bool ConvProblem::is_product() const {
  const auto all = [](const dims& values, std::int64_t value) {
    return std::ranges::all_of(values, [&](auto v) { return v == value; });
  };
  return group == 1 && all({weight.begin() + 2, weight.end()}, 1) && all(strides, 1) &&
         all(begin, 0) && all(end, 0);
}

ConvProblem conv_problem(const plan::PlanData& plan, const ConvStepT& step,
                         const BoundShape& shape) {
  const auto type_of = [&](std::uint32_t buffer) {
    return static_cast<DType>(plan.meta.buffers[buffer]->dtype);
  };
  ConvProblem p{dims_of(step.input_shape, shape),
                dims_of(step.weight_shape, shape),
                dims_of(step.output_shape, shape),
                dims_of(step.strides),
                dims_of(step.dilations, 1),
                dims_of(step.pads_begin),
                dims_of(step.pads_end),
                static_cast<std::int64_t>(step.group),
                step.channels_last,
                type_of(step.input),
                type_of(step.weight),
                type_of(step.output)};
  if (p.channels_last)
    for (dims* sizes : {&p.input, &p.weight, &p.output})
      std::rotate(sizes->begin() + 1, sizes->end() - 1, sizes->end());
  drop_single_dimensions(p);
  return p;
}

dims strides_of(const dims& sizes, bool channels_last) {
  dims strides(sizes.size(), 1);
  std::int64_t stride = channels_last ? sizes[1] : 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (channels_last && d == 1) continue;
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

}  // namespace sinter::runtime::cpu
