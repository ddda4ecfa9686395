// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression with as many rows as it may select, against selecting box by box.
#include <algorithm>
#include <random>

#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

struct Problem {
  std::int64_t batches = 1, classes = 1, boxes = 6, most = 3;
  double overlap = 0.5;
  bool has_threshold = true, centred = false;
  double threshold = 0;
};

ModelBuilder model_of(const Problem& p, bool constant_bound = true) {
  ModelBuilder model;
  model.input("boxes", DType::kFloat32,
              {static_cast<int>(p.batches), static_cast<int>(p.boxes), 4});
  model.input(
      "scores", DType::kFloat32,
      {static_cast<int>(p.batches), static_cast<int>(p.classes), static_cast<int>(p.boxes)});
  if (constant_bound)
    model.ints("most", {p.most});
  else
    model.input("most", DType::kInt64, {1});
  model.initializer("overlap", floats({1}, {p.overlap}));
  model.initializer("threshold", floats({1}, {p.threshold}));
  model.node("NonMaxSuppression",
             {"boxes", "scores", "most", "overlap", p.has_threshold ? "threshold" : ""}, {"y"},
             {attr("center_point_box", p.centred ? 1 : 0)});
  model.output("y");
  return model;
}

struct Corners {
  float y0, x0, y1, x1;
  float area() const { return (x1 - x0) * (y1 - y0); }
};

bool overlaps(const Corners& a, const Corners& b, double most) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  return width * height / (a.area() + b.area() - width * height) > static_cast<float>(most);
}

std::vector<std::int64_t> select_by_hand(const Problem& p, const Tensor& boxes,
                                         const Tensor& scores) {
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b < p.batches; ++b)
    for (std::int64_t c = 0; c < p.classes; ++c) {
      std::vector<std::int64_t> order;
      const auto score = [&](std::int64_t i) {
        return scores.at((b * p.classes + c) * p.boxes + i);
      };
      for (std::int64_t i = 0; i < p.boxes; ++i)
        if (!p.has_threshold || score(i) > static_cast<float>(p.threshold)) order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t i, std::int64_t j) { return score(i) > score(j); });
      const auto corners = [&](std::int64_t i) -> Corners {
        float v[4];
        for (std::int64_t k = 0; k < 4; ++k)
          v[k] = static_cast<float>(boxes.at((b * p.boxes + i) * 4 + k));
        if (p.centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
        return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]),
                std::max(v[1], v[3])};
      };
      std::vector<std::int64_t> selected;
      for (const std::int64_t i : order) {
        if (static_cast<std::int64_t>(selected.size()) == p.most) break;
        if (std::none_of(selected.begin(), selected.end(), [&](std::int64_t j) {
              return overlaps(corners(i), corners(j), p.overlap);
            }))
          selected.push_back(i);
      }
      for (const std::int64_t i : selected) rows.insert(rows.end(), {b, c, i});
    }
  rows.resize(static_cast<std::size_t>(p.batches * p.classes * std::min(p.most, p.boxes) * 3), -1);
  return rows;
}

TEST(NonMaxSuppression, SelectsAsBoxByBox) {
  ImportOptions padded;
  padded.pad_selections = true;
  std::mt19937 random(3);
  std::size_t unselected = 0;
  for (const Problem& p :
       {Problem{}, Problem{2, 3, 40, 5, 0.3, true, false, 0.4},
        Problem{1, 4, 30, 8, 0.1, false, true}, Problem{2, 1, 5, 9, 0.6, true, true, 0.2},
        Problem{3, 2, 25, 1, 0.0, false, false}}) {
    const auto draw = [&] { return static_cast<double>(random() % 64) / 64; };
    std::vector<double> boxes, scores;
    for (std::int64_t i = 0; i < p.batches * p.boxes; ++i) {
      const double y = draw(), x = draw();
      // Corners in any order, some boxes without area.
      for (const double v : {y, x, y + draw() / 2 - 0.1, x + draw() / 2 - 0.1})
        boxes.push_back(i % 9 == 0 ? y : v);
    }
    for (std::int64_t i = 0; i < p.batches * p.classes * p.boxes; ++i)
      scores.push_back(static_cast<double>(random() % 20) / 20);  // equal ones, too
    const Tensor b = floats({p.batches, p.boxes, 4}, boxes);
    const Tensor s = floats({p.batches, p.classes, p.boxes}, scores);
    const ImportedModel imported = model_of(p).import(padded);
    const Tensor found = ir::evaluate(imported.graph, std::vector{b, s})[0];
    const auto expected = select_by_hand(p, b, s);
    EXPECT_EQ(found.shape(),
              (std::vector<std::int64_t>{static_cast<std::int64_t>(expected.size()) / 3, 3}));
    EXPECT_EQ(found.to_ints(), expected);
    unselected += static_cast<std::size_t>(std::count(expected.begin(), expected.end(), -1));
  }
  EXPECT_GT(unselected, 0u);
}

