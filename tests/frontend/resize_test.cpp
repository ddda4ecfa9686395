// SPDX-License-Identifier: Apache-2.0
// Resize: antialias along symbolic sizes, which elements are the nearest, coordinates of opset 11.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

struct Antialias {
  const char* mode;
  bool by_scales, exclude_outside;
  float scale;
  std::int64_t size;

  /// Of [1, 1, `from`], a number or a name.
  ModelBuilder model(const ModelDim& from) const {
    ModelBuilder model(18);
    model.input("x", DType::kFloat32, {1, 1, from});
    std::vector<std::string> inputs = {"x", "", "scales"};
    if (by_scales) {
      model.initializer("scales", floats({3}, {1, 1, scale}));
    } else {
      inputs = {"x", "", "", "sizes"};
      model.ints("sizes", {1, 1, size});
    }
    model.node("Resize", inputs, {"y"},
               {attr("mode", mode), attr("antialias", 1),
                attr("exclude_outside", exclude_outside ? 1 : 0)});
    model.output("y");
    return model;
  }
};

TEST(Resize, AntialiasOfSymbolicSizesIsThatOfKnownOnes) {
  for (const char* mode : {"linear", "cubic"})
    for (const bool exclude : {false, true})
      for (const Antialias& how :
           {Antialias{mode, true, exclude, 0.5f, 0}, Antialias{mode, true, exclude, 0.6f, 0},
            Antialias{mode, true, exclude, 2.0f, 0}, Antialias{mode, false, exclude, 0, 4},
            Antialias{mode, false, exclude, 0, 13}}) {
        const ModelBuilder symbolic = how.model("n");
        for (const int n : {5, 9, 12, 40, 64}) {
          const Tensor x = Tensor::from_doubles(DType::kFloat32, {1, 1, n}, [&] {
            std::vector<double> values;
            for (int i = 0; i < n; ++i) values.push_back((i * 7 + 3) % 11 - 4.5);
            return values;
          }());
          const Tensor known = how.model(n).run({x})[0], found = symbolic.run({x})[0];
          SCOPED_TRACE(testing::Message()
                       << mode << " " << how.scale << " " << how.size << " " << n);
          expect_tensor(found, known.shape(), known.to_doubles());
        }
      }
}

/// A filter that has few elements of the input is no matrix: of windows where they lie evenly.
TEST(Resize, AntialiasSumsFewElements) {
  const auto has = [](const ir::Graph& graph, std::string_view op) {
    return std::ranges::any_of(graph.nodes(),
                               [&](const ir::Node& node) { return node.op->name == op; });
  };
  const auto graph_of = [](int from, std::int64_t to) {
    return Antialias{"linear", false, false, 0, to}.model(from).import().graph;
  };
  EXPECT_TRUE(has(graph_of(64, 16), "Unfold"));
  EXPECT_TRUE(has(graph_of(60, 16), "Gather"));
  for (const int from : {64, 60}) EXPECT_FALSE(has(graph_of(from, 16), "MatMul"));
  EXPECT_TRUE(has(graph_of(12, 4), "MatMul"));
}

/// Nearest neighbours of [n], by one scale or one size.
struct Nearest {
  const char *coordinates, *nearest;
  int from;
  double scale;  // 0: by size
  std::int64_t size;
  std::vector<double> elements;  // the first ones of the result; those that ONNX Runtime takes
  int opset = 19;

  ModelBuilder model(const ModelDim& dim) const {
    ModelBuilder model(opset);
    model.input("x", DType::kFloat32, {dim}).initializer("scales", floats({1}, {scale}));
    model.ints("sizes", {size});
    std::vector<std::string> inputs = {"x", "", "scales"};
    if (opset == 10) inputs = {"x", "scales"};
    if (scale == 0) inputs = {"x", "", "", "sizes"};
    std::vector<Attribute> attributes;
    if (opset > 10)
      attributes = {attr("coordinate_transformation_mode", coordinates),
                    attr("nearest_mode", nearest)};
    model.node("Resize", inputs, {"y"}, attributes);
    model.output("y");
    return model;
  }

  void expect(const Tensor& y) const {
    ASSERT_LE(std::ssize(elements), y.element_count());
    for (std::size_t i = 0; i < elements.size(); ++i)
      EXPECT_EQ(y.at(static_cast<std::int64_t>(i)), elements[i])
          << coordinates << " " << nearest << " " << scale << " " << size << ", element " << i;
  }
};

