// SPDX-License-Identifier: Apache-2.0
#include "ir/dim/dim.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "tests/ir/expect_error.h"

namespace sinter::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dim B = Dim::symbol("B"), S = Dim::symbol("S"), N = Dim::symbol("n");

/// The range of an index into `extent` elements.
Range index_range(const Dim& extent) {
  Range range;
  range.min = 0;
  if (extent.is_constant()) range.max = extent.value() - 1;
  range.symbolic_max = std::make_shared<const Dim>(extent - Dim(1));
  return range;
}

TEST(Dim, NormalFormMakesEqualPolynomialsEqual) {
  EXPECT_EQ(B * S, S * B);
  EXPECT_EQ((B + 1) * (S + 2), B * S + 2 * B + S + 2);
  EXPECT_EQ(B - B, Dim(0));
  EXPECT_EQ((B + S) * (B - S), B * B - S * S);
  EXPECT_NE(B * S, B + S);
  EXPECT_NE(B, S);
  EXPECT_TRUE((B - B).terms().empty());
}

TEST(Dim, ConstantsAndSymbolsAreRecognised) {
  EXPECT_TRUE(Dim(384).is_constant());
  EXPECT_EQ(Dim(384).value(), 384);
  EXPECT_EQ(Dim(0).value(), 0);
  EXPECT_FALSE(B.is_constant());
  EXPECT_EQ(B.as_symbol(), "B");
  EXPECT_FALSE((B * 2).as_symbol().has_value());
  EXPECT_FALSE((B * S).as_symbol().has_value());
  EXPECT_FALSE(Dim(3).as_symbol().has_value());
  EXPECT_THAT(error_of([] { (void)(B + 1).value(); }, ErrorCode::kInternal), HasSubstr("B + 1"));
  EXPECT_THAT((S * B + floor_div(N, 2)).symbols(), ElementsAre("B", "S", "n"));
}

