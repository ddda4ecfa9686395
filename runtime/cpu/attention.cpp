// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Tile sizes: a tile's keys, values, scores and accumulators fit a core's private cache.
constexpr std::int64_t kBlockQueries = 128, kBlockKeys = 128;
/// Above this number of rows, transposing the keys pays off.
constexpr std::int64_t kDotRows = 4;
/// Split-KV: at most 16 rows; 256 keys or more a split; at most 256 splits.
constexpr std::int64_t kPartedRows = 16, kPartKeys = 2 * kBlockKeys, kMostParts = 256;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }
std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return std::max<std::int64_t>(1, (count + size - 1) / size);
}

/// Widens `width` 8-bit elements and multiplies them by `scale`.
void load_scaled_bytes(DType type, const std::byte* from, std::int64_t width, float scale,
                       float* to) {
  if (type == DType::kInt8) {
    const auto* numbers = reinterpret_cast<const std::int8_t*>(from);
    for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<float>(numbers[i]) * scale;
    return;
  }
  static const std::array<float, 256> known = [] {
    std::array<float, 256> all{};
    std::array<std::byte, 256> codes{};
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
    load_floats(DType::kFloat8E4M3FN, codes.data(), 1, std::ssize(codes), all.data());
    return all;
  }();
  for (std::int64_t i = 0; i < width; ++i)
    to[i] = known[std::to_integer<std::size_t>(from[i])] * scale;
}

constexpr std::int64_t kLineFloats = 16;

/// Maximum number of parts for the rows of one sequence over a paged cache.
constexpr std::int64_t kMostSequenceParts = 4;

/// Floats of one row of a split: its accumulators, the maximum score and the sum of weights.
std::int64_t row_floats(std::int64_t padded) { return padded + kPanelStep; }

}  // namespace

CpuAttention::Operand CpuAttention::operand(const plan::fb::MatrixT& matrix,
                                            std::span<const std::int64_t> values,
                                            bool rows_are_keys) const {
  Operand result;
  result.buffer = matrix.buffer;
  result.dtype = static_cast<DType>(matrix.dtype);
  result.key = values[rows_are_keys ? matrix.row_stride : matrix.col_stride];
  const std::int64_t step = rows_are_keys ? 0 : values[matrix.row_stride];
  // Offsets of all index combinations, over either the shared or the other dimensions.
  const auto places = [&](bool shared, std::int64_t first) {
    std::vector<std::int64_t> all{first};
    for (std::size_t d = 0; d < batch_.size(); ++d) {
      if (shared_[d] != shared) continue;
      std::vector<std::int64_t> next;
      for (const std::int64_t at : all)
        for (std::int64_t i = 0; i < batch_[d]; ++i)
          next.push_back(at + i * values[matrix.batch_strides[d]]);
      all = std::move(next);
    }
    return all;
  };
  result.groups = places(false, values[matrix.offset]);
  if (rows_are_keys) return result;
  const std::vector<std::int64_t> heads = places(true, 0);
  for (std::int64_t query = 0; query < queries_; ++query)
    for (const std::int64_t head : heads) result.rows.push_back(query * step + head);
  return result;
}

