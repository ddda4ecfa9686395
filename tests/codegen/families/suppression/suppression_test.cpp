// SPDX-License-Identifier: Apache-2.0
// Suppress on the emulator: tiles, clusters, and a length that the kernel reads in memory.
#ifdef SINTER_WITH_CUDA
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "codegen/families/suppression/emit_suppression.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct SuppressionCase {
  std::int64_t rows, length, most;
  bool from_data = false;
  std::int64_t kept = 0;
};

ir::Tensor boxes_of(const SuppressionCase& test) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> low(0, 60), side(-2, 15);
  std::vector<double> values;
  for (std::int64_t i = 0; i < test.rows * test.length; ++i) {
    const double x = low(random), y = low(random);
    for (const double v : {x, y, x + side(random), y + side(random)}) values.push_back(v);
  }
  return ir::Tensor::from_doubles(DType::kFloat32, {test.rows, test.length, 4}, values);
}

ir::Tensor flags_of(const SuppressionCase& test) {
  std::vector<std::int64_t> flags;
  for (std::int64_t i = 0; i < test.rows * test.length; ++i) flags.push_back(i % 7 != 3);
  return ir::Tensor::from_ints(DType::kBool, {test.rows, test.length}, flags);
}

TEST(Suppression, KernelsKeepWhatTheReferenceKeeps) {
  // Less than a tile, exactly one, several; short rows have one block, long ones a cluster.
  const SuppressionCase cases[] = {{1, 1, 1},
                                   {3, 100, 1000},
                                   {2, 512, 1000},
                                   {2, 1023, 1024},
                                   {2, 1300, 100000},
                                   {1, 2600, 100000},
                                   {2, 700, 900, true},
                                   {1, 1500, 9000, true},
                                   {1, 0, 9000, true},
                                   {2, 1000, 1000, false, 1},
                                   {2, 1300, 100000, false, 40},
                                   {1, 1300, 100000, false, 700}};
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  for (const SuppressionCase& test : cases) {
    ir::Range range{0, test.most, nullptr, test.from_data};
    tables.push_back(codegen::ExprTable({{"n", range}}));
    codegen::ExprTable& exprs = tables.back();
    if (test.from_data) exprs.set_extent("n", 3);
    codegen::SuppressionProblem problem;
    problem.boxes = 0;
    problem.valid = 1;
    problem.kept = 2;
    problem.rows = test.rows;
    problem.length = ir::Dim::symbol("n");
    problem.iou = .3;
    problem.most = test.kept;
    codegen::KernelRequest request;
    request.name = "suppress_" + std::to_string(kernels.size());
    kernels.push_back(emit_suppression(problem, request, exprs));
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const SuppressionCase& test = cases[c];
    SCOPED_TRACE(kernels[c].step.variants[0]->schedule + " " + std::to_string(test.length));
    EXPECT_EQ(kernels[c].step.variants[0]->cluster > 1, test.most > 1024);
    const ir::Tensor boxes = boxes_of(test), flags = flags_of(test);
    const ir::Tensor inputs[] = {boxes, flags};
    const ir::Tensor expected =
        ir::evaluate_op(ir::get_op("Suppress"), {{"iou", .3}, {"most", test.kept}}, inputs)[0];
    plan::fb::PlanT plan;
    tables[c].write(plan);
    const std::vector<std::int64_t> symbols(plan.symbols.size(),
                                            test.from_data ? test.most : test.length);
    Memory memory(4);
    memory[0].assign(boxes.bytes().begin(), boxes.bytes().end());
    memory[1].assign(flags.bytes().begin(), flags.bytes().end());
    memory[2].assign(expected.bytes().size(), std::byte{0xa5});
    memory[3].resize(8);
    std::memcpy(memory[3].data(), &test.length, 8);
    library.run(kernels[c].step, 0, plan::evaluate_expressions(plan, symbols), memory);
    for (std::int64_t i = 0; i < expected.element_count(); ++i)
      ASSERT_EQ(static_cast<std::int64_t>(memory[2][static_cast<std::size_t>(i)]),
                expected.at_int(i))
          << "box " << i;
  }
}

}  // namespace
}  // namespace sinter::test
#endif
