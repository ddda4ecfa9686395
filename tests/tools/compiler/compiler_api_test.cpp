// SPDX-License-Identifier: Apache-2.0
// <sinter/compiler.h>: the same plans as the command line's, and everything said as data.
#include "tests/tools/compiler/compiler_api.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sinter/file_error.h>
#include <sys/resource.h>

#include "tests/support/paths.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(CompilerApi, PathBytesFileAndCommandLineMakeTheSamePlan) {
  const auto model = save(small_model());
  const std::vector<std::string> words = {
      "--target=cpu", "--dim",          "batch=1..9", "--weights=int8:group=8",
      "--entry",      "few:batch=1..2", "--entry",    "many:batch=1..9"};
  auto compile_words = std::vector<std::string>{"compile", model, "-o", path("cli.plan")};
  compile_words.insert(compile_words.end(), words.begin(), words.end());
  ASSERT_EQ(sinter(compile_words).code, 0);
  const std::string expected = read(path("cli.plan"));

  CompileOptions options = cpu();
  options.dims["batch"] = {1, 9, 1, ""};
  options.weights = parse_weights("int8:group=8");
  options.entries = {parse_entry("few:batch=1..2"), parse_entry("many:batch=1..9")};
  const CompileResult from_path = compile(model, options);
  EXPECT_EQ(text_of(from_path.plan), expected);
  EXPECT_EQ(from_path.plan_bytes, expected.size());
  EXPECT_EQ(from_path.target, "cpu");
  EXPECT_EQ(from_path.nodes_imported, 4U);
  EXPECT_THAT(from_path.layers, testing::SizeIs(1));

  const std::string contents = read(model);
  Model in_memory(bytes_of(contents));
  in_memory.name = "model.onnx";
  EXPECT_EQ(text_of(compile(in_memory, options).plan), expected);

  const CompileResult to_file = compile_to_file(model, path("api.plan"), options);
  EXPECT_EQ(read(path("api.plan")), expected);
  EXPECT_THAT(to_file.plan, IsEmpty());
  EXPECT_EQ(to_file.path, path("api.plan"));
  EXPECT_EQ(Plan::load(to_file.path).entries().size(), 2U);
}

TEST_F(CompilerApi, GraphTextIsAModelToo) {
  const std::string text =
      "# a comment\ngraph @g(%x: f32[n]) ranges {n: 1..9} {\n  %y = Relu(%x)\n"
      "  return y = %y\n}\n";
  const auto file = write("g.sinter", text);
  Model in_memory(bytes_of(text));
  in_memory.name = "g.sinter";
  EXPECT_EQ(text_of(compile(in_memory, cpu()).plan), text_of(compile(file, cpu()).plan));
}

TEST_F(CompilerApi, RefusedNodesAreData) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  node(graph, "RandomNormalLike", "noise", {"y"}, "z");
  node(graph, "Exotic", "stranger", {"x", "w"}, "q")->set_domain("com.example");
  value(graph->add_output(), "z", {"batch", "4"});
  value(graph->add_output(), "q", {"batch", "8"});
  const CompileError error = refusal(save(model));
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("2 of the model's 6 nodes are not supported"));
  std::map<std::string, Diagnostic> nodes;
  for (const auto& diagnostic : error.diagnostics())
    if (diagnostic.severity == Severity::kError) nodes[diagnostic.node] = diagnostic;
  ASSERT_EQ(nodes.size(), 2U);
  const Diagnostic& noise = nodes.at("noise");
  EXPECT_EQ(noise.code, "unsupported");
  EXPECT_EQ(noise.op, "RandomNormalLike-17");
  EXPECT_THAT(noise.shapes, ElementsAre("f32[batch, 4]"));
  EXPECT_THAT(noise.message, AllOf(HasSubstr("'noise'"), HasSubstr("not known")));
  EXPECT_THAT(noise.hint, HasSubstr("pass random numbers in as an input"));
  const Diagnostic& stranger = nodes.at("stranger");
  EXPECT_EQ(stranger.op, "com.example::Exotic-1");
  EXPECT_THAT(stranger.shapes, ElementsAre("f32[batch, 8]", "f32[8, 4]"));
  EXPECT_THAT(stranger.hint, HasSubstr("com.example"));

  // The command line says the same in JSON.
  const auto cli = sinter({"compile", path("model.onnx"), "--target=cpu", "--json"});
  EXPECT_EQ(cli.code, 3);
  const auto object = json::parse(cli.out).at("error");
  EXPECT_EQ(object.at("code"), "unsupported");
  ASSERT_EQ(object.at("nodes").size(), 2U);
  EXPECT_EQ(object.at("nodes")[0].at("node"), "noise");
  EXPECT_EQ(object.at("nodes")[0].at("hint"), noise.hint);
}

