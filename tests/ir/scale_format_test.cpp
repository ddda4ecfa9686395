// SPDX-License-Identifier: Apache-2.0
#include "ir/scale_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "expect_error.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "ir/scaled_rows.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

TEST(ScaleFormats, PrintAsTheyParse) {
  for (const char* text :
       {"i8 * f32 row", "i8 * f16 tensor", "(i4 - i8) * f16 group 32", "(i8 - f32) * bf16 row",
        "f4e2m1 * f16 group 16", "f4e2m1 * e8m0 group 32", "f4e2m1 * f8e4m3fn group 16 * f32 row",
        "f4e2m1 * f8e4m3fn row * f32 row", "f8e4m3fn * f32 group 128",
        "f8e4m3fn * f32 block 128x128", "(i4 - i8) * f16 group 32 + f16", "i8 * f32 row + bf16",
        "iq4nl * f16 group 32", "f4e2m1 * f8e4m3fn group 16 * f32 row + f32"})
    EXPECT_EQ(ScaleFormat::parse(text).to_string(), text);
}

TEST(ScaleFormats, NameWhatTheyDoNotHave) {
  const auto message = [](const char* text) {
    try {
      ScaleFormat::parse(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* text :
       {"", "i4", "i4 *", "i4 * f16", "i4 * f16 ", "i4 * f16 group", "i4 * f16 group 0",
        "i4 * f16 group -1", "i4 * f16 block 8", "i4 * f16 block 8x1", "(i4 * f16 row",
        "i4 * f16 row ", "i4 * f16 group 99999999999999999999", "i4 * f16 group 32 * f16 row",
        "i4 * f16 group 32 + ", "i4 * f16 group 32 + f16 ", "i4 + f16 * f16 group 32"})
    EXPECT_THAT(message(text), testing::HasSubstr("is no format of scaled numbers")) << text;
  EXPECT_THAT(message("i3 * f16 row"), testing::HasSubstr("'i3' is no type of codes"));
  EXPECT_THAT(message("i4 * half row"), testing::HasSubstr("'half' is no type"));
}

TEST(ScaleFormats, FloatsOfFourBitsHaveFifteenNumbers) {
  std::vector<std::uint8_t> bytes;
  for (int code = 0; code < 16; code += 2)
    bytes.push_back(static_cast<std::uint8_t>(code | (code + 1) << 4));
  const ScaledTensor row{ScaleFormat::parse("f4e2m1 * f32 group 8"),
                         16,
                         Tensor::of(DType::kUInt8, {1, 8}, bytes),
                         Tensor::from_doubles(DType::kFloat32, {1, 2}, std::vector<double>{1, 2}),
                         {}};
  EXPECT_THAT(dequantized(row, DType::kFloat32).to_doubles(),
              testing::ElementsAre(0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -1, -2, -3, -4, -6, -8, -12));
  EXPECT_EQ(float4_codes().code_of(-1.5), 11);
  EXPECT_EQ(float4_codes().code_of(5), std::nullopt);
}

TEST(ScaleFormats, ScalesOfEightBitsArePowersOfTwoOrHaveFactors) {
  std::vector<std::uint8_t> bytes(16, 0x22);  // all one
  const auto numbers = [&](const char* format, Tensor scales, std::optional<Tensor> factors) {
    const ScaledTensor rows{
        ScaleFormat::parse(format), 16, Tensor::of(DType::kUInt8, {2, 8}, bytes),
        std::move(scales),          {}, std::move(factors)};
    const std::vector<double> all = dequantized(rows, DType::kFloat64).to_doubles();
    const std::vector<double> plain = with_plain_scales(rows).scales.to_doubles();
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_EQ(plain[i], static_cast<double>(static_cast<float>(all[i * 8])));
    return std::vector<double>{all[0], all[7], all[8], all[15], all[16], all[31]};
  };
  EXPECT_THAT(numbers("f4e2m1 * e8m0 group 8",
                      Tensor::of(DType::kUInt8, {2, 2}, std::vector<std::uint8_t>{127, 128, 0, 1}),
                      std::nullopt),
              testing::ElementsAre(1, 1, 2, 2, 0x1p-127, 0x1p-126));
  const std::vector<double> scales{448, 0x1p-9, 1.125, 0}, factors{0.001, 3};
  EXPECT_THAT(numbers("f4e2m1 * f8e4m3fn group 8 * f32 row",
                      Tensor::from_doubles(DType::kFloat8E4M3FN, {2, 2}, scales),
                      Tensor::from_doubles(DType::kFloat32, {2, 1}, factors)),
              testing::ElementsAre(448 * double{0.001F}, 448 * double{0.001F},
                                   0x1p-9 * double{0.001F}, 0x1p-9 * double{0.001F}, 3.375, 0));
}

TEST(ScaleFormats, OffsetsComeBehindScales) {
  std::vector<std::uint8_t> bytes;
  for (int code = 0; code < 16; code += 2)
    bytes.push_back(static_cast<std::uint8_t>(code | (code + 1) << 4));
  const auto part = [](DType type, double a, double b) {
    return Tensor::from_doubles(type, {1, 2}, std::vector<double>{a, b});
  };
  // A scale of zero leaves the offset.
  const ScaledTensor row{ScaleFormat::parse("(i4 - i8) * f16 group 8 + f32"),
                         16,
                         Tensor::of(DType::kUInt8, {1, 8}, bytes),
                         part(DType::kFloat16, 2, 0),
                         part(DType::kInt8, -8, -8),
                         {},
                         part(DType::kFloat32, -1, 0.25)};
  EXPECT_THAT(dequantized(row, DType::kFloat32).to_doubles(),
              testing::ElementsAre(-1, 1, 3, 5, 7, 9, 11, 13, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25,
                                   0.25, 0.25));
  EXPECT_THAT(dequantized(without_offsets(row), DType::kFloat32).to_doubles()[1], 2);
  EXPECT_EQ(parts_of(row).size(), 4U);

  const CodeType& uneven = *find_code_type("iq4nl");
  EXPECT_THAT(numbers_in_units(uneven), testing::ElementsAre(-127, -104, -83, -65, -49, -35, -22,
                                                             -10, 1, 13, 25, 38, 53, 69, 89, 113));
  EXPECT_EQ(numbers_in_units(float4_codes())[3], 3);
}

TEST(ScaleFormats, RowsAreGathered) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 3 * 16; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 37));
  const Tensor nibbles = Tensor::of(DType::kUInt8, {3, 16}, bytes);
  const Tensor integers =
      Tensor(DType::kInt8, {3, 16}, Buffer::copy_of(std::as_bytes(std::span(bytes))));
  const auto numbers = [](DType type, Ints shape, double first) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i)
      values.push_back(first + static_cast<double>(i));
    return Tensor::from_doubles(type, std::move(shape), values);
  };
  const auto check = [&](const char* text, std::int64_t k, Tensor values) {
    ScaledTensor rows;
    rows.format = ScaleFormat::parse(text);
    rows.k = k;
    rows.values = std::move(values);
    const Ints grouped{3, rows.format.groups(k)};
    rows.scales = numbers(rows.format.scale, grouped, rows.format.scale == DType::kUInt8 ? 120 : 1);
    if (rows.format.zero) rows.zero_points = numbers(*rows.format.zero, grouped, -8);
    if (rows.format.has_factors) rows.factors = numbers(DType::kFloat32, {3, 1}, 0.5);
    if (rows.format.offset) rows.offsets = numbers(*rows.format.offset, grouped, -2);
    GraphBuilder builder("g");
    const ValueId indices = builder.input("i", {DType::kInt64, {Dim(2), Dim(1)}});
    builder.output("y", add_gathered(builder, rows, indices, DType::kFloat32));
    const Tensor at = Tensor::of<std::int64_t>(DType::kInt64, {2, 1}, {2, 0});
    const Tensor found = evaluate(builder.finish(), std::span(&at, 1)).front();
    EXPECT_EQ(found.shape(), (Ints{2, 1, k}));
    const std::vector<double> all = dequantized(rows, DType::kFloat32).to_doubles();
    for (std::int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(found.at(i), all[static_cast<std::size_t>(2 * k + i)]) << text << " " << i;
      EXPECT_EQ(found.at(k + i), all[static_cast<std::size_t>(i)]) << text << " " << i;
    }
  };
  check("i4 * f16 group 16", 32, nibbles);
  check("i4 * f16 row", 31, nibbles);
  check("(i4 - i8) * f32 group 8 + f16", 32, nibbles);
  check("iq4nl * f16 group 32", 32, nibbles);
  check("f4e2m1 * e8m0 group 16", 32, nibbles);
  check("f4e2m1 * f8e4m3fn group 16 * f32 row", 32, nibbles);
  check("i8 * f32 row", 16, integers);
  check("i8 * bf16 group 8 + f32", 16, integers);
}

