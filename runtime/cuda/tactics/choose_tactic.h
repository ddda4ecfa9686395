// SPDX-License-Identifier: Apache-2.0
// Which of a step's tactics is the fastest here, by timing them.
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

/// Binds tactic number `which` on the given addresses. Throws Error(kUnsupported) if it cannot
/// be done here.
using BindTactic = std::function<StepLaunches(std::size_t which, const BufferAddresses& addresses)>;

/// The number of the fastest of `count` tactics for `problem`: the stored one, else found by
/// timing each on the context's stream with cold caches, and stored. The first must be beaten by
/// more than the timer's noise. One that cannot be done is left out; if none can, the error of the
/// last is thrown. The user's own buffers `foreign` are replaced by scratch memory
/// while timing; without memory for it the first is taken.
std::size_t choose_tactic(const LibraryContext& context, const std::string& problem,
                          std::size_t count, const BufferAddresses& addresses,
                          std::span<const BufferSize> foreign, const BindTactic& bind);

}  // namespace sinter::runtime
