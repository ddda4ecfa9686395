// The functions that make what an attention has in front: its queries, its new rows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_lowering.h"

namespace sinter::codegen {

/// A function of `buffers`, `sizes`, the number of a vector of elements, which it computes and
/// stores, and what waits for the step in front: it calls that once, behind loads of what no step
/// writes where these come first. Else there may be one of buffers and sizes that has the L2 fetch
/// such.
struct PrologueFunction {
  std::string name, text;
  std::string fetch;                   // the other's name; empty: there is none
  std::vector<std::uint32_t> buffers;  // AttentionProgram's or kPrologueValue: pointers
  std::vector<std::uint32_t> sizes;    // expressions
  int vector = 1;                      // elements
  const char* number = "u32";          // the type of a vector's
};

/// `rows` of `width` elements each of an item are made vector by vector. `facts`: types of the
/// attention's buffers, which of them no step writes, and what holds for the kernel as a whole.
PrologueFunction prologue_function(const AttentionProgram& attention, const PrologueOperand& made,
                                   std::int64_t width, const std::string& name,
                                   const KernelRequest& facts, ExprTable& exprs);

}  // namespace sinter::codegen
