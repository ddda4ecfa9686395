// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/vision/interpolate.h"

namespace sinter::frontend {
namespace {

/// Sums the taps of dimensions `d`.. for the indices chosen in earlier dimensions.
Term weighted(const Term& data, const std::vector<std::vector<Tap>>& taps, DType compute,
              std::vector<Term>& chosen) {
  if (chosen.size() == taps.size()) return take(data, chosen).cast(compute);
  std::optional<Term> sum;
  for (const Tap& tap : taps[chosen.size()]) {
    chosen.push_back(tap.index);
    Term value = weighted(data, taps, compute, chosen);
    chosen.pop_back();
    if (tap.inside) value = select(*tap.inside, value, value.number(0));
    if (tap.weight) value = value * tap.weight->cast(compute);
    sum = sum ? *sum + value : value;
  }
  return *sum;
}

}  // namespace

Term interpolate(const Term& data, const std::vector<std::vector<Tap>>& taps, DType compute) {
  std::vector<Term> chosen;
  return weighted(data, taps, compute, chosen);
}

std::array<Term, 4> cubic_weights(const Term& t, double a) {
  // |x| <= 1: (a+2)|x|^3 - (a+3)|x|^2 + 1; |x| < 2: a|x|^3 - 5a|x|^2 + 8a|x| - 4a.
  const auto near = [&](const Term& x) { return (x * (a + 2) - (a + 3)) * x * x + 1; };
  const auto far = [&](const Term& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

}  // namespace sinter::frontend
