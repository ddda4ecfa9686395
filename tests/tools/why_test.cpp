// SPDX-License-Identifier: Apache-2.0
// `inspect --why` and `inspect MODEL --steps`, as a user meets them.
#include "tools/compiler/inspect/why.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WhyTest : public CliTest {
 protected:
  WhyTest() : model_(save(small_model())) {}

  CliResult why(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"inspect", model_, "--target=cpu", "--why", a, b};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }

  std::string model_;
};

TEST_F(WhyTest, OneKernel) {
  const auto text = why("product", "activation");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("product (MatMul)\n  import: MatMul"),
                              HasSubstr("in one kernel: matmul (activation +2); with bias"),
                              HasSubstr("which saves"), HasSubstr("fuse_matmul"),
                              HasSubstr("typical shape")));
  const auto report = json::parse(why("product", "activation", {"--json"}).out);
  EXPECT_EQ(report["relation"], "one kernel");
  EXPECT_TRUE(report["together"]);
  EXPECT_EQ(report["between"], json({"bias"}));
  EXPECT_EQ(report["bytes"], 2 * 2 * 32 * 4 * 4);  // of product and bias; batch counts as 32
  EXPECT_EQ(report["launches"], 2);
  EXPECT_EQ(report["a"]["op"], "MatMul");
  EXPECT_EQ(report["a"]["changes"][0]["pass"], "import");
  EXPECT_FALSE(report["decisions"].empty());
}

TEST_F(WhyTest, SeparateKernels) {
  const auto text = why("normalise", "product");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("not in one kernel: data flow from product to normalise"),
                    HasSubstr("512 B read and 512 B stored"),
                    HasSubstr("one kernel of all of it would save 1.0 kB"), HasSubstr("1 launch")));
  const auto report = json::parse(why("product", "normalise", {"--json"}).out);
  EXPECT_EQ(report["relation"], "separate kernels");
  EXPECT_FALSE(report["together"]);
  ASSERT_EQ(report["boundaries"].size(), 1U);
  const auto& boundary = report["boundaries"][0];
  EXPECT_EQ(boundary["bytes_read"], 512);
  EXPECT_EQ(boundary["bytes_stored"], 512);
  EXPECT_EQ(boundary["values"][0], "f32[batch, 4]");
  EXPECT_FALSE(boundary["decisions"].empty() && boundary["reason"].get<std::string>().empty());
  EXPECT_EQ(report["bytes"], 1024);
}

TEST_F(WhyTest, WithoutFusingEveryOperatorIsAKernel) {
  const auto report = json::parse(why("product", "bias", {"--fuse=off", "--json"}).out);
  EXPECT_EQ(report["relation"], "separate kernels");
}

TEST_F(WhyTest, UnknownNamesHaveNearMatches) {
  const auto near = why("prodct", "bias");
  EXPECT_EQ(near.code, 2);
  EXPECT_THAT(near.err, AllOf(HasSubstr("the model has no node 'prodct'"),
                              HasSubstr("did you mean 'product'?")));
  const auto far = why("bias", "something else entirely");
  EXPECT_EQ(far.code, 2);
  EXPECT_THAT(far.err, AllOf(HasSubstr("no node 'something else entirely'"),
                             Not(HasSubstr("did you mean"))));
  EXPECT_THAT(why("bias", "bias").err, HasSubstr("both are 'bias'"));
}

TEST(NearMatches, AreTheLikeliestFirst) {
  const std::vector<std::string> names = {"encoder/layer.0/Add_1", "encoder/layer.0/Add_2",
                                          "encoder/layer.1/MatMul", "Softmax_7", "zz"};
  EXPECT_THAT(tools::near_matches("Add_2", names), testing::ElementsAre("encoder/layer.0/Add_2"));
  EXPECT_THAT(tools::near_matches("softmax_7", names), testing::ElementsAre("Softmax_7"));
  EXPECT_THAT(tools::near_matches("encoder/layer.0/Add_3", names),
              testing::ElementsAre("encoder/layer.0/Add_1", "encoder/layer.0/Add_2"));
  EXPECT_THAT(tools::near_matches("nothing like it", names), testing::IsEmpty());
}

TEST_F(WhyTest, NodesThatWereFolded) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  node(graph, "Exp", "constant", {"b"}, "eb");
  graph->mutable_node(1)->set_input(1, "eb");
  graph->mutable_node()->SwapElements(1, 4);
  graph->mutable_node()->SwapElements(4, 2);
  graph->mutable_node()->SwapElements(4, 3);
  model_ = save(model, "folded.onnx");
  const auto text = why("constant", "product");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("fold_constants: gone"),
                              HasSubstr("nothing of constant is left to compute")));
  const auto report = json::parse(why("constant", "product", {"--json"}).out);
  EXPECT_EQ(report["relation"], "no kernel");
  EXPECT_EQ(report["a"]["gone_in"], "fold_constants");
}

TEST_F(WhyTest, StepsOfAModelNeedNoPlan) {
  for (const std::string target : {"cpu"
#ifdef SINTER_WITH_CUDA
                                   ,
                                   "cuda:sm_90"
#endif
       }) {
    const auto steps = [&](const std::string& fuse) {
      const auto result = sinter({"inspect", model_, "--steps", "--target=" + target,
                                  "--fuse=" + fuse, "--shapes=x:2x8", "--json"});
      EXPECT_EQ(result.code, 0) << result.err;
      return json::parse(result.out);
    };
    const auto fused = steps("on"), unfused = steps("off");
    EXPECT_EQ(unfused["totals"]["steps"], 4) << target;
    EXPECT_EQ(unfused["totals"]["launches"], 4) << target;
    EXPECT_LT(fused["totals"]["launches"], 4) << target;
    // x, w and b are read, and four results of 2x4 float32 written, three of these read again.
    EXPECT_EQ(unfused["totals"]["bytes_written"], 4 * 2 * 4 * 4) << target;
    EXPECT_EQ(unfused["totals"]["bytes_read"], (2 * 8 + 8 * 4 + 4 + 3 * 2 * 4) * 4) << target;
    EXPECT_LT(fused["totals"]["bytes_read"], unfused["totals"]["bytes_read"]) << target;
    EXPECT_EQ(fused["step_list"].size(), fused["totals"]["steps"]) << target;
    // A plan that was compiled says the same.
    if (target != "cpu") continue;
    ASSERT_EQ(sinter({"compile", model_, "-o", path("m.plan"), "--target=" + target}).code, 0);
    const auto plan =
        json::parse(sinter({"inspect", path("m.plan"), "--steps", "--shapes=x:2x8", "--json"}).out);
    EXPECT_EQ(plan["totals"], fused["totals"]);
  }
  const auto symbolic = sinter({"inspect", model_, "--steps", "--target=cpu"});
  EXPECT_EQ(symbolic.code, 0) << symbolic.err;
  EXPECT_THAT(symbolic.out, HasSubstr("batch"));
}

}  // namespace
}  // namespace sinter::tests
