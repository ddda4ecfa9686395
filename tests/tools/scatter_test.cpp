// SPDX-License-Identifier: Apache-2.0
// Scatters on the CPU, whatever they become: every combination and type, updates that meet, are
// gathered and scaled, come in any number of threads, and are out of range.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sinter/sinter.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using Bytes = std::vector<std::byte>;
using Numbers = std::vector<std::int64_t>;

/// bfloat16, to nearest even.
struct Brain {
  std::uint16_t bits = 0;
  Brain() = default;
  explicit Brain(double value) {
    const auto wide = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    bits = static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator double() const {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
};

/// Calls `use` with a number of the C++ type.
template <typename Use>
auto with_type(DType type, const Use& use) {
  switch (type) {
    case DType::kFloat16: return use(_Float16());
    case DType::kBFloat16: return use(Brain());
    case DType::kFloat64: return use(double());
    case DType::kInt64: return use(std::int64_t());
    case DType::kInt32: return use(std::int32_t());
    case DType::kInt8: return use(std::int8_t());
    case DType::kUInt8: return use(std::uint8_t());
    default: return use(float());
  }
}
double element(DType type, const Bytes& bytes, std::int64_t i) {
  return with_type(type, [&](auto value) {
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(value), sizeof(value));
    return static_cast<double>(value);
  });
}
void set_element(DType type, Bytes& bytes, std::int64_t i, double number) {
  with_type(type, [&](auto value) {
    value = static_cast<decltype(value)>(number);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(value), &value, sizeof(value));
    return 0;
  });
}

struct ScatterCase {
  DType type;
  std::int64_t rows, width, count;
  const char* combine = "sum";
  bool zeros = false, gathered = false, scaled = false;
  std::int64_t busy = 0;  // of ten updates, how many go to one row
  const char* index = "i64";
  bool by_element = false;  // an index for each element
};

constexpr std::int64_t kSources = 37;

/// Updates [count, width] to rows of data; with a gather and a factor in front as asked for.
std::string text_of(const ScatterCase& test) {
  const std::string type(to_string(test.type));
  std::string text = fmt::format(
      "graph @main(%x: {0}[{1}, {2}], %u: {0}[{3}, {2}], %i: {4}[n, {5}], %s: i64[n], %w: {0}[n, "
      "1]) "
      "ranges {{n: 0..1000000}} {{\n  %c = Iota() {{axis = 1, shape = [1, {2}]}}\n",
      type, test.rows, test.width, test.gathered ? std::to_string(kSources) : "n", test.index,
      test.by_element ? test.width : 1);
  std::string updates = "%u", data = "%x";
  if (test.gathered) {
    text += "  %g = Gather(%u, %s) {axis = 0}\n";
    updates = "%g";
  }
  if (test.scaled) {
    text += fmt::format("  %m = Mul({}, %w)\n", updates);
    updates = "%m";
  }
  if (test.zeros) {
    text += fmt::format("  %z = const {}[] {{0}}\n  %e = Expand(%z) {{shape = [{}, {}]}}\n", type,
                        test.rows, test.width);
    data = "%e";
  }
  return text +
         fmt::format("  %y = Scatter({}, {}, %i, %c) {{combine = \"{}\"}}\n  return y = %y\n}}",
                     data, updates, test.combine);
}

Plan plan_of(const std::string& text) {
  CompileOptions options;
  options.target = "cpu";
  options.kernel_cache = "";
  return Plan::from_memory(
      compile(Model(std::as_bytes(std::span(text.data(), text.size()))), options).plan);
}

double round_to(DType type, double value) {
  Bytes bytes(8);
  set_element(type, bytes, 0, value);
  return element(type, bytes, 0);
}

