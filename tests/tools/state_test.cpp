// SPDX-License-Identifier: Apache-2.0
// States from a graph to a session: a decoder that fills its cache, on the CPU.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/decode_step.h"
#include "tests/tools/cli_fixture.h"

namespace sinter::tools::test {
namespace {

ir::Tensor tensor_of(const TensorView& view) {
  const std::span bytes(static_cast<const std::byte*>(view.data), view.byte_count());
  return ir::Tensor(view.dtype, view.shape, ir::Buffer::copy_of(bytes));
}

ir::Tensor zeros(std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return ir::Tensor::from_doubles(DType::kFloat16, std::move(shape), std::vector<double>(count));
}

TEST(States, ADecoderFillsItsCache) {
  const ir::Graph graph = ir::parse_graph(tests::kDecodeStep);
  fusion::Context context;
  context.target = codegen::cpu_target().traits();
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  const auto compiled = codegen::compile(fused, {});
  ASSERT_EQ(compiled.states.size(), 2u);
  for (const auto& state : compiled.states) EXPECT_TRUE(state.in_place) << state.reason;
  for (const auto& step : compiled.parts.meta.steps)
    EXPECT_NE(step->work.type, plan::fb::Work::CopyStep) << step->name;

  Session session(Plan::from_memory(plan::serialize_plan(compiled.parts)), {.threads = 1});
  ir::Tensor key = zeros({2, 2, 96, 32}), value = key;
  for (int position = 0; position < 12; ++position) {
    std::vector<double> values;
    for (int i = 0; i < 256; ++i) values.push_back(((i * 37 + position * 101) % 64 - 32) / 32.0);
    const ir::Tensor x = ir::Tensor::from_doubles(DType::kFloat16, {2, 1, 128}, values);
    const ir::Tensor at = ir::Tensor::from_doubles(
        DType::kInt64, {1}, std::vector<double>{static_cast<double>(position)});
    session.set_input("x", {x.dtype(), x.shape(), x.bytes().data(), Memory::kHost});
    session.set_input("position", {at.dtype(), at.shape(), at.bytes().data(), Memory::kHost});
    session.run();
    const auto expected = ir::evaluate(graph, std::vector<ir::Tensor>{x, at, key, value});
    for (std::size_t o = 0; o < expected.size(); ++o) {
      const ir::Tensor found = tensor_of(session.output(graph.output_names()[o]));
      for (std::int64_t i = 0; i < found.element_count(); ++i)
        ASSERT_NEAR(found.at(i), expected[o].at(i), 0.02)
            << graph.output_names()[o] << "[" << i << "] at " << position;
    }
    key = expected[1];
    value = expected[2];
  }
}

class StateOption : public tests::CliTest {
 protected:
  StateOption()
      : model_(write("model.txt",
                     "graph @main(%h: f32[4], %x: f32[4]) {\n  %y = Add(%h, %x)\n"
                     "  %z = Mul(%h, %y)\n  return y = %y, z = %z\n}\n")) {}

  tests::CliResult compile(std::vector<std::string> more) {
    std::vector<std::string> words = {"compile", model_, "-o", path("model.plan"), "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }

  std::string model_;
};

TEST_F(StateOption, NamesAnInputAndAnOutput) {
  const auto result = compile({"--state", "h=y"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr(
                              "state h -> y: copied after each run: 'add_mul' makes a new value"));
  const auto shown = sinter({"inspect", path("model.plan")}).out;
  EXPECT_THAT(shown,
              ::testing::HasSubstr("input x: f32[4]\noutput z: f32[4]\nstate h -> y: f32[4]"));
  EXPECT_THAT(sinter({"inspect", path("model.plan"), "--json"}).out,
              ::testing::HasSubstr("\"states\""));
  EXPECT_THAT(compile({}).out, ::testing::Not(::testing::HasSubstr("state ")));
}

TEST_F(StateOption, ThatCannotBeIsRefused) {
  EXPECT_THAT(compile({"--state", "h"}).err, ::testing::HasSubstr("'h' is not INPUT=OUTPUT"));
  const auto unknown = compile({"--state", "h=w"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, ::testing::HasSubstr("no output 'w'; the model has 'y', 'z'"));
}

class CachePrecisionOption : public tests::CliTest {
 protected:
  CachePrecisionOption() : model_(write("decoder.txt", tests::kDecodeStep)) {}

  tests::CliResult compile(std::vector<std::string> more) {
    std::vector<std::string> words = {"compile", model_, "-o", path("model.plan")};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }

  std::string model_;
};

TEST_F(CachePrecisionOption, SaysWhatCachesBecome) {
  const auto result = compile({"--target=cpu", "--cache-precision=int8", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["caches"].size(), 2u);
  EXPECT_EQ(json["caches"][0]["input"], "key");
  EXPECT_EQ(json["caches"][0]["scales"], "key.scales");
  EXPECT_EQ(json["caches"][0]["model_type"], "f16");
  EXPECT_EQ(json["caches"][0]["type"], "i8");
  EXPECT_EQ(json["states"].size(), 4u);
  for (const auto& state : json["states"]) EXPECT_TRUE(state["in_place"]) << state;
  const auto table = compile({"--target=cpu", "--cache-precision=fp8"});
  EXPECT_THAT(table.out + table.err, testing::HasSubstr("f16 -> f8e4m3fn"));
}

TEST_F(CachePrecisionOption, IsVerifiedByWhatRowsStandFor) {
  for (const char* precision : {"fp8", "int8"}) {
    const auto result = compile(
        {"--target=cpu", std::string("--cache-precision=") + precision, "--verify", "--json"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
  }
}

#ifdef SINTER_WITH_CUDA
TEST_F(CachePrecisionOption, OneKernelRoundsAndReadsTheNewRow) {
  const auto result = compile({"--target=cuda:sm_90", "--cache-precision=fp8", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto exact = compile({"--target=cuda:sm_90", "--json"});
  EXPECT_EQ(nlohmann::json::parse(result.out)["steps"], nlohmann::json::parse(exact.out)["steps"]);
}
#endif

TEST_F(CachePrecisionOption, WithoutACacheIsRefused) {
  const auto model =
      write("none.txt", "graph @main(%x: f32[4]) {\n  %y = Neg(%x)\n  return y = %y\n}\n");
  const auto result =
      sinter({"compile", model, "-o", path("none.plan"), "--target=cpu", "--cache-precision=int8"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, testing::HasSubstr("the model has no cache that it changes in place"));
}

}  // namespace
}  // namespace sinter::tools::test