TEST(NonMaxSuppression, ABoundOfNoneSelectsNothing) {
  ImportOptions padded;
  padded.pad_selections = true;
  Problem p;
  p.most = 0;
  const auto imported = model_of(p).import(padded);
  EXPECT_EQ(ir::to_string(imported.graph.type(imported.graph.outputs()[0])), "i64[0, 3]");
}

TEST(NonMaxSuppression, StopsAtAConstantBound) {
  const Problem p{1, 1, 40, 5};
  const auto bound_of = [](const ir::Graph& graph) {
    for (const auto& node : graph.nodes())
      if (node.op->name == "Suppress") return node.attrs.get_int("most");
    return std::int64_t{-1};
  };
  EXPECT_EQ(bound_of(model_of(p).import().graph), 5);
  EXPECT_EQ(bound_of(model_of(p, false).import().graph), 0);
}

TEST(NonMaxSuppression, HasAsManyRowsAsItSelects) {
  const Problem p{2, 3, 40, 5, 0.3, true, false, 0.4};
  const ImportedModel imported = model_of(p).import();
  const ir::TensorType type = imported.graph.type(imported.graph.outputs()[0]);
  EXPECT_EQ(ir::to_string(type), "i64[the_NonMaxSuppression, 3]");
  const ir::Range& range = imported.graph.ranges().at("the_NonMaxSuppression");
  EXPECT_EQ(range.max, 2 * 3 * 5);
  EXPECT_TRUE(range.from_data);
  // Of how many at most, an input may say.
  const ImportedModel open = model_of({}, false).import();
  EXPECT_EQ(open.graph.ranges().at("the_NonMaxSuppression").max, 6);
}

TEST(DataDependentShapes, AreSizesThatTheRunFinds) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 4}).input("c", DType::kBool, {4});
  model.node("NonZero", {"x"}, {"a"})
      .node("Unique", {"x"}, {"b"})
      .node("Compress", {"x", "c"}, {"d"}, {attr("axis", 1)});
  for (const char* output : {"a", "b", "d"}) model.output(output);
  const ir::Graph graph = model.import().graph;
  const auto type = [&](std::size_t i) { return ir::to_string(graph.type(graph.outputs()[i])); };
  EXPECT_EQ(type(0), "i64[2, the_NonZero]");
  EXPECT_EQ(type(1), "f32[the_Unique]");
  EXPECT_EQ(type(2), "f32[n, the_Compress]");
  EXPECT_EQ(graph.ranges().at("the_NonZero").symbolic_max->to_string(), "4*n");
  const auto found =
      ir::evaluate(graph, std::vector{floats({2, 4}, {0, 1, 2, 0, 3, 0, 0, 1}),
                                      Tensor::from_ints(DType::kBool, {4}, ir::Ints{1, 0, 0, 1})});
  EXPECT_EQ(found[0].to_ints(), (ir::Ints{0, 0, 1, 1, 1, 2, 0, 3}));
  EXPECT_EQ(found[1].to_doubles(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(found[2].to_doubles(), (std::vector<double>{0, 0, 3, 1}));
}

TEST(DataDependentShapes, ThatMustBeEqualAreTakenAsEqual) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).ints("axis", {0});
  model.node("NonZero", {"x"}, {"places"})
      .node("Squeeze", {"places", "axis"}, {"p"})
      .node("Gather", {"x", "p"}, {"a"})
      .node("Cast", {"x"}, {"mask"}, {attr("to", 9)})
      .node("Compress", {"x", "mask"}, {"b"})
      .node("Add", {"a", "b"}, {"y"})
      .output("y");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings,
              testing::Contains(AllOf(HasSubstr("the_Add"), HasSubstr("are taken as equal"))));
  const auto found = ir::evaluate(imported.graph, std::vector{floats({5}, {1, 0, -2, 0, 3})});
  EXPECT_EQ(found[0].to_doubles(), (std::vector<double>{2, -4, 6}));
}

