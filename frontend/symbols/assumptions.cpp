// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/assumptions.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/symbols/inputs.h"

namespace sinter::frontend {
namespace {

using ir::Dim;

/// Strides of image networks are powers of two, rarely above 64; windows of others are small.
constexpr std::int64_t kMaxStep = 256;

/// Searches for an assumption that makes the difference of two sizes zero. Each search adds its
/// result to the options and returns it, or returns nullopt.
class Search {
 public:
  Search(const ir::DimMismatch& mismatch, const KnownSymbols& known, ImportOptions& options)
      : mismatch_(mismatch),
        known_(known),
        ranges_(known.ranges),
        options_(options),
        difference_(mismatch.a() - mismatch.b()) {
    // Removes common factors of both sides.
    for (const std::string& symbol : difference_.symbols())
      while (difference_ != Dim(0)) {
        const auto quotient = ir::divide_exactly(difference_, Dim::symbol(symbol));
        if (!quotient) break;
        difference_ = *quotient;
      }
    for (std::string& symbol : difference_.symbols())
      if (ranges_.count(symbol) != 0) symbols_.insert(std::move(symbol));
  }

  std::optional<Assumption> run() {
    if (auto found = one_symbol()) return found;
    if (auto found = known_ranges()) return found;
    if (auto found = later_start()) return found;
    if (auto found = earlier_end()) return found;
    if (auto found = solution()) return found;
    if (auto found = multiple()) return found;
    return one_number();
  }

 private:
  using Replacements = std::map<std::string, Dim, std::less<>>;

  Assumption assumed(std::string what, std::string option) const {
    std::string text =
        fmt::format("{}: the model needs {} and {} to be equal{} (as with {})", what,
                    mismatch_.a().to_string(), mismatch_.b().to_string(), where(), option);
    return {std::move(text), std::move(option)};
  }
  std::string where() const {
    const auto& node = mismatch_.node();
    return node.name.empty() ? "" : fmt::format(" at node '{}'", node.name);
  }

  bool is_free(const std::string& symbol) const { return options_.ranges.count(symbol) == 0; }
  /// The unit of a symbol: 32 if the dimension is 32 times the symbol.
  std::int64_t step_of(const std::string& symbol) const {
    const auto known = options_.multiples.find(symbol);
    return known == options_.multiples.end() ? 1 : known->second;
  }
  bool is_zero(const Replacements& replaced, const ir::Ranges& ranges = {}) const {
    return ir::simplify(difference_.substitute(replaced), ranges) == Dim(0);
  }

  void replace(const std::string& symbol, const Dim& value) {
    for (auto& [other, dim] : options_.same) dim = dim.substitute({{symbol, value}});
    options_.same.insert_or_assign(symbol, value);
  }

  std::optional<Assumption> one_symbol() {
    for (auto first = symbols_.begin(); first != symbols_.end(); ++first)
      for (auto second = std::next(first); second != symbols_.end(); ++second) {
        // Symbols with different units cannot be equal.
        if (step_of(*first) != 1 || step_of(*second) != 1) continue;
        const auto &dropped = is_free(*second) ? *second : *first,
                   &kept = is_free(*second) ? *first : *second;
        if (!is_free(dropped) || !is_zero({{dropped, Dim::symbol(kept)}})) continue;
        replace(dropped, Dim::symbol(kept));
        return assumed(fmt::format("dimensions '{}' and '{}' are taken as equal", *first, *second),
                       fmt::format("--dim {}={}", dropped, kept));
      }
    return std::nullopt;
  }

  /// A node has narrowed a symbol's range since these sizes were written.
  std::optional<Assumption> known_ranges() {
    if (!is_zero({}, ranges_)) return std::nullopt;
    std::vector<std::string> said, options;
    for (const std::string& symbol : symbols_) {
      if (!is_free(symbol)) continue;
      const ir::Range& range = ranges_.find(symbol)->second;
      const std::int64_t least = range.min * step_of(symbol), most = range.max * step_of(symbol);
      options_.least.insert_or_assign(symbol, least);
      options_.most.insert_or_assign(symbol, most);
      said.push_back(fmt::format("dimension '{}' is taken in {}..{}", symbol, least, most));
      options.push_back(fmt::format("--dim {}={}..{}", symbol, least, most));
    }
    if (said.empty()) return std::nullopt;
    return assumed(fmt::format("{}", fmt::join(said, ", ")),
                   fmt::format("{}", fmt::join(options, " ")));
  }

