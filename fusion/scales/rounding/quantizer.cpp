// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/rounding/quantizer.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <sinter/error.h>
#include <sinter/float8.h>

#include "fusion/scales/rounding/float4.h"
#include "fusion/scales/rounding/gptq.h"
#include "fusion/transforms.h"
#include "ir/parallel.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

constexpr std::size_t kGroupsAtOnce = 64;  // per thread
constexpr std::int64_t kPowerGroup = 32;   // groups of MXFP4

/// All float16 numbers as a table: models have billions of weights.
const std::vector<float>& half_floats() {
  static const std::vector<float> all = [] {
    std::vector<float> values(1 << 16);
    for (std::uint32_t code = 0; code < values.size(); ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      values[code] = static_cast<float>(
          ir::load_as_double(DType::kFloat16, reinterpret_cast<const std::byte*>(&bits)));
    }
    return values;
  }();
  return all;
}

/// Numbers [begin, end) of `tensor`.
void load_floats(const Tensor& tensor, std::size_t begin, std::size_t end, float* to) {
  const auto* codes = reinterpret_cast<const std::uint16_t*>(tensor.bytes().data());
  if (tensor.dtype() == DType::kBFloat16) {
    for (std::size_t i = begin; i < end; ++i)
      to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(codes[i]) << 16);
  } else if (tensor.dtype() == DType::kFloat16) {
    const float* const values = half_floats().data();
    for (std::size_t i = begin; i < end; ++i) to[i] = values[codes[i]];
  } else {
    for (std::size_t i = begin; i < end; ++i)
      to[i] = static_cast<float>(tensor.at(static_cast<std::int64_t>(i)));
  }
}

/// The nearest e4m3 code, ties to even, of a number of magnitude at most 448: encode_float8()
/// without special cases.
std::byte e4m3_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffU, sign = bits >> 24 & 0x80U;
  // From 2^-6 on, three fraction bits stay and the exponent's bias becomes 7. Below, steps are
  // 2^-9: adding 2^14 rounds to them.
  const std::uint32_t normal = (size + 0x7ffffU + (size >> 20 & 1U) - (120U << 23)) >> 20;
  const float steps = std::bit_cast<float>(size) + 0x1p14F;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(steps) - std::bit_cast<std::uint32_t>(0x1p14F);
  return static_cast<std::byte>(sign | (size >= (121U << 23) ? normal : small));
}

/// A tensor's numbers, converted to floats a part at a time if needed: copying a model's largest
/// weights whole would dominate compile time.
class Floats {
 public:
  explicit Floats(const Tensor& tensor)
      : tensor_(tensor), size_(static_cast<std::size_t>(tensor.element_count())) {
    if (tensor.dtype() == DType::kFloat32) values_ = tensor.as<float>().data();
    tensor_.bytes();  // computed by one thread, if necessary
  }
  std::size_t size() const { return size_; }
  /// Numbers [begin, begin + count), valid until the next call with this `memory`.
  std::span<const float> part(std::size_t begin, std::size_t count,
                              std::vector<float>& memory) const {
    if (values_ != nullptr) return {values_ + begin, count};
    memory.resize(count);
    load_floats(tensor_, begin, begin + count, memory.data() - begin);
    return {memory.data(), count};
  }
  /// All numbers, converted by all threads.
  std::span<const float> all(std::vector<float>& memory) const {
    if (values_ != nullptr) return {values_, size_};
    memory.resize(size_);
    ir::for_each_range(size_, 1 << 16, [&](std::size_t begin, std::size_t end) {
      load_floats(tensor_, begin, end, memory.data());
    });
    return memory;
  }

 private:
  Tensor tensor_;
  std::size_t size_;
  const float* values_ = nullptr;
};

/// Branch-free, for the vectorizer: an exponent of all ones is not a finite number.
bool are_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t infinite = 0;
  for (const float x : values)
    infinite |= (std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent ? 1U : 0U;
  return infinite == 0;
}

