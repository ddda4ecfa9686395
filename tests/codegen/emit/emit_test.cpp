// SPDX-License-Identifier: Apache-2.0
// Emitted kernels, run on the host by the emulator, against the interpreter of loop programs.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/loops/emit_loops.h"
#include "cuda_random_programs.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"
#include "tests/support/paths.h"

namespace sinter::test {
namespace {

using ir::Dim;
using plan::fb::ExprOp;

const Dim kS = Dim::symbol("s"), kT = Dim::symbol("t");

TEST(CudaEmulation, RandomPrograms) {
  CudaCheck check({{"s", {1, 4096, nullptr}}, {"t", {1, INT64_MAX, nullptr}}});
  for (std::uint64_t seed = 0; seed < 120; ++seed)
    check.add(fmt::format("random_{}", seed), random_program(check.exprs, seed),
              {{{"s", 16}, {"t", 8}}, {{"s", 37}, {"t", 21}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(std::any_of(check.schedules_run().begin(), check.schedules_run().end(),
                          [](const auto& entry) { return entry.first.ends_with("staged"); }));
}

// ---- every operator in every type it has

bool applies(ScalarOp op, DType type) { return !converts(op) && is_defined_on(op, type); }

/// All operators on `type`, each stored to an output of its own; casts to every other type.
ProgramBuilder all_operators(codegen::ExprTable& exprs, DType type, const Dim& elements) {
  ProgramBuilder p(exprs, {elements}, 0);
  const auto input = [&](DType of) { return p.load(p.dense(of, {0})); };
  const std::uint32_t operands[] = {input(type), input(type)};
  const auto condition = input(DType::kBool);
  for (int code = 0; code < kScalarOpCount; ++code) {
    const auto op = static_cast<ScalarOp>(code);
    if (!applies(op, type)) continue;
    std::vector<std::uint32_t> args;
    if (op == ScalarOp::kSelect) args.push_back(condition);
    const int own = arity_of(op) - static_cast<int>(args.size());
    args.insert(args.end(), operands, operands + own);
    const auto value = p.op(op, args);
    p.store(p.dense(p.type_of(value), {0}), value);
  }
  for (int to = 0; to < kDTypeCount; ++to) {
    const auto target = static_cast<DType>(to);
    if (compute_type(target) != target) continue;
    p.store(p.dense(target, {0}), p.op(ScalarOp::kCast, target, {operands[0]}));
    if (size_of(target) == size_of(type))
      p.store(p.dense(target, {0}), p.op(ScalarOp::kBitCast, target, {operands[0]}));
  }
  return p;
}

TEST(CudaEmulation, EveryOperatorInEveryType) {
  CudaCheck check;
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (compute_type(type) != type) continue;
    for (std::int64_t elements : {64, 63})  // in vectors and one by one
      check.add(fmt::format("operators_{}_{}", to_string(type), elements),
                all_operators(check.exprs, type, elements));
  }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEmulation, EveryReductionInEveryTypeAndSchedule) {
  CudaCheck check;
  struct Shape {
    std::vector<Dim> extents;
    int inner;
    std::vector<int> layout;
    const char* name;
  };
  const Shape shapes[] = {{{37, 24}, 1, {0, 1}, "part_of_warp"},
                          {{5, 300}, 1, {0, 1}, "warp"},
                          {{3, 3001}, 1, {0, 1}, "block"},
                          {{2, 70000}, 1, {0, 1}, "looped_vectors"},
                          {{1, 70001}, 1, {0, 1}, "looped"},
                          {{70, 37}, 1, {1, 0}, "column"},
                          {{4, 35, 900}, 1, {0, 2, 1}, "column_looped"},
                          {{5, 7, 33}, 2, {1, 0, 2}, "two_inner"},
                          {{3, 6, 75, 10}, 2, {0, 2, 1, 3}, "runs"},
                          {{1, 4, 4800, 6}, 2, {0, 2, 1, 3}, "runs_of_cluster"}};
  for (const Shape& shape : shapes)
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      if (compute_type(type) != type) continue;
      ProgramBuilder p(check.exprs, shape.extents, shape.inner);
      const auto x = p.load(p.dense(type, shape.layout));
      for (Combine combine : {Combine::kSum, Combine::kProd, Combine::kMax, Combine::kMin}) {
        if (type == DType::kBool && (combine == Combine::kSum || combine == Combine::kProd))
          continue;
        std::vector<int> rows;
        for (int d = 0; d + shape.inner < static_cast<int>(shape.extents.size()); ++d)
          rows.push_back(d);
        p.store(p.dense(type, rows), p.reduce(combine, x));
      }
      check.add(fmt::format("reduce_{}_{}", shape.name, to_string(type)), std::move(p));
    }
  EXPECT_EQ(check.run(), "");
  const auto ran = [&](std::string_view part) {
    return std::any_of(
        check.schedules_run().begin(), check.schedules_run().end(),
        [&](const auto& entry) { return entry.first.find(part) != std::string::npos; });
  };
  for (const char* part : {"row vector=4 unroll", "row vector=4 looped", "row vector=1 looped",
                           "column vector=1 looped", "column vector=1 unroll",
                           "cluster=", "strided vector=2 unroll", "strided vector=2 looped"})
    EXPECT_TRUE(ran(part)) << part;
}

/// Many rows, still too few to fill a GPU by warps.
TEST(CudaEmulation, ManyRows) {
  CudaCheck check;
  for (const DType type : {DType::kFloat16, DType::kFloat32})
    for (const std::int64_t columns : {24, 64, 256, 300, 1024, 1544}) {
      check.add(fmt::format("norm_{}_{}", to_string(type), columns),
                layer_norm(check.exprs, 528, columns, type));
      if (columns < 300)
        check.add(fmt::format("softmax_{}_{}", to_string(type), columns),
                  masked_softmax(check.exprs, 4, 133, columns, type));
    }
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.schedules_run().count("row vector=8 unroll=1 threads=128x1"), 1u);
}

/// Few registers each, computing again what is cheap.
TEST(CudaEmulation, LeanRows) {
  CudaCheck check;
  int cases = 0;
  const auto add = [&](ProgramBuilder program, const std::string& schedule) {
    program.schedule = schedule;
    check.add(fmt::format("lean_{}", cases++), std::move(program));
  };
  const DType f16 = DType::kFloat16, f32 = DType::kFloat32;
  for (const char* schedule : {"row vector=8 unroll=4 threads=32x2 blocks=16 lean",
                               "row vector=8 unroll=2 threads=64x1 blocks=18 lean"})
    add(layer_norm(check.exprs, 7, 1024, f16), schedule);
  add(layer_norm(check.exprs, 7, 300, f32), "row vector=4 unroll=3 threads=32x4 blocks=8 lean");
  add(layer_norm(check.exprs, 7, 1544, f32), "row vector=4 unroll=4 threads=128x1 lean");
  add(masked_softmax(check.exprs, 4, 3, 64, f16), "row vector=8 unroll=1 threads=8x16 lean");
  for (const char* schedule : {"row vector=8 unroll=1 threads=32x4 lean again",
                               "row vector=4 unroll=2 threads=32x4 blocks=9 lean"})
    add(masked_softmax(check.exprs, 4, 3, 256, f16), schedule);
  EXPECT_EQ(check.run(), "");
}

/// What several passes over a row load is named once in a scope.
TEST(CudaEmulation, NormsThatShareTheirWeights) {
  CudaCheck check;
  const auto norms = [&](DType type, std::int64_t columns) {
    ProgramBuilder p(check.exprs, {528, columns}, 1);
    const DType c = compute_type(type);
    auto value = p.load(p.dense(type, {0, 1}));
    const auto scale = p.load(p.dense(type, {1})), bias = p.load(p.dense(type, {1}));
    const auto mean_of = [&](std::uint32_t x) {
      return p.op(ScalarOp::kDiv, {p.reduce(Combine::kSum, x), p.size(c, columns)});
    };
    for (int i = 0; i < 2; ++i) {
      const auto centred = p.op(ScalarOp::kSub, {value, mean_of(value)});
      const auto variance = mean_of(p.op(ScalarOp::kMul, {centred, centred}));
      const auto shifted = p.op(ScalarOp::kAdd, {variance, p.constant(c, 1e-2)});
      const auto normal = p.op(ScalarOp::kMul, {centred, p.op(ScalarOp::kRsqrt, {shifted})});
      value = p.op(ScalarOp::kAdd, {p.op(ScalarOp::kMul, {normal, scale}), bias});
      p.store(p.dense(type, {0, 1}), value);
    }
    return p;
  };
  for (const DType type : {DType::kFloat16, DType::kFloat32})
    for (const std::int64_t columns : {4, 16, 64, 300, 1544})
      check.add(fmt::format("{}_{}", to_string(type), columns), norms(type, columns));
  ProgramBuilder lean = norms(DType::kFloat16, 16);
  lean.schedule = "row vector=8 unroll=1 threads=2x64 blocks=9 lean";
  check.add("lean", std::move(lean));
  EXPECT_EQ(check.run(), "");
}

/// What every row shares stays in the cache; lean are rows that take too many registers otherwise.
TEST(CudaEmulation, RowsAreLeanWhereRegistersAreShort) {
  CudaCheck check;
  const auto kernel = [&](std::int64_t rows, std::int64_t columns) {
    return emit_loops(layer_norm(check.exprs, rows, columns, DType::kFloat16).request("norm"),
                      check.exprs);
  };
  const auto held = kernel(8192, 1024), lean = kernel(8192, 4096), single = kernel(1, 4096);
  EXPECT_EQ(held.step.variants[0]->schedule, "row vector=8 unroll=4 threads=32x2");
  EXPECT_EQ(lean.step.variants[0]->schedule, "row vector=8 unroll=8 threads=64x1 blocks=12 lean");
  EXPECT_NE(held.source.find("load_kept<8>"), std::string::npos);
  EXPECT_EQ(single.source.find("load_kept<8>"), std::string::npos);
}

/// One row over the blocks of a cluster.
TEST(CudaEmulation, RowsOverClusters) {
  CudaCheck check;
  check.add("norm", layer_norm(check.exprs, 3, 70000, DType::kFloat16));
  check.add("softmax", masked_softmax(check.exprs, 1, 2, 30004, DType::kFloat32));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(
      std::any_of(check.schedules_run().begin(), check.schedules_run().end(),
                  [](auto& run) { return run.first.find("cluster=") != std::string::npos; }));
}

/// Rows whose elements lie in runs: several rows a block, blocks that share them, and loops.
TEST(CudaEmulation, RowsInRuns) {
  CudaCheck check;
  for (const DType type : {DType::kFloat16, DType::kFloat32})
    for (const std::int64_t channels : {1, 2, 3, 4, 10, 16, 40})
      check.add(fmt::format("group_norm_{}_{}", to_string(type), channels),
                group_norm(check.exprs, 2, 8, 100, channels, type));
  check.add("clusters", group_norm(check.exprs, 1, 4, 9000, 10, DType::kFloat16));
  check.add("one_group", group_norm(check.exprs, 3, 1, 50, 12, DType::kFloat16));
  int number = 0;
  for (const char* schedule : {"strided vector=2 unroll=13 threads=20x8 cluster=4 lean",
                               "strided vector=2 unroll=5 threads=10x48 cluster=2",
                               "strided vector=2 looped threads=40x8 ahead=4"}) {
    ProgramBuilder program = group_norm(check.exprs, 2, 8, 410, 10, DType::kFloat16);
    program.schedule = schedule;
    check.add(fmt::format("requested_{}", number++), std::move(program));
  }
  EXPECT_EQ(check.run(), "");
}

/// The functions that device/elementary.cuh computes itself, over their whole range.
TEST(CudaEmulation, FunctionsAreAccurate) {
  std::vector<float> inputs = {0.0f, -0.0f, 1e-38f,   -1e-30f,   1e-8f,    INFINITY, -INFINITY,
                               NAN,  3e38f, 65535.9f, -65536.0f, 65537.0f, 1e9f,     -7.25e20f};
  for (float bound : {1e-3f, 0.8f, 4.0f, 12.0f, 100.0f, 60000.0f})
    for (int i = 0; i < 700; ++i)
      inputs.push_back(bound * static_cast<float>(std::sin(0.37 * i) * (1 - i / 1400.0)));
  for (std::uint32_t i = 0; i < 1 << 17; ++i)  // every exponent and sign
    inputs.push_back(std::bit_cast<float>(i << 15 | (i * 40503 & 0x7fff)));
  const auto count = static_cast<std::int64_t>(inputs.size());
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {count}, 0);
  const auto x = p.load(p.dense(DType::kFloat32, {0}));
  struct Function {
    ScalarOp op;
    double (*exact)(double);
  };
  const Function functions[] = {{ScalarOp::kErf, std::erf},
                                {ScalarOp::kTanh, std::tanh},
                                {ScalarOp::kSin, std::sin},
                                {ScalarOp::kCos, std::cos}};
  for (const Function& function : functions)
    p.store(p.dense(DType::kFloat32, {0}), p.op(function.op, {x}));
  const codegen::EmittedKernel kernel = codegen::emit_loops(p.request("functions"), exprs);
  plan::fb::PlanT plan;
  exprs.write(plan);
  const auto values = plan::evaluate_expressions(plan, {});
  Memory memory(5, std::vector<std::byte>(inputs.size() * sizeof(float)));
  std::memcpy(memory[0].data(), inputs.data(), memory[0].size());
  EmulatedKernels(std::span(&kernel, 1)).run(kernel.step, 0, values, memory);
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      float actual = 0;
      std::memcpy(&actual, memory[f + 1].data() + i * sizeof(float), sizeof(float));
      const double exact = functions[f].exact(static_cast<double>(inputs[i]));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(actual)) << to_string(functions[f].op) << " of " << inputs[i];
        continue;
      }
      // Near the zeros of sine and cosine the argument's own rounding weighs more.
      EXPECT_NEAR(actual, exact, 6e-7 * std::max(std::abs(exact), f < 2 ? 2e-38 : 0.1))
          << to_string(functions[f].op) << " of " << inputs[i];
      // A gelu multiplies 1 + erf with its argument, however large.
      if (f < 2 && std::abs(inputs[i]) > 12) {
        EXPECT_EQ(std::abs(actual), 1.0f);
      }
    }
}

