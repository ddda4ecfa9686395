// SPDX-License-Identifier: Apache-2.0
// Routing on the emulator against the reference: every kind of scores, one block and tiles, choices
// that are given, padding, tokens with NaN.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/routing/emit_routing.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

using Numbers = std::vector<std::int64_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct RoutingCase {
  const char* name;
  std::int64_t tokens, experts, chosen;
  std::string scores = "softmax";
  bool normalises = false, has_bias = false, has_padding = false;
  std::int64_t groups = 1, kept = 1, best = 1;
  bool zero_outside = false;
  double scale = 1, epsilon = 0;
  DType type = DType::kFloat32;
  std::int64_t most = 0;                // of a number of tokens that is not known; 0: it is
  bool sorts = true, is_alone = false;  // is_alone: only what a second product needs
  double special = 0;                   // a logit of the second token
  std::int64_t depth = 0;               // of the product that gives logits; 0: they are there
  bool adds = false;                    // a bias of logits
};

const RoutingCase kCases[] = {
    {.name = "softmax", .tokens = 5, .experts = 32, .chosen = 4, .normalises = true},
    {.name = "one", .tokens = 1, .experts = 128, .chosen = 8, .most = 4096},
    {.name = "none", .tokens = 0, .experts = 8, .chosen = 2, .most = 4096},
    {.name = "halves", .tokens = 64, .experts = 60, .chosen = 4, .type = DType::kFloat16},
    {.name = "sigmoid",
     .tokens = 9,
     .experts = 64,
     .chosen = 6,
     .scores = "sigmoid",
     .normalises = true,
     .has_bias = true,
     .has_padding = true,
     .groups = 8,
     .kept = 3,
     .best = 2,
     .scale = 2.5,
     .epsilon = 1e-20},
    {.name = "groups", .tokens = 7, .experts = 36, .chosen = 5, .groups = 6, .kept = 2, .scale = 3},
    {.name = "zeros",
     .tokens = 8,
     .experts = 40,
     .chosen = 7,
     .has_bias = true,
     .groups = 5,
     .kept = 1,
     .best = 2,
     .zero_outside = true},
    {.name = "mixer", .tokens = 6, .experts = 16, .chosen = 2, .scores = "sparsemixer"},
    {.name = "plain", .tokens = 3, .experts = 7, .chosen = 7, .scores = "none"},
    {.name = "tiles", .tokens = 200, .experts = 40, .chosen = 3, .has_padding = true, .most = 4096},
    {.name = "many", .tokens = 4500, .experts = 5, .chosen = 2, .type = DType::kBFloat16},
    {.name = "wide",
     .tokens = 70,
     .experts = 1024,
     .chosen = 33,
     .scores = "sigmoid",
     .groups = 512,
     .kept = 20,
     .is_alone = true},
    {.name = "product",
     .tokens = 5,
     .experts = 32,
     .chosen = 4,
     .normalises = true,
     .type = DType::kFloat16,
     .most = 16,
     .depth = 1024},
    {.name = "few of product",
     .tokens = 3,
     .experts = 128,
     .chosen = 8,
     .type = DType::kBFloat16,
     .most = 16,
     .depth = 2048},
    {.name = "product of one",
     .tokens = 1,
     .experts = 9,
     .chosen = 2,
     .has_padding = true,
     .type = DType::kBFloat16,
     .depth = 72,
     .adds = true},
    {.name = "long product",
     .tokens = 2,
     .experts = 200,
     .chosen = 8,
     .scores = "sigmoid",
     .has_bias = true,
     .groups = 8,
     .kept = 4,
     .best = 2,
     .type = DType::kFloat16,
     .depth = 2888},
    {.name = "alone", .tokens = 21, .experts = 50, .chosen = 3, .sorts = false},
    {.name = "nan", .tokens = 4, .experts = 33, .chosen = 3, .normalises = true, .special = kNaN},
    {.name = "infinite",
     .tokens = 4,
     .experts = 33,
     .chosen = 3,
     .special = -std::numeric_limits<double>::infinity()},
    // Choices that are there.
    {.name = "given", .tokens = 300, .experts = 12, .chosen = 3, .scores = ""},
    {.name = "more given", .tokens = 3000, .experts = 12, .chosen = 3, .scores = "", .most = 9000},
};

