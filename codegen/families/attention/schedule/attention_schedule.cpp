#include "codegen/families/attention/attention_schedule.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/schedule_neighbours.h"

namespace sinter::codegen {
namespace {

// What blocks without clusters and warpgroups use at most: there is as much on every architecture.
constexpr int kMostShared = 96 * 1024;
constexpr std::int64_t kLongestHead = 256;
constexpr int kLeastKeys = 16;                    // of a tile
constexpr std::int64_t kLeastWarpgroupHead = 40;  // below, tiles would be mostly empty
constexpr int kEightBitKeys = 128;                // of a tile that is copied: a row of 128 bytes

/// Bytes of shared memory that its blocks may use.
std::uint32_t most_shared(const DeviceModel& device, const AttentionSchedule& schedule) {
  const bool all = schedule.splits > 1 || schedule.by_warpgroups();
  return static_cast<std::uint32_t>(all ? device.block_shared_bytes
                                        : std::min(kMostShared, device.block_shared_bytes));
}

/// The most elements of up to 16 bytes (a power of two) of which every row of the operands starts
/// at a multiple.
int common_vector(std::initializer_list<const AttentionOperand*> operands) {
  int vector = 1;
  for (const AttentionOperand* operand : operands)
    vector = std::max(vector, 16 / static_cast<int>(size_of(operand->dtype)));
  const auto fits = [&](const Dim& dim) { return ir::is_multiple_of(dim, vector); };
  for (const AttentionOperand* operand : operands)
    while (vector > 1 && !(fits(operand->offset) && fits(operand->row) &&
                           std::ranges::all_of(operand->batch, fits)))
      vector /= 2;
  return vector;
}

/// Registers that a lane needs at least: scores, their weights, the result, queries, and the mask.
int registers_by_warpgroups(const AttentionProgram& program, const AttentionSchedule& schedule) {
  const bool stay = schedule.queries > 1 || program.eight_bit;
  const int others = stay ? 32 : 40;
  int mask = 0;
  if (program.mask && program.mask->dtype != DType::kBool && program.mask->column != Dim(0))
    mask = schedule.keys / 4 * (program.mask->row == Dim(0) ? 1 : 2) *
           static_cast<int>(size_of(program.mask->dtype)) / 4;
  const int heads = static_cast<int>(program.value_head / 2 * (program.promoted ? 2 : 1) +
                                     (stay ? 0 : (program.head + 15) / 16 * 4));
  return schedule.keys / 2 + schedule.keys / (program.eight_bit ? 8 : 4) + heads + mask + others;
}

/// Elements of a row in a tile of warpgroups: whole blocks of 64.
std::int64_t tile_width(std::int64_t head) { return (head + 63) / 64 * 64; }

/// Whether a token's rows, of heads that share their keys, begin at multiples of `vector`.
bool members_fit(const AttentionProgram& program, int vector) {
  return !program.tables || (ir::is_multiple_of(program.q_member, vector) &&
                             ir::is_multiple_of(program.y_member, vector));
}

/// Whether warpgroups can do it, in the registers of AttentionPipeline::kConsumerRegisters.
bool fits_warpgroups(const AttentionProgram& program, const DeviceModel& device,
                     const AttentionSchedule& schedule) {
  if (!device.has_wgmma) return false;
  if (program.eight_bit && kEightBitKeys % schedule.keys != 0) return false;
  const int operand_vector = program.eight_bit ? 16 : 8;
  const auto fits = [](std::int64_t head) { return head >= kLeastWarpgroupHead && head % 8 == 0; };
  const bool known = schedule.keys == 64 || schedule.keys == 96 || schedule.keys == 128;
  return fits(program.head) && fits(program.value_head) && known &&
         common_vector({&program.q}) == operand_vector &&
         common_vector({&program.k, &program.v}) == (program.key_scales ? 16 : operand_vector) &&
         common_vector({&program.y}) >= 8 && members_fit(program, 8) && schedule.warp_rows == 16 &&
         schedule.key_groups == 1 && schedule.splits == 1 && schedule.ahead == 1 &&
         schedule.queries <= 2 && schedule.row_warps % 4 == 0 && schedule.row_warps <= 12 &&
         registers_by_warpgroups(program, schedule) <= (schedule.row_warps == 12  ? 160
                                                        : schedule.row_warps == 8 ? 232
                                                                                  : 216) &&
         attention_shared_bytes(program, schedule) <=
             most_shared(device, schedule) / static_cast<std::uint32_t>(schedule.blocks_at_once());
}

Dim heads_of(const AttentionProgram& program) { return ir::element_count(program.batch); }

/// Whether eight rows of a warp may be the columns of products (SwappedRows).
bool fits_swapped(const AttentionProgram& program) {
  return !program.mask && program.head % 16 == 0 && program.value_head % 16 == 0;
}

/// Rows of a warp where each token, or each head of dense queries, has few: 8 if those are all.
int warp_rows_of_few(const AttentionProgram& program, const Ranges& ranges) {
  const Dim rows = program.bounds ? Dim(program.group) : program.rows;
  const auto most = ir::upper_bound(rows, ranges);
  return fits_swapped(program) && most && *most <= 8 ? 8 : 16;
}

/// Whether blocks can make what the program has in front: one for each head's queries, warps with
/// tiles of their own.
bool fits_prologue(const AttentionProgram& program, const AttentionSchedule& schedule) {
  return !program.front || (schedule.row_warps == 1 && schedule.warp_rows <= 16 &&
                            schedule.ahead == 1 && !schedule.by_warpgroups());
}

/// Tiles of `rows` rows of one head.
Dim tiles_of_rows(const AttentionProgram& program, int rows, const Ranges& ranges) {
  if (!program.bounds) return ir::ceil_div(program.rows, rows, ranges);
  const Dim all = program.rows * Dim(program.group), longest = program.longest * Dim(program.group);
  return ir::min(ir::floor_div(all, rows, ranges) + program.sequences,
                 program.sequences * ir::ceil_div(longest, rows, ranges), ranges);
}

/// Rows of a sequence, in the mean, up to which a step is the kernel's of short ones alone.
constexpr std::int64_t kFewInTheMean = 16;

/// Adds schedules with what sizes have to be for them; leaves out those that never apply.
class Chooser {
 public:
  Chooser(const AttentionProgram& program, ExprTable& exprs, const DeviceModel& device)
      : program_(program),
        exprs_(exprs),
        device_(device),
        heads_(ir::element_count(program.batch)) {
    base_.vector = common_vector({&program.k, &program.v});
    base_.pairs =
        (program.front ? common_vector({&program.y}) : common_vector({&program.q, &program.y})) > 1;
  }

