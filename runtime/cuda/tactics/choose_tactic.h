// SPDX-License-Identifier: Apache-2.0
// Chooses the fastest of a step's tactics by timing.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "runtime/cuda/launch_list.h"

namespace sinter::runtime {

struct BufferSize {
  std::uint32_t buffer = 0;
  std::uint64_t bytes = 0;
};

/// Binds tactic number `which` to the given addresses. Throws Error(kUnsupported) if it cannot run
/// here.
using BindTactic = std::function<StepLaunches(std::size_t which, const BufferAddresses& addresses)>;

/// Returns the number of the fastest of `count` tactics for `problem`: the stored one, else the
/// result of timing each on the context's stream with cold caches, which is then stored. Another
/// tactic must be faster than the first by more than the timing noise. Skips tactics that cannot
/// run; if none can, throws the last one's error. Scratch memory replaces the user's buffers
/// `foreign` for timing; if it does not fit, the first tactic is chosen.
std::size_t choose_tactic(const LibraryContext& context, const std::string& problem,
                          std::size_t count, const BufferAddresses& addresses,
                          std::span<const BufferSize> foreign, const BindTactic& bind);

}  // namespace sinter::runtime
