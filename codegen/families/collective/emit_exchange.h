// SPDX-License-Identifier: Apache-2.0
// Kernels of collectives of any size: their buffers and the kernel.
#pragma once

#include <array>
#include <cstdint>

#include <sinter/scalar_op.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// What ranks get; OperatorDef "collective" has the same (runtime/operators/collective).
enum class CollectiveKind : std::int64_t { kReduce, kGather, kScatter, kSplitFirst, kSplitLast };

struct ExchangeProblem {
  std::uint32_t from = 0, to = 0, peers = 0;  // plan buffers
  DType type = DType::kFloat32;
  CollectiveKind kind = CollectiveKind::kReduce;
  Combine combine = Combine::kSum;
  std::int64_t ranks = 0;
  std::array<Dim, 5> operand, result;  // a b c d e and a f c g e

  std::string signature() const;
  /// Elements that lie together on both sides.
  Dim row() const;
  /// Elements of a message from one rank to another.
  Dim message() const;
};

EmittedKernel emit_exchange(const ExchangeProblem& problem, const KernelRequest& request,
                            ExprTable& exprs);

}  // namespace sinter::codegen
