// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_access.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/cpu/tiles/tile_runs.h"
#include "runtime/format_error.h"

namespace sinter::runtime::cpu {
TileAccess::TileAccess(const BoundLoops& loops, const BoundAccess& access, const TileAxes& axes)
    : access_(access),
      axes_(axes),
      nodes_(loops.nodes),
      axis_count_(loops.extents.size()),
      compute_(compute_type(access.storage)),
      storage_size_(size_of(access.storage)),
      compute_size_(size_of(compute_)) {
  const auto strides = [&](const std::vector<std::size_t>& which) {
    Strides result;
    for (const std::size_t axis : which) {
      result.extents.push_back(loops.extents[axis]);
      result.steps.push_back(access.address.coefficients[axis]);
    }
    for (std::size_t d = 0; d + 1 < which.size(); ++d)
      result.linear &= result.steps[d] == result.steps[d + 1] * result.extents[d + 1];
    if (!result.steps.empty()) result.step = result.steps.back();
    return result;
  };
  y_ = strides(axes.y);
  x_ = strides(axes.x);
  y_walk_ = joined(y_);
  x_walk_ = joined(x_);
  if (!axes.x.empty()) x_outer_ = joined(strides({axes.x.begin(), axes.x.end() - 1}));
  for (const std::size_t axis : axes.z) z_steps_.push_back(access.address.coefficients[axis]);
  if (!x_.linear && x_.steps.front() == 0) {
    std::size_t first = 0;
    while (x_.steps[first] == 0) ++first;
    x_period_ = 1;
    for (std::size_t d = first; d < x_.extents.size(); ++d) x_period_ *= x_.extents[d];
  }
  same_in_runs_ = !axes.x.empty() && is_same_along(axes.x.back());
  linear_guards_ = !access.guards.empty() && access.nonlinear.empty() &&
                   std::ranges::all_of(access.guards, [](const BoundGuard& guard) {
                     return guard.linear.has_value();
                   });
  for (const BoundGuard& guard : access.guards) {
    if (!linear_guards_) break;
    GuardSteps steps{guard.linear->constant, guard.extent, {}, {}, {}};
    for (const auto& [of, to] :
         {std::pair(&axes.z, &steps.z), {&axes.y, &steps.y}, {&axes.x, &steps.x}})
      for (const std::size_t axis : *of) to->push_back(guard.linear->coefficients[axis]);
    guard_steps_.push_back(std::move(steps));
  }
  find_sliding();
}

bool TileAccess::is_same_along(std::size_t axis) const {
  std::vector<bool> varies(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const BoundNode& node = nodes_[i];
    if (node.op == plan::fb::ExprOp::Constant) continue;
    varies[i] =
        node.op == plan::fb::ExprOp::Symbol ? node.a == axis : varies[node.a] || varies[node.b];
  }
  return std::ranges::none_of(access_.nonlinear, [&](std::uint32_t n) { return varies[n]; }) &&
         std::ranges::none_of(access_.guards, [&](const BoundGuard& guard) {
           return guard.linear ? guard.linear->coefficients[axis] != 0 : varies[guard.node];
         });
}

std::int64_t TileAccess::fixed_offset(const Tile& tile) const {
  std::int64_t offset = access_.address.constant;
  for (std::size_t d = 0; d < z_steps_.size(); ++d) offset += z_steps_[d] * tile.z[d];
  return offset;
}

void TileAccess::refuse_address(std::int64_t address) const {
  throw invalid_plan_error(
      "element {} of buffer {} is addressed, which has {}: recompile the model", address,
      access_.buffer, access_.count);
}

bool TileAccess::gathers_by_element(Domain domain, GatherValues gathered) const {
  return domain.columns && std::ranges::any_of(access_.gathers, [&](const BoundGather& g) {
           return gathered.views[g.value].per_column;
         });
}

/// True if column runs are too short for a call each.
bool TileAccess::has_short_runs() const {
  constexpr std::int64_t kShortRun = 16, kShortCopy = 4;
  const bool copies = compute_ == access_.storage && x_walk_.steps.back() == 1;
  return !x_.linear && x_walk_.extents.back() < (copies ? kShortCopy : kShortRun);
}

View TileAccess::load(const std::byte* buffer, const Tile& tile, Domain domain,
                      GatherValues gathered, void* target, std::int64_t pitch) const {
  auto* to = static_cast<std::byte*>(target);
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  const View dense{target, domain.rows ? cols : 0, domain.columns};
  const bool by_element = gathers_by_element(domain, gathered);
  if (access_.is_plain() && !by_element && domain.columns && is_interleaved(tile)) {
    load_interleaved(buffer, tile, domain, gathered, to);
    return dense;
  }
  if (domain.rows && domain.columns && is_transposed()) {
    load_transposed(buffer, tile, to, pitch);
    return {target, pitch, true};
  }
  if (takes_rows(tile, domain, gathered)) {
    load_rows(buffer, tile, domain, gathered, to);
    return domain.columns ? dense : View{target, 1, false};
  }
  if (access_.is_plain() && !by_element && domain.columns && has_short_runs()) {
    load_gathered(buffer, tile, gathered, domain, to);
    return dense;
  }
  if (access_.is_plain() && !by_element) return load_plain(buffer, tile, domain, gathered, to);
  if (linear_guards_ && !by_element) {
    load_guarded(buffer, tile, domain, gathered, to);
    return dense;
  }
  if (access_.is_plain()) {
    load_gathered(buffer, tile, gathered, domain, to);
    return dense;
  }
  if (same_in_runs_ && domain.columns && !by_element) {
    load_by_runs(buffer, tile, domain, gathered, to);
    return dense;
  }
  for_each_element(
      tile, domain, gathered,
      [&](std::int64_t row, std::int64_t column, std::int64_t address, bool inside) {
        std::byte* element = to + static_cast<std::size_t>(row * cols + column) * compute_size_;
        if (inside)
          load_run(access_.storage, buffer + address * static_cast<std::int64_t>(storage_size_), 0,
                   element, 1);
        else
          fill_run(compute_, access_.fill, element, 1);
      });
  return dense;
}

bool TileAccess::is_transposed() const {
  return access_.is_plain() && access_.gathers.empty() && compute_ == access_.storage &&
         !x_.extents.empty() && x_.steps.back() > kMostStep && !y_.extents.empty() &&
         y_.steps.back() == 1 && y_.extents.back() > 1 && x_.extents.back() >= kMostStep * 4;
}

bool TileAccess::is_used_in_place() const {
  return access_.is_plain() && access_.gathers.empty() && compute_ == access_.storage &&
         x_.linear && x_.step == 1 && y_.linear;
}

void TileAccess::load_transposed(const std::byte* buffer, const Tile& tile, std::byte* target,
                                 std::int64_t pitch) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t fixed = fixed_offset(tile), step = x_.steps.back();
  Odometer y(y_.extents, tile.y0);
  for (std::int64_t r = 0; r < tile.rows;) {
    const std::int64_t rows = std::min(tile.rows - r, y.run());
    const std::int64_t start = fixed + y.form(y_.steps.data());
    Odometer x(x_.extents, tile.x0);
    for (std::int64_t c = 0; c < tile.cols;) {
      const std::int64_t cols = std::min(tile.cols - c, x.run());
      transpose(storage_size_, buffer + (start + x.form(x_.steps.data())) * size, step,
                target + (r * pitch + c) * size, pitch, rows, cols);
      x.skip(cols);
      c += cols;
    }
    y.skip(rows);
    r += rows;
  }
}

