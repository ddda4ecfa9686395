// SPDX-License-Identifier: Apache-2.0
// <sinter/compiler.h>: the same plans as the command line's, and everything said as data.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sinter/file_error.h>
#include <sys/resource.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/options/option_names.h"
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
using testing::StartsWith;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// For the CPU, without a kernel cache.
CompileOptions cpu() {
  CompileOptions options;
  options.target = "cpu";
  options.kernel_cache = "";
  return options;
}

class CompilerApi : public CliTest {
 protected:
  /// What `call` throws.
  template <typename Call>
  static CompileError error_of(const Call& call) {
    try {
      call();
    } catch (const CompileError& error) {
      return error;
    }
    throw std::runtime_error("nothing was thrown");
  }
  /// What compiling `model` throws.
  static CompileError refusal(const Model& model, const CompileOptions& options = cpu()) {
    return error_of([&] { (void)compile(model, options); });
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }
};

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

TEST_F(CompilerApi, WarningsOfAModelAreSaidOnceByEachCall) {
  auto model = small_model();
  model.add_training_info();  // of which import says that it is ignored
  const auto file = save(model);
  CompileOptions options = cpu();
  std::size_t heard = 0;
  options.monitor.on_diagnostic = [&](const Diagnostic& diagnostic) {
    heard += diagnostic.message.find("training") != std::string::npos;
  };
  const auto said = [](const std::vector<Diagnostic>& all) {
    return std::count_if(all.begin(), all.end(), [](const Diagnostic& diagnostic) {
      return diagnostic.message.find("training") != std::string::npos;
    });
  };
  EXPECT_EQ(said(verify(file, options).diagnostics), 1);
  EXPECT_EQ(heard, 1U);
  CompareOptions once;
  once.rounds = 1;
  heard = 0;
  options.weights = parse_weights("int8");  // a third build
  EXPECT_EQ(said(compare(file, options, once).diagnostics), 1);
  EXPECT_EQ(heard, 1U);
}

/// x [batch, seq] + table[:, :seq]: import limits seq to the table's size where nothing is said of
/// it.
TEST_F(CompilerApi, WhatIsSaidOfOneDimensionIsNotSaidOfOthers) {
  auto model = small_model();
  auto* graph = model.mutable_graph();
  graph->Clear();
  graph->set_name("positions");
  value(graph->add_input(), "x", {"batch", "seq"});
  value(graph->add_output(), "y", {"batch", "seq"});
  weights(graph->add_initializer(), "table", {1, 512});
  for (const auto& [name, number] : std::map<std::string, int>{{"zero", 0}, {"one", 1}}) {
    auto* constant = graph->add_initializer();
    constant->set_name(name);
    constant->set_data_type(onnx::TensorProto::INT64);
    constant->add_dims(1);
    constant->add_int64_data(number);
  }
  node(graph, "Shape", "shape", {"x"}, "s");
  node(graph, "Gather", "length", {"s", "one"}, "n");
  node(graph, "Slice", "positions", {"table", "zero", "n", "one"}, "p");
  node(graph, "Add", "sum", {"x", "p"}, "y");
  CompileOptions options = cpu();
  options.dims["batch"] = {.min = 1, .max = 32};
  const auto inputs = Plan::from_memory(compile(save(model), options).plan).inputs();
  EXPECT_EQ(inputs[0].shape[0].max, 32);
  EXPECT_EQ(inputs[0].shape[1].max, 512);
  options.dims.clear();
  options.max_shapes = parse_shapes("x:8x100");
  const auto given = Plan::from_memory(compile(save(model), options).plan).inputs();
  EXPECT_EQ(given[0].shape[0].max, 8);
  EXPECT_EQ(given[0].shape[1].max, 100);
}

