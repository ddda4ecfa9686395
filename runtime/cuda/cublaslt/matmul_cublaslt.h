// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/library_context.h"
#include "runtime/plan/matmul_problem.h"

namespace sinter::runtime {

/// Base addresses of a product's buffers, in the order of the problem: a is the problem's a.
struct MatmulAddresses {
  CUdeviceptr a = 0, b = 0, c = 0, d = 0, bias = 0;
  /// Bytes of d's buffer if it is the user's, which nothing but a run may write to: candidates are
  /// then timed on scratch memory of that size. Zero: d is the session's own.
  std::uint64_t foreign_d_bytes = 0;
};

/// A product with addresses and an algorithm, ready to be launched or captured.
class MatmulLaunch {
 public:
  /// Chooses the algorithm: the stored one for this problem if the library still takes it, else the
  /// fastest of the library's candidates, timed on the context's stream and stored. Only
  /// deterministic algorithms that accumulate in the compute type are considered. Throws
  /// Error(kUnsupported) for types or an epilogue that the library lacks, Error(kInternal) for an
  /// activation that the compiler should not have put here.
  MatmulLaunch(const LibraryContext& context, const plan::MatmulProblem& problem,
               const MatmulAddresses& addresses);
  ~MatmulLaunch();
  MatmulLaunch(MatmulLaunch&&) noexcept;

  void launch(CUstream stream) const;
  std::size_t calls() const;
  /// Of the context's workspace.
  std::uint64_t workspace_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime
