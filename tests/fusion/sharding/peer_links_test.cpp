// SPDX-License-Identifier: Apache-2.0
// Costs of collectives against figures of 4 H200s (NVLink, CUDA graphs, torch 2.11, NCCL without
// multicast): microseconds of an all-reduce.
#include "codegen/targets/peer_links.h"

#include <gtest/gtest.h>

namespace sinter::fusion::test {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kMicro = 1e6;

struct Figure {
  std::int64_t ranks;
  double bytes, microseconds;
};
constexpr Figure kKernels[] = {{2, 8 * kKiB, 6.4},    {4, 8 * kKiB, 7.4},  {2, 512 * kKiB, 7.8},
                               {4, 512 * kKiB, 10.8}, {2, 4 * kMiB, 20.5}, {4, 4 * kMiB, 29.6}};
constexpr Figure kLibrary[] = {{2, 8 * kKiB, 12.2},   {4, 8 * kKiB, 15.2}, {2, 512 * kKiB, 16.6},
                               {4, 512 * kKiB, 24.6}, {2, 4 * kMiB, 41.7}, {4, 4 * kMiB, 51.5}};

TEST(PeerLinks, KernelsCostWhatWasMeasured) {
  for (const Figure& figure : kKernels) {
    const double found = codegen::peer_links().all_reduce(figure.ranks, figure.bytes) * kMicro;
    EXPECT_NEAR(found, figure.microseconds, 0.15 * figure.microseconds)
        << figure.ranks << " ranks, " << figure.bytes << " bytes";
  }
  const auto& links = codegen::peer_links();
  EXPECT_NEAR(links.one_shot.seconds(4, 3 * 512 * kKiB) * kMicro, 14.6, 0.05 * 14.6);
}

TEST(PeerLinks, TheLibraryCostsWhatWasMeasured) {
  for (const Figure& figure : kLibrary)
    EXPECT_NEAR(codegen::peer_links().library_all_reduce(figure.ranks, figure.bytes) * kMicro,
                figure.microseconds, 0.15 * figure.microseconds);
}

/// Beyond one host: what its devices do alone, what the network adds, and nothing else.
TEST(PeerLinks, HostsAddTheNetwork) {
  const ir::CollectiveRates& host = codegen::peer_links();
  for (const std::int64_t hosts : {2, 4, 8}) {
    const ir::CollectiveRates links = codegen::links_of_hosts(8 * hosts);
    for (const double bytes : {8 * kKiB, 512 * kKiB, 64 * kMiB}) {
      const double found = links.all_reduce(8 * hosts, bytes);
      const double inside = host.two_shot.seconds(8, 2 * 7 / 8.0 * bytes);
      const auto count = static_cast<double>(hosts);
      const double between = 10e-6 + 8e-6 * count + 2 * (count - 1) / count * (bytes / 8) / 50e9;
      EXPECT_NEAR(found, inside + between, 1e-9 * found) << hosts << " hosts, " << bytes;
      EXPECT_GT(found, host.all_reduce(8, bytes));
    }
  }
}

/// What the choice of splits relies on.
TEST(PeerLinks, CostsAreInOrder) {
  const auto& links = codegen::peer_links();
  for (const std::int64_t ranks : {2, 4, 8})
    for (const double bytes : {1e3, 1e5, 1e7, 1e9}) {
      EXPECT_LT(links.all_gather(ranks, bytes), links.all_reduce(ranks, bytes) * 1.5);
      EXPECT_LE(links.all_to_all(ranks, bytes), links.all_gather(ranks, bytes));
      EXPECT_LT(links.all_reduce(ranks, bytes), links.library_all_reduce(ranks, bytes));
      EXPECT_LT(links.all_reduce(ranks, bytes), links.all_reduce(ranks, 2 * bytes));
    }
}

}  // namespace
}  // namespace sinter::fusion::test
