// SPDX-License-Identifier: Apache-2.0
// Attention over paged caches on the emulator: what rows of it may depend on, and what not.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention_case.h"
#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/emit_attention.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "codegen/families/attention/schedule/attention_rules.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

constexpr std::int64_t kHeads = 2, kMembers = 2, kCacheRows = 1024, kRoom = 512;

/// A penalty by the distance from the row's last key: what a program of scores may count.
constexpr const char* kFartherIsLess = R"(body(%s, %limit) {
    %key = Iota() {axis = 1, dtype = i64, shape = [1, 512]}
    %far = Sub(%limit, %key)
    %f = Cast(%far) {to = f32}
    %w = const f32[] {-0.02}
    %b = Mul(%f, %w)
    %r = Add(%s, %b)
    return %r
  })";

constexpr std::uint32_t kInputs[] = {0, 1, 2, 3, 4, 5}, kOutputs[] = {6};

struct PagedForm {
  std::int64_t block = 16, head = 64;
  const char* attributes = "scale = 0.1";
  const char* scores = "";
  const char* operands = "";  // of the scores
};

/// A sequence of a step: tokens that are in the cache already, and new ones.
struct PagedSequence {
  std::int64_t before = 0, tokens = 1;
};

/// One attention, and its kernels by schedule.
struct PagedAttention {
  PagedForm form;
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
  std::vector<codegen::EmittedKernel> kernels;

  PagedAttention(const PagedForm& wanted, const std::vector<const char*>& schedules)
      : form(wanted),
        body(ir::parse_graph(fmt::format(
            R"(graph @g(%q: f16[1, {0}, {1}, tokens, {2}], %k: f16[1, {0}, 1, {3}, {2}],
                        %v: f16[1, {0}, 1, {3}, {2}], %limits: i64[tokens, 1],
                        %bounds: i32[sequences + 1], %tables: i32[sequences, {4}])
                 ranges {{tokens: 1..65536, sequences: 1..1023}} {{
              %y = Attention(%q, %k, %v, %limits, %bounds, %tables{8})
                {{{5}, limited = 1, guard = 2, paged = {6}}} {7}
              return y = %y
            }})",
            kHeads, kMembers, form.head, kCacheRows, kRoom / form.block, form.attributes,
            form.block, form.scores, form.operands))),
        exprs(body.ranges()),
        program(codegen::lower_attention(body, kInputs, kOutputs, exprs)) {
    codegen::group_rows(program);
    for (const char* schedule : schedules)
      kernels.push_back(codegen::emit_attention(program, fmt::format("attention{}", kernels.size()),
                                                {}, exprs, false, schedule));
  }
};

/// The inputs of a step, whose sequences have the blocks of the cache from its end on.
std::vector<ir::Tensor> inputs_of_step(const PagedAttention& attention,
                                       const std::vector<PagedSequence>& sequences,
                                       ir::Bindings& sizes) {
  const std::int64_t block = attention.form.block, room = kRoom / block;
  std::vector<double> limits, bounds{0}, tables;
  std::int64_t next = kCacheRows / block;
  for (const PagedSequence& sequence : sequences) {
    for (std::int64_t t = 0; t < sequence.tokens; ++t)
      limits.push_back(static_cast<double>(sequence.before + t + 1));
    bounds.push_back(bounds.back() + static_cast<double>(sequence.tokens));
    const std::int64_t blocks = (sequence.before + sequence.tokens + block - 1) / block;
    for (std::int64_t b = 0; b < room; ++b)
      tables.push_back(b < blocks ? static_cast<double>(--next) : 0x7fffffff);
  }
  EXPECT_GE(next, 0) << "the cache has too few blocks";
  const auto tokens = static_cast<std::int64_t>(limits.size()),
             count = static_cast<std::int64_t>(sequences.size());
  sizes = {{"tokens", tokens}, {"sequences", count}};
  std::vector<ir::Tensor> inputs = random_inputs(attention.body, sizes, 7);
  inputs[3] = ir::Tensor::from_doubles(DType::kInt64, {tokens, 1}, limits);
  inputs[4] = ir::Tensor::from_doubles(DType::kInt32, {count + 1}, bounds);
  inputs[5] = ir::Tensor::from_doubles(DType::kInt32, {count, room}, tables);
  return inputs;
}

