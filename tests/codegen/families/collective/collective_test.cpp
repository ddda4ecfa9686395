// SPDX-License-Identifier: Apache-2.0
// Collectives on the emulator: every rank a thread, with delays between and inside of meetings.
#ifdef SINTER_WITH_CUDA
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/collective/emit_exchange.h"
#include "codegen/families/loops/emit_loops.h"
#include "ir/graph.h"
#include "ir/ranks/ranks.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "tests/codegen/emit/cuda_programs.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

using codegen::CollectiveKind;
using codegen::ExchangeProblem;

/// The memory of ranks.
class Peers {
 public:
  explicit Peers(std::size_t ranks, std::uint64_t patience = 60'000'000'000)
      : tables(ranks), reports(ranks) {
    for (std::size_t r = 0; r < ranks; ++r)
      areas.emplace_back(plan::peer_area_bytes(ranks) / sizeof(std::uint64_t));
    for (std::size_t r = 0; r < ranks; ++r) {
      tables[r].rank = static_cast<std::uint32_t>(r);
      tables[r].ranks = static_cast<std::uint32_t>(ranks);
      tables[r].patience = patience;
      tables[r].report = reinterpret_cast<std::uint64_t>(&reports[r]);
      for (std::size_t o = 0; o < ranks; ++o)
        tables[r].area[o] = reinterpret_cast<std::uint64_t>(areas[o].data());
    }
  }
  std::vector<plan::PeerTable> tables;
  std::vector<std::vector<std::uint64_t>> areas;
  std::vector<std::uint64_t> reports;
};

/// Calls run(rank, turn) for all turns on a thread for each rank.
template <typename Run>
std::string on_ranks(std::size_t ranks, int turns, const Run& run) {
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      std::mt19937 random(static_cast<unsigned>(r));
      try {
        for (int turn = 0; turn < turns; ++turn) {
          if (random() % 2 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
          run(r, turn);
        }
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& error : errors) all += error;
  return all;
}

std::vector<std::int64_t> values_of(const codegen::ExprTable& exprs,
                                    const std::vector<std::int64_t>& symbols = {}) {
  plan::fb::PlanT plan;
  exprs.write(plan);
  return plan::evaluate_expressions(plan, symbols);
}

ir::Tensor random_tensor(DType type, const ir::Ints& shape, std::mt19937& random) {
  std::vector<double> values(1);
  for (const std::int64_t size : shape)
    values.resize(values.size() * static_cast<std::size_t>(size));
  for (double& value : values)
    value = static_cast<double>(static_cast<int>(random() % 401)) / 16 - 12;
  return ir::Tensor::from_doubles(type, shape, values);
}

/// The results of all ranks.
std::vector<ir::Tensor> of_all_ranks(const char* op, const ir::Attrs& attrs,
                                     const std::vector<ir::Tensor>& operands) {
  ir::GraphBuilder builder("collective");
  const auto ranks = static_cast<std::int64_t>(operands.size());
  builder.range(std::string(ir::kRankSymbol), {0, ranks - 1});
  ir::Shape shape;
  for (const std::int64_t size : operands[0].shape()) shape.emplace_back(size);
  builder.output("y", builder.add(op, {builder.input("x", {operands[0].dtype(), shape})}, attrs));
  std::vector<std::vector<ir::Tensor>> inputs;
  for (const ir::Tensor& operand : operands) inputs.push_back({operand});
  std::vector<ir::Tensor> results;
  for (auto& outputs : ir::evaluate_ranks(builder.finish(), inputs))
    results.push_back(std::move(outputs[0]));
  return results;
}

struct ExchangeCase {
  const char* op;
  std::int64_t ranks;
  DType type;
  ir::Ints operand;  // a b c d e
  CollectiveKind kind;
  ir::Ints result;
  std::int64_t axis = 1, concat = 3;
};

TEST(Collective, ExchangesDoWhatTheReferenceDoes) {
  constexpr auto kReduce = CollectiveKind::kReduce, kGather = CollectiveKind::kGather,
                 kScatter = CollectiveKind::kScatter;
  const ExchangeCase cases[] = {
      {"AllReduce", 2, DType::kFloat32, {1, 37, 1, 1, 1}, kReduce, {1, 37, 1, 1, 1}},
      {"AllReduce", 3, DType::kBFloat16, {1, 4096, 1, 1, 1}, kReduce, {1, 4096, 1, 1, 1}},
      {"AllReduce", 4, DType::kFloat16, {1, 40000, 1, 1, 1}, kReduce, {1, 40000, 1, 1, 1}},
      {"AllReduce", 2, DType::kInt64, {1, 9, 1, 1, 1}, kReduce, {1, 9, 1, 1, 1}},
      {"AllGather", 2, DType::kFloat16, {3, 5, 1, 1, 1}, kGather, {3, 10, 1, 1, 1}},
      {"AllGather", 4, DType::kUInt8, {2, 64, 1, 1, 1}, kGather, {2, 256, 1, 1, 1}},
      {"ReduceScatter", 2, DType::kFloat32, {3, 8, 5, 1, 1}, kScatter, {3, 4, 5, 1, 1}},
      {"AllToAll",
       2,
       DType::kFloat32,
       {2, 4, 3, 5, 2},
       CollectiveKind::kSplitFirst,
       {2, 2, 3, 10, 2},
       1,
       3},
      {"AllToAll",
       3,
       DType::kFloat16,
       {2, 4, 3, 6, 8},
       CollectiveKind::kSplitLast,
       {2, 12, 3, 2, 8},
       3,
       1},
  };
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  for (const ExchangeCase& test : cases) {
    codegen::ExprTable& exprs = tables.emplace_back(ir::Ranges{});
    ExchangeProblem problem;
    problem.from = 0, problem.to = 1, problem.peers = 2;
    problem.type = test.type;
    problem.kind = test.kind;
    problem.ranks = test.ranks;
    for (std::size_t d = 0; d < 5; ++d) {
      problem.operand[d] = test.operand[d];
      problem.result[d] = test.result[d];
    }
    codegen::KernelRequest request;
    request.name = fmt::format("exchange_{}", kernels.size());
    kernels.push_back(emit_exchange(problem, request, exprs));
  }
  const EmulatedKernels library(kernels, true);
  std::mt19937 random(7);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const ExchangeCase& test = cases[c];
    SCOPED_TRACE(fmt::format("case {}: {} of {} ranks", c, test.op, test.ranks));
    constexpr int kTurns = 4;
    const auto ranks = static_cast<std::size_t>(test.ranks);
    std::vector<std::vector<ir::Tensor>> inputs(kTurns), expected(kTurns);
    ir::Attrs attrs = {{"ranks", test.ranks}};
    const std::string op = test.op;
    if (op == "AllReduce" || op == "ReduceScatter") attrs.set("combine", std::string("sum"));
    if (op == "AllGather" || op == "ReduceScatter") attrs.set("axis", test.axis);
    if (op == "AllToAll") {
      attrs.set("split", test.axis);
      attrs.set("concat", test.concat);
    }
    for (int turn = 0; turn < kTurns; ++turn) {
      auto& own = inputs[static_cast<std::size_t>(turn)];
      for (std::size_t r = 0; r < ranks; ++r)
        own.push_back(random_tensor(test.type, test.operand, random));
      expected[static_cast<std::size_t>(turn)] = of_all_ranks(test.op, attrs, own);
    }
    Peers peers(ranks);
    const auto values = values_of(tables[c]);
    std::vector<std::string> wrong(ranks);
    const std::string errors = on_ranks(ranks, kTurns, [&](std::size_t r, int turn) {
      const auto t = static_cast<std::size_t>(turn);
      const auto bytes = inputs[t][r].bytes();
      std::vector<std::byte> x(bytes.begin(), bytes.end()), y(expected[t][r].bytes().size());
      x.resize((x.size() + 15) / 16 * 16);
      std::byte* const addresses[] = {x.data(), y.data(),
                                      reinterpret_cast<std::byte*>(&peers.tables[r])};
      library.run_at(kernels[c].step, 0, values, addresses);
      if (std::memcmp(y.data(), expected[t][r].bytes().data(), y.size()) != 0)
        wrong[r] += fmt::format("turn {} ", turn);
    });
    EXPECT_EQ(errors, "");
    for (std::size_t r = 0; r < ranks; ++r) EXPECT_EQ(wrong[r], "") << "rank " << r;
  }
}

/// h = residual + sum of all ranks' x; y = h / sqrt(mean(h^2) + epsilon) * weight.
codegen::EmittedKernel norm_of_sum(ProgramBuilder& builder, codegen::ExprTable& exprs, DType type,
                                   std::int64_t columns, std::int64_t ranks,
                                   const std::string& name) {
  ProgramBuilder& b = builder;
  const auto x = b.load(b.dense(type, {0, 1})), r = b.load(b.dense(type, {0, 1}));
  const auto w = b.load(b.dense(type, {1}));
  const auto h = b.op(ScalarOp::kAdd, {r, x});
  b.store(b.dense(type, {0, 1}), h);
  const auto sum = b.reduce(Combine::kSum, b.op(ScalarOp::kMul, {h, h}));
  const auto mean = b.op(ScalarOp::kMul, {sum, b.constant(DType::kFloat32, 1.0 / columns)});
  const auto scale =
      b.op(ScalarOp::kRsqrt, {b.op(ScalarOp::kAdd, {mean, b.constant(DType::kFloat32, 1e-5)})});
  b.store(b.dense(type, {0, 1}), b.op(ScalarOp::kMul, {b.op(ScalarOp::kMul, {h, scale}), w}));
  codegen::KernelRequest request = b.request(name);
  request.summands = {0, static_cast<std::uint32_t>(b.types.size()), ranks};
  return codegen::emit_loops(request, exprs);
}

TEST(Collective, SumsAreLoadedByTheKernelBehind) {
  struct Case {
    std::int64_t ranks;
    DType type;
    std::int64_t rows, columns;
  };
  const Case cases[] = {{2, DType::kBFloat16, 1, 4096},
                        {2, DType::kFloat32, 3, 64},
                        {3, DType::kFloat16, 5, 77},
                        {4, DType::kBFloat16, 4, 512}};
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  std::vector<ProgramBuilder> builders;
  builders.reserve(std::size(cases));
  tables.reserve(std::size(cases));
  for (const Case& test : cases) {
    codegen::ExprTable& exprs = tables.emplace_back(ir::Ranges{});
    builders.emplace_back(exprs, std::vector<ir::Dim>{test.rows, test.columns}, 1);
    kernels.push_back(norm_of_sum(builders.back(), exprs, test.type, test.columns, test.ranks,
                                  fmt::format("norm_{}", kernels.size())));
  }
  const EmulatedKernels library(kernels, true);
  std::mt19937 random(11);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const Case& test = cases[c];
    SCOPED_TRACE(kernels[c].source);
    const auto ranks = static_cast<std::size_t>(test.ranks);
    const auto values = values_of(tables[c]);
    const auto count = static_cast<std::size_t>(test.rows * test.columns);
    constexpr int kTurns = 5;
    std::vector<std::vector<ir::Tensor>> x(kTurns);
    for (auto& own : x)
      for (std::size_t r = 0; r < ranks; ++r)
        own.push_back(random_tensor(test.type, {test.rows, test.columns}, random));
    const ir::Tensor residual = random_tensor(test.type, {test.rows, test.columns}, random),
                     weight = random_tensor(test.type, {test.columns}, random);
    Peers peers(ranks);
    std::size_t variant = 0;
    while (!may_run(*kernels[c].step.variants[variant], values)) ++variant;
    std::vector<std::vector<std::byte>> first(ranks);
    std::vector<std::string> wrong(ranks);
    const std::string errors = on_ranks(ranks, kTurns, [&](std::size_t r, int turn) {
      const auto t = static_cast<std::size_t>(turn);
      const std::size_t bytes = count * size_of(test.type);
      std::vector<std::vector<std::byte>> memory;
      for (const ir::Tensor* tensor :
           std::vector<const ir::Tensor*>{&x[t][r], &residual, &weight}) {
        memory.emplace_back(tensor->bytes().begin(), tensor->bytes().end());
        memory.back().resize((memory.back().size() + 15) / 16 * 16);
      }
      memory.emplace_back(bytes);
      memory.emplace_back(bytes);
      std::vector<std::byte*> addresses;
      for (auto& buffer : memory) addresses.push_back(buffer.data());
      addresses.push_back(reinterpret_cast<std::byte*>(&peers.tables[r]));
      library.run_at(kernels[c].step, variant, values, addresses);
      for (std::int64_t row = 0; row < test.rows; ++row) {
        std::vector<double> h;
        double squares = 0;
        for (std::int64_t i = 0; i < test.columns; ++i) {
          const std::int64_t at = row * test.columns + i;
          double sum = 0;
          for (const ir::Tensor& one : x[t]) sum += one.at(at);
          // Summands' sum has the values' type.
          sum = ir::Tensor::from_doubles(test.type, {1}, std::vector{sum}).at(0);
          h.push_back(sum + residual.at(at));
          squares += h.back() * h.back();
        }
        const double scale = 1 / std::sqrt(squares / static_cast<double>(test.columns) + 1e-5);
        for (std::int64_t i = 0; i < test.columns && wrong[r].empty(); ++i) {
          const std::int64_t at = row * test.columns + i;
          const double tolerance = test.type == DType::kBFloat16  ? 1e-2
                                   : test.type == DType::kFloat16 ? 2e-3
                                                                  : 1e-5;
          const double y = h[static_cast<std::size_t>(i)] * scale * weight.at(i),
                       got_h = ir::load_as_double(test.type,
                                                  memory[3].data() + at * size_of(test.type)),
                       got = ir::load_as_double(test.type,
                                                memory[4].data() + at * size_of(test.type));
          if (std::abs(got_h - h[static_cast<std::size_t>(i)]) >
                  tolerance * (1 + std::abs(h[static_cast<std::size_t>(i)])) ||
              std::abs(got - y) > tolerance * (1 + std::abs(y)))
            wrong[r] = fmt::format("turn {} element {}: {}, {}; not {}, {}", turn, at, got_h, got,
                                   h[static_cast<std::size_t>(i)], y);
        }
      }
    });
    EXPECT_EQ(errors, "");
    for (std::size_t r = 0; r < ranks; ++r) EXPECT_EQ(wrong[r], "") << "rank " << r;
  }
  std::vector<std::string> sources;
  for (const auto& kernel : kernels) sources.push_back(kernel.source);
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 100u);
}