View TileAccess::load_plain(const std::byte* buffer, const Tile& tile, Domain domain,
                            GatherValues gathered, std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  const std::int64_t fixed = fixed_offset(tile);
  const bool same_type = compute_ == access_.storage;
  const std::int64_t x_step = domain.columns ? x_.step : 0;
  // Linear columns: used in place if their elements are contiguous or equal, else one run for each
  // row.
  if (!domain.columns || x_.linear) {
    const std::int64_t start = fixed + (domain.columns ? tile.x0 * x_step : 0);
    const bool usable = same_type && domain.columns && (x_step == 0 || x_step == 1);
    Walker y(y_walk_, domain.rows ? tile.y0 : 0);
    const bool regular =
        (!domain.rows || rows == 1 || y.run(rows) == rows) && access_.gathers.empty();
    const std::int64_t y_step = domain.rows && rows > 1 ? y.run_step() : 0;
    if (usable && (regular || rows == 1)) {
      const std::int64_t offset = start + (domain.rows ? y.offset() : 0) +
                                  (access_.gathers.empty() ? 0 : gathered_offset(gathered, 0, 0));
      return {buffer + offset * size, y_step, x_step == 1};
    }
    if (!domain.columns && regular) {
      // One value per row, stored contiguously, so that operators process all rows at once.
      load_run(access_.storage, buffer + (start + (domain.rows ? y.offset() : 0)) * size, y_step,
               target, rows);
      return {target, domain.rows ? 1 : 0, false};
    }
    if (same_type && x_step == 1 && access_.gathers.empty()) {
      for (std::int64_t r = 0; r < rows; ++r, y.next())
        copy_bytes(target + r * cols * size, buffer + (start + y.offset()) * size,
                   static_cast<std::size_t>(cols * size));
      return {target, cols, true};
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t offset = start + (domain.rows ? y.offset() : 0);
      if (!access_.gathers.empty()) offset += gathered_offset(gathered, r, 0);
      load_run(access_.storage, buffer + offset * size, x_step,
               target + static_cast<std::size_t>(r * cols) * compute_size_, cols);
      if (domain.rows) y.next();
    }
    return {target, domain.rows ? cols : 0, domain.columns};
  }
  Walker y(y_walk_, domain.rows ? tile.y0 : 0);
  const bool alike = access_.gathers.empty() && y_.linear && y_.step == 0;
  const auto row_bytes = static_cast<std::size_t>(cols) * compute_size_;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (alike && r > 0) {
      copy_bytes(target + static_cast<std::size_t>(r) * row_bytes, target, row_bytes);
      continue;
    }
    std::int64_t start = fixed + (domain.rows ? y.offset() : 0);
    if (!access_.gathers.empty()) start += gathered_offset(gathered, r, 0);
    Walker x(x_walk_, tile.x0);
    std::byte* const to = target + static_cast<std::size_t>(r) * row_bytes;
    const std::int64_t made = x_period_ > 0 ? std::min(cols, x_period_) : cols;
    for (std::int64_t c = 0; c < made;) {
      const std::int64_t n = x.run(made - c);
      load_run(access_.storage, buffer + (start + x.offset()) * size, x.run_step(),
               to + static_cast<std::size_t>(c) * compute_size_, n);
      x.skip(n);
      c += n;
    }
    for (std::int64_t c = made; c < cols; c *= 2)  // whole periods so far
      copy_bytes(to + static_cast<std::size_t>(c) * compute_size_, to,
                 static_cast<std::size_t>(std::min(c, cols - c)) * compute_size_);
    if (domain.rows) y.next();
  }
  return {target, domain.rows ? cols : 0, true};
}

