// SPDX-License-Identifier: Apache-2.0
// PagedAttention, SparseAttention and caches in one buffer of com.microsoft. With queries of zeros
// a result is the mean of the values that it sees.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSize = 2;  // of a head

Tensor ints(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
  return Tensor::from_ints(DType::kInt32, std::move(shape), values);
}
Tensor pairs(std::vector<std::int64_t> shape, const std::vector<double>& values) {
  std::vector<double> all;
  for (const double value : values) all.insert(all.end(), kSize, value);
  return floats(std::move(shape), all);
}
std::vector<double> firsts(const Tensor& x) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.element_count(); i += kSize) result.push_back(x.at(i));
  return result;
}

/// One head; blocks of `block` rows, three of them; two sequences.
ModelBuilder paged(int block, std::vector<Attribute> attributes = {},
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> names = {"q", "k", "v", "kc", "vc", "bounds", "past", "table"};
  names.insert(names.end(), more.begin(), more.end());
  attributes.insert(attributes.end(),
                    {attr("num_heads", 1), attr("kv_num_heads", 1), attr("scale", 1.0f)});
  ModelBuilder model = microsoft("PagedAttention", names, attributes);
  for (auto& node : *model.graph().mutable_node()) {
    node.add_output("key_cache_out");
    node.add_output("value_cache_out");
  }
  for (const char* name : {"q", "k", "v"}) model.input(name, DType::kFloat32, {"tokens", kSize});
  for (const char* name : {"kc", "vc"}) model.input(name, DType::kFloat32, {3, block, 1, kSize});
  model.input("bounds", DType::kInt32, {3}).input("past", DType::kInt32, {2});
  model.input("table", DType::kInt32, {2, 2});
  return std::move(model.output("value_cache_out"));
}

/// Sequence 0 has 3 rows, 1 2 3, in blocks 2 and 0, and gets 4; sequence 1 has none, and gets
/// 10, 20.
std::vector<Tensor> step(const ModelBuilder& model, std::vector<Tensor> more = {}) {
  const Tensor zeros = pairs({3, kSize}, {0, 0, 0});
  std::vector<Tensor> inputs = {zeros,
                                zeros,
                                pairs({3, kSize}, {4, 10, 20}),
                                pairs({3, 2, 1, kSize}, {0, 0, 0, 0, 0, 0}),
                                pairs({3, 2, 1, kSize}, {3, 99, 98, 97, 1, 2}),
                                ints({3}, {0, 1, 3}),
                                ints({2}, {3, 0}),
                                ints({2, 2}, {2, 0, 1, -1})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return model.run(inputs);
}

TEST(PagedAttention, SequencesSeeTheirOwnBlocks) {
  const auto found = step(paged(2));
  EXPECT_THAT(firsts(found[0]), ElementsAre(2.5, 10, 15));
  EXPECT_THAT(firsts(found[1]), ElementsAre(3, 4, 10, 20, 1, 2));
}

TEST(PagedAttention, BlocksOfSizesThatOnlyTheRunHas) {
  ModelBuilder model = paged(2);
  for (auto& input : *model.graph().mutable_input())
    if (input.name() == "kc" || input.name() == "vc")
      input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_param(
          "block");
  EXPECT_THAT(firsts(step(model)[0]), ElementsAre(2.5, 10, 15));
}

TEST(PagedAttention, WindowsAndWholeSequences) {
  EXPECT_THAT(firsts(step(paged(2, {attr("local_window_size", 2)}))[0]), ElementsAre(3.5, 10, 15));
  EXPECT_THAT(firsts(step(paged(2, {attr("is_causal", 0)}))[0]), ElementsAre(2.5, 15, 15));
}

TEST(PagedAttention, SinksTakeWeightAndSlotsMayBeKept) {
  ModelBuilder model = paged(2, {}, {"", "", "slots", "sink"});
  model.input("slots", DType::kInt32, {3}).input("sink", DType::kFloat32, {1});
  const auto found = step(model, {ints({3}, {-1, 2, 3}), floats({1}, {0})});
  // The first token's row stays as it was.
  EXPECT_THAT(firsts(found[1]), ElementsAre(3, 99, 10, 20, 1, 2));
  EXPECT_NEAR(found[0].at(kSize), 10.0 / 2, 1e-6);
}

TEST(PagedAttention, FormsThatAreNotSupportedAreNamed) {
  EXPECT_THAT(paged(2, {attr("kv_cache_layout", "LATENT")}).import_error(ErrorCode::kUnsupported),
              HasSubstr("kv_cache_layout"));
  EXPECT_THAT(paged(2, {attr("k_quant_type", "PER_TENSOR")}).import_error(ErrorCode::kUnsupported),
              HasSubstr("cache of floats"));
  ModelBuilder model = paged(2);
  for (auto& input : *model.graph().mutable_input())
    if (input.name() == "vc")
      input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(3)->set_dim_value(
          3);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("value_cache is"));
}