TEST(DataDependentShapes, OfOneElementAreBroadcast) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).ints("axis", {0}).ints("three", {3});
  model.node("Cast", {"x"}, {"mask"}, {attr("to", 9)})
      .node("Compress", {"x", "mask"}, {"a"})
      .node("Expand", {"a", "three"}, {"y"})
      .output("y");
  const ir::Graph graph = model.import().graph;
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0])), "f32[3]");
  const auto of = [&](const std::vector<double>& x) {
    return ir::evaluate(graph, std::vector{floats({5}, x)})[0].to_doubles();
  };
  EXPECT_EQ(of({0, 0, 7, 0, 0}), (std::vector<double>{7, 7, 7}));
  EXPECT_EQ(of({1, 0, 2, 3, 0}), (std::vector<double>{1, 2, 3}));
}

TEST(DataDependentShapes, AreSplitWithAShorterLastPart) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {"n"});
  model.node("Cast", {"x"}, {"mask"}, {attr("to", 9)}).node("Compress", {"x", "mask"}, {"a"});
  model.node("Split", {"a"}, {"p", "q", "r"}, {attr("num_outputs", 3)});
  for (const char* output : {"p", "q", "r"}) model.output(output);
  const ir::Graph graph = model.import().graph;
  const auto found = ir::evaluate(graph, std::vector{floats({6}, {1, 2, 0, 3, 4, 5})});
  EXPECT_EQ(found[0].to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(found[1].to_doubles(), (std::vector<double>{3, 4}));
  EXPECT_EQ(found[2].to_doubles(), (std::vector<double>{5}));
}

TEST(DataDependentShapes, AreSplitBySizesFromData) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {"n"}).input("sizes", DType::kInt64, {3});
  model.node("Identity", {"sizes"}, {"s"}).node("Split", {"x", "s"}, {"p", "q", "r"});
  for (const char* output : {"p", "q", "r"}) model.output(output);
  const ir::Graph graph = model.import().graph;
  const auto of = [&](const ir::Ints& sizes) {
    std::vector<std::vector<double>> parts;
    for (const Tensor& part :
         ir::evaluate(graph, std::vector{floats({5}, {1, 2, 3, 4, 5}),
                                         Tensor::from_ints(DType::kInt64, {3}, sizes)}))
      parts.push_back(part.to_doubles());
    return parts;
  };
  using Parts = std::vector<std::vector<double>>;
  EXPECT_EQ(of({2, 0, 3}), (Parts{{1, 2}, {}, {3, 4, 5}}));
  EXPECT_EQ(of({0, 4, 1}), (Parts{{}, {1, 2, 3, 4}, {5}}));
  const auto refused = [&](const ir::Ints& sizes) {
    return error_of(ErrorCode::kUsage, [&] { (void)of(sizes); });
  };
  EXPECT_THAT(refused({4, 9, 1}), AllOf(HasSubstr("'the_Split/surplus'"), HasSubstr("is 9")));
  EXPECT_THAT(refused({2, 0, 2}), HasSubstr("is -1"));
  EXPECT_THAT(refused({4, -2, 3}), HasSubstr("is -2"));
}

/// A loop over the experts that somebody chose, traced where all of them were: split in as many.
TEST(DataDependentShapes, OfAllFlagsAreTheirNumbers) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {3}).ints("ones", {1, 1, 1});
  model.node("NonZero", {"x"}, {"row"})
      .node("Transpose", {"row"}, {"column"}, {attr("perm", std::vector<std::int64_t>{1, 0})})
      .node("Split", {"column", "ones"}, {"p", "q", "r"}, {attr("axis", 0)});
  for (const char* output : {"p", "q", "r"}) model.output(output);
  const ir::Graph graph = model.import().graph;
  for (const ir::Node& node : graph.nodes()) EXPECT_NE(node.op->name, "SelectIndices");
  const auto found = ir::evaluate(graph, std::vector{floats({3}, {1, 2, 3})});
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(found[i].to_ints(), ir::Ints{static_cast<std::int64_t>(i)});
}

TEST(DataDependentShapes, WithoutABoundSayHowToGiveOne) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {8}).input("y", DType::kFloat32, {4});
  model.ints("axis", {0});
  model.node("ReduceSum", {"x", "axis"}, {"sum"}, {attr("keepdims", 1)})
      .node("Cast", {"sum"}, {"count"}, {attr("to", 7)})
      .node("ConstantOfShape", {"count"}, {"z"})
      .output("z");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("'the_ConstantOfShape'"), HasSubstr("--bound 'count=N'")));
  ImportOptions options;
  options.bounds["count"] = 100;
  const ir::Graph graph = model.import(options).graph;
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0])), "f32[count]");
  EXPECT_EQ(graph.ranges().at("count").max, 100);
  options.bounds["counted"] = 100;
  EXPECT_THAT(
      model.import_error(ErrorCode::kUsage, options),
      HasSubstr("--bound: no value or node whose size follows from data is called 'counted'"));
}

}  // namespace
}  // namespace sinter::frontend
