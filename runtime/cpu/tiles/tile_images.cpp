// SPDX-License-Identifier: Apache-2.0
// Loads of padded images, whose channels are contiguous or get interleaved.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {

/// True if a few rows anywhere in memory are interleaved to adjacent elements: NCHW to NHWC.
bool TileAccess::is_interleaved(const Tile& tile) const {
  if (x_.linear || (storage_size_ != 1 && storage_size_ != sizeof(std::uint32_t)) ||
      compute_ != access_.storage)
    return false;
  const std::int64_t rows = x_.extents.back();
  return rows >= kLeastStep && rows <= kMostStep && x_.steps[x_.steps.size() - 2] == 1 &&
         tile.x0 % rows == 0 && tile.cols % rows == 0;
}

void TileAccess::load_interleaved(const std::byte* buffer, const Tile& tile, Domain domain,
                                  GatherValues gathered, std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t interleaved = x_.extents.back(), step = x_.steps.back();
  const Odometer first(x_outer_.extents, tile.x0 / interleaved);
  const std::int64_t fixed = fixed_offset(tile), row_bytes = tile.cols * size;
  Walker y(y_walk_, domain.rows ? tile.y0 : 0);
  std::int64_t before = -1;
  for (std::int64_t r = 0; r < (domain.rows ? tile.rows : 1); ++r) {
    std::int64_t start = fixed + (domain.rows ? y.offset() : 0);
    if (domain.rows) y.next();
    if (!access_.gathers.empty()) start += gathered_offset(gathered, r, 0);
    if (start == before) {  // enlarged images repeat rows
      copy_bytes(target, target - row_bytes, static_cast<std::size_t>(row_bytes));
      target += row_bytes;
      continue;
    }
    before = start;
    Odometer x = first;
    for (std::int64_t c = 0; c < tile.cols;) {
      const std::int64_t n = std::min(tile.cols - c, x.run() * interleaved) / interleaved;
      interleave(storage_size_, buffer + (start + x.form(x_outer_.steps.data())) * size,
                 interleaved, step, target, n);
      target += n * interleaved * size;
      c += n * interleaved;
      x.skip(n);
    }
  }
}

/// True if guards do not depend on an image's channels (last), and channels are contiguous in
/// memory or get interleaved.
bool TileAccess::is_guarded_image(const Tile& tile) const {
  const std::size_t loops = x_.extents.size();
  if (loops < 2 || !access_.gathers.empty()) return false;
  const std::int64_t channels = x_.extents.back();
  const bool together = x_.steps[loops - 1] == 1 && x_.steps[loops - 2] == channels &&
                        tile.x0 % channels == 0 && tile.cols % channels == 0;
  return (together || (is_interleaved(tile) && x_.steps[loops - 1] > 0)) &&
         std::ranges::all_of(guard_steps_,
                             [](const GuardSteps& guard) { return guard.x.back() == 0; });
}

/// Loads an image with padding, pixel by pixel (all channels of a position).
void TileAccess::load_guarded_image(const std::byte* buffer, const Tile& tile, Domain domain,
                                    std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t channels = x_.extents.back(), step = x_.steps.back();
  const std::vector<std::int64_t> extents(x_.extents.begin(), x_.extents.end() - 1);
  const Odometer first(extents, tile.x0 / channels);
  const std::int64_t fixed = fixed_offset(tile), x_step = x_.steps[extents.size() - 1];
  Odometer y(y_.extents, domain.rows ? tile.y0 : 0);
  const auto fill = [&](std::int64_t count) {
    if (count <= 0) return;
    fill_run(compute_, access_.fill, target, count * channels);
    target += static_cast<std::size_t>(count * channels) * compute_size_;
  };
  for (std::int64_t r = 0; r < (domain.rows ? tile.rows : 1); ++r) {
    const std::int64_t start = fixed + y.form(y_.steps.data());
    Odometer x = first;
    for (std::int64_t left = tile.cols / channels; left > 0;) {
      const std::int64_t n = std::min(left, x.run());
      Interval inside{0, n};
      for (const GuardSteps& guard : guard_steps_) {
        std::int64_t base = guard.constant + y.form(guard.y.data()) + x.form(guard.x.data());
        for (std::size_t d = 0; d < guard.z.size(); ++d) base += guard.z[d] * tile.z[d];
        const Interval one = valid(base, guard.x[extents.size() - 1], guard.extent, n);
        inside.low = std::max(inside.low, one.low);
        inside.high = std::min(inside.high, one.high);
      }
      inside.low = std::min(inside.low, n);
      inside.high = std::clamp(inside.high, inside.low, n);
      fill(inside.low);
      if (const std::int64_t count = inside.high - inside.low; count > 0) {
        const std::int64_t begin = start + x.form(x_.steps.data()) + inside.low * x_step,
                           end = begin + (count - 1) * x_step + step * (channels - 1);
        if (begin < 0) refuse_address(begin);
        if (end >= access_.count) refuse_address(end);
        const std::byte* from = buffer + begin * size;
        if (step == 1)
          load_run(access_.storage, from, 1, target, count * channels);
        else
          interleave(storage_size_, from, channels, step, target, count);
        target += static_cast<std::size_t>(count * channels) * compute_size_;
      }
      fill(n - inside.high);
      left -= n;
      x.skip(n);
    }
    if (domain.rows && !y_.extents.empty()) y.skip(1);
  }
}

