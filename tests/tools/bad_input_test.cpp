// SPDX-License-Identifier: Apache-2.0
// Bad input gives one clear error, the right exit code, and loses nothing.
#include <gmock/gmock.h>
#include <sinter/sinter.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

class BadInput : public CliTest {
 protected:
  CliResult compile(const std::string& model) {
    return sinter({"compile", model, "-o", path("bad.plan"), "--target=cpu"});
  }
  /// The code and the texts of the one error; no plan may be left behind.
  void expect_refused(const std::string& model, int code, const std::vector<std::string>& texts) {
    const auto result = compile(model);
    EXPECT_EQ(result.code, code) << result.err;
    for (const auto& text : texts) EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_THAT(result.err, testing::StartsWith("error: "));
    EXPECT_FALSE(std::filesystem::exists(path("bad.plan")));
  }
};

TEST_F(BadInput, NoSuchFile) { expect_refused(path("none.onnx"), 2, {"none.onnx"}); }

TEST_F(BadInput, NotOnnx) {
  expect_refused(write("m.onnx", "this is no model at all"), 4, {"m.onnx"});
}

TEST_F(BadInput, Truncated) {
  const auto bytes = small_model().SerializeAsString();
  expect_refused(write("m.onnx", bytes.substr(0, bytes.size() / 2)), 4, {"m.onnx"});
}

TEST_F(BadInput, EmptyGraph) {
  onnx::ModelProto model = small_model();
  model.mutable_graph()->Clear();
  expect_refused(save(model), 4, {"graph"});
}

TEST_F(BadInput, UnknownOpset) {
  auto model = small_model();
  model.mutable_opset_import(0)->set_version(99);
  expect_refused(save(model), 3, {"99"});
}

TEST_F(BadInput, AllUnsupportedOperatorsAtOnce) {
  auto model = small_model();
  node(model.mutable_graph(), "RandomNormalLike", "first", {"y"}, "noise");
  node(model.mutable_graph(), "StringNormalizer", "second", {"y"}, "text");
  expect_refused(save(model), 3, {"RandomNormalLike", "first", "StringNormalizer", "second"});
}

TEST_F(BadInput, ShapesThatContradict) {
  auto model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, 4);
  model.mutable_graph()->mutable_initializer(0)->set_dims(1, 8);
  expect_refused(save(model), 4, {"product", "MatMul"});
}

TEST_F(BadInput, Cycle) {
  auto model = small_model();
  model.mutable_graph()->mutable_node(1)->set_input(0, "r");
  expect_refused(save(model), 4, {"cycl"});
}

TEST_F(BadInput, DuplicateNames) {
  auto model = small_model();
  model.mutable_graph()->mutable_node(1)->set_output(0, "xw");
  expect_refused(save(model), 4, {"xw"});
}

TEST_F(BadInput, ExternalDataOutsideTheFolder) {
  write("secret.bin", std::string(8 * 4 * 4, 'x'));
  std::filesystem::create_directories(path("model"));
  std::filesystem::create_symlink(path("secret.bin"), path("model/link.bin"));
  for (const auto& location : {std::string("../secret.bin"), path("secret.bin"),
                               std::string("link.bin"), std::string("a/../../secret.bin")}) {
    auto model = small_model();
    make_external(model.mutable_graph()->mutable_initializer(0), location);
    expect_refused(save(model, "model/m.onnx"), 4, {"'w'"});
  }
}

TEST_F(BadInput, SizesThatOverflow) {
  auto model = small_model();
  auto* tensor = model.mutable_graph()->mutable_initializer(0);
  tensor->set_dims(0, std::int64_t{1} << 40);
  tensor->set_dims(1, std::int64_t{1} << 40);
  expect_refused(save(model), 4, {"'w'"});
}

TEST_F(BadInput, WrongInputs) {
  const auto plan = compile_small();
  const auto expect_usage = [&](const std::vector<std::string>& options,
                                const std::vector<std::string>& texts) {
    std::vector<std::string> words = {"run", plan};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.err;
    for (const auto& text : texts) EXPECT_THAT(result.err, HasSubstr(text));
  };
  const auto npz = [&](const std::string& name, const ir::Tensor& tensor) {
    tools::write_npz(path("in.npz"), {{name, tensor}});
    return std::vector<std::string>{"--inputs", path("in.npz")};
  };
  const std::vector<float> sixteen(16, 1.0F);
  expect_usage(npz("z", ir::Tensor::of<float>(DType::kFloat32, {2, 8}, sixteen)), {"'z'", "x"});
  expect_usage(npz("x", ir::Tensor::of<float>(DType::kFloat32, {2, 2, 4}, sixteen)),
               {"'x'", "rank"});
  expect_usage(npz("x", ir::Tensor::of<float>(DType::kFloat32, {4, 4}, sixteen)),
               {"'x'", "8", "4"});
  const std::vector<double> wide(16, 1.0);
  expect_usage(npz("x", ir::Tensor::of<double>(DType::kFloat64, {2, 8}, wide)),
               {"'x'", "f32", "f64"});
  expect_usage({"--shapes=x:0x8"}, {"batch"});
  expect_usage({"--inputs", path("none.npz")}, {"none.npz"});
  expect_usage({"--inputs", path("rows.parquet")}, {"rows.parquet", "python -m pysinter run"});
  expect_usage({"--inputs", write("junk.npz", "junk")}, {"junk.npz"});
}

/// Drawn integers are 0 or 1, which no position of a decoder's cache need be.
TEST_F(BadInput, RandomInputsThatAModelDoesNotTake) {
  for (const char* verb : {"run", "bench", "profile"}) {
    const auto result = sinter({verb, source_dir() + "/models/tiny/decoder.onnx", "--target=cpu"});
    EXPECT_EQ(result.code, 2) << verb;
    EXPECT_THAT(result.err, testing::AllOf(HasSubstr("drawn at random"), HasSubstr("--inputs")));
  }
}

TEST_F(BadInput, PlansThatAreNone) {
  const auto expect_invalid = [&](const std::string& bytes, const std::vector<std::string>& texts) {
    const auto result = sinter({"run", write("bad.plan", bytes)});
    EXPECT_EQ(result.code, 5) << result.err;
    for (const auto& text : texts) EXPECT_THAT(result.err, HasSubstr(text));
  };
  const auto good = read(compile_small());
  expect_invalid("", {"bad.plan"});
  expect_invalid(good.substr(0, good.size() / 2), {"bad.plan"});
  auto foreign = good;
  foreign.replace(0, 4, "PK\x03\x04");
  expect_invalid(foreign, {"not a Sinter plan"});
}

TEST_F(BadInput, PlanForAGpuThatIsNotThere) {
#ifdef SINTER_WITH_CUDA
  if (sinter({"compile", save(small_model()), "--target=cuda", "-o", path("probe.plan")}).code == 0)
    return;  // this machine has one: tests/gpu covers what is refused there
  ASSERT_EQ(
      sinter({"compile", save(small_model()), "-o", path("g.plan"), "--target=cuda:sm_90"}).code,
      0);
  const auto result = sinter({"run", path("g.plan"), "--shapes=x:2x8"});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--target=cpu"));
#endif
  const auto compiled = sinter({"compile", save(small_model()), "--target=cuda"});
  EXPECT_EQ(compiled.code, 7) << compiled.err;
  EXPECT_THAT(compiled.err, HasSubstr("sm_90"));
}

}  // namespace
}  // namespace sinter::tests
