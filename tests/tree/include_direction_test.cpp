// Includes must follow the direction of dependencies that README.md tables.
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
    {"codegen", {"codegen", "ir", "runtime/libraries", "runtime/plan"}},
    {"graphs", {"graphs"}},
    {"runtime/libraries", {"runtime/libraries"}},
    {"runtime/plan", {"runtime/plan"}},
    {"runtime", {"runtime", "runtime/libraries", "runtime/plan", "graphs", "sinter"}},
};
const std::set<std::string> kLeaves = {"sinter/error.h", "sinter/dtype.h", "sinter/scalar_op.h",
                                       "sinter/export.h"};
// Libraries that only one folder may see.
const std::map<std::string, std::set<std::string>> kPrivate = {
    {"onnx.pb.h", {"frontend"}},       {"google/protobuf", {"frontend"}}, {"nvrtc.h", {"codegen"}},
    {"cuda.h", {"graphs", "runtime"}}, {"cublasLt.h", {"runtime"}},       {"dnnl.hpp", {"runtime"}},
};

std::string folder_of(const std::string& path) {
  for (const char* part : {"runtime/libraries", "runtime/plan"})
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
}

}  // namespace
