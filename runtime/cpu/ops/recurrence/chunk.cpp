// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/recurrence/chunk.h"

#include <algorithm>
#include <cmath>

namespace sinter::runtime::cpu {
namespace {

// Of sums of decays, in absolute terms. They differ from that of the middle by at most twice this:
// factors of e^80 are within float32, and only decays of both signs have them.
constexpr float kMostDecay = 40;

/// y[m] += x[m] b for `rows` rows m; `columns` is a multiple of kPanelStep.
void multiply(const float* x, std::int64_t x_pitch, std::int64_t rows, const float* b,
              std::int64_t b_pitch, std::int64_t columns, std::int64_t k, float* y,
              std::int64_t y_pitch) {
  constexpr std::int64_t kRows = 24;
  const float* left[kRows];
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t count = std::min(kRows, rows - r);
    for (std::int64_t i = 0; i < count; ++i) left[i] = x + (r + i) * x_pitch;
    for (std::int64_t c = 0; c < columns; c += kPanelColumns)
      add_products(left, count, b + c, b_pitch, std::min(kPanelColumns, columns - c), k,
                   y + r * y_pitch + c, y_pitch);
  }
}

/// The same, row m by its first m + `more` elements alone: later tokens, which may be NaN, do not
/// reach earlier ones. y may be b: then more is 0, and row m reads finished rows.
void multiply_triangle(const float* x, std::int64_t rows, std::int64_t more, const float* b,
                       std::int64_t pitch, float* y) {
  constexpr std::int64_t kRows = 12;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t last = std::min(rows, first + kRows);
    multiply(x + first * kChunk, kChunk, last - first, b, pitch, pitch, first, y + first * pitch,
             pitch);
    for (std::int64_t r = first; r < last; ++r)
      multiply(x + r * kChunk + first, kChunk, 1, b + first * pitch, pitch, pitch, r + more - first,
               y + r * pitch, pitch);
  }
}

/// One chunk: rows of its tokens, from the first on.
class Chunk {
 public:
  Chunk(const StateSizes& sizes, const TokenRows& rows, std::int64_t first, std::int64_t count)
      : s_(sizes),
        r_(rows),
        count_(count),
        keys_(sizes.keys),
        pitch_(sizes.pitch()),
        columns_(rounded_up_to(count, kPanelStep)),
        decays_(sizes.decays()),
        middle_(rows.sums + count / 2 * decays_) {
    r_.query += first * keys_;
    r_.key += first * keys_;
    r_.value += first * pitch_;
    r_.decay += first * decays_;
    r_.beta += first;
    r_.erase += first * 2 * keys_;
    r_.out += first * pitch_;
  }

  void run() {
    const bool is_general = s_.rule == UpdateRule::kGeneralDelta;
    scale_operands();
    if (s_.rule == UpdateRule::kDelta) solve_delta();
    if (is_general) solve_general();
    for (std::int64_t q = 0; q < s_.queries; ++q) {
      const float* const query = r_.query + q * kChunk * keys_;
      float* const out = r_.out + q * kChunk * pitch_;
      std::fill(out, out + count_ * pitch_, 0.0F);
      multiply(query, keys_, count_, r_.state, pitch_, pitch_, keys_, out, pitch_);
      score(query, keys_, r_.key_t);
      multiply_triangle(r_.scores, count_, 1, r_.value, pitch_, out);
      if (!is_general) continue;
      score(query, keys_, r_.erase_t);
      multiply_triangle(r_.scores, count_, 1, r_.erased, pitch_, out);
    }
    multiply(r_.key_t, kChunk, keys_, r_.value, pitch_, pitch_, count_, r_.state, pitch_);
    if (is_general)
      multiply(r_.erase_t, kChunk, keys_, r_.erased, pitch_, pitch_, count_, r_.state, pitch_);
    if (decays_ > 0)
      scale_state([&](std::int64_t i) { return r_.sums[count_ * decays_ + i] - middle_[i]; });
  }

 private:
  /// Row i of the state times exp(exponent(i)).
  template <typename Exponent>
  void scale_state(const Exponent& exponent) {
    float factor = 1;
    for (std::int64_t i = 0; i < keys_; ++i) {
      if (i < decays_) factor = std::exp(exponent(i));
      scale_values(r_.state + i * pitch_, pitch_, factor);
    }
  }

