// SPDX-License-Identifier: Apache-2.0
// GEMMs of many rows whose packed weights are first unpacked to scratch memory, for kernels and
// libraries that take only floats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

/// Row count from which a GEMM may unpack its weights. Below, kernels that read packed weights are
/// faster, as they move at most a third of the bytes.
inline constexpr std::int64_t kUnpackedRows = 65;

/// The unpacking kernel: its result is a matrix of x's type, whose rows are the GEMM's columns with
/// depth() elements each. Elements past k or the last column are never read.
struct UnpackProgram {
  GemmWeights weights;
  DType type = DType::kFloat16;
  std::int64_t n = 0, k = 0;                                     // of the GEMM
  std::uint32_t values = 0, scales = 0, zeros = 0, factors = 0;  // the plan's buffers, packed
  std::uint32_t result = 0;                                      // scratch; empty for few rows
  std::vector<Condition> conditions;                             // enough rows

  std::int64_t blocks() const { return (n + kPackedColumns - 1) / kPackedColumns; }
  std::int64_t depth() const { return packed_depth(k); }
  /// Buffers of values, scales and zero points or factors.
  std::vector<std::uint32_t> reads() const;
};

/// Plans the unpacking for a GEMM with packed weights and allocates the scratch buffer. Nothing,
/// with the reason in `refusal`, if rows are always few or a weight may exceed x's type.
std::optional<UnpackProgram> plan_unpacking(const GemmProgram& packed, PlanBuffers& buffers,
                                            ExprTable& exprs, std::string& refusal);

/// The GEMM with the unpacked weights in place of the packed ones or of the graph's.
GemmProgram with_unpacked_weights(GemmProgram product, const UnpackProgram& unpacking);
plan::fb::MatmulStepT with_unpacked_weights(const plan::fb::MatmulStepT& product,
                                            const UnpackProgram& unpacking, ExprTable& exprs);

/// Everything about the kernel except its buffers; equal texts share a kernel.
std::string print_unpacking(const UnpackProgram& program);

/// `programmatic_launch`: see KernelRequest. One variant accepts all sizes on every GPU.
EmittedKernel emit_unpack(const UnpackProgram& program, const std::string& name,
                          const std::vector<std::string>& origins, ExprTable& exprs,
                          bool programmatic_launch);

}  // namespace sinter::codegen
