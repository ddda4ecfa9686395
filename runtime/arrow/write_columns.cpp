// SPDX-License-Identifier: Apache-2.0
#include "runtime/arrow/write_columns.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <sinter/float8.h>

#include "runtime/cpu/ops/element.h"
#include "runtime/format_error.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::arrow {
namespace {

/// Several columns are interleaved in blocks of rows, written column by column. A block stays in
/// the cache: at most kBlockBytes, and whole cache lines of each column.
constexpr std::int64_t kBlockBytes = 128 << 10;
constexpr std::int64_t kLineRows = 16;  // a cache line of 4-byte elements
constexpr std::int64_t kAhead = 8 * kLineRows;
/// Number of 4-byte columns that are transposed in registers.
constexpr std::size_t kQuad = 4;
/// Smaller copies end before other threads would wake up.
constexpr std::int64_t kAloneBytes = 1 << 20;

/// `count` elements from `first` on, in rows of `width`; `stride` bytes separate the target's rows.
struct Piece {
  const std::byte* data;
  std::int64_t first, count, width;
  std::byte* to;
  std::int64_t stride;
};
using Copy = void (*)(const Piece&);

// Elements of a column by index. Arrow recommends alignment but does not require it.
template <typename T>
struct Numbers {
  const std::byte* data;
  T operator[](std::int64_t i) const {
    T value;
    std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof value);
    return value;
  }
};
struct Bits {
  const std::byte* data;
  std::uint8_t operator[](std::int64_t i) const {
    return std::to_integer<std::uint8_t>(data[i / 8] >> (i % 8)) & 1;
  }
};
struct Halves {
  const std::byte* data;
  float operator[](std::int64_t i) const {
    return runtime::cpu::half_to_float(Numbers<std::uint16_t>{data}[i]);
  }
};

template <typename Source, typename To>
void copy(const Piece& piece) {
  const Source from{piece.data};
  const auto put = [](std::byte* at, To value) { std::memcpy(at, &value, sizeof value); };
  if (piece.width == 1) {
    for (std::int64_t i = 0; i < piece.count; ++i)
      put(piece.to + i * piece.stride, static_cast<To>(from[piece.first + i]));
    return;
  }
  std::byte* row = piece.to;
  for (std::int64_t i = 0; i < piece.count; i += piece.width, row += piece.stride)
    for (std::int64_t k = 0; k < piece.width; ++k)
      put(row + k * static_cast<std::int64_t>(sizeof(To)),
          static_cast<To>(from[piece.first + i + k]));
}

template <typename T>
void copy_same(const Piece& piece) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::byte* from = piece.data + piece.first * kSize;
  if (piece.stride == piece.width * kSize) {
    std::memcpy(piece.to, from, static_cast<std::size_t>(piece.count * kSize));
  } else if (piece.width == 1) {
    copy<Numbers<T>, T>(piece);
  } else {
    std::byte* row = piece.to;
    for (std::int64_t i = 0; i < piece.count; i += piece.width, row += piece.stride)
      std::memcpy(row, from + i * kSize, static_cast<std::size_t>(piece.width * kSize));
  }
}

using Vector = std::uint32_t __attribute__((vector_size(16)));

/// Interleaves four columns of 4-byte elements into adjacent elements of each row.
void copy_quad(const std::array<const std::byte*, kQuad>& from, std::int64_t rows, std::byte* to,
               std::int64_t stride) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    // The hardware prefetcher does not follow many streams of short runs.
    if (row % kLineRows == 0)
      for (const std::byte* column : from) __builtin_prefetch(column + 4 * (row + kAhead));
    std::array<Vector, 4> x;
    for (std::size_t c = 0; c < kQuad; ++c) std::memcpy(&x[c], from[c] + 4 * row, sizeof x[c]);
    const Vector a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    const Vector b = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    const Vector c = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    const Vector d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    x = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
         __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
    for (std::int64_t r = 0; r < 4; ++r)
      std::memcpy(to + (row + r) * stride, &x[static_cast<std::size_t>(r)], sizeof x[0]);
  }
  for (; row < rows; ++row)
    for (std::size_t c = 0; c < kQuad; ++c)
      std::memcpy(to + row * stride + 4 * c, from[c] + 4 * row, 4);
}

