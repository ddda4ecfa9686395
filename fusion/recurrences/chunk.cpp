// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/chunk.h"

#include <algorithm>

namespace sinter::fusion {
bool Chunk::is_sum(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& size) {
  auto summed = sequences_.running_sum(element, row);
  if (!summed) return false;
  // The sum's row may be a constant, of which the token is one: any stands for it.
  const Dim token = row.is_constant() ? row_ : row;
  if (row.is_constant()) {
    const Node& scan = *sequences_.graph().producer(terms().source(element).value);
    summed->index[static_cast<std::size_t>(scan.attrs.get_int("axis"))] = row_;
  }
  const bool is_by_head = (!decay_ || decay_->order.size() == 3) &&
                          sequences_.is(*summed, chunk, token, std::nullopt, decay_);
  return (is_by_head || sequences_.is(*summed, chunk, token, size, decay_)) &&
         decay_->heads == chunks().heads.value();
}

bool Chunk::is_difference(const ElementAt& element, const Dim& chunk, const Dim& row,
                          const Dim& column, const Dim& size) {
  const ElementAt last = terms().source(element);
  return terms().is(last, "Sub") != nullptr && is_sum(terms().operand(last, 0), chunk, row, size) &&
         is_sum(terms().operand(last, 1), chunk, column, size);
}

Chunk::Masked Chunk::unmasked(ProductTerm term, const Dim& row, const Dim& column) {
  Masked result{std::move(term), std::nullopt, std::nullopt};
  auto& factors = result.term.factors;
  const auto zero_above = [&](std::int64_t k) { result.k = std::max(result.k.value_or(k), k); };
  for (std::size_t i = 0; i < factors.size();) {
    const auto mask = terms().triangle(factors[i], row, column);
    if (!mask || !terms().is_number(mask->other, 0)) {
      ++i;
      continue;
    }
    zero_above(mask->k);
    ProductTerm kept = terms().product(mask->kept);
    factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(i));
    result.term.factor *= kept.factor;
    factors.insert(factors.end(), kept.factors.begin(), kept.factors.end());
    result.term.sums.insert(result.term.sums.end(), kept.sums.begin(), kept.sums.end());
    i = 0;
  }
  const auto power = take_factor(factors, [&](const ElementAt& f) { return is_exp(f); });
  if (!power) return result;
  result.exponent = terms().operand(*power, 0);
  if (const auto inner = terms().triangle(*result.exponent, row, column)) {
    // exp(-inf) is 0; above the diagonal of another mask anything may be left out.
    if (terms().is_number(inner->other, -kInfinity)) zero_above(inner->k);
    if (result.k && inner->k <= *result.k) result.exponent = inner->kept;
  }
  return result;
}

bool Chunk::are_scores(const ProductTerm& term, const char* what, double sign, std::int64_t k,
                       const Dim& chunk, const Dim& row, const Dim& column,
                       std::optional<Sequence>& rows, std::optional<Sequence>& keys) {
  const std::string name = what;
  const Masked masked = unmasked(term, row, column);
  auto factors = masked.term.factors;
  const auto key = take_factor(factors, [&](const ElementAt& f) { return depends_on(f, column); });
  if (masked.term.factor != sign || masked.term.sums.size() != 1 || !masked.exponent || !key ||
      factors.size() != 1)
    return no(name + " is no product of rows, keys and decays");
  if (masked.k != k) return no(name + " is not zero just for later tokens");
  const Dim size = Dim::symbol(masked.term.sums[0].first);
  if (!sequences_.is(*key, chunk, column, size, keys) ||
      !sequences_.is(factors[0], chunk, row, size, rows))
    return no(name + " is a product of other rows or keys");
  const bool decays =
      is_difference(*masked.exponent, chunk, row, column, size) ||
      is_segment_sum(*masked.exponent, row, column, [&](const ElementAt& summand, const Dim& j) {
        return sequences_.is(summand, chunk, j, std::nullopt, decay_) &&
               decay_->heads == chunks().heads.value();
      });
  return decays || no(name + " does not decay as its tokens do");
}

std::optional<Chunk::Read> Chunk::read(ProductTerm term, const Dim& chunk, const Dim& row,
                                       std::optional<Sequence>& rows) {
  auto& factors = term.factors;
  const bool is_zero = term.factor == 0;
  const auto power = take_factor(factors, [&](const ElementAt& f) { return is_exp(f); });
  const auto query = take_factor(factors, [&](const ElementAt& f) { return depends_on(f, row); });
  if ((!is_zero && term.factor != 1) || term.sums.size() != 1 || !power || !query ||
      factors.size() != (is_zero ? 0 : 1)) {
    no("what a chunk gives is not read from the state before it");
    return std::nullopt;
  }
  const Dim size = Dim::symbol(term.sums[0].first);
  if (!sequences_.is(*query, chunk, row, size, rows)) {
    no("the state is read with other rows");
    return std::nullopt;
  }
  if (!is_sum(terms().operand(*power, 0), chunk, row, size)) {
    no("the state does not decay as the chunk's own tokens do");
    return std::nullopt;
  }
  return Read{is_zero ? std::nullopt : std::optional(factors[0]), size};
}

bool Chunk::is_written(std::vector<ElementAt> factors, const Dim& chunk, const Dim& column,
                       const Dim& size, std::optional<Sequence>& keys) {
  const auto power = take_factor(factors, [&](const ElementAt& f) { return is_exp(f); });
  if (!power || factors.size() != 1) return no("what a chunk adds to the state is no product");
  if (!sequences_.is(factors[0], chunk, column, size, keys))
    return no("the state is written with other keys or values");
  return is_difference(terms().operand(*power, 0), chunk, last_row(), column, size) ||
         no("what a token writes does not decay up to the chunk's end");
}

}  // namespace sinter::fusion
