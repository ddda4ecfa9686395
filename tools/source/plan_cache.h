// SPDX-License-Identifier: Apache-2.0
// Plans that were compiled on first use, by a key of everything that decides about them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/files/descriptor.h"

namespace sinter::tools {

/// Where plans are kept, as the command line or the environment says.
struct PlanCacheOptions {
  /// Empty: $SINTER_PLAN_CACHE, else `plans` in the folder of the kernel cache. "off": nowhere.
  std::string folder;
  /// Most bytes of all entries; 0: $SINTER_PLAN_CACHE_SIZE, else 20 GiB.
  std::uint64_t most_bytes = 0;
};

/// One folder for each key. Entries appear by a rename, so that processes share the cache; an entry
/// in use is locked and stays. Nobody but the user may own or write the folder: plans have code.
class PlanCache {
 public:
  static constexpr const char* kPlan = "model.plan";

  /// A folder with kPlan, and whatever else was written into it. Locked while this lives.
  struct Entry {
    std::string folder;
    files::Descriptor lock;
    std::string plan() const { return folder + "/" + kPlan; }
  };

  explicit PlanCache(const PlanCacheOptions& options);

  /// Why nothing is kept: "it is off", or what is wrong with the folder; empty: plans are kept.
  const std::string& problem() const { return problem_; }
  const std::string& folder() const { return folder_; }
  /// Folder of FileHashes; empty if nothing is kept.
  std::string hashes() const { return problem_.empty() ? folder_ + "/hashes" : ""; }

  std::optional<Entry> find(const std::string& key) const;
  /// The entry of `key`, else what `write` puts into the folder that it is given; it returns the
  /// key under which that is kept. A second process waits for the first. Then removes the entries
  /// that were not used for longest, beyond the limit.
  Entry get(const std::string& key,
            const std::function<std::string(const std::string& folder)>& write,
            const std::function<void(std::string_view)>& note) const;
  /// Removes a damaged entry.
  void discard(const std::string& key) const;

  /// A text of a key, such as the names of a model's files of external data; empty: there is none.
  std::string read_note(const std::string& key) const;
  void write_note(const std::string& key, const std::string& text) const;

 private:
  void evict(const std::string& kept) const;

  std::string folder_, problem_;
  std::uint64_t most_bytes_ = 0;
};

}  // namespace sinter::tools
