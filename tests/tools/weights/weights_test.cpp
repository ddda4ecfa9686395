// SPDX-License-Identifier: Apache-2.0
// compile --weights: what it prints, what it refuses, and that the plan computes it.
#include "tools/compiler/options/weights.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/npy.h"

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
                                HasSubstr("1 of 1 layers quantized"), HasSubstr("the plan")));
  const auto graph = sinter({"inspect", path("int8.plan"), "--graph"});
  EXPECT_THAT(graph.out, HasSubstr("i8 * f32 row"));
  EXPECT_EQ(
      sinter({"run", path("int8.plan"), "--shapes=x:3x8", "--outputs", path("int8.npz")}).code, 0);
  sinter({"compile", model, "--target=cpu", "-o", path("float.plan")});
  EXPECT_EQ(sinter({"run", path("float.plan"), "--shapes=x:3x8", "--expected", path("int8.npz"),
                    "--tolerance=0.03"})
                .code,
            0);
}

TEST_F(CliTest, WeightsAreFloatsOfFourBits) {
  const auto model = save(small_model());
  for (const char* format : {"nvfp4", "mxfp4"}) {
    const std::string weights = fmt::format("--weights={}:head", format);
    const auto result =
        sinter({"--json", "compile", model, "--target=cpu", weights, "-o", path("fp4.plan")});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto layers = json::parse(result.out)["layers"];
    EXPECT_EQ(layers[0]["bits"], 4);
    EXPECT_LT(layers[0]["weight_error"], 0.2);
    EXPECT_THAT(sinter({"inspect", path("fp4.plan"), "--graph"}).out,
                HasSubstr(format == std::string("nvfp4") ? "f4e2m1 * f8e4m3fn row * f32 row"
                                                         : "f4e2m1 * e8m0 row"));
    EXPECT_THAT(sinter({"inspect", path("fp4.plan")}).out, HasSubstr(format));
    EXPECT_EQ(
        sinter({"run", path("fp4.plan"), "--shapes=x:3x8", "--outputs", path("fp4.npz")}).code, 0);
    sinter({"compile", model, "--target=cpu", "-o", path("float.plan")});
    EXPECT_EQ(sinter({"run", path("float.plan"), "--shapes=x:3x8", "--expected", path("fp4.npz"),
                      "--tolerance=0.3"})
                  .code,
              0);
  }
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

TEST_F(CliTest, WeightsSaysWhyProductsStay) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  value(graph->mutable_input(0), "x", {"3", "batch", "8"});
  graph->mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  value(graph->mutable_output(0), "y", {"3", "batch", "4"});
  weights(graph->add_initializer(), "experts", {3, 8, 4});
  graph->mutable_node(0)->set_input(1, "experts");
  const auto path_of = save(model);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--weights=int8"},
        {"--precision=int8", "--activation-scales=token"}}) {
    std::vector<std::string> words{"compile", path_of, "--target=cpu", "-o", path("x.plan")};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("0 of 1 layers quantized"), HasSubstr("product"),
                      HasSubstr("kept: its weights [3, 8, 4] are a matrix for each of a batch")));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("the model has no product")));
  }
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
       {"int2", "nvfp4:group=16", "mxfp4:asymmetric", "int4:group=4", "int4:group=x",
        "int4:groups=32", "model:group=8", "int8:", "int4:group=99999999999999999999",
        "int4:wide=", "int4:wide=-1", "int4:wide=x"}) {
    const auto result =
        sinter({"compile", model, "--target=cpu", "-o", path("x.plan"), "--weights", text});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, AllOf(HasSubstr(text), HasSubstr("int4:group=128")));
  }
  const auto why = [&](const char* text) {
    return sinter({"compile", model, "--target=cpu", "-o", path("x.plan"), "--weights", text}).err;
  };
  EXPECT_THAT(why("int3"), HasSubstr("'int3' is not known"));
  EXPECT_THAT(why("int4:group=7"), HasSubstr("groups of 7 are too small"));
  EXPECT_THAT(why("int4:group=x"), HasSubstr("'x' is not a number"));
  EXPECT_THAT(why("int4:fast"), HasSubstr("'fast' is not known"));
  const auto alone = sinter({"compile", model, "--target=cpu", "--keep=a", "-o", path("x.plan")});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--weights"));
}

