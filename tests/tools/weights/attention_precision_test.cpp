// SPDX-License-Identifier: Apache-2.0
// compile --attention-precision fp8: what it prints, what it refuses, and that the plan computes
// it.
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AttentionPrecisionTest : public CliTest {
 protected:
  /// Two attentions, one behind the other, spelled out; q, k and v f32 [2, 20, heads].
  std::string model(int head = 64) const {
    std::ofstream(path("attention.txt")) << fmt::format(
        R"(graph @main(%q: f32[2, 20, {0}], %k: f32[2, 20, {0}], %v: f32[2, 20, {0}]) {{
  %scale = const f32[] {{0.125}}
  %t = Transpose(%k) {{perm = [0, 2, 1]}}
  %s = MatMul(%q, %t)
  %m = Mul(%s, %scale)
  %w = Softmax(%m) {{axis = 2}}
  %x = MatMul(%w, %v)
  %s1 = MatMul(%x, %t)
  %m1 = Mul(%s1, %scale)
  %w1 = Softmax(%m1) {{axis = 2}}
  %y = MatMul(%w1, %v)
  return y = %y
}}
)",
        head);
    return path("attention.txt");
  }
  /// Three samples of 20 rows.
  std::string samples(std::int64_t head = 64) const {
    tools::NamedTensors all;
    for (const char* name : {"q", "k", "v"}) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < 3 * 2 * 20 * head; ++i)
        values.push_back(2 * std::sin(0.7 * static_cast<double>(i) + name[0]));
      all.emplace_back(name, ir::Tensor::from_doubles(DType::kFloat32, {3, 2, 20, head}, values));
    }
    tools::write_npz(path("samples.npz"), all);
    return path("samples.npz");
  }
  CliResult compile(const std::string& model, std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"compile", model, "-o", path("x.plan"), "--attention-precision=fp8"});
    return sinter(std::move(options));
  }
};

TEST_F(AttentionPrecisionTest, PrintsALineForEach) {
  const auto result = compile(model(), {"--target=cpu", "--emulate", "--max-error=1",
                                        "--calibration", samples(), "--verify"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("f8e4m3fn: q, k, v, weights"), HasSubstr("Attention")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("attention in fp8: 2 of 2"),
                                HasSubstr("put the model's outputs off by")));
}

TEST_F(AttentionPrecisionTest, StaysOverTheBudgetAndByName) {
  const auto budget = compile(
      model(), {"--target=cpu", "--emulate", "--max-error=1e-6", "--calibration", samples()});
  EXPECT_EQ(budget.code, 0) << budget.err;
  EXPECT_THAT(budget.out, HasSubstr("--max-error is 1e-06"));
  EXPECT_THAT(budget.err, HasSubstr("attention in fp8: 0 of 2"));
  const auto kept = compile(model(), {"--target=cpu", "--emulate", "--max-error=1",
                                      "--keep=Attention", "--calibration", samples()});
  EXPECT_THAT(kept.out, HasSubstr("kept: its name has 'Attention' (--keep)"));
}

#ifdef SINTER_WITH_CUDA
TEST_F(AttentionPrecisionTest, HeadsWithoutAKernelStay) {
  const auto result =
      compile(model(40), {"--target=cuda:sm_90", "--precision=fp16", "--calibration", samples(40)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("its heads of 40 are no multiple of 16 from 48 to 128"));
}

TEST_F(AttentionPrecisionTest, MakesKernelsOfEightBits) {
  const auto result = compile(model(), {"--target=cuda:sm_90", "--precision=fp16", "--max-error=1",
                                        "--calibration", samples()});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto source = sinter({"inspect", path("x.plan"), "--source"});
  EXPECT_THAT(source.out, HasSubstr("attend_in_eight_bits<Shape"));
  EXPECT_THAT(source.out, Not(HasSubstr("attend_by_warpgroups")));
}
#endif

TEST_F(AttentionPrecisionTest, RefusesWhatMeansNothing) {
  const auto refusal = [&](int code, std::vector<std::string> options) {
    const auto result = compile(model(), std::move(options));
    EXPECT_EQ(result.code, code) << result.out;
    return result.err;
  };
  const std::string file = samples();
  const int unsupported =
      sinter({"compile", model(), "--target=cpu", "-o", path("y.plan"), "--precision=fp8"}).code;
  EXPECT_THAT(refusal(2, {"--target=cpu", "--emulate"}), HasSubstr("--calibration FILE.npz"));
  EXPECT_THAT(refusal(unsupported, {"--target=cpu", "--calibration", file}),
              AllOf(HasSubstr("no attention of 8 bits"), HasSubstr("--emulate")));
  EXPECT_THAT(refusal(unsupported,
                      {"--target=cuda:sm_90,sm_80", "--precision=fp16", "--calibration", file}),
              HasSubstr("its kernels are for sm_90"));
  EXPECT_THAT(refusal(2, {"--target=cpu", "--emulate", "--calibration", file, "--fuse=off"}),
              HasSubstr("does not go with --fuse=off"));
  EXPECT_THAT(refusal(2, {"--target=cpu", "--emulate", "--calibration", file, "--packed"}),
              HasSubstr("does not go with --packed"));
  const auto other =
      sinter({"compile", model(), "-o", path("y.plan"), "--attention-precision=int8"});
  EXPECT_THAT(other.err, HasSubstr("fp8"));
  EXPECT_NE(other.code, 0);
}

}  // namespace
}  // namespace sinter::tests
