// SPDX-License-Identifier: Apache-2.0
// Errors: recorded in plans, found region by region, reduced to what still shows them.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// The root mean square of large activations, then logits and their softmax.
constexpr const char* kRms = R"(# squares of 3000 are beyond float16
graph @main(%x: f32[batch, 64]) {
  %g = const f32[64] random(1)
  %w = const f32[64, 32] random(2)
  %s = Square(%x)  # from square
  %m = ReduceMean(%s) {axes = [1], keepdims = 1}
  %eps = const f32[] {1e-6}
  %e = Add(%m, %eps)
  %r = Rsqrt(%e)
  %n = Mul(%x, %r)
  %y = Mul(%n, %g)  # from scale
  %z = MatMul(%y, %w)  # from head
  %p = Softmax(%z) {axis = 1}
  return p = %p
}
)";

/// Scores with an added mask, as encoders have them, without a kernel for attention.
constexpr const char* kMasked = R"(
graph @main(%q: f32[batch, seq, 8], %k: f32[batch, seq, 8], %v: f32[batch, seq, 8], %mask: i64[batch, seq]) {
  %t = Transpose(%k) {perm = [0, 2, 1]}
  %s = MatMul(%q, %t)  # from scores
  %one = const f32[] {1}
  %low = const f32[] {-1e9}
  %f = Cast(%mask) {to = f32}
  %n = Sub(%one, %f)
  %m = Mul(%n, %low)
  %r = Reshape(%m) {shape = [batch, 1, seq]}
  %a = Add(%s, %r)
  %p = Softmax(%a) {axis = 2}
  %y = MatMul(%p, %v)
  return y = %y
}
)";

/// A float16 model of its own whose product is beyond float16.
constexpr const char* kOverflow = R"(
graph @main(%x: f16[batch, 16]) {
  %w = const f16[16, 8] splat(30000)
  %a = Relu(%x)  # from first
  %z = MatMul(%a, %w)  # from head
  %h = Tanh(%a)
  %n = Exp(%h)  # from last
  return z = %z, n = %n
}
)";

/// Rotary angles of positions that come in, and a table whose rows integers choose.
constexpr const char* kPositions = R"(
graph @main(%ids: i64[batch, seq], %positions: i64[batch, seq], %mask: i64[batch, seq]) ranges {seq: 1..4096} {
  %table = const f32[50, 8] random(1)
  %x = Gather(%table, %ids) {axis = 0}
  %p = Cast(%positions) {to = f32}
  %c = Reshape(%p) {shape = [batch, seq, 1]}
  %rates = const f32[1, 8] {1, 0.5, 0.25, 0.1, 0.05, 0.01, 0.005, 0.001}
  %angles = MatMul(%c, %rates)
  %cos = Cos(%angles)
  %r = Mul(%x, %cos)
  %m = Cast(%mask) {to = f32}
  %mr = Reshape(%m) {shape = [batch, seq, 1]}
  %w = const f32[8, 8] random(2)
  %y = MatMul(%r, %w)
  %z = Mul(%y, %mr)
  return z = %z
}
)";

/// A value of 2,000 comes and goes: its rounding is what 16 bits lose.
constexpr const char* kShifted = R"(
graph @main(%x: f32[batch, 64]) {
  %w = const f32[64, 32] random(1)
  %v = const f32[32, 8] random(2)
  %h = MatMul(%x, %w)  # from first
  %large = const f32[] {2000}
  %s = Add(%h, %large)  # from shift
  %t = Tanh(%s)
  %u = Sub(%s, %large)  # from back
  %both = Add(%u, %t)
  %y = MatMul(%both, %v)  # from second
  return y = %y
}
)";

class VerifyTest : public CliTest {
 protected:
  /// The verb's JSON object; `code` is expected.
  json verify(const std::string& file, std::vector<std::string> options, int code) {
    options.insert(options.begin(), {"verify", file, "--target=cpu", "--json"});
    const auto result = sinter(options);
    EXPECT_EQ(result.code, code) << result.out << result.err;
    return json::parse(result.out);
  }
};