CpuAttention::CpuAttention(const plan::fb::PlanT& plan, const plan::fb::AttentionStepT& step,
                           const BoundShape& shape, int threads)
    : queries_(shape.expressions[step.rows]),
      keys_(shape.expressions[step.keys]),
      head_(static_cast<std::int64_t>(step.head)),
      value_head_(static_cast<std::int64_t>(step.value_head)),
      has_mask_(step.mask != nullptr),
      has_limits_(step.limits != nullptr),
      has_scales_(step.key_scales != nullptr),
      guard_(step.guard),
      scale_(step.scale),
      fill_(step.fill),
      causal_(static_cast<int>(step.causal)),
      threads_(threads) {
  const auto& values = shape.expressions;
  for (std::size_t d = 0; d < step.batch.size(); ++d) {
    batch_.push_back(values[step.batch[d]]);
    shared_.push_back(values[step.k->batch_strides[d]] == 0 &&
                      values[step.v->batch_strides[d]] == 0);
    (shared_[d] ? heads_ : groups_) *= batch_[d];
  }
  rows_ = queries_ * heads_;
  if (rows_ == 0 || groups_ == 0) return;
  q_ = operand(*step.q, values, false);
  k_ = operand(*step.k, values, true);
  v_ = operand(*step.v, values, true);
  if (has_scales_) {
    key_scales_ = operand(*step.key_scales, values, true);
    value_scales_ = operand(*step.value_scales, values, true);
  }
  y_ = operand(*step.y, values, false);
  if (has_mask_) mask_ = operand(*step.mask, values, false);
  if (has_limits_) limits_ = operand(*step.limits, values, false);
  if (step.bounds) {
    bounds_ = {step.bounds->buffer,
               static_cast<DType>(step.bounds->dtype),
               values[step.bounds->col_stride],
               {values[step.bounds->offset]},
               {}};
    sequences_ = values[step.sequences];
    sequence_blocks_ = parts_of(values[step.longest] * heads_, kBlockQueries);
  }
  if (step.tables) {
    tables_ = {step.tables->buffer,
               DType::kInt32,
               values[step.tables->col_stride],
               {values[step.tables->offset]},
               {}};
    table_step_ = values[step.tables->row_stride];
    table_blocks_ = values[step.table_blocks];
    block_ = step.block;
    window_ = static_cast<std::int64_t>(step.window);
    sequence_blocks_ = std::min(sequence_blocks_, kMostSequenceParts);
  }
  padded_ = rounded_up(value_head_, kPanelStep);
  row_blocks_ = parts_of(rows_, kBlockQueries);
  const std::int64_t most = std::min(kMostParts / groups_, parts_of(keys_, kPartKeys));
  if (rows_ <= kPartedRows && most > 1 && !step.bounds) {
    part_keys_ = rounded_up(parts_of(keys_, most), kBlockKeys);
    parts_ = parts_of(keys_, part_keys_);
    shared_floats_ = groups_ * parts_ * rows_ * row_floats(padded_);
  }
  const std::int64_t rows = std::min(rows_, kBlockQueries);
  own_floats_ =
      rows * (head_ + kBlockKeys + row_floats(padded_)) + kBlockKeys * (2 * head_ + padded_ + 1);
  if (!step.scores) return;
  scores_.emplace(plan, *step.scores, values, kBlockKeys);
  own_floats_ = rounded_up(own_floats_, kLineFloats) +
                static_cast<std::int64_t>(scores_->workspace_bytes() / sizeof(float));
}

void CpuAttention::find_index(std::int64_t group, std::int64_t row, std::int64_t* index) const {
  std::int64_t head = row % heads_;
  index[batch_.size()] = row / heads_;
  for (std::size_t d = batch_.size(); d-- > 0;) {
    std::int64_t& rest = shared_[d] ? head : group;
    index[d] = rest % batch_[d];
    rest /= batch_[d];
  }
}

std::int64_t CpuAttention::seen(std::span<std::byte* const> buffers, std::int64_t group,
                                std::int64_t row) const {
  std::int64_t count = block_ > 0 ? table_blocks_ * block_ : keys_;
  if (has_limits_)
    count = std::min(
        count, load_int(limits_.dtype,
                        limits_.at(buffers, limits_.groups[static_cast<std::size_t>(group)] +
                                                limits_.rows[static_cast<std::size_t>(row)])));
  if (causal_ != 0) {
    const std::int64_t first = causal_ == 1 ? 1 : keys_ - queries_ + 1;
    count = std::min(count, first + row / heads_);
  }
  return std::max<std::int64_t>(count, 0);
}

CpuAttention::Sequence CpuAttention::sequence(std::span<std::byte* const> buffers,
                                              std::int64_t i) const {
  const auto bound = [&](std::int64_t at) {
    return load_int(bounds_.dtype, bounds_.at(buffers, bounds_.groups[0] + at * bounds_.key));
  };
  const std::int64_t begin = std::clamp<std::int64_t>(bound(i), 0, queries_);
  return {begin, std::clamp<std::int64_t>(bound(i + 1), begin, queries_), i};
}

