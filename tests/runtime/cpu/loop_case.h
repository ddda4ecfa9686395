// SPDX-License-Identifier: Apache-2.0
// One loop program run by the tile executor and by its definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "runtime/cpu/tiles/tile_program.h"
#include "runtime/plan/verify/verify_plan.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"
#include "tests/support/loop_interpreter.h"

namespace sinter::testing {

using Buffers = std::vector<std::vector<std::byte>>;

/// Runs the only step of `builder` both ways on random data and compares all outputs.
class LoopCase {
 public:
  explicit LoopCase(PlanBuilder builder, std::vector<std::int64_t> symbols = {})
      : plan_(plan::parse_plan(builder.bytes())),
        symbols_(std::move(symbols)),
        values_(plan::evaluate_expressions(plan_->meta, symbols_)) {
    plan::verify_bound(plan_->meta, values_);
    for (const auto& buffer : plan_->meta.buffers) {
      buffers_.emplace_back(static_cast<std::size_t>(values_[buffer->bytes]));
      if (buffer->kind == fb::BufferKind::Weight) {
        const auto weight = plan_->weight(*buffer, buffers_.back().size());
        std::copy(weight.begin(), weight.end(), buffers_.back().begin());
      } else if (buffer->kind == fb::BufferKind::Input) {
        randomise(static_cast<DType>(buffer->dtype), buffers_.back());
      }
    }
  }

  Buffers& buffers() { return buffers_; }
  DType type(std::size_t buffer) const {
    return static_cast<DType>(plan_->meta.buffers[buffer]->dtype);
  }
  const fb::LoopProgramT& program() const {
    return *plan_->meta.steps[0]->work.AsLoopStep()->program;
  }

  bool is_across() const { return schedule().across; }
  runtime::cpu::TileSchedule schedule() const {
    return runtime::cpu::TileProgram(plan_->meta, program(), values_, 1).schedule();
  }

  Buffers run(int threads) const {
    Buffers result = buffers_;
    const runtime::cpu::TileProgram tiles(plan_->meta, program(), values_, threads);
    std::vector<std::vector<std::uint64_t>> memory(
        static_cast<std::size_t>(threads),
        std::vector<std::uint64_t>(tiles.workspace_bytes() / 8 + 8));
    std::vector<std::byte*> workspaces, addresses;
    for (auto& one : memory) {
      auto* begin = reinterpret_cast<std::byte*>(one.data());
      workspaces.push_back(begin + (64 - reinterpret_cast<std::uintptr_t>(begin) % 64) % 64);
    }
    for (auto& buffer : result) addresses.push_back(buffer.data());
    tiles.run(addresses, workspaces);
    return result;
  }

  void check(double tolerance = 2e-6) const {
    Buffers expected = buffers_;
    test::interpret(program(), types(), values_, expected, test::Between::kRounded);
    const Buffers one = run(1);
    const Buffers three = run(3);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (plan_->meta.buffers[b]->kind != fb::BufferKind::Output) continue;
      EXPECT_EQ(one[b], three[b]) << "threads change bits of buffer " << b;
      const DType t = type(b);
      double largest = 1e-30;
      const auto count = static_cast<std::int64_t>(expected[b].size() / size_of(t));
      for (std::int64_t i = 0; i < count; ++i)
        if (std::isfinite(element(t, expected[b], i)))
          largest = std::max(largest, std::abs(element(t, expected[b], i)));
      const double unit = t == DType::kFloat16 ? 1e-3 : t == DType::kBFloat16 ? 8e-3 : 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double want = element(t, expected[b], i), got = element(t, one[b], i);
        if (std::isnan(want) && std::isnan(got)) continue;
        if (want == got) continue;
        ASSERT_NEAR(got, want, is_float(t) ? (tolerance + unit) * largest : 0)
            << "buffer " << b << " element " << i;
      }
    }
  }

 private:
  std::vector<DType> types() const {
    std::vector<DType> all;
    for (std::size_t b = 0; b < buffers_.size(); ++b) all.push_back(type(b));
    return all;
  }
  static void randomise(DType type, std::vector<std::byte>& bytes) {
    std::mt19937 random(11);
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (std::size_t i = 0; i < bytes.size() / size_of(type); ++i) {
      const double v = uniform(random);
      set_element(type, bytes, static_cast<std::int64_t>(i),
                  type == DType::kBool      ? v > 0
                  : is_float(type)          ? v
                  : is_signed_integer(type) ? std::trunc(v * 3)
                                            : std::trunc((v + 2) * 3));
    }
  }

  std::shared_ptr<const plan::PlanData> plan_;
  std::vector<std::int64_t> symbols_, values_;
  Buffers buffers_;
};

}  // namespace sinter::testing
