// SPDX-License-Identifier: Apache-2.0
// Matmuls of few rows with float32 weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A matmul with few rows for one bound shape. Weights are packed in panels of 64 columns; each
/// panel is read once for every 6 rows. Runs alternate direction (serpentine order), so that each
/// starts with what the previous one left in a core's cache.
class MatmulPanels {
 public:
  /// True for one matrix with few, dense rows times weights.
  static bool takes(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                    const BoundShape& shape);
  /// `plan` and `shape` must have been verified.
  MatmulPanels(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
               const BoundShape& shape, PackedWeights& weights, int threads);

  /// Bytes for each thread, 64-byte aligned.
  std::size_t workspace_bytes() const;
  /// `buffers` holds the address of each of plan.buffers.
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Rows {
    std::uint32_t buffer = 0;
    std::int64_t offset = 0, pitch = 0;  // elements
    float* at(std::span<std::byte* const> buffers, std::int64_t row) const {
      return reinterpret_cast<float*>(buffers[buffer]) + offset + row * pitch;
    }
  };
  static Rows rows_of(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values);
  void multiply(std::int64_t panel, std::span<std::byte* const> buffers, float* sums) const;

  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  Rows a_, d_, residual_;
  bool has_residual_ = false, backwards_ = false;
  std::int64_t bias_ = -1;
  float alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  std::shared_ptr<const PackedWeights::Entry> packed_;
  const float* panels_ = nullptr;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
