// SPDX-License-Identifier: Apache-2.0
// The file format: round trips, and every way of being wrong that a hash can see.
#include "runtime/plan/plan_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_builder.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// One of everything that a CPU plan can hold.
PlanBuilder sample() {
  PlanBuilder b;
  const Id batch = b.symbol("batch", 1, 64);
  const Id four = b.constant(4), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {batch, four});
  const Id y = b.output("y", DType::kFloat32, {batch, four});
  const Id w = b.weight(DType::kFloat32, std::vector<float>(16, 0.5f));
  const Id bias = b.weight(DType::kFloat32, std::vector<float>(4, 2.0f));
  const Id t = b.arena(DType::kFloat32, {batch, four});
  fb::MatmulStepT matmul;
  matmul.m = batch;
  matmul.n = matmul.k = four;
  matmul.a = b.matrix(x, four, one);
  matmul.b = b.matrix(w, four, one);
  matmul.d = b.matrix(t, four, one);
  matmul.bias = static_cast<int>(bias);
  b.matmul("product", std::move(matmul));
  LoopBuilder loop({batch, four}, 1);
  const Id value = loop.load(loop.access(t, zero, {four, one}));
  const Id sum = loop.reduce(Combine::kSum, value);
  loop.store(loop.access(y, zero, {four, one}), loop.op(ScalarOp::kSub, {value, sum}));
  b.loop("center", std::move(loop));
  b.meta.graph_text = "graph";
  b.meta.manifest = std::make_unique<fb::ManifestT>();
  b.meta.manifest->model_name = "sample";
  return b;
}

