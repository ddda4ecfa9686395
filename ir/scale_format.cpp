// SPDX-License-Identifier: Apache-2.0
#include "ir/scale_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/parallel.h"

namespace sinter::ir {
namespace {

constexpr std::size_t kRowsAtOnce = 64;  // per thread
/// The type of scales that are stored as u8.
constexpr std::string_view kPowersOfTwo = "e8m0";
// At the end of a format's text.
constexpr std::string_view kFactors = " * f32 row", kOffset = " + ";

/// e2m1: a sign, two exponent bits and one mantissa bit.
constexpr double kFloats4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
/// IQ4_NL of ggml (ggml-common.h, kvalues_iq4nl).
constexpr double kUneven4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/// To add a code type: a row here, its table of numbers if they are no integers, and its conversion
/// in codegen/families/gemm/weights.
constexpr CodeType kCodeTypes[] = {
    {"i8", 8, DType::kInt8, false, 127},
    {"u8", 8, DType::kUInt8, false, 255},
    {"i4", 4, DType::kUInt8, false, 7},
    {"f8e4m3fn", 8, DType::kFloat8E4M3FN, true, 448},
    {"f8e5m2", 8, DType::kFloat8E5M2, true, 57344},
    {"f16", 16, DType::kFloat16, true, 65504},
    {"bf16", 16, DType::kBFloat16, true, 3.3895313892515355e38},
    {"f4e2m1", 4, DType::kUInt8, true, 6, kFloats4, 0.5},
    {"iq4nl", 4, DType::kUInt8, true, 127, kUneven4},
};

/// Splits a format's text into words.
class FormatReader {
 public:
  explicit FormatReader(std::string_view text) : text_(text), rest_(text) {}

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("'{}' is no format of scaled numbers: {}; write it as "
                            "'(i4 - i8) * f16 group 32'",
                            text_, why));
  }

  bool skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void expect(std::string_view word) {
    if (!skip(word)) refuse(fmt::format("'{}' is missing", word));
  }

  std::string_view word() {
    const std::string_view found = rest_.substr(0, rest_.find_first_of(" )"));
    rest_.remove_prefix(found.size());
    return found;
  }

  DType type() {
    const std::string_view name = word();
    if (name == kPowersOfTwo) return DType::kUInt8;
    const auto found = dtype_from_string(name);
    if (!found) refuse(fmt::format("'{}' is no type", name));
    return *found;
  }

  std::int64_t size() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 1) refuse("a block has 1 element or more");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool is_done() const { return rest_.empty(); }

 private:
  std::string_view text_, rest_;
};

}  // namespace

const CodeType* find_code_type(std::string_view name) {
  for (const CodeType& type : kCodeTypes)
    if (type.name == name) return &type;
  return nullptr;
}

const CodeType& float4_codes() { return *find_code_type("f4e2m1"); }

std::vector<std::int8_t> numbers_in_units(const CodeType& codes) {
  std::vector<std::int8_t> numbers;
  for (int code = 0; codes.numbers != nullptr && code < 1 << codes.bits; ++code)
    numbers.push_back(static_cast<std::int8_t>(codes.numbers[code] / codes.unit));
  return numbers;
}

const CodeType& integer_codes(int bits) { return *find_code_type(bits == 4 ? "i4" : "i8"); }

const CodeType& codes_stored_as(DType stored) {
  if (const CodeType* found = find_code_type(sinter::to_string(stored))) return *found;
  throw Error(ErrorCode::kUnsupported, fmt::format("codes of type {}", sinter::to_string(stored)));
}

std::int64_t ScaleFormat::groups(std::int64_t k) const { return group_count(k, depth); }
std::int64_t ScaleFormat::row_groups(std::int64_t count) const { return group_count(count, rows); }