template <typename To>
Copy cast_to(DType from) {
  if (from == DType::kBool) return &copy<Bits, To>;
  if (from == DType::kFloat16) return &copy<Halves, To>;
  return runtime::cpu::with_number_type(
      from, [](auto value) -> Copy { return &copy<Numbers<decltype(value)>, To>; });
}

Copy copy_of(const Column& column, DType to) {
  if (column.dtype == to) {
    if (column.is_bits) return &copy<Bits, std::uint8_t>;
    switch (size_of(to)) {
      case 1: return &copy_same<std::uint8_t>;
      case 2: return &copy_same<std::uint16_t>;
      case 4: return &copy_same<std::uint32_t>;
      default: return &copy_same<std::uint64_t>;
    }
  }
  if (!can_cast(column.dtype, to))
    throw internal_error("a column of {} is written to {}", to_string(column.dtype), to_string(to));
  switch (to) {
    case DType::kFloat32: return cast_to<float>(column.dtype);
    case DType::kFloat64: return cast_to<double>(column.dtype);
    case DType::kInt32: return cast_to<std::int32_t>(column.dtype);
    default: return cast_to<std::int64_t>(column.dtype);
  }
}

using Element = std::array<std::byte, 8>;  // the first size_of(dtype) bytes count

template <typename T>
Element element_of(T value) {
  Element element{};
  std::memcpy(element.data(), &value, sizeof value);
  return element;
}

Element one_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return element_of(std::uint16_t{0x3C00});
    case DType::kBFloat16: return element_of(std::uint16_t{0x3F80});
    case DType::kFloat32: return element_of(1.0F);
    case DType::kFloat64: return element_of(1.0);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return element_of(encode_float8(dtype, 1));
    default: return element_of(std::uint64_t{1});
  }
}

Element nan_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return element_of(std::uint16_t{0x7E00});
    case DType::kBFloat16: return element_of(std::uint16_t{0x7FC0});
    case DType::kFloat32: return element_of(std::uint32_t{0x7FC00000});
    case DType::kFloat64: return element_of(std::uint64_t{0x7FF8000000000000});
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return element_of(float8_format(dtype).nan);
    default: throw internal_error("{} has no NaN", to_string(dtype));
  }
}

/// Non-temporal copy: a large tensor exceeds the caches, and ordinary stores would first read the
/// lines they overwrite. finish_stream() makes it visible to other threads.
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __SSE2__
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    std::size_t i = 0;
    for (; i + sizeof(__m128i) <= bytes; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    to += i, from += i, bytes -= i;
  }
#endif
  std::memcpy(to, from, bytes);
}
void finish_stream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// Calls body(column index, first row, rows, target of the first row, bytes per row) for blocks of
/// rows. `body` returns the number of columns it has written, mostly 1.
template <typename Body>
void each_block(std::span<const Column> columns, const MutableTensorView& to, int threads,
                const Body& body) {
  const std::int64_t rows = columns.empty() ? 0 : columns.front().rows;
  const auto size = static_cast<std::int64_t>(size_of(to.dtype));
  std::vector<std::int64_t> offsets;
  std::int64_t stride = 0;
  for (const Column& column : columns) {
    offsets.push_back(stride);
    stride += column.width() * size;
  }
  if (rows == 0 || stride == 0) return;
  const bool is_large = rows * stride >= kAloneBytes;
  const std::int64_t fitting = (columns.size() == 1 ? kAloneBytes : kBlockBytes) / stride;
  const std::int64_t block = std::max(kLineRows, fitting / kLineRows * kLineRows);
  const std::int64_t blocks = (rows + block - 1) / block;
  const int team = is_large ? threads : 1;
  const std::int64_t parts = std::min<std::int64_t>(blocks, runtime::threads::parts_of(team));
  runtime::threads::run_parts(parts, team, [&](runtime::threads::Member& member) {
    // Buffer in which a block's columns are interleaved before non-temporal stores.
    std::vector<std::byte> held(
        is_large && columns.size() > 1 ? static_cast<std::size_t>(block * stride) : 0);
    while (const auto part = member.next())
      for (std::int64_t b = *part * blocks / parts; b < (*part + 1) * blocks / parts; ++b) {
        const std::int64_t first = b * block, count = std::min(block, rows - first);
        std::byte* const there = static_cast<std::byte*>(to.data) + first * stride;
        std::byte* const here = held.empty() ? there : held.data();
        for (std::size_t c = 0; c < columns.size();)
          c += body(c, first, count, here + offsets[c], stride);
        if (!held.empty()) stream(there, here, static_cast<std::size_t>(count * stride));
      }
    finish_stream();
  });
}

