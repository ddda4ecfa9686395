// SPDX-License-Identifier: Apache-2.0
// Loops over quantized weights, with vector instructions chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan_generated.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/panel_weights.h"

namespace sinter::runtime::cpu {

/// y[m * y_pitch + r] = sum over k of x[m][k] * w[r][k], for all rows r of a panel and m < count. A
/// sum does not depend on other rows of x.
void dot_quantized(const QuantPanels& weights, std::int64_t panel, const float* const* x,
                   std::int64_t count, float* y, std::int64_t y_pitch);

/// Minimum number of rows of x for multiply_quantized, and columns of `made`.
inline constexpr std::int64_t kQuantRows = 6, kQuantColumns = 64;
/// Adds to y[m * y_pitch + c] the sum over begin <= i < end of x[m][i - begin] * w[c][i], for m <
/// count. `columns` are whole panels from `panel` on, at most kQuantColumns. Leaves the dequantized
/// weights in `made`: (end - begin) rows of kQuantColumns.
void multiply_quantized(const QuantPanels& weights, std::int64_t panel, std::int64_t columns,
                        std::int64_t begin, std::int64_t end, const float* const* x,
                        std::int64_t count, float* y, std::int64_t y_pitch, float* made);

/// The epilogue: values = activation(alpha * values + bias + residual); bias and residual may be
/// null.
void finish_values(float* values, std::int64_t count, float alpha, const float* bias,
                   const float* residual, plan::fb::Activation activation);

}  // namespace sinter::runtime::cpu