// ---- the shapes of real models

TEST(CudaEmulation, LoweredRegions) {
  CudaCheck check({{"batch", {1, 64, nullptr}}, {"seq", {1, 512, nullptr}}});
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/codegen/goldens")) {
    if (entry.path().extension() != ".loops") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const ir::Graph body = ir::parse_graph(text.str().substr(0, text.str().find("----\n")));
    check.add(entry.path().stem().string(), lowered_program(check.exprs, body),
              {{{"batch", 2}, {"seq", 8}}, {{"batch", 1}, {"seq", 13}}});
    ++count;
  }
  EXPECT_GT(count, 4);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEmulation, SoftmaxOfRowsOfUnknownLength) {
  CudaCheck check({{"t", {1, INT64_MAX, nullptr}}});
  std::vector<ir::Bindings> lengths;
  for (std::int64_t t : {1, 7, 8, 31, 33, 64, 200, 256, 264, 520, 1000, 2304, 5000, 9001})
    lengths.push_back({{"t", t}});
  for (DType type : {DType::kFloat16, DType::kFloat32})
    check.add(fmt::format("softmax_{}", to_string(type)),
              masked_softmax(check.exprs, 2, 3, kT, type), lengths);
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels())  // short and long, divisible and not
    for (const auto& variant : kernel.step.variants)
      EXPECT_EQ(check.schedules_run().count(variant->schedule), 1u) << variant->schedule;
}

