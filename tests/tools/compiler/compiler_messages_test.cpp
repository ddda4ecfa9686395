// SPDX-License-Identifier: Apache-2.0
// What <sinter/compiler.h> says: warnings, messages that name fields, facts of models and plans,
// texts that it parses.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>

#include "tests/support/paths.h"
#include "tests/tools/compiler/compiler_api.h"
#include "tools/compiler/options/option_names.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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
  const auto entries = sinter({"compare", model, "--target=cpu", "--serve"});
  EXPECT_THAT(entries.err, HasSubstr("--serve pages the caches"));
  options = cpu();
  options.serve.paging.emplace();
  EXPECT_THAT(error_of([&] { (void)compare(model, options); }).what(),
              HasSubstr(": serve pages the caches"));
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
  // Of tools/setup, NVRTC, nvcc, llama-gguf-split, and commands that messages give as a whole.
  const std::set<std::string> others = {
      "--explain-sharding", "--quantization", "--input-range", "--cuda",   "--merge",
      "--gpu-architecture", "--cubin",        "--graph",       "--inputs", "--tolerance",
      "--bisect",           "--per-node",     "--functions",   "--outputs"};
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
