// SPDX-License-Identifier: Apache-2.0
// Weights that several graphs of a plan share lie the same way in all of them.
#include <gtest/gtest.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/narrow_dims.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

TEST(LayOutWeights, IsOneForAllGraphsThatShareThem) {
  const ir::Graph model = ir::parse_graph(R"(
graph @main(%x: f16[n, 16]) ranges {n: 1..512} {
  %w = const f16[16, 24] random(1)
  %y = MatMul(%x, %w)
  return y = %y
}
)");
  std::set<std::uint64_t> laid_out;
  const auto weights_of = [&](std::int64_t least, std::int64_t most, bool shared) {
    Context context;
    context.target = codegen::cuda_target().traits();
    if (shared) context.laid_out = &laid_out;
    ir::Range range;
    range.min = least, range.max = most;
    const ir::Graph before = narrow_dims(model, {{"n", range}});
    const ir::Graph after = run_pass("lay_out_weights", before, context);
    expect_equivalent(before, after, 0);
    for (const ir::Value& value : after.values())
      if (value.constant) return value.constant->shape();
    return std::vector<std::int64_t>();
  };
  const std::vector<std::int64_t> columns = {16, 24}, rows = {24, 16};
  EXPECT_EQ(weights_of(17, 512, true), columns);  // nobody has wanted rows of k yet
  EXPECT_EQ(weights_of(1, 1, true), rows);
  EXPECT_EQ(weights_of(17, 512, true), rows);
  EXPECT_EQ(weights_of(17, 512, false), columns);
  EXPECT_EQ(weights_of(16, 512, false), rows);
}

}  // namespace
}  // namespace sinter::fusion::test
