// SPDX-License-Identifier: Apache-2.0
// Sound from files, as models of speech take it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sinter::tools {

/// Sample rate of all sound here, in Hz.
constexpr int kSampleRate = 16000;

/// Decodes a WAV, FLAC, Ogg or MP3 file to samples in [-1, 1]: the mean of its channels, resampled
/// to kSampleRate. Throws Error(kUsage) naming `path` if it is unreadable, of another format, empty
/// or longer than `most_seconds`.
std::vector<float> read_audio(const std::string& path, double most_seconds);

/// The same for a file's bytes; errors call it `name`.
std::vector<float> decode_audio(std::span<const std::byte> bytes, const std::string& name,
                                double most_seconds);

}  // namespace sinter::tools