TEST_F(CompilerApi, ANodeThatContradictsItselfIsNamed) {
  auto model = small_model();
  model.mutable_graph()->mutable_node(3)->add_input("b");
  auto* axis = model.mutable_graph()->mutable_node(3)->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::STRING);
  const CompileError error = refusal(save(model));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
  ASSERT_THAT(error.diagnostics(), Not(IsEmpty()));
  const Diagnostic& last = error.diagnostics().back();
  EXPECT_EQ(last.severity, Severity::kError);
  EXPECT_EQ(last.code, "invalid_model");
  EXPECT_EQ(last.node, "normalise");
  EXPECT_EQ(last.op, "Softmax-17");
  EXPECT_EQ(last.message, error.what());
}

TEST_F(CompilerApi, WhatWasSaidBeforeAnErrorIsThere) {
  auto model = small_model();
  model.add_training_info();  // of which import says that it is ignored
  CompileOptions options = cpu();
  options.schedule = "nonsense 3";
  options.disabled_passes = {"no_such_pass"};
  std::vector<std::string> heard;
  options.monitor.on_diagnostic = [&](const Diagnostic& diagnostic) {
    heard.push_back(diagnostic.message);
  };
  const CompileError error = refusal(save(model), options);
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  ASSERT_EQ(error.diagnostics().size(), 2U);
  EXPECT_EQ(error.diagnostics()[0].severity, Severity::kWarning);
  EXPECT_EQ(error.diagnostics()[0].code, "import");
  EXPECT_THAT(error.diagnostics()[0].message, HasSubstr("training"));
  EXPECT_THAT(heard, ElementsAre(error.diagnostics()[0].message));
}

TEST_F(CompilerApi, ProgressGrowsAndEndsWithinItsTotal) {
  CompileOptions options = cpu();
  options.entries = {parse_entry("few:batch=1..2"), parse_entry("many:batch=1..9")};
  options.verify.emplace();
  std::vector<std::string> stages;
  std::size_t before = 0;
  options.monitor.on_progress = [&](std::string_view stage, std::size_t done, std::size_t total) {
    if (stages.empty() || stages.back() != stage) {
      stages.emplace_back(stage);
      before = 0;
    }
    EXPECT_GE(done, before) << stage;
    EXPECT_LE(done, total) << stage;
    before = done;
  };
  EXPECT_TRUE(compile(save(small_model()), options).ok());
  EXPECT_THAT(stages, ElementsAre("import", "passes", "compiling kernels", "reference"));
}

TEST_F(CompilerApi, CanBeStoppedInEveryStage) {
  const auto model = save(small_model());
  const auto before = files();
  for (const std::string where : {"import", "passes", "compiling kernels", "reference"}) {
    std::stop_source source;
    CompileOptions options = cpu();
    options.verify.emplace();
    options.monitor.stop = source.get_token();
    std::size_t after = 0;
    options.monitor.on_progress = [&](std::string_view stage, std::size_t, std::size_t) {
      after += source.stop_requested();
      if (stage == where) source.request_stop();
    };
    const CompileError error =
        error_of([&] { (void)compile_to_file(model, path("stopped.plan"), options); });
    EXPECT_EQ(error.code(), ErrorCode::kCancelled) << where << ": " << error.what();
    EXPECT_EQ(after, 0U) << where;
    EXPECT_EQ(files(), before) << where;
  }
}

TEST_F(CompilerApi, WhatACallbackThrowsComesOut) {
  struct Own {};
  CompileOptions options = cpu();
  options.monitor.on_progress = [](std::string_view stage, std::size_t, std::size_t) {
    if (stage == "passes") throw Own();
  };
  EXPECT_THROW((void)compile(save(small_model()), options), Own);
}

TEST_F(CompilerApi, PrintsNothing) {
  const auto model = save(small_model());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CompileOptions options = cpu();
  options.weights = parse_weights("int4");  // which is told about
  options.weights.keep = {"no such layer"};
  const auto result = compile(model, options);
  (void)refusal(path("missing.onnx"));
  (void)verify(model, options);
  (void)why(model, "product", "bias", cpu());
  (void)inspect_plan(Plan::from_memory(result.plan));
  CompareOptions brief;
  brief.rounds = 1;
  (void)compare(model, cpu(), brief);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::vector<std::string> messages;
  for (const auto& diagnostic : result.diagnostics) messages.push_back(diagnostic.message);
  EXPECT_THAT(messages, testing::Contains(HasSubstr("no layer's name has this text")));
}

TEST_F(CompilerApi, ExternalDataOfBytesNeedAFolder) {
  auto model = small_model();
  auto* tensor = model.mutable_graph()->mutable_initializer(0);
  std::string data(8 * 4 * sizeof(float), '\0');
  tensor->clear_float_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = tensor->add_external_data();
  location->set_key("location");
  location->set_value("w.bin");
  write("w.bin", data);
  const std::string contents = model.SerializeAsString();
  EXPECT_THAT(refusal(Model(bytes_of(contents))).what(),
              AllOf(HasSubstr("'w'"), HasSubstr("w.bin"), HasSubstr("folder")));
  EXPECT_TRUE(compile(Model(bytes_of(contents), folder_.string()), cpu()).ok());
}