namespace {

/// Guards that are kept on the stack.
constexpr std::size_t kFewGuards = 8;

/// The elements that both intervals have; empty ones begin within `count`.
Interval common(Interval a, Interval b, std::int64_t count) {
  const std::int64_t low = std::min(std::max(a.low, b.low), count);
  return {low, std::clamp(std::min(a.high, b.high), low, count)};
}

/// A linear form over the loops of a tile: an address, or the index of a guard.
struct Form {
  const std::int64_t *y, *x;  // steps
  std::int64_t fixed;         // of z, and of the columns where a tile begins
  std::int64_t row, now;      // where a row begins; at the current run
  std::int64_t extent, step;  // of a guard; along a run
};

/// The runs of contiguous columns in a tile's rows, with several forms at their beginnings.
class ColumnRuns {
 public:
  ColumnRuns(const std::vector<std::int64_t>& extents, std::int64_t x0, std::span<Form> forms)
      : extents_(extents), last_(extents.empty() ? 0 : extents.size() - 1), forms_(forms) {
    for (std::size_t d = extents.size(); d-- > 0;) {
      first_[d] = x0 % extents[d];
      x0 /= extents[d];
    }
    for (Form& form : forms)
      for (std::size_t d = 0; d < extents.size(); ++d) form.fixed += first_[d] * form.x[d];
  }

  void begin_row() {
    std::copy_n(first_.begin(), extents_.size(), index_.begin());
    for (Form& form : forms_) form.now = form.row;
  }
  /// Where the run begins along the innermost loop.
  std::int64_t begin() const { return extents_.empty() ? 0 : index_[last_]; }
  /// Columns until the end of the run, at most `most`.
  std::int64_t length(std::int64_t most) const {
    return extents_.empty() ? most : std::min(most, extents_[last_] - index_[last_]);
  }
  /// Goes on to the next run of the row.
  void next() {
    for (Form& form : forms_) form.now -= index_[last_] * form.x[last_];
    index_[last_] = 0;
    for (std::size_t d = last_; d-- > 0;) {
      for (Form& form : forms_) form.now += form.x[d];
      if (++index_[d] < extents_[d]) return;
      for (Form& form : forms_) form.now -= extents_[d] * form.x[d];
      index_[d] = 0;
    }
  }

 private:
  const std::vector<std::int64_t>& extents_;
  std::size_t last_;
  std::span<Form> forms_;
  std::array<std::int64_t, kMaxAxes> first_, index_;
};

/// Fills elements of one type with one value.
class Filler {
 public:
  Filler(DType type, double value) : type_(type), value_(value) {
    if (size_of(type) == sizeof word_)
      fill_run(type, value, reinterpret_cast<std::byte*>(&word_), 1);
  }
  void operator()(std::byte* to, std::int64_t count) const {
    if (size_of(type_) == sizeof word_)
      std::fill_n(reinterpret_cast<std::uint32_t*>(to), count, word_);
    else if (count > 0)
      fill_run(type_, value_, to, count);
  }

 private:
  DType type_;
  double value_;
  std::uint32_t word_ = 0;
};

void copy_element(std::byte* to, const std::byte* from, std::size_t size) {
  switch (size) {
    case 1: *to = *from; return;
    case 4: std::memcpy(to, from, 4); return;
    default: std::memcpy(to, from, size);
  }
}

}  // namespace