/// |d| / |y| in the 2-norm, over `count` pairs; `squares_at` gives the contributions to |y|^2 and
/// |d|^2.
template <class SquaresAt>
double relative_error(std::size_t count, std::size_t length, const SquaresAt& squares_at) {
  std::vector<std::pair<double, double>> parts((count + length - 1) / length);
  ir::for_each_range(count, length, [&](std::size_t begin, std::size_t end) {
    auto& [size, difference] = parts[begin / length];
    for (std::size_t i = begin; i < end; ++i) {
      const auto [y, d] = squares_at(i);
      size += y;
      difference += d;
    }
  });
  double size = 0, difference = 0;
  for (const auto& [part_size, part_difference] : parts) {
    size += part_size;
    difference += part_difference;
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

/// The division of weights [n, k] into groups.
struct Layout {
  Layout(const Tensor& weights, const WeightOptions& options)
      : n(weights.shape()[0]),
        k(weights.shape()[1]),
        group(options.group >= k ? 0 : options.group),
        groups(ir::group_count(k, group)),
        width(group == 0 ? k : group) {}
  std::int64_t n, k, group, groups, width;
};

[[noreturn]] void refuse_infinite() {
  throw Error(ErrorCode::kInvalidModel,
              "weights that are infinite or no numbers cannot be quantized; keep the layer with "
              "--keep");
}

/// Calls `round(number, first element, values)` for each group of weights. Throws
/// Error(kInvalidModel) if a weight is not finite.
template <class Round>
void round_groups(const Tensor& weights, const Layout& layout, const Round& round) {
  const Floats w(weights);
  std::atomic<bool> has_infinite = false;
  const auto count = static_cast<std::size_t>(layout.n * layout.groups);
  ir::for_each_range(count, kGroupsAtOnce, [&](std::size_t first, std::size_t last) {
    std::vector<float> memory;
    for (std::size_t at = first; at < last; ++at) {
      const std::int64_t row = static_cast<std::int64_t>(at) / layout.groups,
                         g = static_cast<std::int64_t>(at) % layout.groups;
      const std::int64_t begin = row * layout.k + g * layout.width,
                         end = std::min(begin + layout.width, (row + 1) * layout.k);
      const auto part =
          w.part(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin), memory);
      if (!are_finite(part)) {
        has_infinite = true;
        continue;
      }
      round(at, static_cast<std::size_t>(begin), part);
    }
  });
  if (has_infinite) refuse_infinite();
}

/// All weights; throws like round_groups().
std::span<const float> finite_floats(const Tensor& weights, std::vector<float>& memory) {
  const auto all = Floats(weights).all(memory);
  if (!are_finite(all)) refuse_infinite();
  return all;
}

ir::ScaledTensor packed(const RoundedWeights& rounded, const Layout& layout,
                        const WeightOptions& options, DType zero_type) {
  std::optional<Tensor> zero_points;
  const auto& zeros = rounded.zeros;
  if (std::ranges::any_of(zeros, [](float zero) { return zero != 0; }))
    zero_points = Tensor::from_doubles(zero_type, {layout.n, layout.groups},
                                       std::vector<double>(zeros.begin(), zeros.end()));
  return ir::scaled_rows_of(options.bits, layout.group, layout.k,
                            options.bits == 4
                                ? ir::pack_four_bits(rounded.values, layout.n, layout.k)
                                : Tensor::of(DType::kInt8, {layout.n, layout.k}, rounded.values),
                            Tensor::of(DType::kFloat32, {layout.n, layout.groups}, rounded.scales),
                            std::move(zero_points));
}

}  // namespace

namespace {

ir::ScaledTensor rounded_integers(const Tensor& weights, const WeightOptions& options) {
  const Layout layout(weights, options);
  const GroupFitter fitter(options);
  RoundedWeights result{
      std::vector<std::int8_t>(static_cast<std::size_t>(layout.n * layout.k)), {}, {}};
  const auto fits = static_cast<std::size_t>(layout.n * layout.groups);
  result.scales.resize(fits);
  result.zeros.resize(fits);
  round_groups(weights, layout,
               [&](std::size_t at, std::size_t begin, std::span<const float> part) {
                 const GroupFit fit = fitter.fit(part);
                 result.scales[at] = fit.scale;
                 result.zeros[at] = fit.zero;
                 fitter.round(part, fit, std::span(result.values).subspan(begin, part.size()));
               });
  return packed(result, layout, options, DType::kInt8);
}

}  // namespace

