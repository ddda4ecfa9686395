// SPDX-License-Identifier: Apache-2.0
// goldens/*.loops: a body, a line of dashes, and the listing of its loop program.
// SINTER_UPDATE_GOLDENS=1 rewrites the listings.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"
#include "tests/support/paths.h"

namespace sinter::test {
namespace {

constexpr std::string_view kSeparator = "----\n";

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/codegen/goldens"))
    if (entry.path().extension() == ".loops") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class LoopListing : public testing::TestWithParam<std::string> {};

TEST_P(LoopListing, IsTheGolden) {
  const std::string path = source_dir() + "/tests/codegen/goldens/" + GetParam() + ".loops";
  std::ifstream in(path);
  std::stringstream whole;
  whole << in.rdbuf();
  const std::string text = whole.str();
  const std::size_t at = text.find(kSeparator);
  ASSERT_NE(at, std::string::npos) << path << " has no line of dashes";
  const std::string source = text.substr(0, at);
  const ir::Graph body = ir::parse_graph(source);
  codegen::ExprTable exprs(body.ranges());
  const std::string listing = lower(body, exprs).listing;
  if (std::getenv("SINTER_UPDATE_GOLDENS")) {
    std::ofstream(path) << source << kSeparator << listing;
    return;
  }
  EXPECT_EQ(listing, text.substr(at + kSeparator.size()))
      << "if the change is meant, run with SINTER_UPDATE_GOLDENS=1";
}

INSTANTIATE_TEST_SUITE_P(Goldens, LoopListing, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sinter::test
