// SPDX-License-Identifier: Apache-2.0
// Every file of goldens/<pass>/: a graph, a line of dashes, and what the pass makes of it.
//
// Lines that start with // before the graph set the context: "// target=cuda", "// fuse=off",
// "// precision=fp16", "// channels_last=on", "// quantized=off", "// weights=int8", "// group=32",
// "// caches=fp8", "// attention=fp8" (or off), "// packed=on", "// eight_bit=int8", "// samples=4"
// (normal deviates), "// token_scales=on",
// "// ranks=2", "// smooth=0.5", "// max_error=0.1", "// emulate=on", "// print=layers", "//
// print=decisions" (or layouts), "// tolerance=1e-2" (of the results, see below).
// SINTER_UPDATE_GOLDENS=1 rewrites the expectations; review them as a diff.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"
#include "tests/support/paths.h"

namespace sinter::fusion::test {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(source_dir()) / "tests/fusion/goldens";
constexpr std::string_view kSeparator = "----\n";

struct Case {
  std::string input;  // as written
  std::string graph;  // without the context lines
  std::string expected;
  Context context;
  bool print_decisions = false, print_layouts = false, print_layers = false;
  int samples = 0;
  double tolerance = 2e-6;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void drop_formats(TargetTraits& target, std::string_view op, bool scaled) {
  std::erase_if(target.formats, [&](const ir::OperandFormats& row) {
    return row.op == op && row.scaled == scaled;
  });
}

void set_option(Case& test, const std::string& key, const std::string& value) {
  if (key == "target") {
    ASSERT_TRUE(value == "cuda" || value == "cpu");
    test.context.target =
        value == "cuda" ? codegen::cuda_target().traits() : codegen::cpu_target().traits();
  } else if (key == "fuse") {
    test.context.fuse = value != "off";
  } else if (key == "precision") {
    test.context.precision = value == "fp16"   ? Precision::kFloat16
                             : value == "bf16" ? Precision::kBFloat16
                                               : Precision::kTf32;
  } else if (key == "channels_last") {
    test.context.target.conv_channels_last = value == "on";
    test.context.target.conv_any_float = value == "on";
    test.context.target.conv_as_kernels = value == "on";
    test.context.target.conv_epilogue_residual = value == "on";
  } else if (key == "quantized") {
    if (value == "off") drop_formats(test.context.target, "MatMul", true);
    if (value == "integers")
      std::erase_if(test.context.target.formats,
                    [](const ir::OperandFormats& row) { return row.right == "f4e2m1"; });
  } else if (key == "narrow_products") {
    if (value == "off") drop_formats(test.context.target, "MatMul", false);
  } else if (key == "attention") {
    if (value == "off") test.context.target.attention_steps.clear();
    if (value == "fp8") test.context.eight_bit.attention = DType::kFloat8E4M3FN;
  } else if (key == "weights") {
    const bool is_float4 = value == "nvfp4" || value == "mxfp4";
    test.context.weights.bits = value == "int8" ? 8 : 4;
    test.context.weights.floats = is_float4;
    if (is_float4) test.context.weights.group = value == "nvfp4" ? 16 : 32;
  } else if (key == "caches") {
    test.context.states.cache_type = value == "fp8" ? DType::kFloat8E4M3FN : DType::kInt8;
  } else if (key == "packed") {
    test.context.packed = value == "on";
  } else if (key == "paging") {
    test.context.paging.emplace();
    test.context.paging->block_size = std::stoll(value);
  } else if (key == "ranks") {
    constexpr double kStart = 3e-4;
    test.context.sharding = ranks_of_slow_devices(std::stoll(value), kStart);
  } else if (key == "group") {
    test.context.weights.group = std::stoll(value);
  } else if (key == "eight_bit") {
    test.context.eight_bit.type = value == "fp8" ? DType::kFloat8E4M3FN : DType::kInt8;
  } else if (key == "samples") {
    test.samples = std::stoi(value);
  } else if (key == "activation_scales") {
    test.context.eight_bit.activation_scales =
        value == "token" ? ActivationScales::kToken : ActivationScales::kBlock;
  } else if (key == "smooth") {
    test.context.eight_bit.smoothing = std::stod(value);
  } else if (key == "max_error") {
    test.context.eight_bit.max_error = std::stod(value);
  } else if (key == "emulate") {
    test.context.eight_bit.emulate = value == "on";
  } else if (key == "print") {
    test.print_layers = value == "layers";
    test.print_decisions = value == "decisions";
    test.print_layouts = value == "layouts";
  } else if (key == "tolerance") {
    test.tolerance = std::stod(value);
  } else {
    FAIL() << "unknown option " << key;
  }
}

Case read_case(const fs::path& path) {
  Case test;
  test.context.target = codegen::cpu_target().traits();
  const std::string text = read_file(path);
  const std::size_t split = text.find(kSeparator);
  test.input = text.substr(0, split);
  if (split != std::string::npos) test.expected = text.substr(split + kSeparator.size());
  std::stringstream lines(test.input);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (line.rfind("// ", 0) != 0)
      test.graph += line + "\n";
    else if (equals != std::string::npos && line.find(' ', 3) == std::string::npos)
      set_option(test, line.substr(3, equals - 3), line.substr(equals + 1));
  }
  return test;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kGoldens))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, Matches) {
  Case test = read_case(GetParam());
  const std::string pass = GetParam().parent_path().filename();
  const ir::Graph before = ir::parse_graph(test.graph);
  if (test.samples > 0) test.context.weights.calibration = random_calibration(before, test.samples);
  const ir::Graph after = pass == "pipeline" ? run_checked(before, test.context).graph
                                             : run_pass(pass, before, test.context);
  ir::verify(after);
  std::string found = ir::print(after);
  for (const std::string& note : test.context.precision_notes) found += "// " + note + "\n";
  if (test.print_layers)
    for (const QuantizedLayer& layer : test.context.layers)
      found += fmt::format("// {}: {}x{} {}{}\n", layer.name, layer.n, layer.k, layer.type,
                           layer.kept.empty() ? "" : "; kept: " + layer.kept);
  if (test.print_decisions)
    for (const Decision& d : test.context.decisions)
      found += "// " + d.producer + " -> " + d.consumer + ": " + d.reason + "\n";
  for (const ShardedNode& node : test.context.sharded.nodes)
    found += fmt::format("// {}: {}\n", node.node, node.split);
  for (const ShardedState& state : test.context.sharded.states)
    found += fmt::format("// state {}: by {}\n", state.input, state.axis);
  if (test.print_layouts)
    for (const LayoutChoice& choice : test.context.layouts)
      found += "// " + choice.node + ": " + choice.reason + "\n";
  // Caches of 8 bits have inputs of their own: cache_precision_test.cpp evaluates them. Those in
  // blocks: paging_test.cpp.
  // One graph of constants of ranks: sharding_test.cpp evaluates each rank's.
  const bool is_of_ranks = pass == "slice_weights";
  if (test.context.sharding.ranks > 1 && !is_of_ranks)
    expect_equivalent_ranks(before, after, test.context.sharded, test.tolerance);
  else if (!is_of_ranks && !test.context.paging && after.inputs().size() == before.inputs().size())
    expect_equivalent(before, after, test.tolerance);
  if (pass == "pipeline") expect_fused(after);
  if (std::getenv("SINTER_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(GetParam()) << test.input << kSeparator << found;
    return;
  }
  EXPECT_EQ(found, test.expected) << "in " << GetParam() << "; SINTER_UPDATE_GOLDENS=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(golden_files()),
                         [](const testing::TestParamInfo<fs::path>& info) {
                           return info.param.parent_path().filename().string() + "_" +
                                  info.param.stem().string();
                         });

/// Scores that fit the L2 are stored between exact products; others never are. TF32 products are
/// matmuls.
TEST(Attention, Float32IsOneKernelWhereItsScoresExceedTheL2) {
  const auto operators = [](std::int64_t heads, const std::string& more, Precision precision) {
    Context context;
    context.target = codegen::cuda_target().traits();
    context.precision = precision;
    const ir::Graph graph = ir::parse_graph(fmt::format(
        R"(graph @main(%q: f32[{0}, 1024, 64], %k: f32[{0}, 1024, 64], %v: f32[{0}, 1024, 64],
                       %mask: f32[1024, 1024]) {{
          %y = Attention(%q, %k, %v{1}) {{scale = 0.125, causal = 1}}
          return y = %y
        }})",
        heads, more));
    std::vector<std::string> names;
    const ir::Graph result = run_pass("decompose", graph, context);
    for (const ir::Node& node : result.nodes()) names.emplace_back(node.op->name);
    return names;
  };
  using testing::Contains, testing::ElementsAre;
  EXPECT_THAT(operators(64, "", Precision::kModel), ElementsAre("Attention"));
  EXPECT_THAT(operators(2, "", Precision::kModel), Contains("MatMul"));
  EXPECT_THAT(operators(64, ", %mask", Precision::kModel), Contains("MatMul"));
  EXPECT_THAT(operators(64, "", Precision::kTf32), Contains("MatMul"));
}

/// The same model as two exporters write it fuses to one graph.
TEST(Spellings, OldAndNewEncoderAreOneFusedGraph) {
  for (const TargetTraits& target :
       {codegen::cpu_target().traits(), codegen::cuda_target().traits()}) {
    std::vector<ir::Graph> results;
    for (const char* name : {"encoder_new.txt", "encoder_old.txt"}) {
      Case test = read_case(kGoldens / "pipeline" / name);
      test.context.target = target;
      results.push_back(run_checked(ir::parse_graph(test.graph), test.context).graph);
    }
    EXPECT_TRUE(ir::structurally_equal(results[0], results[1]))
        << ir::print(results[0]) << ir::print(results[1]);
  }
}

/// No pass goes without goldens.
TEST(Goldens, CoverEveryPass) {
  for (const Pass& pass : pipeline())
    EXPECT_TRUE(fs::is_directory(kGoldens / std::string(pass.name))) << pass.name;
}

}  // namespace
}  // namespace sinter::fusion::test
