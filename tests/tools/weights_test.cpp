// compile --weights: what it prints, what it refuses, and that the plan computes it.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"

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

TEST_F(CliTest, WeightsRefusesWhatItDoesNotKnow) {
  const auto model = save(small_model());
  for (const char* text : {"int2", "int4:group=4", "int4:group=x", "int4:groups=32",
                           "model:group=8", "int8:", "int4:group=99999999999999999999"}) {
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
