// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/weights/weight_pack.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/transforms.h"
#include "ir/parallel.h"

namespace sinter::codegen {

using ir::Attrs, ir::Ints, ir::Tensor;

namespace {

constexpr std::int64_t kUnitBytes = 512, kFragment = 16;
constexpr int kLanes = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The numbers of some rows, biased to be unsigned; elements outside represent zero.
class Numbers {
 public:
  /// `values`: the bytes of `codes`, rows of k.
  Numbers(const Tensor& codes, const ir::CodeType& type, std::int64_t k,
          std::span<const std::byte> values)
      : bytes_(reinterpret_cast<const std::uint8_t*>(values.data())),
        bits_(type.bits),
        floats_(type.is_float),
        zero_(type.numbers != nullptr ? static_cast<std::uint32_t>(type.code_of(0).value_or(0))
              : type.is_float         ? 0u
                                      : 1u << (type.bits - 1)),
        n_(codes.shape()[0]),
        k_(k),
        pitch_(codes.shape()[1]) {}

  std::uint32_t at(std::int64_t n, std::int64_t k) const {
    if (n >= n_ || k >= k_) return zero_;
    if (bits_ == 8) return bytes_[n * pitch_ + k] ^ (floats_ ? 0u : 128u);
    return bytes_[n * pitch_ + k / 2] >> (k % 2 * 4) & 15u;
  }

  bool are_floats() const { return floats_; }

 private:
  const std::uint8_t* bytes_;
  int bits_;
  bool floats_;
  std::uint32_t zero_;
  std::int64_t n_, k_, pitch_;
};

/// 4-bit weights for 8-bit rows of x.
void pack_unit_for_bytes(const Numbers& numbers, std::int64_t n, std::int64_t k,
                         std::uint8_t* unit) {
  constexpr int kWords = 4, kBytes = 4;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int j = 0; j < kWords; ++j)
      for (int i = 0; i < kBytes; ++i) {
        const std::int64_t column = n + lane / 4, depth = k + j * kFragment + lane % 4 * kBytes + i;
        unit[lane * 16 + j * kBytes + i] = static_cast<std::uint8_t>(
            numbers.at(column, depth) | numbers.at(column + 8, depth) << 4);
      }
}

void pack_unit(const Numbers& numbers, int bits, std::int64_t n, std::int64_t k,
               std::uint8_t* unit) {
  const int fragments = bits == 8 ? 2 : 4;
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t g = lane / 4, t = lane % 4 * 2;
    std::uint8_t* to = unit + lane * 16;
    for (int j = 0; j < fragments; ++j)
      for (int half = 0; half < 2; ++half)
        for (int upper = 0; upper < 2; ++upper)
          for (int next = 0; next < 2; ++next) {
            const std::uint32_t value =
                numbers.at(n + g + upper * 8, k + j * kFragment + half * 8 + t + next);
            if (bits == 8) {
              // Float conversions take adjacent pairs, integer conversions the two halves of a
              // word.
              const int byte = numbers.are_floats() ? half * 2 + next : half + next * 2;
              to[(j * 2 + upper) * 4 + byte] = static_cast<std::uint8_t>(value);
            } else {
              const int nibble = half * 2 + upper + next * 4;
              to[j * 4 + nibble / 2] |= static_cast<std::uint8_t>(value << (nibble % 2 * 4));
            }
          }
  }
}

/// Units of all tiles in `shape`; `write` writes those of one tile.
template <class Write>
std::vector<std::byte> made_tiles(const Ints& shape, const Write& write) {
  const auto tile_bytes = static_cast<std::size_t>(shape[1] * kUnitBytes),
             count = static_cast<std::size_t>(shape[0]);
  std::vector<std::byte> bytes(count * tile_bytes);
  ir::for_each_job(count, 0, [&](std::size_t tile) {
    write(static_cast<std::int64_t>(tile),
          reinterpret_cast<std::uint8_t*>(bytes.data() + tile * tile_bytes));
  });
  return bytes;
}

