// SPDX-License-Identifier: Apache-2.0
// Matmuls and convolutions through oneDNN.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A matmul for one bound shape.
class MatmulDnnl {
 public:
  /// `plan` and `shape` must have been verified. Packs the weights. Throws Error(kUnsupported) for
  /// types that no kernel supports.
  MatmulDnnl(const plan::PlanData& plan, const plan::fb::MatmulStepT& step, const BoundShape& shape,
             PackedWeights& weights, int threads);
  ~MatmulDnnl();
  MatmulDnnl(MatmulDnnl&&) noexcept;

  /// Bytes for each thread.
  std::size_t workspace_bytes() const;
  /// Bytes of widened or copied operands.
  std::uint64_t own_bytes() const;
  /// `buffers` holds the address of each of plan.buffers, `workspaces` each thread's memory.
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A convolution for one bound shape.
class ConvDnnl {
 public:
  ConvDnnl(const plan::PlanData& plan, const plan::fb::ConvStepT& step, const BoundShape& shape,
           PackedWeights& weights, int threads);
  ~ConvDnnl();
  ConvDnnl(ConvDnnl&&) noexcept;

  std::size_t workspace_bytes() const;
  /// Bytes of operands converted to channels last.
  std::uint64_t own_bytes() const;
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime::cpu
