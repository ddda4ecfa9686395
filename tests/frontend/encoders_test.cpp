// SPDX-License-Identifier: Apache-2.0
// LabelEncoder and OneHotEncoder of ai.onnx.ml: keys close together and far apart.
#include <algorithm>
#include <limits>

#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using Longs = std::vector<std::int64_t>;
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                       kMost = std::numeric_limits<std::int64_t>::max();

ModelBuilder encoder(const std::string& op, const Tensor& x,
                     const std::vector<Attribute>& attributes) {
  ModelBuilder model;
  model.input("x", x.dtype(), {static_cast<int>(x.element_count())});
  model.node(op, {"x"}, {"y"}, attributes).output("y");
  model.last_node().set_domain("ai.onnx.ml");
  auto* opset = model.model().add_opset_import();
  opset->set_domain("ai.onnx.ml");
  opset->set_version(2);
  return model;
}

std::int64_t count_of(const ir::Graph& graph, const std::string& op) {
  return std::ranges::count_if(graph.nodes(),
                               [&](const auto& node) { return node.op->name == op; });
}

Tensor longs(const Longs& values) {
  return Tensor::from_ints(DType::kInt64, {std::ssize(values)}, values);
}

TEST(LabelEncoder, FindsKeysInATable) {
  const Tensor x = longs({5, -2, 4, 9, 10, -3, kLeast, kMost, 5});
  // Of equal keys the first one counts.
  const auto model =
      encoder("LabelEncoder", x,
              {attr("keys_int64s", Longs{5, 9, -2, 5}),
               attr("values_int64s", Longs{50, 90, kMost, 1}), attr("default_int64", 7)});
  const auto imported = model.import();
  EXPECT_EQ(count_of(imported.graph, "ReduceMin"), 0);  // which compares with each key
  EXPECT_EQ(ir::evaluate(imported.graph, std::vector{x})[0].to_ints(),
            (Longs{50, kMost, 7, 90, 7, 7, 7, 7, 50}));
}

TEST(LabelEncoder, ComparesKeysThatAreFarApart) {
  const Tensor x = longs({kLeast, 3, kMost, 0, -1});
  const auto model = encoder(
      "LabelEncoder", x,
      {attr("keys_int64s", Longs{kMost, kLeast, 0}),
       attr("values_floats", std::vector<float>{1.5F, 2.5F, 3.5F}), attr("default_float", -1.0F)});
  const auto imported = model.import();
  EXPECT_EQ(count_of(imported.graph, "ReduceMin"), 1);
  expect_tensor(ir::evaluate(imported.graph, std::vector{x})[0], {5}, {2.5, -1, 1.5, 3.5, -1});
}

TEST(OneHotEncoder, ComparesCategories) {
  const Tensor x = longs({2, -1, 3, kMost, kLeast, (std::int64_t{1} << 32) + 2});
  for (const std::int64_t last : {std::int64_t{3}, kMost}) {
    const auto model = encoder("OneHotEncoder", x, {attr("cats_int64s", Longs{2, -1, last})});
    const double is_three = last == 3 ? 1 : 0, is_most = last == 3 ? 0 : 1;
    expect_tensor(model.run({x})[0], {6, 3},
                  {1, 0, 0, 0, 1, 0, 0, 0, is_three, 0, 0, is_most, 0, 0, 0, 0, 0, 0});
  }
}

}  // namespace
}  // namespace sinter::frontend
