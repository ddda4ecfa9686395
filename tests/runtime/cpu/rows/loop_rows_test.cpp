// SPDX-License-Identifier: Apache-2.0
// Loop programs on the CPU: narrow rows, rows at several gathered indices, shifted images, programs
// that run together.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "tests/runtime/cpu/instruction_sets.h"
#include "tests/runtime/cpu/loop_case.h"

namespace sinter::testing {
namespace {

/// Rows that are a part of a vector, with one number and one flag for each.
TEST(CpuRows, NarrowOnesWithANumberEach) {
  for_each_instruction_set([] {
    for (const int columns : {1, 2, 3, 4, 5, 8, 16, 24})
      for (const int rows : {1, 7, 64, 133}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
        PlanBuilder b;
        const Id m = b.constant(rows), n = b.constant(columns), one = b.constant(1),
                 zero = b.constant(0);
        const Id x = b.input("x", DType::kFloat32, {m, n});
        const Id of = b.input("of", DType::kFloat32, {m});
        const Id y = b.output("y", DType::kFloat32, {m, n});
        const Id z = b.output("z", DType::kFloat32, {m, n});
        // Gathered rows keep columns apart.
        const Id ids = b.input("ids", DType::kInt64, {m});
        LoopBuilder l({m, n}, 0);
        const Id id = l.load(l.access(ids, zero, {one, zero}), DType::kInt64);
        const Id access = l.access(x, zero, {zero, one});
        l.access_at(access).gathers.emplace_back(id, m, n);
        const Id value = l.load(access), number = l.load(l.access(of, zero, {one, zero}));
        const Id flag = l.op(ScalarOp::kLess, {number, l.constant(0.5)}, DType::kBool);
        const Id scaled = l.op(ScalarOp::kSub, {number, l.op(ScalarOp::kMul, {value, number})});
        l.store(l.access(y, zero, {n, one}), scaled);
        l.store(l.access(z, zero, {n, one}), l.op(ScalarOp::kSelect, {flag, value, l.constant(3)}));
        b.loop("narrow", std::move(l));
        LoopCase test(std::move(b));
        for (int r = 0; r < rows; ++r)
          set_element(DType::kInt64, test.buffers()[ids], r, (r * 5) % rows);
        test.check();
      }
  });
}

/// data[i[r], j[r], :], and one element data[i[r], j[r]] of each row.
TEST(CpuRows, AtTwoIndices) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kUInt8, DType::kInt64})
    for (const DType index : {DType::kInt64, DType::kInt32})
      for (const int columns : {1, 3, 8, 16, 40}) {
        SCOPED_TRACE(::testing::Message() << to_string(type) << ", " << columns);
        PlanBuilder b;
        const Id m = b.constant(300), n = b.constant(columns), one = b.constant(1),
                 zero = b.constant(0);
        const Id five = b.constant(5), seven = b.constant(7), plane = b.constant(7 * columns);
        const Id data = b.input("data", type, {five, seven, n});
        const Id i = b.input("i", index, {m}), j = b.input("j", index, {m});
        const Id y = b.output("y", type, {m, n});
        LoopBuilder l({m, n}, 0);
        const DType compute = compute_type(type);
        const Id first = l.load(l.access(i, zero, {one, zero}), index),
                 second = l.load(l.access(j, zero, {one, zero}), index);
        const Id access = l.access(data, zero, {zero, one});
        l.access_at(access).gathers.emplace_back(first, five, plane);
        l.access_at(access).gathers.emplace_back(second, seven, n);
        l.store(l.access(y, zero, {n, one}), l.load(access, compute), compute);
        b.loop("rows", std::move(l));
        LoopCase test(std::move(b));
        for (int r = 0; r < 300; ++r) {
          set_element(index, test.buffers()[i], r, r % 10 - 5);
          set_element(index, test.buffers()[j], r, (r * 3) % 14 - 7);
        }
        test.check();
        set_element(index, test.buffers()[j], 299, 7);
        EXPECT_THROW(test.run(1), Error);
      }
}

/// Images [n, h, w] moved by some rows and columns, of the same size and of others.
TEST(CpuRows, OfMovedImages) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kUInt8, DType::kFloat64})
    for (const int width : {3, 20, 70})
      for (const int grown : {0, 5})
        for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {-1, -1}, {2, -2}, {-30, 0}}) {
          SCOPED_TRACE(::testing::Message() << to_string(type) << " " << width << "+" << grown
                                            << " by " << down << ", " << right);
          PlanBuilder b;
          const int height = 11;
          const Id n = b.constant(6), h = b.constant(height), w = b.constant(width),
                   wide = b.constant(width + grown), one = b.constant(1), zero = b.constant(0);
          const Id x = b.input("x", type, {n, h, w});
          const Id y = b.output("y", type, {n, h, wide});
          LoopBuilder l({n, h, wide}, 0);
          const Id row = l.index_node(fb::ExprOp::Sub, l.index_node(fb::ExprOp::Symbol, 1),
                                      l.index_node(fb::ExprOp::Constant, b.constant(down)));
          const Id column = l.index_node(fb::ExprOp::Sub, l.index_node(fb::ExprOp::Symbol, 2),
                                         l.index_node(fb::ExprOp::Constant, b.constant(right)));
          const Id access =
              l.access(x, b.constant(-down * width - right), {b.constant(height * width), w, one});
          l.access_at(access).guards.emplace_back(row, h);
          l.access_at(access).guards.emplace_back(column, w);
          l.access_at(access).fill = 3;
          l.store(l.access(y, zero, {b.constant(height * (width + grown)), wide, one}),
                  l.load(access, compute_type(type)), compute_type(type));
          b.loop("move", std::move(l));
          LoopCase(std::move(b)).check();
        }
}

