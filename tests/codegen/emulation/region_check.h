// SPDX-License-Identifier: Apache-2.0
// Lowers a graph as if it were a region's body, interprets it and compares with the reference.
#pragma once

#include <string>
#include <string_view>

#include "codegen/plan/expr_table.h"
#include "ir/graph.h"
#include "tests/support/loop_interpreter.h"
#include "tests/support/random_inputs.h"

namespace sinter::test {

/// Inputs are buffers 0, 1, .. in order, outputs those behind.
struct Lowered {
  plan::fb::LoopProgramT program;
  std::string listing;
};
Lowered lower(const ir::Graph& body, codegen::ExprTable& exprs);
/// The listing of a region's body in the text form.
std::string listing_of_text(const char* text);
/// The same of the one of `cases`, which have `name` and `text`, that is called `name`.
template <typename Cases>
std::string listing_in(const Cases& cases, std::string_view name) {
  for (const auto& test : cases)
    if (test.name == name) return listing_of_text(test.text);
  return "";
}

/// Empty if the region's outputs equal the reference's; else what differs.
std::string check_region(const ir::Graph& body, const ir::Bindings& symbols,
                         std::uint64_t seed = 1);
/// The same for a body of kind "matmul".
std::string check_matmul(const ir::Graph& body, const ir::Bindings& symbols,
                         std::uint64_t seed = 1);
/// The same for a body of kind "gemm" around a convolution, as loops.
std::string check_conv_loops(const ir::Graph& body, const ir::Bindings& symbols,
                             std::uint64_t seed = 1);

}  // namespace sinter::test
