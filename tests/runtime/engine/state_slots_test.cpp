// SPDX-License-Identifier: Apache-2.0
// Slots of states: one for each sequence always, the others for what is kept and lent.
#include "runtime/engine/state_slots.h"

#include <gtest/gtest.h>
#include <sinter/error.h>

namespace sinter::engine {
namespace {

TEST(StateSlots, SnapshotsLeaveOneForEachSequence) {
  StateSlots slots(4, 2);
  const int first = slots.take();
  const int one = slots.lend(), two = slots.lend();
  EXPECT_GE(one, 0);
  EXPECT_GE(two, 0);
  EXPECT_EQ(slots.lend(), -1) << "the last one is the second sequence's";
  const int second = slots.take();
  slots.check({first, second, one, two});
  EXPECT_THROW(slots.check({first, second, one}), Error);
  slots.keep(7, one);
  slots.keep(8, two);
  slots.check({first, second});
  EXPECT_EQ(slots.snapshots(), 2);
  EXPECT_EQ(slots.used(), 4);
}

TEST(StateSlots, TheLeastRecentlyUsedSnapshotIsEvicted) {
  StateSlots slots(3, 1);
  slots.take();
  for (const ContentId content : {5U, 6U}) slots.keep(content, slots.lend());
  slots.begin_step();
  slots.use(5);
  EXPECT_GE(slots.lend(), 0);
  EXPECT_TRUE(slots.has(5));
  EXPECT_FALSE(slots.has(6));
  EXPECT_EQ(slots.lend(), -1) << "a step reads it";
  slots.begin_step();
  EXPECT_GE(slots.lend(), 0);
  EXPECT_FALSE(slots.has(5));
}

TEST(StateSlots, AKnownContentIsKeptOnce) {
  StateSlots slots(3, 1);
  const int one = slots.lend(), two = slots.lend();
  slots.keep(5, one);
  slots.keep(5, two);
  EXPECT_EQ(slots.snapshots(), 1);
  EXPECT_EQ(slots.use(5), one);
  slots.forget(5);
  slots.forget(5);
  slots.check({});
}

TEST(StateSlots, FewerThanSequencesAreRefused) {
  EXPECT_THROW(StateSlots(2, 3), Error);
  EXPECT_FALSE(StateSlots(0, 3).exist());
}

}  // namespace
}  // namespace sinter::engine