/// Number of threads for the work of this run, given its limits.
int CpuAttention::team(std::span<std::byte* const> buffers) const {
  double keys = static_cast<double>(keys_) * static_cast<double>(rows_ * groups_);
  if (has_limits_ || causal_ != 0) {
    keys = 0;
    for (std::int64_t group = 0; group < groups_; ++group)
      for (std::int64_t row = 0; row < rows_; ++row)
        keys += static_cast<double>(seen(buffers, group, row));
  }
  if (sequences_ > 0 && block_ == 0) {
    keys = 0;
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const Sequence own = sequence(buffers, i);
      const auto length = static_cast<double>(own.end - own.begin);
      keys += length * length * static_cast<double>(heads_ * groups_);
    }
  }
  return threads_for(keys * static_cast<double>(head_ + value_head_), threads_);
}

/// One thread's work and scratch memory.
class CpuAttention::Worker {
 public:
  Worker(const CpuAttention& attention, std::span<std::byte* const> buffers, float* shared,
         float* own)
      : a_(attention), buffers_(buffers), shared_(shared) {
    float* const first = own;
    const std::int64_t rows = std::min(a_.rows_, kBlockQueries);
    const auto take = [&](std::int64_t count) {
      float* result = own;
      own += count;
      return result;
    };
    queries_ = take(rows * a_.head_);
    scores_ = take(rows * kBlockKeys);
    sums_ = take(rows * row_floats(a_.padded_));
    keys_ = take(kBlockKeys * a_.head_);
    panel_ = take(kBlockKeys * a_.head_);
    values_ = take(kBlockKeys * a_.padded_);
    mask_ = take(kBlockKeys);
    if (a_.scores_) {
      scratch_ = reinterpret_cast<std::byte*>(first + rounded_up(own - first, kLineFloats));
      index_.resize(a_.batch_.size() + 1);
    }
  }

  /// Computes one block of rows of a group over one split of the keys.
  void attend(std::int64_t group, std::int64_t block, std::int64_t part) {
    take_rows(group, block * kBlockQueries, a_.rows_);
    std::int64_t begin = 0, end = 0;
    for (std::int64_t r = 0; r < count_; ++r)
      end = std::max(end, seen_[r] = a_.seen(buffers_, group, first_ + r));
    if (a_.parts_ > 1) {
      begin = part * a_.part_keys_;
      end = std::min(end, begin + a_.part_keys_);
      place_sums(shared_ + (group * a_.parts_ + part) * count_ * row_floats(a_.padded_));
    } else {
      place_sums(sums_);
    }
    add_keys(begin, end);
    for (std::int64_t r = 0; r < count_; ++r) {
      state_[r].values[a_.padded_] = state_[r].greatest;
      state_[r].values[a_.padded_ + 1] = state_[r].sum;
    }
    if (a_.parts_ == 1) store_rows();
  }

  /// Computes block `block` of a sequence's rows, then every sequence_blocks_'th block after it.
  void attend_sequence(std::int64_t group, const Sequence& sequence, std::int64_t block) {
    const std::int64_t end = sequence.end * a_.heads_;
    for (std::int64_t first = sequence.begin * a_.heads_ + block * kBlockQueries; first < end;
         first += a_.sequence_blocks_ * kBlockQueries) {
      take_rows(group, first, end);
      place_sums(sums_);
      if (a_.block_ > 0) {
        add_paged_keys(sequence);
      } else {
        std::fill_n(seen_, count_, sequence.end);
        add_keys(sequence.begin, sequence.end);
      }
      store_rows();
    }
  }

