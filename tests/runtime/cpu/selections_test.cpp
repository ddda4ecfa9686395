// SPDX-License-Identifier: Apache-2.0
// Selections on the CPU: indices of flags, the first index of a flag, rows and columns as they are.
#include <gtest/gtest.h>

#include "tests/runtime/cpu/loop_case.h"

namespace sinter::testing {
namespace {

TEST(CpuSelection, IndicesOfTrueFlags) {
  struct Case {
    std::int64_t tiles, tile, of;
  };
  for (const Case& test : {Case{1, 1, 1}, Case{1, 7, 2}, Case{0, 8, 1}, Case{3, 4096, 3},
                           Case{40, 4096, 1}, Case{2, 4095, 50}, Case{5, 64, 1000}}) {
    std::vector<std::uint8_t> flags;
    std::vector<std::int64_t> before, expected;
    for (std::int64_t i = 0; i < test.tiles * test.tile; ++i) {
      if (i % test.tile == 0) before.push_back(std::ssize(expected));
      flags.push_back(i * 7919 % test.of == 0);
      if (flags.back() != 0) expected.push_back(i);
    }
    // More than there are stay as they were, fewer are cut.
    for (const std::int64_t count : {std::ssize(expected), std::ssize(expected) / 2})
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(std::to_string(test.tiles) + " tiles of " + std::to_string(test.tile));
        PlanBuilder b;
        const Id tiles = b.constant(test.tiles), tile = b.constant(test.tile);
        b.call("selection",
               {b.input_of("flags", DType::kBool, {tiles, tile}),
                b.input_of("before", DType::kInt64, {tiles})},
               {b.output_of("y", DType::kInt64, {b.constant(count)})});
        SessionOptions options;
        options.threads = threads;
        Session session(b.build(), options);
        session.set_input(
            "flags",
            TensorView{DType::kBool, {test.tiles, test.tile}, flags.data(), Memory::kHost});
        session.set_input("before",
                          TensorView{DType::kInt64, {test.tiles}, before.data(), Memory::kHost});
        session.run();
        const auto* found = static_cast<const std::int64_t*>(session.output("y").data);
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(found[i], expected[static_cast<std::size_t>(i)]) << "index " << i;
      }
  }
}

/// The first of a row's (a column's) elements above a number, along the row and across.
TEST(CpuSelection, FirstIndexOfAFlag) {
  for (const std::int64_t length : {1, 9, 2048, 2049, 6000})
    for (const bool across : {false, true})
      for (const double above : {-3.0, 1.9, 3.0})
        for (const DType type : {DType::kInt32, DType::kInt64}) {
          SCOPED_TRACE(std::to_string(length) + (across ? " across" : " along"));
          PlanBuilder b;
          const Id rows = b.constant(70), n = b.constant(length), one = b.constant(1);
          const Id zero = b.constant(0);
          const Id x = b.input("x", DType::kFloat32, {rows, n});
          const Id y = b.output("y", DType::kInt64, {rows});
          LoopBuilder l({rows, n}, 1);
          const Id value =
              l.load(l.access(x, zero, across ? std::vector{one, rows} : std::vector{n, one}));
          const Id flag = l.op(ScalarOp::kGreater, {value, l.constant(above)}, DType::kBool);
          Id index = l.index(1);
          if (type == DType::kInt32) index = l.op(ScalarOp::kCast, {index}, type);
          const Id none = l.constant(static_cast<double>(length), type);
          const Id chosen = l.op(ScalarOp::kSelect, {flag, index, none}, type);
          Id first = l.reduce(Combine::kMin, chosen, type);
          if (type == DType::kInt32) first = l.op(ScalarOp::kCast, {first}, DType::kInt64);
          l.store(l.access(y, zero, {one, zero}), first, DType::kInt64);
          b.loop("first", std::move(l));
          LoopCase(std::move(b)).check();
        }
}

TEST(CpuSelection, ColumnsBecomeRows) {
  for (const DType type : {DType::kUInt8, DType::kFloat16, DType::kInt32, DType::kFloat64})
    for (const auto& [rows, columns] :
         {std::pair{1, 100}, {33, 70}, {100, 64}, {3, 5000}, {70, 9}}) {
      SCOPED_TRACE(std::to_string(rows) + " of " + std::to_string(columns));
      PlanBuilder b;
      const Id batch = b.constant(2), m = b.constant(rows), n = b.constant(columns);
      const Id one = b.constant(1), zero = b.constant(0), size = b.mul(m, n);
      const Id x = b.input("x", type, {batch, n, m});
      const Id y = b.output("y", type, {batch, m, n});
      LoopBuilder l({batch, m, n}, 0);
      const DType compute = compute_type(type);
      l.store(l.access(y, zero, {size, n, one}), l.load(l.access(x, zero, {size, one, m}), compute),
              compute);
      b.loop("transpose", std::move(l));
      LoopCase(std::move(b)).check();
    }
}

TEST(CpuSelection, RowsAreCopiedWhole) {
  for (const DType type : {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kInt64})
    for (const std::int64_t width : {1, 4, 8, 16, 65, 3000})
      for (const DType indices : {DType::kInt32, DType::kInt64}) {
        SCOPED_TRACE(std::to_string(width) + " " + std::string(to_string(type)));
        PlanBuilder b;
        const Id n = b.constant(40), w = b.constant(width), count = b.constant(5);
        const Id one = b.constant(1), zero = b.constant(0);
        const Id ids = b.input("ids", indices, {n});
        const Id x = b.input("x", type, {count, w});
        const Id y = b.output("y", type, {n, w});
        LoopBuilder l({n, w}, 0);
        const Id id = l.load(l.access(ids, zero, {one, zero}), indices);
        const Id access = l.access(x, zero, {zero, one});
        l.access_at(access).gathers.emplace_back(id, count, w);
        const DType compute = compute_type(type);
        l.store(l.access(y, zero, {w, one}), l.load(access, compute), compute);
        b.loop("rows", std::move(l));
        LoopCase test(std::move(b));
        for (std::int64_t i = 0; i < 40; ++i)
          set_element(indices, test.buffers()[ids], i, static_cast<double>(i * i % 10 - 5));
        test.check();
        set_element(indices, test.buffers()[ids], 39, 5);
        EXPECT_THROW(test.run(1), Error);
      }
}

/// Integers divided by one number for each row, of either sign, beside zero and the largest.
TEST(CpuSelection, QuotientsByOneNumber) {
  for (const DType type : {DType::kInt32, DType::kInt64, DType::kUInt32, DType::kUInt64})
    for (const ScalarOp op : {ScalarOp::kDiv, ScalarOp::kMod})
      for (const double by : {0., 1., 2., 3., 7., 4096., 1e9}) {
        SCOPED_TRACE(std::string(to_string(type)) + " by " + std::to_string(by));
        PlanBuilder b;
        const Id n = b.constant(300), one = b.constant(1), zero = b.constant(0);
        const Id x = b.input("x", type, {n});
        const Id y = b.output("y", type, {n});
        LoopBuilder l({n}, 0);
        l.store(l.access(y, zero, {one}),
                l.op(op, {l.load(l.access(x, zero, {one}), type), l.constant(by, type)}, type),
                type);
        b.loop("quotient", std::move(l));
        for (const bool positive : {true, false}) {
          LoopCase test(b);
          for (std::int64_t i = 0; i < 300; ++i)
            set_element(type, test.buffers()[x], i,
                        static_cast<double>(i * i * i * 79 % 1000003) *
                            (positive || !is_signed_integer(type) || i % 2 == 0 ? 1 : -1));
          test.check();
        }
      }
}

}  // namespace
}  // namespace sinter::testing