  /// `limits`: sizes that may not exceed a number.
  using Limits = std::vector<std::pair<Dim, std::int64_t>>;
  void add(AttentionSchedule schedule, const Limits& limits) {
    if (done_ || !fits_prologue(program_, schedule)) return;
    schedule.vector = base_.vector;
    schedule.pairs = base_.pairs;
    if (schedule.by_warpgroups()) {
      if (fits_warpgroups(program_, device_, schedule))
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
    if (schedule.splits > 1 && schedule.key_groups == 1) return;  // not made
    add_on(schedule.splits > 1 ? some_gpus_ : any_gpu_, std::move(schedule), limits);
  }

  /// Blocks if each has `rows` rows.
  Dim blocks(int rows) const { return heads_ * tiles_of_rows(program_, rows, exprs_.ranges()); }
  const AttentionSchedule& base() const { return base_; }
  std::vector<AttentionSchedule> take() { return std::move(schedules_); }

 private:
  /// What schedules before take: on some GPUs (with clusters, with warpgroups), or on all.
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
    // What an earlier schedule takes under fewer conditions never gets here.
    const auto holds = [&](const Condition& wanted) {
      return std::ranges::any_of(schedule.conditions, [&](const Condition& own) {
        return own.expression() == wanted.expression() && own.max() <= wanted.max();
      });
    };
    for (const auto& conditions : earlier.conditions)
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

std::string AttentionSchedule::to_string() const {
  std::string text =
      fmt::format("attention rows={}x{} key_groups={} keys={} vector={}{}", row_warps, warp_rows,
                  key_groups, keys, vector, pairs ? "" : " single");
  if (ahead > 1) text += fmt::format(" ahead={}", ahead);
  if (splits > 1) text += fmt::format(" split_kv={}", splits);
  if (least_rows > 0) text += fmt::format(" least_rows={}", least_rows);
  if (most_rows > 0) text += fmt::format(" most_rows={}", most_rows);
  if (stages > 0) text += fmt::format(" stages={}", stages);
  if (queries > 1) text += fmt::format(" queries={}", queries);
  if (blocks > 0) text += fmt::format(" blocks={}", blocks);
  return text;
}

Dim attention_tiles(const AttentionProgram& program, const AttentionSchedule& schedule,
                    const Ranges& ranges) {
  if (schedule.most_rows > 0 && schedule.most_rows <= schedule.rows()) return program.sequences;
  Dim tiles = tiles_of_rows(program, schedule.rows(), ranges);
  if (program.taken != PagedSequences::kLong) return tiles;
  const Dim all = program.rows * Dim(program.group);
  tiles = ir::min(
      tiles,
      ir::floor_div(all, schedule.rows(), ranges) + ir::floor_div(all, schedule.least_rows, ranges),
      ranges);
  // None where the kernel of short ones takes all.
  const Dim beyond_few = all - Dim(kFewInTheMean) * program.sequences;
  return tiles * ir::min(Dim(1), ir::max(Dim(0), beyond_few, ranges), ranges);
}

int few_rows_of_sequence(const AttentionProgram& program, const Ranges& ranges) {
  const int few = warp_rows_of_few(program, ranges);
  return program.tables && !program.front && program.group <= few ? few : 0;
}

std::uint32_t attention_shared_bytes(const AttentionProgram& program,
                                     const AttentionSchedule& schedule) {
  if (schedule.by_warpgroups()) {
    // Of 16 bits. Tiles of 8 bits have rows of 128 bytes, of keys, and of a head's values.
    const std::int64_t elements =
        program.eight_bit
            ? (std::int64_t{schedule.queries} * schedule.rows() +
               schedule.stages * (kEightBitKeys + program.value_head)) *
                  64
            : std::int64_t{schedule.queries} * schedule.rows() * tile_width(program.head) +
                  std::int64_t{schedule.stages} * schedule.keys *
                      (tile_width(program.head) + tile_width(program.value_head));
    // Rows of 8 bits that are on their way (WidenedTile): 16 bytes and a scale for each thread.
    const auto widened = [&](std::int64_t head) {
      return (schedule.keys * (head / 16) + 127) / 128 * 128 * std::int64_t{16 + 4};
    };
    return static_cast<std::uint32_t>(
        1024 + elements * 2 + (2 * schedule.queries + 4 * schedule.stages) * std::int64_t{16} +
        (program.key_scales ? widened(program.head) + widened(program.value_head) : 0));
  }
  const std::int64_t steps = (program.head + 15) / 16, out_tiles = program.value_head / 8;
  const std::int64_t units = program.key_scales ? (steps | 1) + (out_tiles / 2 | 1)
                                                : (steps * 2 | 1) + (out_tiles | 1),
                     scales = program.key_scales ? 8 : 0;
  const std::int64_t tile = schedule.keys * (units * 16 + scales);
  // What groups, and blocks of a cluster, add up.
  const std::int64_t part = schedule.rows() * (program.value_head + 4) * 4;
  const std::int64_t merge = schedule.key_groups > 1 ? schedule.key_groups * part : 0;
  const std::int64_t sent = schedule.splits > 1 ? schedule.splits * part + 16 : 0;
  const std::int64_t front =
      program.front
          ? ((schedule.rows() + 1) * program.head + program.value_head) * std::int64_t{2} +
                (program.key_scales ? program.head + program.value_head + 16 : 0)
          : 0;
  return static_cast<std::uint32_t>(std::max(schedule.key_groups * schedule.ahead * tile, merge) +
                                    sent + front);
}

bool mask_in_pairs(const AttentionProgram& program) {
  return program.mask && program.mask->column == Dim(1) && ir::is_multiple_of(program.keys, 2) &&
         common_vector({&*program.mask}) > 1;
}

bool can_schedule_attention(const AttentionProgram& program, std::string& reason) {
  const auto refuse = [&](std::string why) {
    reason = std::move(why);
    return false;
  };
  if (program.dtype != DType::kFloat16 && program.dtype != DType::kBFloat16)
    return refuse(fmt::format("its type is {}, not f16 or bf16", to_string(program.dtype)));
  for (const std::int64_t head : {program.head, program.value_head})
    if (head < 8 || head > kLongestHead || head % 8 != 0)
      return refuse(
          fmt::format("head dimension {} is no multiple of 8 up to {}", head, kLongestHead));
  if (program.eight_bit) {
    if (program.head % 16 != 0 || program.value_head % 16 != 0 || program.head < 48 ||
        program.head > 128 || program.value_head < 48 || program.value_head > 128)
      return refuse(
          fmt::format("heads of {} and {} of 8 bits are no multiples of 16 from 48 to 128",
                      program.head, program.value_head));
    if (common_vector({&program.q, &program.k, &program.v}) != 16)
      return refuse("rows of 8 bits do not begin at multiples of 16 bytes");
    if (common_vector({&program.y}) < 8)
      return refuse("rows of the result do not begin at multiples of 8 elements");
    if (program.front || program.limits || program.bounds)
      return refuse("operands of 8 bits have no limits, sequences or queries made by the kernel");
  }
  if (program.key_scales) {
    if (program.head % 16 != 0 || program.value_head % 16 != 0)
      return refuse(fmt::format("heads of {} and {} with caches of 8 bits are no multiples of 16",
                                program.head, program.value_head));
    if (common_vector({&program.k, &program.v}) < 4)
      return refuse("rows of 8 bits do not begin at multiples of 4 bytes");
  }
  if (program.y.dtype != program.dtype && !program.rounding)
    return refuse("the result has another type");
  if (program.mask && program.mask->dtype != DType::kBool && size_of(program.mask->dtype) > 4)
    return refuse("the mask is float64");
  return true;
}

namespace {

AttentionSchedule parse(const std::string& text) {
  AttentionSchedule result;
  std::istringstream words(text);
  const auto refuse = [&] {
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' is no schedule of attention", text));
  };
  std::string word;
  words >> word;
  if (word != "attention") refuse();
  while (words >> word) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos) continue;  // "single" follows from the program
    const std::string name = word.substr(0, at);
    int first = 0, second = 0;
    char times = 0;
    std::istringstream value(word.substr(at + 1));
    value >> first;
    if (name == "rows") {
      value >> times >> second;
      if (times != 'x' || (second != 8 && second != 16 && second != 32)) refuse();
      result.warp_rows = second;
    }
    if (!value || first < 1 || first > 4096) refuse();
    int* const field = name == "rows"         ? &result.row_warps
                       : name == "key_groups" ? &result.key_groups
                       : name == "keys"       ? &result.keys
                       : name == "vector"     ? &result.vector
                       : name == "ahead"      ? &result.ahead
                       : name == "split_kv"   ? &result.splits
                       : name == "stages"     ? &result.stages
                       : name == "queries"    ? &result.queries
                       : name == "least_rows" ? &result.least_rows
                       : name == "most_rows"  ? &result.most_rows
                       : name == "blocks"     ? &result.blocks
                                              : nullptr;
    if (field == nullptr) refuse();
    *field = first;
  }
  return result;
}

/// True if a kernel can be made of it: powers of two up to what the template takes.
bool takes(const AttentionProgram& program, const DeviceModel& device,
           const AttentionSchedule& schedule) {
  if (!fits_prologue(program, schedule)) return false;
  if (!program.tables && (schedule.least_rows > 0 || schedule.most_rows > 0)) return false;
  if (schedule.by_warpgroups()) return fits_warpgroups(program, device, schedule);
  if (program.eight_bit) return false;
  return schedule.threads() <= 512 && schedule.keys % 16 == 0 && schedule.keys <= 128 &&
         (!schedule.swapped() || (fits_swapped(program) && schedule.key_groups > 1)) &&
         schedule.splits <= std::min(16, device.cluster_blocks) && schedule.ahead <= 8 &&
         (schedule.splits == 1 || schedule.key_groups > 1) &&
         (schedule.ahead == 1 || schedule.row_warps == 1) && schedule.queries == 1 &&
         (schedule.splits == 1 || !program.bounds || program.tables) && schedule.blocks == 0 &&
         attention_shared_bytes(program, schedule) <= most_shared(device, schedule);
}

}  // namespace

std::vector<AttentionSchedule> choose_attention(const AttentionProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced) {
  Chooser chooser(program, exprs, device);
  if (!forced.empty()) {
    AttentionSchedule schedule = parse(forced);
    schedule.vector = std::min(schedule.vector, chooser.base().vector);
    schedule.pairs = chooser.base().pairs;
    if (!takes(program, device, schedule))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the schedule '{}' does not take this attention", forced));
    return {std::move(schedule)};
  }
  const std::int64_t longest = std::max(program.head, program.value_head);
  const Dim sixteens = chooser.blocks(16), blocks = chooser.blocks(64);
  const std::int64_t few = 2 * device.multiprocessors;
  const auto by_warps = [](int row_warps, int warp_rows, int key_groups, int keys, int splits = 1) {
    AttentionSchedule schedule;
    schedule.row_warps = row_warps;
    schedule.warp_rows = warp_rows;
    schedule.key_groups = key_groups;
    schedule.keys = keys;
    schedule.splits = splits;
    return schedule;
  };
  // By warpgroups: `groups` of 64 rows.
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
    // Products are half as long beside their exponentials as those of 16 bits. Sums that are
    // promoted take as many registers again, so tiles of scores are narrower.
    const int keys = program.promoted ? 64 : 128, turns = device.multiprocessors;
    if (longest <= 64) {
      chooser.add(by_warpgroups(1, keys, 2, 1, 2 * turns), {{blocks, 576}, {program.keys, 1024}});
      chooser.add(by_warpgroups(3, keys, 2, 2, turns), {});
    } else {
      chooser.add(by_warpgroups(1, keys, 2, 1, 2 * turns), {{blocks, few}, {program.keys, 512}});
    }
    // Also where a mask takes too many registers for that.
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
  if (program.tables) {
    // Steps of few tokens for each sequence: 8 or 16 rows a block, whose warps share out the keys,
    // and clusters of blocks where there are few; as many warps as let all blocks run at once;
    // where they do not, tiles of fewer keys, of which each warp has two under way. Else prompts:
    // 64 rows a block or more, of sequences of many rows alone if a kernel in front takes the
    // others.
    const Dim rows = program.rows * Dim(program.group),
              items = heads_of(program) * program.sequences;
    const std::int64_t all_at_once = device.multiprocessors;
    const auto at_most = [&](std::int64_t of_sequence) {
      return std::pair<Dim, std::int64_t>{rows - Dim(of_sequence) * program.sequences, 0};
    };
    // `most_rows`: of the sequences taken. The last takes all sizes within `common` limits.
    const auto add_short = [&](int most_rows, const Chooser::Limits& common) {
      const auto add = [&](AttentionSchedule schedule, std::int64_t most_items) {
        schedule.most_rows = most_rows;
        Chooser::Limits limits = common;
        if (most_items > 0) limits.emplace_back(items, most_items);
        chooser.add(std::move(schedule), limits);
      };
      add(by_warps(1, of_few, 4, 32, 8), few / 8);
      add(by_warps(1, of_few, 4, 32, 2), few / 2);
      add(by_warps(1, of_few, 4, 32), 3 * all_at_once);
      if (program.key_scales) {  // bound by what makes floats of bytes, not by what is under way
        add(by_warps(1, of_few, 4, 16), 6 * all_at_once);
        add(by_warps(1, of_few, 2, 16), 0);
      } else {
        add(by_warps(1, of_few, 2, 32), 6 * all_at_once);
        AttentionSchedule ahead = by_warps(1, of_few, 4, 16);
        ahead.ahead = 2;
        add(ahead, 0);
      }
    };
    const auto add_long = [&](AttentionSchedule schedule) {
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
      add_long(by_warpgroups(2, 128, longest <= 64 ? 3 : 2, 1, device.multiprocessors));
      add_long(by_warpgroups(2, 64, 3, 1, device.multiprocessors));
      add_long(by_warps(4, 16, 1, longest <= 128 ? 64 : 32));
    }
    return chooser.take();
  }
  if (program.bounds) {
    // Sequences of up to 256 rows in the mean take 64 rows a block. Blocks take items in turns, as
    // few of them are left over.
    const Chooser::Limits short_ones{{program.rows - Dim(256) * program.sequences, 0}};
    const int blocks_of_one_group = 2 * device.multiprocessors;
    chooser.add(by_warps(1, 16, 4, 32), {{sixteens, few}});
    if (longest <= 64) {
      chooser.add(by_warpgroups(1, 128, 2, 1, blocks_of_one_group), short_ones);
      chooser.add(by_warpgroups(2, 128, 3, 1, device.multiprocessors), {});
    } else {
      chooser.add(by_warpgroups(1, 64, 2, 1, blocks_of_one_group), short_ones);
      chooser.add(by_warpgroups(2, 128, 3, 1, device.multiprocessors), {});
      chooser.add(by_warpgroups(2, 64, 3, 1, device.multiprocessors), {});
    }
    chooser.add(by_warps(4, 16, 1, longest <= 128 ? 64 : 32), {});
    return chooser.take();
  }
  // A few queries, as in decoding: every 8 or 16 get a block, or a cluster where keys are many.
  const std::pair<Dim, std::int64_t> few_rows{program.rows, of_few == 8 ? 8 : 32};
  const Dim few_items = chooser.blocks(of_few);
  const auto add_few = [&](int groups, int keys, int splits, std::int64_t most_items,
                           std::int64_t most_keys) {
    Chooser::Limits limits{few_rows, {few_items, most_items}};
    if (most_keys > 0) limits.emplace_back(program.keys, most_keys);
    chooser.add(by_warps(1, of_few, groups, keys, splits), limits);
  };
  const bool wide = longest > 64;
  constexpr std::int64_t kShort = 4096, kOneRound = 1024, kAny = 0;
  add_few(2, 32, 1, few, 64);
  add_few(4, 32, 1, few, 512);
  add_few(4, 32, 8, few / 8, kOneRound);
  if (!wide) add_few(4, 64, 8, few / 8, kShort);
  add_few(wide ? 4 : 8, 64, 8, few / 8, kAny);
  add_few(8, wide ? 32 : 64, 2, few / 2, kAny);
  add_few(8, 32, 1, few, kAny);
  if (program.front) {
    chooser.add(by_warps(1, of_few, 8, 32), {});
    return chooser.take();
  }
  // Many heads of so few rows that 64 a block would be mostly empty.
  chooser.add(by_warps(1, of_few, program.key_scales ? 4 : 2, 32), {{program.rows, of_few}});
  // Warpgroups, as an H200 measured them: 64 rows a block, two blocks on a multiprocessor, where
  // that fills it evenly or keys are few; 128 or, where registers allow it, 192 rows else. Blocks
  // take items in turns unless rows are causal and long: then whoever is done first takes the next.
  constexpr std::int64_t kNoLimit = INT64_MAX;
  const bool causal = program.causal != 0 || program.has_row_limits();
  const std::int64_t in_turns = !causal || longest <= 64 ? 8192 : 2048;
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
    add_groups(1, 128, 2, 576, 1024);
    add_groups(1, program.mask ? 64 : 128, 2, kNoLimit, 128);
    if (causal) add_groups(1, 128, 2, 384, 2048);
    add_groups(2, 128, 3, plain ? 1100 : kNoLimit, 1024);
    if (plain) add_groups(3, 128, 2, kNoLimit, kNoLimit, 2);
    add_groups(3, 96, 3, kNoLimit, kNoLimit);
    // Where a mask takes too many registers for that:
    add_groups(2, 128, 2, kNoLimit, kNoLimit);
    add_groups(2, 64, 3, kNoLimit, kNoLimit);
  } else {
    add_groups(1, 64, 2, few, 512);
    add_groups(1, 64, 2, 576, causal ? 512 : 256);
    if (causal) add_groups(1, 64, 2, few, 1024);
    add_groups(2, 128, causal ? 2 : 3, kNoLimit, kNoLimit);
    add_groups(2, 64, 3, kNoLimit, kNoLimit);
  }
  // Few rows in all: every 16 get a block, and warps share out the keys, so that as many loads as
  // possible are under way and the chain of products is short.
  chooser.add(by_warps(1, 16, 2, 32), {{sixteens, few}, {program.keys, 64}});
  chooser.add(by_warps(1, 16, 4, 32), {{sixteens, few}, {program.keys, 512}});
  chooser.add(by_warps(1, 16, 8, 32), {{sixteens, few}});
  // Less than a block of four warps for each multiprocessor: two groups of them share out the keys.
  chooser.add(by_warps(4, 16, 2, 32), {{blocks, device.multiprocessors}});
  // Registers: 32 rows a warp halve what is read from shared memory, but hold twice the result.
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
    if (takes(program, device, schedule)) all.push_back(schedule);
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
  // A trial's inputs are random, and random bounds are no sequences.
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
