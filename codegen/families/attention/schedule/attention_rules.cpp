// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/schedule/attention_rules.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

constexpr int kLeastKeys = 16;  // of a tile

Dim heads_of(const AttentionProgram& program) { return ir::element_count(program.batch); }

/// Collects schedules with their conditions; omits those that can never apply.
class Chooser {
 public:
  Chooser(const AttentionProgram& program, ExprTable& exprs, const DeviceModel& device)
      : program_(program),
        exprs_(exprs),
        device_(device),
        heads_(ir::element_count(program.batch)) {
    base_.vector = program.is_float32()
                       ? common_vector({&program.q, &program.k, &program.v, &program.y})
                       : common_vector({&program.k, &program.v});
    while (program.head % base_.vector != 0 || program.value_head % base_.vector != 0)
      base_.vector /= 2;
    base_.pairs =
        (program.front ? common_vector({&program.y}) : common_vector({&program.q, &program.y})) > 1;
  }

  /// Upper bounds on sizes.
  using Limits = std::vector<std::pair<Dim, std::int64_t>>;
  void add(AttentionSchedule schedule, const Limits& limits) {
    if (done_ || !fits_prologue(program_, schedule)) return;
    schedule.vector = base_.vector;
    schedule.pairs = base_.pairs;
    if (schedule.by_warpgroups()) {
      if (fits_warpgroups(program_, device_, schedule, exprs_.ranges()))
        add_on(some_gpus_, std::move(schedule), limits);
      return;
    }
    if (schedule.splits > device_.cluster_blocks) return;
    while (attention_shared_bytes(program_, schedule) > most_shared(device_, schedule)) {
      if (schedule.ahead > 1)
        --schedule.ahead;
      else if (schedule.key_groups > 1)
        schedule.key_groups /= 2;
      else if (schedule.keys > kLeastKeys)
        schedule.keys /= 2;
      else
        return;
    }
    if (schedule.splits > 1 && schedule.key_groups == 1)
      return;  // no merge buffer, which split-KV needs
    add_on(schedule.splits > 1 ? some_gpus_ : any_gpu_, std::move(schedule), limits);
  }

  /// Number of blocks of `rows` rows each.
  Dim blocks(int rows) const { return heads_ * tiles_of_rows(program_, rows, exprs_.ranges()); }
  const AttentionSchedule& base() const { return base_; }
  std::vector<AttentionSchedule> take() { return std::move(schedules_); }

 private:
  /// Sizes that earlier schedules take: on some GPUs (clusters, warpgroups), or on all.
  struct Earlier {
    std::vector<std::vector<Condition>> conditions;
    bool takes_all = false;
  };

  void add_on(Earlier& earlier, AttentionSchedule schedule, const Limits& limits) {
    if (earlier.takes_all) return;
    for (const auto& [size, most] : limits) {
      const auto low = ir::lower_bound(size, exprs_.ranges());
      const auto high = ir::upper_bound(size, exprs_.ranges());
      if (low && *low > most) return;
      if (high && *high <= most) continue;
      schedule.conditions.emplace_back(exprs_.intern(size), 1, most);
    }
    // An earlier schedule with weaker conditions takes all these sizes.
    const auto holds = [&](const Condition& wanted) {
      return std::ranges::any_of(schedule.conditions, [&](const Condition& own) {
        return own.expression() == wanted.expression() && own.max() <= wanted.max();
      });
    };
    for (const Earlier* one : {&earlier, &any_gpu_})
      for (const auto& conditions : one->conditions)
        if (std::ranges::all_of(conditions, holds)) return;
    earlier.takes_all = schedule.conditions.empty();
    earlier.conditions.push_back(schedule.conditions);
    done_ = any_gpu_.takes_all;
    schedules_.push_back(std::move(schedule));
  }

  const AttentionProgram& program_;
  ExprTable& exprs_;
  const DeviceModel& device_;
  Dim heads_;
  AttentionSchedule base_;
  Earlier any_gpu_, some_gpus_;
  bool done_ = false;
  std::vector<AttentionSchedule> schedules_;
};

}  // namespace

