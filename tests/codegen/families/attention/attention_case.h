// SPDX-License-Identifier: Apache-2.0
// An attention region that tests of its kernels go through.
#pragma once

#include <vector>

#include "codegen/plan/expr_table.h"
#include "ir/dim/dim.h"

namespace sinter::test {

struct AttentionCase {
  const char* name;
  const char* text;  // inputs named none.. are zero: a mask that lets nothing through
  std::vector<ir::Bindings> sizes = {{}};
  const char* schedule = "";  // empty: as chosen
};

/// A body of scores: 2 * tanh(s).
inline constexpr const char* kCappedBy2 = R"(body(%s) {
    %cap = const f32[] {2}
    %t = Tanh(%s)
    %c = Mul(%t, %cap)
    return %c
  })";

/// What a step's expressions are for these sizes.
inline std::vector<std::int64_t> expressions_of(const codegen::ExprTable& exprs,
                                                const ir::Bindings& sizes) {
  plan::fb::PlanT plan;
  exprs.write(plan);
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
  return plan::evaluate_expressions(plan, symbols);
}

}  // namespace sinter::test
