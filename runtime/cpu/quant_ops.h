// Loops over quantised weights, for the CPU's own vector instructions, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan_generated.h"

namespace sinter::runtime::cpu {

/// Weights [n, k] of few bits, as Quantisation in plan.fbs says. Scales are [n, groups], and so are
/// the zero points, of which there is one kind or none.
struct QuantRows {
  const std::byte* values = nullptr;
  std::int64_t pitch = 0;  // bytes from row to row
  int bits = 8;
  std::int64_t k = 0, group = 1, groups = 1;
  const float* scales = nullptr;
  const float* float_zeros = nullptr;
  const std::int8_t* zeros = nullptr;
};

/// Most rows of x that dot_quantised takes.
inline constexpr std::int64_t kMostDirectRows = 4;
/// True if dot_quantised takes the groups.
bool dots_directly(const QuantRows& weights);
/// Floats that dot_quantised wants for each row of x: with 4 bits the elements of even k come
/// first, and from quant_half(k) on those of odd k.
std::int64_t quant_half(std::int64_t k);

/// y[m * y_pitch + r] = sum over k of x[m][k] * w[first + r][k], for r < rows and m < count, which
/// is at most kMostDirectRows.
void dot_quantised(const QuantRows& weights, std::int64_t first, std::int64_t rows,
                   const float* const* x, std::int64_t count, float* y, std::int64_t y_pitch);

/// to[(i - begin) * to_pitch + c] = w[first + c][i] for c < columns and begin <= i < end, and zero
/// for the c from `columns` to kPanelStep; `begin` is even.
void dequantise_panel(const QuantRows& weights, std::int64_t first, std::int64_t columns,
                      std::int64_t begin, std::int64_t end, float* to, std::int64_t to_pitch);

/// values = activation(alpha * values + bias + residual); bias and residual may be null.
void finish_values(float* values, std::int64_t count, float alpha, const float* bias,
                   const float* residual, plan::fb::Activation activation);

}  // namespace sinter::runtime::cpu