  std::optional<Assumption> later_start() {
    for (const std::string& symbol : symbols_) {
      if (!is_free(symbol)) continue;
      ir::Ranges ranges = ranges_;
      ir::Range& range = ranges.find(symbol)->second;
      const auto fits_from = [&](std::int64_t least) {
        range.min = least;
        return is_zero({}, ranges);
      };
      // An assumption that holds from some size on also holds from any larger one.
      std::int64_t low = range.min, high = std::max(low, range.max / 2);
      if (!fits_from(high)) continue;
      while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (fits_from(middle))
          high = middle;
        else
          low = middle + 1;
      }
      const std::int64_t least = low * step_of(symbol);
      options_.least.insert_or_assign(symbol, least);
      return assumed(fmt::format("dimension '{}' is taken as at least {}", symbol, least),
                     fmt::format("--dim {}={}..{}", symbol, least, kDefaultMaxDim));
    }
    return std::nullopt;
  }

  /// The same for the maximum: `seq` is at most 64 if min(seq, 64) must equal `seq`.
  std::optional<Assumption> earlier_end() {
    // Two roundings may agree on a short range by chance.
    if (cases().size() == 1) return std::nullopt;
    for (const std::string& symbol : symbols_) {
      if (!is_free(symbol)) continue;
      ir::Ranges ranges = ranges_;
      ir::Range& range = ranges.find(symbol)->second;
      const auto fits_to = [&](std::int64_t most) {
        range.max = most;
        return is_zero({}, ranges);
      };
      std::int64_t low = range.min + 1, high = range.max;
      if (!fits_to(low)) continue;
      while (low < high) {
        const std::int64_t middle = high - (high - low) / 2;
        if (fits_to(middle))
          low = middle;
        else
          high = middle - 1;
      }
      const std::int64_t most = low * step_of(symbol);
      options_.most.insert_or_assign(symbol, most);
      return assumed(fmt::format("dimension '{}' is taken as at most {}", symbol, most),
                     fmt::format("--dim {}={}..{}", symbol, range.min * step_of(symbol), most));
    }
    return std::nullopt;
  }

  /// The difference, and its variants with one of its minima and maxima replaced by either operand.
  std::vector<Dim> cases() const {
    std::vector<Dim> all = {difference_};
    for (const Dim::Term& term : difference_.terms())
      for (const auto& factor : term.factors)
        if (factor->kind == ir::DimAtom::Kind::kMin || factor->kind == ir::DimAtom::Kind::kMax)
          for (const Dim* side : {&factor->a, &factor->b})
            all.push_back(with_atom_as(difference_, *factor, *side));
    return all;
  }

  static Dim as_dim(const ir::DimAtom& atom) {
    switch (atom.kind) {
      case ir::DimAtom::Kind::kSymbol: return Dim::symbol(atom.name);
      case ir::DimAtom::Kind::kFloorDiv: return ir::floor_div(atom.a, atom.b);
      case ir::DimAtom::Kind::kMin: return ir::min(atom.a, atom.b);
      case ir::DimAtom::Kind::kMax: return ir::max(atom.a, atom.b);
    }
    return 0;
  }

  static Dim with_atom_as(const Dim& dim, const ir::DimAtom& atom, const Dim& value) {
    Dim sum = 0;
    for (const Dim::Term& term : dim.terms()) {
      Dim product = term.coefficient;
      for (const auto& factor : term.factors) {
        const bool is_it = factor->kind == atom.kind && factor->a == atom.a && factor->b == atom.b;
        product = product * (is_it ? value : as_dim(*factor));
      }
      sum = sum + product;
    }
    return sum;
  }

  /// The value of `symbol` for which `difference` is zero, if the difference is linear in it.
  static std::optional<Dim> solved_for(const std::string& symbol, const Dim& difference) {
    const Dim rest = difference.substitute({{symbol, Dim(0)}});
    const auto slope = ir::divide_exactly(difference - rest, Dim::symbol(symbol));
    if (!slope || !slope->is_constant() || slope->value() == 0) return std::nullopt;
    const std::vector<std::string> others = rest.symbols();
    if (std::ranges::find(others, symbol) != others.end()) return std::nullopt;
    return ir::divide_exactly(Dim(0) - rest, *slope);
  }

  /// True if `value` is valid for `symbol`, for all values of the other symbols.
  bool is_size_of(const std::string& symbol, const Dim& value) const {
    const auto low = ir::lower_bound(value, ranges_);
    return low && *low >= std::min<std::int64_t>(1, ranges_.find(symbol)->second.min) &&
           is_zero({{symbol, value}}, ranges_);
  }

  std::optional<Assumption> solution() {
    for (const Dim& difference : cases())
      for (const std::string& symbol : symbols_) {
        const auto value = is_free(symbol) ? solved_for(symbol, difference) : std::nullopt;
        if (!value || !is_size_of(symbol, *value)) continue;
        if (value->is_constant()) return fixed({symbol}, value->value());
        const std::vector<std::string> others = value->symbols();
        if (step_of(symbol) != 1 ||
            std::ranges::any_of(others, [&](const auto& other) { return step_of(other) != 1; }))
          continue;
        replace(symbol, *value);
        return assumed(fmt::format("dimension '{}' is taken as {}", symbol, value->to_string()),
                       fmt::format("--dim '{}={}'", symbol, value->to_string()));
      }
    return std::nullopt;
  }

