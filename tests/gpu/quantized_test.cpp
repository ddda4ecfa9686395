// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights: every format of weights, rows from one to many, what
// may follow, numbers at the ends of their ranges, and the spellings that become such products.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/scale_format.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

enum class Zeros { kNone, kIntegers, kFloats };

struct Form {
  const char* name;
  int bits = 8;
  std::int64_t group = 0;
  DType scales = DType::kFloat16;
  Zeros zeros = Zeros::kNone;
  bool floats = false;  // of 4 bits; scales of f8e4m3fn have factors, u8 are e8m0
  std::optional<DType> offsets = std::nullopt;
  const char* codes = "f4e2m1";  // of floats
  friend void PrintTo(const Form& form, std::ostream* os) { *os << form.name; }
};

/// What follows a product.
enum class Then { kNothing, kSiluAndResidual, kGelu, kGate };

/// Ranges of scales and integer zero points, and a factor for what comes out.
struct Numbers {
  double smallest_scale = 0.005, largest_scale = 0.02;
  double largest_zero = 1e9;  // at most what the bits allow
  double factor = 1;
};

/// The text of a graph with many products, each with inputs and an output of its own.
class Text {
 public:
  explicit Text(DType type) : type_(to_string(type)) {}

  std::string constant(const ir::Tensor& tensor) {
    pool_[tensor.hash()] = std::make_shared<const ir::Tensor>(tensor);
    return fmt::format("const {} #{:016x}", ir::to_string(tensor.type()), tensor.hash());
  }