std::uint32_t add_buffer(Memory& memory, std::vector<std::byte> bytes) {
  memory.push_back(std::move(bytes));
  return static_cast<std::uint32_t>(memory.size() - 1);
}
std::uint32_t add_tensor(Memory& memory, const ir::Tensor& tensor) {
  return add_buffer(memory, {tensor.bytes().begin(), tensor.bytes().end()});
}
std::uint32_t add_unwritten(Memory& memory, std::int64_t bytes) {
  return add_buffer(memory,
                    std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xa5}));
}

/// A case with its inputs, what it should give, and where that should be.
class Checked {
 public:
  explicit Checked(const RoutingCase& test)
      : test_(test), exprs_(ir::Ranges{{"n", ir::Range{0, std::max(test.most, test.tokens)}}}) {
    problem_.tokens = test.most > 0 ? ir::Dim::symbol("n") : ir::Dim(test.tokens);
    problem_.chosen = problem_.divisor = test.chosen;
    if (test.scores.empty())
      give();
    else
      route();
    if (test.sorts) sort();
  }

  codegen::EmittedKernel emit() {
    for (const ir::Dim& bytes : problem_.scratch_bytes(exprs_))
      scratch_.push_back(add_unwritten(memory_, bytes.evaluate({{"n", elements()}})));
    codegen::KernelRequest request;
    request.name = fmt::format("route_{}", number_++);
    request.device = &codegen::cuda_device("sm_90");
    auto kernel = emit_routing(problem_, scratch_, request, exprs_);
    EXPECT_EQ(kernel.more.size(), problem_.kernels_behind(exprs_));
    return kernel;
  }

  void run(const EmulatedKernels& library, const codegen::EmittedKernel& kernel) {
    plan::fb::PlanT plan;
    exprs_.write(plan);
    const auto values = plan::evaluate_expressions(plan, Numbers(plan.symbols.size(), elements()));
    const auto& variants = kernel.step.variants;
    std::size_t variant = 0;
    while (variant < variants.size() && !may_run(*variants[variant], values)) ++variant;
    ASSERT_LT(variant, variants.size());
    SCOPED_TRACE(fmt::format("{}: {}", test_.name, variants[variant]->schedule));
    library.run(kernel.step, variant, values, memory_);
    for (const auto& step : kernel.more) library.run(step, 0, values, memory_);
    for (const auto& [buffer, name, expected] : integers_) {
      const ir::Tensor got(DType::kInt32, {static_cast<std::int64_t>(expected.size())},
                           ir::Buffer::take(memory_[buffer]));
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(got.at_int(static_cast<std::int64_t>(i)), expected[i]) << name << " " << i;
    }
    if (!problem_.shares) return;
    const ir::Tensor got(DType::kFloat32, shares_.shape(),
                         ir::Buffer::take(memory_[*problem_.shares]));
    for (std::int64_t i = 0; i < got.element_count(); ++i) {
      ASSERT_EQ(std::isnan(got.at(i)), std::isnan(shares_.at(i))) << i;
      if (std::isnan(got.at(i))) continue;
      ASSERT_NEAR(got.at(i), shares_.at(i), 1e-5 * std::abs(shares_.at(i)) + 1e-30) << i;
    }
  }

 private:
  /// Of the symbol: given choices are counted one by one.
  std::int64_t elements() const {
    return test_.scores.empty() ? test_.tokens * test_.chosen : test_.tokens;
  }

