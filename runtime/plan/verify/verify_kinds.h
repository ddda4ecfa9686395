// SPDX-License-Identifier: Apache-2.0
// Kinds of work that have files of their own, and what these share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/verify/checker.h"

namespace sinter::plan {

// Each adds what the work touches to `uses`, and throws what Checker::fail does.
void verify_kernel(const Checker& check, const fb::KernelStepT& work, const fb::StepT& step,
                   Uses& uses);
void verify_matmul(const Checker& check, const fb::MatmulStepT& work, Uses& uses);
void verify_conv(const Checker& check, const fb::ConvStepT& work, Uses& uses);
void verify_host(const Checker& check, const fb::HostStepT& work, Uses& uses);
void verify_operator(const Checker& check, const fb::OperatorStepT& work, Uses& uses);
void verify_attention(const Checker& check, const fb::AttentionStepT& work, Uses& uses);

/// Of a kernel, or of a tactic.
void verify_conditions(const Checker& check, const std::vector<fb::Condition>& conditions);
/// A matrix with `batch` dimensions in front, whichever of its strides is one.
void verify_strided(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                    const char* what);
/// Whether an expression is the constant 1.
bool is_one(const Checker& check, std::uint32_t expression);

/// Floats of up to 32 bits.
bool is_narrow(DType type);
/// Integers of 8 bits, of either sign, multiplied into their sums.
bool are_narrow(std::uint8_t a, std::uint8_t b, std::uint8_t result);

}  // namespace sinter::plan
