// SPDX-License-Identifier: Apache-2.0
// A slow interpreter of loop programs, the tests' definition of what they mean.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/tensor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::test {

/// Memory of the plan's buffers while steps run: bytes by plan buffer.
using Memory = std::vector<std::vector<std::byte>>;

/// What float32 values are between operators: float64, or rounded after each operator.
enum class Between { kFloat64, kRounded };

/// Runs `program`. `types` are the buffers' element types and `expressions` the values of the
/// plan's expressions. Throws std::out_of_range if an address leaves its buffer.
void interpret(const plan::fb::LoopProgramT& program, std::span<const DType> types,
               std::span<const std::int64_t> expressions, Memory& memory,
               Between between = Between::kFloat64);

/// Runs a product, element by element, in double.
void interpret(const plan::fb::MatmulStepT& step, std::span<const DType> types,
               std::span<const std::int64_t> expressions, Memory& memory);

}  // namespace sinter::test
