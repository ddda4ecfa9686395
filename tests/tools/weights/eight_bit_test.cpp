// SPDX-License-Identifier: Apache-2.0
// compile --precision int8 and fp8: what it prints, what it refuses, and that the plan computes it.
#include <cmath>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class EightBitTest : public CliTest {
 protected:
  /// relu(x @ w + b) @ v, x f32 [batch, 8].
  std::string two_layers() const {
    auto model = small_model();
    auto* graph = model.mutable_graph();
    weights(graph->add_initializer(), "v", {4, 4});
    graph->mutable_node(3)->set_output(0, "s");
    node(graph, "MatMul", "last", {"s", "v"}, "y");
    return save(model);
  }

  static std::vector<double> waves(std::int64_t count) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(
          std::sin(0.2 * static_cast<double>(i % 8) + static_cast<double>(i / 8 * 7 % 13)));
    return values;
  }
  /// Five samples of 40 rows.
  std::string samples(std::vector<std::int64_t> shape = {5, 40, 8},
                      const std::string& name = "x") const {
    std::int64_t count = 1;
    for (const std::int64_t dim : shape) count *= dim;
    tools::write_npz(path("samples.npz"),
                     {{name, ir::Tensor::from_doubles(DType::kFloat32, shape, waves(count))}});
    return path("samples.npz");
  }

  CliResult compile(const std::string& model, const std::string& plan,
                    std::vector<std::string> options) {
    options.insert(options.begin(), {"compile", model, "--target=cpu", "-o", path(plan)});
    return sinter(std::move(options));
  }
};

TEST_F(EightBitTest, PrintsEveryLayer) {
  const auto result =
      compile(two_layers(), "int8.plan", {"--precision=int8", "--calibration", samples()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("operands"), HasSubstr("i8 x i8"), HasSubstr("1 of 2 layers"),
                    HasSubstr("kept: no layer is behind it (--include)")));
  EXPECT_THAT(result.err, HasSubstr("on 2 samples the model's outputs are off by"));
}

TEST_F(EightBitTest, ThePlanComputesIt) {
  const auto model = two_layers();
  tools::write_npz(path("one.npz"),
                   {{"x", ir::Tensor::from_doubles(DType::kFloat32, {40, 8}, waves(320))}});
  const auto run = [&](const std::string& plan) {
    const auto ran =
        sinter({"run", path(plan), "--inputs", path("one.npz"), "--outputs", path(plan + ".npz")});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return tools::read_npz(path(plan + ".npz")).front().second;
  };
  EXPECT_EQ(compile(model, "float.plan", {}).code, 0);
  const auto exact = run("float.plan");
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--calibration", samples()},
                                             {"--calibration", samples(), "--smooth=off"},
                                             {"--calibration", samples(), "--smooth=0.5"},
                                             {"--calibration", samples(), "--weight-scales=tensor"},
                                             {"--activation-scales=token"},
                                             {"--activation-scales=token", "--include=last"}}) {
    std::vector<std::string> all{"--precision=int8"};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = compile(model, "int8.plan", all);
    EXPECT_EQ(result.code, 0) << result.err;
    const double error = tools::relative_error(run("int8.plan"), exact);
    EXPECT_LT(error, 0.03) << testing::PrintToString(options);
    EXPECT_GT(error, 0) << testing::PrintToString(options);
  }
}

TEST_F(EightBitTest, FloatsOfEightBitsAreEmulated) {
  const auto model = two_layers();
  const auto refused = compile(model, "fp8.plan", {"--precision=fp8", "--calibration", samples()});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("no products of f8e4m3fn"),
                                 HasSubstr("--precision int8"), HasSubstr("--emulate")));
  const auto emulated =
      compile(model, "fp8.plan", {"--precision=fp8", "--calibration", samples(), "--emulate"});
  EXPECT_EQ(emulated.code, 0) << emulated.err;
  EXPECT_THAT(emulated.out, HasSubstr("f8e4m3fn x f8e4m3fn"));
}

TEST_F(EightBitTest, GivesTheSameBytes) {
  const auto model = two_layers(), file = samples();
  for (const char* plan : {"a.plan", "b.plan"})
    EXPECT_EQ(compile(model, plan, {"--precision=int8", "--calibration", file}).code, 0);
  EXPECT_EQ(read(path("a.plan")), read(path("b.plan")));
}

