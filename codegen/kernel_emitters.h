// Emitters of the kernels that steps share, one for each kind of program, with a plan's options;
// none in a build for the CPU alone.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"
#include "codegen/families/horizontal/horizontal_lowering.h"
#include "codegen/kernel_groups.h"

namespace sinter::codegen {

/// Must outlive what it makes.
class KernelEmitters {
 public:
  /// Throws Error(kUsage) if the options ask for a schedule of no family.
  KernelEmitters(const CompileOptions& options, ExprTable& exprs);

  /// What holds for the kernel that is emitted next: which schedules take the rules' place, and
  /// which buffers of its group's first step no step writes.
  void begin(const ScheduleWish& wish, std::set<std::uint32_t> given) {
    wish_ = wish;
    given_ = std::move(given);
  }

  EmitKernel loops(plan::fb::LoopProgramT program) const;
  EmitKernel horizontals(HorizontalProgram program) const;
  EmitKernel attentions(AttentionProgram program) const;
  EmitKernel unpacking(const UnpackProgram& program) const;
  EmitKernel product(const ProductProgram& product) const;

  /// `types`: of the product's buffers without the product itself.
  KernelRequest product_request(const ProductProgram& product, const std::string& name,
                                std::vector<std::string> origins, std::vector<DType> types) const;

 private:
  KernelRequest request(const std::string& name, const std::vector<std::string>& origins,
                        std::vector<DType> types) const;
  bool is_attention_schedule() const { return options_.schedule.starts_with("attention "); }

  const CompileOptions& options_;
  ExprTable& exprs_;
  ScheduleWish wish_;
  std::set<std::uint32_t> given_;
};

}  // namespace sinter::codegen
