// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/audio_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include <samplerate.h>
#include <sndfile.h>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

constexpr int kMostChannels = 64, kLeastRate = 1000, kMostRate = 768000;
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

/// Bytes that libsndfile reads as a file.
struct Source {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;

  sf_count_t size() const { return std::ssize(bytes); }
};

sf_count_t size_of_source(void* user) { return static_cast<Source*>(user)->size(); }

sf_count_t seek_source(sf_count_t offset, int whence, void* user) {
  auto& source = *static_cast<Source*>(user);
  // The file determines offsets, so any value is possible.
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.at : source.size();
  if (offset < -from || offset > source.size() - from) return -1;
  return source.at = from + offset;
}

sf_count_t read_source(void* to, sf_count_t count, void* user) {
  auto& source = *static_cast<Source*>(user);
  const sf_count_t read = std::clamp<sf_count_t>(source.size() - source.at, 0, count);
  std::memcpy(to, source.bytes.data() + source.at, static_cast<std::size_t>(read));
  source.at += read;
  return read;
}

sf_count_t write_source(const void* /*from*/, sf_count_t /*count*/, void* /*user*/) { return 0; }

sf_count_t tell_source(void* user) { return static_cast<Source*>(user)->at; }

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

/// Resamples `samples` from `rate` to kSampleRate.
std::vector<float> resampled(std::vector<float> samples, int rate, const std::string& name) {
  if (rate == kSampleRate) return samples;
  SRC_DATA data{};
  data.src_ratio = static_cast<double>(kSampleRate) / rate;
  std::vector<float> result(
      static_cast<std::size_t>(std::ceil(static_cast<double>(samples.size()) * data.src_ratio)));
  data.data_in = samples.data();
  data.input_frames = std::ssize(samples);
  data.data_out = result.data();
  data.output_frames = std::ssize(result);
  if (const int error = src_simple(&data, SRC_SINC_MEDIUM_QUALITY, 1); error != 0)
    throw usage_error("'{}' cannot be resampled: {}", name, src_strerror(error));
  result.resize(static_cast<std::size_t>(data.output_frames_gen));
  return result;
}

}  // namespace

std::vector<float> decode_audio(std::span<const std::byte> bytes, const std::string& name,
                                double most_seconds) {
  Source source{bytes};
  SF_VIRTUAL_IO io{size_of_source, seek_source, read_source, write_source, tell_source};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, CloseFile> file(sf_open_virtual(&io, SFM_READ, &info, &source));
  if (!file)
    throw usage_error("'{}' is no sound that can be read ({}): give a WAV, FLAC, Ogg or MP3 file",
                      name, sf_strerror(nullptr));
  if (info.channels < 1 || info.channels > kMostChannels)
    throw usage_error("'{}' has {} channels, not 1 to {}", name, info.channels, kMostChannels);
  if (info.samplerate < kLeastRate || info.samplerate > kMostRate)
    throw usage_error("'{}' has {} samples a second, not {} to {}", name, info.samplerate,
                      kLeastRate, kMostRate);
  // Counts samples while reading: the header's number may be wrong.
  const auto most = static_cast<std::size_t>(most_seconds * info.samplerate);
  constexpr std::size_t kFrames = 1 << 14;
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> samples, part(kFrames * channels);
  while (true) {
    const auto frames = sf_readf_float(file.get(), part.data(), kFrames);
    if (frames <= 0) break;
    for (std::size_t f = 0; f < static_cast<std::size_t>(frames); ++f) {
      float sum = 0;
      for (std::size_t c = 0; c < channels; ++c) sum += part[f * channels + c];
      samples.push_back(sum / static_cast<float>(channels));
    }
    if (samples.size() > most)
      throw usage_error("'{}' has more than {:g} s of sound: cut it into parts", name,
                        most_seconds);
  }
  if (samples.empty())
    throw usage_error("'{}' has no sound{}{}", name, sf_error(file.get()) != 0 ? ": " : "",
                      sf_error(file.get()) != 0 ? sf_strerror(file.get()) : "");
  if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
    throw usage_error("'{}' has samples that are no numbers", name);
  return resampled(std::move(samples), info.samplerate, name);
}

std::vector<float> read_audio(const std::string& path, double most_seconds) {
  const std::string bytes = files::read_file(path, "sound", kMostBytes);
  return decode_audio(std::as_bytes(std::span(bytes)), path, most_seconds);
}

}  // namespace sinter::tools
