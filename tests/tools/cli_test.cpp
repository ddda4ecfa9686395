// SPDX-License-Identifier: Apache-2.0
// The command line as a user meets it: what each verb prints, and exit codes.
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/plan.h>
#include <sinter/threads.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(CliTest, HelpShowsEveryVerbAndExamples) {
  const auto help = sinter({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const auto* verb :
       {"compile", "run", "bench", "compare", "inspect", "verify", "profile", "ops", "doctor"})
    EXPECT_THAT(help.out, HasSubstr(verb));
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_THAT(help.out, HasSubstr("Exit codes:"));
  EXPECT_EQ(sinter({"compile", "--help"}).code, 0);
}

TEST_F(CliTest, WrongWordsAreUsageErrors) {
  EXPECT_EQ(sinter({}).code, 2);
  EXPECT_EQ(sinter({"fly"}).code, 2);
  EXPECT_EQ(sinter({"compile"}).code, 2);
  EXPECT_EQ(sinter({"compile", "model.onnx", "--precision=fp12"}).code, 2);
  const auto target = sinter({"compile", save(small_model()), "--target=tpu"});
  EXPECT_EQ(target.code, 2);
  EXPECT_THAT(target.err, HasSubstr("'tpu' is no target"));
}

TEST_F(CliTest, CompileRunAndVerify) {
  const auto plan = compile_small();
  const auto run = sinter({"run", plan, "--shapes=x:3x8", "--outputs", path("out.npz")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("f32[3, 4]"));
  const auto outputs = tools::read_npz(path("out.npz"));
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].first, "y");
  EXPECT_NEAR(outputs[0].second.at(0) + outputs[0].second.at(1) + outputs[0].second.at(2) +
                  outputs[0].second.at(3),
              1.0, 1e-6);
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:3x8", "--expected", path("out.npz")}).code, 0);
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:3x8", "--seed=9", "--expected", path("out.npz")}).code,
            1);
  const auto verify = sinter({"verify", path("model.onnx"), "--target=cpu", "--shapes=x:5x8"});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
}