std::int64_t unit_depth(int bits) { return bits == 8 ? 32 : 64; }

/// Units of one tile's 16 columns; element (n, k) is from[n * stride_n + k * stride_k].
struct Elements {
  const std::uint16_t* from;
  std::int64_t n, k, stride_n, stride_k;

  void pack_tile(std::int64_t tile, std::uint16_t* to) const {
    for (std::int64_t u = 0; u * kFragment < k; ++u)
      for (std::int64_t column = 0; column < kPackedColumns; ++column) {
        const std::int64_t row = tile * kPackedColumns + column, g = column % 8, upper = column / 8;
        if (row >= n) continue;
        for (std::int64_t i = 0; i < kFragment && u * kFragment + i < k; ++i)
          to[u * kUnitBytes / 2 + (g * 4 + i % 8 / 2) * 8 + (i / 8 * 2 + upper) * 2 + i % 2] =
              from[row * stride_n + (u * kFragment + i) * stride_k];
      }
  }
};

Elements elements_of(const Attrs& attrs, const Tensor& weights) {
  const std::int64_t rows = weights.shape()[0], columns = weights.shape()[1];
  Elements elements = {nullptr, rows, columns, columns, 1};
  if (attrs.get_int("rows_are_k") != 0) {
    std::swap(elements.n, elements.k);
    std::swap(elements.stride_n, elements.stride_k);
  }
  return elements;
}

}  // namespace

namespace {

bool are_values(const Attrs& attrs, std::span<const Tensor> inputs) {
  const std::int64_t bits = attrs.get_int("bits"), k = attrs.get_int("k");
  return (bits == 4 || bits == 8) && ir::has_inputs(inputs, 1, 2) &&
         ir::codes_in(attrs, inputs[0]) != nullptr && size_of(inputs[0].dtype()) == 1 && k >= 0 &&
         inputs[0].shape()[1] == (bits == 8 ? k : k / 2 + k % 2);
}

std::pair<DType, Ints> type_of_values(const Attrs& attrs, std::span<const Tensor> inputs) {
  const std::int64_t depth = unit_depth(static_cast<int>(attrs.get_int("bits")));
  return {DType::kUInt8, Ints{ceil_div(inputs[0].shape()[0], kPackedColumns),
                              packed_depth(attrs.get_int("k")) / depth, kUnitBytes}};
}

std::vector<std::byte> packed_values(const Attrs& attrs, std::span<const Tensor> inputs,
                                     bool for_bytes) {
  const Ints shape = type_of_values(attrs, inputs).second;
  const int bits = static_cast<int>(attrs.get_int("bits"));
  const ir::HeldBytes held = inputs[0].hold();
  const Numbers numbers(inputs[0], *ir::codes_in(attrs, inputs[0]), attrs.get_int("k"), held.bytes);
  return made_tiles(shape, [&](std::int64_t tile, std::uint8_t* unit) {
    const std::int64_t depth = unit_depth(bits);
    for (std::int64_t u = 0; u < shape[1]; ++u, unit += kUnitBytes) {
      if (for_bytes)
        pack_unit_for_bytes(numbers, tile * kPackedColumns, u * depth, unit);
      else
        pack_unit(numbers, bits, tile * kPackedColumns, u * depth, unit);
    }
  });
}

}  // namespace

const ir::Derivation kPackedValues = {"packed_values", are_values, type_of_values,
                                      [](const Attrs& attrs, std::span<const Tensor> inputs) {
                                        return packed_values(attrs, inputs, false);
                                      }};

const ir::Derivation kPackedForBytes = {"packed_for_bytes",
                                        [](const Attrs& attrs, std::span<const Tensor> inputs) {
                                          return attrs.get_int("bits") == 4 &&
                                                 are_values(attrs, inputs);
                                        },
                                        type_of_values,
                                        [](const Attrs& attrs, std::span<const Tensor> inputs) {
                                          return packed_values(attrs, inputs, true);
                                        }};

