// SPDX-License-Identifier: Apache-2.0
#include "ir/tensor.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "tests/ir/expect_error.h"

namespace sinter::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::uint16_t bits_of(DType dtype, double value) {
  return Tensor::scalar(dtype, value).as<std::uint16_t>()[0];
}

double from_bits(DType dtype, std::uint16_t bits) {
  return Tensor::of<std::uint16_t>(dtype, {}, {bits}).at(0);
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(bits_of(DType::kFloat16, 0.0), 0x0000);
  EXPECT_EQ(bits_of(DType::kFloat16, -0.0), 0x8000);
  EXPECT_EQ(bits_of(DType::kFloat16, 1.0), 0x3c00);
  EXPECT_EQ(bits_of(DType::kFloat16, -2.0), 0xc000);
  EXPECT_EQ(bits_of(DType::kFloat16, 0.1), 0x2e66);
  EXPECT_EQ(bits_of(DType::kFloat16, 1 + 0x1p-11), 0x3c00);            // a tie, to even: down
  EXPECT_EQ(bits_of(DType::kFloat16, 1 + 3 * 0x1p-11), 0x3c02);        // a tie, to even: up
  EXPECT_EQ(bits_of(DType::kFloat16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);  // through float: a tie
  EXPECT_EQ(bits_of(DType::kFloat16, 2 - 0x1p-12), 0x4000);            // carries into the exponent
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(bits_of(DType::kFloat16, 65504), 0x7bff);
  EXPECT_EQ(bits_of(DType::kFloat16, 65519.99), 0x7bff);
  EXPECT_EQ(bits_of(DType::kFloat16, 65520), 0x7c00);
  EXPECT_EQ(bits_of(DType::kFloat16, -1e300), 0xfc00);
  EXPECT_EQ(bits_of(DType::kFloat16, kInf), 0x7c00);
  EXPECT_EQ(bits_of(DType::kFloat16, -kInf), 0xfc00);
  EXPECT_TRUE(std::isnan(from_bits(DType::kFloat16, bits_of(DType::kFloat16, kNan))));
}

TEST(Float16, RoundsSubnormals) {
  EXPECT_EQ(bits_of(DType::kFloat16, 0x1p-14), 0x0400);
  EXPECT_EQ(bits_of(DType::kFloat16, 0x1p-24), 0x0001);
  EXPECT_EQ(bits_of(DType::kFloat16, 0x1p-25), 0x0000);  // a tie, to even
  EXPECT_EQ(bits_of(DType::kFloat16, 0x1p-25 + 0x1p-50), 0x0001);
  EXPECT_EQ(bits_of(DType::kFloat16, 3 * 0x1p-25), 0x0002);
  EXPECT_EQ(bits_of(DType::kFloat16, -0x1p-24), 0x8001);
  EXPECT_EQ(bits_of(DType::kFloat16, 0x1p-14 - 0x1p-26), 0x0400);  // up to the least normal
  EXPECT_EQ(bits_of(DType::kFloat16, 5e-324), 0x0000);
}

TEST(Float16, EveryValueComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = from_bits(DType::kFloat16, static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7fff, 0x7c00u);
      continue;
    }
    EXPECT_EQ(bits_of(DType::kFloat16, value), bits);
  }
}

