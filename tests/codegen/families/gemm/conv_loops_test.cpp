// SPDX-License-Identifier: Apache-2.0
// Convolutions as loop programs, on the interpreter.
#include <gtest/gtest.h>

#include "conv_regions.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

TEST(ConvLoops, EqualTheReferenceInBothLayouts) {
  for (const bool channels_last : {true, false}) {
    for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32}) {
      for (const std::int64_t group : {1, 2, 4}) {
        ConvCase conv{"conv", 2, {6, 5}, 8, 12, {3, 2}, {2, 1}, {1, 2}, {1, 2}, {2, 0}, group};
        conv.type = type;
        conv.channels_last = channels_last;
        conv.residual = true;
        if (is_float(type)) {
          conv.activation = "Relu";
          conv.rest = "silu";
        }
        EXPECT_EQ(check_conv_loops(conv_region(conv), {}), "")
            << to_string(type) << " " << group << " " << channels_last;
      }
    }
  }
}

TEST(ConvLoops, LinesBoxesAndSymbolicSizes) {
  const ir::Ranges ranges = {{"n", {1, 64, nullptr}}, {"h", {1, 4096, nullptr}}};
  ConvCase line{"line", ir::Dim::symbol("n"), {ir::Dim::symbol("h")}, 6, 9, {4}, {3}, {}, {2}, {1},
                3};
  line.type = DType::kFloat32;
  EXPECT_EQ(check_conv_loops(conv_region(line, ranges), {{"n", 2}, {"h", 11}}), "");
  EXPECT_EQ(check_conv_loops(conv_region(line, ranges), {{"n", 1}, {"h", 1}}), "");
  ConvCase box{"box", 1, {4, 3, 5}, 3, 4, {2, 3, 2}, {}, {}, {0, 1, 1}, {1, 1, 0}};
  box.type = DType::kFloat32;
  EXPECT_EQ(check_conv_loops(conv_region(box), {}), "");
}

}  // namespace
}  // namespace sinter::test
