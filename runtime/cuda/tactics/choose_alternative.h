// Which of a step's alternatives is the fastest here, by timing them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "runtime/cuda/bound_step.h"

namespace sinter::runtime {

struct BufferSize {
  std::uint32_t buffer = 0;
  std::uint64_t bytes = 0;
};

/// Binds alternative number `which` on the given addresses. Throws Error(kUnsupported) if it cannot
/// be done here.
using BindAlternative =
    std::function<BoundStep(std::size_t which, const BufferAddresses& addresses)>;

/// The number of the fastest of `count` alternatives for `problem`: the stored one, else found by
/// timing each on the context's stream with cold caches, and stored. The first must be beaten by
/// more than the timer's noise. One that cannot be done is left out; if none can, the error of the
/// last is thrown. The user's own buffers `foreign` are replaced by scratch memory
/// while timing; without memory for it the first is taken.
std::size_t choose_alternative(const LibraryContext& context, const std::string& problem,
                               std::size_t count, const BufferAddresses& addresses,
                               std::span<const BufferSize> foreign, const BindAlternative& bind);

}  // namespace sinter::runtime
