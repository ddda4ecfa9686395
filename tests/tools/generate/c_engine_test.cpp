// SPDX-License-Identifier: Apache-2.0
// The engine of the C ABI over a compiled plan; the program is in C.
#include <gtest/gtest.h>
#include <sinter/sinter_c.h>

#include "tests/runtime/api/c_program.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"

namespace sinter::tests {
namespace {

using CEngineTest = CliTest;

TEST_F(CEngineTest, AProgramInC) {
  const auto compiled =
      sinter({"compile", kTinyDecoder, "-o", path("plan"), "--target=cpu", "--serve=block=4"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const auto prompt = greedy()[1]["prompt"].get<std::vector<int>>();
  const auto tokens = greedy()[1]["tokens"].get<std::vector<int>>();
  EXPECT_EQ(sinter_test_c_engine(path("plan").c_str(), prompt.data(), prompt.size(), tokens.data()),
            0)
      << "the line of c_engine.c; " << sinter_last_error();
}

}  // namespace
}  // namespace sinter::tests
