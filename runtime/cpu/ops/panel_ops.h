// SPDX-License-Identifier: Apache-2.0
// GEMMs of cache-sized blocks, mostly float32, with vector instructions chosen at run time. A sum
// depends only on its own elements.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sinter::runtime::cpu {

/// Panel widths are multiples of 16 columns, which fits every instruction set.
inline constexpr std::int64_t kPanelStep = 16;

constexpr std::int64_t rounded_up_to(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// Maximum width of a panel, which is also that of an accumulator tile. The last panel's width is
/// rounded up to kPanelStep. panel_width(): width of the panel that starts at column `first`.
inline constexpr std::int64_t kPanelColumns = 64;
constexpr std::int64_t panel_width(std::int64_t n, std::int64_t first) {
  return std::min(kPanelColumns, rounded_up_to(n - first, kPanelStep));
}

/// y[m * y_pitch + n] += sum over i < k of x[m][i] * b[i * b_pitch + n], for m < count and n <
/// columns. `columns` is a multiple of kPanelStep; x[m] is a row of floats.
void add_products(const float* const* x, std::int64_t count, const float* b, std::int64_t b_pitch,
                  std::int64_t columns, std::int64_t k, float* y, std::int64_t y_pitch);

/// The same for float64, and for integers, which wrap.
void add_products(const double* const* x, std::int64_t count, const double* b, std::int64_t b_pitch,
                  std::int64_t columns, std::int64_t k, double* y, std::int64_t y_pitch);
void add_products(const std::uint32_t* const* x, std::int64_t count, const std::uint32_t* b,
                  std::int64_t b_pitch, std::int64_t columns, std::int64_t k, std::uint32_t* y,
                  std::int64_t y_pitch);
void add_products(const std::uint64_t* const* x, std::int64_t count, const std::uint64_t* b,
                  std::int64_t b_pitch, std::int64_t columns, std::int64_t k, std::uint64_t* y,
                  std::int64_t y_pitch);

/// y[m * y_pitch + r] += sum over i < k of x[m][i] * t[r * t_pitch + i], for r < rows, m < count.
/// Faster than transposing t if there are few m.
void add_dots(const float* const* x, std::int64_t count, const float* t, std::int64_t t_pitch,
              std::int64_t rows, std::int64_t k, float* y, std::int64_t y_pitch);

/// to[i * to_pitch + r] = from[r * from_pitch + i], for r < rows and i < columns.
void transpose_floats(const float* from, std::int64_t from_pitch, std::int64_t rows,
                      std::int64_t columns, float* to, std::int64_t to_pitch);

/// State of one row of an online softmax: the maximum score, the sum of exp(score - maximum), and
/// the weighted sum of values. `columns` is a multiple of kPanelStep. Values are rescaled when the
/// maximum grows.
struct SoftmaxRow {
  float greatest, sum;
  float* values;
  std::int64_t columns;
};
/// Adds scores to the row and replaces them in place by their weights, exp(score - maximum).
void add_scores(float* scores, std::int64_t count, SoftmaxRow& row);

/// values = values * factor.
void scale_values(float* values, std::int64_t count, float factor);

}  // namespace sinter::runtime::cpu