std::vector<AttentionSchedule> choose_attention(const AttentionProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced) {
  Chooser chooser(program, exprs, device);
  if (!forced.empty()) {
    AttentionSchedule schedule = parse_attention_schedule(forced);
    schedule.vector = std::min(schedule.vector, chooser.base().vector);
    schedule.pairs = chooser.base().pairs;
    if (!fits_kernel(program, device, schedule, exprs.ranges()))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the schedule '{}' does not take this attention", forced));
    return {std::move(schedule)};
  }
  if (program.is_float32()) {
    AttentionSchedule schedule = chooser.base();
    schedule.row_warps = 4;
    for (const auto& [warp_rows, keys] :
         {std::pair(32, 64), std::pair(16, 64), std::pair(16, 32)}) {
      schedule.warp_rows = warp_rows;
      schedule.keys = keys;
      if (fits_kernel(program, device, schedule, exprs.ranges())) break;
    }
    return {std::move(schedule)};
  }
  const std::int64_t longest = std::max(program.head, program.value_head);
  const Dim sixteens = chooser.blocks(16), blocks = chooser.blocks(64);
  const std::int64_t few = 2 * device.multiprocessors;
  const AttentionCounts& counts = device.fitted->attention;
  const auto whole = [](double count) { return static_cast<std::int64_t>(count); };
  const auto by_warps = [](int row_warps, int warp_rows, int key_groups, int keys, int splits = 1) {
    AttentionSchedule schedule;
    schedule.row_warps = row_warps;
    schedule.warp_rows = warp_rows;
    schedule.key_groups = key_groups;
    schedule.keys = keys;
    schedule.splits = splits;
    return schedule;
  };
  // Warpgroups: `groups` consumers of 64 rows.
  const auto by_warpgroups = [](int groups, int keys, int stages, int queries, int most_blocks) {
    AttentionSchedule schedule;
    schedule.row_warps = 4 * groups;
    schedule.keys = keys;
    schedule.stages = stages;
    schedule.queries = queries;
    schedule.blocks = most_blocks;
    return schedule;
  };
  if (program.eight_bit) {
    // 8-bit MMAs take half the time of 16-bit ones; exponentials do not. Promoted accumulators need
    // a second set of registers, so that tiles have fewer keys.
    const int keys = program.promoted ? 64 : 128, turns = device.multiprocessors;
    if (longest <= 64) {
      chooser.add(
          by_warpgroups(1, keys, 2, 1, 2 * turns),
          {{blocks, whole(counts.one_group_items)}, {program.keys, whole(counts.one_group_keys)}});
      chooser.add(by_warpgroups(3, keys, 2, 2, turns), {});
    } else {
      chooser.add(by_warpgroups(1, keys, 2, 1, 2 * turns),
                  {{blocks, few}, {program.keys, whole(counts.wide_keys)}});
    }
    // For masks that need too many registers above.
    chooser.add(by_warpgroups(2, keys, 2, 2, turns), {});
    chooser.add(by_warpgroups(2, 64, 2, 2, turns), {});
    chooser.add(by_warpgroups(1, 64, 2, 1, 2 * turns), {});
    std::vector<AttentionSchedule> schedules = chooser.take();
    if (schedules.empty() || !schedules.back().conditions.empty())
      throw Error(
          ErrorCode::kUnsupported,
          device.has_wgmma
              ? "attention of 8 bits has no registers for this mask: keep the layer in 16 "
                "bits by --keep"
              : "attention of 8 bits has kernels for sm_90 alone, whose warpgroups multiply "
                "8 bits: leave out --attention-precision");
    return schedules;
  }
  const int of_few = warp_rows_of_few(program, exprs.ranges());
  if (has_few_tokens(program, exprs.ranges())) {
    chooser.add(by_warps(1, of_few, 4, 32, 8), {});
    chooser.add(by_warps(1, of_few, 4, 32), {});
    return chooser.take();
  }
  // Capacity of a sequence, in keys.
  const Dim room = program.tables ? program.table_blocks * Dim(program.block) : program.keys;
  if (program.bounds && program.tables) {
    // Few tokens for each sequence: 8 or 16 rows a block, keys split among its warps; clusters
    // (split-KV) if there are few blocks. If all blocks are resident, serpentine order balances
    // long and short sequences, with as many blocks as fill the device evenly. Prompts: 64 rows a
    // block or more; only sequences of many rows if another kernel takes the short ones.
    const Dim rows = program.rows * Dim(program.group),
              items = heads_of(program) * program.sequences;
    const std::int64_t all_at_once = device.multiprocessors;
    const auto at_most = [&](std::int64_t of_sequence) {
      return std::pair<Dim, std::int64_t>{rows - Dim(of_sequence) * program.sequences, 0};
    };
    constexpr std::int64_t kAny = 0;
    // `most_rows` bounds the rows of a sequence. The last schedule takes all sizes within `common`.
    const auto add_short = [&](int most_rows, const Chooser::Limits& common) {
      const auto add = [&](AttentionSchedule schedule, std::int64_t most_items,
                           std::int64_t most_keys = 0, int at_once = 0) {
        schedule.most_rows = most_rows;
        schedule.at_once = at_once;
        if (schedule.splits == 1) schedule.turns = device.multiprocessors;
        Chooser::Limits limits = common;
        if (most_items != kAny) limits.emplace_back(items, most_items);
        if (most_keys != kAny) limits.emplace_back(room, most_keys);
        chooser.add(std::move(schedule), limits);
      };
      add(by_warps(1, of_few, 4, 32, 8), few / 8);
      if (!program.key_scales) add(by_warps(1, of_few, 8, 32, 2), all_at_once / 2);
      add(by_warps(1, of_few, 4, 32, 2), 3 * all_at_once / 2);
      add(by_warps(1, of_few, 4, 32), 3 * all_at_once, whole(counts.cheap_keys));
      if (!program.key_scales) {
        add(by_warps(1, of_few, 4, 16, 2), 5 * all_at_once / 2);
        add(by_warps(1, of_few, 4, longest <= 64 ? 32 : 16), 4 * all_at_once, kAny, 4);
      }
      add(by_warps(1, of_few, 4, 16), 6 * all_at_once);
      if (!program.key_scales) add(by_warps(1, of_few, 4, 16), 8 * all_at_once, kAny, 4);
      if (program.key_scales && longest > 64) {
        // 10 blocks fit a multiprocessor; for more, two waves of equal size are faster.
        constexpr int kResident = 10;
        add(by_warps(1, of_few, 2, 16), kResident * all_at_once);
        for (const int at_once : {6, 7, 8}) {
          AttentionSchedule schedule = by_warps(1, of_few, 2, 16);
          schedule.ahead = 2;
          add(std::move(schedule), 2 * all_at_once * at_once, kAny, at_once);
        }
      }
      add(by_warps(1, of_few, program.key_scales ? 2 : 4, 16), kAny);
    };
    const auto add_long = [&](AttentionSchedule schedule, bool by_copy_engine = false) {
      schedule.tma = by_copy_engine;
      if (program.taken == PagedSequences::kLong) schedule.least_rows = of_few + 1;
      chooser.add(std::move(schedule), {});
    };
    if (program.taken != PagedSequences::kLong) {
      add_short(0, {at_most(of_few)});
      if (of_few < kFewInTheMean)
        chooser.add(by_warps(1, kFewInTheMean, 4, 32), {at_most(kFewInTheMean)});
    }
    if (program.taken == PagedSequences::kShort) {
      add_short(of_few, {});
    } else {
      if (longest <= 64)
        add_long(by_warpgroups(3, 128, 2, 2, device.multiprocessors), true);
      else
        add_long(by_warpgroups(2, 128, 2, 1, device.multiprocessors), true);
      add_long(by_warpgroups(2, 128, longest <= 64 ? 3 : 2, 1, device.multiprocessors));
      add_long(by_warpgroups(2, 64, 3, 1, device.multiprocessors));
      add_long(by_warpgroups(2, 64, 2, 1, device.multiprocessors));
      add_long(by_warps(4, 16, 1, longest <= 128 ? 64 : 32));
    }
    return chooser.take();
  }
  if (program.bounds) {
    // Short sequences take 64 rows a block. Persistent blocks take several items, as few remain in
    // the last round.
    const Chooser::Limits short_ones{
        {program.rows - Dim(whole(counts.short_sequence_rows)) * program.sequences, 0}};
    const int blocks_of_one_group = 2 * device.multiprocessors;
    chooser.add(by_warps(1, 16, 4, 32), {{sixteens, few}});
    if (longest <= 64) {
      chooser.add(by_warpgroups(1, 128, 2, 1, blocks_of_one_group), short_ones);
      chooser.add(by_warpgroups(2, 128, 3, 1, device.multiprocessors), {});
    } else {
      chooser.add(by_warpgroups(1, 64, 2, 1, blocks_of_one_group), short_ones);
      chooser.add(by_warpgroups(2, 128, 3, 1, device.multiprocessors), {});
      chooser.add(by_warpgroups(2, 64, 3, 1, device.multiprocessors), {});
      chooser.add(by_warpgroups(2, 64, 2, 1, device.multiprocessors), {});
    }
    chooser.add(by_warps(4, 16, 1, longest <= 128 ? 64 : 32), {});
    return chooser.take();
  }
  // Few queries (decoding): a block for every 8 or 16 rows, or a cluster (split-KV) for many keys.
  const std::pair<Dim, std::int64_t> few_rows{program.rows, of_few == 8 ? 8 : 32};
  const Dim few_items = chooser.blocks(of_few);
  const auto add_few = [&](int groups, int keys, int splits, std::int64_t most_items,
                           std::int64_t most_keys) {
    Chooser::Limits limits{few_rows, {few_items, most_items}};
    if (most_keys > 0) limits.emplace_back(room, most_keys);
    chooser.add(by_warps(1, of_few, groups, keys, splits), limits);
  };
  const bool wide = longest > 64;
  const std::int64_t two_groups = whole(counts.two_key_groups),
                     four_groups = whole(counts.four_key_groups);
  constexpr std::int64_t kAny = 0;
  add_few(2, 32, 1, few, two_groups);
  add_few(4, 32, 1, few, four_groups);
  add_few(4, 32, 8, few / 8, whole(counts.split_keys));
  if (!wide) add_few(4, 64, 8, few / 8, whole(counts.split_many_keys));
  add_few(wide ? 4 : 8, 64, 8, few / 8, kAny);
  add_few(8, wide ? 32 : 64, 2, few / 2, kAny);
  add_few(8, 32, 1, few, kAny);
  if (program.front || program.tables) {
    chooser.add(by_warps(1, of_few, 8, 32), {});
    return chooser.take();
  }
  // Many heads of so few rows that a block of 64 would be mostly padding.
  chooser.add(by_warps(1, of_few, program.key_scales ? 4 : 2, 32), {{program.rows, of_few}});
  // Warpgroups, measured on an H200: 64 rows and two blocks on a multiprocessor if that fills it
  // evenly or keys are few; otherwise 128 rows, or 192 if registers allow. Blocks are persistent
  // unless rows are causal and long: then the hardware schedules one block for each item.
  constexpr std::int64_t kNoLimit = INT64_MAX;
  const bool causal = program.causal != 0 || program.has_row_limits();
  const std::int64_t in_turns =
      whole(!causal || longest <= 64 ? counts.persistent_keys : counts.persistent_causal_keys);
  const auto add_groups = [&](int groups, int keys, int stages, std::int64_t most_items,
                              std::int64_t most_keys, int queries = 1) {
    Chooser::Limits limits;
    if (most_items != kNoLimit) limits.emplace_back(blocks, most_items);
    Chooser::Limits short_limits = limits;
    if (most_keys != kNoLimit) limits.emplace_back(program.keys, most_keys);
    short_limits.emplace_back(program.keys, std::min(most_keys, in_turns));
    const int at_once = groups == 1 ? 2 : 1;
    chooser.add(by_warpgroups(groups, keys, stages, queries, device.multiprocessors * at_once),
                short_limits);
    if (most_keys > in_turns) chooser.add(by_warpgroups(groups, keys, stages, queries, 0), limits);
  };
  const bool plain = !causal && !program.mask;
  if (longest <= 64) {
    add_groups(1, 128, 2, whole(counts.one_group_items), whole(counts.one_group_keys));
    add_groups(1, program.mask ? 64 : 128, 2, kNoLimit, whole(counts.one_tile_keys));
    if (causal) add_groups(1, 128, 2, whole(counts.causal_items), whole(counts.causal_keys));
    add_groups(2, 128, 3, plain ? whole(counts.two_groups_items) : kNoLimit,
               whole(counts.one_group_keys));
    if (plain) add_groups(3, 128, 2, kNoLimit, kNoLimit, 2);
    add_groups(3, 96, 3, kNoLimit, kNoLimit);
    // For masks that need too many registers above:
    add_groups(2, 128, 2, kNoLimit, kNoLimit);
    add_groups(2, 64, 3, kNoLimit, kNoLimit);
  } else {
    // Heads above 192 have tiles of 64 keys anyway: 64 rows a block occupy twice as many
    // multiprocessors.
    if (longest > 192) add_groups(1, 64, 2, device.multiprocessors, kNoLimit);
    add_groups(1, 64, 2, few, whole(counts.wide_keys));
    add_groups(1, 64, 2, whole(counts.one_group_items),
               whole(causal ? counts.wide_keys : counts.wide_many_keys));
    if (causal) add_groups(1, 64, 2, few, whole(counts.causal_wide_keys));
    add_groups(2, 128, causal ? 2 : 3, kNoLimit, kNoLimit);
    add_groups(2, 64, 3, kNoLimit, kNoLimit);
    add_groups(2, 64, 2, kNoLimit, kNoLimit);  // heads above 192
  }
  // Few rows in total: a block for every 16 rows, with keys split among its warps, for many loads
  // in flight and a short chain of MMAs.
  chooser.add(by_warps(1, 16, 2, 32), {{sixteens, few}, {program.keys, two_groups}});
  chooser.add(by_warps(1, 16, 4, 32), {{sixteens, few}, {program.keys, four_groups}});
  chooser.add(by_warps(1, 16, 8, 32), {{sixteens, few}});
  // Fewer blocks of four warps than multiprocessors: two key groups each.
  chooser.add(by_warps(4, 16, 2, 32), {{blocks, device.multiprocessors}});
  // 32 rows a warp halve shared memory reads but double the accumulators.
  if (longest <= 128) {
    chooser.add(by_warps(4, 16, 1, 64), {{blocks, 16 * device.multiprocessors}});
    chooser.add(by_warps(4, 32, 1, longest <= 64 ? 64 : 32), {});
  } else {
    chooser.add(by_warps(4, 16, 1, 32), {});
  }
  return chooser.take();
}