/// The rows of a cache behind its sequences' ends.
std::vector<std::int64_t> rows_of_nobody(const std::vector<ir::Tensor>& inputs,
                                         const std::vector<PagedSequence>& sequences,
                                         std::int64_t block) {
  std::vector<bool> used(kCacheRows, false);
  const std::int64_t room = kRoom / block;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    for (std::int64_t key = 0; key < sequences[i].before + sequences[i].tokens; ++key) {
      const double at = inputs[5].to_doubles()[i * static_cast<std::size_t>(room) +
                                               static_cast<std::size_t>(key / block)];
      used[static_cast<std::size_t>(at) * static_cast<std::size_t>(block) +
           static_cast<std::size_t>(key % block)] = true;
    }
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < kCacheRows; ++row)
    if (!used[static_cast<std::size_t>(row)]) rows.push_back(row);
  return rows;
}

/// Runs kernel number `k`; its result, of [heads, members, tokens, head].
std::vector<std::byte> run_step(const PagedAttention& attention, const EmulatedKernels& library,
                                std::size_t k, const std::vector<ir::Tensor>& inputs,
                                const ir::Bindings& sizes,
                                const std::vector<std::int64_t>& poisoned = {}) {
  Memory memory;
  for (const ir::Tensor& input : inputs)
    memory.emplace_back(input.bytes().begin(), input.bytes().end());
  memory.emplace_back(memory[0].size(), std::byte{0xa5});
  const auto row_bytes = static_cast<std::size_t>(attention.form.head) * 2;
  for (const std::size_t cache : {1U, 2U})  // NaN in all elements
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (const std::int64_t row : poisoned)
        std::memset(
            memory[cache].data() + static_cast<std::size_t>(head * kCacheRows + row) * row_bytes,
            0x7f, row_bytes);
  std::vector<std::byte> result;
  const auto values = expressions_of(attention.exprs, sizes);
  EXPECT_EQ(run_variants("paged", library, attention.kernels[k].step, values, memory,
                         [&](const plan::fb::KernelVariantT&, const Memory& found) {
                           result = found.back();
                           return std::string();
                         }),
            "")
      << attention.kernels[k].step.variants[0]->schedule;
  return result;
}

/// Values of one sequence of which two cancel each other and the others are lost beside one of
/// them, so that the order of sums is seen in the result: keys 20 and 40, of different tiles of 16.
ir::Tensor values_that_cancel(const std::vector<ir::Tensor>& inputs, std::int64_t block) {
  const std::vector<std::int64_t>& shape = inputs[2].shape();
  const std::int64_t width = shape.back();
  std::vector<double> values(static_cast<std::size_t>(inputs[2].element_count()), 0.001);
  const std::vector<double> table = inputs[5].to_doubles();
  for (const auto& [key, value] : {std::pair<std::int64_t, double>{20, 60000}, {40, -60000}})
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto row =
          static_cast<std::int64_t>(table[static_cast<std::size_t>(key / block)]) * block +
          key % block;
      const auto begin = values.begin() + (head * kCacheRows + row) * width;
      std::fill(begin, begin + width, value);
    }
  return ir::Tensor::from_doubles(DType::kFloat16, shape, values);
}

