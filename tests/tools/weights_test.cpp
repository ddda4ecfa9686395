// compile --weights: what it prints, what it refuses, and that the plan computes it.
#include <cmath>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/support/inputs.h"
#include "tools/support/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(CliTest, WeightsPrintsEveryLayer) {
  const auto model = save(small_model());
  const auto result =
      sinter({"compile", model, "--target=cpu", "--weights=int8", "-o", path("int8.plan")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("weight error"), HasSubstr("product"),
                                HasSubstr("1 layers quantised, 0 kept"), HasSubstr("the plan")));
  const auto graph = sinter({"inspect", path("int8.plan"), "--graph"});
  EXPECT_THAT(graph.out, HasSubstr("QuantMatMul"));
  EXPECT_EQ(
      sinter({"run", path("int8.plan"), "--shapes=x:3x8", "--outputs", path("int8.npz")}).code, 0);
  sinter({"compile", model, "--target=cpu", "-o", path("float.plan")});
  EXPECT_EQ(sinter({"run", path("float.plan"), "--shapes=x:3x8", "--expected", path("int8.npz"),
                    "--tolerance=0.03"})
                .code,
            0);
}

TEST_F(CliTest, WeightsReportsErrorsAsJson) {
  const auto model = save(small_model());
  const auto result = sinter({"--json", "compile", model, "--target=cpu",
                              "--weights=int4:group=8:asymmetric", "-o", path("int4.plan")});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto layers = json::parse(result.out)["layers"];
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0]["n"], 4);
  EXPECT_EQ(layers[0]["k"], 8);
  EXPECT_LT(layers[0]["weight_error"], 0.3);
  EXPECT_EQ(layers[0]["kept"], "");
  const auto kept = sinter({"--json", "compile", model, "--target=cpu", "--weights=int4", "--keep",
                            "prod", "-o", path("kept.plan")});
  EXPECT_THAT(json::parse(kept.out)["layers"][0]["kept"].get<std::string>(), HasSubstr("'prod'"));
  const auto strict = sinter({"--json", "compile", model, "--target=cpu", "--weights=int4",
                              "--max-layer-error=1e-6", "-o", path("strict.plan")});
  EXPECT_THAT(json::parse(strict.out)["layers"][0]["kept"].get<std::string>(),
              HasSubstr("--max-layer-error"));
}

/// Five samples of 40 rows whose neighbouring columns say nearly the same.
void write_samples(const std::string& path, std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(
        std::sin(0.2 * static_cast<double>(i % 8) + static_cast<double>(i / 8 * 7 % 13)));
  tools::write_npz(path, {{"x", ir::Tensor::from_doubles(DType::kFloat32, shape, values)}});
}

TEST_F(CliTest, CalibrationMakesTheOutputsErrorSmaller) {
  const auto model = save(small_model());
  write_samples(path("samples.npz"), {5, 40, 8});
  const auto error_with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"--json",
                                       "compile",
                                       model,
                                       "--target=cpu",
                                       "--weights=int4:group=8:asymmetric:wide=0",
                                       "-o",
                                       path("int4.plan")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = sinter(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    write_samples(path("one.npz"), {40, 8});
    const auto run = [&](const std::string& plan, const std::string& out) {
      const auto ran =
          sinter({"run", path(plan), "--inputs", path("one.npz"), "--outputs", path(out)});
      EXPECT_EQ(ran.code, 0) << ran.err;
      return tools::read_npz(path(out)).front().second;
    };
    sinter({"compile", model, "--target=cpu", "-o", path("float.plan")});
    return tools::relative_error(run("int4.plan", "int4.npz"), run("float.plan", "float.npz"));
  };
  const double nearest = error_with({});
  EXPECT_LT(error_with({"--calibration", path("samples.npz")}), 0.8 * nearest);
}

TEST_F(CliTest, CalibrationIsReported) {
  const auto model = save(small_model());
  write_samples(path("samples.npz"), {5, 40, 8});
  const auto compile = [&](const std::string& weights) {
    return sinter({"compile", model, "--target=cpu", weights, "--calibration", path("samples.npz"),
                   "-o", path("int4.plan")});
  };
  EXPECT_THAT(compile("--weights=int4:wide=0").out, HasSubstr("on the samples of --calibration"));
  EXPECT_THAT(compile("--weights=int4:wide=1e-6").out, HasSubstr("wider: its output would be"));
  const auto alone =
      sinter({"compile", model, "--target=cpu", "--weights=int4", "-o", path("int4.plan")});
  EXPECT_THAT(alone.err, HasSubstr("--calibration FILE.npz"));
}

TEST_F(CliTest, CalibrationRefusesSamplesThatDoNotFit) {
  const auto model = save(small_model());
  const auto refusal = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tools::write_npz(path("bad.npz"),
                     {{name, ir::Tensor::from_doubles(DType::kFloat32, shape,
                                                      std::vector<double>(std::size_t{8}, 1))}});
    const auto result = sinter({"compile", model, "--target=cpu", "--weights=int4", "--calibration",
                                path("bad.npz"), "-o", path("x.plan")});
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_THAT(refusal("other", {1, 8}), HasSubstr("no input 'other'"));
  EXPECT_THAT(refusal("x", {8}), HasSubstr("'x' has 1 dimensions"));
}

TEST_F(CliTest, WeightsRefusesWhatItDoesNotKnow) {
  const auto model = save(small_model());
  for (const char* text :
       {"int2", "int4:group=4", "int4:group=x", "int4:groups=32", "model:group=8",
        "int8:", "int4:group=99999999999999999999", "int4:wide=", "int4:wide=-1", "int4:wide=x"}) {
    const auto result =
        sinter({"compile", model, "--target=cpu", "-o", path("x.plan"), "--weights", text});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, AllOf(HasSubstr(text), HasSubstr("int4:group=128")));
  }
  const auto alone = sinter({"compile", model, "--target=cpu", "--keep=a", "-o", path("x.plan")});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--weights"));
}

}  // namespace
}  // namespace sinter::tests
