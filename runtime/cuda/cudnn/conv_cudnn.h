// SPDX-License-Identifier: Apache-2.0
// Convolutions through cuDNN. This header includes none of cuDNN's: a build without them compiles
// cudnn_absent.cpp instead of the sources that need them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/cuda/cudnn/conv_problem.h"
#include "runtime/cuda/cudnn/cudnn_info.h"
#include "runtime/cuda/library_context.h"

namespace sinter::runtime {

/// Base addresses of a convolution's buffers, aligned to 16 bytes.
struct ConvAddresses {
  CUdeviceptr input = 0, weight = 0, bias = 0, residual = 0, output = 0;
  /// Size of the output's buffer if it is the user's and may be written only by runs: candidates
  /// are then timed on scratch memory of that size. 0: the buffer is the session's own.
  std::uint64_t foreign_output_bytes = 0;
};

/// A convolution with addresses and an engine, ready to be launched or captured.
class ConvLaunch {
 public:
  /// Chooses the engine: the stored one if the library still accepts it, else the fastest
  /// candidate, which is timed on the context's stream and stored. The engine includes bias,
  /// residual and activation. Considers only deterministic engines that accumulate in float32
  /// (float64 for float64) and do not round operands (except Tf32). Throws Error(kUnsupported),
  /// naming the problem, if there is none.
  ConvLaunch(const LibraryContext& context, const ConvProblem& problem,
             const ConvAddresses& addresses);
  ~ConvLaunch();
  ConvLaunch(ConvLaunch&&) noexcept;

  void launch(CUstream stream) const;
  /// "cuDNN engine 41 (2=4, 13=1), 131 bytes of workspace": cuDNN's numbers of the engine and its
  /// knobs.
  std::string describe() const;
  /// Bytes used of the context's workspace.
  std::uint64_t workspace_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime
