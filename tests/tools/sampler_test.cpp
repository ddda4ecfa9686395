// Sampling from logits.
#include "tools/generate/sampler.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <sinter/error.h>

namespace sinter::tests {
namespace {

using tools::Sampler;
using tools::SamplingOptions;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Probabilities 0.5, 0.25, 0.125, 0.125 at temperature 1, not in order.
const std::vector<float> kLogits = {std::log(0.125F), std::log(0.5F), std::log(0.125F),
                                    std::log(0.25F)};

std::vector<int> counts(const SamplingOptions& options, int draws = 20000) {
  Sampler sampler(options);
  std::vector<int> result(kLogits.size());
  for (int i = 0; i < draws; ++i) ++result[static_cast<std::size_t>(sampler.pick(kLogits))];
  return result;
}

TEST(Sampler, GreedyTakesTheFirstOfTheMostLikely) {
  Sampler sampler({});
  EXPECT_EQ(sampler.pick(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(sampler.pick(std::vector<float>{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(sampler.pick(std::vector<float>{0, kInfinity}), 1);
}

TEST(Sampler, DrawsAsOftenAsLikely) {
  const auto found = counts({.temperature = 1});
  const double expected[] = {0.125, 0.5, 0.125, 0.25};
  // Five standard deviations of a binomial count.
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], 20000 * expected[i],
                5 * std::sqrt(20000 * expected[i] * (1 - expected[i])));
}

TEST(Sampler, TemperatureIsAPowerOfProbabilities) {
  const auto found = counts({.temperature = 0.5});  // squares: 1/64, 16/64, 1/64, 4/64 over 22/64
  EXPECT_NEAR(found[1], 20000 * 16 / 22.0, 5 * std::sqrt(20000 * 16 / 22.0 * 6 / 22.0));
}

TEST(Sampler, TopKAndTopPLeaveTheRestOut) {
  const auto two = counts({.temperature = 1, .top_k = 2});
  EXPECT_EQ(two[0] + two[2], 0);
  EXPECT_NEAR(two[1], 20000 * 2 / 3.0, 5 * std::sqrt(20000 * 2 / 9.0));
  const auto most = counts({.temperature = 1, .top_p = 0.7});
  EXPECT_EQ(most[0] + most[2], 0);
  EXPECT_GT(most[3], 0);
  EXPECT_EQ(counts({.temperature = 1, .top_p = 0.4})[1], 20000);
  EXPECT_EQ(counts({.temperature = 1, .top_k = 1})[1], 20000);
  const auto many = counts({.temperature = 1, .top_k = 100});
  EXPECT_GT(many[0], 0);
}

TEST(Sampler, TheSeedDecides) {
  const auto draws = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<std::int64_t> result(50);
    for (auto& token : result) token = sampler.pick(kLogits);
    return result;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
}

TEST(Sampler, NonsenseIsRefused) {
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = NAN}), Error);
  EXPECT_THROW(Sampler({.temperature = 1, .top_k = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = 1, .top_p = 0}), Error);
  EXPECT_THROW(Sampler({.temperature = 1, .top_p = 1.5}), Error);
  Sampler sampler({});
  EXPECT_THROW(sampler.pick(std::vector<float>{}), Error);
  EXPECT_THROW(sampler.pick(std::vector<float>{0, NAN}), Error);
}

}  // namespace
}  // namespace sinter::tests
