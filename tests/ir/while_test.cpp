// SPDX-License-Identifier: Apache-2.0
// Loops: types, text, evaluation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// x + 0 + 1 + .. + (n - 1), and x doubled n times.
constexpr const char* kTwoStates = R"(graph @main(%x: f32[2], %n: f32[n]) ranges {n: 0..8} {
  %zero = const i64[] {0}
  %sum, %power = While(%zero, %x, %x, %n) {states = 2, trips = [n]} : f32[2], f32[2] body(%i, %a, %b, %all) {
    %f = Cast(%i) {to = f32} : f32[]
    %next = Add(%a, %f) : f32[2]
    %twice = Add(%b, %b) : f32[2]
    return %next, %twice
  }
  return sum = %sum, power = %power
}
)";

// Doubles x until it is 100.
constexpr const char* kChecked = R"(graph @main(%go: bool[], %x: f32[]) {
  %zero = const i64[] {0}
  %last, %y = While(%zero, %go, %x) {checked = 1, states = 2} : bool[], f32[] body(%i, %flag, %v) {
    %limit = const f32[] {100}
    %next = Add(%v, %v) : f32[]
    %more = Less(%next, %limit) : bool[]
    return %more, %next
  }
  return y = %y, last = %last
}
)";

std::vector<Tensor> run(const char* text, std::vector<Tensor> inputs) {
  return evaluate(parse_graph(text), inputs);
}

Tensor numbers(std::vector<std::int64_t> shape, std::vector<double> values) {
  return Tensor::from_doubles(DType::kFloat32, std::move(shape), values);
}

TEST(While, RunsItsBodyAsOftenAsASizeSays) {
  for (const std::int64_t n : {0, 1, 4}) {
    const auto out = run(kTwoStates, {numbers({2}, {1, 3}), numbers({n}, std::vector<double>(n))});
    const double sum = static_cast<double>(n * (n - 1) / 2), power = static_cast<double>(1 << n);
    EXPECT_THAT(out[0].to_doubles(), ElementsAre(1 + sum, 3 + sum));
    EXPECT_THAT(out[1].to_doubles(), ElementsAre(power, 3 * power));
  }
}

TEST(While, EndsWhenItsFirstStateIsFalse) {
  const auto at = [](bool go, double x) {
    return run(kChecked, {Tensor::scalar(DType::kBool, go), numbers({}, {x})})[0].to_doubles();
  };
  EXPECT_THAT(at(true, 3), ElementsAre(192));
  EXPECT_THAT(at(true, 60), ElementsAre(120));
  EXPECT_THAT(at(false, 3), ElementsAre(3));
}

TEST(While, IsBounded) {
  const Graph graph = parse_graph(kChecked);
  EvaluateOptions options;
  options.max_iterations = 20;
  const std::vector<Tensor> endless{Tensor::scalar(DType::kBool, 1),
                                    Tensor::scalar(DType::kFloat32, -1)};
  try {
    evaluate(graph, endless, options);
    FAIL() << "the loop ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("have run 20 iterations"), std::string::npos);
  }
}

TEST(While, PrintsAndParses) {
  for (const char* text : {kTwoStates, kChecked}) {
    const Graph graph = parse_graph(text);
    verify(graph);
    EXPECT_TRUE(structurally_equal(graph, parse_graph(print(graph)))) << print(graph);
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(While, SaysWhatIsWrongWithABody) {
  const auto parsing = [](std::string text) { return [text] { parse_graph(text); }; };
  EXPECT_THAT(parsing(replaced(kTwoStates, "return %next, %twice", "return %next")),
              ThrowsMessage<Error>(HasSubstr("has 2 states, but its body has 1 outputs")));
  EXPECT_THAT(parsing(replaced(kTwoStates, "return %next, %twice", "return %next, %f")),
              ThrowsMessage<Error>(HasSubstr("state 1 is f32[2], but f32[] after an iteration")));
  EXPECT_THAT(parsing(replaced(kTwoStates, ", trips = [n]", "")),
              ThrowsMessage<Error>(HasSubstr("the first state must say when to end")));
  EXPECT_THAT(parsing(replaced(kTwoStates, "{states = 2", "{states = 4")),
              ThrowsMessage<Error>(HasSubstr("has 4 states and 4 inputs")));
  EXPECT_THAT(parsing(replaced(kTwoStates, "{states = 2", "{checked = 1, states = 2")),
              ThrowsMessage<Error>(HasSubstr("must be bool[], found f32[2]")));
  EXPECT_THAT(parsing(replaced(kTwoStates, "const i64[] {0}", "const i32[] {0}")),
              ThrowsMessage<Error>(HasSubstr("must be i64[], found i32[]")));
}

}  // namespace
}  // namespace sinter::ir