std::string ScaleFormat::to_string() const {
  std::string text(codes->name);
  if (zero) text = fmt::format("({} - {})", text, sinter::to_string(*zero));
  text += fmt::format(" * {} ", scale == DType::kUInt8 ? kPowersOfTwo : sinter::to_string(scale));
  if (rows == 1)
    text += depth == 0 ? "row" : fmt::format("group {}", depth);
  else
    text += rows == 0 && depth == 0 ? "tensor" : fmt::format("block {}x{}", depth, rows);
  if (has_factors) text += kFactors;
  if (offset) text.append(kOffset).append(sinter::to_string(*offset));
  return text;
}

ScaleFormat ScaleFormat::parse(std::string_view text) {
  FormatReader reader(text);
  ScaleFormat result;
  const bool has_zero = reader.skip("(");
  const std::string_view name = reader.word();
  result.codes = find_code_type(name);
  if (result.codes == nullptr) reader.refuse(fmt::format("'{}' is no type of codes", name));
  if (has_zero) {
    reader.expect(" - ");
    result.zero = reader.type();
    reader.expect(")");
  }
  reader.expect(" * ");
  result.scale = reader.type();
  reader.expect(" ");
  if (reader.skip("tensor")) {
    result.rows = 0;
  } else if (reader.skip("group ")) {
    result.depth = reader.size();
  } else if (reader.skip("block ")) {
    result.depth = reader.size();
    reader.expect("x");
    result.rows = reader.size();
    if (result.rows == 1) reader.refuse("blocks of one row are groups");
  } else {
    reader.expect("row");
  }
  result.has_factors = reader.skip(kFactors);
  if (reader.skip(kOffset)) result.offset = reader.type();
  if (!reader.is_done()) reader.refuse("it goes on behind its end");
  return result;
}

std::int64_t group_count(std::int64_t k, std::int64_t group) {
  return group == 0 ? 1 : k / group + (k % group != 0 ? 1 : 0);
}

Tensor pack_four_bits(std::span<const std::int8_t> values, std::int64_t rows,
                      std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns), pitch = (width + 1) / 2;
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * pitch);
  for_each_range(
      static_cast<std::size_t>(rows), kRowsAtOnce, [&](std::size_t row, std::size_t end) {
        for (; row < end; ++row) {
          const std::int8_t* from = values.data() + row * width;
          std::byte* to = bytes.data() + row * pitch;
          const auto half = [](std::int8_t value) {
            return static_cast<unsigned>(value + 8) & 15U;
          };
          for (std::size_t i = 0; i < width / 2; ++i)
            to[i] = static_cast<std::byte>(half(from[2 * i]) | half(from[2 * i + 1]) << 4);
          if (width % 2 != 0) to[width / 2] = static_cast<std::byte>(half(from[width - 1]) | 0x80U);
        }
      });
  return Tensor(DType::kUInt8, {rows, static_cast<std::int64_t>(pitch)},
                Buffer::take(std::move(bytes)));
}

std::optional<int> CodeType::code_of(double number) const {
  for (int code = 0; numbers != nullptr && code < 1 << bits; ++code)
    if (numbers[code] == number && std::signbit(numbers[code]) == std::signbit(number)) return code;
  return std::nullopt;
}

const CodeType* codes_in(const Attrs& attrs, const Tensor& values) {
  if (attrs.has("codes")) return find_code_type(attrs.get_string("codes"));
  if (attrs.get_int("bits") == 4) return &integer_codes(4);
  return find_code_type(sinter::to_string(values.dtype()));
}

void set_codes(Attrs& attrs, const CodeType& codes) {
  if (codes.numbers != nullptr) attrs.set("codes", std::string(codes.name));
}

