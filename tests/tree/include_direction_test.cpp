// Includes must follow the direction of dependencies that ARCHITECTURE.md tables.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

// Which folders a folder's files may include. The leaf headers sinter/error.h, dtype.h,
// scalar_op.h and export.h are open to all.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"ir", {"ir"}},
    {"frontend", {"frontend", "ir"}},
    {"fusion", {"fusion", "ir"}},
    {"codegen", {"codegen", "ir", "runtime/files", "runtime/libraries", "runtime/plan"}},
    {"graphs", {"graphs"}},
    {"runtime/files", {"runtime/files"}},
    {"runtime/limits", {"runtime/limits"}},
    {"runtime/libraries", {"runtime/libraries", "runtime/files"}},
    {"runtime/plan", {"runtime/plan", "runtime/files"}},
    {"runtime",
     {"runtime", "runtime/files", "runtime/libraries", "runtime/limits", "runtime/plan", "graphs",
      "sinter"}},
    {"tools/compiler/include", {"sinter"}},
    {"tools/compiler",
     {"tools/compiler", "tools/compiler/include", "codegen", "frontend", "fusion", "ir",
      "runtime/files", "runtime/libraries", "runtime/limits", "runtime/plan", "sinter"}},
    {"tools/generate",
     {"tools/generate", "tools/compiler", "tools/compiler/include", "fusion", "ir", "runtime",
      "runtime/files", "runtime/plan", "sinter"}},
    {"tools/cli",
     {"tools/cli", "tools/compiler", "tools/compiler/include", "tools/generate", "codegen",
      "frontend", "fusion", "graphs", "ir", "runtime", "runtime/files", "runtime/plan", "sinter"}},
    {"tools/python", {"tools/python", "tools/compiler/include", "sinter"}},
};
// Single headers that other folders may include, too.
const std::map<std::string, std::set<std::string>> kOpen = {
    {"runtime/plan_access.h", {"tools/compiler"}},
    {"tools/cli/cli.h", {"tools/python"}},
};
const std::set<std::string> kLeaves = {"sinter/error.h", "sinter/dtype.h", "sinter/scalar_op.h",
                                       "sinter/export.h"};
// Libraries that only one folder may see.
const std::map<std::string, std::set<std::string>> kPrivate = {
    {"onnx.pb.h", {"frontend"}},     {"google/protobuf", {"frontend"}},
    {"nvrtc.h", {"codegen"}},        {"cuda.h", {"graphs", "runtime"}},
    {"cublasLt.h", {"runtime"}},     {"CLI/", {"tools/cli"}},
    {"zip.h", {"tools/compiler"}},   {"dnnl.hpp", {"runtime", "tools/cli"}},
    {"nanobind/", {"tools/python"}},
};

std::string folder_of(const std::string& path) {
  if (path == "sinter/compiler.h") return "tools/compiler/include";
  for (const char* part :
       {"runtime/files", "runtime/libraries", "runtime/limits", "runtime/plan",
        "tools/compiler/include", "tools/compiler", "tools/generate", "tools/cli", "tools/python"})
    if (path.starts_with(std::string(part) + '/')) return part;
  if (path.starts_with("runtime/include/")) return "runtime";
  return path.substr(0, path.find('/'));
}

std::vector<std::string> violations_of(const std::string& file, const std::string& text) {
  std::vector<std::string> found;
  const std::string folder = folder_of(file);
  const auto& allowed = kAllowed.at(folder);
  static const std::regex include("#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), include);
       it != std::sregex_iterator(); ++it) {
    const std::string target = (*it)[1];
    if (kLeaves.contains(target)) continue;
    if (const auto open = kOpen.find(target); open != kOpen.end() && open->second.contains(folder))
      continue;
    const std::string other = folder_of(target);
    const bool ours =
        kAllowed.contains(other) || other == "tools" || other == "tests" || other == "sinter";
    if (ours && target.find('/') != std::string::npos && !allowed.contains(other))
      found.push_back(fmt::format("{} includes {}", file, target));
    for (const auto& [library, folders] : kPrivate)
      if (target.starts_with(library) && !folders.contains(folder))
        found.push_back(fmt::format("{} includes {}", file, target));
  }
  return found;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(IncludeDirection, FollowsTheTable) {
  const fs::path root = SINTER_SOURCE_DIR;
  std::vector<std::string> violations;
  int files = 0;
  for (const auto& [folder, allowed] : kAllowed) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cuh") continue;
      ++files;
      const auto name = fs::relative(entry.path(), root).string();
      for (auto& violation : violations_of(name, read(entry.path())))
        violations.push_back(violation);
    }
  }
  EXPECT_GT(files, 50);
  EXPECT_THAT(violations, testing::IsEmpty());
}

TEST(IncludeDirection, FindsViolations) {
  EXPECT_THAT(violations_of("runtime/session.cpp", "#include \"ir/graph.h\"\n"),
              testing::SizeIs(1));
  EXPECT_THAT(violations_of("ir/graph.cpp", "#include <onnx.pb.h>\n"), testing::SizeIs(1));
  EXPECT_THAT(violations_of("runtime/plan/reader.cpp", "#include \"graphs/driver.h\"\n"),
              testing::SizeIs(1));
  EXPECT_THAT(violations_of("codegen/compile.cpp", "#include \"runtime/plan/plan_data.h\"\n"),
              testing::IsEmpty());
  for (const char* include : {"\"tools/cli/console.h\"", "<CLI/CLI.hpp>", "\"runtime/session.h\"",
                              "\"tools/generate/decoder.h\""})
    EXPECT_THAT(
        violations_of("tools/compiler/tuning/tuning.cpp", fmt::format("#include {}\n", include)),
        testing::SizeIs(1))
        << include;
  EXPECT_THAT(violations_of("tools/compiler/include/sinter/compiler.h",
                            "#include \"tools/compiler/build.h\"\n"),
              testing::SizeIs(1));
  EXPECT_THAT(violations_of("runtime/session.cpp", "#include <sinter/compiler.h>\n"),
              testing::SizeIs(1));
  EXPECT_THAT(violations_of("tools/cli/verbs/run.cpp", "#include \"tools/compiler/build.h\"\n"),
              testing::IsEmpty());
}

}  // namespace