  ir::Tensor numbers(DType dtype, std::vector<std::int64_t> shape, double low, double high) {
    std::vector<double> values(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    std::uniform_real_distribution<double> floats(low, high);
    std::uniform_int_distribution<int> integers(static_cast<int>(low), static_cast<int>(high));
    for (double& value : values) value = is_float(dtype) ? floats(random_) : integers(random_);
    return ir::Tensor::from_doubles(dtype, std::move(shape), values);
  }

  /// The operands behind x of a MatMul, as lines; returns their names and its attributes.
  std::string operands(const Form& form, std::int64_t n, std::int64_t k, const Numbers& numbers_) {
    if (form.floats) return float_operands(form, n, k);
    const std::int64_t groups = ir::group_count(k, form.group);
    const double low = form.bits == 8 ? -128 : -8, high = form.bits == 8 ? 127 : 7;
    const ir::Tensor values = numbers(DType::kInt8, {n, k}, low, high);
    const auto span = values.as<std::int8_t>();
    std::string names = add(constant(form.bits == 8 ? values : ir::pack_four_bits(span, n, k))) +
                        ", " +
                        add(constant(numbers(form.scales, {n, groups}, numbers_.smallest_scale,
                                             numbers_.largest_scale)));
    if (form.zeros == Zeros::kIntegers)
      names += ", " + add(constant(numbers(DType::kInt8, {n, groups},
                                           std::max(low, -numbers_.largest_zero),
                                           std::min(high, numbers_.largest_zero))));
    if (form.zeros == Zeros::kFloats)
      names += ", " + add(constant(numbers(DType::kFloat32, {n, groups}, low, high)));
    ir::ScaleFormat format{&ir::integer_codes(form.bits), form.scales, std::nullopt, form.group, 1};
    if (form.zeros != Zeros::kNone)
      format.zero = form.zeros == Zeros::kIntegers ? DType::kInt8 : DType::kFloat32;
    if (form.offsets) names += ", " + add(constant(numbers(*form.offsets, {n, groups}, -0.1, 0.1)));
    format.offset = form.offsets;
    return fmt::format("{}) {{w = \"{}\"}}", names, format.to_string());
  }

  /// The same for floats of 4 bits, with weights of 0.1 or so.
  std::string float_operands(const Form& form, std::int64_t n, std::int64_t k) {
    const std::int64_t groups = ir::group_count(k, form.group);
    const bool has_factors = form.scales == DType::kFloat8E4M3FN;
    const ir::Tensor scales = form.scales == DType::kUInt8
                                  ? numbers(form.scales, {n, groups}, 117, 123)
                              : has_factors ? numbers(form.scales, {n, groups}, 1, 448)
                                            : numbers(form.scales, {n, groups}, 0.005, 0.02);
    std::string names = add(constant(numbers(DType::kUInt8, {n, (k + 1) / 2}, 0, 255))) + ", " +
                        add(constant(scales));
    if (has_factors) names += ", " + add(constant(numbers(DType::kFloat32, {n, 1}, 2e-5, 9e-5)));
    ir::ScaleFormat format{ir::find_code_type(form.codes), form.scales, std::nullopt, form.group,
                           1};
    format.has_factors = has_factors;
    return fmt::format("{}) {{w = \"{}\"}}", names, format.to_string());
  }

  std::string input(const std::string& shape) {
    inputs_ += fmt::format("{}%x{}: {}[{}]", inputs_.empty() ? "" : ", ", count_, type_, shape);
    return fmt::format("%x{}", count_++);
  }
  std::string add(const std::string& definition) {
    lines_ += fmt::format("  %v{} = {}\n", count_, definition);
    return fmt::format("%v{}", count_++);
  }
  void output(const std::string& value) {
    outputs_ += fmt::format("{}y{} = {}", outputs_.empty() ? "" : ", ", count_++, value);
  }
  std::string ranges;

  /// A product of x [m, k] and what follows it; `n` columns, or twice as many before a gate.
  void product(const Form& form, const std::string& m, std::int64_t n, std::int64_t k, Then then,
               const Numbers& numbers_ = {}) {
    const std::string x = input(fmt::format("{}, {}", m, k));
    const std::int64_t columns = then == Then::kGate ? 2 * n : n;
    std::string y = add("MatMul(" + x + ", " + operands(form, columns, k, numbers_));
    if (numbers_.factor != 1) {
      const std::string factor = add(fmt::format("const {}[] {{{}}}", type_, numbers_.factor));
      y = add(fmt::format("Mul({}, {})", y, factor));
    }
    const std::string shape = fmt::format("{}, {}", m, n);
    if (then == Then::kSiluAndResidual || then == Then::kGelu)
      y = add(fmt::format("Add({}, {})", y, input(std::to_string(n))));
    if (then == Then::kSiluAndResidual)
      y = add(fmt::format("Add({}, {})", add("Silu(" + y + ")"), input(shape)));
    if (then == Then::kGelu) y = add("Gelu(" + y + ")");
    if (then == Then::kGate) {
      const auto half = [&](std::int64_t first) {
        return add(fmt::format("Slice({}) {{starts = [0, {}], steps = [1, 1], shape = [{}]}}", y,
                               first, shape));
      };
      const std::string gate = add("Silu(" + half(0) + ")");
      y = add(fmt::format("Mul({}, {})", gate, half(n)));
    }
    output(y);
  }

  /// A product of x [m, k] rounded to f8e4m3fn, and a bias behind it.
  void narrow_product(const Form& form, const std::string& m, std::int64_t n, std::int64_t k) {
    const std::string x = add("Cast(" + input(fmt::format("{}, {}", m, k)) + ") {to = f8e4m3fn}");
    const std::string sums = add("MatMul(" + x + ", " + operands(form, n, k, {}));
    const std::string y = add(fmt::format("Cast({}) {{to = {}}}", sums, type_));
    output(add(fmt::format("Add({}, {})", y, input(std::to_string(n)))));
  }

  ir::Graph graph() const {
    return ir::parse_graph(
        fmt::format("graph @main({}){} {{\n{}  return {}\n}}", inputs_, ranges, lines_, outputs_),
        pool_);
  }

 private:
  std::string type_, inputs_, lines_, outputs_;
  int count_ = 0;
  ir::ConstantPool pool_;
  std::mt19937_64 random_{1};
};

void check(const Text& text, DType type, const std::vector<ir::Bindings>& sizes = {{}}) {
  const ir::Graph graph = text.graph();
  Session session(compile(graph, true));
  for (const ir::Bindings& bindings : sizes) {
    const auto inputs = random_inputs(graph, bindings);
    const auto outputs = run(session, graph, inputs);
    expect_reference(graph, inputs, outputs, tolerance_of(type));
    expect_same_bits(run(session, graph, inputs), outputs);
  }
}

const Form kForms[] = {
    {"int8", 8},
    {"int8_zeros", 8, 0, DType::kFloat32, Zeros::kIntegers},
    {"int8_float_zeros", 8, 0, DType::kBFloat16, Zeros::kFloats},
    {"int8_g16", 8, 16},
    {"int8_g32_zeros", 8, 32, DType::kFloat16, Zeros::kIntegers},
    {"int8_g128", 8, 128, DType::kBFloat16},
    {"int4", 4},
    {"int4_zeros", 4, 0, DType::kFloat16, Zeros::kIntegers},
    {"int4_g16", 4, 16, DType::kFloat32},
    {"int4_g32_zeros", 4, 32, DType::kFloat16, Zeros::kIntegers},
    {"int4_g64_float_zeros", 4, 64, DType::kFloat32, Zeros::kFloats},
    {"int4_g128", 4, 128},
    {"int4_g128_zeros", 4, 128, DType::kBFloat16, Zeros::kIntegers},
    {"int4_g256", 4, 256},
    {"nvfp4", 4, 16, DType::kFloat8E4M3FN, Zeros::kNone, true},
    {"mxfp4", 4, 32, DType::kUInt8, Zeros::kNone, true},
    {"fp4_g16_wide", 4, 16, DType::kFloat32, Zeros::kNone, true},
    // No group of a kernel's: the weights become float when the plan is made.
    {"int8_g24", 8, 24},
    // Blocks of GGUF: offsets become a second product, numbers of a table integers.
    {"q4_1", 4, 32, DType::kFloat16, Zeros::kIntegers, false, DType::kFloat16},
    {"q2_k", 4, 16, DType::kFloat32, Zeros::kNone, false, DType::kFloat32},
    {"q5_k", 8, 32, DType::kFloat32, Zeros::kNone, false, DType::kFloat32},
    {"iq4_nl", 4, 32, DType::kFloat16, Zeros::kNone, true, std::nullopt, "iq4nl"},
};

class Forms : public ::testing::TestWithParam<Form> {};

TEST_P(Forms, AgreeWithTheReference) {
  constexpr struct {
    int m, n, k;
    Then then;
  } kProducts[] = {
      {1, 264, 544, Then::kSiluAndResidual},
      {1, 192, 1040, Then::kGate},
      {2, 513, 1040, Then::kNothing},
      {3, 37, 45, Then::kGelu},
      {7, 72, 520, Then::kSiluAndResidual},
      {8, 1000, 528, Then::kNothing},
      {16, 96, 336, Then::kGate},
      {33, 264, 544, Then::kGelu},
      {64, 130, 272, Then::kSiluAndResidual},
      {100, 264, 1024, Then::kNothing},
      {130, 77, 51, Then::kSiluAndResidual},
      {256, 384, 512, Then::kGate},
  };
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    SCOPED_TRACE(to_string(type));
    Text text(type);
    for (const auto& p : kProducts) text.product(GetParam(), std::to_string(p.m), p.n, p.k, p.then);
    check(text, type);
  }
}

