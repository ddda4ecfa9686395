// SPDX-License-Identifier: Apache-2.0
// Runs tile programs.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "runtime/cpu/tiles/tile_program.h"
#include "runtime/cpu/tiles/tile_runs.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

/// State of one thread that runs a program.
class TileProgram::Worker {
 public:
  Worker(const TileProgram& program, std::span<std::byte* const> buffers, std::byte* workspace)
      : p_(program),
        s_(program.schedule_),
        buffers_(buffers),
        workspace_(workspace),
        views_(reinterpret_cast<View*>(workspace + program.views_offset_)),
        forwarded_(reinterpret_cast<char*>(workspace + program.forwarded_offset_)),
        loaded_(reinterpret_cast<LoadedColumns*>(workspace + program.loaded_offset_)) {
    std::ranges::copy(program.uniforms_, views_);
    std::fill_n(loaded_, program.uniforms_.size(), LoadedColumns{});
    std::fill_n(forwarded_, program.uniforms_.size(), 0);
    tile_.z = z_.data();
  }

  /// Sets the index of the z loops. `first`: the first repetition of a tile.
  void begin(std::int64_t z, bool first) {
    for (std::size_t d = s_.z_extents.size(); d-- > 0;) {
      z_[d] = z % s_.z_extents[d];
      z /= s_.z_extents[d];
    }
    first_ = first;
  }

  /// Runs all stages over the given rows. Covers columns [x0, x0 + cols), which may be a part only
  /// without reductions.
  void run_along(std::int64_t y0, std::int64_t rows, std::int64_t x0, std::int64_t cols) {
    tile_.y0 = y0;
    tile_.rows = rows;
    later_columns_ = x0 > 0;
    const bool row_done = x0 + cols == s_.x_count;
    begin_ahead(row_done ? y0 + rows : y0, row_done ? 0 : x0 + cols, rows * cols);
    for (const Stage& stage : p_.stages_) {
      tile_.x0 = x0;
      tile_.cols = cols;
      begin_stage(stage, rows);
      if (!stage.body.empty()) {
        for (std::int64_t x = x0; x < x0 + cols; x += s_.tile_cols) {
          tile_.x0 = x;
          tile_.cols = std::min(s_.tile_cols, x0 + cols - x);
          done_ = x;
          run_body(stage.body);
        }
      }
      end_stage(stage, rows);
    }
  }

  /// Runs all stages over `cols` adjacent rows ("across").
  void run_across(std::int64_t x0, std::int64_t cols) {
    tile_.x0 = x0;
    tile_.cols = cols;
    for (const Stage& stage : p_.stages_) {
      tile_.y0 = 0;
      tile_.rows = 1;
      begin_stage(stage, cols);
      if (!stage.body.empty()) {
        for (std::int64_t y = 0; y < s_.y_count; y += s_.tile_rows) {
          tile_.y0 = y;
          tile_.rows = std::min(s_.tile_rows, s_.y_count - y);
          done_ = y * cols;
          run_body(stage.body);
        }
      }
      end_stage(stage, cols);
    }
  }

 private:
  void begin_stage(const Stage& stage, std::int64_t row_values) {
    run(stage.row);
    for (const std::uint32_t r : stage.reductions)
      if (!p_.reductions_[r].slides)
        p_.reductions_[r].kernels.init(workspace_ + p_.reductions_[r].accumulators, row_values);
    for (const RunningScan& scan : p_.scans_)
      scan.kernels.init(workspace_ + scan.carries, row_values);
  }

  void end_stage(const Stage& stage, std::int64_t row_values) {
    for (const std::uint32_t r : stage.reductions) {
      const Reduction& reduction = p_.reductions_[r];
      std::byte* result = workspace_ + reduction.result;
      if (!reduction.slides)
        reduction.kernels.finish(workspace_ + reduction.accumulators, result, row_values);
      views_[reduction.value] = row_view(result);
    }
  }

  View row_view(const void* data) const {
    return s_.across ? View{data, 0, true} : View{data, 1, false};
  }
  Domain domain_of(ValueClass value_class) const {
    if (value_class == ValueClass::kElement) return {true, true};
    return s_.across ? Domain{false, true} : Domain{true, false};
  }
  std::byte* buffer_of(const TileAccess& access) const { return buffers_[access.access().buffer]; }
  GatherValues gathered() const { return {views_, p_.types_.data()}; }

