// SPDX-License-Identifier: Apache-2.0
// GEMMs through cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/library_context.h"
#include "runtime/plan/matmul_problem.h"

namespace sinter::runtime {

/// Base addresses of a GEMM's buffers, in the problem's order: a is the problem's a.
struct MatmulAddresses {
  CUdeviceptr a = 0, b = 0, c = 0, d = 0, bias = 0;
  /// Size of d's buffer if it is the user's and may be written only by runs: candidates are then
  /// timed on scratch memory of that size. 0: the buffer is the session's own.
  std::uint64_t foreign_d_bytes = 0;
};

/// A GEMM with addresses and an algorithm, ready to be launched or captured.
class MatmulLaunch {
 public:
  /// Chooses the algorithm: the stored one if the library still accepts it, else the fastest
  /// candidate, which is timed on the context's stream and stored. Considers only deterministic
  /// algorithms that accumulate in the compute type. Throws Error(kUnsupported) for types or
  /// epilogues that the library lacks, Error(kInternal) for an activation that the compiler should
  /// not emit.
  MatmulLaunch(const LibraryContext& context, const plan::MatmulProblem& problem,
               const MatmulAddresses& addresses);
  ~MatmulLaunch();
  MatmulLaunch(MatmulLaunch&&) noexcept;

  void launch(CUstream stream) const;
  std::size_t calls() const;
  /// Bytes used of the context's workspace.
  std::uint64_t workspace_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime
