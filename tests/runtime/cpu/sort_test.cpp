// SPDX-License-Identifier: Apache-2.0
// Sorts on the CPU against a stable sort.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

struct SortCase {
  DType type;
  std::int64_t outer, length, inner, count;
};

Plan sort_plan(const SortCase& test, bool descending) {
  PlanBuilder b;
  const Id outer = b.constant(test.outer), length = b.constant(test.length);
  const Id inner = b.constant(test.inner), count = b.constant(test.count);
  b.call("sort", {b.input_of("x", test.type, {outer, length, inner})},
         {b.output_of("y", DType::kInt64, {outer, count, inner})},
         {{"descending", std::int64_t{descending}}});
  return b.build();
}

/// Few different values, so that the order of equal ones matters; floats have both zeros, NaN and
/// infinities too.
std::vector<std::byte> random_elements(DType type, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(type));
  std::mt19937 random(5);
  const double rare[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto draw = static_cast<double>(random() % 90);
    const double value = is_float(type) && draw < 5 ? rare[static_cast<int>(draw)]
                         : is_float(type)           ? draw - 45.5
                         : is_signed_integer(type)  ? draw - 45
                                                    : draw;
    set_element(type, bytes, i, value);
  }
  return bytes;
}

bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

class CpuSort : public ::testing::TestWithParam<DType> {};

TEST_P(CpuSort, IsStable) {
  const DType type = GetParam();
  for (const SortCase& test :
       {SortCase{type, 3, 1, 1, 1}, SortCase{type, 2, 50, 3, 50}, SortCase{type, 4, 300, 1, 7},
        SortCase{type, 1, 20000, 1, 20000}, SortCase{type, 3, 9000, 2, 4000},
        SortCase{type, 1, 12, 1, 0}, SortCase{type, 1, 60000, 1, 20},
        SortCase{type, 2, 40000, 1, 9}, SortCase{type, 1, 30000, 2, 3}})
    for (const bool descending : {false, true})
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(std::to_string(test.length) + (descending ? " descending" : " ascending"));
        const auto bytes = random_elements(type, test.outer * test.length * test.inner);
        SessionOptions options;
        options.threads = threads;
        Session session(sort_plan(test, descending), options);
        session.set_input(
            "x",
            TensorView{type, {test.outer, test.length, test.inner}, bytes.data(), Memory::kHost});
        session.run();
        const TensorView found = session.output("y");
        ASSERT_EQ(found.shape, (std::vector<std::int64_t>{test.outer, test.count, test.inner}));
        const auto* places = static_cast<const std::int64_t*>(found.data);
        for (std::int64_t o = 0; o < test.outer; ++o)
          for (std::int64_t i = 0; i < test.inner; ++i) {
            const auto at = [&](std::int64_t e) {
              return element(type, bytes, (o * test.length + e) * test.inner + i);
            };
            std::vector<std::int64_t> order(static_cast<std::size_t>(test.length));
            std::iota(order.begin(), order.end(), std::int64_t{0});
            std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
              return descending ? before(at(b), at(a)) : before(at(a), at(b));
            });
            for (std::int64_t e = 0; e < test.count; ++e)
              ASSERT_EQ(places[(o * test.count + e) * test.inner + i],
                        order[static_cast<std::size_t>(e)]);
          }
      }
}

TEST(CpuSortTypes, BoolHasNoOrder) {
  EXPECT_THAT(
      [] {
        sort_plan({DType::kBool, 1, 4, 1, 2}, false);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("its elements are of type bool")));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuSort,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                           DType::kFloat64, DType::kInt8, DType::kInt16,
                                           DType::kInt32, DType::kInt64, DType::kUInt8,
                                           DType::kUInt16, DType::kUInt32, DType::kUInt64),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace sinter::testing