TEST_F(CliTest, WeightsSaysWhatWasAskedForInVain) {
  const auto model = save(small_model());
  const auto compile = [&](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"compile", file, "--target=cpu", "--weights=int8", "-o", path("x.plan")});
    const auto result = sinter(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  EXPECT_THAT(compile(model, {"--keep=prod", "--keep=head"}).err,
              AllOf(HasSubstr("--keep head: no layer's name has this text"),
                    testing::Not(HasSubstr("--keep prod:"))));
  // What is kept by its name has no errors.
  EXPECT_THAT(compile(model, {"--keep=prod"}).out, testing::Not(HasSubstr("0.00e+00")));
  auto none = small_model();
  none.mutable_graph()->mutable_node(0)->set_op_type("Add");
  none.mutable_graph()->mutable_initializer(0)->set_dims(0, 1);
  none.mutable_graph()->mutable_initializer(0)->set_dims(1, 8);
  none.mutable_graph()->mutable_initializer(0)->mutable_float_data()->Truncate(8);
  none.mutable_graph()->mutable_initializer(1)->set_dims(0, 1);
  none.mutable_graph()->mutable_initializer(1)->mutable_float_data()->Truncate(1);
  none.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(compile(save(none, "none.onnx"), {}).err,
              HasSubstr("the model has no product of an activation and constant float weights"));
}

TEST_F(CliTest, PlanSizesAreThoseOfTheSamePrecision) {
  std::vector<fusion::QuantizedLayer> layers(2);
  layers[0].n = layers[0].k = 100;
  layers[0].bytes_before = 40000;
  layers[0].bytes_after = 10400;
  layers[1] = layers[0];
  layers[1].kept = "it is";
  ir::TargetTraits half, all;
  half.formats = {{.op = "MatMul", .left = DType::kFloat16, .right = "i8", .scaled = true}};
  all.formats = half.formats;
  all.formats.push_back({.op = "MatMul", .left = DType::kFloat32, .right = "i8", .scaled = true});
  const auto before = [&](fusion::Precision precision, const ir::TargetTraits& target) {
    return tools::bytes_without_rounding(layers, precision, target, 50000);
  };
  EXPECT_EQ(before(fusion::Precision::kModel, all), 50000 + 40000 - 10400);
  EXPECT_EQ(before(fusion::Precision::kFloat16, all), 50000 + 20000 - 10400);
  EXPECT_EQ(before(fusion::Precision::kModel, half), 50000);  // they are floats again
}

TEST_F(CliTest, WeightsAreVerifiedWithinWhatRoundingCosts) {
  const auto model = save(small_model());
  EXPECT_EQ(sinter({"verify", model, "--target=cpu", "--weights=int8"}).code, 0);
  EXPECT_EQ(sinter({"verify", model, "--target=cpu", "--weights=int8", "--tolerance=1e-6"}).code,
            1);
}

TEST_F(CliTest, CompareSetsWeightsAgainstTheModelsOwn) {
  auto wide = small_model();
  auto* graph = wide.mutable_graph();
  graph->clear_initializer();
  weights(graph->add_initializer(), "w", {8, 512});
  weights(graph->add_initializer(), "b", {512});
  graph->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const auto model = save(wide);
  const std::vector<std::string> words{"compare", model,        "--target=cpu", "--shapes=x:3x8",
                                       "--hot",   "--rounds=2", "--threads=1",  "--json"};
  auto quantized = words;
  quantized.push_back("--weights=int8");
  const auto found = json::parse(sinter(quantized).out);
  ASSERT_TRUE(found["variants"].contains("model-weights")) << found;
  EXPECT_GT(found["weights_error"], 1e-6);
  EXPECT_LT(found["weights_error"], 0.05);
  EXPECT_LT(found["fused_against_unfused_error"], 1e-5);
  const auto& fused = found["variants"]["fused"];
  EXPECT_LT(fused["weight_bytes"], found["variants"]["model-weights"]["weight_bytes"]);
  EXPECT_GE(fused["memory_bytes"], fused["weight_bytes"]);
  EXPECT_LT(fused["plan_bytes"], found["variants"]["model-weights"]["plan_bytes"]);
  EXPECT_FALSE(json::parse(sinter(words).out)["variants"].contains("model-weights"));
}

}  // namespace
}  // namespace sinter::tests