/// Replaces `scales`, [rows, groups], by the maximum over `together` consecutive rows.
void share_largest(std::span<float> scales, std::size_t groups, std::size_t together) {
  for (std::size_t first = 0; first < scales.size(); first += groups * together)
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t end = std::min(scales.size(), first + groups * together);
      float largest = 0;
      for (std::size_t i = first + g; i < end; i += groups) largest = std::max(largest, scales[i]);
      for (std::size_t i = first + g; i < end; i += groups) scales[i] = largest;
    }
}

/// Rounds to 8-bit floats.
ir::ScaledTensor rounded_floats(const Tensor& weights, const WeightOptions& options) {
  static constexpr float kLargest = 448;
  static constexpr float kLeastScale = 0x1p-100F;
  const Layout layout(weights, options);
  std::vector<std::byte> values(static_cast<std::size_t>(layout.n * layout.k));
  std::vector<float> scales(static_cast<std::size_t>(layout.n * layout.groups));
  const auto scale_of = [](std::span<const float> part) {
    float largest = 0;
    for (const float x : part) largest = std::max(largest, std::abs(x));
    return std::max(largest / kLargest, kLeastScale);
  };
  const bool are_shared = options.channels > 1;
  if (are_shared) {
    round_groups(weights, layout, [&](std::size_t at, std::size_t, std::span<const float> part) {
      scales[at] = scale_of(part);
    });
    share_largest(scales, static_cast<std::size_t>(layout.groups),
                  static_cast<std::size_t>(options.channels));
  }
  round_groups(weights, layout,
               [&](std::size_t at, std::size_t begin, std::span<const float> part) {
                 if (!are_shared) scales[at] = scale_of(part);
                 const float scale = scales[at];
                 for (std::size_t i = 0; i < part.size(); ++i)
                   values[begin + i] = e4m3_of(std::clamp(part[i] / scale, -kLargest, kLargest));
               });
  return ir::scaled_rows_of(
      8, layout.group, layout.k,
      Tensor(DType::kFloat8E4M3FN, {layout.n, layout.k}, ir::Buffer::take(std::move(values))),
      Tensor::of(DType::kFloat32, {layout.n, layout.groups}, scales), std::nullopt);
}

/// The nearest float of 4 bits, ties to the even code.
int float4_of(float x) {
  static constexpr float kMiddles[] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5};
  const float size = std::abs(x);
  int code = 0;
  for (const float middle : kMiddles) code += size > middle || (size == middle && code % 2 != 0);
  return code | (std::signbit(x) ? 8 : 0);
}

/// Candidates for the scale of a group whose largest magnitude is `largest`: powers of two around
/// it (MXFP4), or e4m3 times `unit` that map it to 6 or 4 (NVFP4).
std::array<float, 2> float4_scales(float largest, bool powers, float unit) {
  if (powers) {
    const int exponent = std::clamp(std::ilogb(std::max(largest, 0x1p-120F)) - 2, -126, 126);
    return {std::ldexp(1.0F, exponent), std::ldexp(1.0F, exponent + 1)};
  }
  const auto near = [&](float scale) {
    const auto code = static_cast<std::byte>(e4m3_of(std::min(scale / unit, 448.0F)));
    const double number = ir::load_as_double(DType::kFloat8E4M3FN, &code);
    return static_cast<float>(std::max(number, 0x1p-9)) * unit;
  };
  return {near(largest / 6), near(largest / 4)};
}