TEST(Collective, AWaitForARankThatDoesNotComeIsGivenUp) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ExchangeProblem problem;
  problem.from = 0, problem.to = 1, problem.peers = 2;
  problem.ranks = 3;
  problem.operand = problem.result = {1, 64, 1, 1, 1};
  codegen::KernelRequest request;
  request.name = "alone";
  const std::vector<codegen::EmittedKernel> kernels = {emit_exchange(problem, request, exprs)};
  const EmulatedKernels library(kernels, true);
  Peers peers(3, 50'000'000);
  const auto values = values_of(exprs);
  // Rank 1 does not come.
  const std::string errors = on_ranks(3, 1, [&](std::size_t r, int) {
    std::vector<std::byte> x(256), y(256);
    std::byte* const addresses[] = {x.data(), y.data(),
                                    reinterpret_cast<std::byte*>(&peers.tables[r])};
    if (r != 1) library.run_at(kernels[0].step, 0, values, addresses);
  });
  EXPECT_EQ(errors, "");
  for (const std::size_t r : {0u, 2u}) {
    const auto report = plan::PeerReport::of(peers.reports[r]);
    EXPECT_EQ(report.rank, 1u);
    EXPECT_EQ(report.meeting, 1u);
    EXPECT_EQ(peers.tables[r].failed, 1u);
  }
  EXPECT_EQ(peers.reports[1], 0u);
}

}  // namespace
}  // namespace sinter::test
#endif