INSTANTIATE_TEST_SUITE_P(Quantized, Forms, ::testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

class QuantizedRows : public ::testing::TestWithParam<Form> {};

TEST_P(QuantizedRows, OfEveryNumberAgreeWithTheReference) {
  Text text(DType::kFloat16);
  for (const int m : {1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  12,  15,  16,  17,  20, 24,
                      31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 200, 255, 256, 300})
    text.product(GetParam(), std::to_string(m), 264, 640,
                 m % 2 == 0 ? Then::kNothing : Then::kSiluAndResidual);
  check(text, DType::kFloat16);
}

TEST_P(QuantizedRows, MayBeUnknown) {
  for (const Then then : {Then::kSiluAndResidual, Then::kGate}) {
    Text text(DType::kBFloat16);
    text.ranges = " ranges {rows: 1..4096}";
    text.product(GetParam(), "rows", 264, 640, then);
    std::vector<ir::Bindings> sizes;
    for (const int rows : {1, 7, 256, 64, 1000, 2, 300, 16, 65}) sizes.push_back({{"rows", rows}});
    check(text, DType::kBFloat16, sizes);
  }
}

// Weights of 4 bits beside rows of 8, by whichever kernels the sizes choose.
TEST(NarrowRows, OfEightBitsAgreeWithTheReference) {
  if (architecture() == "sm_80" || architecture() == "sm_86")
    GTEST_SKIP() << "no products of 8-bit floats";
  for (const Form& form : kForms) {
    if (form.bits != 4 || form.floats) continue;
    SCOPED_TRACE(form.name);
    Text text(DType::kFloat16);
    text.ranges = " ranges {rows: 1..4096}";
    text.narrow_product(form, "rows", 264, 1040);
    text.narrow_product(form, "rows", 392, 520);
    std::vector<ir::Bindings> sizes;
    for (const int rows : {1, 5, 16, 17, 64, 100, 256, 300, 2049})
      sizes.push_back({{"rows", rows}});
    check(text, DType::kFloat16, sizes);
  }
}

INSTANTIATE_TEST_SUITE_P(Quantized, QuantizedRows,
                         ::testing::Values(kForms[0], kForms[3], kForms[6], kForms[11], kForms[12],
                                           kForms[14], kForms[15], kForms[18], kForms[21]),
                         [](const auto& info) { return info.param.name; });

// Numbers that are small, large or zero on their way, and not at the end.
TEST(QuantizedNumbers, AtTheEndsOfTheirRangesAgreeWithTheReference) {
  const Form bytes = {"", 8, 0, DType::kFloat32}, halves = {"", 4, 128, DType::kFloat32};
  const Form half_scales = {"", 4, 32, DType::kFloat16};
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    SCOPED_TRACE(to_string(type));
    Text text(type);
    for (const char* m : {"1", "5", "40", "200"}) {
      for (const Form& form : {bytes, halves}) {
        text.product(form, m, 136, 256, Then::kNothing, {1e-6, 2e-6, 0, 4096});
        text.product(form, m, 136, 256, Then::kSiluAndResidual, {4, 8, 0, 0x1p-9});
        text.product(form, m, 136, 256, Then::kNothing, {0, 0});
        text.product(form, m, 136, 256, Then::kNothing, {-0.02, 0.02});
        text.product(form, m, 136, 256, Then::kNothing, {0x1p-12, 1});
      }
      text.product(half_scales, m, 136, 256, Then::kNothing, {1e-4, 2e-4});
      text.product({"", 8, 64, DType::kFloat16, Zeros::kIntegers}, m, 136, 256, Then::kNothing);
      text.product({"", 4, 64, DType::kFloat16, Zeros::kIntegers}, m, 136, 256, Then::kNothing);
    }
    check(text, type);
  }
}