class ScatterRun {
 public:
  explicit ScatterRun(const ScatterCase& test) : t_(test) {
    std::mt19937_64 random(static_cast<std::uint64_t>(test.count + test.rows));
    const auto numbers = [&](std::int64_t count) {
      Bytes bytes(static_cast<std::size_t>(count) * size_of(test.type));
      for (std::int64_t i = 0; i < count; ++i) {
        double value = static_cast<double>(random() % 2000) / 500 - 2;
        if (!is_float(test.type)) value = std::floor(value * 3);
        if (is_unsigned(test.type)) value = std::abs(value);
        set_element(test.type, bytes, i, value);
      }
      return bytes;
    };
    data_ = numbers(test.rows * test.width);
    updates_ = numbers((test.gathered ? kSources : test.count) * test.width);
    factors_ = numbers(test.count);
    for (std::int64_t i = 0; i < test.count * index_width(); ++i) {
      const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(test.rows));
      const bool is_busy = static_cast<std::int64_t>(random() % 10) < test.busy;
      index_.push_back((is_busy ? test.rows / 2 : row) - (i % 3 == 0 ? test.rows : 0));
      sources_.push_back(static_cast<std::int64_t>(random() % kSources) -
                         (i % 4 == 0 ? kSources : 0));
    }
  }

  Bytes run(const Plan& plan, int threads) const {
    SessionOptions options;
    options.threads = threads;
    Session session(plan, options);
    const Numbers rows = {t_.gathered ? kSources : t_.count, t_.width};
    std::vector<std::int32_t> narrow(index_.begin(), index_.end());
    const bool is_narrow = std::string(t_.index) == "i32";
    session.set_input("x", TensorView{t_.type, {t_.rows, t_.width}, data_.data(), Memory::kHost});
    session.set_input("u", TensorView{t_.type, rows, updates_.data(), Memory::kHost});
    session.set_input("i", TensorView{is_narrow ? DType::kInt32 : DType::kInt64,
                                      {t_.count, index_width()},
                                      is_narrow ? static_cast<const void*>(narrow.data())
                                                : static_cast<const void*>(index_.data()),
                                      Memory::kHost});
    session.set_input("s", TensorView{DType::kInt64, {t_.count}, sources_.data(), Memory::kHost});
    session.set_input("w", TensorView{t_.type, {t_.count, 1}, factors_.data(), Memory::kHost});
    session.run();
    const TensorView y = session.output("y");
    const auto* begin = static_cast<const std::byte*>(y.data);
    return {begin, begin + data_.size()};
  }

  /// In the order of the updates, in float64, rounded once.
  std::vector<double> expected() const {
    std::vector<double> y;
    for (std::int64_t e = 0; e < t_.rows * t_.width; ++e)
      y.push_back(t_.zeros ? 0 : element(t_.type, data_, e));
    for (std::int64_t i = 0; i < t_.count; ++i)
      for (std::int64_t c = 0; c < t_.width; ++c) {
        const std::int64_t source = (sources_[static_cast<std::size_t>(i)] + kSources) % kSources;
        double x = element(t_.type, updates_, (t_.gathered ? source : i) * t_.width + c);
        if (t_.scaled) x *= element(t_.type, factors_, i);
        const std::int64_t place = t_.by_element ? i * t_.width + c : i;
        const std::int64_t row = (index_[static_cast<std::size_t>(place)] + t_.rows) % t_.rows;
        double& at = y[static_cast<std::size_t>(row * t_.width + c)];
        const std::string combine = t_.combine;
        at = combine == "none"   ? x
             : combine == "sum"  ? at + x
             : combine == "prod" ? at * x
             : combine == "max"  ? std::max(at, x)
                                 : std::min(at, x);
        if (!is_float(t_.type)) at = wrapped(at);
      }
    for (double& value : y) value = round_to(t_.type, value);
    return y;
  }

  Numbers index_;

 private:
  std::int64_t index_width() const { return t_.by_element ? t_.width : 1; }

  /// As integers of the type wrap.
  double wrapped(double value) const {
    const int bits = 8 * static_cast<int>(size_of(t_.type));
    if (bits == 64) return value;
    const double range = std::exp2(bits), low = is_unsigned(t_.type) ? 0 : -range / 2;
    return value - std::floor((value - low) / range) * range;
  }
  static bool is_unsigned(DType type) {
    return type == DType::kUInt8 || type == DType::kUInt16 || type == DType::kUInt32 ||
           type == DType::kUInt64;
  }

  ScatterCase t_;
  Bytes data_, updates_, factors_;
  Numbers sources_;
};