const ir::Derivation kPackedElements = {
    "packed_elements",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      attrs.get_int("rows_are_k");
      return ir::has_inputs(inputs, 1, 2) && size_of(inputs[0].dtype()) == 2;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Elements elements = elements_of(attrs, inputs[0]);
      return std::pair(DType::kUInt8, Ints{ceil_div(elements.n, kPackedColumns),
                                           packed_depth(elements.k) / kFragment, kUnitBytes});
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      Elements from = elements_of(attrs, inputs[0]);
      const ir::HeldBytes held = inputs[0].hold();
      from.from = reinterpret_cast<const std::uint16_t*>(held.bytes.data());
      return made_tiles(kPackedElements.type(attrs, inputs).second,
                        [&](std::int64_t tile, std::uint8_t* units) {
                          from.pack_tile(tile, reinterpret_cast<std::uint16_t*>(units));
                        });
    }};

namespace {

/// One value for each column and group, 16 columns adjacent; `k` and `group` are those of the
/// weights.
Tensor packed_groups_of(const Tensor& values, std::int64_t group, std::int64_t k, DType type) {
  const std::int64_t n = values.shape()[0], groups = values.shape()[1];
  const std::int64_t tiles = ceil_div(n, kPackedColumns);
  const std::int64_t packed = packed_groups(group, k);
  std::vector<double> result(static_cast<std::size_t>(tiles * packed * kPackedColumns), 0.0);
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t g = 0; g < groups; ++g)
      result[static_cast<std::size_t>((row / kPackedColumns * packed + g) * kPackedColumns +
                                      row % kPackedColumns)] = values.at(row * groups + g);
  return Tensor::from_doubles(type, {tiles, packed, kPackedColumns}, result);
}

/// The narrowest type that represents all scales.
DType narrowest(const Tensor& scales) {
  if (scales.dtype() != DType::kFloat32) return scales.dtype();
  const std::vector<double> values = scales.to_doubles();
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    if (Tensor::from_doubles(type, scales.shape(), values).to_doubles() == values) return type;
  }
  return DType::kFloat32;
}

Tensor pack_groups(const Tensor& values, const ir::ScaledTensor& weights, DType type) {
  return ir::apply(kPackedGroups,
                   {{"group", weights.format.depth}, {"k", weights.k}, {"type", type}},
                   std::span(&values, 1))
      .front();
}

DType scale_type(const Tensor& scales) {
  const Tensor type = ir::apply(kNarrowestType, {}, std::span(&scales, 1)).front();
  return static_cast<DType>(type.at_int(0));
}

/// Scales of 8 bits as kernels take them: e4m3 and factors, or f32.
ir::ScaledTensor with_kernel_scales(ir::ScaledTensor weights) {
  const DType scale = weights.format.scale;
  const std::int64_t group = weights.format.depth;
  if (is_arithmetic_float(scale)) return weights;
  if (group == 0 || group >= weights.k) return ir::with_plain_scales(std::move(weights));
  if (scale == DType::kFloat8E4M3FN) return weights;
  Attrs attrs{{"group", group}, {"k", weights.k}};
  ir::set_codes(attrs, *weights.format.codes);
  const Tensor inputs[] = {weights.scales, weights.values};
  const std::vector<Tensor> made = ir::apply(kScaledPowers, attrs, inputs);
  if (made[0].at_int(0) == 0) return ir::with_plain_scales(std::move(weights));
  weights.scales = made[1];
  weights.factors = made[2];
  return weights;
}

}  // namespace

