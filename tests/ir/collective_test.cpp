// SPDX-License-Identifier: Apache-2.0
// Collectives, and the evaluation of graphs by several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/ranks/ranks.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Outputs of each rank for a graph of one input, of which rank r has `values[r]`.
std::vector<std::vector<double>> run(const std::string& text, std::vector<Ints> values, Ints shape,
                                     DType type = DType::kFloat32) {
  std::vector<std::vector<Tensor>> inputs;
  for (const Ints& own : values)
    inputs.push_back(
        {Tensor::from_doubles(type, shape, std::vector<double>(own.begin(), own.end()))});
  std::vector<std::vector<double>> found;
  for (const auto& outputs : evaluate_ranks(parse_graph(text), inputs))
    found.push_back(outputs.at(0).to_doubles());
  return found;
}

TEST(Collectives, CombineGatherAndExchange) {
  const std::vector<Ints> values = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  EXPECT_THAT(run(R"(graph @g(%x: f32[2, 2]) ranges {rank: 0..1} {
    %y = AllReduce(%x) {ranks = 2}
    return y = %y
  })",
                  values, {2, 2}),
              ElementsAre(ElementsAre(11, 22, 33, 44), ElementsAre(11, 22, 33, 44)));
  EXPECT_THAT(run(R"(graph @g(%x: f32[2, 2]) ranges {rank: 0..1} {
    %y = AllGather(%x) {axis = 1, ranks = 2}
    return y = %y
  })",
                  values, {2, 2}),
              ElementsAre(ElementsAre(1, 2, 10, 20, 3, 4, 30, 40),
                          ElementsAre(1, 2, 10, 20, 3, 4, 30, 40)));
  EXPECT_THAT(run(R"(graph @g(%x: f32[2, 2]) ranges {rank: 0..1} {
    %y = ReduceScatter(%x) {axis = 1, ranks = 2}
    return y = %y
  })",
                  values, {2, 2}),
              ElementsAre(ElementsAre(11, 33), ElementsAre(22, 44)));
  EXPECT_THAT(run(R"(graph @g(%x: f32[2, 2]) ranges {rank: 0..1} {
    %y = AllToAll(%x) {concat = 0, ranks = 2, split = 1}
    return y = %y
  })",
                  values, {2, 2}),
              ElementsAre(ElementsAre(1, 3, 10, 30), ElementsAre(2, 4, 20, 40)));
}

TEST(Collectives, CombineByOtherThanSumsAndIntegersExactly) {
  EXPECT_THAT(run(R"(graph @g(%x: i64[2]) ranges {rank: 0..2} {
    %y = AllReduce(%x) {combine = "max", ranks = 3}
    return y = %y
  })",
                  {{1, 9}, {5, 2}, {3, 4}}, {2}, DType::kInt64),
              ElementsAre(ElementsAre(5, 9), ElementsAre(5, 9), ElementsAre(5, 9)));
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  const Graph graph = parse_graph(R"(graph @g(%x: i64[1]) ranges {rank: 0..1} {
    %y = AllReduce(%x) {ranks = 2}
    return y = %y
  })");
  const std::vector<std::vector<Tensor>> inputs = {
      {Tensor::from_ints(DType::kInt64, {1}, Ints{large})},
      {Tensor::from_ints(DType::kInt64, {1}, Ints{2})}};
  EXPECT_EQ(evaluate_ranks(graph, inputs)[1][0].at_int(0), large + 2);
}

TEST(Collectives, SumsAreRoundedOnce) {
  // 1 + 2^-11 + 2^-11 in float16: rounding twice would lose both.
  const Graph graph = parse_graph(R"(graph @g(%x: f16[1]) ranges {rank: 0..2} {
    %y = AllReduce(%x) {ranks = 3}
    return y = %y
  })");
  std::vector<std::vector<Tensor>> inputs;
  for (const double value : {1.0, 0x1p-11, 0x1p-11})
    inputs.push_back({Tensor::from_doubles(DType::kFloat16, {1}, std::vector{value})});
  EXPECT_EQ(evaluate_ranks(graph, inputs)[0][0].at(0), 1 + 0x1p-10);
}

TEST(Ranks, KnowTheirNumberAlsoInLoops) {
  // Each trip adds the rank's number, and then the sum over ranks.
  EXPECT_THAT(run(R"(graph @g(%x: f32[1]) ranges {rank: 0..2} {
    %zero = const i64[] {0}
    %y = While(%zero, %x) {states = 1, trips = [2]} : f32[1] body(%i, %a) ranges {rank: 0..2} {
      %r = Size() {dtype = f32, value = [rank]}
      %b = Add(%a, %r)
      %c = AllReduce(%b) {ranks = 3}
      return %c
    }
    return y = %y
  })",
                  {{1}, {1}, {1}}, {1}),
              ElementsAre(ElementsAre(21), ElementsAre(21), ElementsAre(21)));
}

TEST(Ranks, HaveTheirPartOfASlice) {
  EXPECT_THAT(run(R"(graph @g(%x: f32[4]) ranges {rank: 0..1} {
    %y = Slice(%x) {shape = [2], starts = [2*rank], steps = [1]}
    return y = %y
  })",
                  {{1, 2, 3, 4}, {1, 2, 3, 4}}, {4}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4)));
}

TEST(Ranks, AnErrorOfOneEndsAll) {
  // Rank 1 takes a row that is not there; the other waits for it.
  const std::string text = R"(graph @g(%x: f32[4]) ranges {rank: 0..1} {
    %s = Slice(%x) {shape = [3], starts = [2*rank], steps = [1]}
    %y = AllReduce(%s) {ranks = 2}
    return y = %y
  })";
  try {
    run(text, {{1, 2, 3, 4}, {1, 2, 3, 4}}, {4});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Slice"));
  }
}

TEST(Ranks, ACollectiveIsNotEvaluatedByOneAlone) {
  const Graph graph = parse_graph(R"(graph @g(%x: f32[1]) {
    %y = AllReduce(%x) {ranks = 2}
    return y = %y
  })");
  try {
    evaluate(graph, std::vector{Tensor::scalar(DType::kFloat32, 1).reshaped({1})});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 ranks"));
  }
  EXPECT_THROW(evaluate_ranks(graph, std::vector<std::vector<Tensor>>(2)), Error);
}

TEST(Collectives, AreRefusedWhereRanksDoNotDivide) {
  const auto infer = [](std::string_view op, Attrs attrs) {
    const TensorType type{DType::kFloat32, {Dim::symbol("n"), 6}};
    return get_op(op).infer(attrs, std::span(&type, 1))[0];
  };
  const Attr ranks = std::int64_t{4};
  EXPECT_THROW(
      infer("ReduceScatter",
            {{"ranks", ranks}, {"axis", std::int64_t{1}}, {"combine", std::string("sum")}}),
      Error);
  EXPECT_THROW(infer("AllToAll",
                     {{"ranks", ranks}, {"split", std::int64_t{0}}, {"concat", std::int64_t{1}}}),
               Error);
  EXPECT_EQ(to_string(infer("AllGather", {{"ranks", ranks}, {"axis", std::int64_t{0}}})),
            "f32[4*n, 6]");
  EXPECT_THROW(infer("AllGather", {{"ranks", ranks}, {"axis", std::int64_t{2}}}), Error);
  EXPECT_THROW(infer("AllGather", {{"ranks", std::int64_t{0}}, {"axis", std::int64_t{0}}}), Error);
}

}  // namespace
}  // namespace sinter::ir
