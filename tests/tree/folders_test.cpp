// SPDX-License-Identifier: Apache-2.0
// What keeps the tree readable and quick to build: folders stay small, and headers that change
// often are not read by most sources.
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source_tree.h"

namespace sinter::testing {
namespace {

constexpr int kMostSources = 25;
// Lists of things that are alike, a file each.
const std::set<std::string> kLists = {"fusion/passes"};

TEST(Folders, HoldFewSources) {
  std::map<std::string, int> counts;
  for (const std::string& file : SourceTree::get().files())
    ++counts[std::filesystem::path(file).parent_path().string()];
  for (const auto& [folder, count] : counts)
    EXPECT_TRUE(count <= kMostSources || kLists.contains(folder)) << folder << " has " << count;
}

/// How many of all sources (.cpp) are compiled again when `header` changes.
double share_of_sources_behind(const std::string& header) {
  const SourceTree& tree = SourceTree::get();
  Edges readers;
  for (const auto& [file, targets] : tree.edges())
    for (const std::string& target : targets) readers[target].insert(file);
  std::set<std::string> found;
  const std::function<void(const std::string&)> visit = [&](const std::string& file) {
    for (const std::string& reader : readers[file])
      if (found.insert(reader).second) visit(reader);
  };
  visit(header);
  const auto is_source = [](const std::string& file) { return file.ends_with(".cpp"); };
  return static_cast<double>(std::count_if(found.begin(), found.end(), is_source)) /
         static_cast<double>(std::count_if(tree.files().begin(), tree.files().end(), is_source));
}

TEST(Folders, TheGraphIsNotReadByMostSources) {
  EXPECT_LT(share_of_sources_behind("ir/graph.h"), 0.6);
}

}  // namespace
}  // namespace sinter::testing