/// A tile of digits of x (codegen/families/gemm/int8_gemv/int8_gemv.cuh).
std::string digits(int rows, int splits) {
  return fmt::format("int8_gemv {}x32x256 warps=1x1x4 stages=3 slices=3 split_k={} cluster_n=1",
                     rows, splits);
}

class Int8Slices : public ::testing::TestWithParam<Form> {};

TEST_P(Int8Slices, AgreeWithTheReference) {
  constexpr struct {
    DType type;
    int rows, tile, splits;
    Then then;
  } kProducts[] = {{DType::kFloat16, 1, 1, 1, Then::kSiluAndResidual},
                   {DType::kFloat16, 1, 1, 4, Then::kGate},
                   {DType::kBFloat16, 2, 2, 1, Then::kGate},
                   {DType::kBFloat16, 3, 4, 2, Then::kSiluAndResidual}};
  for (const auto& p : kProducts) {
    const std::string schedule = digits(p.tile, p.splits);
    SCOPED_TRACE(fmt::format("{} {} {}", to_string(p.type), p.rows, schedule));
    Text text(p.type);
    text.product(GetParam(), std::to_string(p.rows), 192, 1040, p.then);
    const ir::Graph graph = text.graph();
    Session session(compile_with(graph, schedule));
    const auto inputs = random_inputs(graph, {});
    const auto outputs = run(session, graph, inputs);
    EXPECT_EQ(session.launches(), 1u);
    expect_reference(graph, inputs, outputs, tolerance_of(p.type));
    expect_same_bits(run(session, graph, inputs), outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Quantized, Int8Slices,
                         ::testing::Values(kForms[0], kForms[1], kForms[2], kForms[4], kForms[5],
                                           kForms[6], kForms[9], kForms[10], kForms[11], kForms[12],
                                           kForms[13]),
                         [](const auto& info) { return info.param.name; });

// Of x that is zero, below what float16 has all its bits for, as large as it gets, or no number.
TEST(DigitNumbers, AtTheEndsOfTheirRangesAgreeWithTheReference) {
  for (const Form& form : {kForms[0], kForms[11]})
    for (const double size : {0.0, 0x1p-20, 20000.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
      SCOPED_TRACE(fmt::format("{} {}", form.name, size));
      Text text(DType::kFloat16);
      text.product(form, "4", 192, 1040, Then::kNothing,
                   {size < 1 ? 64 : 0x1p-12, size < 1 ? 128 : 0x1p-10});
      const ir::Graph graph = text.graph();
      Session session(compile_with(graph, digits(4, 1)));
      auto inputs = random_inputs(graph, {});
      std::vector<double> x = inputs[0].to_doubles();
      if (std::isfinite(size))
        for (double& value : x) value *= size;
      else
        x[0] = x[2 * 1040 + 7] = size;  // of rows 0 and 2
      inputs[0] = ir::Tensor::from_doubles(DType::kFloat16, inputs[0].shape(), x);
      const auto outputs = run(session, graph, inputs);
      if (std::isfinite(size)) {
        expect_reference(graph, inputs, outputs, tolerance_of(DType::kFloat16));
        continue;
      }
      for (std::int64_t i = 0; i < 4 * 192; ++i)
        EXPECT_EQ(std::isfinite(outputs[0].at(i)), i / 192 % 2 != 0) << i;
    }
}

// Products of float32 have no kernel for integers: the weights become float when the plan is made.
TEST(QuantizedNumbers, OfFloat32ActivationsAgreeWithTheReference) {
  Text text(DType::kFloat32);
  for (const Form& form : kForms)
    for (const char* m : {"1", "9"})
      text.product(form, m, 72, 528, form.bits == 8 ? Then::kSiluAndResidual : Then::kGate);
  check(text, DType::kFloat32);
}

/// x [m, k] times `columns` columns of weights of `bits` bits, as exporters spell it.
class Speller {
 public:
  Speller(Text& text, DType type, bool has_groups)
      : text_(text), type_(type), has_groups_(has_groups) {}

  std::string product(const std::string& x, std::int64_t n, std::int64_t k) {
    return has_groups_ ? in_groups(x, n, k) : by_columns(x, n, k);
  }

 private:
  std::string cast(const std::string& value) {
    return text_.add(fmt::format("Cast({}) {{to = {}}}", value, to_string(type_)));
  }

  /// Cast, product, scale.
  std::string by_columns(const std::string& x, std::int64_t n, std::int64_t k) {
    const std::string weight =
        cast(text_.add(text_.constant(text_.numbers(DType::kInt8, {n, k}, -127, 127))));
    const std::string turned = text_.add(fmt::format("Transpose({}) {{perm = [1, 0]}}", weight));
    const std::string product = text_.add(fmt::format("MatMul({}, {})", x, turned));
    const std::string scale = text_.add(text_.constant(text_.numbers(type_, {n}, 0.0005, 0.002)));
    return text_.add(fmt::format("Mul({}, {})", product, scale));
  }

  /// (Cast - zero) * scale, by groups of 32, reshaped and transposed, product.
  std::string in_groups(const std::string& x, std::int64_t n, std::int64_t k) {
    const std::int64_t groups = k / 32;
    const std::string weight =
        cast(text_.add(text_.constant(text_.numbers(DType::kUInt8, {n, groups, 32}, 0, 15))));
    const std::string zero =
        cast(text_.add(text_.constant(text_.numbers(DType::kUInt8, {n, groups, 1}, 5, 10))));
    const std::string scale =
        text_.add(text_.constant(text_.numbers(type_, {n, groups, 1}, 0.005, 0.02)));
    const std::string centred = text_.add(fmt::format("Sub({}, {})", weight, zero));
    const std::string scaled = text_.add(fmt::format("Mul({}, {})", centred, scale));
    const std::string flat =
        text_.add(fmt::format("Reshape({}) {{shape = [{}, {}]}}", scaled, n, k));
    const std::string turned = text_.add(fmt::format("Transpose({}) {{perm = [1, 0]}}", flat));
    return text_.add(fmt::format("MatMul({}, {})", x, turned));
  }

  Text& text_;
  DType type_;
  bool has_groups_;
};

// The products of a decoder's layer but its attention: merged projections, a gate, residuals.
TEST(QuantizedSpellings, OfALayerAgreeWithTheReference) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16})
    for (const bool has_groups : {false, true})
      for (const char* m : {"1", "6", "70"}) {
        SCOPED_TRACE(fmt::format("{} {} m={}", to_string(type), has_groups ? "groups" : "", m));
        Text text(type);
        Speller speller(text, type, has_groups);
        const std::string x = text.input(fmt::format("{}, 256", m));
        const std::string scale = text.input("256");
        const auto norm = [&](const std::string& value) {
          return text.add(
              fmt::format("RmsNorm({}, {}) {{axis = 1, epsilon = 1e-5}}", value, scale));
        };
        const std::string first = norm(x);
        for (const int n : {128, 64, 64}) text.output(speller.product(first, n, 256));
        const std::string out = speller.product(text.input(fmt::format("{}, 128", m)), 256, 128);
        const std::string middle = text.add(fmt::format("Add({}, {})", x, out));
        const std::string second = norm(middle);
        const std::string gate = text.add("Silu(" + speller.product(second, 704, 256) + ")");
        const std::string inner =
            text.add(fmt::format("Mul({}, {})", gate, speller.product(second, 704, 256)));
        text.output(text.add(fmt::format("Add({}, {})", middle, speller.product(inner, 256, 704))));
        check(text, type);
      }
}

}  // namespace
}  // namespace sinter::gpu_test