void TileAccess::set_index(const std::vector<std::size_t>& axes, const Strides& strides,
                           std::int64_t joint, std::int64_t* index) {
  for (std::size_t d = axes.size(); d-- > 0;) {
    index[axes[d]] = joint % strides.extents[d];
    joint /= strides.extents[d];
  }
}

bool TileAccess::is_inside(const std::int64_t* index, std::span<const std::int64_t> values) const {
  return std::ranges::all_of(access_.guards, [&](const BoundGuard& guard) {
    if (!guard.linear) return values[guard.node] >= 0 && values[guard.node] < guard.extent;
    std::int64_t at = guard.linear->constant;
    for (std::size_t a = 0; a < axis_count_; ++a) at += guard.linear->coefficients[a] * index[a];
    return at >= 0 && at < guard.extent;
  });
}

std::int64_t TileAccess::address_at(const std::int64_t* index,
                                    std::span<const std::int64_t> values) const {
  std::int64_t address = access_.address.constant;
  for (std::size_t a = 0; a < axis_count_; ++a)
    address += access_.address.coefficients[a] * index[a];
  for (const std::uint32_t node : access_.nonlinear)
    address = static_cast<std::int64_t>(static_cast<std::uint64_t>(address) +
                                        static_cast<std::uint64_t>(values[node]));
  return address;
}

