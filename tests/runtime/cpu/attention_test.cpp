// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU against its definition, and plans that are damaged.
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

enum class Mask { kNone, kBool, kFloat };

/// q [groups, queries, heads, head] of which a group's heads share keys [groups, keys, head] and
/// values [groups, keys, value_head].
struct AttentionProblem {
  std::int64_t groups = 2, heads = 1, queries = 5, keys = 37, head = 16, value_head = 16;
  DType type = DType::kFloat32;
  Mask mask = Mask::kNone;
  int causal = 0;
  std::uint8_t guard = 0;
  double fill = -kInfinity;
  std::vector<std::int64_t> limits = {};  // of each query; empty: none
  std::vector<std::int64_t> bounds = {};  // of packed sequences; empty: they are not
  std::int64_t longest = 1;               // what the plan says of them
  float softcap = 0;
};

std::string name_of(const AttentionProblem& c) {
  return fmt::format(
      "groups {} heads {} queries {} keys {} head {} values {} type {} mask {} causal {} limits {} "
      "bounds [{}] softcap {}",
      c.groups, c.heads, c.queries, c.keys, c.head, c.value_head, to_string(c.type),
      static_cast<int>(c.mask), c.causal, c.limits.size(), fmt::join(c.bounds, " "), c.softcap);
}

/// softcap * tanh(score / softcap).
std::unique_ptr<fb::LoopProgramT> capped_scores(PlanBuilder& p, const fb::AttentionStepT& step,
                                                float softcap) {
  auto program = std::make_unique<fb::LoopProgramT>();
  program->extents = step.batch;
  program->extents.insert(program->extents.end(), {step.rows, step.keys});
  program->buffers = {plan::kScoreBuffer};
  auto access = std::make_unique<fb::AccessT>();
  access->offset = p.constant(0);
  access->strides.assign(program->extents.size(), p.constant(0));
  program->accesses.push_back(std::move(access));
  const auto add = [&](fb::InstrKind kind, ScalarOp op, std::vector<std::uint32_t> args) {
    auto instr = std::make_unique<fb::InstrT>();
    instr->kind = kind;
    instr->op = static_cast<std::uint8_t>(op);
    instr->dtype = static_cast<std::uint8_t>(DType::kFloat32);
    instr->args = std::move(args);
    instr->constant_float = softcap;
    program->instrs.push_back(std::move(instr));
  };
  add(fb::InstrKind::Load, {}, {});
  add(fb::InstrKind::Constant, {}, {});
  add(fb::InstrKind::Op, ScalarOp::kDiv, {0, 1});
  add(fb::InstrKind::Op, ScalarOp::kTanh, {2});
  add(fb::InstrKind::Op, ScalarOp::kMul, {3, 1});
  add(fb::InstrKind::Store, {}, {4});
  return program;
}

class AttentionCase {
 public:
  explicit AttentionCase(const AttentionProblem& c) : case_(c) {
    q_ = random_bytes(c.type, c.groups * c.queries * c.heads * c.head, 1);
    k_ = random_bytes(c.type, c.groups * c.keys * c.head, 2);
    v_ = random_bytes(c.type, c.groups * c.keys * c.value_head, 3);
    const std::int64_t masked = c.queries * c.keys;
    std::mt19937 random(4);
    if (c.mask == Mask::kFloat) mask_ = random_bytes(c.type, masked, 5);
    if (c.mask == Mask::kBool)
      for (std::int64_t i = 0; i < masked; ++i) mask_.push_back(std::byte{random() % 3 != 0});
  }

  Bytes& keys() { return k_; }
  Bytes& values() { return v_; }
  Bytes& mask() { return mask_; }

