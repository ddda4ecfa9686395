// SPDX-License-Identifier: Apache-2.0
// Where buffers lie in the arena.
#include <cstdint>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_builder.h"

namespace sinter::testing {
namespace {

TEST(PlanMemory, OverlapsLifetimes) {
  PlanBuilder b;
  const Id size = b.constant(1000);
  const auto add = [&](Id first, Id last) {
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->kind = fb::BufferKind::Arena;
    buffer->bytes = size;
    buffer->first_step = first;
    buffer->last_step = last;
    b.meta.buffers.push_back(std::move(buffer));
  };
  add(0, 1);
  add(1, 2);
  add(2, 3);
  const auto layout = plan::plan_memory(b.meta, plan::evaluate_expressions(b.meta, {}));
  EXPECT_EQ(layout.arena_bytes, 2048u);
  EXPECT_EQ(layout.unshared_bytes, 3072u);
  EXPECT_EQ(layout.offsets, (std::vector<std::uint64_t>{0, 1024, 0}));
}

TEST(PlanMemory, LiveBuffersNeverShareBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PlanBuilder b;
    for (int i = 0; i < 40; ++i) {
      auto buffer = std::make_unique<fb::BufferT>();
      buffer->kind = fb::BufferKind::Arena;
      buffer->bytes = b.constant(random() % 5000);
      buffer->first_step = random() % 20;
      buffer->last_step = buffer->first_step + random() % 6;
      b.meta.buffers.push_back(std::move(buffer));
    }
    const auto values = plan::evaluate_expressions(b.meta, {});
    const auto layout = plan::plan_memory(b.meta, values);
    for (std::size_t i = 0; i < b.meta.buffers.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto& x = *b.meta.buffers[i];
        const auto& y = *b.meta.buffers[j];
        if (x.last_step < y.first_step || y.last_step < x.first_step) continue;
        const auto xs = static_cast<std::uint64_t>(values[x.bytes]);
        const auto ys = static_cast<std::uint64_t>(values[y.bytes]);
        if (xs == 0 || ys == 0) continue;
        EXPECT_TRUE(layout.offsets[i] + xs <= layout.offsets[j] ||
                    layout.offsets[j] + ys <= layout.offsets[i]);
        EXPECT_LE(layout.offsets[i] + xs, layout.arena_bytes);
      }
    }
  }
}

TEST(PlanMemory, ImpossibleSizesAreErrors) {
  for (const std::int64_t bytes : {std::int64_t{-1}, INT64_MAX}) {
    PlanBuilder b;
    b.meta.buffers.push_back(std::make_unique<fb::BufferT>());
    b.meta.buffers[0]->kind = fb::BufferKind::Arena;
    b.meta.buffers[0]->bytes = b.constant(bytes);
    EXPECT_THROW(plan::plan_memory(b.meta, plan::evaluate_expressions(b.meta, {})), Error);
  }
}

}  // namespace
}  // namespace sinter::testing
