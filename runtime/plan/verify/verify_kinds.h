// SPDX-License-Identifier: Apache-2.0
// Kinds of work that are verified in separate files, and shared helpers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/verify/checker.h"

namespace sinter::plan {

// Each function adds the buffers that the work uses to `uses`, and throws as Checker::fail does.
void verify_kernel(const Checker& check, const fb::KernelStepT& work, const fb::StepT& step,
                   Uses& uses);
void verify_matmul(const Checker& check, const fb::MatmulStepT& work, Uses& uses);
void verify_conv(const Checker& check, const fb::ConvStepT& work, Uses& uses);
void verify_host(const Checker& check, const fb::HostStepT& work, Uses& uses);
void verify_operator(const Checker& check, const fb::OperatorStepT& work, Uses& uses);
void verify_attention(const Checker& check, const fb::AttentionStepT& work, Uses& uses);

/// Conditions of a kernel or a tactic.
void verify_conditions(const Checker& check, const std::vector<fb::Condition>& conditions);
/// A matrix with `batch` leading dimensions; either of its strides may be 1.
void verify_strided(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                    const char* what);
/// Whether an expression is the constant 1.
bool is_one(const Checker& check, std::uint32_t expression);

/// Floats of up to 32 bits.
bool is_narrow(DType type);
/// 8-bit integers, signed or unsigned, with 32-bit sums.
bool are_narrow(std::uint8_t a, std::uint8_t b, std::uint8_t result);

}  // namespace sinter::plan
