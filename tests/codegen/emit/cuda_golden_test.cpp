// SPDX-License-Identifier: Apache-2.0
// goldens/*.cu: the CUDA text of the regions in goldens/*.loops of the same name.
// SINTER_UPDATE_GOLDENS=1 rewrites them; review them as a diff.
#ifdef SINTER_WITH_CUDA
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "codegen/families/loops/emit_loops.h"
#include "cuda_programs.h"
#include "ir/text/text.h"
#include "tests/support/paths.h"

namespace sinter::test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CudaText : public testing::TestWithParam<const char*> {};

TEST_P(CudaText, IsTheGolden) {
  const std::string stem = source_dir() + "/tests/codegen/goldens/" + GetParam();
  const std::string listing = read(stem + ".loops");
  ASSERT_NE(listing, "") << stem;
  const ir::Graph body = ir::parse_graph(listing.substr(0, listing.find("----\n")));
  codegen::ExprTable exprs(body.ranges());
  const ProgramBuilder program = lowered_program(exprs, body);
  const std::string source = codegen::emit_loops(program.request(GetParam()), exprs).source;
  if (std::getenv("SINTER_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(stem + ".cu") << source;
    return;
  }
  EXPECT_EQ(source, read(stem + ".cu")) << "if the change is meant, run with "
                                           "SINTER_UPDATE_GOLDENS=1";
}

INSTANTIATE_TEST_SUITE_P(Goldens, CudaText,
                         testing::Values("add_layernorm", "embedding", "masked_softmax",
                                         "mean_pool", "rotate_half", "merge_heads"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sinter::test
#endif
