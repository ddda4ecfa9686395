// SPDX-License-Identifier: Apache-2.0
// Two types of one name in one namespace break the rule of one definition: the linker keeps one of
// their destructors, and no compiler says so.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source_tree.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

/// The types that a text defines outside types and functions, with their namespaces; those of
/// unnamed namespaces are left out.
std::set<std::string> types_of(std::istream& text) {
  static const std::regex opens("(inline )?namespace ?([A-Za-z_0-9:]*) ?\\{");
  static const std::regex type(
      "(struct|class) (\\[\\[[^\\]]*\\]\\] |alignas\\([^)]*\\) )?([A-Za-z_0-9]+)( final)?( : .*)? "
      "?\\{.*");
  std::set<std::string> found;
  std::vector<std::string> scopes;
  std::smatch match;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("}  // namespace") && !scopes.empty()) {
      scopes.pop_back();
    } else if (std::regex_match(line, match, opens)) {
      scopes.push_back(match[2]);
    } else if (std::regex_match(line, match, type)) {
      std::string name;
      bool is_local = false;
      for (const std::string& scope : scopes) {
        name += scope + "::";
        is_local |= scope.empty();
      }
      if (!is_local) found.insert(name + match[3].str());
    }
  }
  return found;
}

TEST(Types, AreReadFromText) {
  std::istringstream text(
      "struct A {\nnamespace x {\nclass B final : public A {\n  struct Inner {\nnamespace {\n"
      "struct C {\n}  // namespace\nstruct D { int d; };\n}  // namespace x\n");
  EXPECT_THAT(types_of(text), ::testing::ElementsAre("A", "x::B", "x::D"));
}

TEST(Types, AreDefinedOnce) {
  std::map<std::string, std::vector<std::string>> places;
  for (const std::string& file : SourceTree::get().files()) {
    // Each kernel is a program of its own, and so is each file of C.
    if (!file.ends_with(".h") && !file.ends_with(".cpp")) continue;
    std::ifstream text(std::filesystem::path(source_dir()) / file);
    for (const std::string& type : types_of(text)) places[type].push_back(file);
  }
  EXPECT_GT(places.size(), 500U);
  for (const auto& [type, files] : places)
    EXPECT_EQ(files.size(), 1U) << type << " is defined in " << ::testing::PrintToString(files);
}

}  // namespace
}  // namespace sinter::testing