/// Writes `value` over null elements.
void put_nulls(const Column& column, std::int64_t first_row, std::int64_t rows, std::byte* to,
               std::int64_t stride, const Element& value, std::size_t size) {
  if (column.validity.empty()) return;
  const std::int64_t width = column.width();
  for (const Validity& is_there : column.validity)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t k = 0; k < width; ++k)
        if (!is_there((first_row + row) * width + k))
          std::memcpy(to + row * stride + k * static_cast<std::int64_t>(size), value.data(), size);
}

}  // namespace

bool can_cast(DType from, DType to) {
  const auto bits = [](DType type) { return type == DType::kBool ? 1 : 8 * size_of(type); };
  if (to == DType::kFloat32 || to == DType::kFloat64)
    return from != DType::kBFloat16 && !is_float8(from);
  if ((to != DType::kInt32 && to != DType::kInt64) || is_float(from)) return false;
  return bits(from) < bits(to);
}

void write_columns(std::span<const Column> columns, const MutableTensorView& to, NullValue null,
                   int threads) {
  const std::size_t size = size_of(to.dtype);
  std::vector<Copy> copies;
  std::vector<bool> begins_quad(columns.size());
  std::size_t plain = 0;  // columns in a row that fit one
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    copies.push_back(copy_of(column, to.dtype));
    plain = size == 4 && column.dtype == to.dtype && column.lists.empty() ? plain + 1 : 0;
    if (plain >= kQuad) begins_quad[c + 1 - kQuad] = true;
  }
  const Element value = null == NullValue::kNaN ? nan_of(to.dtype) : Element{};
  each_block(
      columns, to, threads,
      [&](std::size_t c, std::int64_t first, std::int64_t rows, std::byte* at,
          std::int64_t stride) {
        if (begins_quad[c]) {
          std::array<const std::byte*, kQuad> from;
          for (std::size_t i = 0; i < kQuad; ++i)
            from[i] = columns[c + i].data + 4 * (columns[c + i].first + first);
          copy_quad(from, rows, at, stride);
          for (std::size_t i = 0; i < kQuad; ++i)
            put_nulls(columns[c + i], first, rows, at + 4 * i, stride, value, size);
          return kQuad;
        }
        const Column& column = columns[c];
        if (const std::int64_t width = column.width(); width > 0)
          copies[c]({column.data, column.first + first * width, rows * width, width, at, stride});
        put_nulls(column, first, rows, at, stride, value, size);
        return std::size_t{1};
      });
}

void write_validity(std::span<const Column> columns, const MutableTensorView& to, int threads) {
  const std::size_t size = size_of(to.dtype);
  const Element one = one_of(to.dtype);
  each_block(columns, to, threads,
             [&](std::size_t c, std::int64_t first, std::int64_t rows, std::byte* at,
                 std::int64_t stride) {
               const std::int64_t width = columns[c].width();
               for (std::int64_t row = 0; row < rows; ++row)
                 for (std::int64_t k = 0; k < width; ++k)
                   std::memcpy(at + row * stride + k * static_cast<std::int64_t>(size), one.data(),
                               size);
               put_nulls(columns[c], first, rows, at, stride, Element{}, size);
               return std::size_t{1};
             });
}

}  // namespace sinter::arrow
