// SPDX-License-Identifier: Apache-2.0
// Random bodies against the reference.
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "random_body.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

class RandomRegions : public testing::TestWithParam<int> {};

void expect_equal(const ir::Graph& body, std::uint64_t seed) {
  for (const ir::Bindings& symbols :
       {ir::Bindings{{"batch", 1}, {"seq", 3}}, ir::Bindings{{"batch", 2}, {"seq", 1}}}) {
    std::string difference;
    try {
      difference = check_region(body, symbols, seed);
    } catch (const std::exception& error) {
      difference = error.what();
    }
    EXPECT_EQ(difference, "") << "seed " << seed << "\n" << ir::print(body);
  }
}

TEST_P(RandomRegions, Pointwise) {
  for (int i = 0; i < 100; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 1000 + i);
    expect_equal(RandomBody(seed).pointwise(), seed);
    if (HasFailure()) return;
  }
}

TEST_P(RandomRegions, Reduction) {
  for (int i = 0; i < 100; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 1000 + i);
    expect_equal(RandomBody(seed).reduction(), seed);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRegions, testing::Range(0, 5));

}  // namespace
}  // namespace sinter::test