Tensor unpacked_values(const ScaledTensor& weights) {
  if (weights.bits() != 4) return weights.values;
  const int zero = weights.format.codes->numbers != nullptr ? 0 : 8;
  const auto width = static_cast<std::size_t>(weights.k), pitch = (width + 1) / 2;
  std::vector<std::byte> bytes(static_cast<std::size_t>(weights.n()) * width);
  const std::span<const std::byte> packed = weights.values.bytes();
  const auto n = static_cast<std::size_t>(weights.n());
  for_each_range(n, kRowsAtOnce, [&](std::size_t row, std::size_t end) {
    for (; row < end; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        const int both = std::to_integer<int>(packed[row * pitch + i / 2]);
        bytes[row * width + i] =
            static_cast<std::byte>((i % 2 == 0 ? both & 15 : both >> 4) - zero);
      }
    }
  });
  return Tensor(zero == 0 ? DType::kUInt8 : DType::kInt8, {weights.n(), weights.k},
                Buffer::take(std::move(bytes)));
}

std::vector<double> scale_numbers(const ScaledTensor& weights) {
  constexpr double kBias = 127, kNoNumber = 255;
  std::vector<double> numbers = weights.scales.to_doubles();
  if (weights.format.scale == DType::kUInt8)
    for (double& number : numbers) number = number == kNoNumber ? NAN : std::exp2(number - kBias);
  if (!weights.factors) return numbers;
  const std::vector<double> factors = weights.factors->to_doubles();
  const std::size_t groups = factors.empty() ? 1 : numbers.size() / factors.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= factors[i / groups];
  return numbers;
}

namespace {

Tensor multiplied(const ScaledTensor& weights, DType dtype) {
  const Tensor values = unpacked_values(weights);
  const ir::HeldBytes held = values.hold();
  const std::span<const std::byte> q = held.bytes;
  const bool are_wide = weights.bits() == 16;
  // The value of each byte, unless codes are wider.
  std::vector<std::byte> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  std::vector<double> numbers =
      Tensor(are_wide ? DType::kUInt8 : values.dtype(), {256}, Buffer::take(std::move(codes)))
          .to_doubles();
  if (const CodeType& type = *weights.format.codes; type.numbers != nullptr)
    std::copy_n(type.numbers, 1 << type.bits, numbers.begin());
  const std::vector<double> scales = scale_numbers(weights);
  const std::vector<double> zeros =
      weights.zero_points ? weights.zero_points->to_doubles() : std::vector<double>();
  const std::vector<double> offsets =
      weights.offsets ? weights.offsets->to_doubles() : std::vector<double>();
  const auto width = static_cast<std::size_t>(weights.k);
  const ScaleFormat& format = weights.format;
  const auto whole = [](std::int64_t size, std::size_t all) {
    return size == 0 ? std::max<std::size_t>(all, 1) : static_cast<std::size_t>(size);
  };
  const std::size_t group = whole(format.depth, width),
                    rows = whole(format.rows, static_cast<std::size_t>(weights.n()));
  const auto groups = static_cast<std::size_t>(format.groups(weights.k));
  const std::size_t size = size_of(dtype);
  const std::size_t code_size = are_wide ? 2 : 1;
  std::vector<std::byte> bytes(q.size() / code_size * size);
  for_each_range(
      static_cast<std::size_t>(weights.n()), kRowsAtOnce, [&](std::size_t first, std::size_t last) {
        std::byte* out = bytes.data() + first * width * size;
        for (std::size_t row = first; row < last; ++row) {
          for (std::size_t i = 0; i < width; ++i, out += size) {
            const std::size_t at = row / rows * groups + i / group;
            const double zero = zeros.empty() ? 0 : zeros[at];
            const std::byte* code = q.data() + (row * width + i) * code_size;
            const double number = are_wide ? load_as_double(values.dtype(), code)
                                           : numbers[std::to_integer<std::size_t>(*code)];
            const double product = (number - zero) * scales[at];
            store_double(dtype, out, offsets.empty() ? product : product + offsets[at]);
          }
        }
      });
  return Tensor(dtype, {weights.n(), weights.k}, Buffer::take(std::move(bytes)));
}

}  // namespace