  PlanBuilder plan() const {
    const AttentionProblem& c = case_;
    PlanBuilder p;
    const auto number = [&](std::int64_t value) { return p.constant(value); };
    const auto matrix = [&](Id buffer, std::int64_t row, std::int64_t column, std::int64_t group,
                            std::int64_t head) {
      return p.matrix(buffer, number(row), number(column), {number(group), number(head)});
    };
    fb::AttentionStepT step;
    step.rows = number(c.queries);
    step.keys = number(c.keys);
    step.batch = {number(c.groups), number(c.heads)};
    step.head = static_cast<std::uint64_t>(c.head);
    step.value_head = static_cast<std::uint64_t>(c.value_head);
    const std::int64_t q_row = c.heads * c.head, y_row = c.heads * c.value_head;
    step.q = matrix(p.input("q", c.type, {number(c.groups * c.queries * q_row)}), q_row, 1,
                    c.queries * q_row, c.head);
    step.k = matrix(p.input("k", c.type, {number(c.groups * c.keys * c.head)}), c.head, 1,
                    c.keys * c.head, 0);
    step.v = matrix(p.input("v", c.type, {number(c.groups * c.keys * c.value_head)}), c.value_head,
                    1, c.keys * c.value_head, 0);
    step.y = matrix(p.output("y", c.type, {number(c.groups * c.queries * y_row)}), y_row, 1,
                    c.queries * y_row, c.value_head);
    if (c.mask != Mask::kNone)
      step.mask = matrix(p.input("mask", c.mask == Mask::kBool ? DType::kBool : c.type,
                                 {number(c.queries * c.keys)}),
                         c.keys, 1, 0, 0);
    if (!c.limits.empty())
      step.limits = matrix(p.input("limits", DType::kInt64, {number(c.queries)}), 1, 1, 0, 0);
    if (!c.bounds.empty()) {
      const auto count = static_cast<std::int64_t>(c.bounds.size());
      step.bounds = matrix(p.input("bounds", DType::kInt64, {number(count)}), 0, 1, 0, 0);
      step.sequences = number(count - 1);
      step.longest = number(c.longest);
    }
    step.scale = kScale;
    if (c.softcap > 0) step.scores = capped_scores(p, step, c.softcap);
    step.fill = static_cast<float>(c.fill);
    step.causal = static_cast<std::uint8_t>(c.causal);
    step.guard = c.guard;
    p.attention("attention", std::move(step));
    return p;
  }

  /// The result of a run, as bytes.
  Bytes run(const Plan& built, int threads) const {
    const AttentionProblem& c = case_;
    SessionOptions options;
    options.threads = threads;
    Session session(built, options);
    const auto count = [](const Bytes& bytes, DType type) {
      return std::vector{static_cast<std::int64_t>(bytes.size() / size_of(type))};
    };
    session.set_input("q", {c.type, count(q_, c.type), q_.data()});
    session.set_input("k", {c.type, count(k_, c.type), k_.data()});
    session.set_input("v", {c.type, count(v_, c.type), v_.data()});
    const DType mask_type = c.mask == Mask::kBool ? DType::kBool : c.type;
    if (c.mask != Mask::kNone)
      session.set_input("mask", {mask_type, count(mask_, mask_type), mask_.data()});
    if (!c.limits.empty())
      session.set_input("limits", {DType::kInt64, {c.queries}, c.limits.data()});
    if (!c.bounds.empty())
      session.set_input(
          "bounds", {DType::kInt64, {static_cast<std::int64_t>(c.bounds.size())}, c.bounds.data()});
    session.run();
    const TensorView y = session.output("y");
    const auto* data = static_cast<const std::byte*>(y.data);
    return {data, data + y.byte_count()};
  }

  void expect_defined_result() const {
    const Plan built = plan().build();
    const Bytes expected = definition(), one = run(built, 1);
    const auto count = static_cast<std::int64_t>(one.size() / size_of(case_.type));
    expect_close(case_.type, expected, {case_.type, {count}, one.data()});
    EXPECT_EQ(run(built, 3), one) << "more threads give another result";
  }

  Bytes definition() const {
    const AttentionProblem& c = case_;
    const std::int64_t rows = c.queries * c.heads;
    Bytes result(static_cast<std::size_t>(c.groups * rows * c.value_head) * size_of(c.type));
    for (std::int64_t g = 0; g < c.groups; ++g)
      for (std::int64_t row = 0; row < rows; ++row) {
        std::vector<double> weights;
        double greatest = -kInfinity, sum = 0;
        for (std::int64_t key = 0; key < c.keys; ++key)
          greatest =
              std::max(greatest, weights.emplace_back(score(g, row / c.heads, row % c.heads, key)));
        for (double& weight : weights)
          sum += weight = greatest == -kInfinity ? 0 : std::exp(weight - greatest);
        for (std::int64_t n = 0; n < c.value_head; ++n) {
          double total = sum > 0 || c.guard != 0 || !c.bounds.empty() ? 0 : kNaN;
          for (std::int64_t key = 0; key < c.keys; ++key)
            if (const double weight = weights[static_cast<std::size_t>(key)]; weight > 0)
              total += weight / sum * value(v_, (g * c.keys + key) * c.value_head + n);
          set_element(c.type, result, (g * rows + row) * c.value_head + n, total);
        }
      }
    return result;
  }

 private:
  static constexpr float kScale = 0.25F;

  double value(const Bytes& bytes, std::int64_t i) const { return element(case_.type, bytes, i); }