TEST(CudaEmulation, NegativeAndForeignIndicesOfGathers) {
  CudaCheck check;
  ProgramBuilder p(check.exprs, {4000, 16}, 0);
  const auto indices = p.dense(DType::kInt64, {0});
  p.ranges[p.at(indices).buffer] = {-10, 10};
  const auto index = p.load(indices);
  const auto table = p.access(p.buffer(DType::kFloat32, Dim(160)), {0, 1});
  p.at(table).gathers.emplace_back(index, check.exprs.intern(10), check.exprs.intern(16));
  p.store(p.dense(DType::kFloat32, {0, 1}), p.load(table));
  check.add("gather", std::move(p));
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels()[0].source,
              testing::HasSubstr("load<4>(x1 + i1 + wrap_index(v0, 10)"));
}

TEST(CudaEmulation, IndicesSizesAndConstantsOfEveryKind) {
  CudaCheck check({{"s", {1, 100, nullptr}}});
  ProgramBuilder p(check.exprs, {kS, 12}, 0);
  const auto row = p.index(DType::kInt64, 0), column = p.index(DType::kInt32, 1);
  const auto sum = p.op(ScalarOp::kAdd, {p.op(ScalarOp::kCast, DType::kInt64, {column}), row});
  p.store(p.dense(DType::kInt64, {0, 1}),
          p.op(ScalarOp::kMul, {sum, p.size(DType::kInt64, kS * Dim(3))}));
  const auto huge = p.constant(DType::kInt64, -9.0e18);
  p.store(p.dense(DType::kInt64, {0, 1}), p.op(ScalarOp::kAdd, {sum, huge}));
  const auto share = p.op(
      ScalarOp::kDiv, {p.op(ScalarOp::kCast, DType::kFloat32, {sum}), p.size(DType::kFloat32, kS)});
  p.store(p.dense(DType::kFloat32, {0, 1}), share);
  const auto third = p.op(ScalarOp::kDiv, {share, p.constant(DType::kFloat32, 3)});
  const auto infinite = p.constant(DType::kFloat32, -INFINITY);
  const auto small = p.op(ScalarOp::kLess, {third, p.constant(DType::kFloat32, 0.5)});
  p.store(p.dense(DType::kBFloat16, {0, 1}),
          p.op(ScalarOp::kSelect, DType::kFloat32, {small, infinite, third}));
  const auto cube = p.op(ScalarOp::kPow, {third, p.constant(DType::kFloat32, 3)});
  p.store(p.dense(DType::kFloat32, {0, 1}), cube);
  check.add("constants", std::move(p), {{{"s", 1}}, {{"s", 9}}});
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEmulation, ScalarsAndSingleElements) {
  CudaCheck check;
  ProgramBuilder none(check.exprs, {}, 0);
  none.store(none.dense(DType::kFloat32, {}),
             none.op(ScalarOp::kExp, {none.load(none.dense(DType::kFloat32, {}))}));
  check.add("rank_zero", std::move(none));
  ProgramBuilder ones(check.exprs, {1, 1, 1}, 1);
  const auto x = ones.load(ones.dense(DType::kFloat16, {0, 1, 2}));
  ones.store(ones.dense(DType::kFloat16, {0, 1}), ones.reduce(Combine::kMax, x));
  check.add("all_ones", std::move(ones));
  ProgramBuilder total(check.exprs, {500, 20}, 2);
  const auto y = total.load(total.dense(DType::kFloat32, {0, 1}));
  const auto sum = total.reduce(Combine::kSum, y);
  total.store(total.dense(DType::kFloat32, {}), sum);
  total.store(total.dense(DType::kFloat32, {1, 0}), total.op(ScalarOp::kSub, {y, sum}));
  check.add("full_reduction", std::move(total));
  ProgramBuilder scaled(check.exprs, {64}, 0);
  const auto factor = scaled.load(scaled.dense(DType::kFloat32, {}));
  const auto z = scaled.load(scaled.dense(DType::kFloat32, {0}));
  scaled.store(scaled.dense(DType::kFloat32, {0}), scaled.op(ScalarOp::kDiv, {z, factor}));
  check.add("scaled", std::move(scaled));
  EXPECT_EQ(check.run(), "");
}