const Transform kDequantized = {
    "dequantized",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t bits = attrs.get_int("bits"), group = attrs.get_int("group"),
                         k = attrs.get_int("k");
      const std::size_t more = inputs.size() - (attrs.has("offsets") ? 1 : 0);
      if (inputs.size() < 2 || more < 2 || more > 3 || !has_inputs(inputs, inputs.size(), 2) ||
          !is_float(attrs.get_dtype("type")) || group < 0 || codes_in(attrs, inputs[0]) == nullptr)
        return false;
      const auto& shape = inputs[0].shape();
      const bool is_packed = bits == 4;
      const bool fits =
          is_packed
              ? inputs[0].dtype() == DType::kUInt8 && k >= 0 && k / 2 + k % 2 == shape[1]
              : k == shape[1] &&
                    (bits == 16 ? inputs.size() == 2 && (inputs[0].dtype() == DType::kFloat16 ||
                                                         inputs[0].dtype() == DType::kBFloat16)
                                : bits == 8) &&
                    (bits == 16 || inputs[0].dtype() == DType::kInt8 ||
                     (inputs[0].dtype() == DType::kFloat8E4M3FN && inputs.size() == 2));
      const bool has_factors = attrs.has("factors");
      return fits && inputs[1].shape() == Ints{shape[0], group_count(k, group)} &&
             (has_factors ? more > 2 && inputs[2].shape() == Ints{shape[0], 1}
                          : more == 2 || inputs[2].shape() == inputs[1].shape()) &&
             (more == inputs.size() || inputs[more].shape() == inputs[1].shape());
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      std::optional<Tensor> zeros, factors, offsets;
      if (attrs.has("offsets")) {
        offsets = inputs.back();
        inputs = inputs.first(inputs.size() - 1);
      }
      if (inputs.size() > 2) (attrs.has("factors") ? factors : zeros) = inputs[2];
      ScaledTensor weights =
          scaled_rows_of(*codes_in(attrs, inputs[0]), attrs.get_int("group"), attrs.get_int("k"),
                         inputs[0], inputs[1], std::move(zeros), std::move(factors));
      weights.offsets = std::move(offsets);
      return std::vector{multiplied(weights, attrs.get_dtype("type"))};
    }};

Tensor dequantized(const ScaledTensor& weights, DType dtype) {
  if (!weights.format.has_rows_of_scales()) return multiplied(weights, dtype);
  Attrs attrs{{"bits", std::int64_t{weights.bits()}},
              {"group", weights.format.depth},
              {"k", weights.k},
              {"type", dtype}};
  set_codes(attrs, *weights.format.codes);
  if (weights.factors) attrs.set("factors", std::int64_t{1});
  if (weights.offsets) attrs.set("offsets", std::int64_t{1});
  return apply(kDequantized, attrs, parts_of(weights)).front();
}

std::vector<Tensor> parts_of(const ScaledTensor& weights) {
  std::vector<Tensor> parts{weights.values, weights.scales};
  for (const std::optional<Tensor>* part :
       {&weights.zero_points, &weights.factors, &weights.offsets})
    if (*part) parts.push_back(**part);
  return parts;
}

ScaledTensor without_offsets(ScaledTensor weights) {
  weights.offsets.reset();
  weights.format.offset.reset();
  return weights;
}

const Transform kScaleNumbers = {
    "scale_numbers",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return (inputs.size() == 1 || inputs.size() == 2) && has_inputs(inputs, inputs.size(), 2) &&
             (inputs.size() == 1 || inputs[1].shape() == Ints{inputs[0].shape()[0], 1});
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      ScaledTensor weights;
      weights.format.scale = inputs[0].dtype();
      weights.scales = inputs[0];
      if (inputs.size() > 1) weights.factors = inputs[1];
      return std::vector{
          Tensor::from_doubles(DType::kFloat32, inputs[0].shape(), scale_numbers(weights))};
    }};

