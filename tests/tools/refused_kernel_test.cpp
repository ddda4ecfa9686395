// SPDX-License-Identifier: Apache-2.0
// What becomes of a model one of whose generated kernels does not compile.
#ifdef SINTER_WITH_CUDA
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "tests/tools/cli_fixture.h"
#include "tools/compiler/build/build.h"

namespace sinter::tests {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kModel =
    "graph @g(%x: f32[n, 8]) ranges {n: 1..64} {\n"
    "%a = Add(%x, %x)\n%b = Tanh(%a)\n%c = Mul(%b, %x)\nreturn y = %c\n}";

class RefusedKernel : public CliTest {
 protected:
  ~RefusedKernel() override {
    for (const std::string& path : reproducers) std::filesystem::remove(path);
  }
  /// Compiles with a mistake in the text of every kernel whose name holds `part`.
  tools::BuildResult build(tools::Reporter& reporter, const std::string& part, bool strict = false,
                           std::vector<EntryOptions> entries = {}) {
    tools::BuildOptions options;
    options.model = Model(write("g.txt", kModel));
    options.target = "cuda:sm_90";
    options.kernel_cache = "";
    options.strict = strict;
    options.entries = std::move(entries);
    options.edit_source = [part](const std::string& name, std::string& source) {
      if (name.find(part) != name.npos) source += "\nmistake;\n";
    };
    return tools::build_plan(options, reporter);
  }
  void keep(const std::string& message) {
    const std::size_t at = message.find("/sinter-kernel-");
    if (at == message.npos) return;
    const std::size_t start = message.rfind(' ', at) + 1;
    reproducers.push_back(message.substr(start, message.find(".cu", at) + 3 - start));
  }
  std::vector<std::string> reproducers;
};

TEST_F(RefusedKernel, ItsOperatorsHaveKernelsOfTheirOwn) {
  tools::Reporter whole, reporter;
  EXPECT_EQ(build(whole, "no such name").plan.parts.meta.steps.size(), 1u);
  EXPECT_TRUE(whole.diagnostics().empty());
  const auto result = build(reporter, "add_tanh_mul_");
  EXPECT_EQ(result.plan.parts.meta.steps.size(), 3u);
  ASSERT_EQ(reporter.diagnostics().size(), 1u);
  const std::string& message = reporter.diagnostics()[0].message;
  keep(message);
  EXPECT_THAT(message, AllOf(HasSubstr("does not compile for sm_90"), HasSubstr("--strict"),
                             HasSubstr("sinter-kernel-")));
  EXPECT_EQ(reporter.diagnostics()[0].code, "refused-kernel");
  ASSERT_EQ(reproducers.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(reproducers[0]));
  std::vector<std::string> keys;
  for (const auto& option : result.plan.parts.meta.manifest->options) keys.push_back(option->key);
  EXPECT_THAT(keys, Contains("refused-kernel"));
  EXPECT_NO_THROW(tools::load_built(result.plan));
}

TEST_F(RefusedKernel, OfAnEntryPointToo) {
  tools::Reporter reporter;
  const auto result = build(reporter, "add_tanh_mul_", false,
                            {{"one", {{"n", {1, 1, 1}}}}, {"many", {{"n", {2, 64, 1}}}}});
  EXPECT_FALSE(reporter.diagnostics().empty());
  for (const auto& said : reporter.diagnostics()) keep(said.message);
  EXPECT_NO_THROW(tools::load_built(result.plan));
}

TEST_F(RefusedKernel, IsAnErrorWithStrictOrOfOneOperator) {
  const auto error = [&](const std::string& part, bool strict) -> std::string {
    tools::Reporter reporter;
    try {
      build(reporter, part, strict);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::kInternal);
      keep(refused.what());
      return refused.what();
    }
    return "compiled";
  };
  EXPECT_THAT(error("add_tanh_mul_", true), AllOf(HasSubstr("does not compile for sm_90"),
                                                  HasSubstr("Reproducer: "), HasSubstr("mistake")));
  EXPECT_THAT(error("tanh", false), HasSubstr("does not compile"));
}

}  // namespace
}  // namespace sinter::tests
#endif