void TileAccess::load_by_runs(const std::byte* buffer, const Tile& tile, Domain domain,
                              GatherValues gathered, std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  std::array<std::int64_t, kMaxAxes> index{};
  std::vector<std::int64_t> values(nodes_.size());
  for (std::size_t d = 0; d < axes_.z.size(); ++d) index[axes_.z[d]] = tile.z[d];
  const std::int64_t step = x_.steps.back();
  for (std::int64_t r = 0; r < (domain.rows ? tile.rows : 1); ++r) {
    if (domain.rows) set_index(axes_.y, y_, tile.y0 + r, index.data());
    for (std::int64_t c = 0, n = 0; c < tile.cols; c += n) {
      set_index(axes_.x, x_, tile.x0 + c, index.data());
      n = std::min(tile.cols - c, x_.extents.back() - index[axes_.x.back()]);
      evaluate_nodes(nodes_, index.data(), values.data());
      std::byte* const to = target + static_cast<std::size_t>(r * tile.cols + c) * compute_size_;
      if (!is_inside(index.data(), values)) {
        fill_run(compute_, access_.fill, to, n);
        continue;
      }
      std::int64_t address = address_at(index.data(), values);
      if (!access_.gathers.empty()) address += gathered_offset(gathered, r, 0);
      const std::int64_t last = address + (n - 1) * step;
      if (std::min(address, last) < 0) refuse_address(std::min(address, last));
      if (std::max(address, last) >= access_.count) refuse_address(std::max(address, last));
      load_run(access_.storage, buffer + address * size, step, to, n);
    }
  }
}

template <typename Visit>
void TileAccess::for_each_element(const Tile& tile, Domain domain, GatherValues gathered,
                                  Visit&& visit) const {
  std::array<std::int64_t, kMaxAxes> index{};
  std::vector<std::int64_t> values(nodes_.size());
  const bool needs_nodes = !access_.is_plain();
  for (std::size_t d = 0; d < axes_.z.size(); ++d) index[axes_.z[d]] = tile.z[d];
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (domain.rows) set_index(axes_.y, y_, tile.y0 + r, index.data());
    for (std::int64_t c = 0; c < cols; ++c) {
      if (domain.columns) set_index(axes_.x, x_, tile.x0 + c, index.data());
      if (needs_nodes) evaluate_nodes(nodes_, index.data(), values.data());
      if (!is_inside(index.data(), values)) {
        visit(r, c, std::int64_t{0}, false);
        continue;
      }
      std::int64_t address = address_at(index.data(), values);
      if (!access_.gathers.empty()) address += gathered_offset(gathered, r, c);
      if (address < 0 || address >= access_.count) refuse_address(address);
      visit(r, c, address, true);
    }
  }
}

void TileAccess::find_places(const Tile& tile, GatherValues gathered,
                             std::span<std::int64_t> places) const {
  for_each_element(tile, {true, true}, gathered,
                   [&](std::int64_t row, std::int64_t column, std::int64_t address, bool) {
                     places[static_cast<std::size_t>(row * tile.cols + column)] = address;
                   });
}

std::int64_t TileAccess::period() const {
  const auto is_zero = [](std::int64_t step) { return step == 0; };
  if (!access_.is_plain() || !access_.gathers.empty() || x_.linear ||
      !std::ranges::all_of(y_.steps, is_zero) || !std::ranges::all_of(z_steps_, is_zero))
    return 0;
  std::int64_t columns = 1;
  for (const std::int64_t extent : x_.extents) columns *= extent;
  return x_period_ > 0 ? x_period_ : columns;
}