  double score(std::int64_t g, std::int64_t query, std::int64_t head, std::int64_t key) const {
    const AttentionProblem& c = case_;
    const auto at = static_cast<std::size_t>(query);
    if (!c.limits.empty() && key >= c.limits[at]) return -kInfinity;
    if (!c.bounds.empty()) {
      // Both are behind equally many bounds, at least one and not all.
      const auto behind = [&](std::int64_t row) {
        return std::ranges::count_if(c.bounds, [&](std::int64_t bound) { return bound <= row; });
      };
      const auto own = behind(query);
      if (own == 0 || own == std::ssize(c.bounds) || own != behind(key)) return -kInfinity;
    }
    if (c.causal == 1 && key > query) return -kInfinity;
    if (c.causal == 2 && key > query + c.keys - c.queries) return -kInfinity;
    double sum = 0;
    for (std::int64_t i = 0; i < c.head; ++i)
      sum += value(q_, ((g * c.queries + query) * c.heads + head) * c.head + i) *
             value(k_, (g * c.keys + key) * c.head + i);
    sum *= kScale;
    if (c.softcap > 0) sum = c.softcap * std::tanh(sum / c.softcap);
    const std::int64_t place = query * c.keys + key;
    if (c.mask == Mask::kFloat) return sum + value(mask_, place);
    if (c.mask == Mask::kBool && mask_[static_cast<std::size_t>(place)] == std::byte{0})
      return c.fill;
    return sum;
  }

  AttentionProblem case_;
  Bytes q_, k_, v_, mask_;
};

void expect_all(const std::vector<AttentionProblem>& cases) {
  for (const AttentionProblem& c : cases) {
    SCOPED_TRACE(name_of(c));
    AttentionCase(c).expect_defined_result();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CpuAttention, EveryNumberOfRowsAndKeys) {
  std::vector<AttentionProblem> cases;
  for (const std::int64_t queries : {1, 2, 4, 5, 17, 130, 300})
    for (const std::int64_t keys : {1, 15, 16, 127, 129, 700})
      for (const std::int64_t heads : {1, 3}) {
        AttentionProblem c;
        c.queries = queries;
        c.keys = keys;
        c.heads = heads;
        cases.push_back(c);
      }
  expect_all(cases);
}

TEST(CpuAttention, HeadsAndTypes) {
  std::vector<AttentionProblem> cases;
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
    for (const std::int64_t head : {1, 7, 64, 100})
      for (const std::int64_t value_head : {1, 8, 33, 64})
        for (const std::int64_t queries : {1, 20}) {
          AttentionProblem c;
          c.type = type;
          c.head = head;
          c.value_head = value_head;
          c.queries = queries;
          c.keys = 300;
          cases.push_back(c);
        }
  expect_all(cases);
}

TEST(CpuAttention, Masks) {
  std::vector<AttentionProblem> cases;
  for (const std::int64_t queries : {1, 3, 40})
    for (const Mask mask : {Mask::kNone, Mask::kBool, Mask::kFloat})
      for (const int causal : {0, 1, 2})
        for (const double fill : {-kInfinity, -1.0}) {
          AttentionProblem c;
          c.queries = queries;
          c.keys = 290;
          c.heads = 2;
          c.mask = mask;
          c.causal = causal;
          c.fill = fill;
          cases.push_back(c);
        }
  expect_all(cases);
}

TEST(CpuAttention, SoftCaps) {
  std::vector<AttentionProblem> cases;
  for (const float softcap : {0.25F, 1.0F, 50.0F})
    for (const std::int64_t queries : {1, 3, 40})
      for (const Mask mask : {Mask::kNone, Mask::kBool, Mask::kFloat})
        for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
          AttentionProblem c;
          c.type = type;
          c.queries = queries;
          c.keys = 293;
          c.heads = 2;
          c.mask = mask;
          c.causal = 2;
          c.softcap = softcap;
          cases.push_back(c);
        }
  AttentionProblem packed;
  packed.queries = packed.keys = 40;
  packed.bounds = {0, 13, 40};
  packed.longest = 27;
  packed.softcap = 0.5F;
  cases.push_back(packed);
  expect_all(cases);
}