TEST(CpuRows, SumsOfManyBytes) {
  for_each_instruction_set([] {
    for (const DType type : {DType::kUInt8, DType::kInt8})
      for (const int rows : {255, 256, 700})
        for (const int columns : {15, 64, 300}) {
          SCOPED_TRACE(::testing::Message() << to_string(type) << " " << rows << " x " << columns);
          PlanBuilder b;
          const Id m = b.constant(rows), n = b.constant(columns), one = b.constant(1),
                   zero = b.constant(0);
          const Id x = b.input("x", type, {m, n});
          const Id y = b.output("y", DType::kInt32, {n});
          LoopBuilder l({n, m}, 1);
          const Id value = l.load(l.access(x, zero, {one, n}), type);
          l.store(
              l.access(y, zero, {one, zero}),
              l.reduce(Combine::kSum, l.op(ScalarOp::kCast, {value}, DType::kInt32), DType::kInt32),
              DType::kInt32);
          b.loop("sum", std::move(l));
          LoopCase test(std::move(b));
          for (int i = 0; i < rows * columns; ++i)  // the largest ones, which overflow first
            set_element(type, test.buffers()[x], i,
                        type == DType::kUInt8  ? 255 - i % 3
                        : i % columns % 2 == 0 ? -128
                                               : 127);
          test.check();
        }
  });
}

/// A plan with a program for each entry of `columns`: columns [first, first + columns) of y are
/// those of x, scaled. The last program reads y.
std::shared_ptr<const plan::PlanData> parts_of_a_row(std::span<const int> columns, int rows) {
  PlanBuilder b;
  const int width = std::accumulate(columns.begin(), columns.end(), 0);
  const Id m = b.constant(rows), n = b.constant(width), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {m, n});
  const Id y = b.output("y", DType::kFloat32, {m, n}), z = b.output("z", DType::kFloat32, {m, n});
  for (int first = 0; const int count : columns) {
    LoopBuilder l({m, b.constant(count)}, 0);
    const Id scaled = l.op(
        ScalarOp::kMul, {l.load(l.access(x, b.constant(first), {n, one})), l.constant(first + 2)});
    l.store(l.access(y, b.constant(first), {n, one}), scaled);
    b.loop("part" + std::to_string(first), std::move(l));
    first += count;
  }
  LoopBuilder l({m, n}, 0);
  l.store(l.access(z, zero, {n, one}), l.load(l.access(y, zero, {n, one})));
  b.loop("reader", std::move(l));
  return plan::parse_plan(b.bytes());
}

TEST(CpuRows, ProgramsThatRunTogether) {
  using runtime::cpu::TileProgram;
  const std::vector<int> columns = {33, 31, 1};
  for (const int rows : {1, 40, 3000})
    for (const int threads : {1, 3}) {
      const auto data = parts_of_a_row(columns, rows);
      const auto values = plan::evaluate_expressions(data->meta, {});
      std::vector<TileProgram> programs;
      for (const auto& step : data->meta.steps)
        programs.emplace_back(data->meta, *step->work.AsLoopStep()->program, values, threads);
      const auto can_join = [&](std::initializer_list<int> which) {
        std::vector<const TileProgram*> chosen;
        for (const int k : which) chosen.push_back(&programs[static_cast<std::size_t>(k)]);
        return TileProgram::can_join(data->meta, chosen);
      };
      EXPECT_TRUE(can_join({0, 1, 2}));
      EXPECT_FALSE(can_join({0, 1, 3})) << "the last one reads what is stored";
      EXPECT_FALSE(can_join({3, 0}));
      EXPECT_FALSE(can_join({0, 1, 2, 1})) << "the last one stores again";

      std::size_t bytes = 0;
      for (const TileProgram& program : programs) bytes += program.workspace_bytes();
      const std::size_t count = static_cast<std::size_t>(rows) * 65;
      std::vector<float> x(count), y(count), z(count);
      std::iota(x.begin(), x.end(), 1.0F);
      std::vector<std::byte*> addresses(data->meta.buffers.size());
      for (std::size_t k = 0; k < addresses.size(); ++k)
        addresses[k] = reinterpret_cast<std::byte*>(k == 0   ? x.data()
                                                    : k == 1 ? y.data()
                                                             : z.data());
      struct alignas(64) Line {
        std::byte bytes[64];
      };
      std::vector<Line> memory(static_cast<std::size_t>(threads) * (bytes / 64 + 1));
      std::vector<std::byte*> workspaces;
      for (int t = 0; t < threads; ++t)
        workspaces.push_back(memory[static_cast<std::size_t>(t) * (bytes / 64 + 1)].bytes);
      const TileProgram* const joined[] = {&programs[0], &programs[1], &programs[2]};
      TileProgram::run_joined(joined, addresses, workspaces);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t column = i % 65;
        const float factor = column < 33 ? 2 : column < 64 ? 35 : 66;
        ASSERT_EQ(y[i], x[i] * factor) << "element " << i << " of " << rows << " rows";
      }
    }
}

}  // namespace
}  // namespace sinter::testing