  void add_paged_keys(const Sequence& sequence) {
    sequence_ = sequence.number;
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (std::int64_t r = 0; r < count_; ++r) {
      seen_[r] = a_.seen(buffers_, group_, first_ + r);
      from_[r] = a_.window_ > 0 ? std::max<std::int64_t>(0, seen_[r] - a_.window_) : 0;
      begin = std::min(begin, from_[r]);
      end = std::max(end, seen_[r]);
    }
    add_keys(begin / kBlockKeys * kBlockKeys, end);
  }

  /// Writes zeros for the queries [begin, end).
  void clear(std::int64_t group, std::int64_t begin, std::int64_t end) {
    group_ = group;
    std::fill_n(sums_, a_.padded_, 0.0F);
    for (std::int64_t row = begin * a_.heads_; row < end * a_.heads_; ++row)
      store(row, sums_, 1, kInfinity);
  }

  /// Combines the splits of a group's rows in fixed order and stores the result.
  void join(std::int64_t group) {
    group_ = group;
    const std::int64_t floats = row_floats(a_.padded_);
    for (std::int64_t row = 0; row < a_.rows_; ++row) {
      float* parts = shared_ + (group * a_.parts_ * a_.rows_ + row) * floats;
      const std::int64_t step = a_.rows_ * floats;
      float greatest = -kInfinity, sum = 0;
      for (std::int64_t p = 0; p < a_.parts_; ++p) {
        const float own = parts[p * step + a_.padded_];
        if (!(own <= greatest)) greatest = own;
      }
      std::fill_n(sums_, a_.padded_, 0.0F);
      for (std::int64_t p = 0; p < a_.parts_; ++p) {
        const float* part = parts + p * step;
        if (part[a_.padded_] == -kInfinity) continue;
        const float factor = std::exp(part[a_.padded_] - greatest);
        sum += factor * part[a_.padded_ + 1];
        for (std::int64_t c = 0; c < a_.padded_; ++c) sums_[c] += factor * part[c];
      }
      store(row, sums_, sum, greatest);
    }
  }

 private:
  const std::byte* at(const Operand& operand, std::int64_t row) const {
    return operand.at(buffers_, operand.groups[static_cast<std::size_t>(group_)] +
                                    operand.rows[static_cast<std::size_t>(row)]);
  }
  const std::byte* at_key(const Operand& operand, std::int64_t key) const {
    if (a_.block_ > 0) {
      const std::int64_t entry =
          a_.tables_.groups[0] + sequence_ * a_.table_step_ + key / a_.block_ * a_.tables_.key;
      const std::int64_t block = load_int(DType::kInt32, a_.tables_.at(buffers_, entry));
      key = block * a_.block_ + key % a_.block_;
      if (key < 0 || key >= a_.keys_) key = 0;  // block tables are untrusted input
    }
    return operand.at(buffers_,
                      operand.groups[static_cast<std::size_t>(group_)] + key * operand.key);
  }

  /// Loads a row of keys or values as floats; 8-bit values are multiplied by their scale.
  void load_row(const Operand& operand, const Operand& scales, std::int64_t key, std::int64_t width,
                float* to) const {
    const std::byte* from = at_key(operand, key);
    if (!a_.has_scales_) return load_floats(operand.dtype, from, 1, width, to);
    const float scale = *reinterpret_cast<const float*>(at_key(scales, key));
    load_scaled_bytes(operand.dtype, from, width, scale, to);
  }

  void take_rows(std::int64_t group, std::int64_t first, std::int64_t end) {
    group_ = group;
    first_ = first;
    count_ = std::min(kBlockQueries, end - first);
  }

  void add_keys(std::int64_t begin, std::int64_t end) {
    load_queries();
    for (; begin < end; begin += kBlockKeys) add_block(begin, std::min(kBlockKeys, end - begin));
  }

  void store_rows() {
    for (std::int64_t r = 0; r < count_; ++r)
      store(first_ + r, state_[r].values, state_[r].sum, state_[r].greatest);
  }

  void place_sums(float* sums) {
    for (std::int64_t r = 0; r < count_; ++r) {
      float* own = sums + r * row_floats(a_.padded_);
      std::fill_n(own, a_.padded_, 0.0F);
      state_[r] = {-kInfinity, 0, own, a_.padded_};
    }
  }

