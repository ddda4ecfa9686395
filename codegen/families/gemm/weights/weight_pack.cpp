#include "codegen/families/gemm/weights/weight_pack.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "ir/parallel.h"

namespace sinter::codegen {

using ir::Tensor;

namespace {

constexpr std::int64_t kUnitBytes = 512, kFragment = 16;
constexpr int kLanes = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The numbers of some rows, biased to be unsigned; what lies outside stands for zero.
class Numbers {
 public:
  /// `values`: the bytes of the weights' values.
  Numbers(const ir::QuantizedWeights& weights, std::span<const std::byte> values)
      : bytes_(reinterpret_cast<const std::uint8_t*>(values.data())),
        bits_(weights.bits),
        n_(weights.n()),
        k_(weights.k),
        pitch_(weights.values.shape()[1]) {}

  std::uint32_t at(std::int64_t n, std::int64_t k) const {
    if (n >= n_ || k >= k_) return bits_ == 8 ? 128 : 8;
    if (bits_ == 8) return bytes_[n * pitch_ + k] ^ 128u;
    return bytes_[n * pitch_ + k / 2] >> (k % 2 * 4) & 15u;
  }

 private:
  const std::uint8_t* bytes_;
  int bits_;
  std::int64_t n_, k_, pitch_;
};

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
              to[(j * 2 + upper) * 4 + half + next * 2] = static_cast<std::uint8_t>(value);
            } else {
              const int nibble = half * 2 + upper + next * 4;
              to[j * 4 + nibble / 2] |= static_cast<std::uint8_t>(value << (nibble % 2 * 4));
            }
          }
  }
}

/// Units of `tiles` tiles, `across` in each, made when they are read: `begin()` gives what writes
/// those of a tile.
template <class Begin>
Tensor made_tiles(std::int64_t tiles, std::int64_t across, Begin begin) {
  const auto tile_bytes = static_cast<std::size_t>(across * kUnitBytes),
             count = static_cast<std::size_t>(tiles);
  auto make = [count, tile_bytes, begin = std::move(begin)] {
    std::vector<std::byte> bytes(count * tile_bytes);
    const auto write = begin();
    ir::for_each_job(count, 0, [&](std::size_t tile) {
      write(static_cast<std::int64_t>(tile),
            reinterpret_cast<std::uint8_t*>(bytes.data() + tile * tile_bytes));
    });
    return bytes;
  };
  return Tensor(DType::kUInt8, {tiles, across, kUnitBytes},
                ir::Buffer::derived(count * tile_bytes, std::move(make)));
}

Tensor pack_values(const ir::QuantizedWeights& weights) {
  const std::int64_t tiles = ceil_div(weights.n(), kPackedColumns);
  const std::int64_t unit_depth = weights.bits == 8 ? 32 : 64;
  const std::int64_t across = packed_depth(weights.k) / unit_depth;
  return made_tiles(tiles, across, [weights, across, unit_depth] {
    const ir::HeldBytes held = weights.values.hold();
    return [held, numbers = Numbers(weights, held.bytes), bits = weights.bits, across, unit_depth](
               std::int64_t tile, std::uint8_t* unit) {
      for (std::int64_t u = 0; u < across; ++u, unit += kUnitBytes)
        pack_unit(numbers, bits, tile * kPackedColumns, u * unit_depth, unit);
    };
  });
}

/// Units of one tile's 16 columns; element (n, k) is at from[n * stride_n + k * stride_k].
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

/// One value for each column and group, of 16 columns side by side.
Tensor pack_groups(const Tensor& values, const ir::QuantizedWeights& weights, DType type) {
  const std::int64_t n = weights.n(), groups = values.shape()[1];
  const std::int64_t tiles = ceil_div(n, kPackedColumns);
  const std::int64_t packed = packed_groups(weights.group, weights.k);
  std::vector<double> result(static_cast<std::size_t>(tiles * packed * kPackedColumns), 0.0);
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t g = 0; g < groups; ++g)
      result[static_cast<std::size_t>((row / kPackedColumns * packed + g) * kPackedColumns +
                                      row % kPackedColumns)] = values.at(row * groups + g);
  return Tensor::from_doubles(type, {tiles, packed, kPackedColumns}, result);
}