TEST(Dim, PrintsReadably) {
  EXPECT_EQ((B * S + 2).to_string(), "B*S + 2");
  EXPECT_EQ((2 - S).to_string(), "-S + 2");
  EXPECT_EQ((B * B * 3 - S * 12).to_string(), "3*B*B - 12*S");
  EXPECT_EQ(floor_div(S, 2).to_string(), "floordiv(S, 2)");
  EXPECT_EQ(min(B, S).to_string(), "min(B, S)");
  EXPECT_EQ(Dim::symbol("unk 1").to_string(), "\"unk 1\"");
  EXPECT_EQ(Dim(0).to_string(), "0");
  EXPECT_EQ(to_string(Shape{B, S, 384}), "[B, S, 384]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Dim, OverflowIsRefused) {
  const Dim big = INT64_MAX;
  EXPECT_THAT(error_of([&] { (void)(big + 1); }, ErrorCode::kInvalidModel), HasSubstr("overflows"));
  EXPECT_THAT(error_of([&] { (void)(B * big * 2); }, ErrorCode::kInvalidModel),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of(
                  [&] {
                    (void)(B * big).evaluate({{"B", 2}});
                  },
                  ErrorCode::kInvalidModel),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of([&] { (void)(Dim(0) - Dim(INT64_MIN)); }, ErrorCode::kInvalidModel),
              HasSubstr("overflows"));
}

TEST(Dim, ExpressionsThatExplodeAreRefused) {
  const auto explode = [] {
    Dim product = 1;
    for (int i = 0; i < 40; ++i)
      product =
          product * (Dim::symbol("a" + std::to_string(i)) + Dim::symbol("b" + std::to_string(i)));
  };
  EXPECT_THAT(error_of(explode, ErrorCode::kInvalidModel), HasSubstr("terms"));
}

TEST(Dim, Evaluates) {
  const Dim e = B * S * 384 + floor_div(S + 1, 2) - min(B, S) + max(B, 7);
  EXPECT_EQ(e.evaluate({{"B", 2}, {"S", 5}}), 2 * 5 * 384 + 3 - 2 + 7);
  EXPECT_THAT(error_of(
                  [&] {
                    (void)e.evaluate({{"B", 2}});
                  },
                  ErrorCode::kUsage),
              HasSubstr("'S' has no value"));
  EXPECT_THAT(error_of(
                  [&] {
                    (void)floor_div(B, S).evaluate({{"B", 2}, {"S", 0}});
                  },
                  ErrorCode::kInvalidModel),
              HasSubstr("division by zero"));
}

TEST(Dim, SubstitutesSimultaneously) {
  EXPECT_EQ((B * S + B).substitute({{"B", S}, {"S", B}}), B * S + S);
  EXPECT_EQ(floor_div(B * 2 + 1, 3).substitute({{"B", Dim(4)}}), Dim(3));
  EXPECT_EQ(min(B, S).substitute({{"S", B + 1}}), B);
  // Substituting takes nothing for granted: i may be zero here.
  const Dim i = Dim::symbol("i");
  EXPECT_EQ(min(B, S).substitute({{"B", i}, {"S", Dim(1)}}).evaluate({{"i", 0}}), 0);
}

TEST(Dim, SimplifyUsesRanges) {
  const Dim e = floor_div(N, 8) + min(N, 8);
  EXPECT_EQ(simplify(e, {{"n", {1, 7, nullptr}}}), N);
  EXPECT_EQ(simplify(e, {{"n", {8, 15, nullptr}}}), Dim(9));
}

TEST(DimDivision, DividesPolynomials) {
  EXPECT_EQ(floor_div(6 * N, 2), 3 * N);
  EXPECT_EQ(floor_div(B * S * 384, S * 32), 12 * B);
  EXPECT_EQ(floor_div(B * S + B, S + 1), B);
  EXPECT_EQ(floor_div(4 * N + 3, 4), N);
  EXPECT_EQ(floor_div(4 * N + 5, 4), N + 1);
  EXPECT_EQ(floor_div(7 * N + 3, 2), 3 * N + 1 + floor_div(N + 1, 2));
  EXPECT_EQ(floor_div(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(floor_div(Dim(7), Dim(-2)), Dim(-4));
  EXPECT_EQ(floor_div(Dim(0), N), Dim(0));
  EXPECT_EQ(floor_div(2 * N, 4), floor_div(N, 2));
  EXPECT_EQ(floor_div(2 * N + 1, 4), floor_div(N, 2));
  EXPECT_EQ(floor_div(B * N, B * S), floor_div(N, S));
  EXPECT_EQ(floor_div(floor_div(N, 4), 3), floor_div(N, 12));
  EXPECT_EQ(floor_div(floor_div(N, 4) + 2, 3), floor_div(N + 8, 12));
  // A convolution of stride 2, kernel 3, padding 1 and 1.
  EXPECT_EQ(floor_div(N + 2 - 3, 2) + 1, floor_div(N + 1, 2));
  EXPECT_THAT(error_of([] { (void)floor_div(N, 0); }, ErrorCode::kInvalidModel), HasSubstr("zero"));
}

TEST(DimDivision, SplitsIndicesOfRows) {
  Ranges ranges;
  const Dim i = Dim::symbol("$0"), j = Dim::symbol("$1"), h = Dim::symbol("$2"),
            d = Dim::symbol("$3");
  ranges["$0"] = index_range(B);
  ranges["$1"] = index_range(S);
  ranges["$2"] = index_range(12);
  ranges["$3"] = index_range(32);
  const Dim x = i * S * 384 + j * 384 + h * 32 + d;
  EXPECT_EQ(floor_div(x, 384, ranges), i * S + j);
  EXPECT_EQ(mod(x, 384, ranges), h * 32 + d);
  EXPECT_EQ(mod(x, 32, ranges), d);
  EXPECT_EQ(mod(floor_div(x, 32, ranges), 12, ranges), h);
  EXPECT_EQ(mod(floor_div(x, 384, ranges), S, ranges), j);
  EXPECT_EQ(floor_div(x, S * 384, ranges), i);
  EXPECT_EQ(floor_div(h * 32 + d, 384, ranges), Dim(0));
  // Reversed and shifted indices.
  EXPECT_EQ(floor_div(11 - h, 12, ranges), Dim(0));
  EXPECT_EQ(floor_div(S - 1 - j, S, ranges), Dim(0));
  EXPECT_EQ(floor_div(Dim(-1) - j, S, ranges), Dim(-1));
  EXPECT_EQ(floor_div(S + j, S, ranges), Dim(1));
  EXPECT_EQ(floor_div(d + 32, 32, ranges), Dim(1));
  // Half a row: the quotient is that of h alone.
  EXPECT_EQ(floor_div(h * 32 + d, 64, ranges), floor_div(h, 2));
}

TEST(DimDivision, NestedDivisionsBySymbolsMerge) {
  const Dim i = Dim::symbol("$0");
  Ranges ranges{{"$0", index_range(B * S)}};
  EXPECT_EQ(floor_div(floor_div(i, S, ranges), B, ranges), Dim(0));
  EXPECT_EQ(floor_div(floor_div(i, S, ranges) + N * B, B, ranges), N);
  EXPECT_EQ(floor_div(floor_div(i, S), N), floor_div(i, S * N));
  // By a negative divisor it would be wrong: floor(floor(1 / 2) / -2) is 0, floor(1 / -4) is -1.
  ranges["S"] = Range{-4, 4, nullptr};
  const Dim kept = floor_div(floor_div(i, 2, ranges), S, ranges);
  EXPECT_EQ(kept.evaluate({{"$0", 1}, {"S", -2}}), 0);
}

TEST(DimDivision, WhatIsNotProvenStays) {
  Ranges ranges;
  ranges["$0"] = index_range(B);
  const Dim i = Dim::symbol("$0");
  EXPECT_EQ(floor_div(i, S, ranges).to_string(), "floordiv($0, S)");
  EXPECT_EQ(mod(i, 7, ranges).to_string(), "$0 - 7*floordiv($0, 7)");
  EXPECT_EQ(floor_div(i, B + 1, ranges), Dim(0));
}

TEST(DimDivision, MergingAndSplittingCancels) {
  Ranges ranges;
  const Dim u = Dim::symbol("$0"), v = Dim::symbol("$1");
  ranges["$0"] = index_range(B * S);
  ranges["$1"] = index_range(384);
  // [B*S, 384] seen as [B, S, 384] and back.
  const Dim b = floor_div(u, S, ranges), s = mod(u, S, ranges);
  EXPECT_EQ(b * S * 384 + s * 384 + v, u * 384 + v);
  EXPECT_EQ(floor_div(b * S + s, S, ranges), b);
  // 384 seen as [12, 32]: the parts are in range without knowing how they came about.
  const Dim h = floor_div(v, 32, ranges), d = mod(v, 32, ranges);
  EXPECT_EQ(floor_div(d, 32, ranges), Dim(0));
  EXPECT_EQ(floor_div(h, 12, ranges), Dim(0));
  EXPECT_EQ(floor_div(h * 32 + d, 32, ranges), h);
  EXPECT_EQ(floor_div(b, B, ranges), Dim(0));
  // The same through a remainder of an index of unknown size.
  const Dim t = Dim::symbol("$2");
  const Dim head = floor_div(mod(t, 384), 32);
  EXPECT_EQ(floor_div(head, 12), Dim(0));
  EXPECT_EQ(mod(mod(t, 384), 32), mod(t, 32));
  EXPECT_EQ(mod(head * 32 + mod(t, 32), 32), mod(t, 32));
}

TEST(DimDivision, ExactlyAndMultiples) {
  EXPECT_EQ(divide_exactly(B * S * 12, B * 4), 3 * S);
  EXPECT_EQ(divide_exactly(B * B - S * S, B + S), B - S);
  EXPECT_FALSE(divide_exactly(B * S + 1, B));
  EXPECT_FALSE(divide_exactly(3 * B, 2));
  EXPECT_FALSE(divide_exactly(B, 0));
  EXPECT_TRUE(is_multiple_of(B * 8 + 16, 8));
  EXPECT_FALSE(is_multiple_of(B * 8 + 4, 8));
  EXPECT_FALSE(is_multiple_of(floor_div(B, 2), 2));
  EXPECT_TRUE(is_multiple_of(Dim(0), 8));
}

TEST(DimDivision, CeilRoundsUp) {
  EXPECT_EQ(ceil_div(Dim(7), Dim(2)), Dim(4));
  EXPECT_EQ(ceil_div(4 * N, 4), N);
  EXPECT_EQ(ceil_div(4 * N + 1, 4), N + 1);
  EXPECT_EQ(ceil_div(N, 2), floor_div(N + 1, 2));
}

TEST(DimBounds, OfPolynomials) {
  const Ranges ranges{{"B", {1, 64, nullptr}}, {"S", {1, 512, nullptr}}};
  EXPECT_EQ(lower_bound(B * S - B, ranges), 0);
  EXPECT_EQ(upper_bound(B * S, ranges), 64 * 512);
  EXPECT_EQ(lower_bound(N), 1);
  EXPECT_EQ(upper_bound(N), std::nullopt);
  EXPECT_EQ(lower_bound(Dim::symbol("$7")), 0);
  EXPECT_EQ(lower_bound(-1 * B, ranges), -64);
  EXPECT_EQ(lower_bound(floor_div(S, 2), ranges), 0);
  EXPECT_EQ(upper_bound(floor_div(S, 2), ranges), 256);
  EXPECT_EQ(upper_bound(mod(N, 32)), 31);
  EXPECT_EQ(lower_bound(mod(N, 32)), 0);
  EXPECT_EQ(upper_bound(min(N, 100)), 100);
  EXPECT_EQ(lower_bound(max(N, 100)), 100);
  EXPECT_EQ(upper_bound(max(B, S), ranges), 512);
  EXPECT_EQ(upper_bound(B * INT64_MAX, ranges), std::nullopt);
}

TEST(DimBounds, OfWhatTwoStridesLeave) {
  // q = floordiv(x, 80), and floordiv(x + 80, 160) is floordiv(q + 1, 2).
  const Dim rest = floor_div(S, 80) - 2 * floor_div(S + 80, 160);
  EXPECT_EQ(lower_bound(rest), -1);
  EXPECT_EQ(upper_bound(rest), 0);
  EXPECT_EQ(lower_bound(floor_div(S, 80) - 2 * floor_div(S + 60, 160)), std::nullopt);
}

TEST(DimBounds, ProvesOrder) {
  EXPECT_TRUE(proves_le(min(B, S), S));
  EXPECT_TRUE(proves_le(B, max(B, S)));
  EXPECT_TRUE(proves_le(B, B * S));
  EXPECT_FALSE(proves_le(S, B));
  EXPECT_TRUE(proves_le(B * S, B * 512, {{"S", {1, 512, nullptr}}}));
  EXPECT_FALSE(proves_le(B * S, B * 512));
  Ranges ranges;
  ranges["$0"] = index_range(B * S);
  const Dim i = Dim::symbol("$0");
  EXPECT_TRUE(proves_le(floor_div(i, S, ranges), B - 1, ranges));
  EXPECT_TRUE(proves_le(mod(i, S, ranges), S - 1, ranges));
  EXPECT_TRUE(proves_le(i + 1, B * S, ranges));
  EXPECT_FALSE(proves_le(i + 2, B * S, ranges));
  EXPECT_TRUE(proves_le(2 * floor_div(N, 2), N));
}

TEST(DimMinMax, Simplify) {
  EXPECT_EQ(min(Dim(3), Dim(4)), Dim(3));
  EXPECT_EQ(max(Dim(3), Dim(4)), Dim(4));
  EXPECT_EQ(max(N, 1), N);
  EXPECT_EQ(min(N, N + 3), N);
  EXPECT_EQ(max(N + 1, 3), max(N, 2) + 1);
  EXPECT_EQ(min(B, S), min(S, B));
  EXPECT_EQ(min(B + 4, S + 7), min(B, S + 3) + 4);
  EXPECT_NE(max(N, 0, {{"n", {-5, 5, nullptr}}}), N);
}

TEST(DimShape, Helpers) {
  EXPECT_EQ(element_count({}), Dim(1));
  EXPECT_EQ(element_count({B, S, 384}), 384 * B * S);
  EXPECT_THAT(contiguous_strides({B, S, 384}), ElementsAre(384 * S, Dim(384), Dim(1)));
  EXPECT_EQ(broadcast({B, 1, 384}, {S, 1}), (Shape{B, S, 384}));
  EXPECT_EQ(broadcast({}, {B}), Shape{B});
  EXPECT_THAT(error_of(
                  [] {
                    (void)broadcast({B, 2}, {S, 2});
                  },
                  ErrorCode::kInvalidModel),
              HasSubstr("[B, 2] and [S, 2] do not broadcast: dimensions B and S differ"));
  EXPECT_THAT(error_of([] { (void)broadcast({3}, {4}); }, ErrorCode::kInvalidModel),
              HasSubstr("dimensions 3 and 4 differ"));
}

TEST(DimText, ParsesWhatItPrints) {
  for (const char* text :
       {"0", "-7", "B*S + 2", "floordiv(B + 1, 2)", "min(a, max(b, 3)) - 2*b", "\"batch size\"*2",
        "$0*S + $1", "-B*B + 12", "-9223372036854775808*B - 9223372036854775808"}) {
    const Dim dim = parse_dim(text);
    EXPECT_EQ(parse_dim(dim.to_string()), dim) << text;
  }
  EXPECT_EQ(parse_dim("2 * (B + 1) * (B - 1)"), 2 * B * B - 2);
  EXPECT_EQ(parse_dim("\"a\\\"b\\x01\"").as_symbol(), "a\"b\x01");
}

TEST(DimText, MistakesAreNamedWithTheirPosition) {
  const auto message = [](const char* text) {
    return error_of([&] { (void)parse_dim(text); }, ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(message(""), HasSubstr("position 1: expected a dimension"));
  EXPECT_THAT(message("B + "), HasSubstr("position 5: expected a dimension"));
  EXPECT_THAT(message("B ? 2"), HasSubstr("position 3: unexpected '?'"));
  EXPECT_THAT(message("floordiv(B)"), HasSubstr("position 11: expected ','"));
  EXPECT_THAT(message("floordiv(B, 0)"), HasSubstr("by zero"));
  EXPECT_THAT(message("99999999999999999999"), HasSubstr("too large"));
  EXPECT_THAT(message("\"abc"), HasSubstr("not closed"));
  EXPECT_THAT(message("9223372036854775807 + 1"), HasSubstr("overflows"));
  EXPECT_THAT(message(std::string(1000, '(').c_str()), HasSubstr("deeply"));
}

// ---- Random expressions against brute force.

struct Sample {
  Dim dim;
  std::function<std::int64_t(const Bindings&)> value;
};

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --q;
  return q;
}

class RandomDims {
 public:
  RandomDims(unsigned seed, const Ranges& ranges) : random_(seed), ranges_(ranges) {
    for (const auto& [name, range] : ranges) names_.push_back(name);
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Sample make(int depth) {
    if (depth == 0 || pick(6) == 0) return leaf();
    Sample a = make(depth - 1), b = make(depth - 1);
    switch (pick(7)) {
      case 0:
      case 1: return {a.dim + b.dim, [=](const Bindings& v) { return a.value(v) + b.value(v); }};
      case 2: return {a.dim - b.dim, [=](const Bindings& v) { return a.value(v) - b.value(v); }};
      case 3: {
        const Sample k = leaf();
        return {a.dim * k.dim, [=](const Bindings& v) { return a.value(v) * k.value(v); }};
      }
      case 4: {
        const Sample d = divisor();
        return {floor_div(a.dim, d.dim, ranges_),
                [=](const Bindings& v) { return floor_of(a.value(v), d.value(v)); }};
      }
      case 5: {
        const Sample d = divisor();
        return {mod(a.dim, d.dim, ranges_), [=](const Bindings& v) {
                  return a.value(v) - d.value(v) * floor_of(a.value(v), d.value(v));
                }};
      }
      default:
        if (pick(2) == 0)
          return {min(a.dim, b.dim, ranges_),
                  [=](const Bindings& v) { return std::min(a.value(v), b.value(v)); }};
        return {max(a.dim, b.dim, ranges_),
                [=](const Bindings& v) { return std::max(a.value(v), b.value(v)); }};
    }
  }

 private:
  Sample leaf() {
    if (pick(3) == 0) {
      const std::int64_t c = pick(14) - 5;
      return {Dim(c), [c](const Bindings&) { return c; }};
    }
    const std::string name =
        names_[static_cast<std::size_t>(pick(static_cast<int>(names_.size())))];
    return {Dim::symbol(name), [name](const Bindings& v) { return v.at(name); }};
  }

  /// A positive divisor: a constant, or a multiple of an extent.
  Sample divisor() {
    const std::int64_t c = 1 + pick(8);
    if (pick(3) != 0) return {Dim(c), [c](const Bindings&) { return c; }};
    const std::string name = pick(2) == 0 ? "B" : "S";
    return {Dim::symbol(name) * c, [=](const Bindings& v) { return v.at(name) * c; }};
  }

  std::mt19937 random_;
  const Ranges& ranges_;
  std::vector<std::string> names_;
};

class DimProperties : public ::testing::TestWithParam<unsigned> {
 protected:
  DimProperties() {
    ranges_["B"] = {1, 4, nullptr};
    ranges_["S"] = {1, 5, nullptr};
    ranges_["$0"] = index_range(B);
    ranges_["$0"].max = 3;
    ranges_["$1"] = index_range(S);
    ranges_["$2"] = index_range(6);
    ranges_["$3"] = index_range(B * S);
  }

  template <typename Check>
  void for_all_bindings(Check&& check) {
    for (std::int64_t b = 1; b <= 4; ++b)
      for (std::int64_t s = 1; s <= 5; ++s)
        for (std::int64_t i = 0; i < b; ++i)
          for (std::int64_t j = 0; j < s; ++j)
            for (std::int64_t k = 0; k < 6; k += 1)
              for (std::int64_t l = 0; l < b * s; l += 3)
                check(Bindings{{"B", b}, {"S", s}, {"$0", i}, {"$1", j}, {"$2", k}, {"$3", l}});
  }

  Ranges ranges_;
};

TEST_P(DimProperties, SimplifiedExpressionsKeepTheirValue) {
  RandomDims random(GetParam(), ranges_);
  for (int round = 0; round < 12; ++round) {
    const Sample sample = random.make(4);
    const Dim again = simplify(sample.dim, ranges_);
    const auto low = lower_bound(sample.dim, ranges_), high = upper_bound(sample.dim, ranges_);
    bool ok = true;
    for_all_bindings([&](const Bindings& bindings) {
      if (!ok) return;
      const std::int64_t expected = sample.value(bindings);
      ok = sample.dim.evaluate(bindings) == expected && again.evaluate(bindings) == expected &&
           (!low || *low <= expected) && (!high || *high >= expected);
      EXPECT_TRUE(ok) << sample.dim.to_string() << " and " << again.to_string() << " should be "
                      << expected << ", bounds " << low.value_or(INT64_MIN) << ".."
                      << high.value_or(INT64_MAX) << ::testing::PrintToString(bindings);
    });
  }
}

TEST_P(DimProperties, RebuildingAndTextKeepTheForm) {
  RandomDims random(GetParam() + 1000, ranges_);
  for (int round = 0; round < 50; ++round) {
    const Dim dim = random.make(4).dim;
    EXPECT_EQ(dim.substitute({}), dim) << dim.to_string();
    EXPECT_EQ(parse_dim(dim.to_string()), dim) << dim.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DimProperties, ::testing::Range(0u, 40u));

}  // namespace
}  // namespace sinter::ir
