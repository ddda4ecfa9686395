// Which tactics the step of a product or a convolution gets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_step.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"

namespace sinter::codegen {

/// One tactic: the product by a kernel of our own, as loops, or by the library, what makes its
/// rows before it and what follows it after it unless the kernel does that too.
struct GemmTactic {
  std::string name;
  std::vector<Condition> conditions;
  std::optional<GemmProgram> kernel;
  std::optional<LoopProgramT> loops;
  bool then_epilogue = false, prologue_first = false;
  std::optional<UnpackProgram> unpacking = {};  // what makes its weights floats first

  bool kernel_has_prologue() const { return kernel && kernel->rows; }
};

/// What is asked about kernels of our own.
struct GemmKernelQueries {
  /// The product if some schedule takes it; else `refusal` says why not.
  std::function<std::optional<GemmProgram>(std::optional<GemmProgram>, std::string& refusal)>
      accept;
  /// Sizes up to which a kernel may beat the library.
  std::function<std::vector<Condition>(const GemmProgram&)> limits;
  bool have_warpgroups = false;  // some GPU of the plan's multiplies by warpgroups
  /// Whether the product's right operand, of 16 bits, may be packed.
  std::function<bool(const GemmProgram&)> takes_elements;
  /// Whether its kernels sum up in one order (see has_one_order).
  std::function<bool(const GemmProgram&)> has_one_order;
  /// How the packed weights of a product are unpacked for ways that need that; nothing if none do.
  std::function<std::optional<UnpackProgram>(const GemmProgram& packed)> unpack;
};

/// Best guess first; the last has no conditions. The library of matrix products is always there and
/// is the last way of theirs. The library of convolutions may be missing where the plan runs, and
/// that of products takes few of those of 8 bits: their last way is a kernel of our own, as loops
/// if nothing else takes all sizes. A product whose rows are summed up in one order has one way, as
/// what timing takes may be another for each number of rows. What stands against a kernel or a
/// library is in the name of the last. `requested`: CompileOptions::gemm.
std::vector<GemmTactic> gemm_tactics(const GemmStep& product, const std::string& requested,
                                     const GemmKernelQueries& kernels);

/// True if `requested` is a schedule of one kernel; of one by warpgroups.
bool is_schedule(const std::string& requested);
bool is_warpgroup_schedule(const std::string& requested);

/// How CompileOptions::gemm makes the kernel that is part number `part` of the tactic called
/// `name`, and no other way to do the step; nothing if it cannot.
std::optional<std::string> tuning_tactic(const std::string& name, std::size_t part);

}  // namespace sinter::codegen