/// The narrowest type that has all scales.
DType scale_type(const Tensor& scales) {
  if (scales.dtype() != DType::kFloat32) return scales.dtype();
  const std::vector<double> values = scales.to_doubles();
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    if (Tensor::from_doubles(type, scales.shape(), values).to_doubles() == values) return type;
  }
  return DType::kFloat32;
}

}  // namespace

std::string refuse_groups(std::int64_t group, std::int64_t k) {
  if (group == 0 || group >= k || group % kFragment == 0) return "";
  return fmt::format("groups of {} are no multiple of {}", group, kFragment);
}

PackedWeights pack_weights(const ir::QuantizedWeights& weights, DType x_type) {
  if (const std::string refusal = refuse_groups(weights.group, weights.k); !refusal.empty())
    throw Error(ErrorCode::kUnsupported, refusal);
  PackedWeights packed;
  packed.values = pack_values(weights);
  packed.scales = pack_groups(weights.scales, weights, scale_type(weights.scales));
  if (weights.zero_points) {
    packed.zeros = pack_groups(*weights.zero_points, weights, x_type);
    for (const double zero : packed.zeros->to_doubles())
      if (!std::isfinite(zero))
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("a zero point of weights is beyond {}", to_string(x_type)));
  }
  return packed;
}

Tensor pack_elements(const Tensor& weights, bool rows_are_k) {
  if (weights.shape().size() != 2 || size_of(weights.dtype()) != 2)
    throw Error(ErrorCode::kInternal, "packed weights are matrices of 16-bit elements");
  const std::int64_t rows = weights.shape()[0], columns = weights.shape()[1];
  Elements elements = {nullptr, rows, columns, columns, 1};
  if (rows_are_k) {
    std::swap(elements.n, elements.k);
    std::swap(elements.stride_n, elements.stride_k);
  }
  const std::int64_t tiles = ceil_div(elements.n, kPackedColumns);
  const std::int64_t across = packed_depth(elements.k) / kFragment;
  return made_tiles(tiles, across, [weights, elements] {
    const ir::HeldBytes held = weights.hold();
    Elements from = elements;
    from.from = reinterpret_cast<const std::uint16_t*>(held.bytes.data());
    return [held, from](std::int64_t tile, std::uint8_t* units) {
      from.pack_tile(tile, reinterpret_cast<std::uint16_t*>(units));
    };
  });
}

std::string refuse_packing(const GemmProgram& product) {
  if (product.windows) return "its rows are windows";
  if (!product.weights) return "";
  if (product.parts > 1 &&
      ir::divide_exactly(product.n, Dim(product.parts))->value() % kPackedColumns != 0)
    return fmt::format("its parts are no multiples of {} columns", kPackedColumns);
  return refuse_groups(product.weights->group, product.k.value());
}

std::int64_t loop_group(const GemmProgram& product) {
  // Groups of all of k where zero points make them groups: above any k.
  constexpr std::int64_t kWholeGroup = std::int64_t{1} << 30;
  if (!product.weights) return 0;
  if (product.weights->group != 0) return product.weights->group;
  return product.weights->zeros ? kWholeGroup : 0;
}

std::string packed_weights_type(const GemmWeights& weights, std::int64_t group) {
  if (!weights.is_quantized()) return "PackedElements, NoScales";
  return fmt::format("{}, Scales<{}, {}{}>", weights.bits == 8 ? "PackedBytes" : "PackedNibbles",
                     storage_name(weights.scales), group, weights.zeros ? ", true" : "");
}

}  // namespace sinter::codegen
