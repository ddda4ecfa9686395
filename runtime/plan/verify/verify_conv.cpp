// SPDX-License-Identifier: Apache-2.0
// Verifies convolutions.
#include <cstdint>
#include <utility>

#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

/// Limit of strides, dilations and pads: larger ones do not occur and would overflow sums.
constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 31;

}  // namespace

void verify_conv(const Checker& check, const fb::ConvStepT& work, Uses& uses) {
  const std::size_t rank = work.input_shape.size();
  if (rank < 3 || rank > 5 || work.weight_shape.size() != rank || work.output_shape.size() != rank)
    check.fail(
        "its input, weight and output have {}, {} and {} dimensions; all must have the same "
        "number, 3 to 5",
        rank, work.weight_shape.size(), work.output_shape.size());
  check.expressions(work.input_shape, "an input dimension");
  check.expressions(work.weight_shape, "a weight dimension");
  check.expressions(work.output_shape, "an output dimension");
  for (const auto* list : {&work.strides, &work.dilations, &work.pads_begin, &work.pads_end}) {
    if (list->size() != rank - 2)
      check.fail("it has {} strides, {} dilations, {} and {} pads for {} spatial dimensions",
                 work.strides.size(), work.dilations.size(), work.pads_begin.size(),
                 work.pads_end.size(), rank - 2);
    const bool may_be_zero = list == &work.pads_begin || list == &work.pads_end;
    for (const std::uint64_t value : *list)
      if (value > kMaxWindow || (value == 0 && !may_be_zero))
        check.fail("{} is not a possible stride, dilation or pad", value);
  }
  if (work.group == 0 || work.group > kMaxWindow) check.fail("it has {} groups", work.group);
  check.in_range(work.activation, fb::Activation::MAX, "its activation");
  check.in_range(work.math, fb::MathMode::MAX, "its math mode");
  const fb::BufferT& input = check.buffer(work.input, "its input");
  const fb::BufferT& weight = check.buffer(work.weight, "its weight");
  const fb::BufferT& output = check.buffer(work.output, "its output");
  const bool has_narrow_operands = are_narrow(input.dtype, weight.dtype, output.dtype);
  if (!has_narrow_operands && (!is_arithmetic_float(static_cast<DType>(input.dtype)) ||
                               input.dtype != weight.dtype || input.dtype != output.dtype))
    check.fail(
        "its input, weight and output are of types {}, {} and {}; all must be one float type, or "
        "integers of 8 bits and i32",
        to_string(static_cast<DType>(input.dtype)), to_string(static_cast<DType>(weight.dtype)),
        to_string(static_cast<DType>(output.dtype)));
  uses.reads.insert({work.input, work.weight});
  uses.writes.insert(work.output);
  for (const auto& [index, what] : {std::pair(work.bias, "bias"), {work.residual, "residual"}}) {
    if (index < -1) check.fail("its {} is buffer {}", what, index);
    if (index < 0) continue;
    const auto buffer = static_cast<std::uint32_t>(index);
    if (has_narrow_operands) check.fail("a convolution of integers has a {}", what);
    if (check.buffer(buffer, what).dtype != input.dtype)
      check.fail("the {} is not of the input's type", what);
    uses.reads.insert(buffer);
  }
  if (has_narrow_operands && work.activation != fb::Activation::None)
    check.fail("a convolution of integers has an activation");
}

}  // namespace sinter::plan
