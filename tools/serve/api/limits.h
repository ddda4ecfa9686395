// SPDX-License-Identifier: Apache-2.0
// What a request may ask for. README.md has the same table; a refusal says the field and its limit.
#pragma once

#include <cstddef>

namespace sinter::tools {

// Of a completion.
inline constexpr std::size_t kMostPrompts = 128;
inline constexpr int kMostSamples = 128;  // 'n'
inline constexpr int kMostLogprobs = 20;
inline constexpr double kMostTimeout = 86400;  // seconds
inline constexpr std::size_t kMostStops = 64, kMostStopBytes = 1024;
inline constexpr std::size_t kMostBiases = 4096;
// Of a conversation.
inline constexpr std::size_t kMostMessages = 8192, kMostTools = 512;
inline constexpr std::size_t kMostImages = 64, kMostImageFileBytes = std::size_t{20} << 20;
// Of a constraint, in all.
inline constexpr std::size_t kMostConstraintBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMostChoices = 4096;
// Of texts to embed, as OpenAI's, or to rank; of all pairs of a ranking.
inline constexpr std::size_t kMostTexts = 2048;
inline constexpr std::size_t kMostPairBytes = std::size_t{64} << 20;
// Of a name in a message about a request.
inline constexpr std::size_t kMostShownBytes = 100;

}  // namespace sinter::tools