/// Blocks of 16 keys; the second block of queries sees the second block of keys alone.
ModelBuilder sparse(std::vector<std::int64_t> columns = {0, 1}) {
  ModelBuilder model = microsoft(
      "SparseAttention", {"q", "k", "v", "pk", "pv", "rows", "columns", "total", "lengths"},
      {attr("num_heads", 1), attr("kv_num_heads", 1), attr("sparse_block_size", 16)});
  for (const char* name : {"q", "k", "v"}) model.input(name, DType::kFloat32, {1, 1, kSize});
  for (const char* name : {"pk", "pv"}) model.input(name, DType::kFloat32, {1, 1, 32, kSize});
  model.initializer("rows", ints({1, 3}, {0, 1, 2})).initializer("columns", ints({1, 2}, columns));
  model.initializer("total", ints({}, {18}));
  return std::move(model.input("lengths", DType::kInt32, {1}));
}

TEST(SparseAttention, QueriesSeeTheBlocksOfTheirRow) {
  std::vector<double> past(32, 0);
  past[16] = 4;
  const Tensor zeros = pairs({1, 1, kSize}, {0});
  const auto y = sparse().run({zeros, zeros, pairs({1, 1, kSize}, {8}),
                               pairs({1, 1, 32, kSize}, std::vector<double>(32, 0)),
                               pairs({1, 1, 32, kSize}, past), ints({1}, {18})});
  EXPECT_THAT(firsts(y[0]), ElementsAre(6));
}

TEST(SparseAttention, BlocksThatAreNotThereAreErrors) {
  EXPECT_THAT(sparse({0, 2}).import_error(ErrorCode::kInvalidModel),
              HasSubstr("there are 2 blocks"));
}

/// A cache of 4 rows, of which 2 are past; two beams.
ModelBuilder buffered(const std::vector<std::string>& more) {
  std::vector<std::string> names = {"q", "k", "v", "", "", "", "pk", "pv"};
  names.insert(names.end(), more.begin(), more.end());
  ModelBuilder model = microsoft("MultiHeadAttention", names, {attr("num_heads", 1)});
  for (auto& node : *model.graph().mutable_node()) {
    node.add_output("present_k");
    node.add_output("present_v");
  }
  for (const char* name : {"q", "k", "v"}) model.input(name, DType::kFloat32, {2, 1, kSize});
  for (const char* name : {"pk", "pv"}) model.input(name, DType::kFloat32, {2, 1, 4, kSize});
  return std::move(model.output("present_v"));
}

TEST(MultiHeadAttention, CacheInOneBufferWithTheRowsOfBeams) {
  ModelBuilder model = buffered({"past", "beams"});
  model.input("past", DType::kInt32, {1}).input("beams", DType::kInt32, {1, 2, 4});
  const Tensor zeros = pairs({2, 1, kSize}, {0, 0});
  const auto found = model.run({zeros, zeros, pairs({2, 1, kSize}, {6, 60}),
                                pairs({2, 1, 4, kSize}, std::vector<double>(8, 0)),
                                pairs({2, 1, 4, kSize}, {1, 2, 9, 9, 10, 20, 9, 9}), ints({1}, {2}),
                                ints({1, 2, 4}, {0, 1, 0, 0, 0, 0, 0, 0})});
  // Beam 0: row 0 of its own, row 1 of beam 1; beam 1: both rows of beam 0.
  EXPECT_THAT(firsts(found[0]), ElementsAre((1 + 20 + 6) / 3.0, (1 + 2 + 60) / 3.0));
  EXPECT_THAT(firsts(found[1]), ElementsAre(1, 2, 6, 9, 10, 20, 60, 9));
}

TEST(MultiHeadAttention, RowsOfBeamsNeedABuffer) {
  ModelBuilder model = buffered({"", "beams"});
  model.input("beams", DType::kInt32, {1, 2, 4});
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("past_sequence_length"));
}

}  // namespace
}  // namespace sinter::frontend