// ---- what the text promises

codegen::EmittedKernel emit(const ProgramBuilder& program, codegen::ExprTable& exprs,
                            const std::string& name = "kernel") {
  return codegen::emit_loops(program.request(name), exprs);
}

TEST(CudaEmit, VectorsNeedDivisibleSizes) {
  codegen::ExprTable exprs({{"s", {1, 4096, nullptr}}});
  ProgramBuilder p(exprs, {10, kS}, 0);
  p.store(p.dense(DType::kFloat16, {0, 1}), p.load(p.dense(DType::kFloat16, {0, 1})));
  const auto kernel = emit(p, exprs);
  ASSERT_EQ(kernel.step.variants.size(), 2u);
  ASSERT_EQ(kernel.step.variants[0]->conditions.size(), 1u);
  const auto& condition = kernel.step.variants[0]->conditions[0];
  EXPECT_EQ(exprs.dim(condition.expression()), kS);
  EXPECT_EQ(condition.divisor(), 8u);
  EXPECT_TRUE(kernel.step.variants[1]->conditions.empty());
}

TEST(CudaEmit, UnalignedOffsetsAreReadOneByOne) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {1024, 64}, 0);
  const auto shifted = p.load(p.access(p.buffer(DType::kFloat32, 1024 * 64 + 1), {64, 1}, 1));
  const auto plain = p.load(p.dense(DType::kFloat32, {0, 1}));
  p.store(p.dense(DType::kFloat32, {0, 1}), p.op(ScalarOp::kAdd, {shifted, plain}));
  const std::string source = emit(p, exprs).source;
  EXPECT_THAT(source, testing::HasSubstr("widen(x0[i0 * 64 + (i1 + j) + 1])"));
  EXPECT_THAT(source, testing::HasSubstr("load<4>(x1 + i0 * 64 + i1)"));
}

