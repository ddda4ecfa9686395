// SPDX-License-Identifier: Apache-2.0
// Tensors in and out through DLPack's structures.
#include <cstddef>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/dlpack.h>
#include <sinter/profile.h>

#include "api_plans.h"

namespace sinter::testing {
namespace {

using dlpack::DeviceType;
using dlpack::TypeCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// DLPack's ABI on machines of 64 bits.
static_assert(sizeof(dlpack::Tensor) == 48 && offsetof(dlpack::Tensor, device) == 8 &&
              offsetof(dlpack::Tensor, ndim) == 16 && offsetof(dlpack::Tensor, dtype) == 20 &&
              offsetof(dlpack::Tensor, shape) == 24 && offsetof(dlpack::Tensor, strides) == 32 &&
              offsetof(dlpack::Tensor, byte_offset) == 40);
static_assert(sizeof(dlpack::ManagedTensor) == 64 &&
              offsetof(dlpack::ManagedTensor, manager) == 48 &&
              offsetof(dlpack::ManagedTensor, deleter) == 56);
static_assert(sizeof(dlpack::VersionedTensor) == 80 &&
              offsetof(dlpack::VersionedTensor, manager) == 8 &&
              offsetof(dlpack::VersionedTensor, deleter) == 16 &&
              offsetof(dlpack::VersionedTensor, flags) == 24 &&
              offsetof(dlpack::VersionedTensor, tensor) == 32);
static_assert(sizeof(dlpack::DataType) == 4 && sizeof(dlpack::Device) == 8);

Session doubled() {
  Session session(doubling().build(), on_one_thread());
  session.set_input("x", {3}, std::vector<float>{1, 2, 3});
  session.run();
  return session;
}

TEST(Dlpack, OutputsAreLent) {
  Session session = doubled();
  dlpack::VersionedTensor* lent = to_dlpack(session, 0);
  EXPECT_EQ(lent->major, 1u);
  EXPECT_EQ(lent->flags, 0u);
  const dlpack::Tensor& tensor = lent->tensor;
  EXPECT_EQ(tensor.data, session.output(0).data);
  EXPECT_EQ(tensor.device.type, DeviceType::kCpu);
  EXPECT_EQ(tensor.ndim, 1);
  EXPECT_EQ(tensor.shape[0], 3);
  EXPECT_EQ(tensor.strides[0], 1);
  EXPECT_EQ(tensor.dtype.code, TypeCode::kFloat);
  EXPECT_EQ(tensor.dtype.bits, 32);
  EXPECT_THAT(from_dlpack(tensor).as<float>(), ElementsAre(2, 4, 6));
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { session.run(); }, [&] { session.run_async(); },
           [&] {
             session.warm_up({{"x", {9}}});
           },
           [&] { session.reset_state(); }, [&] { time_compute(session, false); },
           [&] { profile_steps(session); }})
    EXPECT_THAT(usage_of(call), AllOf(HasSubstr("1 of the session's outputs is lent out"),
                                      HasSubstr("set_output")));
  EXPECT_THAT(from_dlpack(tensor).as<float>(), ElementsAre(2, 4, 6));
  std::thread([&] { lent->deleter(lent); }).join();
  session.run();
}

TEST(Dlpack, MemoryOfTheCallersIsTheirsToGuard) {
  Session session = doubled();
  std::vector<float> mine(3);
  session.set_output(0, MutableTensorView::of({3}, mine));
  session.run();
  dlpack::VersionedTensor* lent = to_dlpack(session, 0);
  EXPECT_EQ(lent->tensor.data, mine.data());
  session.run();
  lent->deleter(lent);
}

TEST(Dlpack, ALoanOutlivesItsSession) {
  dlpack::ManagedTensor* lent = nullptr;
  {
    Session session = doubled();
    lent = to_dlpack_unversioned(session, 0);
  }
  EXPECT_THAT(from_dlpack(lent->tensor).as<float>(), ElementsAre(2, 4, 6));
  lent->deleter(lent);
}

TEST(Dlpack, StatesAreLentToBeRead) {
  Session session(summing().build(), on_one_thread());
  session.set_input("x", {2}, std::vector<float>{1, 2});
  session.run();
  dlpack::VersionedTensor* lent = to_dlpack(session, session.plan().output_index("sum_next"));
  EXPECT_EQ(lent->flags, dlpack::kReadOnly);
  EXPECT_THAT(usage_of([&] {
                session.set_input("sum", {2}, std::vector<float>{0, 0});
              }),
              HasSubstr("lent out"));
  lent->deleter(lent);
  session.set_input("sum", {2}, std::vector<float>{0, 0});
}

TEST(Dlpack, BeforeARunThereIsNothingToLend) {
  Session session(doubling().build(), on_one_thread());
  EXPECT_THAT(usage_of([&] { to_dlpack(session, 0); }), HasSubstr("before a run"));
  EXPECT_THAT(usage_of([&] { to_dlpack(session, 1); }), HasSubstr("there is no output 1"));
}

struct Given {
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  dlpack::Tensor tensor;

  Given() {
    tensor.data = values;
    tensor.ndim = 2;
    tensor.shape = shape.data();
    tensor.strides = strides.data();
  }
};

TEST(Dlpack, TensorsBecomeViews) {
  Given given;
  TensorView view = from_dlpack(given.tensor);
  EXPECT_THAT(view.shape, ElementsAre(2, 3));
  EXPECT_EQ(view.data, given.values);
  EXPECT_EQ(view.memory, Memory::kHost);
  given.tensor.byte_offset = 4;
  given.tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(given.tensor).as<float>()[0], 1);
  mutable_from_dlpack(given.tensor).as<float>()[0] = 9;
  EXPECT_EQ(given.values[1], 9);
  given.tensor.device = {DeviceType::kCuda, 3};
  view = from_dlpack(given.tensor);
  EXPECT_EQ(view.memory, Memory::kDevice);
  EXPECT_EQ(view.device, 3);
  // The stride along one element, and all of them if there is none, says nothing.
  given.tensor.device = {};
  given.shape = {1, 3};
  given.strides = {77, 1};
  given.tensor.strides = given.strides.data();
  EXPECT_EQ(from_dlpack(given.tensor).element_count(), 3);
  given.shape = {0, 3};
  given.strides = {5, 5};
  EXPECT_EQ(from_dlpack(given.tensor).element_count(), 0);
}

TEST(Dlpack, AllTypesThereAndBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    PlanBuilder p;
    const Id n = p.symbol("n");
    const Id x = p.input("x", type, {n}), y = p.output("y", type, {n});
    p.copy("copy", x, y, p.mul(n, p.constant(static_cast<std::int64_t>(size_of(type)))));
    Session session(p.build(), on_one_thread());
    const std::vector<std::byte> zeros(2 * size_of(type));
    session.set_input(0, {2}, zeros, type);
    session.run();
    dlpack::VersionedTensor* lent = to_dlpack(session, 0);
    EXPECT_EQ(from_dlpack(lent->tensor).dtype, type);
    lent->deleter(lent);
  }
}

TEST(Dlpack, WhatIsNoTensorOfOursIsRefusedByName) {
  {
    Given given;
    given.strides = {1, 2};
    EXPECT_THAT(
        usage_of([&] { from_dlpack(given.tensor); }),
        AllOf(HasSubstr("of shape [2, 3] has the strides [1, 2]"), HasSubstr("contiguous")));
  }
  {
    Given given;
    given.tensor.dtype = {TypeCode::kFloat, 32, 4};
    EXPECT_THAT(usage_of([&] { from_dlpack(given.tensor); }), HasSubstr("32 bits and 4 lanes"));
    given.tensor.dtype = {static_cast<TypeCode>(5), 64, 1};
    EXPECT_THAT(usage_of([&] { from_dlpack(given.tensor); }), HasSubstr("type code 5"));
  }
  {
    Given given;
    given.tensor.device = {static_cast<DeviceType>(8), 0};
    EXPECT_THAT(usage_of([&] { from_dlpack(given.tensor); }), HasSubstr("device of type 8"));
  }
  {
    Given given;
    given.tensor.ndim = -1;
    EXPECT_THAT(usage_of([&] { from_dlpack(given.tensor); }), HasSubstr("-1 dimensions"));
  }
}

}  // namespace
}  // namespace sinter::testing