/// 3 / float32(1/3) is below 9, and 9 in float32, in which scales are given.
TEST(Resize, NearestElementsAreThoseOfFloat32) {
  const Nearest rows[] = {
      {"asymmetric", "floor", 120, 1.0 / 3, 0, {0, 3, 6, 9, 12, 15, 18}},
      {"asymmetric", "floor", 120, 0.2, 0, {0, 5, 10, 15, 20, 25, 30}},
      {"asymmetric", "floor", 120, 0.1, 0, {0, 10, 20, 30, 40, 50, 60}},
      {"asymmetric", "floor", 120, 0.05, 0, {0, 20, 40, 60, 80, 100}},
      {"asymmetric", "floor", 60, 0.6, 0, {0, 1, 3, 5, 6, 8, 10}},
      {"asymmetric", "ceil", 60, 0.7, 0, {0, 2, 3, 5, 6, 8, 9, 10, 12, 13, 15}},
      {"half_pixel", "floor", 120, 1.0 / 3, 0, {1, 4, 7, 10, 13, 16}},
      {"half_pixel", "ceil", 120, 1.0 / 3, 0, {1, 4, 7, 10, 13, 16}},
      {"half_pixel", "floor", 60, 1.0 / 6, 0, {2, 8, 14, 20}},
      // 14.5, which float32 has not: the middle between two elements all the same.
      {"half_pixel", "round_prefer_ceil", 20, 0, 6, {1, 5, 8, 11, 15, 18}},
      {"half_pixel", "round_prefer_floor", 20, 0.3, 0, {1, 4, 8, 11, 14, 18}},
      {"half_pixel", "round_prefer_floor", 60, 0.1, 0, {4, 14, 24, 34, 44, 54}},
      {"half_pixel", "round_prefer_ceil", 60, 0.1, 0, {5, 15, 25, 35, 45, 55}},
      {"half_pixel_symmetric", "floor", 49, 0, 7, {3, 10, 17, 24, 31, 38, 45}},
      {"pytorch_half_pixel", "ceil", 9, 0, 1, {0}},
      {"align_corners", "floor", 10, 0.75, 0, {0, 1, 3, 4, 6, 7, 9}},
      {"", "", 10, 0.6, 0, {0, 2, 4, 5, 7, 9}, 10},
      {"", "", 10, 1.5, 0, {0, 0, 1, 2, 2, 3, 4}, 10},
  };
  for (const Nearest& row : rows) {
    const Tensor x = ramp({row.from});
    row.expect(row.model(row.from).run({x})[0]);
    const ModelBuilder symbolic = row.model("n");
    row.expect(symbolic.run({x})[0]);
    // Kept in more digits, floats take the same elements.
    ir::EvaluateOptions wide;
    wide.keep_wide = true;
    row.expect(ir::evaluate(symbolic.import().graph, std::vector{x}, wide)[0]);
  }
}

TEST(Resize, TensorflowsNearestIsOfOpsets11And12AndTakenLater) {
  const auto model = [](int opset) {
    ModelBuilder model(opset);
    model.input("x", DType::kFloat32, {4}).initializer("scales", floats({1}, {0.5}));
    model.initializer("roi", floats({0}, {}));
    model.node("Resize", {"x", "roi", "scales"}, {"y"},
               {attr("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                attr("nearest_mode", "floor")});
    model.output("y");
    return model;
  };
  // (0 + 0.5) / 0.5 = 1 and 3.
  expect_tensor(model(11).run({floats({4}, {1, 2, 3, 4})})[0], {2}, {2, 4});
  expect_tensor(model(13).run({floats({4}, {1, 2, 3, 4})})[0], {2}, {2, 4});
}

TEST(Stft, SignalOfTwoDimensionsIsReal) {
  const auto run = [](std::vector<std::int64_t> shape) {
    return OneOp{
        "STFT",
        {ramp(std::move(shape)), Tensor::from_ints(DType::kInt64, {}, v({4})), ramp({8}, 1)},
        {},
        17,
        {1, 2}}
        .run();
  };
  const Tensor flat = run({1, 16});
  expect_tensor(flat, {1, 3, 5, 2}, run({1, 16, 1}).to_doubles());
}

TEST(Experiments, InputsThatDoNotFitAreErrors) {
  const auto error = [](const char* op, const std::vector<Attribute>& attributes) {
    return OneOp{op, {ramp({1, 2, 4, 5})}, attributes, 8}.model().import_error(
        ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(error("ImageScaler", {attr("bias", std::vector<float>{1})}),
              testing::HasSubstr("'bias' has 1 values for 2 channels"));
  EXPECT_THAT(error("Crop", {attr("border", v({3, 0, 3, 0}))}),
              testing::HasSubstr("its border leaves -1 elements of dimension 3"));
  EXPECT_THAT(error("Crop", {attr("border", v({1, 1, 0, 0})), attr("scale", v({4, 2}))}),
              testing::HasSubstr("4 elements from 1 on are not in dimension 2"));
}

}  // namespace
}  // namespace sinter::frontend
