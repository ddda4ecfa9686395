// SPDX-License-Identifier: Apache-2.0
#include "ir/scale_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "expect_error.h"
#include "ir/graph.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

TEST(ScaleFormats, PrintAsTheyParse) {
  for (const char* text :
       {"i8 * f32 row", "i8 * f16 tensor", "(i4 - i8) * f16 group 32", "(i8 - f32) * bf16 row",
        "f4e2m1 * f16 group 16", "f8e4m3fn * f32 group 128", "f8e4m3fn * f32 block 128x128"})
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
        "i4 * f16 row ", "i4 * f16 group 99999999999999999999"})
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
  EXPECT_THAT(refusal(x + w, with("four")), testing::HasSubstr("'four' is no type of codes"));
}

}  // namespace
}  // namespace sinter::ir