void TileAccess::load_guarded(const std::byte* buffer, const Tile& tile, Domain domain,
                              GatherValues gathered, std::byte* target) const {
  if (domain.columns && is_guarded_image(tile))
    return load_guarded_image(buffer, tile, domain, target);
  static const std::vector<std::int64_t> kNoLoops;
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  const std::vector<std::int64_t>& loops = domain.columns ? x_.extents : kNoLoops;
  const bool has_x = !loops.empty();
  const std::int64_t x_step = has_x ? x_.steps.back() : 0, width = has_x ? loops.back() : 1;
  // The address, guards that vary along outer column loops, and those that do not.
  std::array<Form, kFewGuards + 1> few;
  std::vector<Form> many(guard_steps_.size() > kFewGuards ? guard_steps_.size() + 1 : 0);
  Form* const forms = many.empty() ? few.data() : many.data();
  forms[0] = {y_.steps.data(), x_.steps.data(), fixed_offset(tile), 0, 0, 0, x_step};
  std::size_t varying = 1, inner = guard_steps_.size() + 1;
  for (const GuardSteps& guard : guard_steps_) {
    const auto is_fixed = [](std::int64_t step) { return step == 0; };
    const bool is_inner = !has_x || std::all_of(guard.x.begin(), guard.x.end() - 1, is_fixed);
    Form& form = forms[is_inner ? --inner : varying++];
    form = {guard.y.data(),
            guard.x.data(),
            guard.constant,
            0,
            0,
            guard.extent,
            has_x ? guard.x.back() : 0};
    for (std::size_t d = 0; d < guard.z.size(); ++d) form.fixed += guard.z[d] * tile.z[d];
  }
  const std::span moving(forms, varying), still(forms + inner, guard_steps_.size() + 1 - inner);
  // Guards of the rows of an image hold for an interval of these.
  const bool is_image =
      loops.size() == 2 &&
      std::ranges::all_of(moving.subspan(1), [](const Form& form) { return form.step == 0; });
  ColumnRuns runs(loops, has_x ? tile.x0 : 0, is_image ? moving.first(1) : moving);
  const bool same_type = compute_ == access_.storage, copies = x_step == 1 && same_type;
  const Filler fill(compute_, access_.fill);
  const auto check = [&](std::int64_t first, std::int64_t last) {
    if (std::min(first, last) < 0) refuse_address(std::min(first, last));
    if (std::max(first, last) >= access_.count) refuse_address(std::max(first, last));
  };
  // Columns in one run of memory are copied at once; what guards exclude is overwritten.
  const bool is_dense = copies && has_x && x_.linear;
  Odometer y(y_.extents, domain.rows ? tile.y0 : 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (Form& form : moving) form.row = form.fixed + y.form(form.y);
    Interval in_run{0, width};
    for (const Form& form : still)
      in_run =
          common(in_run, valid(form.fixed + y.form(form.y), form.step, form.extent, width), width);
    if (!access_.gathers.empty()) forms[0].row += gathered_offset(gathered, r, 0);
    std::byte* const row = target + static_cast<std::size_t>(r * cols) * compute_size_;
    const auto at = [&](std::int64_t column) {
      return row + static_cast<std::size_t>(column) * compute_size_;
    };
    if (is_dense) {
      const std::int64_t address = forms[0].row,
                         first = std::clamp<std::int64_t>(-address, 0, cols),
                         end = std::clamp(access_.count - address, first, cols);
      copy_bytes(at(first), buffer + (address + first) * size,
                 static_cast<std::size_t>((end - first) * size));
    }
    Interval open{0, is_image ? loops[0] : 0};
    for (const Form& form : moving.subspan(1))
      if (is_image)
        open = common(open, valid(form.fixed + y.form(form.y), form.x[0], form.extent, loops[0]),
                      loops[0]);
    runs.begin_row();
    for (std::int64_t c = 0, line = has_x ? tile.x0 / width : 0; c < cols; ++line) {
      const std::int64_t n = runs.length(cols - c), begin = runs.begin();
      Interval inside =
          n == width ? in_run : common({in_run.low - begin, in_run.high - begin}, {0, n}, n);
      if (is_image && (line < open.low || line >= open.high)) inside = {0, 0};
      for (const Form& form : moving.subspan(is_image ? moving.size() : 1)) {
        if (form.step != 0)
          inside = common(inside, valid(form.now, form.step, form.extent, n), n);
        else if (form.now < 0 || form.now >= form.extent)
          inside = {0, 0};
      }
      const std::int64_t count = inside.high - inside.low;
      if (count == 0) {
        fill(at(c), n);
      } else {
        const std::int64_t first = forms[0].now + inside.low * x_step;
        check(first, first + (count - 1) * x_step);
        const std::byte* const from = buffer + first * size;
        std::byte* const to = at(c + inside.low);
        if (inside.low > 0) fill(at(c), inside.low);
        if (inside.high < n) fill(at(c + inside.high), n - inside.high);
        if (copies && !is_dense) {
          copy_bytes(to, from, static_cast<std::size_t>(count * size));
        } else if (count == 1 && same_type) {
          copy_element(to, from, storage_size_);
        } else if (!copies) {
          load_run(access_.storage, from, x_step, to, count);
        }
      }
      c += n;
      if (c < cols) runs.next();
    }
    if (domain.rows && !y_.extents.empty()) y.skip(1);
  }
}

}  // namespace sinter::runtime::cpu
