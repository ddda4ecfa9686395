// SPDX-License-Identifier: Apache-2.0
// A matrix product with sizes bound, in the terms of a column-major library. No CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A column-major matrix as stored, and whether the product takes it transposed.
struct LibraryMatrix {
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t leading = 0;       // elements from one column to the next, at least `rows`
  std::int64_t batch_stride = 0;  // elements
  bool transposed = false;

  bool operator==(const LibraryMatrix&) const = default;
};

/// d = activation(alpha * op(a) op(b) + bias + c), column-major, d of m rows and n columns, for a
/// strided batch, in one or more library calls. The plan's row-major d[M, N] = A B is computed as
/// d^T = B^T A^T, so that `a` here is the plan's b; the plan's bias along its columns then lies
/// along the rows of d, which is what libraries offer.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  LibraryMatrix a, b, c, d;  // c: the residual, if there is one; a, b: unless k is 0
  bool swapped = false;      // a is the plan's b
  bool has_residual = false, has_bias = false;
  fb::Activation activation = fb::Activation::None;
  fb::MathMode math = fb::MathMode::Default;
  float alpha = 1;

  /// Element offsets of one library call. One batch dimension (the longest) is the library's;
  /// those that can neither be merged with it nor with the rows are walked by calls.
  struct Call {
    std::int64_t a = 0, b = 0, c = 0, d = 0;
  };
  std::vector<Call> calls;  // empty: the result has no elements

  /// Equal for problems that an algorithm suits alike (addresses apart).
  std::string key() const;
};

/// Throws Error(kInvalidPlan) for sizes that are negative or reach beyond a buffer, and for
/// matrices that no library layout describes.
MatmulProblem make_matmul_problem(const fb::PlanT& plan, const fb::MatmulStepT& step,
                                  std::span<const std::int64_t> expressions);

}  // namespace sinter::plan