TEST(CudaEmit, LargeAddressesAre64Bit) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {100000, 65536}, 1);
  const auto x = p.load(p.dense(DType::kFloat32, {0, 1}));
  p.store(p.dense(DType::kFloat32, {0}), p.reduce(Combine::kSum, x));
  EXPECT_THAT(emit(p, exprs).source, testing::HasSubstr("x0 + i64(i0) * 65536"));
}

TEST(CudaEmit, SizesBecomeArgumentsOfTheWidthTheyNeed) {
  codegen::ExprTable exprs({{"s", {1, 512, nullptr}}, {"t", {1, INT64_MAX, nullptr}}});
  ProgramBuilder p(exprs, {kT, kS}, 0);
  p.store(p.dense(DType::kFloat32, {0, 1}), p.load(p.dense(DType::kFloat32, {1, 0})));
  const auto kernel = emit(p, exprs);
  for (const auto& arg : kernel.step.args) {
    if (arg.kind() == plan::fb::ArgKind::Buffer) continue;
    const auto high = exprs.upper_bound(arg.index());
    EXPECT_EQ(arg.kind() == plan::fb::ArgKind::Int32, high && *high <= INT32_MAX)
        << exprs.dim(arg.index()).to_string();
  }
}

TEST(CudaEmit, IsDeterministic) {
  const auto source = [] {
    codegen::ExprTable exprs({{"s", {1, 4096, nullptr}}});
    return emit(masked_softmax(exprs, 4, 12, kS, DType::kFloat16), exprs).source;
  };
  EXPECT_EQ(source(), source());
}

TEST(CudaEmit, NamesFromTheModelStayInComments) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {16}, 0);
  p.store(p.dense(DType::kFloat32, {0}), p.load(p.dense(DType::kFloat32, {0})));
  codegen::KernelRequest request = p.request("copy");
  request.origins = {"evil\n#error name", "continued\\"};
  const std::string source = codegen::emit_loops(request, exprs).source;
  EXPECT_THAT(source, testing::HasSubstr("// from evil?#error name\n// from continued?\n"));
}

TEST(CudaEmit, ContradictionsAreInternalErrors) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {16}, 0);
  p.store(p.dense(DType::kFloat32, {0}), p.load(p.dense(DType::kFloat32, {0})));
  p.program.instrs[1]->args = {7};
  try {
    emit(p, exprs, "broken_one");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), testing::HasSubstr("broken_one"));
  }
}

}  // namespace
}  // namespace sinter::test
#endif
