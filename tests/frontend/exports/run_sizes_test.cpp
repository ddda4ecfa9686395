// SPDX-License-Identifier: Apache-2.0
// Sizes, axes and lengths that only the run knows, where an operator wants them.
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

TEST(RunSizes, PadCutsOrFillsToACount) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 2}).ints("zero", {0}).ints("one", {1}).ints("count", {4});
  model.ints("zeros", {0, 0}).initializer("fill", floats({}, {-1}));
  model.node("Shape", {"x"}, {"shape"}).node("Slice", {"shape", "zero", "one"}, {"rows"});
  model.node("Sub", {"count", "rows"}, {"missing"});
  model.node("Concat", {"zeros", "missing", "zero"}, {"pads"}, {attr("axis", 0)});
  model.node("Pad", {"x", "pads", "fill"}, {"y"}).output("y");
  expect_tensor(model.run({ramp({3, 2})})[0], {4, 2}, {0, 1, 2, 3, 4, 5, -1, -1});
  expect_tensor(model.run({ramp({4, 2})})[0], {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_tensor(model.run({ramp({6, 2})})[0], {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(RunSizes, SliceAlongAxesThatAreInputs) {
  const auto slice = [](const std::vector<std::int64_t>& starts,
                        const std::vector<std::int64_t>& ends,
                        const std::vector<std::int64_t>& axes) {
    const auto count = std::ssize(starts);
    return OneOp{
        "Slice",
        {ramp({3, 4}), int64s({count}, starts), int64s({count}, ends), int64s({count}, axes)}}
        .run();
  };
  expect_tensor(slice({1, -2}, {3, 100}, {-1, 0}), {2, 2}, {5, 6, 9, 10});
  expect_tensor(slice({2}, {3}, {0}), {1, 4}, {8, 9, 10, 11});
}

TEST(RunSizes, TransformsOfAnyLength) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, "n", 1}).node("DFT", {"x"}, {"y"}, {attr("axis", 1)});
  model.node("DFT", {"y"}, {"back"}, {attr("axis", 1), attr("inverse", 1)});
  model.output("y").output("back");
  const auto results = model.run({floats({1, 3, 1}, {1, 2, 3})});
  const double imaginary = std::sqrt(3.0) / 2;
  EXPECT_EQ(results[0].shape(), (std::vector<std::int64_t>{1, 3, 2}));
  const std::vector<double> wanted{6, 0, -1.5, imaginary, -1.5, -imaginary};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(results[0].at(static_cast<std::int64_t>(i)), wanted[i], 1e-5);
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_NEAR(results[1].at(i), i % 2 == 0 ? 1 + i / 2 : 0, 1e-5);
}

}  // namespace
}  // namespace sinter::frontend
