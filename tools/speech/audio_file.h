// SPDX-License-Identifier: Apache-2.0
// Sound from files, as models of speech take it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sinter::tools {

/// Samples a second of all sound here.
constexpr int kSampleRate = 16000;

/// The sound of a WAV, FLAC, Ogg or MP3 file as samples within -1 and 1: the mean of its channels,
/// resampled to kSampleRate. Throws Error(kUsage) naming `path` if it cannot be read, is no such
/// file, is empty or has more than `most_seconds`.
std::vector<float> read_audio(const std::string& path, double most_seconds);

/// The same of the bytes of a file, which errors call `name`.
std::vector<float> decode_audio(std::span<const std::byte> bytes, const std::string& name,
                                double most_seconds);

}  // namespace sinter::tools
