// Which token comes next, from a model's logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace sinter::tools {

struct SamplingOptions {
  double temperature = 0;  // 0: the most likely token
  std::int64_t top_k = 0;  // of so many of the most likely tokens; 0: of all
  double top_p = 1;        // of the fewest most likely ones that have this probability together
  std::uint64_t seed = 0;
};

/// Draws tokens. The same options and logits give the same tokens on every machine whose exp does.
class Sampler {
 public:
  /// Throws Error(kUsage) for options that mean nothing.
  explicit Sampler(const SamplingOptions& options);

  /// An index into `logits`. Greedy choice takes the first of equals. Throws Error(kInvalidModel)
  /// if there are none, or one of them is not a number.
  std::int64_t pick(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> order_;
  std::vector<double> weights_;
};

}  // namespace sinter::tools
