#include "codegen/cuda/attention_schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::codegen {
namespace {

using ir::Dim;

// Blocks may use this much on every architecture from sm_80 on (sm_86 has 99 KB).
constexpr std::uint32_t kMostShared = 96 * 1024;
constexpr std::int64_t kLongestHead = 256;
// Multiprocessors of the GPUs that this is for: sm_80 has 108, sm_90 132, sm_100 148.
constexpr std::int64_t kMultiprocessors = 132;

/// The most elements (8, 4, 2 or 1) of which every row of the operands starts at a multiple.
int common_vector(std::initializer_list<const AttentionOperand*> operands) {
  int vector = 8;
  const auto fits = [&](const Dim& dim) { return ir::is_multiple_of(dim, vector); };
  for (const AttentionOperand* operand : operands)
    while (vector > 1 && !(fits(operand->offset) && fits(operand->row) &&
                           std::all_of(operand->batch.begin(), operand->batch.end(), fits)))
      vector /= 2;
  return vector;
}

/// Adds schedules with what sizes have to be for them; leaves out those that never apply.
class Chooser {
 public:
  Chooser(const AttentionProgram& program, ExprTable& exprs) : program_(program), exprs_(exprs) {
    for (const Dim& extent : program.batch) heads_ = heads_ * extent;
    base_.vector = common_vector({&program.k, &program.v});
    base_.pairs = common_vector({&program.q, &program.y}) > 1;
  }

  /// `limits`: sizes that may not exceed a number.
  using Limits = std::vector<std::pair<Dim, std::int64_t>>;
  void add(AttentionSchedule schedule, const Limits& limits) {
    if (done_) return;
    schedule.vector = base_.vector;
    schedule.pairs = base_.pairs;
    while (attention_shared_bytes(program_, schedule) > kMostShared) {
      if (schedule.key_groups > 1)
        schedule.key_groups /= 2;
      else
        schedule.keys /= 2;
    }
    for (const auto& [size, most] : limits) {
      const auto low = ir::lower_bound(size, exprs_.ranges());
      const auto high = ir::upper_bound(size, exprs_.ranges());
      if (low && *low > most) return;
      if (high && *high <= most) continue;
      schedule.conditions.emplace_back(exprs_.intern(size), 1, most);
    }
    // What an earlier schedule takes under fewer conditions never gets here.
    const auto holds = [&](const plan::fb::Condition& wanted) {
      return std::any_of(schedule.conditions.begin(), schedule.conditions.end(),
                         [&](const plan::fb::Condition& own) {
                           return own.expression() == wanted.expression() &&
                                  own.max() <= wanted.max();
                         });
    };
    for (const AttentionSchedule& earlier : schedules_)
      if (std::all_of(earlier.conditions.begin(), earlier.conditions.end(), holds)) return;
    done_ = schedule.conditions.empty();
    schedules_.push_back(std::move(schedule));
  }

  /// Blocks if each has `rows` rows.
  Dim blocks(int rows) const { return heads_ * ir::ceil_div(program_.rows, rows, exprs_.ranges()); }
  std::vector<AttentionSchedule> take() { return std::move(schedules_); }

 private:
  const AttentionProgram& program_;
  ExprTable& exprs_;
  Dim heads_ = 1;
  AttentionSchedule base_;
  bool done_ = false;
  std::vector<AttentionSchedule> schedules_;
};

}  // namespace

std::string AttentionSchedule::to_string() const {
  return fmt::format("attention rows={}x{} groups={} keys={} vector={}{}", row_warps,
                     row_tiles * 16, key_groups, keys, vector, pairs ? "" : " single");
}

std::uint32_t attention_shared_bytes(const AttentionProgram& program,
                                     const AttentionSchedule& schedule) {
  const std::int64_t steps = (program.head + 15) / 16, out_tiles = program.value_head / 8;
  const std::int64_t tile = schedule.keys * ((steps * 2 | 1) + (out_tiles | 1)) * 8 * 2;
  const std::int64_t merge = std::int64_t{schedule.key_groups - 1} * schedule.row_warps * 32 *
                             schedule.row_tiles * (out_tiles * 4 + 4) * 4;
  return static_cast<std::uint32_t>(std::max(schedule.key_groups * tile, merge));
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
  if (program.y.dtype != program.dtype) return refuse("the result has another type");
  if (program.mask && program.mask->dtype != DType::kBool && size_of(program.mask->dtype) > 4)
    return refuse("the mask is float64");
  return true;
}

std::vector<AttentionSchedule> choose_attention(const AttentionProgram& program, ExprTable& exprs) {
  Chooser chooser(program, exprs);
  const std::int64_t longest = std::max(program.head, program.value_head);
  // Few rows in all: every 16 get a block, and warps share out the keys, so that as many loads as
  // possible are under way and the chain of products is short.
  const Dim sixteens = chooser.blocks(16), blocks = chooser.blocks(64);
  constexpr std::int64_t kFew = 2 * kMultiprocessors;
  chooser.add({1, 1, 2, 32}, {{sixteens, kFew}, {program.keys, 64}});
  chooser.add({1, 1, 4, 32}, {{sixteens, kFew}, {program.keys, 512}});
  chooser.add({1, 1, 8, 32}, {{sixteens, kFew}});
  // Less than a block of four warps for each multiprocessor: two groups of them share out the keys.
  chooser.add({4, 1, 2, 32}, {{blocks, kMultiprocessors}});
  // Registers: 32 rows a warp halve what is read from shared memory, but hold twice the result.
  if (longest <= 128) {
    chooser.add({4, 1, 1, 64}, {{blocks, 16 * kMultiprocessors}});
    chooser.add({4, 2, 1, longest <= 64 ? 64 : 32}, {});
  } else {
    chooser.add({4, 1, 1, 32}, {});
  }
  return chooser.take();
}

}  // namespace sinter::codegen
