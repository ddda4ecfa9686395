// SPDX-License-Identifier: Apache-2.0
// What collectives cost among the devices of one host, for the choice of splits and for estimates.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sinter::ir {

/// Seconds of one algorithm: start + per_rank * ranks + traffic / bandwidth, where the traffic is
/// the bytes that a device moves through its links.
struct CollectiveRate {
  double start = 0, per_rank = 0;  // seconds
  double bandwidth = 1;            // bytes per second

  double seconds(std::int64_t ranks, double traffic) const {
    return start + per_rank * static_cast<double>(ranks) + traffic / bandwidth;
  }
};

/// Kernels over the memory of peers. One-shot: each device reads all others' values. Two-shot: each
/// combines its part of all values, then reads the parts of the others.
struct CollectiveRates {
  CollectiveRate one_shot, two_shot;
  /// A library's (NCCL's), for devices that do not reach each other's memory; in two shots.
  CollectiveRate library;

  /// Bytes of the value as a whole, which each of `ranks` devices has a summand of.
  double all_reduce(std::int64_t ranks, double bytes) const {
    return std::min(one_shot.seconds(ranks, one_shot_traffic(ranks, bytes)),
                    two_shot.seconds(ranks, two_shot_traffic(ranks, bytes)));
  }
  double library_all_reduce(std::int64_t ranks, double bytes) const {
    return library.seconds(ranks, two_shot_traffic(ranks, bytes));
  }
  /// Each device gets the other devices' parts of a value of `bytes`, or of its summands.
  double all_gather(std::int64_t ranks, double bytes) const {
    return one_shot.seconds(ranks, two_shot_traffic(ranks, bytes) / 2);
  }
  double reduce_scatter(std::int64_t ranks, double bytes) const { return all_gather(ranks, bytes); }
  /// Of a value of `bytes`, of which each device has a part.
  double all_to_all(std::int64_t ranks, double bytes) const {
    return all_gather(ranks, bytes / static_cast<double>(ranks));
  }

 private:
  static double one_shot_traffic(std::int64_t ranks, double bytes) {
    return static_cast<double>(ranks - 1) * bytes;
  }
  static double two_shot_traffic(std::int64_t ranks, double bytes) {
    return 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) * bytes;
  }
};

}  // namespace sinter::ir
