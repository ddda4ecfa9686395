// The host's draws against the reference of SampleTokens.
#include "runtime/sampling/draw.h"

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "tests/support/sampling_operands.h"

namespace sinter::test {
namespace {

TEST(DrawToken, IsWhatTheReferenceDraws) {
  for (const std::int64_t count : {1, 37, 3000})
    for (int kind = 0; kind < 4; ++kind) {
      const auto inputs = sampling_operands(DType::kFloat32, count, kind, 5);
      const ir::Tensor expected = ir::evaluate_op(ir::get_op("SampleTokens"), {}, inputs)[0];
      const std::vector<SampledRow> rows = rows_to_draw();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const SampledRow& row = rows[i];
        // What there is not is left to those that read a plan's inputs.
        if (row.first_bias < 0 || row.first_bias + std::min<std::int64_t>(row.biases, 9) > 5)
          continue;
        const auto words = static_cast<std::size_t>((count + 31) / 32);
        const auto set = [&](std::int64_t number) -> std::span<const std::uint32_t> {
          if (number < 0) return {};
          return {reinterpret_cast<const std::uint32_t*>(inputs[3].bytes().data()) +
                      static_cast<std::size_t>(number) * words,
                  words};
        };
        const auto first = static_cast<std::size_t>(row.first_bias),
                   biases = static_cast<std::size_t>(row.biases);
        const sampling::TokenSets sets{set(row.allowed), set(row.seen),
                                       inputs[4].as<std::int32_t>().subspan(first, biases),
                                       inputs[5].as<float>().subspan(first, biases)};
        const sampling::Draw draw{
            row.temperature,
            row.top_k,
            row.top_p,
            row.least_score,
            static_cast<float>(row.penalty),
            static_cast<std::uint64_t>(inputs[2].at_int(static_cast<std::int64_t>(i) * 6))};
        const auto logits = inputs[0].as<float>().subspan(i * static_cast<std::size_t>(count),
                                                          static_cast<std::size_t>(count));
        EXPECT_EQ(sampling::draw_token(logits, draw, sets),
                  expected.at_int(static_cast<std::int64_t>(i)))
            << count << " kind " << kind << " row " << i;
      }
    }
}

TEST(Logprobs, AreThoseOfTheReference) {
  constexpr std::int64_t kLikeliest = 20;
  for (const std::int64_t count : {1, 37, 3000})
    for (int kind = 0; kind < 4; ++kind) {
      const auto inputs = logprobs_operands(DType::kFloat32, count, kind, 5);
      const auto expected = ir::evaluate_op(ir::get_op("SampleTokens"),
                                            {{"likeliest", ir::Attr(kLikeliest)}}, inputs);
      int told = 0;
      for (std::int64_t row = 0; row < inputs[0].shape()[0]; ++row) {
        const std::int64_t token = expected[0].at_int(row);
        const std::int32_t wanted = wanted_of_row(row);
        if (wanted < 0 || token < 0) {
          EXPECT_EQ(expected[1].at_int(row * kLikeliest), -1);
          continue;
        }
        const auto logits = inputs[0].as<float>().subspan(static_cast<std::size_t>(row * count),
                                                          static_cast<std::size_t>(count));
        const TokenLogprobs found =
            sampling::logprobs_of(logits, static_cast<TokenId>(token),
                                  static_cast<std::size_t>(std::min<std::int64_t>(wanted, 20)));
        EXPECT_FLOAT_EQ(found.logprob, static_cast<float>(expected[2].at(row * 21)));
        for (std::int64_t i = 0; i < kLikeliest; ++i) {
          const std::int64_t id = expected[1].at_int(row * kLikeliest + i);
          ASSERT_EQ(id >= 0, i < std::ssize(found.likeliest)) << row;
          if (id < 0) continue;
          const auto& [likely, logprob] = found.likeliest[static_cast<std::size_t>(i)];
          EXPECT_EQ(likely, id) << row;
          EXPECT_FLOAT_EQ(logprob, static_cast<float>(expected[2].at(row * 21 + 1 + i)));
          ++told;
        }
      }
      EXPECT_GT(told, 10);
    }
}

}  // namespace
}  // namespace sinter::test
