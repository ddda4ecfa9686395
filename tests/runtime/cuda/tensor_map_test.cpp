// SPDX-License-Identifier: Apache-2.0
// Kernels that get tensor maps, over the fake driver: what is encoded, for whom, and what is
// refused.
#include "cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

class TensorMapTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    // Copies what the map shows, which begins with its address, rank and extents.
    fake().kernels["mapped"] = {4, [this](const CUlaunchConfig&, const auto& v) {
                                  seen = v[3];
                                  for (std::uint64_t i = 0; i < v[2]; ++i)
                                    reinterpret_cast<float*>(v[1])[i] =
                                        reinterpret_cast<const float*>(v[3])[i];
                                }};
  }

  /// y[n] = x[n, width] read through a map of x from `offset` on.
  CudaPlanBuilder builder(std::int64_t width = 32, std::int64_t offset = 0) {
    CudaPlanBuilder made;
    const Id n = made.symbol("n");
    const Id columns = made.constant(width), one = made.constant(1);
    const Id x = made.input("x", DType::kFloat32, {n, columns});
    const Id y = made.output("y", DType::kFloat32, {n});
    fb::KernelStepT work;
    work.variants.push_back(CudaPlanBuilder::variant("mapped", one, {}, one));
    auto map = std::make_unique<fb::TensorMapT>();
    map->buffer = x;
    map->offset = made.constant(offset);
    map->extents = {columns, n};
    map->strides = {columns};
    map->box = {32, 8};
    work.variants[0]->maps.push_back(std::move(map));
    work.variants.push_back(CudaPlanBuilder::variant("add_one", one, {}, one));
    made.kernel("step", std::move(work), {x}, {y}, {{fb::ArgKind::Int64, n}});
    return made;
  }
  /// The same through windows of the n pixels of one image.
  CudaPlanBuilder windows() {
    CudaPlanBuilder made = builder();
    fb::TensorMapT& map = map_of(made);
    map.extents.push_back(made.constant(1));
    map.strides.push_back(made.constant(32));
    map.lower = {-1}, map.upper = {1}, map.steps = {2};
    return made;
  }
  static fb::TensorMapT& map_of(CudaPlanBuilder& made) {
    return *made.meta.steps[0]->work.AsKernelStep()->variants[0]->maps[0];
  }
  static std::string refusal(CudaPlanBuilder& made) {
    return error_of([&] { made.data(); }).what();
  }

  std::uint64_t seen = 0;
};

TEST_F(TensorMapTest, IsAParameterBehindTheArguments) {
  open(builder().data());
  std::vector<float> values(2 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  set_input(0, values, {2, 32});
  run({2});
  EXPECT_THAT(output(), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(fake().launched, ::testing::Contains("mapped"));
  EXPECT_NE(seen, 0u);
}

TEST_F(TensorMapTest, WindowsHaveBoundsAndSteps) {
  auto made = windows();
  open(made.data());
  set_input(0, std::vector<float>(3 * 32), {3, 32});
  run({3});
  EXPECT_EQ(fake().calls["cuTensorMapEncodeTiled"], 0);
  ASSERT_EQ(fake().window_bounds.size(), 1U);
  EXPECT_THAT(fake().window_bounds[0], ::testing::ElementsAre(-1, 1, 2));
}

TEST_F(TensorMapTest, PlansWithImpossibleWindowsAreRefused) {
  auto bounds = windows();
  map_of(bounds).upper.clear();
  EXPECT_THAT(refusal(bounds), HasSubstr("whose windows have 1, 0 and 1 bounds"));
  auto far = windows();
  map_of(far).lower = {-40000};
  EXPECT_THAT(refusal(far), HasSubstr("windows go from -40000 to 1"));
  auto steps = windows();
  map_of(steps).steps = {9};
  EXPECT_THAT(refusal(steps), HasSubstr("in steps of 9"));
  auto box = windows();
  map_of(box).box = {32, 8, 1};
  EXPECT_THAT(refusal(box), HasSubstr("a box of 3 sizes"));
  auto boxes = builder();
  map_of(boxes).steps = {1};
  EXPECT_THAT(refusal(boxes), HasSubstr("whose windows have 0, 0 and 1 bounds"));
}

TEST_F(TensorMapTest, GpusWithoutACopyEngineTakeTheNextVariant) {
  fake().major = 8;
  auto made = builder();
  made.meta.architectures = {"sm_80"};
  made.meta.modules[0]->target = "sm_80";
  open(made.data());
  set_input(0, std::vector<float>(32, 1.5f), {1, 32});
  run({1});
  EXPECT_THAT(output(), ::testing::ElementsAre(2.5f));
  EXPECT_EQ(fake().calls["cuTensorMapEncodeTiled"], 0);
}

TEST_F(TensorMapTest, SizesThatTheCopyEngineDoesNotTakeAreRefused) {
  open(builder(33).data());
  set_input(0, std::vector<float>(33), {1, 33});
  const Error stride = error_of([&] { run({1}); });
  EXPECT_EQ(stride.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(stride.what(), HasSubstr("stride in bytes is 132"));
}

TEST_F(TensorMapTest, MapsThatLeaveTheirBufferAreRefused) {
  open(builder(32, 4).data());
  EXPECT_THAT(error_of([&] { bound({2}); }).what(), HasSubstr("a tensor map reaches element 67"));
}

TEST_F(TensorMapTest, PlansWithImpossibleMapsAreRefused) {
  auto box = builder();
  map_of(box).box = {16, 8};
  EXPECT_THAT(refusal(box), HasSubstr("rows of 64 bytes instead of 128"));
  auto large = builder();
  map_of(large).box = {32, 257};
  EXPECT_THAT(refusal(large), HasSubstr("whose box is 257 long"));
  auto rank = builder();
  map_of(rank).strides.clear();
  EXPECT_THAT(refusal(rank), HasSubstr("2 extents, 0 strides"));
  auto buffer = builder();
  map_of(buffer).buffer = 99;
  EXPECT_THAT(refusal(buffer), HasSubstr("a tensor map's buffer is 99"));
}

}  // namespace
}  // namespace sinter::testing
