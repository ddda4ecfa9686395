// Products of many rows whose packed weights are first made floats, in scratch memory: for kernels
// and libraries that multiply no others.
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

/// Rows from which on a product may unpack its weights. With fewer the kernels that read them
/// packed are ahead, since those move a third of the bytes or less.
inline constexpr std::int64_t kUnpackedRows = 65;

/// What a kernel makes of packed weights: a matrix of x's type whose rows are the product's
/// columns, of depth() elements each; what lies behind k or behind the last column is never read.
struct UnpackProgram {
  GemmWeights weights;
  DType type = DType::kFloat16;
  std::int64_t n = 0, k = 0;                        // of the product
  std::uint32_t values = 0, scales = 0, zeros = 0;  // the plan's buffers, packed
  std::uint32_t result = 0;                         // scratch; none for few rows
  std::vector<Condition> conditions;                // when there are rows enough

  std::int64_t blocks() const { return (n + kPackedColumns - 1) / kPackedColumns; }
  std::int64_t depth() const { return packed_depth(k); }
  /// Values, scales and zero points.
  std::vector<std::uint32_t> reads() const;
};

/// For a product with packed weights. Makes the scratch buffer. Nothing, with the reason in
/// `refusal`, where rows are always few or a weight may be beyond x's type.
std::optional<UnpackProgram> plan_unpacking(const GemmProgram& packed, PlanBuffers& buffers,
                                            ExprTable& exprs, std::string& refusal);

/// The product, whose weights are packed or as the graph has them, by the unpacked ones.
GemmProgram with_unpacked_weights(GemmProgram product, const UnpackProgram& unpacking);
plan::fb::MatmulStepT with_unpacked_weights(const plan::fb::MatmulStepT& product,
                                            const UnpackProgram& unpacking, ExprTable& exprs);

/// Everything about the kernel but its buffers, for sharing it.
std::string print_unpacking(const UnpackProgram& program);

/// `programmatic_launch`: see KernelRequest. Its only variant takes all sizes on every GPU.
EmittedKernel emit_unpack(const UnpackProgram& program, const std::string& name,
                          const std::vector<std::string>& origins, ExprTable& exprs,
                          bool programmatic_launch);

}  // namespace sinter::codegen