/// Rounds to floats of 4 bits: of each group's candidates, the scale with the least squared error.
/// Groups of 32 have powers of two (e8m0), others e4m3 and a factor that all rows share.
ir::ScaledTensor rounded_float4(const Tensor& weights, std::int64_t group) {
  WeightOptions options;
  options.group = group;
  const Layout layout(weights, options);
  const bool powers = group == kPowerGroup;
  const auto fits = static_cast<std::size_t>(layout.n * layout.groups);
  std::vector<float> largest(fits), scales(fits);
  round_groups(weights, layout, [&](std::size_t at, std::size_t, std::span<const float> part) {
    for (const float x : part) largest[at] = std::max(largest[at], std::abs(x));
  });
  const float most = *std::ranges::max_element(largest);
  // A power of two: scales are at most 448.
  const float unit = std::ldexp(1.0F, std::ilogb(std::max(most, 0x1p-100F) / (6 * 448)) + 1);
  const auto pitch = static_cast<std::size_t>(layout.k / 2 + layout.k % 2);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(layout.n * layout.k));
  round_groups(
      weights, layout, [&](std::size_t at, std::size_t begin, std::span<const float> part) {
        double least = std::numeric_limits<double>::infinity();
        for (const float scale : float4_scales(largest[at], powers, unit)) {
          double error = 0;
          for (const float x : part) {
            const double d =
                x - ir::float4_codes().numbers[float4_of(x / scale)] * static_cast<double>(scale);
            error += d * d;
          }
          if (error >= least) continue;
          least = error;
          scales[at] = scale;
        }
        for (std::size_t i = 0; i < part.size(); ++i)
          codes[begin + i] = static_cast<std::uint8_t>(float4_of(part[i] / scales[at]));
      });
  std::vector<std::byte> bytes(static_cast<std::size_t>(layout.n) * pitch);
  const auto width = static_cast<std::size_t>(layout.k);
  for (std::size_t i = 0; i < codes.size(); ++i)
    bytes[i / width * pitch + i % width / 2] |=
        static_cast<std::byte>(codes[i] << (i % width % 2 * 4));
  std::optional<Tensor> factor;
  DType type = DType::kFloat32;
  if (!powers) {
    for (float& scale : scales) scale /= unit;
    factor = Tensor::scalar(DType::kFloat32, static_cast<double>(unit));
    type = DType::kFloat8E4M3FN;
  }
  return with_narrow_scales(
      ir::scaled_rows_of(ir::float4_codes(), layout.group, layout.k,
                         Tensor(DType::kUInt8, {layout.n, static_cast<std::int64_t>(pitch)},
                                ir::Buffer::take(std::move(bytes))),
                         Tensor::from_doubles(type, {layout.n, layout.groups},
                                              std::vector<double>(scales.begin(), scales.end())),
                         std::nullopt),
      factor);
}

/// Absent in plans without block scales.
std::int64_t channels_of(const Attrs& attrs) {
  return attrs.has("channels") ? attrs.get_int("channels") : 1;
}

/// Results: values, scales, and factors if there are any.
const ir::Transform kQuantizedFloats = {
    "quantized_floats",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      return attrs.get_int("group") >= 0 && channels_of(attrs) >= 1 &&
             (!attrs.has("bits") || attrs.get_int("bits") == 4) && ir::has_inputs(inputs, 1, 2) &&
             is_float(inputs[0].dtype()) && inputs[0].element_count() > 0;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      WeightOptions options;
      options.bits = 8;
      options.group = attrs.get_int("group");
      options.channels = channels_of(attrs);
      ir::ScaledTensor made = attrs.has("bits") ? rounded_float4(inputs[0], options.group)
                                                : rounded_floats(inputs[0], options);
      std::vector<Tensor> results{std::move(made.values), std::move(made.scales)};
      if (made.factors) results.push_back(*std::move(made.factors));
      return results;
    },
    2};

/// Results: values, scales, whether there are zero points, and these.
const ir::Transform kQuantized = {
    "quantized",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t bits = attrs.get_int("bits");
      attrs.get_int("symmetric");
      return (bits == 4 || bits == 8) && attrs.get_int("group") >= 0 &&
             ir::has_inputs(inputs, 1, 2) && is_float(inputs[0].dtype()) &&
             inputs[0].element_count() > 0;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      WeightOptions options;
      options.bits = static_cast<int>(attrs.get_int("bits"));
      options.group = attrs.get_int("group");
      options.symmetric = attrs.get_int("symmetric") != 0;
      ir::ScaledTensor made = rounded_integers(inputs[0], options);
      std::vector<Tensor> results{std::move(made.values), std::move(made.scales),
                                  Tensor::scalar(DType::kBool, made.zero_points ? 1 : 0)};
      if (made.zero_points) results.push_back(std::move(*made.zero_points));
      return results;
    },
    4};

