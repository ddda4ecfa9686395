// SPDX-License-Identifier: Apache-2.0
// Plans of which single bytes are damaged and whose hashes are right.
#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"

namespace sinter::testing {
namespace {

/// Makes the header fit the metadata again, so that the damage reaches the checks behind the hash.
void rehash(Bytes& bytes) {
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  for (auto& section : header.sections)
    section.hash = plan::hash64(std::span(bytes).subspan(section.offset, section.size));
  header.hash =
      plan::hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(plan::FileHeader, hash)));
  std::memcpy(bytes.data(), &header, sizeof header);
}

/// Whatever the metadata says: refused, or accepted and then safe to bind and run.
void check_survives(const Bytes& bytes) {
  try {
    const Plan plan = Plan::from_memory(bytes);
    SessionOptions options;
    options.threads = 1;
    Session session(plan, options);
    const std::vector<char> data(1 << 16, 0);
    for (const BindingInfo& input : plan.inputs()) {
      TensorView view{input.dtype, {}, data.data(), Memory::kHost};
      for (const DimInfo& dim : input.shape)
        view.shape.push_back(std::min<std::int64_t>(dim.max, 3));
      if (view.byte_count() > data.size()) return;
      session.set_input(input.name, view);
    }
    session.run();
  } catch (const Error&) {
  }
}

TEST(PlanMutation, EveryByteOfTheMetadataWithGoodHashes) {
  const Bytes bytes = sample_as_entry();
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto& metadata = header.sections[0];
  for (std::uint64_t i = 0; i < metadata.size; ++i) {
    for (const int mask : {0x01, 0x10, 0xff}) {
      Bytes damaged = bytes;
      damaged[metadata.offset + i] ^= static_cast<std::byte>(mask);
      rehash(damaged);
      check_survives(damaged);
    }
  }
}

TEST(PlanMutation, ManyRandomBytesWithGoodHashes) {
  const Bytes bytes = sample_as_entry();
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto& metadata = header.sections[0];
  std::mt19937 random(42);
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = bytes;
    for (unsigned k = 1 + random() % 6; k > 0; --k)
      damaged[metadata.offset + random() % metadata.size] = static_cast<std::byte>(random());
    rehash(damaged);
    check_survives(damaged);
  }
}

}  // namespace
}  // namespace sinter::testing