const Transform kRowFactors = {
    "row_factors",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      constexpr std::int64_t kMost = std::int64_t{1} << 26;
      return has_inputs(inputs, 1) && inputs[0].element_count() == 1 &&
             attrs.get_int("rows") >= 0 && attrs.get_int("rows") <= kMost;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t rows = attrs.get_int("rows");
      return std::vector{Tensor::from_doubles(
          DType::kFloat32, {rows, 1},
          std::vector<double>(static_cast<std::size_t>(rows), inputs[0].at(0)))};
    }};

Tensor factors_of_rows(const Tensor& number, std::int64_t rows) {
  return apply(kRowFactors, {{"rows", rows}}, std::span(&number, 1)).front();
}

ScaledTensor with_plain_scales(ScaledTensor weights) {
  std::vector<Tensor> inputs{weights.scales};
  if (weights.factors) inputs.push_back(*weights.factors);
  weights.scales = apply(kScaleNumbers, {}, inputs).front();
  weights.factors.reset();
  weights.format.scale = DType::kFloat32;
  weights.format.has_factors = false;
  return weights;
}

ScaledTensor scaled_rows_of(int bits, std::int64_t group, std::int64_t k, Tensor values,
                            Tensor scales, std::optional<Tensor> zero_points) {
  const CodeType& codes = bits == 4 ? integer_codes(4) : codes_stored_as(values.dtype());
  return scaled_rows_of(codes, group, k, std::move(values), std::move(scales),
                        std::move(zero_points));
}

ScaledTensor scaled_rows_of(const CodeType& codes, std::int64_t group, std::int64_t k,
                            Tensor values, Tensor scales, std::optional<Tensor> zero_points,
                            std::optional<Tensor> factors) {
  ScaleFormat format;
  format.codes = &codes;
  format.scale = scales.dtype();
  if (zero_points) format.zero = zero_points->dtype();
  format.depth = group;
  format.has_factors = factors.has_value();
  return {
      format, k, std::move(values), std::move(scales), std::move(zero_points), std::move(factors)};
}

namespace {

bool has_format(const Attrs& attrs, const char* operand) {
  return attrs.has(operand) && !attrs.get_string(operand).empty();
}

}  // namespace

ProductFormats::ProductFormats(const Attrs& attrs) {
  const auto format = [&](const char* name) -> std::optional<ScaleFormat> {
    if (!has_format(attrs, name)) return std::nullopt;
    return ScaleFormat::parse(attrs.get_string(name));
  };
  x = format("x");
  w = format("w");
}

std::size_t ProductFormats::input_count() const {
  return 2U + (x ? 1U : 0U) + (w ? 1U : 0U) + (w && (w->zero || w->has_factors) ? 1U : 0U) +
         (w && w->offset ? 1U : 0U);
}

Attrs product_attrs(const ScaleFormat& format) { return {{"w", format.to_string()}}; }

bool is_plain_matmul(const Node& node) {
  return node.op->name == "MatMul" && !has_format(node.attrs, "w");
}
bool has_scaled_weights(const Node& node) {
  return node.op->name == "MatMul" && has_format(node.attrs, "w") && !has_format(node.attrs, "x");
}
bool has_scaled_operands(const Node& node) {
  return node.op->name == "MatMul" && has_format(node.attrs, "x");
}

ScaledTensor weights_of(const Attrs& attrs, std::span<const Tensor> operands, std::int64_t k) {
  const ProductFormats formats(attrs);
  const std::size_t scales = formats.weight_scales() - 1;
  ScaledTensor result{*formats.w, k, operands[0], operands[scales], std::nullopt};
  if (formats.w->zero) result.zero_points = operands[scales + 1];
  if (formats.w->has_factors) result.factors = operands[scales + 1];
  if (formats.w->offset) result.offsets = operands[formats.input_count() - 2];
  return result;
}

}  // namespace sinter::ir