std::vector<AttentionSchedule> all_attention_schedules(const AttentionProgram& program,
                                                       ExprTable& exprs,
                                                       const DeviceModel& device) {
  const AttentionSchedule base = Chooser(program, exprs, device).base();
  std::vector<AttentionSchedule> all;
  const auto add = [&](const AttentionSchedule& schedule) {
    if (fits_kernel(program, device, schedule, exprs.ranges())) all.push_back(schedule);
  };
  for (const int keys : {16, 32, 64, 96, 128}) {
    AttentionSchedule schedule = base;
    schedule.keys = keys;
    for (schedule.warp_rows = 8; schedule.warp_rows <= 32; schedule.warp_rows *= 2)
      for (schedule.row_warps = 1; schedule.row_warps <= 8; schedule.row_warps *= 2)
        for (schedule.key_groups = 1; schedule.key_groups <= 8; schedule.key_groups *= 2)
          for (schedule.splits = 1; schedule.splits <= 16; schedule.splits *= 2)
            for (schedule.ahead = 1; schedule.ahead <= 3; ++schedule.ahead) add(schedule);
    schedule = base;
    schedule.keys = keys;
    for (schedule.row_warps = 4; schedule.row_warps <= 12; schedule.row_warps += 4)
      for (schedule.stages = 2; schedule.stages <= 3; ++schedule.stages)
        for (const int blocks : {0, schedule.blocks_at_once() * device.multiprocessors}) {
          schedule.blocks = blocks;
          for (schedule.queries = 1; schedule.queries <= 2; ++schedule.queries) add(schedule);
        }
  }
  return all;
}

std::vector<AttentionSchedule> attention_candidates(const AttentionProgram& program,
                                                    ExprTable& exprs, const DeviceModel& device,
                                                    const AttentionSchedule& rule, bool clusters) {
  Neighbours<AttentionSchedule> found(rule);
  // Trials use random inputs; random bounds are not valid sequences.
  if (program.bounds) return found.take();
  for (AttentionSchedule& schedule : all_attention_schedules(program, exprs, device)) {
    if (!clusters && (schedule.splits > 1 || schedule.by_warpgroups())) continue;
    double distance = steps_between(schedule.rows(), rule.rows()) +
                      steps_between(schedule.keys, rule.keys) +
                      steps_between(schedule.key_groups, rule.key_groups) +
                      steps_between(schedule.splits, rule.splits);
    if (schedule.by_warpgroups() != rule.by_warpgroups()) distance += 2;
    found.add(std::move(schedule), distance);
  }
  return found.take();
}

}  // namespace sinter::codegen