// Every value between two neighbours must go to the nearer one, and to the even one from the
// middle.
TEST(Float16, NeighboursMeetInTheMiddle) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = from_bits(DType::kFloat16, static_cast<std::uint16_t>(bits));
    const double high = from_bits(DType::kFloat16, static_cast<std::uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    EXPECT_EQ(bits_of(DType::kFloat16, middle), bits + (bits & 1));
    EXPECT_EQ(bits_of(DType::kFloat16, std::nextafter(middle, 0.0)), bits);
    EXPECT_EQ(bits_of(DType::kFloat16, std::nextafter(middle, kInf)), bits + 1);
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bits_of(DType::kBFloat16, 1.0), 0x3f80);
  EXPECT_EQ(bits_of(DType::kBFloat16, 1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(bits_of(DType::kBFloat16, 1 + 3 * 0x1p-8), 0x3f82);
  EXPECT_EQ(bits_of(DType::kBFloat16, 3.4e38), 0x7f80);
  EXPECT_EQ(bits_of(DType::kBFloat16, 0x1p-133), 0x0001);
  EXPECT_EQ(bits_of(DType::kBFloat16, 0x1p-134), 0x0000);
  EXPECT_EQ(bits_of(DType::kBFloat16, -kInf), 0xff80);
  EXPECT_TRUE(std::isnan(from_bits(DType::kBFloat16, bits_of(DType::kBFloat16, kNan))));
}

TEST(BFloat16, NeighboursMeetInTheMiddle) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const double low = from_bits(DType::kBFloat16, static_cast<std::uint16_t>(bits));
    const double high = from_bits(DType::kBFloat16, static_cast<std::uint16_t>(bits + 1));
    const double middle = low / 2 + high / 2;
    EXPECT_EQ(bits_of(DType::kBFloat16, low), bits);
    EXPECT_EQ(bits_of(DType::kBFloat16, middle), bits + (bits & 1));
    EXPECT_EQ(bits_of(DType::kBFloat16, std::nextafter(middle, 0.0)), bits);
  }
}

TEST(Tensor, ConvertsValues) {
  const Tensor ints =
      Tensor::from_doubles(DType::kInt32, {3}, std::vector<double>{1.9, -1.9, kNan});
  EXPECT_THAT(ints.to_ints(), ElementsAre(1, -1, 0));
  const Tensor bools = Tensor::from_doubles(DType::kBool, {3}, std::vector<double>{0, 0.5, -2});
  EXPECT_THAT(bools.to_ints(), ElementsAre(0, 1, 1));
  const Tensor wide =
      Tensor::from_ints(DType::kInt64, {2}, std::vector<std::int64_t>{INT64_MAX, INT64_MIN});
  EXPECT_THAT(wide.to_ints(), ElementsAre(INT64_MAX, INT64_MIN));
  const Tensor narrow = Tensor::from_ints(DType::kInt8, {2}, std::vector<std::int64_t>{257, -129});
  EXPECT_THAT(narrow.to_ints(), ElementsAre(1, 127));
  const Tensor large = Tensor::from_doubles(DType::kUInt64, {1}, std::vector<double>{0x1p63});
  EXPECT_EQ(large.at(0), 0x1p63);
  const Tensor floats = Tensor::from_doubles(DType::kFloat32, {2}, std::vector<double>{0.1, 1e40});
  EXPECT_EQ(floats.at(0), static_cast<double>(0.1f));
  EXPECT_EQ(floats.at(1), kInf);
}

TEST(Tensor, LargeIntegersRoundOnce) {
  // 2^60 + 2^36 + 1 is just above the middle between two float32 neighbours; rounding it to a
  // double first would make it the middle, and the middle goes down.
  const std::int64_t value = (1LL << 60) + (1LL << 36) + 1;
  const Tensor tensor =
      Tensor::from_ints(DType::kFloat32, {2}, std::vector<std::int64_t>{value, -value});
  EXPECT_EQ(tensor.at(0), 0x1p60 + 0x1p37);
  EXPECT_EQ(tensor.at(1), -(0x1p60 + 0x1p37));
}

TEST(Tensor, ChecksItsSize) {
  const auto four = Buffer::take(std::vector<std::byte>(4));
  EXPECT_EQ(Tensor(DType::kFloat32, {1}, four).element_count(), 1);
  EXPECT_THAT(error_of([&] { Tensor(DType::kFloat32, {2}, four); }),
              HasSubstr("f32[2] needs 8 bytes, but has 4"));
  EXPECT_THAT(error_of([&] { Tensor(DType::kFloat32, {-1}, four); }), HasSubstr("negative"));
  EXPECT_THAT(error_of([&] {
                Tensor(DType::kFloat32, {1LL << 40, 1LL << 40}, four);
              }),
              HasSubstr("overflows"));
  EXPECT_EQ(Tensor(DType::kFloat32, {0, 1LL << 62, 8}, nullptr).element_count(), 0);
  EXPECT_THAT(error_of([&] { (void)Tensor(DType::kFloat32, {1}, four).reshaped({2}); }),
              HasSubstr("needs 8 bytes"));
}