  /// Address of an instruction's result in the workspace.
  std::byte* place_of(const TileInstr& instr) const {
    std::byte* place = workspace_ + instr.offset;
    return instr.kept ? place + static_cast<std::size_t>(done_) * size_of(instr.type) : place;
  }

  /// Prepares prefetching for the next unit of work: `count` elements from (y, x) on.
  void begin_ahead(std::int64_t y, std::int64_t x, std::int64_t count) {
    if (y >= s_.y_count) count = 0;
    ahead_y_ = y;
    ahead_x_ = x;
    ahead_ = 0;
    ahead_end_ = count;
    // Steps of at least one cache line of float32.
    ahead_step_ = std::max<std::int64_t>(16, (count / p_.unit_instrs_ + 15) / 16 * 16);
  }

  /// Prefetches a part of the next unit during this one.
  void fetch_ahead() {
    if (ahead_ >= ahead_end_) return;
    constexpr std::int64_t kLine = 64;
    for (const std::uint32_t a : p_.streams_) {
      const TileAccess& access = p_.accesses_[a];
      const std::byte* const buffer = buffer_of(access);
      const auto size = static_cast<std::int64_t>(size_of(access.access().storage));
      const auto fetch = [&](std::int64_t y, std::int64_t x, std::int64_t count) {
        const std::byte* begin = access.stream_address(buffer, y, x);
        for (std::int64_t b = 0; b < count * size; b += kLine) __builtin_prefetch(begin + b, 0, 2);
      };
      if (access.is_stream(s_.x_count)) {
        fetch(ahead_y_, ahead_x_ + ahead_, ahead_step_);
        continue;
      }
      for (std::int64_t at = ahead_x_ + ahead_, end = at + ahead_step_; at < end;) {
        const std::int64_t row = at / s_.x_count, column = at % s_.x_count;
        const std::int64_t count = std::min(s_.x_count - column, end - at);
        if (ahead_y_ + row >= s_.y_count) break;
        fetch(ahead_y_ + row, column, count);
        at += count;
      }
    }
    ahead_ += ahead_step_;
  }

  void run_body(const std::vector<TileInstr>& instrs) {
    for (const TileInstr& instr : instrs) {
      run_one(instr);
      fetch_ahead();
    }
  }

  void run(const std::vector<TileInstr>& instrs) {
    for (const TileInstr& instr : instrs) run_one(instr);
  }