bool TileAccess::is_stream(std::int64_t cols) const {
  return access_.is_plain() && access_.gathers.empty() && x_.linear && x_.step == 1 &&
         (y_.extents.empty() || (y_.linear && y_.step == cols));
}

bool TileAccess::streams_rows(std::int64_t cols) const {
  return access_.is_plain() && access_.gathers.empty() && x_.linear && x_.step == 1 &&
         (y_.extents.empty() || (y_.linear && y_.step >= cols));
}

const std::byte* TileAccess::stream_address(const std::byte* buffer, std::int64_t y,
                                            std::int64_t x) const {
  return buffer +
         (access_.address.constant + y * y_.step + x) * static_cast<std::int64_t>(storage_size_);
}

bool TileAccess::in_place(std::byte* buffer, const Tile& tile, Domain domain, std::byte*& address,
                          std::int64_t& row_stride) const {
  if (compute_ != access_.storage || !access_.is_plain() || !access_.gathers.empty() ||
      !domain.columns || !x_.linear || (x_.step != 1 && tile.cols > 1))
    return false;
  const Walker y(y_walk_, domain.rows ? tile.y0 : 0);
  if (domain.rows && y.run(tile.rows) < tile.rows) return false;
  const std::int64_t offset =
      fixed_offset(tile) + tile.x0 * x_.step + (domain.rows ? y.offset() : 0);
  address = buffer + offset * static_cast<std::int64_t>(storage_size_);
  row_stride = domain.rows && tile.rows > 1 ? y.run_step() : tile.cols;
  return true;
}

void TileAccess::store(std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                       const View& value) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const auto value_size = static_cast<std::int64_t>(compute_size_);
  const auto* from = static_cast<const std::byte*>(value.data);
  const auto at = [&](std::int64_t r, std::int64_t c) {
    return from + (r * value.row_stride + (value.per_column ? c : 0)) * value_size;
  };
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  if (!access_.is_plain() || !access_.gathers.empty()) {
    for_each_element(tile, domain, gathered,
                     [&](std::int64_t r, std::int64_t c, std::int64_t address, bool inside) {
                       if (inside)
                         store_run(access_.storage, at(r, c), 0, buffer + address * size, 0, 1);
                     });
    return;
  }
  const std::int64_t fixed = fixed_offset(tile);
  Walker y(y_walk_, domain.rows ? tile.y0 : 0);
  // Contiguous row values: one strided run instead of single elements.
  if (!domain.columns && domain.rows && y_.linear && value.row_stride == 1) {
    store_run(access_.storage, from, 1, buffer + (fixed + y.offset()) * size, y_.step, rows);
    return;
  }
  if (domain.rows && domain.columns && value.per_column && x_.linear && x_.step == 1 &&
      compute_ == access_.storage) {
    for (std::int64_t r = 0; r < rows; ++r, y.next())
      copy_bytes(buffer + (fixed + y.offset() + tile.x0) * size, at(r, 0),
                 static_cast<std::size_t>(cols * size));
    return;
  }
  if (domain.rows && domain.columns && value.per_column && compute_ == access_.storage &&
      has_short_runs())
    return store_short_runs(buffer, tile, value);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t start = fixed + (domain.rows ? y.offset() : 0);
    if (!domain.columns) {
      store_run(access_.storage, at(r, 0), 0, buffer + start * size, 0, 1);
    } else {
      Walker x(x_walk_, tile.x0);
      for (std::int64_t c = 0; c < cols;) {
        const std::int64_t n = x.run(cols - c);
        store_run(access_.storage, at(r, c), value.per_column ? 1 : 0,
                  buffer + (start + x.offset()) * size, x.run_step(), n);
        x.skip(n);
        c += n;
      }
    }
    if (domain.rows) y.next();
  }
}

}  // namespace sinter::runtime::cpu