std::string message_of(const Bytes& bytes) {
  try {
    plan::parse_plan(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

plan::FileHeader header_of(const Bytes& bytes) {
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  return header;
}

void put_header(Bytes& bytes, plan::FileHeader header, bool rehash = true) {
  if (rehash)
    header.hash =
        plan::hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(plan::FileHeader, hash)));
  std::memcpy(bytes.data(), &header, sizeof header);
}

TEST(PlanFile, RoundTrips) {
  PlanBuilder builder = sample();
  const Bytes bytes = builder.bytes();
  const auto plan = plan::parse_plan(bytes);
  EXPECT_EQ(plan->meta.steps.size(), 2u);
  EXPECT_EQ(plan->meta.manifest->model_name, "sample");
  const auto weight = plan->weight(*plan->meta.buffers[2], 64);
  float first = 0;
  std::memcpy(&first, weight.data(), sizeof first);
  EXPECT_EQ(first, 0.5f);
  // Writing what was read gives the same bytes.
  plan::PlanParts parts;
  parts.meta = plan->meta;
  parts.weights = {{0, plan->weights, plan}};
  EXPECT_EQ(plan::serialize_plan(parts), bytes);
}

TEST(PlanFile, FileEqualsMemory) {
  const std::string path = ::testing::TempDir() + "plan_file_equals_memory.plan";
  PlanBuilder builder = sample();
  plan::write_plan(builder.parts(), path);
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Bytes bytes = builder.bytes();
  ASSERT_EQ(text.size(), bytes.size());
  EXPECT_EQ(std::memcmp(text.data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(plan::read_plan(path)->meta.steps.size(), 2u);
  std::remove(path.c_str());
}

TEST(PlanFile, HasItsNameOnceItIsCommitted) {
  const std::string path = ::testing::TempDir() + "plan_file_committed.plan";
  std::ofstream(path) << "old";
  PlanBuilder builder = sample();
  {
    plan::PlanFile one(builder.parts(), path), other(builder.parts(), path);
    EXPECT_NE(one.readable_path(), other.readable_path());
    EXPECT_EQ(std::filesystem::file_size(path), 3u);
    EXPECT_EQ(plan::read_plan(one.readable_path())->meta.steps.size(), 2u);
    other.commit();
    EXPECT_EQ(plan::read_plan(path)->meta.steps.size(), 2u);
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::remove(path.c_str());
}

TEST(PlanFile, SectionsAreAligned) {
  PlanBuilder builder = sample();
  const plan::FileHeader header = header_of(builder.bytes());
  for (const auto& section : header.sections) EXPECT_EQ(section.offset % 4096, 0u);
}

TEST(PlanFile, MissingFileIsUsage) {
  try {
    plan::read_plan("/nonexistent/file.plan");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/file.plan"));
  }
}

TEST(PlanFile, FolderIsUsage) {
  try {
    plan::read_plan(::testing::TempDir());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("not a regular file"));
  }
}

TEST(PlanFile, UnwritablePathIsUsage) {
  PlanBuilder builder = sample();
  try {
    plan::write_plan(builder.parts(), "/nonexistent/file.plan");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("cannot write"));
  }
}

TEST(PlanFile, TruncatedAnywhereIsRefused) {
  PlanBuilder builder = sample();
  const Bytes bytes = builder.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string message =
        message_of({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    ASSERT_THAT(message, size < 8 ? HasSubstr("not a Sinter plan") : HasSubstr("truncated"))
        << size;
  }
}

TEST(PlanFile, LongerIsRefused) {
  PlanBuilder builder = sample();
  Bytes bytes = builder.bytes();
  bytes.push_back(std::byte{0});
  EXPECT_THAT(message_of(bytes), HasSubstr("longer than it should be"));
}

TEST(PlanFile, AnyFlippedByteIsRefused) {
  PlanBuilder builder = sample();
  Bytes bytes = builder.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      const std::byte old = bytes[i];
      bytes[i] ^= static_cast<std::byte>(mask);
      ASSERT_NE(message_of(bytes), "accepted") << "byte " << i << " mask " << mask;
      bytes[i] = old;
    }
  }
}

TEST(PlanFile, ForeignMagic) {
  EXPECT_THAT(message_of(Bytes(4096, std::byte{'x'})), HasSubstr("not a Sinter plan"));
  EXPECT_THAT(message_of({}), HasSubstr("not a Sinter plan"));
}

TEST(PlanFile, SectionsMayNotOverlapOrLeaveTheFile) {
  PlanBuilder builder = sample();
  const Bytes good = builder.bytes();
  for (int section = 0; section < plan::kSectionCount; ++section) {
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{12288}, UINT64_MAX}) {
      Bytes bytes = good;
      plan::FileHeader header = header_of(bytes);
      if (header.sections[section].offset == offset) continue;
      header.sections[section].offset = offset;
      put_header(bytes, header);
      EXPECT_THAT(message_of(bytes), HasSubstr("section lies at")) << section << " " << offset;
    }
    for (const std::uint64_t size : {std::uint64_t{1} << 40, UINT64_MAX}) {
      Bytes bytes = good;
      plan::FileHeader header = header_of(bytes);
      header.sections[section].size = size;
      put_header(bytes, header);
      EXPECT_THAT(message_of(bytes), HasSubstr("section lies at")) << section << " " << size;
    }
  }
}

/// Weights are as large as memory: each is there only while it is written.
TEST(PlanFile, ReadsPiecesOnceAndOneAtATime) {
  PlanBuilder builder = sample();
  plan::PlanParts parts = builder.parts();
  int reads = 0, alive = 0, most = 0;
  for (auto& piece : parts.weights)
    piece.read = [&, before = piece.read] {
      ++reads;
      most = std::max(most, ++alive);
      return plan::PieceBytes{before().bytes,
                              std::shared_ptr<const void>(&alive, [&](const void*) { --alive; })};
    };
  const std::string path = ::testing::TempDir() + "plan_file_pieces.plan";
  plan::write_plan(parts, path);
  EXPECT_EQ(reads, static_cast<int>(parts.weights.size()));
  EXPECT_EQ(most, 1);
  EXPECT_EQ(alive, 0);
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Bytes bytes = builder.bytes();
  EXPECT_EQ(text, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::remove(path.c_str());
  parts.weights[0].size += 4;
  EXPECT_THROW(plan::serialize_plan(parts), Error);
}

TEST(PlanFile, OverlappingPiecesAreADefectOfTheCompiler) {
  PlanBuilder builder = sample();
  plan::PlanParts parts = builder.parts();
  parts.weights[1].offset = 8;
  EXPECT_THROW(plan::serialize_plan(parts), Error);
}

}  // namespace
}  // namespace sinter::testing