  void run_one(const TileInstr& instr) {
    if (instr.steady && !first_) return;
    switch (instr.kind) {
      case TileInstr::Kind::kLoad: {
        const TileAccess& access = p_.accesses_[instr.access];
        const Domain domain = domain_of(instr.value_class);
        if (is_loaded(instr)) break;
        if (instr.offsets != TileInstr::kNoOffsets) {
          auto* offsets = reinterpret_cast<std::int32_t*>(workspace_ + instr.offsets);
          if (first_) access.find_offsets(tile_, gathered(), offsets);
          views_[instr.value] = access.load_at(buffer_of(access), tile_, offsets, place_of(instr));
          break;
        }
        const auto [target, pitch] = load_target(instr, access);
        if (instr.column_offsets != TileInstr::kNoOffsets) {
          load_columns(instr, access, target);
          break;
        }
        views_[instr.value] = access.load(buffer_of(access), tile_, domain, gathered(),
                                          target ? target : place_of(instr), pitch);
        if (instr.target != TileInstr::kNone)
          forwarded_[instr.value] = target && views_[instr.value].data == target;
        if (instr.kept) keep(instr);
        break;
      }
      case TileInstr::Kind::kOp:
        if (!is_loaded(instr)) run_op(instr);
        break;
      case TileInstr::Kind::kChain:
        if (!is_loaded(instr)) run_chain_of(instr);
        break;
      case TileInstr::Kind::kReduce: {
        const Reduction& reduction = p_.reductions_[instr.reduction];
        if (instr.access != TileInstr::kNone) {
          const TileAccess& access = p_.accesses_[instr.access];
          std::byte* const accumulators = workspace_ + reduction.accumulators;
          if (instr.slides)
            access.reduce_sliding(buffer_of(access), tile_, instr.kernel, reduction.combine,
                                  workspace_ + instr.offset, workspace_ + reduction.result);
          else
            access.reduce(buffer_of(access), tile_, reduction.kernels, accumulators);
          break;
        }
        const ReduceArgs args{tile_.rows, tile_.cols, views_[instr.args[0]],
                              workspace_ + reduction.accumulators};
        (s_.across ? reduction.kernels.along_columns : reduction.kernels.along_rows)(args);
        break;
      }
      case TileInstr::Kind::kFirst: {
        const Reduction& reduction = p_.reductions_[instr.reduction];
        const ReduceKernels& kernels = reduction.kernels;
        std::byte* accumulators = workspace_ + reduction.accumulators;
        const ReduceArgs flags{tile_.rows, tile_.cols, views_[instr.args[0]], accumulators};
        const View& otherwise = views_[instr.args[1]];
        if (s_.across) {
          kernels.flagged_rows(flags, tile_.y0);
          kernels.along_columns({1, tile_.cols, otherwise, accumulators});
        } else {
          kernels.flagged_columns(flags, tile_.x0);
          kernels.along_rows({tile_.rows, 1, otherwise, accumulators});
        }
        break;
      }
      case TileInstr::Kind::kStore: {
        if (instr.target != TileInstr::kNone && forwarded_[instr.args[0]]) break;
        // Row values were stored by the first tile of these rows.
        if (instr.value_class == ValueClass::kRow && later_columns_) break;
        const TileAccess& access = p_.accesses_[instr.access];
        access.store(buffer_of(access), tile_, domain_of(instr.value_class), gathered(),
                     views_[instr.args[0]]);
        break;
      }
      case TileInstr::Kind::kScatter: {
        const TileAccess& access = p_.accesses_[instr.access];
        access.scatter(buffer_of(access), tile_, gathered(), views_[instr.args[0]], instr.combine);
        break;
      }
      case TileInstr::Kind::kScan: {
        const RunningScan& scan = p_.scans_[instr.scan];
        const View value = views_[instr.args[0]];
        const auto [result, stride] = result_of(instr, place_of(instr));
        const ScanArgs args{tile_.rows,    tile_.cols, value,
                            result,        stride,     workspace_ + scan.carries,
                            scan.exclusive};
        (s_.across ? scan.kernels.along_columns : scan.kernels.along_rows)(args);
        break;
      }
      case TileInstr::Kind::kIndex:
        if (!is_loaded(instr)) run_index(instr);
        break;
      case TileInstr::Kind::kResume:
        views_[instr.value] = {place_of(instr), tile_.cols, true};
        break;
    }
  }

  /// Whether columns that repeat are still where an earlier tile of this thread has put them; notes
  /// that they will be.
  bool is_loaded(const TileInstr& instr) {
    if (instr.period == 0) return false;
    LoadedColumns& loaded = loaded_[instr.value];
    const std::int64_t phase = tile_.x0 % instr.period;
    const bool is_there = tile_.rows == 1 ? loaded.cols >= tile_.cols
                                          : loaded.cols == tile_.cols && loaded.rows >= tile_.rows;
    if (loaded.phase == phase && is_there) return true;
    loaded = {phase, tile_.cols, tile_.rows};
    return false;
  }

  void load_columns(const TileInstr& instr, const TileAccess& access, std::byte* target) {
    auto* offsets = reinterpret_cast<std::int32_t*>(workspace_ + instr.column_offsets);
    LoadedColumns& loaded = loaded_[instr.value];
    if (loaded.phase != tile_.x0 || loaded.cols != tile_.cols) {
      access.find_column_offsets(tile_, gathered(), instr.of_columns, offsets);
      loaded = {tile_.x0, tile_.cols, 1};
    }
    std::byte* const to = target ? target : place_of(instr);
    access.load_columns(buffer_of(access), tile_, gathered(), instr.of_columns, offsets, to);
    views_[instr.value] = {to, tile_.cols, true};
    if (instr.target != TileInstr::kNone) forwarded_[instr.value] = target != nullptr;
    if (instr.kept) keep(instr);
  }

  /// Copies a kept load to the workspace, where later stages expect it, unless it is there.
  void keep(const TileInstr& instr) {
    const View view = views_[instr.value];
    std::byte* place = place_of(instr);
    if (view.data == place) return;
    const std::size_t size = size_of(instr.type);
    for (std::int64_t r = 0; r < tile_.rows; ++r)
      load_run(instr.type,
               static_cast<const std::byte*>(view.data) +
                   static_cast<std::size_t>(r * view.row_stride) * size,
               view.per_column ? 1 : 0, place + static_cast<std::size_t>(r * tile_.cols) * size,
               tile_.cols);
    views_[instr.value] = {place, tile_.cols, true};
  }

