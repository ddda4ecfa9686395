// SPDX-License-Identifier: Apache-2.0
// Text of tokens as they come.
#include "runtime/engine/output_text.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace sinter::testing {
namespace {

using engine::OutputText;
using engine::repaired_utf8;
using engine::Utf8Stream;
using Stops = std::vector<std::string>;

TEST(Utf8, DamagedTextIsRepaired) {
  EXPECT_EQ(repaired_utf8("a\xC3\xA9z"), "a\xC3\xA9z");
  EXPECT_EQ(repaired_utf8("a\xC3z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(repaired_utf8("\xE2\x82"), "\xEF\xBF\xBD");              // one cut short
  EXPECT_EQ(repaired_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // overlong
  EXPECT_EQ(repaired_utf8("\xED\xA0\x80").size(), 9U);               // a surrogate
  EXPECT_EQ(repaired_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Utf8, StreamsGiveWholeCharacters) {
  Utf8Stream stream;
  EXPECT_EQ(stream.add("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.add("\x98"), "");
  EXPECT_EQ(stream.add("\x80\xE2"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.add("z"), "\xEF\xBF\xBDz");
  EXPECT_EQ(stream.add("\xC3"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(OutputText, WhatMayBecomeAStopStringWaits) {
  const Stops stops = {"</end>", "STOP"};
  OutputText text(stops);
  EXPECT_EQ(text.add("one <"), "one ");
  EXPECT_EQ(text.add("/e"), "");
  EXPECT_EQ(text.add("x ST"), "</ex ");
  EXPECT_EQ(text.add("OP and more"), "");
  EXPECT_TRUE(text.has_stopped());
  EXPECT_EQ(text.finish(), "");
}

TEST(OutputText, WhatWaitedComesAtTheEnd) {
  const Stops stops = {"abcd"};
  OutputText text(stops);
  EXPECT_EQ(text.add("xab"), "x");
  EXPECT_EQ(text.add("c"), "");
  EXPECT_FALSE(text.has_stopped());
  EXPECT_EQ(text.finish(), "abc");
}

TEST(OutputText, TheFirstStopStringCounts) {
  const Stops stops = {"abcd", "bc"};
  OutputText text(stops);
  EXPECT_EQ(text.add("ab"), "");
  EXPECT_EQ(text.add("c"), "");  // it may become the one that begins first
  EXPECT_EQ(text.add("x"), "a");
  EXPECT_TRUE(text.has_stopped());
}

TEST(OutputText, AStopStringMayBeginInsideACharactersBytes) {
  const Stops stops = {"\xC3\xA9"};
  OutputText text(stops);
  EXPECT_EQ(text.add("a\xC3"), "a");
  EXPECT_EQ(text.add("\xA9z"), "");
  EXPECT_TRUE(text.has_stopped());
}

TEST(OutputText, PiecesDoNotMatter) {
  std::mt19937_64 random(7);
  const Stops stops = {"aab", "ba\xC3\xA9", "bb"};
  const std::string bytes = "aab\xC3\xA9";
  for (int round = 0; round < 2000; ++round) {
    std::string all;
    for (int i = 0; i < 12; ++i) all += bytes[random() % bytes.size()];
    std::size_t stop = std::string::npos;
    const std::string whole = repaired_utf8(all);
    for (const std::string& each : stops) stop = std::min(stop, whole.find(each));
    OutputText text(stops);
    std::string found;
    for (std::size_t at = 0; at < all.size() && !text.has_stopped();) {
      const std::size_t size = 1 + random() % 4;
      found += text.add(std::string_view(all).substr(at, size));
      at += size;
    }
    const bool has_stopped = text.has_stopped();
    found += text.finish();
    ASSERT_EQ(found, whole.substr(0, stop));
    ASSERT_TRUE(!has_stopped || stop != std::string::npos);
  }
}

}  // namespace
}  // namespace sinter::testing
