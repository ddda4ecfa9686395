// SPDX-License-Identifier: Apache-2.0
// Chooses the tactics of a GEMM's or convolution's step.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_step.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"

namespace sinter::codegen {

/// One tactic: the GEMM by our kernel, as loops, or by the library. A prologue kernel may precede
/// it, an epilogue kernel may follow it.
struct GemmTactic {
  std::string name;
  std::vector<Condition> conditions;
  std::optional<GemmProgram> kernel;
  std::optional<LoopProgramT> loops;
  bool then_epilogue = false, prologue_first = false;
  std::optional<UnpackProgram> unpacking = {};  // dequantizes its weights first

  bool kernel_has_prologue() const { return kernel && kernel->prologue; }
};

/// Questions about our kernels.
struct GemmKernelQueries {
  /// The GEMM if some schedule accepts it; otherwise `refusal` has the reason.
  std::function<std::optional<GemmProgram>(std::optional<GemmProgram>, std::string& refusal)>
      accept;
  /// Sizes up to which a kernel may be faster than the library.
  std::function<std::vector<Condition>(const GemmProgram&)> limits;
  bool have_warpgroups = false;  // some GPU of the plan has wgmma
  /// Whether the GEMM's right operand, of 16 bits, may be packed.
  std::function<bool(const GemmProgram&)> takes_elements;
  /// Whether its kernels have a fixed summation order (see has_one_order).
  std::function<bool(const GemmProgram&)> has_one_order;
  /// The program that unpacks a GEMM's weights for tactics that need it; nothing if none do.
  std::function<std::optional<UnpackProgram>(const GemmProgram& packed)> unpack;
};

/// The tactics, best guess first; the last has no conditions. For GEMMs the library is always
/// present and comes last. For convolutions the library may be missing at run time, and for 8-bit
/// GEMMs it accepts few sizes: their last tactic is our kernel, or loops if no kernel accepts all
/// sizes. A GEMM with a fixed summation order has one tactic, as timing could choose different ones
/// for different row counts. The last tactic's name includes why a kernel or library was refused.
/// `requested`: CompileOptions::gemm.
std::vector<GemmTactic> gemm_tactics(const GemmStep& product, const std::string& requested,
                                     const GemmKernelQueries& kernels);

/// True if `requested` is a schedule of one kernel; of a warpgroup kernel.
bool is_schedule(const std::string& requested);
bool is_warpgroup_schedule(const std::string& requested);

/// The CompileOptions::gemm that selects the kernel of part `part` of tactic `name`, and no other
/// tactic; nothing if there is none.
std::optional<std::string> tuning_tactic(const std::string& name, std::size_t part);

}  // namespace sinter::codegen