  void give() {
    std::mt19937 random(3);
    for (std::int64_t i = 0; i < elements(); ++i)
      choices_.push_back(
          static_cast<std::int64_t>(random() % static_cast<unsigned>(test_.experts + 1)));
    // Out of range, and from the end.
    choices_[1] = -1;
    choices_[2] = test_.experts + 5;
    problem_.given =
        add_tensor(memory_, ir::Tensor::from_ints(DType::kInt32, {elements()}, choices_));
    problem_.tokens = test_.most > 0 ? ir::Dim::symbol("n") : ir::Dim(elements());
    problem_.chosen = 1;
  }

  void route() {
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    std::vector<double> logits(static_cast<std::size_t>(test_.tokens * test_.experts));
    for (double& x : logits) x = normal(random);
    if (test_.special != 0) logits[static_cast<std::size_t>(test_.experts + 2)] = test_.special;
    std::vector<double> bias(static_cast<std::size_t>(test_.experts));
    for (double& x : bias) x = 0.1 * normal(random);
    auto& rule = problem_.rule.emplace();
    if (test_.depth > 0) rule.product = product(logits, random);
    std::vector<ir::Tensor> inputs = {ir::Tensor::from_doubles(
        test_.depth > 0 ? DType::kFloat32 : test_.type, {test_.tokens, test_.experts}, logits)};
    if (test_.has_bias)
      inputs.push_back(ir::Tensor::from_doubles(DType::kFloat32, {test_.experts}, bias));
    const ir::Attrs attrs{{"k", ir::Attr(test_.chosen)},
                          {"scores", ir::Attr(test_.scores)},
                          {"normalise", ir::Attr(std::int64_t{test_.normalises})},
                          {"scale", ir::Attr(test_.scale)},
                          {"epsilon", ir::Attr(test_.epsilon)},
                          {"jitter", ir::Attr(0.01)},
                          {"groups", ir::Attr(test_.groups)},
                          {"kept_groups", ir::Attr(test_.kept)},
                          {"group_scores", ir::Attr(test_.best)},
                          {"zero_outside", ir::Attr(std::int64_t{test_.zero_outside})}};
    const std::vector<ir::Tensor> results = ir::evaluate_op(ir::get_op("Route"), attrs, inputs);
    shares_ = results[1];
    if (!rule.product) rule.logits = add_tensor(memory_, inputs[0]);
    rule.type = test_.type;
    if (test_.has_bias) rule.bias = add_tensor(memory_, inputs[1]);
    rule.experts = test_.experts;
    rule.groups = test_.groups;
    rule.kept_groups = test_.kept;
    rule.group_scores = test_.best;
    rule.zero_outside = test_.zero_outside;
    rule.scores = test_.scores;
    rule.normalises = test_.normalises;
    rule.epsilon = test_.epsilon;
    rule.scale = test_.scale;
    rule.jitter = 0.01;
    for (std::int64_t i = 0; i < results[0].element_count(); ++i)
      choices_.push_back(results[0].at_int(i));
    if (test_.has_padding) pad();
    problem_.shares = add_unwritten(memory_, 4 * test_.tokens * test_.chosen);
    if (!test_.is_alone) problem_.choices = expect("choices", choices_);
  }