TEST_F(CompilerApi, MessagesNameFieldsAndTheCommandLineFlags) {
  const auto model = save(small_model());
  CompileOptions options = cpu();
  options.weights.keep = {"product"};
  const CompileError error = refusal(model, options);
  EXPECT_THAT(error.what(), StartsWith("weights.keep, weights.calibration and"));
  EXPECT_THAT(error.diagnostics().back().message, error.what());
  EXPECT_THAT(sinter({"compile", model, "--target=cpu", "--keep=product"}).err,
              HasSubstr("--keep, --calibration and"));

  options.weights = parse_weights("int4");
  options.weights.keep = {"nothing"};
  std::vector<std::string> messages;
  for (const auto& diagnostic : compile(model, options).diagnostics)
    messages.push_back(diagnostic.message);
  EXPECT_THAT(messages, AllOf(Contains(StartsWith("weights.keep nothing: no layer's")),
                              Contains(HasSubstr("nearest: weights.calibration FILE.npz"))));
  EXPECT_THAT(messages, testing::Each(Not(HasSubstr("--"))));

  options = cpu();
  options.verify.emplace();
  options.verify->max_error = 1e-30;
  EXPECT_THAT(compile_to_file(model, path("bad.plan"), options).diagnostics.back().message,
              HasSubstr("above verify.max_error: "));
  EXPECT_THAT(sinter({"compile", model, "--target=cpu", "--verify", "--max-error=1e-30"}).err,
              HasSubstr("above --max-error: "));
  // compare and profile, which the command line does not call by the library's boundary.
  const auto entries = sinter({"compare", model, "--target=cpu", "--sample=greedy"});
  EXPECT_THAT(entries.err, HasSubstr("--sample: the model has no input"));
  options = cpu();
  options.sample.emplace();
  EXPECT_THAT(error_of([&] { (void)compare(model, options); }).what(),
              StartsWith("sample: the model has no input"));
}

TEST(OptionNames, AreReplacedAsWholeWords) {
  EXPECT_EQ(tools::with_fields("--dim n=1, (--entry) or '--target=cpu'"),
            "dims n=1, (entries) or 'target=cpu'");
  EXPECT_EQ(tools::with_fields("--dims a--dim --max-layer-error -- --x"),
            "--dims a--dim weights.max_layer_error -- --x");
}