  std::optional<Assumption> multiple() {
    std::vector<std::string> first, inner;
    for (const std::string& symbol : symbols_)
      (known_.leading.count(symbol) != 0 ? first : inner).push_back(symbol);
    for (const std::string& symbol : inner)
      if (auto found = multiple_of_one({symbol})) return found;
    // Height and width usually shrink by the same strides.
    if (auto found = multiple_of_one(inner)) return found;
    // Avoids restricting the batch size if another symbol suffices.
    for (const std::string& symbol : first)
      if (auto found = multiple_of_one({symbol})) return found;
    return std::nullopt;
  }

  /// Assumes that all of `symbols` are multiples of one number.
  std::optional<Assumption> multiple_of_one(const std::vector<std::string>& symbols) {
    for (std::int64_t step = 2; !symbols.empty() && step <= kMaxStep; ++step) {
      Replacements replaced;
      bool is_small = true;
      for (const std::string& symbol : symbols) {
        replaced.emplace(symbol, Dim(step) * Dim::symbol(symbol));
        is_small = is_small && step * step_of(symbol) <= kMaxStep;
      }
      if (!is_small) break;
      if (!is_zero(replaced)) continue;
      std::vector<std::string> said, options;
      for (const std::string& symbol : symbols) {
        const std::int64_t whole = step * step_of(symbol);
        options_.multiples[symbol] = whole;
        said.push_back(fmt::format("dimension '{}' is taken as a multiple of {}", symbol, whole));
        options.push_back(fmt::format("--dim {}={}..{}/{}", symbol, whole, kDefaultMaxDim, whole));
      }
      return assumed(fmt::format("{}", fmt::join(said, ", ")),
                     fmt::format("{}", fmt::join(options, " ")));
    }
    return std::nullopt;
  }

  std::optional<Assumption> one_number() {
    if (symbols_.empty() || (!mismatch_.a().is_constant() && !mismatch_.b().is_constant()))
      return std::nullopt;
    std::int64_t low = 0, high = kDefaultMaxDim;
    for (const std::string& symbol : symbols_) {
      if (!is_free(symbol) || step_of(symbol) != step_of(*symbols_.begin())) return std::nullopt;
      const ir::Range& range = ranges_.find(symbol)->second;
      low = std::max(low, range.min);
      high = std::min(high, range.max);
    }
    for (std::int64_t number = low; number <= high; ++number) {
      ir::Bindings bindings;
      for (const std::string& symbol : symbols_) bindings.emplace(symbol, number);
      for (const std::string& symbol : difference_.symbols())
        if (bindings.count(symbol) == 0) return std::nullopt;
      if (difference_.evaluate(bindings) == 0)
        return fixed({symbols_.begin(), symbols_.end()}, number);
    }
    return std::nullopt;
  }

  Assumption fixed(const std::vector<std::string>& symbols, std::int64_t number) {
    std::vector<std::string> options;
    for (const std::string& symbol : symbols) {
      const std::int64_t size = number * step_of(symbol);
      options_.multiples.erase(symbol);
      options_.ranges.insert_or_assign(symbol, ir::Range{size, size, nullptr});
      options.push_back(fmt::format("--dim {}={}", symbol, size));
    }
    return assumed(
        fmt::format("{} '{}' {} taken as {}", symbols.size() == 1 ? "dimension" : "dimensions",
                    fmt::join(symbols, "' and '"), symbols.size() == 1 ? "is" : "are",
                    number * step_of(symbols[0])),
        fmt::format("{}", fmt::join(options, " ")));
  }

  const ir::DimMismatch& mismatch_;
  const KnownSymbols& known_;
  const ir::Ranges& ranges_;
  ImportOptions& options_;
  Dim difference_;
  std::set<std::string> symbols_;
};

}  // namespace

std::optional<Assumption> assume_equal(const ir::DimMismatch& mismatch, const KnownSymbols& known,
                                       ImportOptions& options) {
  // Data-dependent sizes allow no assumption.
  const Dim sides[] = {mismatch.a(), mismatch.b()};
  if (ir::is_from_data(sides, known.ranges)) return std::nullopt;
  try {
    return Search(mismatch, known, options).run();
  } catch (const Error&) {
    return std::nullopt;  // sizes that overflow at such numbers are equal for none
  }
}

std::string option_for(const ir::DimMismatch& mismatch, const KnownSymbols& known) {
  // Replaces the user's ranges by the defaults.
  KnownSymbols fresh = known;
  for (auto& [symbol, range] : fresh.ranges)
    range = {std::min<std::int64_t>(range.min, 1), kDefaultMaxDim, nullptr, range.from_data};
  ImportOptions any;
  const auto found = assume_equal(mismatch, fresh, any);
  return found ? found->option : "";
}

}  // namespace sinter::frontend
