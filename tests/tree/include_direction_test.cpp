// SPDX-License-Identifier: Apache-2.0
// Includes must follow the direction of dependencies that ARCHITECTURE.md tables, between
// subfolders too.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source_tree.h"

namespace sinter::testing {
namespace {

// What a kernel family includes: no other family but loops, whose schedules and code it reuses.
const std::set<std::string> kFamily = {"codegen/device",
                                       "codegen/emit",
                                       "codegen/families/family",
                                       "codegen/families/loops",
                                       "codegen/families/operator_family",
                                       "codegen/plan",
                                       "codegen/plan/expr_table",
                                       "codegen/plan/schedule_choice",
                                       "codegen/program",
                                       "codegen/targets/cuda/fitted",
                                       "codegen/targets/device_model",
                                       "codegen/transforms",
                                       "ir",
                                       "ir/dim",
                                       "ir/ops/product_types",
                                       "ir/ranks",
                                       "ir/text",
                                       "runtime/plan"};

// What the files of an area may include, besides their own. An area is a folder with its
// subfolders, or a component (x.h with x.cpp) that stands lower than its folder; a file belongs to
// the area that names most of its path. The table has no cycle: areas below are known to those
// above alone.
const Edges kTable = {
    // runtime
    {"runtime/include", {}},
    {"graphs", {}},
    {"runtime/files", {}},
    {"runtime/limits", {}},
    {"runtime/libraries", {"runtime/files"}},
    {"runtime/plan", {"runtime/files"}},
    {"runtime/log", {"runtime/include"}},
    {"runtime/profiler", {}},
    {"runtime/operators/host_operators", {"runtime/include", "runtime/plan"}},
    {"runtime/operators/operator_library", {"runtime/include"}},
    {"runtime/signature", {"runtime/include", "runtime/plan"}},
    {"runtime/threads", {"runtime/include", "runtime/limits", "runtime/log"}},
    {"runtime/ranks/rank_group", {}},
    {"runtime/ranks/rank_devices", {"runtime"}},
    {"runtime/ranks",
     {"runtime", "runtime/include", "runtime/plan", "runtime/ranks/rank_devices",
      "runtime/ranks/rank_group"}},
    {"runtime",
     {"graphs", "runtime/include", "runtime/log", "runtime/operators/host_operators",
      "runtime/plan", "runtime/ranks/rank_group", "runtime/signature"}},
    {"runtime/cpu/host_buffer", {"runtime/include"}},
    {"runtime/cpu/ops", {}},
    {"runtime/cpu/tiles", {"runtime/cpu/ops", "runtime/plan", "runtime/threads"}},
    {"runtime/cpu/gemm",
     {"runtime", "runtime/cpu/host_buffer", "runtime/cpu/ops", "runtime/plan", "runtime/threads"}},
    {"runtime/operators",
     {"runtime/cpu/gemm", "runtime/cpu/ops", "runtime/plan", "runtime/ranks/rank_group",
      "runtime/sampling", "runtime/threads"}},
    {"runtime/cpu",
     {"runtime", "runtime/cpu/gemm", "runtime/cpu/host_buffer", "runtime/cpu/ops",
      "runtime/cpu/tiles", "runtime/include", "runtime/operators",
      "runtime/operators/host_operators", "runtime/plan", "runtime/profiler",
      "runtime/ranks/rank_group", "runtime/threads"}},
    {"runtime/sampling", {"runtime/include"}},
    {"runtime/arrow",
     {"runtime", "runtime/cpu/ops", "runtime/include", "runtime/plan", "runtime/threads"}},
    {"runtime/cuda",
     {"graphs", "runtime", "runtime/include", "runtime/libraries", "runtime/log",
      "runtime/operators/host_operators", "runtime/plan", "runtime/profiler",
      "runtime/ranks/rank_devices"}},
    {"runtime/c", {"runtime", "runtime/include"}},
    {"runtime/sandbox", {}},
    {"runtime/grammar", {"runtime", "runtime/include", "runtime/sandbox"}},
    {"runtime/engine",
     {"runtime", "runtime/cpu/ops", "runtime/grammar", "runtime/include", "runtime/log",
      "runtime/plan", "runtime/sampling", "runtime/threads"}},
    // ir
    {"ir/dim", {}},
    {"ir", {"ir/dim"}},
    {"ir/ranks", {"ir"}},
    {"ir/reference", {"ir", "ir/dim", "ir/ranks"}},
    {"ir/ops/product_types", {}},
    {"ir/ops", {"ir", "ir/dim", "ir/ops/product_types", "ir/ranks", "ir/reference"}},
    {"ir/text", {"ir", "ir/dim"}},
    // frontend
    {"frontend/transforms", {"ir"}},
    {"frontend/model", {"ir", "ir/dim", "ir/text"}},
    {"frontend/decoders/files", {"frontend/model", "ir", "ir/dim", "ir/text", "tools/json"}},
    {"frontend/decoders/config", {"frontend/decoders/files", "ir", "ir/text", "tools/json"}},
    {"frontend/decoders",
     {"frontend/decoders/config", "frontend/decoders/files", "frontend/model", "ir", "ir/dim",
      "ir/text", "tools/json"}},
    {"frontend/symbols", {"frontend/model", "ir", "ir/dim", "ir/reference"}},
    {"frontend/ops", {"frontend/model", "frontend/symbols", "frontend/transforms", "ir", "ir/dim"}},
    {"frontend/export", {"ir", "ir/dim"}},
    {"frontend/custom", {"frontend/model", "frontend/ops", "ir", "ir/dim"}},
    {"frontend",
     {"frontend/custom", "frontend/model", "frontend/ops", "frontend/symbols", "ir", "ir/dim",
      "ir/text"}},
    // fusion
    {"fusion/context", {"ir", "ir/ranks"}},
    {"fusion/transforms", {"ir", "ir/ranks"}},
    {"fusion/narrow_dims", {"fusion/context", "ir", "ir/text"}},
    {"fusion/regions",
     {"fusion/context", "fusion/transforms", "ir", "ir/dim", "ir/ops/product_types",
      "ir/reference"}},
    {"fusion/patterns", {"fusion/context", "fusion/regions", "fusion/transforms", "ir", "ir/dim"}},
    {"fusion/mixtures",
     {"fusion/context", "fusion/patterns", "fusion/regions", "fusion/transforms", "ir",
      "ir/reference"}},
    {"fusion/recurrences", {"fusion/context", "fusion/regions", "ir"}},
    {"fusion/packing", {"fusion/context", "fusion/regions", "ir", "ir/dim", "ir/reference"}},
    {"fusion/paging",
     {"fusion/context", "fusion/narrow_dims", "fusion/packing", "fusion/patterns", "fusion/regions",
      "ir", "ir/reference"}},
    {"fusion/projections",
     {"fusion/context", "fusion/regions", "fusion/transforms", "ir", "ir/reference"}},
    {"fusion/layouts",
     {"fusion/context", "fusion/regions", "ir", "ir/ops/product_types", "ir/reference"}},
    {"fusion/scales/rounding", {"fusion/context", "fusion/transforms", "ir", "ir/reference"}},
    {"fusion/scales",
     {"fusion/calibration", "fusion/context", "fusion/patterns", "fusion/regions",
      "fusion/scales/rounding", "fusion/transforms", "ir", "ir/dim", "ir/ops/product_types",
      "ir/reference"}},
    {"fusion/scales/choice",
     {"fusion/calibration", "fusion/context", "fusion/precision", "fusion/regions", "fusion/scales",
      "fusion/scales/rounding", "ir", "ir/dim", "ir/reference"}},
    {"fusion/calibration",
     {"fusion/context", "fusion/narrow_dims", "fusion/regions", "ir", "ir/dim", "ir/reference"}},
    {"fusion/precision", {"fusion/context", "fusion/regions", "fusion/transforms", "ir"}},
    {"fusion/sharding", {"fusion/context", "fusion/regions", "ir", "ir/ranks"}},
    {"fusion/passes",
     {"fusion/calibration",
      "fusion/context",
      "fusion/layouts",
      "fusion/mixtures",
      "fusion/packing",
      "fusion/paging",
      "fusion/patterns",
      "fusion/precision",
      "fusion/projections",
      "fusion/recurrences",
      "fusion/regions",
      "fusion/scales",
      "fusion/scales/choice",
      "fusion/scales/rounding",
      "fusion/sharding",
      "fusion/transforms",
      "ir",
      "ir/dim",
      "ir/ops/product_types",
      "ir/ranks",
      "ir/reference"}},
    {"fusion",
     {"fusion/context", "fusion/layouts", "fusion/passes", "fusion/regions", "ir", "ir/dim",
      "ir/text"}},
    // codegen
    {"codegen/device", {}},
    {"codegen/transforms", {"ir"}},
    {"codegen/targets/cuda/fitted", {}},
    {"codegen/targets/device_model", {}},
    {"codegen/targets/compile_kernels", {}},
    {"codegen/targets",
     {"codegen/targets/compile_kernels", "codegen/targets/cuda/fitted",
      "codegen/targets/device_model", "ir", "ir/ranks", "runtime/files", "runtime/libraries",
      "runtime/sandbox"}},
    {"codegen/plan/expr_table", {"ir/dim", "runtime/plan"}},
    {"codegen/plan/schedule_choice", {"runtime/plan"}},
    {"codegen/program", {"codegen/plan/expr_table", "ir", "ir/dim", "runtime/plan"}},
    {"codegen/plan",
     {"codegen/plan/expr_table", "codegen/plan/schedule_choice", "codegen/program",
      "codegen/targets", "codegen/transforms", "ir", "ir/dim", "ir/ranks", "runtime/plan"}},
    {"codegen/emit",
     {"codegen/plan/expr_table", "codegen/plan/schedule_choice", "codegen/targets/compile_kernels",
      "codegen/targets/device_model", "runtime/plan"}},
    {"codegen/families/family", {"codegen/emit", "codegen/plan", "codegen/plan/expr_table", "ir"}},
    {"codegen/families/operator_family",
     {"codegen/emit", "codegen/families/family", "codegen/plan", "codegen/plan/expr_table", "ir"}},
    {"codegen/families/loops",
     {"codegen/device", "codegen/emit", "codegen/families/family", "codegen/plan",
      "codegen/plan/expr_table", "codegen/plan/schedule_choice", "codegen/program",
      "codegen/targets/cuda/fitted", "codegen/targets/device_model", "ir", "ir/dim",
      "runtime/plan"}},
    {"codegen/families/registry", {"codegen/families/family", "codegen/targets"}},
    {"codegen",
     {"codegen/emit", "codegen/families/family", "codegen/families/registry", "codegen/plan",
      "codegen/program", "codegen/targets", "ir", "ir/dim", "ir/ranks", "ir/text", "runtime/plan"}},
    // tools
    {"tools/compiler/include", {"runtime/include"}},
    {"tools/compiler/options",
     {"frontend", "fusion", "fusion/context", "fusion/paging", "ir", "ir/dim", "ir/reference",
      "ir/text", "runtime", "runtime/include", "runtime/limits", "tools/compiler/include"}},
    {"tools/compiler/run",
     {"frontend", "frontend/model", "ir", "ir/reference", "runtime/files", "runtime/include",
      "tools/compiler/include", "tools/compiler/options", "tools/json"}},
    {"tools/compiler/refit/recipes",
     {"codegen", "codegen/transforms", "frontend/transforms", "fusion/transforms", "ir", "ir/dim"}},
    {"tools/compiler/refit",
     {"frontend", "frontend/decoders/files", "frontend/model", "ir", "ir/reference", "ir/text",
      "runtime", "runtime/files", "runtime/include", "runtime/plan", "tools/compiler/include",
      "tools/compiler/options", "tools/compiler/refit/recipes", "tools/compiler/run",
      "tools/json"}},
    {"tools/compiler/build",
     {"codegen",
      "codegen/targets",
      "frontend",
      "frontend/custom",
      "frontend/decoders",
      "fusion",
      "fusion/context",
      "fusion/narrow_dims",
      "fusion/paging",
      "ir",
      "ir/ranks",
      "ir/reference",
      "ir/text",
      "runtime/files",
      "runtime/include",
      "runtime/plan",
      "tools/compiler/include",
      "tools/compiler/options",
      "tools/compiler/refit/recipes",
      "tools/compiler/run",
      "tools/json"}},
    {"tools/compiler/inspect",
     {"frontend", "fusion", "fusion/regions", "ir", "ir/text", "runtime", "runtime/files",
      "runtime/include", "runtime/libraries", "runtime/plan", "tools/compiler/build",
      "tools/compiler/include", "tools/compiler/options", "tools/compiler/run"}},
    {"tools/compiler/tuning",
     {"codegen", "codegen/plan/schedule_choice", "ir", "runtime", "runtime/include",
      "runtime/libraries", "runtime/plan", "tools/compiler/build", "tools/compiler/include",
      "tools/compiler/options", "tools/compiler/run"}},
    {"tools/compiler/verify",
     {"codegen", "codegen/program", "fusion/context", "fusion/precision", "fusion/regions", "ir",
      "ir/reference", "ir/text", "runtime/files", "runtime/include", "runtime/plan",
      "tools/compiler/build", "tools/compiler/include", "tools/compiler/options",
      "tools/compiler/run"}},
    {"tools/compiler",
     {"frontend", "fusion", "fusion/narrow_dims", "fusion/paging", "ir/text", "runtime",
      "runtime/files", "runtime/include", "runtime/plan", "tools/compiler/build",
      "tools/compiler/include", "tools/compiler/inspect", "tools/compiler/options",
      "tools/compiler/refit", "tools/compiler/run", "tools/compiler/tuning",
      "tools/compiler/verify"}},
    {"tools/json", {}},
    {"tools/tokenizer/unicode", {"runtime/engine"}},
    {"tools/tokenizer/parts", {"runtime/engine", "tools/tokenizer/unicode"}},
    {"tools/tokenizer/models", {"tools/tokenizer/parts", "tools/tokenizer/unicode"}},
    {"tools/tokenizer",
     {"runtime/engine", "runtime/files", "tools/json", "tools/tokenizer/models",
      "tools/tokenizer/parts", "tools/tokenizer/unicode"}},
    {"tools/tokenizer/gguf_tokenizer", {"frontend/decoders/files", "runtime/engine"}},
    {"tools/source",
     {"frontend/decoders", "frontend/decoders/config", "frontend/decoders/files", "runtime/files",
      "runtime/include", "tools/compiler/include", "tools/compiler/inspect", "tools/json"}},
    {"tools/generate",
     {"frontend/decoders", "frontend/decoders/files", "runtime", "runtime/cpu/ops",
      "runtime/engine", "runtime/files", "runtime/include", "runtime/plan", "runtime/sandbox",
      "tools/compiler/include", "tools/compiler/inspect", "tools/compiler/options",
      "tools/compiler/run", "tools/json", "tools/tokenizer", "tools/tokenizer/gguf_tokenizer"}},
    {"tools/report",
     {"codegen/program", "ir", "ir/text", "runtime", "runtime/include", "runtime/plan",
      "tools/compiler/build", "tools/compiler/include", "tools/compiler/inspect",
      "tools/compiler/options", "tools/compiler/run", "tools/compiler/verify"}},
    {"tools/cli/help", {"tools/compiler/options"}},
    {"tools/cli/text",
     {"fusion/context", "ir/text", "runtime/include", "tools/compiler/include",
      "tools/compiler/inspect", "tools/compiler/verify"}},
    {"tools/cli",
     {"codegen/targets", "fusion", "graphs", "ir/text", "runtime/cuda", "runtime/files",
      "runtime/include", "tools/cli/help", "tools/compiler", "tools/compiler/build",
      "tools/compiler/include", "tools/compiler/options", "tools/compiler/run"}},
    {"tools/cli/verbs",
     {"codegen/targets",
      "frontend",
      "frontend/custom",
      "frontend/decoders",
      "frontend/export",
      "ir",
      "ir/text",
      "runtime/engine",
      "runtime/files",
      "runtime/grammar",
      "runtime/include",
      "runtime/sandbox",
      "runtime/signature",
      "tools/cli",
      "tools/cli/help",
      "tools/cli/text",
      "tools/compiler",
      "tools/compiler/build",
      "tools/compiler/include",
      "tools/compiler/inspect",
      "tools/compiler/options",
      "tools/compiler/refit",
      "tools/compiler/run",
      "tools/compiler/verify",
      "tools/generate",
      "tools/json",
      "tools/report",
      "tools/source",
      "tools/tokenizer"}},
    {"tools/cli/cli",
     {"ir/text", "runtime", "runtime/include", "runtime/sandbox", "tools/cli", "tools/cli/help",
      "tools/cli/verbs"}},
    {"tools/serve/tool_calls", {"runtime/include", "tools/json"}},
    {"tools/serve/models",
     {"frontend/decoders/files", "ir", "ir/text", "runtime/engine", "runtime/files",
      "runtime/include", "tools/generate", "tools/json", "tools/serve/tool_calls",
      "tools/tokenizer"}},
    {"tools/serve/api",
     {"runtime/include", "tools/json", "tools/serve/models", "tools/serve/tool_calls"}},
    {"tools/serve/model_registry", {"tools/serve/api", "tools/serve/models"}},
    {"tools/serve/openai",
     {"runtime/engine", "runtime/include", "runtime/sampling", "tools/json", "tools/serve/api",
      "tools/serve/model_registry", "tools/serve/models", "tools/serve/tool_calls"}},
    {"tools/serve",
     {"runtime/engine", "runtime/files", "runtime/include", "runtime/plan", "runtime/sampling",
      "tools/cli", "tools/cli/verbs", "tools/compiler/run", "tools/serve/api",
      "tools/serve/model_registry", "tools/serve/models", "tools/serve/openai"}},
    {"tools/serve/add_embed",
     {"runtime/files", "runtime/include", "tools/cli", "tools/cli/verbs", "tools/compiler/run",
      "tools/serve/models", "tools/tokenizer"}},
    {"tools/serve/add_serve",
     {"runtime/files", "runtime/include", "runtime/sandbox", "tools/serve/models",
      "tools/serve/tool_calls", "tools/cli", "tools/cli/verbs", "tools/generate", "tools/serve"}},
    {"tools/serve/speech",
     {"runtime/include", "tools/serve/models", "tools/speech", "tools/tokenizer"}},
    {"tools/speech",
     {"runtime/engine", "runtime/files", "runtime/include", "tools/cli", "tools/cli/text",
      "tools/cli/verbs", "tools/compiler/include", "tools/compiler/run", "tools/generate",
      "tools/tokenizer"}},
    {"tools/vision", {"ir/text", "tools/compiler/build"}},
    {"tools/serve/vision",
     {"ir", "ir/text", "runtime/engine", "runtime/files", "tools/json", "tools/serve/models",
      "tools/vision"}},
    {"tools/lazy", {"runtime/libraries"}},
    {"tools/cli/main",
     {"runtime/include", "tools/cli/cli", "tools/serve", "tools/serve/add_embed",
      "tools/serve/add_serve", "tools/serve/speech", "tools/serve/vision", "tools/speech"}},
    {"tools/python",
     {"runtime/arrow", "runtime/include", "tools/cli/cli", "tools/compiler",
      "tools/compiler/include", "tools/compiler/options", "tools/generate", "tools/report",
      "tools/serve/add_embed", "tools/serve/add_serve", "tools/tokenizer"}},
};

/// The table, and a row for each kernel family.
const Edges kAllowed = [] {
  Edges allowed = kTable;
  const std::string families = "codegen/families/";
  for (const std::string& file : SourceTree::get().files())
    if (const auto end = file.find('/', families.size());
        file.starts_with(families) && end != std::string::npos)
      allowed.try_emplace(file.substr(0, end), kFamily);
  return allowed;
}();

// Headers of scalar types and errors are open to all.
const std::set<std::string> kLeaves = {
    "sinter/error.h",         "sinter/dtype.h",       "sinter/float8.h",
    "sinter/scalar_op.h",     "sinter/packed_rows.h", "sinter/export.h",
    "runtime/format_error.h", "sinter/file_error.h",  "sinter/version.h"};

// Libraries that only some folders may see.
const std::map<std::string, std::set<std::string>> kPrivate = {
    {"onnx.pb.h", {"frontend"}},
    {"google/protobuf", {"frontend"}},
    {"nvrtc.h", {"codegen/targets"}},
    {"cuda.h", {"graphs", "runtime"}},
    {"cublasLt.h", {"runtime/cuda"}},
    {"cudnn", {"runtime/cuda"}},
    {"CLI/", {"tools/cli"}},
    {"zip.h", {"tools/compiler", "tools/lazy"}},
    {"dnnl.hpp", {"runtime/cpu", "tools/cli"}},
    {"nanobind/", {"tools/python"}},
    {"boost/", {"tools/serve/http"}},
    {"httplib.h", {}},  // tests alone have it
    {"oniguruma.h", {"tools/tokenizer/unicode"}},
    {"sndfile.h", {"tools/speech", "tools/lazy"}},
    {"samplerate.h", {"tools/speech", "tools/lazy"}},
    {"png.h", {"tools/vision", "tools/lazy"}},
    {"jpeglib.h", {"tools/vision", "tools/lazy"}},
    {"webp/", {"tools/vision", "tools/lazy"}},
};

bool lies_in(const std::string& file, const std::string& area) {
  return file.starts_with(area + '/') || component_of(file) == area;
}

/// Empty for a file of no area: a test.
std::string area_of(const std::string& file) {
  std::string best;
  for (const auto& [area, allowed] : kAllowed)
    if (lies_in(file, area) && area.size() > best.size()) best = area;
  return best;
}

std::vector<std::string> violations_of(const std::string& file,
                                       const std::vector<std::string>& includes) {
  std::vector<std::string> found;
  const std::string area = area_of(file);
  const auto refuse = [&](const std::string& include) {
    found.push_back(fmt::format("{} includes {}", file, include));
  };
  for (const std::string& include : includes) {
    for (const auto& [library, folders] : kPrivate)
      if (include.starts_with(library) &&
          std::none_of(folders.begin(), folders.end(),
                       [&](const std::string& folder) { return lies_in(file, folder); }))
        refuse(include);
    if (kLeaves.contains(include)) continue;
    const std::string target = SourceTree::get().resolve(file, include);
    if (target.empty()) continue;
    const std::string other = area_of(target);
    if (other != area && !kAllowed.at(area).contains(other)) refuse(include);
  }
  return found;
}

TEST(IncludeDirection, FollowsTheTable) {
  const SourceTree& tree = SourceTree::get();
  std::vector<std::string> violations;
  std::set<std::string> areas;
  for (const std::string& file : tree.files()) {
    if (file.starts_with("tests/")) continue;
    const std::string area = area_of(file);
    ASSERT_FALSE(area.empty()) << file << " belongs to no area of the table";
    areas.insert(area);
    for (auto& violation : violations_of(file, tree.includes(file)))
      violations.push_back(violation);
  }
  EXPECT_THAT(violations, ::testing::IsEmpty());
  for (const auto& [area, allowed] : kAllowed) {
    EXPECT_TRUE(areas.contains(area)) << area << " has no files";
    for (const std::string& other : allowed)
      EXPECT_TRUE(kAllowed.contains(other)) << area << " may include " << other << ", no area";
  }
}

TEST(IncludeDirection, TheTableSaysADirection) {
  EXPECT_THAT(cycles_in(kAllowed), ::testing::IsEmpty());
}

TEST(IncludeDirection, FindsViolations) {
  const auto count = [](const char* file, const char* include) {
    return violations_of(file, {include}).size();
  };
  EXPECT_EQ(count("runtime/session.cpp", "ir/graph.h"), 1U);
  EXPECT_EQ(count("ir/graph.cpp", "onnx.pb.h"), 1U);
  EXPECT_EQ(count("ir/graph.h", "ir/reference/evaluate.h"), 1U);
  EXPECT_EQ(count("runtime/plan/reader.cpp", "graphs/driver.h"), 1U);
  EXPECT_EQ(count("codegen/compile.cpp", "runtime/plan/plan_data.h"), 0U);
  EXPECT_EQ(count("codegen/families/sort/emit_sort.cpp", "codegen/families/gemm/gemm_graph.h"), 1U);
  EXPECT_EQ(count("codegen/families/sort/emit_sort.cpp", "codegen/compile.h"), 1U);
  EXPECT_EQ(count("codegen/emit/arguments.cpp", "codegen/families/loops/schedule.h"), 1U);
  for (const char* include :
       {"tools/cli/console.h", "CLI/CLI.hpp", "runtime/session.h", "tools/generate/encoder.h"})
    EXPECT_EQ(count("tools/compiler/options/shapes.cpp", include), include[0] == 'r' ? 0U : 1U)
        << include;
  EXPECT_EQ(count("tools/compiler/include/sinter/compiler.h", "tools/compiler/build/build.h"), 1U);
  EXPECT_EQ(count("runtime/session.cpp", "sinter/compiler.h"), 1U);
  EXPECT_EQ(count("tools/cli/verbs/run.cpp", "tools/compiler/build/build.h"), 0U);
}

TEST(IncludeDirection, SourcesIncludeWithoutCycles) {
  EXPECT_THAT(cycles_in(SourceTree::get().edges()), ::testing::IsEmpty());
  Edges components;
  for (const auto& [file, targets] : SourceTree::get().edges())
    for (const std::string& target : targets)
      if (component_of(file) != component_of(target))
        components[component_of(file)].insert(component_of(target));
  EXPECT_THAT(cycles_in(components), ::testing::IsEmpty());
}

TEST(IncludeDirection, FindsCycles) {
  const Edges edges = {{"a", {"b", "e"}}, {"b", {"c"}}, {"c", {"a", "d"}}, {"d", {"e"}}};
  EXPECT_THAT(cycles_in(edges), ::testing::ElementsAre(::testing::ElementsAre("a", "b", "c")));
}

}  // namespace
}  // namespace sinter::testing