TEST(Tensor, ReshapingSharesTheBuffer) {
  const Tensor a =
      Tensor::from_ints(DType::kInt32, {2, 3}, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  const Tensor b = a.reshaped({3, 2});
  EXPECT_EQ(a.buffer(), b.buffer());
  EXPECT_EQ(b.type(), (TensorType{DType::kInt32, {3, 2}}));
  EXPECT_FALSE(a == b);
}

TEST(Tensor, EqualityAndHashAreOfContents) {
  const std::vector<float> values{1, 2, 3};
  const Tensor a = Tensor::of(DType::kFloat32, {3}, values);
  const Tensor b = Tensor::of(DType::kFloat32, {3}, values);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a.hash(), a.reshaped({3, 1}).hash());
  EXPECT_NE(a.hash(), Tensor::of(DType::kInt32, {3}, values).hash());
  EXPECT_NE(a.hash(), Tensor::of(DType::kFloat32, {3}, std::vector<float>{1, 2, 4}).hash());
  EXPECT_FALSE(Tensor::scalar(DType::kFloat32, 0.0) == Tensor::scalar(DType::kFloat32, -0.0));
  EXPECT_EQ(Tensor::scalar(DType::kFloat32, kNan), Tensor::scalar(DType::kFloat32, kNan));
  // Part of cache keys and golden texts, so it must not change between builds and machines.
  EXPECT_EQ(a.hash(), 5968456220865028883ull);
}

TEST(Buffer, BorrowsWithoutCopying) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  const auto buffer = Buffer::borrow(std::as_bytes(std::span(*owner)), owner);
  const Tensor tensor(DType::kFloat32, {2}, buffer);
  EXPECT_EQ(tensor.bytes().data(), reinterpret_cast<const std::byte*>(owner->data()));
  const std::weak_ptr<std::vector<float>> weak = owner;
  owner.reset();
  EXPECT_FALSE(weak.expired());
  EXPECT_EQ(tensor.at(1), 2);
}

TEST(Buffer, OfAMappedFileIsForgottenWhenNobodyHoldsIt) {
  const std::vector<float> values{1, 2};
  int forgotten = 0;
  const Tensor tensor(DType::kFloat32, {2},
                      Buffer::borrow(std::as_bytes(std::span(values)),
                                     std::shared_ptr<const void>(&values, [](const void*) {}),
                                     [&] { ++forgotten; }));
  {
    const HeldBytes held = tensor.hold();
    EXPECT_EQ(held.bytes.data(), tensor.bytes().data());
    EXPECT_EQ(forgotten, 0);
  }
  EXPECT_EQ(forgotten, 1);
  (void)tensor.hash();
  EXPECT_EQ(forgotten, 2);
  (void)tensor.hash();  // is known
  EXPECT_EQ(forgotten, 2);
}

TEST(Buffer, IsMadeWhenItIsReadAndNotKept) {
  const std::vector<float> values{1, 2};
  int made = 0;
  const auto make = [&] {
    ++made;
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const Tensor tensor(DType::kFloat32, {2}, Buffer::derived(8, make));
  EXPECT_EQ(tensor.byte_count(), 8u);
  EXPECT_EQ(made, 0);
  const Tensor stored = Tensor::of(DType::kFloat32, {2}, values);
  EXPECT_EQ(tensor.hash(), stored.hash());
  EXPECT_EQ(tensor, stored);
  EXPECT_EQ(made, 2);
  {
    const HeldBytes held = tensor.hold(), again = tensor.hold();
    EXPECT_EQ(held.bytes.data(), again.bytes.data());
  }
  EXPECT_EQ(made, 3);
  // A view that nobody holds is kept for as long as the buffer lives.
  const auto bytes = tensor.bytes();
  EXPECT_EQ(tensor.at(1), 2);
  EXPECT_EQ(tensor.hold().bytes.data(), bytes.data());
  EXPECT_EQ(made, 4);
}

TEST(Buffer, IsMadeOfAsManyBytesAsItSays) {
  const auto buffer = Buffer::derived(8, [] { return std::vector<std::byte>(4); });
  try {
    (void)buffer->bytes();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("of 8 bytes was made of 4"));
  }
}

TEST(TensorType, Prints) {
  EXPECT_EQ(to_string(TensorType{DType::kBFloat16, {Dim::symbol("batch"), 384}}),
            "bf16[batch, 384]");
}

}  // namespace
}  // namespace sinter::ir