  /// row *= factors, or 1 / factors, which are one for all or one for each.
  void scale(float* row, const float* factors, bool inverse) const {
    if (decays_ == 1) return scale_values(row, keys_, inverse ? 1 / *factors : *factors);
    if (inverse) {
#pragma omp simd
      for (std::int64_t i = 0; i < keys_; ++i) row[i] /= factors[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < keys_; ++i) row[i] *= factors[i];
    }
  }

  /// Scales what is read and written, and takes the state to the middle. What is written also lies
  /// in columns; negated keys stay in rows.
  void scale_operands() {
    const bool is_general = s_.rule == UpdateRule::kGeneralDelta;
    if (decays_ > 0) {
      scale_state([&](std::int64_t i) { return middle_[i]; });
      for (std::int64_t t = 0; t < count_; ++t) {
        float* const factors = r_.decay + t * decays_;
        // A token erases before its own decay.
        if (is_general) {
          for (std::int64_t i = 0; i < decays_; ++i)
            factors[i] = std::exp(r_.sums[t * decays_ + i] - middle_[i]);
          scale(r_.erase + t * 2 * keys_, factors, false);
        }
        for (std::int64_t i = 0; i < decays_; ++i)
          factors[i] = std::exp(r_.sums[(t + 1) * decays_ + i] - middle_[i]);
        for (std::int64_t q = 0; q < s_.queries; ++q)
          scale(r_.query + (q * kChunk + t) * keys_, factors, false);
        scale(r_.key + t * keys_, factors, true);
        if (is_general) scale(r_.erase + (t * 2 + 1) * keys_, factors, true);
      }
    }
    columns_of(r_.key, keys_, r_.key_t);
    if (is_general) columns_of(r_.erase + keys_, 2 * keys_, r_.erase_t);
    if (s_.rule != UpdateRule::kDelta) return;
    for (std::int64_t t = 0; t < count_; ++t) {
      float* const row = r_.key + t * keys_;
      // Divided, then multiplied twice: by exp(G - M), as what is read.
      for (int twice = 0; twice < 2 && decays_ > 0; ++twice)
        scale(row, r_.decay + t * decays_, false);
      scale_values(row, keys_, -1);
    }
  }

  void columns_of(const float* rows, std::int64_t rows_pitch, float* to) const {
    transpose_floats(rows, rows_pitch, count_, keys_, to, kChunk);
    for (std::int64_t i = 0; i < keys_; ++i)
      std::fill(to + i * kChunk + count_, to + i * kChunk + columns_, 0.0F);
  }

  /// Scores of what is read and what is written.
  void score(const float* rows, std::int64_t rows_pitch, const float* columns) {
    std::fill(r_.scores, r_.scores + count_ * kChunk, 0.0F);
    multiply(rows, rows_pitch, count_, columns, kChunk, columns_, keys_, r_.scores, kChunk);
  }

  /// Values become u.
  void solve_delta() {
    multiply(r_.key, keys_, count_, r_.state, pitch_, pitch_, keys_, r_.value, pitch_);
    score(r_.key, keys_, r_.key_t);
    for (std::int64_t t = 0; t < count_; ++t) {
      scale_values(r_.value + t * pitch_, pitch_, r_.beta[t]);
      scale_values(r_.scores + t * kChunk, columns_, r_.beta[t]);
    }
    multiply_triangle(r_.scores, count_, 0, r_.value, pitch_, r_.value);
  }

  void solve_general() {
    std::fill(r_.erased, r_.erased + count_ * pitch_, 0.0F);
    multiply(r_.erase, 2 * keys_, count_, r_.state, pitch_, pitch_, keys_, r_.erased, pitch_);
    score(r_.erase, 2 * keys_, r_.key_t);
    multiply_triangle(r_.scores, count_, 0, r_.value, pitch_, r_.erased);
    score(r_.erase, 2 * keys_, r_.erase_t);
    multiply_triangle(r_.scores, count_, 0, r_.erased, pitch_, r_.erased);
  }

  const StateSizes& s_;
  TokenRows r_;
  std::int64_t count_, keys_, pitch_, columns_, decays_;
  const float* middle_;
};

