// SPDX-License-Identifier: Apache-2.0
// Chooses the tactics of a GEMM's or convolution's step.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_step.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"

namespace sinter::codegen {

/// What CompileOptions::gemm asks for.
struct GemmRequest {
  enum class Kind {
    kAny,
    kLibrary,
    kDequantized,
    kAlone,  // our kernel, and an epilogue kernel
    kWarpSpecialized,
    kWarpSpecializedAlone,
    kSchedule,
  };
  Kind kind = Kind::kAny;
  std::string schedule;                // of kSchedule
  const GemmKernel* kernel = nullptr;  // of the schedule

  /// Parses a tactic's word or a kernel's schedule. Throws Error(kUsage) for other text.
  explicit GemmRequest(const std::string& text = {});
  std::string to_string() const;

  bool is(Kind one) const { return kind == one; }
  bool is_warpgroup_schedule() const { return kernel != nullptr && kernel->by_warpgroups; }
  bool is_small_m_schedule() const {
    return kernel == &kSmallMKernel || kernel == &kInt8GemvKernel;
  }
};

/// What computes the GEMM.
enum class GemmTacticKind { kGemm, kWarpSpecialized, kLibrary, kCudnn, kLoops };

/// One tactic: the GEMM by our kernel, as loops, or by the library. A prologue kernel may precede
/// it, an epilogue kernel may follow it.
struct GemmTactic {
  GemmTacticKind kind = GemmTacticKind::kLibrary;
  bool then_epilogue = false, prologue_first = false;
  std::optional<GemmProgram> kernel = {};
  std::optional<LoopProgramT> loops = {};
  std::vector<Condition> conditions = {};
  std::optional<UnpackProgram> unpacking = {};  // dequantizes its weights first
  std::string refusals = {};                    // "; no library: .."

  bool kernel_has_prologue() const { return kernel && (kernel->prologue || kernel->gathered); }
  /// "prologue, then gemm, then its epilogue".
  std::string name() const;
};

/// Questions about our kernels.
struct GemmKernelQueries {
  /// The GEMM if some schedule accepts it; otherwise `refusal` has the reason.
  std::function<std::optional<GemmProgram>(std::optional<GemmProgram>, std::string& refusal)>
      accept;
  /// Sizes up to which a kernel may be faster than the library.
  std::function<std::vector<Condition>(const GemmProgram&)> limits;
  /// Numbers of rows that are few for each group.
  std::function<std::vector<Condition>(const GemmProgram&)> few_of_groups;
  /// Numbers of tokens whose rows a kernel adds up.
  std::function<std::vector<Condition>(const GemmProgram&)> few_tokens;
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
std::vector<GemmTactic> gemm_tactics(const GemmStep& product, const GemmRequest& requested,
                                     const GemmKernelQueries& kernels);

/// The CompileOptions::gemm that selects the kernel of part `part` of a tactic, and no other
/// tactic; "gemm": any schedule of it. Nothing if there is none.
std::optional<std::string> tuning_request(const GemmTactic& tactic, std::size_t part);

}  // namespace sinter::codegen
