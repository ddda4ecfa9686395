// SPDX-License-Identifier: Apache-2.0
// Operators that a library computes, from a definition file to a run.
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HostOperatorTest : public CliTest {
 protected:
  void SetUp() override {
    // y = -RowSum(x), which is 10 + scale * the sum of each row.
    write_model("model.onnx", [](onnx::GraphProto& graph) {
      auto* node = graph.add_node();
      node->set_op_type("RowSum");
      node->set_domain("test");
      node->set_name("rows");
      node->add_input("x");
      node->add_output("s");
      auto* scale = node->add_attribute();
      scale->set_name("scale");
      scale->set_type(onnx::AttributeProto::FLOAT);
      scale->set_f(0.25F);
      auto* negative = graph.add_node();
      negative->set_op_type("Neg");
      negative->add_input("s");
      negative->add_output("y");
    });
    write_model("reference.onnx", [](onnx::GraphProto& graph) {
      const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) {
        auto* node = graph.add_node();
        node->set_op_type(op);
        for (const std::string& input : inputs) node->add_input(input);
        node->add_output(output);
        return node;
      };
      constant(graph, "scale", onnx::TensorProto::FLOAT)->add_float_data(0.25F);
      constant(graph, "bias", onnx::TensorProto::FLOAT)->add_float_data(10);
      auto* axes = constant(graph, "axes", onnx::TensorProto::INT64);
      axes->add_dims(1);
      axes->add_int64_data(1);
      auto* keep = add("ReduceSum", {"x", "axes"}, "sum")->add_attribute();
      keep->set_name("keepdims");
      keep->set_type(onnx::AttributeProto::INT);
      keep->set_i(0);
      add("Mul", {"sum", "scale"}, "scaled");
      add("Add", {"scaled", "bias"}, "y");
    });
    std::ofstream(path("ops.toml")) << R"toml(
[[operator]]
domain = "test"
name = "RowSum"
inputs = ["x"]
attributes = { bias = 10, scale = 0.5 }
reference = "reference.onnx"
[[operator.output]]
name = "y"
shape = ["x[0]"]
[operator.host]
library = "librows.so"
)toml";
  }

  template <typename Build>
  void write_model(const std::string& name, const Build& build) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    auto* opset = model.add_opset_import();
    opset->set_domain("");
    opset->set_version(17);
    opset = model.add_opset_import();
    opset->set_domain("test");
    opset->set_version(1);
    auto* graph = model.mutable_graph();
    graph->set_name("rows");
    value(graph->add_input(), "x", {"batch", "8"});
    value(graph->add_output(), "y", {"batch"});
    build(*graph);
    std::ofstream file(path(name), std::ios::binary);
    model.SerializeToOstream(&file);
  }
  static onnx::TensorProto* constant(onnx::GraphProto& graph, const char* name, int type) {
    auto* tensor = graph.add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    return tensor;
  }
  CliResult with(std::vector<std::string> words) {
    words.insert(words.end(), {"--op", path("ops.toml")});
    return sinter(std::move(words));
  }
};

TEST_F(HostOperatorTest, RunsWithTheLibraryThatIsNamed) {
  const CliResult compiled =
      with({"compile", path("model.onnx"), "-o", path("a.plan"), "--target=cpu"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const CliResult inspected = sinter({"inspect", path("a.plan")});
  EXPECT_THAT(inspected.out, HasSubstr("custom code: test::RowSum, host function"));
  const CliResult missing = sinter({"run", path("a.plan"), "--shapes=x:3x8"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err,
              AllOf(HasSubstr("'test::RowSum' (of 'librows.so')"), HasSubstr("--op-library FILE")));
  for (const char* verb : {"run", "bench", "profile"}) {
    std::vector<std::string> words = {verb, path("a.plan"), "--shapes=x:3x8", "--op-library",
                                      SINTER_TEST_OPERATORS};
    if (std::string(verb) == "bench") words.insert(words.end(), {"--iterations=3"});
    const CliResult result = sinter(words);
    EXPECT_EQ(result.code, 0) << verb << ": " << result.err;
  }
  const CliResult wrong =
      sinter({"run", path("a.plan"), "--shapes=x:3x8", "--op-library", path("ops.toml")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("cannot be opened"));
}

TEST_F(HostOperatorTest, IsVerifiedByItsReference) {
  const CliResult verified = with({"verify", path("model.onnx"), "--shapes=x:5x8", "--target=cpu",
                                   "--op-library", SINTER_TEST_OPERATORS});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  // The definition says another attribute than the reference computes with.
  const std::string text = R"toml(bias = 11)toml";
  std::ifstream file(path("ops.toml"));
  std::string changed{std::istreambuf_iterator<char>(file), {}};
  changed.replace(changed.find("bias = 10"), 9, text);
  std::ofstream(path("ops.toml")) << changed;
  const CliResult off = with({"verify", path("model.onnx"), "--shapes=x:5x8", "--target=cpu",
                              "--op-library", SINTER_TEST_OPERATORS});
  EXPECT_EQ(off.code, 1) << off.out << off.err;
  const CliResult missing = with({"verify", path("model.onnx"), "--shapes=x:5x8", "--target=cpu"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("'test::RowSum'"));
}

TEST_F(HostOperatorTest, IsMeasuredBeforeAPlanIsWritten) {
  const CliResult compiled =
      with({"compile", path("model.onnx"), "-o", path("a.plan"), "--target=cpu", "--verify",
            "--op-library", SINTER_TEST_OPERATORS});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  const CliResult compared = with({"compare", path("model.onnx"), "--target=cpu", "--shapes=x:5x8",
                                   "--rounds=2", "--op-library", SINTER_TEST_OPERATORS});
  EXPECT_EQ(compared.code, 0) << compared.err;
  const CliResult unused = with({"compile", path("model.onnx"), "-o", path("a.plan"),
                                 "--target=cpu", "--op-library", SINTER_TEST_OPERATORS});
  EXPECT_EQ(unused.code, 2);
  EXPECT_THAT(unused.err, HasSubstr("--op-library is for --verify and --tune"));
}

}  // namespace
}  // namespace sinter::tests
