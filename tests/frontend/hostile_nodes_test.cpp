// SPDX-License-Identifier: Apache-2.0
// Nodes of ranks, numbers of inputs and attributes that their operators do not have: refused, where
// nothing is read beyond what is there. tests/fuzz/fuzz_operators.cpp looks for more of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Inputs = std::vector<std::pair<DType, std::vector<ModelDim>>>;

std::string refusal(const std::string& op, const std::string& domain, const Inputs& inputs,
                    const std::vector<Attribute>& attributes, int opset = 17) {
  ModelBuilder model(opset);
  std::vector<std::string> names;
  for (const auto& [type, dims] : inputs) {
    names.push_back("x" + std::to_string(names.size()));
    if (type == DType::kUInt8 && dims.empty())
      names.back() = "";  // left out
    else
      model.input(names.back(), type, dims);
  }
  model.node(op, names, {"y"}, attributes).output("y");
  if (!domain.empty()) {
    model.last_node().set_domain(domain);
    auto& own = *model.model().add_opset_import();
    own.set_domain(domain);
    own.set_version(1);
  }
  return model.import_error(ErrorCode::kInvalidModel);
}

constexpr DType kFloat = DType::kFloat32, kInt = DType::kInt64;

TEST(HostileNodes, RegionsWithoutADimension) {
  EXPECT_THAT(refusal("RoiAlign", "", {{kFloat, {2, 3, 9, 11}}, {kFloat, {4, 4}}, {kInt, {}}}, {}),
              AllOf(HasSubstr("the_RoiAlign"), HasSubstr("do not fit")));
  EXPECT_THAT(refusal("RoiAlign", "", {{kFloat, {2, 3, 9, 11}}, {kFloat, {}}, {kInt, {4}}}, {}),
              HasSubstr("do not fit"));
}

TEST(HostileNodes, NumbersOfHeadsWhoseSumOverflows) {
  const Attribute heads{"kv_num_heads", std::int64_t{INT64_MAX}};
  EXPECT_THAT(refusal("GroupQueryAttention", "com.microsoft", {{kFloat, {1, 4, 32}}},
                      {attr("num_heads", 2), heads}),
              AllOf(HasSubstr("'kv_num_heads'"), HasSubstr("9223372036854775807")));
}

TEST(HostileNodes, NothingToConcatenate) {
  EXPECT_THAT(refusal("FeatureVectorizer", "ai.onnx.ml", {}, {}),
              HasSubstr("nothing to concatenate"));
}

TEST(HostileNodes, ABodyWithMoreInputsThanItsLoopGives) {
  ModelBuilder body;
  for (const char* name : {"i", "go_on", "state", "more", "most"}) body.input(name, kFloat, {2});
  body.output("go_on").output("state");
  ModelBuilder model;
  model.initializer("trips", int64s({}, {INT64_MAX}));
  model.input("go", DType::kBool, {}).input("x", kFloat, {2});
  model.node("Loop", {"trips", "go", "x"}, {"y"}).output("y");
  auto& graph = *model.last_node().add_attribute();
  graph.set_name("body");
  graph.set_type(onnx::AttributeProto::GRAPH);
  *graph.mutable_g() = body.model().graph();
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              HasSubstr("its graph 'body' has 5 inputs; it must have 3"));
}

}  // namespace
}  // namespace sinter::frontend
