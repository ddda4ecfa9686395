// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/expr_table.h"

#include <gtest/gtest.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

using ir::Dim;

ir::Ranges two_symbols() { return {{"seq", {1, 512, nullptr}}, {"batch", {1, 64, nullptr}}}; }

std::vector<std::int64_t> values(const ExprTable& table, std::vector<std::int64_t> symbols) {
  plan::fb::PlanT plan;
  table.write(plan);
  return plan::evaluate_expressions(plan, symbols);
}

TEST(ExprTable, EqualExpressionsShareAnIndex) {
  ExprTable table(two_symbols());
  const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  EXPECT_EQ(table.intern(batch * seq), table.intern(seq * batch));
  EXPECT_EQ(table.intern(batch + seq - batch), table.intern(seq));
  EXPECT_NE(table.intern(batch), table.intern(seq));
  const std::size_t size = table.size();
  table.intern(batch * seq);
  EXPECT_EQ(table.size(), size);
}

TEST(ExprTable, ValuesAreTheDims) {
  ExprTable table(two_symbols());
  const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  const std::vector<Dim> dims = {
      Dim(7),
      Dim(-3) * batch,
      seq * seq * Dim(2) - batch + Dim(5),
      Dim(4) - seq,
      ir::floor_div(seq + Dim(3), Dim(4), table.ranges()) * batch,
      ir::min(seq, batch * Dim(3), table.ranges()),
      ir::max(seq - Dim(100), Dim(0), table.ranges()) + Dim(1),
  };
  std::vector<std::uint32_t> indices;
  for (const Dim& dim : dims) indices.push_back(table.intern(dim));
  for (const std::int64_t b : {1, 8, 64}) {
    for (const std::int64_t s : {1, 63, 512}) {
      const auto found = values(table, {b, s});  // symbols in name order: batch, seq
      for (std::size_t i = 0; i < dims.size(); ++i)
        EXPECT_EQ(found[indices[i]], dims[i].evaluate({{"batch", b}, {"seq", s}}))
            << dims[i].to_string();
    }
  }
}

TEST(ExprTable, SymbolsAreWrittenInNameOrderWithTheirRanges) {
  ExprTable table(two_symbols());
  table.intern(Dim::symbol("seq"));
  table.intern(Dim::symbol("batch"));
  plan::fb::PlanT plan;
  table.write(plan);
  ASSERT_EQ(plan.symbols.size(), 2u);
  EXPECT_EQ(plan.symbols[0]->name, "batch");
  EXPECT_EQ(plan.symbols[0]->max, 64);
  EXPECT_EQ(plan.symbols[1]->name, "seq");
  EXPECT_EQ(plan.symbols[1]->max, 512);
}

TEST(ExprTable, OperandsPrecedeTheirUsers) {
  ExprTable table(two_symbols());
  const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  table.intern(ir::floor_div(batch * seq + Dim(1), Dim(3)) * batch - seq * Dim(12));
  plan::fb::PlanT plan;
  table.write(plan);
  for (std::size_t i = 0; i < plan.expressions.size(); ++i) {
    const auto& node = plan.expressions[i];
    if (node.op() == plan::fb::ExprOp::Constant || node.op() == plan::fb::ExprOp::Symbol) continue;
    EXPECT_LT(node.a(), i);
    EXPECT_LT(node.b(), i);
  }
}

TEST(ExprTable, KnowsBounds) {
  ExprTable table(two_symbols());
  const auto product = table.intern(Dim::symbol("batch") * Dim::symbol("seq"));
  EXPECT_EQ(table.lower_bound(product), 1);
  EXPECT_EQ(table.upper_bound(product), 64 * 512);
  EXPECT_FALSE(table.is_constant(product));
  EXPECT_EQ(table.constant(table.intern(Dim(9))), 9);
}

TEST(ExprTable, RefusesLoopVariables) {
  ExprTable table(two_symbols());
  EXPECT_THROW(table.intern(Dim::symbol("$0") + Dim(1)), Error);
}

}  // namespace
}  // namespace sinter::codegen
