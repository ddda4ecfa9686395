// SPDX-License-Identifier: Apache-2.0
// Quantizes float weights, to integers or 8-bit floats.
#pragma once

#include <cstdint>

#include "fusion/context.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// Weights [n, k] of any float type, with scales (and zero points) of the least squared error for
/// each group among the candidates: the full range, and smaller ranges where outliers saturate,
/// each refined by the best scale for the integers found. Non-finite weights throw
/// Error(kInvalidModel). For floats, the largest magnitude of a group maps to the largest number,
/// 448.
ir::ScaledTensor quantize(const Tensor& weights, const WeightOptions& options);

/// The same with error compensation for matmuls with inputs x (round_compensated); `moments`,
/// float32 [k, k], is the mean of x'x.
ir::ScaledTensor quantize(const Tensor& weights, const WeightOptions& options,
                          const Tensor& moments);

/// |exact - rounded| / |exact| in the 2-norm; 0 if both are zero.
double weight_error(const Tensor& exact, const Tensor& rounded);

/// The same for x * exact' and x * rounded', with `rows` rows of normal deviates of a fixed seed.
double output_error(const Tensor& exact, const Tensor& rounded, std::int64_t rows = 4);
/// The same for inputs x with `moments`, the mean of x'x.
double output_error(const Tensor& exact, const Tensor& rounded, const Tensor& moments);

}  // namespace sinter::fusion
