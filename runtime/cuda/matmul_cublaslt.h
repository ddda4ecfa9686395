// Matrix products through cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/flush_buffer.h"
#include "runtime/cuda/matmul_problem.h"
#include "runtime/cuda/tuning_cache.h"

namespace sinter::runtime {

/// What products share in a session.
struct MatmulContext {
  graphs::ContextPtr context;
  std::shared_ptr<const CublasLtHandle> library;
  CUdeviceptr workspace = 0;
  std::uint64_t workspace_bytes = 0;
  std::shared_ptr<TuningCache> tuning;
  CUstream stream = nullptr;  // for timing candidates
  FlushBuffer* flush = nullptr;
};

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
  MatmulLaunch(const MatmulContext& context, const MatmulProblem& problem,
               const MatmulAddresses& addresses);
  ~MatmulLaunch();
  MatmulLaunch(MatmulLaunch&&) noexcept;

  void launch(CUstream stream) const;
  std::size_t calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Names GPU, driver and library: algorithms are used only where they were chosen.
std::string tuning_environment(const graphs::Context& context, const CublasLt& library);

}  // namespace sinter::runtime