/// A token that is verified together with others gets the same bits as alone, whatever is in front
/// of it and behind it, and however many keys other sequences have.
TEST(PagedAttention, RowsDependOnTheirOwnKeysAlone) {
  const std::vector<const char*> schedules = {
      "attention rows=1x8 key_groups=4 keys=16 vector=8",
      "attention rows=1x16 key_groups=2 keys=32 vector=8 ahead=2",
      "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=4",
      "attention rows=1x8 key_groups=2 keys=16 vector=8 ahead=2 split_kv=2",
      "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=3",
      "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 tma=1 blocks=3"};
  for (const char* attributes :
       {"scale = 0.00001", "scale = 0.7, window = 37", "scale = 0.00001, window = 60"}) {
    PagedAttention attention({16, 64, attributes}, schedules);
    const EmulatedKernels library(attention.kernels);
    // Of some of these the first token's window begins a tile earlier than the second one's.
    for (const std::int64_t before : {51, 74, 300}) {
      const std::vector<PagedSequence> together = {{before, 4}}, alone = {{before + 1, 1}};
      ir::Bindings sizes, own_sizes;
      auto inputs = inputs_of_step(attention, together, sizes);
      // Equal weights.
      if (std::string_view(attributes).starts_with("scale = 0.0"))
        inputs[2] = values_that_cancel(inputs, attention.form.block);
      auto own_inputs = inputs_of_step(attention, alone, own_sizes);
      own_inputs[1] = inputs[1];
      own_inputs[2] = inputs[2];
      const auto row_bytes = static_cast<std::size_t>(attention.form.head) * 2;
      // Row of token `t` of `tokens`, of each query head.
      const auto row_of = [&](const auto& bytes, std::size_t head, std::size_t tokens,
                              std::size_t t) {
        const auto begin =
            bytes.begin() + static_cast<std::ptrdiff_t>((head * tokens + t) * row_bytes);
        return std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
      };
      std::vector<std::byte> queries;
      for (std::size_t head = 0; head < kHeads * kMembers; ++head) {
        const auto row = row_of(inputs[0].bytes(), head, 4, 1);
        queries.insert(queries.end(), row.begin(), row.end());
      }
      own_inputs[0] =
          ir::Tensor(DType::kFloat16, own_inputs[0].shape(), ir::Buffer::copy_of(queries));
      for (std::size_t k = 0; k < schedules.size(); ++k) {
        const auto all = run_step(attention, library, k, inputs, sizes);
        const auto own = run_step(attention, library, k, own_inputs, own_sizes);
        for (std::size_t head = 0; head < kHeads * kMembers; ++head)
          EXPECT_EQ(row_of(all, head, 4, 1), row_of(own, head, 1, 0))
              << schedules[k] << ' ' << attributes << " behind " << before << ", head " << head;
      }
    }
  }
}

/// Where a step has few tokens its sequences, and how many tokens each has, choose nothing.
TEST(PagedAttention, FewTokensHaveOneSchedule) {
  PagedAttention attention({}, {});
  const auto schedules = [&](std::int64_t tokens) {
    ir::Ranges ranges = attention.exprs.ranges();
    ranges.at("tokens").max = tokens;
    attention.exprs.set_ranges(ranges);
    return codegen::choose_attention(attention.program, attention.exprs,
                                     codegen::cuda_device("sm_90"), "");
  };
  for (const std::int64_t tokens : {8, 16}) {
    const auto found = schedules(tokens);
    ASSERT_EQ(found.size(), 2u);  // with clusters and without
    for (const codegen::AttentionSchedule& each : found) {
      EXPECT_TRUE(each.conditions.empty());
      EXPECT_EQ(each.most_rows, 0);
    }
    EXPECT_EQ(codegen::few_rows_of_sequence(attention.program, attention.exprs.ranges()), 0);
  }
  EXPECT_GT(schedules(17).size(), 2u);
  EXPECT_EQ(codegen::few_rows_of_sequence(attention.program, attention.exprs.ranges()), 8);
}

/// What earlier sequences left behind a sequence's end, in its last block and in others', is not
/// seen, and neither are blocks that the table has no number for.
TEST(PagedAttention, SeesNothingBehindASequencesEnd) {
  const std::vector<PagedSequence> step = {{0, 70}, {33, 1}, {128, 96}, {0, 16}, {90, 45}};
  const std::vector<std::pair<PagedForm, std::vector<const char*>>> tests = {
      {{16, 64},
       {"attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=3",
        "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 tma=1 blocks=3",
        "attention rows=8x16 key_groups=1 keys=128 vector=8 stages=3 queries=2 tma=1 blocks=2",
        "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=4",
        "attention rows=1x8 key_groups=2 keys=16 vector=8 turns=3 at_once=4"}},
      {{8, 128}, {"attention rows=8x16 key_groups=1 keys=128 vector=8 stages=2 tma=1 blocks=2"}},
      {{64, 64, "scale = 0.3, window = 37", kCappedBy2},
       {"attention rows=8x16 key_groups=1 keys=96 vector=8 stages=2 blocks=2",
        "attention rows=8x16 key_groups=1 keys=64 vector=8 stages=2 tma=1 blocks=2"}},
      {{64, 64, "scale = 0.1, score_operands = 1", kFartherIsLess, ", %limits"},
       {"attention rows=8x16 key_groups=1 keys=96 vector=8 stages=2 blocks=2",
        "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=4"}},
      {{128, 64}, {"attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 tma=1 blocks=4"}}};
  for (const auto& [form, schedules] : tests) {
    PagedAttention attention(form, schedules);
    const EmulatedKernels library(attention.kernels);
    ir::Bindings sizes;
    const auto inputs = inputs_of_step(attention, step, sizes);
    auto safe = inputs;  // the reference looks up all of a table
    std::vector<double> tables = inputs[5].to_doubles();
    for (double& at : tables) at = at > kCacheRows ? 0 : at;
    safe[5] = ir::Tensor::from_doubles(DType::kInt32, inputs[5].shape(), tables);
    const std::vector<double> expected = ir::evaluate(attention.body, safe)[0].to_doubles();
    const auto poisoned = rows_of_nobody(inputs, step, form.block);
    for (std::size_t k = 0; k < schedules.size(); ++k) {
      const auto found = run_step(attention, library, k, inputs, sizes, poisoned);
      const ir::Tensor result(DType::kFloat16, inputs[0].shape(), ir::Buffer::copy_of(found));
      const std::vector<double> values = result.to_doubles();
      double most = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double off = std::abs(values[i] - expected[i]);
        most = off <= most ? most : off;  // NaN counts
        if (off != off) most = 1e9;
      }
      EXPECT_LE(most, 2e-3) << schedules[k] << " blocks of " << form.block;
    }
  }
}

