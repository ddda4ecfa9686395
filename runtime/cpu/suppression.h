// SPDX-License-Identifier: Apache-2.0
// Which boxes no better one overlaps.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A SuppressionStep of one bound shape. A thread does whole rows, one box after the other beside
/// those that it has kept.
class Suppression {
 public:
  Suppression(const plan::fb::SuppressionStepT& step, const BoundShape& shape, int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const;
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  void run_row(const float* boxes, const std::byte* valid, std::byte* kept, float* work) const;

  std::uint32_t boxes_ = 0, valid_ = 0, kept_ = 0;
  std::int64_t rows_ = 0, length_ = 0;
  float most_ = 0;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