  /// Operands whose product is `logits`, which it sets.
  codegen::RouterOperands product(std::vector<double>& logits, std::mt19937& random) {
    std::normal_distribution<double> normal;
    const auto draw = [&](const ir::Ints& shape, double scale) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      std::vector<double> numbers(static_cast<std::size_t>(count));
      for (double& x : numbers) x = scale * normal(random);
      return ir::Tensor::from_doubles(test_.type, shape, numbers);
    };
    const ir::Tensor x = draw({test_.tokens, test_.depth}, 1),
                     weights = draw({test_.experts, test_.depth},
                                    1 / std::sqrt(static_cast<double>(test_.depth))),
                     added = draw({test_.experts}, 1);
    for (std::int64_t i = 0; i < test_.tokens * test_.experts; ++i) {
      const std::int64_t token = i / test_.experts, expert = i % test_.experts;
      double sum = test_.adds ? added.at(expert) : 0;
      for (std::int64_t k = 0; k < test_.depth; ++k)
        sum += x.at(token * test_.depth + k) * weights.at(expert * test_.depth + k);
      logits[static_cast<std::size_t>(i)] = sum;
    }
    codegen::RouterOperands result;
    result.x = add_tensor(memory_, x);
    result.weights = add_tensor(memory_, weights);
    if (test_.adds) result.added = add_tensor(memory_, added);
    result.type = result.added_type = test_.type;
    result.depth = test_.depth;
    return result;
  }

  void pad() {
    Numbers is_token;
    for (std::int64_t t = 0; t < test_.tokens; ++t) is_token.push_back(t % 3 != 1);
    for (std::size_t i = 0; i < choices_.size(); ++i)
      if (is_token[i / static_cast<std::size_t>(test_.chosen)] == 0) choices_[i] = test_.experts;
    problem_.rule->is_token =
        add_tensor(memory_, ir::Tensor::from_ints(DType::kBool, {test_.tokens}, is_token));
    problem_.rule->none = static_cast<std::int32_t>(test_.experts);
  }

  void sort() {
    const std::int64_t extent = test_.experts + 1;
    problem_.extent = extent;
    const auto count = static_cast<std::int64_t>(choices_.size());
    const auto row_of = [&](std::int64_t i) {
      std::int64_t row = choices_[static_cast<std::size_t>(i)];
      if (row < 0) row += extent;
      return row >= 0 && row < extent ? row : extent;
    };
    Numbers order(choices_.size()), tokens, experts, rows(choices_.size()),
        offsets(static_cast<std::size_t>(extent + 1));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::stable_sort(order, {}, row_of);
    for (std::int64_t row = 0; row <= extent; ++row)
      offsets[static_cast<std::size_t>(row)] =
          std::ranges::count_if(order, [&](std::int64_t i) { return row_of(i) < row; });
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t choice = order[static_cast<std::size_t>(i)];
      tokens.push_back(choice / test_.chosen);
      experts.push_back(std::min(choices_[static_cast<std::size_t>(choice)], test_.experts - 1));
      rows[static_cast<std::size_t>(choice)] = i;
    }
    problem_.offsets = expect("offsets", offsets);
    problem_.rows_of = expect("rows", rows);
    if (test_.is_alone) return;
    problem_.order = expect("order", order);
    problem_.tokens_of = expect("tokens", tokens);
    problem_.experts_of = expect("experts", experts);
    problem_.last_expert = static_cast<std::int32_t>(test_.experts - 1);
  }

  std::uint32_t expect(const char* name, const Numbers& values) {
    const std::uint32_t buffer =
        add_unwritten(memory_, 4 * static_cast<std::int64_t>(values.size()));
    integers_.push_back({buffer, name, values});
    return buffer;
  }

  struct Expected {
    std::uint32_t buffer;
    const char* name;
    Numbers values;
  };

  static inline int number_ = 0;
  const RoutingCase& test_;
  codegen::ExprTable exprs_;
  codegen::RoutingProblem problem_;
  Memory memory_;
  std::vector<std::uint32_t> scratch_;
  Numbers choices_;
  ir::Tensor shares_;
  std::vector<Expected> integers_;
};

TEST(CudaRouting, KernelsComputeWhatTheReferenceComputes) {
  std::vector<std::unique_ptr<Checked>> all;
  std::vector<codegen::EmittedKernel> kernels;
  for (const RoutingCase& test : kCases)
    kernels.push_back(all.emplace_back(std::make_unique<Checked>(test))->emit());
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < all.size(); ++c) all[c]->run(library, kernels[c]);
}

}  // namespace
}  // namespace sinter::test
#endif