/// Every flag that a string of the compiler names has a field, and every one of these is a flag.
TEST_F(CompilerApi, AllOptionsThatMessagesNameAreKnown) {
  std::string help;
  for (const char* verb : {"compile", "inspect", "refit"}) help += sinter({verb, "--help"}).out;
  std::set<std::string> known;
  for (const auto& [flag, field] : tools::option_names()) {
    known.emplace(flag);
    EXPECT_TRUE(std::regex_search(help, std::regex(fmt::format("{}[ =,:\n\\[]", flag)))) << flag;
  }
  // Of tools/setup, NVRTC, nvcc, and commands that messages give as a whole.
  const std::set<std::string> others = {
      "--cuda",      "--gpu-architecture", "--cubin",    "--graph",     "--inputs",
      "--tolerance", "--bisect",           "--per-node", "--functions", "--outputs"};
  namespace fs = std::filesystem;
  int named = 0;
  const std::regex text(R"re("(?:[^"\\]|\\.)*")re"), flag("--[a-z][-A-Za-z]*");
  for (const char* folder : {"frontend", "fusion", "codegen", "tools/compiler"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / folder)) {
      if (entry.path().extension() != ".cpp" || entry.path().filename() == "option_names.cpp")
        continue;
      std::istringstream lines(read(entry.path().string()));
      for (std::string line; std::getline(lines, line);)
        for (std::sregex_iterator at(line.begin(), line.end(), text), end; at != end; ++at) {
          const std::string literal = at->str();
          for (std::sregex_iterator f(literal.begin(), literal.end(), flag); f != end; ++f, ++named)
            EXPECT_TRUE(known.contains(f->str()) || others.contains(f->str()))
                << entry.path() << ": " << f->str();
        }
    }
  EXPECT_GT(named, 30);
}

TEST_F(CompilerApi, TellsAboutModelsAndPlans) {
  const auto model = save(small_model());
  EXPECT_TRUE(verify(model, cpu()).ok());

  const auto reason = json::parse(why(model, "product", "bias", cpu()));
  EXPECT_EQ(reason.at("together"), true);
  CompileOptions two = cpu();
  two.entries = {parse_entry("few:batch=1..2"), parse_entry("many:batch=1..9")};
  EXPECT_EQ(json::parse(why(model, "product", "bias", two)).at("entries").size(), 2U);
  EXPECT_THAT(error_of([&] { (void)why(model, "prodct", "bias", cpu()); }).what(),
              HasSubstr("did you mean 'product'"));

  EXPECT_EQ(json::parse(inspect_model(model)).at("operators").at("MatMul"), 1);
  EXPECT_THAT(graph_text(model, cpu(), "import"), HasSubstr("MatMul"));
  EXPECT_THAT(graph_text(model, cpu()), HasSubstr("Fused"));
  EXPECT_EQ(error_of([&] { (void)graph_text(model, two); }).code(), ErrorCode::kUsage);

  const Plan plan = Plan::from_memory(compile(model, cpu()).plan);
  EXPECT_EQ(json::parse(inspect_plan(plan)).at("target"), "cpu");
  PlanViews views;
  views.steps = true;
  views.memory = true;
  views.shapes = parse_shapes("x:3x8");
  const auto steps = json::parse(inspect_plan(plan, views));
  EXPECT_FALSE(steps.at("step_list").empty());
  EXPECT_FALSE(steps.at("buffers").empty());

  // Nothing lies beside a plan in memory, whatever the folder of the process holds.
  views = {};
  views.tuning = true;
  const auto tuning = json::parse(inspect_plan(plan, views));
  EXPECT_EQ(tuning.at("tuning_file"), "");
  EXPECT_TRUE(tuning.at("tuning").empty());

  ProfileOptions brief;
  brief.rounds = 2;
  brief.inputs.shapes = parse_shapes("x:3x8");
  const ProfileReport profiled = profile(plan, brief);
  EXPECT_EQ(profiled.shapes, "x [3, 8]");
  EXPECT_EQ(profiled.steps.size(), plan.step_count());

  CompareOptions once;
  once.rounds = 1;
  const CompareResult compared = compare(model, cpu(), once);
  ASSERT_EQ(compared.variants.size(), 2U);
  EXPECT_EQ(compared.variants[0].name, "unfused");
  EXPECT_LE(compared.difference, 1e-5);
}

TEST(CompilerApiTexts, AreParsed) {
  EXPECT_EQ(parse_precision("fp16"), Precision::kFloat16);
  EXPECT_EQ(parse_precision("int8"), Precision::kInt8);
  EXPECT_EQ(parse_precision("fp8"), Precision::kFloat8);
  EXPECT_THROW((void)parse_precision("fp4"), Error);
  EXPECT_EQ(parse_shapes("a:2x3,b:").at("a"), (std::vector<std::int64_t>{2, 3}));
  DimRanges ranges;
  parse_dim("h=32..960/32", ranges);
  parse_dim("rows=batch", ranges);
  EXPECT_EQ(ranges.at("h").multiple_of, 32);
  EXPECT_EQ(ranges.at("h").max, 960);
  EXPECT_EQ(ranges.at("rows").same_as, "batch");
  for (const char* wrong : {"", "h", "h=", "=3", "h=3..", "h=1..2/0", "h=-"})
    EXPECT_THROW(parse_dim(wrong, ranges), Error) << wrong;
  EXPECT_EQ(parse_bytes("4096"), 4096U);
  EXPECT_EQ(parse_bytes("512M"), std::uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("1.5G"), std::uint64_t{1536} << 20);
  EXPECT_EQ(parse_bytes("8GB"), std::uint64_t{8} << 30);
  for (const char* wrong : {"", "M", "B", "MB", "0", "-1", "1X", "1B", "1XB", "1e9T", "nan"})
    EXPECT_THROW((void)parse_bytes(wrong), Error) << wrong;
  const auto weights = parse_weights("int4:group=32:asymmetric:wide=0");
  EXPECT_EQ(weights.bits, 4);
  EXPECT_EQ(weights.group, 32);
  EXPECT_FALSE(weights.symmetric);
  EXPECT_EQ(weights.wide_error, 0);
  const auto entry = parse_entry("decode:seq=1,batch=2..4");
  EXPECT_EQ(entry.limits.at("batch").max, 4);
  EXPECT_THROW((void)parse_entry("decode"), Error);
}

}  // namespace
}  // namespace sinter::tests