/// Calls `take(&member, floats)` for each array of the rows.
template <typename Take>
void each_array(const StateSizes& s, const Take& take) {
  const std::int64_t pitch = s.pitch();
  const bool is_general = s.rule == UpdateRule::kGeneralDelta;
  take(&TokenRows::query, s.queries * kChunk * s.keys);
  take(&TokenRows::key, kChunk * s.keys);
  take(&TokenRows::value, kChunk * pitch);
  take(&TokenRows::decay, kChunk * s.decays());
  take(&TokenRows::beta, kChunk);
  take(&TokenRows::erase, is_general ? kChunk * 2 * s.keys : 0);
  take(&TokenRows::state, s.keys * pitch);
  take(&TokenRows::out, s.queries * kChunk * pitch);
  take(&TokenRows::sums, (kChunk + 1) * s.decays());
  take(&TokenRows::key_t, s.keys * kChunk);
  take(&TokenRows::erase_t, is_general ? s.keys * kChunk : 0);
  take(&TokenRows::scores, kChunk * kChunk);
  take(&TokenRows::erased, kChunk * pitch);
}

}  // namespace

TokenRows::TokenRows(const StateSizes& sizes, float* memory) {
  each_array(sizes, [&](float* TokenRows::*array, std::int64_t count) {
    this->*array = memory;
    memory += rounded_up_to(count, kPanelStep);
  });
}

std::size_t TokenRows::floats(const StateSizes& sizes) {
  std::int64_t sum = 0;
  each_array(sizes, [&](float* TokenRows::*, std::int64_t count) {
    sum += rounded_up_to(count, kPanelStep);
  });
  return static_cast<std::size_t>(sum);
}

std::int64_t chunk_length(const StateSizes& sizes, TokenRows& rows, std::int64_t first,
                          std::int64_t count) {
  const std::int64_t decays = sizes.decays();
  if (decays == 0) return count;
  std::fill(rows.sums, rows.sums + decays, 0.0F);
  std::int64_t length = 0;
  for (; length < count; ++length) {
    const float *decay = rows.decay + (first + length) * decays,
                *before = rows.sums + length * decays;
    float* const sum = rows.sums + (length + 1) * decays;
    bool fits = true;
    for (std::int64_t i = 0; i < decays; ++i) {
      sum[i] = before[i] + decay[i];
      // Decays of either sign may come; not what is infinite or NaN.
      fits = fits && std::abs(sum[i]) <= kMostDecay;
    }
    if (!fits) break;
  }
  return std::max<std::int64_t>(length, 1);
}

void take_chunk(const StateSizes& sizes, TokenRows& rows, std::int64_t first, std::int64_t count) {
  Chunk(sizes, rows, first, count).run();
}

void take_tokens(const StateSizes& sizes, TokenRows& rows, std::int64_t first, std::int64_t count) {
  const std::int64_t keys = sizes.keys, pitch = sizes.pitch(), decays = sizes.decays();
  for (std::int64_t t = first; t < first + count; ++t) {
    float *const key = rows.key + t * keys, *const value = rows.value + t * pitch;
    const float* const erase = rows.erase + t * 2 * keys;
    if (sizes.rule == UpdateRule::kGeneralDelta) {
      std::fill(rows.erased, rows.erased + pitch, 0.0F);
      multiply(erase, keys, 1, rows.state, pitch, pitch, keys, rows.erased, pitch);
    }
    float factor = 1;
    for (std::int64_t i = 0; i < keys && decays > 0; ++i) {
      if (i < decays) factor = std::exp(rows.decay[t * decays + i]);
      scale_values(rows.state + i * pitch, pitch, factor);
    }
    if (sizes.rule == UpdateRule::kDelta) {
      float* const held = rows.erased;
      std::fill(held, held + pitch, 0.0F);
      multiply(key, keys, 1, rows.state, pitch, pitch, keys, held, pitch);
      for (std::int64_t i = 0; i < pitch; ++i) value[i] = rows.beta[t] * (value[i] - held[i]);
    }
    if (sizes.rule == UpdateRule::kGeneralDelta)
      multiply(erase + keys, 1, keys, rows.erased, pitch, pitch, 1, rows.state, pitch);
    multiply(key, 1, keys, value, pitch, pitch, 1, rows.state, pitch);
    for (std::int64_t q = 0; q < sizes.queries; ++q) {
      float* const out = rows.out + (q * kChunk + t) * pitch;
      std::fill(out, out + pitch, 0.0F);
      multiply(rows.query + (q * kChunk + t) * keys, keys, 1, rows.state, pitch, pitch, keys, out,
               pitch);
    }
  }
}

}  // namespace sinter::runtime::cpu
