// SPDX-License-Identifier: Apache-2.0
// Persistent cache of choices by timing: libraries' algorithms, tactics, and schedules of generated
// kernels, which the compiler reads. No CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sinter::runtime {

/// A library's description of an algorithm, or a tactic's number: up to 128 words. Empty for a
/// schedule, which is the text in `note`.
using AlgorithmBlob = std::vector<std::uint64_t>;

struct TunedAlgorithm {
  AlgorithmBlob blob;
  double microseconds = 0;
  std::string note;  // human-readable description; printable characters
};

/// One entry of a file.
struct TunedChoice {
  std::string environment, problem;
  TunedAlgorithm algorithm;
};
/// All entries of `file`; empty if it is no tuning file.
std::vector<TunedChoice> read_tuning_file(const std::string& file);

/// The same for a file that the user named: throws Error(kUsage) naming the file and the malformed
/// line.
std::vector<TunedChoice> check_tuning_file(const std::string& file);
/// Merges the entries of `from` into `to`, overwriting equal keys. False if `to` cannot be written.
bool copy_tuning_file(const std::string& from, const std::string& to);

/// Suffix of a plan's path for the file that stores its choices.
inline constexpr const char* kTuningSuffix = ".tuning";

/// Algorithms by problem, for one environment: GPU, driver and library version. A file may contain
/// several environments; entries of others are preserved but not used. One text line per entry,
/// with a checksum. Invalid lines and files are ignored and overwritten. Thread-safe.
class TuningCache {
 public:
  /// The cache for `file` and `environment`, shared by all sessions, so that they agree. As shared
  /// libraries, the runtime and the compiler each have one and share the file. An empty `file`
  /// keeps everything in memory. Never throws for an unreadable file.
  static std::shared_ptr<TuningCache> open(const std::string& file, const std::string& environment);

  std::optional<TunedAlgorithm> find(const std::string& problem) const;
  void store(const std::string& problem, const TunedAlgorithm& algorithm);
  /// Two kinds of entries: chosen from few candidates at first use, or from many (`thorough`). A
  /// lookup of the first kind prefers an entry of the second.
  std::optional<TunedAlgorithm> find(const std::string& problem, bool thorough) const;
  void store(const std::string& problem, const TunedAlgorithm& algorithm, bool thorough);
  /// Writes the file atomically if it has new entries, and preserves entries that other processes
  /// wrote. False if the file cannot be written; the entries then live as long as the process.
  bool save();
  const std::string& file() const { return file_; }

  /// Held while algorithms are timed: concurrent searches would disturb each other and might choose
  /// differently for one problem.
  std::mutex& timing_mutex() { return timing_mutex_; }
  /// Held while a run is bound: sessions that bind the same steps must choose the same algorithms.
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