  void load_queries() {
    for (std::int64_t r = 0; r < count_; ++r) {
      const std::byte* from = at(a_.q_, first_ + r);
      q_[r] = reinterpret_cast<const float*>(from);
      if (a_.q_.dtype == DType::kFloat32) continue;
      load_floats(a_.q_.dtype, from, 1, a_.head_, queries_ + r * a_.head_);
      q_[r] = queries_ + r * a_.head_;
    }
  }

  void add_block(std::int64_t begin, std::int64_t count) {
    make_scores(begin, count);
    const float* weights[kBlockQueries];
    for (std::int64_t r = 0; r < count_; ++r) {
      float* scores = scores_ + r * kBlockKeys;
      weights[r] = scores;
      const std::int64_t seen = std::clamp<std::int64_t>(seen_[r] - begin, 0, count);
      std::fill(scores + seen, scores + count, 0.0F);
      mask(r, begin, seen, scores);
      // Keys before the window have weight 0.
      const std::int64_t from =
          a_.window_ > 0 ? std::clamp<std::int64_t>(from_[r] - begin, 0, seen) : 0;
      std::fill(scores, scores + from, 0.0F);
      add_scores(scores + from, seen - from, state_[r]);
    }
    const float* values = reinterpret_cast<const float*>(at_key(a_.v_, begin));
    std::int64_t pitch = a_.v_.key;
    if (a_.v_.dtype != DType::kFloat32 || a_.padded_ != a_.value_head_ || a_.block_ > 0) {
      for (std::int64_t key = 0; key < count; ++key) {
        float* row = values_ + key * a_.padded_;
        load_row(a_.v_, a_.value_scales_, begin + key, a_.value_head_, row);
        std::fill(row + a_.value_head_, row + a_.padded_, 0.0F);
      }
      values = values_;
      pitch = a_.padded_;
    }
    add_products(weights, count_, values, pitch, a_.padded_, count, state_[0].values,
                 row_floats(a_.padded_));
  }

  /// Computes q k' for the rows of the block.
  void make_scores(std::int64_t begin, std::int64_t count) {
    const float* keys = reinterpret_cast<const float*>(at_key(a_.k_, begin));
    std::int64_t pitch = a_.k_.key;
    if (a_.k_.dtype != DType::kFloat32 || a_.block_ > 0) {
      for (std::int64_t key = 0; key < count; ++key)
        load_row(a_.k_, a_.key_scales_, begin + key, a_.head_, keys_ + key * a_.head_);
      keys = keys_;
      pitch = a_.head_;
    }
    for (std::int64_t r = 0; r < count_; ++r) std::fill_n(scores_ + r * kBlockKeys, count, 0.0F);
    if (count_ <= kDotRows) {
      add_dots(q_, count_, keys, pitch, count, a_.head_, scores_, kBlockKeys);
      return;
    }
    const std::int64_t columns = rounded_up(count, kPanelStep);
    transpose_floats(keys, pitch, count, a_.head_, panel_, kBlockKeys);
    for (std::int64_t i = 0; columns > count && i < a_.head_; ++i)
      std::fill(panel_ + i * kBlockKeys + count, panel_ + i * kBlockKeys + columns, 0.0F);
    for (std::int64_t r = 0; r < count_; ++r)
      std::fill(scores_ + r * kBlockKeys + count, scores_ + r * kBlockKeys + columns, 0.0F);
    add_products(q_, count_, panel_, kBlockKeys, columns, a_.head_, scores_, kBlockKeys);
  }

  void mask(std::int64_t r, std::int64_t begin, std::int64_t count, float* scores) {
    scale_values(scores, count, a_.scale_);
    if (a_.scores_) {
      a_.find_index(group_, first_ + r, index_.data());
      a_.scores_->run(buffers_, index_, begin, count, scores, scratch_);
    }
    if (!a_.has_mask_) return;
    const Operand& operand = a_.mask_;
    const std::byte* from = at(operand, first_ + r) +
                            begin * operand.key * static_cast<std::int64_t>(size_of(operand.dtype));
    if (operand.dtype != DType::kBool) {
      load_floats(operand.dtype, from, operand.key, count, mask_);
      for (std::int64_t i = 0; i < count; ++i) scores[i] += mask_[i];
      return;
    }
    for (std::int64_t i = 0; i < count; ++i)
      if (from[i * operand.key] == std::byte{0}) scores[i] = a_.fill_;
  }