TEST(Scatter, CombinesInTheOrderOfTheUpdates) {
  using enum DType;
  const ScatterCase cases[] = {
      {kFloat32, 50, 64, 700},
      {kFloat32, 50, 33, 700, "sum", true, true, true},
      {kFloat16, 20, 100, 900, "sum", false, true, true},
      {kBFloat16, 20, 17, 300, "max", false, true},
      {kFloat32, 30, 20, 400, "min", true},
      {kFloat64, 30, 20, 100, "prod"},
      {kFloat32, 3000, 24, 40000},                             // threads have parts of the indices
      {kFloat32, 9, 40, 40000, "sum", true, false, false, 9},  // and one row most updates
      {kFloat16, 9, 24, 100000, "sum", true, false, false, 9},
      {kFloat32, 700, 1, 90000},  // tables
      {kFloat16, 30, 1, 5000, "sum", true, false, false, 0, "i32"},
      {kFloat32, 40, 5, 3000, "max"},
      {kInt64, 40, 1, 3000, "sum", true},
      {kInt8, 40, 2, 300},
      {kInt8, 40, 24, 300, "sum", false, true, true},
      {kUInt8, 12, 16, 300, "max"},
      {kInt32, 12, 16, 300, "min", false, false, false, 0, "i32"},
      {kFloat32, 3000, 400, 500},  // a result that no cache holds
      {kFloat16, 40, 48, 300, "sum", true, false, false, 0, "i64", true},
      {kFloat32, 40, 48, 3000, "sum", false, false, false, 0, "i32", true},
      {kFloat32, 40, 3, 3000, "max", false, false, false, 0, "i64", true},
      {kInt64, 500, 20, 700, "prod", false, false, false, 0, "i64", true},
      {kFloat32, 40, 48, 300, "none", false, false, false, 0, "i64", true},
      {kInt8, 40, 5, 300, "none", true, false, false, 0, "i64", true},
      {kFloat32, 12, 16, 300, "none"},  // the last one stays
      {kInt64, 500, 3, 9000, "none", true},
      {kFloat16, 60, 40, 500, "none", false, true, true},
      {kFloat32, 12, 16, 1, "none"},
      {kFloat32, 12, 16, 0},
      {kFloat32, 12, 1, 0},
      {kFloat32, 12, 16, 0, "none"},
  };
  for (const ScatterCase& test : cases) {
    SCOPED_TRACE(text_of(test) + " of " + std::to_string(test.count));
    const Plan plan = plan_of(text_of(test));
    const ScatterRun run(test);
    const std::vector<double> expected = run.expected();
    const Bytes found = run.run(plan, 1);
    // One rounding of the result, and those of sums in float32.
    const double tolerance = test.type == DType::kFloat16    ? 1e-3
                             : test.type == DType::kBFloat16 ? 8e-3
                             : is_float(test.type)           ? 2e-5
                                                             : 0;
    double largest = 1;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t e = 0; e < expected.size(); ++e)
      ASSERT_NEAR(element(test.type, found, static_cast<std::int64_t>(e)), expected[e],
                  tolerance * largest)
          << e;
    EXPECT_EQ(run.run(plan, 3), found) << "threads";
  }
}

TEST(Scatter, BagsAreSumsAndMeansOfGatheredRows) {
  for (const char* reduce : {"ReduceSum", "ReduceMean"}) {
    const Plan plan = plan_of(fmt::format(
        "graph @main(%x: f32[50, 20], %i: i64[n, 2, 3]) {{\n  %g = Gather(%x, %i) {{axis = 0}}\n"
        "  %y = {}(%g) {{axes = [1, 2], keepdims = 0}}\n  return y = %y\n}}",
        reduce));
    std::vector<float> x(1000), expected;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 77) / 8 - 3;
    Numbers index(7 * 6);
    for (std::size_t i = 0; i < index.size(); ++i)
      index[i] = static_cast<std::int64_t>(i * 31 % 50) - (i % 2 == 0 ? 50 : 0);
    for (std::size_t row = 0; row < 7; ++row)
      for (std::size_t c = 0; c < 20; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < 6; ++k)
          sum += x[static_cast<std::size_t>((index[row * 6 + k] + 50) % 50) * 20 + c];
        expected.push_back(std::string(reduce) == "ReduceMean" ? sum / 6 : sum);
      }
    Session session(plan);
    session.set_input("x", {50, 20}, x);
    session.set_input("i", {7, 2, 3}, index);
    session.run();
    EXPECT_THAT(session.output("y").as<float>(),
                testing::Pointwise(testing::FloatNear(1e-5F), expected));
  }
}

TEST(Scatter, IndicesOutOfRangeAreRefused) {
  for (const ScatterCase& test :
       {ScatterCase{DType::kFloat32, 12, 16, 30}, ScatterCase{DType::kFloat32, 12, 1, 30},
        ScatterCase{DType::kFloat32, 12, 16, 40000},
        ScatterCase{DType::kFloat32, 12, 16, 30, "none"}})
    for (const std::int64_t index : {std::int64_t{12}, std::int64_t{-13}, std::int64_t{1} << 40}) {
      SCOPED_TRACE(text_of(test));
      ScatterRun run(test);
      run.index_[17] = index;
      EXPECT_THAT([&] { run.run(plan_of(text_of(test)), 2); },
                  testing::ThrowsMessage<Error>(testing::HasSubstr("is out of range")));
    }
}

}  // namespace
}  // namespace sinter::tests
