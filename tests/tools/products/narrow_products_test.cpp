// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of quantized values on the CPU, as models spell them, against plain
// sums: sizes that fill no block, both signs, zero points that are known, computed, of columns;
// results as float32, as int32 and quantized again.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sinter/sinter.h>

namespace sinter::tests {
namespace {

Plan plan_of_text(const std::string& text) {
  CompileOptions options;
  options.target = "cpu";
  options.kernel_cache = "";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return Plan::from_memory(compile(Model(bytes), options).plan);
}

std::vector<int> random_bytes(std::size_t count, bool is_signed, std::mt19937& random) {
  std::uniform_int_distribution<int> any(is_signed ? -128 : 0, is_signed ? 127 : 255);
  std::vector<int> values(count);
  for (int& value : values) value = any(random);
  return values;
}

void set_bytes(Session& session, const char* name, const std::vector<std::int64_t>& shape,
               const std::vector<int>& values, bool is_signed) {
  if (is_signed)
    session.set_input(name, shape, std::vector<std::int8_t>(values.begin(), values.end()));
  else
    session.set_input(name, shape, std::vector<std::uint8_t>(values.begin(), values.end()));
}

const char* type_name(bool is_signed) { return is_signed ? "i8" : "u8"; }

enum class Zero { kNone, kKnown, kComputed };
enum class Result { kSums, kFloats, kQuantized };

struct ProductCase {
  int m, k, n;
  bool x_signed, w_signed;
  Zero x_zero = Zero::kNone;
  std::vector<int> w_zero = {};  // none, one, or one for each column
  bool constant = true;          // the weights
  bool columns = true;           // the weights have a scale for each column
  Result result = Result::kFloats;
};

constexpr float kScaleX = 0.021F, kScaleY = 0.37F;
constexpr int kZeroX = 3, kZeroY = 5;
float scale_of(const ProductCase& c, int column) {
  return c.columns ? 0.003F + 0.0001F * static_cast<float>(column) : 0.004F;
}

/// `name` of type f32, behind a cast and a difference.
std::string dequantized(const char* name, bool has_zero, bool is_float) {
  std::string text = fmt::format("%{0}_i = Cast(%{0}) {{to = i32}}\n", name);
  if (has_zero)
    text +=
        fmt::format("%{0}_z = Cast(%{0}_zero) {{to = i32}}\n%{0}_d = Sub(%{0}_i, %{0}_z)\n", name);
  const char* difference = has_zero ? "d" : "i";
  if (!is_float)
    return text + fmt::format("%{0}_r = Cast(%{0}_{1}) {{to = i32}}\n", name, difference);
  return text +
         fmt::format("%{0}_f = Cast(%{0}_{1}) {{to = f32}}\n%{0}_r = Mul(%{0}_f, %{0}_scale)\n",
                     name, difference);
}

std::string text_of(const ProductCase& c, const std::vector<int>& w) {
  const bool is_float = c.result != Result::kSums;
  std::string text = fmt::format("graph @g(%x: {}[{}, {}]", type_name(c.x_signed), c.m, c.k);
  if (!c.constant) text += fmt::format(", %w: {}[{}, {}]", type_name(c.w_signed), c.k, c.n);
  if (c.x_zero == Zero::kComputed) text += fmt::format(", %x_zero: {}[]", type_name(c.x_signed));
  text += ") {\n";
  if (c.constant)
    text += fmt::format("%w = const {}[{}, {}] {{{}}}\n", type_name(c.w_signed), c.k, c.n,
                        fmt::join(w, ", "));
  if (c.x_zero == Zero::kKnown)
    text += fmt::format("%x_zero = const {}[] {{{}}}\n", type_name(c.x_signed), kZeroX);
  if (!c.w_zero.empty())
    text += fmt::format("%w_zero = const {}[{}] {{{}}}\n", type_name(c.w_signed),
                        c.w_zero.size() == 1 ? "" : std::to_string(c.n), fmt::join(c.w_zero, ", "));
  if (is_float) {
    text += fmt::format("%x_scale = const f32[] {{{}}}\n", kScaleX);
    std::vector<float> scales;
    for (int j = 0; j < (c.columns ? c.n : 1); ++j) scales.push_back(scale_of(c, j));
    text += fmt::format("%w_scale = const f32[{}] {{{}}}\n", c.columns ? std::to_string(c.n) : "",
                        fmt::join(scales, ", "));
  }
  text += dequantized("x", c.x_zero != Zero::kNone, is_float) +
          dequantized("w", !c.w_zero.empty(), is_float);
  text += "%p = MatMul(%x_r, %w_r)\n";
  if (c.result != Result::kQuantized) return text + "return y = %p\n}";
  return text + fmt::format(
                    "%s = const f32[] {{{}}}\n%z = const f32[] {{{}}}\n%q = Quotient(%p, %s)\n%r = "
                    "Round(%q)\n"
                    "%a = Add(%r, %z)\n%y = Cast(%a) {{to = u8}}\nreturn y = %y\n}}",
                    kScaleY, kZeroY);
}

/// The model's own arithmetic: exact sums, float32 behind them.
float expected_float(const ProductCase& c, std::int64_t sum, int column) {
  return static_cast<float>(sum) * (kScaleX * scale_of(c, column));
}
int expected_byte(float value) {
  return static_cast<int>(std::clamp(std::nearbyint(value / kScaleY) + kZeroY, 0.F, 255.F));
}

void check(const ProductCase& c) {
  SCOPED_TRACE(fmt::format("{} x {} x {} of {} and {}, zero point {}, {} of the weights, {}", c.m,
                           c.k, c.n, type_name(c.x_signed), type_name(c.w_signed),
                           static_cast<int>(c.x_zero), c.w_zero.size(),
                           c.constant ? "constant" : "computed"));
  std::mt19937 random(static_cast<unsigned>(c.m * 7 + c.k * 3 + c.n));
  const auto size = [](int a, int b) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
  };
  const std::vector<int> x = random_bytes(size(c.m, c.k), c.x_signed, random),
                         w = random_bytes(size(c.k, c.n), c.w_signed, random);
  Session session(plan_of_text(text_of(c, w)));
  set_bytes(session, "x", {c.m, c.k}, x, c.x_signed);
  if (!c.constant) set_bytes(session, "w", {c.k, c.n}, w, c.w_signed);
  if (c.x_zero == Zero::kComputed) set_bytes(session, "x_zero", {}, {kZeroX}, c.x_signed);
  session.run();
  const TensorView y = session.output("y");
  int wrong = 0, off = 0;
  for (int i = 0; i < c.m; ++i)
    for (int j = 0; j < c.n; ++j) {
      std::int64_t sum = 0;
      const int zw =
          c.w_zero.empty() ? 0 : c.w_zero[c.w_zero.size() == 1 ? 0 : static_cast<std::size_t>(j)];
      for (int k = 0; k < c.k; ++k)
        sum += (x[size(i, c.k) + static_cast<std::size_t>(k)] -
                (c.x_zero == Zero::kNone ? 0 : kZeroX)) *
               (w[size(k, c.n) + static_cast<std::size_t>(j)] - zw);
      const std::size_t at = size(i, c.n) + static_cast<std::size_t>(j);
      const float value = c.result == Result::kSums ? 0 : expected_float(c, sum, j);
      if (c.result == Result::kSums) wrong += y.as<std::int32_t>()[at] != sum;
      if (c.result == Result::kFloats)
        wrong += std::abs(y.as<float>()[at] - value) > 1e-6F * std::abs(value);
      if (c.result != Result::kQuantized) continue;
      const int found = y.as<std::uint8_t>()[at],
                difference = std::abs(found - expected_byte(value));
      off += difference == 1;
      wrong += difference > 1;
    }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(off * 1000, c.m * c.n);
}

TEST(NarrowProducts, OfEachType) {
  for (const bool x_signed : {false, true})
    for (const bool w_signed : {false, true})
      for (const bool constant : {true, false})
        for (const Result result : {Result::kSums, Result::kFloats, Result::kQuantized})
          check({13, 67, 70, x_signed, w_signed, Zero::kKnown, {}, constant, true, result});
}

TEST(NarrowProducts, OfManySizes) {
  for (const int m : {1, 2, 17, 64})
    for (const int k : {1, 3, 64, 300})
      for (const int n : {1, 5, 64, 130})
        check({m, k, n, false, true, Zero::kNone, {}, true, true, Result::kFloats});
  check({256, 128, 192, false, true, Zero::kKnown, {}, true, true, Result::kQuantized});
  check({600, 64, 256, true, true, Zero::kNone, {}, true, false, Result::kQuantized});
}

/// Columns are divided among parts, whose weights are parts of a matrix.
TEST(NarrowProducts, OfManyColumns) {
  for (const bool is_signed : {false, true}) check({160, 384, 1152, is_signed, true});
}

TEST(NarrowProducts, WithZeroPoints) {
  std::vector<int> columns;
  for (int j = 0; j < 33; ++j) columns.push_back(100 + 3 * j);
  for (const Zero zero : {Zero::kNone, Zero::kKnown, Zero::kComputed})
    for (const auto& w_zero : {std::vector<int>{}, {128}, {7}, columns})
      for (const Result result : {Result::kSums, Result::kFloats})
        check({9, 40, 33, false, false, zero, w_zero, true, false, result});
}

struct ConvCase {
  int channels, height, width, outputs, kernel, stride, pad, dilation, groups;
  bool x_signed = false;
  Zero zero = Zero::kKnown;
  int w_zero = 0;  // of unsigned weights; 0: weights are signed
};

void check(const ConvCase& c) {
  SCOPED_TRACE(fmt::format(
      "{} x {} x {}, {} outputs, kernel {}, stride {}, pad {}, dilation {}, {} groups, {}, zero {}",
      c.channels, c.height, c.width, c.outputs, c.kernel, c.stride, c.pad, c.dilation, c.groups,
      type_name(c.x_signed), static_cast<int>(c.zero)));
  std::mt19937 random(static_cast<unsigned>(c.channels * c.height + c.outputs));
  const int inputs = c.channels / c.groups, images = 2;
  const bool w_signed = c.w_zero == 0;
  const std::vector<int> x = random_bytes(
                             static_cast<std::size_t>(images * c.channels * c.height * c.width),
                             c.x_signed, random),
                         w = random_bytes(
                             static_cast<std::size_t>(c.outputs * inputs * c.kernel * c.kernel),
                             w_signed, random);
  std::string text = fmt::format("graph @g(%x: {}[{}, {}, {}, {}]", type_name(c.x_signed), images,
                                 c.channels, c.height, c.width);
  if (c.zero == Zero::kComputed) text += fmt::format(", %x_zero: {}[]", type_name(c.x_signed));
  text += fmt::format(") {{\n%w = const {}[{}, {}, {}, {}] {{{}}}\n", type_name(w_signed),
                      c.outputs, inputs, c.kernel, c.kernel, fmt::join(w, ", "));
  if (c.zero == Zero::kKnown)
    text += fmt::format("%x_zero = const {}[] {{{}}}\n", type_name(c.x_signed), kZeroX);
  if (!w_signed) text += fmt::format("%w_zero = const u8[] {{{}}}\n", c.w_zero);
  text += dequantized("x", c.zero != Zero::kNone, false) + dequantized("w", !w_signed, false);
  text += fmt::format(
      "%y = Conv(%x_r, %w_r) {{strides = [{0}, {0}], dilations = [{1}, {1}], pads_begin = [{2}, "
      "{2}], "
      "pads_end = [{2}, {2}], group = {3}}}\nreturn y = %y\n}}",
      c.stride, c.dilation, c.pad, c.groups);
  Session session(plan_of_text(text));
  set_bytes(session, "x", {images, c.channels, c.height, c.width}, x, c.x_signed);
  if (c.zero == Zero::kComputed) set_bytes(session, "x_zero", {}, {kZeroX}, c.x_signed);
  session.run();
  const TensorView y = session.output("y");
  const auto windows = [&](int size) {
    return (size + 2 * c.pad - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
  };
  const int rows = windows(c.height), columns = windows(c.width),
            zero = c.zero == Zero::kNone ? 0 : kZeroX;
  std::size_t at = 0;
  int wrong = 0;
  for (int image = 0; image < images; ++image)
    for (int o = 0; o < c.outputs; ++o)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
          std::int32_t sum = 0;
          for (int ci = 0; ci < inputs; ++ci)
            for (int a = 0; a < c.kernel; ++a)
              for (int b = 0; b < c.kernel; ++b) {
                const int row = i * c.stride - c.pad + a * c.dilation,
                          column = j * c.stride - c.pad + b * c.dilation;
                if (row < 0 || column < 0 || row >= c.height || column >= c.width) continue;
                const int channel = o / (c.outputs / c.groups) * inputs + ci;
                const int xv = x[static_cast<std::size_t>(
                    ((image * c.channels + channel) * c.height + row) * c.width + column)];
                const int wv =
                    w[static_cast<std::size_t>(((o * inputs + ci) * c.kernel + a) * c.kernel + b)];
                sum += (xv - zero) * (wv - c.w_zero);
              }
          wrong += y.as<std::int32_t>()[at++] != sum;
        }
  EXPECT_EQ(wrong, 0);
}

TEST(NarrowConvolutions, OfEachKind) {
  for (const bool x_signed : {false, true})
    for (const Zero zero : {Zero::kNone, Zero::kKnown, Zero::kComputed}) {
      check(ConvCase{3, 17, 19, 20, 7, 2, 3, 1, 1, x_signed, zero});  // a first layer
      check(ConvCase{32, 9, 11, 48, 3, 1, 1, 1, 1, x_signed, zero});
      check(ConvCase{64, 14, 14, 64, 1, 1, 0, 1, 1, x_signed, zero});   // a product
      check(ConvCase{24, 10, 10, 24, 3, 2, 1, 1, 24, x_signed, zero});  // depthwise
      check(ConvCase{16, 12, 12, 16, 5, 1, 2, 1, 16, x_signed, zero});
      check(ConvCase{8, 7, 9, 12, 3, 1, 2, 2, 4, x_signed, zero});  // groups, dilated
    }
}

TEST(NarrowConvolutions, WithZeroPointsOfWeights) {
  for (const int w_zero : {128, 20}) {
    check(ConvCase{6, 8, 8, 10, 3, 1, 1, 1, 1, false, Zero::kKnown, w_zero});
    check(ConvCase{6, 8, 8, 6, 3, 1, 1, 1, 6, false, Zero::kKnown, w_zero});
    check(ConvCase{6, 8, 8, 12, 3, 2, 0, 1, 3, true, Zero::kNone, w_zero});
  }
}

}  // namespace
}  // namespace sinter::tests
