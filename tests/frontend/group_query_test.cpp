// SPDX-License-Identifier: Apache-2.0
// GroupQueryAttention of com.microsoft as exporters write it: caches, lengths of samples, windows.
// With queries of zeros a result is the mean of the values that it sees.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Tensor;
using testing::Contains;
using testing::HasSubstr;

constexpr int kSize = 2;  // of a head: one of queries, one of keys

/// With lengths as symbols, and the total length as that of an attention mask.
struct Exported {
  std::vector<Attribute> attributes = {};
  std::vector<std::string> more = {};  // inputs behind total_sequence_length

  ModelBuilder model() const {
    std::vector<std::string> names = {"q", "k", "v", "past_k", "past_v", "last", "total"};
    names.insert(names.end(), more.begin(), more.end());
    std::vector<Attribute> all = {attr("num_heads", 1), attr("kv_num_heads", 1),
                                  attr("scale", 1.0f)};
    all.insert(all.end(), attributes.begin(), attributes.end());
    ModelBuilder builder;
    builder.node("Shape", {"mask"}, {"sizes"});
    builder.initializer("one", int64s({}, {1}));
    builder.node("Gather", {"sizes", "one"}, {"total_64"});
    builder.node("Cast", {"total_64"}, {"total"}, {attr("to", onnx_type_of(DType::kInt32))});
    builder.node("GroupQueryAttention", names, {"y", "present_k", "present_v"}, all);
    builder.last_node().set_domain("com.microsoft");
    auto& microsoft = *builder.model().add_opset_import();
    microsoft.set_domain("com.microsoft");
    microsoft.set_version(1);
    for (const char* name : {"q", "k", "v"})
      builder.input(name, DType::kFloat32, {"batch", "seq", kSize});
    builder.input("mask", DType::kInt64, {"batch", "total_seq"});
    for (const char* name : {"past_k", "past_v"})
      builder.input(name, DType::kFloat32, {"batch", 1, "past_seq", "kv_cache_dim"});
    builder.input("last", DType::kInt32, {"batch"});
    return std::move(builder.output("y").output("present_k").output("present_v"));
  }
};

/// One step of queries and keys of zeros; values are pairs of one number.
struct Step {
  std::vector<std::int64_t> lengths;  // of each sample, with this step's tokens
  std::int64_t total = 0;
  std::vector<double> past, added;  // of all samples

  std::vector<Tensor> run(const Exported& exported, std::vector<Tensor> more = {}) const {
    const auto batch = static_cast<std::int64_t>(lengths.size());
    const std::int64_t rows = count(added) / batch, before = count(past) / batch;
    std::vector<std::int64_t> last;
    for (const std::int64_t length : lengths) last.push_back(length - 1);
    const Tensor zeros = ramp({batch, rows, kSize}, 0, 0);
    std::vector<Tensor> inputs = {
        zeros,
        zeros,
        pairs({batch, rows, kSize}, added),
        int64s({batch, total}, std::vector<std::int64_t>(std::size_t(batch * total), 1)),
        ramp({batch, 1, before, kSize}, 0, 0),
        pairs({batch, 1, before, kSize}, past),
        Tensor::from_ints(DType::kInt32, {batch}, last)};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return exported.model().run(inputs);
  }

 private:
  static std::int64_t count(const std::vector<double>& x) { return std::int64_t(x.size()); }
  static Tensor pairs(std::vector<std::int64_t> shape, const std::vector<double>& values) {
    std::vector<double> all;
    for (const double value : values) all.insert(all.end(), kSize, value);
    return floats(std::move(shape), all);
  }
};

/// The first of each pair of numbers.
std::vector<double> numbers(const Tensor& x) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.element_count(); i += kSize) result.push_back(x.at(i));
  return result;
}

TEST(GroupQuery, CompilesWithoutOptionsAndBeginsEmpty) {
  const ImportedModel model = Exported().model().import();
  EXPECT_THAT(model.warnings, Contains(HasSubstr("'kv_cache_dim' is taken as 2")));
  const ir::Ranges& ranges = model.graph.ranges();
  EXPECT_EQ(ranges.at("past_seq").min, 0);
  const Dim past = Dim::symbol("past_seq"), total = Dim::symbol("total_seq");
  EXPECT_EQ(model.graph.type(model.graph.outputs()[1]).shape,
            (Shape{Dim::symbol("batch"), 1, ir::max(past, total, ranges), kSize}));
}

