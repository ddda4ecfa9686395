// SPDX-License-Identifier: Apache-2.0
// What compiled models answer where kernels could take liberties: indices that do not exist, bools
// of other bytes, double rounding, NaN, products over nothing, sizes that steps do not allow.
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sinter/sinter.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

CompileOptions on_the_cpu() {
  CompileOptions options;
  options.target = "cpu";
  options.kernel_cache = "";
  return options;
}

Plan plan_of_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return Plan::from_memory(compile(Model(bytes), on_the_cpu()).plan);
}

/// The code and message of what `call` throws.
template <typename Call>
std::string failure(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

struct PickCase {
  const char* name;
  const char* text;
  std::vector<std::int64_t> shape;  // of the indices
};

const PickCase kPicks[] = {
    {"gather",
     "graph @g(%x: f32[1, 3], %i: i64[2]) {\n%y = Gather(%x, %i) {axis = 0}\nreturn y = %y\n}",
     {2}},
    {"gather_of_a_sum",
     "graph @g(%x: f32[1, 3], %i: i64[2]) {\n%s = Add(%x, %x)\n%y = Gather(%s, %i) {axis = 0}\n%z "
     "= Neg(%y)\n"
     "return y = %z\n}",
     {2}},
    {"take_elements",
     "graph @g(%x: f32[1, 3], %i: i64[1, 3]) {\n%c = Iota() {shape = [1, 3], axis = 1}\n%y = "
     "Take(%x, %i, %c)\n"
     "return y = %y\n}",
     {1, 3}},
    {"take_pairs",
     "graph @g(%x: f32[1, 1], %i: i64[4]) {\n%y = Take(%x, %i, %i)\nreturn y = %y\n}",
     {4}},
    {"symbolic",
     "graph @g(%x: f32[1, n], %i: i64[2]) ranges {n: 1..9} {\n%y = Gather(%x, %i) {axis = "
     "0}\nreturn y = %y\n}",
     {2}},
};

TEST(Semantics, IndicesIntoOneElementAreChecked) {
  for (const PickCase& pick : kPicks) {
    SCOPED_TRACE(pick.name);
    Session session(plan_of_text(pick.text));
    const bool single = std::string(pick.name) == "take_pairs";
    session.set_input("x",
                      single ? std::vector<std::int64_t>{1, 1} : std::vector<std::int64_t>{1, 3},
                      single ? std::vector<float>{7} : std::vector<float>{7, 8, 9});
    std::size_t count = 1;
    for (const std::int64_t dim : pick.shape) count *= static_cast<std::size_t>(dim);
    for (const std::int64_t index : {0, -1}) {
      session.set_input("i", pick.shape, std::vector<std::int64_t>(count, index));
      session.run();
      EXPECT_EQ(std::abs(session.output("y").as<float>()[0]),
                std::string(pick.name) == "gather_of_a_sum" ? 14 : 7);
    }
    for (const std::int64_t index :
         {std::int64_t{1}, std::int64_t{-2}, std::int64_t{5}, INT64_MIN}) {
      session.set_input("i", pick.shape, std::vector<std::int64_t>(count, index));
      EXPECT_THAT(failure(ErrorCode::kUsage, [&] { session.run(); }),
                  HasSubstr("is out of range: the gathered dimension has 1 element"));
    }
  }
}

/// Passes fold constant indices into views and addresses: at the edges of their type nothing may
/// overflow on the way to the error.
TEST(Semantics, ConstantIndicesAtTheEdgesOfTheirType) {
  const char* const texts[] = {
      "graph @g(%x: f32[5, 4]) {{\n%k = const i64[2] {{0, {0}}}\n%p = Gather(%x, %k) {{axis = 0}}\n"
      "%y = Neg(%p)\nreturn y = %y\n}}",
      "graph @g(%x: f32[5, 4]) {{\n%k = const i64[] {{{0}}}\n%p = Gather(%x, %k) {{axis = 1}}\n"
      "%y = Neg(%p)\nreturn y = %y\n}}",
      "graph @g(%x: f32[5, 4]) {{\n%k = const i64[2] {{{0}, {0}}}\n%l = const i64[2] {{0, 1}}\n"
      "%y = Take(%x, %k, %l)\nreturn y = %y\n}}",
      "graph @g(%x: f32[5, 4]) {{\n%k = const i64[] {{{0}}}\n%i = Iota() {{shape = [3], axis = "
      "0}}\n"
      "%j = Mul(%i, %k)\n%p = Gather(%x, %j) {{axis = 0}}\n%y = Neg(%p)\nreturn y = %y\n}}",
  };
  for (const char* text : texts) {
    for (const std::int64_t index : {INT64_MAX, INT64_MIN, INT64_MAX - 1, std::int64_t{1} << 62}) {
      SCOPED_TRACE(fmt::format(fmt::runtime(text), index));
      EXPECT_THROW(
          {
            Session session(plan_of_text(fmt::format(fmt::runtime(text), index)));
            session.set_input("x", {5, 4}, std::vector<float>(20, 1));
            session.run();
          },
          Error);
    }
    Session session(plan_of_text(fmt::format(fmt::runtime(text), 1)));
    session.set_input("x", {5, 4}, std::vector<float>(20, 1));
    session.run();
    EXPECT_EQ(std::abs(session.output("y").as<float>()[0]), 1);
  }
}

TEST(Semantics, ConvolutionsOfAsManyChannelsAsTheRunSays) {
  for (const char* type : {"f16", "f32"}) {
    Session session(plan_of_text(fmt::format(
        "graph @g(%x: {0}[1, 4, 3, 3], %w: {0}[c, 4, 3, 3]) ranges {{c: 1..16}} {{\n%y = Conv(%x, "
        "%w) {{strides = [1, 1], dilations = [1, 1], pads_begin = [0, 0], pads_end = [0, 0], group "
        "= 1}}\n%z = Cast(%y) {{to = f32}}\nreturn z = %z\n}}",
        type)));
    const std::size_t size = type[1] == '1' ? 2 : 4;
    const auto ones = [&](const std::string& name, std::vector<std::int64_t> shape) {
      std::size_t count = 1;
      for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
      std::vector<std::byte> bytes(count * size);
      for (std::size_t i = 0; i < count; ++i) {
        const float one = 1;
        const std::uint16_t half = 0x3c00;
        std::memcpy(&bytes[i * size], size == 2 ? static_cast<const void*>(&half) : &one, size);
      }
      session.set_input(name, {size == 2 ? DType::kFloat16 : DType::kFloat32, shape, bytes.data()});
    };
    ones("x", {1, 4, 3, 3});
    for (const std::int64_t channels : {1, 5, 16}) {
      ones("w", {channels, 4, 3, 3});
      session.run();
      const auto z = session.output("z").as<float>();
      EXPECT_EQ(z.size(), static_cast<std::size_t>(channels));
      EXPECT_EQ(z.back(), 36);
    }
  }
}

TEST(Semantics, BytesOfBoolsCountOnce) {
  const Plan plan = plan_of_text(
      "graph @g(%b: bool[4]) {\n%f = Cast(%b) {to = f32}\n%n = Not(%b)\n%m = Cast(%n) {to = f32}\n"
      "return f = %f, n = %m\n}");
  const std::uint8_t bytes[] = {0, 5, 255, 1};
  TensorView view;
  view.data = bytes;
  view.dtype = DType::kBool;
  view.shape = {4};
  for (const bool in_place : {false, true}) {
    Session session(plan);
    if (in_place)
      session.use_input("b", view);
    else
      session.set_input("b", view);
    session.run();
    const auto f = session.output("f").as<float>(), n = session.output("n").as<float>();
    EXPECT_THAT(std::vector<float>(f.begin(), f.end()), ElementsAre(0, 1, 1, 1));
    EXPECT_THAT(std::vector<float>(n.begin(), n.end()), ElementsAre(1, 0, 0, 0));
  }
  EXPECT_EQ(bytes[1], 5);  // the user's memory is as it was
}

/// The bits of what casts of `values` to 16 bits give.
template <typename T>
std::vector<std::uint16_t> cast_bits(const std::string& from, const std::string& to,
                                     const std::vector<T>& values) {
  Session session(plan_of_text(
      fmt::format("graph @g(%x: {}[{}]) {{\n%y = Cast(%x) {{to = {}}}\nreturn y = %y\n}}", from,
                  values.size(), to)));
  session.set_input("x", {static_cast<std::int64_t>(values.size())}, values);
  session.run();
  const TensorView& y = session.output("y");
  std::vector<std::uint16_t> bits(values.size());
  std::memcpy(bits.data(), y.data, bits.size() * 2);
  return bits;
}

TEST(Semantics, CastsToSixteenBitsRoundOnce) {
  // Beside ties by less than float32 tells apart: through it they would round to even.
  const double tiny = std::ldexp(1, -40);
  const std::vector<double> ties = {
      1 + std::ldexp(1, -11) + tiny,           -1 - std::ldexp(1, -11) - tiny,
      1 + std::ldexp(3, -11) - tiny,           65520 - std::ldexp(1, -20),
      std::ldexp(1, -25) + std::ldexp(1, -60), std::nan("")};
  EXPECT_THAT(cast_bits("f64", "f16", ties),
              ElementsAre(0x3c01, 0xbc01, 0x3c01, 0x7bff, 0x0001, testing::_));
  EXPECT_THAT(cast_bits("f64", "bf16", std::vector<double>{1 + std::ldexp(1, -8) + tiny, 1e300}),
              ElementsAre(0x3f81, 0x7f80));
  const std::int64_t half = (std::int64_t{1} << 40) + (std::int64_t{1} << 32);  // a tie of bfloat16
  EXPECT_THAT(cast_bits("i64", "bf16", std::vector<std::int64_t>{half, half + 1, -half - 1}),
              ElementsAre(0x5380, 0x5381, 0xd381));
}

TEST(Semantics, ProductsOverNothingAreZero) {
  for (const std::string k : {"0", "k"}) {
    Session session(plan_of_text(fmt::format(
        "graph @g(%a: f32[3, {0}], %b: f32[{0}, 2]) {1}{{\n%y = MatMul(%a, %b)\nreturn y = %y\n}}",
        k, k == "k" ? "ranges {k: 0..9} " : "")));
    session.set_input("a", {3, 0}, std::vector<float>{});
    session.set_input("b", {0, 2}, std::vector<float>{});
    session.run();
    const auto y = session.output("y").as<float>();
    EXPECT_THAT(std::vector<float>(y.begin(), y.end()), ElementsAre(0, 0, 0, 0, 0, 0));
  }
}

TEST(Semantics, RowsWhoseKeysAreAllHiddenAreZero) {
  // guard = 2: NaN among the scores of other rows stays. Heads of one column are heads, too.
  for (const std::size_t size : {1, 4, 64}) {
    Session session(plan_of_text(fmt::format(
        "graph @g(%q: f32[3, {0}], %k: f32[2, {0}], %v: f32[2, {0}], %m: bool[3, 2]) {{\n"
        "%y = Attention(%q, %k, %v, %m) {{scale = 1, guard = 2}}\nreturn y = %y\n}}",
        size)));
    std::vector<float> q(3 * size, 1.0F);
    q[2 * size] = std::numeric_limits<float>::quiet_NaN();
    const auto columns = static_cast<std::int64_t>(size);
    session.set_input("q", {3, columns}, q);
    session.set_input("k", {2, columns}, std::vector<float>(2 * size, 1.0F));
    session.set_input("v", {2, columns}, std::vector<float>(2 * size, 2.0F));
    const std::uint8_t mask[] = {1, 0, 0, 0, 1, 1};
    TensorView view;
    view.data = mask;
    view.dtype = DType::kBool;
    view.shape = {3, 2};
    session.set_input("m", view);
    session.run();
    const auto y = session.output("y").as<float>();
    EXPECT_EQ(y[0], 2);
    EXPECT_EQ(y[size], 0);
    EXPECT_TRUE(std::isnan(y[2 * size]));
  }
}

TEST(Semantics, SizesThatStepsDoNotAllowAreUsageErrors) {
  // As Silero VAD is below its least length.
  Session session(
      plan_of_text("graph @g(%x: f32[1, 1, n], %w: f32[2, 1, 8]) ranges {n: 1..99} {\n%y = "
                   "Conv(%x, %w) {strides = [4], "
                   "dilations = [1], pads_begin = [0], pads_end = [0]}\nreturn y = %y\n}"));
  session.set_input("w", {2, 1, 8}, std::vector<float>(16, 1.0F));
  session.set_input("x", {1, 1, 9}, std::vector<float>(9, 1.0F));
  session.run();
  session.set_input("x", {1, 1, 3}, std::vector<float>(3, 1.0F));
  EXPECT_THAT(failure(ErrorCode::kUsage, [&] { session.run(); }),
              AllOf(HasSubstr("the plan cannot run for n=3"), HasSubstr("give other dimensions")));
}

}  // namespace
}  // namespace sinter::tests
