// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/peer_links.h"

namespace sinter::codegen {

// Least relative squares over all-reduces of 8 KB, 512 KB and 4 MB. Largest relative errors:
// one-shot 5 %, two-shot 0.4 %, library 14 % (tests/fusion/sharding/peer_links_test.cpp has the
// figures).
const ir::CollectiveRates& peer_links() {
  static const ir::CollectiveRates rates = {.one_shot = {5.93e-6, 0.31e-6, 203e9},
                                            .two_shot = {3.94e-6, 1.04e-6, 291e9},
                                            .library = {9.27e-6, 1.70e-6, 157e9}};
  return rates;
}

ir::CollectiveRates links_of_hosts(std::int64_t devices) {
  // Of a ring between two hosts and more: a library's start, and for each host a turn of both
  // halves.
  constexpr ir::CollectiveRate kNetwork{10e-6, 8e-6, 50e9};
  const std::int64_t hosts = devices / kHostDevices;
  const ir::CollectiveRates& host = peer_links();
  // All parts are linear in the bytes: one byte more costs this of the traffic that is counted.
  const auto traffic = [](std::int64_t ranks) {
    return 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  };
  const double byte = traffic(kHostDevices) / host.two_shot.bandwidth +
                      traffic(hosts) / static_cast<double>(kHostDevices) / kNetwork.bandwidth;
  const ir::CollectiveRate rate{host.two_shot.seconds(kHostDevices, 0) + kNetwork.seconds(hosts, 0),
                                0, traffic(devices) / byte};
  return {rate, rate, rate};
}

// A meeting of threads that spin is two rounds over a cache line of each; operands are read at the
// bandwidth of memory. Not fitted: tools compile without the machine that runs.
const CpuRank& cpu_rank() {
  constexpr ir::CollectiveRate rate{1e-6, 0.5e-6, 1e10};
  static const CpuRank one = {.links = {rate, rate, rate}};
  return one;
}

}  // namespace sinter::codegen