/// The kernel of long sequences runs beside that of short ones: it begins when that has seen the
/// step in front end, and ends when that has ended.
TEST(PagedAttention, LongSequencesWaitForShortOnesAtTheEnd) {
  PagedAttention attention({}, {});
  const auto source_of = [&](codegen::PagedSequences taken) {
    attention.program.taken = taken;
    return codegen::emit_attention(attention.program, "attention", {}, attention.exprs, true)
        .source;
  };
  const std::string waits = "  grid_dependency_wait();\n", goes_on = "  launch_dependents();\n";
  const std::string in_front = source_of(codegen::PagedSequences::kShort),
                    behind = source_of(codegen::PagedSequences::kLong);
  const std::size_t wait = in_front.find(waits), start = in_front.find(goes_on);
  ASSERT_NE(wait, std::string::npos);
  EXPECT_LT(wait, start);
  EXPECT_LT(start, in_front.find("  attend"));
  ASSERT_NE(behind.find(goes_on), std::string::npos);
  EXPECT_LT(behind.find(goes_on), behind.find("  attend"));
  EXPECT_LT(behind.find("  attend"), behind.find(waits));
  EXPECT_NE(behind.find(waits + "}"), std::string::npos);
}

/// Turns go back and forth, the last one too, which may have fewer blocks.
TEST(PagedAttention, TurnsGoBackAndForth) {
  const PagedAttention attention(
      {}, {"attention rows=1x8 key_groups=2 keys=16 vector=8 turns=132 at_once=4",
           "attention rows=1x8 key_groups=2 keys=16 vector=8 at_once=4"});
  EXPECT_THAT(attention.kernels[0].source,
              testing::HasSubstr("balanced_item<132>(blockIdx.x, gridDim.x)"));
  EXPECT_THAT(attention.kernels[1].source, testing::Not(testing::HasSubstr("balanced_item")));
  // So much that a fifth block finds no room.
  const std::uint32_t shared = attention.kernels[1].step.variants[0]->shared_bytes;
  EXPECT_LE(4 * (shared + 1024), 228u * 1024);
  EXPECT_GT(5 * (shared + 1024), 228u * 1024);
}

TEST(PagedAttention, CompilesItsInstructions) {
  const PagedAttention attention(
      {16, 128}, {"attention rows=8x16 key_groups=1 keys=128 vector=8 stages=2 tma=1 blocks=132",
                  "attention rows=1x8 key_groups=4 keys=16 vector=8 turns=132 at_once=4"});
  for (const codegen::EmittedKernel& kernel : attention.kernels) {
    const auto compiled = codegen::compile_cuda(std::vector<std::string>{kernel.source},
                                                std::vector<std::string>{"sm_90"});
    ASSERT_EQ(compiled.size(), 1u);
    for (const auto& variant : compiled[0]) EXPECT_GT(variant.code.size(), 1000u);
  }
}

}  // namespace
}  // namespace sinter::test
#endif