TEST_F(CompilerApi, AboveTheAllowedErrorThereIsNoPlan) {
  CompileOptions options = cpu();
  options.verify.emplace();
  options.verify->inputs.seed = 3;
  const auto good = compile(save(small_model()), options);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.accuracy->source, "seed 3");
  EXPECT_THAT(good.plan, Not(IsEmpty()));
  options.verify->max_error = 1e-30;
  const auto bad = compile_to_file(path("model.onnx"), path("bad.plan"), options);
  EXPECT_FALSE(bad.ok());
  EXPECT_THAT(bad.path, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path("bad.plan")));
  ASSERT_THAT(bad.diagnostics, Not(IsEmpty()));
  EXPECT_EQ(bad.diagnostics.back().severity, Severity::kError);
  EXPECT_EQ(bad.diagnostics.back().code, "accuracy");
}

TEST_F(CompilerApi, TensorsAreTakenAsFilesAre) {
  const auto model = save(small_model());
  std::vector<float> samples(16 * 8);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<float>(i * 5 % 13) / 13.0F;
  tools::write_npz(path("in.npz"),
                   {{"x", ir::Tensor::of<float>(DType::kFloat32, {16, 8}, samples)}});
  CompileOptions from_file = cpu(), from_memory = cpu();
  from_file.weights = from_memory.weights = parse_weights("int4");
  from_file.weights.calibration_files = {path("in.npz")};
  const NamedTensor given{"x", {DType::kFloat32, {16, 8}, samples.data(), Memory::kHost}};
  from_memory.weights.calibration = {given};
  const auto a = compile(model, from_file), b = compile(model, from_memory);
  ASSERT_EQ(a.layers.size(), 1U);
  EXPECT_EQ(a.layers[0].output_error, b.layers[0].output_error);
  EXPECT_NE(a.layers[0].output_error, compile(model,
                                              [] {
                                                auto plain = cpu();
                                                plain.weights = parse_weights("int4");
                                                return plain;
                                              }())
                                          .layers[0]
                                          .output_error);

  CompileOptions fixed = cpu();
  fixed.constants = {given};
  EXPECT_THAT(Plan::from_memory(compile(model, fixed).plan).inputs(), IsEmpty());
  VerifyOptions on_given;
  on_given.inputs.tensors = {given};
  EXPECT_EQ(verify(model, cpu(), on_given).source, "given tensors");
}

TEST_F(CompilerApi, OptionsThatContradict) {
  const auto model = save(small_model());
  const auto message = [&](auto change) {
    CompileOptions options = cpu();
    change(options);
    const CompileError error = refusal(model, options);
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return std::string(error.what());
  };
  EXPECT_THAT(message([](auto& o) { o.weights.keep = {"product"}; }), HasSubstr("int8 or int4"));
  EXPECT_THAT(message([](auto& o) { o.weights.bits = 3; }), HasSubstr("3 bits"));
  EXPECT_THAT(message([](auto& o) {
                o.dims["rows"] = {1, 2, 1, ""};
              }),
              HasSubstr("no symbolic dimension 'rows'"));
  EXPECT_THAT(message([](auto& o) {
                o.entries = {parse_entry("a:batch=1"), parse_entry("a:batch=2")};
              }),
              HasSubstr("there twice"));
  EXPECT_THAT(message([](auto& o) { o.target = "tpu"; }), HasSubstr("'tpu' is no target"));
  EXPECT_THAT(message([](auto& o) { o.tuning.seconds = 1; }), HasSubstr("in a file"));
  EXPECT_EQ(error_of([&] { (void)compile(Model(), cpu()); }).code(), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { (void)compile_to_file(model, "", cpu()); }).code(), ErrorCode::kUsage);
}

TEST_F(CompilerApi, WhatWasThereStaysIfACompilationFails) {
  const auto model = save(small_model());
  const std::string plan = path("kept.plan");
  (void)compile_to_file(model, plan, cpu());
  const std::string before = read(plan);
  const auto names = files();
  // The last that is said, behind the writing of the plan.
  struct Own {};
  CompileOptions options = cpu();
  options.weights = parse_weights("int8");
  options.weights.keep = {"no such layer"};
  options.monitor.on_diagnostic = [](const Diagnostic& diagnostic) {
    if (diagnostic.message.find("no layer's name") != std::string::npos) throw Own();
  };
  EXPECT_THROW((void)compile_to_file(model, plan, options), Own);
  EXPECT_EQ(read(plan), before);
  EXPECT_EQ(files(), names);
  // A full disk, for which a limit of the file's size stands.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{64, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const CompileError error = error_of([&] { (void)compile_to_file(model, plan, cpu()); });
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("cannot write the plan"));
  EXPECT_EQ(read(plan), before);
  EXPECT_EQ(files(), names);
}

TEST_F(CompilerApi, AnErrorOfAFileIsNestedInTheCalls) {
  Model model;
  model.path = path("none.onnx");
  try {
    (void)compile(model, cpu());
    FAIL() << "it compiled";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    try {
      std::rethrow_if_nested(error);
      FAIL() << "nothing is nested";
    } catch (const FileError& file) {
      EXPECT_EQ(file.number(), ENOENT);
      EXPECT_EQ(file.path(), model.path);
    }
  }
}

}  // namespace
}  // namespace sinter::tests