TEST_F(VerifyTest, CompileRecordsTheError) {
  const auto model = save(small_model());
  const auto plan = path("m.plan");
  const auto compiled =
      sinter({"compile", model, "-o", plan, "--target=cpu", "--verify", "--shapes=x:5x8"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_THAT(compiled.out, HasSubstr("relative error"));
  const auto shown = json::parse(sinter({"inspect", plan, "--json"}).out);
  ASSERT_EQ(shown["measured"].size(), 1U);
  EXPECT_EQ(shown["measured"][0]["output"], "y");
  EXPECT_LT(shown["measured"][0]["relative_error"].get<double>(), 1e-6);
  EXPECT_THAT(shown["options"].get<std::vector<std::string>>(),
              Contains("verify=seed 0, x [5, 8]"));
  EXPECT_THAT(sinter({"inspect", plan}).out, HasSubstr("measured: output y, relative error"));
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:2x8"}).code, 0);
}

TEST_F(VerifyTest, CompileRefusesAboveTheBound) {
  const auto model = save(small_model());
  const auto plan = path("m.plan");
  const auto refused =
      sinter({"compile", model, "-o", plan, "--target=cpu", "--verify", "--max-error=1e-12"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr("DIFFERS (--max-error is 1.0e-12)"));
  EXPECT_THAT(refused.err, HasSubstr("was not written"));
  EXPECT_FALSE(std::filesystem::exists(plan));
  EXPECT_EQ(sinter({"compile", model, "-o", plan, "--max-error=1"}).code, 2);
  const std::vector<float> values(24, 0.5F);
  tools::write_npz(path("in.npz"), {{"x", ir::Tensor::of<float>(DType::kFloat32, {3, 8}, values)}});
  const auto given = sinter(
      {"compile", model, "-o", plan, "--target=cpu", "--verify", "--inputs", path("in.npz")});
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_THAT(given.out, HasSubstr("in.npz, x [3, 8]"));
}

TEST_F(VerifyTest, GraphTextIsAModel) {
  const auto file = write("rms.sinter", kRms);
  EXPECT_EQ(sinter({"verify", file, "--target=cpu", "--shapes=x:3x64"}).code, 0);
  EXPECT_EQ(sinter({"compile", file, "--target=cpu"}).code, 0);
  EXPECT_EQ(sinter({"run", path("rms.plan"), "--shapes=x:3x64"}).code, 0);
  EXPECT_THAT(sinter({"inspect", file}).out, HasSubstr("Graph text; 8 nodes"));
  const auto shapes = sinter({"compile", file, "--target=cpu", "--maxShapes", "x:4x64"});
  EXPECT_EQ(shapes.code, 2);
  EXPECT_THAT(shapes.err, HasSubstr("states its own shapes"));
  const auto broken =
      sinter({"compile", write("b.sinter", "graph @main(%x: f32[4]) {"), "--target=cpu"});
  EXPECT_EQ(broken.code, 4);
  EXPECT_THAT(broken.err, HasSubstr("b.sinter"));
  // A hash stands for a large constant: that needs the model it was printed from.
  const auto printed = sinter({"compile", file, "--target=cpu", "--stop-after=simplify"}).out;
  EXPECT_THAT(sinter({"verify", write("h.sinter", printed), "--target=cpu"}).err,
              HasSubstr("is not in the pool"));
}

TEST_F(VerifyTest, FusedTextIsCompiledAsItStands) {
  const auto file = write("small.sinter",
                          "graph @main(%x: f32[n, 4]) {\n  %e = Exp(%x)\n  %y = Neg(%e)\n"
                          "  return y = %y\n}\n");
  const auto fused = sinter({"compile", file, "--target=cpu", "--stop-after=wrap_singletons"}).out;
  ASSERT_THAT(fused, HasSubstr("Fused("));
  const auto result = sinter({"verify", write("fused.sinter", fused), "--target=cpu"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("compiled as it stands"));
}

TEST_F(VerifyTest, RegionsWorstFirst) {
  const auto file = write("rms.sinter", kRms);
  const std::vector<std::string> options = {"--per-node", "--precision=fp16", "--shapes=x:4x64"};
  const auto good = verify(file, options, 0)["regions"];
  ASSERT_EQ(good.size(), 3U);
  auto strict = options;
  strict.push_back("--tolerance=1e-5");
  const auto regions = verify(file, strict, 1)["regions"];
  EXPECT_FALSE(regions[0]["ok"]);
  EXPECT_EQ(regions[0]["kind"], "reduction");
  EXPECT_THAT(regions[0]["origins"].get<std::vector<std::string>>(), Contains("scale"));
  for (std::size_t i = 1; i < regions.size(); ++i) {
    EXPECT_TRUE(regions[i]["ok"]);  // on rounded inputs they are right
    EXPECT_LE(regions[i]["relative_error"], regions[i - 1]["relative_error"]);
  }
}

/// What a region stores is compared with what it should have stored before rounding.
TEST_F(VerifyTest, OverflowOfARegionShows) {
  const auto file = write("overflow.sinter", kOverflow);
  const std::vector<std::string> options = {"--per-node", "--shapes=x:4x16"};
  const auto regions = verify(file, options, 1)["regions"];
  EXPECT_TRUE(regions[0]["relative_error"].is_null());  // infinite
  EXPECT_EQ(regions[0]["origins"], json({"head"}));
  for (std::size_t i = 1; i < regions.size(); ++i) EXPECT_TRUE(regions[i]["ok"]);
}

/// Sizes that no input of a plan can have: the regions are compiled for the numbers.
TEST_F(VerifyTest, RegionsOfDerivedSizes) {
  const auto file = write("sizes.sinter", R"(graph @main(%x: f32[n, 4], %w: f32[4, 4]) {
  %c = Concat(%x, %x) {axis = 0}
  %z = MatMul(%c, %w)
  %y = Exp(%z)
  return y = %y
}
)");
  const auto report = verify(file, {"--per-node", "--shapes=x:3x4"}, 0);
  EXPECT_TRUE(report["specialised"]);
  EXPECT_GE(report["regions"].size(), 2U);
}

TEST_F(VerifyTest, BisectNamesTheFirstRegion) {
  const auto file = write("rms.sinter", kRms);
  std::vector<std::string> options = {"--bisect", "--precision=fp16", "--shapes=x:4x64"};
  EXPECT_TRUE(verify(file, options, 0)["region"].is_null());
  // The passes alone, which round the weights, stay below; the last two inherit the first's error.
  const auto overflow =
      verify(write("overflow.sinter", kOverflow), {"--bisect", "--shapes=x:4x16"}, 1);
  EXPECT_TRUE(overflow["pass"].is_null());
  EXPECT_EQ(overflow["region"]["origins"], json({"head"}));
  EXPECT_TRUE(overflow["own_error"].is_null());
  options.push_back("--tolerance=1e-6");
  const auto rounded = verify(file, options, 1);
  EXPECT_EQ(rounded["pass"], "lower_precision");  // it rounds the weights
}

TEST_F(VerifyTest, ReducedTextStillFails) {
  const auto file = write("overflow.sinter", kOverflow);
  const auto small = path("small.sinter");
  const auto report = verify(file, {"--reduce", small, "--shapes=x:4x16"}, 1);
  EXPECT_EQ(report["operators"], 1);
  EXPECT_EQ(report["region"]["origins"], json({"head"}));
  const auto text = read(small);
  EXPECT_THAT(text, HasSubstr("MatMul"));
  EXPECT_THAT(text, Not(HasSubstr("Exp")));
  EXPECT_THAT(text, HasSubstr("f16[1, 1]"));  // one row and one column
  std::vector<std::string> again = {"--per-node"};
  if (const std::string inputs = report["inputs"]; !inputs.empty())
    again.insert(again.end(), {"--inputs", inputs});
  const auto regions = verify(small, again, 1)["regions"];
  EXPECT_TRUE(regions[0]["relative_error"].is_null());
  EXPECT_THAT(report["command"].get<std::string>(), HasSubstr("--per-node"));
}

/// What only adds up over several regions is reduced as a whole.
TEST_F(VerifyTest, AccumulatedErrorsAreReducedTogether) {
  const auto file = write("chain.sinter", R"(graph @main(%x: f16[8, 16]) {
  %w = const f16[16, 16] random(1)
  %a = MatMul(%x, %w)
  %b = MatMul(%a, %w)
  %c = MatMul(%b, %w)
  %d = MatMul(%c, %w)
  return d = %d
}
)");
  const auto regions = verify(file, {"--per-node"}, 0)["regions"];
  const double worst = regions[0]["relative_error"];
  const auto bound = "--tolerance=" + std::to_string(1.3 * worst);
  verify(file, {"--per-node", bound}, 0);
  const auto found = verify(file, {"--bisect", bound}, 1);
  EXPECT_GT(found["place"], 0);
  const auto report = verify(file, {"--reduce", path("small.sinter"), bound}, 1);
  EXPECT_LE(report["operators"], report["operators_before"]);
  EXPECT_THAT(report["command"].get<std::string>(), HasSubstr("--bisect"));
}

TEST_F(VerifyTest, NothingToReduce) {
  const auto small = path("small.sinter");
  verify(write("rms.sinter", kRms), {"--reduce", small, "--shapes=x:2x64"}, 0);
  EXPECT_FALSE(std::filesystem::exists(small));
}

/// Models that would overflow in float16 if everything were stored in it.
TEST_F(VerifyTest, WideSpotsOfLowerPrecision) {
  const auto rms = write("rms.sinter", kRms);
  const auto masked = write("masked.sinter", kMasked);
  const std::string shapes = "--shapes=q:2x6x8,k:2x6x8,v:2x6x8,mask:2x6";
  for (const auto* precision : {"--precision=fp16", "--precision=bf16"}) {
    for (const auto* fuse : {"--fuse=on", "--fuse=off"})
      verify(rms, {precision, fuse, "--shapes=x:4x64", "--input-range", "x=-3000..3000"}, 0);
    verify(masked, {precision, shapes}, 0);
  }
  // Logits of 1e5: 16 * 80 * 80; the factors are exact in both types.
  const std::vector<float> rows(static_cast<std::size_t>(2 * 6 * 8), 112.0F);
  std::vector<float> keys = rows;
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] += static_cast<float>(i / 8 % 6) / 2;
  const auto large = ir::Tensor::of<float>(DType::kFloat32, {2, 6, 8}, rows);
  const auto varied = ir::Tensor::of<float>(DType::kFloat32, {2, 6, 8}, keys);
  tools::write_npz(path("large.npz"), {{"q", large}, {"k", varied}});
  for (const auto* precision : {"--precision=fp16", "--precision=bf16"})
    verify(masked, {precision, shapes, "--inputs", path("large.npz")}, 0);
}

TEST_F(VerifyTest, InputsAreLong) {
  const auto file = write("positions.sinter", kPositions);
  const auto shapes = [&](std::vector<std::string> options) {
    return verify(file, std::move(options), 0)["shapes"].get<std::string>();
  };
  EXPECT_EQ(shapes({}), "ids [2, 4096], positions [2, 4096], mask [2, 4096]");
  EXPECT_EQ(shapes({"--shapes=mask:1x7"}), "ids [1, 7], positions [1, 7], mask [1, 7]");
  // Cosines of 4,095: what rounds the angles is off by as much as the cosines are.
  EXPECT_LT(verify(file, {"--precision=bf16"}, 0)["outputs"][0]["relative_error"].get<double>(),
            1.2e-2);
  const auto long_plan = path("long.plan");
  const auto compiled =
      sinter({"compile", file, "-o", long_plan, "--target=cpu", "--precision=fp16", "--verify"});
  EXPECT_EQ(compiled.code, 0) << compiled.out << compiled.err;
}

TEST_F(VerifyTest, LongInputsOfLargeModelsAreShorter) {
  const auto file = write("large.sinter", R"(
graph @main(%x: f32[batch, seq, 2048]) ranges {seq: 1..100000} {
  %w = const f32[2048, 2048] random(1)
  %y = MatMul(%x, %w)
  return y = %y
}
)");
  const auto shapes = verify(file, {}, 0)["shapes"].get<std::string>();
  EXPECT_EQ(shapes, "x [2, 390, 2048]");  // 5e9 multiplications at most
}

TEST_F(VerifyTest, TheValueThatLosesMostIsNamed) {
  const auto file = write("shifted.sinter", kShifted);
  for (const char* precision : {"fp16", "bf16"}) {
    const auto said =
        sinter({"verify", file, "--target=cpu", "--bisect", "--precision", precision});
    EXPECT_THAT(said.out, HasSubstr("the value that loses most is 's' (from shift)")) << said.err;
    const auto json = nlohmann::json::parse(
        sinter({"verify", file, "--target=cpu", "--bisect", "--json", "--precision", precision})
            .out);
    const auto& rounding = json["rounding"];
    EXPECT_EQ(rounding["value"], "s");
    EXPECT_GT(rounding["alone"].get<double>(), 4 * rounding["matmuls"].get<double>());
  }
  // What matmuls explain is not news.
  const auto plain = write("plain.sinter", R"(
graph @main(%x: f32[batch, 64]) {
  %w = const f32[64, 32] random(1)
  %y = MatMul(%x, %w)
  return y = %y
}
)");
  EXPECT_FALSE(verify(plain, {"--bisect", "--precision=fp16"}, 0).contains("rounding"));
}

TEST_F(VerifyTest, ThePolicyIsPrinted) {
  const auto result = sinter({"compile", write("rms.sinter", kRms), "-o", path("rms.plan"),
                              "--target=cpu", "--precision=fp16", "--fuse=off"});
  EXPECT_THAT(result.err, HasSubstr("a power may be beyond the range of f16: Square (square)"));
  const auto fused = sinter({"compile", write("rms.sinter", kRms), "-o", path("rms.plan"),
                             "--target=cpu", "--precision=fp16"});
  EXPECT_THAT(fused.err,
              HasSubstr("a matmul stores its sums for what reads float32: MatMul (head)"));
  EXPECT_THAT(sinter({"inspect", path("rms.plan")}).out,
              HasSubstr("precision: kept float32: 1 node(s), a matmul stores its sums"));
}

}  // namespace
}  // namespace sinter::tests