TEST(ScaleFormats, BlocksShareScales) {
  const Tensor values =
                   Tensor::of<std::int8_t>(DType::kInt8, {3, 4}, std::vector<std::int8_t>(12, 1)),
               scales =
                   Tensor::from_doubles(DType::kFloat32, {2, 2}, std::vector<double>{1, 2, 3, 4});
  const ScaledTensor blocks{ScaleFormat::parse("i8 * f32 block 2x2"), 4, values, scales, {}};
  EXPECT_THAT(dequantized(blocks, DType::kFloat32).to_doubles(),
              testing::ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4));
}

std::string refusal(const std::string& inputs, const std::string& product) {
  try {
    parse_graph("graph @g(" + inputs + ") {\n  %y = MatMul(" + product + "\n  return y = %y\n}");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ScaleFormats, OperandsHaveTheTypesOfTheirFormats) {
  const std::string x = "%x: f16[m, 64], ", w = "%w: u8[8, 32], %s: f16[8, 2]";
  const auto with = [](const std::string& format) {
    return "%x, %w, %s) {w = \"" + format + "\"}";
  };
  EXPECT_EQ(refusal(x + w, with("i4 * f16 group 32")), "accepted");
  EXPECT_THAT(refusal(x + w, with("i8 * f16 group 32")), testing::HasSubstr("[8, 64] of i8"));
  EXPECT_THAT(refusal(x + w, with("i4 * f16 group 16")), testing::HasSubstr("[8, 4] of f16"));
  EXPECT_THAT(refusal(x + w, with("i4 * f32 group 32")), testing::HasSubstr("[8, 2] of f32"));
  EXPECT_THAT(refusal(x + w, with("(i4 - i8) * f16 group 32")), testing::HasSubstr("4 inputs"));
  EXPECT_THAT(refusal("%x: f64[m, 64], " + w, with("i4 * f16 group 32")),
              testing::HasSubstr("x of f16, bf16 or f32"));
  EXPECT_THAT(refusal(x + w, with("i4 * f16 block 32x8")),
              testing::HasSubstr("need an x with a format"));
  // Scales of 8 bits, and factors beside them, are those of floats of 4.
  const std::string e8 = "%w: u8[8, 32], %s: u8[8, 2]", e4 = "%w: u8[8, 32], %s: f8e4m3fn[8, 2]";
  EXPECT_EQ(refusal(x + e8, with("f4e2m1 * e8m0 group 32")), "accepted");
  EXPECT_THAT(refusal(x + e8, with("i4 * e8m0 group 32")), testing::HasSubstr("of 4-bit floats"));
  const auto factored = [&](const std::string& factors) {
    return refusal(x + e4 + ", %f: " + factors,
                   "%x, %w, %s, %f) {w = \"f4e2m1 * f8e4m3fn group 32 * f32 row\"}");
  };
  EXPECT_EQ(factored("f32[8, 1]"), "accepted");
  EXPECT_THAT(factored("f32[8, 2]"), testing::HasSubstr("factors must be [8, 1] of f32"));
  EXPECT_THAT(factored("f16[8, 1]"), testing::HasSubstr("factors must be [8, 1] of f32"));
  EXPECT_THAT(refusal(x + e4, with("f4e2m1 * f8e4m3fn group 32 * f32 row")),
              testing::HasSubstr("need 4 inputs"));
  EXPECT_THAT(refusal(x + w, with("i4 * f16 group 32 + f32")), testing::HasSubstr("4 inputs"));
  const auto shifted = [&](const std::string& offsets) {
    return refusal(x + w + ", %o: " + offsets, "%x, %w, %s, %o) {w = \"i4 * f16 group 32 + f32\"}");
  };
  EXPECT_EQ(shifted("f32[8, 2]"), "accepted");
  EXPECT_THAT(shifted("f32[8, 1]"), testing::HasSubstr("offsets must be [8, 2] of f32"));
  EXPECT_THAT(shifted("f16[8, 2]"), testing::HasSubstr("offsets must be [8, 2] of f32"));
  EXPECT_THAT(refusal(x + w + ", %o: i8[8, 2]", "%x, %w, %s, %o) {w = \"i4 * f16 group 32 + i8\"}"),
              testing::HasSubstr("offsets of groups are f16"));
  EXPECT_THAT(refusal(x + w, with("four")), testing::HasSubstr("'four' is no type of codes"));
}

}  // namespace
}  // namespace sinter::ir