TEST_F(EightBitTest, TheBudgetKeepsLayers) {
  const auto result =
      sinter({"--json", "compile", two_layers(), "--target=cpu", "-o", path("strict.plan"),
              "--precision=int8", "--calibration", samples(), "--max-error=1e-7"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json layers = json::parse(result.out)["layers"];
  for (const auto& layer : layers) {
    EXPECT_EQ(layer["bits"], 0);
    EXPECT_NE(layer["kept"], "");
  }
  const auto by_layer =
      compile(two_layers(), "layer.plan",
              {"--precision=int8", "--calibration", samples(), "--max-layer-error=1e-7"});
  EXPECT_THAT(by_layer.out, HasSubstr("--max-layer-error is 1e-07"));
}

TEST_F(EightBitTest, TheDefaultBudgetIsWhatIsSaidOfIt) {
  const auto said = fmt::format("({})", EightBitOptions{}.max_error);
  const std::string help = sinter({"compile", "--help"}).out;
  const std::size_t option = help.find("\n  --max-error");
  ASSERT_NE(option, std::string::npos);
  EXPECT_THAT(help.substr(option, help.find("\n  --", option + 1) - option), HasSubstr(said));
  EXPECT_THAT(read(source_dir() + "/tools/compiler/options/README.md"),
              HasSubstr("`--max-error E` " + said));
}

TEST_F(EightBitTest, MasksDoNotDefeatTheBudget) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  weights(graph->add_initializer(), "v", {4, 4});
  graph->mutable_node(3)->set_output(0, "s");
  node(graph, "MatMul", "last", {"s", "v"}, "logits");
  auto* mask = graph->add_initializer();
  mask->set_name("mask");
  mask->set_data_type(onnx::TensorProto::FLOAT);
  mask->add_dims(4);
  for (const float fill : {0.0F, 0.0F, 0.0F, -1e4F}) mask->add_float_data(fill);
  node(graph, "Add", "masked", {"logits", "mask"}, "y");
  const auto result = sinter({"--json", "compile", save(model), "--target=cpu", "-o",
                              path("masked.plan"), "--precision=int8", "--calibration", samples(),
                              "--include=last", "--max-error=1e-4"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json layers = json::parse(result.out)["layers"];
  ASSERT_EQ(layers.size(), 2U);
  for (const auto& layer : layers) EXPECT_EQ(layer["bits"], 0);
}

TEST_F(EightBitTest, RefusesWhatMeansNothing) {
  const auto model = two_layers(), file = samples();
  const auto refusal = [&](std::vector<std::string> options) {
    const auto result = compile(model, "x.plan", std::move(options));
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(refusal({"--precision=int8"}),
              AllOf(HasSubstr("--calibration FILE.npz"), HasSubstr("--activation-scales token")));
  EXPECT_THAT(refusal({"--precision=int8", "--weights=int8", "--calibration", file}),
              HasSubstr("choose one of them"));
  EXPECT_THAT(refusal({"--precision=int8", "--weights=int4", "--calibration", file}),
              HasSubstr("--weights int4 with --precision fp8"));
  EXPECT_THAT(
      refusal({"--precision=fp8", "--emulate", "--weights=int4", "--activation-scales=block"}),
      HasSubstr("--activation-scales token or static"));
  EXPECT_THAT(refusal({"--precision=fp8", "--emulate", "--weights=int4", "--weight-scales=tensor",
                       "--activation-scales=token"}),
              HasSubstr(":group=N"));
  EXPECT_THAT(refusal({"--precision=int8", "--calibration", file, "--smooth=2"}),
              HasSubstr("an exponent from 0 to 1"));
  EXPECT_THAT(refusal({"--precision=int8", "--calibration", file, "--smooth=half"}),
              HasSubstr("'half'"));
  EXPECT_THAT(refusal({"--precision=fp8", "--emulate", "--calibration", file, "--smooth=0.5"}),
              HasSubstr("--smooth is for --precision int8"));
  EXPECT_THAT(refusal({"--activation-scales=token"}), HasSubstr("--precision int8 or fp8"));
  EXPECT_THAT(refusal({"--precision=int8", "--activation-scales=block"}),
              AllOf(HasSubstr("--precision fp8"), HasSubstr("--activation-scales token")));
  EXPECT_THAT(refusal({"--precision=fp8", "--emulate", "--activation-scales=block",
                       "--weight-scales=tensor"}),
              HasSubstr("leave out --weight-scales tensor"));
  EXPECT_THAT(refusal({"--precision=int8", "--activation-scales=row"}),
              HasSubstr("static, token, block"));
  EXPECT_THAT(refusal({"--max-error=0.1"}), HasSubstr("--verify"));
  EXPECT_THAT(refusal({"--precision=int8", "--calibration", samples({5, 40, 8}, "z")}),
              HasSubstr("no input 'z'"));
  EXPECT_THAT(refusal({"--precision=int8", "--calibration", samples({5, 40, 9})}), HasSubstr("x"));
  tools::write_npz(path("nan.npz"),
                   {{"x", ir::Tensor::from_doubles(DType::kFloat32, {1, 1, 8},
                                                   std::vector<double>(std::size_t{8}, NAN))}});
  EXPECT_THAT(refusal({"--precision=int8", "--calibration", path("nan.npz")}),
              HasSubstr("sample 0 of 'x' has an element that is no number"));
}

TEST_F(EightBitTest, SaysWhatWasAskedForInVain) {
  const auto result =
      compile(two_layers(), "x.plan",
              {"--precision=int8", "--calibration", samples(), "--include=nothing"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--include nothing: no layer's name has this text"));
}

TEST_F(EightBitTest, RefitRefusesWhatSamplesDecided) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  weights(graph->add_initializer(), "v", {4, 4});
  graph->mutable_node(3)->set_output(0, "s");
  node(graph, "MatMul", "last", {"s", "v"}, "y");
  const auto before = save(model);
  for (int i = 0; i < 32; ++i)
    graph->mutable_initializer(0)->set_float_data(i, std::cos(static_cast<float>(i)));
  const auto after = save(model, "tuned.onnx");
  ASSERT_EQ(compile(before, "static.plan", {"--precision=int8", "--calibration", samples()}).code,
            0);
  const auto refused =
      sinter({"refit", path("static.plan"), "--weights", after, "-o", path("static2.plan")});
  EXPECT_EQ(refused.code, 3) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("quantize_products"));
  // Scales that are found in each run depend on no sample.
  const std::vector<std::string> token = {"--precision=int8", "--activation-scales=token"};
  ASSERT_EQ(compile(before, "token.plan", token).code, 0);
  ASSERT_EQ(compile(after, "compiled.plan", token).code, 0);
  const auto refitted =
      sinter({"refit", path("token.plan"), "--weights", after, "-o", path("token2.plan")});
  EXPECT_EQ(refitted.code, 0) << refitted.err;
  EXPECT_EQ(read(path("token2.plan")), read(path("compiled.plan")));
}

}  // namespace
}  // namespace sinter::tests