const ir::Transform kScaledPowers = {
    "scaled_powers",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t group = attrs.get_int("group"), k = attrs.get_int("k");
      const ir::CodeType* const codes = ir::find_code_type(attrs.get_string("codes"));
      return group > 0 && k > 0 && codes != nullptr && codes->bits == 4 &&
             codes->numbers != nullptr && ir::has_inputs(inputs, 2, 2) &&
             inputs[0].dtype() == DType::kUInt8 && inputs[1].dtype() == DType::kUInt8 &&
             inputs[0].shape()[0] == inputs[1].shape()[0] &&
             inputs[0].shape()[1] == ir::group_count(k, group) &&
             inputs[1].shape()[1] == k / 2 + k % 2;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      // The range of powers of two in e4m3, and the code for no number.
      constexpr int kLeast = -9, kMost = 8, kBias = 127, kNoNumber = 255;
      const std::int64_t n = inputs[0].shape()[0], groups = inputs[0].shape()[1],
                         group = attrs.get_int("group"), k = attrs.get_int("k");
      const ir::HeldBytes values = inputs[1].hold(), held = inputs[0].hold();
      const ir::CodeType& type = *ir::find_code_type(attrs.get_string("codes"));
      const Numbers codes(inputs[1], type, k, values.bytes);
      const auto is_zero = [&](std::int64_t row, std::int64_t begin) {
        for (std::int64_t i = begin; i < std::min(k, begin + group); ++i)
          if (type.numbers[codes.at(row, i)] != 0) return false;
        return true;
      };
      std::vector<double> scales(static_cast<std::size_t>(n * groups)), factors;
      std::vector<int> powers(static_cast<std::size_t>(groups));
      bool are = true;
      for (std::int64_t row = 0; row < n; ++row) {
        int most = -kBias - 1;
        for (std::int64_t g = 0; g < groups; ++g) {
          int& power = powers[static_cast<std::size_t>(g)];
          const int code =
              std::to_integer<int>(held.bytes[static_cast<std::size_t>(row * groups + g)]);
          are = are && code != kNoNumber;
          power = is_zero(row, g * group) ? -kBias - 1 : code - kBias;
          most = std::max(most, power);
        }
        factors.push_back(std::ldexp(1.0, most < -kBias ? 0 : most - kMost));
        for (std::int64_t g = 0; g < groups; ++g) {
          const int power = powers[static_cast<std::size_t>(g)];
          if (power < -kBias) continue;
          are = are && power - most + kMost >= kLeast && most - kMost >= -kBias;
          scales[static_cast<std::size_t>(row * groups + g)] =
              std::ldexp(1.0, power - most + kMost);
        }
      }
      return std::vector{Tensor::scalar(DType::kBool, are ? 1 : 0),
                         Tensor::from_doubles(DType::kFloat8E4M3FN, {n, groups}, scales),
                         Tensor::from_doubles(DType::kFloat32, {n, 1}, factors)};
    },
    1};

const ir::Transform kPackedGroups = {
    "packed_groups",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t group = attrs.get_int("group"), k = attrs.get_int("k");
      return group >= 0 && k >= 0 && ir::has_inputs(inputs, 1, 2) &&
             inputs[0].shape()[1] == ir::group_count(k, group) && is_float(attrs.get_dtype("type"));
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      return std::vector{packed_groups_of(inputs[0], attrs.get_int("group"), attrs.get_int("k"),
                                          attrs.get_dtype("type"))};
    }};

const ir::Transform kNarrowestType = {
    "narrowest_type",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1) && is_float(inputs[0].dtype());
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const auto type = static_cast<std::int64_t>(narrowest(inputs[0]));
      return std::vector{Tensor::from_ints(DType::kInt64, {}, std::span(&type, 1))};
    },
    1};

const ir::Transform kHasFourBits = {
    "has_four_bits",
    [](const Attrs&, std::span<const Tensor> inputs) { return inputs.size() == 1; },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const bool has = std::ranges::all_of(inputs[0].to_doubles(), [](double value) {
        return value >= -8 && value <= 7 && value == std::floor(value);
      });
      return std::vector{Tensor::scalar(DType::kBool, has ? 1 : 0)};
    },
    1};

std::string refuse_groups(std::int64_t group, std::int64_t k) {
  if (group == 0 || group >= k || group % kFragment == 0) return "";
  return fmt::format("groups of {} are no multiple of {}", group, kFragment);
}