TEST(CpuAttention, RowsThatSeeNothing) {
  for (const std::uint8_t guard : {0, 1, 2}) {
    AttentionCase masked(
        AttentionProblem{.queries = 2, .keys = 3, .mask = Mask::kBool, .guard = guard});
    masked.mask() = {std::byte{0}, std::byte{0}, std::byte{0},
                     std::byte{1}, std::byte{0}, std::byte{1}};
    const AttentionProblem limited{.queries = 3, .guard = guard, .limits = {0, 2, -7}};
    const AttentionProblem parts{.queries = 2, .keys = 900, .guard = guard, .limits = {0, 600}};
    const AttentionProblem causal{.queries = 9, .keys = 4, .causal = 2, .guard = guard};
    for (const AttentionCase& attention :
         {masked, AttentionCase(limited), AttentionCase(parts), AttentionCase(causal)}) {
      const Bytes y = attention.run(attention.plan().build(), 2), expected = attention.definition();
      std::size_t unseen = 0;
      for (std::size_t i = 0; i < y.size() / sizeof(float); ++i) {
        const double value = element(DType::kFloat32, y, static_cast<std::int64_t>(i)),
                     wanted = element(DType::kFloat32, expected, static_cast<std::int64_t>(i));
        EXPECT_TRUE(std::isnan(wanted) ? std::isnan(value) : std::abs(value - wanted) < 1e-5)
            << value << " instead of " << wanted;
        unseen += guard != 0 ? wanted == 0 : std::isnan(wanted);
      }
      EXPECT_GT(unseen, 0U);
    }
  }
}

/// Limits of a decode step, of a prefill behind what a cache holds, beyond all keys.
std::vector<AttentionProblem> limited_cases() {
  std::vector<AttentionProblem> cases;
  for (const std::int64_t limit : {1, 16, 200, 257, 900, 5000})
    for (const std::int64_t queries : {1, 2, 50}) {
      AttentionProblem c;
      c.heads = 3;
      c.keys = 900;
      c.queries = queries;
      for (std::int64_t i = 0; i < queries; ++i) c.limits.push_back(limit + i);
      cases.push_back(c);
    }
  return cases;
}

TEST(CpuAttention, Limits) { expect_all(limited_cases()); }

TEST(CpuAttention, KeysBehindTheLimitsAreNotRead) {
  for (const DType type : {DType::kFloat32, DType::kFloat16})
    for (AttentionProblem c : limited_cases()) {
      SCOPED_TRACE(name_of(c));
      c.type = type;
      AttentionCase attention(c);
      const Plan built = attention.plan().build();
      const Bytes clean = attention.run(built, 2);
      for (std::int64_t g = 0; g < c.groups; ++g)
        for (std::int64_t key = c.limits.back(); key < c.keys; ++key)
          for (std::int64_t i = 0; i < c.head; ++i) {
            set_element(type, attention.keys(), (g * c.keys + key) * c.head + i, kNaN);
            set_element(type, attention.values(), (g * c.keys + key) * c.head + i, kNaN);
          }
      EXPECT_EQ(attention.run(built, 2), clean);
    }
}

TEST(CpuAttention, PackedSequencesSeeTheirOwnKeys) {
  std::vector<AttentionProblem> cases;
  for (const std::int64_t heads : {1, 3})
    for (const std::vector<std::int64_t>& bounds :
         std::vector<std::vector<std::int64_t>>{{0, 300},
                                                {0, 1, 1, 140, 300},
                                                {5, 5, 130, 131, 290},
                                                {0, 0},
                                                {300, 300},
                                                {-7, 40, 9000}})
      for (const std::int64_t longest : {1, 290}) {
        AttentionProblem c;
        c.heads = heads;
        c.queries = c.keys = 300;
        c.bounds = bounds;
        c.longest = longest;
        cases.push_back(c);
      }
  AttentionProblem narrow;
  narrow.type = DType::kFloat16;
  narrow.queries = narrow.keys = 40;
  narrow.bounds = {0, 13, 40};
  narrow.longest = 27;
  cases.push_back(narrow);
  expect_all(cases);
}

TEST(CpuAttention, NothingToAttend) {
  expect_all({AttentionProblem{.groups = 0}, AttentionProblem{.queries = 0},
              AttentionProblem{.keys = 0, .guard = 1}});
}

struct BadAttention {
  const char* name;
  std::function<void(fb::PlanT&, fb::AttentionStepT&)> damage;
  const char* expected;
};

