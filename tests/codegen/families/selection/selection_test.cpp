// SPDX-License-Identifier: Apache-2.0
// SelectIndices on the emulator: tiles of every kind of length, and numbers that the kernel reads
// in memory.
#ifdef SINTER_WITH_CUDA
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/selection/emit_selection.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct SelectionCase {
  std::int64_t tiles, tile;
  int of;  // every so manieth flag is true; 0: none
  bool from_data = false;
};

TEST(Selection, KernelsSelectWhatTheReferenceSelects) {
  const SelectionCase cases[] = {{1, 1, 1},    {1, 1, 0},         {1, 31, 2},   {2, 255, 3},
                                 {3, 257, 1},  {1, 4095, 7},      {2, 4096, 1}, {3, 4096, 3},
                                 {2, 4096, 0}, {3, 4096, 5, true}};
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  for (const SelectionCase& test : cases) {
    tables.push_back(codegen::ExprTable({{"n", ir::Range{0, 20000, nullptr, test.from_data}}}));
    codegen::ExprTable& exprs = tables.back();
    if (test.from_data) exprs.set_extent("n", 3);
    codegen::SelectionProblem problem;
    problem.flags = 0;
    problem.before = 1;
    problem.indices = 2;
    problem.tiles = test.tiles;
    problem.count = ir::Dim::symbol("n");
    problem.tile = test.tile;
    codegen::KernelRequest request;
    request.name = fmt::format("select_{}", kernels.size());
    kernels.push_back(emit_selection(problem, request, exprs));
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const SelectionCase& test = cases[c];
    SCOPED_TRACE(fmt::format("{} tiles of {}, one in {}", test.tiles, test.tile, test.of));
    std::vector<std::int64_t> flags, before, expected;
    for (std::int64_t i = 0; i < test.tiles * test.tile; ++i) {
      if (i % test.tile == 0) before.push_back(std::ssize(expected));
      flags.push_back(test.of > 0 && i * 7919 % test.of == 0);
      if (flags.back() != 0) expected.push_back(i);
    }
    const auto count = std::ssize(expected);
    const ir::Tensor inputs[] = {
        ir::Tensor::from_ints(DType::kBool, {test.tiles, test.tile}, flags),
        ir::Tensor::from_ints(DType::kInt64, {test.tiles}, before)};
    const ir::Tensor reference = ir::evaluate_op(
        ir::get_op("SelectIndices"), {{"count", std::vector<ir::Dim>{count}}}, inputs)[0];
    plan::fb::PlanT plan;
    tables[c].write(plan);
    const std::vector<std::int64_t> symbols(plan.symbols.size(), test.from_data ? 20000 : count);
    Memory memory(4);
    memory[0].assign(inputs[0].bytes().begin(), inputs[0].bytes().end());
    memory[1].assign(inputs[1].bytes().begin(), inputs[1].bytes().end());
    memory[2].assign(static_cast<std::size_t>(count) * 8, std::byte{0xa5});
    memory[3].resize(8);
    std::memcpy(memory[3].data(), &count, 8);
    library.run(kernels[c].step, 0, plan::evaluate_expressions(plan, symbols), memory);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(reference.at_int(i), expected[static_cast<std::size_t>(i)]);
      ASSERT_EQ(ir::load_as_int(DType::kInt64, memory[2].data() + i * 8), reference.at_int(i))
          << "index " << i;
    }
  }
  std::vector<std::string> sources;
  for (const auto& kernel : kernels) sources.push_back(kernel.source);
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 100u);
}

}  // namespace
}  // namespace sinter::test
#endif