  void run_op(const TileInstr& instr) {
    OpArgs args;
    std::byte* place = place_of(instr);
    if (instr.value_class == ValueClass::kRow) {
      // Row values are contiguous for both schedules.
      args = {1, s_.across ? tile_.cols : tile_.rows, place, 0, {}};
      for (std::uint32_t k = 0; k < instr.arg_count; ++k) {
        const View& view = views_[instr.args[k]];
        args.args[k] = {view.data, 0, s_.across ? view.per_column : view.row_stride != 0};
      }
      if (instr.table != nullptr) args.args[1] = {instr.table, 0, false};
      instr.kernel(args);
      views_[instr.value] = row_view(place);
      return;
    }
    args.rows = tile_.rows;
    args.cols = tile_.cols;
    const auto [result, stride] = result_of(instr, place);
    args.result = result;
    args.result_stride = stride;
    bool joint = args.result_stride == args.cols;
    for (std::uint32_t k = 0; k < instr.arg_count; ++k) {
      args.args[k] = views_[instr.args[k]];
      joint &= is_joint(args.args[k]);
    }
    if (joint) {
      args.cols *= args.rows;
      args.rows = 1;
    }
    if (instr.table != nullptr) args.args[1] = {instr.table, 0, false};
    instr.kernel(args);
  }

  void run_chain_of(const TileInstr& instr) {
    const Chain& chain = p_.chains_[instr.chain];
    const View start = views_[chain.start];
    const auto [result, stride] = result_of(instr, place_of(instr));
    bool joint = stride == tile_.cols && is_joint(start);
    auto& links = links_;
    for (std::size_t k = 0; k < chain.steps.size(); ++k) {
      const Chain::Step& step = chain.steps[k];
      links[k].kernels = step.kernels;
      links[k].other = step.other == TileInstr::kNone ? View{} : views_[step.other];
      links[k].second = step.second == TileInstr::kNone ? View{} : views_[step.second];
      joint &= is_joint(links[k].other) && is_joint(links[k].second);
    }
    run_chain({joint ? 1 : tile_.rows,
               joint ? tile_.rows * tile_.cols : tile_.cols,
               result,
               stride,
               start,
               p_.types_[chain.start],
               instr.type,
               {links.data(), chain.steps.size()},
               instr.past_cache && forwarded_[instr.value] != 0});
  }

  /// Where a load copies to directly: the store that alone reads it, if a tile's rows are
  /// contiguous there, or those of a transposed load. Null: nowhere.
  std::pair<std::byte*, std::int64_t> load_target(const TileInstr& instr,
                                                  const TileAccess& from) const {
    if (instr.target == TileInstr::kNone) return {nullptr, tile_.cols};
    const TileAccess& access = p_.accesses_[instr.target];
    std::byte* address = nullptr;
    std::int64_t row = 0;
    const bool fits = access.in_place(buffer_of(access), tile_, {true, true}, address, row) &&
                      (row == tile_.cols || from.is_transposed());
    return fits ? std::pair{address, row} : std::pair{static_cast<std::byte*>(nullptr), tile_.cols};
  }

  /// True if a tile's rows can be treated as one row.
  bool is_joint(const View& view) const {
    return view.per_column ? view.row_stride == tile_.cols : view.row_stride == 0;
  }

  /// Address and stride of a per-element result: the memory of a later store, or `place`.
  std::pair<std::byte*, std::int64_t> result_of(const TileInstr& instr, std::byte* place) {
    std::byte* result = place;
    std::int64_t stride = tile_.cols;
    if (instr.target != TileInstr::kNone) {
      const TileAccess& access = p_.accesses_[instr.target];
      std::byte* address = nullptr;
      std::int64_t row = 0;
      forwarded_[instr.value] =
          access.in_place(buffer_of(access), tile_, {true, true}, address, row);
      if (forwarded_[instr.value]) {
        result = address;
        stride = row;
      }
    }
    views_[instr.value] = {result, stride, true};
    return {result, stride};
  }