TEST(AttentionPlan, DamageIsRefusedByName) {
  const BadAttention damages[] = {
      {"head", [](auto&, auto& step) { step.head = 0; }, "heads of 0 columns"},
      {"value head", [](auto&, auto& step) { step.value_head = 5000; }, "heads of 5000 columns"},
      {"causal", [](auto&, auto& step) { step.causal = 3; }, "unknown kind 3"},
      {"softcap", [](auto&, auto& step) { step.softcap = 2; }, "its soft cap is 2, not a program"},
      {"scores of other loops",
       [](auto&, auto& step) {
         step.scores->extents.pop_back();
         step.scores->accesses[0]->strides.pop_back();
       },
       "the loops of its scores are not its batch, rows and keys"},
      {"scores without a store", [](auto&, auto& step) { step.scores->instrs.pop_back(); },
       "its program of scores makes none"},
      {"scores in a sum",
       [](auto&, auto& step) {
         step.scores->instrs[3]->kind = fb::InstrKind::Reduce;
         step.scores->instrs[3]->op = 0;
       },
       "its scores are not pointwise"},
      {"rows", [](auto&, auto& step) { step.rows = 9999; }, "the number of rows is 9999"},
      {"batch", [](auto&, auto& step) { step.batch.pop_back(); }, "2 batch strides for 1"},
      {"buffer", [](auto&, auto& step) { step.v->buffer = 99; }, "its values is 99"},
      {"types",
       [](auto& plan, auto& step) {
         step.k->dtype = plan.buffers[step.k->buffer]->dtype = plan.inputs[1]->dtype =
             static_cast<std::uint8_t>(DType::kFloat16);
       },
       "its keys are of type f16 beside queries of type f32"},
      {"columns", [](auto&, auto& step) { step.q->col_stride = step.q->row_stride; },
       "the columns of its queries are not contiguous"},
      {"mask",
       [](auto& plan, auto& step) {
         step.mask->dtype = plan.buffers[step.mask->buffer]->dtype = plan.inputs[3]->dtype =
             static_cast<std::uint8_t>(DType::kInt8);
       },
       "its mask is of type i8"},
      {"limits", [](auto&, auto& step) { step.limits->buffer = step.q->buffer; },
       "its limits is of type i64 in a buffer of type f32"},
      {"undeclared", [](auto& plan, auto&) { plan.steps[0]->reads.clear(); }, "undeclared"},
      {"target", [](auto& plan, auto&) { plan.target = "cuda"; }, "cannot run on target 'cuda'"},
  };
  AttentionProblem c;
  c.mask = Mask::kBool;
  c.limits.assign(5, 7);
  c.softcap = 2;
  const AttentionCase attention(c);
  for (const BadAttention& damage : damages) {
    SCOPED_TRACE(damage.name);
    PlanBuilder p = attention.plan();
    plan::PlanParts parts = p.parts();
    damage.damage(parts.meta, *parts.meta.steps[0]->work.AsAttentionStep());
    try {
      plan::parse_plan(plan::serialize_plan(parts));
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
      EXPECT_THAT(error.what(), HasSubstr(damage.expected));
    }
  }
}

TEST(AttentionPlan, PackedSequencesHaveNoMask) {
  AttentionProblem c;
  c.keys = c.queries;
  c.limits.assign(5, 7);
  c.bounds = {0, 2, 5};
  EXPECT_THROW(AttentionCase(c).plan().build(), Error);
  c.limits.clear();
  EXPECT_NO_THROW(AttentionCase(c).plan().build());
}

TEST(AttentionPlan, NoOperandLeavesItsBuffer) {
  AttentionProblem c;
  c.mask = Mask::kFloat;
  c.limits.assign(5, 7);
  const auto refuse = [&](const std::function<void(PlanBuilder&, fb::AttentionStepT&)>& change,
                          const char* expected) {
    PlanBuilder p = AttentionCase(c).plan();
    change(p, *p.meta.steps[0]->work.AsAttentionStep());
    try {
      AttentionCase(c).run(p.build(), 1);
      FAIL() << "accepted; expected: " << expected;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  };
  refuse([](auto& p, auto& s) { s.rows = p.constant(6); }, "its queries reaches");
  refuse([](auto& p, auto& s) { s.keys = p.constant(38); }, "its keys reaches");
  refuse([](auto&, auto& s) { s.value_head = 17; }, "its values reaches");
  refuse([](auto& p, auto& s) { s.y->offset = p.constant(1); }, "its result reaches");
  refuse([](auto& p, auto& s) { s.mask->offset = p.constant(1); }, "its mask reaches");
  refuse([](auto& p, auto& s) { s.limits->offset = p.constant(1); }, "its limits reaches");
  c = {};
  c.keys = c.queries;
  c.bounds = {0, 2, 5};
  refuse([](auto& p, auto& s) { s.sequences = p.constant(3); }, "its bounds reaches");
  refuse([](auto& p, auto& s) { s.keys = p.constant(4); }, "5 queries and 4 keys");
}

}  // namespace
}  // namespace sinter::testing
