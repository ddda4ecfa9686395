// SPDX-License-Identifier: Apache-2.0
// What was chosen by timing it, kept between runs: libraries' algorithms, ways to do a step, and
// schedules of generated kernels, which the compiler reads. No CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sinter::runtime {

/// A library's description of an algorithm, or the number of an tactic: up to 128 words. None
/// for a schedule, which is text: the note.
using AlgorithmBlob = std::vector<std::uint64_t>;

struct TunedAlgorithm {
  AlgorithmBlob blob;
  double microseconds = 0;
  std::string note;  // what it is, for people; printable characters
};

/// One choice as a file keeps it.
struct TunedChoice {
  std::string environment, problem;
  TunedAlgorithm algorithm;
};
/// All that `file` keeps, by environment and problem; empty if it is no tuning file.
std::vector<TunedChoice> read_tuning_file(const std::string& file);

/// The same from a file that a user named: throws Error(kUsage) naming the file, and the line that
/// is malformed.
std::vector<TunedChoice> check_tuning_file(const std::string& file);
/// Adds all entries of `from` to `to`, where they win. False if `to` cannot be written.
bool copy_tuning_file(const std::string& from, const std::string& to);

/// Behind a plan's path: the file that keeps its choices.
inline constexpr const char* kTuningSuffix = ".tuning";

/// Algorithms by problem, for one environment: GPU, driver and library version. A file may hold
/// those of several; entries of others are kept but never used. One text line an entry, with a
/// checksum; a line that does not check, and a file that is no tuning file, are ignored and written
/// anew. All methods may be called from any thread.
class TuningCache {
 public:
  /// The cache for `file` and `environment`, one for all sessions, so that they agree. The runtime
  /// and the compiler, as shared libraries, have one each and meet in the file. An empty `file`
  /// keeps everything in memory. Never throws for a file that cannot be read.
  static std::shared_ptr<TuningCache> open(const std::string& file, const std::string& environment);

  std::optional<TunedAlgorithm> find(const std::string& problem) const;
  void store(const std::string& problem, const TunedAlgorithm& algorithm);
  /// The same with two entries: chosen among few candidates at first use, or among many
  /// (`thorough`). A lookup of the first takes the second if there is one.
  std::optional<TunedAlgorithm> find(const std::string& problem, bool thorough) const;
  void store(const std::string& problem, const TunedAlgorithm& algorithm, bool thorough);
  /// Writes the file if something was stored since, keeping what other processes wrote meanwhile;
  /// it is there at once or not at all. False if the file cannot be written: what was chosen
  /// then lives as long as the process.
  bool save();
  const std::string& file() const { return file_; }

  /// Held while algorithms are timed: two searches at once would disturb each other and might
  /// choose differently for one problem.
  std::mutex& timing_mutex() { return timing_mutex_; }
  /// Held while a run is bound: sessions that bind the same steps must not choose differently.
  std::mutex& binding_mutex() { return binding_mutex_; }

 private:
  TuningCache(std::string file, std::string environment);
  // by environment and problem
  using Entries = std::map<std::pair<std::string, std::string>, TunedAlgorithm>;
  static Entries read(const std::string& file);
  static bool write(const std::string& file, const Entries& entries);
  friend std::vector<TunedChoice> read_tuning_file(const std::string& file);
  friend std::vector<TunedChoice> check_tuning_file(const std::string& file);
  friend bool copy_tuning_file(const std::string& from, const std::string& to);

  std::string file_, environment_;
  mutable std::mutex mutex_;
  std::mutex timing_mutex_, binding_mutex_;
  Entries entries_;
  bool dirty_ = false;
};

}  // namespace sinter::runtime
