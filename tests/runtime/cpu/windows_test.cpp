// SPDX-License-Identifier: Apache-2.0
// Poolings and images whose channels move last, on the tile executor.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "instruction_sets.h"
#include "loop_case.h"

namespace sinter::testing {
namespace {

/// The largest of 3 x 3 elements, two apart in both directions, one row and column beyond the
/// border, and perhaps their sum; of images with channels second or last.
void check_poolings(bool with_sum) {
  constexpr std::int64_t kHeight = 13, kWidth = 19, kOutHeight = 7, kOutWidth = 10;
  for (const bool last : {false, true})
    for (const std::int64_t channels : {1, 3, 40, 150}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels" << (last ? ", last" : ""));
      PlanBuilder b;
      const auto number = [&](std::int64_t value) { return b.constant(value); };
      const Id n = number(2), c = number(channels), taps = number(3);
      const Id x = b.input("x", DType::kFloat32, {n, c, number(kHeight), number(kWidth)});
      const Id y = b.output("y", DType::kFloat32, {n, c, number(kOutHeight), number(kOutWidth)});
      const Id z =
          with_sum ? b.output("z", DType::kFloat32, {n, c, number(kOutHeight), number(kOutWidth)})
                   : y;
      const std::int64_t column = last ? channels : 1, row = kWidth * column,
                         channel = last ? 1 : kHeight * kWidth, image = kHeight * kWidth * channels;
      const std::int64_t out_column = last ? channels : 1, out_row = kOutWidth * out_column,
                         out_channel = last ? 1 : kOutHeight * kOutWidth,
                         out_image = kOutHeight * kOutWidth * channels;
      // Loops in the order of the output.
      const Id h = number(kOutHeight), w = number(kOutWidth);
      LoopBuilder l(
          last ? std::vector<Id>{n, h, w, c, taps, taps} : std::vector<Id>{n, c, h, w, taps, taps},
          2);
      const auto strides = [&](std::int64_t of_image, std::int64_t of_channel, std::int64_t of_row,
                               std::int64_t of_column, std::int64_t tap_row,
                               std::int64_t tap_column) {
        std::vector<Id> result{number(of_image)};
        if (!last) result.push_back(number(of_channel));
        result.insert(result.end(), {number(of_row), number(of_column)});
        if (last) result.push_back(number(of_channel));
        result.insert(result.end(), {number(tap_row), number(tap_column)});
        return result;
      };
      const Id from = l.access(x, number(-row - column),
                               strides(image, channel, 2 * row, 2 * column, row, column));
      const Id one = l.index_node(fb::ExprOp::Constant, number(1));
      const Id two = l.index_node(fb::ExprOp::Constant, number(2));
      const auto position = [&](Id place, Id tap) {
        const Id start =
            l.index_node(fb::ExprOp::Mul, l.index_node(fb::ExprOp::Symbol, place), two);
        const Id sum = l.index_node(fb::ExprOp::Add, start, l.index_node(fb::ExprOp::Symbol, tap));
        return l.index_node(fb::ExprOp::Sub, sum, one);
      };
      const Id first = last ? 1 : 2;
      l.access_at(from).guards.emplace_back(position(first, 4), number(kHeight));
      l.access_at(from).guards.emplace_back(position(first + 1, 5), number(kWidth));
      l.access_at(from).fill = -3;
      const Id value = l.load(from);
      const auto to = strides(out_image, out_channel, out_row, out_column, 0, 0);
      l.store(l.access(y, number(0), to), l.reduce(Combine::kMax, value));
      if (with_sum) l.store(l.access(z, number(0), to), l.reduce(Combine::kSum, value));
      b.loop("pool", std::move(l));
      LoopCase test(std::move(b));
      EXPECT_TRUE(test.is_across());
      test.check();
    }
}

TEST(CpuWindows, PoolingsLieSideBySide) { check_poolings(true); }
/// Of one result windows are reduced where they lie.
TEST(CpuWindows, PoolingsOfOneResult) { check_poolings(false); }

/// Few columns, whose rows are long: sums over an image's height and width.
TEST(CpuWindows, LongRowsOfFewChannels) {
  for (const std::int64_t channels : {8, 20, 32, 150})
    for (const Combine combine : {Combine::kSum, Combine::kMax, Combine::kMin, Combine::kProd}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels");
      PlanBuilder b;
      const Id n = b.constant(3), c = b.constant(channels), h = b.constant(29), w = b.constant(7);
      const Id zero = b.constant(0), one = b.constant(1);
      const Id x = b.input("x", DType::kFloat32, {n, h, w, c});
      const Id y = b.output("y", DType::kFloat32, {n, c});
      LoopBuilder l({n, c, h, w}, 2);
      const Id value = l.load(
          l.access(x, zero, {b.constant(29 * 7 * channels), one, b.constant(7 * channels), c}));
      const Id near_one =
          l.op(ScalarOp::kAdd, {l.op(ScalarOp::kMul, {value, l.constant(.01)}), l.constant(1)});
      l.store(l.access(y, zero, {c, one, zero, zero}), l.reduce(combine, near_one));
      b.loop("sum", std::move(l));
      LoopCase test(std::move(b));
      EXPECT_TRUE(test.is_across());
      test.check(1e-5);
    }
}

/// Windows become an image, of which others are made: 8 x 7 elements of a column are read as 7 x 8.
TEST(CpuWindows, DivisionsThatRunsShare) {
  for (const std::int64_t channels : {1, 6, 33})
    for (const bool guarded : {false, true}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, guarded " << guarded);
      PlanBuilder b;
      const Id outer = b.constant(7), inner = b.constant(8), c = b.constant(channels);
      const Id zero = b.constant(0), one = b.constant(1);
      const Id x = b.input("x", DType::kFloat32, {outer, inner, c});
      const Id y = b.output("y", DType::kFloat32, {outer, inner, c});
      LoopBuilder l({outer, inner, c}, 0);
      const auto number = [&](std::int64_t value) {
        return l.index_node(fb::ExprOp::Constant, b.constant(value));
      };
      const auto symbol = [&](Id loop) { return l.index_node(fb::ExprOp::Symbol, loop); };
      const Id place = l.index_node(fb::ExprOp::Add,
                                    l.index_node(fb::ExprOp::Mul, symbol(0), number(8)), symbol(1));
      const Id row = l.index_node(fb::ExprOp::FloorDiv, place, number(7));
      const Id column =
          l.index_node(fb::ExprOp::Sub, place, l.index_node(fb::ExprOp::Mul, row, number(7)));
      const Id from = l.access(x, zero, {zero, zero, one});
      l.access_at(from).nonaffine.push_back(l.index_node(fb::ExprOp::Mul, row, number(channels)));
      l.access_at(from).nonaffine.push_back(
          l.index_node(fb::ExprOp::Mul, column, number(8 * channels)));
      if (guarded) {
        l.access_at(from).guards.emplace_back(column, b.constant(4));
        l.access_at(from).fill = 5;
      }
      l.store(l.access(y, zero, {b.constant(8 * channels), c, one}),
              l.op(ScalarOp::kAdd, {l.load(from), l.constant(1)}));
      b.loop("windows", std::move(l));
      LoopCase(std::move(b)).check();
    }
}

/// Indices that are computed for one loop each: rows upside down, every column twice, a border that
/// repeats the last elements, and one outside of which nothing is read.
TEST(CpuWindows, IndicesOfSingleLoops) {
  for (const DType type : {DType::kFloat32, DType::kUInt8, DType::kFloat16, DType::kFloat64})
    for (const std::int64_t width : {1, 5, 21, 100})
      for (const int form : {0, 1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << to_string(type) << ' ' << width << ' ' << form);
        PlanBuilder b;
        const Id c = b.constant(3), h = b.constant(6), w = b.constant(width);
        const Id wide = b.constant(2 * width), zero = b.constant(0), one = b.constant(1);
        const Id x = b.input("x", type, {c, h, w});
        const Id y = b.output("y", type, {c, h, wide});
        LoopBuilder l({c, h, wide}, 0);
        const auto number = [&](std::int64_t value) {
          return l.index_node(fb::ExprOp::Constant, b.constant(value));
        };
        const auto clamped = [&](Id index, std::int64_t most) {
          return l.index_node(fb::ExprOp::Min, l.index_node(fb::ExprOp::Max, index, number(0)),
                              number(most));
        };
        const Id from = l.access(x, zero, {b.constant(6 * width), zero, zero});
        const Id row = l.index_node(fb::ExprOp::Symbol, 1),
                 column = l.index_node(fb::ExprOp::Symbol, 2);
        const Id shifted = l.index_node(fb::ExprOp::Sub, column, number(width / 2));
        const Id twice = l.index_node(fb::ExprOp::FloorDiv, column, number(2));
        const Id above = clamped(l.index_node(fb::ExprOp::Sub, number(4), row), 5);
        const Id right = form == 0   ? twice
                         : form == 1 ? clamped(shifted, width - 1)
                         : form == 2 ? l.index_node(fb::ExprOp::Sub, number(width - 1), twice)
                                     : clamped(shifted, width - 1);
        fb::AccessT& access = l.access_at(from);
        access.nonaffine.push_back(l.index_node(fb::ExprOp::Mul, above, number(width)));
        access.nonaffine.push_back(right);
        if (form == 3) {
          access.guards.emplace_back(shifted, w);
          access.fill = 7;
        }
        const DType compute = compute_type(type);
        l.store(l.access(y, zero, {b.constant(12 * width), wide, one}), l.load(from, compute),
                compute);
        b.loop("tables", std::move(l));
        LoopCase test(std::move(b));
        for_each_instruction_set([&] { test.check(); });
      }
}

/// Two loops that a store walks as one, beside one that it does not: an interleaving's halves.
TEST(CpuWindows, RunsOverSeveralLoops) {
  PlanBuilder b;
  const Id rows = b.constant(40), half = b.constant(29), two = b.constant(2);
  const Id zero = b.constant(0), one = b.constant(1), wide = b.constant(116);
  const Id x = b.input("x", DType::kFloat32, {rows, wide});
  const Id y = b.output("y", DType::kFloat32, {rows, wide});
  LoopBuilder l({rows, half, two}, 0);
  const Id from = l.access(x, zero, {wide, one, b.constant(58)});
  const Id shifted = l.access(x, b.constant(3), {wide, two, one});
  l.store(l.access(y, zero, {wide, two, one}), l.load(from));
  l.store(l.access(y, b.constant(58), {wide, two, one}), l.load(shifted));
  b.loop("shuffle", std::move(l));
  LoopCase(std::move(b)).check();
}

TEST(CpuWindows, ChannelsMoveLast) {
  for (const std::int64_t channels : {2, 3, 4, 5})
    for (const std::int64_t width : {7, 100, 3000}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, width " << width);
      PlanBuilder b;
      const Id h = b.constant(3), w = b.constant(width), c = b.constant(channels);
      const Id zero = b.constant(0), one = b.constant(1);
      const Id x = b.input("x", DType::kFloat32, {c, h, w});
      const Id y = b.output("y", DType::kFloat32, {h, w, c});
      LoopBuilder l({h, w, c}, 0);
      const Id value = l.load(l.access(x, zero, {w, one, b.constant(3 * width)}));
      l.store(l.access(y, zero, {b.constant(width * channels), c, one}),
              l.op(ScalarOp::kAdd, {value, l.constant(1)}));
      b.loop("move", std::move(l));
      LoopCase(std::move(b)).check();
    }
}

/// Windows of which neighbours overlap, by dimension of [images, channels, height, width].
struct Overlap {
  std::vector<std::int64_t> size, kernel, stride, dilation, pad;
  std::int64_t channels = 3;
  bool last = false;    // channels
  bool guarded = true;  // else windows lie inside
  double fill = -3;
  DType type = DType::kFloat32;
};

void check_overlap(const Overlap& c, Combine combine) {
  const std::size_t rank = c.size.size();
  std::vector<std::int64_t> out;
  std::int64_t pixels = 1, made = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t pads = c.guarded ? 2 * c.pad[d] : 0;
    out.push_back((c.size[d] + pads - (c.kernel[d] - 1) * c.dilation[d] - 1) / c.stride[d] + 1);
    pixels *= c.size[d];
    made *= out[d];
  }
  PlanBuilder b;
  const auto number = [&](std::int64_t value) { return b.constant(value); };
  constexpr std::int64_t kImages = 2;
  const Id x = b.input("x", c.type, {number(kImages * c.channels * pixels)});
  const Id y = b.output("y", c.type, {number(kImages * c.channels * made)});
  std::vector<Id> loops{number(kImages)};
  if (!c.last) loops.push_back(number(c.channels));
  const std::size_t first = loops.size();
  for (const std::int64_t size : out) loops.push_back(number(size));
  if (c.last) loops.push_back(number(c.channels));
  const std::size_t taps = loops.size();
  for (const std::int64_t size : c.kernel) loops.push_back(number(size));
  std::vector<std::int64_t> from(loops.size(), 0), to(loops.size(), 0);
  std::int64_t pitch = c.last ? c.channels : 1, out_pitch = pitch, offset = 0;
  from[0] = c.channels * pixels;
  to[0] = c.channels * made;
  from[c.last ? taps - 1 : 1] = c.last ? 1 : pixels;
  to[c.last ? taps - 1 : 1] = c.last ? 1 : made;
  for (std::size_t d = rank; d-- > 0;) {
    from[first + d] = c.stride[d] * pitch;
    from[taps + d] = c.dilation[d] * pitch;
    to[first + d] = out_pitch;
    if (c.guarded) offset -= c.pad[d] * pitch;
    pitch *= c.size[d];
    out_pitch *= out[d];
  }
  LoopBuilder l(loops, static_cast<Id>(rank));
  const auto numbers = [&](const std::vector<std::int64_t>& values) {
    std::vector<Id> ids;
    for (const std::int64_t value : values) ids.push_back(number(value));
    return ids;
  };
  const Id access = l.access(x, number(offset), numbers(from));
  for (std::size_t d = 0; c.guarded && d < rank; ++d) {
    const auto node = [&](std::int64_t value) {
      return l.index_node(fb::ExprOp::Constant, number(value));
    };
    const auto times = [&](std::size_t loop, std::int64_t factor) {
      return l.index_node(fb::ExprOp::Mul, l.index_node(fb::ExprOp::Symbol, static_cast<Id>(loop)),
                          node(factor));
    };
    const Id at = l.index_node(fb::ExprOp::Add, times(first + d, c.stride[d]),
                               times(taps + d, c.dilation[d]));
    l.access_at(access).guards.emplace_back(l.index_node(fb::ExprOp::Sub, at, node(c.pad[d])),
                                            number(c.size[d]));
  }
  l.access_at(access).fill = c.fill;
  const DType compute = compute_type(c.type);
  l.store(l.access(y, number(0), numbers(to)), l.reduce(combine, l.load(access, compute), compute),
          compute);
  b.loop("windows", std::move(l));
  LoopCase test(std::move(b));
  if (is_float(c.type)) set_element(c.type, test.buffers()[x], pixels / 2, NAN);
  test.check(1e-5);
}

double identity_of(Combine combine) {
  return combine == Combine::kSum ? 0 : combine == Combine::kMax ? -INFINITY : INFINITY;
}

/// Even and odd windows, wider than the input too, with strides, dilations and padding.
TEST(CpuWindows, NeighboursOverlap) {
  const std::vector<Overlap> cases = {
      {{20, 20}, {13, 13}, {1, 1}, {1, 1}, {6, 6}},
      {{20, 20}, {13, 13}, {1, 1}, {1, 1}, {6, 6}, 40},
      {{9, 200}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{40, 61}, {8, 6}, {1, 1}, {1, 1}, {4, 3}},
      {{40, 61}, {5, 9}, {3, 2}, {1, 1}, {2, 4}},
      {{40, 61}, {4, 7}, {2, 3}, {2, 3}, {1, 5}},
      {{30, 4}, {2, 5}, {1, 1}, {1, 1}, {0, 2}},
      {{5, 6}, {9, 11}, {1, 1}, {1, 1}, {4, 5}},  // wider than the input
      {{27, 29}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{26, 28}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, 3, false, false},
      {{5, 6}, {3, 5}, {1, 1}, {2, 2}, {4, 4}},
      {{31, 33}, {9, 9}, {1, 1}, {1, 1}, {0, 0}, 5, false, false},
      {{31, 33}, {9, 7}, {2, 2}, {1, 2}, {0, 0}, 5, false, false},
      {{3000}, {31}, {1}, {1}, {15}},
      {{7, 14, 15}, {3, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 2, 2}},
      {{12, 14, 15}, {3, 5, 4}, {2, 2, 1}, {1, 1, 2}, {1, 2, 3}},
      {{25, 26}, {9, 9}, {1, 1}, {1, 1}, {4, 4}, 40, true},
      {{25, 26}, {7, 5}, {2, 1}, {1, 2}, {3, 4}, 130, true},
      {{25, 26}, {7, 5}, {1, 1}, {1, 1}, {3, 2}, 3, true},
      {{6, 41}, {1, 5}, {1, 5}, {1, 1}, {0, 2}, 130, true},  // which do not slide
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const DType type :
         {DType::kFloat32, DType::kFloat16, DType::kFloat64, DType::kInt8, DType::kUInt8})
      for (const Combine combine : {Combine::kMax, Combine::kMin, Combine::kSum}) {
        if (combine == Combine::kSum && !is_float(type)) continue;
        SCOPED_TRACE(::testing::Message() << "case " << i << " of " << to_string(type) << " by "
                                          << static_cast<int>(combine));
        Overlap c = cases[i];
        c.type = type;
        if (type == DType::kUInt8) c.fill = 2;
        check_overlap(c, combine);
        if (!is_float(type)) continue;
        c.fill = identity_of(combine);
        check_overlap(c, combine);
      }
}

/// Small windows of float32, which are combined in registers.
TEST(CpuWindows, SmallOnesByEachInstructionSet) {
  const std::vector<Overlap> cases = {
      {{26, 28}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, 3, false, false},
      {{27, 39}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{27, 70}, {5, 4}, {3, 3}, {1, 2}, {2, 1}},
      {{40, 81}, {3, 5}, {1, 4}, {2, 1}, {1, 2}},
      {{300}, {3}, {2}, {1}, {1}},
      {{9, 14, 37}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {1, 0, 1}},
      {{25, 26}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 19, true},
  };
  for (Overlap c : cases)
    for (const Combine combine : {Combine::kMax, Combine::kMin, Combine::kSum}) {
      c.fill = identity_of(combine);
      for_each_instruction_set([&] { check_overlap(c, combine); });
    }
}

}  // namespace
}  // namespace sinter::testing