  void run_index(const TileInstr& instr) {
    const auto axis = static_cast<std::size_t>(instr.axis);
    const auto position = static_cast<std::size_t>(p_.axis_position_[axis]);
    const char role = p_.axis_role_[axis];
    std::byte* place = place_of(instr);
    const std::size_t size = size_of(instr.type);
    // The index of one loop from the joint index: joint / (product of inner extents) % extent.
    const auto& loops = role == 'y' ? p_.axes_.y : p_.axes_.x;
    std::int64_t below = 1;
    for (std::size_t d = position + 1; role != 'z' && d < loops.size(); ++d)
      below *= p_.extents_[loops[d]];
    const std::int64_t extent = p_.extents_[axis];
    const auto index_at = [&](std::int64_t joint) { return joint / below % extent; };
    // Fills runs of a constant index, or of ascending ones for the innermost loop.
    const auto fill = [&](std::byte* to, std::int64_t joint, std::int64_t count) {
      for (std::int64_t n = 0; count > 0; joint += n, count -= n) {
        const std::int64_t index = index_at(joint);
        n = std::min(count, below > 1 ? below - joint % below : extent - index);
        index_run(instr.type, index, below > 1 ? 0 : 1, to, n);
        to += static_cast<std::size_t>(n) * size;
      }
    };
    if (instr.value_class == ValueClass::kRow) {
      const std::int64_t count = s_.across ? tile_.cols : tile_.rows;
      if (role == 'z')
        index_run(instr.type, z_[position], 0, place, count);
      else
        fill(place, role == 'y' ? tile_.y0 : tile_.x0, count);
      views_[instr.value] = row_view(place);
      return;
    }
    for (std::int64_t r = 0; r < tile_.rows; ++r) {
      std::byte* to = place + static_cast<std::size_t>(r * tile_.cols) * size;
      if (role == 'y')
        index_run(instr.type, index_at(tile_.y0 + r), 0, to, tile_.cols);
      else if (r == 0)
        fill(to, tile_.x0, tile_.cols);
      else  // all rows are the same
        copy_bytes(to, place, static_cast<std::size_t>(tile_.cols) * size);
    }
    views_[instr.value] = {place, tile_.cols, true};
  }

  const TileProgram& p_;
  const TileSchedule& s_;
  std::span<std::byte* const> buffers_;
  std::byte* workspace_;
  View* views_;            // by instruction
  char* forwarded_;        // by instruction: result is already in the store's memory
  LoadedColumns* loaded_;  // by instruction
  std::array<std::int64_t, kMaxAxes> z_{};
  std::array<ChainLink, kMaxChain> links_;  // of the current chain
  Tile tile_;
  bool later_columns_ = false, first_ = true;
  std::int64_t ahead_y_ = 0, ahead_x_ = 0, ahead_ = 0, ahead_end_ = 0, ahead_step_ = 16;
  std::int64_t done_ = 0;  // elements of the rows in previous tiles, for kept values
};

TileProgram::Items TileProgram::items_for(int team) const {
  const TileSchedule& s = schedule_;
  const auto groups = [](std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
  };
  const bool split_columns = !s.across && !s.ordered && reductions_.empty();
  const std::int64_t outer = s.across ? s.z_count / s.repeats : groups(s.y_count, s.tile_rows);
  const std::int64_t inner = s.across ? groups(s.x_count, s.tile_cols)
                             : split_columns
                                 ? groups(s.x_count, std::max<std::int64_t>(s.tile_cols, 1))
                                 : 1;
  const std::int64_t tiles = outer * inner;
  if (tiles == 0 || (s.x_count == 0 && (s.across || split_columns))) return {};
  // With few tiles, splits their repetitions among threads; each computes again what repeats.
  const std::int64_t chunks = std::clamp<std::int64_t>(groups(team, tiles), 1, s.repeats);
  return {tiles * chunks, inner, chunks, split_columns};
}