  /// Normalizes and stores a row. If it sees no key, or its sum is NaN, the weights are 0 / 0.
  /// Guard 1 replaces both cases by zeros, guard 2 only the first.
  void store(std::int64_t row, float* values, float sum, float greatest) {
    if (a_.scores_ && a_.scores_->has_sinks() && greatest < kInfinity) {
      a_.find_index(group_, row, index_.data());
      const float sink = a_.scores_->sink(buffers_, index_, scratch_);
      sum = sum == 0 ? 1 : sum + std::exp(sink - greatest);
    }
    if (sum > 0)
      scale_values(values, a_.padded_, 1 / sum);
    else
      std::fill_n(values, a_.padded_,
                  a_.guard_ == 1 || (a_.guard_ == 2 && sum == 0)
                      ? 0.0F
                      : std::numeric_limits<float>::quiet_NaN());
    store_floats(a_.y_.dtype, values, const_cast<std::byte*>(at(a_.y_, row)), 1, a_.value_head_);
  }

  const CpuAttention& a_;
  std::span<std::byte* const> buffers_;
  float* shared_;
  std::byte* scratch_ = nullptr;     // for the score program
  std::vector<std::int64_t> index_;  // of a row: batch indices, then the query
  float *queries_ = nullptr, *scores_ = nullptr, *sums_ = nullptr, *keys_ = nullptr,
        *panel_ = nullptr, *values_ = nullptr, *mask_ = nullptr;
  std::int64_t group_ = 0, first_ = 0, count_ = 0;
  std::int64_t sequence_ = 0;  // its block table locates the keys
  const float* q_[kBlockQueries];
  std::int64_t seen_[kBlockQueries];
  std::int64_t from_[kBlockQueries];  // first key in each row's window
  SoftmaxRow state_[kBlockQueries];
};

void CpuAttention::run_packed(std::span<std::byte* const> buffers,
                              std::span<std::byte* const> workspaces) const {
  const std::int64_t tasks = groups_ * sequences_ * sequence_blocks_;
  threads::run_parts(tasks, team(buffers), [&](threads::Member& member) {
    Worker own(*this, buffers, nullptr,
               reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(member.me())]));
    while (const auto task = member.next()) {
      const std::int64_t group = *task / (sequences_ * sequence_blocks_),
                         i = *task / sequence_blocks_ % sequences_,
                         block = *task % sequence_blocks_;
      const Sequence rows = sequence(buffers, i);
      if (i == 0 && block == 0) own.clear(group, 0, rows.begin);
      if (i + 1 == sequences_ && block == 0) own.clear(group, rows.end, queries_);
      own.attend_sequence(group, rows, block);
    }
  });
}

void CpuAttention::run(std::span<std::byte* const> buffers,
                       std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || groups_ == 0) return;
  if (sequences_ > 0) return run_packed(buffers, workspaces);
  auto* shared = reinterpret_cast<float*>(workspaces[0]);
  const std::int64_t all = groups_ * row_blocks_ * parts_;
  const auto worker = [&](int me) {
    return Worker(
        *this, buffers, shared,
        reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(me)]) + shared_floats_);
  };
  threads::run_parts(all, team(buffers), [&](threads::Member& member) {
    Worker own = worker(member.me());
    while (const auto task = member.next())
      own.attend(*task / (row_blocks_ * parts_), *task / parts_ % row_blocks_, *task % parts_);
  });
  if (parts_ == 1) return;
  Worker last = worker(0);
  for (std::int64_t group = 0; group < groups_; ++group) last.join(group);
}

}  // namespace sinter::runtime::cpu