ir::ScaledTensor quantize(const Tensor& weights, const WeightOptions& options) {
  Attrs attrs{{"group", options.group}};
  if (options.channels > 1) attrs.set("channels", options.channels);
  const bool is_float4 = options.floats && options.bits == 4;
  if (is_float4) attrs.set("bits", std::int64_t{4});
  if (!options.floats) {
    attrs.set("bits", std::int64_t{options.bits});
    attrs.set("symmetric", std::int64_t{options.symmetric ? 1 : 0});
  }
  const std::vector<Tensor> made =
      ir::apply(options.floats ? kQuantizedFloats : kQuantized, attrs, std::span(&weights, 1));
  const Layout layout(weights, options);
  std::optional<Tensor> zeros, factors;
  if (!options.floats && made[2].at(0) != 0) zeros = made[3];
  if (options.floats && made.size() > 2) factors = made[2];
  if (is_float4)
    return ir::scaled_rows_of(ir::float4_codes(), layout.group, layout.k, made[0], made[1], {},
                              std::move(factors));
  return ir::scaled_rows_of(options.bits, layout.group, layout.k, made[0], made[1],
                            std::move(zeros));
}

ir::ScaledTensor quantize(const Tensor& weights, const WeightOptions& options,
                          const Tensor& moments) {
  const Layout layout(weights, options);
  std::vector<float> memory;
  const RoundedWeights rounded =
      round_compensated(finite_floats(weights, memory), layout.n, layout.k, layout.width,
                        GroupFitter(options), moments.as<float>());
  return packed(rounded, layout, options, DType::kFloat32);
}

double weight_error(const Tensor& exact, const Tensor& rounded) {
  const Floats a(exact), b(rounded);
  constexpr std::size_t kAtOnce = 1 << 16;
  return relative_error((a.size() + kAtOnce - 1) / kAtOnce, 1, [&](std::size_t at) {
    std::vector<float> memory, other_memory;
    const std::size_t begin = at * kAtOnce, count = std::min(kAtOnce, a.size() - begin);
    const auto values = a.part(begin, count, memory), others = b.part(begin, count, other_memory);
    double size = 0, difference = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto w = static_cast<double>(values[i]), d = w - static_cast<double>(others[i]);
      size += w * w;
      difference += d * d;
    }
    return std::pair(size, difference);
  });
}

double output_error(const Tensor& exact, const Tensor& rounded, std::int64_t rows) {
  const auto n = static_cast<std::size_t>(exact.shape()[0]),
             k = static_cast<std::size_t>(exact.shape()[1]);
  const Floats a(exact), b(rounded);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(rows) * k);
  for (float& value : x) value = normal(random);
  constexpr std::size_t kRowsAtOnce = 16;
  return relative_error((n + kRowsAtOnce - 1) / kRowsAtOnce, 1, [&](std::size_t part) {
    std::vector<float> memory, other_memory;
    double size = 0, difference = 0;
    for (std::size_t row = part * kRowsAtOnce; row < std::min(n, (part + 1) * kRowsAtOnce); ++row) {
      const auto w = a.part(row * k, k, memory), other = b.part(row * k, k, other_memory);
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* const factors = x.data() + static_cast<std::size_t>(r) * k;
        double y = 0, d = 0;
        for (std::size_t i = 0; i < k; ++i) {
          const auto factor = static_cast<double>(factors[i]);
          y += factor * static_cast<double>(w[i]);
          d += factor * (static_cast<double>(w[i]) - static_cast<double>(other[i]));
        }
        size += y * y;
        difference += d * d;
      }
    }
    return std::pair(size, difference);
  });
}

double output_error(const Tensor& exact, const Tensor& rounded, const Tensor& moments) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using View = Eigen::Map<const Matrix>;
  const Eigen::Index n = exact.shape()[0], k = exact.shape()[1];
  std::vector<float> memory, other_memory;
  const View w(Floats(exact).all(memory).data(), n, k),
      other(Floats(rounded).all(other_memory).data(), n, k), m(moments.as<float>().data(), k, k);
  constexpr Eigen::Index kRowsAtOnce = 64;
  const auto parts = static_cast<std::size_t>((n + kRowsAtOnce - 1) / kRowsAtOnce);
  return relative_error(parts, 1, [&](std::size_t part) {
    const Eigen::Index first = static_cast<Eigen::Index>(part) * kRowsAtOnce;
    const auto own = w.middleRows(first, std::min(kRowsAtOnce, n - first));
    const Matrix change = own - other.middleRows(first, own.rows());
    const auto square = [&](const auto& rows) {
      return static_cast<double>((rows * m).cwiseProduct(rows).sum());
    };
    return std::pair(square(own), square(change));
  });
}

}  // namespace sinter::fusion