PackedWeights pack_weights(const ir::ScaledTensor& weights, DType x_type) {
  if (const std::string refusal = refuse_groups(weights.format.depth, weights.k); !refusal.empty())
    throw Error(ErrorCode::kUnsupported, refusal);
  PackedWeights packed;
  Attrs attrs{{"bits", std::int64_t{weights.bits()}}, {"k", weights.k}};
  ir::set_codes(attrs, *weights.format.codes);
  packed.values = ir::derive(is_float8(x_type) ? kPackedForBytes : kPackedValues, attrs,
                             std::span(&weights.values, 1));
  const ir::ScaledTensor own = with_kernel_scales(weights);
  const bool is_narrow = is_float8(own.scales.dtype());
  packed.scales =
      pack_groups(own.scales, weights, is_narrow ? own.scales.dtype() : scale_type(own.scales));
  if (own.factors)
    packed.factors =
        ir::apply(kPackedGroups,
                  {{"group", std::int64_t{0}}, {"k", weights.k}, {"type", DType::kFloat32}},
                  std::span(&*own.factors, 1))
            .front();
  if (weights.zero_points) {
    const DType type = multiplied_type(x_type);
    packed.zeros = pack_groups(*weights.zero_points, weights, type);
    if (!ir::is_within(*packed.zeros, std::numeric_limits<double>::max()))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a zero point of weights is beyond {}", to_string(type)));
    packed.zeros_of_four_bits =
        is_float8(x_type) &&
        ir::apply(kHasFourBits, {}, std::span(&*weights.zero_points, 1)).front().at_int(0) != 0;
  }
  return packed;
}

Tensor pack_elements(const Tensor& weights, bool rows_are_k) {
  if (weights.shape().size() != 2 || size_of(weights.dtype()) != 2)
    throw Error(ErrorCode::kInternal, "packed weights are matrices of 16-bit elements");
  return ir::derive(kPackedElements, {{"rows_are_k", std::int64_t{rows_are_k ? 1 : 0}}},
                    std::span(&weights, 1));
}

std::string refuse_packing(const GemmProgram& product) {
  if (product.windows) return "its rows are windows";
  if (!product.weights) return "";
  if (product.parts_of_b() > 1 &&
      ir::divide_exactly(product.n, Dim(product.parts_of_b()))->value() % kPackedColumns != 0)
    return fmt::format("its parts are no multiples of {} columns", kPackedColumns);
  return refuse_groups(product.weights->group(), product.k.value());
}

std::int64_t loop_group(const GemmProgram& product) {
  // Zero points make all of k one group: larger than any k.
  constexpr std::int64_t kWholeGroup = std::int64_t{1} << 30;
  if (!product.weights) return 0;
  if (product.weights->group() != 0) return product.weights->group();
  return product.weights->has_zeros() ? kWholeGroup : 0;
}

namespace {

/// Types of packed_weights.cuh, by their codes.
constexpr std::pair<std::string_view, std::string_view> kStorageTypes[] = {
    {"i8", "PackedBytes"},
    {"i4", "PackedNibbles"},
    {"f8e4m3fn", "PackedFloats"},
    {"f4e2m1", "PackedFloats4"},
};

}  // namespace

std::string packed_weights_type(const GemmWeights& weights, std::int64_t group) {
  if (!weights.is_quantized()) return "PackedElements, NoScales";
  const auto* const type = std::ranges::find(kStorageTypes, weights.format->codes->name,
                                             &std::pair<std::string_view, std::string_view>::first);
  if (type == std::end(kStorageTypes))
    throw Error(ErrorCode::kInternal,
                fmt::format("no kernel widens {}", weights.format->codes->name));
  return fmt::format("{}, Scales<{}, {}{}>", type->second, storage_name(weights.scales()), group,
                     weights.has_zeros()     ? ", true"
                     : weights.has_factors() ? ", false, true"
                                             : "");
}

}  // namespace sinter::codegen
