// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// One product for one bound shape.
class MatmulDnnl {
 public:
  /// `plan` and `shape` have been checked. Weights are packed here. Throws Error(kUnsupported) for
  /// a type that no product takes.
  MatmulDnnl(const plan::PlanData& plan, const plan::fb::MatmulStepT& step, const BoundShape& shape,
             PackedWeights& weights, int threads);
  ~MatmulDnnl();
  MatmulDnnl(MatmulDnnl&&) noexcept;

  /// Bytes that each thread needs.
  std::size_t workspace_bytes() const;
  /// Of operands that are widened or copied.
  std::uint64_t own_bytes() const;
  /// `buffers` has the address of each of plan.buffers, `workspaces` memory of each thread.
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One convolution for one bound shape.
class ConvDnnl {
 public:
  ConvDnnl(const plan::PlanData& plan, const plan::fb::ConvStepT& step, const BoundShape& shape,
           PackedWeights& weights, int threads);
  ~ConvDnnl();
  ConvDnnl(ConvDnnl&&) noexcept;

  std::size_t workspace_bytes() const;
  /// Of operands that are converted to channels last.
  std::uint64_t own_bytes() const;
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime::cpu
