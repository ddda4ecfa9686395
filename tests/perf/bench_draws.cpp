// SPDX-License-Identifier: Apache-2.0
// The time of one draw on the host, by vocabulary, distribution and parameters: rows as JSON, in
// microseconds. `bench_draws [DRAWS]`: draws of each row; logits are new for each.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/sampling/draw.h"

namespace {

using sinter::sampling::Draw;

struct Case {
  std::string name;
  Draw draw;
};

/// Logits of a model that is sure of its next token (deviation 3), or not (0.5).
std::vector<float> logits(std::size_t count, double deviation, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  const Case cases[] = {{"top_p=0.5", {.temperature = 1, .top_p = 0.5}},
                        {"top_p=0.95", {.temperature = 1, .top_p = 0.95}},
                        {"top_k=50", {.temperature = 1, .top_k = 50}},
                        {"temperature", {.temperature = 1}},
                        {"greedy", {}}};
  std::string rows;
  for (const std::size_t vocabulary : {50'000U, 128'256U})
    for (const double deviation : {0.5, 3.0})
      for (const Case& each : cases) {
        std::vector<double> times;
        for (int i = 0; i < count; ++i) {
          const auto values = logits(vocabulary, deviation, static_cast<unsigned>(i));
          Draw draw = each.draw;
          draw.seed = static_cast<std::uint64_t>(i);
          const auto start = Clock::now();
          const std::int64_t token = sinter::sampling::draw_token(values, draw, {});
          const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
          if (token < 0) return 1;
          times.push_back(spent.count());
        }
        std::ranges::sort(times);
        rows += fmt::format(
            "{}{{\"vocabulary\": {}, \"deviation\": {}, \"draw\": \"{}\", \"median_us\": {:.1f}, "
            "\"p90_us\": {:.1f}}}",
            rows.empty() ? "" : ",\n ", vocabulary, deviation, each.name, times[times.size() / 2],
            times[times.size() * 9 / 10]);
      }
  fmt::print("[{}]\n", rows);
}