TEST_F(CliTest, SelectionsArePaddedOnRequest) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto* graph = model.mutable_graph();
  graph->set_name("selection");
  value(graph->add_input(), "boxes", {"1", "3", "4"});
  value(graph->add_input(), "scores", {"1", "1", "3"});
  auto* most = graph->add_initializer();
  most->set_name("most");
  most->set_data_type(onnx::TensorProto::INT64);
  most->add_int64_data(2);
  node(graph, "NonMaxSuppression", "select", {"boxes", "scores", "most"}, "y");
  graph->add_output()->set_name("y");
  save(model);
  // All boxes are one: its copies are not selected.
  const std::vector<float> boxes = {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1};
  const std::vector<float> scores = {0.5F, 0.75F, 0.25F};
  tools::write_npz(path("in.npz"),
                   {{"boxes", ir::Tensor::of<float>(DType::kFloat32, {1, 3, 4}, boxes)},
                    {"scores", ir::Tensor::of<float>(DType::kFloat32, {1, 1, 3}, scores)}});
  const auto selected = [&](std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"compile", path("model.onnx"), "-o", path("model.plan"), "--target=cpu"});
    const auto compiled = sinter(options);
    EXPECT_EQ(compiled.code, 0) << compiled.err;
    const auto run = sinter(
        {"run", path("model.plan"), "--inputs", path("in.npz"), "--outputs", path("out.npz")});
    EXPECT_EQ(run.code, 0) << run.err;
    return tools::read_npz(path("out.npz")).at(0).second.to_ints();
  };
  EXPECT_EQ(selected({}), (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(selected({"--nms-pad"}), (std::vector<std::int64_t>{0, 0, 1, -1, -1, -1}));
  EXPECT_THAT(sinter({"inspect", path("model.plan")}).out, HasSubstr("nms-pad=on"));
}

TEST_F(CliTest, InputsFromNumpyFiles) {
  const auto plan = compile_small();
  const std::vector<float> values(16, 0.25F);
  tools::write_npz(path("in.npz"), {{"x", ir::Tensor::of<float>(DType::kFloat32, {2, 8}, values)}});
  const auto run = sinter({"run", plan, "--inputs", path("in.npz")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("f32[2, 4]"));
}

TEST_F(CliTest, ShapesAreTheOnlyOnesThatThePlanTakes) {
  const auto model = save(small_model());
  const auto compiled =
      sinter({"compile", model, "-o", path("p.plan"), "--target=cpu", "--shapes=x:3x8"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_EQ(sinter({"run", path("p.plan")}).code, 0);
  EXPECT_EQ(sinter({"run", path("p.plan"), "--shapes=x:2x8"}).code, 2);
  const auto twice = sinter({"compile", model, "-o", path("p.plan"), "--target=cpu",
                             "--shapes=x:3x8", "--minShapes=x:1x8"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("of input 'x'"));
}

TEST_F(CliTest, OptionsOfTrtexecAreAnswered) {
  const auto build = sinter({"--onnx=m/net.onnx", "--saveEngine=net.engine", "--fp16",
                             "--minShapes=x:1x8", "--maxShapes=x:4x8"});
  EXPECT_EQ(build.code, 2);
  EXPECT_THAT(build.err, HasSubstr("write: sinter compile m/net.onnx -o net.engine --target=cuda "
                                   "--precision=fp16 --minShapes=x:1x8 --maxShapes=x:4x8; then "
                                   "sinter bench net.engine"));
  EXPECT_THAT(sinter({"compile", "--onnx=net.onnx", "--int8"}).err,
              HasSubstr("sinter compile net.onnx -o net.plan --target=cuda --precision=fp16 "
                        "--weights=int8"));
  EXPECT_THAT(sinter({"bench", "--loadEngine=net.engine", "--shapes=x:2x8"}).err,
              HasSubstr("write: sinter bench net.engine --shapes=x:2x8"));
  EXPECT_THAT(sinter({"--onnx=net.onnx", "--json"}).out + sinter({"--onnx=net.onnx", "--json"}).err,
              HasSubstr("write: sinter compile net.onnx"));
  EXPECT_THAT(sinter({"compile"}).err, testing::Not(HasSubstr("trtexec")));
}

TEST_F(CliTest, BfloatsGoThroughFilesAsTheirBits) {
  write("g.txt", "graph @g(%x: bf16[3]) {\n%y = Neg(%x)\nreturn y = %y\n}");
  const auto plan = path("g.plan");
  ASSERT_EQ(sinter({"compile", path("g.txt"), "-o", plan, "--target=cpu"}).code, 0);
  const auto ints = [](std::vector<std::int64_t> bits) {
    return ir::Tensor::from_ints(DType::kUInt16, {3}, bits);
  };
  tools::write_npz(path("in.npz"), {{"x", ints({0x3f80, 0xc000, 0x0000})}});
  tools::write_npz(path("wrong.npz"), {{"y", ints({0x3f80, 0xc000, 0x0000})}});
  const auto run = sinter({"run", plan, "--inputs", path("in.npz"), "--outputs", path("out.npz")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(tools::read_npz(path("out.npz")).at(0).second.to_ints(),
            (std::vector<std::int64_t>{0xbf80, 0x4000, 0x8000}));
  const auto compared = [&](const char* file) {
    return sinter({"run", plan, "--inputs", path("in.npz"), "--expected", path(file)}).code;
  };
  EXPECT_EQ(compared("out.npz"), 0);
  EXPECT_EQ(compared("wrong.npz"), 1);
}

TEST_F(CliTest, JsonIsOneObjectOnStdout) {
  const auto plan = compile_small();
  const auto compiled = json::parse(
      sinter({"compile", path("model.onnx"), "-o", plan, "--target=cpu", "--json"}).out);
  EXPECT_EQ(compiled["target"], "cpu");
  EXPECT_GT(compiled["bytes"], 0);
  const auto inspected = json::parse(sinter({"inspect", plan, "--json"}).out);
  EXPECT_EQ(inspected["inputs"][0]["name"], "x");
  const auto bench =
      json::parse(sinter({"bench", plan, "--shapes=x:2x8", "--iterations=3", "--json"}).out);
  EXPECT_GT(bench["latency_us"]["median"], 0);
  const auto several =
      json::parse(sinter({"bench", plan, plan, "--shapes=x:2x8", "--iterations=3", "--json"}).out);
  ASSERT_EQ(several.size(), 2u);
  EXPECT_EQ(several[1]["plan"], plan);
  const auto compare = json::parse(sinter({"compare", path("model.onnx"), "--target=cpu",
                                           "--shapes=x:2x8", "--rounds=5", "--json"})
                                       .out);
  EXPECT_TRUE(compare["variants"].contains("fused"));
  EXPECT_GT(compare["variants"]["unfused"]["launches"], compare["variants"]["fused"]["launches"]);
  EXPECT_LT(compare["fused_against_unfused_error"], 1e-5);
  const auto error = json::parse(sinter({"run", path("none.plan"), "--json"}).out);
  EXPECT_EQ(error["error"]["code"], "usage");
  const auto refused = sinter({"compile", "--json", "--no-such-option", "x"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(json::parse(refused.out)["error"]["code"], "usage");
  EXPECT_TRUE(json::parse(sinter({"ops", "--json"}).out).contains("operators"));
  const auto machine = json::parse(sinter({"doctor", "--json"}).out);
  EXPECT_TRUE(machine.contains("findings"));
  const auto doctor = sinter({"doctor"}).out;
  EXPECT_THAT(doctor, HasSubstr("plans for the CPU can be compiled and run here"));
  EXPECT_EQ(doctor.find("plans for GPUs can be compiled here, but not run") != doctor.npos,
            machine.at("gpus").at("compiles") && !machine.at("gpus").at("runs"));
}

TEST_F(CliTest, ThreadsAreThoseOfThePool) {
  const std::string plan = compile_small();
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:2x8", "--threads=3"}).code, 0);
  EXPECT_EQ(thread_pool_size(), 3);
  const auto negative = sinter({"run", plan, "--shapes=x:2x8", "--threads=-1"});
  EXPECT_EQ(negative.code, 2);
  EXPECT_THAT(negative.err, HasSubstr("-1 threads"));
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:2x8", "--threads=0"}).code, 0);
}

TEST_F(CliTest, DeviceIoNeedsAPlanForTheGpu) {
  const auto bench = sinter({"bench", compile_small(), "--shapes=x:2x8", "--deviceIo"});
  EXPECT_EQ(bench.code, 2);
  EXPECT_THAT(bench.err, HasSubstr("--deviceIo needs a plan for the target cuda"));
}

TEST_F(CliTest, InspectShowsEachView) {
  const auto plan = compile_small();
  EXPECT_THAT(sinter({"inspect", plan}).out, HasSubstr("input x: f32[batch="));
  EXPECT_THAT(sinter({"inspect", plan, "--steps"}).out, HasSubstr("product"));
  EXPECT_THAT(sinter({"inspect", plan, "--graph"}).out, StartsWith("graph @"));
  EXPECT_THAT(sinter({"inspect", plan, "--memory", "--shapes=x:2x8"}).out,
              HasSubstr("without reuse"));
  EXPECT_EQ(sinter({"inspect", plan, "--memory"}).code, 2);
  EXPECT_THAT(sinter({"inspect", path("model.onnx")}).out, HasSubstr("opset 17"));
  EXPECT_THAT(sinter({"inspect", "--passes"}).out, HasSubstr("fuse_pointwise"));
  EXPECT_THAT(
      sinter({"inspect", path("model.onnx"), "--target=cpu", "--why", "product", "bias"}).out,
      HasSubstr("product"));
}

TEST_F(CliTest, PassesCanBeStoppedAndDumped) {
  const auto model = save(small_model());
  const auto stopped = sinter({"compile", model, "--target=cpu", "--stop-after=recognise"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("Softmax("));
  const auto dumped =
      sinter({"compile", model, "-o", path("a.plan"), "--target=cpu", "--dump-ir=after:decompose"});
  EXPECT_THAT(dumped.err, HasSubstr("# after:decompose"));
  const auto explained =
      sinter({"compile", model, "-o", path("a.plan"), "--target=cpu", "--explain-fusion"});
  EXPECT_THAT(explained.out, HasSubstr(" -> "));
  EXPECT_EQ(sinter({"compile", model, "--target=cpu", "--disable-pass=fly"}).code, 2);
  EXPECT_EQ(sinter({"compile", model, "--target=cpu", "--dump-ir=after:fly"}).code, 2);
}

TEST_F(CliTest, SaysHowDevicesWouldShareAModelAndCompilesItForCpuRanks) {
  const auto model = save(small_model());
  EXPECT_EQ(sinter({"compile", model, "--target=cpu", "--explain-sharding"}).code, 2);
  EXPECT_EQ(
      sinter({"compile", model, "--target=cpu", "--tensor-parallel=2", "--explain-sharding"}).code,
      0);
  const auto compiled =
      sinter({"compile", model, "-o", path("ranks.plan"), "--target=cpu", "--tensor-parallel=2"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_EQ(Plan::load(path("ranks.plan")).ranks(), 2U);
  EXPECT_EQ(sinter({"run", path("ranks.plan")}).code, 0);
  EXPECT_EQ(sinter({"compile", model, "--target=cpu", "--tensor-parallel=16"}).code, 2);
  EXPECT_EQ(sinter({"verify", model, "--target=cpu", "--tensor-parallel=2"}).code, 0);
  EXPECT_EQ(sinter({"verify", model, "--target=cpu", "--tensor-parallel=2", "--bisect"}).code, 2);
#ifdef SINTER_WITH_CUDA
  const std::vector<std::string> of_two = {
      "compile", model, "-o", path("two.plan"), "--target=cuda:sm_90", "--tensor-parallel=2"};
  const auto made = sinter(of_two);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(Plan::load(path("two.plan")).ranks(), 2U);
  auto explained = of_two;
  explained.push_back("--explain-sharding");
  const auto result = sinter(explained);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 devices: weights"));
  explained[5] = "--tensor-parallel=64";
  EXPECT_THAT(sinter(explained).out, HasSubstr("64 devices: weights"));
  explained[5] = "--tensor-parallel=9";
  EXPECT_EQ(sinter(explained).code, 2);
  explained[5] = "--tensor-parallel=128";
  EXPECT_EQ(sinter(explained).code, 2);
#endif
}

TEST_F(CliTest, PlansAreReproducible) {
  const auto model = save(small_model());
  std::filesystem::create_directories(path("a"));
  std::filesystem::create_directories(path("b"));
  for (const auto* target : {"--target=cpu"
#ifdef SINTER_WITH_CUDA
                             ,
                             "--target=cuda:sm_90,sm_80"
#endif
       }) {
    ASSERT_EQ(
        sinter({"compile", model, "-o", path("a/m.plan"), target, "-j1", "--kernel-cache=none"})
            .code,
        0);
    ASSERT_EQ(
        sinter({"compile", model, "-o", path("b/m.plan"), target, "-j2", "--kernel-cache=none"})
            .code,
        0);
    EXPECT_EQ(read(path("a/m.plan")), read(path("b/m.plan"))) << target;
  }
}

#ifdef SINTER_WITH_CUDA
TEST_F(CliTest, CompilesForGpusThatAreNotThere) {
  const auto model = save(small_model());
  const auto result =
      sinter({"compile", model, "-o", path("g.plan"), "--target=cuda:sm_80,sm_90,sm_100"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(sinter({"inspect", path("g.plan")}).out, HasSubstr("cuda (sm_80, sm_90, sm_100)"));
  EXPECT_THAT(sinter({"inspect", path("g.plan"), "--source"}).out, HasSubstr("__global__"));
  EXPECT_THAT(sinter({"inspect", path("g.plan"), "--kernels"}).out, HasSubstr("schedule"));
  EXPECT_THAT(sinter({"inspect", path("g.plan"), "--tuning"}).out,
              HasSubstr("nothing has been chosen by timing yet"));
  const auto again = json::parse(
      sinter({"compile", model, "-o", path("g.plan"), "--target=cuda:sm_80,sm_90,sm_100", "--json"})
          .out);
  // One cached kernel for each architecture.
  EXPECT_EQ(again["kernels_from_cache"], 3 * again["kernels"].get<int>());
}

TEST_F(CliTest, CompileSaysThatFloat32ProductsAreExact) {
  write("g.txt",
        "graph @g(%x: f32[n, 64, 56, 56]) ranges {n: 1..64} {\n"
        "  %w = const f32[64, 64, 3, 3] random(1)\n"
        "  %y = Conv(%x, %w) {strides = [1, 1], dilations = [1, 1], pads_begin = [1, 1], "
        "pads_end = [1, 1], group = 1}\n"
        "  return y = %y\n}");
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compile", path("g.txt"), "-o", path("g.plan")};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out + result.err;
  };
  // 64 images, 14.8 GFLOP: at 0.7 of 67 and 494 TFLOP/s.
  EXPECT_THAT(said({"--target=cuda:sm_90"}),
              HasSubstr("1 float32 product is exact (316 us by the cost model); --precision tf32"));
  for (const char* option : {"--precision=tf32", "--precision=fp16"})
    EXPECT_THAT(said({"--target=cuda:sm_90", option}), Not(HasSubstr("exact")));
  EXPECT_THAT(said({"--target=cpu"}), Not(HasSubstr("exact")));
}
#endif

TEST_F(CliTest, OperatorsInTheDocumentationAreThoseOfTheTable) {
  std::ifstream file(source_dir() + "/frontend/OPERATORS.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(sinter({"ops", "--markdown"}).out, text) << "tools/update_docs writes it anew";
}

}  // namespace
}  // namespace sinter::tests