TEST(GroupQuery, CacheGrowsFromNothing) {
  const auto first = Step{{2}, 2, {}, {1, 3}}.run({});
  EXPECT_EQ(numbers(first[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(first[2]), (std::vector<double>{1, 3}));
  const auto next = Step{{3}, 3, {1, 3}, {5}}.run({});
  EXPECT_EQ(numbers(next[0]), (std::vector<double>{3}));
  EXPECT_EQ(numbers(next[2]), (std::vector<double>{1, 3, 5}));
}

TEST(GroupQuery, NewRowsFollowThoseOfTheirSample) {
  const auto found = Step{{4, 2}, 4, {1, 2, 3, 1, 99, 99}, {6, 5}}.run({});
  EXPECT_EQ(numbers(found[0]), (std::vector<double>{3, 3}));
  const auto cache = numbers(found[2]);
  EXPECT_EQ(std::vector<double>(cache.begin(), cache.begin() + 6),
            (std::vector<double>{1, 2, 3, 6, 1, 5}));
}

TEST(GroupQuery, OneBufferOfFixedLengthKeepsItsType) {
  ImportOptions options;
  options.ranges["past_seq"] = ir::Range{16, 16, nullptr};
  const ImportedModel model = Exported().model().import(options);
  const ir::Graph& graph = model.graph;
  EXPECT_EQ(graph.ranges().at("total_seq").max, 16);
  EXPECT_EQ(graph.type(graph.outputs()[1]).shape, (Shape{Dim::symbol("batch"), 1, 16, kSize}));
  const auto found = Step{{3}, 3, {1, 3, 99, 99}, {5}}.run({});
  EXPECT_EQ(numbers(found[0]), (std::vector<double>{3}));
  EXPECT_EQ(numbers(found[2]), (std::vector<double>{1, 3, 5, 99}));
}

TEST(GroupQuery, LocalWindow) {
  const Exported local{{attr("local_window_size", 2)}};
  EXPECT_EQ(numbers(Step{{3}, 3, {}, {1, 3, 5}}.run(local)[0]), (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(numbers(Step{{4}, 4, {1, 3, 5}, {9}}.run(local)[0]), (std::vector<double>{7}));
}

TEST(GroupQuery, WindowedCacheDropsTheOldest) {
  const Exported windowed{{attr("local_window_size", 2), attr("sliding_window_cache", 1)}};
  // Three rows: with the fourth token two are dropped at once.
  const auto prompt = Step{{4}, 4, {0, 0, 0}, {1, 3, 5, 9}}.run(windowed);
  EXPECT_EQ(numbers(prompt[0]), (std::vector<double>{1, 2, 4, 7}));
  EXPECT_EQ(prompt[2].shape(), v({1, 1, 3, kSize}));
  auto rows = numbers(prompt[2]);
  EXPECT_EQ(std::vector<double>(rows.begin(), rows.begin() + 2), (std::vector<double>{5, 9}));
  const auto next = Step{{5, 2}, 5, {5, 9, 99, 2, 99, 99}, {11, 4}}.run(windowed);
  EXPECT_EQ(numbers(next[0]), (std::vector<double>{10, 3}));
  rows = numbers(next[2]);
  EXPECT_EQ(std::vector<double>(rows.begin(), rows.begin() + 5),
            (std::vector<double>{5, 9, 11, 2, 4}));
}

TEST(GroupQuery, NormalisesHeads) {
  // Of q (3, 4) and keys (3, 4), (0, 1) the norms' weights leave the first element alone.
  ModelBuilder model =
      microsoft("GroupQueryAttention",
                {"q", "k", "v", "", "", "last", "total", "", "", "", "", "", "", "", "wq", "wk"},
                {attr("num_heads", 1), attr("kv_num_heads", 1), attr("scale", 1.0f),
                 attr("qk_norm_epsilon", 0.0f)});
  for (const char* name : {"q", "k", "v"}) model.input(name, DType::kFloat32, {1, 2, kSize});
  model.input("last", DType::kInt32, {1});
  model.initializer("total", Tensor::from_ints(DType::kInt32, {}, v({2})));
  model.initializer("wq", floats({kSize}, {2, 0})).initializer("wk", floats({kSize}, {1, 0}));
  const auto y = model.run(
      {floats({1, 2, kSize}, {3, 4, 3, 4}), floats({1, 2, kSize}, {3, 4, 0, 1}),
       floats({1, 2, kSize}, {1, 1, 0, 0}), Tensor::from_ints(DType::kInt32, {1}, v({1}))});
  const double unit = 3 / std::sqrt(12.5);
  EXPECT_NEAR(y[0].at(2), 1 / (1 + std::exp(-2 * unit * unit)), 1e-5);
}

TEST(GroupQuery, TotalLengthThatIsDataIsPastAndNewRows) {
  ModelBuilder model = Exported().model();
  model.input("given", DType::kInt32, {});
  for (auto& node : *model.graph().mutable_node())
    if (node.op_type() == "GroupQueryAttention") node.set_input(6, "given");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("total_sequence_length depends on data")));
  EXPECT_EQ(imported.graph.type(imported.graph.outputs()[1]).shape[2],
            Dim::symbol("past_seq") + Dim::symbol("seq"));
}

TEST(GroupQuery, AnglesLimitTheText) {
  ModelBuilder model = Exported{{attr("do_rotary", 1)}, {"cos", "sin"}}.model();
  model.initializer("cos", ramp({12, 1})).initializer("sin", ramp({12, 1}));
  const ir::Ranges ranges = model.import().graph.ranges();
  EXPECT_EQ(ranges.at("past_seq").max, 12);
  EXPECT_EQ(ranges.at("total_seq").max, 12);
}

TEST(GroupQuery, CacheOfOtherHeadsIsInvalid) {
  ModelBuilder model = Exported().model();
  for (auto& input : *model.graph().mutable_input())
    if (input.name() == "past_k")
      input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(
          3);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              testing::AllOf(HasSubstr("past_key is f32[batch, 3, past_seq, kv_cache_dim]"),
                             HasSubstr("new rows of f32[batch, 1, seq, 2]")));
}

TEST(GroupQuery, RefusalsSayWhatToDo) {
  const auto refused = [](const Exported& exported) {
    return exported.model().import_error(ErrorCode::kUnsupported);
  };
  EXPECT_THAT(refused({{attr("kv_cache_bit_width", 8)}}), HasSubstr("cache of floats"));
  EXPECT_THAT(refused({{attr("k_quant_type", "PER_TENSOR")}}), HasSubstr("cache of floats"));
  Exported chunks{{}, std::vector<std::string>(9)};
  chunks.more.push_back("last");
  EXPECT_THAT(refused(chunks), HasSubstr("query_seqlens"));
  EXPECT_THAT(
      Exported{{attr("sliding_window_cache", 1)}}.model().import_error(ErrorCode::kInvalidModel),
      HasSubstr("local_window_size"));
}

}  // namespace
}  // namespace sinter::frontend