void TileProgram::run_item(Worker& worker, const Items& items, std::int64_t item) const {
  const TileSchedule& s = schedule_;
  const std::int64_t chunk = item % items.chunks, i = item / items.chunks / items.inner,
                     j = item / items.chunks % items.inner;
  const std::int64_t begin = s.repeats * chunk / items.chunks,
                     end = s.repeats * (chunk + 1) / items.chunks;
  for (std::int64_t r = begin; r < end; ++r) {
    worker.begin(s.across ? i * s.repeats + r : r, r == begin);
    if (s.across) {
      const std::int64_t x0 = j * s.tile_cols;
      worker.run_across(x0, std::min(s.tile_cols, s.x_count - x0));
      continue;
    }
    const std::int64_t y0 = i * s.tile_rows;
    const std::int64_t rows = std::min(s.tile_rows, s.y_count - y0);
    const std::int64_t x0 = items.split_columns ? j * s.tile_cols : 0;
    worker.run_along(y0, rows, x0,
                     items.split_columns ? std::min(s.tile_cols, s.x_count - x0) : s.x_count);
  }
}

bool TileProgram::can_join(const plan::fb::PlanT& plan,
                           std::span<const TileProgram* const> programs) {
  std::map<std::uint32_t, std::int64_t> stored;  // elements, by buffer
  const auto each_access = [&](const auto& visit) {
    for (const TileProgram* program : programs)
      for (const Stage& stage : program->stages_)
        for (const auto* part : {&stage.row, &stage.body})
          for (const TileInstr& instr : *part)
            if (instr.access != TileInstr::kNone)
              visit(*program, instr, program->accesses_[instr.access].access());
  };
  bool fits = true;
  each_access([&](const TileProgram& program, const TileInstr& instr, const BoundAccess& access) {
    if (instr.kind == TileInstr::Kind::kScatter) fits = false;
    if (instr.kind != TileInstr::Kind::kStore) return;
    const TileSchedule& s = program.schedule_;
    const std::int64_t elements = instr.value_class == ValueClass::kElement ? s.y_count * s.x_count
                                  : s.across                                ? s.x_count
                                                                            : s.y_count;
    const bool is_known = &program == programs[0] || stored.contains(access.buffer);
    std::int64_t& sum = stored[access.buffer];
    sum += s.z_count * elements;
    fits = fits && is_known && sum <= access.count && access.is_plain() && access.gathers.empty() &&
           plan.buffers[access.buffer]->kind != plan::fb::BufferKind::State;
  });
  each_access([&](const TileProgram&, const TileInstr& instr, const BoundAccess& access) {
    if (instr.kind != TileInstr::Kind::kStore && stored.contains(access.buffer)) fits = false;
  });
  return fits;
}

void TileProgram::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  const TileProgram* const one = this;
  run_joined({&one, 1}, buffers, workspaces);
}

void TileProgram::run_joined(std::span<const TileProgram* const> programs,
                             std::span<std::byte* const> buffers,
                             std::span<std::byte* const> workspaces) {
  std::int64_t wanted = 0;
  for (const TileProgram* program : programs) wanted += program->threads_;
  const auto team = static_cast<int>(std::min(wanted, std::ssize(workspaces)));
  std::array<Items, kMostJoined> items;
  std::int64_t most = 0;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    items[p] = programs[p]->items_for(team);
    most = std::max(most, items[p].count);
  }
  if (most == 0) return;
  const std::int64_t parts = std::min(most, threads::parts_of(team));
  if (programs.size() == 1) {
    threads::run_parts(parts, team, [&](threads::Member& member) {
      Worker worker(*programs[0], buffers, workspaces[static_cast<std::size_t>(member.me())]);
      while (const auto part = member.next())
        for (std::int64_t item = most * *part / parts; item < most * (*part + 1) / parts; ++item)
          programs[0]->run_item(worker, items[0], item);
    });
    return;
  }
  threads::run_parts(parts, team, [&](threads::Member& member) {
    std::array<std::optional<Worker>, kMostJoined> workers;
    std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
    for (std::size_t p = 0; p < programs.size(); ++p) {
      workers[p].emplace(*programs[p], buffers, workspace);
      workspace += programs[p]->workspace_bytes();
    }
    while (const auto part = member.next()) {
      // Tiles of all programs over the same share of the rows, one after the other.
      const std::int64_t begin = most * *part / parts, end = most * (*part + 1) / parts;
      for (std::int64_t k = begin; k < end; ++k)
        for (std::size_t p = 0; p < programs.size(); ++p)
          for (std::int64_t item = items[p].count * k / most;
               item < items[p].count * (k + 1) / most; ++item)
            programs[p]->run_item(*workers[p], items[p], item);
    }
  });
}

}  // namespace sinter::runtime::cpu
