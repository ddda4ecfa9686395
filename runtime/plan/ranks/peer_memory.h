// SPDX-License-Identifier: Apache-2.0
// The memory through which ranks on GPUs meet; codegen/families/collective/peers.cuh says how they
// use it and has the same layout.
#pragma once

#include <cstdint>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

inline constexpr std::uint32_t kMostPeers = 16, kPeerBlocks = 32;
/// Bytes that a block sends to another rank at once.
inline constexpr std::int64_t kPeerSlotBytes = 32 << 10;
/// Elements, of up to 4 bytes, that a meeting of packets takes.
inline constexpr std::int64_t kMostPackets = 64 << 10;

/// How a rank reaches the others: one buffer for all collectives of a plan.
inline constexpr auto kPeersBuffer = static_cast<fb::BufferKind>(6);

/// What lies there, in each rank's own memory.
struct PeerTable {
  std::uint32_t rank, ranks;
  std::uint32_t number, arrived;
  std::uint32_t failed, unused;
  std::uint64_t patience;          // nanoseconds
  std::uint64_t report;            // address of a word of host memory
  std::uint64_t area[kMostPeers];  // address of each rank's area
  std::uint32_t turns[kPeerBlocks];
};

/// Bytes of a rank's area, which is zero before the first run.
constexpr std::uint64_t peer_area_bytes(std::uint64_t ranks) {
  return kMostPeers * kPeerBlocks * sizeof(std::uint32_t) +
         2 * ranks *
             (std::uint64_t{kPeerBlocks} * kPeerSlotBytes + kMostPackets * sizeof(std::uint64_t));
}
/// What a wait that was given up leaves in `report`: (meeting << 32) + the rank waited for + 1.
struct PeerReport {
  std::uint32_t meeting = 0, rank = 0;
  static PeerReport of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word) - 1};
  }
};

}  // namespace sinter::plan
