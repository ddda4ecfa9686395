// SPDX-License-Identifier: Apache-2.0
// Tree ensembles of ai.onnx.ml: what bad ones say, and what only opset 5 has.
#include <limits>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::HasSubstr;
using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

/// One tree over two columns: x[0] <= 1 ? leaf 1 : leaf 2.
struct Tree {
  Longs trees{0, 0, 0}, nodes{0, 1, 2}, columns{0, 0, 0}, if_true{1, 0, 0}, if_false{2, 0, 0};
  Floats values{1, 0, 0};
  std::vector<std::string> modes{"BRANCH_LEQ", "LEAF", "LEAF"};
  Longs target_nodes{1, 2}, targets{0, 0};
  Floats weights{10, 20};

  ModelBuilder model(const std::string& op = "TreeEnsembleRegressor") const {
    ModelBuilder builder;
    builder.input("x", DType::kFloat32, {3, 2});
    const bool is_classifier = op == "TreeEnsembleClassifier";
    const std::string prefix = is_classifier ? "class" : "target";
    builder.node(
        op, {"x"},
        is_classifier ? std::vector<std::string>{"label", "y"} : std::vector<std::string>{"y"},
        {attr("nodes_treeids", trees), attr("nodes_nodeids", nodes),
         attr("nodes_featureids", columns), attr("nodes_truenodeids", if_true),
         attr("nodes_falsenodeids", if_false), attr("nodes_values", values),
         attr(prefix + "_treeids", Longs(targets.size(), 0)),
         attr(prefix + "_nodeids", target_nodes),
         attr(is_classifier ? "class_ids" : "target_ids", targets),
         attr(prefix + "_weights", weights)});
    builder.last_node().set_domain("ai.onnx.ml");
    auto* strings = builder.last_node().add_attribute();
    strings->set_name("nodes_modes");
    strings->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& mode : modes) strings->add_strings(mode);
    import_domain(builder, 3);
    builder.output("y");
    return builder;
  }
  static void import_domain(ModelBuilder& builder, int version) {
    auto* opset = builder.model().add_opset_import();
    opset->set_domain("ai.onnx.ml");
    opset->set_version(version);
  }
  std::string error() const { return model().import_error(ErrorCode::kInvalidModel); }
};

void add_floats(ModelBuilder& model, const std::string& name, const Floats& values) {
  auto* attribute = model.last_node().add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOATS);
  for (const float value : values) attribute->add_floats(value);
}

TEST(TreeEnsembles, GiveTheLeavesOfRows) {
  const Tensor x = floats({3, 2}, {1, 0, 1.5, 0, std::nan(""), 0});
  EXPECT_EQ(Tree().model().run({x})[0], floats({3, 1}, {10, 20, 20}));
}

TEST(TreeEnsembles, BaseValuesAreTreesOfOneLeaf) {
  Tree tree;
  ModelBuilder model = tree.model();
  add_floats(model, "base_values", {0.5F});
  const Tensor x = floats({3, 2}, {1, 0, 1.5, 0, std::nan(""), 0});
  EXPECT_EQ(model.run({x})[0], floats({3, 1}, {10.5, 20.5, 20.5}));
  const ir::Graph graph = model.import().graph;
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.type(graph.nodes()[0].inputs[3]).shape, ir::Shape({ir::Dim(2), ir::Dim(2)}));
}

TEST(TreeEnsembles, BaseValuesOfMeansAndExtremesAreAddedBehind) {
  for (const std::string how : {"AVERAGE", "MIN", "MAX"}) {
    ModelBuilder model = Tree().model();
    add_floats(model, "base_values", {0.5F});
    auto* function = model.last_node().add_attribute();
    function->set_name("aggregate_function");
    function->set_type(onnx::AttributeProto::STRING);
    function->set_s(how);
    EXPECT_EQ(model.run({floats({3, 2}, {1, 0, 1.5, 0, 0, 0})})[0],
              floats({3, 1}, {10.5, 20.5, 10.5}))
        << how;
  }
}

