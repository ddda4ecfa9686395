// SPDX-License-Identifier: Apache-2.0
// A GEMM with bound sizes, in the terms of a column-major library. No CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A column-major matrix as stored, and whether the GEMM transposes it.
struct LibraryMatrix {
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t leading = 0;       // leading dimension: elements between columns, at least `rows`
  std::int64_t batch_stride = 0;  // elements
  bool transposed = false;

  bool operator==(const LibraryMatrix&) const = default;
};

/// d = activation(alpha * op(a) op(b) + bias + c), column-major, with d of m rows and n columns,
/// for a strided batch, in one or more library calls. The plan's row-major d[M, N] = A B is
/// computed as d^T = B^T A^T, so `a` here is the plan's b. The plan's bias along columns becomes a
/// bias along the rows of d, which libraries support.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  LibraryMatrix a, b, c, d;  // c: the residual, if there is one; a and b are unset if k is 0
  bool swapped = false;      // a is the plan's b
  bool has_residual = false, has_bias = false;
  fb::Activation activation = fb::Activation::None;
  fb::MathMode math = fb::MathMode::Default;
  float alpha = 1;

  /// Element offsets of one library call. The longest batch dimension is the library's; separate
  /// calls cover those that merge neither with it nor with the rows.
  struct Call {
    std::int64_t a = 0, b = 0, c = 0, d = 0;
  };
  std::vector<Call> calls;  // empty: the result has no elements

  /// Equal for problems that can share an algorithm (apart from addresses).
  std::string key() const;
};

/// Throws Error(kInvalidPlan) for negative sizes, sizes beyond a buffer, and matrices that no
/// library layout describes.
MatmulProblem make_matmul_problem(const fb::PlanT& plan, const fb::MatmulStepT& step,
                                  std::span<const std::int64_t> expressions);

}  // namespace sinter::plan
