#include "frontend/assumptions.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace sinter::frontend {
namespace {

using ir::Dim;

/// Strides of image networks are powers of two, seldom more than 64; windows of others are small.
constexpr std::int64_t kMaxStep = 256;

bool equal_with(const ir::DimMismatch& mismatch, const std::string& symbol, const Dim& value) {
  const std::map<std::string, Dim, std::less<>> replacement{{symbol, value}};
  const ir::Ranges none;
  return ir::simplify(mismatch.a().substitute(replacement) - mismatch.b().substitute(replacement),
                      none) == Dim(0);
}

/// The number that the other side is, where one is a symbol alone.
std::optional<std::int64_t> number_of(const ir::DimMismatch& mismatch) {
  const Dim &a = mismatch.a(), &b = mismatch.b();
  if (a.as_symbol() && b.is_constant()) return b.value();
  if (b.as_symbol() && a.is_constant()) return a.value();
  return std::nullopt;
}

}  // namespace

std::optional<std::string> assume_equal(const ir::DimMismatch& mismatch, ImportOptions& options) {
  std::set<std::string> symbols;
  for (const Dim* dim : {&mismatch.a(), &mismatch.b()})
    for (std::string& symbol : dim->symbols()) symbols.insert(std::move(symbol));
  const std::string why = fmt::format("the model needs {} and {} to be equal",
                                      mismatch.a().to_string(), mismatch.b().to_string());
  for (const std::string& kept : symbols) {
    for (const std::string& dropped : symbols) {
      // Multiples of different numbers are not one symbol.
      if (kept >= dropped || options.multiples.count(kept) + options.multiples.count(dropped) > 0 ||
          !equal_with(mismatch, dropped, Dim::symbol(kept)))
        continue;
      options.same[dropped] = kept;
      return fmt::format("dimensions '{}' and '{}' are taken as equal: {}", kept, dropped, why);
    }
  }
  if (const auto number = number_of(mismatch); number && symbols.size() == 1) {
    const std::string& symbol = *symbols.begin();
    if (options.ranges.count(symbol) + options.multiples.count(symbol) > 0) return std::nullopt;
    options.ranges[symbol] = {*number, *number, nullptr};
    return fmt::format("dimension '{}' is taken as {}: {}", symbol, *number, why);
  }
  for (const std::string& symbol : symbols) {
    for (std::int64_t step = 2; step <= kMaxStep; ++step) {
      if (!equal_with(mismatch, symbol, Dim(step) * Dim::symbol(symbol))) continue;
      const auto known = options.multiples.find(symbol);
      const std::int64_t whole = known == options.multiples.end() ? step : step * known->second;
      if (whole > kMaxStep) break;
      options.multiples[symbol] = whole;
      return fmt::format("dimension '{}' is taken as a multiple of {}: {}", symbol, whole, why);
    }
  }
  return std::nullopt;
}

}  // namespace sinter::frontend