TEST(TreeEnsembles, BadTreesAreRefusedByName) {
  Tree cycle;
  cycle.if_false[0] = 0;
  EXPECT_THAT(cycle.error(), HasSubstr("node 0 is reached twice: trees have no cycles"));
  Tree nowhere;
  nowhere.if_true[0] = 7;
  EXPECT_THAT(nowhere.error(),
              HasSubstr("node 0 of tree 0 leads to node 7, which the tree does not have"));
  Tree column;
  column.columns[0] = 2;
  EXPECT_THAT(column.error(), HasSubstr("node 0 asks for column 2, but the rows have 2 columns"));
  Tree lengths;
  lengths.values.pop_back();
  EXPECT_THAT(lengths.error(),
              HasSubstr("'nodes_values' has 2 elements, but 'nodes_treeids' has 3"));
  Tree split;
  split.values[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(split.error(), HasSubstr("the split of node 0 is NaN"));
  Tree mode;
  mode.modes[0] = "BRANCH_ODD";
  EXPECT_THAT(mode.error(), HasSubstr("mode 'BRANCH_ODD', which does not exist"));
  Tree target;
  target.targets[1] = 3;
  EXPECT_THAT(target.error(), HasSubstr("a leaf has a weight for target 3, but there are 1"));
  Tree twice;
  twice.nodes[2] = 1;
  EXPECT_THAT(twice.error(), HasSubstr("tree 0 has two nodes 1"));
}

TEST(TreeEnsembles, StringLabelsAreTheirIndices) {
  ModelBuilder model = Tree().model("TreeEnsembleClassifier");
  auto* labels = model.last_node().add_attribute();
  labels->set_name("classlabels_strings");
  labels->set_type(onnx::AttributeProto::STRINGS);
  labels->add_strings("cat");
  labels->add_strings("dog");
  model.output("label");
  const ImportedModel imported = model.import();
  ASSERT_EQ(imported.output_texts.size(), 1U);
  EXPECT_EQ(imported.output_texts.begin()->second.code, BindingText::Code::kLabels);
  EXPECT_THAT(imported.output_texts.begin()->second.labels, testing::ElementsAre("cat", "dog"));
}

/// A node for each mode of opset 5 over one column, split 2 or members {1, 2}.
Tensor branch(int mode, bool missing, const Tensor& x) {
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {static_cast<int>(x.shape()[0]), 1});
  std::vector<Attribute> attributes{
      attr("tree_roots", Longs{0}),
      attr("nodes_featureids", Longs{0}),
      attr("nodes_truenodeids", Longs{0}),
      attr("nodes_falsenodeids", Longs{1}),
      attr("nodes_trueleafs", Longs{1}),
      attr("nodes_falseleafs", Longs{1}),
      attr("leaf_targetids", Longs{0, 0}),
      attr("leaf_weights", floats({2}, {1, 0})),
      attr("nodes_splits", floats({1}, {2})),
      attr("nodes_modes", Tensor::from_ints(DType::kUInt8, {1}, {{mode}})),
      attr("nodes_missing_value_tracks_true", Longs{missing})};
  if (mode == 6) attributes.push_back(attr("membership_values", floats({3}, {1, 2, std::nan("")})));
  model.node("TreeEnsemble", {"x"}, {"y"}, attributes).output("y");
  model.last_node().set_domain("ai.onnx.ml");
  Tree::import_domain(model, 5);
  return model.run({x})[0];
}

TEST(TreeEnsembles, EveryModeOfOpsetFive) {
  const double nan = std::nan(""), up = std::nextafter(2.F, 3.F), down = std::nextafter(2.F, 1.F);
  const Tensor x = floats({6, 1}, {1, down, 2, up, -5, nan});
  const double expected[7][6] = {{1, 1, 1, 0, 1, 0}, {1, 1, 0, 0, 1, 0}, {0, 0, 1, 1, 0, 0},
                                 {0, 0, 0, 1, 0, 0}, {0, 0, 1, 0, 0, 0}, {1, 1, 0, 1, 1, 1},
                                 {1, 0, 1, 0, 0, 0}};
  for (int mode = 0; mode < 7; ++mode)
    for (const bool missing : {false, true}) {
      const Tensor y = branch(mode, missing, x);
      for (std::int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(y.at(i), i == 5 && missing ? 1 : expected[mode][i])
            << "mode " << mode << ", element " << i << ", missing " << missing;
    }
}

}  // namespace
}  // namespace sinter::frontend
