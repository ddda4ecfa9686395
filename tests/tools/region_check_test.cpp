// SPDX-License-Identifier: Apache-2.0
// Regions that cannot be run are found one by one.
#include "tools/compiler/verify/region_check.h"

#include <gmock/gmock.h>
#include <sinter/error.h>
#include <sinter/session.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"

namespace sinter::tools {
namespace {

/// Two products, each with what follows it: two regions.
ir::Graph two_regions() {
  fusion::Context context;
  context.target = codegen::cpu_target().traits();
  return fusion::run_pipeline(ir::parse_graph(R"(
graph @main(%x: f32[4, 8]) {
  %a = const f32[8, 8] random(1)
  %b = const f32[8, 8] random(2)
  %y = MatMul(%x, %a)  # from first
  %e = Exp(%y)  # from first
  %z = MatMul(%e, %b)  # from second
  %t = Tanh(%z)  # from second
  return t = %t
}
)"),
                              context)
      .graph;
}

/// Compiling the last region fails, also where it is not alone.
RegionOptions failing_at(const std::vector<int>& calls) {
  RegionOptions options;
  options.compile.checkpoint = [calls, count = std::make_shared<int>(0)] {
    if (std::find(calls.begin(), calls.end(), ++*count) != calls.end())
      throw Error(ErrorCode::kDevice, "no primitive for this region");
  };
  return options;
}

TEST(RegionCheck, NamesTheRegionThatFails) {
  const ir::Graph graph = two_regions();
  const std::vector<ir::Tensor> inputs = {
      ir::Tensor::from_doubles(DType::kFloat32, {4, 8}, std::vector<double>(32, 0.5))};
  const RegionCheck whole =
      check_regions(graph, inputs, RegionInputs::kReference, {}, SessionOptions{});
  EXPECT_TRUE(whole.ok());
  const int regions = static_cast<int>(whole.regions.size());
  ASSERT_GE(regions, 2);
  // All at once, and then the last one alone.
  for (const RegionInputs mode : {RegionInputs::kReference, RegionInputs::kPropagated}) {
    const RegionCheck check =
        check_regions(graph, inputs, mode, failing_at({regions, 2 * regions}), SessionOptions{});
    ASSERT_NE(check.first_failure(), nullptr);
    EXPECT_EQ(check.first_failure(), &check.regions.back());
    EXPECT_THAT(check.regions.back().failure, testing::HasSubstr("no primitive"));
    EXPECT_TRUE(check.regions.front().ok());
  }
  // Where no region fails alone it is not one of theirs.
  EXPECT_THROW(check_regions(graph, inputs, RegionInputs::kReference, failing_at({regions}),
                             SessionOptions{}),
               Error);
}

}  // namespace
}  // namespace sinter::tools
